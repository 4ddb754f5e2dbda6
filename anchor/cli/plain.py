"""Parts of a ledger's state and entries as plain values: what --json prints, and words are made from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from anchor.consensus.containers.entries import Key, KeySet, Policy
    from anchor.consensus.containers.ledger import ModelVersion
    from anchor.node.chain import State


def show_keys(keys: Sequence[Key]) -> list[dict[str, Any]]:
    """Public keys that sign together."""
    from anchor.consensus.schemes import SCHEME_NAMES

    return [{"scheme": SCHEME_NAMES[key.scheme], "public_key": key.public_key} for key in keys]


def describe_keys(keys: Sequence[dict[str, Any]]) -> str:
    """Such keys in a few words: the first digits of the first, and their schemes."""
    return f"0x{keys[0]['public_key'].hex()[:16]}… {' and '.join([key['scheme'] for key in keys])}"


def show_publisher(state: State, index: int) -> dict[str, Any]:
    """A publisher, its organisations, and its sets of signing keys, oldest first."""
    from anchor.consensus.text import format_identity

    publisher = state.publishers[index]
    return {
        "publisher": format_identity(publisher.root_key),
        "organisations": [known.name.decode() for known in state.organisations if known.publisher == index],
        "revoked_from": _show_end(publisher.revoked_from),
        "key_sets": [_show_key_set(keys) for keys in publisher.key_sets],
    }


def _show_key_set(keys: KeySet) -> dict[str, Any]:
    return {
        "keys": show_keys(keys.keys),
        "valid_from": keys.valid_from,
        "valid_until": _show_end(keys.valid_until),
    }


def _show_end(position: int) -> int | None:
    """A position that may never come."""
    from anchor.params import FAR_FUTURE_POSITION

    return None if position == FAR_FUTURE_POSITION else position


def show_policy(policy: Policy) -> dict[str, Any]:
    """Who must approve, and how many of them."""
    from anchor.consensus.text import format_identity

    return {
        "approvers": [format_identity(key) for key in policy.approvers],
        "approvals_needed": policy.threshold,
    }


def show_approvals(state: State, version: ModelVersion) -> dict[str, Any]:
    """How far the next move up of a version is approved."""
    from anchor.consensus.forks.ledger.models import get_approvals, get_missing_approvers, get_policy
    from anchor.consensus.text import format_identity

    given = [state.publishers[approval.approver].root_key for approval in get_approvals(state, version)]
    return {
        "approved_by": [format_identity(key) for key in given],
        "not_yet_by": [format_identity(key) for key in get_missing_approvers(state, version)],
        "approvals_needed": get_policy(state, version.model).threshold,
    }


def keys_count(state: State, version: ModelVersion) -> bool:
    """Whether the keys that published a version still count there: else it does not verify."""
    from anchor.consensus.entries import get_key_set

    return get_key_set(state.publishers[version.publisher], version.entry) is not None
