"""Cholesky of block-tridiagonal matrices in compiled C, where a compiler is at hand.

LAPACK factorizes a band of a few dozen diagonals column by column; here the rows of a step are factorized together,
with the border in the same sweep, at a third of the time. The C code is ``blocks.c``.
"""

from __future__ import annotations

import ctypes
import os
from functools import lru_cache
from pathlib import Path

import numpy as np

from spookid.compiled import load, wanted
from spookid.compiler import CompilationError
from spookid.kernels import Array
from spookid.native import address

_SOURCE = Path(__file__).with_name("blocks.c")
_LANES, _ROWS = 8, 4
"""Numbers in a vector, and rows that are factorized at once."""


class Blocks:
    """The functions of ``blocks.c``."""

    def __init__(self, loaded: ctypes.CDLL) -> None:
        self._eliminate, self._forward, self._backward = (
            getattr(loaded, name) for name in ("eliminate_along", "forward_blocks", "backward_blocks")
        )
        self._eliminate.restype = ctypes.c_longlong

    def eliminate(self, band: Array, diagonal: Array, damping: float, border: Array) -> tuple[Array, Array, int]:
        """Factors, and products through the inverse of the border with itself.

        Args:
            band: lower band of H, transposed, (N, t, 2 t), C-contiguous.
            diagonal: D, (N t,): H + damping D is factorized, with 1 in the place of a diagonal that has D = 0.
            damping: α.
            border: (N t, m) in whole columns.

        Returns:
            Factors (N, rows, columns), all padded: per step the triangle, the rows of the next step, and L⁻¹ border.
            The products, (m, m).
            0, or the number of the first pivot that is not positive.
        """
        n, t, _ = band.shape
        m = border.shape[1]
        wide, high = -(-m // _LANES), -(-t // _LANES)
        factor = _aligned((n, -(-t // _ROWS) * _ROWS, (2 * high + wide) * _LANES))
        corner = _aligned((wide * _LANES, wide * _LANES))
        corner[:] = 0.0
        columns = np.ascontiguousarray(border.T)
        failed = self._eliminate(
            *_sizes(n, t, m),
            *(address(band), address(diagonal), ctypes.c_double(damping), address(columns)),
            *(address(factor), address(corner)),
        )
        upper = -np.triu(corner[:m, :m])
        return factor, upper + np.triu(upper, 1).T, int(failed)

    def forward(self, factor: Array, m: int, right: Array) -> tuple[Array, Array]:
        """y = L⁻¹ right, (N t,), and (L⁻¹ border)ᵀ y, (m,), for right (N, t), C-contiguous."""
        n, t = right.shape
        out, pulled = np.empty(n * t), np.empty(-(-m // _LANES) * _LANES)
        self._forward(*_sizes(n, t, m), address(factor), address(right), address(out), address(pulled))
        return out, pulled[:m]

    def backward(self, factor: Array, t: int, half: Array | None, move: Array) -> Array:
        """L⁻ᵀ of −(half + Y move), (N t,), with Y all columns of L⁻¹ border but the last, which is ``half`` if none is
        given."""
        n, m = len(factor), len(move) + 1
        out = np.empty(n * t)
        self._backward(*_sizes(n, t, m), address(factor), address(half), address(move), address(out))
        return out


def blocks(steps: int) -> Blocks | None:
    """The functions, None if there is no compiler, or if that is not wanted for so few steps."""
    return _loaded(os.environ.get("CC", ""), os.environ.get("PATH", "")) if wanted(steps) else None


@lru_cache(maxsize=4)
def _loaded(_command: str, _path: str) -> Blocks | None:
    try:
        return Blocks(load(_SOURCE.read_text(encoding="ascii")))
    except (CompilationError, OSError):
        return None


def _sizes(*sizes: int) -> tuple[ctypes.c_longlong, ...]:
    return tuple(ctypes.c_longlong(size) for size in sizes)


def _aligned(shape: tuple[int, ...]) -> Array:
    """Room that begins where a vector may."""
    count = int(np.prod(shape))
    room = np.empty(count + _LANES)
    start = -room.ctypes.data % (_LANES * room.itemsize) // room.itemsize
    return room[start : start + count].reshape(shape)
