"""Making a node misbehave, on a devnet: cut off from peers, with a wrong clock, or signing against itself."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from anchor.consensus.containers.phase0 import Attestation, BeaconBlock
from anchor.consensus.duties import (
    Keyring,
    compute_attestation_signing_root,
    get_committee_pubkeys,
    sign_block,
)
from anchor.errors import Misuse, NoSuchRecord
from anchor.node.network.company import Company
from anchor.node.network.engine import Engine
from anchor.node.network.messages import Kind, Message
from anchor.node.network.outbox import Send

MAX_SKEW_MS: Final = 86_400_000
GRAFFITI: Final = b"another block of the same slot".ljust(32, b"\0")
CONTRADICTED: Final = frozenset({Kind.BLOCK, Kind.ATTESTATION})


class Faults:
    """What is wrong with a node on purpose; nothing, unless it was started for that."""

    def __init__(self, company: Company, engine: Engine, keys: Keyring | None, *, are_allowed: bool) -> None:
        self._company, self._engine, self._keys = company, engine, keys
        self._are_allowed = are_allowed
        self.skew_ms = 0
        """By which its clock is ahead."""
        self._due: set[Kind] = set()
        """What it contradicts once more."""

    def inject(self, unheard: str, skew_ms: str) -> dict[str, Any]:
        """Cuts off these identities and addresses, separated by commas, and sets the clock wrong.

        Raises NoSuchRecord on a node that is none of a devnet, Misuse for what is no number of milliseconds.
        """
        self._require_devnet()
        if not re.fullmatch("-?[0-9]{1,9}", skew_ms, re.ASCII) or abs(int(skew_ms)) > MAX_SKEW_MS:
            raise Misuse(f"{skew_ms[:20]!a} is no number of milliseconds up to {MAX_SKEW_MS}.")
        self.skew_ms = int(skew_ms)
        self._company.cut_off(frozenset(filter(None, unheard.split(","))))
        return self._show()

    def equivocate(self) -> dict[str, Any]:
        """Has the next own block and the next own vote contradicted, past the slashing protection.

        Raises NoSuchRecord on a node that is none of a devnet, Misuse where it signs nothing.
        """
        self._require_devnet()
        if self._keys is None:
            raise Misuse("This node has no validators.", fix="Start it with: --keystores")
        self._due = set(CONTRADICTED)
        return self._show()

    def _require_devnet(self) -> None:
        if not self._are_allowed:
            raise NoSuchRecord("This node keeps to the rules.", fix="On a devnet, start it with: --faults")

    def _show(self) -> dict[str, Any]:
        unheard = ",".join(sorted(self._company.unheard))
        return {"unheard": unheard, "skew_ms": str(self.skew_ms), "equivocates": bool(self._due)}

    def contradict(self, sends: Iterable[Send]) -> list[Send]:
        """What goes against this node's own messages among `sends`. In the engine's thread."""
        if self._keys is None or not self._due:
            return []
        own = [send.message for send in sends if send.but is None]
        return [Send(other) for message in own if (other := self._contradict(message, self._keys))]

    def _contradict(self, message: Message, keys: Keyring) -> Message | None:
        if message.kind not in self._due:
            return None
        if message.kind == Kind.BLOCK:
            other: Any = self._make_block(message.value.message, keys)
        else:
            other = self._make_vote(message.value, keys)
        if other is None:
            return None
        self._due.discard(message.kind)
        return Message(message.kind, other)

    def _make_block(self, block: BeaconBlock, keys: Keyring) -> Any:
        ledger, state = self._engine.ledger, self._engine.get_state_at(block.parent_root, block.slot)
        other = block.replace(body=block.body.replace(graffiti=GRAFFITI))
        post = state.copy()
        ledger.process_block(post, other)
        return sign_block(ledger, state, keys, other.replace(state_root=ledger.hash_tree_root(post)))

    def _make_vote(self, vote: Attestation, keys: Keyring) -> Attestation | None:
        """The same voters for another head; None where there is none that the target allows."""
        data, ledger = vote.data, self._engine.ledger
        if data.beacon_block_root == data.target.root:
            return None
        state = self._engine.get_state_at(data.beacon_block_root, data.slot)
        other = data.replace(beacon_block_root=data.target.root)
        committee = get_committee_pubkeys(ledger, state, data.index)
        voters = [committee[place] for place in vote.aggregation_bits.get_set_indices()]
        signature = keys.sign(voters, compute_attestation_signing_root(ledger, state, other))
        return vote.replace(data=other, signature=signature)
