"""Exits and evidence (phase0/p2p-interface). What a block could not carry is not passed on."""

from __future__ import annotations

from anchor.consensus.containers.phase0 import AttesterSlashing, ProposerSlashing, SignedVoluntaryExit
from anchor.consensus.fork_choice.store import Store
from anchor.consensus.forks.arithmetic import require
from anchor.consensus.forks.registry import get_validator
from anchor.consensus.gossip.base import Base, ignore_unless
from anchor.params import FAR_FUTURE_EPOCH


class Operations(Base):
    """The topics voluntary_exit, proposer_slashing and attester_slashing."""

    def validate_voluntary_exit(self, store: Store, signed_exit: SignedVoluntaryExit, time_ms: int) -> None:
        """The first wish of a validator to leave, who may."""
        wish = signed_exit.message
        index, key = wish.validator_index, ("voluntary_exit", wish.validator_index)
        self.ignore_seen(key)
        ignore_unless(
            not self.is_future_epoch(store, wish.epoch, time_ms),
            lambda: f"The exit of validator {index} is for epoch {wish.epoch}.",
        )
        state = self.get_head_state(store)
        validator, epoch = get_validator(state.validators, index), self.rules.get_current_epoch(state)
        leaving = validator.exit_epoch
        ignore_unless(leaving == FAR_FUTURE_EPOCH, lambda: f"Validator {index} exits in epoch {leaving}.")
        earliest = validator.activation_epoch + self.config.SHARD_COMMITTEE_PERIOD
        require(
            self.rules.is_active_validator(validator, epoch) and epoch >= earliest,
            lambda: f"Validator {index} is active since {validator.activation_epoch}, and may not exit yet.",
        )
        domain = self.rules.get_voluntary_exit_domain(state, wish)
        message = self.rules.compute_signing_root(wish, domain)
        self.verify_signature(state, index, message, signed_exit.signature, f"the exit of {index}")
        self.seen.keys.add(key)

    def validate_proposer_slashing(self, store: Store, slashing: ProposerSlashing) -> None:
        """The first evidence against a proposer."""
        key = "proposer_slashing", slashing.signed_header_1.message.proposer_index
        self.ignore_seen(key)
        self.rules.process_proposer_slashing(self.get_head_state(store).copy(), slashing)
        self.seen.keys.add(key)

    def validate_attester_slashing(self, store: Store, slashing: AttesterSlashing) -> None:
        """Evidence against somebody against whom there was none."""
        first, second = slashing.attestation_1, slashing.attestation_2
        both = set(first.attesting_indices) & set(second.attesting_indices)
        keys = {("attester_slashing", index) for index in both}
        ignore_unless(not keys <= self.seen.keys, lambda: "The evidence is against nobody, or it was seen.")
        self.rules.process_attester_slashing(self.get_head_state(store).copy(), slashing)
        self.seen.keys |= keys
