"""What every part of a fork stands on: its constants, its records, time and signature domains."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from anchor.consensus.bls import Signatures
from anchor.consensus.containers import phase0 as containers
from anchor.consensus.containers.phase0 import Fork
from anchor.consensus.execution import ExecutionEngine, accept_payload
from anchor.consensus.presets import Config, Preset
from anchor.consensus.signing import compute_domain, compute_signing_root
from anchor.errors import InvalidTransition
from anchor.merkle.container import Container
from anchor.merkle.scope import Scope
from anchor.params import GENESIS_EPOCH
from anchor.types import Domain, DomainType, Epoch, Root, Slot

State = Any
"""A fork's own BeaconState. Forks differ in its fields, so the type checker can't hold one to all of them."""
Body = Any
"""A fork's own BeaconBlockBody."""


class Base:
    """A fork's constants and records, and the rules that need no state."""

    name: ClassVar[str] = "phase0"
    records: ClassVar[Mapping[str, type[Container]]] = containers.RECORDS

    def __init__(
        self,
        preset: Preset,
        config: Config,
        signatures: Signatures,
        engine: ExecutionEngine = accept_payload,
    ) -> None:
        self.preset, self.config, self.signatures, self.engine = preset, config, signatures, engine
        self.scope = Scope(preset, self.records)

    def hash_tree_root(self, record: Container) -> Root:
        """The root of a record or state of this fork."""
        return self.scope.hash_tree_root(record)

    def field_root(self, state: State, name: str) -> Root:
        """The root of one field of a state."""
        schema = self.scope.schema("BeaconState").schemas[name]
        return schema.hash_tree_root(getattr(state, name))

    def compute_epoch_at_slot(self, slot: Slot) -> Epoch:
        """The epoch that `slot` lies in."""
        return slot // self.preset.SLOTS_PER_EPOCH

    def compute_start_slot_at_epoch(self, epoch: Epoch) -> Slot:
        """The first slot of `epoch`."""
        return epoch * self.preset.SLOTS_PER_EPOCH

    def compute_activation_exit_epoch(self, epoch: Epoch) -> Epoch:
        """When activations and exits that are initiated in `epoch` take effect."""
        return epoch + 1 + self.preset.MAX_SEED_LOOKAHEAD

    def compute_time_at_slot(self, genesis_time: int, slot: Slot) -> int:
        """The Unix time, in seconds, at which `slot` starts."""
        milliseconds: int = genesis_time * 1000 + slot * self.config.SLOT_DURATION_MS
        return milliseconds // 1000

    def carry_over(self, pre: State, **changes: Any) -> State:
        """A state of this fork with the fields of `pre`, a state of the fork before, and these new ones."""
        fork = Fork(
            previous_version=pre.fork.current_version,
            current_version=self.config[f"{self.name.upper()}_FORK_VERSION"],
            epoch=self.get_current_epoch(pre),
        )
        return convert_record(pre.copy(), self.records["BeaconState"], fork=fork, **changes)

    def get_current_epoch(self, state: State) -> Epoch:
        """The epoch of the state's slot."""
        return self.compute_epoch_at_slot(state.slot)

    def get_previous_epoch(self, state: State) -> Epoch:
        """The epoch before the current one; the genesis epoch itself at the start."""
        return max(self.get_current_epoch(state), GENESIS_EPOCH + 1) - 1

    def get_domain(self, state: State, domain_type: DomainType, epoch: Epoch | None = None) -> Domain:
        """The domain of a message of `epoch`, by default the current one."""
        if epoch is None:
            epoch = self.get_current_epoch(state)
        fork = state.fork
        version = fork.previous_version if epoch < fork.epoch else fork.current_version
        return compute_domain(domain_type, version, state.genesis_validators_root)

    def compute_signing_root(self, record: Container, domain: Domain) -> Root:
        """What a signature over `record` under `domain` signs."""
        return compute_signing_root(self.hash_tree_root(record), domain)

    def require_signature(
        self, pubkey: bytes, message: Root, signature: bytes, what: Callable[[], str]
    ) -> None:
        """Raises InvalidTransition unless `signature` is by `pubkey` over the signing root `message`."""
        if not self.signatures.verify(pubkey, message, signature):
            raise InvalidTransition(f"The signature of {what()} is not by key {pubkey.hex()}.")


def convert_record(old: Container, kind: type[Container], **changes: Any) -> Any:
    """A record of `kind` with the fields that `old` has of it, and these others."""
    return kind.from_values(
        [changes[name] if name in changes else getattr(old, name) for name in kind.fields]
    )
