"""`anchor publish`: from a checkpoint on disk to a final entry and its bundle."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from anchor.cli.keygen import root_file
from anchor.cli.ledgers import add_place_options, compose_bundle, unlock
from anchor.cli.output import Outcome, Terminal, format_bytes, printable
from anchor.cli.secrets import ROOT, add_key_options, add_root_key_options, read_key, read_key_passphrase

if TYPE_CHECKING:
    from anchor.cli.recording import Recorder
    from anchor.consensus.containers.entries import Publish
    from anchor.consensus.containers.phase0 import Checkpoint
    from anchor.ml.manifest import Manifest
    from anchor.node.publishing import Author, Standing

HELP = """\
Publish a checkpoint on a ledger, wait until it is final, and write its bundle.
The publisher is registered, and the organisation claimed, where they are new."""
EXAMPLES = """
anchor publish model/ --model acme/tiny --version 1.0 --key alice.key
anchor publish model.safetensors --model acme/tiny --version 1.1 \\
  --key alice.key --lineage lineage.json -o tiny-1.1.anchor
"""


def add_arguments(parser: ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument("path", help="a checkpoint: a file, a folder, or a snapshot in a Hugging Face cache")
    parser.add_argument("--model", metavar="ORG/NAME", required=True, help="what it is called")
    parser.add_argument("--version", required=True, help="which version of it this is; never used before")
    add_key_options(parser)
    add_root_key_options(parser, "needed once a ledger (default: the key's FILE.root)")
    add_place_options(parser)
    parser.add_argument("--lineage", metavar="FILE", help="JSON that tells where the model comes from")
    parser.add_argument(
        "-o", "--output", metavar="BUNDLE", help="where the bundle goes (default: beside the model)"
    )


def run(options: Namespace, terminal: Terminal) -> Outcome:
    """Judges the entries, hashes the model, records it, and cuts the bundle."""
    from anchor.consensus.text import format_checkpoint, format_identity
    from anchor.ml.manifest import encode_manifest, manifest_root

    publication = _name(options)
    ledger, author = unlock(options, terminal, key=options.key)
    author = _prepare(options, ledger, author, publication)
    manifest = _hash(options, terminal)
    publication = publication.replace(manifest_root=manifest_root(manifest))
    made = ledger.publish(author, publication, encode_manifest(manifest))
    trusted, bundle = made.trusted, made.bundle
    place = _get_place(options)
    _save(place, bundle, options, trusted)
    result = {
        "model": options.model,
        "version": options.version,
        "manifest_root": publication.manifest_root,
        "publisher": format_identity(author.identity),
        "trust": format_checkpoint(trusted),
        "final": format_checkpoint(made.final),
        "bundle": str(place),
        "bundle_bytes": len(bundle),
        "verify": _compose_check(options, author, trusted, place),
    }
    return Outcome(_describe(result, terminal), result)


def _prepare(options: Namespace, ledger: Recorder, author: Author, publication: Publish) -> Author:
    """The author, with all keys that are needed. Refuses what would be refused after an hour of hashing."""
    from anchor.node.publishing import find_pending, write_publication

    with ledger.look() as chain:
        author = _complete(options, author, chain)
        if find_pending(chain, publication) is None:
            _require_new(options, ledger, author, chain, publication)
            chain.verify_entries(write_publication(chain, author, ledger.administrator, publication))
    return author


def _require_new(
    options: Namespace, ledger: Recorder, author: Author, chain: Standing, publication: Publish
) -> None:
    """Raises InvalidEntry for what the author has published already: it may lack no more than its bundle."""
    from anchor.consensus.forks.ledger.accessors import find_version
    from anchor.errors import InvalidEntry

    state = chain.get_head().state
    index = find_version(state, publication.model, publication.version)
    if index is None:
        return
    version, name = state.versions[index], f"{options.model}@{options.version}"
    if state.publishers[version.publisher].root_key == author.identity and not version.revoked:
        command = _compose_bundle(options, ledger.get_trusted(), str(_get_place(options)))
        raise InvalidEntry(
            f"{name!r} is published already.",
            fix=f"Choose another version; or if it only lacks its bundle, make that with: {command}",
        )


def _name(options: Namespace) -> Publish:
    """The publication, but for its manifest. Raises Misuse for names that are none."""
    from anchor.consensus.containers.entries import Publish
    from anchor.consensus.entries import require_model, require_version
    from anchor.consensus.text import encode_name
    from anchor.errors import InvalidEntry, Misuse

    model, version = encode_name(options.model), encode_name(options.version)
    try:
        require_model(model)
        require_version(version)
    except InvalidEntry as error:
        raise Misuse(error.what) from None
    return Publish(model=model, version=version, manifest_root=bytes(32))


def _complete(options: Namespace, author: Author, chain: Standing) -> Author:
    """The publisher with its root key, where this ledger has yet to learn its signing keys."""
    from anchor.errors import Misuse
    from anchor.node.keys import decrypt_secret, derive_root_key
    from anchor.node.publishing import needs_root_key

    if not needs_root_key(chain.get_head().state, author.identity):
        return author
    path = options.root_key or str(root_file(options.key))
    if not Path(path).is_file():
        raise Misuse(
            f"A publisher's first publication on a ledger needs its root key, and {path} is not there.",
            fix="Bring it for once, or name it with --root-key.",
        )
    file = read_key(path, ROOT)
    passphrase = read_key_passphrase(options, path, ROOT)
    return replace(author, root=derive_root_key(decrypt_secret(file, passphrase, path)))


def _hash(options: Namespace, terminal: Terminal) -> Manifest:
    """The manifest. Raises Invalid for a checkpoint that nobody should be given."""
    from anchor.bundle.api import find_bundle
    from anchor.cli.hash import exit_code, hash_model
    from anchor.errors import InvalidManifest
    from anchor.files import remove_leftovers, told_plainly

    beside = find_bundle(options.path)
    with told_plainly(beside.parent, "read"):
        remove_leftovers(beside)  # else they would be taken for the model's own
    found, manifest = hash_model(options.path, terminal, lineage=options.lineage)
    if exit_code(found.findings):
        first = next(finding for finding in found.findings if finding.answer)
        raise InvalidManifest(
            f"The checkpoint is not fit to be published: {first.path}: {first.what}",
            fix=f"See all of it with: anchor inspect {quote(options.path)}",
        )
    return manifest


def _save(place: Path, bundle: bytes, options: Namespace, trusted: Checkpoint) -> None:
    """Writes the bundle. Raises Unavailable, and says that the publication stands all the same."""
    from anchor.errors import Unavailable
    from anchor.files import write_over

    try:
        write_over(place, bundle)
    except Unavailable as error:
        name = f"{options.model}@{options.version}"
        raise Unavailable(
            f"{name} is published and final, but its bundle is not written: {error.what}",
            fix=f"Make it with: {_compose_bundle(options, trusted, 'FILE')}",
        ) from None


def _get_place(options: Namespace) -> Path:
    """Where the bundle goes."""
    from anchor.bundle.api import find_bundle

    return Path(options.output) if options.output else find_bundle(options.path)


def _compose_bundle(options: Namespace, trusted: Checkpoint, place: str) -> str:
    """The command that makes the bundle of what was published."""
    return compose_bundle(options, f"{options.model}@{options.version}", trusted, place=place)


def _compose_check(options: Namespace, author: Author, trusted: Checkpoint, place: Path) -> list[str]:
    """The command that checks what was published, argument by argument."""
    from anchor.bundle.api import find_bundle
    from anchor.consensus.text import format_checkpoint, format_identity

    words = ["anchor", "verify", options.path]
    if place != find_bundle(options.path):
        words += ["--bundle", str(place)]
    words += ["--model", f"{options.model}@{options.version}"]
    words += ["--publisher", format_identity(author.identity)]
    return [*words, "--trust", format_checkpoint(trusted)]


def _describe(result: dict[str, Any], terminal: Terminal) -> str:
    name = terminal.paint(f"{result['model']}@{result['version']}", "bold")
    words = [printable(quote(word)) for word in result["verify"]]
    pairs = [" ".join(words[i : i + 2]) for i in range(3, len(words), 2)]
    command = " \\\n    ".join([" ".join(words[:3]), *pairs])
    return (
        f"{name} is final.\n\n"
        f"manifest   0x{result['manifest_root'].hex()}\n"
        f"final      {result['final']}\n"
        f"publisher  {result['publisher']}\n"
        f"bundle     {printable(result['bundle'])}, {format_bytes(result['bundle_bytes'])}\n\n"
        f"Anyone can check it, offline:\n\n  {command}"
    )
