"""The package's own C code as wheels bring it: compiled ahead, so that no compiler is needed.

Wheels for x86-64 have each library twice: as any such processor runs it, and with AVX2 and FMA. ``setup.py`` makes
them; an installation from source has none.
"""

from __future__ import annotations

import ctypes
from functools import lru_cache
from pathlib import Path

SOURCES = {
    "native": ("platform.h", "kernels.h", "native.c", "condense.c"),
    "blocks": ("platform.h", "vectors.h", "panels.h", "blocks.c"),
    "saddle": ("platform.h", "vectors.h", "saddle.c", "saddle_solves.c"),
    "riccati": ("platform.h", "vectors.h", "panels.h", "riccati.c"),
    "newton": ("platform.h", "newton.c"),
    "window": ("platform.h", "kernels.h", "vectors.h", "window.c", "window_steps.c"),
    "processor": ("platform.h", "processor.c"),
}
"""Files of each library, one after another."""
FOLDER = Path(__file__).with_name("prebuilt")
FAST = "-avx2"
"""Ends the names of libraries that need AVX2 and FMA."""


def source(name: str) -> str:
    """C code of a library of this package."""
    return "\n".join(Path(__file__).with_name(part).read_text(encoding="ascii") for part in SOURCES[name])


def file_name(name: str, level: str = "") -> str:
    """Of a library; also on Windows, where any ending will do."""
    return f"{name}{level}.so"


def prebuilt_library(name: str) -> ctypes.CDLL | None:
    """The library for this processor; None if the package was installed without, or if it does not load."""
    levels = (FAST, "") if _fast(FOLDER) else ("",)
    return next((found for level in levels if (found := _load(FOLDER / file_name(name, level)))), None)


@lru_cache(maxsize=4)
def _fast(folder: Path) -> bool:
    processor = _load(folder / file_name("processor"))
    return processor is not None and bool(processor.has_avx2())


def _load(path: Path) -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL(str(path)) if path.exists() else None
    except OSError:
        return None
