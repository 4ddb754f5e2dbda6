"""A PostgreSQL server of the tests' own: in a folder that goes again, on loopback, with a password."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from anchor.node.postgresql import Url

USER = "anchor"
PASSWORD = "p%ss wörd"  # noqa: S105
QUOTED = "p%25ss%20w%C3%B6rd"
SETTINGS = ("listen_addresses=127.0.0.1", "unix_socket_directories=", "max_connections=30", "jit=off")


class Server:
    """A running server. Databases are made in it, and never taken out of it."""

    def __init__(self, programs: Path, folder: Path, owner: int | None) -> None:
        self._programs, self._folder, self._owner = programs, folder, owner
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port = free.getsockname()[1]
        self._databases = 0

    def set_up(self) -> None:
        """Makes the folder a cluster of one user with a password."""
        secret = self._folder / "password"
        secret.write_text(PASSWORD)
        secret.chmod(0o644)
        words = ["-U", USER, "--auth=scram-sha-256", f"--pwfile={secret}"]
        self._run("initdb", *words, "--no-sync", "--encoding=UTF8", "--no-locale")

    def _run(self, program: str, *words: str) -> None:
        command = [self._programs / program, "-D", self._folder / "data", *words]
        log = self._folder / "log"
        with log.open("ab") as out:
            done = subprocess.run(
                command, user=self._owner, cwd=self._folder, stdout=out, stderr=out, check=False
            )
        assert done.returncode == 0, log.read_text()

    def start(self) -> None:
        """Starts it, and waits until it answers."""
        settings = " ".join([f"-c {setting}" for setting in (*SETTINGS, f"port={self._port}")])
        log = self._folder / "data" / "log"
        self._run("pg_ctl", "start", "--wait", f"--log={log}", f"--options={settings}")

    def stop(self) -> None:
        """Stops it as a crash of its machine would, as far as connections can tell."""
        self._run("pg_ctl", "stop", "--wait", "--mode=immediate")

    def get_url(self, database: str, password: str = f":{QUOTED}") -> Url:
        """Where a database is."""
        return Url(f"postgresql://{USER}{password}@127.0.0.1:{self._port}/{database}")

    def run(self, statement: str, database: str = "postgres") -> list[tuple[object, ...]]:
        """What a statement gives, run as the owner of everything."""
        with psycopg.connect(self.get_url(database).text, autocommit=True) as connection:
            cursor = connection.execute(statement)  # type: ignore[call-overload]
            return cursor.fetchall() if cursor.description else []

    def make_schema(self) -> Url:
        """A schema that nobody else has; it takes a fifth of the time of a database."""
        self._databases += 1
        name = f"test{self._databases}"
        self.run(f"CREATE SCHEMA {name}")
        return Url(f"{self.get_url('postgres').text}?options=-csearch_path%3D{name}")

    def make_database(self, template: str = "template1") -> Url:
        """A database that nobody else has."""
        self._databases += 1
        name = f"test{self._databases}"
        self.run(f"CREATE DATABASE {name} TEMPLATE {template}")
        return self.get_url(name)


def _find_programs() -> Path | None:
    """The folder of the newest server's programs."""
    known = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/postgres")]
    known.sort(key=lambda path: int(path.parent.name))
    found = shutil.which("postgres")
    return known[-1] if known else Path(found).parent if found else None


def _find_memory() -> Path | None:
    """A folder in memory, where there is room in one: most of a server's time goes into its disk."""
    memory = Path("/dev/shm")  # noqa: S108
    has_room = memory.is_dir() and shutil.disk_usage(memory).free > 1 << 29
    return memory if has_room and os.access(memory, os.W_OK) else None


@contextmanager
def run_server() -> Iterator[Server]:
    """A server for the length of the body. Skips where none is installed."""
    programs = _find_programs()
    if programs is None:
        pytest.skip("PostgreSQL's server is not installed (Debian: apt-get install postgresql)")
    owner = pwd.getpwnam("nobody").pw_uid if os.geteuid() == 0 else None  # initdb refuses root
    with tempfile.TemporaryDirectory(prefix="anchor-postgres-", dir=_find_memory()) as name:
        if owner is not None:
            os.chown(name, owner, -1)
        server = Server(programs, Path(name), owner)
        server.set_up()
        server.start()
        try:
            yield server
        finally:
            server.stop()
