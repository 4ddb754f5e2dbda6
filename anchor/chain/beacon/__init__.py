"""Beacon nodes of others: their answers are evidence, held to a checkpoint that the user trusts."""
