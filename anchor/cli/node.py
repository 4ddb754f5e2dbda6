"""`anchor node`: serves a ledger over HTTP."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from anchor.cli.ledgers import add_ledger_option, get_folder
from anchor.cli.output import Outcome, Terminal
from anchor.cli.secrets import add_passphrase_option, read_passphrase
from anchor.errors import Misuse, Unavailable

if TYPE_CHECKING:
    import ssl

    from anchor.node.writer import Writer

HELP = """\
Serve a ledger over HTTP: manifests, proofs, bundles and checkpoints for anyone,
and take signed entries. Nobody need trust the node: whoever asks checks what it
serves. Stop it with SIGTERM or Ctrl-C.
"""
EXAMPLES = """
anchor node --ledger ledger/ --passphrase-file phrase
anchor node --ledger ledger/ --read-only --port 8961
anchor node --ledger lab/ --keystores keys/ --peer https://node.example:8960
anchor node --ledger new/ --join https://node.example:8960 --trust 0x…:12
anchor node --ledger ledger/ --host 0.0.0.0 --tls-cert node.pem \\
  --tls-key node.key
"""
DEFAULT_PORT: Final = 8960
DEFAULT_RATE: Final = 100.0
DEFAULT_MAX_PEERS: Final = 32


def add_arguments(parser: ArgumentParser) -> None:
    """The command's arguments."""
    add_ledger_option(parser)
    add_passphrase_option(parser)
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument(
        "--port", type=int, default=DEFAULT_PORT, help="0 for any free one (default: %(default)s)"
    )
    parser.add_argument(
        "--read-only", action="store_true", help="serve what another process writes; no passphrase"
    )
    _add_network_options(parser)
    parser.add_argument("--operators", metavar="FILE", help="operators' tokens, one a line; mode 0600")
    parser.add_argument("--tls-cert", metavar="FILE", help="certificate chain (PEM); needs --tls-key")
    parser.add_argument("--tls-key", metavar="FILE", help="its private key (PEM)")
    parser.add_argument(
        "--rate",
        type=float,
        default=DEFAULT_RATE,
        metavar="N",
        help="requests a second from one address; 0: no limit (default: %(default)g)",
    )
    parser.add_argument("--log-json", action="store_true", help="log one JSON object a line")


def _add_network_options(parser: ArgumentParser) -> None:
    group = parser.add_argument_group("a ledger that several nodes keep")
    group.add_argument(
        "--peer", metavar="URL", action="append", default=[], help="a node to connect to; may be repeated"
    )
    group.add_argument("--join", metavar="URL", help="fill a new folder from this node, which is not trusted")
    group.add_argument(
        "--trust", metavar="ROOT:EPOCH|NAME", help="the checkpoint that a new folder starts from"
    )
    group.add_argument("--keystores", metavar="DIR", help="validators to sign with (EIP-2335)")
    group.add_argument(
        "--max-peers", type=int, default=DEFAULT_MAX_PEERS, metavar="N", help="(default: %(default)s)"
    )
    group.add_argument("--public-url", metavar="URL", help="where others reach this node: they are told")
    group.add_argument(
        "--prune", action="store_true", help="let go of blocks that nobody's trust needs (default: keep all)"
    )
    group.add_argument("--faults", action="store_true", help="let operators make it misbehave, on a devnet")
    group.add_argument(
        "--clock-behind", type=int, default=0, metavar="MS", help="by which a devnet's clock is behind, in ms"
    )


def run(options: Namespace, terminal: Terminal) -> Outcome:
    """Serves until it is told to stop."""
    try:
        import aiohttp  # noqa: F401
    except ImportError:
        fix = "Install it with: pip install 'anchor-ledger[ledger,node]'"
        raise Unavailable("The node needs aiohttp.", fix=fix) from None
    import asyncio

    from anchor.node.app import build_front
    from anchor.node.clock import SystemClock
    from anchor.node.logs import set_up_logs
    from anchor.node.node import Node
    from anchor.node.operators import Operators, read_operators
    from anchor.node.server import run_node

    folder, tls = get_folder(options), _load_tls(options)
    if not 0 <= options.port < 1 << 16 or options.rate < 0:
        raise Misuse("A port is 0 to 65535, and a rate is not negative.")
    if options.join is not None or options.trust is not None:
        _join(options, folder)
    operators = Operators() if options.operators is None else read_operators(Path(options.operators))
    set_up_logs(as_json=options.log_json, stream=sys.stderr)
    node = Node(folder, _make_writer(options, folder), SystemClock(options.clock_behind))
    front = build_front(node, operators, rate=options.rate)
    asyncio.run(run_node(node, front, options.host, options.port, tls))
    return Outcome("The node has stopped.", {"stopped": True})


def _join(options: Namespace, folder: Path) -> None:
    """Fills the node's folder from a checkpoint that is trusted, unless it was filled so before."""
    import asyncio
    import time

    from anchor.bundle.trust import resolve_trust
    from anchor.node.network.joining import join_network
    from anchor.node.network.urls import parse_url

    if options.join is None or options.trust is None:
        raise Misuse(
            "To join a network takes a node and a checkpoint.", fix="Give --join URL and --trust ROOT:EPOCH."
        )
    trust, url = resolve_trust(options.trust), parse_url(options.join)
    asyncio.run(join_network(folder, url, trust.checkpoint, trust.network_id, time.time()))
    options.peer.append(url)


def _make_writer(options: Namespace, folder: Path) -> Writer | None:
    """What writes to the ledger: its one operator, or the network that keeps it."""
    from anchor.node.folder import open_reader
    from anchor.params import WALL_CLOCK

    if options.read_only:
        return None
    with open_reader(folder) as chain:
        is_networked = chain.genesis.clock == WALL_CLOCK
    if is_networked:
        return _make_networked(options, folder)
    of_networks = ("peer", "keystores", "public_url", "prune", "faults", "clock_behind")
    if any(getattr(options, name) for name in of_networks):
        raise Misuse(
            f"{folder} holds a ledger of one operator: nobody else has its history.",
            fix="Leave out --peer, --keystores, --public-url, --prune, --faults and --clock-behind.",
        )
    from anchor.node.clock import SystemClock
    from anchor.node.embedded import Embedded
    from anchor.node.folder import unlock_seed

    seed = unlock_seed(folder, read_passphrase(options.passphrase_file, f"the ledger {folder}"))
    return Embedded(folder, seed, SystemClock())


def _make_networked(options: Namespace, folder: Path) -> Writer:
    from anchor.node.clock import SystemClock
    from anchor.node.network.company import Settings
    from anchor.node.network.handshake import NO_CERTIFICATE
    from anchor.node.network.networked import Keystores, Networked
    from anchor.node.network.urls import parse_url
    from anchor.node.server import compute_fingerprint

    settings = Settings(
        listed=tuple([parse_url(url) for url in options.peer]),
        most=options.max_peers,
        url=parse_url(options.public_url) if options.public_url else "",
        prunes=options.prune,
        has_faults=options.faults,
        certificate=compute_fingerprint(Path(options.tls_cert)) if options.tls_cert else NO_CERTIFICATE,
    )
    if settings.most < 1:
        raise Misuse("A node of a network has at least one peer.", fix="Give --max-peers a larger number.")
    keystores = None
    if options.keystores is not None:
        password = read_passphrase(options.passphrase_file, f"the keystores in {options.keystores}")
        keystores = Keystores(Path(options.keystores), password)
    return Networked(folder, keystores, settings, SystemClock(options.clock_behind))


def _load_tls(options: Namespace) -> ssl.SSLContext | None:
    if (options.tls_cert is None) != (options.tls_key is None):
        raise Misuse("TLS takes both --tls-cert and --tls-key.")
    if options.tls_cert is None:
        return None
    from anchor.node.server import load_tls

    return load_tls(Path(options.tls_cert), Path(options.tls_key))
