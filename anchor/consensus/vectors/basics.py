"""Checks of signatures and of shuffling (tests/formats/bls, tests/formats/shuffling)."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Final

from anchor.consensus.bls import Bls
from anchor.consensus.presets import get_preset
from anchor.consensus.shuffling import compute_shuffled_permutation
from anchor.consensus.vectors.cases import Case
from anchor.consensus.vectors.compare import Difference, compare
from anchor.errors import InvalidSignature, Misuse


@cache
def get_bls() -> Bls:
    """The signature scheme that all cases of a process share, for its parsed keys."""
    return Bls()


def _sign(given: Any) -> bytes:
    return get_bls().sign(int(given["privkey"], 16), _bytes(given["message"]))


def _verify(given: Any) -> bool:
    return get_bls().verify(*[_bytes(given[name]) for name in ("pubkey", "message", "signature")])


def _aggregate_verify(given: Any) -> bool:
    pubkeys, messages = [[_bytes(text) for text in given[name]] for name in ("pubkeys", "messages")]
    return get_bls().aggregate_verify(pubkeys, messages, _bytes(given["signature"]))


def _fast_aggregate_verify(given: Any) -> bool:
    return get_bls().fast_aggregate_verify(*_fast_arguments(given))


def _eth_fast_aggregate_verify(given: Any) -> bool:
    return get_bls().eth_fast_aggregate_verify(*_fast_arguments(given))


def _fast_arguments(given: Any) -> tuple[list[bytes], bytes, bytes]:
    pubkeys = [_bytes(text) for text in given["pubkeys"]]
    return pubkeys, _bytes(given["message"]), _bytes(given["signature"])


BLS_HANDLERS: Final[dict[str, Callable[[Any], bytes | bool]]] = {
    "sign": _sign,
    "verify": _verify,
    "aggregate": lambda given: get_bls().aggregate([_bytes(text) for text in given]),
    "aggregate_verify": _aggregate_verify,
    "fast_aggregate_verify": _fast_aggregate_verify,
    "eth_fast_aggregate_verify": _eth_fast_aggregate_verify,
    "eth_aggregate_pubkeys": lambda given: get_bls().eth_aggregate_pubkeys([_bytes(text) for text in given]),
}


def check_bls(case: Case) -> Difference | None:
    """A function of the scheme gives the output, or refuses where the output is null."""
    data = case.read_yaml("data")
    try:
        output: Any = BLS_HANDLERS[case.handler](data["input"])
    except (InvalidSignature, Misuse):
        output = None
    if isinstance(output, bytes):
        output = f"0x{output.hex()}"
    return compare(data["output"], output, "output")


def check_shuffling(case: Case) -> Difference | None:
    """The whole permutation is the one given."""
    given = case.read_yaml("mapping")
    rounds = get_preset(case.preset).SHUFFLE_ROUND_COUNT
    permutation = compute_shuffled_permutation(given["count"], _bytes(given["seed"]), rounds)
    return compare(tuple(given["mapping"]), tuple(permutation.tolist()), "mapping")


def _bytes(text: str) -> bytes:
    return bytes.fromhex(text.removeprefix("0x"))
