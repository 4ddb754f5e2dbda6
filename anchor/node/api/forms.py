"""Plain forms of what is no record by itself, and their JSON Schemas."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

from anchor.consensus.text import PREFIX, format_checkpoint, format_identity, get_stage_name
from anchor.merkle.json import to_json
from anchor.merkle.scope import schema_of
from anchor.node.api.describe import DIGEST, describe, record, stream
from anchor.node.node import Receipt
from anchor.node.reading import Found, Horizon, Named, Published
from anchor.node.records import Block
from anchor.node.status import Status
from anchor.params import STAGES

COUNT: Final = {"type": "integer", "minimum": 0}
TEXT: Final = {"type": "string"}
TIME: Final = {"type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$"}
FLAG: Final = {"type": "boolean"}
CHECKPOINT: Final = {"type": "string", "pattern": "^0x[0-9a-f]{64}:[0-9]+$"}
BEACON_ERROR: Final = record({"code": COUNT, "message": TEXT})
IDENTITY: Final = {"type": "string", "pattern": f"^{PREFIX}[0-9a-f]{{64}}$"}
STAGE: Final = {"type": "string", "enum": list(STAGES)}

STATUS: Final = record(
    {
        "name": TEXT,
        "network_id": DIGEST,
        "genesis": CHECKPOINT,
        "head": record({"root": DIGEST, "slot": COUNT, "epoch": COUNT, "time": TIME}),
        "justified": CHECKPOINT,
        "finalized": CHECKPOINT,
        "validators": COUNT,
        "entries": COUNT,
        "final_entries": COUNT,
        "takes_entries": FLAG,
    }
)
CHECKPOINTS: Final = record(
    {
        "justified": CHECKPOINT,
        "finalized": CHECKPOINT,
        "weak_subjectivity": record({"checkpoint": CHECKPOINT, "period": COUNT, "expires": TIME}),
    }
)
MODEL: Final = record(
    {
        "model": TEXT,
        "publisher": IDENTITY,
        "approvers": {"type": "array", "items": IDENTITY},
        "threshold": COUNT,
        "versions": COUNT,
    }
)
VERSION: Final = record(
    {
        "model": TEXT,
        "version": TEXT,
        "manifest_root": DIGEST,
        "publisher": IDENTITY,
        "entry": COUNT,
        "published": TIME,
        "stage": STAGE,
        "revoked": FLAG,
        "approvals": {"type": "array", "items": record({"approver": IDENTITY, "to_stage": STAGE})},
    }
)
BLOCK: Final = record({"slot": COUNT, "root": DIGEST})
RECEIPT: Final = record(
    {"root": DIGEST, "position": COUNT, "final": {"anyOf": [CHECKPOINT, {"type": "null"}]}}
)
LEAVING: Final = record({"validator": COUNT})
KEPT: Final = record({"root": DIGEST})
HEALTH: Final = record({"status": {"type": "string", "enum": ["ok", "bad"]}, "words": TEXT})
ERROR: Final = record({"code": COUNT, "kind": TEXT, "what": TEXT, "fix": TEXT})
HAPPENINGS: Final = stream(
    {
        "head": record({"root": DIGEST, "slot": COUNT, "epoch": COUNT}),
        "justified": record({"checkpoint": CHECKPOINT}),
        "finalized": record({"checkpoint": CHECKPOINT}),
        "entry": record({"position": COUNT, "root": DIGEST, "slot": COUNT, "kind": TEXT, "final": FLAG}),
    }
)


def entry_schema(signed: dict[str, Any]) -> dict[str, Any]:
    """Of `show_entry`, given the signed entry's."""
    fields = {"position": COUNT, "root": DIGEST, "slot": COUNT, "time": TIME, "final": FLAG, "kind": TEXT}
    return record({**fields, "entry": signed})


def show_status(status: Status, takes_entries: bool) -> dict[str, Any]:
    """How a ledger stands."""
    head = {
        "root": hexadecimal(status.head),
        "slot": status.slot,
        "epoch": status.epoch,
        "time": show_time(status.timestamp),
    }
    return {
        "name": status.name,
        "network_id": hexadecimal(status.network_id),
        "genesis": format_checkpoint(status.genesis),
        "head": head,
        "justified": format_checkpoint(status.justified),
        "finalized": format_checkpoint(status.finalized),
        "validators": status.validators,
        "entries": status.entries,
        "final_entries": status.final_entries,
        "takes_entries": takes_entries,
    }


def show_checkpoints(status: Status, horizon: Horizon) -> dict[str, Any]:
    """What is justified, what is final, and until when that can be trusted by whoever takes it now."""
    trusted = {
        "checkpoint": format_checkpoint(horizon.checkpoint),
        "period": horizon.period,
        "expires": show_time(horizon.expires),
    }
    return {
        "justified": format_checkpoint(status.justified),
        "finalized": format_checkpoint(status.finalized),
        "weak_subjectivity": trusted,
    }


def show_model(named: Named) -> dict[str, Any]:
    """A model, and whose it is."""
    return {
        "model": named.model.name.decode(),
        "publisher": format_identity(named.publisher),
        "approvers": [format_identity(key) for key in named.model.policy.approvers],
        "threshold": named.model.policy.threshold,
        "versions": named.versions,
    }


def show_version(published: Published) -> dict[str, Any]:
    """A version, and how it stands."""
    leaf = published.leaf
    approvals = [
        {"approver": format_identity(key), "to_stage": get_stage_name(approval.to_stage)}
        for key, approval in zip(published.approvers, leaf.approvals, strict=True)
    ]
    return {
        "model": leaf.model.decode(),
        "version": leaf.version.decode(),
        "manifest_root": hexadecimal(leaf.manifest_root),
        "publisher": format_identity(published.publisher),
        "entry": leaf.entry,
        "published": show_time(published.timestamp),
        "stage": get_stage_name(leaf.stage),
        "revoked": leaf.revoked,
        "approvals": approvals,
    }


def show_entry(found: Found) -> dict[str, Any]:
    """An entry, and where it is recorded."""
    return {
        "position": found.stored.position,
        "root": hexadecimal(found.stored.root),
        "slot": found.stored.slot,
        "time": show_time(found.stored.timestamp),
        "final": found.is_final,
        "kind": type(found.signed.entry.body.data).__name__,
        "entry": to_json(schema_of(type(found.signed)), found.signed),
    }


def show_block(block: Block) -> dict[str, Any]:
    """A block's place; the block itself is had by its root."""
    return {"slot": block.slot, "root": hexadecimal(block.root)}


def show_receipt(receipt: Receipt) -> dict[str, Any]:
    """What became of an entry."""
    final = None if receipt.final is None else format_checkpoint(receipt.final)
    return {"root": hexadecimal(receipt.root), "position": receipt.position, "final": final}


def show_time(seconds: int) -> str:
    """A Unix time (RFC 3339)."""
    return datetime.fromtimestamp(min(seconds, 253402300799), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def hexadecimal(data: bytes) -> str:
    """`0x…`."""
    return f"0x{data.hex()}"


def list_of(schema: dict[str, Any]) -> dict[str, Any]:
    """An array of such."""
    return {"type": "array", "items": schema}


def of_record(name: type) -> dict[str, Any]:
    """The JSON Schema of a record whose annotations name no constants."""
    return describe(schema_of(name))
