"""Check, offline, that a machine-learning model is the one that was published, and that a network agreed.

verdict = anchor.verify("model/", trust="lab", model="acme/tiny")
with anchor.open_verified("model/", trust="lab", model="acme/tiny") as model:
    weights = model.get_tensor("layers.0.weight")
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from anchor.bundle.api import open_verified, verify
    from anchor.bundle.verdict import Verdict
    from anchor.errors import AnchorError, Invalid, Malformed, Misuse, Unavailable, Unsafe

__version__ = "0.1.0"
__all__ = [
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

_HOMES = {
    "open_verified": "anchor.bundle.api",
    "verify": "anchor.bundle.api",
    "Verdict": "anchor.bundle.verdict",
}


def __getattr__(name: str) -> Any:
    """Imports a public name where it is first asked for: `anchor --help` needs none of them."""
    if name not in __all__:
        raise AttributeError(f"module 'anchor' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES.get(name, "anchor.errors")), name)
