"""Every error that leaves this package, in one tree, by whose fault it is.

    AnchorError
    ├── Misuse            exit 2   the call is wrong: an argument, an option, a passphrase
    ├── Malformed         exit 1   bytes do not follow their own format
    │   ├── MalformedSSZ
    │   ├── MalformedFile
    │   ├── MalformedBundle
    │   ├── MalformedHeader
    │   └── MalformedAnswer
    ├── Unsafe            exit 1   following or executing the input would be dangerous
    ├── Invalid           exit 1   well-formed, but it breaks a rule
    │   ├── InvalidProof
    │   ├── InvalidEvidence
    │   │   └── StaleTrust
    │   ├── RefusedModel
    │   ├── InvalidSignature
    │   ├── InvalidTransition
    │   │   └── Premature
    │   │       └── UnknownParent
    │   ├── Ignored
    │   ├── InvalidUpdate
    │   ├── InvalidEntry
    │   ├── InvalidManifest
    │   ├── InvalidHeader
    │   ├── InvalidCheckpoint
    │   ├── WrongNetwork
    │   ├── RefusedPeer
    │   └── TamperedFile
    └── Unavailable       exit 3   something that is needed cannot be had now
        ├── MissingFile
        ├── NotServed
        ├── NoSuchRecord
        └── CorruptedLedger

A message is one sentence on what happened and where; `fix` is one on what to do.
"""

from __future__ import annotations

from typing import ClassVar


class AnchorError(Exception):
    """Base of the tree. `what` happened, and (optionally) what to do about it: `fix`."""

    exit_code: ClassVar[int] = 1

    def __init__(self, what: str, *, fix: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.fix = fix

    def __str__(self) -> str:
        return f"{self.what} {self.fix}".rstrip()


class Misuse(AnchorError):
    """The caller asked for something that cannot be meant."""

    exit_code = 2


class Malformed(AnchorError):
    """Bytes that do not follow their own format."""


class MalformedSSZ(Malformed):
    """Bytes that are not the one valid encoding of their SSZ type, or a value outside its type."""

    def within(self, name: str) -> MalformedSSZ:
        """The same error, placed one level further out."""
        glue = "" if self.what.startswith("[") else ": "
        return MalformedSSZ(f"{name}{glue}{self.what}", fix=self.fix)


class MalformedFile(Malformed):
    """A model file that breaks its own format; `cause` is one word for the way in which it does."""

    def __init__(self, what: str, *, cause: str, fix: str = "") -> None:
        super().__init__(what, fix=fix)
        self.cause = cause


class MalformedBundle(Malformed):
    """A bundle that cannot be read as one."""


class MalformedHeader(Malformed):
    """Bytes that are not whole 80-byte headers of Bitcoin."""


class MalformedAnswer(Malformed):
    """What an endpoint sent, where it is not what was asked for."""


class Unsafe(AnchorError):
    """Input that would make the reader follow a path outside its folder, or execute something."""


class Invalid(AnchorError):
    """Well-formed input that breaks a rule."""


class InvalidProof(Invalid):
    """A Merkle branch that does not lead to the root it is checked against."""


class InvalidEvidence(Invalid):
    """Evidence that does not lead from what the user trusts to a publication."""


class StaleTrust(InvalidEvidence):
    """A trusted checkpoint older than its network's weak-subjectivity period."""


class RefusedModel(Invalid):
    """A publication that is proven, and is not what the user asked for, or was revoked."""


class InvalidSignature(Invalid):
    """A signature that does not verify, or whose key may not sign."""


class InvalidTransition(Invalid):
    """A state, block, attestation or operation that the consensus rules refuse."""


class InvalidUpdate(Invalid):
    """Light-client data that does not follow from what the client trusts."""


class Premature(InvalidTransition):
    """A block, vote or payload that may be valid later: its time, its parent or its data has not come."""


class UnknownParent(Premature):
    """A block or vote whose block is not here; `root` names it: who sent the message can be asked for it."""

    def __init__(self, what: str, *, root: bytes, fix: str = "") -> None:
        super().__init__(what, fix=fix)
        self.root = root


class Ignored(Invalid):
    """A peer's message that is known, late, early or cannot be judged: not passed on, and nobody's fault."""


class InvalidEntry(Invalid):
    """A ledger entry that the ledger's rules refuse."""


class InvalidManifest(Invalid):
    """A manifest that breaks one of its rules."""


class InvalidHeader(Invalid):
    """A header of Bitcoin that breaks a rule of its chain."""


class InvalidCheckpoint(Invalid):
    """A branch that conflicts with a checkpoint in the code, or cannot be tied to it."""


class WrongNetwork(Invalid):
    """A state, a block or an endpoint of another network, or of a fork or preset that is not known here."""


class RefusedPeer(Invalid):
    """Another node that this one does not talk to, or that does not keep to what was agreed."""


class TamperedFile(Invalid):
    """A model's bytes that are not the ones its manifest commits to."""


class Unavailable(AnchorError):
    """A file, a peer or a record that is needed and cannot be had now."""

    exit_code = 3


class MissingFile(Unavailable):
    """A file that a manifest, an index or a link names, and that is not there."""


class NotServed(Unavailable):
    """An endpoint answered that it has not got what was asked for, or that it failed; `status` is HTTP's."""

    def __init__(self, what: str, *, status: int, fix: str = "") -> None:
        super().__init__(what, fix=fix)
        self.status = status


class NoSuchRecord(Unavailable):
    """A block, an entry, a manifest or a version that this ledger does not have."""


class CorruptedLedger(Unavailable):
    """A ledger's store that no longer holds what was written to it."""
