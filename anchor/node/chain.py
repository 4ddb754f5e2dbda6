"""A ledger's chain, read back from its store: every block and state is held to its root on the way."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from functools import cached_property
from itertools import islice
from typing import Any, Final, NamedTuple

from anchor.consensus.bls import Bls, NoSignatures
from anchor.consensus.containers.entries import SignedEntry
from anchor.consensus.containers.ledger import Genesis
from anchor.consensus.containers.phase0 import (
    BeaconBlockHeader,
    Checkpoint,
    IndexedAttestation,
    SignedBeaconBlock,
)
from anchor.consensus.forks.cache import Cache
from anchor.consensus.forks.ledger import Ledger
from anchor.consensus.forks.ledger.genesis import compute_config
from anchor.consensus.hardcoded import get_table, verify_branch
from anchor.consensus.presets import LEDGER
from anchor.errors import CorruptedLedger, Invalid, MalformedSSZ, NoSuchRecord
from anchor.merkle.scope import Scope, hash_tree_root, schema_of
from anchor.merkle.ssz import Schema
from anchor.ml.manifest import Manifest, manifest_root
from anchor.node.database import ELSEWHERE, RESTORE
from anchor.node.records import FOREVER, Block, Snapshot, StoredEntry
from anchor.node.status import Status
from anchor.node.store import Store
from anchor.params import WALL_CLOCK

State = Any
"""The ledger's BeaconState."""
FIRST_EPOCH: Final = 2
"""No checkpoint of an earlier epoch can be justified by its own votes (phase0, justification)."""
NEAR: Final = 64
"""Slots in which a state that is at hand is looked for before one is made anew from a snapshot."""


class Head(NamedTuple):
    """The newest block, and the state that it leads to."""

    root: bytes
    state: State


class Chain:
    """The chain up to its head. Nothing here writes.

    Blocks that are not final may give way to others at any time: whoever asks more than one question asks
    all of them in one view of the store. What is remembered here is known by its root, and stays true.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._states: Cache[State] = Cache(8)

    @cached_property
    def genesis(self) -> Genesis:
        """What the network started from."""
        genesis: Genesis = _decode(schema_of(Genesis), self._store.get_genesis(), "The genesis")
        return genesis

    @cached_property
    def ledger(self) -> Ledger:
        """The network's rules."""
        return Ledger(LEDGER, compute_config(self.genesis), Bls())

    @cached_property
    def trusting_ledger(self) -> Ledger:
        """The rules, for blocks whose signatures were checked already, or are checked later."""
        twin = copy(self.ledger)  # a new instance would compute every root anew that this one knows
        twin.signatures = NoSignatures()
        return twin

    @property
    def name(self) -> str:
        """What the operator calls the ledger."""
        return self._store.get_name()

    @property
    def scope(self) -> Scope:
        """The sizes of the network's records."""
        return self.ledger.scope

    # Blocks and states

    def get_head(self) -> Head:
        """The newest block, and its state, not to be written to."""
        root = self._store.get_newest_root()
        return Head(root, self.get_state(root))

    def get_state(self, root: bytes) -> State:
        """The state that block `root` leads to, not to be written to."""
        return self._states.get(root, lambda: self._replay(root))

    def _replay(self, root: bytes) -> State:
        """The state after block `root`, made anew from the nearest one before it."""
        slot = self.get_slot(root)
        state = self._get_state_before(slot)
        try:
            for stored in self._store.get_blocks(state.slot + 1, slot + 1):
                block = self.decode_block(stored)
                state = self.trusting_ledger.state_transition(state, block, validate_result=False)
        except Invalid as error:
            raise CorruptedLedger(
                f"The stored blocks do not follow each other: {error.what}", fix=RESTORE
            ) from None
        if compute_block_root(self.ledger, state) != root:
            raise CorruptedLedger(f"The blocks up to slot {slot} lead to another state.", fix=RESTORE)
        return state

    def _get_state_before(self, slot: int) -> State:
        """A state from which the stored blocks lead to `slot`: one that is at hand, else a snapshot."""
        snapshot = self._store.get_snapshot_before(slot)
        near = list(self._store.get_blocks(max(snapshot.slot + 1, slot - NEAR), slot))
        for stored in reversed(near):
            state = self._states.find(stored.root)
            if state is not None:
                return state
        return self.decode_snapshot(snapshot)

    def get_slot(self, root: bytes) -> int:
        """The slot of block `root`. Raises Unavailable when this ledger has no such block."""
        stored = self._store.find_block(root)
        if stored is not None:
            return stored.slot
        if root == self._store.get_genesis_root():
            return 0
        raise self._has_no_block(root)

    def _has_no_block(self, root: bytes) -> NoSuchRecord:
        oldest = self._store.get_oldest_slot()
        kept = f"; it keeps none from before slot {oldest}" if oldest else ""
        what = f"This ledger has no block 0x{root.hex()}{kept}."
        return NoSuchRecord(what, fix="Check the ledger and the root.")

    def get_header(self, root: bytes) -> BeaconBlockHeader:
        """The header of block `root`."""
        stored = self._store.find_block(root)
        if stored is None:
            state = self.get_state(root)
            header: BeaconBlockHeader = state.latest_block_header
            return header.replace(state_root=self.ledger.hash_tree_root(state))
        block = self.decode_block(stored).message
        return BeaconBlockHeader(
            slot=block.slot,
            proposer_index=block.proposer_index,
            parent_root=block.parent_root,
            state_root=block.state_root,
            body_root=self.ledger.hash_tree_root(block.body),
        )

    def get_blocks(self) -> Iterator[SignedBeaconBlock]:
        """All blocks, ascending. Raises CorruptedLedger where one is missing."""
        parent = self._store.find_missing_root() or self._store.get_genesis_root()
        for stored in self._store.get_blocks(0, FOREVER):
            block = self.decode_block(stored)
            if block.message.parent_root != parent:
                raise CorruptedLedger(f"The block before slot {stored.slot} is missing.", fix=RESTORE)
            parent = stored.root
            yield block

    def list_blocks(self, start: int, count: int) -> list[Block]:
        """The first `count` stored blocks of slot `start` and later."""
        return list(islice(self._store.get_blocks(start, FOREVER), count))

    def get_block(self, root: bytes) -> SignedBeaconBlock:
        """The block with this root. Raises NoSuchRecord when there is none, or it is the genesis block."""
        stored = self._store.find_block(root)
        if stored is None:
            raise self._has_no_block(root)
        return self.decode_block(stored)

    def find_root_by_state(self, state_root: bytes) -> bytes | None:
        """The block on the chain, after the genesis, that leads to the state with this root."""
        stored = self._store.find_block_by_state(state_root)
        return None if stored is None else stored.root

    def get_blocks_between(self, start: int, stop: int) -> list[SignedBeaconBlock]:
        """The blocks of slots start … stop - 1, ascending. Raises NoSuchRecord when they are not all kept."""
        self._require_kept(start or 1)
        return [self.decode_block(stored) for stored in self._store.get_blocks(start, stop)]

    def decode_block(self, stored: Block) -> SignedBeaconBlock:
        """A stored block. Raises CorruptedLedger when it is not what was stored."""
        block: SignedBeaconBlock = _decode(
            self.scope.schema(SignedBeaconBlock), stored.ssz, f"The block of slot {stored.slot}"
        )
        roots = self.ledger.hash_tree_root(block.message), self.ledger.hash_tree_root(block)
        if roots != (stored.root, stored.signed_root) or block.message.slot != stored.slot:
            raise CorruptedLedger(f"The block of slot {stored.slot} is not what was stored.", fix=RESTORE)
        return block

    def decode_snapshot(self, snapshot: Snapshot) -> State:
        """A stored state. Raises CorruptedLedger when it is not what was stored."""
        state = _decode(self.scope.schema("BeaconState"), snapshot.ssz, f"The state of slot {snapshot.slot}")
        if compute_block_root(self.ledger, state) != snapshot.root or state.slot != snapshot.slot:
            raise CorruptedLedger(f"The state of slot {snapshot.slot} is not what was stored.", fix=RESTORE)
        return state

    def get_status(self) -> Status:
        """How the ledger stands."""
        root, state = self.get_head()
        justified, voted = self.get_finality(state)
        final = self._find_final()
        finalized = voted if final is None else final
        if justified.epoch < finalized.epoch:  # the votes that justified more are in blocks that gave way
            justified = finalized
        return Status(
            name=self.name,
            network_id=state.genesis_validators_root,
            genesis=self.get_checkpoint(0),
            head=root,
            slot=state.slot,
            epoch=self.ledger.get_current_epoch(state),
            timestamp=state.timestamp,
            justified=justified,
            finalized=finalized,
            validators=len(state.validators),
            entries=len(state.entries),
            final_entries=len(self.get_state(finalized.root).entries),
            may_sign=self._store.may_sign(),
        )

    def get_final_count(self) -> int:
        """How many entries are final."""
        return self.get_status().final_entries

    # What is on it

    def get_entries(self, start: int, stop: int) -> Iterator[tuple[StoredEntry, SignedEntry]]:
        """The entries at positions start … stop - 1, ascending."""
        return ((stored, self.decode_entry(stored)) for stored in self._store.get_entries(start, stop))

    def get_entry(self, position: int) -> tuple[StoredEntry, SignedEntry]:
        """The entry at `position` of the ledger's list. Raises Unavailable when there is none yet."""
        stored = self._store.find_entry(position)
        if stored is None:
            raise NoSuchRecord(f"This ledger has no entry {position}.", fix="See: anchor log")
        return stored, self.decode_entry(stored)

    def find_recorded(self, root: bytes) -> StoredEntry | None:
        """The entry with this root, where it was recorded."""
        return self._store.find_entry_by_root(root)

    def decode_entry(self, stored: StoredEntry) -> SignedEntry:
        """A stored entry. Raises CorruptedLedger when it is not what was stored."""
        signed: SignedEntry = _decode(schema_of(SignedEntry), stored.ssz, f"Entry {stored.position}")
        if hash_tree_root(signed) != stored.root:
            raise CorruptedLedger(f"Entry {stored.position} is not what was stored.", fix=RESTORE)
        return signed

    def get_signed_entry(self, position: int) -> SignedEntry:
        """The entry at `position`, alone."""
        return self.get_entry(position)[1]

    def get_manifest(self, root: bytes) -> bytes:
        """The encoding of the manifest with this root. Raises Unavailable when it is not kept here."""
        data = self._store.find_manifest(root)
        if data is None:
            raise NoSuchRecord(f"This ledger does not keep manifest 0x{root.hex()}.")
        manifest: Manifest = _decode(schema_of(Manifest), data, f"Manifest 0x{root.hex()}")
        if manifest_root(manifest) != root:
            raise CorruptedLedger(f"Manifest 0x{root.hex()} is not what was stored.", fix=RESTORE)
        return data

    def get_manifest_roots(self) -> list[bytes]:
        """Roots of all manifests that are kept here."""
        return self._store.get_manifest_roots()

    def verify_entries(self, entries: Sequence[SignedEntry]) -> None:
        """Judges whether the ledger would take these entries next, in this order. Changes nothing.

        Raises Misuse in a copy that only reads, Invalid for entries that it refuses.
        """
        self._store.require_original()
        ahead = self.get_head().state.copy()
        self.ledger.process_slots(ahead, self.ledger.compute_start_slot_at_epoch(self.get_next_epoch()))
        for entry in entries:
            self.ledger.verify_entry(ahead, entry)
            self.ledger.apply_entry(ahead, entry)

    # Finality

    def get_next_epoch(self) -> int:
        """The first epoch in which nothing can have been signed."""
        return max(self._store.get_reserved() + 1, FIRST_EPOCH)

    def get_finalized_checkpoint(self) -> Checkpoint:
        """The newest checkpoint that is final."""
        final = self._find_final()
        return self.get_finality(self.get_head().state)[1] if final is None else final

    def _find_final(self) -> Checkpoint | None:
        """What the fork choice has made final, for good; None by a logical clock: no block gives way there.

        What the votes in the newest blocks make final beyond it may give way with them (decision 19).
        """
        if self.genesis.clock != WALL_CLOCK:
            return None
        stored = self._store.find_block_before(self._store.get_final_slot())
        if stored is None:
            return self.get_checkpoint(0)
        return Checkpoint(epoch=-(-stored.slot // self.ledger.preset.SLOTS_PER_EPOCH), root=stored.root)

    def get_final_slot(self) -> int:
        """Of the newest block that the fork choice has made final; 0 where there is none."""
        return self._store.get_final_slot()

    def get_checkpoint(self, epoch: int) -> Checkpoint:
        """The checkpoint of `epoch`: the newest block at or before its first slot.

        Raises NoSuchRecord when blocks from so long ago are not kept.
        """
        root = self.get_root_before(self.ledger.compute_start_slot_at_epoch(epoch))
        return Checkpoint(epoch=epoch, root=root)

    def get_root_before(self, slot: int) -> bytes:
        """The newest block at or before `slot`. Raises as `get_checkpoint` does."""
        self._require_kept(slot)
        stored = self._store.find_block_before(slot)
        return self._store.get_genesis_root() if stored is None else stored.root

    def _require_kept(self, slot: int) -> None:
        """Raises NoSuchRecord unless all blocks of `slot` and later are kept, or it is the genesis slot."""
        oldest = self._store.get_oldest_slot()
        if 0 < slot < oldest:
            raise NoSuchRecord(f"This ledger keeps no blocks from before slot {oldest}.", fix=ELSEWHERE)

    def verify_hardcoded(self) -> None:
        """Raises InvalidCheckpoint where the chain conflicts with a checkpoint in the code (rule 22).

        What is not kept was held to them when it was taken.
        """
        state = self.get_head().state
        kept = range(self._get_oldest_epoch(), self.ledger.get_current_epoch(state) + 1)
        table = get_table(state.genesis_validators_root)
        verify_branch(table, lambda epoch: self.get_checkpoint(epoch).root if epoch in kept else None)

    def _get_oldest_epoch(self) -> int:
        """The first epoch whose checkpoint can be told."""
        return -(-self._store.get_oldest_slot() // self.ledger.preset.SLOTS_PER_EPOCH)

    def require_whole(self) -> None:
        """Raises NoSuchRecord unless all blocks from the genesis on are kept."""
        self._require_kept(1)

    def get_attestations(self, epoch: int) -> list[IndexedAttestation]:
        """The votes for a checkpoint of `epoch`, in the order in which blocks brought them.

        Blocks beside the chain count too: theirs may be the votes that made it final. From those only votes
        for the chain's own checkpoint are taken, which have the committees that the chain has. Raises
        NoSuchRecord when blocks from so long ago are not kept.
        """
        start = self.ledger.compute_start_slot_at_epoch(epoch)
        stop = self.ledger.compute_start_slot_at_epoch(epoch + 2)
        blocks = self.get_blocks_between(start, stop)
        if not blocks:
            return []
        own, newest = self.get_checkpoint(epoch), self.ledger.hash_tree_root(blocks[-1].message)
        state = self.get_state(newest)
        votes = [
            v for block in blocks for v in block.message.body.attestations if v.data.target.epoch == epoch
        ]
        for stored in self._store.get_side_blocks(start, stop):
            beside = self.decode_block(stored).message.body.attestations
            votes += [vote for vote in beside if vote.data.target == own]
        return [self.ledger.get_indexed_attestation(state, vote) for vote in votes]

    def get_finality(self, state: State) -> tuple[Checkpoint, Checkpoint]:
        """What is justified and what is final once the epoch of `state` is over, if nothing else comes."""
        ahead = state.copy()
        end = self.ledger.compute_start_slot_at_epoch(self.ledger.get_current_epoch(state) + 1)
        self.ledger.process_slots(ahead, end)
        return self._name(ahead.current_justified_checkpoint), self._name(ahead.finalized_checkpoint)

    def _name(self, checkpoint: Checkpoint) -> Checkpoint:
        """`checkpoint`, with the genesis block's root where the state has nothing yet."""
        return checkpoint if checkpoint.root != bytes(32) else self.get_checkpoint(0)


def _decode(schema: Schema[Any], data: bytes, what: str) -> Any:
    try:
        return schema.decode(data)
    except MalformedSSZ as error:
        raise CorruptedLedger(f"{what} cannot be read: {error.what}", fix=RESTORE) from None


def compute_block_root(ledger: Ledger, state: State) -> bytes:
    """The root of the block that led to `state`, which no slot has passed since."""
    header = state.latest_block_header
    if header.state_root == bytes(32):
        header = header.replace(state_root=ledger.hash_tree_root(state))
    return ledger.hash_tree_root(header)
