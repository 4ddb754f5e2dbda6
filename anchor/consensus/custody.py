"""Which columns of a block's data a node keeps (fulu/das-core)."""

from __future__ import annotations

from anchor.consensus.presets import Config, Preset
from anchor.errors import Misuse
from anchor.merkle.hashing import sha256
from anchor.types import uint64

NODE_IDS = 1 << 256
"""Node identities are smaller than this; after the largest one comes zero."""


def get_custody_groups(config: Config, node_id: int, custody_group_count: int) -> list[uint64]:
    """The groups of columns that a node with this identity keeps, ascending.

    Raises Misuse when there are not so many groups, or the identity has more than 256 bits.
    """
    count = config.NUMBER_OF_CUSTODY_GROUPS
    if not 0 <= custody_group_count <= count or not 0 <= node_id < NODE_IDS:
        raise Misuse(f"Node {node_id} cannot keep {custody_group_count} groups: there are {count}.")
    groups: set[uint64] = set()
    if custody_group_count == count:
        groups.update(range(count))
    while len(groups) < custody_group_count:
        groups.add(int.from_bytes(sha256(node_id.to_bytes(32, "little"))[:8], "little") % count)
        node_id = (node_id + 1) % NODE_IDS
    return sorted(groups)


def compute_columns_for_custody_group(preset: Preset, config: Config, custody_group: uint64) -> list[uint64]:
    """The columns of a group. Raises Misuse when there is no such group."""
    count = config.NUMBER_OF_CUSTODY_GROUPS
    if not 0 <= custody_group < count:
        raise Misuse(f"There is no custody group {custody_group}: there are {count}.")
    return list(range(custody_group, preset.NUMBER_OF_COLUMNS, count))
