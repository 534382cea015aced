"""The package's C code: built when the package is, once for each level of processors, and loaded for this one.

Without it, as where the package was installed from its source without a compiler, CasADi's virtual machine and NumPy
do the same work, slowly.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
from functools import lru_cache
from pathlib import Path

from spookid.errors import ProblemError

UNITS = ("program", "interpreter", "native", "condense", "dense", "chain", "newton", "window", "processor")
"""C files that are compiled one by one, and linked to one library."""
_AVX2 = ("-mavx2", "-mfma")
LEVELS = {"baseline": (), "avx2": _AVX2, "avx512": (*_AVX2, *(f"-mavx512{part}" for part in ("f", "vl", "dq", "bw")))}
"""Instruction sets of x86-64 with the flags of a compiler, by the number that ``processor.c`` gives them. Other
processors have the first alone."""
SOURCE = Path(__file__).parent
FOLDER = SOURCE / "compiled"
SETTING = "SPOOKID_NATIVE"
"""Environment variable: "off", or the level to load instead of the best one."""

ABSENT = (
    "The C extension is not installed, so fits take many times as long: install spookid from a wheel, or where "
    "there is a C compiler (gcc or clang)."
)
STALE = "The C extension is older than its source, so fits take many times as long: install spookid again."


def file_name(level: str) -> str:
    """Of the library for a level; also on Windows, where any ending will do."""
    return f"spookid-{level}.so"


def digest() -> str:
    """What a library knows its source by."""
    files = sorted([*SOURCE.glob("*.c"), *SOURCE.glob("*.h")])
    return hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()[:16]


def library() -> ctypes.CDLL | None:
    """The library for this processor; None if there is none, or if it is not wanted.

    Raises:
        ProblemError: if ``SPOOKID_NATIVE`` is neither "off" nor a level that this processor has.
    """
    return _found(os.environ.get(SETTING, "").lower())[0]


def level() -> str:
    """Of the library that is loaded; empty if there is none."""
    return _found(os.environ.get(SETTING, "").lower())[1]


def evaluator() -> str:
    """What evaluates kernels, in words."""
    return f"block interpreter ({found})" if (found := level()) else "CasADi's virtual machine"


def warning() -> str:
    """Why there is no library although it is wanted; empty if there is nothing to say."""
    return _found(os.environ.get(SETTING, "").lower())[2]


@lru_cache(maxsize=8)
def _found(wanted: str) -> tuple[ctypes.CDLL | None, str, str]:
    """The library, its level, and why there is none."""
    names = list(LEVELS)
    if wanted not in ("", "off", *names):
        raise ProblemError(f"the environment variable {SETTING} is {wanted!r}; set it to off, {', '.join(names)}")
    if wanted == "off":
        return None, "", ""
    base = _load(names[0])
    if base is None:
        return None, "", ABSENT
    if (SOURCE / "program.c").exists() and base.source_digest() != int(digest(), 16):
        return None, "", STALE
    known = names[: base.processor_level() + 1]
    if wanted and wanted not in known:
        raise ProblemError(
            f"the environment variable {SETTING} is {wanted!r}, an instruction set that this processor does not "
            f"have; set it to off, {', '.join(known)}"
        )
    for name in [wanted] if wanted else reversed(known):
        if (loaded := base if name == names[0] else _load(name)) is not None:
            return loaded, name, ""
    return None, "", ABSENT


def _load(level: str) -> ctypes.CDLL | None:
    try:
        loaded = ctypes.CDLL(str(FOLDER / file_name(level)))
    except OSError:
        return None
    loaded.source_digest.restype = ctypes.c_ulonglong
    return loaded
