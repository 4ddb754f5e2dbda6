"""Gloas: builders bid for payloads, which come apart from their blocks; a committee tells whether in time."""

from anchor.consensus.forks.gloas.upgrade import Gloas

__all__ = ["Gloas"]
