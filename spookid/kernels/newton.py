"""Equations of one step solved in compiled C (``newton.c``), which calls back for their values."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from spookid.kernels.arrays import Array
from spookid.kernels.library import library
from spookid.kernels.native import address

_Size, _Address, _Number = ctypes.c_longlong, ctypes.c_void_p, ctypes.c_double
_Evaluate = ctypes.CFUNCTYPE(None)


@dataclass(frozen=True)
class Limits:
    """Where Newton's method ends."""

    tolerance: float
    """A step is solved when a correction of the velocities is below this share of the largest."""
    rounding: float
    """Corrections of which this share is below the tolerance may be rounding."""
    least_share: float
    """Of a correction, below which the search along it ends."""
    most: int
    """Corrections."""


class _Problem(ctypes.Structure):
    """The structure of ``newton.c``."""

    _fields_ = [
        ("evaluate", _Evaluate),
        *((name, _Size) for name in ("n", "velocities", "following")),
        *((name, _Address) for name in ("equations", "jacobian", "follows", "unknowns")),
        *((name, _Number) for name in ("tolerance", "rounding", "least_share")),
        ("most", _Size),
        ("left", _Number),
    ]


class NewtonRoutine:
    """Solves from the unknowns that stand in their buffer."""

    def __init__(self, loaded: ctypes.CDLL, problem: _Problem, held: tuple[object, ...]) -> None:
        self._routine, self._problem, self._held = loaded.solve_step, problem, held
        self._room = np.empty(problem.n * (problem.n + 2))
        self._arguments = ctypes.byref(problem), address(self._room)

    def __call__(self) -> None:
        """Raises ArithmeticError, with the residual left, if the method does not get there."""
        if self._routine(*self._arguments):
            raise ArithmeticError(self._problem.left)


def newton_routine(
    evaluate: Callable[[], object],
    unknowns: Array,
    outputs: tuple[Array, Array, Array],
    velocities: int,
    limits: Limits,
) -> NewtonRoutine | None:
    """The routine for buffers that stay where they are; None without the C extension.

    Args:
        evaluate: from the buffer of unknowns (n,) into those of the outputs; what it raises is lost.
        outputs: of the equations (n,), their Jacobian (n, n), by columns, and what must be finite at the end.
        velocities: how many of the unknowns are velocities, which come first.
    """
    loaded = library()
    if loaded is None:
        return None
    callback = _Evaluate(evaluate)
    buffers = [address(array) for array in (*outputs, unknowns)]
    ends = limits.tolerance, limits.rounding, limits.least_share, limits.most
    problem = _Problem(callback, unknowns.size, velocities, outputs[2].size, *buffers, *ends, 0.0)
    return NewtonRoutine(loaded, problem, (callback, unknowns, outputs))
