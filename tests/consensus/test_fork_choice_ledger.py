"""The fork choice over a ledger: a block with a bad entry is refused as any other, and changes nothing."""

from __future__ import annotations

from typing import Any

import pytest

from anchor.consensus.bls import NoSignatures
from anchor.consensus.fork_choice.schedule import make_fork_choice
from anchor.consensus.forks.ledger import Ledger
from anchor.errors import Invalid, InvalidEntry, InvalidSignature, InvalidTransition
from anchor.params import WALL_CLOCK
from tests.consensus.ledgers import Chain, make_genesis
from tests.consensus.scripted import take_snapshot

SECOND = 1000


def start(chain: Chain) -> tuple[Any, Any]:
    """A fork choice of the ledger, which looks at entries' signatures only, and its store at genesis."""
    rules = Ledger(chain.ledger.preset, chain.ledger.config, NoSignatures())
    block = rules.scope.schema("BeaconBlock").default()
    block = block.replace(state_root=rules.hash_tree_root(chain.state))
    choice = make_fork_choice(rules)
    return choice, choice.get_forkchoice_store(chain.state, block)


def test_a_ledger_is_followed() -> None:
    chain = Chain(make_genesis(WALL_CLOCK))
    choice, store = start(chain)
    for slot in range(1, 5):
        time = store.genesis_time_ms + slot * choice.config.SLOT_DURATION_MS
        chain.add_block(*(chain.make_alice() if slot == 2 else ()), timestamp=time // SECOND)
        choice.on_tick(store, time + SECOND)
        choice.on_block(store, chain.blocks[-1])
        assert choice.get_head(store).root == choice.rules.hash_tree_root(chain.blocks[-1].message)
    assert store.block_states[choice.get_head(store).root].entries == chain.state.entries


def test_every_bad_block_is_refused_and_leaves_the_store() -> None:
    chain = Chain(make_genesis(WALL_CLOCK))
    choice, store = start(chain)
    time = store.genesis_time_ms + choice.config.SLOT_DURATION_MS
    chain.add_block(*chain.make_alice(), timestamp=time // SECOND)
    choice.on_tick(store, time + SECOND)
    block, before = chain.blocks[-1], take_snapshot(choice, store)
    body = block.message.body
    first, *others = body.entries
    forged = first.replace(signatures=(bytes(64),))
    for error, changes in (
        (InvalidEntry, {"entries": (first, first, *others)}),
        (InvalidEntry, {"entries": tuple(reversed(body.entries))}),
        (InvalidSignature, {"entries": (forged, *others)}),
        (InvalidTransition, {"entries": ()}),
        (InvalidTransition, {"timestamp": body.timestamp + 1}),
    ):
        wrong = block.replace(message=block.message.replace(body=body.replace(**changes)))
        with pytest.raises(Invalid) as caught:
            choice.on_block(store, wrong)
        assert type(caught.value) is error
        assert take_snapshot(choice, store) == before
    choice.on_block(store, block)
    assert take_snapshot(choice, store) != before
