"""Motion in continuous time: each step of h divided until what it leads to stands still (Romberg, Bulirsch and Stoer).

Steps of second order have errors in powers of their length from the second on, so that with n = 1, 2, 4 ... substeps
column j of the table

    T_{i,0} = x after 2^i substeps of h/2^i,    T_{i,j} = T_{i,j−1} + (T_{i,j−1} − T_{i−1,j−1})/(2^{j+1} − 1)

has errors of order j + 2 once the substeps resolve the motion (Stoer and Bulirsch, 7.2.14; Hairer, Nørsett, Wanner,
Solving Ordinary Differential Equations I, II.9). Where they do not, as in sharp friction, no column is much better than
the first; the one that its extrapolation changes least is taken. Each step begins anew from a state (q, v) at t_k, so
that only the steps in which a joint turns need many substeps.

Forward simulation with friction that sticks: equations linearized, their reactions found as bounded impulses.

At each iterate the equations F(y, u) = 0 of a ``ForwardStep`` give y as an affine function of the reactions u; rates,
bounds and loads follow, and ``bounded`` finds u. SPOOK's equations are linear in (y, u), but for drag; the
variational ones take a few rounds. The equations' matrix, the bilateral part of the mixed complementarity problem, is
factorized as LDLᵀ with 1x1 and 2x2 pivots (Bunch and Kaufman) where it is symmetric, as in SPOOK, else as LU.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from itertools import pairwise

import casadi as ca
import numpy as np

from spookid.kernels.arrays import Array
from spookid.kernels.precision import EQUAL, NEWTON
from spookid.kernels.scipy_parts import lapack
from spookid.mechanics.model import Model
from spookid.records import dataclass
from spookid.stepping import bounded
from spookid.stepping.bounded import NOTHING, Bounded, BoundedSolution, is_dependent
from spookid.stepping.impulses import ForwardStep
from spookid.stepping.simulation import (
    ROUNDING,
    BoundStep,
    NewtonStepper,
    Progress,
    bound,
    has_redundant_rows,
    marched,
    small,
    smallest,
)
from spookid.transcription.factor import Constant

TOLERANCE = 1e-6
"""Of all steps together, in metres and radians, and in m/s and rad/s."""
MOST = 256
"""Substeps of a step at the most."""


@dataclass(frozen=True, eq=False)
class Refined:
    """Motion at steps of length h, computed with substeps."""

    states: Array
    """x = (q, v), v that at t_k, (N, 13 n_b)."""
    left: float
    """Of all steps together, by what their last refinements moved."""


@dataclass(frozen=True, eq=False)
class Refinement:
    """Computes steps of one mechanism with more and more substeps."""

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
        tolerance = max(TOLERANCE / np.sqrt(steps), EQUAL)  # errors of steps are not all to one side
        squares = [0.0]

        def after(k: int, x: Array) -> Array:
            x_next, moved = self._refined(k, x, tolerance)
            squares.append(moved**2)
            return x_next

        states = marched(self.stepper, start, steps, after, progress)
        return Refined(states, math.sqrt(sum(squares)))

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


_dgesv, _dsysv = lapack.dgesv, lapack.dsysv


class ExactStepper(BoundStep):
    """Solver of single steps with sticking friction, limits and contacts.

    Args:
        step: the equations and laws.
        constants: a number for every symbol in them.
    """

    def __init__(self, step: ForwardStep, constants: Iterable[Constant]) -> None:
        laws = step.laws
        assert laws is not None
        self._n, self._m = step.unknowns.numel(), laws.reactions.numel()
        self._factorize = _dsysv if laws.symmetric else _dgesv
        self._unilateral = np.array(laws.unilateral, dtype=bool)
        self._discs = np.array(laws.discs, dtype=np.intp).reshape(-1, 2)
        both = ca.vertcat(step.unknowns, laws.reactions)
        rows = ca.vertcat(step.equations, laws.rates, laws.constant, laws.loads)
        super().__init__(step, both, (rows, ca.jacobian(rows, both), laws.weights), constants)
        self._next = np.zeros(step.x_next.numel())
        last = ca.Function("x_next", self._symbols, [ca.densify(step.x_next)])
        self._move, self._last = bound(last, [*self._inputs, self._constants], [self._next])
        self._dependent: bool | None = None
        """True if the reactions' rates depend on one another, found out at the first step."""

    def guess(self, x: Array) -> Array:
        """Initial unknowns at the state ``x``, with zero reactions."""
        return np.concatenate([super().guess(x), np.zeros(self._m)])

    def step(self, x: Array, u: Array, unknowns: Array) -> tuple[Array, Array]:
        """Next state and the unknowns (y, u) of the step, from initial unknowns.

        Raises:
            ArithmeticError: if there is no solution or it is not found; its argument is the residual left.
        """
        self._inputs[0][:], self._inputs[1][:] = x, u
        last = residual = np.inf
        for _ in range(NEWTON):
            self._inputs[2][:] = unknowns
            self._run()
            change, laws = self._change(unknowns[self._n :])
            residual = laws.residual
            if not laws.solved or not np.all(np.isfinite(change)):
                break
            length = float(np.max(np.abs(change), initial=0.0))
            # Corrections that no longer shrink are rounding: positions have few digits left for h v.
            done = small(change, unknowns, self._velocities)
            done = done or (length > last / 2 and small(ROUNDING * change, unknowns, self._velocities))
            last, unknowns = length, unknowns + change
            if done:
                self._inputs[2][:] = unknowns
                self._move()
                return self._next.copy(), unknowns
        raise ArithmeticError(residual if residual > 0 else float(np.max(np.abs(self._outputs[0][0, : self._n]))))

    def _change(self, u: Array) -> tuple[Array, BoundedSolution]:
        """Change of (y, u) that solves the linearized equations and the laws."""
        n, m = self._n, self._m
        values, slopes, weights = self._outputs[0][0], self._outputs[1].T, self._outputs[2].T
        # y changes by ``free`` and by ``follow`` times the change of u.
        solution = self._eliminate(slopes[:n, :n], np.column_stack([values[:n], slopes[:n, n:]]))
        free, follow = -solution[:, 0], -solution[:, 1:]
        if not m:
            return free, NOTHING
        slope = slopes[n:, n:] + slopes[n:, :n] @ follow
        start = values[n:] + slopes[n:, :n] @ free - slope @ u
        if self._dependent is None:
            self._dependent = is_dependent(slope[:m])
        problem = Bounded(
            R=slope[:m],
            rates=start[:m],
            K=slope[m : 2 * m],
            constant=start[m : 2 * m],
            loads=slope[2 * m :],
            loads_before=start[2 * m :],
            W=weights,
            unilateral=self._unilateral,
            discs=self._discs,
            dependent=self._dependent,
        )
        found = bounded.solve(problem, u)
        moved = found.u - u
        return np.concatenate([free + follow @ moved, moved]), found

    def _eliminate(self, A: Array, right: Array) -> Array:
        """A⁻¹ right; the smallest solution where redundant constraints leave their impulses undetermined.

        Raises:
            ArithmeticError: if anything is not finite.
        """
        if self._redundant is None:
            self._redundant = has_redundant_rows(A, self._velocities)
        found = smallest(A, right) if self._redundant else self._factorize(A, right)[2]
        if not np.isfinite(found).all():
            raise ArithmeticError(float("nan"))
        return np.asarray(found)
