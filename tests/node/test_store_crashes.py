"""Killed at any statement of any call, or without room on the disk, a store is as before, or as after."""

from __future__ import annotations

import os
import resource
import signal
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from inspect import getsource, isfunction
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from anchor.errors import Unavailable
from anchor.node.places import Place
from anchor.node.records import Batch, Block, Snapshot, StoredEntry
from anchor.node.store import Store
from anchor.node.tables import RECORDS
from tests.node.conftest import STORES
from tests.node.postgres import Server

BULK = b"x" * 20_000
"""Makes a record long enough to need pages of its own."""


def _root(number: int) -> bytes:
    return number.to_bytes(32, "big")


def _block(slot: int, branch: int = 0) -> Block:
    return Block(slot, _root(slot + branch), _root(500 + slot + branch), BULK)


def _snapshot(slot: int, branch: int = 0, *, kept: bool = True) -> Snapshot:
    return Snapshot(slot=slot, root=_root(slot + branch), ssz=BULK, kept=kept)


def _batch(*slots: int, branch: int = 0, after: int = 0, **more: Any) -> Batch:
    entries = [StoredEntry(slot, _root(9000 + slot + branch), slot, 7, BULK) for slot in slots]
    return Batch(
        blocks=tuple([_block(slot, branch) for slot in slots]),
        parent=_root(after),
        snapshots=(_snapshot(slots[-1], branch),),
        entries=tuple(entries),
        **more,
    )


def _begin(place: Place) -> Store:
    store = Store.create(place, "lab", b"genesis", reserved=0, may_sign=True)
    store.commit(Batch(snapshots=(_snapshot(0),)))
    return store


def _grow(store: Store) -> None:
    store.commit(_batch(1, 2, 3, manifests=((_root(7), BULK),), pending=((_root(8), BULK),)))


def _start(store: Store) -> None:
    store.start_from(_block(3), _snapshot(3), _root(2))


Call = Callable[[Store], object]
CALLS: dict[str, tuple[Call, Call]] = {
    "reserve": (_grow, lambda store: store.reserve(5)),
    "commit": (_grow, lambda store: store.commit(_batch(4, 5, after=3, settled=(_root(8),)))),
    "commit, replacing": (
        _grow,
        lambda store: store.commit(
            _batch(2, 4, branch=100, after=1, replaces=True, pending=((_root(5), BULK),))
        ),
    ),
    "commit, final": (
        _grow,
        lambda store: store.commit(Batch(side=(_block(2, 100), _block(4, 100)), final=2)),
    ),
    "start_from": (lambda _: None, _start),
    "prepend": (_start, lambda store: store.prepend((_block(1), _block(2)), (), _root(0))),
    "prune": (_grow, lambda store: store.prune(3)),
}
"""Every call that changes a store: what comes before it, and the call."""


NOTES = "SELECT name, genesis, reserved, may_sign, final, missing FROM ledger"


def _see(store: Store) -> list[list[tuple[Any, ...]]]:
    """Everything in the store, but which file it is."""
    rows = [store._database.get(f"SELECT * FROM {table} ORDER BY 1, 2") for table in RECORDS]  # noqa: S608
    return [store._database.get(NOTES), *rows]


def _look(place: Place) -> list[list[tuple[Any, ...]]]:
    with closing(Store.open(place, writable=False)) as store:
        return _see(store)


@pytest.fixture(params=STORES)
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Call], Place]:
    """Makes another store, as far as a call left it."""
    numbers = count()

    def make(prepare: Call) -> Place:
        if request.param == "sqlite":
            place: Place = tmp_path / str(next(numbers))
        else:
            server: Server = request.getfixturevalue("postgres")
            place = server.make_schema()
        with closing(_begin(place)) as store:
            prepare(store)
        return place

    return make


def _run_in_a_child(place: Place, action: Callable[[Store], object]) -> bool:
    """Whether the child lived."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # NumPy has threads; the child uses none of them
        child = os.fork()
    if child == 0:
        status = 1
        try:
            with closing(Store.open(place, writable=True)) as store:
                action(store)
            status = 0
        finally:
            os._exit(status)
    _, wait_status = os.waitpid(child, 0)
    if os.WIFSIGNALED(wait_status):
        assert os.WTERMSIG(wait_status) == signal.SIGKILL
        return False
    assert os.WEXITSTATUS(wait_status) == 0
    return True


def _die_at(store: Store, point: int) -> None:
    """Lets the process die before the statement of that number; the commit counts, and what is after it."""
    database: Any = store._database
    passed, real = count(), database.transaction

    def pass_point() -> None:
        if next(passed) == point:
            os.kill(os.getpid(), signal.SIGKILL)

    def counted(method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            pass_point()
            return method(*arguments)

        return call

    @contextmanager
    def transaction() -> Iterator[None]:
        with real():
            yield
            pass_point()
        pass_point()

    database.run, database.run_many = counted(database.run), counted(database.run_many)
    database.transaction = transaction


@pytest.mark.parametrize("name", CALLS)
def test_killed_at_every_statement(make: Callable[[Call], Place], name: str) -> None:
    prepare, call = CALLS[name]
    done = make(prepare)
    before = _look(done)
    with closing(Store.open(done, writable=True)) as store:
        call(store)
    after, seen = _look(done), []
    assert after != before

    def die(store: Store) -> None:
        _die_at(store, len(seen))
        call(store)

    while not _run_in_a_child(place := make(prepare), die):
        seen.append(_look(place))
    assert len(seen) >= 3
    assert seen == [before] * (len(seen) - 1) + [after]
    with closing(Store.open(place, writable=True)) as store:  # and a store that lived through it goes on
        store.commit(Batch(manifests=((_root(1), BULK),)))


@pytest.mark.parametrize("name", CALLS)
def test_without_room_on_the_disk(tmp_path: Path, name: str) -> None:
    """The files may grow to ever more bytes, until there is room."""
    prepare, call = CALLS[name]

    def make(number: int) -> Path:
        with closing(_begin(tmp_path / str(number))) as store:
            prepare(store)
        return tmp_path / str(number)

    def try_with_little_room(store: Store) -> None:
        least = _see(store)
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY))
        try:
            call(store)
        except Unavailable as error:
            assert "cannot be used now" in error.what
            assert _see(store) == least
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            call(store)
        else:
            os.kill(os.getpid(), signal.SIGKILL)  # there was room

    refused, room = 0, 4096
    while _run_in_a_child(place := make(room), try_with_little_room):
        refused, room = refused + 1, room * 2
    assert refused
    with closing(Store.open(place, writable=True)) as store:
        assert store.get_name() == "lab"


def test_every_call_that_changes_a_store_is_in_the_table() -> None:
    changing = {name for name, method in vars(Store).items() if "transaction()" in _read(method)}
    assert changing - {"create", "erase"} == {name.partition(",")[0] for name in CALLS}


def _read(method: Any) -> str:
    """A method's source; a class method's too."""
    function = getattr(method, "__func__", method)
    return getsource(function) if isfunction(function) else ""
