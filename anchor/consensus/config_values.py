"""The two configurations of the consensus specifications: what a network chooses when it starts or forks.

`NAME: (minimal, mainnet)`, or one value where the two agree. Numbers and bytes; times as named.
"""

from __future__ import annotations

from typing import Any, Final

from anchor.params import FAR_FUTURE_EPOCH

Value = int | bytes | str | tuple[dict[str, int], ...]
Values = dict[str, Any]
"""Of `Value`, or (minimal, mainnet)."""


def _hex(minimal: str, mainnet: str) -> tuple[bytes, bytes]:
    return bytes.fromhex(minimal), bytes.fromhex(mainnet)


GENESIS: Final[Values] = {
    "MIN_GENESIS_ACTIVE_VALIDATOR_COUNT": (64, 16384),
    "MIN_GENESIS_TIME": (1578009600, 1606824000),
    "GENESIS_FORK_VERSION": _hex("00000001", "00000000"),
    "GENESIS_DELAY": (300, 604800),
    "DEPOSIT_CHAIN_ID": (5, 1),
    "DEPOSIT_NETWORK_ID": (5, 1),
    "DEPOSIT_CONTRACT_ADDRESS": _hex("1234567890" * 4, "00000000219ab540356cbb839cbe05303d7705fa"),
}

FORKS: Final[Values] = {
    "ALTAIR_FORK_VERSION": _hex("01000001", "01000000"),
    "ALTAIR_FORK_EPOCH": (FAR_FUTURE_EPOCH, 74240),
    "BELLATRIX_FORK_VERSION": _hex("02000001", "02000000"),
    "BELLATRIX_FORK_EPOCH": (FAR_FUTURE_EPOCH, 144896),
    "CAPELLA_FORK_VERSION": _hex("03000001", "03000000"),
    "CAPELLA_FORK_EPOCH": (FAR_FUTURE_EPOCH, 194048),
    "DENEB_FORK_VERSION": _hex("04000001", "04000000"),
    "DENEB_FORK_EPOCH": (FAR_FUTURE_EPOCH, 269568),
    "ELECTRA_FORK_VERSION": _hex("05000001", "05000000"),
    "ELECTRA_FORK_EPOCH": (FAR_FUTURE_EPOCH, 364032),
    "FULU_FORK_VERSION": _hex("06000001", "06000000"),
    "FULU_FORK_EPOCH": (FAR_FUTURE_EPOCH, 411392),
    "GLOAS_FORK_VERSION": _hex("07000001", "07000000"),
    "GLOAS_FORK_EPOCH": FAR_FUTURE_EPOCH,
}

MERGE: Final[Values] = {
    "TERMINAL_TOTAL_DIFFICULTY": (2**256 - 2**10, 58750000000000000000000),
    "TERMINAL_BLOCK_HASH": bytes(32),
    "TERMINAL_BLOCK_HASH_ACTIVATION_EPOCH": FAR_FUTURE_EPOCH,
}

TIME: Final[Values] = {
    "SLOT_DURATION_MS": (6000, 12000),
    "SECONDS_PER_ETH1_BLOCK": 14,
    "MIN_VALIDATOR_WITHDRAWABILITY_DELAY": 256,
    "SHARD_COMMITTEE_PERIOD": (64, 256),
    "ETH1_FOLLOW_DISTANCE": (16, 2048),
    "MIN_BUILDER_WITHDRAWABILITY_DELAY": (2, 64),
}

DUE: Final[Values] = {  # parts of a slot, in basis points
    "PROPOSER_REORG_CUTOFF_BPS": 1667,
    "ATTESTATION_DUE_BPS": 3333,
    "AGGREGATE_DUE_BPS": 6667,
    "SYNC_MESSAGE_DUE_BPS": 3333,
    "CONTRIBUTION_DUE_BPS": 6667,
    "ATTESTATION_DUE_BPS_GLOAS": 2500,
    "AGGREGATE_DUE_BPS_GLOAS": 5000,
    "SYNC_MESSAGE_DUE_BPS_GLOAS": 2500,
    "CONTRIBUTION_DUE_BPS_GLOAS": 5000,
    "PAYLOAD_DUE_BPS": 5000,
    "PAYLOAD_ATTESTATION_DUE_BPS": 7500,
}

VALIDATORS: Final[Values] = {
    "INACTIVITY_SCORE_BIAS": 4,
    "INACTIVITY_SCORE_RECOVERY_RATE": 16,
    "EJECTION_BALANCE": 16 * 10**9,
    "MIN_PER_EPOCH_CHURN_LIMIT": (2, 4),
    "CHURN_LIMIT_QUOTIENT": (32, 65536),
    "MAX_PER_EPOCH_ACTIVATION_CHURN_LIMIT": (4, 8),
    "MIN_PER_EPOCH_CHURN_LIMIT_ELECTRA": (64 * 10**9, 128 * 10**9),
    "MAX_PER_EPOCH_ACTIVATION_EXIT_CHURN_LIMIT": (128 * 10**9, 256 * 10**9),
    "CHURN_LIMIT_QUOTIENT_GLOAS": (16, 32768),
    "CONSOLIDATION_CHURN_LIMIT_QUOTIENT": (32, 65536),
    "MAX_PER_EPOCH_ACTIVATION_CHURN_LIMIT_GLOAS": (128 * 10**9, 256 * 10**9),
}

FORK_CHOICE: Final[Values] = {  # percentages, and epochs
    "PROPOSER_SCORE_BOOST": 40,
    "REORG_HEAD_WEIGHT_THRESHOLD": 20,
    "REORG_PARENT_WEIGHT_THRESHOLD": 160,
    "REORG_MAX_EPOCHS_SINCE_FINALIZATION": 2,
    "CONFIRMATION_BYZANTINE_THRESHOLD": 25,
}

BLOBS: Final[Values] = {
    "MAX_BLOBS_PER_BLOCK": 6,
    "MAX_BLOBS_PER_BLOCK_ELECTRA": 9,
    "BLOB_SCHEDULE": (
        (),
        ({"EPOCH": 412672, "MAX_BLOBS_PER_BLOCK": 15}, {"EPOCH": 419072, "MAX_BLOBS_PER_BLOCK": 21}),
    ),
    "NUMBER_OF_CUSTODY_GROUPS": 128,
    "DATA_COLUMN_SIDECAR_SUBNET_COUNT": 128,
    "SAMPLES_PER_SLOT": 8,
    "CUSTODY_REQUIREMENT": 4,
    "VALIDATOR_CUSTODY_REQUIREMENT": 8,
    "BALANCE_PER_ADDITIONAL_CUSTODY_GROUP": 32 * 10**9,
}

NETWORK: Final[Values] = {
    "MAXIMUM_GOSSIP_CLOCK_DISPARITY": 500,
    "ATTESTATION_SUBNET_COUNT": 64,
    "ATTESTATION_PROPAGATION_SLOT_RANGE": 32,
    "BLOB_SIDECAR_SUBNET_COUNT": 6,
    "BLOB_SIDECAR_SUBNET_COUNT_ELECTRA": 9,
    "MAX_REQUEST_BLOCKS": 1024,
    "MAX_PAYLOAD_SIZE": 10 * 2**20,
}

ALL: Final[Values] = (
    {"PRESET_BASE": ("minimal", "mainnet"), "CONFIG_NAME": ("minimal", "mainnet")}
    | GENESIS | FORKS | MERGE | TIME | DUE | VALIDATORS | FORK_CHOICE | BLOBS | NETWORK
)  # fmt: skip

LEDGER: Final[dict[str, Any]] = {
    "PRESET_BASE": "ledger",
    "CONFIG_NAME": "ledger",
    "GENESIS_FORK_VERSION": bytes.fromhex("ffffffff"),
    "ALTAIR_FORK_VERSION": bytes.fromhex("ffffffff"),
    "ALTAIR_FORK_EPOCH": 0,
    "SHARD_COMMITTEE_PERIOD": 16,  # epochs before a validator may leave: with a logical clock they are blocks
} | {
    f"{fork}_FORK_EPOCH": FAR_FUTURE_EPOCH
    for fork in ("BELLATRIX", "CAPELLA", "DENEB", "ELECTRA", "FULU", "GLOAS")
}
"""Over mainnet's values: a ledger has Altair's rules from the start (specs/03-ledger §1)."""
