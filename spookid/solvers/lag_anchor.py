"""Where parameters are linearized in rows that a smoother lets leave.

Rows of a bilinear model y = a b u know one direction of (a, b) at any one point, but at two points both: what is not
known at all would slowly become known. So all rows that leave are linearized at the first estimates of the parameters.
Parameters stay for ever, though, and first estimates may be far off. They are given up for the present ones if the
window's rows alone determine all parameters that they hold, and in no direction know more than ``_MOST`` times as much
at the present estimates as at the first ones: what leaves from there on then adds no more than that factor to what
would be known of any direction. For y = a b u this is never so, and the first estimates stay.

What holds a smoother's parameters where they begin, as long as the data say next to nothing of them.

The first few rows are fitted best by parameters anywhere, for they have more unknowns than rows. Rows that leave were
then linearized there for good, and what they tell were wrong for ever. So each direction of the parameters, in shares
of their sizes, is held where it began as by an observation with an error of half that size; less so where all rows
together know it to better than its size, and not at all where they know it to half of it. What is told of errors is
without that.
"""

from __future__ import annotations

import numpy as np

from spookid.kernels.arrays import Array
from spookid.solvers.fronts import Pivots
from spookid.solvers.lag_memory import memory_of
from spookid.solvers.lag_window import LagWindow

_MOST = 2.0
_FAR = 0.01
"""Share of a parameter's size by which it must have moved for other estimates to be looked for."""
_ALONE = 1e-10
"""Share of the information in a parameter for known states below which states hide it: the rest is rounding."""
_KNOWN = 1e-6
"""Least eigenvalue of an information matrix with diagonal 1 that is not rounding."""


class FirstEstimates:
    """The point of a window's parameters.

    Args:
        point: where they are linearized, (n_p,).
    """

    def __init__(self, window: LagWindow, point: Array) -> None:
        self.point = point.copy()
        self._window = window
        self._alone = memory_of(window)
        """Remembers nothing."""
        self.waits = 0
        """Updates until other estimates are looked for."""

    def renew(self, parameters: Array) -> None:
        """Take the present values if that is harmless; once in as many updates as the window has steps at the most.
        The window's Jacobians are those of other parameters afterwards."""
        self.waits -= 1
        sizes = np.maximum(np.abs(self.point), self._window.problem.magnitudes)
        if self.waits >= 0 or np.all(np.abs(parameters - self.point) <= _FAR * sizes):
            return
        self.waits = self._window.steps
        before, held = self._information(parameters, self.point)
        after, _ = self._information(parameters, parameters)
        seen = held > 0
        before, after, held = before[np.ix_(seen, seen)], after[np.ix_(seen, seen)], held[seen]
        if not np.all(np.diag(before) > _ALONE * held) or not np.all(np.isfinite(after)):
            return
        scale = np.sqrt(np.outer(np.diag(before), np.diag(before)))
        known = np.linalg.eigvalsh(before / scale)[0] > _KNOWN if len(held) else False
        if known and np.linalg.eigvalsh((_MOST * before - after) / scale)[0] >= 0:
            self.point = parameters.copy()

    def _information(self, parameters: Array, point: Array) -> tuple[Array, Array]:
        """In the parameters, by the window's rows alone, (n_p, n_p); and of each if states were known, (n_p,)."""
        window, n = self._window, len(parameters)
        self._alone.linearize(parameters, point, window.steps)
        shape = window.steps, (window.reach + 1) * window.manifold.tangent + n
        rows = self._alone.factorize(np.zeros(shape), np.zeros((0, n + 1)))
        soft, held = rows.rows[rows.hard :, :-1], np.zeros(n)
        for placed in window.placed:
            count = placed.standing(window.steps)
            slopes = placed.matrix[:count, -n - 1 : -1].transpose(0, 2, 1)[~placed.absent.values[:count]]
            held += np.sum(slopes**2, axis=0)
        return np.asarray(soft.T @ soft), held


_HELD, _FREE = 1.0, 4.0
"""Information in a direction, in units of sizes, up to which it is held wholly, and from which on not at all."""
_SHARE = 0.5
"""Of its size: the error of the observation that holds a parameter."""


class Anchor:
    """See the module.

    Args:
        start: where the parameters begin, (n_p,).
        sizes: of the parameters, (n_p,).
    """

    def __init__(self, start: Array, sizes: Array) -> None:
        n = len(start)
        self.start, self._sizes = start.copy(), sizes
        self.slopes = np.zeros((n, n))
        """Of the rows that hold them."""
        self.open = n > 0
        """True until all directions have been known once."""

    def renew(self, rows: Pivots) -> None:
        """Let go what all rows, of which the parameters' are given, know by now."""
        along = rows.rows[rows.hard :, :-1] * self._sizes
        for row in rows.rows[: rows.hard, :-1] * self._sizes:  # what is given exactly needs no hold
            along = np.concatenate([along, row[None] / max(np.linalg.norm(row), 1e-300) * _FREE])
        known, directions = np.linalg.eigh(along.T @ along)
        weights = np.clip((_FREE - known) / (_FREE - _HELD), 0.0, 1.0)
        self.slopes = np.sqrt(weights)[:, None] * directions.T / (_SHARE * self._sizes)
        self.open = bool(np.any(weights > 0.0))

    def rows(self, parameters: Array) -> Array:
        """What holds them, with its value in the last column, (n_p, n_p + 1)."""
        return np.column_stack([self.slopes, self.slopes @ (parameters - self.start)])

    def cost(self, parameters: Array) -> float:
        """Of the same."""
        values = self.slopes @ (parameters - self.start)
        return float(values @ values)
