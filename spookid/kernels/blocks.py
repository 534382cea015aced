"""Block-tridiagonal systems in C.

LAPACK factorizes a band of a few dozen diagonals column by column; here the rows of a step are factorized together,
with the border in the same sweep, at a third of the time. Positive definite matrices take Cholesky's factors
(``blocks.c``); those with the multipliers of hard rows, LU with row exchanges within a step (``saddle.c``, and
``saddle_solves.c`` for what follows from it).
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spookid.kernels.arrays import Array, Integers, Mask, location
from spookid.kernels.library import library
from spookid.kernels.native import address
from spookid.kernels.thread_pool import Workspace
from spookid.records import dataclass

LANES, ROWS = 8, 4
"""Numbers in a vector, and rows that are factorized at once."""


class Blocks:
    """The functions of the C code."""

    def __init__(self, loaded: ctypes.CDLL) -> None:
        names = ("eliminate_along", "forward_blocks", "backward_blocks", "forward_columns", "backward_columns")
        self._eliminate, self._forward, self._backward, *both = (getattr(loaded, name) for name in names)
        self._forward_columns, self._backward_columns = both
        self._eliminate.restype = ctypes.c_longlong

    def eliminate(self, band: Array, diagonal: Array, damping: float, border: Array) -> tuple[Array, int]:
        """Factorize in place: the factor L stands where the band was, L⁻¹ border where the border was.

        Args:
            band: lower band of H, transposed, (N, t, 2 t), C-contiguous.
            diagonal: D, (N t,): H + damping D is factorized, with 1 in the place of a diagonal that has D = 0.
            damping: α.
            border: (m, N t), C-contiguous.

        Returns:
            Products through the inverse of the border with itself, (m, m).
            0, or the number of the first pivot that is not positive.
        """
        n, t, _ = band.shape
        m = len(border)
        wide, high = -(-m // LANES), -(-t // LANES)
        buffer = aligned((2, -(-t // ROWS) * ROWS, (2 * high + wide) * LANES))
        corner = aligned((wide * LANES, wide * LANES))
        corner[:] = 0.0
        failed = self._eliminate(
            *sizes(n, t, m),
            *(address(band), address(diagonal), ctypes.c_double(damping), address(border)),
            *(address(buffer), address(corner)),
        )
        return symmetric(corner[:m, :m]), int(failed)

    def forward(self, factor: Array, border: Array, right: Array) -> tuple[Array, Array]:
        """y = L⁻¹ right, (N t,), and (L⁻¹ border)ᵀ y, (m,), for right (N t,), C-contiguous; with what ``eliminate``
        left of band and border."""
        n, t, _ = factor.shape
        out, pulled = np.empty(n * t), np.empty(len(border))
        self._forward(*sizes(n, t, len(border)), *addresses(factor, border, right, out, pulled))
        return out, pulled

    def backward(self, factor: Array, border: Array, solved: Array | None, move: Array) -> Array:
        """L⁻ᵀ of −(solved + Y move), (N t,), with Y all columns of L⁻¹ border but the last, which is ``solved`` if
        none is given."""
        n, t, _ = factor.shape
        out = np.empty(n * t)
        self._backward(*sizes(n, t, len(border)), *addresses(factor, border, solved, move, out))
        return out

    def solve(self, factor: Array, right: Array) -> None:
        """L⁻ᵀ L⁻¹ right in the place of right (N t, m), C-contiguous."""
        self._substitute(self._forward_columns, factor, right)
        self._substitute(self._backward_columns, factor, right)

    def solve_transposed(self, factor: Array, right: Array) -> None:
        """L⁻ᵀ right in the place of right (N t, m), C-contiguous."""
        self._substitute(self._backward_columns, factor, right)

    @staticmethod
    def _substitute(function: Callable[..., object], factor: Array, right: Array) -> None:
        n, t, _ = factor.shape
        m = right.shape[1]
        buffer = aligned((2, t, -(-m // LANES) * LANES))
        function(*sizes(n, t, m), *addresses(factor, right, buffer))


@dataclass(frozen=True, eq=False)
class Places:
    """Where the multipliers of hard rows stand: with the later step that a row sees, else with the earlier."""

    later: Integers
    """Of each row, (count, m): 1 the later of its steps, 0 the earlier, −1 nowhere, for the row is empty."""
    slot: Integers
    """Place in that step's block, (count, m)."""
    rows: Integers
    """Sizes of the blocks, (N,)."""
    most: int
    """Room for one."""
    linked: Integers
    """Unknowns of a step that soft rows couple with the step before, ascending."""
    sizes: Integers
    """As the C code takes them: N, t, m, columns, borders, most, how many unknowns are linked, and the most multipliers
    of rows that link a step with the one before."""

    @classmethod
    def of(
        cls, later: Integers, slot: Integers, rows: Integers, linked: Integers, tangent: int, columns: int
    ) -> Places:
        """With hard rows of so many columns."""
        most, behind = -(-rows.max() // ROWS) * ROWS, np.sum(later[1:] > 0, axis=1).max(initial=0)
        given = len(rows), tangent, later.shape[1], columns, columns - 2 * tangent, most, len(linked), behind
        return cls(later, slot, rows, int(most), linked, np.array(given, dtype=np.int64))

    @cached_property
    def held(self) -> Mask:
        """True for rows that have a multiplier, (count, m)."""
        return self.later >= 0

    @cached_property
    def where(self) -> Integers:
        """Places of the multipliers that stand anywhere, in arrays (N, most)."""
        steps = np.arange(len(self.later))[:, None] + self.later - 1
        return np.asarray((steps * self.most + self.slot)[self.held])


class SaddleBlocks:
    """Symmetric indefinite systems K with hard rows; all arrays C-contiguous."""

    def __init__(self, loaded: ctypes.CDLL) -> None:
        names = ("place_rows", "factorize_saddle", "forward_saddle", "backward_saddle")
        self._place, self._factorize, self._forward, self._backward = (getattr(loaded, name) for name in names)
        self._rows = loaded.forward_rows, loaded.backward_rows
        self._inverse = loaded.inverse_of_saddle
        self._factorize.restype = ctypes.c_longlong

    def place(self, steps: int, tangent: int, hard: Array, linked: Integers) -> Places:
        """Places for the rows of ``hard``, transposed Jacobians (count, 2 t + n_p + 1, m) of which the k-th are of
        steps k − 1 and k, where soft rows couple the ``linked`` unknowns of a step with the step before."""
        count, columns, m = hard.shape
        later, slot = np.empty((2, count, m), dtype=np.int64)
        rows = np.empty(steps, dtype=np.int64)
        given = np.array([steps, tangent, m, columns, columns - 2 * tangent, 0, len(linked), 0], dtype=np.int64)
        self._place(address(given), *sizes(count), *addresses(hard, later, slot, rows))
        return Places.of(later, slot, rows, linked, tangent, columns)

    def factorize(
        self,
        places: Places,
        band: Array,
        damping: Array,
        border: Array,
        hard: Array,
        compliance: Array,
        workspace: Workspace,
    ) -> tuple[SaddleFactor, Array, int]:
        """Factors, products through the inverse of the border with itself, and 0 or the first step without a pivot.

        Args:
            places: of the hard rows.
            band: lower band of the soft rows' matrix, transposed, (N, t, 2 t) or (N, t, t).
            damping: added to its diagonal, (N t,).
            border: of the soft rows, (N t, m) in whole columns.
            hard: transposed Jacobians and values of the hard rows, (count, 2 t + n_p + 1, m).
            compliance: taken from the diagonal of their multipliers, (count, m).
            workspace: holds the factors until the next ones.
        """
        steps, t, _, _, borders, most, links, late = places.sizes.tolist()
        if band.shape[2] == t:  # no soft row links two steps
            band = np.concatenate([band, np.zeros_like(band)], axis=2)
        behind, wide = links + late, -(-(links + late + borders) // LANES)
        panels = workspace.aligned("panels", (steps, most, (-(-most // LANES) + wide) * LANES))
        order = np.empty((steps, most), dtype=np.intc)
        corner = aligned((-(-borders // ROWS) * ROWS, wide * LANES))
        corner[:] = 0.0
        columns = np.ascontiguousarray(border.T)
        failed = self._factorize(
            *(address(places.sizes), *sizes(len(hard))),
            *addresses(band, damping, columns, hard, compliance, places.later, places.slot, places.rows),
            *addresses(places.linked, panels, order, corner),
        )
        if failed < 0:
            raise MemoryError("factorize_saddle")
        return SaddleFactor(places, panels, order), symmetric(corner[:borders, behind : behind + borders]), int(failed)

    def forward(self, factor: SaddleFactor, right: Array) -> tuple[Array, Array, float]:
        """A right-hand side (N, most) as ``backward`` takes it, borderᵀK⁻¹right, (m,), and rightᵀK⁻¹right."""
        places, borders = factor.places, int(factor.places.sizes[4])
        out, pulled, square = np.zeros(right.shape), np.empty(borders), np.empty(1)
        known = addresses(places.sizes, places.rows, places.linked, factor.panels, factor.order)
        self._forward(*known, *addresses(right, out, pulled, square))
        return out, pulled, float(square[0])

    def backward(self, factor: SaddleFactor, solved: Array | None, move: Array) -> Array:
        """−K⁻¹(right + border move), (N, most), with all columns of the border but the last, which is the right-hand
        side if ``solved``, one that went ``forward``, is not given."""
        places = factor.places
        out = np.empty((len(factor.panels), places.most))
        self._backward(*addresses(places.sizes, places.rows, places.linked, factor.panels, solved, move, out))
        return out

    def solve(self, factor: SaddleFactor, right: Array) -> Array:
        """K⁻¹ right, (N, most, m)."""
        if right.shape[2] == 1:
            half, _, _ = self.forward(factor, np.ascontiguousarray(right[:, :, 0]))
            return -self.backward(factor, half, np.zeros(factor.places.sizes[4]))[:, :, None]
        return self._substituted(factor, right, forward=True)

    def responses(self, factor: SaddleFactor) -> Array:
        """K⁻¹ border, (N, most, m)."""
        given = factor.places.sizes
        columns = np.arange(given[4]) + -(-given[5] // LANES) * LANES + given[6] + given[7]
        return self._substituted(factor, factor.panels[:, :, columns], forward=False)

    def _substituted(self, factor: SaddleFactor, right: Array, forward: bool) -> Array:
        places, (steps, most, m), wide = factor.places, right.shape, -(-right.shape[2] // LANES)
        both, carry = aligned((steps, most, wide * LANES)), aligned((most + 2 * ROWS, wide * LANES))
        both[:, :, :m], both[:, :, m:] = right, 0.0
        known = addresses(places.sizes, places.rows, places.linked, factor.panels)
        if forward:
            self._rows[0](*known, address(factor.order), *sizes(wide), *addresses(both, carry))
        self._rows[1](*known, *sizes(wide), *addresses(both, carry))
        return both[:, :, :m]

    def inverse(self, factor: SaddleFactor) -> tuple[Array, Array]:
        """Blocks of K⁻¹: those of each step's unknowns with all of its block, (N, t, most), and those with all of the
        next one's, (N − 1, t, most)."""
        places, t = factor.places, int(factor.places.sizes[1])
        own, across = (np.empty((count, t, places.most)) for count in (len(factor.panels), len(factor.panels) - 1))
        known = addresses(places.sizes, places.rows, places.linked, factor.panels, factor.order)
        if self._inverse(*known, *addresses(own, across)):
            raise MemoryError("inverse_of_saddle")
        return own, across


@dataclass(frozen=True, eq=False)
class SaddleFactor:
    """What ``SaddleBlocks.factorize`` makes."""

    places: Places
    panels: Array
    """(N, most, columns)."""
    order: NDArray[np.intc]
    """Exchanges of rows, (N, most)."""

    def determinants(self) -> tuple[Array, Array]:
        """Signs and logarithms of the magnitudes of the determinants of the steps' blocks; 0 and −∞ of a block where a
        row is implied by others."""
        pivots = np.einsum("kii->ki", self.panels[:, :, : self.places.most])
        places = np.arange(self.places.most)
        stand = places < self.places.rows[:, None]
        turns = np.sum(stand & (self.order != places), axis=1)
        with np.errstate(divide="ignore"):
            logarithms = -np.log(np.abs(np.where(stand, pivots, 1.0)))
        signs = np.prod(np.sign(np.where(stand, pivots, 1.0)), axis=1) * (-1.0) ** turns
        return signs, logarithms.sum(axis=1)


def blocks() -> Blocks | None:
    """The functions; None without the C extension."""
    loaded = library()
    return None if loaded is None else _blocks(loaded)


def saddle_blocks() -> SaddleBlocks | None:
    """Likewise, of systems with hard rows."""
    loaded = library()
    return None if loaded is None else _saddle_blocks(loaded)


_blocks, _saddle_blocks = lru_cache(maxsize=4)(Blocks), lru_cache(maxsize=4)(SaddleBlocks)


def sizes(*counts: int) -> tuple[ctypes.c_longlong, ...]:
    """As C code takes them."""
    return tuple(ctypes.c_longlong(count) for count in counts)


def addresses(*arrays: NDArray[Any] | None) -> list[ctypes.c_void_p]:
    """As C code takes them."""
    return [address(array) for array in arrays]


def symmetric(taken: Array) -> Array:
    """Products of which the upper triangle was subtracted."""
    return mirrored(-taken)


def mirrored(upper: Array) -> Array:
    """A square matrix made symmetric by its upper triangle."""
    return np.where(_below(len(upper)), upper.T, upper)


@lru_cache(maxsize=64)
def _below(count: int) -> Mask:
    return np.tri(count, k=-1, dtype=np.bool_)


def aligned(shape: tuple[int, ...]) -> Array:
    """Room that begins where a vector may."""
    count = math.prod(shape)
    buffer = np.empty(count + LANES)
    start = -location(buffer) % (LANES * buffer.itemsize) // buffer.itemsize
    return buffer[start : start + count].reshape(shape)
