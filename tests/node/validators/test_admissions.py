"""New validators on a running network: proposed, consented to, brought in."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from anchor.consensus.containers.entries import AdmitValidator
from anchor.consensus.duties import Keyring, compute_admission
from anchor.errors import InvalidEntry, InvalidSignature, MalformedFile, WrongNetwork
from anchor.node.entries import Pen
from anchor.node.founding import Description, Founded
from anchor.node.validators.admissions import (
    LIFETIME,
    Consent,
    Proposal,
    consent,
    gather,
    propose,
    read_consent,
    read_proposal,
    write_consent,
    write_proposal,
)
from tests.node.tools import NOW
from tests.node.validators.tools import ADMINISTRATOR, make_draft, make_network, make_operator


class Lab:
    """A network of three operators, and a fourth who wants to join."""

    def __init__(self, folder: Path) -> None:
        self.founded: Founded
        self.founded, self.keys = make_network(folder, "a", "b", "c")
        self.network = Description(self.founded.network_id, make_draft().fork_version, NOW, 12)
        self.new = make_operator(folder / "d", "d", make_draft())[1]
        self.proposal = propose(self.network, self.new, NOW)

    def consent(self, name: str) -> Consent:
        return consent(self.network, self.proposal, self.keys[name])

    def gather(self, *given: Consent, state: Any = None) -> list[AdmitValidator]:
        founded = self.founded
        return gather(founded.ledger, state or founded.state, self.network, self.proposal, given)

    def bring_in(self, bodies: list[AdmitValidator]) -> Any:
        """The state after the entries, judged by the ledger's own rules."""
        ledger, state = self.founded.ledger, self.founded.state.copy()
        pen = Pen(state, 0)
        for body in bodies:
            entry = pen.write(ADMINISTRATOR.public.public_key, body, (ADMINISTRATOR,))
            ledger.verify_entry(state, entry)
            ledger.apply_entry(state, entry)
        return state


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    return Lab(tmp_path_factory.mktemp("lab"))


def test_two_thirds_bring_a_validator_in(lab: Lab, tmp_path: Path) -> None:
    write_proposal(tmp_path / "proposal", lab.proposal)
    assert read_proposal(tmp_path / "proposal") == lab.proposal
    for name in ("a", "b"):
        write_consent(tmp_path / name, lab.consent(name))
    bodies = lab.gather(*[read_consent(tmp_path / name) for name in ("b", "a")])
    state = lab.bring_in(bodies)
    pubkeys = [deposit.pubkey for deposit in lab.new.deposits]
    assert [state.validators[index].pubkey for index in (6, 7)] == pubkeys


def test_what_is_gathered_is_what_one_who_had_all_keys_would_sign(lab: Lab) -> None:
    founded = lab.founded
    everyone = Keyring(lab.keys["a"].bls, {**lab.keys["a"].secret_keys, **lab.keys["c"].secret_keys})
    expected = [
        compute_admission(founded.ledger, founded.state, everyone, admission)
        for admission in lab.proposal.admissions
    ]
    assert lab.gather(lab.consent("a"), lab.consent("c")) == expected


def test_less_than_two_thirds_bring_nobody_in(lab: Lab) -> None:
    with pytest.raises(InvalidEntry, match=r"2 validators with 33% of the stake consent to 0x"):
        lab.gather(lab.consent("a"), lab.consent("a"))
    with pytest.raises(InvalidEntry, match=r"0 validators with 0% of the stake"):
        lab.gather()


def test_who_is_slashed_or_unknown_does_not_count(lab: Lab) -> None:
    state = lab.founded.state.copy()
    state.validators[0] = state.validators[0].replace(slashed=True)
    stranger = make_stranger(lab)
    with pytest.raises(InvalidEntry, match="3 validators"):
        lab.gather(lab.consent("a"), lab.consent("b"), stranger, state=state)
    assert lab.gather(*[lab.consent(name) for name in "abc"], stranger, state=state)


def make_stranger(lab: Lab) -> Consent:
    return consent(lab.network, lab.proposal, Keyring(lab.keys["a"].bls, {lab.keys["a"].bls.sk_to_pk(5): 5}))


def test_a_signature_that_is_not_its_keys_is_refused(lab: Lab) -> None:
    """Aggregated unseen, it would spoil everyone's."""
    given = lab.consent("a")
    message, signed = next(iter(given.signatures.items()))
    one, other = signed
    forged = Consent(
        given.network_id, {**given.signatures, message: {one: signed[other], other: signed[other]}}
    )
    with pytest.raises(InvalidSignature, match=f"The consent of validator 0x{one.hex()} is not signed"):
        lab.gather(forged, lab.consent("b"))


def test_consent_to_one_admission_is_none_to_another(lab: Lab) -> None:
    later = propose(lab.network, lab.new, NOW + 960)
    assert later.admissions[0].expiry_epoch == LIFETIME + 10
    given = [consent(lab.network, later, lab.keys[name]) for name in ("a", "b")]
    with pytest.raises(InvalidEntry, match="0 validators"):
        lab.gather(*given)


def test_nothing_crosses_from_network_to_network(lab: Lab) -> None:
    other = replace(lab.network, network_id=b"m" * 32)
    elsewhere = Proposal(lab.proposal.operator, other.network_id, lab.proposal.admissions)
    with pytest.raises(WrongNetwork, match="The proposal is for network"):
        consent(lab.network, elsewhere, lab.keys["a"])
    with pytest.raises(WrongNetwork, match="The consent is for network"):
        lab.gather(Consent(other.network_id, lab.consent("a").signatures))
    with pytest.raises(WrongNetwork, match="The deposits of 'd' are for another"):
        propose(replace(lab.network, fork_version=b"ABCD"), lab.new, NOW)


def test_a_key_that_is_not_possessed_is_not_proposed_nor_consented_to(lab: Lab) -> None:
    one, other = lab.new.deposits
    stolen = replace(lab.new, deposits=(one.replace(signature=other.signature),))
    with pytest.raises(InvalidSignature, match="Possession"):
        propose(lab.network, stolen, NOW)
    admissions = (lab.proposal.admissions[0].replace(deposit=stolen.deposits[0]),)
    with pytest.raises(InvalidSignature, match="Possession"):
        consent(lab.network, replace(lab.proposal, admissions=admissions), lab.keys["a"])


def test_what_is_no_proposal_or_consent_is_refused(lab: Lab, tmp_path: Path) -> None:
    write_proposal(tmp_path / "proposal", lab.proposal)
    write_consent(tmp_path / "consent", lab.consent("a"))
    with pytest.raises(MalformedFile, match="an operator's consent"):
        read_consent(tmp_path / "proposal")
    with pytest.raises(MalformedFile, match="the admissions of validators"):
        read_proposal(tmp_path / "consent")
    text = (tmp_path / "proposal").read_text()
    for old, new in (('"expiry_epoch": 4096', '"expiry_epoch": "4096"'), ('"amount"', '"sum"'), ("0x", "0y")):
        assert old in text
        (tmp_path / "changed").write_text(text.replace(old, new))
        with pytest.raises(MalformedFile):
            read_proposal(tmp_path / "changed")
