"""Compare ways of doing one thing: interleaved (A B A B …), so that a busy machine slows all of them alike.

A ratio is the median over rounds of baseline / candidate within the round: how many times as fast.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import NamedTuple, Self


class Sample(NamedTuple):
    """Seconds that one run took."""

    wall: float
    cpu: float


Run = Callable[[], Sample | object]
"""Does the thing once. One that measures itself (in another process) returns a Sample."""


@dataclass(frozen=True, slots=True)
class Row:
    """One candidate's medians; ratios are to the first candidate."""

    name: str
    wall: float
    cpu: float
    wall_ratio: float
    cpu_ratio: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """Candidates that did the same thing."""

    title: str
    rows: Sequence[Row]
    absent: Sequence[str] = ()
    """Those that are not installed."""
    asked: str = ""
    """What the project holds itself to here."""


def compare(title: str, candidates: Mapping[str, Run | None], *, rounds: int, asked: str = "") -> Comparison:
    """Runs every candidate once to warm up, then `rounds` times in turn. The first one is the baseline.

    A candidate that is None is a peer that is not installed.
    """
    present = {name: run for name, run in candidates.items() if run is not None}
    for run in present.values():
        run()
    samples = [{name: measure(run) for name, run in present.items()} for _ in range(rounds)]
    baseline = next(iter(present))
    absent = [name for name, run in candidates.items() if run is None]
    return Comparison(title, [_row(name, baseline, samples) for name in present], absent, asked)


def measure(run: Run) -> Sample:
    """One run's time, or what it says that it took."""
    cpu, wall = time.process_time(), time.perf_counter()
    result = run()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return result if isinstance(result, Sample) else Sample(wall, cpu)


def _row(name: str, baseline: str, samples: Sequence[dict[str, Sample]]) -> Row:
    return Row(
        name=name,
        wall=median(sample[name].wall for sample in samples),
        cpu=median(sample[name].cpu for sample in samples),
        wall_ratio=median(sample[baseline].wall / sample[name].wall for sample in samples),
        cpu_ratio=median(sample[baseline].cpu / sample[name].cpu for sample in samples),
    )


class Peer:
    """A program of others that does a job for each line it reads, and answers with the seconds it took.

    Use as a context manager.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)  # noqa: S603

    def run(self, **job: object) -> Sample:
        """Sends a job, waits for the answer. Raises RuntimeError when the peer is gone."""
        if self._process.stdin is None or self._process.stdout is None:
            raise RuntimeError("the peer has no pipes")
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"the peer ended: exit {self._process.wait()}")
        return Sample(**json.loads(answer))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self._process.kill()
        self._process.communicate()


def show(comparisons: Sequence[Comparison], *, as_json: bool) -> None:
    """Prints tables, or one JSON document."""
    if as_json:
        print(json.dumps([asdict(comparison) for comparison in comparisons], indent=2))
        return
    for comparison in comparisons:
        print(f"\n{comparison.title}")
        print(f"  {'':34}{'wall':>10}{'cpu':>10}{'wall x':>8}{'cpu x':>8}")
        for row in comparison.rows:
            times = f"{_seconds(row.wall):>10}{_seconds(row.cpu):>10}"
            print(f"  {row.name:34}{times}{row.wall_ratio:8.2f}{row.cpu_ratio:8.2f}")
        for name in comparison.absent:
            print(f"  {name:34}{'not installed':>20}")
        if comparison.asked:
            print(f"  asked: {comparison.asked}")


def _seconds(value: float) -> str:
    for unit, factor in (("s", 1), ("ms", 1e3), ("µs", 1e6)):
        if value * factor >= 1:
            return f"{value * factor:.3g} {unit}"
    return f"{value * 1e9:.0f} ns"
