"""A network's node in one file, there and back; what it cannot be made to sign; a store made anew from it."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Sequence
from contextlib import closing, nullcontext
from pathlib import Path
from shutil import copytree, rmtree
from typing import Any, NamedTuple

import pytest

from anchor.cli.main import main
from anchor.consensus.containers.entries import RegisterPublisher, SignedEntry
from anchor.consensus.containers.phase0 import IndexedAttestation, SignedBeaconBlock
from anchor.consensus.slasher import Slasher
from anchor.errors import AnchorError, InvalidTransition, Malformed, Misuse, Unavailable, WrongNetwork
from anchor.merkle.scope import hash_tree_root, schema_of
from anchor.node import backup_file
from anchor.node.backup import NetworkHeader, export_ledger, import_ledger
from anchor.node.backup_file import BLOCK, MANIFEST, PENDING, Record, Writer, read_records
from anchor.node.chain import Chain
from anchor.node.checking import Report, check_folder
from anchor.node.clock import SystemClock
from anchor.node.entries import Pen
from anchor.node.folder import NETWORK, open_reader
from anchor.node.founding import draw_draft, found_network, start_folder
from anchor.node.keys import derive_administrator_key
from anchor.node.network.engine import Engine
from anchor.node.network.entries import MAX_PENDING
from anchor.node.network.messages import Kind, Message
from anchor.node.network.rebuilding import DAMAGED, rebuild_from_backup
from anchor.node.places import FILE, find_store
from anchor.node.records import Batch
from anchor.node.sqlite import Sqlite
from anchor.node.store import Store
from anchor.node.validators import keystores, protection
from anchor.node.validators.deposits import make_deposits
from anchor.node.validators.folder import make_validators, open_validators
from anchor.params import LOGICAL_CLOCK
from tests.consensus.ledgers import GENESIS_TIME, identity, make_key
from tests.node.network.tools import SLOT
from tests.node.postgres import Server
from tests.node.tools import PHRASE, Random, make_manifest, make_original, write

SEED = b"admin".ljust(32, b"\0")
ADMINISTRATOR = derive_administrator_key(SEED)
EARLY, LATE = 36, 40
"""Slots at which the backup is made, and at which the node dies."""
NOW = GENESIS_TIME + LATE * SLOT
KILLED = 9
STEPS = (
    (Store, "commit"),
    (os, "link"),
    (os, "fsync"),
    (Path, "rename"),
    (Path, "replace"),
    (Path, "unlink"),
)
"""Changes on disk before which a process is killed."""


class Witness:
    """Sees all that a node signs, and what of it contradicts itself."""

    def __init__(self) -> None:
        self.blocks = set[tuple[int, bytes]]()
        self.votes: list[IndexedAttestation] = []

    def live(self, engine: Engine, slots: Sequence[int]) -> None:
        """Lets slots pass for an engine."""
        for slot in slots:
            for part in (0.0, 0.4, 0.8):
                for send in engine.on_tick(int((GENESIS_TIME + (slot + part) * SLOT) * 1000)):
                    if send.but is None:
                        self._see(engine, send.message)

    def _see(self, engine: Engine, message: Message) -> None:
        branches = engine._branches
        if message.kind == Kind.BLOCK:
            block = message.value.message
            self.blocks.add((int(block.slot), engine.ledger.hash_tree_root(block)))
        elif message.kind == Kind.ATTESTATION:
            self.votes.append(branches.choice.get_indexed_vote(branches.view, message.value))

    def require_honest(self, earlier: Witness) -> None:
        """Nothing that was seen contradicts anything else, or what an earlier witness saw."""
        slasher, blocks = Slasher(), self.blocks | earlier.blocks
        assert not [offence for vote in earlier.votes + self.votes for offence in slasher.observe(vote)]
        assert len({slot for slot, _ in blocks}) == len(blocks)


class Made(NamedTuple):
    """A node that lived, and a backup from the midst of its life."""

    node: Path
    keys: Path
    backup: bytes
    waiting: SignedEntry
    network_id: bytes
    witness: Witness
    """Of what its validators signed until it died."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """One operator's validators on a network by the clock, with all signatures; then the node dies."""
    home, randomness = tmp_path_factory.mktemp("network"), Random()
    node, keys = home / "node", home / "keys"
    keys.mkdir()
    draft = draw_draft("net", [ADMINISTRATOR.public.public_key], SLOT, randomness)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keystores, "SCRYPT_N", 1 << 4)
        keyring = make_validators(keys, 16, PHRASE, randomness)
    founded = found_network(draft, [make_deposits("op", draft.fork_version, keyring)], GENESIS_TIME)
    start_folder(node, founded)
    with (
        closing(Store.open(find_store(node), writable=True)) as store,
        open_validators(keys, PHRASE, founded.network_id) as validators,
    ):
        engine, chain, witness = Engine(store, validators), Chain(store), Witness()
        witness.live(engine, range(1, 4))
        for entry in write(chain, SEED, "1"):
            engine.submit(entry, int((GENESIS_TIME + 3.9 * SLOT) * 1000))
        witness.live(engine, range(4, EARLY))
        store.commit(Batch(manifests=(make_manifest("1"),)))
        body = RegisterPublisher(root_key=identity(make_key("late")))
        waiting = Pen(chain.get_head().state, 4).write(ADMINISTRATOR.public.public_key, body, [ADMINISTRATOR])
        engine.submit(waiting, int((GENESIS_TIME + (EARLY - 0.1) * SLOT) * 1000))
        export_ledger(node, home / "backup")
        witness.live(engine, range(EARLY, LATE))
    return Made(node, keys, (home / "backup").read_bytes(), waiting, founded.network_id, witness)


@pytest.fixture
def keys(made: Made, tmp_path: Path) -> Path:
    """The validators' folder, as it was when the node died, in a place of its own."""
    copytree(made.keys, tmp_path / "keys")
    path = tmp_path / "keys" / protection.FILE
    with closing(Sqlite.connect(path, "rw", protection.SORT)) as record, record.transaction():
        record.run("UPDATE origin SET home = ?", record.home)
    return tmp_path / "keys"


@pytest.fixture
def node(made: Made, tmp_path: Path) -> Path:
    """The node's folder, likewise."""
    copytree(made.node, tmp_path / "node")
    make_original(tmp_path / "node")
    return tmp_path / "node"


def _import(data: bytes, tmp_path: Path, *, take_over: bool = False) -> Path:
    (tmp_path / "backup").write_bytes(data)
    import_ledger(tmp_path / "backup", tmp_path / "copy", take_over=take_over, now=NOW)
    return tmp_path / "copy"


def _check(folder: Path) -> Report:
    return check_folder(folder, lambda _: nullcontext(lambda _: None))


def _split(data: bytes) -> list[Record]:
    with io.BytesIO(data) as file:
        return list(read_records(file, Path("backup"), lambda _: None))


def _join(records: Sequence[Record]) -> bytes:
    """A backup of these records, with the digest that belongs to it."""
    with io.BytesIO() as file:
        writer = Writer(file)
        for kind, data in records:
            writer.write(kind, data)
        writer.finish()
        return file.getvalue()


def _get_blocks(folder: Path) -> list[SignedBeaconBlock]:
    with open_reader(folder) as chain:
        return list(chain.get_blocks())


# There and back


def test_there_and_back(made: Made, tmp_path: Path) -> None:
    copy = _import(made.backup, tmp_path)
    assert (copy / NETWORK).read_bytes() != b""
    description, original = (json.loads((folder / NETWORK).read_bytes()) for folder in (copy, made.node))
    assert description == original
    assert description["operators"] == 1
    kept = sorted(path.name for path in copy.iterdir())
    assert kept == [FILE, NETWORK], "no keys, and no identity"
    assert _get_blocks(copy) == _get_blocks(made.node)[: EARLY - 1]
    with closing(Store.open(find_store(copy), writable=False)) as store:
        chain = Chain(store)
        assert [root for root, _ in store.get_pending_entries()] == [hash_tree_root(made.waiting)]
        assert store.get_final_slot() == 16
        assert store.may_sign()
        assert chain.get_manifest_roots() == [make_manifest("1")[0]]
        assert chain.get_status().final_entries == len(list(chain.get_entries(0, 99))) == 4
    assert _check(copy).damage is None
    assert export_ledger(copy, tmp_path / "again") == (len(made.backup), False)
    assert (tmp_path / "again").read_bytes() == made.backup


def test_a_manifest_that_the_node_lacked_is_no_reason_to_refuse(made: Made, tmp_path: Path) -> None:
    records = [record for record in _split(made.backup) if record[0] != MANIFEST]
    with open_reader(_import(_join(records), tmp_path)) as chain:
        assert chain.get_manifest_roots() == []


def test_in_a_database_and_back(made: Made, tmp_path: Path, postgres: Server) -> None:
    (tmp_path / "backup").write_bytes(made.backup)
    import_ledger(
        tmp_path / "backup", tmp_path / "copy", take_over=False, now=NOW, url=postgres.make_schema()
    )
    export_ledger(tmp_path / "copy", tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == made.backup


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sets the clock of commands."""
    monkeypatch.setattr(SystemClock, "now", lambda _: NOW)


@pytest.mark.usefixtures("now")
def test_commands_say_what_is_not_in_it(
    node: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, copy = str(tmp_path / "backup"), str(tmp_path / "copy")
    assert main(["export", "--ledger", str(node), "-o", file]) == 0
    assert "No validator's key is in it, nor what they signed" in capsys.readouterr().out
    assert main(["import", file, copy, "--take-over"]) == 2
    assert "nothing in it that signs" in capsys.readouterr().err
    assert main(["import", file, copy]) == 0
    assert "It is another node of its network" in capsys.readouterr().out


# What it signs


def test_nothing_takes_over_what_does_not_sign(made: Made, tmp_path: Path) -> None:
    with pytest.raises(Misuse, match="nothing in it that signs"):
        _import(made.backup, tmp_path, take_over=True)
    assert not (tmp_path / "copy").exists()


@pytest.mark.parametrize("has_peers", (False, True))
def test_a_node_that_comes_back_never_contradicts_itself(
    made: Made, keys: Path, tmp_path: Path, has_peers: bool
) -> None:
    """Its store knows less than its validators signed; the record of that holds them back, for a while."""
    witness, copy = Witness(), _import(made.backup, tmp_path)
    with (
        closing(Store.open(find_store(copy), writable=True)) as store,
        open_validators(keys, PHRASE, made.network_id) as validators,
    ):
        engine = Engine(store, validators)
        if has_peers:
            engine.on_blocks(_get_blocks(made.node), (GENESIS_TIME + LATE * SLOT) * 1000)
        witness.live(engine, range(EARLY if not has_peers else LATE, EARLY + 30))
        witness.require_honest(made.witness)
        assert engine.finalized.epoch >= 5
        found = store.find_entry_by_root(hash_tree_root(made.waiting))
        assert found is not None
        assert found.slot <= engine.final_slot


def test_a_copy_of_the_keys_does_not_sign_beside_the_original(made: Made, tmp_path: Path) -> None:
    _import(made.backup, tmp_path)
    copytree(made.keys, tmp_path / "copied")
    with (
        open_validators(made.keys, PHRASE, made.network_id),
        pytest.raises(Unavailable, match="still in use"),
        open_validators(made.keys, PHRASE, made.network_id),
    ):
        pytest.fail("one process at a time has the keys")
    with (
        pytest.raises(Misuse, match="is a copy"),
        open_validators(tmp_path / "copied", PHRASE, made.network_id),
    ):
        pytest.fail("it may have signed elsewhere")


# What is refused


def test_a_flipped_bit_is_refused_everywhere(made: Made, tmp_path: Path) -> None:
    places = [*range(0, len(made.backup), len(made.backup) // 60), len(made.backup) - 1]
    for number, place in enumerate(places):
        flipped = bytearray(made.backup)
        flipped[place] ^= 1 << number % 8
        for data in (bytes(flipped), made.backup[:place]):
            with pytest.raises(Malformed):
                _import(data, tmp_path)
            assert [path.name for path in tmp_path.iterdir()] == ["backup"]


def _change_header(records: list[Record], **fields: Any) -> list[Record]:
    header = schema_of(NetworkHeader).decode(records[0][1]).replace(**fields)
    return [(backup_file.NETWORK, schema_of(NetworkHeader).encode(header)), *records[1:]]


def _change_genesis(records: list[Record], **fields: Any) -> list[Record]:
    header = schema_of(NetworkHeader).decode(records[0][1])
    return _change_header(records, genesis=header.genesis.replace(**fields))


@pytest.mark.parametrize(
    ("forge", "what"),
    [
        (lambda records: records[1:], "does not start with a header"),
        (lambda records: [(backup_file.HEADER, records[0][1]), *records[1:]], "holds what cannot be read"),
        (lambda records: [*records[:3], *records[4:]], "has parent"),
        (lambda records: [*records, records[1]], r"record b'b' where none can stand"),
        (lambda records: [*records, records[-2]], r"record b'm' where none can stand"),
        (lambda records: [*records, *[records[-1]] * MAX_PENDING], r"record b'p' where none can stand"),
        (lambda records: [*records[:-1], (PENDING, b"x" * 20)], "holds what cannot be read"),
        (lambda records: [*records[:-1], (MANIFEST, make_manifest("2")[1])], "which no block publishes"),
        (lambda records: _change_header(records, operators=17), "a header that no network has"),
        (lambda records: _change_header(records, name=""), "name has 1 to"),
        (lambda records: _change_genesis(records, clock=LOGICAL_CLOCK), "a header that no network has"),
        (lambda records: _change_genesis(records, nonce=b"\1" * 32), "signature|parent"),
    ],
)
def test_a_forged_backup_is_refused(
    made: Made, tmp_path: Path, forge: Callable[[list[Record]], list[Record]], what: str
) -> None:
    """With the right digest: the records themselves must hold."""
    with pytest.raises(AnchorError, match=what):
        _import(_join(forge(_split(made.backup))), tmp_path)
    assert not (tmp_path / "copy").exists()


def test_every_signature_counts(made: Made, tmp_path: Path) -> None:
    records = _split(made.backup)
    last = max(i for i, record in enumerate(records) if record[0] == BLOCK)
    records[last] = (BLOCK, records[last][1][:4] + records[last - 1][1][4:100] + records[last][1][100:])
    with pytest.raises(InvalidTransition, match=f"signature of the block of slot {EARLY - 1}"):
        _import(_join(records), tmp_path)


def test_entries_that_peers_would_refuse_do_not_wait(made: Made, tmp_path: Path) -> None:
    """A node repeats what waits: one that nobody signed would have its peers ban it."""
    records, schema = _split(made.backup), schema_of(SignedEntry)
    forged = made.waiting.replace(signatures=(made.waiting.signatures[0][::-1],))
    with open_reader(made.node) as chain:
        recorded = chain.get_signed_entry(0)
    more = [(PENDING, schema.encode(entry)) for entry in (forged, recorded)]
    copy = _import(_join([*records[:-1], *more, records[-1], records[-1]]), tmp_path)
    with closing(Store.open(find_store(copy), writable=False)) as store:
        assert [root for root, _ in store.get_pending_entries()] == [hash_tree_root(made.waiting)]


# Kills


def _run_killed(act: Callable[[], object], patch: pytest.MonkeyPatch, step: int) -> bool:
    """Runs `act` in a process that is killed before its `step`th change on disk; False where it has fewer."""
    pid = os.fork()
    if pid == 0:
        left = [step]
        try:
            for owner, name in STEPS:
                patch.setattr(owner, name, _die_at(getattr(owner, name), left))
            act()
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == KILLED


def _die_at(call: Callable[..., object], left: list[int]) -> Callable[..., object]:
    def step(*arguments: Any, **more: Any) -> object:
        left[0] -= 1
        if left[0] < 0:
            os._exit(KILLED)
        return call(*arguments, **more)

    return step


def test_a_killed_import_leaves_all_or_nothing(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = 0
    while _run_killed(lambda: _import(made.backup, tmp_path), monkeypatch, step):
        step += 1
        if (tmp_path / "copy").exists():
            assert _check(tmp_path / "copy").damage is None
            rmtree(tmp_path / "copy")
    assert step > 5
    assert sorted(path.name for path in tmp_path.iterdir()) == ["backup", "copy"]
    assert _check(tmp_path / "copy").damage is None


def test_a_killed_rebuilding_is_done_again(
    made: Made, node: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "backup").write_bytes(made.backup)
    damaged = bytes(100_000)
    (node / FILE).write_bytes(damaged)
    aside, step = node / DAMAGED, 0
    while _run_killed(lambda: rebuild_from_backup(node, tmp_path / "backup", NOW, None), monkeypatch, step):
        step += 1
        assert (node / FILE).exists()
        if aside.exists():  # as the message says
            with pytest.raises(Misuse, match="is there already"):
                rebuild_from_backup(node, tmp_path / "backup", NOW, None)
            assert aside.read_bytes() == damaged
            aside.unlink()
            (node / FILE).write_bytes(damaged)
    assert step > 5
    assert _get_blocks(node) == _get_blocks(made.node)[: EARLY - 1]


# A store made anew


def test_a_store_is_made_anew_from_a_backup(made: Made, node: Path, keys: Path, tmp_path: Path) -> None:
    keys.rename(node / "validators")
    (tmp_path / "backup").write_bytes(made.backup)
    kept = {path: path.read_bytes() for path in node.rglob("*") if path.is_file() and path.name != FILE}
    damaged = bytearray((node / FILE).read_bytes())
    damaged[len(damaged) // 2 :][:4096] = bytes(4096)
    (node / FILE).write_bytes(damaged)
    rebuilt = rebuild_from_backup(node, tmp_path / "backup", NOW, None)
    assert (rebuilt.trusted.epoch, rebuilt.aside) == (2, str(node / DAMAGED))
    assert (node / DAMAGED).read_bytes() == damaged
    assert all(path.read_bytes() == data for path, data in kept.items() if path.name != "lock")
    assert _check(node).damage is None
    with closing(Store.open(find_store(node), writable=True)) as store:
        assert store.may_sign()
        engine = Engine(store, None)
        engine.on_blocks(_get_blocks(made.node), NOW * 1000)
        assert store.find_block_before(LATE - 1) is not None
    assert _get_blocks(node) == _get_blocks(made.node)


def test_a_backup_of_another_network_changes_nothing(
    made: Made, node: Path, tmp_path: Path, first_ledger: tuple[Path, bytes]
) -> None:
    before = (node / FILE).read_bytes()
    (tmp_path / "backup").write_bytes(_join(_change_genesis(_split(made.backup), nonce=b"\1" * 32)))
    with pytest.raises(WrongNetwork, match="is of another network"):
        rebuild_from_backup(node, tmp_path / "backup", NOW, None)
    export_ledger(first_ledger[0], tmp_path / "other")
    with pytest.raises(WrongNetwork, match="is of another network"):
        rebuild_from_backup(node, tmp_path / "other", NOW, None)
    assert (node / FILE).read_bytes() == before
    with pytest.raises(Misuse, match="a ledger of one operator"):
        rebuild_from_backup(first_ledger[0], tmp_path / "other", NOW, None)


@pytest.mark.usefixtures("now")
def test_the_command_makes_it_anew(
    made: Made, node: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "backup"
    file.write_bytes(made.backup)
    options = ["db", "rebuild", "--ledger", str(node), "--from", str(file)]
    assert main([*options, "--trust", f"0x{bytes(32).hex()}:2"]) == 2
    assert "takes no checkpoint" in capsys.readouterr().err
    assert main(options) == 0
    assert "which is final" in capsys.readouterr().out
    assert main(["db", "check", "--ledger", str(node)]) == 0
