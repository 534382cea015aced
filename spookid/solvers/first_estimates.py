"""Where parameters are linearized in rows that a smoother lets leave.

Rows of a bilinear model y = a b u know one direction of (a, b) at any one point, but at two points both: what is not
known at all would slowly become known. So all rows that leave are linearized at the first estimates of the parameters.
Parameters stay for ever, though, and first estimates may be far off. They are given up for the present ones if the
window's rows alone determine all parameters that they hold, and in no direction know more than ``_MOST`` times as much
at the present estimates as at the first ones: what leaves from there on then adds no more than that factor to what
would be known of any direction. For y = a b u this is never so, and the first estimates stay.
"""

from __future__ import annotations

import numpy as np

from spookid.kernels.arrays import Array
from spookid.solvers.lag_window import LagWindow
from spookid.solvers.native_memory import memory_of

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
