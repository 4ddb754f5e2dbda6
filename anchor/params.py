"""Constants of the consensus specifications that no preset and no network changes.

Grouped by the fork that brings them in. What a preset changes is in `anchor.consensus.presets`.
"""

from __future__ import annotations

from typing import Final

# phase0
UINT64_MAX: Final = 2**64 - 1
GENESIS_SLOT: Final = 0
GENESIS_EPOCH: Final = 0
FAR_FUTURE_EPOCH: Final = UINT64_MAX
"""The epoch of what has not been scheduled."""
BASE_REWARDS_PER_EPOCH: Final = 4
JUSTIFICATION_BITS_LENGTH: Final = 4
DEPOSIT_CONTRACT_TREE_DEPTH: Final = 32
TARGET_AGGREGATORS_PER_COMMITTEE: Final = 16
BASIS_POINTS: Final = 10_000
ETH_TO_GWEI: Final = 10**9
SAFETY_DECAY: Final = 10
"""Percent of stake by which finality may weaken within the weak-subjectivity period."""
COMMITTEE_WEIGHT_ESTIMATION_ADJUSTMENT_FACTOR: Final = 5

BLS_WITHDRAWAL_PREFIX: Final = b"\x00"
ETH1_ADDRESS_WITHDRAWAL_PREFIX: Final = b"\x01"

DOMAIN_BEACON_PROPOSER: Final = bytes.fromhex("00000000")
DOMAIN_BEACON_ATTESTER: Final = bytes.fromhex("01000000")
DOMAIN_RANDAO: Final = bytes.fromhex("02000000")
DOMAIN_DEPOSIT: Final = bytes.fromhex("03000000")
DOMAIN_VOLUNTARY_EXIT: Final = bytes.fromhex("04000000")
DOMAIN_SELECTION_PROOF: Final = bytes.fromhex("05000000")
DOMAIN_AGGREGATE_AND_PROOF: Final = bytes.fromhex("06000000")
DOMAIN_APPLICATION_MASK: Final = bytes.fromhex("00000001")

# altair
DOMAIN_SYNC_COMMITTEE: Final = bytes.fromhex("07000000")
DOMAIN_SYNC_COMMITTEE_SELECTION_PROOF: Final = bytes.fromhex("08000000")
DOMAIN_CONTRIBUTION_AND_PROOF: Final = bytes.fromhex("09000000")

TIMELY_SOURCE_FLAG_INDEX: Final = 0
TIMELY_TARGET_FLAG_INDEX: Final = 1
TIMELY_HEAD_FLAG_INDEX: Final = 2
TIMELY_SOURCE_WEIGHT: Final = 14
TIMELY_TARGET_WEIGHT: Final = 26
TIMELY_HEAD_WEIGHT: Final = 14
SYNC_REWARD_WEIGHT: Final = 2
PROPOSER_WEIGHT: Final = 8
WEIGHT_DENOMINATOR: Final = 64
PARTICIPATION_FLAG_WEIGHTS: Final = (TIMELY_SOURCE_WEIGHT, TIMELY_TARGET_WEIGHT, TIMELY_HEAD_WEIGHT)
"""By flag index: a duty's share of the base reward, out of WEIGHT_DENOMINATOR."""

G2_POINT_AT_INFINITY: Final = b"\xc0" + bytes(95)
TARGET_AGGREGATORS_PER_SYNC_SUBCOMMITTEE: Final = 16
SYNC_COMMITTEE_SUBNET_COUNT: Final = 4
MAX_REQUEST_LIGHT_CLIENT_UPDATES: Final = 128

FINALIZED_ROOT_GINDEX: Final = 105
CURRENT_SYNC_COMMITTEE_GINDEX: Final = 54
NEXT_SYNC_COMMITTEE_GINDEX: Final = 55

# bellatrix
SAFE_SLOTS_TO_IMPORT_OPTIMISTICALLY: Final = 128

# capella
DOMAIN_BLS_TO_EXECUTION_CHANGE: Final = bytes.fromhex("0a000000")
EXECUTION_PAYLOAD_GINDEX: Final = 25

# deneb
VERSIONED_HASH_VERSION_KZG: Final = b"\x01"
BYTES_PER_FIELD_ELEMENT: Final = 32

# electra
UNSET_DEPOSIT_REQUESTS_START_INDEX: Final = UINT64_MAX
FULL_EXIT_REQUEST_AMOUNT: Final = 0
COMPOUNDING_WITHDRAWAL_PREFIX: Final = b"\x02"
DEPOSIT_REQUEST_TYPE: Final = b"\x00"
WITHDRAWAL_REQUEST_TYPE: Final = b"\x01"
CONSOLIDATION_REQUEST_TYPE: Final = b"\x02"
FINALIZED_ROOT_GINDEX_ELECTRA: Final = 169
CURRENT_SYNC_COMMITTEE_GINDEX_ELECTRA: Final = 86
NEXT_SYNC_COMMITTEE_GINDEX_ELECTRA: Final = 87

# gloas
DOMAIN_BEACON_BUILDER: Final = bytes.fromhex("0b000000")
DOMAIN_PTC_ATTESTER: Final = bytes.fromhex("0c000000")
DOMAIN_PROPOSER_PREFERENCES: Final = bytes.fromhex("0d000000")
DOMAIN_BUILDER_DEPOSIT: Final = bytes.fromhex("0e000000")
BUILDER_INDEX_FLAG: Final = 2**40
BUILDER_INDEX_SELF_BUILD: Final = UINT64_MAX
BUILDER_PAYMENT_THRESHOLD_NUMERATOR: Final = 6
BUILDER_PAYMENT_THRESHOLD_DENOMINATOR: Final = 10
BUILDER_WITHDRAWAL_PREFIX: Final = b"\xb0"
PAYLOAD_BUILDER_VERSION: Final = 0
BUILDER_DEPOSIT_REQUEST_TYPE: Final = b"\x03"
BUILDER_EXIT_REQUEST_TYPE: Final = b"\x04"
PAYLOAD_STATUS_EMPTY: Final = 0
PAYLOAD_STATUS_FULL: Final = 1
PAYLOAD_STATUS_PENDING: Final = 2
ATTESTATION_TIMELINESS_INDEX: Final = 0
NUM_BLOCK_TIMELINESS_DEADLINES: Final = 2
FINALIZED_ROOT_GINDEX_GLOAS: Final = 735
CURRENT_SYNC_COMMITTEE_GINDEX_GLOAS: Final = 2945
NEXT_SYNC_COMMITTEE_GINDEX_GLOAS: Final = 2946
EXECUTION_BLOCK_HASH_GINDEX: Final = 412
EXECUTION_BLOCK_HASH_GINDEX_DENEB: Final = 812
EXECUTION_BLOCK_HASH_GINDEX_GLOAS: Final = 2856

# ledger (specs/03-ledger §1)
DOMAIN_ENTRY: Final = bytes.fromhex("a0000000")
DOMAIN_ADMISSION: Final = bytes.fromhex("a1000000")
DOMAIN_PEER: Final = bytes.fromhex("a2000000")
"""Of a node's signature over the handshake with another (specs/06-network §4)."""
ENTRY_SCHEMA_VERSION: Final = 1
FAR_FUTURE_POSITION: Final = UINT64_MAX
"""The entry position of what has not happened."""

WALL_CLOCK: Final = 0
"""A slot lasts as long as the configuration says."""
LOGICAL_CLOCK: Final = 1
"""Slots pass only when blocks are made; age is judged by timestamps."""
CLOCKS: Final = (WALL_CLOCK, LOGICAL_CLOCK)

STAGE_DEVELOPMENT: Final = 0
STAGE_STAGING: Final = 1
STAGE_PRODUCTION: Final = 2
STAGE_ARCHIVED: Final = 3
STAGES: Final = {
    "development": STAGE_DEVELOPMENT,
    "staging": STAGE_STAGING,
    "production": STAGE_PRODUCTION,
    "archived": STAGE_ARCHIVED,
}
"""By the names that people use."""

SCHEME_ED25519: Final = 1
SCHEME_ML_DSA_65: Final = 2

MAX_ORGANISATION_BYTES: Final = 64
MAX_MODEL_BYTES: Final = 128
MAX_VERSION_BYTES: Final = 64
MAX_REASON_BYTES: Final = 256
MAX_PUBLIC_KEY_BYTES: Final = 2048
MAX_SIGNATURE_BYTES: Final = 4096
MAX_KEYS: Final = 4
"""Keys in a set: signatures of an entry."""
MAX_KEY_SETS: Final = 64
MAX_APPROVERS: Final = 16
MAX_ADMINISTRATORS: Final = 64
MAX_GENESIS_VALIDATORS: Final = 2**20
MAX_PUBLISHERS: Final = 2**20
MAX_ORGANISATIONS: Final = 2**20
MAX_MODELS: Final = 2**24
MAX_VERSIONS: Final = 2**32
MAX_ENTRY_ROOTS: Final = 2**40
MAX_ENTRIES: Final = 32
"""Entries in a block."""
MAX_ENTRIES_PER_AUTHOR: Final = 8
"""Of those, by one author."""
MAX_ORGANISATIONS_PER_PUBLISHER: Final = 16
MAX_MODELS_PER_PUBLISHER: Final = 1024
MAX_SEQUENCE_STEP: Final = 2**16
"""How far a sequence may jump ahead: nobody can use an author's numbers up."""
