"""What only operators may do, and who is one."""

from __future__ import annotations

from pathlib import Path

import pytest

from anchor.errors import Misuse
from anchor.node.keys import derive_root_key
from anchor.node.operators import Operators, read_operators
from tests.node.http.conftest import TOKEN, Site

PATH = "/anchor/v1/admin/publishers"
BOB = f"ed25519:{derive_root_key(b'bob'.ljust(32, b'0')).public.public_key.hex()}"


@pytest.mark.parametrize(
    "header", [None, "", TOKEN, "Bearer", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", f"Basic {TOKEN}"]
)
async def test_a_stranger_is_turned_away(site: Site, header: str | None) -> None:
    headers = {} if header is None else {"Authorization": header}
    async with site.client.post(PATH, json={"publisher": BOB}, headers=headers) as response:
        assert response.status == 401
        assert response.headers["WWW-Authenticate"] == "Bearer"
    assert site.node.status.entries == 4


async def test_an_operator_registers_a_publisher(site: Site) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with site.client.post(PATH, json={"publisher": BOB}, headers=headers) as response:
        assert response.status == 201
        receipt = (await response.json())["data"]
    async with site.client.get(f"/anchor/v1/entries/{receipt['position']}") as response:
        entry = (await response.json())["data"]
    assert (entry["kind"], entry["final"]) == ("RegisterPublisher", True)
    assert f"ed25519:{entry['entry']['entry']['body']['data']['root_key'][2:]}" == BOB
    async with site.client.post(PATH, json={"publisher": BOB}, headers=headers) as response:
        assert response.status == 422  # known already


@pytest.mark.parametrize(
    "body", [{}, {"publisher": 1}, {"publisher": "bob"}, {"publisher": BOB, "x": ""}, []]
)
async def test_an_operator_who_errs_is_told(site: Site, body: object) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with site.client.post(PATH, json=body, headers=headers) as response:
        assert response.status == 400


def test_without_tokens_nobody_is_an_operator() -> None:
    assert not Operators().accept("Bearer ")
    assert Operators(frozenset([TOKEN])).accept(f"bearer {TOKEN}")


def test_a_file_of_tokens_is_private(tmp_path: Path) -> None:
    path = tmp_path / "operators"
    path.write_text(f"{TOKEN}\n{TOKEN[::-1]}\n")
    path.chmod(0o640)
    with pytest.raises(Misuse, match="0640"):
        read_operators(path)
    path.chmod(0o600)
    operators = read_operators(path)
    assert operators.accept(f"Bearer {TOKEN}")
    assert operators.accept(f"Bearer {TOKEN[::-1]}")
    path.write_text("short\n")
    with pytest.raises(Misuse, match="32 characters"):
        read_operators(path)
