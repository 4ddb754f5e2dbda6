"""The embedded ledger: what is recorded is final, what is refused leaves no trace."""

from __future__ import annotations

import random
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from anchor.bundle.build import build_bundle
from anchor.bundle.verify import Expectations, verify_bundle
from anchor.consensus.bls import Bls
from anchor.consensus.forks.ledger import Ledger
from anchor.consensus.forks.ledger.genesis import compute_config
from anchor.consensus.presets import LEDGER
from anchor.errors import CorruptedLedger, InvalidEntry, InvalidSignature, Misuse, Unavailable
from anchor.node import batches, keys
from anchor.node.clock import ManualClock
from anchor.node.folder import create_ledger, open_reader
from anchor.node.keys import derive_administrator_key, derive_signing_keys
from anchor.node.places import FILE
from anchor.node.production import FINALISED, JUSTIFIED, PROPOSED, Step
from anchor.node.publishing import get_version, needs_root_key, write_promotion, write_revocation
from anchor.params import STAGE_PRODUCTION, STAGE_STAGING
from tests.node.tools import ALICE, NOW, PHRASE, Random, make_manifest, opened, publish, published, write

Made = tuple[Path, bytes]


def test_a_publication_is_final_and_its_bundle_verifies(any_ledger: Made) -> None:
    folder, seed = any_ledger
    steps: list[Step] = []
    with opened(folder, seed) as service:
        entries = write(service.chain, seed, "2")
        recorded = service.record(entries, [make_manifest("2")], steps.append)
        trusted = service.chain.get_checkpoint(0)
        bundle = build_bundle(service.chain, "acme/tiny", "2", trusted)
    evidence = verify_bundle(bundle, trusted, Expectations("acme/tiny", "2", ALICE.identity), now=NOW)
    assert evidence.newest == recorded.checkpoint
    assert recorded.positions == (4,)
    kinds = [step.kind for step in steps]
    assert kinds == [*[PROPOSED] * 8, JUSTIFIED, *[PROPOSED] * 8, JUSTIFIED, FINALISED]
    assert (steps[0].slot, steps[0].epoch) == (32, 4)
    assert steps[-1].root == steps[0].root == recorded.checkpoint.root


def test_everyone_votes_every_time(ledger: Made) -> None:
    folder, seed = ledger
    with opened(folder, seed) as service:
        publish(service, "2")
        for epoch in (2, 3, 4):
            votes = service.chain.get_attestations(epoch)
            assert sorted(i for vote in votes for i in vote.attesting_indices) == list(range(64))
        state = service.chain.get_head().state
        assert state.balances.array.min() > LEDGER.MAX_EFFECTIVE_BALANCE


def test_the_first_publication_brings_its_publisher(any_ledger: Made) -> None:
    with open_reader(any_ledger[0]) as chain:
        kinds = [type(signed.entry.body.data).__name__ for _, signed in chain.get_entries(0, 99)]
        assert kinds == ["RegisterPublisher", "RotateKeys", "ClaimOrganisation", "Publish"]
        assert not needs_root_key(chain.get_head().state, ALICE.identity)
        assert needs_root_key(chain.get_head().state, bytes(32))
        with pytest.raises(Misuse, match="needs its root key"):
            write(chain, any_ledger[1], "2", replace(ALICE, identity=b"\1" * 32, root=None))


def test_a_refused_entry_leaves_no_trace(ledger: Made) -> None:
    folder, seed = ledger
    before = (folder / FILE).read_bytes()
    mallory = replace(ALICE, signing=derive_signing_keys(b"mallory".ljust(32, b"\0"), (1,)))
    with opened(folder, seed) as service:
        with pytest.raises(InvalidEntry, match="is published already"):
            service.record(write(service.chain, seed, "1"))
        with pytest.raises(InvalidSignature):
            service.record(write(service.chain, seed, "2", mallory))
        assert published(service.chain) == ["1"]
    assert (folder / FILE).read_bytes() == before


def test_stages_and_revocation(any_ledger: Made) -> None:
    with opened(*any_ledger) as service:
        chain, name = service.chain, "acme/tiny@1"
        service.record([write_promotion(chain, ALICE, name, STAGE_STAGING)])
        version = get_version(chain.get_head().state, name)
        assert (version.stage, version.sequence) == (STAGE_STAGING, 1)
        with pytest.raises(Misuse, match="at most 256 bytes"):
            write_revocation(chain, ALICE, name, "x" * 257)
        service.record([write_revocation(chain, ALICE, name, "wrong split")])
        assert get_version(chain.get_head().state, name).revoked
        with pytest.raises(InvalidEntry, match="is revoked"):
            service.record([write_promotion(chain, ALICE, name, STAGE_PRODUCTION)])
        with pytest.raises(Unavailable, match="There is no"):
            write_promotion(chain, ALICE, "acme/tiny@7", STAGE_STAGING)
        with pytest.raises(Misuse, match="names no version"):
            write_promotion(chain, ALICE, "acme/tiny", STAGE_STAGING)


def test_time_never_goes_back(ledger: Made) -> None:
    folder, seed = ledger
    with opened(folder, seed, ManualClock(NOW + 1000)) as service:
        publish(service, "2")
    with opened(folder, seed, ManualClock(NOW + 970)) as service:  # a clock may be a little off
        publish(service, "3")
        assert service.chain.get_head().state.timestamp == NOW + 1000
    with opened(folder, seed, ManualClock(NOW)) as service:
        with pytest.raises(Unavailable, match="made 1000 seconds after the time of this machine's clock"):
            publish(service, "4")
        assert published(service.chain) == ["1", "2", "3"]


def test_any_state_is_made_anew_from_the_nearest_snapshot(
    ledger: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Longer than the distance of two snapshots; each state has the root that its block claims."""
    monkeypatch.setattr(batches, "SNAPSHOT_SLOTS", 40)
    folder, seed = ledger
    with opened(folder, seed) as service:
        for version in range(2, 6):
            publish(service, str(version))
    with sqlite3.connect(folder / FILE) as connection:
        kept = [slot for (slot,) in connection.execute("SELECT slot FROM snapshots WHERE kept ORDER BY 1")]
        temporary = connection.execute("SELECT count(*) FROM snapshots WHERE NOT kept").fetchone()[0]
    assert kept == [0, 40, 80]
    assert temporary == 1  # the head's: the finalised state is that of slot 80
    with open_reader(folder) as chain:
        for epoch in range(12):
            root = chain.get_checkpoint(epoch).root
            assert chain.ledger.hash_tree_root(chain.get_state(root)) == chain.get_header(root).state_root
        with pytest.raises(Unavailable, match="has no block"):
            chain.get_state(bytes(32))


def test_anyone_can_replay_the_chain(any_ledger: Made) -> None:
    """From genesis, with every signature checked, by a fresh instance of the rules."""
    with open_reader(any_ledger[0]) as chain:
        rules = Ledger(LEDGER, compute_config(chain.genesis), Bls())
        state = rules.initialize_ledger_state(chain.genesis)
        for block in chain.get_blocks():
            state = rules.state_transition(state, block)
        assert rules.hash_tree_root(state) == rules.hash_tree_root(chain.get_head().state)


def test_networks_never_repeat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "SCRYPT_N", 1 << 4)
    clock = ManualClock(NOW)
    made = [
        create_ledger(tmp_path / str(i), "lab", PHRASE, clock=clock, randomness=Random(bytes([i])))
        for i in range(2)
    ]
    for key in ("network_id", "genesis_fork_version", "genesis", "administrators"):
        assert made[0][key] != made[1][key]


def _read_everything(folder: Path) -> None:
    with open_reader(folder) as chain:
        head = chain.get_head()
        list(chain.get_blocks())
        list(chain.get_entries(0, 99))
        for version in head.state.versions:
            chain.get_manifest(version.manifest_root)
        for epoch in range(4):
            chain.get_state(chain.get_checkpoint(epoch).root)


@pytest.mark.parametrize(
    ("statement", "what"),
    [
        ("UPDATE ledger SET genesis = x'00'", "The genesis cannot be read"),
        ("DELETE FROM blocks WHERE slot = 20", "before slot 21 is missing"),
        ("DELETE FROM blocks WHERE slot = 24", "before slot 25 is missing"),
        ("DELETE FROM snapshots", "holds no state"),
        ("DELETE FROM manifests", "does not keep manifest"),
        ("UPDATE snapshots SET slot = 30 WHERE slot = 31", "state of slot 30 is not what was stored"),
    ],
)
def test_what_is_missing_is_told(ledger: Made, statement: str, what: str) -> None:
    folder, _ = ledger
    with sqlite3.connect(folder / FILE) as connection:
        connection.execute(statement)
    connection.close()
    with pytest.raises((CorruptedLedger, Unavailable), match=what):
        _read_everything(folder)


@pytest.mark.parametrize("table", ["blocks", "snapshots", "entries", "manifests"])
def test_a_flipped_bit_is_told(ledger: Made, table: str) -> None:
    folder, _ = ledger
    _read_everything(folder)
    with sqlite3.connect(folder / FILE) as connection:
        rows = connection.execute(f"SELECT root, ssz FROM {table}").fetchall()  # noqa: S608
    connection.close()
    for number, (root, ssz) in enumerate(rows):
        place = (number * 37) % len(ssz)
        flipped = ssz[:place] + bytes([ssz[place] ^ 1 << number % 8]) + ssz[place + 1 :]
        for stored in (flipped, ssz):
            with sqlite3.connect(folder / FILE) as connection:
                update = f"UPDATE {table} SET ssz = ? WHERE root = ?"  # noqa: S608
                connection.execute(update, (stored, root))
            connection.close()
            if stored is flipped:
                with pytest.raises(CorruptedLedger, match=r"cannot be read|not what was stored"):
                    _read_everything(folder)


def test_flipped_bits_anywhere_in_the_file_are_told_or_harmless(ledger: Made) -> None:
    """Most of all in the heads of pages and at their ends, where rows say what they hold."""
    folder, _ = ledger
    whole, chance = (folder / FILE).read_bytes(), random.Random(5)
    told = 0
    for _ in range(40):
        page = 4096 * chance.randrange(len(whole) // 4096)
        place = page + chance.choice((chance.randrange(200), chance.randrange(3600, 4096)))
        flipped = whole[:place] + bytes([whole[place] ^ 1 << chance.randrange(8)]) + whole[place + 1 :]
        (folder / FILE).write_bytes(flipped)
        try:
            _read_everything(folder)
        except (CorruptedLedger, Unavailable):
            told += 1
    assert told > 10


def test_the_wrong_seed_opens_nothing(ledger: Made) -> None:
    with pytest.raises(CorruptedLedger, match="another ledger's keys"), opened(ledger[0], bytes(32)):
        pass
    assert derive_administrator_key(ledger[1]) != derive_administrator_key(bytes(32))
