"""Networks of several operators, cheaply."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

from anchor.consensus.duties import Keyring
from anchor.node.founding import Draft, Founded, draw_draft, found_network
from anchor.node.keys import derive_administrator_key
from anchor.node.validators import keystores
from anchor.node.validators.deposits import Deposits, make_deposits
from anchor.node.validators.folder import make_validators
from tests.node.tools import NOW, PHRASE, Random

ADMINISTRATOR = derive_administrator_key(b"administrator".ljust(32, b"\0"))


def make_draft(seed: bytes = b"draft", seconds: int = 12) -> Draft:
    return draw_draft("lab", [ADMINISTRATOR.public.public_key], seconds, Random(seed))


def make_operator(folder: Path, name: str, draft: Draft, count: int = 2) -> tuple[Keyring, Deposits]:
    """An operator's keys, in a folder, and what it hands over."""
    folder.mkdir()
    with mock.patch.object(keystores, "SCRYPT_N", 1 << 4):
        keyring = make_validators(folder, count, PHRASE, Random(name.encode()))
    return keyring, make_deposits(name, draft.fork_version, keyring)


def make_network(folder: Path, *names: str) -> tuple[Founded, dict[str, Keyring]]:
    """A network, and its operators' keys by their names."""
    draft = make_draft()
    made = {name: make_operator(folder / name, name, draft) for name in names}
    founded = found_network(draft, [deposits for _, deposits in made.values()], NOW)
    return founded, {name: keyring for name, (keyring, _) in made.items()}
