"""Finds the votes that lead from a trusted checkpoint to a newer one (specs/04-bundle §6)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from anchor.bundle.finality import Place, count_votes, get_able, signatures
from anchor.bundle.types import (
    LEDGER_SCOPE,
    MAX_HOPS,
    MAX_VALIDATORS,
    Hop,
    Link,
    Vote,
    state_index,
)
from anchor.bundle.view import LedgerView
from anchor.consensus.containers.phase0 import AttestationData, Checkpoint, IndexedAttestation, Validator
from anchor.errors import InvalidEvidence
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
        return None
    registry = tuple(state.validators)
    tree = LEDGER_SCOPE.schema("BeaconState").tree(state)
    for target in range(epoch, before.checkpoint.epoch, -1):
        links = _find_links(view, before, view.get_checkpoint(target), registry)
        header = view.get_header(view.get_checkpoint(target).root)
        if links and header.slot > before.header.slot:
            (towards, justifying), (onwards, finalising) = links
            return Hop(
                registry=registry,
                registry_branch=build_proof(tree, state_index("validators")),
                source=towards.source,
                epoch=target,
                header=header,
                next_root=onwards.target.root,
                justifying=justifying,
                finalising=finalising,
            )
    return None


Shown = tuple[AttestationData, Link]
"""Any of the votes of a link, which tells its checkpoints, and the link."""


def _find_links(
    view: LedgerView, before: Place, middle: Checkpoint, registry: Sequence[Validator]
) -> tuple[Shown, Shown] | None:
    """Two successive supermajority links, to `middle` and from it; None when votes show no such."""
    from_middle = [a for a in view.get_attestations(middle.epoch + 1) if a.data.source == middle]
    finalising = _find_supermajority(from_middle, registry)
    if finalising is None:
        return None
    to_middle = [
        a
        for a in view.get_attestations(middle.epoch)
        if a.data.target == middle and a.data.source.epoch >= before.checkpoint.epoch
    ]
    justifying = _find_supermajority(to_middle, registry)
    return None if justifying is None else (justifying, finalising)


def _find_supermajority(
    attestations: Iterable[IndexedAttestation], registry: Sequence[Validator]
) -> Shown | None:
    """The link for which two thirds of `registry` voted."""
    by_link: dict[tuple[Checkpoint, Checkpoint], list[IndexedAttestation]] = defaultdict(list)
    for attestation in attestations:
        if max(attestation.attesting_indices) < len(registry):  # a newer validator's key is not proven here
            by_link[attestation.data.source, attestation.data.target].append(attestation)
    for (_, target), voted in by_link.items():
        link = _build_link(voted, len(registry), get_able(registry, target.epoch))
        try:
            count_votes(link.votes, target.epoch, registry)
        except InvalidEvidence:
            continue
        return voted[0].data, link
    return None


def _build_link(attestations: Iterable[IndexedAttestation], validators: int, able: int) -> Link:
    """One vote for each thing said, in order, none that adds nobody to those before it.

    `able` has a bit for each validator that counts (`get_able`).
    """
    by_data: dict[AttestationData, list[IndexedAttestation]] = defaultdict(list)
    for attestation in attestations:
        by_data[attestation.data].append(attestation)
    votes, parts = [], []
    for data in sorted(by_data, key=lambda data: (data.slot, data.index, data.beacon_block_root)):
        participants, signed = _join(by_data[data], validators)
        voters = int.from_bytes(participants.data, "little") & able
        if voters:
            votes.append(
                Vote(
                    slot=data.slot,
                    index=data.index,
                    beacon_block_root=data.beacon_block_root,
                    participants=participants,
                )
            )
            parts.extend(signed)
        able &= ~voters
    return Link(votes=tuple(votes), signature=signatures().aggregate(parts) if parts else bytes(96))


def _join(alike: Sequence[IndexedAttestation], validators: int) -> tuple[Bits, list[bytes]]:
    """The signers of as many of `alike` as share none, the largest first, and their signatures."""
    signers: set[int] = set()
    parts = []
    for attestation in sorted(alike, key=lambda a: -len(a.attesting_indices)):
        if signers.isdisjoint(attestation.attesting_indices):
            signers.update(attestation.attesting_indices)
            parts.append(attestation.signature)
    return Bits([i in signers for i in range(validators)]), parts
