"""Forward sensitivities of the exact step with its active set held (Marklund et al., Appendix D.1).

At a solution (y, u) of a step the equations and, for every reaction, the branch of its law that holds are

    Φ(x, θ, y, u) = 0:    F = 0;    r_i = 0 if it sticks or pushes;    u_i + s_i L_i = 0 if it slips, s_i = sign r_i;
                          u_i = 0 if it is open.

Differentiated, Φ_z ż = −(Φ_x ẋ + Φ_θ θ̇) with z = (y, u). Where a reaction stands at the edge of two branches the step
has a derivative on either side; the one given is that of the branch that was found, at the very edge sticking. Printed
(D.4) has ẏ on its right-hand side where q̇ belongs, and (D.2) w·q where it means w·z.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import casadi as ca
import numpy as np
from scipy.linalg import lstsq

from spookid.kernels.kernel import Array
from spookid.stepping.complementarity.law import BACKWARD, FORWARD, STICKING
from spookid.stepping.exact import ExactStepper, Solved
from spookid.stepping.reactions import ExactStep
from spookid.transcription.factor import Constant

_SINGULAR = 1e-11
"""Singular values below this share of the largest are zero."""


class StepDerivative:
    """∂x₊/∂x, ∂x₊/∂u and ∂x₊/∂θ of solved steps.

    Args:
        step: the equations and laws.
        constants: a number for every symbol in them.
        parameters: which of the constants, by position, are θ.
    """

    def __init__(self, step: ExactStep, constants: Iterable[Constant], parameters: Sequence[int]) -> None:
        both, symbols = ca.vertcat(step.unknowns, step.reactions), ca.vertcat(*(c.symbol for c in constants))
        held, sign = (ca.SX.sym(name, step.reactions.numel()) for name in ("held", "sign"))
        limit = step.constant + step.weights @ ca.fabs(step.loads)
        laws = held * step.rates + (1 - held) * (step.reactions + sign * limit)
        rows = ca.vertcat(step.equations, laws, step.x_next)
        given = ca.vertcat(step.x, step.u, *(symbols[i] for i in parameters))
        jacobian = ca.densify(ca.jacobian(rows, ca.vertcat(both, given)))
        arguments = [step.x, step.u, both, symbols, held, sign]
        self._function = ca.Function("sensitivity", arguments, [jacobian], {"cse": True})
        self._unknowns = both.numel()
        self._cuts = np.cumsum([step.x.numel(), step.u.numel()])

    def __call__(self, x: Array, u: Array, constants: Array, solved: Solved) -> tuple[Array, Array, Array]:
        """(∂x₊/∂x, ∂x₊/∂u, ∂x₊/∂θ) of the step ``solved`` from ``x`` with ``u``."""
        held = solved.modes == STICKING
        sign = np.where(solved.modes == FORWARD, 1.0, np.where(solved.modes == BACKWARD, -1.0, 0.0))
        whole = self._function(x, u, solved.unknowns, constants, 1.0 * held, sign).full()
        n = self._unknowns
        # Redundant joints leave their impulses undetermined, but not the velocities: the smallest change will do.
        change = lstsq(whole[:n, :n], whole[:n, n:], cond=_SINGULAR)[0]
        by_state, by_inputs, by_parameters = np.split(whole[n:, n:] - whole[n:, :n] @ change, self._cuts, axis=1)
        return by_state, by_inputs, by_parameters


def march(stepper: ExactStepper, start: Array, inputs: Array) -> tuple[Array, list[Solved]]:
    """States (N, n) from ``start`` (n,) with the inputs of each step (N − 1, n_u), and the steps that led to them.

    Raises:
        ArithmeticError: if a step is not solved; its argument is the residual left.
    """
    states, steps = [start], []
    unknowns = stepper.guess(start)
    for u in inputs:
        steps.append(stepper.solve(states[-1], u, unknowns))
        states.append(steps[-1].x_next)
        unknowns = steps[-1].unknowns
    return np.array(states), steps


def differentiated(
    derivative: StepDerivative, states: Array, steps: Sequence[Solved], inputs: Array, constants: Array
) -> tuple[Array, Array]:
    """∂states/∂x₀ (N, n, n) and ∂states/∂θ (N, n, n_p) of a march, step after step."""
    by_start: list[Array] = [np.eye(states.shape[1])]
    by_parameters: list[Array] = []
    for x, u, solved in zip(states[:-1], inputs, steps, strict=True):
        forward, _, own = derivative(x, u, constants, solved)
        by_parameters = by_parameters or [np.zeros(own.shape)]
        by_start.append(forward @ by_start[-1])
        by_parameters.append(forward @ by_parameters[-1] + own)
    return np.array(by_start), np.array(by_parameters)
