"""A ledger with one publication, made once; every test that asks for it gets a copy of its own. Commands."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from shutil import copytree

import pytest

from anchor.cli.main import main
from anchor.node import keys
from anchor.node.places import FILE, POINTER, Place
from tests.node.commands import Run
from tests.node.postgres import Server, run_server
from tests.node.tools import PHRASE, make_ledger, make_original, opened, publish

STORES = ("sqlite", "postgresql")


@pytest.fixture(scope="session")
def first_ledger(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bytes]:
    """A folder that no test writes to, and its seed."""
    folder = tmp_path_factory.mktemp("ledgers") / "first"
    seed = make_ledger(folder)
    with opened(folder, seed) as service:
        publish(service, "1")
    return folder, seed


@pytest.fixture
def ledger(first_ledger: tuple[Path, bytes], tmp_path: Path) -> tuple[Path, bytes]:
    """A ledger with acme/tiny@1, and its seed."""
    folder, seed = first_ledger
    copytree(folder, tmp_path / "ledger")
    make_original(tmp_path / "ledger")
    return tmp_path / "ledger", seed


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """A server for all tests that ask for one."""
    with run_server() as server:
        yield server


@pytest.fixture(params=STORES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """Where a store can be made, once in each kind of database."""
    if request.param == "sqlite":
        return tmp_path / FILE
    server: Server = request.getfixturevalue("postgres")
    return server.make_schema()


@pytest.fixture(scope="session")
def first_database(postgres: Server, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bytes, str]:
    """As `first_ledger`, in a database: its folder, its seed, the database's name."""
    folder, url = tmp_path_factory.mktemp("ledgers") / "second", postgres.make_database()
    seed = make_ledger(folder, url=url)
    with opened(folder, seed) as service:
        publish(service, "1")
    return folder, seed, url.parse()["dbname"]


@pytest.fixture(params=STORES)
def any_ledger(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, bytes]:
    """As `ledger`, once in each kind of database."""
    if request.param == "sqlite":
        kept: tuple[Path, bytes] = request.getfixturevalue("ledger")
        return kept
    folder, seed, name = request.getfixturevalue("first_database")
    server: Server = request.getfixturevalue("postgres")
    copytree(folder, tmp_path / "ledger")
    (tmp_path / "ledger" / POINTER).write_text(server.make_database(name).text)
    make_original(tmp_path / "ledger")
    return tmp_path / "ledger", seed


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs `anchor` in an empty folder, its passphrase in the environment; returns code, output, errors."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ANCHOR_PASSPHRASE", PHRASE)
    monkeypatch.delenv("ANCHOR_KEY_PASSPHRASE", raising=False)
    monkeypatch.delenv("ANCHOR_LEDGER", raising=False)
    monkeypatch.setattr(keys, "SCRYPT_N", 1 << 4)

    def run(*arguments: str) -> tuple[int, str, str]:
        code = main(list(arguments))
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


@pytest.fixture
def ready(run: Run, tmp_path: Path) -> Run:
    """The same, where a ledger, a publisher's keys and a model are."""
    assert run("init", "ledger")[0] == 0
    assert run("keygen", "alice.key")[0] == 0
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    return run
