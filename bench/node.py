"""The node under load, beside nginx that serves the same bytes as files: cached answers, one process each.

Needs `wrk`, and `nginx` to compare with; where they are missing there is nothing to measure, and it says so.
A time here is per answer: wall is 1 / rate, CPU is the server's own. Ratios are nginx / node.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.request import Request, urlopen

from anchor.consensus.containers.entries import Publish
from anchor.node.folder import open_reader, unlock_seed
from bench.harness import Comparison, Row, Sample, compare
from tests.node.tools import ALICE, PHRASE, make_ledger, make_weighty_manifest, opened, publish

CONNECTIONS = 16
STEADY = 0.7
"""Of the highest rate, for the times at a steady one."""
STEADY_CONNECTIONS = 256
SUBSCRIBERS = 1000
TICKS = os.sysconf("SC_CLK_TCK")
SSZ = "application/octet-stream"
NGINX = """
worker_processes 1; daemon off; pid {folder}/nginx.pid; error_log {folder}/error.log;
events {{ worker_connections 1024; }}
http {{
  access_log off; sendfile on; keepalive_requests 100000000; open_file_cache max=100; default_type {media};
  client_body_temp_path {folder}/t1; proxy_temp_path {folder}/t2; fastcgi_temp_path {folder}/t3;
  uwsgi_temp_path {folder}/t4; scgi_temp_path {folder}/t5;
  server {{ listen 127.0.0.1:{port} backlog=1024; root {folder}; }}
}}
"""


def measure(options: argparse.Namespace) -> Sequence[Comparison]:
    """Manifests, proofs and bundles; nothing where `wrk` is missing."""
    if not (shutil.which("wrk") and shutil.which("nginx")):
        print("node: skipped, for there is no wrk or no nginx", file=sys.stderr)
        return []
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        paths = _make_ledger(folder / "ledger", chunks=options.chunks)
        port, node = stack.enter_context(_run_node(folder / "ledger"))
        files, nginx = stack.enter_context(_run_nginx(folder))
        found = [
            _compare(what, path, port, node, files, nginx, folder, options) for what, path in paths.items()
        ]
        return [*found, _tell_many(folder / "ledger", port, node)]


def _compare(
    what: str,
    path: str,
    port: int,
    node: int,
    files: int,
    nginx: int,
    folder: Path,
    options: argparse.Namespace,
) -> Comparison:
    address = f"http://127.0.0.1:{port}{path}"
    with urlopen(Request(address, headers={"Accept": SSZ})) as answer:
        (folder / what).write_bytes(answer.read())
    loads: list[Load] = []
    found = compare(
        "",
        {
            "nginx, the same bytes as a file": lambda: _load(
                f"http://127.0.0.1:{files}/{what}", nginx, options.seconds, []
            ),
            "anchor node": lambda: _load(address, node, options.seconds, loads),
        },
        rounds=options.rounds,
    )
    rows = [dataclasses.replace(row, name=f"{row.name}, {1 / row.wall:,.0f}/s") for row in found.rows]
    half, most = (sorted(column)[len(loads) // 2] for column in list(zip(*loads, strict=True))[1:])
    steady = _load_steadily(address, options.seconds, STEADY / found.rows[1].wall)
    share = steady.rate * found.rows[1].wall
    size, memory = (folder / what).stat().st_size, _read_memory(node)
    title = (
        f"{what}, {size:,} bytes, {CONNECTIONS} connections: p50 {half:.1f} ms, p99 {most:.1f} ms, "
        f"{memory / 1e6:.0f} MB resident;\n  at {share:.0%} of that rate ({steady.rate:,.0f}/s, "
        f"{STEADY_CONNECTIONS} connections): p50 {steady.half:.1f} ms, p99 {steady.most:.1f} ms"
    )
    return Comparison(title, rows)


def _tell_many(ledger: Path, port: int, node: int) -> Comparison:
    """SUBSCRIBERS listeners to events, while one entry is recorded: until all have heard of it."""
    listeners = [_listen(port) for _ in range(SUBSCRIBERS)]
    memory, before = _read_memory(node), _read_cpu(node)
    seed = unlock_seed(ledger, PHRASE)
    with opened(ledger, seed) as service:
        publish(service, "2")
    start = time.perf_counter()
    first = None
    for listener in listeners:
        data = b""
        while b"event: entry" not in data:
            data = data[-32:] + listener.recv(1 << 16)
        first = first or time.perf_counter()
    spread = time.perf_counter() - (first or start)
    for listener in listeners:
        listener.close()
    cpu = _read_cpu(node) - before
    title = f"{SUBSCRIBERS} listeners to events, {memory / 1e6:.0f} MB resident: from the first to the last"
    return Comparison(title, [Row("anchor node", spread, cpu, 1.0, 1.0)])


def _listen(port: int) -> socket.socket:
    listener = socket.create_connection(("127.0.0.1", port))
    listener.settimeout(30)
    listener.sendall(b"GET /anchor/v1/events?topics=entry HTTP/1.1\r\nHost: localhost\r\n\r\n")
    while b"from now on" not in listener.recv(4096):
        pass
    return listener


class Load(NamedTuple):
    """What wrk found."""

    rate: float
    """Answers a second."""
    half: float
    most: float
    """Milliseconds that half of the answers, and 99 of 100, took at most."""


def _load(address: str, pid: int, seconds: float, loads: list[Load]) -> Sample:
    """As much as the server can; seconds per answer, of the clock and of the server's processor."""
    before = _read_cpu(pid)
    load, count = _run_wrk(address, seconds, CONNECTIONS)
    loads.append(load)
    return Sample(1 / load.rate, (_read_cpu(pid) - before) / count)


def _load_steadily(address: str, seconds: float, rate: float) -> Load:
    """About so many a second, of many who think in between."""
    think = str(1e3 * STEADY_CONNECTIONS / rate)
    script = ["-s", str(Path(__file__).with_name("steady.lua"))]
    return _run_wrk(address, seconds, STEADY_CONNECTIONS, script, {"ANCHOR_BENCH_THINK": think})[0]


def _run_wrk(
    address: str, seconds: float, connections: int, script: Sequence[str] = (), more: Mapping[str, str] = {}
) -> tuple[Load, int]:
    """What wrk found, and the number of answers. Raises RuntimeError for answers that are none."""
    command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds:g}s", "--latency", *script]
    command += ["-H", f"Accept: {SSZ}", address]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ | more)  # noqa: S603
    text = done.stdout
    count = int(re.findall(r"(\d+) requests in", text)[0])
    if "Non-2xx" in text or not count:
        raise RuntimeError(f"the server did not answer well:\n{text}")
    rate = float(re.findall(r"Requests/sec:\s+([0-9.]+)", text)[0])
    return Load(rate, _milliseconds(text, 50), _milliseconds(text, 99)), count


def _milliseconds(text: str, percentile: int) -> float:
    number, unit = re.findall(rf"{percentile}%\s+([0-9.]+)(us|ms|s)\b", text)[0]
    return float(number) * {"us": 1e-3, "ms": 1, "s": 1e3}[unit]


def _read_cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def _read_memory(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _make_ledger(folder: Path, *, chunks: int) -> dict[str, str]:
    """A ledger with a model of `chunks` MiB; the paths that are asked for."""
    seed = make_ledger(folder)
    root, data = make_weighty_manifest(chunks)
    with opened(folder, seed) as service:
        service.publish(ALICE, Publish(model=b"acme/tiny", version=b"1", manifest_root=root), data)
    with open_reader(folder) as chain:
        trust = chain.get_checkpoint(0).root.hex()
    version = "/anchor/v1/models/acme/tiny/versions/1"
    return {
        "manifest": f"/anchor/v1/manifests/0x{root.hex()}",
        "proof": f"{version}/chunk?tensor=layers.1&chunk=1",
        "bundle": f"{version}/bundle?trust=0x{trust}:0",
    }


@contextmanager
def _run_node(folder: Path) -> Iterator[tuple[int, int]]:
    """A node without limits of rate: its port and process."""
    command = [sys.executable, "-m", "anchor.cli.main", "node", "--ledger", str(folder)]
    command += ["--read-only", "--port", "0", "--rate", "0", "--log-json"]
    environment = os.environ | {"ANCHOR_PASSPHRASE": PHRASE}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:  # noqa: S603
        try:
            if process.stderr is None:
                raise RuntimeError("the node has no log")
            yield int(json.loads(process.stderr.readline())["port"]), process.pid
        finally:
            process.terminate()


@contextmanager
def _run_nginx(folder: Path) -> Iterator[tuple[int, int]]:
    """nginx over the folder's files: its port, and its worker's process."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    configuration = folder / "nginx.conf"
    configuration.write_text(NGINX.format(folder=folder, port=port, media=SSZ))
    folder.chmod(0o755)
    command = ["nginx", "-c", str(configuration), "-e", str(folder / "error.log")]
    with subprocess.Popen(command) as process:  # noqa: S603
        try:
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
            while not children.read_text():
                time.sleep(0.05)
            yield port, int(children.read_text().split()[0])
        finally:
            process.terminate()
