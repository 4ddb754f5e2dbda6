"""A node's peers, and the faults that operators may inject into one on a devnet."""

from __future__ import annotations

from typing import Any, Final

from anchor.node.api import forms
from anchor.node.api.describe import record
from anchor.node.api.routes import MAX_BODY, OPERATOR, Body, Reply, Route
from anchor.node.node import Node


async def list_peers(node: Node) -> Reply:
    """The peers that are connected; their addresses are the operators' to know."""
    return Reply(node.network.company.describe())


async def list_peers_with_addresses(node: Node) -> Reply:
    """The peers that are connected, and what is known of each."""
    return Reply(node.network.company.describe_fully())


async def inject_faults(node: Node, body: dict[str, Any]) -> Reply:
    """Sets who is not talked to, and by how much the clock is wrong."""
    return Reply(node.network.faults.inject(**body))


async def equivocate(node: Node) -> Reply:
    """Has the node's next block and vote contradicted by another of each."""
    return Reply(node.network.faults.equivocate())


_PEER: Final = {
    "peer": forms.IDENTITY,
    "direction": {"type": "string", "enum": ["in", "out"]},
    "head_slot": forms.COUNT,
}
_ASKED: Final = {"unheard": forms.TEXT, "skew_ms": forms.TEXT}
_FAULTS: Final = record({**_ASKED, "equivocates": forms.FLAG})
_V1: Final = "/anchor/v1"

ROUTES: Final = (
    Route(
        "GET",
        f"{_V1}/peers",
        list_peers,
        "List the peers that are connected",
        forms.list_of(record(_PEER)),
        "network",
        is_live=True,
        errors=(404,),
    ),
    Route(
        "GET",
        f"{_V1}/admin/peers",
        list_peers_with_addresses,
        "List the peers that are connected, with their addresses",
        forms.list_of(
            record(
                {
                    **_PEER,
                    "address": forms.TEXT,
                    "url": forms.TEXT,
                    "points": {"type": "number"},
                    "waiting": forms.COUNT,
                }
            )
        ),
        "admin",
        is_live=True,
        access=OPERATOR,
        errors=(404,),
    ),
    Route(
        "PUT",
        f"{_V1}/admin/faults",
        inject_faults,
        "Cut peers off, and set the clock wrong: on a devnet, where the node runs with --faults",
        _FAULTS,
        "admin",
        body=Body(MAX_BODY, json=record(_ASKED)),
        access=OPERATOR,
        errors=(404,),
    ),
    Route(
        "POST",
        f"{_V1}/admin/equivocations",
        equivocate,
        "Contradict this node's next block and its next vote: on a devnet, where it runs with --faults",
        _FAULTS,
        "admin",
        access=OPERATOR,
        errors=(404,),
    ),
)
"""In the order of the document."""
