"""Checks of what nodes agree on between themselves (tests/formats/networking)."""

from __future__ import annotations

from anchor.consensus.custody import compute_columns_for_custody_group, get_custody_groups
from anchor.consensus.presets import get_config, get_preset
from anchor.consensus.vectors.cases import Case
from anchor.consensus.vectors.compare import Difference, compare


def check_custody_groups(case: Case) -> Difference | None:
    """The groups of columns that a node keeps."""
    given = case.meta
    config = get_config(case.preset)
    groups = get_custody_groups(config, given["node_id"], given["custody_group_count"])
    return compare(tuple(given["result"]), tuple(groups), "result")


def check_custody_columns(case: Case) -> Difference | None:
    """The columns of a group."""
    preset, config = get_preset(case.preset), get_config(case.preset)
    columns = compute_columns_for_custody_group(preset, config, case.meta["custody_group"])
    return compare(tuple(case.meta["result"]), tuple(columns), "result")
