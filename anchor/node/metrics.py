"""Counters and gauges in Prometheus' text format (version 0.0.4)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
BOUNDS: Final = (0.001, 0.005, 0.02, 0.1, 0.5, 2.0, 10.0)
"""Upper ends of the histogram of answer times, in seconds."""


class RequestCounter:
    """Counts answers by route, method and status, and how long they took. Labels come from a fixed set."""

    def __init__(self) -> None:
        self._answers: Counter[tuple[str, str, int]] = Counter()
        self._times: Counter[float] = Counter()
        self._seconds, self._count = 0.0, 0

    def add(self, method: str, route: str, status: int, seconds: float) -> None:
        """One answer."""
        self._answers[method, route, status] += 1
        self._seconds, self._count = self._seconds + seconds, self._count + 1
        for bound in BOUNDS:
            if seconds <= bound:
                self._times[bound] += 1
                break

    def format(self) -> Iterable[str]:
        """The lines of these metrics."""
        yield "# HELP anchor_http_answers_total Answers by method, route and status."
        yield "# TYPE anchor_http_answers_total counter"
        for (method, route, status), count in sorted(self._answers.items()):
            labels = f'method="{method}",route="{route}",status="{status}"'
            yield f"anchor_http_answers_total{{{labels}}} {count}"
        yield "# HELP anchor_http_seconds Time from a request's head to the end of its answer."
        yield "# TYPE anchor_http_seconds histogram"
        below = 0
        for bound in BOUNDS:
            below += self._times[bound]
            yield f'anchor_http_seconds_bucket{{le="{bound}"}} {below}'
        yield f'anchor_http_seconds_bucket{{le="+Inf"}} {self._count}'
        yield f"anchor_http_seconds_sum {self._seconds:.6f}"
        yield f"anchor_http_seconds_count {self._count}"


def format_gauges(gauges: Mapping[str, tuple[str, float]]) -> Iterable[str]:
    """Lines of gauges: name to what it tells, and its value."""
    for name, (what, value) in gauges.items():
        yield f"# HELP anchor_{name} {what}"
        yield f"# TYPE anchor_{name} gauge"
        yield f"anchor_{name} {value:g}"
