"""The public names of the package, and nothing by accident."""

from __future__ import annotations

import subprocess
import sys

import pytest

import anchor

PUBLIC = [
    "AnchorError",
    "Invalid",
    "Malformed",
    "Misuse",
    "Unavailable",
    "Unsafe",
    "Verdict",
    "__version__",
    "open_verified",
    "verify",
]


def test_the_public_names() -> None:
    assert anchor.__all__ == PUBLIC
    for name in PUBLIC:
        assert getattr(anchor, name) is not None
    with pytest.raises(AttributeError):
        _ = anchor.nothing


def test_importing_the_package_imports_nothing_else() -> None:
    code = "import sys, anchor; print(*[name for name in sys.modules if name.startswith('anchor.')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
