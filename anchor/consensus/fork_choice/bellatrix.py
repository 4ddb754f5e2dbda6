"""The merge, and blocks whose payloads are yet to be judged (bellatrix/fork-choice, optimistic-sync)."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from anchor.consensus.containers.bellatrix import BeaconBlockBody, BeaconState, PowBlock
from anchor.consensus.containers.phase0 import BeaconBlock, SignedBeaconBlock
from anchor.consensus.fork_choice.phase0 import ForkChoice, require_now
from anchor.consensus.fork_choice.store import Store
from anchor.consensus.fork_choice.tree import ForkChoiceNode
from anchor.consensus.forks.arithmetic import require
from anchor.consensus.forks.bellatrix import Bellatrix
from anchor.consensus.forks.phase0.base import Body
from anchor.consensus.forks.schedule import ForkSchedule
from anchor.errors import InvalidTransition, Premature
from anchor.params import SAFE_SLOTS_TO_IMPORT_OPTIMISTICALLY
from anchor.types import Hash32, Root

GetPowBlock = Callable[[Hash32], PowBlock | None]
"""The proof-of-work block with a hash, or None when it isn't known."""


class PayloadStatus(Enum):
    """What the execution layer says of a payload (engine API, PayloadStatusV1)."""

    VALID = "VALID"
    INVALID = "INVALID"
    SYNCING = "SYNCING"
    """It can't tell yet."""


def find_no_block(block_hash: Hash32) -> None:
    """The proof-of-work chain of who has no execution client."""


class BellatrixForkChoice(ForkChoice):
    """The fork choice of bellatrix. The rules' own engine must take payloads that aren't invalid."""

    rules: Bellatrix

    def __init__(
        self,
        rules: Bellatrix,
        get_pow_block: GetPowBlock = find_no_block,
        schedule: ForkSchedule | None = None,
    ) -> None:
        super().__init__(rules, schedule)
        self._get_pow_block = get_pow_block

    # The merge

    def verify_block_data(self, store: Store, root: Root, block: BeaconBlock) -> None:
        if self.is_execution_block(block) and not self.is_merged(store, block.parent_root):
            self.verify_merge_block(block)

    def is_merged(self, store: Store, root: Root) -> bool:
        """Whether the chain carries payloads already, up to a block."""
        state = store.block_states[root]
        is_upgraded = isinstance(state, BeaconState)
        return is_upgraded and self.rules.is_merge_transition_complete(state)

    def is_execution_block(self, block: BeaconBlock) -> bool:
        """Whether a block carries a payload."""
        empty = self.rules.scope.schema("ExecutionPayload").default()
        body: Body = block.body
        return isinstance(body, BeaconBlockBody) and body.execution_payload != empty

    def verify_merge_block(self, block: BeaconBlock) -> None:
        """Raises an error unless the first payload follows the last block of proof of work."""
        body: Body = block.body
        parent_hash: Hash32 = body.execution_payload.parent_hash
        if any(self.config.TERMINAL_BLOCK_HASH):
            self.verify_terminal_hash(block, parent_hash)
            return
        pow_block = self.get_pow_block(parent_hash)
        parent = self.get_pow_block(pow_block.parent_hash)
        needed = self.config.TERMINAL_TOTAL_DIFFICULTY
        require(
            pow_block.total_difficulty >= needed > parent.total_difficulty,
            lambda: (
                f"The merge's parent has total difficulty {pow_block.total_difficulty}, its own parent "
                f"{parent.total_difficulty}: it isn't the first to reach {needed}."
            ),
        )

    def get_pow_block(self, block_hash: Hash32) -> PowBlock:
        """A block of proof of work. Raises Premature when it isn't known."""
        block = self._get_pow_block(block_hash)
        if block is None:
            raise Premature(f"The block of proof of work {block_hash.hex()} is not known.")
        return block

    def verify_terminal_hash(self, block: BeaconBlock, parent_hash: Hash32) -> None:
        """Raises an error unless the merge is where the network has agreed on."""
        epoch = self.rules.compute_epoch_at_slot(block.slot)
        first, terminal = self.config.TERMINAL_BLOCK_HASH_ACTIVATION_EPOCH, self.config.TERMINAL_BLOCK_HASH
        require(epoch >= first, lambda: f"The merge is in epoch {epoch}, and not allowed before {first}.")
        require(
            parent_hash == terminal,
            lambda: f"The merge follows {parent_hash.hex()}, and was agreed on to follow {terminal.hex()}.",
        )

    # Optimistic sync

    def on_optimistic_block(
        self,
        store: Store,
        signed_block: SignedBeaconBlock,
        status: PayloadStatus,
        latest_valid_hash: Hash32 | None = None,
    ) -> None:
        """Takes a block with what the execution layer says of its payload.

        An invalid payload tells of the block's ancestors too: those after `latest_valid_hash` are invalid,
        and count as absent from then on. Raises InvalidTransition for that block, Premature for one that
        may not be imported before its payload is judged, and as `on_block`.
        """
        block = signed_block.message
        if status is PayloadStatus.INVALID:
            if latest_valid_hash is not None and block.parent_root in store.blocks:
                self.invalidate_after(store, block.parent_root, latest_valid_hash)
            raise InvalidTransition(f"The execution layer refuses the payload of slot {block.slot}.")
        if status is PayloadStatus.SYNCING:
            require_now(
                self.is_optimistic_candidate_block(store, block),
                lambda: f"The payload of slot {block.slot} may make the merge, and is yet to be judged.",
            )
        self.on_block(store, signed_block)
        root = self.rules.hash_tree_root(block)
        if status is PayloadStatus.SYNCING:
            store.optimistic_roots.add(root)
        else:
            self.on_valid_payload(store, root)

    def is_optimistic_candidate_block(self, store: Store, block: BeaconBlock) -> bool:
        """Whether a block may be imported before its payload is judged."""
        parent = store.blocks.get(block.parent_root)
        safe = block.slot + SAFE_SLOTS_TO_IMPORT_OPTIMISTICALLY <= self.get_current_slot(store)
        return safe or (parent is not None and self.is_execution_block(parent))

    def is_optimistic(self, store: Store, root: Root) -> bool:
        """Whether a block's payload is yet to be judged."""
        return root in store.optimistic_roots

    def latest_verified_ancestor(self, store: Store, root: Root) -> Root:
        """The latest block up to `root` whose payload was judged; it is never an invalid one."""
        while self.is_optimistic(store, root) and store.blocks[root].parent_root in store.blocks:
            root = store.blocks[root].parent_root
        return root

    def on_valid_payload(self, store: Store, root: Root) -> None:
        """Takes note that a block's payload is valid, and so are those that it follows."""
        store.optimistic_roots.discard(root)
        while (root := store.blocks[root].parent_root) in store.optimistic_roots:
            store.optimistic_roots.discard(root)

    def invalidate_after(self, store: Store, root: Root, latest_valid_hash: Hash32) -> None:
        """Lets the blocks after a valid payload, up to `root` and what builds on them, count as absent.

        Raises InvalidTransition when the justified block would be among them: then a person must decide.
        """
        chain = []
        while root in store.optimistic_roots and self.get_payload_hash(store, root) != latest_valid_hash:
            chain.append(root)
            root = store.blocks[root].parent_root
        if not chain:
            return
        first = store.tree.places[ForkChoiceNode(chain[-1])]
        if store.tree.is_ancestor(first, self.get_base(store)):
            raise InvalidTransition("The execution layer refuses a payload that the stake has justified.")
        store.tree.invalidate(first)
        store.basis = None

    def get_payload_hash(self, store: Store, root: Root) -> Hash32:
        """The hash of a block's payload."""
        body: Body = store.blocks[root].body
        block_hash: Hash32 = body.execution_payload.block_hash
        return block_hash
