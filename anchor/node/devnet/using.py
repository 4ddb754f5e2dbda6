"""Using a devnet as a publisher and an auditor would: with the commands that they have, and no others."""

from __future__ import annotations

import json
import struct
import time
from pathlib import Path
from typing import Any, Final

from anchor.errors import Unavailable
from anchor.files import write_new
from anchor.node.devnet.building import ADMINISTRATOR, LEDGER, PHRASE_FILE
from anchor.node.devnet.control import Control
from anchor.node.devnet.plan import get_node_folder
from anchor.node.devnet.processes import call
from anchor.node.folder import NETWORK

KEY: Final = "publisher.key"
MODELS: Final = "models"
SPREAD_SECONDS: Final = 30.0
"""In which every node must have what one of them has: blocks, votes, manifests."""
HEADER: Final = {"weight": {"dtype": "U8", "shape": [4096], "data_offsets": [0, 4096]}}


def publish(control: Control, node: int, model: str, version: str) -> str:
    """Publishes a small model through a node, and waits until it is final."""
    place = ["--node", control.plan.get_member(node).url, "--trust", _get_trust(control)]
    if not (control.folder / KEY).exists():
        _call(control, "keygen", str(control.folder / KEY))
        key = ["--key", str(control.folder / ADMINISTRATOR)]
        _call(control, "network", "register", get_identity(control), *key, *place)
    path = _make_model(control, model, version)
    names = ["--model", model, "--version", version, "--key", str(control.folder / KEY)]
    found = _call(control, "publish", str(path), *names, *place)
    return f"{model}@{version} is final: {found['final']}"


def verify(control: Control, node: int, model: str, version: str) -> str:
    """Verifies a published model, with a bundle that another node gives.

    That one may learn a little later than the first what is final: so it is asked again, for a while.
    """
    path = _get_folder(control, model, version)
    bundle = path.with_name(f"{path.name}-from-{node}.anchor")
    names = ["--model", f"{model}@{version}", "--publisher", get_identity(control)]
    source = ["--url", control.plan.get_member(node).url, "--bundle", str(bundle)]
    end = time.monotonic() + SPREAD_SECONDS
    while True:
        try:
            _call(control, "verify", str(path), *source, *names, "--trust", _get_trust(control))
            break
        except Unavailable:
            if time.monotonic() > end:
                raise
            time.sleep(1)
    return f"{model}@{version} is what was published, by the bundle of node {node}"


def get_identity(control: Control) -> str:
    """The publisher's."""
    return str(json.loads((control.folder / KEY).read_bytes())["identity"])


def _get_trust(control: Control) -> str:
    """The genesis: the devnet's own folder is whom its user trusts."""
    path = get_node_folder(control.folder, control.plan.members[0]) / LEDGER / NETWORK
    return str(json.loads(path.read_bytes())["genesis"])


def _call(control: Control, *arguments: str) -> dict[str, Any]:
    """The result of a command. Raises Unavailable with what it complained of."""
    phrase = (control.folder / PHRASE_FILE).read_text().strip()
    envelope = call([*arguments, "--json"], {"ANCHOR_PASSPHRASE": phrase})
    if envelope["error"] is not None:
        raise Unavailable(f"anchor {arguments[0]}: {envelope['error']['what']}")
    if envelope["status"] != "ok":
        raise Unavailable(f"anchor {arguments[0]} ended as {envelope['status']}.")
    result: dict[str, Any] = envelope["result"]
    return result


def _get_folder(control: Control, model: str, version: str) -> Path:
    return control.folder / MODELS / f"{model.replace('/', '-')}-{version}"


def _make_model(control: Control, model: str, version: str) -> Path:
    """A model of 4096 bytes that differ from version to version."""
    path = _get_folder(control, model, version)
    path.mkdir(parents=True, exist_ok=True)
    if not (path / "model.safetensors").exists():
        header = json.dumps(HEADER).encode()
        header += b" " * (-len(header) % 8)
        weights = f"{model}@{version}".encode().ljust(4096, b"\0")
        write_new(path / "model.safetensors", struct.pack("<Q", len(header)) + header + weights)
    return path
