"""Motion in continuous time: each step of h divided until what it leads to stands still (Romberg, Bulirsch and Stoer).

Steps of second order have errors in powers of their length from the second on, so that with n = 1, 2, 4 ... substeps
column j of the table

    T_{i,0} = x after 2^i substeps of h/2^i,    T_{i,j} = T_{i,j−1} + (T_{i,j−1} − T_{i−1,j−1})/(2^{j+1} − 1)

has errors of order j + 2 once the substeps resolve the motion (Stoer and Bulirsch, 7.2.14; Hairer, Nørsett, Wanner,
Solving Ordinary Differential Equations I, II.9). Where they do not, as in sharp friction, no column is much better than
the first; the one that its extrapolation changes least is taken. Each step begins anew from a state (q, v) at t_k, so
that only the steps in which a joint turns need many substeps.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from spookid.kernels.arrays import Array
from spookid.mechanics.model import Model
from spookid.records import dataclass
from spookid.stepping.simulation import NewtonStepper, Progress, StepFailedError

TOLERANCE = 1e-6
"""Of all steps together, in metres and radians, and in m/s and rad/s."""
MOST = 256
"""Substeps of a step at the most."""
_ROUNDING = 1e-9
"""By which states may differ that are alike: velocities are differences of positions over a substep."""


@dataclass(frozen=True, eq=False)
class Refined:
    """A motion at the steps of h."""

    states: Array
    """x = (q, v), v that at t_k, (N, 13 n_b)."""
    left: float
    """Of all steps together, by what their last refinements moved."""


@dataclass(frozen=True, eq=False)
class Refinement:
    """Refines the steps of one mechanism."""

    model: Model
    stepper: NewtonStepper
    """Of the variational step."""
    constants: Callable[[int], Array]
    """Numbers of its symbols, for so many substeps."""
    inputs: Callable[[int, int], Array]
    """Of step k and n: the impulse at t_k and all inputs of n + 1 substeps, the first the half step behind t_k, the
    last the one behind t_{k+1} as if nothing changed there, (n + 2, n_u)."""

    def march(self, start: Array, steps: int, progress: Progress | None = None) -> Refined:
        """States from ``start`` (13 n_b,).

        Raises:
            StepFailedError: naming a step that no division solves.
        """
        states = np.empty((steps + 1, len(start)))
        states[0], left = start, 0.0
        tolerance = max(TOLERANCE / np.sqrt(steps), _ROUNDING)  # errors of steps are not all to one side
        for k in progress(range(steps)) if progress is not None else range(steps):
            try:
                states[k + 1], moved = self._refined(k, states[k], tolerance)
            except ArithmeticError as error:
                raise StepFailedError(k + 1, error.args[0], states[: k + 1], self.stepper.fault()) from None
            left += moved**2
        return Refined(states, float(np.sqrt(left)))

    def _refined(self, k: int, x: Array, tolerance: float) -> tuple[Array, float]:
        """The state after step k, and by how much its last refinement moved it."""
        above: list[Array] = []
        best: Array | None = None
        moved, n = np.inf, 1
        while n <= MOST and moved > tolerance:
            try:
                row = [self._divided(k, x, n)]
            except ArithmeticError:
                if 2 * n > MOST and best is None:
                    raise
                row = []
            for j, before in enumerate(above if row else ()):
                row.append(row[j] + (row[j] - before) / (2 ** (j + 2) - 1))
            moves = [float(np.max(np.abs(after - before))) for before, after in pairwise(row)]
            if moves and min(moves) < moved:
                moved = min(moves)
                best = row[moves.index(moved) + 1]
            above, n = row, 2 * n
        assert best is not None
        return self.model.state.normed(best), moved

    def _divided(self, k: int, x: Array, n: int) -> Array:
        """The state after n substeps, its velocity the mean of both sides."""
        kick, *inputs = self.inputs(k, n)
        poses = self.model.configuration.ambient
        self.stepper.with_constants(self.constants(n))
        unknowns = self.stepper.guess(x)
        if np.any(kick):
            x = np.concatenate([x[:poses], self.stepper.step(x, kick, unknowns)[0][poses:]])
        for u in inputs[:-1]:
            x, unknowns = self.stepper.step(x, u, unknowns)
        beyond, _ = self.stepper.step(x, inputs[-1], unknowns)
        return np.concatenate([x[:poses], (x[poses:] + beyond[poses:]) / 2])
