"""A free swing of three links, so fast that long steps do not follow it, against SciPy's integrator: good samples stay,
and it is the step that is named."""

from __future__ import annotations

from functools import cache

import casadi as ca
import numpy as np
import pytest
from scipy.integrate import solve_ivp

from spookid import GROUND, Body, Hinge, HingeAngle, Model, Parameter, Problem, Recording, Solution, gravity

LENGTH, MASS = 0.2, 0.1
INERTIAS, DAMPING = (1.2e-3, 8e-4, 5e-4), 1e-4
TRUE = {f"J{i}": value for i, value in enumerate(INERTIAS)} | {f"b{i}": DAMPING for i in range(3)}


def equations() -> ca.Function:
    """Slopes of angles and rates by Lagrange's equations, with the angles of the joints as coordinates."""
    q, v = ca.SX.sym("q", 3), ca.SX.sym("v", 3)
    end, angle, kinetic, potential = ca.SX(2, 1), 0, 0, 0
    for i, inertia in enumerate(INERTIAS):
        angle += q[i]
        along = LENGTH * ca.vertcat(ca.sin(angle), -ca.cos(angle))
        centre, end = end + along / 2, end + along
        speed, turning = ca.jacobian(centre, q) @ v, ca.sum1(v[: i + 1])
        kinetic += (MASS * ca.dot(speed, speed) + inertia * turning**2) / 2
        potential += MASS * 9.81 * centre[1]
    momentum = ca.gradient(kinetic, v)
    force = ca.gradient(kinetic - potential, q) - ca.jacobian(momentum, q) @ v - DAMPING * v
    return ca.Function("slopes", [ca.vertcat(q, v)], [ca.vertcat(v, ca.solve(ca.jacobian(momentum, v), force))])


@cache
def swing(duration: float, interval: float) -> Recording:
    slopes, t = equations(), np.arange(round(duration / interval) + 1) * interval
    start, span = [2.4, 0.6, -0.8, 0, 0, 0], (0, t[-1])
    q = solve_ivp(lambda _, x: slopes(x).full().ravel(), span, start, t_eval=t, rtol=1e-9, atol=1e-11).y[:3]
    q = q + 1e-3 * np.random.default_rng(0).normal(size=q.shape)
    return Recording(t, {f"q{i}": one for i, one in enumerate(q)}, name="swing")


def solved(recording: Recording, step: float) -> Solution:
    axes = {"x": (0, 1, 0), "y": (1, 0, 0)}
    bodies, joints, end = [], [], GROUND.frame(x=(0, 1, 0), y=(0, 0, -1))
    for i in range(3):
        J, b = Parameter(f"J{i}", 1e-3, lower=1e-6), Parameter(f"b{i}", 2e-4, lower=0)
        bodies.append(Body(f"link {i}", mass=MASS, inertia=(1e-5, J, J)))
        joints.append(Hinge(f"pin {i}", end, bodies[-1].frame(at=(-LENGTH / 2, 0, 0), **axes), viscous=b))
        end = bodies[-1].frame(at=(LENGTH / 2, 0, 0), **axes)
    sensors = [HingeAngle(joint, f"q{i}") for i, joint in enumerate(joints)]
    return Problem("swing", Model(bodies, joints, gravity=gravity(9.81)), [recording], sensors, step=step).solve()


@pytest.mark.parametrize(("interval", "step"), [(0.01, 0.02), (0.03, 0.03)])
def test_good_samples_that_a_long_step_does_not_follow_are_kept(interval: float, step: float) -> None:
    """All samples are good: 1 of 200 is left out at the most, and estimates are those of the true motion."""
    recording = swing(10.0, interval)
    found = solved(recording, step)
    assert len(found.outliers) <= 0.005 * 3 * len(recording.t)
    for name in ("J0", "J1", "J2"):
        assert abs(found[name].estimate - TRUE[name]) < 4 * found[name].std_err


def test_a_step_that_does_not_follow_the_motion_is_named_with_what_it_adds() -> None:
    found = solved(swing(4.0, 0.005), 0.04)
    (warning,) = [one for one in found.findings if one.code == "step.error"]
    assert "J0" in warning.subject
    assert abs(found["J0"].step_error) > 3 * found["J0"].std_err
    assert "too long" in warning.effect
    assert not any("Contact" in one.text for one in found.findings)


def test_a_step_that_follows_the_motion_is_not_named() -> None:
    found = solved(swing(4.0, 0.005), 0.01)
    assert not any(one.code == "step.error" for one in found.findings)
