"""Scenarios are read strictly: what is wrong is said before anything is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from anchor.errors import Misuse
from anchor.node.devnet.running import VERBS
from anchor.node.devnet.scenario import (
    STEPS,
    Step,
    parse_groups,
    parse_scenario,
    parse_seconds,
    read_scenario,
)

OURS = sorted((Path(__file__).parents[3] / "devnet" / "scenarios").glob("*.yaml"))


@pytest.mark.parametrize("path", OURS, ids=lambda path: path.stem)
def test_our_own_scenarios_are_scenarios(path: Path) -> None:
    scenario = read_scenario(path)
    assert scenario.steps and scenario.nodes == 4


def test_there_are_scenarios() -> None:
    assert OURS


def test_every_verb_can_be_done() -> None:
    assert VERBS.keys() == STEPS.keys()


def test_a_step_is_read_with_its_values_named_or_bare() -> None:
    steps = ["heal", {"kill": 2}, {"skew": {"node": 1, "by": "-3s"}}, {"partition": "1,2/3"}, {"sleep": 0.5}]
    scenario = parse_scenario({"name": "x", "steps": steps, "nodes": 3}, "here")
    assert scenario.steps == (
        Step("heal"),
        Step("kill", {"node": 2}),
        Step("skew", {"node": 1, "by": -3.0}),
        Step("partition", {"groups": ((1, 2), (3,))}),
        Step("sleep", {"for": 0.5}),
    )
    assert [str(step) for step in scenario.steps[2:4]] == ["skew node 1 by -3 s", "partition groups 1,2/3"]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([], "no steps"),
        ({"steps": []}, "no steps"),
        ({"steps": ["heal"], "colour": "red"}, "'colour'"),
        ({"steps": ["fly"]}, "verb 'fly'"),
        ({"steps": [{"kill": 1, "start": 2}]}, "not one verb"),
        ({"steps": [7]}, "not one verb"),
        ({"steps": [{"kill": None}]}, "kill takes node"),
        ({"steps": [{"kill": 5}]}, "node 5, and there are 4"),
        ({"steps": [{"kill": True}]}, "must be a node"),
        ({"steps": [{"kill": 0}]}, "must be a node"),
        ({"steps": [{"partition": "1,2/5"}]}, "node 5"),
        ({"steps": [{"sleep": "long"}]}, "no time"),
        ({"steps": [{"heal": 3}]}, "heal takes nothing"),
        ({"steps": [{"skew": {"node": 1}}]}, "skew takes node, by, and got node"),
        ({"steps": ["heal"], "nodes": "four"}, "must be a count"),
        ({"steps": ["heal"] * 1001}, "at most 1000"),
    ],
)
def test_what_is_no_scenario_is_refused_in_a_sentence(values: object, words: str) -> None:
    with pytest.raises(Misuse, match=words):
        parse_scenario(values, "here")


@pytest.mark.parametrize(
    "text", ["", "1", "1,2", "1/1", "1,2/2", "a/b", "1/", "1//2", "\u0661/2", "999999/1"]
)
def test_what_is_no_partition(text: str) -> None:
    with pytest.raises(Misuse):
        parse_groups(text)


@pytest.mark.parametrize("text", ["", "s", "nan", "inf", "-inf", "3601", "1e9", "3m"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(Misuse):
        parse_seconds(text)


@pytest.mark.parametrize("text", ["a: [", "- !!python/object/apply:os.system [id]", "\x00", "[" * 500])
def test_what_is_no_yaml(tmp_path: Path, text: str) -> None:
    (tmp_path / "s.yaml").write_text(text)
    with pytest.raises(Misuse):
        read_scenario(tmp_path / "s.yaml")
