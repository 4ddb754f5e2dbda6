"""`anchor policy`: who must approve before a model's versions move up."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Any

from anchor.cli.ledgers import add_place_options, look, parse_count, unlock
from anchor.cli.output import Outcome, Terminal, printable
from anchor.cli.plain import show_policy
from anchor.cli.secrets import add_passphrase_options, add_root_key_options
from anchor.errors import Misuse

if TYPE_CHECKING:
    from anchor.consensus.containers.entries import Policy
    from anchor.node.chain import State

HELP = """\
Show or set who must approve before a version of a model moves up, to staging
or to production. Moving down, archiving and revoking need nobody's approval.
The root key sets it: a thief of signing keys cannot do without approvals."""
EXAMPLES = """
anchor policy acme/tiny
anchor policy acme/tiny --approver ed25519:… --approver ed25519:… \\
  --approvals 1 --root-key alice.key.root
anchor policy acme/tiny --no-approvals --root-key alice.key.root
"""


def add_arguments(parser: ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument("model", metavar="ORG/NAME", help="the model")
    parser.add_argument(
        "--approver", metavar="KEY", action="append", default=[], help="who may approve; repeatable"
    )
    parser.add_argument(
        "--approvals", metavar="N", type=parse_count, help="how many of them must (default: all)"
    )
    parser.add_argument("--no-approvals", action="store_true", help="the publisher moves versions up alone")
    add_root_key_options(parser, "the publisher's root key, to set the policy")
    add_passphrase_options(parser)
    add_place_options(parser)


def run(options: Namespace, terminal: Terminal) -> Outcome:
    """Shows the policy, or records a new one."""
    if options.approver or options.no_approvals or options.approvals is not None:
        return _set(options, terminal)
    if options.root_key is not None:
        raise Misuse("Nothing says what the policy is.", fix="Give --approver, or --no-approvals.")
    return _show(options, terminal)


def _show(options: Namespace, terminal: Terminal) -> Outcome:
    with look(options, terminal) as chain:
        result = _show_policy(chain.get_head().state, options.model)
    return Outcome(_describe(result, "now"), result)


def _set(options: Namespace, terminal: Terminal) -> Outcome:
    from anchor.consensus.text import format_checkpoint
    from anchor.node.publishing import write_policy

    policy = _make_policy(options)
    if options.root_key is None:
        raise Misuse("To set a policy takes the publisher's root key.", fix="Name it with --root-key.")
    ledger, author = unlock(options, terminal, root=options.root_key)
    said = ledger.record(lambda chain: [write_policy(chain, author, options.model, policy)])
    result = _show_policy(said.state, options.model)
    result |= {"entry": said.positions[0], "final": format_checkpoint(said.final)}
    return Outcome(_describe(result, "from now on"), result)


def _make_policy(options: Namespace) -> Policy:
    """The policy that the options state. Raises Misuse for one that says nothing, or too much."""
    from anchor.consensus.containers.entries import Policy
    from anchor.consensus.text import parse_identity
    from anchor.params import MAX_APPROVERS

    approvers = tuple([parse_identity(key) for key in options.approver])
    needed = len(approvers) if options.approvals is None else options.approvals
    if options.no_approvals:
        if approvers or options.approvals is not None:
            raise Misuse("--no-approvals takes neither --approver nor --approvals.")
        return Policy(approvers=(), threshold=0)
    if not 0 < needed <= len(approvers) <= MAX_APPROVERS:
        raise Misuse(
            f"{needed} approvals cannot be had from {len(approvers)} approvers.",
            fix=f"Name 1 to {MAX_APPROVERS}, and ask for no more than those; or --no-approvals.",
        )
    return Policy(approvers=approvers, threshold=needed)


def _show_policy(state: State, model: str) -> dict[str, Any]:
    """The policy of a model. Raises Unavailable where there is no such model."""
    from anchor.consensus.forks.ledger.accessors import find_model
    from anchor.consensus.text import encode_name
    from anchor.errors import NoSuchRecord

    index = find_model(state, encode_name(model))
    if index is None:
        raise NoSuchRecord(f"There is no model {model!a} on this ledger.", fix="See: anchor status")
    return {"model": model, **show_policy(state.models[index].policy)}


def _describe(result: dict[str, Any], when: str) -> str:
    name, approvers, needed = printable(result["model"]), result["approvers"], result["approvals_needed"]
    if not needed:
        return f"{name} moves up without approvals {when}."
    count = f"{needed} of these {len(approvers)}" if needed < len(approvers) else "all of these"
    lines = [f"{when.capitalize()}, {count} must approve before a version of {name} moves up:", ""]
    return "\n".join([*lines, *[f"  {key}" for key in approvers]])
