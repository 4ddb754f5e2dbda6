"""What can be done to a devnet. Each action leaves its plan written down."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from anchor.consensus.presets import LEDGER as PRESET
from anchor.errors import Misuse, Unavailable
from anchor.node.devnet import processes
from anchor.node.devnet.building import LEDGER, OPERATORS, PHRASE_FILE, VALIDATORS, find_ports
from anchor.node.devnet.calls import ask
from anchor.node.devnet.plan import MAX_NODES, Member, get_log, get_node_folder, load_plan, save_plan
from anchor.node.devnet.sight import get_answering, look, look_at
from anchor.node.folder import open_reader

START_SECONDS: Final = 30.0
"""That a node has to answer after it was started."""
STEP: Final = 0.1
FAULTS: Final = "/anchor/v1/admin/faults"
EQUIVOCATIONS: Final = "/anchor/v1/admin/equivocations"


class Control:
    """One devnet."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.plan = folder, load_plan(folder)

    @property
    def epoch_seconds(self) -> float:
        """Of the devnet's clock."""
        return float(self.plan.seconds_per_slot * PRESET.SLOTS_PER_EPOCH)

    # Its processes

    def up(self) -> str:
        """Starts all nodes that do not run. Where none does, the devnet goes on from when it stopped."""
        asleep = [member for member in self.plan.members if not processes.is_alive(member)]
        if len(asleep) == len(self.plan.members):
            self._set_clock()
        for member in asleep:
            self._launch(member)
        save_plan(self.folder, self.plan)
        for member in asleep:
            self._await(member)
        return f"{len(self.plan.members)} nodes run"

    def _set_clock(self) -> None:
        """Goes on with the slot after the newest block; before any, at the machine's own time."""
        newest = 0
        for member in self.plan.members:
            with suppress(Unavailable), open_reader(get_node_folder(self.folder, member) / LEDGER) as chain:
                state, genesis = chain.get_head().state, chain.genesis
                if state.slot:
                    newest = max(newest, genesis.genesis_time + (state.slot + 1) * genesis.seconds_per_slot)
        if newest:
            self.plan.behind_ms = max(time.time_ns() // 1_000_000 - newest * 1000, 0)

    def _launch(self, member: Member) -> None:
        own = get_node_folder(self.folder, member)
        arguments = ["node", "--ledger", str(own / LEDGER), "--port", str(member.port)]
        arguments += ["--public-url", member.url, "--faults", "--rate", "0"]
        arguments += ["--operators", str(self.folder / OPERATORS)]
        arguments += ["--passphrase-file", str(self.folder / PHRASE_FILE)]
        arguments += ["--clock-behind", str(self.plan.behind_ms)]
        if member.validators:
            arguments += ["--keystores", str(own / VALIDATORS)]
        if member.join is not None:
            arguments += ["--join", member.join[0], "--trust", member.join[1]]
        for peer in self.plan.members:
            if peer is not member:
                arguments += ["--peer", peer.url]
        processes.start(member, arguments, get_log(self.folder, member))

    def _await(self, member: Member) -> None:
        """Waits until a node answers. Raises Unavailable when it ends, or takes too long."""
        log = get_log(self.folder, member)
        deadline = time.monotonic() + START_SECONDS
        while not look_at(member).answers:
            processes.require_running(member, log)
            if time.monotonic() > deadline:
                raise Unavailable(
                    f"Node {member.number} does not answer after {START_SECONDS:.0f} s.", fix=f"See {log}."
                )
            time.sleep(STEP)
        if member.unheard or member.skew_ms:
            self._set_faults(member)

    def stop(self) -> str:
        """Ends all nodes."""
        processes.stop(self.plan.members)
        save_plan(self.folder, self.plan)
        return "all nodes have stopped, and the devnet's clock with them"

    def kill(self, node: int) -> str:
        """Ends a node as a crash would."""
        processes.kill(self.plan.get_member(node))
        save_plan(self.folder, self.plan)
        return f"node {node} is dead"

    def start(self, node: int) -> str:
        """Starts a node that does not run."""
        member = self.plan.get_member(node)
        if processes.is_alive(member):
            raise Misuse(f"Node {node} runs already.")
        self._launch(member)
        save_plan(self.folder, self.plan)
        self._await(member)
        return f"node {node} runs"

    def join(self) -> str:
        """Adds a node without validators, which starts from the newest final checkpoint, as strangers do."""
        members = self.plan.members
        seen = max(get_answering(look(self.plan)), key=lambda sight: sight.final_epoch, default=None)
        if seen is None or len(members) == MAX_NODES:
            raise Misuse(
                f"No node answers, or there are {MAX_NODES} already.", fix="See: anchor devnet status"
            )
        source = (self.plan.get_member(seen.number).url, f"{seen.final_root}:{seen.final_epoch}")
        member = Member(len(members) + 1, find_ports(1)[0], validators=0, first=0, join=source)
        get_node_folder(self.folder, member).mkdir(mode=0o700, exist_ok=True)
        members.append(member)
        return f"{self.start(member.number)}; it started from epoch {seen.final_epoch}"

    # Faults

    def partition(self, groups: Sequence[Sequence[int]]) -> str:
        """Lets nodes hear those of their own group only; a node in no group hears nobody."""
        members = self.plan.members
        for member in members:
            group = next((set(group) for group in groups if member.number in group), set())
            member.unheard = [peer.url for peer in members if peer.number not in group and peer is not member]
        self._set_all_faults()
        return f"{len(groups)} groups do not hear each other"

    def heal(self) -> str:
        """Lets all nodes hear each other again, with their clocks right."""
        for member in self.plan.members:
            member.unheard, member.skew_ms = [], 0
        self._set_all_faults()
        return "all nodes hear each other, and all clocks are right"

    def skew(self, node: int, by: float) -> str:
        """Sets a node's clock wrong."""
        self.plan.get_member(node).skew_ms = round(by * 1000)
        self._set_all_faults()
        return f"node {node}'s clock is {by:+g} s off"

    def equivocate(self, node: int) -> str:
        """Makes a node's validators sign two things where they may sign one."""
        ask(self.plan.get_member(node), EQUIVOCATIONS, token=self.plan.token, method="POST", body={})
        return f"node {node} will sign two blocks for its next slot, and two votes"

    def _set_all_faults(self) -> None:
        save_plan(self.folder, self.plan)
        for member in self.plan.members:
            self._set_faults(member)

    def _set_faults(self, member: Member) -> None:
        """Lets a node misbehave as its plan says; one that does not run will when it starts."""
        if processes.is_alive(member):
            faults = {"unheard": ",".join(member.unheard), "skew_ms": str(member.skew_ms)}
            ask(member, FAULTS, token=self.plan.token, method="PUT", body=faults)
