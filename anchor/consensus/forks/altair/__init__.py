"""Altair: participation flags, inactivity scores, sync committees for light clients."""

from anchor.consensus.forks.altair.upgrade import Altair

__all__ = ["Altair"]
