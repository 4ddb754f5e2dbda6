"""One way down: the direction of imports, the size of things, and what a verifier may load."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "anchor"
FILES = sorted(PACKAGE.rglob("*.py"))
LAYERS = [
    {"errors", "types", "params", "files", "lock"},
    {"merkle"},
    {"ml", "consensus"},
    {"bundle"},
    {"chain"},
    {"node"},
    {"cli"},
]
RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}
MODULES = {"yaml": "pyyaml"}
"""Packages that are called otherwise than what they bring."""
HEAVY = {"numpy", "aiohttp", "web3", "yaml", "cramjam"}
SLOW = {"dataclasses", "inspect", "ctypes", "shutil", "cryptography", "pyblst", "py_ecc"}
"""What `anchor verify` starts without: each takes milliseconds, and is loaded where it is needed, if ever."""
RARE = {"anchor.bundle.seats", "anchor.consensus.light_client", "anchor.ml.hints", "anchor.ml.elsewhere"}
"""Our own, for other bundles than most, and for other models than the published one."""


def _imports(path: Path) -> Iterator[tuple[str, bool]]:
    """Every imported module, and whether it is imported when the file is."""
    tree = ast.parse(path.read_text())
    deferred = {
        id(node)
        for block in ast.walk(tree)
        if isinstance(block, ast.FunctionDef | ast.AsyncFunctionDef)
        or (isinstance(block, ast.If) and "TYPE_CHECKING" in ast.unparse(block.test))
        for node in ast.walk(block)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, id(node) not in deferred
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module, id(node) not in deferred
            if node.module == "anchor":
                for alias in node.names:
                    yield f"anchor.{alias.name}", id(node) not in deferred


def _part(module: str) -> str:
    return module.split(".")[1] if module.startswith("anchor.") else ""


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_down(path: Path) -> None:
    own = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    if own == "__init__":
        return  # the public names, imported lazily from where they live
    for module, _ in _imports(path):
        other = _part(module)
        if other in RANK and other != own:
            assert RANK[other] <= RANK[own], f"{own} imports {module}"
            assert RANK[own] == 0 or RANK[other] < RANK[own], f"{own} and {other} must not see each other"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_and_functions_are_short(path: Path) -> None:
    text = path.read_text()
    assert text.count("\n") <= 400
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            assert node.end_lineno - node.lineno < 40, node.name


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_public_things_have_docstrings(path: Path) -> None:
    tree = ast.parse(path.read_text())
    assert ast.get_docstring(tree) or not tree.body, "the module"
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and node.name[0] != "_":
            assert ast.get_docstring(node), node.name


def test_what_is_imported_is_declared() -> None:
    """Case 47: what another package happens to bring may be gone tomorrow."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    groups = [project["dependencies"], *project["optional-dependencies"].values()]
    declared = {re.split("[^a-zA-Z0-9_-]", line)[0].lower() for group in groups for line in group}
    for path in FILES:
        for module, _ in _imports(path):
            name = module.split(".")[0]
            if name not in sys.stdlib_module_names | {"anchor"}:
                assert MODULES.get(name, name) in declared, f"{path}: {name}"


def test_no_bare_assert_and_no_catch_all() -> None:
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            assert not isinstance(node, ast.Assert), f"{path}:{node.lineno}"
            if isinstance(node, ast.ExceptHandler):
                caught = "" if node.type is None else ast.unparse(node.type)
                assert caught not in ("", "Exception", "BaseException"), f"{path}:{node.lineno}"


def _load(module: str) -> set[str]:
    """Every module that is loaded once `module` is."""
    code = f"import sys, {module}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    return set(done.stdout.split())


@pytest.mark.parametrize("module", ["anchor.bundle.verify", "anchor.ml.verify", "anchor.cli.verify"])
def test_a_verifier_loads_nothing_heavy(module: str) -> None:
    assert not {name.split(".")[0] for name in _load(module)} & HEAVY


def test_a_verifier_starts_with_little() -> None:
    loaded = _load("anchor.cli.main, anchor.cli.verify")
    assert not loaded & (SLOW | RARE)
    assert "hashlib" not in loaded or "anchor.merkle._hashlib" in loaded  # where there is no kernel
