"""Check, offline, that a machine-learning model is the one that was published, and that a network agreed."""

__version__ = "0.1.0"
