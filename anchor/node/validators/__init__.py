"""The validators of a node: their keys at rest, and what they signed."""
