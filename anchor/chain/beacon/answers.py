"""An endpoint's answers, read: SSZ or JSON as the answer itself says, whatever was asked for.

Nothing here is trusted: what is read is checked elsewhere, against roots. Reading says in a sentence what
came instead of what was asked for.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from anchor.chain.beacon.checkpoint import find_block_fork, find_state_fork, read_state_head
from anchor.chain.beacon.networks import Fork, Network
from anchor.consensus.containers.phase0 import BeaconBlockHeader, Checkpoint
from anchor.consensus.fork_epochs import FORK_NAMES, compute_fork_digest
from anchor.errors import MalformedAnswer, MalformedSSZ, WrongNetwork
from anchor.merkle.json import Json, from_json
from anchor.merkle.scope import schema_of
from anchor.merkle.ssz import Schema
from anchor.types import Root, Slot

T = TypeVar("T")
SSZ: Final = "application/octet-stream"
JSON: Final = "application/json"
PAGES: Final = (b"<!doctype", b"<html", b"<?xml")
DIGITS: Final = 20
"""Of the largest uint64."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back with status 200."""

    what: str
    """What was asked for, in words."""
    body: bytes
    content_type: str
    """Without parameters, lower case."""
    version: str = ""
    """The fork that the header Eth-Consensus-Version names; empty when it is absent."""


def read_document(answer: Answer) -> Json:
    """An answer's JSON. Raises MalformedAnswer."""
    if answer.content_type != JSON:
        raise _unexpected(answer)
    try:
        return json.loads(answer.body)
    except (ValueError, RecursionError):
        raise MalformedAnswer(f"{answer.what}: the answer is not the JSON that it says it is.") from None


def read_data(answer: Answer) -> Json:
    """The `data` of an answer in JSON. Raises MalformedAnswer, with the error that came instead."""
    document = read_document(answer)
    if not isinstance(document, dict) or "data" not in document:
        message = document.get("message", "") if isinstance(document, dict) else ""
        raise MalformedAnswer(f"{answer.what}: the answer has no data{_quote(str(message).encode())}.")
    return document["data"]


def read_genesis(answer: Answer) -> tuple[Root, int]:
    """The genesis validators root and time that an endpoint states."""
    data = read_data(answer)
    return _root(answer, data, "genesis_validators_root"), _number(answer, data, "genesis_time")


def read_finalized(answer: Answer) -> Checkpoint:
    """The finalised checkpoint that an endpoint states."""
    data = read_data(answer)
    part = data.get("finalized") if isinstance(data, dict) else None
    return Checkpoint(epoch=_number(answer, part, "epoch"), root=_root(answer, part, "root"))


def read_head_slot(answer: Answer) -> Slot:
    """The slot of the head that an endpoint states."""
    return _number(answer, read_data(answer), "head_slot")


def read_child_slots(answer: Answer) -> list[Slot]:
    """The slots of the canonical headers in a list of headers."""
    data = read_data(answer)
    if not isinstance(data, list):
        raise MalformedAnswer(f"{answer.what}: the answer is no list.")
    canonical = [item for item in data if isinstance(item, dict) and item.get("canonical") is True]
    headers = [item.get("header") for item in canonical]
    messages = [header.get("message") for header in headers if isinstance(header, dict)]
    return [_number(answer, message, "slot") for message in messages]


def read_header(answer: Answer) -> BeaconBlockHeader:
    """The header in an answer. Raises MalformedAnswer."""
    data = read_data(answer)
    signed = data.get("header") if isinstance(data, dict) else None
    message = signed.get("message") if isinstance(signed, dict) else None
    header: BeaconBlockHeader = _read_json(answer, schema_of(BeaconBlockHeader), message)
    return header


def read_record(answer: Answer, schema: Schema[T]) -> T:
    """A record that has one form on all forks. Raises MalformedAnswer, MalformedSSZ."""
    if answer.content_type == SSZ:
        return schema.decode(answer.body)
    return _read_json(answer, schema, read_data(answer))


def _read_json(answer: Answer, schema: Schema[T], data: Json) -> T:
    try:
        read: T = from_json(schema, data)
    except MalformedSSZ as error:
        raise MalformedAnswer(f"{answer.what}: {error.what}") from None
    return read


def to_block_bytes(network: Network, answer: Answer) -> bytes:
    """A signed block's SSZ. Raises MalformedAnswer, MalformedSSZ, WrongNetwork."""
    if answer.content_type == SSZ:
        _require_no_page(answer)
        _require_version(answer, find_block_fork(network, answer.body), answer.version)
        return answer.body
    document = read_document(answer)
    data = read_data(answer)
    message = data.get("message") if isinstance(data, dict) else None
    fork = network.get_fork_at_slot(_number(answer, message, "slot"))
    _require_version(answer, fork, answer.version or document.get("version", ""))
    return _convert(answer, fork.scope.schema("SignedBeaconBlock"), data)


def to_state_bytes(network: Network, answer: Answer) -> bytes:
    """A state's SSZ. Raises MalformedAnswer, MalformedSSZ, WrongNetwork."""
    if answer.content_type == SSZ:
        _require_no_page(answer)
        _require_version(answer, find_state_fork(network, read_state_head(answer.body)), answer.version)
        return answer.body
    document = read_document(answer)
    data = read_data(answer)
    fork = network.get_fork_at_slot(_number(answer, data, "slot"))
    _require_version(answer, fork, answer.version or document.get("version", ""))
    return _convert(answer, fork.scope.schema("BeaconState"), data)


def to_light_client_record(network: Network, answer: Answer, name: str) -> Any:
    """A light-client record in the form of its own fork, by the slot of its attested or only header."""
    if answer.content_type == SSZ:
        if not answer.version:
            raise MalformedAnswer(f"{answer.what}: SSZ without Eth-Consensus-Version cannot be told apart.")
        return _get_fork(network, answer, answer.version).scope.schema(name).decode(answer.body)
    document = read_document(answer)
    return _read_light_client_json(network, answer, read_data(answer), document.get("version", ""), name)


def to_light_client_updates(network: Network, answer: Answer) -> list[Any]:
    """The updates of an answer, each in the form of its own fork."""
    name = "LightClientUpdate"
    if answer.content_type == SSZ:
        return _read_chunks(network, answer, name)
    document = read_document(answer)
    items = document.get("data") if isinstance(document, dict) else document
    if not isinstance(items, list):
        raise MalformedAnswer(f"{answer.what}: the answer is no list.")
    found = []
    for item in items:
        wrapped = isinstance(item, dict) and "data" in item
        data, version = (item["data"], item.get("version", "")) if wrapped else (item, "")
        found.append(_read_light_client_json(network, answer, data, version, name))
    return found


def _read_light_client_json(network: Network, answer: Answer, data: Json, version: Any, name: str) -> Any:
    header = data.get("attested_header", data.get("header")) if isinstance(data, dict) else None
    beacon = header.get("beacon") if isinstance(header, dict) else None
    scheduled = network.get_fork_at_slot(_number(answer, beacon, "slot")).name
    fork = _get_fork(network, answer, answer.version or version or scheduled)
    return from_json(fork.scope.schema(name), data)


def _read_chunks(network: Network, answer: Answer, name: str) -> list[Any]:
    """The Beacon API's stream of updates: a length, the fork's digest, the record."""
    digests, found, at = _get_digests(network), [], 0
    body = memoryview(answer.body)
    while at < len(body):
        length = int.from_bytes(body[at : at + 8], "little")
        chunk = body[at + 8 : at + 8 + length]
        if length < 4 or len(chunk) != length:
            raise MalformedAnswer(f"{answer.what}: the update at byte {at} is cut.")
        fork = digests.get(bytes(chunk[:4]))
        if fork is None:
            raise WrongNetwork(f"{answer.what}: no fork of {network.name} has digest 0x{chunk[:4].hex()}.")
        found.append(fork.scope.schema(name).decode(chunk[4:]))
        at += 8 + length
    return found


def _get_digests(network: Network) -> dict[bytes, Fork]:
    """Every digest of a network, with the fork that it tells."""
    config, size = network.config, network.preset.SLOTS_PER_EPOCH
    epochs = [int(config[f"{name.upper()}_FORK_EPOCH"]) for name in FORK_NAMES[1:] if name in network.forks]
    epochs += [row["EPOCH"] for row in config.BLOB_SCHEDULE]
    root = network.genesis_validators_root or bytes(32)
    return {
        compute_fork_digest(config, epoch, root): network.get_fork_at_slot(epoch * size)
        for epoch in [0, *epochs]
    }


def _get_fork(network: Network, answer: Answer, version: Any) -> Fork:
    if version not in network.forks:
        raise WrongNetwork(
            f"{answer.what}: the answer is of fork {str(version)[:40]!r}, which {network.name} has not.",
            fix="A fork that is newer than this program: update it.",
        )
    return network.forks[version]


def _require_no_page(answer: Answer) -> None:
    """A page of HTML that is labelled as SSZ is told as what it is, not as a state of another network."""
    if answer.body[:64].lstrip().lower().startswith(PAGES):
        raise _unexpected(answer)


def _require_version(answer: Answer, fork: Fork, version: Any) -> None:
    """The fork that an answer is labelled with, if it is, is the one that its content tells."""
    if version not in ("", fork.name):
        raise MalformedAnswer(
            f"{answer.what}: the answer is labelled {str(version)[:40]!r}, and is of {fork.name}.",
            fix="Use another endpoint.",
        )


def _convert(answer: Answer, schema: Schema[Any], data: Json) -> bytes:
    return schema.encode(_read_json(answer, schema, data))


def _unexpected(answer: Answer) -> MalformedAnswer:
    kind = answer.content_type or "no content type"
    return MalformedAnswer(
        f"{answer.what}: {len(answer.body)} bytes of {kind[:60]} came instead{_quote(answer.body)}.",
        fix="Is this the address of a beacon node's API?",
    )


def _quote(body: bytes) -> str:
    text = body[:80].decode("utf-8", "replace").strip()
    return f", beginning {text!r}" if text else ""


def _number(answer: Answer, data: Json, name: str) -> int:
    text = data.get(name) if isinstance(data, dict) else None
    if not isinstance(text, str) or not (text.isascii() and text.isdecimal() and len(text) <= DIGITS):
        raise MalformedAnswer(f"{answer.what}: {name} is missing, or is no number.")
    return int(text)


def _root(answer: Answer, data: Json, name: str) -> Root:
    text = data.get(name) if isinstance(data, dict) else None
    try:
        root = bytes.fromhex(text[2:]) if isinstance(text, str) and text[:2] == "0x" else b""
    except ValueError:
        root = b""
    if len(root) != 32:
        raise MalformedAnswer(f"{answer.what}: {name} is missing, or is no root.")
    return root
