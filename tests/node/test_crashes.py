"""Killed at any moment, a ledger keeps what it acknowledged, and never signs against itself."""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from anchor.errors import InvalidEntry, Unavailable
from anchor.node import production
from anchor.node.clock import ManualClock
from anchor.node.folder import open_reader
from anchor.node.publishing import find_pending
from anchor.node.records import Batch
from anchor.node.sqlite import Sqlite
from anchor.node.store import Store
from tests.node.tools import ALICE, NOW, make_manifest, make_publication, opened, publish, published

Made = tuple[Path, bytes]
Sabotage = Callable[[pytest.MonkeyPatch], None]


class Recorder:
    """Writes down all that is ever signed, where a killed process cannot lose it."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def write(self, **what: Any) -> None:
        handle = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(handle, json.dumps(what).encode() + b"\n")
        os.close(handle)

    def install(self, patch: pytest.MonkeyPatch) -> None:
        """Writes votes and blocks down as soon as they are signed."""
        compute_attestations, compute_block = production.compute_attestations, production.compute_block

        def attest(ledger: Any, state: Any, keys: Any) -> Any:
            votes = compute_attestations(ledger, state, keys)
            for vote in votes:
                self.write(
                    voters=ledger.get_attesting_indices(state, vote).tolist(),
                    source=vote.data.source.epoch,
                    target=vote.data.target.epoch,
                    root=ledger.hash_tree_root(vote.data).hex(),
                )
            return votes

        def propose(ledger: Any, *arguments: Any) -> Any:
            block, state = compute_block(ledger, *arguments)
            message = block.message
            root = ledger.hash_tree_root(message).hex()
            self.write(proposer=message.proposer_index, slot=message.slot, root=root)
            return block, state

        patch.setattr(production, "compute_attestations", attest)
        patch.setattr(production, "compute_block", propose)

    def find_offences(self) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        """Pairs of signatures for which a validator would be slashed."""
        signed = [json.loads(line) for line in self._path.read_text().splitlines()]
        return [pair for pair in combinations(signed, 2) if _is_offence(*pair)]


def _is_offence(one: dict[str, Any], other: dict[str, Any]) -> bool:
    if one["root"] == other["root"] or ("voters" in one) != ("voters" in other):
        return False
    if "proposer" in one:
        return (one["proposer"], one["slot"]) == (other["proposer"], other["slot"])
    if not set(one["voters"]) & set(other["voters"]):
        return False
    first, last = sorted((one, other), key=lambda vote: vote["source"])
    is_surround = first["source"] < last["source"] and last["target"] < first["target"]
    return bool(one["target"] == other["target"] or is_surround)


@contextmanager
def _recording(log: Path, sabotage: Sabotage = lambda _: None) -> Iterator[Recorder]:
    with pytest.MonkeyPatch.context() as patch:
        recorder = Recorder(log)
        recorder.install(patch)
        sabotage(patch)
        yield recorder


def _publish_and_die(ledger: Made, version: str, clock: ManualClock, log: Path, sabotage: Sabotage) -> bool:
    """Publishes in a process that `sabotage` may kill. Returns whether it was acknowledged."""
    folder, seed = ledger
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # NumPy has threads; the child uses none of them
        child = os.fork()
    if child == 0:
        status = 1
        try:
            with _recording(log, sabotage), opened(folder, seed, clock) as service:
                publish(service, version)
            status = 0
        finally:
            os._exit(status)
    _, wait_status = os.waitpid(child, 0)
    if os.WIFSIGNALED(wait_status):
        assert os.WTERMSIG(wait_status) == signal.SIGKILL
        return False
    assert os.WEXITSTATUS(wait_status) == 0
    return True


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _kill_at_call(name: str, number: int, *, persisted: bool) -> Sabotage:
    """Dies at the `number`-th call of a store's method, before or after it takes effect."""

    def sabotage(patch: pytest.MonkeyPatch) -> None:
        real, calls = getattr(Store, name), [0]

        def method(self: Store, *arguments: Any) -> None:
            calls[0] += 1
            if calls[0] == number and not persisted:
                _die()
            real(self, *arguments)
            if calls[0] == number:
                _die()

        patch.setattr(Store, name, method)

    return sabotage


def _kill_at_block(number: int) -> Sabotage:
    """Dies as soon as the `number`-th block is signed."""

    def sabotage(patch: pytest.MonkeyPatch) -> None:
        real, calls = production.compute_block, [0]

        def compute_block(*arguments: Any) -> Any:
            calls[0] += 1
            made = real(*arguments)
            if calls[0] == number:
                _die()
            return made

        patch.setattr(production, "compute_block", compute_block)

    return sabotage


STORE_CALLS = [
    (name, number, persisted)
    for number in (1, 2)
    for name in ("reserve", "commit")
    for persisted in (False, True)
]
"""Every call that changes the store while something is recorded: not persisted, and persisted."""


def test_every_store_call_is_in_the_table(any_ledger: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    for name in ("reserve", "commit"):
        real = getattr(Store, name)
        monkeypatch.setattr(
            Store, name, lambda self, *rest, name=name, real=real: (calls.append(name), real(self, *rest))
        )
    with opened(*any_ledger) as service:
        publish(service, "2")
    assert calls == [name for name, _, persisted in STORE_CALLS if persisted]


@pytest.mark.parametrize("between", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_killed_at_every_store_call(any_ledger: Made, tmp_path: Path, between: bool) -> None:
    """One ledger lives through all of it. The clock moves on, so that no block is made twice alike."""
    folder, _ = any_ledger
    clock, log = ManualClock(NOW), tmp_path / "signed"
    kept = ["1"]
    for case, (name, number, persisted) in enumerate(STORE_CALLS):
        clock.advance(10)
        sabotage = _kill_at_call(name, number, persisted=persisted)
        assert not _publish_and_die(any_ledger, f"killed.{case}", clock, log, sabotage)
        if (name, number, persisted) in STORE_CALLS[3:]:  # recorded, though nobody was told
            kept.append(f"killed.{case}")
        with open_reader(folder) as chain:
            assert published(chain) == kept
        if between:
            assert _publish_and_die(any_ledger, f"kept.{case}", clock, log, lambda _: None)
            kept.append(f"kept.{case}")
            with open_reader(folder) as chain:
                final = chain.get_state(chain.get_finalized_checkpoint().root)
                assert [version.version.decode() for version in final.versions] == kept
    assert _publish_and_die(any_ledger, "last", clock, log, lambda _: None)
    assert Recorder(log).find_offences() == []


def test_killed_while_signing(ledger: Made, tmp_path: Path) -> None:
    clock, log = ManualClock(NOW), tmp_path / "signed"
    places = random.Random(7).sample(range(1, 17), 4)
    for case, place in enumerate([1, *places, 16]):
        clock.advance(10)
        assert not _publish_and_die(ledger, f"killed.{case}", clock, log, _kill_at_block(place))
    assert _publish_and_die(ledger, "2", clock, log, lambda _: None)
    with open_reader(ledger[0]) as chain:
        recorded = [f"killed.{case}" for case, place in enumerate([1, *places, 16]) if place > 8]
        assert published(chain) == ["1", *recorded, "2"]
    assert Recorder(log).find_offences() == []


def _fill_the_disk(patch: pytest.MonkeyPatch) -> None:
    """SQLite finds no further page."""
    connect = Sqlite.connect

    def connect_to_a_full_disk(path: Path, mode: str) -> Sqlite:
        database = connect(path, mode)
        [(pages,)] = database.get("PRAGMA page_count")
        database.get(f"PRAGMA max_page_count = {pages}")
        return database

    patch.setattr(Sqlite, "connect", connect_to_a_full_disk)


def _fill_the_disk_between_epochs(patch: pytest.MonkeyPatch) -> None:
    """The second commit finds no room."""
    commit, calls = Store.commit, [0]

    def commit_once(self: Store, batch: Batch) -> None:
        calls[0] += 1
        if calls[0] == 1:
            return commit(self, batch)
        with self._database.transaction():
            raise sqlite3.OperationalError("database or disk is full")

    patch.setattr(Store, "commit", commit_once)


@pytest.mark.parametrize(
    ("fill", "recorded"), [(_fill_the_disk, ["1"]), (_fill_the_disk_between_epochs, ["1", "2"])]
)
def test_a_full_disk_loses_nothing(ledger: Made, tmp_path: Path, fill: Sabotage, recorded: list[str]) -> None:
    """The write that finds no room is refused in a sentence; with room again, all goes on."""
    folder, seed = ledger
    log = tmp_path / "signed"
    with _recording(log, fill), opened(folder, seed) as service:
        with pytest.raises(Unavailable, match="cannot be used now: database or disk is full"):
            publish(service, "2")
        assert published(service.chain) == recorded
    with _recording(log), opened(folder, seed, ManualClock(NOW + 10)) as service:
        publish(service, "2")
        publish(service, "3")
        assert published(service.chain) == ["1", "2", "3"]
    assert Recorder(log).find_offences() == []


def test_what_was_interrupted_is_brought_to_its_end(any_ledger: Made, tmp_path: Path) -> None:
    """Recorded and not final: the same again makes it final, anything else of its name is refused."""
    folder, _ = any_ledger
    sabotage = _kill_at_call("reserve", 2, persisted=True)
    assert not _publish_and_die(any_ledger, "2", ManualClock(NOW), tmp_path / "signed", sabotage)
    with open_reader(folder) as chain:
        assert (chain.get_status().entries, chain.get_status().final_entries) == (5, 4)
        assert find_pending(chain, make_publication("2")) is not None
        assert find_pending(chain, make_publication("1")) is None
    with opened(*any_ledger) as service:
        other = make_publication("2").replace(manifest_root=make_manifest("other")[0])
        with pytest.raises(InvalidEntry, match="is published already"):
            service.publish(ALICE, other, make_manifest("other")[1])
        publish(service, "2")
        assert (service.chain.get_status().entries, service.chain.get_status().final_entries) == (5, 5)
        with pytest.raises(InvalidEntry, match="is published already"):
            publish(service, "2")


def test_if_epochs_were_committed_together_it_would_sign_against_itself(ledger: Made, tmp_path: Path) -> None:
    """A second epoch's votes have the first as source: lost with it, they are surrounded by later ones."""
    clock, log = ManualClock(NOW), tmp_path / "signed"

    def hold_back(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(Store, "commit", lambda *_: None)
        _kill_at_block(12)(patch)

    for _ in range(2):
        clock.advance(10)
        assert not _publish_and_die(ledger, "2", clock, log, hold_back)
    assert Recorder(log).find_offences()


def test_without_reservations_it_would_sign_against_itself(ledger: Made, tmp_path: Path) -> None:
    """The recorder finds what reservations prevent: the two tests above can fail."""
    clock, log = ManualClock(NOW), tmp_path / "signed"

    def forget(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(Store, "reserve", lambda *_: None)
        _kill_at_block(6)(patch)

    for _ in range(2):
        clock.advance(10)
        assert not _publish_and_die(ledger, "2", clock, log, forget)
    offences = Recorder(log).find_offences()
    assert any("voters" in one for one, _ in offences)
    assert any("proposer" in one for one, _ in offences)


def test_the_recorder_knows_every_offence() -> None:
    def vote(source: int, target: int, root: str = "", voters: tuple[int, ...] = (1, 2)) -> dict[str, Any]:
        return {"voters": voters, "source": source, "target": target, "root": root or f"{source}{target}"}

    assert _is_offence(vote(1, 4, "a"), vote(1, 4, "b"))
    assert _is_offence(vote(1, 4), vote(2, 3))
    assert _is_offence(vote(2, 3), vote(1, 4))
    assert not _is_offence(vote(1, 4, "a"), vote(1, 4, "a"))
    assert not _is_offence(vote(1, 4, "a"), vote(1, 4, "b", (3,)))
    assert not _is_offence(vote(1, 2), vote(2, 3))
    block = {"proposer": 1, "slot": 5, "root": "a"}
    assert _is_offence(block, block | {"root": "b"})
    assert not _is_offence(block, block | {"root": "b", "slot": 6})
    assert not _is_offence(block, vote(1, 4))
