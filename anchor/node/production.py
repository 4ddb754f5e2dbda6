"""Blocks on demand: the committee of one operator makes epochs, each block verified before it counts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from anchor.consensus.bls import Bls
from anchor.consensus.containers.entries import SignedEntry
from anchor.consensus.duties import Keyring, compute_attestations, compute_block
from anchor.node.batches import Made
from anchor.node.chain import Chain
from anchor.node.keys import derive_validator_key

PROPOSED: Final = "proposed"
JUSTIFIED: Final = "justified"
FINALISED: Final = "finalised"


@dataclass(frozen=True, slots=True)
class Step:
    """Something that happened to the chain, for whoever watches."""

    kind: str
    """PROPOSED, JUSTIFIED or FINALISED."""
    slot: int
    """Of the block that was proposed, or that stands at the checkpoint."""
    epoch: int
    root: bytes
    """Of that block."""


Watch = Callable[[Step], None]


def make_keyring(seed: bytes, count: int) -> Keyring:
    """The secret keys of the `count` validators of a committee with this seed."""
    bls = Bls()
    secrets = [derive_validator_key(seed, index) for index in range(count)]
    return Keyring(bls, {bls.sk_to_pk(secret): secret for secret in secrets})


class Producer:
    """Makes blocks upon a chain's head. That no epoch is signed in twice is the caller's to see to."""

    def __init__(self, chain: Chain, keys: Keyring, watch: Watch) -> None:
        # Whoever makes a block need not check its own signatures; `_ledger` does, as for anyone's block.
        self._ledger, self._maker = chain.ledger, chain.trusting_ledger
        self._keys, self._watch = keys, watch
        self.state = chain.get_head().state

    def make_epoch(self, epoch: int, entries: Sequence[SignedEntry], timestamp: int) -> Iterator[Made]:
        """A block for every slot of `epoch`, the first with `entries`; the whole committee votes for each."""
        start = self._ledger.compute_start_slot_at_epoch(epoch)
        for slot in range(start, start + self._ledger.preset.SLOTS_PER_EPOCH):
            made = self._make_block(slot, entries if slot == start else (), timestamp)
            self._watch(Step(PROPOSED, slot, epoch, made.root))
            yield made

    def _make_block(self, slot: int, entries: Sequence[SignedEntry], timestamp: int) -> Made:
        before = self.state
        # Votes are for the slot just before. Where slots were left out, an epoch was reserved and lost, and
        # those votes may have been signed already.
        votes = compute_attestations(self._maker, before, self._keys) if before.slot == slot - 1 else ()
        ahead = before.copy()
        self._maker.process_slots(ahead, slot)
        block, _ = compute_block(self._maker, ahead, self._keys, timestamp, entries, votes)
        self.state = self._ledger.state_transition(before, block)
        return Made(self._ledger.hash_tree_root(block.message), block, self.state)
