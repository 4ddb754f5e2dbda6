"""Makes specs/vectors/ledger: cases of the ledger fork, in the official layout.

    python -m tests.vectors.make_ledger [DESTINATION]

The same keys and the same times give the same cases, byte for byte; only ML-DSA's signatures, which are
randomised, differ (cases with "lasting" in their name).
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cramjam

from anchor.consensus.containers import entries as entry_records
from anchor.consensus.containers import ledger as ledger_records
from anchor.consensus.containers.entries import (
    Admission,
    Approve,
    ClaimOrganisation,
    Policy,
    Promote,
    RegisterPublisher,
    RevokeKeys,
    RevokePublisher,
    RevokeVersion,
    RotateKeys,
    SetPolicy,
    SignedEntry,
)
from anchor.consensus.duties import compute_admission, compute_deposit
from anchor.consensus.forks.ledger import Ledger
from anchor.consensus.forks.ledger.genesis import compute_config
from anchor.consensus.presets import LEDGER
from anchor.errors import Invalid
from anchor.merkle.container import Container
from anchor.params import LOGICAL_CLOCK, WALL_CLOCK
from tests.consensus.ledgers import (
    ADMINISTRATOR,
    ALICE,
    BLS,
    BOB,
    BOB_ROOT,
    PUBLICATION,
    ROOT,
    Chain,
    identity,
    make_genesis,
    make_key,
    make_keyring,
    make_secret_key,
)

DESTINATION = Path(__file__).parents[2] / "specs" / "vectors" / "ledger"
VALIDATORS = 4
SUITE = "anchor"
NEXT = PUBLICATION.replace(version=b"1.1")
OF_VERSION: Any = {"model": b"acme/net", "version": b"1.0", "manifest_root": PUBLICATION.manifest_root}
CONSENT = OF_VERSION | {"from_stage": 0, "to_stage": 1, "sequence": 0}


@dataclass(frozen=True)
class EntryCase:
    """An entry, the state that it meets, and whether it is accepted."""

    name: str
    chain: Chain
    signed: SignedEntry
    valid: bool


def start(policy: int = 0) -> Chain:
    """A network in which Alice has published and Bob is there; Bob must approve where `policy` is 1."""
    chain = Chain(make_genesis(validators=VALIDATORS))
    chain.add_alice()
    chain.register(BOB_ROOT, BOB[:1])
    if policy:
        body = SetPolicy(model=b"acme/net", policy=Policy(approvers=(identity(BOB_ROOT),), threshold=policy))
        chain.add(chain.make_entry([ROOT], ROOT, body))
    return chain


def make_accepted() -> Iterator[tuple[str, Chain, SignedEntry]]:
    """One entry of every kind, and some that are just within a rule."""
    root_bodies = {
        "rotate_keys": RotateKeys(keys=(make_key("alice's next").public,)),
        "rotate_keys_lasting": RotateKeys(keys=tuple([key.public for key in BOB])),
        "revoke_keys": RevokeKeys(key_set=0, since=3, reason=b"stolen"),
        "revoke_publisher": RevokePublisher(since=0, reason=b"stolen"),
        "set_policy": SetPolicy(
            model=b"acme/net", policy=Policy(approvers=(identity(BOB_ROOT),), threshold=1)
        ),
    }
    for name, body in root_bodies.items():
        chain = start()
        yield name, chain, chain.make_entry([ROOT], ROOT, body)
    bodies = {
        "claim_organisation": ClaimOrganisation(name=b"a" * 64),
        "publish": NEXT,
        "publish_new_model": NEXT.replace(model=b"acme/" + b"n" * 123),
        "promote": Promote(**CONSENT),
        "archive": Promote(**(CONSENT | {"to_stage": 3})),
        "revoke_version": RevokeVersion(**OF_VERSION, reason=b"poisoned"),
    }
    for name, body in bodies.items():
        chain = start()
        yield name, chain, chain.make_entry(ALICE, ROOT, body)
    chain = start(policy=1)
    approval = chain.make_entry(BOB[:1], BOB_ROOT, Approve(**CONSENT))
    yield "approve", chain, approval
    later = start(policy=1)
    later.add(approval)
    yield "promote_approved", later, later.make_entry(ALICE, ROOT, Promote(**CONSENT))
    chain = start()
    yield "last_epoch", chain, chain.make_entry(ALICE, ROOT, NEXT, expiry_epoch=0)
    yield "sequence_step", chain, chain.make_entry(ALICE, ROOT, NEXT, sequence=2 + 2**16)
    newcomer = RegisterPublisher(root_key=identity(make_key("carol")))
    yield "register_publisher", chain, chain.make_entry([ADMINISTRATOR], ADMINISTRATOR, newcomer)
    yield "admit_validator", chain, make_admission(chain, 3)
    chain = Chain(make_genesis(validators=VALIDATORS))
    chain.register(BOB_ROOT, BOB)
    yield "claim_lasting", chain, chain.make_entry(BOB, BOB_ROOT, ClaimOrganisation(name=b"bobs"))


def make_admission(chain: Chain, voters: int) -> SignedEntry:
    """The admission of one more validator, with the consent of the first `voters`."""
    version = chain.ledger.config.GENESIS_FORK_VERSION
    deposit = compute_deposit(make_secret_key(VALIDATORS), version, LEDGER.MAX_EFFECTIVE_BALANCE, BLS)
    admission = Admission(deposit=deposit, expiry_epoch=10)
    body = compute_admission(chain.ledger, chain.state, make_keyring(voters), admission)
    return chain.make_entry([ADMINISTRATOR], ADMINISTRATOR, body)


def make_refused() -> Iterator[tuple[str, Chain, SignedEntry]]:
    """An entry for each rule, which breaks only that."""
    chain = start()
    good = chain.make_entry(ALICE, ROOT, NEXT)
    yield "no_signature", chain, good.replace(signatures=())
    yield "extra_signature", chain, good.replace(signatures=good.signatures * 2)
    yield "wrong_signature", chain, good.replace(signatures=(bytes(64),))
    yield (
        "other_network",
        chain,
        Chain(make_genesis(validators=VALIDATORS, nonce=8)).make_entry(ALICE, ROOT, NEXT),
    )
    changes: dict[str, dict[str, Any]] = {
        "schema_version": {"schema_version": 2},
        "repeated_sequence": {"sequence": 2},
        "sequence_jump": {"sequence": 3 + 2**16},
        "unknown_author": {"author": identity(make_key("mallory"))},
    }
    for name, change in changes.items():
        yield name, chain, chain.make_entry(ALICE, ROOT, NEXT, **change)
    late = start()
    late.ledger.process_slots(late.state, LEDGER.SLOTS_PER_EPOCH)
    yield "expired", late, late.make_entry(ALICE, ROOT, NEXT, expiry_epoch=0)
    bodies: dict[str, Container] = {
        "organisation_taken": ClaimOrganisation(name=b"acme"),
        "organisation_name": ClaimOrganisation(name=b"Acme"),
        "version_taken": PUBLICATION,
        "model_without_organisation": NEXT.replace(model=b"net"),
        "organisation_unclaimed": NEXT.replace(model=b"free/net"),
        "promote_two_stages": Promote(**(CONSENT | {"to_stage": 2})),
        "promote_other_manifest": Promote(**(CONSENT | {"manifest_root": bytes(32)})),
        "promote_wrong_sequence": Promote(**(CONSENT | {"sequence": 1})),
        "promote_wrong_stage": Promote(**(CONSENT | {"from_stage": 1, "to_stage": 2})),
        "approve_no_approver": Approve(**CONSENT),
        "rotate_keys_without_root_key": RotateKeys(keys=(make_key("thief").public,)),
        "set_policy_without_root_key": SetPolicy(model=b"acme/net", policy=Policy(approvers=(), threshold=0)),
    }
    for name, body in bodies.items():
        yield name, chain, chain.make_entry(ALICE, ROOT, body)
    yield from _make_refused_keys(chain)
    yield "publish_for_another", chain, chain.make_entry(BOB[:1], BOB_ROOT, NEXT)
    strict = start(policy=1)
    yield "promote_without_approval", strict, strict.make_entry(ALICE, ROOT, Promote(**CONSENT))
    yield "admit_validator_half_the_stake", chain, make_admission(chain, 2)
    yield from _make_after_revocations()


def _make_refused_keys(chain: Chain) -> Iterator[tuple[str, Chain, SignedEntry]]:
    small = ALICE[0].public.replace(public_key=b"\1" + bytes(31))
    sets = {"none": (), "root": (ROOT.public,), "lasting_alone": (BOB[1].public,), "small_order": (small,)}
    for name, keys in sets.items():
        body = RotateKeys(keys=keys)
        yield f"rotate_keys_{name}", chain, chain.make_entry([ROOT], ROOT, body)
    future = RevokeKeys(key_set=0, since=100, reason=b"")
    yield "revoke_keys_in_future", chain, chain.make_entry([ROOT], ROOT, future)
    known = RegisterPublisher(root_key=identity(ROOT))
    yield "register_twice", chain, chain.make_entry([ADMINISTRATOR], ADMINISTRATOR, known)
    stranger = RegisterPublisher(root_key=identity(make_key("carol")))
    yield "register_by_no_administrator", chain, chain.make_entry(ALICE, ROOT, stranger)


def _make_after_revocations() -> Iterator[tuple[str, Chain, SignedEntry]]:
    for name, body in {
        "revoked_keys": RevokeKeys(key_set=0, since=4, reason=b""),
        "revoked_publisher": RevokePublisher(since=4, reason=b""),
        "rotated_keys": RotateKeys(keys=(make_key("alice's next").public,)),
    }.items():
        chain = start()
        chain.add(chain.make_entry([ROOT], ROOT, body))
        yield f"publish_with_{name}", chain, chain.make_entry(ALICE, ROOT, NEXT)
    chain = start()
    chain.add(chain.make_entry(ALICE, ROOT, RevokeVersion(**OF_VERSION, reason=b"")))
    yield "promote_revoked", chain, chain.make_entry(ALICE, ROOT, Promote(**CONSENT))


class Writer:
    """Writes cases below a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def write(self, place: str, chain: Chain, records: dict[str, Container], texts: dict[str, str]) -> None:
        """A case at RUNNER/HANDLER/SUITE/NAME with these files."""
        folder = self.root / "ledger" / place
        folder.mkdir(parents=True)
        for name, record in records.items():
            packed = bytes(cramjam.snappy.compress_raw(chain.ledger.scope.encode(record)))
            (folder / f"{name}.ssz_snappy").write_bytes(packed)
        config = chain.ledger.config
        names = ("GENESIS_FORK_VERSION", "ALTAIR_FORK_VERSION", "SLOT_DURATION_MS")
        lines = [f"{name}: {_show(config[name])}\n" for name in ("PRESET_BASE", *names)]
        for name, text in ({"config": "".join(lines)} | texts).items():
            (folder / f"{name}.yaml").write_text(text)

    def write_entry(self, case: EntryCase) -> None:
        """One entry, applied to a state."""
        records: dict[str, Container] = {"pre": case.chain.state.copy(), "entry": case.signed}
        try:
            case.chain.add(case.signed)
        except Invalid:
            accepted = False
        else:
            accepted, records["post"] = True, case.chain.state
        if accepted != case.valid:
            raise RuntimeError(f"{case.name} must {'' if case.valid else 'not '}be accepted")
        self.write(f"operations/entry/{SUITE}/{case.name}", case.chain, records, {})

    def write_blocks(self, name: str, chain: Chain, pre: Any, blocks: list[Any], valid: bool = True) -> None:
        """Blocks, applied to a state."""
        records = {"pre": pre} | {f"blocks_{i}": block for i, block in enumerate(blocks)}
        if valid:
            records["post"] = chain.state
        self.write(
            f"sanity/blocks/{SUITE}/{name}", chain, records, {"meta": f"blocks_count: {len(blocks)}\n"}
        )

    def write_static(self, chain: Chain, record: Container) -> None:
        """A record's encoding and root."""
        name, root = type(record).__name__, chain.ledger.hash_tree_root(record)
        texts = {"roots": f"root: '0x{root.hex()}'\n"}
        self.write(f"ssz_static/{name}/{SUITE}/case_0", chain, {"serialized": record}, texts)


def _show(value: Any) -> str:
    return f"'0x{value.hex()}'" if isinstance(value, bytes) else str(value)


def write_genesis(writer: Writer) -> None:
    """First states, and geneses that start nothing."""
    for clock, name in ((LOGICAL_CLOCK, "logical_clock"), (WALL_CLOCK, "wall_clock")):
        genesis = make_genesis(clock=clock, validators=VALIDATORS)
        chain = Chain(genesis)
        writer.write(f"genesis/ledger/{SUITE}/{name}", chain, {"genesis": genesis, "post": chain.state}, {})
    deposit, other = make_genesis(validators=VALIDATORS).deposits[:2]
    refused: dict[str, dict[str, Any]] = {
        "known_fork_version": {"fork_version": bytes.fromhex("01017000")},
        "no_nonce": {"nonce": bytes(32)},
        "no_administrator": {"administrators": ()},
        "no_validator": {"deposits": ()},
        "possession_not_proven": {"deposits": (deposit.replace(signature=other.signature),)},
        "same_validator_twice": {"deposits": (deposit, deposit)},
    }
    for name, changes in refused.items():
        genesis = make_genesis(validators=VALIDATORS).replace(**changes)
        chain = Chain(make_genesis(validators=VALIDATORS))
        chain.ledger = Ledger(LEDGER, compute_config(genesis), BLS)
        writer.write(f"genesis/ledger/{SUITE}/{name}", chain, {"genesis": genesis}, {})


def write_chains(writer: Writer) -> None:
    """Chains of blocks: one that finalises what it published, and blocks that break a rule."""
    chain = Chain(make_genesis(validators=VALIDATORS))
    pre = chain.state.copy()
    for slot in range(1, 33):
        chain.add_block(*(chain.make_alice() if slot == 1 else []))
    writer.write_blocks("publish_and_finalise", chain, pre, chain.blocks)
    wall = Chain(make_genesis(clock=WALL_CLOCK, validators=VALIDATORS))
    pre = wall.state.copy()
    wall.add_block(timestamp=wall.state.timestamp + 3600)
    writer.write_blocks("wall_clock", wall, pre, wall.blocks)
    signed = wall.blocks[0]
    late = signed.message.body.replace(timestamp=signed.message.body.timestamp + 1)
    forged = signed.replace(message=signed.message.replace(body=late))
    writer.write_blocks("wrong_timestamp", wall, pre, [forged], valid=False)


def write_records(writer: Writer) -> None:
    """A sample of every record that the fork adds, as its default and as found in a state."""
    chain = start(policy=1)
    chain.add(chain.make_entry(BOB[:1], BOB_ROOT, Approve(**CONSENT)))
    own = [
        name
        for module in (entry_records, ledger_records)
        for name, kind in vars(module).items()
        if isinstance(kind, type) and issubclass(kind, Container) and kind.__module__ == module.__name__
    ]
    found = dict(_find_records(chain.state)) | {"Genesis": make_genesis(validators=VALIDATORS)}
    for name, _, signed in make_accepted():
        found |= {} if "lasting" in name else dict(_find_records(signed))
    for name in own:
        writer.write_static(chain, found.get(name) or chain.ledger.scope.schema(name).default())


def _find_records(record: Container) -> Iterator[tuple[str, Container]]:
    yield type(record).__name__, record
    for value in record.values():
        for part in value if isinstance(value, tuple) else (value,):
            if isinstance(part, Container):
                yield from _find_records(part)


def main(root: Path) -> None:
    """Writes every case below `root`, in place of what is there."""
    shutil.rmtree(root, ignore_errors=True)
    writer = Writer(root)
    write_genesis(writer)
    for cases, valid in ((make_accepted(), True), (make_refused(), False)):
        for name, chain, signed in cases:
            entry = EntryCase(name if valid else f"invalid_{name}", _fork(chain), signed, valid)
            writer.write_entry(entry)
    write_chains(writer)
    write_records(writer)


def _fork(chain: Chain) -> Chain:
    """A chain at the same state, to be changed alone."""
    twin = Chain.__new__(Chain)
    twin.__dict__.update(chain.__dict__ | {"state": chain.state.copy()})
    return twin


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else DESTINATION)
