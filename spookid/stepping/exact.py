"""Forward simulation with friction that sticks: equations linearized, their reactions found as bounded impulses.

At each iterate the equations F(y, u) = 0 of a ``ForwardStep`` give y as an affine function of the reactions u; rates,
bounds and loads follow, and ``complementarity.bounded`` finds u. SPOOK's equations are linear in (y, u), but for drag;
the variational ones take a few rounds. Of several solutions the first round takes the one nearest the last reactions,
and the others stay with it. The equations' matrix, the bilateral part of the mixed complementarity problem, is
factorized as LDLᵀ with 1x1 and 2x2 pivots (Bunch and Kaufman) where it is symmetric, as in SPOOK, else as LU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import casadi as ca
import numpy as np

from spookid.kernels.arrays import Array
from spookid.kernels.scipy_parts import lapack
from spookid.stepping.complementarity import bounded
from spookid.stepping.complementarity.pieces import NOTHING, Bounded, BoundedSolution, is_dependent
from spookid.stepping.impulses import ForwardStep
from spookid.stepping.simulation import ROUNDING, BoundStep, bound, has_redundant_rows, small, smallest
from spookid.transcription.factor import Constant

_MOST_ROUNDS = 60
_dgesv, _dsysv = lapack.dgesv, lapack.dsysv


class ExactStepper(BoundStep):
    """Solves one step at a time.

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
        """Unknowns to start from at the state ``x``, and no reactions."""
        return np.concatenate([super().guess(x), np.zeros(self._m)])

    def step(self, x: Array, u: Array, unknowns: Array) -> tuple[Array, Array]:
        """Next state and the unknowns (y, u) that belong to it, from a guess of the unknowns.

        Raises:
            ArithmeticError: if there is no solution or it is not found; its argument is the residual left.
        """
        self._inputs[0][:], self._inputs[1][:] = x, u
        last = residual = np.inf
        for repeated in range(_MOST_ROUNDS):
            self._inputs[2][:] = unknowns
            self._run()
            change, laws = self._change(unknowns[self._n :], bounded.follow if repeated else bounded.solve)
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

    def _change(self, u: Array, solve: Callable[[Bounded, Array], BoundedSolution]) -> tuple[Array, BoundedSolution]:
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
        found = solve(problem, u)
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
