"""Making a devnet's folder: a network of several operators, founded as any other, each with a folder here."""

from __future__ import annotations

import secrets
import socket
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from anchor.errors import Misuse
from anchor.files import PRIVATE, new_folder, write_new
from anchor.node.devnet.plan import MAX_NODES, Member, Plan, get_node_folder, save_plan
from anchor.node.founding import Founded, draw_draft, found_network, start_folder
from anchor.node.keys import Randomness, derive_administrator_key
from anchor.node.validators.deposits import make_deposits
from anchor.node.validators.folder import make_validators

GENESIS_DELAY: Final = 4
"""Seconds from founding the network to its first slot: nodes need some to start."""
PHRASE: Final = "phrase"
ADMINISTRATOR: Final = "administrator.key"
TOKENS: Final = "operators"
VALIDATORS: Final = "validators"
LEDGER: Final = "ledger"
