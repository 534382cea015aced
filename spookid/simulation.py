"""Forward simulation: a stepper's equations solved step after step by a damped Newton method."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import casadi as ca
import numpy as np
from scipy.linalg import lu_factor, lu_solve

from spookid.factor import Constant
from spookid.kernels import Array, contiguous
from spookid.steppers.spook import ForwardStep

_TOLERANCE = 1e-12
"""A step is solved when every Newton correction is below this share of the largest unknown of its kind."""
_MAX_NEWTON = 60
_SMALLEST_SHARE = 1e-10


class StepFailedError(ArithmeticError):
    """A step has no solution that Newton's method finds; ``states`` holds the motion up to it."""

    def __init__(self, step: int, residual: float, states: Array) -> None:
        super().__init__(f"step {step} was not solved: the residual stands at {residual:.3g} N s")
        self.states = states


@dataclass(frozen=True, eq=False)
class _Evaluation:
    equations: Array
    """(n,)."""
    jacobian: Array
    """(n, n)."""
    x_next: Array
    """(ambient,)."""


class Stepper:
    """Solves one step at a time, in buffers that are bound once.

    Args:
        step: the equations.
        constants: a number for every symbol in them.
    """

    def __init__(self, step: ForwardStep, constants: Iterable[Constant]) -> None:
        constants = list(constants)
        symbols = ca.vertcat(*(c.symbol for c in constants))
        jacobian = ca.jacobian(step.equations, step.unknowns)
        outputs = [ca.densify(e) for e in (step.equations, jacobian, step.x_next)]
        function = ca.Function("step", [step.x, step.u, step.unknowns, symbols], outputs, {"cse": True})
        self._inputs = [contiguous(np.zeros(s.numel())) for s in (step.x, step.u, step.unknowns)]
        self._constants = contiguous([c.value for c in constants])
        self._outputs = [np.zeros(e.shape[::-1]) for e in outputs]
        self._buffer, self._run = function.buffer()
        for i, array in enumerate([*self._inputs, self._constants]):
            if array.size:
                self._buffer.set_arg(i, array.data)
        for i, array in enumerate(self._outputs):
            self._buffer.set_res(i, array.data)
        self._velocities = step.x_next.numel() * 6 // 13

    def step(self, x: Array, u: Array, unknowns: Array) -> tuple[Array, Array]:
        """Next state and the unknowns that belong to it, from a guess of the unknowns.

        Raises:
            ArithmeticError: if Newton's method does not get there; its argument is the residual left.
        """
        self._inputs[0][:], self._inputs[1][:] = x, u
        here = self._evaluate(unknowns)
        for _ in range(_MAX_NEWTON):
            delta = _newton(here)
            if delta is None:
                break
            if self._small(delta, unknowns):
                unknowns = unknowns + delta
                x_next = self._evaluate(unknowns).x_next
                if np.all(np.isfinite(x_next)):
                    return x_next, unknowns
                break
            found = self._search(here, unknowns, delta)
            if found is None:
                break
            unknowns, here = found
        raise ArithmeticError(float(np.max(np.abs(here.equations), initial=0.0)))

    def _search(self, here: _Evaluation, unknowns: Array, delta: Array) -> tuple[Array, _Evaluation] | None:
        """Backtracking on the norm of the equations: smooth friction turns sharply where a joint comes to rest."""
        norm, share = np.linalg.norm(here.equations), 1.0
        while share > _SMALLEST_SHARE:
            there = self._evaluate(unknowns + share * delta)
            if np.linalg.norm(there.equations) <= (1 - 1e-4 * share) * norm or self._small(share * delta, unknowns):
                return unknowns + share * delta, there
            share /= 2
        return None

    def _small(self, delta: Array, unknowns: Array) -> bool:
        n = self._velocities
        scale = np.empty_like(unknowns)
        scale[:n] = 1e-3 + np.max(np.abs(unknowns[:n]), initial=0.0)
        scale[n:] = 1e-3 + np.max(np.abs(unknowns[n:]), initial=0.0)
        return bool(np.all(np.abs(delta) <= _TOLERANCE * scale))

    def _evaluate(self, unknowns: Array) -> _Evaluation:
        self._inputs[2][:] = unknowns
        self._run()
        equations, jacobian, x_next = self._outputs
        return _Evaluation(equations[0].copy(), jacobian.T.copy(), x_next[0].copy())


def _newton(here: _Evaluation) -> Array | None:
    if not (np.all(np.isfinite(here.equations)) and np.all(np.isfinite(here.jacobian))):
        return None
    return np.asarray(lu_solve(lu_factor(here.jacobian, check_finite=False), -here.equations, check_finite=False))


def march(stepper: Stepper, start: Array, inputs: Array, progress: Iterable[int] | None = None) -> Array:
    """States (N, ambient) from ``start`` (ambient,) with inputs (N, n_u), the last of which is not used.

    Raises:
        StepFailedError: naming the step that was not solved.
    """
    states = np.empty((len(inputs), len(start)))
    states[0] = start
    unknowns = np.zeros(len(stepper._inputs[2]))
    unknowns[: stepper._velocities] = start[len(start) - stepper._velocities :]
    for k in progress if progress is not None else range(len(inputs) - 1):
        try:
            states[k + 1], unknowns = stepper.step(states[k], inputs[k], unknowns)
        except ArithmeticError as error:
            raise StepFailedError(k + 1, error.args[0], states[: k + 1]) from None
    return states
