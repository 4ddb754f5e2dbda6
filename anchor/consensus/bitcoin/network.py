"""What sets one Bitcoin network apart from another, and the real one's values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from anchor.consensus.hardcoded import BITCOIN_MAINNET, Table
from anchor.errors import Misuse


@dataclass(frozen=True, slots=True)
class Context:
    """What a checkpoint's hash alone does not say, and the header after it needs."""

    bits: int
    """The bits of the checkpoint's header."""
    window_time: int
    """The timestamp of the first header of its retarget window."""
    work: int
    """The work of the chain from genesis to it, both included."""


@dataclass(frozen=True, slots=True)
class Network:
    """A network under the rules of Bitcoin's main network."""

    table: Table
    """Its checkpoints in the code, genesis among them."""
    contexts: Mapping[int, Context]
    """By height, what belongs to each of the table's entries."""
    pow_limit: int
    """The easiest target."""
    minimum_work: int
    """The work that the real chain had when this was written. The real chain has more today: one with less is
    its beginning, or was made by someone with less power than the network."""
    interval: int = 2016
    """Headers in a retarget window."""
    spacing: int = 600
    """Seconds between headers that a retarget aims at."""
    version_floors: Sequence[tuple[int, int]] = field(default=())
    """(height, version): from that height on, lower versions are refused; ascending."""

    def __post_init__(self) -> None:
        if 0 not in self.table.entries or self.table.entries.keys() != self.contexts.keys():
            raise Misuse(f"The network {self.table.name} needs genesis, and the context of every entry.")

    @property
    def timespan(self) -> int:
        """Seconds that a retarget window should take."""
        return self.interval * self.spacing

    def get_version_floor(self, height: int) -> int:
        """The lowest version that a header at `height` may have."""
        reached = [version for start, version in self.version_floors if start <= height]
        return reached[-1] if reached else -(1 << 31)


MAINNET: Final = Network(
    table=BITCOIN_MAINNET,
    contexts={  # from the first header of every window: bits are constant within one, so work is a sum
        0: Context(0x1D00FFFF, 1231006505, 0x100010001),
        11111: Context(0x1D00FFFF, 1239055463, 0x2B682B682B68),
        33333: Context(0x1D00D86A, 1262153464, 0x82FBAD66DC4C),
        74000: Context(0x1C00BA18, 1281037595, 0x1B32578BC31800),
        105000: Context(0x1B02FA29, 1296116171, 0xB5AFC0363D92EE0),
        134444: Context(0x1A0C2A12, 1308915923, 0x1D3D101C6A0418476),
        168000: Context(0x1A0C309C, 1329564255, 0xD37E4A7FFD6C0F802),
        193000: Context(0x1A083CC9, 1343647577, 0x16C80A189DB0468C5E),
        210000: Context(0x1A04E0EA, 1353928229, 0x2218A01C35910B0060),
        216116: Context(0x1A0529B1, 1357641634, 0x26BA40D1AB30F19B8B),
        225430: Context(0x1A03D74B, 1362159764, 0x2E463AB5728A736A10),
        250000: Context(0x1972DBF2, 1375527115, 0x8113EE25E591519297),
        279000: Context(0x1903071F, 1388624318, 0xB2F4E230C399A9618E4),
        295000: Context(0x1900B3AA, 1396694478, 0x3A485160E85F201BE9FD),
    },
    pow_limit=(1 << 224) - 1,
    minimum_work=0x63C4EBD298DB40AF57541800,  # through height 824000
    version_floors=((227931, 2), (363725, 3), (388381, 4)),  # BIP 34, 66, 65
)
