"""Runs cases, on several processes, and says of each whether it passed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Final, Literal

from anchor.consensus.vectors import (
    basics,
    confirmation,
    fork_choice,
    gossip,
    light_client,
    light_client_data,
    networking,
    ssz,
    states,
    upgrades,
)
from anchor.consensus.vectors.cases import Case
from anchor.consensus.vectors.compare import Difference
from anchor.consensus.vectors.rules import FORKS
from anchor.errors import AnchorError

Check = Callable[[Case], Difference | None]
Status = Literal["passed", "failed", "unsupported"]
BUGS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What no input should raise: a case that does has failed, and the others go on."""
CHUNK = 8
"""Cases handed to a process at a time."""


@dataclass(frozen=True, slots=True)
class Result:
    """How a case went."""

    case: Case
    status: Status
    difference: Difference | None = None
    """What a failed case found first."""


HANDLERS: Final[dict[str, dict[str, Check]]] = {
    "ssz_generic": dict.fromkeys(ssz.GENERIC_HANDLERS, ssz.check_generic),
    "merkle_proof": {"single_merkle_proof": ssz.check_proof},
    "light_client": {
        "single_merkle_proof": ssz.check_proof,
        "data_collection": light_client_data.check_data_collection,
        "sync": light_client.check_sync,
        "update_ranking": light_client.check_update_ranking,
    },
    "bls": dict.fromkeys(basics.BLS_HANDLERS, basics.check_bls),
    "shuffling": {"core": basics.check_shuffling},
    "operations": dict.fromkeys(states.OPERATIONS, states.check_operation),
    "epoch_processing": dict.fromkeys(states.EPOCH_STEPS, states.check_epoch_step),
    "sanity": {"blocks": states.check_blocks, "slots": states.check_slots},
    "finality": {"finality": states.check_blocks},
    "random": {"random": states.check_blocks},
    "rewards": dict.fromkeys(states.REWARDS, states.check_rewards),
    "fork": {"fork": upgrades.check_fork},
    "transition": {"core": upgrades.check_transition},
    "fork_choice": dict.fromkeys(fork_choice.HANDLERS, fork_choice.check_fork_choice),
    "fork_choice_compliance": dict.fromkeys(fork_choice.COMPLIANCE_HANDLERS, fork_choice.check_fork_choice),
    "sync": {"optimistic": fork_choice.check_fork_choice},
    "fast_confirmation": dict.fromkeys(confirmation.HANDLERS, confirmation.check_fast_confirmation),
    "networking": {
        "get_custody_groups": networking.check_custody_groups,
        "compute_columns_for_custody_group": networking.check_custody_columns,
        **dict.fromkeys(gossip.HANDLERS, gossip.check_gossip),
    },
    "genesis": {
        "initialization": states.check_genesis,
        "validity": states.check_genesis_validity,
        "ledger": states.check_ledger_genesis,
    },
}
"""By runner and handler: what checks a case. A family of checks plugs in here."""


def find_check(case: Case) -> Check | None:
    """What checks a case, or None when its fork, its handler or what it needs is not at hand."""
    if case.fork not in FORKS:
        return None
    if case.runner == "ssz_static":  # its handlers are the names of records
        return ssz.check_static if case.handler in ssz.get_scope(case.preset, case.fork).records else None
    if case.runner in ("fork_choice", "networking") and not fork_choice.is_supported(case):
        return None
    return HANDLERS.get(case.runner, {}).get(case.handler)


def run_case(case: Case) -> Result:
    """Checks one case. An error that a check does not expect is a failure too."""
    check = find_check(case)
    if check is None:
        return Result(case, "unsupported")
    try:
        difference = check(case)
    except (AnchorError, *BUGS) as error:
        difference = Difference("", "no error", f"{type(error).__name__}: {error}")
    return Result(case, "passed" if difference is None else "failed", difference)


def run_cases(cases: Sequence[Case], jobs: int = 1) -> Iterator[Result]:
    """Checks the cases on `jobs` processes; results come in order."""
    if jobs == 1:
        yield from map(run_case, cases)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(run_case, cases, chunksize=CHUNK)
