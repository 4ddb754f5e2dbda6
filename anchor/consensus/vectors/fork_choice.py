"""Checks of the fork choice and of optimistic sync (tests/formats/fork_choice, tests/formats/sync)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from anchor.consensus import kzg
from anchor.consensus.fork_choice.bellatrix import PayloadStatus
from anchor.consensus.fork_choice.deneb import Blobs
from anchor.consensus.fork_choice.schedule import make_fork_choice
from anchor.consensus.fork_choice.tree import ForkChoiceNode
from anchor.consensus.vectors.cases import Case
from anchor.consensus.vectors.compare import Difference, compare
from anchor.consensus.vectors.rules import get_rules
from anchor.consensus.vectors.states import read_record
from anchor.errors import Invalid
from anchor.types import Root

HANDLERS: Final = {
    "deposit_with_reorg",
    "ex_ante",
    "filter_node_tree_variants",
    "get_head",
    "get_parent_payload_status",
    "get_proposer_head",
    "on_attestation",
    "on_block",
    "on_execution_payload_envelope",
    "on_merge_block",
    "on_payload_attestation_message",
    "payload_data_availability",
    "payload_timeliness",
    "reorg",
    "should_apply_proposer_boost",
    "withholding",
}
COMPLIANCE_HANDLERS: Final = {
    "attester_slashing_test",
    "block_cover_test",
    "block_tree_test",
    "block_weight_test",
    "invalid_message_test",
    "shuffling_test",
}
"""Trees of blocks solved for, and their messages in any order (tests/generators/compliance_runners)."""
DATA_FILES: Final = ("blob_sidecar_", "blobs_", "column_", "data_column_", "partial_data_column_")
"""How the names of files with blobs or columns begin."""
Step = dict[str, Any]
Values = Any
"""Parsed YAML."""


def needs_kzg(case: Case) -> bool:
    """Whether the case carries blobs or columns, which `ckzg` verifies."""
    return any(file.name.startswith(DATA_FILES) for file in case.path.iterdir())


def is_supported(case: Case) -> bool:
    """Whether what the case needs is installed."""
    return kzg.is_installed() or not needs_kzg(case)


def check_fork_choice(case: Case) -> Difference | None:
    """Steps that feed a store, and what it must hold between them."""
    return check_steps(case, Run(case))


def check_steps(case: Case, run: Run) -> Difference | None:
    """Every step, up to the first that goes wrong."""
    for number, step in enumerate(case.read_yaml("steps")):
        difference = run.apply(step)
        if difference is not None:
            return Difference(f"steps[{number}].{difference.path}", difference.expected, difference.got)
    return None


class Run:
    """A case being run: a store, and what the world outside answers."""

    def __init__(self, case: Case) -> None:
        self.case, self.rules = case, get_rules(case)
        self.data: Any = () if case.fork in ("fulu", "gloas") else None  # nothing to sample
        self.pow_blocks: dict[bytes, Any] = {}
        self.payload_status: Values = None
        self.choice: Any = make_fork_choice(self.rules, self.pow_blocks.get, lambda root: self.data)
        anchor_state = read_record(case, self.rules, "BeaconState", "anchor_state")
        self.store = self.choice.get_forkchoice_store(anchor_state, self.read("BeaconBlock", "anchor_block"))

    def read(self, record: str, file: str) -> Any:
        """The record that a file of the case holds."""
        return read_record(self.case, self.rules, record, file)

    def apply(self, step: Step) -> Difference | None:
        """One step: by the first of its keys that names one."""
        for key, run in STEPS.items():
            if key in step:
                return run(self, step)
        return Difference("", "a known step", ", ".join(step))

    def expect(self, step: Step, call: Callable[[], None]) -> Difference | None:
        """`call` goes through, or is refused where the step says that it is not valid."""
        valid = step.get("valid", True)
        try:
            call()
        except Invalid as error:
            return Difference("", "no refusal", f"{type(error).__name__}: {error}") if valid else None
        return None if valid else Difference("", "a refusal", "none")

    # Steps

    def on_tick(self, step: Step) -> Difference | None:
        """Time passes, in whole seconds."""
        return self.expect(step, lambda: self.choice.on_tick(self.store, step["tick"] * 1000))

    def on_block(self, step: Step) -> Difference | None:
        """A block comes, with its votes and its evidence."""
        block = self.read("SignedBeaconBlock", step["block"])
        before, self.data = self.data, self.read_data(step)
        difference = self.expect(step, lambda: self.import_block(block))
        self.data = before
        return difference

    def import_block(self, block: Any) -> None:
        """Takes a block and what is in it."""
        if self.payload_status is None:
            self.choice.on_block(self.store, block)
        else:
            hashed, status = self.payload_status["latest_valid_hash"], self.payload_status["status"]
            valid_hash = None if hashed is None else _bytes(hashed)
            self.choice.on_optimistic_block(self.store, block, PayloadStatus(status), valid_hash)
        for attestation in block.message.body.attestations:
            self.choice.on_attestation(self.store, attestation, is_from_block=True)
        for slashing in block.message.body.attester_slashings:
            self.choice.on_attester_slashing(self.store, slashing)

    def read_data(self, step: Step) -> Any:
        """The blobs or columns that come with a block; None when columns were to come, and none did."""
        if "columns" in step:
            return [self.read("DataColumnSidecar", file) for file in step["columns"]] or None
        if "blobs" not in step:
            return self.data
        size = self.rules.scope.schema("BlobSidecar").schemas["blob"].fixed_size
        data = self.case.read_ssz(step["blobs"])
        blobs = [data[start : start + size] for start in range(0, len(data), size)]
        return Blobs(blobs, [_bytes(proof) for proof in step["proofs"]])

    def on_record(self, key: str, record: str, handler: str, step: Step) -> Difference | None:
        """A record comes that one handler takes."""
        value = self.read(record, step[key])
        return self.expect(step, lambda: getattr(self.choice, handler)(self.store, value))

    def on_pow_block(self, step: Step) -> Difference | None:
        """The execution layer learns of a block."""
        block = self.read("PowBlock", step["pow_block"])
        self.pow_blocks[block.block_hash] = block
        return None

    def on_payload_status(self, step: Step) -> Difference | None:
        """The execution layer has judged the payload of the next block."""
        self.payload_status = step["payload_status"]
        return None

    # Checks

    def check(self, step: Step) -> Difference | None:
        """What the store must hold."""
        for name, expected in step["checks"].items():
            get = CHECKS.get(name)
            if get is None:
                return Difference(name, "a known check", "none")
            difference = compare(freeze(expected), freeze(get(self, expected)), name)
            if difference is not None:
                return difference
        return None

    def get_head(self, expected: Values) -> Values:
        """The head, in as much detail as the case has."""
        node = self.choice.get_head(self.store)
        head = {"slot": self.store.blocks[node.root].slot, **_format_node(node)}
        return {name: head[name] for name in expected}

    def get_viable_heads(self, expected: Values) -> Values:
        """The leaves that can be the head, in the order of the case."""
        nodes = self.choice.get_viable_heads(self.store)
        heads = [_format_node(node) | {"weight": self.choice.get_weight(self.store, node)} for node in nodes]
        names = expected[0] if expected else ()
        heads = [{name: head[name] for name in names} for head in heads]
        return sorted(heads, key=lambda head: expected.index(head) if head in expected else len(heads))

    def get_proposer_head(self, expected: Values) -> Values:
        """What a proposer of this slot builds on."""
        head, slot = self.choice.get_head(self.store), self.choice.get_current_slot(self.store)
        return _hex(self.choice.get_proposer_head(self.store, head, slot).root)

    def get_votes(self, name: str, expected: Values) -> Values:
        """What a payload committee's members said."""
        votes = getattr(self.store, name)[_bytes(expected["block_root"])]
        return {"block_root": expected["block_root"], "votes": list(votes)}


STEPS: Final[dict[str, Callable[[Run, Step], Difference | None]]] = {
    "checks": lambda run, step: run.check(step),
    "tick": Run.on_tick,
    "block": Run.on_block,
    "attestation": lambda run, step: run.on_record("attestation", "Attestation", "on_attestation", step),
    "attester_slashing": lambda run, step: run.on_record(
        "attester_slashing", "AttesterSlashing", "on_attester_slashing", step
    ),
    "execution_payload": lambda run, step: run.on_record(
        "execution_payload", "SignedExecutionPayloadEnvelope", "on_execution_payload_envelope", step
    ),
    "payload_attestation_message": lambda run, step: run.on_record(
        "payload_attestation_message", "PayloadAttestationMessage", "on_payload_attestation_message", step
    ),
    "pow_block": Run.on_pow_block,
    "payload_status": Run.on_payload_status,
}
CHECKS: Final[dict[str, Callable[[Run, Values], Values]]] = {
    "genesis_time": lambda run, _: run.store.genesis_time_ms // 1000,
    "time": lambda run, _: run.store.time_ms // 1000,
    "head": Run.get_head,
    "justified_checkpoint": lambda run, _: format_checkpoint(run.store.justified_checkpoint),
    "finalized_checkpoint": lambda run, _: format_checkpoint(run.store.finalized_checkpoint),
    "proposer_boost_root": lambda run, _: _hex(run.store.proposer_boost_root),
    "get_proposer_head": Run.get_proposer_head,
    "viable_for_head_roots_and_weights": Run.get_viable_heads,
    "payload_timeliness_vote": lambda run, expected: run.get_votes("payload_timeliness_vote", expected),
    "payload_data_availability_vote": lambda run, expected: run.get_votes(
        "payload_data_availability_vote", expected
    ),
}


def _format_node(node: ForkChoiceNode) -> dict[str, Any]:
    return {"root": _hex(node.root), "payload_status": node.payload_status}


def format_checkpoint(checkpoint: Any) -> dict[str, Any]:
    """A checkpoint as cases have it."""
    return {"epoch": checkpoint.epoch, "root": _hex(checkpoint.root)}


def freeze(value: Values) -> Values:
    """A value that `compare` looks into."""
    return tuple(value) if isinstance(value, list) else value


def _hex(root: Root) -> str:
    return f"0x{root.hex()}"


def _bytes(text: str) -> bytes:
    return bytes.fromhex(text.removeprefix("0x"))
