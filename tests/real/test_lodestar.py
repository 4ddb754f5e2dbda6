"""Against a real beacon client: we sync from it, it syncs from us, and neither accepts a wrong root."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.real.lodestar import Lodestar, find_port, require_lodestar, run_chain, run_consumer

pytestmark = pytest.mark.real
ROOT = Path(__file__).parents[2]
WRONG = f"0x{'42' * 32}"


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lodestar]:
    """A chain that has finalised more than once.

    From a first checkpoint, whose own state knows of nothing final, this release takes blocks and no head.
    """
    require_lodestar()
    with run_chain(tmp_path_factory.mktemp("lodestar") / "chain") as node:
        node.wait("finality", lambda: node.get_finalized()[0] > 3, 420)
        yield node


def sync(*arguments: str, timeout: float = 400) -> tuple[int, dict[str, Any]]:
    """`anchor sync`, its exit code and its envelope."""
    line = [sys.executable, "-m", "anchor.cli.main", "sync", *arguments, "--json"]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, timeout=timeout, check=False)
    return done.returncode, json.loads(done.stdout)


@contextmanager
def serving(*arguments: str) -> Iterator[str]:
    """`anchor sync … --follow --serve`, once it listens; its address."""
    line = [
        sys.executable,
        "-m",
        "anchor.cli.main",
        "sync",
        *arguments,
        "--follow",
        "--serve",
        str(find_port()),
    ]
    process = subprocess.Popen(line, cwd=ROOT, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        for text in process.stderr:
            found = re.search(r"verified on (http://[0-9.:]+)\.", text)
            if found:
                yield found[1]
                break
        else:
            raise AssertionError("it does not serve")
    finally:
        process.kill()
        process.communicate()


def test_we_sync_from_it_and_follow_finality(chain: Lodestar, tmp_path: Path) -> None:
    epoch, root = chain.get_finalized()
    data = tmp_path / "data"
    code, found = sync(
        chain.url, "--trust", f"{root}:{epoch}", "--follow", "3", "--poll", "2", "--data", str(data)
    )
    assert (code, found["error"]) == (0, None)
    assert found["result"]["anchor"]["checkpoint"] == f"{root}:{epoch}"
    epochs = [int(known.partition(":")[2]) for known in found["result"]["finalized"]]
    assert len(epochs) == 3
    assert epochs == sorted(set(epochs)) and epochs[0] > epoch
    for known in found["result"]["finalized"]:
        block, _, number = known.partition(":")
        header = chain.get(f"/eth/v1/beacon/headers/{block}")["header"]["message"]
        assert chain.get(f"/eth/v1/beacon/blocks/{header['slot']}/root")["root"] == block
        assert -(-int(header["slot"]) // 8) == int(number)
    assert json.loads((data / "finalized.json").read_text())["finalized"] == found["result"]["finalized"][-1]


def test_the_light_client_alone_follows_it(chain: Lodestar, tmp_path: Path) -> None:
    epoch, root = chain.get_finalized()
    code, found = sync(
        chain.url,
        "--trust",
        f"{root}:{epoch}",
        "--light",
        "--follow",
        "1",
        "--poll",
        "2",
        "--data",
        str(tmp_path),
    )
    assert (code, found["error"]) == (0, None)
    assert int(found["result"]["finalized"][-1].partition(":")[2]) > epoch


def test_we_refuse_a_wrong_root(chain: Lodestar, tmp_path: Path) -> None:
    epoch, _ = chain.get_finalized()
    code, found = sync(chain.url, "--trust", f"{WRONG}:{epoch}", "--data", str(tmp_path / "data"))
    assert code == 3  # it has no such block
    assert "404" in found["error"]["what"]
    block = chain.get(f"/eth/v1/beacon/blocks/{8 * epoch - 1}/root")["root"]
    code, found = sync(chain.url, "--trust", f"{block}:{epoch}", "--data", str(tmp_path / "data"))
    assert code == 1  # a block of that chain, but not that epoch's checkpoint
    assert "it is not the checkpoint of epoch" in found["error"]["what"]
    assert not (tmp_path / "data").exists()


def test_it_syncs_from_us_and_reaches_the_head(chain: Lodestar, tmp_path: Path) -> None:
    epoch, root = chain.get_finalized()
    trusted = f"{root}:{epoch}"
    with serving(chain.url, "--trust", trusted, "--poll", "2", "--data", str(tmp_path / "data")) as address:
        genesis = chain.folder / "genesis.ssz"
        with run_consumer(tmp_path / "consumer", genesis, address, trusted) as consumer:
            consumer.wait("answer", lambda: consumer.get("/eth/v1/node/version"), 120)
            assert consumer.get_head() >= 8 * epoch
            consumer.catch_up(chain, 200)
            assert consumer.get_head() > 8 * epoch + 8


def test_it_refuses_a_wrong_root_from_us(chain: Lodestar, tmp_path: Path) -> None:
    epoch, root = chain.get_finalized()
    trust = f"{root}:{epoch}"
    with serving(chain.url, "--trust", trust, "--poll", "2", "--data", str(tmp_path / "data")) as address:
        genesis = chain.folder / "genesis.ssz"
        with run_consumer(tmp_path / "consumer", genesis, address, f"{WRONG}:{epoch}") as consumer:
            assert consumer.process.wait(120) != 0
            assert "not within weak subjectivity period" in consumer.log or "checkpoint" in consumer.log
