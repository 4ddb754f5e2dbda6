"""Checks of what peers pass on (tests/formats/networking): a store, and messages with a verdict each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from anchor.consensus.containers.phase0 import Checkpoint
from anchor.consensus.fork_choice.bellatrix import PayloadStatus
from anchor.consensus.fork_choice.schedule import make_fork_choice
from anchor.consensus.gossip.base import Seen
from anchor.consensus.gossip.forks import GOSSIP
from anchor.consensus.vectors.cases import Case
from anchor.consensus.vectors.compare import Difference
from anchor.consensus.vectors.rules import get_rules
from anchor.consensus.vectors.states import read_record, read_state
from anchor.errors import Ignored, Invalid, Malformed

STATUSES: Final = {
    "VALID": PayloadStatus.VALID,
    "INVALIDATED": PayloadStatus.INVALID,
    "NOT_VALIDATED": PayloadStatus.SYNCING,
}
KINDS: Final = {
    "aggregate": ("SignedAggregateAndProof", "beacon_aggregate_and_proof"),
    "attestation": ("Attestation", "beacon_attestation"),
    "attester_slashing": ("AttesterSlashing", "attester_slashing"),
    "blob_sidecar": ("BlobSidecar", "blob_sidecar"),
    "block": ("SignedBeaconBlock", "beacon_block"),
    "bls_to_execution_change": ("SignedBLSToExecutionChange", "bls_to_execution_change"),
    "contribution": ("SignedContributionAndProof", "sync_committee_contribution_and_proof"),
    "data_column_sidecar": ("DataColumnSidecar", "data_column_sidecar"),
    "execution_payload_bid": ("SignedExecutionPayloadBid", "execution_payload_bid"),
    "execution_payload_envelope": ("SignedExecutionPayloadEnvelope", "execution_payload_envelope"),
    "partial_data_column_sidecar": ("PartialDataColumnSidecar", "partial_data_column_sidecar"),
    "payload_attestation_message": ("PayloadAttestationMessage", "payload_attestation_message"),
    "proposer_preferences": ("SignedProposerPreferences", "proposer_preferences"),
    "proposer_slashing": ("ProposerSlashing", "proposer_slashing"),
    "single_attestation": ("SingleAttestation", "beacon_attestation"),
    "sync_committee_message": ("SyncCommitteeMessage", "sync_committee_message"),
    "voluntary_exit": ("SignedVoluntaryExit", "voluntary_exit"),
}
"""By the name of a message's file, before its root: its record, and the method that judges it."""
HANDLERS: Final = {
    "gossip_attester_slashing",
    "gossip_beacon_aggregate_and_proof",
    "gossip_beacon_attestation",
    "gossip_beacon_block",
    "gossip_blob_sidecar",
    "gossip_bls_to_execution_change",
    "gossip_data_column_sidecar",
    "gossip_execution_payload_bid",
    "gossip_execution_payload_envelope",
    "gossip_partial_data_column_sidecar",
    "gossip_payload_attestation_message",
    "gossip_proposer_preferences",
    "gossip_proposer_slashing",
    "gossip_sync_committee_contribution_and_proof",
    "gossip_sync_committee_message",
    "gossip_voluntary_exit",
}


def check_gossip(case: Case) -> Difference | None:
    """Messages that are passed on, ignored, or held against their sender."""
    run = Run(case)
    for number, message in enumerate(case.meta["messages"]):
        got = run.judge(message)
        if not got.startswith(message["expected"]):
            wanted = f"{message['expected']} ({message.get('reason')})"
            return Difference(f"messages[{number}]", wanted, got)
    return None


class Run:
    """A case being run: what a node knows, and what it thinks of messages."""

    def __init__(self, case: Case) -> None:
        self.case, self.rules, self.seen = case, get_rules(case), Seen()
        data = () if case.fork in ("fulu", "gloas") else None  # nothing to sample, no blobs
        self.choice = make_fork_choice(self.rules, retrieve=lambda root: data)
        self.gossip: Any = GOSSIP[case.fork](self.choice, self.seen)
        self.statuses: dict[bytes, PayloadStatus] = {}
        first, *others = case.meta["blocks"]
        anchor = self.read("SignedBeaconBlock", first["block"]).message
        self.store = self.choice.get_forkchoice_store(read_state(case, self.rules, "state"), anchor)
        self.note(first, self.rules.hash_tree_root(anchor))
        for block in others:
            self.take(block)
        self.settle(case.meta)

    def read(self, record: str, file: str) -> Any:
        return read_record(self.case, self.rules, record, file)

    def take(self, given: dict[str, Any]) -> None:
        """A block that came before the messages."""
        signed = self.read("SignedBeaconBlock", given["block"])
        root = self.rules.hash_tree_root(signed.message)
        if given.get("failed") or given.get("pending"):
            self.seen.unimported[root] = signed.message
        else:
            time = self.gossip.get_slot_time_ms(self.store, signed.message.slot)
            self.choice.on_tick(self.store, max(time, self.store.time_ms))
            self.choice.on_block(self.store, signed)
        self.note(given, root)

    def note(self, given: dict[str, Any], root: bytes) -> None:
        """What came with a block: its payload, what the execution layer says."""
        if "payload" in given:
            envelope = self.read("SignedExecutionPayloadEnvelope", given["payload"])
            self.choice.on_execution_payload_envelope(self.store, envelope)
        if "payload_status" in given:
            self.statuses[root] = STATUSES[given["payload_status"]]

    def settle(self, meta: dict[str, Any]) -> None:
        """What the case says of the store and of headers beside the blocks."""
        if "finalized_checkpoint" in meta:
            given = meta["finalized_checkpoint"]
            if "block" in given:
                message = self.read("SignedBeaconBlock", given["block"]).message
                root = self.rules.hash_tree_root(message)
            else:
                root = bytes.fromhex(given["root"][2:])
            self.finalize(Checkpoint(epoch=given["epoch"], root=root))
        for seen in meta.get("seen_partial_data_column_headers", ()):
            root = bytes.fromhex(seen["block_root"][2:])
            self.seen.headers[root] = self.read("PartialDataColumnHeader", seen["header"])

    def finalize(self, checkpoint: Checkpoint) -> None:
        """Blocks without votes finalise nothing: the store and later states are told."""
        self.store.finalized_checkpoint = checkpoint
        for state in self.store.block_states.values():
            if self.rules.get_current_epoch(state) > checkpoint.epoch:
                state.finalized_checkpoint = checkpoint

    def judge(self, given: dict[str, Any]) -> str:
        """ "valid", "ignore" or "reject", and why."""
        try:
            self.prepare(given)()
        except Ignored as error:
            return f"ignore ({error})"
        except (Invalid, Malformed) as error:
            return f"reject ({error})"
        return "valid"

    def prepare(self, given: dict[str, Any]) -> Callable[[], None]:
        """What judges a message."""
        kind = given["message"].rpartition("_0x")[0]
        record, topic = KINDS[kind]
        arguments = [self.store, self.read(record, given["message"])]
        arguments += [given[name] for name in ("current_time_ms", "subnet_id") if name in given]
        if "group_id" in given:
            arguments.append(self.read("PartialDataColumnGroupID", given["group_id"]))
            arguments.append(given["column_index"])
        options = {"statuses": self.statuses} if self.statuses else {}
        validate = getattr(self.gossip, f"validate_{topic}")
        return lambda: validate(*arguments, **options)
