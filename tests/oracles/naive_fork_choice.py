"""The fork choice with loops over all blocks and all votes, as the specification has it.

An oracle for `anchor.consensus.fork_choice`. It holds plain dictionaries, and asks a fork's rules only for
the state transition and for committees. Like the package it forgets what does not descend from the finalised
block.
"""

from __future__ import annotations

from typing import Any

from anchor.consensus.containers.phase0 import Checkpoint

EMPTY, FULL, PENDING = 0, 1, 2
ZERO = bytes(32)


class Refused(Exception):
    """A call that the specification's assertions refuse."""


def check(condition: bool) -> None:
    if not condition:
        raise Refused


class Naive:
    """Phase0 up to electra. A node is (root, PENDING)."""

    def __init__(self, rules: Any, state: Any, block: Any) -> None:
        self.rules, self.config, self.preset = rules, rules.config, rules.preset
        root = rules.hash_tree_root(block)
        anchor = Checkpoint(epoch=rules.get_current_epoch(state), root=root)
        self.genesis = state.genesis_time * 1000
        self.time = self.genesis + state.slot * self.config.SLOT_DURATION_MS
        self.justified = self.finalized = self.unrealized_justified = self.unrealized_finalized = anchor
        self.boost = ZERO
        self.equivocating: set[int] = set()
        self.blocks, self.states = {root: block}, {root: state.copy()}
        self.timely: dict[bytes, list[bool]] = {root: [True, True]}
        self.unrealized = {root: anchor}
        self.messages: dict[int, tuple[int, bytes, bool]] = {}
        self.payloads: set[bytes] = set()
        self.presence: dict[bytes, list[bool | None]] = {root: [None] * self.preset.PTC_SIZE}
        self.availability: dict[bytes, list[bool | None]] = {root: [None] * self.preset.PTC_SIZE}

    # Time and ancestors

    def get_slot(self) -> int:
        return (self.time - self.genesis) // self.config.SLOT_DURATION_MS

    def get_epoch(self, slot: int | None = None) -> int:
        return (self.get_slot() if slot is None else slot) // self.preset.SLOTS_PER_EPOCH

    def get_start(self, epoch: int) -> int:
        return epoch * self.preset.SLOTS_PER_EPOCH

    def get_parent_status(self, block: Any) -> int:
        return PENDING

    def get_ancestor(self, node: tuple[bytes, int], slot: int) -> tuple[bytes, int]:
        block = self.blocks[node[0]]
        if block.slot <= slot or block.parent_root not in self.blocks:
            return node
        return self.get_ancestor((block.parent_root, self.get_parent_status(block)), slot)

    def is_ancestor(self, node: tuple[bytes, int], ancestor: tuple[bytes, int]) -> bool:
        root, status = self.get_ancestor(node, self.blocks[ancestor[0]].slot)
        return root == ancestor[0] and ancestor[1] in (status, PENDING)

    def get_checkpoint_block(self, root: bytes, epoch: int) -> bytes:
        return self.get_ancestor((root, PENDING), self.get_start(epoch))[0]

    # Weights

    def get_state(self, checkpoint: Checkpoint) -> Any:
        state = self.states[checkpoint.root].copy()
        if state.slot < self.get_start(checkpoint.epoch):
            self.rules.process_slots(state, self.get_start(checkpoint.epoch))
        return state

    def get_counted(self) -> dict[int, int]:
        state = self.get_state(self.justified)
        epoch = self.rules.get_current_epoch(state)
        return {
            index: validator.effective_balance
            for index, validator in enumerate(state.validators)
            if validator.activation_epoch <= epoch < validator.exit_epoch and not validator.slashed
        }

    def get_fraction(self, percent: int) -> int:
        total = max(self.preset.EFFECTIVE_BALANCE_INCREMENT, sum(self.get_counted().values()))
        return total // self.preset.SLOTS_PER_EPOCH * percent // 100

    def get_supported(self, message: tuple[int, bytes, bool]) -> tuple[bytes, int]:
        return message[1], PENDING

    def get_score(self, node: tuple[bytes, int]) -> int:
        return sum(
            balance
            for index, balance in self.get_counted().items()
            if index in self.messages
            and index not in self.equivocating
            and self.messages[index][1] in self.blocks
            and self.is_ancestor(self.get_supported(self.messages[index]), node)
        )

    def is_boost_applied(self) -> bool:
        return self.boost in self.blocks

    def get_weight(self, node: tuple[bytes, int]) -> int:
        score = self.get_score(node)
        if self.is_boost_applied() and self.is_ancestor((self.boost, PENDING), node):
            score += self.get_fraction(self.config.PROPOSER_SCORE_BOOST)
        return score

    # Head

    def get_children(self, node: tuple[bytes, int]) -> list[tuple[bytes, int]]:
        return [(root, PENDING) for root, block in self.blocks.items() if block.parent_root == node[0]]

    def get_source(self, root: bytes) -> Checkpoint:
        if self.get_epoch() > self.get_epoch(self.blocks[root].slot):
            return self.unrealized[root]
        return self.states[root].current_justified_checkpoint  # type: ignore[no-any-return]

    def filter(self, node: tuple[bytes, int]) -> list[tuple[bytes, int]]:
        children = self.get_children(node)
        if children:
            viable = [found for child in children for found in self.filter(child)]
            return [*viable, node] if viable else []
        source = self.get_source(node[0]).epoch
        justified = self.justified.epoch in (0, source) or source + 2 >= self.get_epoch()
        ancestor = self.get_checkpoint_block(node[0], self.finalized.epoch)
        return [node] if justified and (self.finalized.epoch == 0 or ancestor == self.finalized.root) else []

    def get_rank(self, node: tuple[bytes, int]) -> Any:
        return self.get_weight(node), node[0]

    def get_head(self) -> tuple[bytes, int]:
        head = (self.justified.root, PENDING)
        nodes = self.filter(head)
        while children := [child for child in self.get_children(head) if child in nodes]:
            head = max(children, key=self.get_rank)
        return head

    def is_head_weak(self, root: bytes) -> bool:
        weight, state, slot = self.get_score((root, PENDING)), self.states[root], self.blocks[root].slot
        balances = [validator.effective_balance for validator in self.get_state(self.justified).validators]
        for number in range(self.rules.get_committee_count_per_slot(state, self.get_epoch(slot))):
            committee = self.rules.get_beacon_committee(state, slot, number).tolist()
            weight += sum(balances[index] for index in committee if index in self.equivocating)
        return weight < self.get_fraction(self.config.REORG_HEAD_WEIGHT_THRESHOLD)

    def get_proposer_head(self, head: tuple[bytes, int], slot: int) -> tuple[bytes, int]:
        block = self.blocks[head[0]]
        if block.parent_root not in self.blocks:
            return head
        parent = (block.parent_root, self.get_parent_status(block))
        weak = self.is_head_weak(head[0])
        strong = self.get_score((parent[0], PENDING)) > self.get_fraction(
            self.config.REORG_PARENT_WEIGHT_THRESHOLD
        )
        rivals = [
            other
            for other in self.blocks.values()
            if (other.slot, other.proposer_index) == (block.slot, block.proposer_index)
        ]
        into_slot = (self.time - self.genesis) % self.config.SLOT_DURATION_MS
        conditions = [
            not self.timely[head[0]][0],
            slot % self.preset.SLOTS_PER_EPOCH != 0 or self.rules.name in ("fulu", "gloas"),
            self.unrealized[head[0]] == self.unrealized[parent[0]],
            self.get_epoch(slot) - self.finalized.epoch <= self.config.REORG_MAX_EPOCHS_SINCE_FINALIZATION,
            into_slot <= self.config.PROPOSER_REORG_CUTOFF_BPS * self.config.SLOT_DURATION_MS // 10000,
            self.blocks[parent[0]].slot + 1 == block.slot,
            block.slot + 1 == slot,
            weak,
            strong,
        ]
        if all(conditions) or (weak and block.slot + 1 == slot and len(rivals) > 1):
            return parent
        return head

    # Handlers

    def on_tick(self, time: int) -> None:
        while self.get_slot() < (time - self.genesis) // self.config.SLOT_DURATION_MS:
            self.tick_slot(self.genesis + (self.get_slot() + 1) * self.config.SLOT_DURATION_MS)
        self.tick_slot(time)
        self.prune()

    def tick_slot(self, time: int) -> None:
        previous = self.get_slot()
        self.time = time
        if self.get_slot() > previous:
            self.boost = ZERO
            if self.get_slot() % self.preset.SLOTS_PER_EPOCH == 0:
                self.update(self.unrealized_justified, self.unrealized_finalized)

    def update(self, justified: Checkpoint, finalized: Checkpoint) -> None:
        if justified.epoch > self.justified.epoch:
            self.justified = justified
        if finalized.epoch > self.finalized.epoch:
            self.finalized = finalized

    def prune(self) -> None:
        final = (self.finalized.root, PENDING)
        roots = [self.justified.root, self.unrealized_justified.root]
        if all(self.is_ancestor((root, PENDING), final) for root in roots):
            self.blocks = {
                root: block for root, block in self.blocks.items() if self.is_ancestor((root, PENDING), final)
            }

    def check_parent(self, block: Any) -> None:
        check(block.parent_root in self.blocks)

    def on_block(self, signed: Any) -> None:
        block = signed.message
        root = self.rules.hash_tree_root(block)
        if root in self.blocks:
            return
        self.check_parent(block)
        check(self.get_slot() >= block.slot > self.get_start(self.finalized.epoch))
        check(self.get_checkpoint_block(block.parent_root, self.finalized.epoch) == self.finalized.root)
        state = self.rules.state_transition(self.states[block.parent_root], signed)
        head = self.get_head()
        self.blocks[root], self.states[root] = block, state
        self.presence[root] = [None] * self.preset.PTC_SIZE
        self.availability[root] = [None] * self.preset.PTC_SIZE
        self.take_payload_votes(state, block)
        self.record_timeliness(root, block)
        epoch = max(self.get_epoch() - self.preset.MIN_SEED_LOOKAHEAD, 0)
        dependents = [
            self.get_ancestor((tip, PENDING), max(self.get_start(epoch) - 1, 0))[0] for tip in (head[0], root)
        ]
        if self.timely[root][0] and self.boost == ZERO and dependents[0] == dependents[1]:
            self.boost = root
        self.update(state.current_justified_checkpoint, state.finalized_checkpoint)
        pulled = state.copy()
        self.rules.process_justification_and_finalization(pulled)
        justified, finalized = pulled.current_justified_checkpoint, pulled.finalized_checkpoint
        self.unrealized[root] = justified
        if justified.epoch > self.unrealized_justified.epoch:
            self.unrealized_justified = justified
        if finalized.epoch > self.unrealized_finalized.epoch:
            self.unrealized_finalized = finalized
        if self.get_epoch(block.slot) < self.get_epoch():
            self.update(justified, finalized)
        self.prune()

    def get_due(self) -> list[int]:
        return [self.config.ATTESTATION_DUE_BPS]

    def record_timeliness(self, root: bytes, block: Any) -> None:
        passed = (self.time - self.genesis) % self.config.SLOT_DURATION_MS
        self.timely[root] = [
            self.get_slot() == block.slot and passed < due * self.config.SLOT_DURATION_MS // 10000
            for due in self.get_due()
        ]

    def take_payload_votes(self, state: Any, block: Any) -> None:
        pass

    def check_vote(self, data: Any) -> None:
        check(self.blocks[data.beacon_block_root].slot <= data.slot)

    def get_vote_time(self, data: Any) -> int:
        return data.target.epoch  # type: ignore[no-any-return]

    def on_attestation(self, attestation: Any, is_from_block: bool) -> None:
        data = attestation.data
        target = data.target
        if not is_from_block:
            check(target.epoch in (self.get_epoch(), max(self.get_epoch() - 1, 0)))
        check(target.epoch == self.get_epoch(data.slot))
        check(target.root in self.blocks and data.beacon_block_root in self.blocks)
        self.check_vote(data)
        check(target.root == self.get_checkpoint_block(data.beacon_block_root, target.epoch))
        check(self.get_slot() >= data.slot + 1)
        indexed = self.rules.get_indexed_attestation(self.get_state(target), attestation)
        self.rules.verify_indexed_attestation(self.get_state(target), indexed)
        for index in indexed.attesting_indices:
            if index in self.equivocating:
                continue
            if index not in self.messages or self.get_vote_time(data) > self.messages[index][0]:
                self.messages[index] = (self.get_vote_time(data), data.beacon_block_root, data.index == 1)

    def on_attester_slashing(self, slashing: Any) -> None:
        first, second = slashing.attestation_1, slashing.attestation_2
        check(self.rules.is_slashable_attestation_data(first.data, second.data))
        for indexed in (first, second):
            self.rules.verify_indexed_attestation(self.states[self.justified.root], indexed)
        self.equivocating |= set(first.attesting_indices) & set(second.attesting_indices)


class NaiveGloas(Naive):
    """Gloas. A node is (root, EMPTY | FULL | PENDING)."""

    def get_bid(self, block: Any) -> Any:
        return block.body.signed_execution_payload_bid.message

    def get_parent_status(self, block: Any) -> int:
        parent = self.get_bid(self.blocks[block.parent_root])
        return FULL if self.get_bid(block).parent_block_hash == parent.block_hash else EMPTY

    def get_supported(self, message: tuple[int, bytes, bool]) -> tuple[bytes, int]:
        slot, root, present = message
        if self.blocks[root].slot < slot:
            return root, FULL if present else EMPTY
        return root, PENDING

    def is_decision(self, node: tuple[bytes, int]) -> bool:
        return self.blocks[node[0]].slot + 1 == self.get_slot() and node[1] != PENDING

    def get_weight(self, node: tuple[bytes, int]) -> int:
        return 0 if self.is_decision(node) else super().get_weight(node)

    def get_children(self, node: tuple[bytes, int]) -> list[tuple[bytes, int]]:
        if node[1] == PENDING:
            return [(node[0], EMPTY), *([(node[0], FULL)] if node[0] in self.payloads else [])]
        children = [child for child, _ in super().get_children(node)]
        return [
            (child, PENDING) for child in children if self.get_parent_status(self.blocks[child]) == node[1]
        ]

    def is_boost_applied(self) -> bool:
        if self.boost not in self.blocks:
            return False
        block = self.blocks[self.boost]
        parent = self.blocks[block.parent_root]
        if parent.slot + 1 < block.slot or not self.is_head_weak(block.parent_root):
            return True
        return not any(
            self.timely[root][1]
            and other.proposer_index == parent.proposer_index
            and other.slot + 1 == block.slot
            and root != block.parent_root
            for root, other in self.blocks.items()
        )

    def has_majority(self, root: bytes, votes: list[bool | None], answer: bool) -> bool:
        if root not in self.payloads:
            return not answer
        return sum(vote is answer for vote in votes) > self.preset.PTC_SIZE // 2

    def should_extend(self, root: bytes) -> bool:
        if root not in self.payloads:
            return False
        seen = self.has_majority(root, self.presence[root], True)
        seen = seen and self.has_majority(root, self.availability[root], True)
        if seen or self.boost not in self.blocks or self.blocks[self.boost].parent_root != root:
            return True
        return self.get_parent_status(self.blocks[self.boost]) == FULL

    def get_rank(self, node: tuple[bytes, int]) -> Any:
        preference = node[1]
        if self.is_decision(node):
            preference = 1 if node[1] == EMPTY else 2 * self.should_extend(node[0])
        return self.get_weight(node), node[0], preference

    def get_head(self) -> tuple[bytes, int]:
        if not self.filter((self.justified.root, PENDING)):
            return self.justified.root, EMPTY
        return super().get_head()

    def get_due(self) -> list[int]:
        return [self.config.ATTESTATION_DUE_BPS_GLOAS, self.config.PAYLOAD_ATTESTATION_DUE_BPS]

    def check_parent(self, block: Any) -> None:
        super().check_parent(block)
        check(self.get_parent_status(block) == EMPTY or block.parent_root in self.payloads)

    def check_vote(self, data: Any) -> None:
        super().check_vote(data)
        check(data.index in (0, 1))
        check(data.index == 0 or self.blocks[data.beacon_block_root].slot != data.slot)
        check(data.index == 0 or data.beacon_block_root in self.payloads)

    def get_vote_time(self, data: Any) -> int:
        return data.slot  # type: ignore[no-any-return]

    def on_envelope(self, signed: Any) -> None:
        root = signed.message.beacon_block_root
        check(root in self.blocks)
        self.rules.verify_execution_payload_envelope(self.states[root], signed, self.rules.engine)
        self.payloads.add(root)

    def take_payload_votes(self, state: Any, block: Any) -> None:
        for attestation in block.body.payload_attestations:
            indexed = self.rules.get_indexed_payload_attestation(state, attestation)
            for index in indexed.attesting_indices:
                self.on_payload_vote(index, attestation.data, is_from_block=True)

    def on_payload_vote(self, index: int, data: Any, is_from_block: bool = False) -> None:
        root = data.beacon_block_root
        check(root in self.blocks)
        state = self.states[root]
        if data.slot != state.slot:
            return
        committee = self.rules.get_ptc(state, data.slot)
        check(index in committee)
        check(is_from_block or data.slot == self.get_slot())
        for place, member in enumerate(committee):
            if member == index:
                self.presence[root][place] = data.payload_present
                self.availability[root][place] = data.blob_data_available
