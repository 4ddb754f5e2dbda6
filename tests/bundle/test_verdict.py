"""Verdicts: exit codes (rule 6), words (rule 5), identity (rule 1), extra files (rule 4)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import anchor
from anchor.bundle.api import find_bundle
from anchor.bundle.finality import Tally
from anchor.bundle.trust import Trust
from anchor.bundle.verdict import Verdict, describe_evidence
from anchor.consensus.containers.phase0 import Checkpoint
from anchor.consensus.text import format_duration, format_identity
from anchor.errors import MalformedBundle, Misuse, TamperedFile, Unavailable
from tests.bundle.chains import Published
from tests.consensus.ledgers import BOB_ROOT, ROOT, identity

ALICE_ID, BOB_ID = format_identity(identity(ROOT)), format_identity(identity(BOB_ROOT))


@pytest.fixture
def check(published: Published, model: Path) -> Callable[..., Verdict]:
    """Verifies the copy of the published model, by someone who knows what they expect."""

    def run(**how: Any) -> Verdict:
        stated = {
            "trust": Trust(published.genesis),
            "model": "acme/tiny",
            "publisher": ALICE_ID,
            "now": published.now,
        }
        how = stated | how
        return anchor.verify(how.pop("path", model), how.pop("bundle", None), how.pop("trust"), **how)

    return run


def test_an_untouched_model_is_verified(check: Callable[..., Verdict]) -> None:
    verdict = check()
    assert verdict and verdict.exit_code == 0 and verdict.word == "verified"
    assert verdict.summary == "Verified: this is acme/tiny@1.0, as it was published."
    assert verdict.qualifications == ()
    json.dumps(verdict.to_json(), default=bytes.hex)


def test_a_verdict_reads_as_text(check: Callable[..., Verdict], model: Path) -> None:
    verdict = check()
    assert str(verdict).startswith(f"{verdict.summary}\n  trust: 0x")
    assert repr(verdict) == f"<Verdict: {verdict.summary}>"
    assert "identity not stated: say who may publish it (--publisher)." in str(check(publisher=None))
    flip(model / "model.safetensors")
    for number in range(25):
        (model / f"evil{number}\x1b[2J").write_text("")
    lines = str(check()).splitlines()
    assert "  TAMPERED 'layers.1.weight' in 'model.safetensors'" not in lines  # beyond those that are listed
    assert lines[1] == "  TAMPERED 'model.safetensors'" and lines[2] == "  EXTRA 'evil0\\x1b[2J'"
    assert "  … and 7 more" in lines
    assert str(check(model="acme/other")).startswith(
        "Refused: The bundle is of acme/tiny@1.0, not of acme/other."
    )


def test_one_file_of_a_folder_is_not_the_whole(check: Callable[..., Verdict], model: Path) -> None:
    (model / "adapter_config.json").write_text("{}")
    verdict = check(path=model / "model.safetensors", bundle=model / "model.anchor")
    assert verdict.exit_code == 4
    assert verdict.files is not None
    assert {file.path: file.answer for file in verdict.files.files} == {
        "config.json": "MISSING",
        "model.safetensors": "OK",
    }


def test_the_words_say_what_it_rests_on(check: Callable[..., Verdict], published: Published) -> None:
    grounds = dict(check().grounds)
    assert grounds["trust"].startswith(f"0x{published.genesis.root[:4].hex()}…:0, as you gave it, of 2027-")
    assert grounds["evidence"] == "votes of 8 of 8 validators, 100.0 % of stake"
    assert grounds["operator"] == "one operator"
    assert grounds["as of"] == f"epoch {published.newest.epoch}, 2027-01-15 08:40 UTC; later unknown"
    assert grounds["publisher"] == ALICE_ID
    assert grounds["signed"] == "Ed25519, by keys that were valid at entry 9"
    assert grounds["stage"] == "development; not revoked"
    assert grounds["lineage"] == "the publisher's claim"


@pytest.mark.parametrize(
    ("seconds", "words"), [(119, "119 seconds"), (120, "2.0 minutes"), (302400, "3.5 days")]
)
def test_lengths_of_time_are_for_people(seconds: int, words: str) -> None:
    assert format_duration(seconds) == words


def test_the_words_of_the_evidence() -> None:
    weak = Tally(epoch=3, voters=43, validators=64, stake=672, total_stake=1000)
    strong = weak._replace(voters=60, stake=900)
    assert describe_evidence((strong, weak), ()) == "votes of 43 of 64 validators, 67.2 % of stake"
    assert describe_evidence((strong, weak) * 2, ()).endswith("67.2 % of stake, in the weakest of 4 links")
    assert describe_evidence((), ()) == "none needed: the trusted checkpoint's own state proves it"


def test_the_users_words_on_operators_are_said(check: Callable[..., Verdict], published: Published) -> None:
    trust = Trust(published.genesis, name="lab", operator="three universities")
    grounds = dict(check(trust=trust).grounds)
    assert grounds["operator"] == "three universities" and "'lab' of your trust store" in grounds["trust"]


def test_a_stale_trust_is_said(check: Callable[..., Verdict], published: Published) -> None:
    later = published.now + 10**9
    assert not check(now=later)
    verdict = check(now=later, allow_stale_trust=True)
    assert (
        verdict
        and "older than its weak-subjectivity period, as you allowed" in dict(verdict.grounds)["trust"]
    )


# Exit codes


def flip(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(bytes(data))


@pytest.mark.parametrize(
    ("change", "code", "summary"),
    [
        (lambda model: flip(model / "model.safetensors"), 1, "Not acme/tiny@1.0: the model differs"),
        (lambda model: flip(model / "config.json"), 1, "Not acme/tiny@1.0: the model differs"),
        (lambda model: (model / "adapter_config.json").write_text("{}"), 1, "Not acme/tiny@1.0"),
        (lambda model: (model / "config.json").unlink(), 4, "Incomplete: what is there is acme/tiny@1.0"),
    ],
    ids=["a tensor's bit", "a file's bit", "a stray file", "a missing file"],
)
def test_what_differs_decides(
    check: Callable[..., Verdict], model: Path, change: Callable[[Path], object], code: int, summary: str
) -> None:
    change(model)
    verdict = check()
    assert not verdict and verdict.exit_code == code and verdict.summary.startswith(summary)


def test_a_difference_outweighs_what_is_missing(check: Callable[..., Verdict], model: Path) -> None:
    (model / "config.json").unlink()
    flip(model / "model.safetensors")
    assert check(model=None).exit_code == 1


@pytest.mark.parametrize("left_out", ["model", "publisher"])
def test_without_identity_nothing_is_verified(check: Callable[..., Verdict], left_out: str) -> None:
    verdict = check(**{left_out: None})
    assert not verdict and verdict.exit_code == 5
    assert verdict.summary == f"Matches what {ALICE_ID} published as acme/tiny@1.0; identity not stated."


def test_a_pinned_publisher_states_whose(check: Callable[..., Verdict], published: Published) -> None:
    pinned = Trust(published.genesis, name="lab", publishers={"acme": identity(ROOT)})
    assert check(trust=pinned, publisher=None)
    assert check(trust=pinned, publisher=None, model=None).exit_code == 5
    other = Trust(published.genesis, name="lab", publishers={"acme": identity(BOB_ROOT)})
    assert check(trust=other, publisher=None).exit_code == 1
    with pytest.raises(Misuse, match="pins"):
        check(trust=other)


def test_a_part_is_said_to_be_a_part(check: Callable[..., Verdict], model: Path) -> None:
    verdict = check(only=["layers.0.*"])
    assert not verdict and verdict.exit_code == 5
    assert verdict.qualifications == ("only a part was checked: layers.0.*",)
    flip(model / "model.safetensors")  # the last byte is layers.1's
    assert check(only=["layers.0.*"]).exit_code == 5
    assert check(only=["layers.1.*"]).exit_code == 1


def test_nothing_looked_at_is_nothing_verified(check: Callable[..., Verdict]) -> None:
    verdict = check()
    assert verdict.files is not None
    empty = verdict.files._replace(files=(), tensors=(), findings=())
    nothing = Verdict(verdict.trust, verdict.expected, verdict.evidence, empty)
    assert not nothing and nothing.exit_code == 1


def test_a_part_that_is_nothing_is_misuse(check: Callable[..., Verdict]) -> None:
    with pytest.raises(Misuse):
        check(only=["nothing.*"])


def test_a_refused_bundle_shows_nothing_of_itself(
    check: Callable[..., Verdict], published: Published, tmp_path: Path
) -> None:
    trojan = tmp_path / "trojan.anchor"
    trojan.write_bytes(published.older[:-1] + b"\0")
    verdict = check(bundle=trojan)
    assert verdict.exit_code == 1 and verdict.evidence is None and verdict.files is None
    assert verdict.summary.startswith("Refused: ")
    assert [label for label, _ in verdict.grounds] == ["trust"]


@pytest.mark.parametrize(
    "how",
    [
        {"publisher": BOB_ID},
        {"model": "acme/tiny@1.1"},
        {"model": "acme/other"},
        {"require_stage": "production", "max_age": 10**6},
        {"max_age": 1},
        {"trust": Trust(Checkpoint(epoch=0, root=b"\5" * 32))},
    ],
)
def test_what_was_not_expected_is_refused(check: Callable[..., Verdict], how: dict[str, Any]) -> None:
    verdict = check(**how)
    assert not verdict and verdict.exit_code == 1 and verdict.summary.startswith("Refused: ")


# Misuse, unavailable, malformed: raised


@pytest.mark.parametrize(
    "how",
    [
        {"model": "tiny"},
        {"model": "acme/tiny@"},
        {"model": "acme/tiny@1.0", "version": "1.1"},
        {"model": "ACME/tiny"},
        {"model": "acme/tiny\x1b[2J"},
        {"version": ""},
        {"publisher": "ed25519:00"},
        {"publisher": "ed25519:" + "00" * 32},
        {"publisher": ALICE_ID.upper()},
        {"require_stage": "production"},
        {"require_stage": "best", "max_age": 1},
        {"trust": "root:epoch"},
        {"trust": "0x" + "5" * 64},
        {"trust": "0x" + "5" * 64 + ":-1"},
        {"trust": "0x" + "5" * 64 + ":99999999999999999999"},
    ],
    ids=str,
)
def test_misuse_is_raised(check: Callable[..., Verdict], how: dict[str, Any]) -> None:
    with pytest.raises(Misuse):
        check(**how)


def test_a_malformed_bundle_is_raised(check: Callable[..., Verdict], model: Path) -> None:
    (model / "model.anchor").write_bytes(b"not a bundle, and long enough")
    with pytest.raises(MalformedBundle):
        check()


def test_what_is_not_there_is_raised(check: Callable[..., Verdict], model: Path, tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="no bundle"):
        check(bundle=tmp_path / "nowhere.anchor")
    with pytest.raises(Unavailable):
        check(path=tmp_path / "nowhere", bundle=model / "model.anchor")
    with pytest.raises(Unavailable, match="no model"):
        check(path=tmp_path / "nowhere")


def test_a_bundles_place_is_beside_the_model(tmp_path: Path) -> None:
    assert find_bundle(tmp_path) == tmp_path / "model.anchor"
    assert find_bundle(tmp_path / "m.safetensors") == tmp_path / "m.safetensors.anchor"


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_change_of_a_file_is_verified(
    check: Callable[..., Verdict], model: Path, data: st.DataObject
) -> None:
    file = model / data.draw(st.sampled_from(["model.safetensors", "config.json"]))
    content = file.read_bytes()
    place = data.draw(st.integers(0, len(content)))
    changed = (
        content[:place] + data.draw(st.binary(max_size=3)) + content[place + data.draw(st.integers(0, 3)) :]
    )
    file.write_bytes(changed)
    try:
        assert bool(check()) == (changed == content)
    finally:
        file.write_bytes(content)


# Loading


def test_open_verified_has_the_shape_of_safe_open(published: Published, model: Path) -> None:
    stated = {"model": "acme/tiny", "publisher": ALICE_ID, "now": published.now}
    with anchor.open_verified(model, None, Trust(published.genesis), **stated) as opened:
        assert opened.keys() == ["layers.0.weight", "layers.1.weight"]
        assert bytes(opened.get_bytes("layers.1.weight")) == b"\7" * 8
    flip(model / "model.safetensors")
    again = anchor.open_verified(model, None, Trust(published.genesis), **stated)
    with again as opened, pytest.raises(TamperedFile):
        opened.get_bytes("layers.1.weight")


def test_the_bundle_is_the_one_beside_the_model(published: Published, model: Path) -> None:
    stated: dict[str, Any] = {"model": "acme/tiny", "publisher": ALICE_ID, "now": published.now}
    assert anchor.verify(model, trust=Trust(published.genesis), **stated)
    with anchor.open_verified(model, trust=Trust(published.genesis), **stated) as opened:
        assert opened.keys() == ["layers.0.weight", "layers.1.weight"]
    for use in (anchor.verify, anchor.open_verified):
        with pytest.raises(Misuse, match="No trusted checkpoint"):
            use(model, **stated)


def test_open_verified_needs_identity(published: Published, model: Path) -> None:
    with pytest.raises(Misuse, match="who may publish"):
        anchor.open_verified(model, None, Trust(published.genesis), model="acme/tiny", now=published.now)


def test_open_verified_refuses_what_verify_refuses(published: Published, model: Path) -> None:
    with pytest.raises(anchor.Invalid):
        anchor.open_verified(
            model, None, Trust(published.genesis), model="acme/tiny", publisher=BOB_ID, now=published.now
        )
