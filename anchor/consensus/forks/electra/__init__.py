"""Electra: stake up to 2048 ether in a validator, requests from the execution layer, larger attestations."""

from anchor.consensus.forks.electra.upgrade import Electra

__all__ = ["Electra"]
