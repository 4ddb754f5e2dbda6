"""A network that lives long: validators come and go, entries are published, nodes die and come back.

Nobody signs here (`Unsigned`): signatures by BLS take most of a network's time, and are tested elsewhere.
Entries are signed, and all rules hold.
"""

from __future__ import annotations

import resource
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from anchor.consensus.containers.entries import Admission, ClaimOrganisation, Publish, RotateKeys
from anchor.consensus.containers.phase0 import SignedVoluntaryExit, VoluntaryExit
from anchor.consensus.duties import Keyring, compute_admission, compute_deposit
from anchor.node.entries import Pen
from anchor.node.network.engine import Engine
from anchor.node.network.simulator import Links, Simulation
from anchor.node.places import FILE
from anchor.params import FAR_FUTURE_EPOCH
from tests.consensus.ledgers import ADMINISTRATOR, ALICE, ROOT, identity, make_secret_key
from tests.node.network.test_simulator import make_registration
from tests.node.network.tools import Hands, Unsigned, make_simulation

EPOCH: Final = 8
"""Slots."""
NODES: Final = 3
VALIDATORS: Final = 12
CHURN: Final = 40
"""Epochs between an admission and the next, and as many exits."""
PUBLISHED: Final = 10
"""Epochs between publications."""
DEATHS: Final = 250
"""Epochs between deaths of a node, which comes back two epochs later."""


@dataclass(frozen=True)
class Sample:
    """How large a network has become."""

    epoch: int
    held: int
    """What engines keep: blocks, states, votes, waiting messages and entries; of the largest."""
    resident: int
    """Bytes of the process."""
    stored: int
    """Bytes of one node's store."""


def measure(engine: Engine) -> int:
    """How many blocks, states, votes, messages, entries and operations an engine holds."""
    branches, gossip = engine._branches, engine._gossip
    return (
        len(branches.view.blocks)
        + len(branches.view.block_states)
        + len(branches.signed)
        + len(gossip.votes)
        + sum(map(len, gossip.slasher._votes))
        + len(engine._waiting)
        + len(engine._entries)
        + len(gossip.operations.exits)
    )


class Life:
    """A network, and what its people do."""

    def __init__(self, folder: Path) -> None:
        links = Links(latency_ms=(5, 60), is_framed=False, ticks=2)
        self.simulation: Simulation = make_simulation(folder, NODES, VALIDATORS, links=links)
        self.folder, self.epoch = folder, 0
        self.secrets = {index: make_secret_key(index) for index in range(VALIDATORS)}
        self.published = self.admitted = self.left = 0
        self.samples: list[Sample] = []

    @property
    def engine(self) -> Engine:
        """One that runs."""
        engine = self.simulation.running[0].engine
        assert engine is not None
        return engine

    def get_state(self) -> Any:
        """The head's."""
        return self.engine._branches.get_head_state()

    def live(self, epochs: int, sample: int) -> None:
        """Lets epochs pass, and takes a sample every so many."""
        for _ in range(epochs):
            self.simulation.run(EPOCH)
            self.epoch += 1
            self._act()
            if self.epoch % sample == 0:
                self.samples.append(self.take_sample())

    def _act(self) -> None:
        if self.epoch == 3:
            self._found()
        if self.epoch % DEATHS == 0:
            self.simulation.kill(self.epoch // DEATHS % NODES)
        if self.epoch % DEATHS == 2 and len(self.simulation.running) < NODES:
            self.simulation.restart(self.epoch // DEATHS % NODES)
        if self.epoch % PUBLISHED == 7:
            self._publish()
        if self.epoch % CHURN == 20:
            self._admit()
        if self.epoch % CHURN == 30:
            self._leave()

    # What people do

    def _found(self) -> None:
        pen = Pen(self.get_state(), self.epoch)
        self.simulation.submit(0, make_registration(self.simulation, "root of alice"))
        rotation = RotateKeys(keys=tuple([key.public for key in ALICE]))
        self.simulation.submit(0, pen.write(identity(ROOT), rotation, [ROOT]))
        self.simulation.submit(0, pen.write(identity(ROOT), ClaimOrganisation(name=b"acme"), ALICE))

    def _publish(self) -> None:
        self.published += 1
        name = b"%d" % self.published
        body = Publish(model=b"acme/net", version=name, manifest_root=name.rjust(32, b"\1"))
        entry = Pen(self.get_state(), self.epoch).write(identity(ROOT), body, ALICE)
        self.simulation.submit(self.simulation.running[-1].number, entry)

    def _admit(self) -> None:
        """Somebody comes; a node that has the room takes the key."""
        self.admitted += 1
        index, secret = len(self.secrets), make_secret_key(len(self.secrets))
        ledger, state = self.engine.ledger, self.get_state()
        deposit = compute_deposit(
            secret, ledger.config.GENESIS_FORK_VERSION, ledger.preset.MAX_EFFECTIVE_BALANCE, Unsigned()
        )
        everyone = Keyring(Unsigned(), {k: v for n in self.simulation.nodes for k, v in _keys(n).items()})
        admission = Admission(deposit=deposit, expiry_epoch=self.epoch + 50)
        body = compute_admission(ledger, state, everyone, admission)
        entry = Pen(state, self.epoch).write(identity(ADMINISTRATOR), body, [ADMINISTRATOR])
        self.simulation.submit(self.simulation.running[0].number, entry)
        self.secrets[index] = secret
        hands = self.simulation.nodes[index % NODES].validators
        assert isinstance(hands, Hands)
        hands.keyring = Keyring(Unsigned(), {**hands.keyring.secret_keys, deposit.pubkey: secret})

    def _leave(self) -> None:
        """The validator that has been there longest goes."""
        state = self.get_state()
        rows = (state.validators.column("exit_epoch") == FAR_FUTURE_EPOCH).nonzero()[0]
        self.left += 1
        wish = VoluntaryExit(epoch=self.epoch, validator_index=int(rows[0]))
        signed = SignedVoluntaryExit(message=wish, signature=b"\1" * 96)
        self.simulation.submit_exit(self.simulation.running[0].number, signed)

    # What became of it

    def take_sample(self) -> Sample:
        """How large it is now."""
        engines = [node.engine for node in self.simulation.running if node.engine is not None]
        with Path("/proc/self/statm").open() as statm:
            resident = int(statm.read().split()[1]) * resource.getpagesize()
        stored = sum(
            path.stat().st_size for path in (self.folder / "0").iterdir() if path.name.startswith(FILE)
        )
        return Sample(self.epoch, max(map(measure, engines)), resident, stored)


def _keys(node: Any) -> dict[bytes, int]:
    return dict(node.validators.keyring.secret_keys)
