"""A window of steps eliminated in C (``window.c``, ``window_steps.c``).

Rows of a step are worked on as whole vectors, and programs are run from C, so that an update has no Python
loop over steps or factors.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spookid.kernels.arrays import Array, location
from spookid.kernels.library import library
from spookid.kernels.native import declared
from spookid.kernels.stages import LANES

_Size, _Address = ctypes.c_longlong, ctypes.c_void_p


class FactorRows(ctypes.Structure):
    """A factor of ``window.c``; arrays by their addresses."""

    _fields_ = [
        *((name, _Size) for name in ("count", "rows", "offsets", "hard")),
        *((name, _Address) for name in ("offset", "matrix", "residual", "jacobian", "value")),
        *((name, _Address) for name in ("place", "data", "absent")),
        ("width", _Size),
    ]


class WindowRows(ctypes.Structure):
    """A window of ``window.c``."""

    _fields_ = [
        *((name, _Size) for name in ("tangent", "ambient", "reach", "parameters", "steps", "factors")),
        *((name, _Address) for name in ("factor", "best", "points", "theta", "theta_point", "numbers")),
        *((name, _Address) for name in ("pivots", "shifts", "places", "counts")),
        *((name, _Address) for name in ("carried", "carried_hard", "carried_linear")),
        *((name, _Address) for name in ("border", "border_hard", "border_linear", "held", "score", "information")),
        ("work", _Address),
        *((name, _Size) for name in ("soft_room", "hard_room")),
        *(("square", ctypes.c_double), ("hidden", _Address)),
    ]


class WindowRoutines:
    """The functions of ``window.c``, of one window.

    Args:
        beliefs: rows of the parameters alone, in whole vectors.
    """

    def __init__(self, loaded: ctypes.CDLL, window: WindowRows, beliefs: Array) -> None:
        self._sweep = declared(loaded, "sweep", 5, _Size)
        self._border_step = declared(loaded, "border_step", 2, None)
        self._states_step = declared(loaded, "states_step", 3, None)
        self._covariances = declared(loaded, "window_covariances", 2, None)
        self._merit = declared(loaded, "carried_merit", 5, None)
        self._jacobians = declared(loaded, "window_jacobians", 2, _Size)
        self._residuals = declared(loaded, "window_residuals", 3, _Size)
        self._window = ctypes.byref(window)
        self._two = np.empty(2)
        self._at_two, self._beliefs = location(self._two), location(beliefs)

    def sweep(self, leaves: bool, slopes: Array, believed: int) -> None:
        """Eliminate all steps and the parameters with so many of the beliefs, or the oldest step for good."""
        if self._sweep(self._window, leaves, location(slopes), believed, self._beliefs):
            raise MemoryError("more rows than there is room for")

    def border_step(self, count: int) -> Array:
        """The parameters' step."""
        out = np.empty(count)
        self._border_step(self._window, location(out))
        return out

    def states_step(self, parameters: Array, shape: tuple[int, int]) -> Array:
        """The states' step."""
        out = np.empty(shape)
        self._states_step(self._window, location(parameters), location(out))
        return out

    def covariances(self, shape: tuple[int, int, int]) -> Array:
        """Of each step's state and the next ones for given parameters."""
        out = np.zeros(shape)
        self._covariances(self._window, location(out))
        return out

    def merit(self, steps: Array, parameters: Array, follow: bool) -> tuple[float, float]:
        """Of what is carried."""
        self._merit(self._window, location(steps), location(parameters), follow, self._at_two)
        return float(self._two[0]), float(self._two[1])

    def jacobians(self, count: int) -> None:
        """Of all factors that have a kernel, at the first steps."""
        if self._jacobians(self._window, count):
            raise FloatingPointError("evaluating a Jacobian failed")

    def residuals(self, count: int) -> tuple[float, float]:
        """Cost and violation; residuals of all factors that have a kernel."""
        if self._residuals(self._window, count, self._at_two):
            raise FloatingPointError("evaluating a residual failed")
        return float(self._two[0]), float(self._two[1])


def window_library() -> ctypes.CDLL | None:
    """The compiled code; None without the C extension."""
    return library()


def vectors(count: int) -> int:
    """Numbers in whole vectors."""
    return -(-count // LANES) * LANES


def addresses(arrays: Sequence[NDArray[Any]]) -> list[int]:
    """Of the first numbers."""
    return [array.ctypes.data for array in arrays]
