"""Two nodes prove to each other who they are, before anything else is said (specs/06-network §4).

    dialler ─► Hello                              listener
    dialler ◄─ Welcome: Hello, signature ◄─       listener
    dialler ─► signature over the same ─►         listener

Both sign one transcript, the two hellos and the signer's side, under a domain that binds the network
(rule 13). Each hello has a fresh nonce, so neither signature serves in another handshake. A listener says
which certificate its port shows, so nobody with another one passes the handshake on. Nothing here reads a
socket or a clock; randomness is an argument. No secret is ever compared: all that is compared is public.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Final

from anchor.consensus.containers.entries import Key
from anchor.consensus.schemes import SigningKey, verify_signature
from anchor.consensus.signing import compute_domain, compute_signing_root
from anchor.consensus.text import format_identity
from anchor.errors import InvalidSignature, RefusedPeer, WrongNetwork
from anchor.merkle.container import Container
from anchor.merkle.scope import hash_tree_root, schema_of
from anchor.node.network.messages import MAX_ADDRESS_BYTES
from anchor.params import DOMAIN_PEER, SCHEME_ED25519
from anchor.types import Bytes32, Length, Limit, Root, boolean, uint64

PROTOCOL_VERSION: Final = 2
NONCE_BYTES: Final = 32
SIGNATURE_BYTES: Final = 64
NO_CERTIFICATE: Final = bytes(32)
MAX_HANDSHAKE_BYTES: Final = 1024
"""More than any message of the handshake has."""
Randomness = Callable[[int], bytes]
Judge = Callable[["Hello"], None]
"""Raises RefusedPeer for a node that is banned, or has no place here now."""


class Hello(Container):
    """What a node says of itself."""

    version: uint64
    """PROTOCOL_VERSION: nodes of different ones do not talk."""
    network_id: Root
    identity: Bytes32
    """Ed25519 public key."""
    nonce: Bytes32
    """Random, for this handshake alone."""
    url: Annotated[bytes, Limit(MAX_ADDRESS_BYTES)]
    """Where others can reach it, in UTF-8; empty when it does not say."""
    certificate: Bytes32
    """SHA-256 of the certificate that its port shows (DER); NO_CERTIFICATE when it shows none of its own."""


class Welcome(Container):
    """A listener's answer."""

    hello: Hello
    signature: Annotated[bytes, Length(SIGNATURE_BYTES)]


class Transcript(Container):
    """What both sign."""

    dialler: Hello
    listener: Hello
    is_dialler: boolean
    """Whose signature it is: neither can be sent back to its maker as the other's."""


@dataclass(frozen=True, slots=True)
class Identity:
    """A node, as it presents itself on one network."""

    key: SigningKey
    network_id: bytes
    fork_version: bytes
    """Of the network's genesis."""
    url: str = ""
    """Where others can reach it; empty when that is nobody's business."""
    certificate: bytes = NO_CERTIFICATE
    """As its hellos say."""

    @property
    def public(self) -> bytes:
        """The key's public half: what other nodes know this one by."""
        return self.key.public.public_key

    def make_hello(self, randomness: Randomness) -> Hello:
        """The hello of a new handshake."""
        return Hello(
            version=PROTOCOL_VERSION,
            network_id=self.network_id,
            identity=self.public,
            nonce=randomness(NONCE_BYTES),
            url=self.url.encode(),
            certificate=self.certificate,
        )


class Dialler:
    """The side that opened the connection, on which it saw the certificate with digest `seen`."""

    def __init__(
        self, own: Identity, randomness: Randomness, judge: Judge, seen: bytes = NO_CERTIFICATE
    ) -> None:
        self._own, self._hello, self._judge, self._seen = own, own.make_hello(randomness), judge, seen

    def greet(self) -> bytes:
        """The first message."""
        return schema_of(Hello).encode(self._hello)

    def on_welcome(self, data: bytes) -> tuple[Hello, bytes]:
        """Who answered, and the last message.

        Raises MalformedSSZ, WrongNetwork, RefusedPeer, InvalidSignature.
        """
        welcome: Welcome = schema_of(Welcome).decode(data)
        verify_hello(self._own, welcome.hello)
        self._judge(welcome.hello)
        transcript = Transcript(dialler=self._hello, listener=welcome.hello, is_dialler=False)
        verify_transcript(self._own, transcript, welcome.signature)
        verify_certificate(welcome.hello, self._seen)
        return welcome.hello, sign_transcript(self._own, transcript.replace(is_dialler=True))


class Listener:
    """The side that was called."""

    def __init__(self, own: Identity, randomness: Randomness, judge: Judge) -> None:
        self._own, self._hello, self._judge = own, own.make_hello(randomness), judge

    def on_hello(self, data: bytes) -> bytes:
        """The answer to a first message. Raises MalformedSSZ, WrongNetwork, RefusedPeer."""
        hello: Hello = schema_of(Hello).decode(data)
        verify_hello(self._own, hello)
        self._judge(hello)
        self._transcript = Transcript(dialler=hello, listener=self._hello, is_dialler=False)
        signature = sign_transcript(self._own, self._transcript)
        return schema_of(Welcome).encode(Welcome(hello=self._hello, signature=signature))

    def on_signature(self, data: bytes) -> Hello:
        """Who dialled, proven. Raises InvalidSignature."""
        verify_transcript(self._own, self._transcript.replace(is_dialler=True), data)
        return self._transcript.dialler


def verify_hello(own: Identity, hello: Hello) -> None:
    """Raises WrongNetwork or RefusedPeer unless `own` may talk to a node that says this."""
    if hello.version != PROTOCOL_VERSION:
        raise RefusedPeer(
            f"It speaks version {hello.version} of the protocol, and this node {PROTOCOL_VERSION}."
        )
    if hello.network_id != own.network_id:
        theirs, ours = hello.network_id[:4].hex(), own.network_id[:4].hex()
        raise WrongNetwork(f"It is of network 0x{theirs}…, and this node of 0x{ours}….")
    if hello.identity == own.public:
        raise RefusedPeer("It is this node itself, or one with a copy of its identity.")


def verify_certificate(hello: Hello, seen: bytes) -> None:
    """Raises RefusedPeer where a listener, by its own word, shows another certificate than was seen."""
    if hello.certificate not in (NO_CERTIFICATE, seen):
        who = format_identity(hello.identity)
        raise RefusedPeer(f"Someone is in between: {who} shows another certificate than this connection has.")


def sign_transcript(own: Identity, transcript: Transcript) -> bytes:
    """The signature of `own` over a transcript."""
    return own.key.sign(_compute_message(own, transcript))


def verify_transcript(own: Identity, transcript: Transcript, signature: bytes) -> None:
    """Raises InvalidSignature unless the side that the transcript names signed it."""
    signer = transcript.dialler if transcript.is_dialler else transcript.listener
    key = Key(scheme=SCHEME_ED25519, public_key=signer.identity)
    try:
        verify_signature(key, _compute_message(own, transcript), signature)
    except InvalidSignature:
        who = format_identity(signer.identity)
        raise InvalidSignature(f"It does not prove that it is {who}.") from None


def _compute_message(own: Identity, transcript: Transcript) -> bytes:
    domain = compute_domain(DOMAIN_PEER, own.fork_version, own.network_id)
    return compute_signing_root(hash_tree_root(transcript), domain)
