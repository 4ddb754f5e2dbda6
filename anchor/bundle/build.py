"""Makes the bundle of a published version for a trusted checkpoint, older or newer (specs/04-bundle §6).

Nothing here is trusted: whoever makes a bundle, its verifier checks all of it.
"""

from __future__ import annotations

from collections.abc import Sequence

from anchor.bundle.finality import Place, compute_checkpoint_epoch, find_passed_by
from anchor.bundle.hops import build_hops
from anchor.bundle.types import (
    BUNDLE_VERSION,
    LEDGER_SCOPE,
    TRUSTED_PATHS,
    Bundle,
    Hop,
    Status,
    TrustedBlock,
    encode_bundle,
    state_index,
    status_paths,
)
from anchor.bundle.updates import build_committee, build_updates
from anchor.bundle.view import LedgerView
from anchor.consensus.containers.altair import LightClientUpdate
from anchor.consensus.containers.ledger import BeaconState
from anchor.consensus.containers.phase0 import BeaconBlockHeader, Checkpoint
from anchor.consensus.hardcoded import TABLES, Table, get_newest_checkpoint, get_table
from anchor.consensus.presets import LEDGER
from anchor.consensus.text import encode_name, format_checkpoint
from anchor.errors import Misuse, NoSuchRecord
from anchor.merkle.proof import build_multiproof, build_proof


def build_bundle(
    view: LedgerView, model: str, version: str, trusted: Checkpoint, *, tables: Sequence[Table] = TABLES
) -> bytes:
    """The bundle of `model`'s `version` that leads from `trusted` to the newest state that can be shown.

    Raises Misuse for an epoch that is not the trusted block's, NoSuchRecord for a checkpoint that is not
    final here or a version that is not published in a final state, Unavailable for votes that are not known.
    """
    start = _get_trusted(view, trusted)
    way = [start]
    hops, updates, goals = list[Hop](), list[LightClientUpdate](), _get_goals(view, start, tables)
    for goal in goals:
        for hop in build_hops(view, way[-1], goal):
            hops.append(hop)
            way.append(Place(view.get_checkpoint(hop.epoch), hop.header))
    before = way[-1]
    for place, found in build_updates(view, before, goals):
        updates.extend(found)
        way.append(place)
    status = _build_status(view, way[-1], model, version)
    bundle = Bundle(
        version=BUNDLE_VERSION,
        publication=view.get_signed_entry(status.version.entry),
        manifest=view.get_manifest(status.version.manifest_root),
        trusted=build_trusted_block(start.header, view.get_state(start.checkpoint.root)),
        hardcoded_branch=_build_hardcoded_branch(view, way, tables),
        hops=tuple(hops),
        committee=(build_committee(view, before),) if updates else (),
        updates=tuple(updates),
        status=status,
    )
    return encode_bundle(bundle)


def _get_trusted(view: LedgerView, trusted: Checkpoint) -> Place:
    header = view.get_header(trusted.root)
    epoch = compute_checkpoint_epoch(header.slot)
    if epoch != trusted.epoch:
        named = Checkpoint(epoch=epoch, root=trusted.root)
        raise Misuse(
            f"The block of that checkpoint stands at slot {header.slot}, which is epoch {epoch}.",
            fix=f"Write {format_checkpoint(named)}.",
        )
    newest = view.get_finalized_checkpoint()
    if epoch > newest.epoch or view.get_checkpoint(epoch).root != trusted.root:
        raise NoSuchRecord(
            f"{format_checkpoint(trusted)} is not final on this ledger.",
            fix=f"The newest checkpoint that is: {format_checkpoint(newest)}.",
        )
    return Place(trusted, header)


def _get_goals(view: LedgerView, start: Place, tables: Sequence[Table]) -> list[int]:
    """Epochs to reach: a hardcoded checkpoint's on the way, and the newest final one's."""
    newest = view.get_finalized_checkpoint().epoch
    required = get_newest_checkpoint(_get_table(view, start, tables), newest)
    return [goal for goal in ((required.epoch if required else 0), newest) if goal > start.checkpoint.epoch]


def _get_table(view: LedgerView, place: Place, tables: Sequence[Table]) -> Table:
    return get_table(view.get_state(place.checkpoint.root).genesis_validators_root, tables)


def _build_hardcoded_branch(
    view: LedgerView, way: Sequence[Place], tables: Sequence[Table]
) -> tuple[bytes, ...]:
    """Empty where no checkpoint in the code needs to be shown, or it cannot be."""
    required = find_passed_by(way, _get_table(view, way[0], tables))
    if required is None:
        return ()
    place = required.epoch * LEDGER.SLOTS_PER_EPOCH % LEDGER.SLOTS_PER_HISTORICAL_ROOT
    tree = LEDGER_SCOPE.schema("BeaconState").tree(view.get_state(way[0].checkpoint.root))
    return build_proof(tree, state_index("block_roots", place))


def build_trusted_block(header: BeaconBlockHeader, state: BeaconState) -> TrustedBlock:
    """A block, and what the state that it leads to says of its network, clock and age, with the proof."""
    tree = LEDGER_SCOPE.schema("BeaconState").tree(state)
    return TrustedBlock(
        header=header,
        genesis_validators_root=state.genesis_validators_root,
        fork=state.fork,
        timestamp=state.timestamp,
        network=state.network,
        proof=build_multiproof(tree, [state_index(*path) for path in TRUSTED_PATHS]),
    )


def _build_status(view: LedgerView, newest: Place, model: str, version: str) -> Status:
    state = view.get_state(newest.checkpoint.root)
    position = _find_version(state, newest, model, version)
    leaf = state.versions[position]
    paths = status_paths(position, leaf.publisher, leaf.entry)
    tree = LEDGER_SCOPE.schema("BeaconState").tree(state)
    return Status(
        position=position,
        version=leaf,
        publisher=state.publishers[leaf.publisher],
        timestamp=state.timestamp,
        entry_count=len(state.entries),
        publisher_count=len(state.publishers),
        version_count=len(state.versions),
        proof=build_multiproof(tree, [state_index(*path) for path in paths]),
    )


def _find_version(state: BeaconState, newest: Place, model: str, version: str) -> int:
    wanted = (encode_name(model), encode_name(version))
    for position, leaf in enumerate(state.versions):
        if (leaf.model, leaf.version) == wanted:
            return position
    raise NoSuchRecord(
        f"{model}@{version} is not in the newest state that the ledger can show to be final, of epoch "
        f"{newest.checkpoint.epoch}.",
        fix="Check the name, or wait until its block is final: anchor status",
    )
