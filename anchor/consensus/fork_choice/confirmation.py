"""The fast confirmation rule: which block stays, if votes arrive in their slot (phase0/fast-confirmation).

It only reads the fork choice's store. What it assumes beside synchrony is that at most
CONFIRMATION_BYZANTINE_THRESHOLD per cent of the stake misbehave.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from anchor.consensus.containers.phase0 import Checkpoint
from anchor.consensus.fork_choice.store import Store
from anchor.consensus.fork_choice.support import Support
from anchor.consensus.fork_choice.tree import ForkChoiceNode
from anchor.consensus.forks.phase0.base import State
from anchor.types import Epoch, Hash32, Root, Slot


@dataclass
class FastConfirmationStore:
    """The specification's store; what validators weigh is kept beside the checkpoints that tell it."""

    store: Store
    """Only read."""
    confirmed_root: Root
    previous_epoch_observed_justified_checkpoint: Checkpoint
    """Justified in the view of all honest nodes when the previous epoch began."""
    current_epoch_observed_justified_checkpoint: Checkpoint
    """Likewise, when this epoch began."""
    previous_epoch_greatest_unrealized_checkpoint: Checkpoint
    """The latest that blocks had justified when the last slot of the previous epoch began."""
    previous_slot_head: Root
    current_slot_head: Root
    previous_balance_source: State
    """The state of the checkpoint of the previous epoch, which the store may have forgotten."""
    current_balance_source: State
    """The state of the checkpoint of this epoch."""


class FastConfirmation(Support):
    """The rule, over the fork choice of any fork."""

    def get_fast_confirmation_store(self, store: Store) -> FastConfirmationStore:
        """A store that confirms what the fork choice's trusts."""
        trusted = store.finalized_checkpoint
        state = self.choice.get_checkpoint_state(store, trusted)
        return FastConfirmationStore(
            store=store,
            confirmed_root=trusted.root,
            previous_epoch_observed_justified_checkpoint=trusted,
            current_epoch_observed_justified_checkpoint=trusted,
            previous_epoch_greatest_unrealized_checkpoint=trusted,
            previous_slot_head=trusted.root,
            current_slot_head=trusted.root,
            previous_balance_source=state,
            current_balance_source=state,
        )

    def on_fast_confirmation(self, fcr_store: FastConfirmationStore) -> None:
        """Confirms what can be. To be called once a slot, before its attestations are due."""
        self.update_fast_confirmation_variables(fcr_store)
        fcr_store.confirmed_root = self.get_latest_confirmed(fcr_store)

    def update_fast_confirmation_variables(self, fcr_store: FastConfirmationStore) -> None:
        """Notes the head, and at an epoch's ends what is justified."""
        store = fcr_store.store
        slot = self.choice.get_current_slot(store)
        fcr_store.previous_slot_head = fcr_store.current_slot_head
        fcr_store.current_slot_head = self.choice.get_head(store).root
        if self.is_start_slot_at_epoch(slot + 1):
            fcr_store.previous_epoch_greatest_unrealized_checkpoint = store.unrealized_justified_checkpoint
        if self.is_start_slot_at_epoch(slot):
            observed = fcr_store.previous_epoch_greatest_unrealized_checkpoint
            current = fcr_store.current_epoch_observed_justified_checkpoint
            fcr_store.previous_epoch_observed_justified_checkpoint = current
            fcr_store.previous_balance_source = fcr_store.current_balance_source
            fcr_store.current_epoch_observed_justified_checkpoint = observed
            if observed != current:
                fcr_store.current_balance_source = self.choice.get_checkpoint_state(store, observed)

    # Blocks

    def is_start_slot_at_epoch(self, slot: Slot) -> bool:
        """Whether an epoch begins with `slot`."""
        return self.rules.compute_start_slot_at_epoch(self.rules.compute_epoch_at_slot(slot)) == slot

    def is_epoch_start(self, store: Store) -> bool:
        """Whether an epoch begins with the current slot."""
        return self.is_start_slot_at_epoch(self.choice.get_current_slot(store))

    def get_block_epoch(self, store: Store, root: Root) -> Epoch:
        """The epoch of a block."""
        return self.rules.compute_epoch_at_slot(store.blocks[root].slot)

    def is_ancestor(self, store: Store, root: Root, ancestor: Root) -> bool:
        """Whether a block is `ancestor`, or descends from it."""
        return self.choice.is_ancestor(store, ForkChoiceNode(root), ForkChoiceNode(ancestor))

    def get_ancestor_roots(self, store: Store, root: Root, terminal_root: Root) -> list[Root]:
        """The blocks after `terminal_root` up to `root`; none when it is not in that chain."""
        roots = list[Root]()
        while root != terminal_root and root in store.blocks:
            roots.append(root)
            root = store.blocks[root].parent_root
        return roots[::-1] if root == terminal_root else []

    def get_safe_execution_block_hash(self, fcr_store: FastConfirmationStore) -> Hash32:
        """The newest payload that is confirmed (since bellatrix); of gloas, the parent's of the block."""
        body: Any = fcr_store.store.blocks[fcr_store.confirmed_root].body
        if "signed_execution_payload_bid" in body.fields:
            block_hash: Hash32 = body.signed_execution_payload_bid.message.parent_block_hash
        else:
            block_hash = body.execution_payload.block_hash
        return block_hash

    # The rule

    def get_latest_confirmed(self, fcr_store: FastConfirmationStore) -> Root:
        """The newest block that is confirmed, as things stand."""
        store, epoch = fcr_store.store, self.choice.get_current_store_epoch(fcr_store.store)
        confirmed = fcr_store.confirmed_root
        if not self.is_still_confirmed(fcr_store):
            confirmed = store.finalized_checkpoint.root
        observed = fcr_store.current_epoch_observed_justified_checkpoint
        if (
            self.is_epoch_start(store)
            and observed.root in store.blocks
            and self.get_block_epoch(store, observed.root) + 1 == epoch
            and observed == store.unrealized_justifications[self.choice.get_head(store).root]
            and store.blocks[confirmed].slot < store.blocks[observed.root].slot
        ):
            confirmed = observed.root
        if self.get_block_epoch(store, confirmed) + 1 >= epoch:
            return self.find_latest_confirmed_descendant(fcr_store, confirmed)
        return confirmed

    def is_still_confirmed(self, fcr_store: FastConfirmationStore) -> bool:
        """Whether the confirmed block is recent and canonical, and at an epoch's start confirmed anew."""
        store, confirmed = fcr_store.store, fcr_store.confirmed_root
        return (
            confirmed in store.blocks
            and self.get_block_epoch(store, confirmed) + 1 >= self.choice.get_current_store_epoch(store)
            and self.is_ancestor(store, self.choice.get_head(store).root, confirmed)
            and (not self.is_epoch_start(store) or self.is_confirmed_chain_safe(fcr_store, confirmed))
        )

    def is_confirmed_chain_safe(self, fcr_store: FastConfirmationStore, confirmed_root: Root) -> bool:
        """Whether all blocks from the observed checkpoint to the confirmed one are safe once more."""
        store, observed = fcr_store.store, fcr_store.current_epoch_observed_justified_checkpoint
        epoch = self.choice.get_current_store_epoch(store)
        if observed.root != self.choice.get_checkpoint_block(store, confirmed_root, observed.epoch):
            return False
        start = observed.root
        if observed.epoch + 1 < epoch:  # what is safe in the previous epoch vouches for all before
            start = self.choice.get_checkpoint_block(store, confirmed_root, epoch - 1)
            if self.get_block_epoch(store, start) + 1 == epoch:
                start = store.blocks[start].parent_root
        roots = self.get_ancestor_roots(store, confirmed_root, start)
        return all(self.is_one_confirmed(store, fcr_store.previous_balance_source, root) for root in roots)

    def find_latest_confirmed_descendant(
        self, fcr_store: FastConfirmationStore, latest_confirmed_root: Root
    ) -> Root:
        """The newest block after a confirmed one, of this epoch or the previous, that is confirmed too."""
        store, confirmed = fcr_store.store, latest_confirmed_root
        head, epoch = self.choice.get_head(store).root, self.choice.get_current_store_epoch(store)
        if self.can_confirm_previous_epoch(fcr_store, confirmed):
            confirmed = self.find_in_previous_epoch(fcr_store, confirmed)
        if not self.is_epoch_start(store) and store.unrealized_justifications[head].epoch + 1 < epoch:
            return confirmed
        tentative = self.find_in_current_epoch(fcr_store, confirmed)
        will_stay = self.get_block_epoch(store, tentative) == epoch or (
            self.choice.get_voting_source(store, tentative).epoch + 2 >= epoch
            and (self.is_epoch_start(store) or self.will_no_conflicting_checkpoint_be_justified(store))
        )
        return tentative if will_stay else confirmed

    def can_confirm_previous_epoch(self, fcr_store: FastConfirmationStore, confirmed: Root) -> bool:
        """Whether blocks of the previous epoch will not be filtered out, in this epoch and the next."""
        store, before = fcr_store.store, fcr_store.previous_slot_head
        epoch = self.choice.get_current_store_epoch(store)
        if before not in store.blocks or self.get_block_epoch(store, confirmed) + 1 != epoch:
            return False
        if self.choice.get_voting_source(store, before).epoch + 2 < epoch:
            return False
        heads = before, self.choice.get_head(store).root
        return self.is_epoch_start(store) or (
            self.will_no_conflicting_checkpoint_be_justified(store)
            and any(store.unrealized_justifications[root].epoch + 1 >= epoch for root in heads)
        )

    def find_in_previous_epoch(self, fcr_store: FastConfirmationStore, confirmed: Root) -> Root:
        """The last block of the previous epoch up to which all are safe, and seen a slot ago."""
        store, epoch = fcr_store.store, self.choice.get_current_store_epoch(fcr_store.store)
        for root in self.get_ancestor_roots(store, self.choice.get_head(store).root, confirmed):
            if (
                self.get_block_epoch(store, root) == epoch
                or not self.is_ancestor(store, fcr_store.previous_slot_head, root)
                or not self.is_one_confirmed(store, fcr_store.current_balance_source, root)
            ):
                break
            confirmed = root
        return confirmed

    def find_in_current_epoch(self, fcr_store: FastConfirmationStore, confirmed: Root) -> Root:
        """The last block up to which all are safe; of this epoch only if its target will be justified."""
        store = fcr_store.store
        for root in self.get_ancestor_roots(store, self.choice.get_head(store).root, confirmed):
            is_first = self.get_block_epoch(store, root) > self.get_block_epoch(store, confirmed)
            if is_first and not self.will_current_target_be_justified(store):
                break
            if not self.is_one_confirmed(store, fcr_store.current_balance_source, root):
                break
            confirmed = root
        return confirmed

    # After a restart

    def get_restart_resilient_confirmed_root(
        self, fcr_store: FastConfirmationStore, root_before_restart: Root
    ) -> Root:
        """What is confirmed by now, or what was before a restart where that is newer, and still holds.

        Safe after three epochs of synchrony, once `on_fast_confirmation` was called on a synced store.
        """
        store, confirmed = fcr_store.store, fcr_store.confirmed_root
        if root_before_restart not in store.blocks:
            return confirmed
        slot = store.blocks[root_before_restart].slot
        next_epoch = self.rules.compute_epoch_at_slot(slot + self.rules.preset.SLOTS_PER_EPOCH - 1)
        is_due = next_epoch + 2 <= self.choice.get_current_store_epoch(store)  # to be final
        if slot <= store.blocks[confirmed].slot or is_due:
            return confirmed
        head = self.choice.get_head(store).root
        return root_before_restart if self.is_ancestor(store, head, root_before_restart) else confirmed
