"""From a peer's frame to what is to be done about it, in the thread that runs the engine."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Final, NamedTuple

from anchor.errors import Invalid, Malformed, Premature, UnknownParent
from anchor.node.network.engine import Engine
from anchor.node.network.messages import KINDS, Kind, decode_message
from anchor.node.network.outbox import Send
from anchor.node.network.peers import Fault
from anchor.node.network.traffic import Received

NEW, KNOWN, EARLY, INVALID, MALFORMED = "new", "known", "early", "invalid", "malformed"
FLOOD, UNASKED, ANSWER, FAILED = "flood", "unasked", "answer", "failed"
"""What can come of a frame; the last: this node could not judge it."""
HEAD: Final = 5
"""Bytes of a frame before its record."""


class Judged(NamedTuple):
    """What came of a frame."""

    verdict: str
    sends: Sequence[Send] = ()
    fault: Fault | None = None
    what: str = ""
    root: bytes = b""
    """Of a block."""
    missing: bytes = b""
    """Root of a block that its sender can be asked for."""


def judge(engine: Engine, received: Received, time_ms: int) -> Judged:
    """Gives a pushed frame, or a block that was asked for by root, to the engine. Raises CorruptedLedger."""
    root = b""
    try:
        message = decode_message(engine.ledger.scope, received.frame)
        if message.kind == Kind.BLOCK:
            root = engine.ledger.hash_tree_root(message.value.message)
        sends = engine.on_message(message, received.peer, time_ms)
    except Malformed as error:
        return Judged(MALFORMED, fault=Fault.MALFORMED, what=error.what)
    except UnknownParent as error:
        return Judged(EARLY, what=error.what, root=root, missing=error.root)
    except Premature as error:
        return Judged(EARLY, what=error.what, root=root)
    except Invalid as error:
        return Judged(INVALID, fault=Fault.INVALID, what=error.what, root=root)
    return Judged(NEW if sends else KNOWN, sends, root=root)


def compute_digest(frame: bytes) -> bytes:
    """What tells one pushed message from another, whatever its number."""
    return sha256(frame[:1] + frame[HEAD:]).digest()[:16]


def read_head(frame: bytes) -> tuple[Kind | None, int]:
    """A frame's kind, None where there is none such, and its number."""
    if len(frame) < HEAD:
        return None, 0
    return KINDS.get(frame[0]), int.from_bytes(frame[1:HEAD], "little")
