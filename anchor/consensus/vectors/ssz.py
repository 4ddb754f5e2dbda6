"""Checks of encodings, roots and proofs (tests/formats: ssz_generic, ssz_static, merkle_proof)."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any, Final

from anchor.consensus.presets import get_preset
from anchor.consensus.vectors.cases import Case
from anchor.consensus.vectors.compare import Difference, compare
from anchor.consensus.vectors.generic_types import get_type
from anchor.errors import Malformed, Misuse
from anchor.merkle.proof import build_proof, compute_merkle_root, get_node
from anchor.merkle.scope import Scope
from anchor.merkle.ssz import Schema

GENERIC_HANDLERS: Final = {
    "basic_progressive_list",
    "basic_vector",
    "bitlist",
    "bitvector",
    "boolean",
    "compatible_unions",
    "containers",
    "progressive_bitlist",
    "progressive_containers",
    "uints",
}


def check_static(case: Case) -> Difference | None:
    """A record of a fork decodes, encodes to the same bytes, and has the root that the case gives."""
    schema = get_scope(case.preset, case.fork).schema(case.handler)
    return _check_valid(schema, case.read_ssz("serialized"), case.read_yaml("roots")["root"])


def check_generic(case: Case) -> Difference | None:
    """A valid encoding decodes as in `check_static`; an invalid one is refused."""
    data = case.read_ssz("serialized")
    if case.suite == "valid":
        return _check_valid(get_type(case.handler, case.name), data, case.meta["root"])
    try:
        value = get_type(case.handler, case.name).decode(data)
    except (Malformed, Misuse):  # Misuse: the type itself is none, as a vector of length zero
        return None
    return Difference("", "a refusal", repr(value))


def check_proof(case: Case) -> Difference | None:
    """A branch of a record is the one given, and leads to the record's root."""
    schema = get_scope(case.preset, case.fork).schema(case.suite)
    value, given = schema.decode(case.read_ssz("object")), case.read_yaml("proof")
    index, tree = given["leaf_index"], schema.tree(value)
    leaf, branch = get_node(tree, index).root, build_proof(tree, index)
    got = tuple([f"0x{node.hex()}" for node in (leaf, *branch)])
    root = compute_merkle_root(leaf, branch, index)
    difference = compare((given["leaf"], *given["branch"]), got, "nodes")
    return difference or compare(schema.hash_tree_root(value), root, "root")


def _check_valid(schema: Schema[Any], data: bytes, root: str) -> Difference | None:
    value = schema.decode(data)
    again = schema.encode(value)
    if again != data:
        return Difference("encoding", data.hex(), again.hex())
    computed = f"0x{schema.hash_tree_root(value).hex()}"
    return None if computed == root else Difference("root", root, computed)


@cache
def get_scope(preset: str, fork: str) -> Scope:
    """The schemas of one fork under one preset."""
    records = import_module(f"anchor.consensus.containers.{fork}").RECORDS
    return Scope(get_preset(preset), records)
