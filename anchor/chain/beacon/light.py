"""Where a light client starts that has a trusted root and no state.

A header tells neither its age nor how long it can be trusted. On Ethereum's networks the slot and the clock
tell the first, and the least period of any registry stands for the second; on a ledger both are proven from
the trusted block's state, with the network's identity and its clock (specs/04-bundle §4.3, steps 2 to 4).
"""

from __future__ import annotations

from anchor.bundle.types import LEDGER_SCOPE, TrustedBlock
from anchor.bundle.verify import verify_age, verify_trusted_state
from anchor.chain.beacon.answers import read_record
from anchor.chain.beacon.follow import Followed, Follower, get_bootstrap
from anchor.chain.beacon.http import ACCEPT, Client
from anchor.chain.beacon.networks import Network, verify_genesis
from anchor.consensus.containers.phase0 import Checkpoint
from anchor.errors import InvalidCheckpoint
from anchor.merkle.scope import hash_tree_root


async def start_light(
    client: Client, network: Network, checkpoint: Checkpoint, now: float, *, accept_expired: bool
) -> tuple[Follower, Followed]:
    """A follower that starts from a trusted root, and what it knows. Raises AnchorError."""
    bootstrap = await get_bootstrap(client, network, checkpoint)
    if network.is_ledger:
        path = f"/anchor/v1/checkpoints/0x{checkpoint.root.hex()}"
        answer = await client.get("the ledger's clock", path, accept=ACCEPT)
        trusted = read_record(answer, LEDGER_SCOPE.schema(TrustedBlock))
        network = verify_ledger(network, checkpoint, trusted, now, accept_expired=accept_expired)
    follower = Follower(network)
    followed = follower.start_from_bootstrap(checkpoint, bootstrap)
    if not network.is_ledger:
        follower.verify_floor(followed, now, accept_expired)
    return follower, followed


def verify_ledger(
    network: Network, checkpoint: Checkpoint, trusted: TrustedBlock, now: float, *, accept_expired: bool
) -> Network:
    """The network, as the trusted block's own state describes it.

    Raises InvalidCheckpoint for another block, InvalidProof, WrongNetwork, InvalidEvidence for a block from
    the future, StaleTrust.
    """
    root = hash_tree_root(trusted.header)
    if root != checkpoint.root:
        raise InvalidCheckpoint(
            f"What is proven is of block 0x{root.hex()}, and the trusted one is 0x{checkpoint.root.hex()}.",
            fix="Use another endpoint.",
        )
    chain = verify_trusted_state(trusted, None)
    verify_genesis(network, chain.network_id, network.genesis_time)
    verify_age(trusted, accept_expired, int(now))
    return network.with_clock(trusted.network)
