"""Records of what was signed, handed from program to program (EIP-3076)."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anchor.errors import MalformedFile, Misuse, WrongNetwork
from anchor.node.validators.interchange import History, decode_interchange, encode_interchange
from anchor.node.validators.protection import Protection
from tests.node.validators.test_protection import ALICE, BOB, NETWORK, made, root

PUBKEY = "b845089a1457f811bfc000588fbb4e713669be8ce060ea6be3c6ece09afc3794106c91ca73acda5e5457122d58723bed"
EXAMPLE: Any = {
    "metadata": {
        "interchange_format_version": "5",
        "genesis_validators_root": "0x04700007fabc8282644aed6d1c7c9e21d38a03a0c4ba193f3afe428824b3a673",
    },
    "data": [
        {
            "pubkey": f"0x{PUBKEY}",
            "signed_blocks": [
                {
                    "slot": "81952",
                    "signing_root": "0x4ff6f743a43f3b4f95350831aeaf0a122a1a392922c45d804280284a69eb850b",
                },
                {"slot": "81951"},
            ],
            "signed_attestations": [
                {
                    "source_epoch": "2290",
                    "target_epoch": "3007",
                    "signing_root": "0x587d6a4f59a58fe24f406e0502413e77fe1babddee641fda30034ed37ecc884d",
                },
                {"source_epoch": "2290", "target_epoch": "3008"},
            ],
        }
    ],
}
"""The example of EIP-3076."""
NETWORK_OF_EXAMPLE = bytes.fromhex(EXAMPLE["metadata"]["genesis_validators_root"][2:])


def test_the_proposals_example_holds(tmp_path: Path) -> None:
    pubkey = bytes.fromhex(PUBKEY)
    with closing(Protection.create(tmp_path / "p")) as protection:
        assert protection.import_interchange(json.dumps(EXAMPLE).encode(), "x") == 1
        assert protection.find_network_id() == NETWORK_OF_EXAMPLE
        signed = bytes.fromhex("4ff6f743a43f3b4f95350831aeaf0a122a1a392922c45d804280284a69eb850b")
        assert protection.allow_block(pubkey, 81952, signed)
        assert not protection.allow_block(pubkey, 81952, root(1))
        assert not protection.allow_block(pubkey, 81951, root(1)), "what was signed is not known"
        assert not protection.allow_block(pubkey, 81950, root(1)), "before all that is told"
        assert protection.allow_block(pubkey, 81953, root(1))
        assert not protection.allow_attestation([pubkey], 2290, 3008, root(1))
        assert not protection.allow_attestation([pubkey], 2289, 3009, root(1))
        assert protection.allow_attestation([pubkey], 2290, 3009, root(1))


ROOT = st.one_of(st.just(b""), st.binary(min_size=32, max_size=32))
EPOCH = st.integers(0, (1 << 63) - 1)
HISTORY = st.builds(
    History,
    st.binary(min_size=48, max_size=48),
    st.lists(st.tuples(EPOCH, ROOT), max_size=3).map(tuple),
    st.lists(st.tuples(EPOCH, EPOCH, ROOT), max_size=3).map(tuple),
)


@given(histories=st.lists(HISTORY, max_size=3))
def test_what_is_written_is_read(histories: list[History]) -> None:
    assert decode_interchange(encode_interchange(NETWORK, histories), "x") == (NETWORK, histories)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("metadata", "interchange_format_version"), "4"),
        (("metadata", "interchange_format_version"), 5),
        (("metadata", "genesis_validators_root"), "0x00"),
        (("data", 0, "pubkey"), "0x00"),
        (("data", 0, "pubkey"), None),
        (("data", 0, "signed_blocks", 0, "slot"), 81952),
        (("data", 0, "signed_blocks", 0, "slot"), "-1"),
        (("data", 0, "signed_blocks", 0, "slot"), "00"),
        (("data", 0, "signed_blocks", 0, "slot"), str(1 << 63)),
        (("data", 0, "signed_blocks", 0, "signing_root"), "0x00"),
        (("data", 0, "signed_blocks", 0), []),
        (("data", 0, "signed_attestations", 1, "target_epoch"), None),
        (("data", 0, "signed_attestations"), None),
        (("data", 0), None),
        (("data",), None),
        (("metadata",), None),
    ],
)
def test_what_is_no_interchange_file_is_refused(path: tuple[Any, ...], value: object, tmp_path: Path) -> None:
    document = json.loads(json.dumps(EXAMPLE))
    place = document
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    with closing(Protection.create(tmp_path / "p")) as protection:
        with pytest.raises(MalformedFile, match="x is no record of what validators signed"):
            protection.import_interchange(json.dumps(document).encode(), "x")
        assert protection.find_network_id() is None
        assert protection.get_pubkeys() == []


def test_records_of_another_network_are_refused(tmp_path: Path) -> None:
    with closing(made(tmp_path)) as protection, pytest.raises(WrongNetwork):
        protection.import_interchange(json.dumps(EXAMPLE).encode(), "x")


def test_an_import_forgets_nothing(tmp_path: Path) -> None:
    """An old export says less than what was signed since; a new one does not excuse what is only here."""
    with closing(made(tmp_path, ALICE, BOB)) as protection:
        assert protection.allow_attestation([ALICE, BOB], 3, 4, root(1)) == [ALICE, BOB]
        old = protection.export_interchange()
        assert protection.allow_attestation([ALICE], 4, 9, root(2)) == [ALICE]
        assert protection.import_interchange(old, "old") == 2
        for source, target in ((5, 8), (4, 9), (3, 10), (3, 4)):
            assert protection.allow_attestation([ALICE], source, target, root(3)) == []
        assert protection.allow_attestation([ALICE], 4, 9, root(2)) == [ALICE]


def test_a_floor_survives_the_export(tmp_path: Path) -> None:
    with closing(made(tmp_path)) as protection:
        protection.register([BOB], slot=80, source=9, target=10)
        data = protection.export_interchange()
    with closing(Protection.create(tmp_path / "other")) as other:
        other.import_interchange(data, "x")
        assert other.get_pubkeys() == [ALICE, BOB]
        assert other.allow_block(ALICE, 1, root(1))
        assert not other.allow_block(BOB, 80, root(1))
        assert not other.allow_attestation([BOB], 9, 10, root(1))
        assert not other.allow_attestation([BOB], 8, 11, root(1))
        assert other.export_interchange().count(b'"target_epoch": "10"') == 1


def test_records_of_no_network_cannot_be_handed_over(tmp_path: Path) -> None:
    with (
        closing(Protection.create(tmp_path / "p")) as protection,
        pytest.raises(Misuse, match="signed on no network yet"),
    ):
        protection.export_interchange()
