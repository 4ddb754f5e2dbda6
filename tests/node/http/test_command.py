"""`anchor node` and `anchor doctor` as processes: started, asked, stopped; one of them to a ledger."""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from anchor.cli.main import main
from anchor.consensus.containers.entries import SignedEntry
from anchor.errors import Unavailable
from anchor.merkle.scope import schema_of
from anchor.node.clock import SystemClock
from anchor.node.folder import open_reader
from anchor.node.server import load_tls
from tests.node.certificates import make_certificate
from tests.node.tools import NOW, PHRASE, make_ledger, opened, publish, write

ANCHOR = [sys.executable, "-m", "anchor.cli.main"]


@contextmanager
def running(folder: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], dict[str, object]]]:
    """A node's process, and the first line of its log."""
    command = [*ANCHOR, "node", "--ledger", str(folder), "--port", "0", "--log-json", *options]
    environment = os.environ | {"ANCHOR_PASSPHRASE": PHRASE}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        try:
            assert process.stderr is not None
            yield process, json.loads(process.stderr.readline())
        finally:
            process.kill()


def _get(url: str, context: ssl.SSLContext | None = None) -> dict[str, object]:
    with urllib.request.urlopen(url, timeout=10, context=context) as answer:  # noqa: S310
        document: dict[str, object] = json.load(answer)
    return document


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_until_it_is_told_to_stop(ledger: tuple[Path, bytes], number: int) -> None:
    with running(ledger[0]) as (process, line):
        assert line["takes_entries"]
        assert _get(f"http://127.0.0.1:{line['port']}/health")["status"] == "ok"
        process.send_signal(number)
        _, rest = process.communicate(timeout=20)
        assert process.returncode == 0
        assert [json.loads(text)["message"] for text in rest.splitlines()] == ["Stopping."]


def test_one_process_writes_to_a_ledger(
    ledger: tuple[Path, bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    with running(ledger[0]) as (process, _):
        other = subprocess.run(
            [*ANCHOR, "node", "--ledger", str(ledger[0]), "--port", "0"],
            env=os.environ | {"ANCHOR_PASSPHRASE": PHRASE},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert other.returncode == 3
        assert f"process {process.pid}" in other.stderr
        with running(ledger[0], "--read-only") as (_, line):
            assert not line["takes_entries"]


def test_a_port_that_is_taken(ledger: tuple[Path, bytes]) -> None:
    with running(ledger[0]) as (_, line):
        other = subprocess.run(
            [*ANCHOR, "node", "--ledger", str(ledger[0]), "--read-only", "--port", str(line["port"])],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert other.returncode == 3
        assert "cannot be listened on" in other.stderr


@pytest.mark.parametrize("host", ["\u202e", "a" * 300, "none.invalid"])
def test_a_host_that_is_no_name(host: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--ledger", "none", "--host", host, "--json"]) == 1
    findings = json.loads(capsys.readouterr().out)["result"]["findings"]
    assert [one["is_good"] for one in findings if one["about"] == "port"] == [False]


@pytest.mark.parametrize(
    "options",
    [["--tls-cert", "a"], ["--port", "70000"], ["--rate", "-1"], ["--operators", "/none"], ["--port", "x"]],
)
def test_wrong_options(ledger: tuple[Path, bytes], options: list[str]) -> None:
    code = main(["node", "--ledger", str(ledger[0]), "--read-only", *options])
    assert code == (3 if "/none" in options else 2)


def test_a_pipe_is_no_certificate(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(Unavailable, match="pipe is not a regular file"):
        load_tls(tmp_path / "pipe", tmp_path / "pipe")


def test_it_serves_over_tls(ledger: tuple[Path, bytes], tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path)
    options = ("--read-only", "--tls-cert", str(certificate), "--tls-key", str(key))
    with running(ledger[0], *options) as (_, line):
        context = ssl.create_default_context(cafile=str(certificate))
        assert _get(f"https://127.0.0.1:{line['port']}/health", context)["status"] == "ok"


@pytest.fixture
def ledger_of_today(tmp_path: Path) -> tuple[Path, bytes]:
    """A ledger that a process, which reads the machine's clock, can write to."""
    folder, clock = tmp_path / "today", SystemClock()
    seed = make_ledger(folder, clock)
    with opened(folder, seed, clock) as service:
        publish(service, "1")
    return folder, seed


def _send(port: object, entry: SignedEntry) -> dict[str, object]:
    body = schema_of(SignedEntry).encode(entry)
    headers = {"Content-Type": "application/octet-stream"}
    request = urllib.request.Request(f"http://127.0.0.1:{port}/anchor/v1/entries", body, headers)
    with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
        receipt: dict[str, object] = json.load(answer)["data"]
    return receipt


def test_what_was_acknowledged_outlives_a_kill(ledger_of_today: tuple[Path, bytes]) -> None:
    folder, seed = ledger_of_today
    with running(folder) as (process, line):
        with open_reader(folder) as chain:
            first, second = write(chain, seed, "2")[0], write(chain, seed, "3")[0]
        receipt = _send(line["port"], first)
        process.kill()  # SIGKILL: nothing is tidied up
    with open_reader(folder) as chain:
        assert chain.get_signed_entry(int(str(receipt["position"]))) == first
        assert chain.get_status().final_entries == chain.get_status().entries
    with running(folder) as (_, line):
        assert _send(line["port"], first) == receipt
        with pytest.raises(urllib.error.HTTPError, match="422"):
            _send(line["port"], second)  # its number is used


@pytest.mark.slow
def test_a_thousand_listeners_hear(ledger_of_today: tuple[Path, bytes]) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    folder, seed = ledger_of_today
    try:
        with running(folder, "--rate", "0") as (_, line), ExitStack() as stack:
            listeners = []
            for _ in range(1000):
                listener = stack.enter_context(
                    socket.create_connection(("127.0.0.1", int(str(line["port"]))), timeout=60)
                )
                listener.sendall(b"GET /anchor/v1/events?topics=finalized HTTP/1.1\r\nHost: a\r\n\r\n")
                listeners.append(stack.enter_context(listener.makefile("rb")))
            for lines in listeners:
                while b"from now on" not in lines.readline():
                    pass
            with open_reader(folder) as chain:
                entry = write(chain, seed, "2")[0]
            receipt = _send(line["port"], entry)
            for lines in listeners:
                while not (text := lines.readline()).startswith(b"data:"):
                    pass
                assert json.loads(text[5:])["checkpoint"] == receipt["final"]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


# Doctor


def _examine(folder: Path, capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, dict[str, bool]]:
    code = main(["doctor", "--ledger", str(folder), "--port", "0", "--json", *options])
    findings = json.loads(capsys.readouterr().out)["result"]["findings"]
    return code, {finding["about"]: finding["is_good"] for finding in findings}


def test_a_ledger_that_is_well(
    ledger: tuple[Path, bytes], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "time", lambda: NOW + 60)
    code, found = _examine(ledger[0], capsys)
    expected = {"kernel", "signatures", "port", "disk", "keys", "store", "finality", "clock"}
    assert found.keys() == expected
    assert (code, set(found.values())) == (0, {True})
    monkeypatch.setattr(time, "time", lambda: NOW - 3600)
    code, found = _examine(ledger[0], capsys)
    assert (code, found["clock"]) == (1, False)


def test_what_is_wrong_is_found(ledger: tuple[Path, bytes], capsys: pytest.CaptureFixture[str]) -> None:
    folder, _ = ledger
    (folder / "keys").chmod(0o644)
    assert not _examine(folder, capsys)[1]["keys"]
    (folder / "keys").unlink()
    assert not _examine(folder, capsys)[1]["keys"]
    assert not _examine(folder, capsys, "--host", "203.0.113.1")[1]["port"]
    (folder / "ledger.sqlite").write_bytes(b"nothing of a store")
    assert not _examine(folder, capsys)[1]["store"]
    code, found = _examine(folder / "none", capsys)
    assert (code, found["store"]) == (1, False)
