"""The native kernel; everything else about the package is in pyproject.toml.

`optional`: without a compiler the package still installs, and hashes through hashlib.
"""

from pathlib import Path

from setuptools import Extension, setup

KERNEL = Path("anchor/merkle/_kernel")

setup(
    ext_modules=[
        Extension(
            "anchor.merkle._native",
            sources=sorted(str(path) for path in KERNEL.glob("*.c")),
            depends=sorted(str(path) for path in KERNEL.glob("*.h")),
            define_macros=[("Py_LIMITED_API", "0x030B0000")],
            extra_compile_args=["-std=c11", "-O3", "-fvisibility=hidden"],
            py_limited_api=True,
            optional=True,
        )
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
