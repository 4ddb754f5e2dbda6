"""Finality shown by votes (Casper FFG): step 5 of the verifier (specs/04-bundle §4; rule 19)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from typing import NamedTuple

from anchor.bundle.types import Hop, Link, Vote, registry_root, root_of, state_index
from anchor.consensus.bls import Bls
from anchor.consensus.containers.phase0 import (
    AttestationData,
    BeaconBlockHeader,
    Checkpoint,
    Fork,
    Validator,
)
from anchor.consensus.hardcoded import Table, get_newest_checkpoint
from anchor.consensus.presets import LEDGER
from anchor.consensus.signing import compute_domain, compute_signing_root
from anchor.errors import InvalidEvidence, InvalidSignature
from anchor.merkle.proof import verify_merkle_branch
from anchor.params import DOMAIN_BEACON_ATTESTER


class Chain(NamedTuple):
    """What binds a signature to one fork of one network, proven from the trusted state."""

    network_id: bytes
    fork: Fork

    def get_version(self, epoch: int) -> bytes:
        """The fork version that holds in `epoch`."""
        is_before = epoch < self.fork.epoch
        return self.fork.previous_version if is_before else self.fork.current_version


class Place(NamedTuple):
    """A finalised block, and the checkpoint that it is."""

    checkpoint: Checkpoint
    header: BeaconBlockHeader


class Tally(NamedTuple):
    """Who voted for a link, of those who could."""

    epoch: int
    """Of the target."""
    voters: int
    validators: int
    stake: int
    """Gwei of the voters."""
    total_stake: int
    """Gwei of all that were active."""

    @property
    def share(self) -> float:
        """Percent of the stake."""
        return 100 * self.stake / self.total_stake


class Seats(NamedTuple):
    """Who signed an update. Seats are drawn by stake, some keys more than once: they are no share of it."""

    epoch: int
    """Of the block that they signed."""
    signed: int
    seats: int
    keys: int
    """Distinct ones of those that signed."""


@cache
def signatures() -> Bls:
    """The signature scheme; it keeps the keys that it has parsed."""
    return Bls()


def compute_checkpoint_epoch(slot: int) -> int:
    """The first epoch whose checkpoint a block of `slot` can be: it starts at that slot, or next after it."""
    return -(-slot // LEDGER.SLOTS_PER_EPOCH)


def find_passed_by(way: Sequence[Place], table: Table) -> Checkpoint | None:
    """The checkpoint in the code that a branch must prove, as the way does not hold it (rule 22).

    None where there is none. The network's identity stands for its genesis.
    """
    newest = get_newest_checkpoint(table, way[-1].checkpoint.epoch)
    if newest is None or newest.root in [place.checkpoint.root for place in way]:
        return None
    return None if newest.epoch == 0 < way[0].checkpoint.epoch else newest


def verify_hops(
    start: Place, hops: Sequence[Hop], chain: Chain
) -> tuple[tuple[Place, ...], tuple[Tally, ...]]:
    """Every finalised block on the way, `start` first, and the votes that led there.

    Raises InvalidProof for a registry that is not the one before the hop, InvalidEvidence for votes that are
    too few or lead elsewhere, InvalidSignature.
    """
    way, tallies = [start], list[Tally]()
    for hop in hops:
        _verify_registry(hop, way[-1])
        place = _verify_progress(hop, way[-1])
        after = Checkpoint(epoch=hop.epoch + 1, root=hop.next_root)
        for link, source, target in (
            (hop.justifying, hop.source, place.checkpoint),
            (hop.finalising, place.checkpoint, after),
        ):
            tallies.append(count_votes(link.votes, target.epoch, hop.registry))
            _verify_signature(link, source, target, hop.registry, chain)
        way.append(place)
    return tuple(way), tuple(tallies)


def _verify_registry(hop: Hop, before: Place) -> None:
    root, index = registry_root(hop.registry), state_index("validators")
    verify_merkle_branch(root, hop.registry_branch, index, before.header.state_root, "the registry")


def _verify_progress(hop: Hop, before: Place) -> Place:
    """The checkpoint that `hop` makes final: later than `before`, and from a source that is not."""
    last, slot = before.checkpoint, hop.header.slot
    if hop.epoch <= last.epoch or slot <= before.header.slot or compute_checkpoint_epoch(slot) > hop.epoch:
        raise InvalidEvidence(
            f"A hop leads from epoch {last.epoch}, slot {before.header.slot}, "
            f"to epoch {hop.epoch}, slot {slot}."
        )
    # Nobody votes honestly from a source before what is final, nor from another one of the same epoch.
    is_genesis = hop.source.epoch == last.epoch == 0 and not any(hop.source.root)
    is_rival = hop.source.epoch == last.epoch and hop.source.root != last.root and not is_genesis
    if is_rival or not last.epoch <= hop.source.epoch < hop.epoch:
        raise InvalidEvidence(
            f"A hop's votes start from epoch {hop.source.epoch}, root 0x{hop.source.root.hex()}, "
            f"which does not follow from epoch {last.epoch}, root 0x{last.root.hex()}."
        )
    return Place(Checkpoint(epoch=hop.epoch, root=root_of(hop.header)), hop.header)


def count_votes(votes: Sequence[Vote], epoch: int, registry: Sequence[Validator]) -> Tally:
    """Counts each active, unslashed validator once, in votes whose target is of `epoch`. There is one way to
    list the same votes: strictly ascending, none that adds nobody.

    Raises InvalidEvidence for less than two thirds of the active stake.
    """
    able, counted = get_able(registry, epoch), 0
    for vote in votes:
        _require_place(vote, epoch, len(registry))
        added = int.from_bytes(vote.participants.data, "little") & able & ~counted
        if not added:
            raise InvalidEvidence(f"A vote of slot {vote.slot} adds no validator to those before it.")
        counted |= added
    for before, after in pairwise([(v.slot, v.index, v.beacon_block_root) for v in votes]):
        if before >= after:
            raise InvalidEvidence(f"The votes of epoch {epoch} are not in strictly ascending order.")
    tally = _add_up(epoch, counted, registry)
    if not tally.stake or 3 * tally.stake < 2 * tally.total_stake:
        raise InvalidEvidence(
            f"The votes of epoch {epoch} come from {tally.voters} of {tally.validators} validators, with "
            f"{tally.stake} of {tally.total_stake} Gwei: less than two thirds."
        )
    return tally


def get_able(registry: Sequence[Validator], epoch: int) -> int:
    """A bit for each validator whose votes count in `epoch`: active and not slashed."""
    return sum([1 << i for i, v in enumerate(registry) if _is_active(v, epoch) and not v.slashed])


def _is_active(validator: Validator, epoch: int) -> bool:
    return validator.activation_epoch <= epoch < validator.exit_epoch


def _add_up(epoch: int, counted: int, registry: Sequence[Validator]) -> Tally:
    active = [(i, v.effective_balance) for i, v in enumerate(registry) if _is_active(v, epoch)]
    stake = sum([balance for i, balance in active if counted >> i & 1])
    return Tally(epoch, counted.bit_count(), len(active), stake, sum([balance for _, balance in active]))


def _require_place(vote: Vote, epoch: int, validators: int) -> None:
    if vote.slot // LEDGER.SLOTS_PER_EPOCH != epoch:
        raise InvalidEvidence(f"A vote of slot {vote.slot} does not belong to epoch {epoch}.")
    if len(vote.participants) != validators:
        raise InvalidEvidence(
            f"A vote has {len(vote.participants)} bits, and the registry {validators} validators."
        )


def _verify_signature(
    link: Link, source: Checkpoint, target: Checkpoint, registry: Sequence[Validator], chain: Chain
) -> None:
    """Raises InvalidSignature unless all participants of a link signed their votes.

    One sum of signatures over many messages is sound for keys that were proven to be possessed (rule 23), and
    the registry of a ledger admits no others.
    """
    version = chain.get_version(target.epoch)
    domain = compute_domain(DOMAIN_BEACON_ATTESTER, version, chain.network_id)
    keys, messages = [], []
    for vote in link.votes:
        data = AttestationData(
            slot=vote.slot,
            index=vote.index,
            beacon_block_root=vote.beacon_block_root,
            source=source,
            target=target,
        )
        messages.append(compute_signing_root(root_of(data), domain))
        voters = [registry[i].pubkey for i in vote.participants.get_set_indices()]
        keys.append(signatures().eth_aggregate_pubkeys(voters))
    if not signatures().aggregate_verify(keys, messages, link.signature):
        raise InvalidSignature(f"The votes of epoch {target.epoch} are not signed by their participants.")
