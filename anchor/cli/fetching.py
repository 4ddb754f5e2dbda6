"""A newer bundle from a node, put beside its model once what it proves holds. The node need not be trusted.

A node may hide what happened since: so a bundle that is here is replaced only by one whose evidence is newer,
and one that proves the version revoked is the end of it, whatever is here.
"""

from __future__ import annotations

import time
from pathlib import Path

from anchor.bundle.api import locate_bundle, read_bundle
from anchor.bundle.evidence import Evidence, Expectations
from anchor.bundle.trust import Trust
from anchor.bundle.types import decode_bundle
from anchor.bundle.verify import verify_bundle
from anchor.chain.nodes import fetch_bundle
from anchor.cli.output import Terminal, printable
from anchor.errors import Invalid, Malformed, Misuse, RefusedModel
from anchor.files import write_over


def fetch_newer(
    url: str,
    path: str,
    bundle: str | None,
    trust: Trust,
    model: str | None,
    terminal: Terminal,
    *,
    allow_stale_trust: bool,
) -> Path:
    """Fetches the bundle of `model`, ORG/NAME@VERSION; returns the newest that is there then.

    Raises Misuse without a version, RefusedModel for one that is revoked, Unavailable as the node does, or
    without a model, Malformed or Invalid for what proves nothing, where no other bundle is here.
    """
    place = locate_bundle(path, bundle)
    name, at, version = (model or "").partition("@")
    if not (at and version and "/" in name):
        raise Misuse("--url needs to know the version.", fix="Write --model ORG/NAME@VERSION.")
    expected = Expectations(
        model=name, version=version, network_id=trust.network_id, accepts_stale_trust=allow_stale_trust
    )
    data = fetch_bundle(url, name, version, trust.checkpoint)
    own = _read_own(place, trust, expected)
    try:
        fresh = verify_bundle(data, trust.checkpoint, expected, now=int(time.time()))
    except (Invalid, Malformed) as error:
        is_its_end = isinstance(error, RefusedModel) and _is_of(data, name, version)
        if own is None or is_its_end:
            raise
        terminal.note(f"The bundle of {printable(url)} is not used: {printable(error.what)}")
        return place
    if own is None or own.newest.epoch < fresh.newest.epoch:
        write_over(place, data)
        terminal.note(f"Wrote {printable(str(place))}, of epoch {fresh.newest.epoch}, from {printable(url)}.")
    return place


def _is_of(data: bytes, model: str, version: str) -> bool:
    """Whether a bundle, whose status is proven, is of that version."""
    leaf = decode_bundle(data).status.version
    return (leaf.model, leaf.version) == (model.encode(), version.encode())


def _read_own(place: Path, trust: Trust, expected: Expectations) -> Evidence | None:
    """What the bundle that is here proves; None where there is none, or it proves nothing."""
    if not place.exists():
        return None
    try:
        return verify_bundle(read_bundle(place), trust.checkpoint, expected, now=int(time.time()))
    except (Invalid, Malformed):
        return None
