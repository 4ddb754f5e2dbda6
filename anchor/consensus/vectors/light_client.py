"""Checks of light clients (tests/formats/light_client: sync, update_ranking)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from anchor.consensus.fork_epochs import FORK_NAMES, compute_fork_digest, get_fork_epoch
from anchor.consensus.light_client.headers import Forms
from anchor.consensus.light_client.store import LightClient, LightClientStore, is_better_update
from anchor.consensus.presets import Config, get_config, get_preset
from anchor.consensus.vectors.basics import get_bls
from anchor.consensus.vectors.cases import Case
from anchor.consensus.vectors.compare import Difference, compare
from anchor.consensus.vectors.ssz import get_scope
from anchor.errors import Malformed
from anchor.merkle.scope import hash_tree_root
from anchor.params import FAR_FUTURE_EPOCH
from anchor.types import Root


class _Client:
    """A light client on the case's network, and its store."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.config = Config.from_mapping(case.read_yaml("config"), get_config(case.preset))
        self.validators_root = to_bytes(case.meta["genesis_validators_root"])
        self.forks = get_forks_by_digest(self.config, self.validators_root)
        preset = get_preset(case.preset)
        self.rules = LightClient(preset, self.config, self.validators_root, get_bls())
        bootstrap = self.read("bootstrap", "LightClientBootstrap", case.meta["bootstrap_fork_digest"])
        trusted = to_bytes(case.meta["trusted_block_root"])
        self.store = self.rules.initialize_light_client_store(trusted, bootstrap)

    def read(self, file: str, record: str, digest: str) -> Any:
        fork = self.forks.get(to_bytes(digest))
        if fork is None:
            raise Malformed(f"No fork of this network has digest {digest}.")
        return get_scope(self.case.preset, fork).schema(record).decode(self.case.read_ssz(file))

    def do(self, step: Mapping[str, Any]) -> LightClientStore:
        """The store after a step."""
        if "upgrade_store" in step:  # headers stay in their own form: there is nothing to upgrade
            return self.store
        if "force_update" in step:
            slot = step["force_update"]["current_slot"]
            return self.rules.process_light_client_store_force_update(self.store, slot)
        given = step["process_update"]
        update = self.read(given["update"], "LightClientUpdate", given["update_fork_digest"])
        return self.rules.process_light_client_update(self.store, update, given["current_slot"])

    def describe(self, checks: Mapping[str, Any]) -> dict[str, Any]:
        """What the store says of all that `checks` has."""
        return {name: self._describe(getattr(self.store, name), fields) for name, fields in checks.items()}

    def _describe(self, header: Any, fields: Mapping[str, Any]) -> dict[str, Any]:
        known = {"slot": header.beacon.slot, "beacon_root": f"0x{hash_tree_root(header.beacon).hex()}"}
        if "execution_root" in fields:
            known["execution_root"] = f"0x{self.rules.forms.get_lc_execution_root(header).hex()}"
        return {name: known[name] for name in fields}


def check_sync(case: Case) -> Difference | None:
    """Updates, forced ones among them, lead the store from header to header."""
    client = _Client(case)
    for number, step in enumerate(case.read_yaml("steps")):
        client.store = client.do(step)
        checks = next(iter(step.values()))["checks"]
        difference = compare(checks, client.describe(checks), f"steps[{number}]")
        if difference is not None:
            return difference
    return None


def check_update_ranking(case: Case) -> Difference | None:
    """Every update is better than the ones after it, and no update than one before it."""
    forms = Forms(get_preset(case.preset), get_config(case.preset))
    schema = get_scope(case.preset, case.fork).schema("LightClientUpdate")
    updates = [
        schema.decode(case.read_ssz(f"updates_{number}")) for number in range(case.meta["updates_count"])
    ]
    for i, better in enumerate(updates):
        for j, worse in enumerate(updates[i + 1 :], i + 1):
            if is_better_update(forms, worse, better):
                return Difference(f"updates[{i}]", f"at least as good as updates[{j}]", "worse")
            if not is_better_update(forms, better, worse) and better != worse:
                return Difference(f"updates[{i}]", f"better than updates[{j}]", "a tie")
    return None


def get_forks_by_digest(config: Config, genesis_validators_root: Root) -> Mapping[bytes, str]:
    """Every fork that a network schedules; blob limits that change later come last."""
    epochs = [(get_fork_epoch(config, name), name) for name in FORK_NAMES]
    epochs += [(int(row["EPOCH"]), "") for row in config.BLOB_SCHEDULE]
    found, current = {}, "phase0"
    for epoch, name in sorted(epochs, key=lambda row: row[0]):
        current = name or current
        if epoch < FAR_FUTURE_EPOCH:
            found[compute_fork_digest(config, epoch, genesis_validators_root)] = current
    return found


def to_bytes(text: str) -> bytes:
    """What hexadecimal digits after 0x stand for."""
    return bytes.fromhex(text.removeprefix("0x"))
