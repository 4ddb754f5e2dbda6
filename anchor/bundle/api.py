"""`anchor.verify` and `anchor.open_verified`: files and clock around the pure verifiers."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from anchor.bundle.evidence import Evidence, Expectations
from anchor.bundle.trust import Trust, resolve_trust
from anchor.bundle.types import MAX_BUNDLE_BYTES
from anchor.bundle.verdict import Verdict
from anchor.bundle.verify import verify_bundle
from anchor.consensus.entries import require_model, require_version
from anchor.consensus.text import encode_name, format_identity, parse_identity, parse_stage
from anchor.errors import Invalid, InvalidEntry, Misuse, Unavailable, Unsafe
from anchor.files import open_regular, told_plainly
from anchor.ml.leaves import Progress
from anchor.ml.verify import bytes_to_hash, check_files

if TYPE_CHECKING:
    from anchor.ml.load import VerifiedModel

StrPath = str | os.PathLike[str]
BUNDLE_NAME = "model.anchor"
"""A bundle's name in the folder of its model."""


def verify(
    path: StrPath,
    bundle: StrPath | None = None,
    trust: Trust | str = "",
    *,
    model: str | None = None,
    version: str | None = None,
    publisher: str | None = None,
    only: Sequence[str] = (),
    require_stage: str | None = None,
    max_age: int | None = None,
    allow_stale_trust: bool = False,
    progress: Callable[[int], Progress] = lambda _: lambda _: None,
    now: int | None = None,
) -> Verdict:
    """Checks the model at `path` (a file or a folder) against its bundle, offline.

    `bundle` is a file; None for the one beside the model. `trust` must be given: `root:epoch`, or a name in
    the user's trust store. `model` is `organisation/name`, `publisher` the root key, `ed25519:…`; where the
    trust pins the organisation's publisher, it need not be said. `only` checks a part, by patterns of tensors
    and files. `max_age` is in seconds. `progress` is told how many bytes there are to hash, and gives what is
    told of each step. `now` is the Unix time; None for the machine's.

    Raises Misuse, Unavailable, MalformedBundle. All else is in the verdict, which is true only for a model
    that is just the one expected, whole and unqualified.
    """
    trust = resolve_trust(trust) if isinstance(trust, str) else trust
    expected = _expect(trust, model, version, publisher, require_stage, max_age, allow_stale_trust)
    file = locate_bundle(path, bundle)
    try:
        evidence = _read_evidence(file, trust, expected, now)
        advance = progress(bytes_to_hash(evidence.manifest, only))
        files = check_files(path, evidence.manifest, only=only, bundle=file, progress=advance)
    except (Invalid, Unsafe) as error:
        return Verdict(trust, expected, None, None, error)
    return Verdict(trust, expected, evidence, files)


def open_verified(
    path: StrPath,
    bundle: StrPath | None = None,
    trust: Trust | str = "",
    *,
    model: str,
    version: str | None = None,
    publisher: str | None = None,
    component: str = "",
    allow_stale_trust: bool = False,
    now: int | None = None,
) -> VerifiedModel:
    """Opens the model at `path` for loading, in the shape of `safetensors.safe_open`; arguments as `verify`.

    Tensors are verified as they are loaded, in memory that nothing else can change (rule 24).

    Raises whatever speaks against the bundle or the model: there is no verdict to look at.
    """
    from anchor.ml.load import open_verified as open_files

    trust = resolve_trust(trust) if isinstance(trust, str) else trust
    expected = _expect(trust, model, version, publisher, None, None, allow_stale_trust)
    if not expected.states_identity:
        raise Misuse(f"Nothing says who may publish {model}.", fix="Give publisher, or pin it in your trust.")
    file = locate_bundle(path, bundle)
    return open_files(path, _read_evidence(file, trust, expected, now).manifest, component=component)


def find_bundle(path: StrPath) -> Path:
    """A bundle's place beside its model: `model.anchor` in a folder, `FILE.anchor` beside a file."""
    given = Path(path)
    return given / BUNDLE_NAME if given.is_dir() else given.with_name(f"{given.name}.anchor")


def locate_bundle(path: StrPath, bundle: StrPath | None) -> Path:
    """The bundle that is given, or the place beside the model. Raises Unavailable where there is no model."""
    if bundle is not None:
        return Path(bundle)
    with told_plainly(Path(path), "read"):
        is_there = Path(path).exists()
    if not is_there:
        raise Unavailable(f"There is no model at {str(path)!r}.", fix="Give a file or a folder.")
    return find_bundle(path)


def read_bundle(file: Path) -> bytes:
    """The bytes of a bundle; of a longer file, enough to see that it is too long. Raises Unavailable."""
    if not file.exists():
        fix = "Name it with --bundle, or make one: anchor bundle --help"
        raise Unavailable(f"There is no bundle {file}.", fix=fix)
    with open_regular(file) as handle:
        return handle.read(MAX_BUNDLE_BYTES + 1)


def _read_evidence(file: Path, trust: Trust, expected: Expectations, now: int | None) -> Evidence:
    now = int(time.time()) if now is None else now
    return verify_bundle(read_bundle(file), trust.checkpoint, expected, now=now)


def _expect(
    trust: Trust,
    model: str | None,
    version: str | None,
    publisher: str | None,
    stage: str | None,
    max_age: int | None,
    allow_stale_trust: bool,
) -> Expectations:
    """What was stated, in words, as the verifier takes it. Raises Misuse."""
    name, at, given = (model or "").partition("@")
    if at and version not in (None, given):
        raise Misuse(f"Both version {given!r} and version {version!r} were asked for.")
    version = given if at else version
    _require_names(name, version)
    return Expectations(
        model=name or None,
        version=version,
        publisher=_find_publisher(trust, name, publisher),
        network_id=trust.network_id,
        stage=None if stage is None else parse_stage(stage),
        max_age=max_age,
        accepts_stale_trust=allow_stale_trust,
    )


def _require_names(model: str, version: str | None) -> None:
    try:
        if model:
            require_model(encode_name(model))
        if version is not None:
            require_version(encode_name(version))
    except InvalidEntry as error:
        raise Misuse(error.what, fix="Write organisation/name, or organisation/name@version.") from None


def _find_publisher(trust: Trust, model: str, publisher: str | None) -> bytes | None:
    """The key that was given, or that the trust pins for the model's organisation (rule 1)."""
    pinned = trust.publishers.get(model.partition("/")[0])
    stated = None if publisher is None else parse_identity(publisher)
    if pinned and stated and pinned != stated:
        raise Misuse(
            f"You give {publisher} as the publisher of {model}, and {trust.name!r} of your trust store pins "
            f"{format_identity(pinned)}.",
            fix="Leave --publisher out, or correct the trust store.",
        )
    return stated or pinned
