"""Arrays, and where they are in memory."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Integers = NDArray[np.int64]

_Byte = ctypes.c_char


def location(array: NDArray[Any] | None) -> int:
    """Address of an array's first number; 0 if it has none, or for None."""
    if array is None or not array.size:
        return 0
    try:  # NumPy takes several times as long to tell
        return ctypes.addressof(_Byte.from_buffer(array.data))
    except (TypeError, ValueError):  # read-only, or not contiguous
        return int(array.ctypes.data)


def contiguous(values: object) -> Array:
    """Float64 C-contiguous array, as compiled code needs it."""
    return np.ascontiguousarray(values, dtype=np.float64)
