"""What whoever verifies a bundle asks for, and what they get."""

from __future__ import annotations

from typing import NamedTuple

from anchor.bundle.finality import Seats, Tally
from anchor.consensus.containers.phase0 import Checkpoint
from anchor.errors import Misuse
from anchor.ml.manifest import Manifest


class Expectations:
    """What whoever verifies asks for. None: not stated. Raises Misuse for what makes no sense together."""

    def __init__(
        self,
        model: str | None = None,
        version: str | None = None,
        publisher: bytes | None = None,
        network_id: bytes | None = None,
        stage: int | None = None,
        max_age: int | None = None,
        accepts_stale_trust: bool = False,
    ) -> None:
        self.model = model
        """`organisation/name`."""
        self.version = version
        self.publisher = publisher
        """The publisher's root key: 32 bytes."""
        self.network_id = network_id
        self.stage = stage
        self.max_age = max_age
        """Seconds since the newest block of the evidence."""
        self.accepts_stale_trust = accepts_stale_trust
        if self.stage is not None and self.max_age is None:
            raise Misuse(
                "A required stage needs a maximum age: an old bundle doesn't know of later changes.",
                fix="Add --max-age, as in --max-age 7d.",
            )
        if self.version is not None and self.model is None:
            raise Misuse("A version is a model's: state the model too.")

    @property
    def states_identity(self) -> bool:
        """Both which model, and whose (rule 1)."""
        return self.model is not None and self.publisher is not None


class Evidence(NamedTuple):
    """What a bundle proves. Every field is proven from the trusted checkpoint (rule 5)."""

    trusted: Checkpoint
    trusted_time: int
    """Unix time of the trusted block, seconds."""
    is_stale: bool
    """The trusted block is older than the weak-subjectivity period, and was accepted all the same."""
    newest: Checkpoint
    """The newest finalised checkpoint; the trusted one when nothing had to lead on from it."""
    newest_time: int
    tallies: tuple[Tally, ...]
    """Two supermajority links a hop, in order."""
    seats: tuple[Seats, ...]
    """Of each light-client update, in order."""
    network_id: bytes
    model: str
    version: str
    publisher: bytes
    """Root key."""
    entry: int
    """Position of the publication in the ledger."""
    signed_by: tuple[int, ...]
    """Schemes of the keys that signed, in order."""
    stage: int
    manifest: Manifest
