"""Networks that a client can sync to: those in the code, one from a file, or an endpoint's own account.

An endpoint's own configuration stands under the trusted root as far as the state commits to it (genesis, fork
version); the rest, a slot's length above all, is the endpoint's word, and is labelled so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

from anchor.consensus import hardcoded
from anchor.consensus.bls import Bls
from anchor.consensus.containers.ledger import Network as LedgerNetwork
from anchor.consensus.fork_epochs import FORK_NAMES, get_fork_epoch, get_fork_name, get_fork_version
from anchor.consensus.presets import (
    LEDGER,
    MAINNET,
    MAINNET_CONFIG,
    Config,
    Preset,
    get_config,
    get_preset,
    make_ledger_config,
)
from anchor.errors import Misuse, WrongNetwork
from anchor.merkle.container import Container
from anchor.merkle.scope import Scope
from anchor.params import FAR_FUTURE_EPOCH, LOGICAL_CLOCK, UINT64_MAX
from anchor.types import Epoch, Root, Slot, Version

Fork = Any
"""A fork's rules: `anchor.consensus.forks`."""
Spec = Mapping[str, Any]
"""What /eth/v1/config/spec answers."""
RULES: Final = (
    "SLOTS_PER_EPOCH",
    "EPOCHS_PER_SYNC_COMMITTEE_PERIOD",
    "MAX_EFFECTIVE_BALANCE",
    "EFFECTIVE_BALANCE_INCREMENT",
)
"""Preset constants that decide how old a checkpoint may be and who signs, beside those that give sizes."""


@dataclass(frozen=True)
class Network:
    """A network's rules and identity."""

    name: str
    preset: Preset
    config: Config
    genesis_validators_root: Root | None = None
    """None while only a configuration is known."""
    genesis_time: int | None = None
    """Unix time, seconds."""
    is_claimed: bool = False
    """Whether the configuration is no more than what an endpoint says."""
    has_logical_clock: bool = False
    """Whether slots pass only when blocks are made (a ledger's choice, which its state tells)."""

    @property
    def is_ledger(self) -> bool:
        """Whether it is a ledger, and no network of Ethereum's."""
        return self.preset.name == LEDGER.name

    @cached_property
    def forks(self) -> dict[str, Fork]:
        """The rules of every fork that is scheduled, by name, in order."""
        from anchor.consensus.forks.ledger import Ledger
        from anchor.consensus.forks.schedule import FORKS

        if self.is_ledger:
            return {"ledger": Ledger(self.preset, self.config, Bls())}
        kinds = [kind for kind in FORKS if get_fork_epoch(self.config, kind.name) < FAR_FUTURE_EPOCH]
        return {kind.name: kind(self.preset, self.config, Bls()) for kind in kinds}

    def get_fork_at_slot(self, slot: Slot) -> Fork:
        """The rules that hold in `slot`."""
        if self.is_ledger:
            return self.forks["ledger"]
        return self.forks[get_fork_name(self.config, self.compute_epoch_at_slot(slot))]

    def get_version(self, fork: Fork) -> Version:
        """The version of a fork of this network."""
        return get_fork_version(self.config, "altair" if self.is_ledger else fork.name)

    def compute_epoch_at_slot(self, slot: Slot) -> Epoch:
        """The epoch that `slot` lies in."""
        return slot // self.preset.SLOTS_PER_EPOCH

    def get_careful_config(self) -> Config:
        """What age is judged by beside the configuration: the preset's own, where an endpoint claims another.

        Claims of longer slots, or of slower exits, would let what is old pass as young.
        """
        return get_config(self.preset.name) if self.is_claimed else self.config

    def compute_age_epoch(self, now: float) -> Epoch:
        """The epoch at Unix time `now` that age is counted to: by the shorter of both slots."""
        own, careful = self.config.seconds_per_slot, self.get_careful_config().seconds_per_slot
        passed = max(0, int(now) - (self.genesis_time or 0)) // max(1, min(own, careful))
        return self.compute_epoch_at_slot(passed)

    def compute_slot(self, now: float) -> Slot:
        """The slot at Unix time `now`; 0 before genesis. By a logical clock no slot is in the future."""
        if self.has_logical_clock:
            return UINT64_MAX
        return max(0, int(now) - (self.genesis_time or 0)) // max(1, self.config.seconds_per_slot)

    def with_clock(self, record: LedgerNetwork) -> Network:
        """This ledger, as one of its states describes it. Raises WrongNetwork for slots of another length."""
        if record.seconds_per_slot != self.config.seconds_per_slot:
            raise WrongNetwork(
                f"A slot of {self.name} has {record.seconds_per_slot} seconds by its state, and "
                f"{self.config.seconds_per_slot} by its configuration.",
                fix="Use another endpoint.",
            )
        return replace(self, has_logical_clock=record.clock == LOGICAL_CLOCK, is_claimed=False)

    def with_genesis(self, root: Root, time: int) -> Network:
        """This network, with the genesis that an endpoint states, where none is known."""
        if self.genesis_validators_root is not None:
            return self
        name = self.name if self.is_ledger else f"{self.name}-{root[:4].hex()}"
        return replace(self, name=name, genesis_validators_root=root, genesis_time=time)


def _network(name: str, time: int, config: Config) -> Network:
    table = next(table for table in hardcoded.TABLES if table.name == name)
    return Network(name, MAINNET, config, table.network_id, time)


def _config(name: str, versions: str, epochs: Sequence[Epoch], **more: Any) -> Config:
    """Mainnet's configuration with other forks: versions from phase0 on, epochs from altair on."""
    keys = [f"{fork.upper()}_FORK" for fork in FORK_NAMES[1:]]
    numbers = [bytes.fromhex(version) for version in versions.split()]
    later = [*epochs, *[FAR_FUTURE_EPOCH] * (len(keys) - len(epochs))]
    forks: dict[str, Any] = {"GENESIS_FORK_VERSION": numbers[0]}
    forks |= {f"{key}_VERSION": number for key, number in zip(keys, numbers[1:], strict=True)}
    forks |= {f"{key}_EPOCH": epoch for key, epoch in zip(keys, later, strict=True)}
    return MAINNET_CONFIG.replace(name, CONFIG_NAME=name, **forks, **more)


def _blobs(first: Epoch, second: Epoch) -> tuple[dict[str, int], ...]:
    return (
        {"EPOCH": first, "MAX_BLOBS_PER_BLOCK": 15},
        {"EPOCH": second, "MAX_BLOBS_PER_BLOCK": 21},
    )


NETWORKS: Final = {
    "mainnet": _network("mainnet", 1606824023, MAINNET_CONFIG),
    "sepolia": _network(
        "sepolia",
        1655733600,
        _config(
            "sepolia",
            "90000069 90000070 90000071 90000072 90000073 90000074 90000075 90000076",
            (50, 100, 56832, 132608, 222464, 272640, 353024),
            BLOB_SCHEDULE=_blobs(274176, 275712),
        ),
    ),
    "hoodi": _network(
        "hoodi",
        1742213400,
        _config(
            "hoodi",
            "10000910 20000910 30000910 40000910 50000910 60000910 70000910 80000910",
            (0, 0, 0, 0, 2048, 50688),
            BLOB_SCHEDULE=_blobs(52480, 54016),
        ),
    ),
}
"""The networks in the code, by name (github.com/eth-clients: mainnet, sepolia, hoodi)."""


def find_network(name: str) -> Network:
    """The network of this name in the code. Raises Misuse for another name."""
    if name not in NETWORKS:
        raise Misuse(
            f"No network {name!r} is in the code.",
            fix=f"Choose one of {', '.join(NETWORKS)}, or name a configuration file.",
        )
    return NETWORKS[name]


def from_config(values: Spec, *, is_claimed: bool = False) -> Network:
    """The network that a configuration describes. Raises Misuse, WrongNetwork for other sizes.

    Of a ledger's only the fork version and the slot are its own: what is more is in the code.
    """
    config = Config.from_mapping(values)
    if LEDGER.name == config.PRESET_BASE:
        config = make_ledger_config(config.GENESIS_FORK_VERSION, config.seconds_per_slot)
    network = Network(config.name, get_preset(str(config.PRESET_BASE)), config, None, None, is_claimed)
    verify_spec(network, values)
    return network


def identify(spec: Spec, root: Root, time: int) -> Network:
    """What network an endpoint says that it is on: one in the code, by its genesis, or its own."""
    for network in NETWORKS.values():
        if network.genesis_validators_root == root:
            return network
    return from_config(spec, is_claimed=True).with_genesis(root, time)


def verify_genesis(network: Network, root: Root, time: int | None) -> None:
    """Raises WrongNetwork where another genesis is named than this network's. Both are told."""
    if network.genesis_validators_root not in (None, root):
        raise WrongNetwork(
            f"It is another network: genesis validators root 0x{root.hex()}, and {network.name} has "
            f"0x{(network.genesis_validators_root or b'').hex()}.",
            fix="Give an endpoint of your network, or name the other with --network.",
        )
    if None not in (network.genesis_time, time) and network.genesis_time != time:
        raise WrongNetwork(
            f"It is another network: genesis time {time}, and {network.name} has {network.genesis_time}."
        )


def verify_spec(network: Network, spec: Spec, epoch: Epoch = FAR_FUTURE_EPOCH) -> None:
    """Raises WrongNetwork where a configuration has other forks or sizes up to `epoch`. Names the key."""
    for key in _get_shared_keys(network, epoch):
        ours = {**network.preset, **network.config}[key]
        told = f"0x{ours.hex()}" if isinstance(ours, bytes) else str(ours)
        theirs = str(spec.get(key, told)).lower()
        if theirs != told:
            raise WrongNetwork(
                f"It follows another configuration: {key} is {theirs[:80]} there, and {told} here.",
                fix="Use an endpoint whose release follows the same specification.",
            )


def _get_shared_keys(network: Network, epoch: Epoch) -> list[str]:
    """What both must agree on: how forks are told apart, and every size of the forks that have started."""
    keys = {"PRESET_BASE", "GENESIS_FORK_VERSION", *RULES}
    for fork in network.forks.values():
        if fork.name in FORK_NAMES and get_fork_epoch(network.config, fork.name) > epoch:
            continue
        keys |= get_sizes(network.preset, fork.records)
        if fork.name in FORK_NAMES[1:]:
            keys |= {f"{fork.name.upper()}_FORK_VERSION", f"{fork.name.upper()}_FORK_EPOCH"}
    return sorted(keys)


class _Sizes(Scope):
    """Notes the names of the constants that it is asked for."""

    def __init__(self, preset: Preset, records: Mapping[str, type[Container]]) -> None:
        super().__init__(preset, records)
        self.names: set[str] = set()

    def size(self, size: int | str) -> int:
        if isinstance(size, str):
            words = size.replace("*", " ").replace("+", " ").split()
            self.names |= {word for word in words if not word.isdecimal()}
        return super().size(size)


def get_sizes(preset: Preset, records: Mapping[str, type[Container]]) -> set[str]:
    """The constants that the sizes of a fork's blocks and states are made of."""
    scope = _Sizes(preset, records)
    for name in ("BeaconState", "SignedBeaconBlock"):
        scope.schema(name)
    return scope.names & set(preset)
