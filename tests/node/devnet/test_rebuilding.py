"""A node whose store is damaged says so when it starts, and what to do; that done, it goes on."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from anchor.cli.main import main
from anchor.errors import Unavailable
from anchor.node.checking import check_folder
from anchor.node.devnet import claims, processes, using
from anchor.node.devnet.building import LEDGER
from anchor.node.devnet.control import Control
from anchor.node.devnet.plan import get_log, get_node_folder
from anchor.node.devnet.sight import look_at
from anchor.node.network.rebuilding import DAMAGED
from anchor.node.places import FILE

WOUNDS = 3
"""Pages that are lost, one after the other; the first is the file's own first."""


@pytest.fixture
def control(tmp_path: Path) -> Iterator[Control]:
    """A devnet in which a model is published, and final."""
    folder = tmp_path / "devnet"
    assert main(["devnet", "up", "--folder", str(folder), "--nodes", "3", "--validators", "12"]) == 0
    try:
        control = Control(folder)
        claims.finalizes(control.plan, 60)
        using.publish(control, 1, "acme/tiny", "1")
        yield control
    finally:
        Control(folder).stop()


def _lose_page(path: Path, chance: random.Random, place: int | None) -> None:
    """Overwrites a page of a store's file, anywhere."""
    data = bytearray(path.read_bytes())
    size = int.from_bytes(data[16:18], "big")
    start = (chance.randrange(len(data) // size) if place is None else place) * size
    data[start : start + size] = chance.randbytes(size)
    path.write_bytes(data)


@pytest.mark.slow
def test_a_lost_page_is_told_and_made_good_from_peers(
    control: Control, capsys: pytest.CaptureFixture[str]
) -> None:
    member, source = control.plan.get_member(2), control.plan.get_member(1)
    folder, chance, wounds = get_node_folder(control.folder, member) / LEDGER, random.Random(3), 0
    identity = (folder / "identity").read_bytes()
    while wounds < WOUNDS:
        seen = look_at(member)
        processes.stop([member])
        _lose_page(folder / FILE, chance, None if wounds else 0)
        try:
            control.start(2)
        except Unavailable as error:
            assert "anchor db rebuild" in error.what
        else:  # there was nothing on that page
            processes.stop([member])
            assert check_folder(folder, lambda _: nullcontext(lambda _: None)).damage is None
            control.start(2)
            continue
        wounds += 1
        assert f"{folder / FILE} is damaged" in get_log(control.folder, member).read_text()
        _rebuild(folder, source.url, f"{seen.final_root}:{seen.final_epoch}", capsys)
        control.start(2)
        claims.finalizes(control.plan, 60)
        (folder / DAMAGED).unlink()
    assert (folder / "identity").read_bytes() == identity
    using.verify(control, 2, "acme/tiny", "1")  # by a bundle from the genesis: all older blocks are there
    using.publish(control, 2, "acme/tiny", "2")
    control.stop()
    reports = [
        check_folder(get_node_folder(control.folder, member) / LEDGER, lambda _: nullcontext(lambda _: None))
        for member in control.plan.members
    ]
    assert [report.damage for report in reports] == [None] * 3
    assert len({report.entries for report in reports}) == 1


def _rebuild(folder: Path, url: str, known: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What the node said to do; where the store tells of no checkpoint, with one that its operator knows."""
    command = ["db", "rebuild", "--ledger", str(folder), "--from", url, "--json"]
    capsys.readouterr()
    code = main(command)
    envelope = json.loads(capsys.readouterr().out)
    if code == 2:
        assert "--trust ROOT:EPOCH" in envelope["error"]["fix"]
        code = main([*command, "--trust", known])
    assert code == 0, envelope
