"""What the fork choice refuses and why, data and payloads that come with blocks, votes in great numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from anchor.consensus import kzg
from anchor.consensus.bls import NoSignatures
from anchor.consensus.containers.bellatrix import PowBlock
from anchor.consensus.containers.phase0 import AttestationData, Checkpoint, SignedBeaconBlock
from anchor.consensus.fork_choice.bellatrix import BellatrixForkChoice, PayloadStatus
from anchor.consensus.fork_choice.deneb import Blobs, CapellaForkChoice, DenebForkChoice
from anchor.consensus.fork_choice.fulu import FuluForkChoice
from anchor.consensus.fork_choice.gloas import GloasForkChoice
from anchor.consensus.fork_choice.phase0 import ForkChoice
from anchor.consensus.fork_choice.tree import NOWHERE, ForkChoiceNode, Tree
from anchor.consensus.fork_choice.votes import Votes
from anchor.consensus.forks.bellatrix import Bellatrix
from anchor.consensus.hardcoded import Table
from anchor.consensus.presets import MINIMAL, MINIMAL_CONFIG
from anchor.errors import InvalidCheckpoint, InvalidTransition, Misuse, Premature, Unavailable
from tests.consensus.samples import RULES, read_files
from tests.consensus.scripted import World, take_snapshot

KINDS: dict[str, Any] = {"capella": CapellaForkChoice, "gloas": GloasForkChoice}
SECOND = 1000


def read_anchor(fork: str) -> tuple[Any, Any]:
    """The anchor of one of the fork's official cases: its genesis."""
    import cramjam

    name = f"tests/minimal/{fork}/fork_choice/on_block/pyspec_tests/on_block_future_block/"
    schemas = RULES[fork].scope
    files = {"anchor_state": "BeaconState", "anchor_block": "BeaconBlock"}
    state, block = [
        schemas.schema(record).decode(
            bytes(cramjam.snappy.decompress_raw(read_files()[f"{name}{file}.ssz_snappy"]))
        )
        for file, record in files.items()
    ]
    return state, block


def start(fork: str, choice: Any = None) -> tuple[Any, Any]:
    """A fork choice and its store, at genesis."""
    choice = choice or KINDS.get(fork, ForkChoice)(RULES[fork])
    return choice, choice.get_forkchoice_store(*read_anchor(fork))


def make_block(fork: str, store: Any, slot: int, **changes: Any) -> Any:
    """A block on the anchor, of the sample chain's shape: its signature isn't looked at."""
    rules, root = RULES[fork], next(iter(store.blocks))
    state = store.block_states[root].copy()
    rules.process_slots(state, slot)
    signed = rules.scope.schema("SignedBeaconBlock").default()
    body = signed.message.body
    body = body.replace(
        eth1_data=state.eth1_data,
        sync_aggregate=signed.message.body.sync_aggregate.replace(
            sync_committee_signature=b"\xc0" + bytes(95)
        ),
        **changes,
    )
    block = signed.message.replace(
        slot=slot, proposer_index=rules.get_beacon_proposer_index(state), parent_root=root, body=body
    )
    rules.process_block(state, block)
    return signed.replace(message=block.replace(state_root=rules.hash_tree_root(state)))


# The store


def test_no_branch_against_the_code_is_taken_whatever_its_weight() -> None:
    """Rule 22: the anchor, a block at an epoch's start, and one after an empty start."""
    world = World("altair")
    rules, state, block = world.rules, world.state, world.anchor
    first, later = [make_child(world, world.root, slot) for slot in (4, 5)]
    root = rules.hash_tree_root(first.message)
    for entry, refused in (
        (Checkpoint(epoch=0, root=root), ["anchor"]),
        (Checkpoint(epoch=1, root=root), [later]),
        (Checkpoint(epoch=1, root=world.root), [first]),
        (Checkpoint(epoch=1, root=bytes(32)), [first, later]),
        (Checkpoint(epoch=2, root=bytes(32)), []),
    ):
        table = Table("lab", state.genesis_validators_root, {entry.epoch: entry.root})
        choice = ForkChoice(rules)
        if refused == ["anchor"]:
            with pytest.raises(InvalidCheckpoint, match="at 0, where the checkpoint of lab"):
                choice.get_forkchoice_store(state, block, [table])
            continue
        store = choice.get_forkchoice_store(state, block, [table])
        choice.on_tick(store, store.time_ms + 60 * SECOND)
        for child in (first, later):
            before = take_snapshot(choice, store)
            if child not in refused:
                choice.on_block(store, child)
                continue
            with pytest.raises(InvalidCheckpoint, match="at 1, where the checkpoint of lab"):
                choice.on_block(store, child)
            assert take_snapshot(choice, store) == before


def make_child(world: World, parent: bytes, slot: int) -> Any:
    """A block that changes nothing."""
    body = world.anchor.body.replace(graffiti=bytes(32))
    message = world.anchor.replace(slot=slot, parent_root=parent, body=body)
    return SignedBeaconBlock(message=message, signature=bytes(96))


def test_an_anchor_must_fit() -> None:
    state, block = read_anchor("altair")
    with pytest.raises(Misuse, match="does not lead to"):
        ForkChoice(RULES["altair"]).get_forkchoice_store(state, block.replace(state_root=bytes(32)))


def test_time_does_not_run_backwards() -> None:
    choice, store = start("altair")
    choice.on_tick(store, store.time_ms + 5 * SECOND)
    with pytest.raises(Misuse, match="backwards"):
        choice.on_tick(store, store.time_ms - 1)


def test_a_far_tick_costs_nothing() -> None:
    choice, store = start("altair")
    choice.on_tick(store, store.time_ms + 10**15)
    assert choice.get_head(store).root == next(iter(store.blocks))


def test_refusals_leave_the_store() -> None:
    """Real blocks: each wrong one is refused with its reason, and changes nothing."""
    choice, store = start("altair")
    choice.on_tick(store, store.time_ms + 6 * SECOND)
    good = make_block("altair", store, 1)
    message = good.message
    before = take_snapshot(choice, store)
    for error, reason, wrong in (
        (Premature, "unknown", message.replace(parent_root=bytes(32))),
        (Premature, "now is", message.replace(slot=2)),
        (InvalidTransition, "finalised", message.replace(slot=0)),
        (InvalidTransition, "leads to state", message.replace(state_root=bytes(32))),
        (InvalidTransition, "proposer", message.replace(proposer_index=message.proposer_index ^ 1)),
    ):
        with pytest.raises(error, match=reason) as caught:
            choice.on_block(store, good.replace(message=wrong))
        assert type(caught.value) is error
        assert take_snapshot(choice, store) == before
    choice.on_block(store, good)
    after = take_snapshot(choice, store)
    assert after != before
    choice.on_block(store, good)  # known: nothing changes
    assert take_snapshot(choice, store) == after


def test_votes_come_too_early_or_too_late() -> None:
    choice, store = start("altair")
    root = next(iter(store.blocks))
    attestation = RULES["altair"].scope.schema("Attestation").default()
    early = attestation.data.replace(beacon_block_root=root, target=Checkpoint(epoch=0, root=root))
    with pytest.raises(Premature, match="counts after it"):
        choice.on_attestation(store, attestation.replace(data=early))
    future = early.replace(slot=8, target=Checkpoint(epoch=1, root=root))
    with pytest.raises(Premature, match="of epoch 1"):
        choice.on_attestation(store, attestation.replace(data=future))
    choice.on_tick(store, store.time_ms + 600 * SECOND)
    with pytest.raises(InvalidTransition, match="of epoch 0"):
        choice.on_attestation(store, attestation.replace(data=early))
    with pytest.raises(InvalidTransition, match="bits"):  # from a block it may be old
        choice.on_attestation(store, attestation.replace(data=early), is_from_block=True)


def test_a_boosted_head_has_no_proposer_yet() -> None:
    choice, store = start("altair")
    choice.on_tick(store, store.time_ms + 6 * SECOND)
    choice.on_block(store, make_block("altair", store, 1))
    head = choice.get_head(store)
    assert store.proposer_boost_root == head.root
    with pytest.raises(Misuse, match="boosted"):
        choice.get_proposer_head(store, head, 2)
    choice.on_tick(store, store.time_ms + 6 * SECOND)
    assert choice.get_proposer_head(store, head, 2) == head


# The merge and optimistic sync

TERMINAL, PARENT = bytes([1]) * 32, bytes([2]) * 32


def make_merge(parents: dict[bytes, int], **settings: Any) -> tuple[BellatrixForkChoice, Any]:
    """A fork choice that knows blocks of proof of work by their difficulty, and a block on TERMINAL."""
    rules = Bellatrix(MINIMAL, MINIMAL_CONFIG.replace(**settings), NoSignatures())
    known = {
        block_hash: PowBlock(block_hash=block_hash, parent_hash=PARENT, total_difficulty=difficulty)
        for block_hash, difficulty in parents.items()
    }
    block = rules.scope.schema("BeaconBlock").default()
    payload = block.body.execution_payload.replace(parent_hash=TERMINAL)
    return BellatrixForkChoice(rules, known.get), block.replace(
        body=block.body.replace(execution_payload=payload)
    )


@pytest.mark.parametrize(
    ("known", "error"),
    [
        ({TERMINAL: 10, PARENT: 9}, None),
        ({TERMINAL: 9, PARENT: 8}, InvalidTransition),
        ({TERMINAL: 11, PARENT: 10}, InvalidTransition),
        ({PARENT: 9}, Premature),
        ({TERMINAL: 10}, Premature),
    ],
)
def test_the_merge_follows_the_first_block_that_is_heavy_enough(known: dict[bytes, int], error: Any) -> None:
    choice, block = make_merge(known, TERMINAL_TOTAL_DIFFICULTY=10)
    if error is None:
        choice.verify_merge_block(block)
    else:
        with pytest.raises(error) as caught:
            choice.verify_merge_block(block)
        assert type(caught.value) is error


@pytest.mark.parametrize(
    ("terminal", "epoch", "valid"), [(TERMINAL, 0, True), (PARENT, 0, False), (TERMINAL, 1, False)]
)
def test_the_merge_may_be_agreed_on(terminal: bytes, epoch: int, valid: bool) -> None:
    settings = {"TERMINAL_BLOCK_HASH": terminal, "TERMINAL_BLOCK_HASH_ACTIVATION_EPOCH": epoch}
    choice, block = make_merge({}, **settings)
    if valid:
        choice.verify_merge_block(block)
    else:
        with pytest.raises(InvalidTransition):
            choice.verify_merge_block(block)


def test_an_unjudged_merge_is_not_imported() -> None:
    choice, block = make_merge({})
    store: Any = type("Store", (), {"blocks": {}, "time_ms": 0, "genesis_time_ms": 0})()
    assert not choice.is_optimistic_candidate_block(store, block)
    store.time_ms = 128 * MINIMAL_CONFIG.SLOT_DURATION_MS
    assert choice.is_optimistic_candidate_block(store, block)


def test_an_invalid_payload_takes_its_chain_with_it() -> None:
    """Blocks of a chain whose payloads nobody has judged count as absent once one is known to be invalid."""
    choice, store = CapellaForkChoice(RULES["capella"]), None
    state, block = read_anchor("capella")
    store = choice.get_forkchoice_store(state, block)
    root = next(iter(store.blocks))
    roots = [root]
    for number in range(1, 4):
        body = block.body.replace(
            execution_payload=block.body.execution_payload.replace(block_hash=bytes([number]) * 32)
        )
        child = block.replace(slot=number, parent_root=roots[-1], body=body)
        roots.append(RULES["capella"].hash_tree_root(child))
        choice.add_block(store, roots[-1], child, state, store.justified_checkpoint, (True,))
        store.optimistic_roots.add(roots[-1])
    assert choice.get_head(store).root == roots[3]
    assert choice.latest_verified_ancestor(store, roots[3]) == root
    choice.on_valid_payload(store, roots[1])
    assert choice.latest_verified_ancestor(store, roots[3]) == roots[1]
    signed = RULES["capella"].scope.schema("SignedBeaconBlock").default()
    signed = signed.replace(message=signed.message.replace(slot=4, parent_root=roots[3]))
    with pytest.raises(InvalidTransition, match="refuses the payload"):
        choice.on_optimistic_block(store, signed, PayloadStatus.INVALID, bytes([1]) * 32)
    assert choice.get_head(store).root == roots[1]
    choice.on_tick(store, store.time_ms + 60 * SECOND)
    with pytest.raises(InvalidTransition, match="whose payload is invalid"):
        choice.on_block(store, signed)


def test_a_justified_payload_is_not_dropped() -> None:
    choice = CapellaForkChoice(RULES["capella"])
    state, block = read_anchor("capella")
    store = choice.get_forkchoice_store(state, block)
    root = next(iter(store.blocks))
    store.optimistic_roots.add(root)
    with pytest.raises(InvalidTransition, match="has justified"):
        choice.invalidate_after(store, root, bytes([1]) * 32)


# Data


@pytest.fixture(scope="module")
def blob() -> Any:
    """A blob with its commitment, proof, cells and their proofs."""
    ckzg = pytest.importorskip("ckzg")
    setup = kzg._load().setup
    data = b"".join([number.to_bytes(32, "big") for number in range(4096)])
    commitment = ckzg.blob_to_kzg_commitment(data, setup)
    proof = ckzg.compute_blob_kzg_proof(data, commitment, setup)
    cells, proofs = ckzg.compute_cells_and_kzg_proofs(data, setup)
    return type("Blob", (), {
        "data": data, "commitment": commitment, "proof": proof, "cells": cells, "proofs": proofs,
    })  # fmt: skip


def test_blobs_must_be_there_and_right(blob: Any) -> None:
    answers: list[Any] = [None]
    choice = DenebForkChoice(RULES["deneb"], lambda root: answers[0])
    root = bytes(32)
    choice.verify_data_available(root, [])
    with pytest.raises(Premature, match="not there"):
        choice.verify_data_available(root, [blob.commitment])
    answers[0] = Blobs([blob.data], [blob.proof])
    choice.verify_data_available(root, [blob.commitment])
    infinity = b"\xc0" + bytes(47)
    for data, proofs, reason in (
        ([blob.data], [], "1 blobs and 0 proofs"),
        ([blob.data, blob.data], [blob.proof, blob.proof], "2 blobs"),
        ([bytes(32) + blob.data[32:-1] + b"\0"], [blob.proof], "not what it commits to"),
        ([blob.data], [infinity], "not what it commits to"),
        ([blob.data], [bytes(48)], "malformed"),
        ([b"\xff" * len(blob.data)], [blob.proof], "malformed"),
    ):
        answers[0] = Blobs(data, proofs)
        with pytest.raises(InvalidTransition, match=reason):
            choice.verify_data_available(root, [blob.commitment])


@pytest.mark.parametrize("fork", ["fulu", "gloas"])
def test_columns_must_be_right(fork: str, blob: Any) -> None:
    kind = FuluForkChoice if fork == "fulu" else GloasForkChoice
    schema = RULES[fork].scope.schema("DataColumnSidecar")
    good = schema.default().replace(index=5, column=(blob.cells[5],), kzg_proofs=(blob.proofs[5],))
    if fork == "fulu":
        good = good.replace(kzg_commitments=(blob.commitment,))
    answers: list[Any] = [[good]]
    choice: Any = kind(RULES[fork], lambda root: answers[0])
    choice.verify_data_available(bytes(32), [blob.commitment])
    for wrong, reason in (
        (good.replace(index=6), "not those of"),
        (good.replace(index=128), "128 columns"),
        (good.replace(column=(blob.cells[6],)), "not those of"),
        (good.replace(column=()), "0 cells"),
        (good.replace(kzg_proofs=(blob.proofs[6],)), "not those of"),
        (good.replace(kzg_proofs=()), "0 proofs"),
    ):
        answers[0] = [good, wrong]
        with pytest.raises(InvalidTransition, match=reason):
            choice.verify_data_available(bytes(32), [blob.commitment])
    answers[0] = [good]
    with pytest.raises(InvalidTransition, match="other commitments" if fork == "fulu" else "of 2 blobs"):
        choice.verify_data_available(bytes(32), [blob.commitment, blob.commitment])


def test_without_the_library_blobs_are_not_verified(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(kzg, "import_module", fail)
    monkeypatch.setattr(kzg, "_load", kzg._load.__wrapped__)
    with pytest.raises(Unavailable, match="ckzg"):
        kzg.verify_blob_kzg_proof_batch([], [], [])


# Gloas


def test_a_pending_head_is_not_built_on() -> None:
    choice, store = start("gloas")
    with pytest.raises(Misuse, match="undecided"):
        choice.should_build_on_full(store, ForkChoiceNode(next(iter(store.blocks))), 1)
    with pytest.raises(Misuse, match="holds no payload"):
        choice.on_optimistic_block(store, None, PayloadStatus.VALID)


# Votes in great numbers


def test_a_million_votes() -> None:
    """Weights stay exact where floating point would not."""
    count, balance = 1_000_000, 32 * 10**9 + 1
    tree, votes = Tree(), Votes()
    for number in range(3):
        tree.add(ForkChoiceNode(bytes([number]) * 32), number, number - 1, True)
    votes.weigh(np.full(count, balance, np.uint64))
    votes.cast(tree, np.arange(count), 1, 1)
    votes.cast(tree, np.arange(0, count, 2), 2, 2)
    votes.cast(tree, np.arange(count), 0, 1)  # older: nothing moves
    votes.exclude(tree, np.arange(0, count, 4))
    tree.settle()
    weights = [count * 3 // 4 * balance] * 2 + [count // 4 * balance]
    assert tree.weights == weights
    tree.rebuild(votes.count(3).tolist(), [True] * 3)
    assert tree.weights == weights
    votes.move(np.array([NOWHERE, 0, 1]))
    assert votes.count(2).tolist() == [count // 2 * balance, count // 4 * balance]


def test_votes_say_what_they_saw_of_a_payload() -> None:
    """A vote of a block's own slot leaves the payload undecided."""
    choice, store = start("gloas")
    root = next(iter(store.blocks))
    first = Checkpoint(epoch=0, root=root)
    nodes = []
    for slot, index in ((0, 0), (1, 0), (1, 1)):
        data = AttestationData(slot=slot, index=index, beacon_block_root=root, source=first, target=first)
        nodes.append(choice.get_supported_node(store, data))
    assert [node.payload_status for node in nodes] == [2, 0, 1]
