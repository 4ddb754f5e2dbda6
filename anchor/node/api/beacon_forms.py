"""Replies of the Beacon API, from what a chain shows (github.com/ethereum/beacon-APIs)."""

from __future__ import annotations

from typing import Any, Final

from anchor.bundle.types import LEDGER_SCOPE, TrustedBlock
from anchor.chain.beacon.networks import Network
from anchor.consensus.containers.phase0 import BeaconBlockHeader, Checkpoint, Fork
from anchor.consensus.fork_epochs import FORK_NAMES, compute_fork_digest
from anchor.consensus.light_client.derive import Deriver
from anchor.consensus.light_client.headers import Forms
from anchor.merkle.json import to_json
from anchor.merkle.scope import schema_of
from anchor.node.api.describe import DECIMAL, DIGEST, HEX, describe, record, stream
from anchor.node.api.routes import Reply
from anchor.node.beacon import BeaconView, ShownBlock, ShownState, Standing, find_form
from anchor.params import MAX_REQUEST_LIGHT_CLIENT_UPDATES

MAX_JSON_STATE: Final = 4 << 20
"""Bytes of SSZ of the largest state that is also given as JSON."""
_CHECKPOINT: Final = schema_of(Checkpoint)
_HEADER: Final = schema_of(BeaconBlockHeader)
_TRUSTED: Final = LEDGER_SCOPE.schema(TrustedBlock)

FLAG: Final = {"type": "boolean"}
TEXT: Final = {"type": "string"}
FINAL: Final = {"execution_optimistic": FLAG, "finalized": FLAG}
VERSIONED: Final = {"version": TEXT}
GENESIS: Final = record(
    {"genesis_time": DECIMAL, "genesis_validators_root": DIGEST, "genesis_fork_version": HEX}
)
SPEC: Final = {"type": "object"}
SCHEDULE: Final = {
    "type": "array",
    "items": record({"previous_version": HEX, "current_version": HEX, "epoch": DECIMAL}),
}
CHECKPOINTS: Final = record(
    dict.fromkeys(("previous_justified", "current_justified", "finalized"), describe(_CHECKPOINT))
)
ROOT: Final = record({"root": DIGEST})
HEADER: Final = record(
    {"root": DIGEST, "canonical": FLAG, "header": record({"message": describe(_HEADER), "signature": HEX})}
)
FORK: Final = describe(schema_of(Fork))
VERSION: Final = record({"version": TEXT})
HAPPENINGS: Final = stream(
    {
        "finalized_checkpoint": record(
            {"block": DIGEST, "state": DIGEST, "epoch": DECIMAL, "execution_optimistic": FLAG}
        )
    }
)
STANDING: Final = record(
    {
        "head_slot": DECIMAL,
        "sync_distance": DECIMAL,
        **dict.fromkeys(("is_syncing", "is_optimistic", "el_offline"), FLAG),
    }
)
TRUSTED_BLOCK: Final = describe(_TRUSTED)


def list_updates_of(update: dict[str, Any]) -> dict[str, Any]:
    """The JSON Schema of a list of updates, of which each is of this one."""
    return {"type": "array", "items": record({"version": TEXT, "data": update})}


def show_genesis(network: Network) -> Reply:
    """How a network began."""
    return Reply(
        {
            "genesis_time": str(network.genesis_time),
            "genesis_validators_root": _hex(network.genesis_validators_root or b""),
            "genesis_fork_version": _hex(network.config.GENESIS_FORK_VERSION),
        }
    )


def show_spec(network: Network) -> Reply:
    """The preset and the configuration."""
    values = {**network.preset, **network.config, "SECONDS_PER_SLOT": network.config.seconds_per_slot}
    return Reply({name: _to_plain(value) for name, value in values.items()})


def show_schedule(network: Network) -> Reply:
    """Which fork rules from which epoch on."""
    rows, previous = [], network.config.GENESIS_FORK_VERSION
    for name, fork in network.forks.items():
        version = network.get_version(fork)
        epoch = network.config[f"{name.upper()}_FORK_EPOCH"] if name in FORK_NAMES[1:] else 0
        rows.append(
            {"previous_version": _hex(previous), "current_version": _hex(version), "epoch": str(epoch)}
        )
        previous = version
    return Reply(rows)


def show_standing(standing: Standing, status: int = 200) -> Reply:
    """How far a node has come; it has no execution layer."""
    data = {
        "head_slot": str(standing.head),
        "sync_distance": str(standing.distance),
        "is_syncing": not standing.is_healthy,
        "is_optimistic": False,
        "el_offline": True,
    }
    return Reply(data, status=status)


def show_health(standing: Standing) -> Reply:
    """The same, with a status that tells whether it is well."""
    return show_standing(standing, 200 if standing.is_healthy else 503)


def show_finality(view: BeaconView, state_id: str) -> Reply:
    """What is justified and final."""
    told = zip(CHECKPOINTS["required"], view.get_finality(state_id), strict=True)
    return Reply({name: to_json(_CHECKPOINT, known) for name, known in told}, marks=_mark(True))


def show_state_root(found: ShownState) -> Reply:
    """The root of a state."""
    return _show_final(found.block, {"root": _hex(found.block.signed.message.state_root)})


def show_fork(found: ShownState) -> Reply:
    """The fork that rules a state."""
    schema = found.block.fork.scope.schema("BeaconState").schemas["fork"]
    return _show_final(found.block, to_json(schema, found.state.fork))


def show_block_root(found: ShownBlock) -> Reply:
    """The root of a block."""
    return _show_final(found, {"root": _hex(found.root)})


def show_header(found: ShownBlock) -> Reply:
    """The header of a block, signed."""
    message = found.signed.message
    header = BeaconBlockHeader(
        slot=message.slot,
        proposer_index=message.proposer_index,
        parent_root=message.parent_root,
        state_root=message.state_root,
        body_root=found.fork.hash_tree_root(message.body),
    )
    signed = {"message": to_json(_HEADER, header), "signature": _hex(found.signed.signature)}
    return _show_final(found, {"root": _hex(found.root), "canonical": True, "header": signed})


def show_block(found: ShownBlock) -> Reply:
    """A signed block."""
    name, schema = found.fork.name, found.fork.scope.schema("SignedBeaconBlock")
    marks = {"version": name, **_mark(found.is_final)}
    return Reply(found.signed, schema, marks=marks, headers={"Eth-Consensus-Version": name})


def show_state(found: ShownState) -> Reply:
    """A state."""
    block, encoded = found.block, found.encode()
    name, is_final = block.fork.name, block.is_final
    headers = {
        "Eth-Consensus-Version": name,
        "Eth-Execution-Optimistic": "false",
        "Eth-Consensus-Finalized": str(is_final).lower(),
    }
    return Reply(
        found.state,
        block.fork.scope.schema("BeaconState"),
        encoded,
        tag=block.signed.message.state_root if is_final else None,
        marks={"version": name, **_mark(is_final)},
        headers=headers,
        is_long=len(encoded) > MAX_JSON_STATE,
    )


def show_bootstrap(view: BeaconView, root: bytes) -> Reply:
    """Where a light client starts."""
    return _show_light(view.network, view.make_bootstrap(root), "LightClientBootstrap")


def show_finality_update(view: BeaconView) -> Reply:
    """The newest finality."""
    return _show_light(view.network, view.get_finality_update(), "LightClientFinalityUpdate")


def show_optimistic_update(view: BeaconView) -> Reply:
    """The newest header that was signed."""
    network, newest = view.network, view.get_finality_update()
    form = find_form(network, newest, "LightClientFinalityUpdate")
    deriver = Deriver(Forms(network.preset, network.config), form.scope)
    update = deriver.create_light_client_optimistic_update(newest)
    return _show_light(network, update, "LightClientOptimisticUpdate")


def show_updates(view: BeaconView, start: int, count: int) -> Reply:
    """Updates: a list in JSON, a stream of lengths, fork digests and records in SSZ."""
    name, rows, chunks, network = "LightClientUpdate", [], [], view.network
    for update in view.list_updates(start, min(count, MAX_REQUEST_LIGHT_CLIENT_UPDATES)):
        form = find_form(network, update, name)
        schema = form.scope.schema(name)
        rows.append({"version": form.name, "data": to_json(schema, update)})
        chunk = _digest(network, update) + schema.encode(update)
        chunks.append(len(chunk).to_bytes(8, "little") + chunk)
    return Reply(rows, encoded=b"".join(chunks), is_bare=True)


def show_trusted_block(trusted: TrustedBlock) -> Reply:
    """What a ledger's state says of its network, with its proof."""
    return Reply(trusted, _TRUSTED, root=trusted.header.state_root)


def _digest(network: Network, update: Any) -> bytes:
    """The digest of the fork that rules in an update's attested slot."""
    epoch = network.compute_epoch_at_slot(update.attested_header.beacon.slot)
    return compute_fork_digest(network.config, epoch, network.genesis_validators_root or bytes(32))


def _show_light(network: Network, record: Any, name: str) -> Reply:
    form = find_form(network, record, name)
    headers = {"Eth-Consensus-Version": form.name}
    return Reply(record, form.scope.schema(name), marks={"version": form.name}, headers=headers)


def _show_final(found: ShownBlock, data: Any) -> Reply:
    return Reply(data, marks=_mark(found.is_final))


def _mark(is_final: bool) -> dict[str, Any]:
    return {"execution_optimistic": False, "finalized": is_final}


def _to_plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [{key: str(part) for key, part in row.items()} for row in value]
    return _hex(value) if isinstance(value, bytes) else str(value)


def _hex(data: bytes) -> str:
    return f"0x{data.hex()}"
