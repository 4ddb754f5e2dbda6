"""PostgreSQL, as a store uses it: one database or schema a ledger, one writer by a lock that dies with it.

What was lost with a connection is told as Unavailable; whatever comes next connects anew. When that happened
while a transaction was ending, it may have been made durable or not: whoever wrote looks again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Self

from anchor.errors import CorruptedLedger, Misuse, Unavailable
from anchor.node.database import RESTORE, Value

if TYPE_CHECKING:
    import psycopg

SCHEMES: Final = ("postgresql://", "postgres://")
WRITER: Final = 0x616E6368  # "anch"
"""The advisory lock of whoever writes, together with the schema's name."""
DEFAULTS: Final = {"connect_timeout": 10, "keepalives_idle": 30, "tcp_user_timeout": 30_000}
"""Of a connection where its URL says nothing: nobody waits for a dead server for long."""
SETTINGS: Final = (
    "SET synchronous_commit = on",
    "SET lock_timeout = '10s'",
    "SET tcp_keepalives_idle = 30",  # the lock of a writer that vanished is let go
    "SET tcp_keepalives_interval = 10",
    "SET tcp_keepalives_count = 3",
)
"""Of a writer's session."""
HOME: Final = """
    SELECT system_identifier || ':' || d.oid || ':' || n.oid
    FROM pg_control_system(), pg_database d, pg_namespace n
    WHERE d.datname = current_database() AND n.nspname = current_schema()
"""
TYPES: Final = {" INTEGER": " BIGINT", " BLOB": " BYTEA"}
"""Of columns: SQLite's words, and what PostgreSQL calls them."""


@dataclass(frozen=True, slots=True)
class Url:
    """Where a database is. What is shown of it has no password."""

    text: str = field(repr=False)

    def __post_init__(self) -> None:
        if not self.text.startswith(SCHEMES) or not self.text.isprintable():
            raise Misuse("A store's URL begins with postgresql://.", fix="See: anchor init --help")

    def __str__(self) -> str:
        words = self.parse()
        host = words.get("host", words.get("hostaddr", ""))
        port = f":{words['port']}" if "port" in words else ""
        return f"postgresql://{host}{port}/{words.get('dbname', '')}"

    def parse(self) -> dict[str, Any]:
        """The connection's parameters. Raises Misuse when the URL cannot be read as libpq reads it."""
        driver = _import_driver()
        try:
            parameters: dict[str, Any] = driver.conninfo.conninfo_to_dict(self.text)
        except driver.Error:  # its message may quote a part of the password
            raise Misuse("The store's URL cannot be read.", fix="See: anchor init --help") from None
        return DEFAULTS | parameters


class Postgresql:
    """A connection to the store in a database; another one takes its place when it is lost."""

    def __init__(self, url: Url, *, writable: bool) -> None:
        self.place, self._writable = str(url), writable
        self._parameters, self._driver = url.parse(), _import_driver()
        self._is_inside = False
        """Whether a transaction or a view is under way, which no other connection can go on with."""
        with self._told_plainly():
            self._connection = self._open()

    @classmethod
    def connect(cls, url: Url, *, writable: bool) -> Self:
        """The database at `url`; whoever may write to it is the only one.

        Raises Unavailable when it cannot be reached, or another process writes to it.
        """
        return cls(url, writable=writable)

    def _open(self) -> psycopg.Connection[tuple[Any, ...]]:
        parameters = self._parameters | {"client_encoding": "utf8", "application_name": "anchor"}
        connection: psycopg.Connection[tuple[Any, ...]]
        connection = self._driver.connect(**parameters, autocommit=True)
        with ExitStack() as refused:
            refused.callback(connection.close)
            for setting in SETTINGS if self._writable else ("SET default_transaction_read_only = on",):
                connection.execute(setting)
            if self._writable:
                self._require_writer(connection)
            refused.pop_all()
        return connection

    def _require_writer(self, connection: psycopg.Connection[tuple[Any, ...]]) -> None:
        sql = f"SELECT pg_try_advisory_lock({WRITER}, hashtext(current_schema())), current_setting('fsync')"
        is_alone, fsync = connection.execute(sql).fetchone() or (False, "")
        if not is_alone:
            raise Unavailable(
                f"Another process writes to {self.place}.", fix="Try again when it is done, or only read."
            )
        if fsync != "on":
            fix = "Turn fsync on in its configuration."
            raise Misuse(f"{self.place} runs without fsync: it could lose what it acknowledged.", fix=fix)

    @property
    def home(self) -> str:
        """What tells the schema from its copies, in this cluster and in others; a replica is no copy."""
        [(home,)] = self.get(HOME)
        return str(home)

    def close(self) -> None:
        """Lets the connection go, and the lock with it."""
        self._connection.close()

    def get_version(self) -> int:
        """Of the tables. Raises CorruptedLedger when there are none."""
        if self.get("SELECT to_regclass('anchor_tables')::text") == [(None,)]:
            raise CorruptedLedger(f"{self.place} holds no ledger.", fix=RESTORE)
        [(version,)] = self.get("SELECT max(version) FROM anchor_tables")
        return int(version)

    def check(self, *, is_quick: bool) -> None:
        """Nothing: where its checksums are on, the server holds every page that it reads to them."""

    def migrate(self, statements: Sequence[str], version: int) -> None:
        """Runs `statements` and records that they lead to `version`; in a transaction."""
        for statement in statements:
            self.run(_translate(statement))
        self.run("CREATE TABLE IF NOT EXISTS anchor_tables (version BIGINT PRIMARY KEY)")
        self.run("INSERT INTO anchor_tables VALUES (?) ON CONFLICT DO NOTHING", version)

    def get(self, sql: str, *values: Value) -> list[tuple[Any, ...]]:
        """All rows that `sql` selects."""
        with self._told_plainly():
            return self._execute(sql, values).fetchall()

    def run(self, sql: str, *values: Value) -> int:
        """Changes something; returns how many rows."""
        return self._execute(sql, values).rowcount

    def run_many(self, sql: str, rows: Sequence[tuple[Value, ...]]) -> None:
        """Runs `sql` once a row."""
        with self._connection.cursor() as cursor:
            cursor.executemany(sql.replace("?", "%s"), rows)

    def _execute(self, sql: str, values: tuple[Value, ...]) -> psycopg.Cursor[tuple[Any, ...]]:
        if self._connection.closed and not self._is_inside:
            self._connection = self._open()
        return self._connection.execute(sql.replace("?", "%s"), values, binary=True)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """The body's changes: all of them, durable when it ends, or none."""
        with self._block("BEGIN", "COMMIT"):
            yield

    @contextmanager
    def one_view(self) -> Iterator[None]:
        """In the body, all reads see the same moment, whatever another process commits meanwhile."""
        with self._block("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", "ROLLBACK"):
            yield

    @contextmanager
    def _block(self, start: str, end: str) -> Iterator[None]:
        with self._told_plainly():
            self._execute(start, ())
            self._is_inside = True
            try:
                yield
                self._execute(end, ())
            finally:
                self._is_inside = False
                if self._connection.info.transaction_status != 0:  # it failed, or was interrupted
                    with suppress(self._driver.OperationalError):
                        self._connection.execute("ROLLBACK")

    @contextmanager
    def _told_plainly(self) -> Iterator[None]:
        """Turns PostgreSQL's errors into ours."""
        errors = self._driver.errors
        passing = (self._driver.OperationalError, errors.ReadOnlySqlTransaction, errors.InsufficientPrivilege)
        try:
            yield
        except passing as error:
            fix = "Check the server, its disk's space and who may do what."
            raise Unavailable(f"{self.place} cannot be used now: {_quote(error)}.", fix=fix) from None
        except errors.DuplicateTable:
            fix = "Name an empty database, or add a schema of its own: ?options=-csearch_path%3DNAME"
            raise Misuse(f"{self.place} holds a ledger's tables already.", fix=fix) from None
        except self._driver.Error as error:
            raise CorruptedLedger(f"{self.place} is damaged: {_quote(error)}.", fix=RESTORE) from None


def _translate(statement: str) -> str:
    """A statement that makes or changes a table, in PostgreSQL's words."""
    for word, other in TYPES.items():
        statement = statement.replace(word, other)
    return statement


def _quote(error: psycopg.Error) -> str:
    """What the server or the driver says, on one line."""
    text = error.diag.message_primary or str(error).strip() or type(error).__name__
    return text.splitlines()[0].rstrip(".")


def _import_driver() -> Any:
    try:
        import psycopg
        import psycopg.conninfo
    except ImportError:
        fix = "Install it with: pip install 'anchor-ledger[postgresql]'"
        raise Unavailable("A store in PostgreSQL needs psycopg.", fix=fix) from None
    return psycopg
