"""A ledger that a node serves, for whoever writes entries to it. The node need not be trusted with keys.

What an entry is signed for, the network, is the user's own or proven from the checkpoint that they trust; the
numbers in it come from the node's state, and a node that lies about those gets entries that no ledger takes.
That an entry is final is the node's word, until a bundle proves it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from threading import Event
from typing import Any, Final

from anchor.chain.nodes import fetch, fetch_bundle, fetch_data, send
from anchor.consensus.bls import Bls
from anchor.consensus.containers.entries import SignedEntry
from anchor.consensus.containers.phase0 import Checkpoint, SignedVoluntaryExit
from anchor.consensus.forks.ledger import Ledger
from anchor.consensus.presets import LEDGER, LEDGER_CONFIG, make_ledger_config
from anchor.consensus.text import parse_checkpoint
from anchor.errors import (
    AnchorError,
    MalformedAnswer,
    MalformedSSZ,
    Misuse,
    NotServed,
    Unavailable,
    WrongNetwork,
)
from anchor.merkle.json import from_json
from anchor.merkle.scope import schema_of
from anchor.node.chain import Head, State, compute_block_root
from anchor.node.clock import Clock
from anchor.params import LOGICAL_CLOCK

MAX_STATE_BYTES: Final = 1 << 30
LOOK_SECONDS: Final = 1.0
HEAD_START: Final = 1.0
"""Seconds in which a node has judged an entry, before it is given the next one."""
POLL: Final = 2.0
"""Seconds between two tries."""
TELL_SECONDS: Final = 8.0
PATIENCE: Final = 90.0
"""Seconds for one answer: a node waits a minute for an entry to be final."""
PATIENT_EPOCHS: Final = 8
"""In which an entry must be final, and then be shown to be: by votes of one epoch for the one before it."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A ledger as a node showed it: what entries are written against."""

    root: bytes
    state: State
    ledger: Ledger
    epoch: int
    """By the clock, or the newest block's where slots are logical."""
    final_entries: int

    def get_head(self) -> Head:
        """The newest block, and the state that it leads to."""
        return Head(self.root, self.state)

    def get_next_epoch(self) -> int:
        """An epoch in which an entry that is written now may be recorded."""
        return self.epoch

    def get_final_count(self) -> int:
        """How many entries are final."""
        return self.final_entries

    def verify_entries(self, entries: Sequence[SignedEntry]) -> None:
        """Judges whether the ledger would take these entries next. Raises Invalid for one that it refuses."""
        ahead = self.state.copy()
        for entry in entries:
            self.ledger.verify_entry(ahead, entry)
            self.ledger.apply_entry(ahead, entry)


class Remote:
    """A ledger at a node's address, on the network that `trusted` is of."""

    def __init__(self, url: str, trusted: Checkpoint, network_id: bytes | None, clock: Clock) -> None:
        self.url, self.trusted, self._given_id, self._clock = url, trusted, network_id, clock
        self._patience = PATIENCE

    @cached_property
    def network_id(self) -> bytes:
        """The network's: the user's own, or proven by the state of the checkpoint that they trust.

        Raises Unavailable when the node does not give that state, WrongNetwork when it gives another.
        """
        if self._given_id is not None:
            return self._given_id
        state = self._fetch_state(self.trusted.root)
        if compute_block_root(Ledger(LEDGER, LEDGER_CONFIG, Bls()), state) != self.trusted.root:
            raise WrongNetwork(
                f"{self.url} gave a state that is not of block 0x{self.trusted.root.hex()}, which you trust.",
                fix="Ask another node.",
            )
        return bytes(state.genesis_validators_root)

    def look(self) -> Seen:
        """The ledger as it is now, says the node. Raises WrongNetwork, MalformedAnswer, Unavailable."""
        status = self._get("status")
        root, count = self._read_root(status["head"]["root"]), int(status["final_entries"])
        state = self._fetch_state(root)
        if state.genesis_validators_root != self.network_id:
            raise WrongNetwork(
                f"{self.url} serves network 0x{state.genesis_validators_root.hex()}, and you trust a "
                f"checkpoint of 0x{self.network_id.hex()}.",
                fix="Ask a node of your network.",
            )
        config = make_ledger_config(state.fork.current_version, state.network.seconds_per_slot)
        ledger = Ledger(LEDGER, config, Bls())
        epoch = int(ledger.get_current_epoch(state))
        if state.network.clock != LOGICAL_CLOCK:
            seconds = int(state.network.seconds_per_slot) * LEDGER.SLOTS_PER_EPOCH
            epoch = max(epoch, (self._clock.now() - int(state.genesis_time)) // seconds)
            self._patience = max(PATIENCE, float(PATIENT_EPOCHS * seconds))
        return Seen(root, state, ledger, epoch, count)

    def _fetch_state(self, root: bytes) -> State:
        data = fetch(self.url, f"states/0x{root.hex()}", "state", MAX_STATE_BYTES)
        try:
            return Ledger(LEDGER, LEDGER_CONFIG, Bls()).scope.schema("BeaconState").decode(data)
        except MalformedSSZ as error:
            raise MalformedAnswer(
                f"{self.url} sent no state: {error.what}", fix="Ask another node."
            ) from None

    def _get(self, path: str) -> Any:
        data = fetch_data(self.url, path, path.partition("/")[0])
        if not isinstance(data, dict):
            raise MalformedAnswer(f"{self.url} sent what is no answer of a node.", fix="Ask another node.")
        return data

    def _read_root(self, text: Any) -> bytes:
        try:
            return parse_checkpoint(f"{text}:0").root
        except Misuse:
            raise MalformedAnswer(f"{self.url} sent no root: {text!a}.", fix="Ask another node.") from None

    # What changes it

    def record(
        self, entries: Sequence[SignedEntry], on_wait: Callable[[str], None]
    ) -> list[tuple[int, Checkpoint]]:
        """Gives entries to the node, and waits until it says that they are final: where, and by what.

        While that takes long, `on_wait` is told now and then how the ledger stands.
        Raises InvalidEntry when the ledger refuses one, Misuse when the node takes none, Unavailable when
        they are not final in time: they may become it later.
        """
        end = time.monotonic() + self._patience
        with ThreadPoolExecutor(max(len(entries), 1)) as pool:
            waiting: list[Future[tuple[int, Checkpoint]]] = []
            for entry in entries:
                waiting.append(pool.submit(self._record_one, entry, end))
                done, _ = wait(waiting[-1:], HEAD_START)
                if done and waiting[-1].exception() is not None:
                    break
            while wait(waiting, TELL_SECONDS).not_done:
                on_wait(self._tell())
            return [future.result() for future in waiting]

    def _tell(self) -> str:
        """How the ledger stands, for whoever waits."""
        try:
            status = self._get("status")
            head, final = status["head"], parse_checkpoint(status["finalized"])
            return f"Slot {int(head['slot'])}, epoch {int(head['epoch'])}; final is epoch {final.epoch}."
        except (AnchorError, KeyError, TypeError, ValueError):
            return "The node does not say how its ledger stands."

    def _record_one(self, entry: SignedEntry, end: float) -> tuple[int, Checkpoint]:
        body, trouble = schema_of(SignedEntry).encode(entry), ""
        while time.monotonic() < end:
            try:
                receipt = send(self.url, "POST", "entries", body, "entry", patience=PATIENCE)
                if receipt["final"] is not None:
                    return int(receipt["position"]), parse_checkpoint(receipt["final"])
            except NotServed as error:
                trouble = error.what
            except (KeyError, TypeError, ValueError):
                raise MalformedAnswer(f"{self.url} sent no receipt.", fix="Ask another node.") from None
            time.sleep(POLL)
        raise Unavailable(
            f"An entry is not final yet. {trouble}".rstrip(),
            fix=f"It may become it: see {self.url}/health, and try again when that is good.",
        )

    def finish(self, position: int, on_wait: Callable[[str], None]) -> Checkpoint:
        """Waits until an entry that is recorded is final. Raises as `record`."""
        document = self._get(f"entries/{position}")
        try:
            entry = from_json(schema_of(SignedEntry), document["entry"])
        except (KeyError, MalformedSSZ):
            raise MalformedAnswer(f"{self.url} sent no entry.", fix="Ask another node.") from None
        [(_, final)] = self.record([entry], on_wait)
        return final

    @contextmanager
    def bringing_manifest(self, root: bytes, data: bytes) -> Iterator[None]:
        """In the body, the manifest is given to the node as soon as a block names it: other nodes ask for it
        then, long before it is final. At the end the node has it. Raises as `send`.
        """
        ended = Event()
        with ThreadPoolExecutor(1) as pool:
            early = pool.submit(self._bring_manifest, root, data, ended)
            try:
                yield
            finally:
                ended.set()
        if not early.result():
            self._send_manifest(root, data)

    def _bring_manifest(self, root: bytes, data: bytes, ended: Event) -> bool:
        """Whether the node took it before the end."""
        while not ended.wait(LOOK_SECONDS):
            try:
                self._send_manifest(root, data)
            except AnchorError:
                continue  # no block has named it yet; what else is wrong shows at the end
            return True
        return False

    def _send_manifest(self, root: bytes, data: bytes) -> None:
        send(self.url, "PUT", f"manifests/0x{root.hex()}", data, "manifest", patience=PATIENCE)

    def send_exit(self, wish: SignedVoluntaryExit) -> None:
        """Gives the node a validator's wish to leave. Raises as `send`."""
        body = schema_of(SignedVoluntaryExit).encode(wish)
        send(self.url, "POST", "exits", body, "exit", patience=PATIENCE)

    def fetch_bundle(self, model: str, version: str) -> bytes:
        """The bundle of a version for the checkpoint that is trusted: yet to be verified."""
        end = time.monotonic() + self._patience
        while True:
            try:
                return fetch_bundle(self.url, model, version, self.trusted)
            except Unavailable:
                if time.monotonic() > end:
                    raise
                time.sleep(LOOK_SECONDS)
