"""NumPy, imported at first use: a verifier reads the schemas of columns, and never needs their arrays."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from anchor.errors import Unavailable

if TYPE_CHECKING:
    import numpy as np
else:

    class _LazyNumPy:
        """Stands for the module until an attribute of it is asked for."""

        def __getattr__(self, name: str) -> Any:
            try:
                module = import_module("numpy")
            except ImportError:
                fix = "Install it with: pip install 'anchor-ledger[ledger]'"
                raise Unavailable("The consensus engine needs NumPy.", fix=fix) from None
            self.__dict__.update(vars(module))
            return getattr(module, name)

    np = _LazyNumPy()

__all__ = ["np"]
