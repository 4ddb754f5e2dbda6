"""Looking things up in the ledger's part of a state, and what an entry is judged against."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from anchor.consensus.containers.ledger import Administrator, Model, ModelVersion, Publisher
from anchor.consensus.text import format_identity
from anchor.errors import InvalidEntry
from anchor.types import Root

if TYPE_CHECKING:
    from anchor.consensus.forks.altair import Altair

T = TypeVar("T")
State = Any
"""A BeaconState of the ledger."""


@dataclass(frozen=True, slots=True)
class Context:
    """What an entry's body is judged against, and then applied to."""

    fork: Altair
    state: State
    author: int
    """Index among the administrators, or the publishers."""
    position: int
    """That the entry has, or will have, in the state's list of entries."""

    @property
    def publisher(self) -> Publisher:
        """The author of what publishers say."""
        return self.state.publishers[self.author]  # type: ignore[no-any-return]


def find_administrator(state: State, identity: bytes) -> int | None:
    """The index of the administrator with this key, or None."""
    administrators: tuple[Administrator, ...] = state.administrators
    return next((i for i, known in enumerate(administrators) if known.key == identity), None)


def find_publisher(state: State, identity: bytes) -> int | None:
    """The index of the publisher with this root key, or None."""
    publishers: tuple[Publisher, ...] = state.publishers
    return next((i for i, known in enumerate(publishers) if known.root_key == identity), None)


def find_owner(state: State, organisation: bytes) -> int | None:
    """The index of the publisher that claimed `organisation`, or None."""
    return next((known.publisher for known in state.organisations if known.name == organisation), None)


def find_model(state: State, name: bytes) -> int | None:
    """The index of the model with this name, or None."""
    models: tuple[Model, ...] = state.models
    return next((i for i, known in enumerate(models) if known.name == name), None)


def find_version(state: State, model: bytes, version: bytes) -> int | None:
    """The index of this version of this model, or None."""
    versions: tuple[ModelVersion, ...] = state.versions
    return next((i for i, v in enumerate(versions) if v.version == version and v.model == model), None)


def get_version_index(state: State, model: bytes, version: bytes, manifest_root: Root) -> int:
    """The index of a version. Raises InvalidEntry: there is none, of this manifest, or it is revoked."""
    index, name = find_version(state, model, version), describe(model, version)
    if index is None:
        raise InvalidEntry(f"There is no version {name} on this ledger.")
    known: ModelVersion = state.versions[index]
    if known.manifest_root != manifest_root:
        raise InvalidEntry(
            f"{name} has manifest 0x{known.manifest_root.hex()}, and the entry names 0x{manifest_root.hex()}."
        )
    if known.revoked:
        raise InvalidEntry(f"{name} is revoked, for good.")
    return index


def require_owner(context: Context, organisation: bytes) -> None:
    """Raises InvalidEntry unless the author has claimed `organisation` (rule 15)."""
    owner = find_owner(context.state, organisation)
    if owner is None:
        raise InvalidEntry(
            f"Nobody has claimed the organisation {organisation.decode()!r}.",
            fix="Claim it first; anchor publish does.",
        )
    if owner != context.author:
        own, other = context.publisher.root_key, context.state.publishers[owner].root_key
        raise InvalidEntry(
            f"The organisation {organisation.decode()!r} is {format_identity(other)}'s, and the entry is by "
            f"{format_identity(own)}.",
            fix="Sign with the owner's key, or choose another organisation.",
        )


def require_room(count: int, limit: int, what: str) -> None:
    """Raises InvalidEntry when there is no room for one more."""
    if count >= limit:
        raise InvalidEntry(f"There are {count} {what}, and there can be no more than {limit}.")


def replace_at(values: tuple[T, ...], index: int, value: T) -> tuple[T, ...]:
    """`values` with another one at `index`."""
    return (*values[:index], value, *values[index + 1 :])


def describe(model: bytes, version: bytes) -> str:
    """A version's name, for messages."""
    return ascii(f"{model.decode('latin-1')}@{version.decode('latin-1')}")
