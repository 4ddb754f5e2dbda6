"""Questions to the validator registry's columns, answered for all validators at once."""

from __future__ import annotations

from collections.abc import Hashable
from functools import cached_property
from typing import TYPE_CHECKING, Any

from anchor.errors import InvalidTransition
from anchor.merkle.hashing import sha256
from anchor.merkle.lazy import np
from anchor.types import BLSPubkey, Epoch, ValidatorIndex

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from anchor.consensus.containers.phase0 import Validator
    from anchor.merkle.table import Table


class ActiveSet:
    """Who is active in an epoch: `flags` by validator, and their `indices`, ascending."""

    def __init__(self, flags: NDArray[np.bool_]) -> None:
        self.flags = flags
        self.indices = np.flatnonzero(flags)

    @cached_property
    def digest(self) -> bytes:
        """Equal for equal sets: a shuffling depends on this and a seed."""
        return sha256(self.indices.tobytes())


def get_active_flags(validators: Table[Validator], epoch: Epoch) -> NDArray[np.bool_]:
    """(n,): whether each validator is active in `epoch`."""
    flags: NDArray[np.bool_] = validators.column("activation_epoch") <= epoch
    flags &= validators.column("exit_epoch") > epoch
    return flags


def get_set_version(validators: Table[Validator], epoch: Epoch) -> tuple[Hashable, ...]:
    """What the active set of `epoch` depends on."""
    return epoch, validators.version("activation_epoch"), validators.version("exit_epoch")


def get_validator(validators: Table[Validator], index: ValidatorIndex) -> Validator:
    """The validator at `index`. Raises InvalidTransition when there is none."""
    require_validator(validators, index)
    return validators[index]


def require_validator(validators: Table[Any], index: ValidatorIndex) -> None:
    """Raises InvalidTransition unless there is a validator at `index`."""
    if index >= len(validators):
        raise InvalidTransition(f"There is no validator {index}: the registry holds {len(validators)}.")


def find_validator(validators: Table[Validator], pubkey: BLSPubkey) -> ValidatorIndex | None:
    """The index of the first validator with this key, or None."""
    pubkeys = validators.column("pubkey")
    words = np.ascontiguousarray(pubkeys).view("<u8")
    for row in np.flatnonzero(words[:, 0] == int.from_bytes(pubkey[:8], "little")):
        if pubkeys[row].tobytes() == pubkey:
            return int(row)
    return None


def get_pubkeys(validators: Table[Validator], indices: NDArray[np.int64]) -> list[BLSPubkey]:
    """The keys of the validators at `indices`."""
    data = validators.column("pubkey")[indices].tobytes()
    return [data[i : i + 48] for i in range(0, len(data), 48)]
