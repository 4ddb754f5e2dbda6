"""Merkle proofs, built from a tree and verified against a root (ssz/merkle-proofs).

A verifier computes generalized indices itself; a proof carries none (rule 8).
"""

from __future__ import annotations

from collections.abc import Sequence

from anchor.errors import InvalidProof
from anchor.merkle.gindex import GeneralizedIndex, get_depth, get_helper_indices
from anchor.merkle.hashing import sha256
from anchor.merkle.tree import Tree

MAX_DEPTH = 256
"""No branch is longer: deeper indices are refused before any work."""


def get_node(tree: Tree, index: GeneralizedIndex) -> Tree:
    """The node of `tree` at `index`. Raises InvalidProof when there is none."""
    _require_index(index)
    for shift in range(get_depth(index) - 1, -1, -1):
        tree = tree.children()[index >> shift & 1]
    return tree


def build_proof(tree: Tree, index: GeneralizedIndex) -> tuple[bytes, ...]:
    """The branch of `index`: sibling roots from the leaf up, `get_depth(index)` of them."""
    _require_index(index)
    branch = []
    for shift in range(get_depth(index) - 1, -1, -1):
        pair = tree.children()
        side = index >> shift & 1
        branch.append(pair[1 - side].root)
        tree = pair[side]
    return tuple(reversed(branch))


def compute_merkle_root(leaf: bytes, branch: Sequence[bytes], index: GeneralizedIndex) -> bytes:
    """The root that `leaf` at `index` leads to by `branch`.

    Raises InvalidProof when the branch has not exactly the right length, or a node is not 32 bytes.
    """
    _require_index(index)
    _require_nodes(branch, get_depth(index), index)
    node = leaf
    for sibling in branch:
        node = sha256(sibling + node if index & 1 else node + sibling)
        index >>= 1
    return node


def is_valid_merkle_branch(
    leaf: bytes, branch: Sequence[bytes], index: GeneralizedIndex, root: bytes
) -> bool:
    """Whether `leaf` stands at `index` of the tree with this `root`; False for a branch of wrong length."""
    try:
        return compute_merkle_root(leaf, branch, index) == root
    except InvalidProof:
        return False


def verify_merkle_branch(
    leaf: bytes, branch: Sequence[bytes], index: GeneralizedIndex, root: bytes, what: str
) -> None:
    """Raises InvalidProof, naming `what` was to be proven, when the branch does not lead to `root`."""
    computed = compute_merkle_root(leaf, branch, index)
    if computed != root:
        raise InvalidProof(
            f"The branch of {what} leads to root 0x{computed.hex()}, not to 0x{root.hex()}.",
            fix="Get a fresh bundle from the publisher or a node.",
        )


def build_multiproof(tree: Tree, indices: Sequence[GeneralizedIndex]) -> tuple[bytes, ...]:
    """The helper nodes of a proof of several `indices`, in descending order of their index."""
    return tuple(get_node(tree, index).root for index in get_helper_indices(indices))


def compute_multi_merkle_root(
    leaves: Sequence[bytes], proof: Sequence[bytes], indices: Sequence[GeneralizedIndex]
) -> bytes:
    """The root that `leaves` at `indices` lead to by a multi-proof.

    Raises InvalidProof when the indices repeat or lie on one path, or a length is wrong.
    """
    for index in indices:
        _require_index(index)
    helpers = get_helper_indices(indices)
    _require_independent(indices)
    _require_nodes(proof, len(helpers), "the helpers")
    _require_nodes(leaves, len(indices), "the leaves")
    nodes = dict(zip(indices, leaves, strict=True)) | dict(zip(helpers, proof, strict=True))
    pending = sorted(nodes, reverse=True)
    for index in pending:  # grows while it runs: a parent is appended once both its children are known
        if index > 1 and index ^ 1 in nodes and index // 2 not in nodes:
            nodes[index // 2] = sha256(nodes[index & ~1] + nodes[index | 1])
            pending.append(index // 2)
    return nodes[1]


def _require_index(index: GeneralizedIndex) -> None:
    if index < 1 or get_depth(index) > MAX_DEPTH:
        raise InvalidProof(f"{index:#x} is no generalized index of a tree of depth up to {MAX_DEPTH}.")


def _require_nodes(nodes: Sequence[bytes], count: int, what: object) -> None:
    if len(nodes) != count:
        raise InvalidProof(f"The proof of {what} has {len(nodes)} nodes, and must have {count}.")
    if any(len(node) != 32 for node in nodes):
        raise InvalidProof(f"The proof of {what} has a node that is not 32 bytes long.")


def _require_independent(indices: Sequence[GeneralizedIndex]) -> None:
    chosen = set(indices)
    if len(chosen) != len(indices) or not chosen:
        raise InvalidProof("A multi-proof needs at least one index, and each only once.")
    for index in chosen:
        parent = index >> 1
        while parent:
            if parent in chosen:
                raise InvalidProof(f"Index {index} lies below index {parent}: prove only one of them.")
            parent >>= 1
