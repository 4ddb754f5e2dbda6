"""Kills in the midst of what a node does: before or after a call takes effect."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from anchor.node.network.simulator import Killed, SimulatedNode
from anchor.node.records import Batch
from anchor.node.store import Store
from tests.node.network.tools import Hands, StrictProtection

REST = 5
"""Calls that a node is left alive for after its start …"""
RARE = ("replace", "extend, final", "settled", "beside")
"""… but for these."""


class Saboteur:
    """Kills a node at each kind of call, by turns before and after it takes effect, `times` times each."""

    def __init__(self, times: int) -> None:
        self._times = times
        self._since = 0
        self.kills = Counter[tuple[str, bool]]()
        """By kind of call, and whether it took effect."""

    def pass_through(self, kind: str, call: Callable[[], Any]) -> Any:
        self._since += 1
        is_tired = self._since <= REST and kind not in RARE
        if is_tired or self.kills[kind, True] >= self._times:
            return call()
        self._since = 0
        persisted = self.kills[kind, True] < self.kills[kind, False]
        self.kills[kind, persisted] += 1
        if persisted:
            call()
        raise Killed

    def retire(self) -> None:
        """Kills no more."""
        self._times = 0

    def corrupt(self, node: SimulatedNode) -> None:
        """Gets between a node and all that it keeps, from its next start on."""
        open_store, hands = node.open_store, node.validators
        assert isinstance(hands, Hands)
        node.open_store = lambda: _Store(open_store(), self)  # type: ignore[assignment, return-value]
        node.validators = Hands(hands.keyring, _Protection(hands.protection, self))


class _Store:
    def __init__(self, store: Store, saboteur: Saboteur) -> None:
        self._store, self._saboteur = store, saboteur

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def commit(self, batch: Batch) -> None:
        self._saboteur.pass_through(describe(batch), lambda: self._store.commit(batch))


class _Protection(StrictProtection):
    def __init__(self, real: StrictProtection, saboteur: Saboteur) -> None:
        super().__init__(real.blocks, real.votes)
        self._real, self._saboteur = real, saboteur

    def allow_block(self, *arguments: Any) -> bool:
        allowed: bool = self._saboteur.pass_through("allow block", lambda: self._real.allow_block(*arguments))
        return allowed

    def allow_attestation(self, *arguments: Any) -> list[bytes]:
        allowed: list[bytes] = self._saboteur.pass_through(
            "allow votes", lambda: self._real.allow_attestation(*arguments)
        )
        return allowed


def describe(batch: Batch) -> str:
    """What kind of commit it is."""
    if batch.pending or batch.settled:
        return "pending" if batch.pending else "settled"
    if batch.side:
        return "beside"
    if batch.replaces:
        return "replace"
    return "extend, final" if batch.final is not None else "extend"
