"""What only the node's operators may do."""

from __future__ import annotations

from typing import Any, Final

from anchor.consensus.text import parse_identity
from anchor.node.api import forms
from anchor.node.api.describe import record
from anchor.node.api.routes import MAX_BODY, OPERATOR, Body, Reply, Route
from anchor.node.node import Node


async def register_publisher(node: Node, body: dict[str, Any]) -> Reply:
    """Registers a publisher, as the ledger's administrator."""
    receipt = await node.register_publisher(parse_identity(body["publisher"]))
    return Reply(forms.show_receipt(receipt), status=201)


ROUTES: Final = (
    Route(
        "POST",
        "/anchor/v1/admin/publishers",
        register_publisher,
        "Register a publisher",
        forms.RECEIPT,
        "admin",
        body=Body(MAX_BODY, json=record({"publisher": forms.IDENTITY})),
        cost=20,
        access=OPERATOR,
        statuses=(201,),
        errors=(422,),
    ),
)
"""In the order of the document."""
