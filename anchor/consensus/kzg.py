"""Commitments to blobs (deneb/polynomial-commitments, fulu/polynomial-commitments-sampling), by `ckzg`.

The trusted setup is the public result of the KZG ceremony, as the consensus specifications carry it
(`trusted_setup_4096.json`, CC0), in the text form that `ckzg` reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, NamedTuple

from anchor.errors import InvalidTransition, Unavailable
from anchor.types import KZGCommitment, KZGProof

TRUSTED_SETUP: Final = Path(__file__).parent / "data" / "trusted_setup_4096.txt"
PRECOMPUTE: Final = 0
"""Tables that speed up making proofs, which nobody does here."""


class _Library(NamedTuple):
    """The library with what it needs in every call."""

    functions: Any
    setup: object


def is_installed() -> bool:
    """Whether blobs can be verified."""
    return find_spec("ckzg") is not None


def verify_blob_kzg_proof_batch(
    blobs: Sequence[bytes], commitments: Sequence[KZGCommitment], proofs: Sequence[KZGProof]
) -> bool:
    """Whether every commitment is to its blob. The three are of one length.

    Raises InvalidTransition for bytes that are no blob, commitment or proof, Unavailable without `ckzg`.
    """
    return _call("verify_blob_kzg_proof_batch", b"".join(blobs), b"".join(commitments), b"".join(proofs))


def verify_cell_kzg_proof_batch(
    commitments: Sequence[KZGCommitment],
    indices: Sequence[int],
    cells: Sequence[bytes],
    proofs: Sequence[KZGProof],
) -> bool:
    """Whether each cell stands at its index in the extended blob of its commitment. All are of one length.

    Raises InvalidTransition for bytes that are no commitment, cell or proof, Unavailable without `ckzg`.
    """
    return _call("verify_cell_kzg_proof_batch", list(commitments), list(indices), list(cells), list(proofs))


def _call(name: str, *arguments: object) -> bool:
    library = _load()
    try:
        return bool(getattr(library.functions, name)(*arguments, library.setup))
    except (RuntimeError, ValueError) as error:  # what it raises for points and field elements out of range
        raise InvalidTransition(f"Blobs, cells, commitments or proofs are malformed: {error}.") from None


@cache
def _load() -> _Library:
    try:
        ckzg = import_module("ckzg")
    except ImportError:
        fix = "Install it with: pip install 'anchor-ledger[kzg]'"
        raise Unavailable("Verifying blobs needs the package ckzg.", fix=fix) from None
    return _Library(ckzg, ckzg.load_trusted_setup(str(TRUSTED_SETUP), PRECOMPUTE))
