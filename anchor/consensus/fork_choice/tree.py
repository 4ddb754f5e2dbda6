"""The tree of blocks, with the weight of each subtree and the best child of each node.

A vote that moves changes two nodes. `settle` carries such changes upwards, deepest node first, and stops
where they cancel out or change nothing; the head is then found by going down from best child to best child.
So neither all blocks nor all votes are looked at.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Final, NamedTuple

from anchor.merkle.lazy import np
from anchor.params import PAYLOAD_STATUS_PENDING
from anchor.types import Gwei, Root, Slot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

Place = int
"""Of a node in the tree's lists. A parent's place is below those of its children."""
NOWHERE: Final = -1


class ForkChoiceNode(NamedTuple):
    """What the fork choice chooses between. Of equal weight the larger one wins."""

    root: Root
    """Of a block."""
    payload_status: int = PAYLOAD_STATUS_PENDING
    """Since gloas: the block with its payload (full), without (empty), or undecided (pending)."""


class Tree:
    """Nodes in lists, by place: node `i` has `nodes[i]`, `slots[i]`, `parents[i]`, `weights[i]`, …"""

    def __init__(self) -> None:
        self.nodes: list[ForkChoiceNode] = []
        self.places: dict[ForkChoiceNode, Place] = {}
        self.slots: list[Slot] = []
        self.parents: list[Place] = []
        self.children: list[list[Place]] = []
        self.weights: list[Gwei] = []
        """Of the node and all below it, the boost included."""
        self.best: list[Place] = []
        """The best of the children that lead to a possible head, or NOWHERE."""
        self.eligible: list[bool] = []
        """Whether the node can be the head when nothing is below it."""
        self.viable: list[bool] = []
        """Whether the node leads to a possible head, or can be one."""
        self.invalid: list[bool] = []
        """Whether the execution layer refuses the node: it counts as absent."""
        self._boost: tuple[Place, Gwei] = NOWHERE, 0
        self._waiting: dict[Place, Gwei] = {}
        """What is still to be added to weights; nodes that only have to choose again have 0."""

    def __len__(self) -> int:
        return len(self.nodes)

    def add(self, node: ForkChoiceNode, slot: Slot, parent: Place, eligible: bool) -> Place:
        """Adds a node without votes below `parent`."""
        place = self.places[node] = len(self.nodes)
        self.nodes.append(node)
        self.slots.append(slot)
        self.parents.append(parent)
        self.children.append([])
        self.weights.append(0)
        self.best.append(NOWHERE)
        self.eligible.append(eligible)
        self.invalid.append(parent != NOWHERE and self.invalid[parent])
        self.viable.append(eligible and not self.invalid[place])
        if parent != NOWHERE:
            self.children[parent].append(place)
            self.add_weight(parent, 0)
        return place

    # Ancestors

    def find_ancestor(self, place: Place, slot: Slot) -> Place:
        """The latest node at or before `slot` on the way down to `place`; the first node if all are later."""
        while self.slots[place] > slot and self.parents[place] != NOWHERE:
            place = self.parents[place]
        return place

    def is_ancestor(self, ancestor: Place, place: Place) -> bool:
        """Whether `place` is `ancestor`, or below it."""
        while place > ancestor:
            place = self.parents[place]
        return place == ancestor

    # Weights

    def add_weight(self, place: Place, weight: Gwei) -> None:
        """Adds the weight of votes for a node, which may be negative."""
        self._waiting[place] = self._waiting.get(place, 0) + weight

    def set_boost(self, place: Place, score: Gwei) -> None:
        """Gives one node a weight besides its votes, and takes it from the node that had it before."""
        before, old_score = self._boost
        if (before, old_score) == (place, score):
            return
        if before != NOWHERE:
            self.add_weight(before, -old_score)
        if place != NOWHERE:
            self.add_weight(place, score)
        self._boost = place, score

    def get_score(self, place: Place) -> Gwei:
        """The weight of a node by votes alone."""
        boosted, score = self._boost
        return self.weights[place] - (score if self.is_ancestor(place, boosted) else 0)

    def settle(self) -> None:
        """Carries waiting changes upwards."""
        waiting = [-place for place in self._waiting]
        heapify(waiting)
        while waiting:
            place = -heappop(waiting)
            delta, before = self._waiting.pop(place), self.viable[place]
            self.weights[place] += delta
            self._choose(place)
            parent = self.parents[place]
            if parent != NOWHERE and (delta or self.viable[place] != before):
                if parent not in self._waiting:
                    heappush(waiting, -parent)
                self.add_weight(parent, delta)

    def rebuild(self, weights: Sequence[Gwei], eligible: Sequence[bool]) -> None:
        """Starts from each node's own votes, without a boost, and which nodes can be the head."""
        self.weights, self.eligible = list(weights), list(eligible)
        self._boost, self._waiting = (NOWHERE, 0), {}
        for place in range(len(self.nodes) - 1, -1, -1):
            self._choose(place)
            if self.parents[place] != NOWHERE:
                self.weights[self.parents[place]] += self.weights[place]

    def _choose(self, place: Place) -> None:
        present = [child for child in self.children[place] if not self.invalid[child]]
        viable = [child for child in present if self.viable[child]]
        self.best[place] = max(
            viable, key=lambda child: (self.weights[child], self.nodes[child]), default=NOWHERE
        )
        self.viable[place] = not self.invalid[place] and (bool(viable) if present else self.eligible[place])

    # Forgetting

    def invalidate(self, place: Place) -> None:
        """Lets a node and all below it count as absent; weights and choices are due for `rebuild`."""
        self.invalid[place] = True
        for below in range(place + 1, len(self.nodes)):
            self.invalid[below] |= self.invalid[self.parents[below]]

    def prune(self, first: Place) -> NDArray[np.int64]:
        """Keeps `first` and all below it. Returns new places by old ones, NOWHERE for what is forgotten."""
        self.settle()
        moved = np.full(len(self.nodes), NOWHERE, np.int64)
        kept = [place for place in range(first, len(self.nodes)) if self.is_ancestor(first, place)]
        moved[kept] = np.arange(len(kept))
        move = [*moved.tolist(), NOWHERE]  # what is nowhere stays nowhere
        for name in ("nodes", "slots", "weights", "eligible", "viable", "invalid"):
            setattr(self, name, [getattr(self, name)[place] for place in kept])
        self.parents = [NOWHERE, *[move[self.parents[place]] for place in kept[1:]]]
        self.children = [[move[child] for child in self.children[place]] for place in kept]
        self.best = [move[self.best[place]] for place in kept]
        self.places = {node: place for place, node in enumerate(self.nodes)}
        boosted, score = self._boost
        self._boost = (move[boosted], score) if move[boosted] != NOWHERE else (NOWHERE, 0)
        return moved
