"""Which relative paths a manifest may name (rule 12), and which files it may pass over (rule 4)."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from typing import Final

MAX_PATH_BYTES: Final = 1024
MAX_NAME_BYTES: Final = 255

_DEVICE_NAMES: Final = frozenset(
    ["con", "prn", "aux", "nul", "conin$", "conout$"]
    + [f"{port}{n}" for port in ("com", "lpt") for n in "0123456789¹²³"]
)

IGNORED: Final = (".DS_Store", ".cache/", ".git/", ".gitattributes", "model.anchor")
"""All that may ever be passed over, sorted: a name that ends in `/` means the root's entry of that name with
all below it, `.DS_Store` a file in any folder, and the others a file in the root."""

_NEVER_IGNORED: Final = (
    # code
    ".py", ".pyc", ".pyd", ".pyi", ".pyo", ".pyw", ".pth", ".so", ".dylib", ".dll", ".js", ".mjs", ".wasm",
    ".sh", ".ipynb", ".jar", ".lua",
    # what loaders read as configuration or template
    ".json", ".jsonl", ".yaml", ".yml", ".toml", ".jinja", ".jinja2", ".j2", ".model", ".txt", ".tiktoken",
    # weights
    ".safetensors", ".bin", ".pt", ".ckpt", ".gguf", ".ggml", ".onnx", ".onnx_data", ".h5", ".hdf5", ".keras",
    ".npz", ".npy", ".pb", ".tflite", ".pkl", ".pickle", ".msgpack", ".distcp", ".mlmodel", ".zip", ".tar",
)  # fmt: skip


def path_defect(path: str) -> str:
    """What makes `path` unfit to be named by a manifest; empty when nothing does."""
    try:
        encoded = path.encode()
    except UnicodeEncodeError:
        return "it is not UTF-8"
    if not encoded or len(encoded) > MAX_PATH_BYTES:
        return f"it has {len(encoded)} bytes, and a path has 1 to {MAX_PATH_BYTES}"
    if "\\" in path:
        return "it has a backslash"
    if ":" in path:
        return "it has a colon, which names a drive or a stream on Windows"
    if path.startswith("/"):
        return "it is absolute"
    for name in path.split("/"):
        if defect := _name_defect(name):
            return defect
    return ""


def _name_defect(name: str) -> str:
    if name in ("", "."):
        return "it has an empty component"
    if name == "..":
        return "it climbs with '..'"
    if len(name.encode()) > MAX_NAME_BYTES:
        return f"a component has more than {MAX_NAME_BYTES} bytes"
    if any(unicodedata.category(character) == "Cc" for character in name):
        return "it has a control character"
    if name[-1] in ". ":
        return "a component ends in a dot or a space"
    if name.partition(".")[0].rstrip(" ").casefold() in _DEVICE_NAMES:
        return f"{name!r} is a device on Windows"
    return ""


def folded(path: str) -> str:
    """The key under which two paths are one file on a file system that folds case or normalises."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())


def clash(paths: Iterable[str]) -> tuple[str, str] | None:
    """Two of `paths` that cannot both exist everywhere: equal when folded, or a file where a folder is."""
    files: dict[str, str] = {}
    for path in paths:
        if (key := folded(path)) in files:
            return files[key], path
        files[key] = path
    for key, path in files.items():
        folder = key.rpartition("/")[0]
        while folder:
            if folder in files:
                return files[folder], path
            folder = folder.rpartition("/")[0]
    return None


def is_ignored(path: str, rules: Iterable[str] = IGNORED) -> bool:
    """Whether `rules` (of `IGNORED`) pass over `path`. Code, configuration and weights never are."""
    if is_protected(path):
        return False
    name = path.rpartition("/")[2]
    top = path.partition("/")[0] + "/"
    return any(rule in (top, path) or rule == ".DS_Store" == name for rule in rules)


def is_protected(path: str) -> bool:
    """Whether `path` is code, configuration, a template or weights by its name: never passed over."""
    return path.lower().endswith(_NEVER_IGNORED)
