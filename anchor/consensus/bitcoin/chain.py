"""Competing branches of headers: the one with the most work is the chain, within limits (specs/05 §5.5)."""

from __future__ import annotations

from typing import Final

from anchor.consensus.bitcoin.header import (
    Tip,
    compute_hash,
    format_hash,
    get_next_bits,
    parse_header,
    verify_header,
)
from anchor.consensus.bitcoin.network import Network
from anchor.errors import InvalidHeader, Misuse
from anchor.types import Bytes32

REORG_LIMIT: Final = 2016
"""Headers that a reorganisation may replace, by default: about two weeks."""
SIDE_LIMIT: Final = 4032
"""Headers beside the chain that are kept, by default."""


class HeaderChain:
    """A tree of verified headers above a base, in bounded memory (by default about 4 MB).

    The tip is the header with the most work behind it, the first seen among equals. Nothing below the base
    is ever reorganised: the base moves up to each checkpoint in the code that the chain reaches, whatever
    work another branch has, and follows the tip at `reorg_limit` headers. Where more than `side_limit`
    headers stand beside the chain, the branch with the least work loses its last.

    Start it from the tip of a verified run: work that was seen is what keeps a liar's cheap branch out.
    """

    def __init__(
        self, network: Network, base: Tip, *, reorg_limit: int = REORG_LIMIT, side_limit: int = SIDE_LIMIT
    ) -> None:
        """Raises Misuse where `base` is no header, or what follows it could not be judged."""
        if not base.hash or base.window_time is None or get_next_bits(network, base) is None:
            raise Misuse(
                f"A chain of headers cannot start at height {base.height}: the bits after it are not known.",
                fix="Verify a run from a checkpoint first, and start from its tip.",
            )
        if reorg_limit < 1 or side_limit < 1:
            raise Misuse(f"The limits {reorg_limit} and {side_limit} of a header chain must be at least 1.")
        self.network = network
        self._reorg_limit, self._side_limit = reorg_limit, side_limit
        self._nodes: dict[Bytes32, Tip] = {base.hash: base}
        self._children: dict[Bytes32, list[Bytes32]] = {}
        self._base = self._tip = base

    @property
    def tip(self) -> Tip:
        """The end of the chain."""
        return self._tip

    @property
    def base(self) -> Tip:
        """The oldest header on record: every branch contains it."""
        return self._base

    def __len__(self) -> int:
        """Headers on record, on all branches."""
        return len(self._nodes)

    def __contains__(self, block_hash: Bytes32) -> bool:
        return block_hash in self._nodes

    def get_header_at(self, height: int) -> Tip | None:
        """The header of the chain at `height`; None above the tip and below the base."""
        if not self._base.height <= height <= self._tip.height:
            return None
        return self._nodes[self._climb_down(height)]

    def verify_header(self, raw: bytes, now: int | None = None) -> Tip:
        """The header `raw` after its parent on record. Changes nothing.

        Raises MalformedHeader, InvalidHeader, or InvalidCheckpoint for a conflict with the code's table.
        """
        parent_hash, block_hash = parse_header(raw).parent, compute_hash(raw)
        if block_hash in self._nodes:
            return self._nodes[block_hash]
        if parent_hash not in self._nodes:
            raise InvalidHeader(
                f"The header {format_hash(block_hash)} has a parent that is not on record, "
                f"{format_hash(parent_hash)}: it is unknown, or its branch forks off below height "
                f"{self._base.height}, where nothing is reorganised any more.",
                fix="Send the headers in between first.",
            )
        return verify_header(self.network, self._nodes[parent_hash], raw, now)

    def apply_header(self, header: Tip) -> None:
        """Puts a header that `verify_header` gave on record, moves the tip and the base. Checks nothing."""
        if header.hash in self._nodes:
            return
        self._nodes[header.hash] = header
        self._children.setdefault(header.parent, []).append(header.hash)
        if header.height in self.network.table.entries:
            self._tip = header
            self._raise_base(header.height)
        elif header.work > self._tip.work:
            self._tip = header
            self._raise_base(header.height - self._reorg_limit)
        while len(self._nodes) - (self._tip.height - self._base.height + 1) > self._side_limit:
            self._drop_weakest()

    def on_header(self, raw: bytes, now: int | None = None) -> Tip:
        """Verifies a header, then applies it. Raises what `verify_header` does, and then nothing changed."""
        header = self.verify_header(raw, now)
        self.apply_header(header)
        return header

    def _climb_down(self, height: int) -> Bytes32:
        """The hash on the chain at a height from the base's to the tip's."""
        node = self._tip
        while node.height > height:
            node = self._nodes[node.parent]
        return node.hash

    def _raise_base(self, height: int) -> None:
        """Moves the base up the chain to `height`, and forgets every branch that doesn't contain it."""
        while self._base.height < height:
            children = self._children.pop(self._base.hash)
            kept = children[0] if len(children) == 1 else self._climb_down(self._base.height + 1)
            del self._nodes[self._base.hash]
            for child in children:
                if child != kept:
                    self._drop_branch(child)
            self._base = self._nodes[kept]

    def _drop_branch(self, first: Bytes32) -> None:
        waiting = [first]
        while waiting:
            block_hash = waiting.pop()
            del self._nodes[block_hash]
            waiting += self._children.pop(block_hash, [])

    def _drop_weakest(self) -> None:
        """Forgets the last header of the branch with the least work, the newest among equals."""
        ends = [node for node in reversed(self._nodes.values()) if node.hash not in self._children]
        weakest = min([node for node in ends if node is not self._tip], key=lambda node: node.work)
        del self._nodes[weakest.hash]
        siblings = self._children[weakest.parent]
        siblings.remove(weakest.hash)
        if not siblings:
            del self._children[weakest.parent]
