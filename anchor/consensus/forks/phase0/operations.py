"""What a block's operations do (phase0/beacon-chain, block processing, operations)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from anchor.consensus.containers.phase0 import (
    Attestation,
    AttestationData,
    AttesterSlashing,
    Checkpoint,
    Deposit,
    DepositMessage,
    PendingAttestation,
    ProposerSlashing,
    SignedVoluntaryExit,
    Validator,
    VoluntaryExit,
)
from anchor.consensus.forks.arithmetic import require
from anchor.consensus.forks.phase0.base import Body, State
from anchor.consensus.forks.phase0.epoch import EpochProcessing
from anchor.consensus.forks.registry import find_validator, get_validator
from anchor.consensus.signing import compute_domain
from anchor.merkle.proof import is_valid_merkle_branch
from anchor.params import (
    DEPOSIT_CONTRACT_TREE_DEPTH,
    DOMAIN_BEACON_PROPOSER,
    DOMAIN_DEPOSIT,
    DOMAIN_VOLUNTARY_EXIT,
    FAR_FUTURE_EPOCH,
)
from anchor.types import BLSPubkey, BLSSignature, Bytes32, Domain, Gwei


class Operations(EpochProcessing):
    """`process_operations` and its parts."""

    def process_operations(self, state: State, body: Body) -> None:
        """Applies a block's operations, kind by kind."""
        self.verify_deposit_count(state, body)
        self._for_operations(state, body.proposer_slashings, self.process_proposer_slashing)
        self._for_operations(state, body.attester_slashings, self.process_attester_slashing)
        self._for_operations(state, body.attestations, self.process_attestation)
        self._for_operations(state, body.deposits, self.process_deposit)
        self._for_operations(state, body.voluntary_exits, self.process_voluntary_exit)

    def _for_operations(
        self, state: State, operations: Iterable[Any], process: Callable[[State, Any], None]
    ) -> None:
        for operation in operations:
            process(state, operation)

    def verify_deposit_count(self, state: State, body: Body) -> None:
        """Raises InvalidTransition unless the block brings all deposits that it must."""
        expected = min(self.preset.MAX_DEPOSITS, self.get_outstanding_deposits(state))
        require(
            len(body.deposits) == expected,
            lambda: f"The block must bring {expected} deposits, and brings {len(body.deposits)}.",
        )

    def get_outstanding_deposits(self, state: State) -> int:
        """How many deposits of the contract are still to be brought by blocks."""
        outstanding: int = state.eth1_data.deposit_count - state.eth1_deposit_index
        require(outstanding >= 0, lambda: f"There are {-outstanding} more deposits than the contract counts.")
        return outstanding

    # Slashings

    def process_proposer_slashing(self, state: State, slashing: ProposerSlashing) -> None:
        """Slashes the proposer of two different blocks for one slot."""
        header_1, header_2 = slashing.signed_header_1.message, slashing.signed_header_2.message
        slot, index = header_1.slot, header_1.proposer_index
        require(
            slot == header_2.slot and index == header_2.proposer_index,
            lambda: (
                f"The two blocks that slash proposer {index} are of slots {slot} and {header_2.slot}, "
                f"by {index} and {header_2.proposer_index}."
            ),
        )
        require(header_1 != header_2, lambda: f"The two blocks that slash proposer {index} are the same.")
        proposer = get_validator(state.validators, index)
        epoch = self.get_current_epoch(state)
        require(
            self.is_slashable_validator(proposer, epoch),
            lambda: f"Proposer {index} cannot be slashed in epoch {epoch}.",
        )
        domain = self.get_domain(state, DOMAIN_BEACON_PROPOSER, self.compute_epoch_at_slot(slot))
        for signed in (slashing.signed_header_1, slashing.signed_header_2):
            message = self.compute_signing_root(signed.message, domain)
            self.require_signature(proposer.pubkey, message, signed.signature, lambda: "a slashed block")
        self.slash_validator(state, index)

    def process_attester_slashing(self, state: State, slashing: AttesterSlashing) -> None:
        """Slashes everyone who signed both of two votes that exclude each other."""
        attestation_1, attestation_2 = slashing.attestation_1, slashing.attestation_2
        require(
            self.is_slashable_attestation_data(attestation_1.data, attestation_2.data),
            lambda: "The two votes of an attester slashing do not exclude each other.",
        )
        self.verify_indexed_attestation(state, attestation_1)
        self.verify_indexed_attestation(state, attestation_2)
        epoch = self.get_current_epoch(state)
        both = set(attestation_1.attesting_indices) & set(attestation_2.attesting_indices)
        slashable = [i for i in sorted(both) if self.is_slashable_validator(state.validators[i], epoch)]
        require(bool(slashable), lambda: "An attester slashing names nobody who can be slashed.")
        for index in slashable:
            self.slash_validator(state, index)

    # Attestations

    def process_attestation(self, state: State, attestation: Attestation) -> None:
        """Keeps a vote until its epoch is accounted for."""
        data = attestation.data
        self.verify_attestation(state, attestation)
        indexed = self.get_indexed_attestation(state, attestation)
        pending = PendingAttestation(
            aggregation_bits=attestation.aggregation_bits,
            data=data,
            inclusion_delay=state.slot - data.slot,
            proposer_index=self.get_beacon_proposer_index(state),
        )
        self.verify_attestation_source(state, data)
        if data.target.epoch == self.get_current_epoch(state):
            state.current_epoch_attestations = (*state.current_epoch_attestations, pending)
        else:
            state.previous_epoch_attestations = (*state.previous_epoch_attestations, pending)
        self.verify_indexed_attestation(state, indexed)

    def verify_attestation(self, state: State, attestation: Attestation) -> None:
        """Raises InvalidTransition unless a vote is recent, and of a committee that there is."""
        data, epoch = attestation.data, self.get_current_epoch(state)
        require(
            data.target.epoch in (self.get_previous_epoch(state), epoch),
            lambda: f"An attestation's target is epoch {data.target.epoch}, and now is epoch {epoch}.",
        )
        require(
            data.target.epoch == self.compute_epoch_at_slot(data.slot),
            lambda: f"An attestation for slot {data.slot} has its target in epoch {data.target.epoch}.",
        )
        self.verify_inclusion_delay(state, data)
        self.verify_committee_index(state, data)

    def verify_inclusion_delay(self, state: State, data: AttestationData) -> None:
        """Raises InvalidTransition when a vote is included too early or too late."""
        first = data.slot + self.preset.MIN_ATTESTATION_INCLUSION_DELAY
        last = data.slot + self.preset.SLOTS_PER_EPOCH
        require(
            first <= state.slot <= last,
            lambda: (
                f"An attestation for slot {data.slot} may be included from slot {first} up to {last}, "
                f"not at {state.slot}."
            ),
        )

    def verify_committee_index(self, state: State, data: AttestationData) -> None:
        """Raises InvalidTransition unless the vote names a committee of its slot."""
        count = self.get_committee_count_per_slot(state, data.target.epoch)
        require(
            data.index < count,
            lambda: f"Slot {data.slot} has {count} committees, and an attestation names number {data.index}.",
        )

    def verify_attestation_source(self, state: State, data: AttestationData) -> None:
        """Raises InvalidTransition unless a vote's source is what its epoch has as justified."""
        justified = self.get_justified_checkpoint(state, data)
        require(
            data.source == justified,
            lambda: (
                f"An attestation's source is epoch {data.source.epoch} ({data.source.root.hex()}), "
                f"and justified is epoch {justified.epoch} ({justified.root.hex()})."
            ),
        )

    def get_justified_checkpoint(self, state: State, data: AttestationData) -> Checkpoint:
        """What a vote must have as its source."""
        if data.target.epoch == self.get_current_epoch(state):
            return state.current_justified_checkpoint  # type: ignore[no-any-return]
        return state.previous_justified_checkpoint  # type: ignore[no-any-return]

    # Deposits

    def process_deposit(self, state: State, deposit: Deposit) -> None:
        """Takes the next deposit of the contract's tree into the registry."""
        proven = is_valid_merkle_branch(
            self.hash_tree_root(deposit.data),
            deposit.proof,
            # One level more than the tree's depth: the list's length is mixed in.
            (1 << DEPOSIT_CONTRACT_TREE_DEPTH + 1) + state.eth1_deposit_index,
            state.eth1_data.deposit_root,
        )
        require(proven, lambda: f"Deposit {state.eth1_deposit_index} is not in the contract's tree.")
        state.eth1_deposit_index += 1
        data = deposit.data
        self.apply_deposit(state, data.pubkey, data.withdrawal_credentials, data.amount, data.signature)

    def apply_deposit(
        self,
        state: State,
        pubkey: BLSPubkey,
        withdrawal_credentials: Bytes32,
        amount: Gwei,
        signature: BLSSignature,
    ) -> None:
        """Tops up the validator with this key, or makes one when the deposit's signature is valid."""
        index = find_validator(state.validators, pubkey)
        if index is not None:
            self.increase_balance(state, index, amount)
        elif self.is_valid_deposit_signature(pubkey, withdrawal_credentials, amount, signature):
            self.add_validator_to_registry(state, pubkey, withdrawal_credentials, amount)

    def is_valid_deposit_signature(
        self, pubkey: BLSPubkey, withdrawal_credentials: Bytes32, amount: Gwei, signature: BLSSignature
    ) -> bool:
        """Whether the deposit proves possession of its key; valid on all forks of the network."""
        message = DepositMessage(pubkey=pubkey, withdrawal_credentials=withdrawal_credentials, amount=amount)
        domain = compute_domain(DOMAIN_DEPOSIT, self.config.GENESIS_FORK_VERSION)
        return self.signatures.verify(pubkey, self.compute_signing_root(message, domain), signature)

    def get_validator_from_deposit(
        self, pubkey: BLSPubkey, withdrawal_credentials: Bytes32, amount: Gwei
    ) -> Validator:
        """The registry's entry for a new validator."""
        increment = self.preset.EFFECTIVE_BALANCE_INCREMENT
        limit = self.get_max_effective_balance(withdrawal_credentials)
        return Validator(
            pubkey=pubkey,
            withdrawal_credentials=withdrawal_credentials,
            effective_balance=min(amount - amount % increment, limit),
            slashed=False,
            activation_eligibility_epoch=FAR_FUTURE_EPOCH,
            activation_epoch=FAR_FUTURE_EPOCH,
            exit_epoch=FAR_FUTURE_EPOCH,
            withdrawable_epoch=FAR_FUTURE_EPOCH,
        )

    def add_validator_to_registry(
        self, state: State, pubkey: BLSPubkey, withdrawal_credentials: Bytes32, amount: Gwei
    ) -> None:
        """Appends a new validator."""
        state.validators.append(self.get_validator_from_deposit(pubkey, withdrawal_credentials, amount))
        state.balances.append(amount)

    # Exits

    def process_voluntary_exit(self, state: State, signed_exit: SignedVoluntaryExit) -> None:
        """Schedules the exit of a validator who asks for it."""
        wish = signed_exit.message
        validator = get_validator(state.validators, wish.validator_index)
        self.verify_voluntary_exit(state, wish, validator)
        message = self.compute_signing_root(wish, self.get_voluntary_exit_domain(state, wish))
        self.require_signature(
            validator.pubkey, message, signed_exit.signature, lambda: f"the exit of {wish.validator_index}"
        )
        self.initiate_validator_exit(state, wish.validator_index)

    def verify_voluntary_exit(self, state: State, wish: VoluntaryExit, validator: Validator) -> None:
        """Raises InvalidTransition unless a validator may leave now."""
        epoch, index = self.get_current_epoch(state), wish.validator_index
        require(
            self.is_active_validator(validator, epoch),
            lambda: f"Validator {index} asks to exit, and is not active in epoch {epoch}.",
        )
        require(
            validator.exit_epoch == FAR_FUTURE_EPOCH,
            lambda: f"Validator {index} asks to exit, and already does in epoch {validator.exit_epoch}.",
        )
        require(
            epoch >= wish.epoch,
            lambda: f"The exit of validator {index} is valid from epoch {wish.epoch}, and now is {epoch}.",
        )
        earliest = validator.activation_epoch + self.config.SHARD_COMMITTEE_PERIOD
        require(
            epoch >= earliest,
            lambda: f"Validator {index} may not exit before epoch {earliest}, and now is {epoch}.",
        )

    def get_voluntary_exit_domain(self, state: State, wish: VoluntaryExit) -> Domain:
        """What an exit's signature is bound to."""
        return self.get_domain(state, DOMAIN_VOLUNTARY_EXIT, wish.epoch)
