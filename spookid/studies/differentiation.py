"""Simulated motion as functions that CasADi can call and differentiate, with friction that sticks.

Their Jacobians hold the active set of every step: which joints stick, which way the others slip, what pushes. They are
exact but where a step is about to change it; there they are the derivative on the side of the branch that was found.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from spookid.assembly.assembly import numbers
from spookid.assembly.declaration import Declaration
from spookid.data.recording import Recording
from spookid.data.sampling import grid
from spookid.errors import ProblemError
from spookid.kernels.kernel import Array, contiguous
from spookid.kernels.numeric_function import NumericFunction
from spookid.stepping.exact import ExactStepper, Solved
from spookid.stepping.impulses import Settings
from spookid.stepping.sensitivity import StepDerivative, differentiated, march
from spookid.studies.replay import forward_inputs, step_grid


def step_function(problem: Declaration) -> NumericFunction:
    """One step (x, u, θ) → x₊ of a problem with exact friction.

    x = (q, v), (13 n_b,); u are the inputs of the step as the stepper takes them; θ are the problem's free parameters,
    in its order. Keep a reference to it as long as CasADi uses it.

    Raises:
        ProblemError: if the problem's friction is smooth.
    """
    steps = _Steps(problem)

    def evaluate(arguments: Sequence[Array]) -> list[Array]:
        return [steps.one(*arguments).x_next]

    def blocks(arguments: Sequence[Array]) -> list[Array]:
        x, u, theta = arguments
        return list(steps.derivative(x, u, steps.constants(theta), steps.one(x, u, theta)))

    sizes = {"x": steps.ambient, "u": steps.inputs, "theta": steps.parameters}
    return NumericFunction("step", sizes, (steps.ambient, 1), evaluate, blocks)


def motion_function(
    problem: Declaration, duration: float | None = None, *, recording: int = 0, inputs: Recording | None = None
) -> NumericFunction:
    """A whole simulation (x₀, θ) → states (13 n_b, N) of a problem with exact friction.

    Its columns are the states at the steps, as ``problem.simulate`` gives them. Keep a reference to it as long as
    CasADi uses it.

    Args:
        duration: [s]; by default that of the recording.
        recording: which of the problem's recordings gives the inputs and the default duration.
        inputs: a recording of the motors' signals to use instead; without any they are zero.

    Raises:
        ProblemError: if the problem's friction is smooth, or as ``problem.simulate``.
    """
    steps = _Steps(problem)
    measured = problem.recordings[recording] if problem.recordings else None
    times = step_grid(problem, duration, grid(measured, problem.step) if measured else None)
    u = forward_inputs(problem, inputs or measured, times)

    def recorded(states: Array) -> Array:
        return problem.stepper.recorded(problem.model, states, problem.step)

    def evaluate(arguments: Sequence[Array]) -> list[Array]:
        start, theta = arguments
        return [recorded(steps.march(start, theta, u)[0]).T]

    def blocks(arguments: Sequence[Array]) -> list[Array]:
        start, theta = arguments
        states, solved = steps.march(start, theta, u)
        slopes = differentiated(steps.derivative, states, solved, u, steps.constants(theta))
        # What is recorded is linear in the states of the march.
        directions = [[recorded(slope).ravel() for slope in np.moveaxis(part, 2, 0)] for part in slopes]
        return [np.array(columns).reshape(-1, states.size).T for columns in directions]

    sizes = {"x0": steps.ambient, "theta": steps.parameters}
    return NumericFunction("motion", sizes, (steps.ambient, times.count), evaluate, blocks)


class _Steps:
    """The steps of a problem at any values of its free parameters."""

    def __init__(self, problem: Declaration) -> None:
        if problem.friction == "smooth":
            raise ProblemError(f'{problem.place}: Problem {problem.name!r} has smooth friction; use friction="exact"')
        settings, free = Settings.of(problem.model), problem.free
        problem = problem.with_(fixed=[p.name for p in problem.parameters])
        listed = numbers(problem, settings, np.ones(len(problem.model.joints)))
        where = {constant.symbol.element_hash(): i for i, constant in enumerate(listed)}
        self._positions = [where[p.element_hash()] for p in free]
        self._values = contiguous([constant.value for constant in listed])
        step = problem.stepper.exact(problem.model, settings)
        self._stepper = ExactStepper(step, listed)
        self.derivative = StepDerivative(step, listed, self._positions)
        self.ambient, self.inputs, self.parameters = step.x.numel(), step.u.numel(), len(free)

    def constants(self, theta: Array) -> Array:
        """All constants with θ in its place."""
        values = self._values.copy()
        values[self._positions] = theta
        return values

    def one(self, x: Array, u: Array, theta: Array) -> Solved:
        """One step from ``x``."""
        self._stepper.with_constants(self.constants(theta))
        return self._stepper.solve(x, u, self._stepper.guess(x))

    def march(self, start: Array, theta: Array, inputs: Array) -> tuple[Array, list[Solved]]:
        """States (N, ambient) from ``start`` and the steps to them."""
        self._stepper.with_constants(self.constants(theta))
        return march(self._stepper, start, inputs)
