"""One factor's linearization along a chain: its rows in memory, or a stream of them that is computed when asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache

import numpy as np

from spookid.kernels.arrays import Array, Integers
from spookid.kernels.kernel import Call
from spookid.kernels.native import Routines, address, integers, routines
from spookid.records import dataclass


@dataclass(frozen=True, eq=False)
class Rows:
    """One factor's linearization along one chain, in the unknowns that are left."""

    offsets: tuple[int, ...]
    matrix: Array
    """(count, columns + 1, rows): transposed Jacobian, steps in order of offset, parameters last; then the residual."""
    complement: Array | None
    """Orthonormal basis of the residuals that private unknowns cannot reach, (count, all rows, rows); None: all."""
    places: Integers | None = None
    """Where numbers stand in a step's matrix, all others being zero; None: everywhere."""

    def reduce(self, residual: Array) -> Array:
        """A residual (count, all rows) in these rows."""
        if self.complement is None:
            return residual
        return np.asarray(np.matmul(residual[:, None, :], self.complement)[:, 0])

    @property
    def shape(self) -> tuple[int, int, int]:
        """Of the matrix."""
        count, columns, rows = self.matrix.shape
        return count, columns, rows

    def border_image(self, steps: Array) -> Array:
        """J times steps of the parameters, and the residual times what stands below them, (n_p + 1, m):
        (count, m, rows)."""
        states, rows = self.matrix.shape[1] - len(steps), self.matrix.shape[2]
        if self.places is not None:
            seen = np.unique(self.places[self.places >= states * rows] // rows)
            if 2 * len(seen) < len(steps):  # a sensor shows few of the parameters
                return np.asarray(np.matmul(steps[seen - states].T, self.matrix[:, seen]))
        return np.asarray(np.matmul(steps.T, self.matrix[:, states:]))

    def image(self, steps: Array) -> Array:
        """J times steps of the states (N, tangent, m): (count, m, rows)."""
        count, t, m = len(self.matrix), *steps.shape[1:]
        if (by := self._by) is not None:
            given, out = np.ascontiguousarray(steps), np.empty((count, m, self.matrix.shape[2]))
            by.images(*self._sizes(t, m), address(given), address(out))
            return out
        columns = np.concatenate([steps[offset : offset + count] for offset in self.offsets], axis=1)
        return np.asarray(np.matmul(columns.transpose(0, 2, 1), self.matrix[:, : columns.shape[1]]))

    def pull(self, columns: Array, steps: Array) -> None:
        """Add Jᵀ times columns (count, m, rows) to steps of the states (N, tangent, m)."""
        t, m = steps.shape[1:]
        if (by := self._by) is not None and steps.flags.c_contiguous:
            given = np.ascontiguousarray(columns)
            by.pulls(*self._sizes(t, m), address(given), address(steps))
            return
        across = columns.transpose(0, 2, 1)
        for i, offset in enumerate(self.offsets):
            steps[offset : offset + len(across)] += np.matmul(self.matrix[:, i * t : (i + 1) * t], across)

    @property
    def _by(self) -> Routines | None:
        return routines() if self.matrix.flags.c_contiguous else None

    def _sizes(self, tangent: int, columns: int) -> tuple[object, ...]:
        """What compiled code is told of so many columns of steps."""
        (count, wide, rows), at = self.matrix.shape, _listed(self.offsets)
        return count, tangent, columns, rows, len(at), address(at), address(self.matrix), wide * rows

    def parts(self, start: int) -> Iterator[tuple[int, Array]]:
        """The matrix from a step on, if any is left, with that step's number."""
        if start < len(self.matrix):
            yield start, self.matrix[start:]

    def pull_back(self, residual: Array) -> Array:
        """Jᵀr at each step, (count, columns), for a residual (count, all rows)."""
        return np.asarray(np.matmul(self.matrix[:, :-1, :], self.reduce(residual)[:, :, None])[:, :, 0])


@dataclass(frozen=True, eq=False)
class Stream:
    """The same of a factor that keeps all its rows and columns, computed whenever it is asked for and never kept."""

    offsets: tuple[int, ...]
    jacobian: Call
    """What gives the matrix of ``Rows`` at any steps."""
    pull_back: Callable[[Array], Array]
    """As that of ``Rows``."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """Of the matrix."""
        return len(self.jacobian.stepwise[0]), *self.jacobian.shape

    def parts(self, start: int) -> Iterator[tuple[int, Array]]:
        """The matrix from a step on, a few steps at a time, with the first one's number; it is overwritten by the
        next."""
        return self.jacobian.parts(start)


@lru_cache(maxsize=64)
def _listed(offsets: tuple[int, ...]) -> Integers:
    return integers(offsets)
