"""Covariances of neighbouring steps from a banded Cholesky factor, without the rest of the inverse.

With H = LLᵀ in blocks of t unknowns, and P = H⁻¹, the last step first (Takahashi, Fagan and Chin, PICA 1973):

    P_jk = −Σ_i P_ji L_ik L_kk⁻¹,    P_kk = (L_kk L_kkᵀ)⁻¹ − Σ_i (L_ik L_kk⁻¹)ᵀ P_ik,    k < i, j ≤ k + reach.

A chain's states eliminated from its damped normal equations: (JᵀJ + α D), or (JᵀJ + S + α D).

With the Cholesky factor L of the states' part and the border B, the corner loses (L⁻¹B)ᵀ(L⁻¹B); the gradient is the
border's last column. Steps that couple with the next alone are factorized by blocks in C; LAPACK's
banded Cholesky does everything else, and is faster where a step has very few unknowns.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import numpy as np

from spookid.kernels.arrays import Array
from spookid.kernels.blocks import Blocks, blocks
from spookid.kernels.native import Routines, address, routines
from spookid.kernels.scipy_parts import lapack
from spookid.records import dataclass
from spookid.solvers.structured import NormalEquations, NotPositiveDefiniteError

_NUMBERS = 150_000
"""Covariances that are held at once, of a few steps or of many."""


def selected_inverse(factor: Array, tangent: int) -> Array:
    """Covariances of each step and the next ones that it couples with, (N, (reach + 1) t, (reach + 1) t); zero beyond
    the last.

    Args:
        factor: L in LAPACK's lower band storage, ((reach + 1) t, N t).
        tangent: t.
    """
    result = np.zeros((factor.shape[1] // tangent + 1, len(factor), len(factor)))
    _fill(factor, tangent, result, routines())
    return result[:-1]


def selected_inverse_backward(
    columns: Callable[[slice], Array], steps: int, tangent: int
) -> Iterator[tuple[int, Array]]:
    """The same of some steps at a time, the last ones first: the number of the first and their covariances, which the
    next ones overwrite.

    Args:
        columns: gives some columns of L.
        steps: N.
    """
    width, by = len(columns(slice(0, tangent))), routines()
    size = min(max(_NUMBERS // width**2, 1), steps)
    buffer = np.zeros((size + 1, width, width))
    for stop in range(steps, 0, -size):
        start = max(stop - size, 0)
        here = buffer[: stop - start + 1]
        here[-1] = buffer[0]
        _fill(columns(slice(start * tangent, stop * tangent)), tangent, here, by)
        yield start, here[:-1]


def _fill(factor: Array, tangent: int, result: Array, by: Routines | None) -> None:
    """Covariances of successive steps, from those of the step behind them, which stand at the end of ``result``."""
    steps, width = len(result) - 1, len(factor)
    if by is not None:
        columns = np.ascontiguousarray(factor.T)
        by.selected_inverse(steps, tangent, width, address(columns), address(result))
        return
    lower = _columns(factor, tangent)
    root = np.linalg.inv(lower[:, :tangent])
    ahead, own = np.matmul(lower[:, tangent:], root), np.matmul(root.transpose(0, 2, 1), root)
    for here, following, G, D in zip(result[-2::-1], result[::-1], ahead[::-1], own[::-1], strict=False):
        known = following[: width - tangent, : width - tangent]
        across = known @ G
        here[tangent:, tangent:] = known
        here[tangent:, :tangent], here[:tangent, tangent:] = -across, -across.T
        square = D + G.T @ across
        here[:tangent, :tangent] = (square + square.T) / 2  # what rounding leaves of the other part would grow


def cross_covariances(covariances: Array, offsets: Sequence[int], states: Array) -> Array:
    """P Jᵀ for transposed Jacobians of the states (count, unknowns, rows), steps in order of offset; P as in
    ``selected_inverse``."""
    unknowns, seen = states.shape[1], covariances[: len(states)]
    if max(offsets) + 1 > len(offsets):
        t = unknowns // len(offsets)
        places = np.concatenate([np.arange(offset * t, (offset + 1) * t) for offset in offsets])
        seen = seen[:, places[:, None], places]
    return np.asarray(np.matmul(seen[:, :unknowns, :unknowns], states))


def _columns(factor: Array, tangent: int) -> Array:
    """Block columns of L, (N, (reach + 1) t, t)."""
    width, unknowns = factor.shape
    columns = np.zeros((unknowns // tangent, width, tangent))
    for i in range(tangent):
        columns[:, i:, i] = factor[: width - i, i::tangent].T
    return columns


_dpbtrf, _dpbtrs, _dtbtrs = lapack.dpbtrf, lapack.dpbtrs, lapack.dtbtrs

_NARROW = 32
"""Diagonals of a band up to which LAPACK takes its columns one by one, which it is slow at."""
_FEWEST_UNKNOWNS = 4
"""Of a step, for blocks to be faster than a band."""


@dataclass(frozen=True, eq=False)
class ForwardSubstitution:
    """y = L⁻¹ g for a gradient g of the states."""

    values: Array | None
    """(N t,); None if it stands with the factor."""
    taken: Array
    """(L⁻¹B)ᵀ y, what the elimination takes from the parameters' gradient, (n_p,)."""
    square: float
    """|y|²."""


class Elimination(Protocol):
    """A chain's states eliminated."""

    corner: Array
    """What the elimination takes from the parameters' corner, (n_p + 1, n_p + 1)."""

    def columns(self, some: slice) -> Array:
        """Columns of L in LAPACK's lower band storage, (bandwidth, some)."""

    @property
    def border(self) -> Array:
        """L⁻¹B, (N t, n_p + 1)."""

    @property
    def own(self) -> ForwardSubstitution:
        """Of the equations' own gradient."""

    def forward(self, gradient: Array) -> ForwardSubstitution:
        """Of another gradient (N t,)."""

    def states(self, forward: ForwardSubstitution, parameters: Array) -> Array:
        """The states' step (N t,) that belongs to a step of the parameters."""

    def responses(self) -> Array:
        """H⁻¹B for the border B with the gradient as its last column, (N t, n_p + 1); the caller's own. It takes L⁻¹B,
        so that only ``columns`` and ``solve`` are of use afterwards."""

    def solve(self, right: Array) -> Array:
        """H⁻¹ right, (N t, m), perhaps in the place of ``right``."""


def eliminate(
    equations: NormalEquations, damping: float, curvature: NormalEquations | None = None, overwrite: bool = False
) -> Elimination:
    """The states eliminated.

    Args:
        equations: JᵀJ; its diagonal is D.
        damping: α.
        curvature: S, if any.
        overwrite: True if the equations are not needed any more; a factor then takes their place.

    Raises:
        NotPositiveDefiniteError: if the damped band has no Cholesky factor.
    """
    diagonal = equations.diagonal
    whole = equations if overwrite else equations.copy()
    if curvature is not None:
        whole.add(curvature)
    tangent = len(whole.band) // max(equations.steps, 1)
    by = worthwhile(equations.steps, tangent, whole.band.shape[1] // max(tangent, 1) - 1)
    if by is not None:
        return BlockElimination(whole, diagonal, damping, by)
    return BandElimination(whole, diagonal, damping)


def worthwhile(steps: int, tangent: int, reach: int) -> Blocks | None:
    """What eliminates by blocks, if that pays: steps of so many unknowns that couple with so many of the next."""
    return blocks() if steps and tangent >= _FEWEST_UNKNOWNS and reach == 1 else None


class BlockElimination:
    """By blocks, in the place of the equations; see ``eliminate``."""

    def __init__(self, whole: NormalEquations, diagonal: Array, damping: float, by: Blocks) -> None:
        self._by, steps = by, whole.steps
        self._factor = np.ascontiguousarray(whole.band).reshape(steps, len(whole.band) // steps, -1)
        self._border = np.ascontiguousarray(whole.border.T)
        self.corner, failed = by.eliminate(self._factor, diagonal, damping, self._border)
        if failed:
            raise NotPositiveDefiniteError(f"leading minor {failed}")

    def columns(self, some: slice) -> Array:
        columns = self._factor.reshape(-1, self._factor.shape[2])[some].copy()
        np.reciprocal(columns[:, 0], out=columns[:, 0])  # the diagonal's inverse stands there
        return columns.T

    @property
    def border(self) -> Array:
        return self._border.T

    @property
    def own(self) -> ForwardSubstitution:
        return ForwardSubstitution(None, self.corner[:-1, -1], float(self.corner[-1, -1]))

    def forward(self, gradient: Array) -> ForwardSubstitution:
        values, products = self._by.forward(self._factor, self._border, np.ascontiguousarray(gradient))
        return ForwardSubstitution(values, products[:-1], float(values @ values))

    def states(self, forward: ForwardSubstitution, parameters: Array) -> Array:
        return self._by.backward(self._factor, self._border, forward.values, np.ascontiguousarray(parameters))

    def responses(self) -> Array:
        columns = self._border.T.copy(order="C")
        self._border = self._border[:, :0].copy()
        self._by.solve_transposed(self._factor, columns)
        return columns

    def solve(self, right: Array) -> Array:
        columns = np.ascontiguousarray(right)
        self._by.solve(self._factor, columns)
        return columns


class BandElimination:
    """By a banded Cholesky, in the place of the band; see ``eliminate``."""

    def __init__(self, whole: NormalEquations, diagonal: Array, damping: float) -> None:
        band = whole.band
        by = routines() if whole.steps and band.flags.c_contiguous and whole.border.T.flags.c_contiguous else None
        self._by, narrow = by, by is not None and band.shape[1] <= _NARROW
        # The transposed view is what LAPACK calls lower band storage, factorized in place.
        self._factor, failed = band.T, 0
        if not narrow:  # an unknown that moves nothing stays where it is
            band[:, 0] = np.where(diagonal == 0, 1.0, band[:, 0] + damping * diagonal)
            self._factor, failed = _dpbtrf(band.T, lower=1, overwrite_ab=1)
        if by is not None and not failed:
            self.border, minor = np.empty(whole.border.shape), np.zeros(1, dtype=np.int64)
            given = address(diagonal if narrow else None), ctypes.c_double(damping), whole.border.shape[1]
            by.forward(*band.shape, address(self._factor), *given, *map(address, (whole.border, self.border, minor)))
            failed = int(minor[0])
        if failed:
            raise NotPositiveDefiniteError(f"leading minor {failed}")
        if by is None:
            self.border = self._substituted(whole.border)
        self.corner = np.asarray(self.border.T @ self.border)

    def columns(self, some: slice) -> Array:
        return np.asarray(self._factor[:, some])

    @property
    def own(self) -> ForwardSubstitution:
        return ForwardSubstitution(self.border[:, -1], self.corner[:-1, -1], float(self.corner[-1, -1]))

    def forward(self, gradient: Array) -> ForwardSubstitution:
        values = self._substituted(gradient[:, None].copy())[:, 0]
        return ForwardSubstitution(values, self.border[:, :-1].T @ values, float(values @ values))

    def states(self, forward: ForwardSubstitution, parameters: Array) -> Array:
        assert forward.values is not None
        right = -(forward.values + self.border[:, :-1] @ parameters)
        return self._substituted(right[:, None], "T")[:, 0]

    def responses(self) -> Array:
        right, self.border = self.border, self.border[:0].copy()
        return self._substituted(right, "T")

    def solve(self, right: Array) -> Array:
        if (by := self._by) is None:
            return np.asarray(_dpbtrs(self._factor, right, lower=1)[0])
        return self._in_place(by, right, True, True)

    def _in_place(self, by: Routines, right: Array, forward: bool, backward: bool) -> Array:
        columns, (width, n) = np.ascontiguousarray(right), self._factor.shape
        by.substitute(n, width, address(self._factor), forward, backward, columns.shape[1], address(columns))
        return columns

    def _substituted(self, right: Array, transposed: str = "N") -> Array:
        """L⁻¹ right, or L⁻ᵀ right, (N t, columns), perhaps in its place."""
        if not right.shape[1]:
            return right  # of no columns OpenBLAS solves one all the same, and writes it behind the array
        if self._by is not None:
            return self._in_place(self._by, right, transposed == "N", transposed == "T")
        return np.asarray(_dtbtrs(self._factor, np.asfortranarray(right), uplo="L", trans=transposed)[0])
