"""The chain itself: how it stands, entries, blocks, votes, validators, evidence."""

from __future__ import annotations

from typing import Final

from anchor.bundle.proofs import EntryProof
from anchor.bundle.types import LEDGER_SCOPE
from anchor.consensus.containers.entries import SignedEntry
from anchor.consensus.containers.ledger import Genesis
from anchor.consensus.containers.phase0 import (
    AttesterSlashing,
    IndexedAttestation,
    ProposerSlashing,
    SignedBeaconBlock,
    SignedVoluntaryExit,
    Validator,
)
from anchor.merkle.json import to_json
from anchor.merkle.scope import schema_of
from anchor.node.api import forms
from anchor.node.api.describe import describe, record
from anchor.node.api.kinds import AFTER, NUMBER, PAGING, ROOT
from anchor.node.api.routes import MAX_BODY, Body, Reply, Route
from anchor.node.node import Node
from anchor.node.reading import Reader

ENTRY: Final = schema_of(SignedEntry)
ENTRY_PROOF: Final = LEDGER_SCOPE.schema(EntryProof)
BLOCK: Final = LEDGER_SCOPE.schema(SignedBeaconBlock)
GENESIS: Final = schema_of(Genesis)
STATE: Final = LEDGER_SCOPE.schema("BeaconState")
VOTE: Final = LEDGER_SCOPE.schema(IndexedAttestation)
EXIT: Final = schema_of(SignedVoluntaryExit)
VALIDATOR: Final = LEDGER_SCOPE.schema(Validator)
SLASHINGS: Final = {
    "proposer_slashing": LEDGER_SCOPE.schema(ProposerSlashing),
    "attester_slashing": LEDGER_SCOPE.schema(AttesterSlashing),
}


async def get_status(node: Node) -> Reply:
    """How the ledger stands."""
    return Reply(forms.show_status(node.status, node.takes_entries))


async def get_genesis(node: Node) -> Reply:
    """What the network started from."""
    return Reply(await node.read(Reader.get_genesis), GENESIS)


async def get_state(node: Node, root: bytes) -> Reply:
    """The state after a block."""
    return Reply(encoded=await node.read(Reader.get_state, root), schema=STATE, root=root)


async def get_checkpoints(node: Node) -> Reply:
    """What is justified and final, and until when it can be trusted."""
    horizon = await node.read(Reader.get_horizon)
    return Reply(forms.show_checkpoints(node.status, horizon))


async def list_entries(node: Node, after: int, limit: int) -> Reply:
    """A page of entries."""
    page = await node.read(Reader.list_entries, after, limit)
    return Reply([forms.show_entry(found) for found in page.items], next=page.next, is_page=True)


async def submit_entry(node: Node, body: SignedEntry) -> Reply:
    """Records an entry; answers when it is final, or (202) accepted."""
    receipt = await node.submit_entry(body)
    return Reply(forms.show_receipt(receipt), status=202 if receipt.final is None else 200)


async def submit_exit(node: Node, body: SignedVoluntaryExit) -> Reply:
    """Passes on that a validator wants to leave."""
    await node.submit_exit(body)
    return Reply({"validator": body.message.validator_index}, status=202)


async def get_entry(node: Node, position: int) -> Reply:
    """One entry."""
    return Reply(forms.show_entry(await node.read(Reader.get_entry, position)))


async def prove_entry(node: Node, position: int) -> Reply:
    """The proof of an entry."""
    return Reply(await node.read(Reader.prove_entry, position), ENTRY_PROOF)


async def list_blocks(node: Node, after: int, limit: int) -> Reply:
    """A page of blocks, by slot and root."""
    page = await node.read(Reader.list_blocks, after, limit)
    return Reply([forms.show_block(block) for block in page.items], next=page.next, is_page=True)


async def get_block(node: Node, root: bytes) -> Reply:
    """A block by its root."""
    return Reply(await node.read(Reader.get_block, root), BLOCK, root=root)


async def list_votes(node: Node, epoch: int) -> Reply:
    """The votes for an epoch's checkpoint."""
    votes = await node.read(Reader.list_votes, epoch)
    return Reply([to_json(VOTE, vote) for vote in votes])


async def list_validators(node: Node, after: int, limit: int) -> Reply:
    """A page of the registry."""
    page = await node.read(Reader.list_validators, after, limit)
    return Reply([to_json(VALIDATOR, one) for one in page.items], next=page.next, is_page=True)


async def get_validator(node: Node, index: int) -> Reply:
    """One validator."""
    return Reply(await node.read(Reader.get_validator, index), VALIDATOR)


async def list_evidence(node: Node, after: int) -> Reply:
    """Slashings, from one slot on."""
    page = await node.read(Reader.list_evidence, after)
    found = [
        {"slot": slot, "kind": kind, "slashing": to_json(SLASHINGS[kind], one)}
        for slot, kind, one in page.items
    ]
    return Reply(found, next=page.next, is_page=True)


_EVIDENCE: Final = {
    "oneOf": [
        record({"slot": forms.COUNT, "kind": {"const": kind}, "slashing": describe(schema)})
        for kind, schema in SLASHINGS.items()
    ]
}
_ENTRY: Final = forms.entry_schema(describe(ENTRY))
_POSITION: Final = {"position": NUMBER}
_V1: Final = "/anchor/v1"

ROUTES: Final = (
    Route("GET", f"{_V1}/status", get_status, "Show how the ledger stands", forms.STATUS, "ledger"),
    Route(
        "GET",
        f"{_V1}/genesis",
        get_genesis,
        "Get what the network started from",
        describe(GENESIS),
        "ledger",
        has_ssz=True,
        cost=5,
    ),
    Route(
        "GET",
        f"{_V1}/checkpoints",
        get_checkpoints,
        "Show the justified, the finalised and the weak-subjectivity checkpoint",
        forms.CHECKPOINTS,
        "ledger",
    ),
    Route(
        "GET",
        f"{_V1}/entries",
        list_entries,
        "List entries, the oldest first",
        forms.list_of(_ENTRY),
        "entries",
        query=PAGING,
        is_page=True,
        cost=2,
    ),
    Route(
        "POST",
        f"{_V1}/entries",
        submit_entry,
        "Record a signed entry: 200 when it is final, 202 when it is accepted and not final yet",
        forms.RECEIPT,
        "entries",
        body=Body(MAX_BODY, ENTRY),
        cost=20,
        statuses=(200, 202),
        errors=(422,),
    ),
    Route(
        "POST",
        f"{_V1}/exits",
        submit_exit,
        "Pass on that a validator wants to leave, signed with its key",
        forms.LEAVING,
        "ledger",
        body=Body(MAX_BODY, EXIT),
        cost=20,
        statuses=(202,),
        errors=(422,),
    ),
    Route(
        "GET",
        f"{_V1}/entries/{{position}}",
        get_entry,
        "Show an entry",
        _ENTRY,
        "entries",
        _POSITION,
        errors=(404,),
    ),
    Route(
        "GET",
        f"{_V1}/entries/{{position}}/proof",
        prove_entry,
        "Prove an entry",
        describe(ENTRY_PROOF),
        "proofs",
        _POSITION,
        has_ssz=True,
        cost=5,
        errors=(404,),
    ),
    Route(
        "GET",
        f"{_V1}/blocks",
        list_blocks,
        "List blocks by slot",
        forms.list_of(forms.BLOCK),
        "ledger",
        query=PAGING,
        is_page=True,
    ),
    Route(
        "GET",
        f"{_V1}/blocks/{{root}}",
        get_block,
        "Get a block by its root",
        describe(BLOCK),
        "ledger",
        {"root": ROOT},
        has_ssz=True,
        cost=2,
        errors=(404,),
    ),
    Route(
        "GET",
        f"{_V1}/states/{{root}}",
        get_state,
        "Get the state after a block: what entries are written against",
        describe(STATE),
        "ledger",
        {"root": ROOT},
        has_ssz=True,
        cost=50,
        errors=(404,),
    ),
    Route(
        "GET",
        f"{_V1}/votes/{{epoch}}",
        list_votes,
        "List the votes for an epoch's checkpoint",
        forms.list_of(describe(VOTE)),
        "ledger",
        {"epoch": NUMBER},
        cost=20,
        errors=(404,),
    ),
    Route(
        "GET",
        f"{_V1}/validators",
        list_validators,
        "List validators by index",
        forms.list_of(describe(VALIDATOR)),
        "ledger",
        query=PAGING,
        is_page=True,
        cost=2,
    ),
    Route(
        "GET",
        f"{_V1}/validators/{{index}}",
        get_validator,
        "Show a validator",
        describe(VALIDATOR),
        "ledger",
        {"index": NUMBER},
        has_ssz=True,
        errors=(404,),
    ),
    Route(
        "GET",
        f"{_V1}/evidence",
        list_evidence,
        "List slashings by slot, a few blocks at a time",
        forms.list_of(_EVIDENCE),
        "ledger",
        query={"after": AFTER},
        is_page=True,
        cost=10,
    ),
)
"""In the order of the document."""
