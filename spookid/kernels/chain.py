"""A chain's states eliminated in order of time, with the multipliers of equality constraints: in C (``chain.c``), or by
NumPy.

With H = JᵀJ of the residuals and equality constraints A x = b that link steps, ordered by stages of a few steps, the
multipliers of a row behind the last step that it sees,

    K = [H + AᵀA  Aᵀ],    K = Uᵀ s U,    s = ±1,
        [A        −ε]

has as many positive pivots as unknowns and as many negative ones as rows in every stage, for AᵀA makes each leading
block of H + AᵀA definite in what the rows determine: rows are never exchanged. A multiplier whose pivot is rounding
belongs to a row that others imply, and is left out. Parameters, and the gradient as the last column, are a border.
"""

from __future__ import annotations

import ctypes
from functools import lru_cache
from typing import Any

import numpy as np

from spookid.kernels.arrays import Array, location
from spookid.kernels.chain_by_numpy import ByNumPy
from spookid.kernels.library import library
from spookid.kernels.native import declared
from spookid.kernels.stages import LANES, ROWS, Factors, aligned, mirrored


class Chain(Factors):
    """A chain, factorized by ``sweep``; arguments as of ``Factors``."""

    def __init__(self, *given: Any, **settings: Any) -> None:
        super().__init__(*given, **settings)
        loaded = library()
        self._by = ByNumPy() if loaded is None else _compiled(loaded)

    def sweep(self, first: int = 0, last: int | None = None) -> int:
        """Eliminate some stages after those before; 0, or the number of the first that has no pivot."""
        failed, logarithm = self._by.sweep(self, first, self.stages if last is None else last)
        self.logarithm += logarithm
        return failed

    @property
    def taken(self) -> Array:
        """borderᵀK⁻¹border of the stages so far, (b, b)."""
        return mirrored(-self.corner[: self.borders, : self.borders])

    def forward(self, right: Array) -> tuple[Array, Array, float]:
        """A right-hand side (n, T) as ``backward`` takes it, borderᵀK⁻¹right, (b,), and rightᵀK⁻¹right."""
        return self._by.forward(self, right)

    def backward(self, half: Array | None, move: Array) -> Array:
        """−K⁻¹(right + border move), (n, T), for ``half`` of a right-hand side or none."""
        return self._by.backward(self, half, move)

    def solve(self, right: Array | None) -> Array:
        """K⁻¹ right, (n, T, m), of the result of ``stood``, overwriting it; None: of the border."""
        if right is not None and right.shape[2] == 1:
            half = self.forward(right[:, :, 0])[0]
            return -self.backward(half, np.zeros(self.borders))[:, :, None]
        if right is None:
            right = np.empty((self.stages, self.T, self.borders))
            self._by.solve(self, right, True)
            return right
        self._by.solve(self, right, False)
        return right

    def inverse(self, first: int, last: int, ahead: Array | None) -> tuple[Array, Array]:
        """Blocks of K⁻¹, of some stages and the r next of each, (count, S, S), and what the stages before them take for
        ``ahead``; None: of the end."""
        wide = self.r * self.T
        if ahead is None:
            ahead = aligned((wide + ROWS, -(-wide // LANES) * LANES))
            ahead[:] = 0.0
        return self._by.inverse(self, first, last, ahead), ahead


class _Rows(ctypes.Structure):
    """The structure ``Hard`` of ``chain.c``."""

    _fields_ = [(name, ctypes.c_longlong) for name in ("count", "rows", "offsets", "at")] + [
        (name, ctypes.c_void_p) for name in ("offset", "matrix", "slack")
    ]


class _Compiled:
    """The functions of ``chain.c``."""

    def __init__(self, loaded: ctypes.CDLL) -> None:
        self._sweep = declared(loaded, "chain_sweep", 14, ctypes.c_longlong)
        self._forward = declared(loaded, "chain_forward", 7, ctypes.c_double)
        self._backward = declared(loaded, "chain_backward", 7, None)
        self._solve, self._inverse = declared(loaded, "chain_solve", 7), declared(loaded, "chain_inverse", 6)

    def sweep(self, c: Chain, first: int, last: int) -> tuple[int, float]:
        assert c.given is not None
        logarithm = ctypes.c_double()
        held = [np.array(rows.offsets, dtype=np.int64) for rows in c.hard]
        matrices = [np.ascontiguousarray(rows.matrix) for rows in c.hard]
        hard = (_Rows * max(len(held), 1))(
            *(
                _Rows(len(m), m.shape[2], len(o), at.start, *map(location, (o, m, rows.slack)))
                for rows, (_, at), o, m in zip(c.hard, c.places, held, matrices, strict=True)
            )
        )
        panels = c.panels[first:last] if len(c.panels) else None
        failed = self._sweep(
            *(location(c.sizes), first, last, *map(location, c.given), hard, len(held)),
            *map(location, (c.front, c.corner, panels, *c.Y)),
            ctypes.byref(logarithm),
        )
        if failed < 0:
            raise MemoryError("chain_sweep")
        return int(failed), logarithm.value

    def forward(self, c: Chain, right: Array) -> tuple[Array, Array, float]:
        half, pulled = np.empty((c.stages, c.T)), np.empty(c.borders)
        return half, pulled, self._forward(*map(location, (c.sizes, c.panels, *c.Y, right, half, pulled)))

    def backward(self, c: Chain, half: Array | None, move: Array) -> Array:
        found, moves = np.empty((c.stages, c.T)), np.ascontiguousarray(move)
        self._backward(*map(location, (c.sizes, c.panels, *c.Y, half, moves, found)))
        return found

    def solve(self, c: Chain, both: Array, border: bool) -> None:
        self._solve(*map(location, (c.sizes, c.panels, *c.Y)), both.shape[2], border, location(both))

    def inverse(self, c: Chain, first: int, last: int, ahead: Array) -> Array:
        found = np.empty((last - first, c.S, c.S))
        self._inverse(location(c.sizes), first, last, *map(location, (c.panels, ahead, found)))
        return found


_compiled = lru_cache(maxsize=4)(_Compiled)
