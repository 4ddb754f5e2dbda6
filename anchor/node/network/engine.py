"""One node of a networked ledger, pure of sockets, clocks and threads (specs/06-network).

    messages, time ─► Gossip ─► Branches (verify, persist, apply) ─► Duties ─► what is to be sent

Time is an argument, in Unix milliseconds; what is to be sent is returned. After a crash an engine is made
anew from its store, and goes on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from anchor.consensus.bls import Signatures
from anchor.consensus.containers.entries import SignedEntry
from anchor.consensus.containers.phase0 import Checkpoint, SignedBeaconBlock, SignedVoluntaryExit
from anchor.errors import Invalid, Misuse, Premature, UnknownParent
from anchor.merkle.scope import hash_tree_root
from anchor.node.network.branches import Branches
from anchor.node.network.duties import Duties, Validators
from anchor.node.network.entries import EntryPool
from anchor.node.network.gossip import MAX_AHEAD, Gossip
from anchor.node.network.messages import MAX_BLOCKS_ASKED, Kind, Message, PeerStatus
from anchor.node.network.outbox import Outbox, PeerId, Send
from anchor.node.network.progress import Progress, get_progress
from anchor.node.network.waiting import Held, Waiting
from anchor.node.records import FOREVER
from anchor.node.store import Store
from anchor.params import FAR_FUTURE_EPOCH, WALL_CLOCK

State = Any
"""The ledger's BeaconState."""
MAX_REPEATED: Final = 32
"""Of each kind that waits: repeated once an epoch, for those who could not be reached before."""


class Engine:
    """Keeps one node's part of the ledger, and its validators' duties."""

    def __init__(
        self, journal: Store, validators: Validators | None, signatures: Signatures | None = None
    ) -> None:
        """Opens from what is stored; `signatures` stands in for BLS where a simulation does not sign.

        Raises Misuse for a ledger of one operator, CorruptedLedger for a store that cannot be read.
        """
        self._journal = journal
        self._branches = Branches(journal, signatures)
        self.ledger, self.genesis = self._branches.ledger, self._branches.chain.genesis
        if self.genesis.clock != WALL_CLOCK:
            raise Misuse(
                "This ledger has one operator: its slots pass only when there is something to record."
            )
        self._outbox, self._waiting = Outbox(), Waiting()
        self._entries = EntryPool(journal, self._branches)
        self._gossip = Gossip(self._branches, self._entries, self._outbox, self._waiting.has_block_for)
        self._duties = None
        if validators is not None:
            self._duties = Duties(self._branches, self._gossip, self._entries, validators, self._outbox)
        self.does_duties = True
        """False while the driver catches up: who votes for an old block cannot vote for the newest."""
        self._gossip.recall()
        self._slot = self._branches.get_slot()
        self._final = self._branches.view.finalized_checkpoint

    # Input

    def on_tick(self, time_ms: int) -> list[Send]:
        """Lets time pass, and does what is due. Call it several times a slot."""
        if time_ms >= self._branches.view.genesis_time_ms:
            self._pass_time(time_ms)
            self._entries.save()
            if self._duties is not None and self.does_duties:
                self._duties.perform()
                self._follow()
        return self._outbox.drain()

    def on_message(self, message: Message, peer: PeerId, time_ms: int) -> list[Send]:
        """Takes what a peer pushed; what is new and right is to be forwarded.

        Raises Premature for what may be right later, UnknownParent where the peer can be asked for `root`,
        Malformed or another Invalid for what no honest peer sends, Unavailable when the store fails.
        """
        if message.kind not in self._gossip.handlers:
            raise Misuse(f"{message.kind.name} is the driver's.")
        self._pass_time(time_ms)
        self._receive(Held(message, peer, self._slot))
        self._follow()
        return self._outbox.drain()

    def on_blocks(self, blocks: Sequence[SignedBeaconBlock], time_ms: int) -> list[Send]:
        """Takes blocks that were asked for, each the next one's parent; they are stored in one commit.

        Raises as `on_message` does; then none of them is taken.
        """
        self._pass_time(time_ms)
        new = [signed for signed in blocks if not self._is_old(signed)]
        if new:
            self._require_parent(new[0])
            self._gossip.import_run(new)
            self._follow()
        return self._outbox.drain()

    def submit(self, entry: SignedEntry, time_ms: int) -> list[Send]:
        """Takes an entry from this node's own users, durably; one that is known already is taken again.

        Raises Invalid when the ledger refuses it, Unavailable when too many wait.
        """
        self._pass_time(time_ms)
        if not self._entries.is_known(hash_tree_root(entry)):
            self._entries.add(entry)
            self._entries.save()
            # Whoever heard of this one, and not of its author's others, would rule those out.
            for waiting in self._entries.get_missing(entry.entry.author)[-MAX_REPEATED:]:
                self._outbox.publish(Kind.ENTRY, waiting)
        return self._outbox.drain()

    def submit_exit(self, wish: SignedVoluntaryExit, time_ms: int) -> list[Send]:
        """Takes a validator's wish to leave from this node's own users. Raises Invalid when it may not."""
        self._pass_time(time_ms)
        if self._gossip.on_exit(wish):
            self._outbox.publish(Kind.EXIT, wish)
        return self._outbox.drain()

    def _is_old(self, signed: SignedBeaconBlock) -> bool:
        is_final = signed.message.slot <= self._branches.get_final_slot()
        return is_final or self._branches.is_known(self.ledger.hash_tree_root(signed.message))

    def _require_parent(self, signed: SignedBeaconBlock) -> None:
        parent = signed.message.parent_root
        if parent not in self._branches.view.blocks:
            what = f"The parent of the block of slot {signed.message.slot}, {parent.hex()}, is unknown."
            raise UnknownParent(what, root=parent)

    # What follows

    def _pass_time(self, time_ms: int) -> None:
        branches = self._branches
        branches.tick(time_ms)
        slot = branches.get_slot()
        if slot > self._slot:
            for indexed in self._gossip.votes.take_countable(slot):
                branches.choice.count_vote(branches.view, indexed)
            branches.settle()
            self._turn_slot(slot)
            self._follow()
        elif not branches.is_settled:
            branches.settle()

    def _turn_slot(self, slot: int) -> None:
        preset = self.ledger.preset
        is_new_epoch = self.ledger.compute_epoch_at_slot(slot) > self.ledger.compute_epoch_at_slot(self._slot)
        self._slot = slot
        self._gossip.votes.prune(slot - preset.SLOTS_PER_EPOCH)
        self._gossip.syncs.prune(slot - 1)
        self._waiting.drop_late(slot)
        self._branches.trim()
        for held in self._waiting.take_slot(slot):
            self._retry(held)
        if is_new_epoch:
            self._repeat()

    def _follow(self) -> None:
        """Lets what waited for blocks follow them, and goes along with finality."""
        while held := self._waiting.take_known(self._branches.view.blocks.keys()):
            for one in held:
                self._retry(one)
        final = self._branches.view.finalized_checkpoint
        if final != self._final:
            self._final = final
            self._entries.settle()
            self._prune_operations()

    def _receive(self, held: Held) -> None:
        """Hands a message to who judges it; what came too early waits."""
        message, slot = held.message, self._branches.get_slot()
        try:
            is_new = self._gossip.handlers[message.kind](message.value)
        except UnknownParent as error:
            self._waiting.hold(held, error.root, slot)
            raise
        except Premature:
            due = get_slot(message) if message.kind != Kind.ENTRY else slot + 1
            if slot < due <= slot + MAX_AHEAD:
                self._waiting.hold(held, due, slot)
            raise
        if is_new:
            self._outbox.forward(message, held.peer)

    def _retry(self, held: Held) -> None:
        try:
            self._receive(held)
        except Invalid:
            return  # nobody is blamed for what has become wrong while it waited

    def _prune_operations(self) -> None:
        validators = self._branches.view.block_states[self._final.root].validators
        slashed = validators.column("slashed").nonzero()[0].tolist()
        leaving = (validators.column("exit_epoch") != FAR_FUTURE_EPOCH).nonzero()[0].tolist()
        self._gossip.operations.prune(set(slashed), set(leaving))

    def _repeat(self) -> None:
        """Sends again what waits: a partition may have healed."""
        operations = self._gossip.operations
        for kind, waiting in (
            (Kind.ENTRY, self._entries.get_missing()),
            (Kind.PROPOSER_SLASHING, list(operations.proposer_slashings.values())),
            (Kind.ATTESTER_SLASHING, operations.attester_slashings),
            (Kind.EXIT, list(operations.exits.values())),
        ):
            for value in waiting[:MAX_REPEATED]:
                self._outbox.publish(kind, value)

    # Output

    @property
    def head(self) -> bytes:
        """The root of the newest block on the chain."""
        return self._branches.head

    @property
    def finalized(self) -> Checkpoint:
        """The newest final checkpoint."""
        return self._branches.view.finalized_checkpoint

    @property
    def final_slot(self) -> int:
        """The slot of the newest final block."""
        return self._branches.get_final_slot()

    @property
    def justified(self) -> Checkpoint:
        """The newest justified checkpoint."""
        return self._branches.view.justified_checkpoint

    def get_state_at(self, root: bytes, slot: int) -> State:
        """The state after block `root`, when `slot` has begun; not to be written to."""
        return self._branches.get_state_at(root, slot)

    def is_known(self, root: bytes) -> bool:
        """Whether a block is in the tree, or on the chain before it."""
        return self._branches.is_known(root)

    def get_progress(self) -> Progress:
        """Whether blocks come, and become final."""
        return get_progress(self._branches, self._gossip.slasher)

    def get_status(self, time_ms: int) -> PeerStatus:
        """What a peer is told at first."""
        branches = self._branches
        return PeerStatus(
            finalized=self.finalized,
            head_root=branches.head,
            head_slot=branches.view.blocks[branches.head].slot,
            earliest_slot=self._journal.get_oldest_slot(),
            time_ms=time_ms,
        )

    def get_blocks_by_range(self, start: int, count: int) -> list[bytes]:
        """The chain's blocks of slots `start` … `start + count - 1`, encoded, ascending; not too many."""
        start = min(start, FOREVER - MAX_BLOCKS_ASKED)
        stored = self._journal.get_blocks(start, start + min(count, MAX_BLOCKS_ASKED))
        return [block.ssz for block in stored]

    def get_blocks_by_root(self, roots: Sequence[bytes]) -> list[bytes]:
        """Those of the blocks that are here, on the chain or beside it, encoded."""
        found = [self._branches.find_encoding(root) for root in roots]
        return [encoding for encoding in found if encoding is not None]


def get_slot(message: Message) -> int:
    """The slot that a message is about; -1 for one that is about none."""
    value = message.value
    if message.kind == Kind.BLOCK:
        return int(value.message.slot)
    if message.kind == Kind.ATTESTATION:
        return int(value.data.slot)
    return int(value.slot) if message.kind == Kind.CONTRIBUTION else -1
