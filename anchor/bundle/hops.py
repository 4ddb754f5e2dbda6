"""Finds the votes that lead from a trusted checkpoint to a newer one (specs/04-bundle §5)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from anchor.bundle.finality import Link, Place, count_votes, get_able, signatures
from anchor.bundle.types import (
    LEDGER_SCOPE,
    MAX_HOPS,
    MAX_VALIDATORS,
    Hop,
    Vote,
    state_index,
)
from anchor.bundle.view import LedgerView
from anchor.consensus.containers.phase0 import AttestationData, Checkpoint, IndexedAttestation, Validator
from anchor.errors import InvalidEvidence, Unavailable
from anchor.merkle.bits import Bits
from anchor.merkle.proof import build_proof


def build_hops(view: LedgerView, start: Place, epoch: int) -> Iterator[Hop]:
    """The fewest hops from `start` to the newest checkpoint, up to that of `epoch`, that votes can show."""
    place = start
    for _ in range(MAX_HOPS):
        hop = _find_hop(view, place, epoch)
        if hop is None:
            return
        yield hop
        place = Place(view.get_checkpoint(hop.epoch), hop.header)


def _find_hop(view: LedgerView, before: Place, epoch: int) -> Hop | None:
    """The longest hop from `before`: longer ones fail where the set of validators has changed since."""
    state = view.get_state(before.checkpoint.root)
    if len(state.validators) > MAX_VALIDATORS:
        raise Unavailable(
            f"The network has {len(state.validators)} validators, and votes show up to {MAX_VALIDATORS}."
        )
    registry = tuple(state.validators)
    tree = LEDGER_SCOPE.schema("BeaconState").tree(state)
    for target in range(epoch, before.checkpoint.epoch, -1):
        links = _find_links(view, before, view.get_checkpoint(target), registry)
        header = view.get_header(view.get_checkpoint(target).root)
        if links and header.slot > before.header.slot:
            (source, justifying), (after, finalising) = links
            return Hop(
                registry=registry,
                registry_branch=build_proof(tree, state_index("validators")),
                source=source,
                epoch=target,
                header=header,
                next_root=after.root,
                justifying=justifying,
                finalising=finalising,
            )
    return None


Shown = tuple[Checkpoint, tuple[Vote, ...]]
"""A link's other checkpoint, and the votes for it."""


def _find_links(
    view: LedgerView, before: Place, middle: Checkpoint, registry: Sequence[Validator]
) -> tuple[Shown, Shown] | None:
    """Two successive supermajority links, to `middle` and from it; None when votes show no such."""
    finalising = [a for a in view.get_attestations(middle.epoch + 1) if a.data.source == middle]
    after = _find_supermajority(finalising, registry)
    if after is None:
        return None
    justifying = [
        a
        for a in view.get_attestations(middle.epoch)
        if a.data.target == middle and a.data.source.epoch >= before.checkpoint.epoch
    ]
    towards = _find_supermajority(justifying, registry)
    if towards is None:
        return None
    return (towards[0].source, towards[1]), (after[0].target, after[1])


def _find_supermajority(
    attestations: Iterable[IndexedAttestation], registry: Sequence[Validator]
) -> tuple[Link, tuple[Vote, ...]] | None:
    """The link for which two thirds of `registry` voted, and their votes."""
    by_link: dict[Link, list[IndexedAttestation]] = defaultdict(list)
    for attestation in attestations:
        if max(attestation.attesting_indices) < len(registry):  # a newer validator's key is not proven here
            by_link[Link(attestation.data.source, attestation.data.target)].append(attestation)
    for link, voted in by_link.items():
        votes = choose_votes(voted, len(registry), get_able(registry, link.target.epoch))
        try:
            count_votes(votes, link, registry)
        except InvalidEvidence:
            continue
        return link, votes
    return None


def choose_votes(attestations: Iterable[IndexedAttestation], validators: int, able: int) -> tuple[Vote, ...]:
    """One vote for each thing said, in order, none that adds nobody to those before it.

    `able` has a bit for each validator that counts (`get_able`).
    """
    by_data: dict[AttestationData, list[IndexedAttestation]] = defaultdict(list)
    for attestation in attestations:
        by_data[attestation.data].append(attestation)
    votes = [_merge(data, alike, validators) for data, alike in by_data.items()]
    votes.sort(key=lambda vote: (vote.slot, vote.index, vote.beacon_block_root))
    chosen = []
    for vote in votes:
        voters = int.from_bytes(vote.participants.data, "little") & able
        if voters:
            chosen.append(vote)
        able &= ~voters
    return tuple(chosen)


def _merge(data: AttestationData, alike: Sequence[IndexedAttestation], validators: int) -> Vote:
    """One vote of as many of `alike` as share no signer, the largest first."""
    signers: set[int] = set()
    parts = []
    for attestation in sorted(alike, key=lambda a: -len(a.attesting_indices)):
        if signers.isdisjoint(attestation.attesting_indices):
            signers.update(attestation.attesting_indices)
            parts.append(attestation.signature)
    return Vote(
        slot=data.slot,
        index=data.index,
        beacon_block_root=data.beacon_block_root,
        participants=Bits([i in signers for i in range(validators)]),
        signature=parts[0] if len(parts) == 1 else signatures().aggregate(parts),
    )
