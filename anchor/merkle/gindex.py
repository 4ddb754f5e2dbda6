"""Arithmetic of generalized indices (consensus specifications, ssz/merkle-proofs).

The root is 1; the children of k are 2k and 2k + 1.
"""

from __future__ import annotations

from collections.abc import Iterable

GeneralizedIndex = int


def concat_generalized_indices(*indices: GeneralizedIndex) -> GeneralizedIndex:
    """The index, seen from the first one's root, of following each index from the node before it."""
    result = 1
    for index in indices:
        depth = get_depth(index)
        result = (result << depth) | (index - (1 << depth))
    return result


def get_depth(index: GeneralizedIndex) -> int:
    """Number of steps from the root to `index`: the length of its branch."""
    return index.bit_length() - 1


def get_subtree_index(index: GeneralizedIndex) -> int:
    """Position of `index` among the nodes of its depth."""
    return index - (1 << get_depth(index))


def get_branch_indices(index: GeneralizedIndex) -> list[GeneralizedIndex]:
    """The siblings that a proof of `index` consists of, from the leaf up."""
    siblings = []
    while index > 1:
        siblings.append(index ^ 1)
        index >>= 1
    return siblings


def get_path_indices(index: GeneralizedIndex) -> list[GeneralizedIndex]:
    """`index` and its ancestors below the root, from the leaf up."""
    path = []
    while index > 1:
        path.append(index)
        index >>= 1
    return path


def get_helper_indices(indices: Iterable[GeneralizedIndex]) -> list[GeneralizedIndex]:
    """The nodes that a multi-proof of `indices` must bring, in descending order."""
    helpers: set[int] = set()
    on_path: set[int] = set()
    for index in indices:
        helpers.update(get_branch_indices(index))
        on_path.update(get_path_indices(index))
    return sorted(helpers - on_path, reverse=True)
