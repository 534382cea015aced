"""Where parameters are linearized in rows that a smoother lets leave.

Rows of a bilinear model y = a b u know one direction of (a, b) at any one point, but at two points both: what is not
known at all would slowly become known. So all rows that leave are linearized at the first estimates of the parameters.
Parameters stay for ever, though, and first estimates may be far off. They are given up for the present ones if, in no
direction, the window's rows know more than ``_MOST`` times as much there as at the first ones: then nothing that leaves
from there on adds more than that factor to what is known of any direction, and nothing where nothing was known. For
y = a b u this is never so, and the first estimates stay.
"""

from __future__ import annotations

import numpy as np

from spookid.kernels.kernel import Array
from spookid.solvers.lag_window import LagWindow
from spookid.solvers.native_memory import memory_of

_MOST = 2.0
_FAR = 0.01
"""Share of a parameter's size by which it must have moved for other estimates to be looked for."""
_ROUNDING = 1e-10
"""Of eigenvalues of an information matrix with diagonal 1."""


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
        before, after = (self._information(parameters, point) for point in (self.point, parameters))
        scale = np.sqrt(np.diag(before + after))
        scale[scale == 0.0] = 1.0
        if np.linalg.eigvalsh((_MOST * before - after) / np.outer(scale, scale))[0] >= -_ROUNDING:
            self.point = parameters.copy()

    def _information(self, parameters: Array, point: Array) -> Array:
        """In the parameters, by the window's rows alone, (n_p, n_p)."""
        window, n = self._window, len(parameters)
        self._alone.linearize(parameters, point, window.steps)
        shape = window.steps, (window.reach + 1) * window.manifold.tangent + n
        rows = self._alone.factorize(np.zeros(shape), np.zeros((0, n + 1)))
        soft = rows.rows[rows.hard :, :-1]
        return np.asarray(soft.T @ soft)
