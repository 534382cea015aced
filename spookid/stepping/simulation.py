"""Forward simulation: a stepper's equations solved step after step by a damped Newton method."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import casadi as ca
import numpy as np

from spookid.kernels.arrays import Array, contiguous
from spookid.kernels.kernel import Kernel
from spookid.kernels.native import Limits, NewtonRoutine, newton_routine
from spookid.kernels.precision import NEWTON
from spookid.kernels.program import first_cause
from spookid.kernels.scipy_parts import lapack
from spookid.parameter import Parameter
from spookid.stepping.bounded import DEPENDENT
from spookid.stepping.impulses import ForwardStep
from spookid.transcription.factor import Constant

Progress = Callable[[Iterable[int]], Iterable[int]]
"""Wraps the iteration over the steps, as a progress bar does."""

_TOLERANCE = 1e-12
"""A step is solved when a Newton correction of the velocities is below this share of the largest."""
ROUNDING = 1e-3
"""Corrections of up to a thousand times the tolerance may be rounding."""
_SMALLEST_SHARE = 1e-10
_FEW = 32
"""Unknowns up to which a step takes longer in Python than in the linear algebra, and is taken in C if there is any."""
_dgesv = lapack.dgesv


class StepFailedError(ArithmeticError):
    """Error for a step for which Newton's method finds no solution; ``states`` is the motion so far.

    >>> try:
    ...     made = problem.simulate({"J": 0.02}, 1.0, {"hinge": 0.5})
    ... except StepFailedError as error:
    ...     print(len(error.states))

    Args:
        why: name of a quantity that is not finite; else empty.
        place: place for messages, such as the time of the step.
    """

    def __init__(self, step: int, residual: float, states: Array, why: str = "", place: str = "") -> None:
        said = why or f"the residual of the step's equations remains at {residual:.3g} N s"
        super().__init__(f"step {step}{place} was not solved: {said}")
        self.step, self.residual, self.states, self.why = step, residual, states, why


class _Evaluation(NamedTuple):
    """Of the equations (n,), their Jacobian (n, n) and the next state (ambient,)."""

    equations: Array
    jacobian: Array
    x_next: Array


class BoundStep(ABC):
    """Function that advances the state by one step, with preallocated buffers.

    Args:
        step: the equations.
        unknowns: that they are evaluated at.
        outputs: what is evaluated.
        constants: a number for every symbol in them.
    """

    def __init__(
        self, step: ForwardStep, unknowns: ca.SX, outputs: Sequence[ca.SX], constants: Iterable[Constant]
    ) -> None:
        constants = list(constants)
        self._symbols = [step.x, step.u, unknowns, ca.vertcat(*(c.symbol for c in constants))]
        self._written = [ca.densify(e) for e in outputs]
        self._named = {c.symbol.name: c.symbol for c in constants if isinstance(c.symbol, Parameter)}
        function = ca.Function("step", self._symbols, self._written, {"cse": True})
        self._inputs = [contiguous(np.zeros(s.numel())) for s in self._symbols[:3]]
        self._constants = contiguous([c.value for c in constants])
        self._outputs = [np.zeros(e.shape[::-1]) for e in self._written]
        self._run, self._buffer = bound(function, [*self._inputs, self._constants], self._outputs)
        self._redundant: bool | None = None
        """True if the joints' rows depend on one another, found out at the first step."""
        self._velocities = step.velocities
        self._guess = Kernel(ca.Function("guess", [step.x], [ca.densify(step.guess)]), 1)
        self._guessed = step.guess.numel()

    def guess(self, x: Array) -> Array:
        """Initial unknowns at the state ``x``."""
        return np.asarray(self._guess([contiguous(x)[None]], [], np.empty((1, 1, self._guessed)))[0, 0])

    @abstractmethod
    def step(self, x: Array, u: Array, unknowns: Array) -> tuple[Array, Array]:
        """Next state and unknowns from initial unknowns; raises ArithmeticError with the remaining residual."""

    def fault(self) -> str:
        """Quantity that is not finite where the last step ended, and the reason; empty if all are."""
        whole = ca.vertcat(*map(ca.vec, self._written))
        return first_cause(whole, self._symbols, [*self._inputs, self._constants], self._named)


class NewtonStepper(BoundStep):
    """Solver of single steps by Newton's method.

    Args:
        step: the equations.
        constants: a number for every symbol in them.
    """

    def __init__(self, step: ForwardStep, constants: Iterable[Constant]) -> None:
        outputs = step.equations, ca.jacobian(step.equations, step.unknowns), step.x_next
        super().__init__(step, step.unknowns, outputs, constants)
        self._routine: NewtonRoutine | None = None
        if 0 < step.unknowns.numel() <= _FEW:
            values = _Evaluation(*self._outputs)
            limits = Limits(_TOLERANCE, ROUNDING, _SMALLEST_SHARE, NEWTON)
            self._routine = newton_routine(self._run, self._inputs[2], values, self._velocities, limits)

    def with_constants(self, values: Array) -> None:
        """Continue with other numbers for the constants, in the same order."""
        self._constants[:] = values

    def step(self, x: Array, u: Array, unknowns: Array) -> tuple[Array, Array]:
        """Next state and the unknowns of the step, from initial unknowns.

        Raises:
            ArithmeticError: if Newton's method does not get there; its argument is the residual left.
        """
        self._inputs[0][:], self._inputs[1][:] = x, u
        if self._routine is None or self._redundant is not False:
            return self._solved(unknowns)
        self._inputs[2][:] = unknowns
        self._routine()
        return self._outputs[2][0].copy(), self._inputs[2].copy()

    def _solved(self, unknowns: Array) -> tuple[Array, Array]:
        """As ``step``, in Python."""
        here, last = self._evaluate(unknowns), np.inf
        for _ in range(NEWTON):
            delta = self._newton(here)
            if delta is None:
                break
            length = float(np.max(np.abs(delta), initial=0.0))
            # Corrections that no longer shrink are rounding: positions have few digits left for h v.
            rounding = length > last / 2 and small(ROUNDING * delta, unknowns, self._velocities)
            last = length
            if rounding or small(delta, unknowns, self._velocities):
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

    def _newton(self, here: _Evaluation) -> Array | None:
        """The Newton step; the smallest one where redundant constraints leave their impulses undetermined."""
        if not (np.all(np.isfinite(here.equations)) and np.all(np.isfinite(here.jacobian))):
            return None
        if self._redundant is None:
            self._redundant = has_redundant_rows(here.jacobian, self._velocities)
        if self._redundant:
            return smallest(here.jacobian, -here.equations)
        return np.asarray(_dgesv(here.jacobian, -here.equations)[2])

    def _search(self, here: _Evaluation, unknowns: Array, delta: Array) -> tuple[Array, _Evaluation] | None:
        """Backtracking on the norm of the equations: smooth friction turns sharply where a joint comes to rest."""
        norm, share = np.linalg.norm(here.equations), 1.0
        while share > _SMALLEST_SHARE:
            there = self._evaluate(unknowns + share * delta)
            done = small(ROUNDING * share * delta, unknowns, self._velocities)
            if done or np.linalg.norm(there.equations) <= (1 - 1e-4 * share) * norm:
                return unknowns + share * delta, there
            share /= 2
        return None

    def _evaluate(self, unknowns: Array) -> _Evaluation:
        self._inputs[2][:] = unknowns
        self._run()
        equations, jacobian, x_next = self._outputs
        return _Evaluation(equations[0].copy(), jacobian.T.copy(), x_next[0].copy())


def small(change: Array, unknowns: Array, n: int) -> bool:
    """True if a change is at the rounding level of positions in the n velocities, and small in impulses."""
    speed, impulse = (np.abs(part).max(initial=0.0) for part in (unknowns[:n], unknowns[n:]))
    steady = np.abs(change[:n]).max(initial=0.0) <= _TOLERANCE * (0.1 + speed)
    return bool(steady and np.abs(change[n:]).max(initial=0.0) <= 100 * _TOLERANCE * (1e-3 + impulse))


def bound(
    function: ca.Function, inputs: Iterable[Array], outputs: Iterable[Array]
) -> tuple[Callable[[], None], ca.FunctionBuffer]:
    """Call of ``function`` on given buffers, and objects that must be kept as long as the call."""
    buffer, run = function.buffer()
    for take, arrays in ((buffer.set_arg, inputs), (buffer.set_res, outputs)):
        for i, array in enumerate(arrays):
            if array.size:
                take(i, array.data)
    return run, buffer


def march(stepper: BoundStep, start: Array, inputs: Array, progress: Progress | None = None) -> Array:
    """Simulate states (N, ambient) from ``start`` (ambient,) with the inputs of each step, (N − 1, n_u).

    Raises:
        StepFailedError: naming the step that was not solved.
    """
    unknowns = stepper.guess(start)

    def after(k: int, x: Array) -> Array:
        nonlocal unknowns
        x_next, unknowns = stepper.step(x, inputs[k], unknowns)
        return x_next

    return marched(stepper, start, len(inputs), after, progress)


def marched(
    stepper: BoundStep, start: Array, steps: int, after: Callable[[int, Array], Array], progress: Progress | None
) -> Array:
    """Advance the state by one step after step k."""
    states = np.empty((steps + 1, len(start)))
    states[0] = start
    for k in progress(range(steps)) if progress is not None else range(steps):
        try:
            states[k + 1] = after(k, states[k])
        except ArithmeticError as error:
            raise StepFailedError(k + 1, error.args[0], states[: k + 1], stepper.fault()) from None
    return states


_LOOSE = 1e-6
"""Share of a velocity in an undetermined direction that is more than rounding."""


def has_redundant_rows(matrix: Array, velocities: int) -> bool:
    """True if equations (n, n), whose first unknowns are velocities, do not determine impulses.

    Raises:
        ArithmeticError: if a velocity is, as that of a body without inertia, or anything is not finite.
    """
    if not np.isfinite(matrix).all():
        raise ArithmeticError(float("nan"))
    _, values, right = np.linalg.svd(matrix)
    null = right[values < DEPENDENT * values[0]]
    if np.max(np.abs(null[:, :velocities]), initial=0.0) > _LOOSE:
        raise ArithmeticError(float("nan"))
    return len(null) > 0


def smallest(matrix: Array, right: Array) -> Array:
    """The smallest least-squares solution.

    Raises:
        ArithmeticError: if anything is not finite.
    """
    if not (np.isfinite(matrix).all() and np.isfinite(right).all()):
        raise ArithmeticError(float("nan"))
    return np.asarray(np.linalg.lstsq(matrix, right, rcond=DEPENDENT)[0])
