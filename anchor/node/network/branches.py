"""All blocks that are not final yet: in memory for the fork choice, and in the store. Verify, persist, apply.

The store's chain leads to the head that the fork choice has chosen; verified blocks on other branches are
beside it. A block is durable before it is applied, so whatever was voted for or sent is found again: a store
that is opened after a crash is replayed from its newest final block, and the head is chosen anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain as joined
from typing import Any, Final

from anchor.consensus.bls import Signatures
from anchor.consensus.containers.phase0 import (
    BeaconBlock,
    BeaconBlockHeader,
    SignedBeaconBlock,
    SignedBeaconBlockHeader,
)
from anchor.consensus.fork_choice.ledger import LedgerForkChoice
from anchor.consensus.fork_choice.phase0 import Imported
from anchor.consensus.fork_choice.tree import ForkChoiceNode
from anchor.consensus.forks.ledger import Ledger
from anchor.errors import CorruptedLedger, Invalid
from anchor.node.batches import SNAPSHOT_SLOTS, make_block, make_entries, make_snapshot
from anchor.node.chain import Chain
from anchor.node.database import RESTORE
from anchor.node.records import FOREVER, Batch, Snapshot
from anchor.node.store import Store

State = Any
"""The ledger's BeaconState."""
RECENT_SLOTS: Final = 64
"""Of blocks older than that only headers are kept in memory …"""
MILESTONE: Final = 32
"""… and states of slots that this divides."""
Link = tuple[bytes, SignedBeaconBlock]
"""A block with its root."""
MAX_RIVALS: Final = 2
"""Blocks by one proposer for one slot that are taken from gossip: two show what it did …"""
MAX_RIVALS_BUILT_ON: Final = 16
"""… but where an honest proposer has built upon another one, it is needed."""


class Branches:
    """The tree of blocks from the newest final one on."""

    def __init__(self, journal: Store, signatures: Signatures | None = None) -> None:
        self._journal, self.chain = journal, Chain(journal)
        self.ledger: Ledger = self.chain.ledger
        self.trusting_ledger: Ledger = self.chain.trusting_ledger
        if signatures is not None:
            self.ledger.signatures = signatures
        self.choice = LedgerForkChoice(self.ledger)
        self.signed: dict[bytes, SignedBeaconBlock] = {}
        """The blocks of the tree that are not old; `get_signed` finds the others in the store."""
        self._told_final = journal.get_final_slot()
        self.is_settled = True
        """Whether the head was chosen since the tree changed; where the store failed, it is not yet."""
        self._snapshot_epoch = -1
        """Of the newest block whose state was written down."""
        self._open()

    # Opening

    def _open(self) -> None:
        state, block = self._get_anchor()
        self.view = self.choice.get_forkchoice_store(state, block)
        self._pruned = self.view.finalized_checkpoint
        self.view.block_states = self._states = States(self._remake_state, self.view.block_states)
        self.head = self._journal.get_newest_root()
        replaying = LedgerForkChoice(self.trusting_ledger)
        stored = joined(self._journal.get_blocks(block.slot + 1, FOREVER), self._journal.get_side_blocks())
        for record in sorted(stored, key=lambda record: record.slot):
            self._replay(replaying, self.chain.decode_block(record))
        self.settle()

    def _get_anchor(self) -> tuple[State, BeaconBlock]:
        """The newest block that the store knows to be final, and its state."""
        final = self._journal.get_final_slot()
        if final:
            stored = self._journal.find_block_before(final)
            if stored is None or stored.slot != final:
                raise CorruptedLedger(f"The final block of slot {final} is missing.", fix=RESTORE)
            return self.chain.get_state(stored.root), self.chain.decode_block(stored).message
        state = self.chain.get_state(self._journal.get_genesis_root())
        body = self.ledger.scope.schema("BeaconBlockBody").default()
        root = self.ledger.hash_tree_root(state)
        return state, BeaconBlock(slot=0, proposer_index=0, parent_root=bytes(32), state_root=root, body=body)

    def _replay(self, choice: LedgerForkChoice, signed: SignedBeaconBlock) -> None:
        """Takes a stored block, whose signatures were checked, as one that came too late to be boosted."""
        block = signed.message
        if block.parent_root not in self.view.blocks:
            return  # of a branch that finality has left behind
        late = self.get_slot_start_ms(block.slot) + choice.get_attestation_due_ms()
        choice.on_tick(self.view, max(late, self.view.time_ms))
        try:
            [imported] = choice.verify_run(self.view, [signed])
        except Invalid as error:
            if not self._is_on_chain(self.ledger.hash_tree_root(block)):
                return  # finality has left it behind
            raise CorruptedLedger(
                f"The stored blocks do not follow each other: {error.what}", fix=RESTORE
            ) from None
        choice.apply_run(self.view, [imported])
        self.signed[imported.root] = signed
        self._forget()

    # Reading

    def get_slot_start_ms(self, slot: int) -> int:
        """When `slot` starts, in Unix milliseconds."""
        return int(self.view.genesis_time_ms + slot * self.ledger.config.SLOT_DURATION_MS)

    def get_slot(self) -> int:
        """The slot of the time that was told last."""
        return self.choice.get_current_slot(self.view)

    def get_final_slot(self) -> int:
        """Of the newest final block."""
        return int(self.view.blocks[self.view.finalized_checkpoint.root].slot)

    def get_head_node(self) -> ForkChoiceNode:
        """The head, as the fork choice knows it."""
        return ForkChoiceNode(self.head)

    def get_head_state(self) -> State:
        """The state after the head, not to be written to."""
        return self.view.block_states[self.head]

    def get_state_at(self, root: bytes, slot: int) -> State:
        """The state of a block of the tree once it is `slot`, not to be written to."""
        return self.choice.get_state_at(self.view, root, slot)

    def is_known(self, root: bytes) -> bool:
        """Whether a block is in the tree, or on the chain before it."""
        return root in self.view.blocks or self._is_on_chain(root)

    def get_signed(self, root: bytes) -> SignedBeaconBlock:
        """A block of the tree, but for the one that it starts from. Raises CorruptedLedger."""
        if root in self.signed:
            return self.signed[root]
        stored = self._journal.find_block(root) or self._journal.find_side_block(root)
        if stored is None:
            raise CorruptedLedger(f"Block 0x{root.hex()} is missing.", fix=RESTORE)
        return self.chain.decode_block(stored)

    def find_encoding(self, root: bytes) -> bytes | None:
        """A block, encoded, where it is here."""
        if root in self.signed:
            return self.ledger.scope.encode(self.signed[root])
        stored = self._journal.find_block(root) or self._journal.find_side_block(root)
        return None if stored is None else stored.ssz

    def find_rivals(self, block: BeaconBlock, root: bytes) -> list[bytes]:
        """Other blocks of the tree by the same proposer for the same slot."""
        rivals = self.view.roots_at_slot.get(block.slot, ())
        same = [other for other in rivals if self.view.blocks[other].proposer_index == block.proposer_index]
        return [other for other in same if other != root]

    def get_header(self, signed: SignedBeaconBlock) -> SignedBeaconBlockHeader:
        """A block's header, under the same signature."""
        block = signed.message
        header = BeaconBlockHeader(
            slot=block.slot,
            proposer_index=block.proposer_index,
            parent_root=block.parent_root,
            state_root=block.state_root,
            body_root=self.ledger.hash_tree_root(block.body),
        )
        return SignedBeaconBlockHeader(message=header, signature=signed.signature)

    def _is_on_chain(self, root: bytes) -> bool:
        return root == self._journal.get_genesis_root() or self._journal.find_block(root) is not None

    # Changing

    def tick(self, time_ms: int) -> None:
        """Lets time pass; it never goes back."""
        epoch = self.choice.get_current_store_epoch(self.view)
        self.choice.on_tick(self.view, max(time_ms, self.view.time_ms))
        self.is_settled &= self.choice.get_current_store_epoch(self.view) == epoch
        self._forget()

    def import_run(self, blocks: Sequence[SignedBeaconBlock]) -> list[Imported]:
        """Verifies, persists and applies blocks of which each is the next one's parent.

        Raises Premature or InvalidTransition (or another Invalid) and changes nothing, Unavailable when the
        store cannot be written.
        """
        run = self.choice.verify_run(self.view, blocks)
        self._persist(run, blocks)
        self.is_settled = False
        self.choice.apply_run(self.view, run)
        self.signed.update(zip([imported.root for imported in run], blocks, strict=True))
        self._forget()
        self.settle()
        return run

    def settle(self) -> None:
        """Lets the store lead to the head that the fork choice chooses now, and tell what is final."""
        head = self.choice.get_head(self.view).root
        if head != self.head or self.get_final_slot() > self._told_final:
            path = list(self._find_path(head))[::-1]
            parent = path[0][1].message.parent_root if path else head
            self._commit(path, parent, head, replaces=head != self.head)
        self.is_settled = True

    def _find_path(self, root: bytes) -> Iterator[Link]:
        """The blocks that are not on the store's chain, from `root` back: finality may have passed some."""
        while not self._is_on_chain(root):
            signed = self.get_signed(root)
            yield root, signed
            root = signed.message.parent_root

    def _persist(self, run: Sequence[Imported], blocks: Sequence[SignedBeaconBlock]) -> None:
        """Writes verified blocks down: upon the chain where they follow its head, else beside it."""
        path = [(imported.root, signed) for imported, signed in zip(run, blocks, strict=True)]
        if blocks[0].message.parent_root == self.head:
            self._commit(path, self.head, run[-1].root, replaces=False, state=run[-1].state)
        else:
            self._journal.commit(Batch(side=tuple([make_block(self.ledger, *link) for link in path])))

    def _commit(
        self, path: Sequence[Link], parent: bytes, head: bytes, *, replaces: bool, state: State = None
    ) -> None:
        """Brings the store's chain from `parent` along `path` to `head`; its state, if not in the tree."""
        state = self.view.block_states[head] if state is None else state
        final, epoch = self.get_final_slot(), self.ledger.get_current_epoch(state)
        is_due = replaces or final > self._told_final or epoch > self._snapshot_epoch
        batch = Batch(
            blocks=tuple([make_block(self.ledger, *link) for link in path]),
            parent=parent,
            replaces=replaces,
            final=final if final > self._told_final else None,
            snapshots=self._make_snapshots(head, state) if is_due else (),
            entries=tuple(make_entries([signed for _, signed in path], len(state.entries))),
        )
        self._journal.commit(batch)
        self.head, self._told_final = head, final
        self._snapshot_epoch = epoch if is_due else self._snapshot_epoch

    def _make_snapshots(self, head: bytes, newest: State) -> tuple[Snapshot, ...]:
        """The states that a store is opened with: of the final block and of the newest."""
        root = self.view.finalized_checkpoint.root
        state = self.view.block_states[root]
        kept = state.slot >= self._journal.get_newest_kept_slot() + SNAPSHOT_SLOTS
        final = make_snapshot(self.ledger, root, state, kept=kept)
        return (final, make_snapshot(self.ledger, head, newest, kept=False))

    def _forget(self) -> None:
        """Lets go of blocks that finality has left behind, after the fork choice did."""
        if self.view.finalized_checkpoint != self._pruned:
            self._pruned = self.view.finalized_checkpoint
            self.signed = {root: block for root, block in self.signed.items() if root in self.view.blocks}

    def trim(self) -> None:
        """Keeps little of old blocks, where finality does not come to let go of them."""
        recent = self.get_slot() - RECENT_SLOTS
        old = [root for root, signed in self.signed.items() if signed.message.slot < recent]
        for root in old:
            # The fork choice reads nothing of a block that its header does not have.
            self.view.blocks[root] = self.get_header(self.signed.pop(root)).message  # type: ignore[assignment]
        needed = {self.view.tree.nodes[0].root, self.view.finalized_checkpoint.root}
        needed.add(self.view.justified_checkpoint.root)
        for root in {*old, *self._states.remade} - needed:
            if root in self.view.blocks and self.view.blocks[root].slot % MILESTONE:
                self._states.pop(root, None)
        self._states.remade.clear()

    def _remake_state(self, root: bytes) -> State:
        """The state of an old block, from the nearest one before it that is kept."""
        missing = [root]
        while (parent := self.view.blocks[missing[-1]].parent_root) not in self.view.block_states:
            missing.append(parent)
        state = self.view.block_states[parent]
        for other in reversed(missing):
            state = self.trusting_ledger.state_transition(state, self.get_signed(other), False)
        return state


class States(dict[bytes, State]):
    """States by block; one that was let go of is made anew."""

    def __init__(self, remake: Callable[[bytes], State], states: Mapping[bytes, State]) -> None:
        super().__init__(states)
        self._remake = remake
        self.remade: set[bytes] = set()
        """Which were, since this was last emptied."""

    def __missing__(self, root: bytes) -> State:
        state = self[root] = self._remake(root)
        self.remade.add(root)
        return state
