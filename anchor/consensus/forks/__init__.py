"""The state transition of every fork. Each fork inherits from the one before (phase0 … gloas)."""
