"""What people write and read: identities (`ed25519:` and 64 digits), stages, checkpoints, times."""

from __future__ import annotations

import re
import time
from typing import Final

from anchor.consensus.containers.entries import Key
from anchor.consensus.containers.phase0 import Checkpoint
from anchor.consensus.schemes import require_key
from anchor.errors import InvalidSignature, Misuse
from anchor.params import SCHEME_ED25519, STAGES, UINT64_MAX

PREFIX: Final = "ed25519:"
MAX_SHOWN: Final = 80
"""Characters of what someone typed that a message repeats."""


def encode_name(text: str) -> bytes:
    """The bytes of a name that someone typed. What is not UTF-8 becomes what no name may hold."""
    return text.encode("utf-8", "backslashreplace")


def format_identity(identity: bytes) -> str:
    """A publisher's root key, or an administrator's key, in text."""
    return f"{PREFIX}{identity.hex()}"


def parse_identity(text: str) -> bytes:
    """The identity that `text` names. Raises Misuse unless it is as `format_identity` writes it."""
    digits = text.removeprefix(PREFIX)
    try:
        identity = bytes.fromhex(digits)
    except ValueError:
        identity = b""
    if len(identity) != 32 or text != format_identity(identity):
        shown = text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"
        raise Misuse(
            f"{shown!r} names no publisher.",
            fix="Write ed25519: and the 64 digits of its root key, as anchor keygen prints them.",
        )
    try:
        require_key(Key(scheme=SCHEME_ED25519, public_key=identity))
    except InvalidSignature as error:
        what = f"{text!r} is no safe key: {error.what}"
        raise Misuse(what, fix="Ask the publisher for it again.") from None
    return identity


def parse_stage(text: str) -> int:
    """The stage of that name. Raises Misuse for another."""
    if text not in STAGES:
        raise Misuse(f"There is no stage {text!r}.", fix=f"Choose one of: {', '.join(STAGES)}.")
    return STAGES[text]


def get_stage_name(stage: int) -> str:
    """A stage's name."""
    names = [name for name, number in STAGES.items() if number == stage]
    return names[0] if names else f"stage {stage}"


def format_time(timestamp: int) -> str:
    """A Unix time for people, UTC."""
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(timestamp))


def format_time_exactly(timestamp: int) -> str:
    """A Unix time for programs (RFC 3339), UTC."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(timestamp))


def format_duration(seconds: int) -> str:
    """A length of time for people: "90 seconds", "3.5 days"."""
    for unit, name in ((86400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * unit:
            return f"{seconds / unit:.1f} {name}"
    return f"{seconds} seconds"


def format_checkpoint(checkpoint: Checkpoint) -> str:
    """`0x…:epoch`."""
    return f"0x{checkpoint.root.hex()}:{checkpoint.epoch}"


def parse_checkpoint(text: str) -> Checkpoint:
    """The checkpoint that `text`, `root:epoch`, names; the root's `0x` may be left out. Raises Misuse."""
    match = re.fullmatch(r"(?:0x)?([0-9a-fA-F]{64}):([0-9]{1,20})", text)
    if not match or int(match[2]) > UINT64_MAX:
        raise Misuse(f"{text!r} is no checkpoint.", fix="Write root:epoch, as in 0x6d…3f:12.")
    return Checkpoint(epoch=int(match[2]), root=bytes.fromhex(match[1]))
