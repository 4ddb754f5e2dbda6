"""Random validator registries, with the extremes that the rules have to withstand."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from anchor.consensus.bls import NoSignatures
from anchor.consensus.containers.phase0 import AttestationData, Checkpoint, PendingAttestation
from anchor.consensus.forks.altair import Altair
from anchor.consensus.forks.electra import Electra
from anchor.consensus.forks.phase0 import Phase0
from anchor.consensus.presets import MINIMAL, MINIMAL_CONFIG
from anchor.merkle.bits import Bits
from anchor.merkle.columns import Column
from anchor.merkle.table import Table
from anchor.params import FAR_FUTURE_EPOCH

PHASE0 = Phase0(MINIMAL, MINIMAL_CONFIG, NoSignatures())
ALTAIR = Altair(MINIMAL, MINIMAL_CONFIG, NoSignatures())
ELECTRA = Electra(MINIMAL, MINIMAL_CONFIG, NoSignatures())
EPOCH = 20
ETHER = 10**9
HALF_VECTOR = MINIMAL.EPOCHS_PER_SLASHINGS_VECTOR // 2
AROUND = [EPOCH - 1, EPOCH, EPOCH + 1, EPOCH + 5, EPOCH + 6]
EFFECTIVE = [0, ETHER, 16 * ETHER, 17 * ETHER, 31 * ETHER, 32 * ETHER, 32 * ETHER]
BALANCES = [0, 1, ETHER, 32 * ETHER, 33 * ETHER + ETHER // 4, 33 * ETHER + ETHER // 4 + 1, 2**64 - 1]
SCORES = [0, 1, 3, 4, 100, 2**20, 2**63, 2**64 - 1]


def _columns(rules: Phase0) -> dict[str, list[int]]:
    """What each field of a validator may be."""
    compounding = isinstance(rules, Electra)
    return {
        "prefix": [0, 1, 2] if compounding else [0, 1],
        "effective_balance": [*EFFECTIVE, 2048 * ETHER] if compounding else EFFECTIVE,
        "slashed": [0, 0, 1],
        "activation_eligibility_epoch": [0, 1, EPOCH - 3, EPOCH - 1, FAR_FUTURE_EPOCH],
        "activation_epoch": [0, 0, 0, *AROUND, FAR_FUTURE_EPOCH],
        "exit_epoch": [*AROUND, FAR_FUTURE_EPOCH, FAR_FUTURE_EPOCH, FAR_FUTURE_EPOCH],
        "withdrawable_epoch": [*AROUND, EPOCH + HALF_VECTOR, EPOCH + HALF_VECTOR, FAR_FUTURE_EPOCH],
    }


@st.composite
def states(draw: st.DrawFn, rules: Phase0) -> Any:
    """A state at the last slot of EPOCH, or of an early epoch, with up to 30 validators."""
    count = draw(st.integers(1, 30))
    chance = np.random.default_rng(draw(st.integers(0, 2**32)))  # one draw: a list of them takes long

    def column(values: list[int], dtype: str = "<u8") -> np.ndarray[Any, Any]:
        return np.array(values, dtype)[chance.integers(0, len(values), count)]

    state = rules.scope.schema("BeaconState").default()
    epoch = draw(st.sampled_from([0, 1, 2, EPOCH, EPOCH, EPOCH]))
    state.slot = (epoch + 1) * MINIMAL.SLOTS_PER_EPOCH - 1
    fields = {name: column(values) for name, values in _columns(rules).items()}
    credentials = np.zeros((count, 32), np.uint8)
    credentials[:, 0] = fields.pop("prefix")
    fields["slashed"] = fields["slashed"].astype(np.bool_)
    pubkeys = np.arange(48 * count, dtype=np.uint32).astype(np.uint8).reshape(count, 48)
    columns = {"pubkey": pubkeys, "withdrawal_credentials": credentials, **fields}
    order = rules.records["Validator"].fields
    state.validators = Table(rules.records["Validator"], {name: columns[name] for name in order}, count)
    state.balances = Column(column(draw(st.sampled_from([BALANCES, BALANCES[:-1]]))))
    state.slashings[3] = draw(st.sampled_from([0, 32 * ETHER, 900 * ETHER, 2**62]))
    finalized = draw(st.integers(max(epoch - 8, 0), max(epoch - 2, 0)))
    state.finalized_checkpoint = Checkpoint(epoch=finalized, root=bytes(32))
    letters = np.frombuffer(b"ab", np.uint8)[chance.integers(0, 2, MINIMAL.SLOTS_PER_HISTORICAL_ROOT)]
    state.block_roots = Column(np.repeat(letters[:, None], 32, axis=1))
    if isinstance(rules, Altair):
        state.previous_epoch_participation = Column(column(list(range(8)), "u1"))
        state.current_epoch_participation = Column(column(list(range(8)), "u1"))
        state.inactivity_scores = Column(column(draw(st.sampled_from([SCORES, SCORES[:-2]]))))
    if isinstance(rules, Electra):
        state.earliest_exit_epoch = draw(st.sampled_from([0, EPOCH + 5, EPOCH + 9]))
        state.exit_balance_to_consume = draw(st.sampled_from([0, ETHER, 64 * ETHER]))
    return state


@st.composite
def phase0_states(draw: st.DrawFn) -> Any:
    """A phase0 state with pending attestations of the previous epoch."""
    state = draw(states(PHASE0))
    epoch = PHASE0.get_previous_epoch(state)
    start = epoch * MINIMAL.SLOTS_PER_EPOCH
    attestations = []
    for _ in range(draw(st.integers(0, 6))):
        slot = start + draw(st.integers(0, MINIMAL.SLOTS_PER_EPOCH - 1))
        index = draw(st.integers(0, PHASE0.get_committee_count_per_slot(state, epoch) - 1))
        size = len(PHASE0.get_beacon_committee(state, slot, index))
        target, head = [draw(st.sampled_from([b"a" * 32, b"b" * 32])) for _ in range(2)]
        checkpoint = Checkpoint(epoch=epoch, root=target)
        data = AttestationData(
            slot=slot, index=index, beacon_block_root=head, source=checkpoint, target=checkpoint
        )
        number = draw(st.integers(0, 2**size - 1))
        pending = PendingAttestation(
            aggregation_bits=Bits([number >> place & 1 for place in range(size)]),
            data=data,
            inclusion_delay=draw(st.integers(1, 4)),
            proposer_index=draw(st.integers(0, len(state.validators) - 1)),
        )
        attestations.append(pending)
    state.previous_epoch_attestations = tuple(attestations)
    return state
