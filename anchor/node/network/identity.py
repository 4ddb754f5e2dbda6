"""A node's own key: a private file in its ledger's folder, drawn at the first start."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Final

from anchor.consensus.schemes import SigningKey
from anchor.errors import MalformedFile, Misuse
from anchor.files import PRIVATE, read_bounded, told_plainly, write_new
from anchor.node.network.handshake import Randomness
from anchor.params import SCHEME_ED25519

FILE: Final = "identity"
SEED_BYTES: Final = 32


def load_identity(folder: Path, randomness: Randomness) -> SigningKey:
    """The key in `folder`, made when there is none.

    Raises Misuse when others may read it, MalformedFile for what is none, Unavailable.
    """
    path = folder / FILE
    if not path.exists():
        write_new(path, randomness(SEED_BYTES).hex().encode() + b"\n", mode=PRIVATE)
    with told_plainly(path, "read"):
        mode = stat.S_IMODE(path.stat().st_mode)
    if mode & ~PRIVATE:
        raise Misuse(f"{path} has mode {mode:04o}: others may read it.", fix=f"Run: chmod 600 {path}")
    text = read_bounded(path, 2 * SEED_BYTES + 1, "a node's identity").decode("ascii", "replace")
    try:
        seed = bytes.fromhex(text)
    except ValueError:
        seed = b""
    if len(seed) != SEED_BYTES:
        raise MalformedFile(
            f"{path} is no node's identity.", cause="identity", fix="Delete it: the node then draws another."
        )
    return SigningKey(SCHEME_ED25519, seed)
