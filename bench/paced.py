"""Load at a steady rate, whatever the server does: who asks late counts the time for which it waited.

`python -m bench.paced` reads one JSON job a line, and answers with one a line: rate reached, p50, p99 (ms).
A time is from when a request was due, not from when it could be sent (no coordinated omission).
"""

from __future__ import annotations

import json
import select
import socket
import sys
import time
from collections import deque
from dataclasses import dataclass, field

PART = 1 << 18


@dataclass(slots=True)
class Line:
    """A connection, with at most one request on it."""

    socket: socket.socket
    due: float = 0.0
    head: bytes = b""
    """Of the answer, while it is not whole."""
    left: int = -1
    """Bytes of the body that are still to come; -1 before the head is whole."""

    def take(self, data: bytes, size: int) -> bool:
        """Takes a part of an answer whose body has `size` bytes; whether it is whole now."""
        if self.left < 0:
            head, gap, body = (self.head + data).partition(b"\r\n\r\n")
            self.head = head
            if not gap:
                return False
            data, self.left = body, size
        self.left -= len(data)
        return self.left == 0


@dataclass(slots=True)
class Run:
    """A run's connections, and the times that answers took, in seconds."""

    request: bytes
    size: int
    """Of every answer's body."""
    poll: select.epoll
    idle: deque[Line] = field(default_factory=deque)
    busy: dict[int, Line] = field(default_factory=dict)
    times: list[float] = field(default_factory=list)

    def send(self, due: float) -> None:
        """Asks on a connection that is free."""
        line = self.idle.popleft()
        line.due, line.head, line.left = due, b"", -1
        self.busy[line.socket.fileno()] = line
        line.socket.sendall(self.request)

    def receive(self, seconds: float) -> None:
        """Takes what has come, or waits for so long."""
        for handle, _ in self.poll.poll(max(seconds, 0)):
            line = self.busy.get(handle)
            if line is None:
                raise RuntimeError("the server said something that it was not asked for, or hung up")
            data = line.socket.recv(PART)
            if not data:
                raise RuntimeError("the server hung up")
            if line.take(data, self.size):
                self.times.append(time.perf_counter() - line.due)
                self.idle.append(self.busy.pop(handle))


def main() -> None:
    """Runs the jobs that standard input names."""
    for text in sys.stdin:
        job = json.loads(text)
        request = f"GET {job['path']} HTTP/1.1\r\nHost: localhost\r\nAccept: {job['media']}\r\n\r\n".encode()
        print(
            json.dumps(load(job["port"], request, job["rate"], job["seconds"], job["connections"])),
            flush=True,
        )


def load(port: int, request: bytes, rate: float, seconds: float, connections: int) -> dict[str, float]:
    """Asks `rate` times a second for so many seconds."""
    lines = [Line(socket.create_connection(("127.0.0.1", port))) for _ in range(connections)]
    with select.epoll() as poll:
        run = Run(request, _measure_answer(lines[0].socket, request), poll)
        for line in lines:
            line.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            poll.register(line.socket, select.EPOLLIN)
            run.idle.append(line)
        took = _pace(run, rate, round(rate * seconds))
    for line in lines:
        line.socket.close()
    ordered = sorted(run.times)
    half, most = (1e3 * ordered[int(len(ordered) * share)] for share in (0.5, 0.99))
    return {"rate": len(ordered) / took, "p50": half, "p99": most}


def _pace(run: Run, rate: float, count: int) -> float:
    """Sends `count` requests, each when it is due or as soon after as can be. Returns how long it took."""
    start = time.perf_counter()
    for number in range(count):
        due = start + number / rate
        run.receive(due - time.perf_counter())
        while not run.idle or time.perf_counter() < due:
            run.receive(1.0 if not run.idle else due - time.perf_counter())
        run.send(due)
    while run.busy:
        run.receive(1.0)
    return time.perf_counter() - start


def _measure_answer(line: socket.socket, request: bytes) -> int:
    """Bytes of an answer's body: the same for every request here."""
    line.sendall(request)
    data = b""
    while b"\r\n\r\n" not in data:
        data += line.recv(PART)
    head, _, body = data.partition(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200"):
        raise RuntimeError(f"the server did not answer well: {head[:80]!r}")
    [size] = [
        int(row.split(b":")[1]) for row in head.lower().split(b"\r\n") if row.startswith(b"content-length")
    ]
    while len(body) < size:
        body += line.recv(PART)
    return size


if __name__ == "__main__":
    main()
