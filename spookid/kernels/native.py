"""Small linear algebra along a horizon in compiled C, where there is any; NumPy does the same elsewhere.

The C code (``native.c``, ``condense.c``) works on eight steps at once, and is used when a horizon is long enough to
gain by it. What a wheel brings is taken first: it is as fast as what a compiler makes for this very processor. Else it
is compiled, and kept with the compiled kernels.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spookid.kernels.compiled import code_library, compiles
from spookid.kernels.compiler import CompilationError
from spookid.kernels.kernel import Array, location
from spookid.kernels.prebuilt import prebuilt_library, source

Routine = Callable[..., None]

_NAMES = (
    "settle_along",
    "fit_along",
    "condense_along",
    "products_along",
    "forward_along",
    "selected_inverse_along",
    "invert_along",
    "images_along",
    "pulls_along",
)


_SERVES = 10
"""By how many times fewer steps it pays than a problem's own code: it is compiled once for all problems, if not
beforehand."""


class Routines:
    """The functions of ``native.c``; arrays are given by their addresses, and nothing is checked."""

    def __init__(self, loaded: ctypes.CDLL) -> None:
        found = (_routine(loaded, name) for name in _NAMES)
        self.settle, self.fit, self.condense, self.products, self.forward, *rest = found
        self.selected_inverse, self.invert, self.images, self.pulls = rest


def routines(steps: int) -> Routines | None:
    """The routines; None as ``own_library``."""
    loaded = own_library("native", steps)
    return None if loaded is None else _found(loaded)


_found = lru_cache(maxsize=16)(Routines)


def own_library(name: str, steps: int) -> ctypes.CDLL | None:
    """C code of this package; None if there is neither a prebuilt library nor a compiler, or if it is not wanted for so
    few steps."""
    wanted = compiles(_SERVES * steps)
    return _loaded(name, os.environ.get("CC", ""), os.environ.get("PATH", "")) if wanted else None


def address(array: NDArray[Any] | None) -> ctypes.c_void_p:
    """Of an array's first number; null for None."""
    return ctypes.c_void_p(None if array is None else location(array))


@lru_cache(maxsize=16)
def _loaded(name: str, _command: str, _path: str) -> ctypes.CDLL | None:
    try:
        return prebuilt_library(name) or code_library(source(name))
    except (CompilationError, OSError):
        return None


def _routine(loaded: ctypes.CDLL, name: str) -> Routine:
    function = getattr(loaded, name)

    def call(*arguments: Any) -> None:
        wrapped = [ctypes.c_longlong(a) if isinstance(a, int) else a for a in arguments]
        if function(*wrapped):
            raise MemoryError(name)

    return call


class Lists:
    """Lists of indices as C code takes them: the address of their addresses."""

    def __init__(self, *lists: object) -> None:
        self.held = [np.ascontiguousarray(values, dtype=np.int32) for values in lists]
        self._pointers = (ctypes.c_void_p * len(lists))(*map(location, self.held))

    @property
    def address(self) -> ctypes.Array[ctypes.c_void_p]:
        """Of the first list's address."""
        return self._pointers


def strides(array: Array) -> tuple[int, ...]:
    """In numbers, not bytes."""
    return tuple(stride // array.itemsize for stride in array.strides)


def integers(values: object) -> NDArray[np.int64]:
    """As the routines take lists of indices."""
    return np.ascontiguousarray(values, dtype=np.int64)
