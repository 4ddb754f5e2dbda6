"""Mutated blocks and operations: accepted, or refused with an error of the tree, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anchor.errors import Invalid, Malformed
from anchor.merkle.container import Container
from tests.consensus.samples import RULES, Sample, get_chain, list_operations, read_operation

EXTREMES = [0, 1, 7, 64, 2**32, 2**63 - 1, 2**63, 2**64 - 2, 2**64 - 1]
PATCHES = st.lists(
    st.tuples(
        st.integers(0, 2**16), st.sampled_from([b"\0", b"\1", b"\xff", b"\0" * 8, b"\xff" * 8, b"\x40"])
    ),
    min_size=1,
    max_size=3,
)


@pytest.fixture(scope="module", autouse=True)
def _few_empty_slots() -> Iterator[None]:
    """A slot that is mutated to a far one would have the test wait for all that lie between."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("anchor.consensus.forks.phase0.block.MAX_EMPTY_SLOTS", 40)
        yield


def mutate_bytes(data: bytes, patches: list[tuple[int, bytes]]) -> bytes:
    """`data` with some places overwritten."""
    mutated = bytearray(data)
    for place, patch in patches:
        start = place % len(mutated)
        mutated[start : start + len(patch)] = patch[: len(mutated) - start]
    return bytes(mutated)


def mutate_value(draw: st.DrawFn, value: Any) -> Any:
    """`value` with one part, however deep, changed to an extreme, repeated or left out."""
    if isinstance(value, Container):
        field = draw(st.sampled_from(value.fields))
        return value.replace(**{field: mutate_value(draw, getattr(value, field))})
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return draw(st.sampled_from([*EXTREMES, value + 1, max(value - 1, 0)]))
    if isinstance(value, tuple) and value:
        place = draw(st.integers(0, len(value) - 1))
        changed = draw(st.sampled_from([(), (value[place],) * 2, (mutate_value(draw, value[place]),)]))
        return (*value[:place], *changed, *value[place + 1 :])
    if isinstance(value, bytes) and value:
        return mutate_bytes(value, draw(PATCHES))
    return value


def run(rules: Any, state: Any, apply: Any) -> None:
    """`apply` is accepted or refused; what was given stays as it was."""
    root = rules.hash_tree_root(state)
    try:
        apply()
    except (Invalid, Malformed) as error:
        assert str(error).endswith((".", "?"))
    assert rules.hash_tree_root(state) == root


@pytest.mark.parametrize("fork", list(RULES))
def test_blocks(fork: str) -> None:
    rules = RULES[fork]
    chain = get_chain(fork)
    schema = rules.scope.schema("SignedBeaconBlock")

    @settings(max_examples=60)
    @given(st.integers(0, len(chain) - 1), PATCHES)
    def flip(number: int, patches: list[tuple[int, bytes]]) -> None:
        state, block = chain[number]
        data = mutate_bytes(schema.encode(block), patches)
        run(rules, state, lambda: rules.state_transition(state, schema.decode(data), validate_result=False))

    @settings(max_examples=60)
    @given(st.data())
    def reshape(data: st.DataObject) -> None:
        state, block = data.draw(st.sampled_from(chain))
        mutated = mutate_value(data.draw, block)
        run(rules, state, lambda: rules.state_transition(state, mutated, validate_result=False))

    flip()
    reshape()


@pytest.mark.parametrize("sample", list_operations(), ids=str)
def test_operations(sample: Sample) -> None:
    rules = RULES[sample.fork]
    state, operation, record, method = read_operation(sample)
    schema = rules.scope.schema(record)
    extra: list[Any] = []  # what the method wants to know beside the operation
    if record == "BeaconBlockBody":
        extra.append(rules.engine)
    elif (sample.fork, record) == ("gloas", "Attestation"):
        extra.append(state.latest_block_header.slot)

    def apply(mutated: Any) -> None:
        getattr(rules, method)(state.copy(), mutated, *extra)

    @settings(max_examples=25)
    @given(PATCHES)
    def flip(patches: list[tuple[int, bytes]]) -> None:
        data = mutate_bytes(schema.encode(operation), patches)
        run(rules, state, lambda: apply(schema.decode(data)))

    @settings(max_examples=25)
    @given(st.data())
    def reshape(data: st.DataObject) -> None:
        mutated = mutate_value(data.draw, operation)
        run(rules, state, lambda: apply(mutated))

    flip()
    reshape()
