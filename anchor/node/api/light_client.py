"""What light clients ask for, over the Beacon API: from verified states and accepted updates."""

from __future__ import annotations

from typing import Final

from anchor.bundle.types import LEDGER_SCOPE
from anchor.consensus.containers.altair import (
    LightClientBootstrap,
    LightClientFinalityUpdate,
    LightClientOptimisticUpdate,
    LightClientUpdate,
)
from anchor.node.api import beacon_forms as forms
from anchor.node.api.describe import describe
from anchor.node.api.kinds import ANY_ROOT, NUMBER, UPDATES, Parameter
from anchor.node.api.routes import Reply, Route
from anchor.node.beacon import BeaconNode


async def get_bootstrap(node: BeaconNode, root: bytes) -> Reply:
    """Where a light client starts that trusts a root."""
    return await node.show(lambda view: forms.show_bootstrap(view, root))


async def list_updates(node: BeaconNode, start_period: int, count: int) -> Reply:
    """Updates of successive periods."""
    return await node.show(lambda view: forms.show_updates(view, start_period, count))


async def get_finality_update(node: BeaconNode) -> Reply:
    """The newest finality."""
    return await node.show(forms.show_finality_update)


async def get_optimistic_update(node: BeaconNode) -> Reply:
    """The newest header that was signed."""
    return await node.show(forms.show_optimistic_update)


_AT: Final = "/eth/v1/beacon/light_client"
_PERIODS: Final = {
    "start_period": Parameter(NUMBER, "the first period", is_required=True),
    "count": Parameter(UPDATES, "how many periods", is_required=True),
}

ROUTES: Final = (
    Route(
        "GET",
        f"{_AT}/bootstrap/{{root}}",
        get_bootstrap,
        "Start a light client from a trusted block",
        describe(LEDGER_SCOPE.schema(LightClientBootstrap)),
        "light client",
        {"root": ANY_ROOT},
        cost=10,
        marks=forms.VERSIONED,
        has_ssz=True,
        errors=(404,),
    ),
    Route(
        "GET",
        f"{_AT}/updates",
        list_updates,
        "List light-client updates by sync committee period",
        forms.list_updates_of(describe(LEDGER_SCOPE.schema(LightClientUpdate))),
        "light client",
        query=_PERIODS,
        cost=20,
        has_ssz=True,
        is_bare=True,
    ),
    Route(
        "GET",
        f"{_AT}/finality_update",
        get_finality_update,
        "Get the newest finality update",
        describe(LEDGER_SCOPE.schema(LightClientFinalityUpdate)),
        "light client",
        cost=10,
        marks=forms.VERSIONED,
        has_ssz=True,
        errors=(404,),
    ),
    Route(
        "GET",
        f"{_AT}/optimistic_update",
        get_optimistic_update,
        "Get the newest optimistic update",
        describe(LEDGER_SCOPE.schema(LightClientOptimisticUpdate)),
        "light client",
        cost=10,
        marks=forms.VERSIONED,
        has_ssz=True,
        errors=(404,),
    ),
)
"""In the order of the document."""
