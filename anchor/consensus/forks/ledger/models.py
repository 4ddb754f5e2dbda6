"""What is published, how it rises, and when it falls (specs/03-ledger §6, rules 1, 2, 13, 15)."""

from __future__ import annotations

from typing import Final

from anchor.consensus.containers.entries import (
    Approve,
    Policy,
    Promote,
    Publish,
    RevokeVersion,
    SetPolicy,
)
from anchor.consensus.containers.ledger import Approval, Model, ModelVersion
from anchor.consensus.entries import get_key_set, get_organisation, require_model, require_version
from anchor.consensus.forks.ledger.accessors import (
    Context,
    State,
    describe,
    find_model,
    find_publisher,
    find_version,
    get_version_index,
    replace_at,
    require_owner,
    require_room,
)
from anchor.consensus.text import format_identity, get_stage_name
from anchor.errors import InvalidEntry
from anchor.params import (
    MAX_MODELS,
    MAX_MODELS_PER_PUBLISHER,
    MAX_VERSIONS,
    STAGE_ARCHIVED,
    STAGE_DEVELOPMENT,
    STAGE_PRODUCTION,
    STAGE_STAGING,
)
from anchor.types import Bytes32

OPEN_POLICY: Final = Policy(approvers=(), threshold=0)
"""Of a model whose publisher has set none: it promotes alone."""
PROMOTIONS: Final = frozenset({(STAGE_DEVELOPMENT, STAGE_STAGING), (STAGE_STAGING, STAGE_PRODUCTION)})
"""Changes of stage that need the policy's approvals."""
WITHDRAWALS: Final = frozenset(
    {
        (STAGE_STAGING, STAGE_DEVELOPMENT),
        (STAGE_PRODUCTION, STAGE_STAGING),
        (STAGE_DEVELOPMENT, STAGE_ARCHIVED),
        (STAGE_STAGING, STAGE_ARCHIVED),
        (STAGE_PRODUCTION, STAGE_ARCHIVED),
    }
)
"""Changes of stage that the publisher makes alone: caution needs nobody's consent. An archive has no exit."""


# Publishing


def verify_publish(context: Context, body: Publish) -> None:
    """Raises InvalidEntry unless the names are ones, the organisation is the author's, the version new."""
    require_model(body.model)
    require_version(body.version)
    require_owner(context, get_organisation(body.model))
    if find_version(context.state, body.model, body.version) is not None:
        raise InvalidEntry(
            f"{describe(body.model, body.version)} is published already.", fix="Choose another version."
        )
    require_room(len(context.state.versions), MAX_VERSIONS, "versions")
    _require_room_for_model(context, body.model)


def apply_publish(context: Context, body: Publish) -> None:
    """Adds a version in development, and its model if that is new."""
    _set_model(context, body.model, None)
    version = ModelVersion(
        model=body.model,
        version=body.version,
        manifest_root=body.manifest_root,
        publisher=context.author,
        entry=context.position,
        stage=STAGE_DEVELOPMENT,
        revoked=False,
        sequence=0,
        approvals=(),
    )
    context.state.versions = (*context.state.versions, version)


def verify_revoke_version(context: Context, body: RevokeVersion) -> None:
    """Raises InvalidEntry unless the version is the author's, of this manifest, and not revoked."""
    require_owner(context, get_organisation(body.model))
    get_version_index(context.state, body.model, body.version, body.manifest_root)


def apply_revoke_version(context: Context, body: RevokeVersion) -> None:
    """Marks the version for good."""
    index = get_version_index(context.state, body.model, body.version, body.manifest_root)
    _set_version(context.state, index, context.state.versions[index].replace(revoked=True))


# Policies


def verify_set_policy(context: Context, body: SetPolicy) -> None:
    """Raises InvalidEntry unless the model may be the author's, and the policy can be met."""
    require_model(body.model)
    require_owner(context, get_organisation(body.model))
    _require_room_for_model(context, body.model)
    approvers, threshold = body.policy.approvers, body.policy.threshold
    if len(set(approvers)) != len(approvers) or threshold > len(approvers):
        raise InvalidEntry(f"{threshold} approvals cannot come from {len(set(approvers))} approvers.")
    for approver in approvers:
        if find_publisher(context.state, approver) is None:
            raise InvalidEntry(
                f"The approver {format_identity(approver)} is no publisher of this ledger.",
                fix="Register it first, with: anchor keys register",
            )


def apply_set_policy(context: Context, body: SetPolicy) -> None:
    """Sets the policy; approvals by those who are no approvers any more stop counting."""
    _set_model(context, body.model, body.policy)


# Stages


def verify_approve(context: Context, body: Approve) -> None:
    """Raises InvalidEntry unless the author may approve this very change, and has not yet."""
    version = _verify_stage_change(context, body)
    if (body.from_stage, body.to_stage) not in PROMOTIONS:
        have, want = get_stage_name(body.from_stage), get_stage_name(body.to_stage)
        raise InvalidEntry(f"A change from {have} to {want} needs no approval.")
    author = context.publisher.root_key
    if author not in get_policy(context.state, body.model).approvers:
        raise InvalidEntry(
            f"{format_identity(author)} is no approver of {body.model.decode('latin-1')!a}.",
            fix="Its owner names approvers with: anchor policy",
        )
    if context.author in [approval.approver for approval in get_approvals(context.state, version)]:
        name = describe(body.model, body.version)
        raise InvalidEntry(f"{format_identity(author)} has approved this change of {name} already.")


def apply_approve(context: Context, body: Approve) -> None:
    """Keeps the approval, and those before it that still count."""
    index = get_version_index(context.state, body.model, body.version, body.manifest_root)
    version = context.state.versions[index]
    approval = Approval(approver=context.author, to_stage=body.to_stage, entry=context.position)
    approvals = (*get_approvals(context.state, version), approval)
    _set_version(context.state, index, version.replace(approvals=approvals))


def verify_promote(context: Context, body: Promote) -> None:
    """Raises InvalidEntry unless the version is the author's and its policy's approvals are there."""
    require_owner(context, get_organisation(body.model))
    version = _verify_stage_change(context, body)
    if (body.from_stage, body.to_stage) not in PROMOTIONS:
        return
    state, needed = context.state, get_policy(context.state, body.model).threshold
    count = len(get_approvals(state, version))
    if count < needed:
        name, stage = describe(body.model, body.version), get_stage_name(body.to_stage)
        missing = [format_identity(key) for key in get_missing_approvers(state, version)]
        raise InvalidEntry(
            f"{name} has {count} of the {needed} approvals that a move to {stage} needs; not yet approved by "
            f"{', '.join(missing)}.",
            fix="Each of them approves with: anchor approve",
        )


def apply_promote(context: Context, body: Promote) -> None:
    """Changes the stage; no approval serves twice."""
    index = get_version_index(context.state, body.model, body.version, body.manifest_root)
    version = context.state.versions[index]
    moved = version.replace(stage=body.to_stage, sequence=version.sequence + 1, approvals=())
    _set_version(context.state, index, moved)


def get_approvals(state: State, version: ModelVersion) -> tuple[Approval, ...]:
    """The approvals of a version that count now: by approvers of today, with keys that were valid then."""
    approvers = get_policy(state, version.model).approvers
    counted = []
    for approval in version.approvals:
        publisher = state.publishers[approval.approver]
        if publisher.root_key in approvers and get_key_set(publisher, approval.entry) is not None:
            counted.append(approval)
    return tuple(counted)


def get_missing_approvers(state: State, version: ModelVersion) -> tuple[Bytes32, ...]:
    """Identities of those who might approve the version's next change of stage, and have not."""
    given = [state.publishers[approval.approver].root_key for approval in get_approvals(state, version)]
    return tuple([key for key in get_policy(state, version.model).approvers if key not in given])


def get_policy(state: State, model: bytes) -> Policy:
    """The policy of a model; the open one where there is no such model yet."""
    index = find_model(state, model)
    return OPEN_POLICY if index is None else state.models[index].policy


def _verify_stage_change(context: Context, body: Approve | Promote) -> ModelVersion:
    index = get_version_index(context.state, body.model, body.version, body.manifest_root)
    version: ModelVersion = context.state.versions[index]
    change, name = (body.from_stage, body.to_stage), describe(body.model, body.version)
    if body.from_stage != version.stage or body.sequence != version.sequence:
        raise InvalidEntry(
            f"{name} is in {get_stage_name(version.stage)} after {version.sequence} changes, and the entry "
            f"is about {get_stage_name(body.from_stage)} after {body.sequence}."
        )
    if change not in PROMOTIONS | WITHDRAWALS:
        have, want = get_stage_name(body.from_stage), get_stage_name(body.to_stage)
        raise InvalidEntry(f"{name} cannot move from {have} to {want}.", fix=_list_moves(body.from_stage))
    publisher = context.state.publishers[version.publisher]
    if change in PROMOTIONS and get_key_set(publisher, version.entry) is None:
        raise InvalidEntry(f"{name} was published with keys that are revoked from then on.")
    return version


def _list_moves(stage: int) -> str:
    """Where a version in `stage` can go, in words."""
    ways = [get_stage_name(way[1]) for way in sorted(PROMOTIONS | WITHDRAWALS) if way[0] == stage]
    there = f"to {' or '.join(ways)}" if ways else "nowhere"
    return f"From {get_stage_name(stage)} it can move {there}."


def _require_room_for_model(context: Context, name: bytes) -> None:
    if find_model(context.state, name) is None:
        models = context.state.models
        require_room(len(models), MAX_MODELS, "models")
        own = sum([known.publisher == context.author for known in models])
        require_room(own, MAX_MODELS_PER_PUBLISHER, "models of this publisher")


def _set_model(context: Context, name: bytes, policy: Policy | None) -> None:
    """Adds the model if it is new; sets its policy if one is given."""
    state, index = context.state, find_model(context.state, name)
    if index is None:
        model = Model(name=name, publisher=context.author, policy=policy or OPEN_POLICY)
        state.models = (*state.models, model)
    elif policy is not None:
        state.models = replace_at(state.models, index, state.models[index].replace(policy=policy))


def _set_version(state: State, index: int, version: ModelVersion) -> None:
    state.versions = replace_at(state.versions, index, version)
