"""What a full node collects for light clients while blocks come and heads change (light-client/full-node).

Of every block that is not final yet only what light clients may ask for is kept: neither it nor its state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from anchor.consensus.fork_epochs import get_fork_epoch
from anchor.consensus.forks.phase0 import Phase0
from anchor.consensus.light_client.derive import Deriver
from anchor.consensus.light_client.headers import Forms, Header
from anchor.consensus.light_client.store import (
    MIN_SYNC_COMMITTEE_PARTICIPANTS,
    Bootstrap,
    Update,
    get_finalized,
    is_better_update,
)
from anchor.consensus.presets import Config, Preset
from anchor.errors import Misuse
from anchor.merkle.scope import hash_tree_root
from anchor.types import Root, Slot

Block = Any
"""A SignedBeaconBlock of any fork."""
State = Any
"""A BeaconState of any fork."""

MAX_BLOCKS: Final = 8192
"""Blocks kept that are not final: more than a day of mainnet's. Then those that came first are forgotten."""


@dataclass(frozen=True, slots=True)
class _Known:
    """What is kept of a block."""

    parent_root: Root
    bootstrap: Bootstrap
    """For when the block becomes a final checkpoint's."""
    unsigned: Update
    """What a child's sync aggregate would attest."""
    finalized_root: Root
    finalized: Header | None
    """Of the block with that root, in the form of its own fork, where it is known."""
    best: Update | None = None
    """Of the block's period, on the branch that ends here."""
    latest: Update | None = None
    """The one that was signed last, on the branch that ends here."""

    @property
    def slot(self) -> Slot:
        return self.bootstrap.header.beacon.slot  # type: ignore[no-any-return]


class Collector:
    """Bootstraps of final checkpoints, the best update of each period, and the latest updates.

    A client of the protocol finds what it needs as far back as MIN_EPOCHS_FOR_BLOCK_REQUESTS; older data
    is dropped. A collector starts with any block and its state: the genesis, or what a node starts from.
    """

    def __init__(self, preset: Preset, config: Config, get_fork_at_slot: Callable[[Slot], Phase0]) -> None:
        self._forms, self._get_fork_at_slot = Forms(preset, config), get_fork_at_slot
        self._start = get_fork_epoch(config, "altair") * preset.SLOTS_PER_EPOCH
        self._kept_slots = preset.SLOTS_PER_EPOCH * (
            config.MIN_VALIDATOR_WITHDRAWABILITY_DELAY + config.CHURN_LIMIT_QUOTIENT // 2
        )
        self._known: dict[Root, _Known] = {}
        self._bootstraps: dict[Root, Bootstrap] = {}
        self._best_updates: dict[int, Update] = {}
        self._latest: Update | None = None

    def on_block(self, block: Block, state: State) -> None:
        """A valid block, and the state that it leads to. Raises Misuse for another state."""
        message = block.message
        if message.slot < self._start:
            return
        if self._get_fork_at_slot(message.slot).hash_tree_root(state) != message.state_root:
            raise Misuse(f"The state is not the one that the block of slot {message.slot} leads to.")
        deriver = self._derive_at(message.slot)
        header = deriver.block_to_light_client_header(block)
        root, parent = hash_tree_root(header.beacon), self._known.get(message.parent_root)
        finalized_root = state.finalized_checkpoint.root
        finalized = self._find_finalized(finalized_root, parent, header)
        best, latest = (None, None) if parent is None else self._attest(parent, block)
        self._known[root] = _Known(
            parent_root=message.parent_root,
            bootstrap=deriver.create_light_client_bootstrap(header, state),
            unsigned=deriver.create_unsigned_update(header, state, finalized),
            finalized_root=finalized_root,
            finalized=finalized,
            best=best,
            latest=latest,
        )
        if len(self._known) > MAX_BLOCKS:
            del self._known[next(iter(self._known))]

    def _find_finalized(self, root: Root, parent: _Known | None, header: Header) -> Header | None:
        """The header of what is final in a block's state; while nothing is, the genesis block's."""
        if parent is not None and parent.finalized_root == root:
            return parent.finalized
        if root in self._known:
            return self._known[root].bootstrap.header
        return header if header.beacon.slot == 0 else None

    def _attest(self, parent: _Known, block: Block) -> tuple[Update | None, Update | None]:
        """The best and the latest update on the branch that ends with `block`."""
        period, attested = self._forms.compute_sync_committee_period_at_slot, parent.slot
        best = parent.best if period(attested) == period(block.message.slot) else None
        bits = block.message.body.sync_aggregate.sync_committee_bits
        if bits.count_set() < MIN_SYNC_COMMITTEE_PARTICIPANTS:
            return best, parent.latest
        update = self._derive_at(attested).create_light_client_update(parent.unsigned, block)
        if period(attested) != period(block.message.slot):
            return None, update
        is_better = best is None or is_better_update(self._forms, update, best)
        return update if is_better else best, update

    def _derive_at(self, slot: Slot) -> Deriver:
        return Deriver(self._forms, self._get_fork_at_slot(slot).scope)

    def on_head(self, root: Root) -> None:
        """The block with this root is the head now. One that isn't kept changes nothing."""
        branch = list(self._walk(root))
        if not branch:
            return
        head, latest = branch[0], branch[0].latest
        is_newer = latest and hash_tree_root(latest.attested_header.beacon) in self._known
        self._latest = latest if is_newer else None  # than what is final
        period = self._forms.compute_sync_committee_period_at_slot
        ends = {period(known.slot): known.best for known in reversed(branch)}
        lowest, oldest = min(ends), period(max(head.slot - self._kept_slots, 0))
        best = {key: update for key, update in self._best_updates.items() if key < lowest} | ends
        self._best_updates = {key: update for key, update in best.items() if update and key >= oldest}

    def _walk(self, root: Root) -> Iterator[_Known]:
        """The blocks that are kept on the branch that ends with `root`, newest first."""
        while root in self._known:
            known = self._known[root]
            yield known
            root = known.parent_root

    def on_finalized(self, root: Root) -> None:
        """The block with this root is that of the newest final checkpoint. One not kept changes nothing.

        What doesn't descend from it is forgotten, after the bootstraps of the checkpoints up to it are out.
        """
        if root not in self._known:
            return
        oldest = self._known[root].slot - self._kept_slots
        found = self._bootstraps | {hash_tree_root(b.header.beacon): b for b in self._find_checkpoints(root)}
        self._bootstraps = {key: b for key, b in found.items() if b.header.beacon.slot >= oldest}
        kept = {root: self._known[root]}
        for key, known in self._known.items():  # parents come before their children
            if known.parent_root in kept:
                kept[key] = known
        self._known = kept

    def _find_checkpoints(self, root: Root) -> Iterator[Bootstrap]:
        """Of the blocks on the branch of a checkpoint's block, those that an epoch starts with or after."""
        slots, next_slot = self._forms.preset.SLOTS_PER_EPOCH, None
        for known in self._walk(root):
            epoch_start = -(-known.slot // slots) * slots
            if next_slot is None or epoch_start < next_slot:
                yield known.bootstrap
            next_slot = known.slot

    def get_light_client_bootstrap(self, root: Root) -> Bootstrap | None:
        """Where a client starts that trusts the block with this root: one of a final checkpoint."""
        return self._bootstraps.get(root)

    def get_light_client_update(self, period: int) -> Update | None:
        """The best update that was signed in a sync committee period on the head's branch."""
        return self._best_updates.get(period)

    def get_light_client_finality_update(self) -> Update | None:
        """The newest on the head's branch, unless all that is signed there is older than what is final."""
        latest = self._latest
        if latest is None or get_finalized(latest) is None:
            return None
        return self._derive_at(latest.attested_header.beacon.slot).create_light_client_finality_update(latest)

    def get_light_client_optimistic_update(self) -> Update | None:
        """As `get_light_client_finality_update`."""
        latest = self._latest
        if latest is None:
            return None
        slot = latest.attested_header.beacon.slot
        return self._derive_at(slot).create_light_client_optimistic_update(latest)
