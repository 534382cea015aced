"""Small linear algebra along a horizon in C (``native.c``, ``condense.c``), on eight steps at once.

NumPy does the same without the C extension.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spookid.kernels.arrays import Array, location
from spookid.kernels.library import library

Routine = Callable[..., None]

_NAMES = (
    "settle_along",
    "fit_along",
    "condense_along",
    "products_along",
    "forward_along",
    "substitute_along",
    "selected_inverse_along",
    "invert_along",
    "images_along",
    "pulls_along",
    "rank_along",
    "decompose_along",
    "orthonormal_along",
)


class Routines:
    """The functions of ``native.c``, ``condense.c`` and ``dense.c``; arrays are given by their addresses, unchecked."""

    def __init__(self, loaded: ctypes.CDLL) -> None:
        found = (_routine(loaded, name) for name in _NAMES)
        self.settle, self.fit, self.condense, self.products, self.forward, self.substitute, *rest = found
        self.selected_inverse, self.invert, self.images, self.pulls, self.rank, self.decompose, self.orthonormal = rest


def routines() -> Routines | None:
    """The routines; None without the C extension."""
    loaded = library()
    return None if loaded is None else _found(loaded)


_found = lru_cache(maxsize=4)(Routines)


def address(array: NDArray[Any] | None) -> ctypes.c_void_p:
    """Of an array's first number; null for None."""
    return ctypes.c_void_p(None if array is None else location(array))


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
