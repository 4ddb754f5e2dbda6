"""Kills in the midst of what a node does: before or after a call takes effect."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from anchor.node.network.simulator import Killed, SimulatedNode
from anchor.node.records import Batch
from anchor.node.sqlite import Sqlite
from anchor.node.store import Store
from anchor.node.validators import protection
from anchor.node.validators.protection import Protection
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


class Records:
    """Validators whose record of what they signed is on disk, as a node's is; each start opens it anew."""

    def __init__(self, node: SimulatedNode, folder: Path, network_id: bytes) -> None:
        assert node.validators is not None
        self.keyring, self._path, open_store = (
            node.validators.keyring,
            folder / protection.FILE,
            node.open_store,
        )
        folder.mkdir()
        self.protection = Protection.create(self._path)
        self.protection.register(list(self.keyring.secret_keys))
        self.protection.bind(network_id)

        def start() -> Store:
            self.protection.close()
            self.protection = Protection.open(self._path)
            return open_store()

        node.open_store, node.validators = start, self


class Reaper:
    """Kills who writes beneath a folder, at any step of any transaction: a statement, or the end of all."""

    def __init__(self, folder: Path, chance: Random, share: float) -> None:
        self._folder, self._chance, self.share = folder, chance, share
        self.kills = Counter[str]()
        """By step."""

    def haunt(self, patch: pytest.MonkeyPatch) -> None:
        """Begins with it."""
        transaction = Sqlite.transaction

        @contextmanager
        def haunted(database: Sqlite) -> Iterator[None]:
            self._strike(database, "before")
            with transaction(database):
                yield
                self._strike(database, "whole, not durable")
            self._strike(database, "durable")

        patch.setattr(Sqlite, "transaction", haunted)
        for name in ("run", "run_many"):
            patch.setattr(Sqlite, name, self._haunt(getattr(Sqlite, name)))

    def _haunt(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def step(database: Sqlite, *arguments: Any) -> Any:
            self._strike(database, "in the midst")
            return call(database, *arguments)

        return step

    def _strike(self, database: Sqlite, step: str) -> None:
        if self._folder in Path(database.place).parents and self._chance.random() < self.share:
            self.kills[step] += 1
            raise Killed


def describe(batch: Batch) -> str:
    """What kind of commit it is."""
    if batch.pending or batch.settled:
        return "pending" if batch.pending else "settled"
    if batch.side:
        return "beside"
    if batch.replaces:
        return "replace"
    return "extend, final" if batch.final is not None else "extend"
