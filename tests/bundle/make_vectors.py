"""Writes the cases of specs/vectors/bundle anew: python -m tests.bundle.make_vectors

A case is a directory: `bundle.anchor`, and `case.json` with what the reader brings and what comes of it.
Needed only when a record's layout changes, for there is a new BUNDLE_VERSION then.
"""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from anchor.bundle.types import LEDGER_SCOPE, decode_bundle, encode_bundle
from anchor.consensus.containers.phase0 import Checkpoint
from anchor.consensus.text import format_checkpoint, format_identity
from anchor.ml.manifest import encode_manifest
from tests.bundle.chains import Published, make_growing, make_large, make_published
from tests.bundle.conftest import write_original, write_other
from tests.consensus.ledgers import BOB_ROOT, ROOT, identity
from tests.ml.checkpoints import anchor

VECTORS = Path(__file__).parent.parent.parent / "specs" / "vectors" / "bundle"


def write_case(
    name: str, why: str, data: bytes, trusted: Checkpoint, published: Published, /, **changes: Any
) -> None:
    case = {
        "why": why,
        "trusted": format_checkpoint(trusted),
        "now": published.now,
        "model": "acme/tiny",
        "version": "1.0",
        "publisher": format_identity(identity(ROOT)),
        "allow_stale_trust": False,
        "refused": None,
    }
    folder = VECTORS / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "bundle.anchor").write_bytes(data)
    (folder / "case.json").write_text(json.dumps(case | changes, indent=2) + "\n")


def write_good(published: Published, growing: Published) -> None:
    old, new = published.genesis, published.newest
    later = published.now + 10**9
    write_case("older_trust", "votes lead to the newest state", published.older, old, published)
    write_case("newer_trust", "the trusted state itself proves it", published.newer, new, published)
    write_case("growing_set", "two hops over a change of the set", growing.older, growing.genesis, growing)
    write_case("stale_trust", "allowed", published.older, old, published, now=later, allow_stale_trust=True)
    data = published.bundle("evil/tiny", "1.0")
    bob = {"model": "evil/tiny", "publisher": format_identity(identity(BOB_ROOT))}
    write_case("ml_dsa", "two signatures, one of them ML-DSA-65", data, old, published, **bob)


def write_bad(published: Published, growing: Published) -> None:
    old, bundle = published.genesis, decode_bundle(published.older)
    hop = bundle.hops[0]
    few = hop.finalising.replace(votes=hop.finalising.votes[:5])
    swapped = hop.replace(justifying=hop.finalising, finalising=hop.justifying)
    cases: list[tuple[str, str, str, bytes, dict[str, Any]]] = [
        (
            "few_votes_fail",
            "InvalidEvidence",
            "five of eight validators are no two thirds",
            encode_bundle(bundle.replace(hops=(hop.replace(finalising=few),))),
            {},
        ),
        (
            "swapped_links_fail",
            "InvalidEvidence",
            "the votes are of other epochs",
            encode_bundle(bundle.replace(hops=(swapped,))),
            {},
        ),
        (
            "no_hop_fail",
            "InvalidProof",
            "the status is not in the trusted state",
            encode_bundle(bundle.replace(hops=())),
            {},
        ),
        (
            "other_manifest_fail",
            "InvalidEvidence",
            "the manifest of version 1.1",
            encode_bundle(bundle.replace(manifest=encode_manifest(published.other))),
            {},
        ),
        (
            "later_epoch_fail",
            "InvalidEvidence",
            "an old root with a recent epoch",
            published.older,
            {"trusted": format_checkpoint(Checkpoint(epoch=5, root=old.root))},
        ),
        ("stale_trust_fail", "StaleTrust", "too old", published.older, {"now": published.now + 10**9}),
        ("clock_fail", "InvalidEvidence", "evidence from the future", published.older, {"now": 1}),
        ("trojan_fail", "RefusedModel", "another model", published.bundle("evil/tiny", "1.0"), {}),
        (
            "revoked_fail",
            "RefusedModel",
            "a revoked version",
            published.bundle("acme/tiny", "0.9"),
            {"version": "0.9"},
        ),
        (
            "revoked_keys_fail",
            "RefusedModel",
            "keys that were revoked from the publication on",
            published.bundle("lost/tiny", "1.0"),
            {"model": None, "version": None, "publisher": None},
        ),
        ("cut_fail", "MalformedBundle", "half of a file", published.older[: len(published.older) // 2], {}),
    ]
    for name, refused, why, data, changes in cases:
        write_case(name, why, data, old, published, refused=refused, **changes)
    grown = decode_bundle(growing.older)
    skipped = encode_bundle(grown.replace(hops=grown.hops[1:]))
    why = "the second hop's registry is not the trusted state's"
    write_case("skipped_hop_fail", why, skipped, growing.genesis, growing, refused="InvalidProof")


def write_large(large: Published) -> None:
    old, bundle = large.genesis, decode_bundle(large.older)
    write_case("large_network", "a sync committee stands for 513 validators", large.older, old, large)
    [update] = bundle.updates
    bare = update.replace(
        finalized_header=LEDGER_SCOPE.schema("LightClientHeader").default(),
        finality_branch=(bytes(32),) * len(update.finality_branch),
    )
    for name, why, changes in (
        ("optimistic_fail", "the update makes nothing final", {"updates": (bare,)}),
        ("repeated_update_fail", "the update makes nothing new final", {"updates": (update, update)}),
        ("no_committee_fail", "nobody is known who could sign", {"committee": ()}),
    ):
        data = encode_bundle(bundle.replace(**changes))
        write_case(name, why, data, old, large, refused="InvalidEvidence")


def main() -> None:
    with TemporaryDirectory() as folder:
        original, other = anchor(write_original(Path(folder) / "a")), anchor(write_other(Path(folder) / "b"))
    published, growing = make_published(original, other), make_growing(original, other)
    write_good(published, growing)
    write_bad(published, growing)
    write_large(make_large(original, other))


if __name__ == "__main__":
    main()
