"""The verifier of bundles: bytes in, evidence out. No file, no clock, no network (specs/04-bundle §3).

All of this must hold; the code below carries the numbers.

1. `data` is the one encoding of a bundle of a version that we know, within bounds.
2. The first block is the trusted one: its root is the one given, and the epoch given is the first whose
   checkpoint it can be.
3. Its state proves the network's identity, fork and parameters, and when the block was made; the network
   is the one that the user expects, if any.
4. The block is not from the future, nor older than the weak-subjectivity period, unless the user takes
   it all the same.
5. Each hop starts from the registry in the state of the block before, and makes a later block final by
   two successive links, each signed by validators with two thirds of the active stake. From a registry too
   large for that, updates lead on, each signed by two thirds of the sync committee's seats.
6. The newest hardcoded checkpoint that the evidence reaches lies on its way.
7. The newest state, which is not from the future either, proves the version's status, its publisher, and
   the publication's entry, at positions below the lists' proven lengths.
8. The entry publishes just the model, version and manifest of the status, by that publisher.
9. It is signed by exactly the keys that the publisher had at its position, none of them revoked there.
10. The version is not revoked.
11. Model, version and publisher are those that the user expects, where stated.
12. The stage is the one required, as of a time that is recent enough.
13. The manifest is the published one, and holds to its own rules.
"""

from __future__ import annotations

from collections.abc import Sequence

from anchor.bundle.evidence import Evidence, Expectations
from anchor.bundle.finality import (
    Chain,
    Place,
    Seats,
    Tally,
    compute_checkpoint_epoch,
    find_passed_by,
    verify_hops,
)
from anchor.bundle.types import (
    TRUSTED_PATHS,
    Bundle,
    Status,
    TrustedBlock,
    decode_bundle,
    root_of,
    state_index,
    status_paths,
)
from anchor.consensus.containers.entries import Publish
from anchor.consensus.containers.phase0 import BeaconBlockHeader, Checkpoint
from anchor.consensus.entries import (
    get_key_set,
    require_model,
    require_version,
    verify_entry_signatures,
    verify_schema_version,
)
from anchor.consensus.hardcoded import TABLES, Table, get_table
from anchor.consensus.presets import LEDGER
from anchor.consensus.text import (
    format_checkpoint,
    format_duration,
    format_identity,
    format_time,
    get_stage_name,
)
from anchor.consensus.weak_subjectivity import compute_expiry_by_timestamp
from anchor.errors import (
    InvalidEvidence,
    InvalidProof,
    MalformedBundle,
    MalformedSSZ,
    RefusedModel,
    StaleTrust,
)
from anchor.merkle.proof import compute_multi_merkle_root, verify_merkle_branch
from anchor.ml.manifest import Manifest, decode_manifest, manifest_root
from anchor.ml.rules import verify_manifest
from anchor.params import MAX_ENTRY_ROOTS, MAX_PUBLISHERS, MAX_VERSIONS

CLOCK_SKEW = 600
"""Seconds that a proven time may lie ahead of the reader's clock."""


def verify_bundle(
    data: bytes, trusted: Checkpoint, expected: Expectations, *, now: int, tables: Sequence[Table] = TABLES
) -> Evidence:
    """What `data` proves to someone who trusts `trusted`, at the Unix time `now`.

    Raises MalformedBundle (1, 13), InvalidEvidence and InvalidProof (2, 3, 5 to 8, 13), StaleTrust (4),
    InvalidUpdate (5), InvalidSignature (5, 9), InvalidEntry (8), RefusedModel (9 to 12), InvalidManifest
    and Unsafe (13).
    """
    bundle = decode_bundle(data)  # 1
    start = _verify_trusted_block(bundle.trusted, trusted)  # 2
    chain = verify_trusted_state(bundle.trusted, expected.network_id)  # 3
    is_stale = verify_age(bundle.trusted, expected.accepts_stale_trust, now)  # 4
    way, tallies, seats = _verify_finality(bundle, start, chain)  # 5
    _verify_hardcoded(bundle, way, get_table(chain.network_id, tables))  # 6
    _verify_status(bundle, way[-1].header, now)  # 7
    _verify_publication(bundle)  # 8
    schemes = _verify_signatures(bundle, chain)  # 9
    status = bundle.status
    _verify_identity(status, expected)  # 10, 11
    _verify_stage(status, expected, now)  # 12
    manifest = _verify_manifest(bundle)  # 13
    return Evidence(
        trusted=trusted,
        trusted_time=bundle.trusted.timestamp,
        is_stale=is_stale,
        newest=way[-1].checkpoint,
        newest_time=status.timestamp,
        tallies=tallies,
        seats=seats,
        network_id=chain.network_id,
        model=status.version.model.decode(),
        version=status.version.version.decode(),
        publisher=status.publisher.root_key,
        entry=status.version.entry,
        signed_by=schemes,
        stage=status.version.stage,
        manifest=manifest,
    )


def _verify_trusted_block(block: TrustedBlock, trusted: Checkpoint) -> Place:
    """Step 2. Without the epoch's check, an old root could be passed off as a recent one (rule 21)."""
    root, epoch = root_of(block.header), compute_checkpoint_epoch(block.header.slot)
    if root != trusted.root:
        raise InvalidEvidence(
            f"The bundle starts at block 0x{root.hex()}, and you trust 0x{trusted.root.hex()}.",
            fix=f"Make one that starts there: anchor bundle MODEL@VERSION --for {format_checkpoint(trusted)}",
        )
    if epoch != trusted.epoch:
        raise InvalidEvidence(
            f"The trusted block's slot is {block.header.slot}: its epoch is {epoch}, not {trusted.epoch}.",
            fix="Ask whoever gave you the checkpoint; a false epoch hides how old it is.",
        )
    return Place(trusted, block.header)


def verify_trusted_state(block: TrustedBlock, network_id: bytes | None) -> Chain:
    """Step 3: what the state of the trusted block says of its network."""
    leaves = [
        block.genesis_validators_root,
        root_of(block.fork),
        _uint64_leaf(block.timestamp),
        root_of(block.network),
    ]
    indices = [state_index(*path) for path in TRUSTED_PATHS]
    _require_root(compute_multi_merkle_root(leaves, block.proof, indices), block.header, "the trusted block")
    if network_id is not None and network_id != block.genesis_validators_root:
        raise InvalidEvidence(
            f"The trusted block belongs to network 0x{block.genesis_validators_root.hex()}, "
            f"and you expect 0x{network_id.hex()}.",
            fix="Check which network the checkpoint is of.",
        )
    return Chain(block.genesis_validators_root, block.fork)


def verify_age(block: TrustedBlock, accepts_stale: bool, now: int) -> bool:
    """Step 4 (rule 21). True for a stale block that the user accepts.

    A block's timestamp is its slot's own time where slots pass by the wall clock, and where they pass when
    blocks are made, it is all that tells its age.
    """
    _require_past(block.timestamp, now)
    network = block.network
    expiry = compute_expiry_by_timestamp(
        block.timestamp, network.weak_subjectivity_period, network.seconds_per_slot, LEDGER.SLOTS_PER_EPOCH
    )
    if now >= expiry and not accepts_stale:
        raise StaleTrust(
            f"The trusted block is {format_duration(now - block.timestamp)} old, and the network's "
            f"weak-subjectivity period is {format_duration(expiry - block.timestamp)}: who has left since "
            "could forge what follows.",
            fix="Get a newer checkpoint from a source that you trust, or say --allow-stale-trust.",
        )
    return now >= expiry


def _verify_finality(
    bundle: Bundle, start: Place, chain: Chain
) -> tuple[tuple[Place, ...], tuple[Tally, ...], tuple[Seats, ...]]:
    """Step 5 (rules 19, 20): votes lead while validators are few enough, a sync committee from there."""
    voted, tallies = verify_hops(start, bundle.hops, chain)
    if not bundle.committee and not bundle.updates:
        return voted, tallies, ()
    from anchor.bundle.seats import verify_updates

    signed, seats = verify_updates(voted[-1], bundle.committee, bundle.updates, chain)
    return voted + signed, tallies, seats


def _verify_hardcoded(bundle: Bundle, way: tuple[Place, ...], table: Table) -> None:
    """Step 6 (rule 22). The branch is there just where it is needed (rule 27)."""
    required = find_passed_by(way, table)
    if required is None:
        if bundle.hardcoded_branch:
            raise InvalidEvidence("The bundle brings a branch of a hardcoded checkpoint that is not needed.")
        return
    start, slot = way[0].header, required.epoch * LEDGER.SLOTS_PER_EPOCH
    if not slot < start.slot <= slot + LEDGER.SLOTS_PER_HISTORICAL_ROOT:
        raise InvalidEvidence(
            f"The evidence passes epoch {required.epoch} by, whose checkpoint this program knows.",
            fix=f"Make the bundle for 0x{required.root.hex()}:{required.epoch}.",
        )
    index = state_index("block_roots", slot % LEDGER.SLOTS_PER_HISTORICAL_ROOT)
    what = f"the hardcoded checkpoint of epoch {required.epoch}"
    verify_merkle_branch(required.root, bundle.hardcoded_branch, index, start.state_root, what)


def _verify_status(bundle: Bundle, newest: BeaconBlockHeader, now: int) -> None:
    """Step 7 (rule 8)."""
    status, version = bundle.status, bundle.status.version
    for what, position, count, limit in (
        ("entry", version.entry, status.entry_count, MAX_ENTRY_ROOTS),
        ("publisher", version.publisher, status.publisher_count, MAX_PUBLISHERS),
        ("version", status.position, status.version_count, MAX_VERSIONS),
    ):
        if position >= min(count, limit):
            raise InvalidProof(f"The bundle's {what} stands at position {position}, of {count}.")
    leaves = [
        _uint64_leaf(status.timestamp),
        _uint64_leaf(status.entry_count),
        _uint64_leaf(status.publisher_count),
        _uint64_leaf(status.version_count),
        root_of(bundle.publication),
        root_of(status.publisher),
        root_of(version),
    ]
    paths = status_paths(status.position, version.publisher, version.entry)
    indices = [state_index(*path) for path in paths]
    _require_root(compute_multi_merkle_root(leaves, status.proof, indices), newest, "the newest block")
    _require_past(status.timestamp, now)


def _verify_publication(bundle: Bundle) -> None:
    """Step 8. The ledger's rules imply it, and nothing here rests on their having been kept."""
    entry, status = bundle.publication.entry, bundle.status
    verify_schema_version(entry)
    version = status.version
    said = Publish(model=version.model, version=version.version, manifest_root=version.manifest_root)
    if entry.body.data != said or entry.author != status.publisher.root_key:
        raise InvalidEvidence(f"Entry {version.entry} is not the publication that the status speaks of.")
    require_model(version.model)
    require_version(version.version)


def _verify_signatures(bundle: Bundle, chain: Chain) -> tuple[int, ...]:
    """Step 9 (rules 14, 15): the schemes of the keys that signed."""
    publication, version = bundle.publication, bundle.status.version
    keys = get_key_set(bundle.status.publisher, version.entry)
    if keys is None:
        raise RefusedModel(
            f"{version.model.decode()}@{version.version.decode()} was published in entry {version.entry}, "
            "and its publisher has revoked the keys that signed it there.",
            fix="Use another version.",
        )
    verify_entry_signatures(publication, keys.keys, chain.fork.current_version, chain.network_id)
    return tuple([key.scheme for key in keys.keys])


def _verify_identity(status: Status, expected: Expectations) -> None:
    """Steps 10 and 11 (rules 1, 2)."""
    model, version = status.version.model.decode(), status.version.version.decode()
    if status.version.revoked:
        when = format_time(status.timestamp)
        raise RefusedModel(
            f"{model}@{version} was revoked by its publisher (as of {when}).", fix="Use another version."
        )
    if expected.model not in (None, model):
        raise RefusedModel(f"The bundle is of {model}@{version}, not of {expected.model}.")
    if expected.version not in (None, version):
        raise RefusedModel(f"The bundle is of {model}@{version}, not of version {expected.version}.")
    if expected.publisher is not None and expected.publisher != status.publisher.root_key:
        raise RefusedModel(
            f"{model}@{version} was published by {format_identity(status.publisher.root_key)}, "
            f"and you expect {format_identity(expected.publisher)}.",
            fix="Do not use it, unless you know that key to be the publisher's.",
        )


def _verify_stage(status: Status, expected: Expectations, now: int) -> None:
    """Step 12 (rule 2)."""
    age = now - status.timestamp
    model, version = status.version.model.decode(), status.version.version.decode()
    if expected.max_age is not None and age > expected.max_age:
        raise RefusedModel(
            f"The status in the bundle is {format_duration(age)} old, and you accept "
            f"{format_duration(expected.max_age)}.",
            fix=f"Get a fresh one: anchor bundle {model}@{version} --for root:epoch",
        )
    stage = status.version.stage
    if expected.stage is not None and expected.stage != stage:
        have, want = get_stage_name(stage), get_stage_name(expected.stage)
        raise RefusedModel(f"The version's stage is {have}, and you require {want}.")


def _verify_manifest(bundle: Bundle) -> Manifest:
    """Step 13."""
    try:
        manifest = decode_manifest(bundle.manifest)
    except MalformedSSZ as error:
        what = f"The bundle's manifest cannot be read: {error.what}"
        raise MalformedBundle(what, fix="Fetch it again.") from None
    root, published = manifest_root(manifest), bundle.status.version.manifest_root
    if root != published:
        raise InvalidEvidence(
            f"The bundle's manifest has root 0x{root.hex()}, and the published one 0x{published.hex()}.",
            fix="Get the bundle of this version.",
        )
    verify_manifest(manifest)
    return manifest


def _require_past(timestamp: int, now: int) -> None:
    if timestamp > now + CLOCK_SKEW:
        raise InvalidEvidence(
            f"The evidence is {timestamp - now} seconds ahead of this machine's clock.",
            fix="Set the clock: without it, nothing can be said of a checkpoint's age.",
        )


def _uint64_leaf(value: int) -> bytes:
    return value.to_bytes(32, "little")


def _require_root(root: bytes, header: BeaconBlockHeader, what: str) -> None:
    if root != header.state_root:
        raise InvalidProof(
            f"What the bundle says of {what} leads to state root 0x{root.hex()}, "
            f"not to 0x{header.state_root.hex()}.",
            fix="Get a fresh bundle from the publisher or a node.",
        )
