"""Derivatives of exact steps and motions: against differences, at the edge of sticking, and through CasADi."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import casadi as ca
import numpy as np
import pytest
from mechanisms import Array, furuta, hub, joint_state, pendulum
from test_exact import per_stepper, problem
from test_loops import BASE, LENGTHS, MASSES, closed, linkage

from spookid.assembly.assembly import numbers
from spookid.errors import ProblemError
from spookid.kernels.kernel import contiguous
from spookid.mechanics.model import Model
from spookid.parameter import Parameter
from spookid.stepping.complementarity.law import FORWARD, STICKING
from spookid.stepping.exact import ExactStepper, Solved
from spookid.stepping.impulses import Settings
from spookid.stepping.sensitivity import StepDerivative
from spookid.stepping.spook import Spook
from spookid.stepping.variational import Variational
from spookid.studies.differentiation import motion_function, step_function


class Differentiable:
    """One step of a model as a function of (x, θ), with the branch it is on, and its derivative."""

    def __init__(self, model: Model, stepper: Spook | Variational) -> None:
        declared = problem(model, stepper=stepper)
        names = [p.name for p in declared.parameters]
        settings = Settings.of(model)
        listed = numbers(declared.with_(fixed=names), settings, np.ones(len(model.joints)))
        first = len(listed) - len(names)
        step = stepper.exact(model, settings)
        self.constants = contiguous([constant.value for constant in listed])
        self.theta = self.constants[first:].copy()
        self._stepper = ExactStepper(step, listed)
        self._derivative = StepDerivative(step, listed, range(first, len(listed)))
        self._u, self._n = np.ones(step.u.numel()), step.x.numel()
        self._velocities = 6 * len(model.bodies)

    def solve(self, z: Array) -> Solved:
        """The step from z = (x, θ)."""
        self.constants[len(self.constants) - len(self.theta) :] = z[self._n :]
        self._stepper.with_constants(self.constants)
        return self._stepper.solve(z[: self._n], self._u, self._stepper.guess(z[: self._n]))

    def jacobian(self, z: Array, solved: Solved) -> Array:
        """∂x₊/∂(x, θ) on the branch of ``solved``."""
        by_state, _, by_parameters = self._derivative(z[: self._n], self._u, self.constants, solved)
        return np.hstack([by_state, by_parameters])

    def branch(self, solved: Solved) -> tuple[bytes, bytes]:
        """What must not change where the step is smooth: the modes, and the signs of the multipliers."""
        loads = solved.unknowns[self._velocities : len(solved.unknowns) - len(solved.modes)]
        return solved.modes.tobytes(), np.sign(loads).tobytes()


def rubbing_furuta() -> Model:
    """Both laws, a motor and Stribeck's term, with the unknowns in all of them."""
    c, mu, b, J = (Parameter(n, v) for n, v in (("c", 0.05), ("mu", 5e-3), ("b", 1e-3), ("J", 0.003)))
    delta = Parameter("delta", 0.03)
    return furuta(
        inertias=(J, 0.004, 0.004),
        shoulder={"coulomb": c, "stribeck": (delta, 0.5), "viscous": b},
        elbow={"dry": mu, "coulomb": 0.01, "drag": 1e-4},
        motor={"gain": 0.02, "shaft_inertia": 1e-4},
    )


@per_stepper
def test_step_derivative_against_differences_at_two_hundred_random_states(stepper):
    step, rng = Differentiable(rubbing_furuta(), stepper), np.random.default_rng(0)
    seen: dict[bytes, int] = {}
    errors = []
    for _ in range(400):
        if len(errors) == 200:
            break
        rates = rng.normal(size=2) * 10.0 ** rng.uniform(-3, 0.5, 2)
        z = np.concatenate([*joint_state(furuta(), rng.uniform(-3, 3, 2), rates), step.theta])
        way = rng.normal(size=len(z)) * np.concatenate([np.ones(26), step.theta])
        here = step.solve(z)
        around = [step.solve(z + share * 3e-6 * way) for share in (-2, -1, 1, 2)]
        if any(step.branch(other) != step.branch(here) for other in around):
            continue
        far, near = around[3].x_next - around[0].x_next, around[2].x_next - around[1].x_next
        expected = (8 * near - far) / (12 * 3e-6)
        step.solve(z)
        found = step.jacobian(z, here) @ way
        errors.append(np.linalg.norm(found - expected) / np.linalg.norm(expected))
        seen[here.modes.tobytes()] = seen.get(here.modes.tobytes(), 0) + 1
    assert len(errors) == 200
    assert max(errors) < 1e-6
    # Of the nine combinations of sticking and slipping either way.
    assert len(seen) >= 7


def one_sided(step: Differentiable, z: Array, way: Array, side: int) -> Array:
    """Derivative along ``way`` on one side, by differences of third order."""
    d = side * 3e-6
    x = [step.solve(z + i * d * way).x_next for i in range(4)]
    return (-11 * x[0] + 18 * x[1] - 9 * x[2] + 2 * x[3]) / (6 * d)


@per_stepper
def test_one_sided_derivatives_at_the_edge_of_sticking(stepper):
    # From slip rate s the hub goes on at max(s − h c/J, 0): derivative 0 below the edge, 1 above it.
    step = Differentiable(hub(inertia=0.002, coulomb=Parameter("c", 0.01)), stepper)
    edge = np.concatenate([*joint_state(hub(), [0.3], [0.01 * 0.01 / 0.002]), step.theta])
    way = np.zeros(len(edge))
    way[11] = 1.0
    below, above = (step.solve(edge + side * 1e-5 * way) for side in (-1, 1))
    assert (below.modes.tolist(), above.modes.tolist()) == ([STICKING], [FORWARD])
    at = step.solve(edge)
    for side, modes, expected in ((-1, below.modes, 0.0), (1, above.modes, 1.0)):
        found = step.jacobian(edge, replace(at, modes=modes)) @ way
        assert found[11] == pytest.approx(expected, abs=1e-9)
        np.testing.assert_allclose(found, one_sided(step, edge, way, side), atol=1e-7)


@per_stepper
def test_one_sided_derivatives_at_an_edge_of_the_furuta_pendulum(stepper):
    step, rng = Differentiable(rubbing_furuta(), stepper), np.random.default_rng(1)
    way = np.concatenate([np.zeros(14), rng.normal(size=12), 0 * step.theta])
    low, high = (np.concatenate([*joint_state(furuta(), [0.2, 0.02], [r, 0.2]), step.theta]) for r in (0.0, 2.0))
    assert step.solve(low).modes[0] == STICKING
    assert step.solve(high).modes[0] == FORWARD
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if step.solve(middle).modes[0] == STICKING else (low, middle)
    sides = [step.solve(z) for z in (low, high)]
    np.testing.assert_allclose(sides[0].x_next, sides[1].x_next, atol=1e-12)
    ahead = 1 if step.solve(high + 1e-5 * way).modes[0] == FORWARD else -1
    for side, solved in zip((-ahead, ahead), sides, strict=True):
        found = step.jacobian(high, solved) @ way
        np.testing.assert_allclose(found, one_sided(step, high, way, side), rtol=1e-5, atol=1e-6 * np.abs(found).max())


def difference(function: Callable[[Array], Array], z: Array, i: int) -> Array:
    unit = np.zeros(len(z))
    unit[i] = 1e-6 * max(abs(z[i]), 1e-2)
    near, far = function(z + unit) - function(z - unit), function(z + 2 * unit) - function(z - 2 * unit)
    return (8 * near - far) / (12 * unit[i])


@per_stepper
def test_motion_as_casadi_sees_it(stepper):
    declared = problem(rubbing_furuta(), stepper=stepper)
    # From rest some multipliers would vanish, where their absolute values have no derivative.
    run = declared.simulate(duration=1, initial={"shoulder": (0.0, 0.3), "elbow": (1.5, 0.5)})
    start = np.concatenate([run.q[0].ravel(), run.v[0].ravel()])
    theta = np.array([declared.guess[p.name] for p in declared.free])
    motion = motion_function(declared, 1.0)
    states = motion(start, theta).full()
    np.testing.assert_allclose(states.T, np.hstack([run.q.reshape(-1, 14), run.v.reshape(-1, 12)]), atol=1e-12)

    x0, p = ca.MX.sym("x0", 26), ca.MX.sym("theta", len(theta))
    slopes = ca.Function("slopes", [x0, p], [ca.jacobian(motion(x0, p), ca.vertcat(x0, p))])(start, theta).full()
    both = np.concatenate([start, theta])
    for i in (13, 16, 24, *range(26, 26 + len(theta))):
        expected = difference(lambda z: motion(z[:26], z[26:]).full().ravel("F"), both, i)
        np.testing.assert_allclose(slopes[:, i], expected, atol=1e-5 * np.abs(expected).max())


def test_simulation_error_leads_to_the_parameters():
    # Gauss-Newton on the simulation error of a pendulum that swings out and sticks.
    c, b = Parameter("c", 0.03), Parameter("b", 2e-3)
    declared = problem(pendulum(coulomb=c, viscous=b))
    truth = declared.simulate({"c": 0.05, "b": 4e-3}, duration=3, initial={"hinge": 1.5}, substeps=1)
    start = np.concatenate([truth.q[0].ravel(), truth.v[0].ravel()])
    motion, theta = motion_function(declared, 3.0), ca.MX.sym("theta", 2)
    error = motion(start, theta)[:3, :] - truth.q[:, 0, :3].T
    value = ca.Function("f", [theta], [ca.vec(error), ca.jacobian(ca.vec(error), theta)])
    found = np.array([0.03, 2e-3])
    for _ in range(12):
        residual, slope = (part.full() for part in value(found))
        found = found - np.linalg.lstsq(slope, residual[:, 0], rcond=None)[0]
    np.testing.assert_allclose(found, [0.05, 4e-3], rtol=1e-6)
    gradient = ca.Function("g", [theta], [ca.gradient(ca.sumsqr(error), theta)])([0.04, 3e-3]).full()[:, 0]
    residual, slope = (part.full() for part in value([0.04, 3e-3]))
    np.testing.assert_allclose(gradient, 2 * slope.T @ residual[:, 0], rtol=1e-12)


@per_stepper
def test_step_function_is_a_step_of_the_motion(stepper):
    declared = problem(rubbing_furuta(), stepper=stepper)
    one, motion = step_function(declared), motion_function(declared, 0.02)
    start = np.concatenate(joint_state(furuta(), [0.1, 1.0], [0.0, 0.0]))
    theta = np.array([declared.guess[p.name] for p in declared.free])
    u = [0.0, 0.5] if isinstance(stepper, Variational) else [0.0]
    np.testing.assert_allclose(one(start, u, theta).full()[:14, 0], motion(start, theta).full()[:14, 1], atol=1e-14)
    symbols = [ca.MX.sym(name, size) for name, size in (("x", 26), ("u", len(u)), ("theta", len(theta)))]
    slope = ca.Function("s", symbols, [ca.jacobian(one(*symbols), symbols[1])])(start, u, theta).full()
    up, down = (one(start, [u[0] + d, *u[1:]], theta).full() for d in (1e-3, -1e-3))
    np.testing.assert_allclose(slope[:, :1], (up - down) / 2e-3, atol=1e-8)


def test_motion_of_a_loop_with_joints_that_rub_more_than_they_can_move():
    c = Parameter("c", 0.002)
    model = linkage(LENGTHS, BASE, MASSES, [2e-4, 2.5e-3, 4e-3], coulomb=c, compliance=1e-8)
    declared = problem(model, 5e-3)
    run = declared.simulate(duration=0.3, initial=closed(LENGTHS, BASE, 1.0))
    start = np.concatenate([run.q[0].ravel(), run.v[0].ravel()])
    motion = motion_function(declared, 0.3)
    theta = ca.MX.sym("theta")
    slope = ca.Function("s", [theta], [ca.jacobian(motion(start, theta), theta)])(0.002).full()[:, 0]
    expected = difference(lambda z: motion(start, z).full().ravel("F"), np.array([0.002]), 0)
    np.testing.assert_allclose(slope, expected, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("function", [step_function, motion_function])
def test_smooth_friction_is_refused(function):
    with pytest.raises(ProblemError, match="smooth"):
        function(problem(pendulum(), friction="smooth"))
