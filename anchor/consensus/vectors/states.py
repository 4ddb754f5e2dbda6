"""Checks of the state transition: a state before, what happens to it, the state after or none.

Formats: tests/formats/{operations,epoch_processing,sanity,finality,random,rewards,genesis}.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, Final, NamedTuple

from anchor.consensus.vectors.cases import Case
from anchor.consensus.vectors.compare import Difference, compare
from anchor.consensus.vectors.rules import get_rules
from anchor.errors import Invalid, Malformed
from anchor.merkle.container import Container
from anchor.types import Limit, uint64

Rules = Any
"""A fork's rules, an object of `anchor.consensus.forks`."""
State = Any
"""A fork's BeaconState."""


class Operation(NamedTuple):
    """How an operation is given and applied."""

    record: str
    """The record that the case holds."""
    file: str = ""
    """Its file; the handler's name when empty."""
    method: str = ""
    """The method of the rules; `process_<handler>` when empty."""


OPERATIONS: Final = {
    "attestation": Operation("Attestation"),
    "attester_slashing": Operation("AttesterSlashing"),
    "block_header": Operation("BeaconBlock", "block"),
    "bls_to_execution_change": Operation("SignedBLSToExecutionChange", "address_change"),
    "builder_deposit_request": Operation("BuilderDepositRequest"),
    "builder_exit_request": Operation("BuilderExitRequest"),
    "consolidation_request": Operation("ConsolidationRequest"),
    "deposit": Operation("Deposit"),
    "deposit_request": Operation("DepositRequest"),
    "entry": Operation("SignedEntry"),
    "execution_payload": Operation("BeaconBlockBody", "body"),
    "execution_payload_bid": Operation("SignedExecutionPayloadBid"),
    "parent_execution_payload": Operation("BeaconBlock", "block"),
    "payload_attestation": Operation("PayloadAttestation"),
    "proposer_slashing": Operation("ProposerSlashing"),
    "sync_aggregate": Operation("SyncAggregate"),
    "voluntary_exit": Operation("SignedVoluntaryExit"),
    "voluntary_exit_churn": Operation("SignedVoluntaryExit", "voluntary_exit", "process_voluntary_exit"),
    "withdrawal_request": Operation("WithdrawalRequest"),
    "withdrawals": Operation("ExecutionPayload", "execution_payload"),
}

EPOCH_STEPS: Final = {
    "builder_pending_payments",
    "effective_balance_updates",
    "eth1_data_reset",
    "historical_roots_update",
    "historical_summaries_update",
    "inactivity_updates",
    "justification_and_finalization",
    "participation_flag_updates",
    "participation_record_updates",
    "pending_consolidations",
    "pending_deposits",
    "pending_deposits_churn",
    "proposer_lookahead",
    "ptc_window",
    "randao_mixes_reset",
    "registry_updates",
    "rewards_and_penalties",
    "slashings",
    "slashings_reset",
    "sync_committee_updates",
}
"""Each is the method `process_<step>`; a churn's cases are those of what it limits."""
REWARDS: Final = {"basic", "leak", "random", "inactivity_scores"}


class Deltas(Container):
    """What the validators gain and lose for one duty."""

    rewards: Annotated[tuple[uint64, ...], Limit("VALIDATOR_REGISTRY_LIMIT")]
    penalties: Annotated[tuple[uint64, ...], Limit("VALIDATOR_REGISTRY_LIMIT")]


def check_operation(case: Case) -> Difference | None:
    """One operation, applied to a state."""
    rules, operation = get_rules(case), OPERATIONS[case.handler]
    state = read_state(case, rules, "pre")
    arguments: list[Any] = []
    file = operation.file or case.handler
    if case.has(f"{file}.ssz_snappy"):  # gloas withdraws without a payload
        arguments.append(read_record(case, rules, operation.record, file))
    if "parent_slot" in case.meta:
        arguments.append(case.meta["parent_slot"])
    if case.has("execution.yaml"):
        arguments.append(lambda *_: case.read_yaml("execution")["execution_valid"])
    process = getattr(rules, operation.method or f"process_{case.handler}")
    return expect_post(case, rules, lambda: _after(state, lambda: process(state, *arguments)))


def check_epoch_step(case: Case) -> Difference | None:
    """One step of epoch processing; and the whole of it, where the case gives that too."""
    rules = get_rules(case)
    process = getattr(rules, f"process_{case.handler.removesuffix('_churn')}")
    state = read_state(case, rules, "pre")
    difference = expect_post(case, rules, lambda: _after(state, lambda: process(state)))
    if difference is not None or not case.has("post_epoch.ssz_snappy"):
        return difference
    whole = read_state(case, rules, "pre_epoch")
    rules.process_epoch(whole)
    return compare_states(rules, read_state(case, rules, "post_epoch"), whole)


def check_blocks(case: Case) -> Difference | None:
    """Blocks, one after the other."""
    rules = get_rules(case)

    def run() -> State:
        state = read_state(case, rules, "pre")
        for number in range(case.meta["blocks_count"]):
            state = rules.state_transition(state, read_block(case, rules, number))
        return state

    return expect_post(case, rules, run)


def check_slots(case: Case) -> Difference | None:
    """Slots without blocks."""
    rules = get_rules(case)
    state = read_state(case, rules, "pre")
    target = state.slot + case.read_yaml("slots")
    return expect_post(case, rules, lambda: _after(state, lambda: rules.process_slots(state, target)))


def check_rewards(case: Case) -> Difference | None:
    """The rewards and penalties of each duty."""
    rules = get_rules(case)
    state = read_state(case, rules, "pre")
    for name, compute in _get_deltas(rules, state).items():
        rewards, penalties = compute()
        got = Deltas(rewards=tuple(rewards.tolist()), penalties=tuple(penalties.tolist()))
        expected = rules.scope.schema(Deltas).decode(case.read_ssz(name))
        difference = compare(expected, got, name)
        if difference is not None:
            return difference
    return None


def _get_deltas(rules: Rules, state: State) -> dict[str, Callable[[], Any]]:
    """What computes the deltas in each file."""
    flags = ["source_deltas", "target_deltas", "head_deltas"]
    if hasattr(rules, "get_flag_index_deltas"):
        deltas = {name: partial(rules.get_flag_index_deltas, state, i) for i, name in enumerate(flags)}
        names = ["inactivity_penalty_deltas"]
    else:
        deltas, names = {}, [*flags, "inclusion_delay_deltas", "inactivity_penalty_deltas"]
    return deltas | {name: partial(getattr(rules, f"get_{name}"), state) for name in names}


def check_genesis(case: Case) -> Difference | None:
    """A first state, from deposits."""
    rules = get_rules(case)
    eth1 = case.read_yaml("eth1")
    count = case.meta["deposits_count"]
    deposits = [read_record(case, rules, "Deposit", f"deposits_{number}") for number in range(count)]
    block_hash = bytes.fromhex(eth1["eth1_block_hash"][2:])
    state = rules.initialize_beacon_state_from_eth1(block_hash, eth1["eth1_timestamp"], deposits)
    return compare_states(rules, read_state(case, rules, "state"), state)


def check_ledger_genesis(case: Case) -> Difference | None:
    """The first state of a ledger, from its genesis."""
    rules = get_rules(case)
    genesis = read_record(case, rules, "Genesis", "genesis")
    return expect_post(case, rules, lambda: rules.initialize_ledger_state(genesis))


def check_genesis_validity(case: Case) -> Difference | None:
    """Whether a chain may start from a state."""
    rules = get_rules(case)
    state = read_state(case, rules, "genesis")
    return compare(case.read_yaml("is_valid"), rules.is_valid_genesis_state(state), "is_valid")


def read_record(case: Case, rules: Rules, record: str, file: str) -> Any:
    """The record that a file of the case holds."""
    return rules.scope.schema(record).decode(case.read_ssz(file))


def read_state(case: Case, rules: Rules, file: str) -> State:
    """The state that a file of the case holds."""
    return read_record(case, rules, "BeaconState", file)


def read_block(case: Case, rules: Rules, number: int) -> Any:
    """The signed block of this number."""
    return read_record(case, rules, "SignedBeaconBlock", f"blocks_{number}")


def expect_post(case: Case, rules: Rules, run: Callable[[], State]) -> Difference | None:
    """`run` leads to the state in `post`, or is refused where there is none."""
    valid = case.has("post.ssz_snappy")
    try:
        state = run()
    except (Invalid, Malformed) as error:
        return Difference("", "a state", f"{type(error).__name__}: {error}") if valid else None
    if not valid:
        return Difference("", "a refusal", "a state")
    return compare_states(rules, read_state(case, rules, "post"), state)


def compare_states(rules: Rules, expected: State, got: State) -> Difference | None:
    """The first difference of two states. Equal ones must have equal roots, kept or not."""
    roots = [rules.hash_tree_root(state) for state in (expected, got)]
    if roots[0] == roots[1]:
        return None
    return compare(expected, got) or compare(roots[0], roots[1], "root")


def _after(state: State, change: Callable[[], None]) -> State:
    """`state`, once changed in place."""
    change()
    return state
