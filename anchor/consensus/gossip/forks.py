"""The topics of every fork: each inherits those of the fork before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from anchor.consensus.gossip.base import Base
from anchor.consensus.gossip.bellatrix import CredentialChanges, MergedBlocks, PayloadBlocks
from anchor.consensus.gossip.bids import Bids
from anchor.consensus.gossip.blocks import Blocks
from anchor.consensus.gossip.committees import SyncCommittees
from anchor.consensus.gossip.deneb import BlobBlocks, RecentVotes, SingleVotes
from anchor.consensus.gossip.fulu import Columns
from anchor.consensus.gossip.gloas import BidColumns, PayloadVotes
from anchor.consensus.gossip.operations import Operations
from anchor.consensus.gossip.votes import Votes


class Phase0Gossip(Blocks, Votes, Operations):
    """The topics of phase0."""


class AltairGossip(SyncCommittees, Phase0Gossip):
    """The topics of altair."""


class BellatrixGossip(PayloadBlocks, AltairGossip):
    """The topics of bellatrix."""


class CapellaGossip(MergedBlocks, CredentialChanges, BellatrixGossip):
    """The topics of capella."""


class DenebGossip(BlobBlocks, RecentVotes, CapellaGossip):
    """The topics of deneb."""


class ElectraGossip(SingleVotes, DenebGossip):
    """The topics of electra."""

    blob_subnets = "BLOB_SIDECAR_SUBNET_COUNT_ELECTRA"


class FuluGossip(Columns, ElectraGossip):
    """The topics of fulu."""


class GloasGossip(Bids, BidColumns, PayloadVotes, FuluGossip):
    """The topics of gloas."""


GOSSIP: Final[Mapping[str, type[Base]]] = {
    "phase0": Phase0Gossip,
    "altair": AltairGossip,
    "bellatrix": BellatrixGossip,
    "capella": CapellaGossip,
    "deneb": DenebGossip,
    "electra": ElectraGossip,
    "fulu": FuluGossip,
    "gloas": GloasGossip,
}
"""By fork."""
