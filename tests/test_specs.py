"""Python blocks in specs/ say the same as the package: a function there is the function here."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


def _strip(node: ast.AST) -> str:
    """The source of a definition without its docstrings, in one spelling."""
    for part in ast.walk(node):
        body = getattr(part, "body", None)
        if isinstance(body, list) and len(body) > 1:
            part.body = [line for line in body if not _is_text(line)]  # type: ignore[attr-defined]
    return ast.unparse(node)


def _is_text(line: ast.AST) -> bool:
    return (
        isinstance(line, ast.Expr)
        and isinstance(line.value, ast.Constant)
        and isinstance(line.value.value, str)
    )


def _definitions(tree: ast.AST) -> list[tuple[str, str]]:
    kinds = (ast.FunctionDef, ast.ClassDef, ast.Assign, ast.AnnAssign)
    found = []
    for node in ast.walk(tree):
        if isinstance(node, kinds):
            target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
            name = getattr(node, "name", None) or (ast.unparse(target) if target is not None else "")
            found.append((name, _strip(node)))
    return found


def _package() -> set[tuple[str, str]]:
    everything: set[tuple[str, str]] = set()
    for path in (ROOT / "anchor").rglob("*.py"):
        everything.update(_definitions(ast.parse(path.read_text())))
    return everything


CODE = _package()
BLOCKS = [
    pytest.param(node, id=f"{path.name}:{getattr(node, 'name', None) or ast.unparse(node).split()[0]}")
    for path in sorted((ROOT / "specs").glob("*.md"))
    for block in BLOCK.findall(path.read_text())
    for node in ast.parse(block).body
    if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Assign | ast.AnnAssign)
]


@pytest.mark.parametrize("node", BLOCKS)
def test_a_block_is_the_code(node: ast.stmt) -> None:
    (name, text), *_ = _definitions(node)
    same_name = [other for other_name, other in CODE if other_name == name]
    assert same_name, f"the package defines no {name}"
    assert text in same_name
