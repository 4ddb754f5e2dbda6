"""Fork choice of every fork: a Store, handlers that feed it, and the head (each fork's fork-choice.md)."""
