"""Generalized indices and proofs, over any type: against the oracle's trees, and tampered with."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from anchor.errors import InvalidProof, Misuse
from anchor.merkle.bits import Bitlist, Bitvector
from anchor.merkle.container import ContainerSchema
from anchor.merkle.gindex import concat_generalized_indices, get_depth, get_helper_indices, get_subtree_index
from anchor.merkle.proof import (
    MAX_DEPTH,
    build_multiproof,
    build_proof,
    compute_merkle_root,
    compute_multi_merkle_root,
    get_node,
    is_valid_merkle_branch,
    verify_merkle_branch,
)
from anchor.merkle.sequences import List, Vector
from anchor.merkle.ssz import Boolean, ByteList, ByteVector, Schema, Uint, get_generalized_index
from anchor.merkle.union import Union
from tests.merkle.ssz_strategies import typed_values
from tests.oracles import merkle as oracle

Typed = tuple[Schema[Any], Any]


def _steps(schema: Schema[Any], value: Any) -> list[tuple[str | int, Any]]:
    """What a path can go on with from a value, and what is there."""
    match schema:
        case ContainerSchema():
            return [(name, getattr(value, name)) for name in schema.schemas]
        case List() | Vector():
            return [*enumerate(value), *([("__len__", len(value))] if isinstance(schema, List) else [])]
        case Union():
            data = [] if value.data is None else [(value.selector, value.data)]
            return [*data, ("__selector__", value.selector)]
        case ByteList() | Bitlist():
            return [("__len__", len(value))]
    return []


@st.composite
def _paths(draw: st.DrawFn, schema: Schema[Any], value: Any) -> tuple[list[str | int], Schema[Any], Any]:
    """A path into a value, and the type and value at its end."""
    path: list[str | int] = []
    while steps := _steps(schema, value):
        if path and draw(st.integers(0, 3)) == 0:
            break
        key, value = draw(st.sampled_from(steps))
        schema, _ = schema.child(key)
        path.append(key)
    return path, schema, value


@given(typed_values(), st.data())
def test_a_path_leads_to_its_value(typed: Typed, data: st.DataObject) -> None:
    schema, value = typed
    path, inner, target = data.draw(_paths(schema, value))
    index = get_generalized_index(schema, *path)
    node = oracle.walk(oracle.build(schema, value), index)
    if isinstance(inner, Uint | Boolean):  # packed with its neighbours in one chunk
        assert oracle.encode(inner, target) in oracle.root(node)
    else:
        assert oracle.root(node) == inner.hash_tree_root(target)


@settings(max_examples=50)
@given(typed_values(), st.data())
def test_a_proof_is_made_of_the_trees_nodes(typed: Typed, data: st.DataObject) -> None:
    schema, value = typed
    whole, index = oracle.build(schema, value), data.draw(_indices(schema, value))
    leaf, branch = get_node(schema.tree(value), index).root, build_proof(schema.tree(value), index)
    assert leaf == oracle.root(oracle.walk(whole, index))
    siblings = [oracle.root(oracle.walk(whole, (index >> i) ^ 1)) for i in range(get_depth(index))]
    assert list(branch) == siblings
    assert compute_merkle_root(leaf, branch, index) == schema.hash_tree_root(value)


@st.composite
def _indices(draw: st.DrawFn, schema: Schema[Any], value: Any) -> int:
    """The index of any node of a value's tree."""
    node, index = oracle.build(schema, value), 1
    while not isinstance(node, bytes) and draw(st.integers(0, 9)):
        side = draw(st.integers(0, 1))
        node, index = node[side], 2 * index + side
    return index


@settings(max_examples=50)
@given(typed_values(), st.data())
def test_a_multiproof_leads_to_the_root(typed: Typed, data: st.DataObject) -> None:
    schema, value = typed
    indices = data.draw(st.lists(_indices(schema, value), min_size=1, max_size=4, unique=True))
    assume(not any(_is_above(one, other) for one in indices for other in indices if one != other))
    tree, root = schema.tree(value), schema.hash_tree_root(value)
    leaves = [get_node(tree, index).root for index in indices]
    proof = build_multiproof(tree, indices)
    assert len(proof) == len(get_helper_indices(indices))
    assert compute_multi_merkle_root(leaves, proof, indices) == root
    if proof:
        with pytest.raises(InvalidProof):
            compute_multi_merkle_root(leaves, proof[:-1], indices)
        changed = (bytes(32 * [1]), *proof[1:])
        assert changed == proof or compute_multi_merkle_root(leaves, changed, indices) != root


def _is_above(one: int, other: int) -> bool:
    shift = get_depth(other) - get_depth(one)
    return shift >= 0 and other >> shift == one


@given(
    st.binary(min_size=32, max_size=32), st.lists(st.binary(min_size=32, max_size=32), max_size=9), st.data()
)
def test_a_changed_proof_leads_elsewhere(leaf: bytes, branch: list[bytes], data: st.DataObject) -> None:
    index = (1 << len(branch)) + data.draw(st.integers(0, (1 << len(branch)) - 1))
    root = compute_merkle_root(leaf, branch, index)
    verify_merkle_branch(leaf, branch, index, root, "it")
    place = data.draw(st.integers(0, len(branch)))
    nodes = [leaf, *branch]
    nodes[place] = bytes([nodes[place][0] ^ 1]) + nodes[place][1:]
    assert not is_valid_merkle_branch(nodes[0], nodes[1:], index, root)
    with pytest.raises(InvalidProof):
        verify_merkle_branch(nodes[0], nodes[1:], index, root, "it")


@pytest.mark.parametrize("change", [1, -1])
def test_a_branch_has_exactly_the_right_length(change: int) -> None:
    """Rule 8: a longer branch would prove a node below a leaf, a shorter one a node above it."""
    branch = [bytes(32)] * (5 + change)
    with pytest.raises(InvalidProof):
        compute_merkle_root(bytes(32), branch, 32)
    assert not is_valid_merkle_branch(bytes(32), branch, 32, bytes(32))


@pytest.mark.parametrize("index", [0, -1, 1 << (MAX_DEPTH + 1)])
def test_no_index_is_outside_the_tree(index: int) -> None:
    with pytest.raises(InvalidProof):
        compute_merkle_root(bytes(32), [], index)
    with pytest.raises(InvalidProof):
        compute_multi_merkle_root([bytes(32)], [], [index])
    with pytest.raises(InvalidProof):
        get_node(Uint(8).tree(0), index)


def test_nodes_have_32_bytes() -> None:
    """A branch of longer nodes could shift what is hashed."""
    with pytest.raises(InvalidProof):
        compute_merkle_root(bytes(32), [bytes(33)], 2)
    with pytest.raises(InvalidProof):
        compute_multi_merkle_root([bytes(31), bytes(33)], [], [2, 3])


@pytest.mark.parametrize("indices", [[], [4, 4], [2, 4], [4, 2], [1, 6]])
def test_a_multiproof_proves_each_node_once(indices: list[int]) -> None:
    with pytest.raises(InvalidProof):
        compute_multi_merkle_root([bytes(32)] * len(indices), [bytes(32)] * 2, indices)


def test_nothing_is_below_a_leaf() -> None:
    for schema, value in [(Uint(8), 1), (ByteVector(32), bytes(32)), (List(Uint(8), 4), (1, 2))]:
        tree = schema.tree(value)  # type: ignore[attr-defined]
        with pytest.raises(InvalidProof):
            build_proof(tree, 1 << 9)


@pytest.mark.parametrize(
    ("schema", "path"),
    [
        (Uint(8), (0,)),
        (Vector(Uint(8), 3), (3,)),
        (Vector(Uint(8), 3), (-1,)),
        (Vector(Uint(8), 3), ("__len__",)),
        (List(Uint(8), 3), (3,)),
        (List(Uint(8), None), (-1,)),
        (Bitvector(3), (3,)),
        (Union({1: Uint(8)}), (2,)),
        (Union({0: None}), (0,)),
    ],
    ids=str,
)
def test_no_path_leads_outside(schema: Schema[Any], path: tuple[str | int, ...]) -> None:
    with pytest.raises(Misuse):
        get_generalized_index(schema, *path)


@pytest.mark.parametrize(
    ("schema", "path", "index"),
    [
        (List(Uint(8), 1024), (0,), 2 << 8),
        (List(Uint(8), 1024), (7,), (2 << 8) + 1),
        (List(Uint(8), 1024), ("__len__",), 3),
        (List(ByteVector(48), 4), (3, 40), 2 * 11 + 1),
        (List(Uint(32), None), (0,), 0b100),  # progressive: the first subtree is one chunk
        (List(Uint(32), None), (1,), 0b10_1_0_00),
        (List(Uint(32), None), (5,), 0b10_1_1_0_0000),
        (ByteVector(33), (32,), 3),
    ],
    ids=str,
)
def test_known_indices(schema: Schema[Any], path: tuple[str | int, ...], index: int) -> None:
    assert get_generalized_index(schema, *path) == index


def test_indices_join() -> None:
    assert concat_generalized_indices() == 1
    assert concat_generalized_indices(5, 1, 6) == 0b1_01_10
    assert get_subtree_index(0b1_0110) == 0b0110
