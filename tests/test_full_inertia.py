"""Bodies with a centre of mass and a full inertia: their motion against equations written down here, and fits."""

from __future__ import annotations

from functools import cache
from typing import Any

import casadi as ca
import numpy as np
import pytest
from lagrange import Motion, Solid, turned
from mechanisms import maximal
from scipy.integrate import solve_ivp

from spookid import (
    GROUND,
    Accelerometer,
    Body,
    Ellipsoid,
    Equations,
    FullInertia,
    Gyroscope,
    Hinge,
    HingeAngle,
    LogCholesky,
    Model,
    Motor,
    OneStep,
    Parameter,
    PointMasses,
    PointPosition,
    Problem,
    Recording,
    Spook,
    Status,
    Variational,
    gravity,
)

G = 9.81
MASS, CENTER, ENTRIES = 1.4, (0.15, 0.03, -0.02), (0.008, 0.02, 0.022, 0.002, -0.001, 0.0015)
UP, ACROSS = {"x": (0, 0, 1), "y": (1, 0, 0)}, {"x": (0, 1, 0), "y": (1, 0, 0)}


def matrix(six: Any) -> Any:
    return np.array([[six[0], six[3], six[4]], [six[3], six[1], six[5]], [six[4], six[5], six[2]]])


class Midpoint(OneStep):
    """The implicit midpoint rule."""

    name, order = "midpoint", 2

    def equations(self, step):
        v = (step.v + step.v_next) / 2
        moved = step.minus(step.q_next, step.q) / step.h - v
        middle = step.plus(step.q, step.h / 2 * v)
        return Equations(step.impulse(middle, v), ca.vertcat(moved, step.violation(step.q_next) / step.h))


# --- motion ---


def thrown() -> tuple[Any, Any]:
    """Times, and a point of a body in free fall that turns by Euler's equations, (N, 3)."""
    J, omega = matrix(ENTRIES), np.array([3.0, -2.0, 4.0])

    def flow(_: float, s: Any) -> Any:
        w, R = s[:3], s[3:].reshape(3, 3)
        turning = R @ np.array([[0, -w[2], w[1]], [w[2], 0, -w[0]], [-w[1], w[0], 0]])
        return np.concatenate([np.linalg.solve(J, -np.cross(w, J @ w)), turning.ravel()])

    t = np.arange(21) * 0.02
    found = solve_ivp(flow, (0, t[-1]), [*omega, *np.eye(3).ravel()], t_eval=t, rtol=1e-10, atol=1e-12).y
    center = np.outer(t, [1, 2, 3]) - np.outer(t**2 / 2, [0, 0, G])
    turned = found[3:].T.reshape(-1, 3, 3)
    return t, center + turned @ (np.array([0.3, -0.1, 0.2]) - CENTER)


@pytest.mark.parametrize(("stepper", "order"), [(Variational(), 2), (Midpoint(), 2), (Spook(), 1)])
def test_a_thrown_body_turns_as_euler_says(stepper, order):
    body = Body("body", inertia=FullInertia(MASS, CENTER, inertia=ENTRIES), free=True)
    sensors = [PointPosition(body.frame(at=(0.3, -0.1, 0.2)), axis, axis) for axis in "xyz"]
    start = np.array([[0.0, 0, 0, 1, 0, 0, 0]]), np.array([[1.0, 2, 3, 3, -2, 4]])
    _, point = thrown()

    def off(parts: int) -> float:
        problem = Problem("thrown", Model([body], gravity=gravity(G)), [], sensors, step=0.02 / parts, stepper=stepper)
        run = problem.simulate(initial=start, duration=0.4, substeps=1)
        return float(np.abs(np.column_stack([run.signals[axis] for axis in "xyz"])[::parts] - point).max())

    errors = [off(parts) for parts in (4, 8)]
    assert errors[1] < 0.02
    assert errors[0] / errors[1] == pytest.approx(2**order, rel=0.25)


FIRST = (1.0, (0.0, 0.02, 0.1), (0.01, 0.012, 0.008, 0.001, 0.0005, -0.0008))


def torques(t: Any, lib: Any = np) -> tuple[Any, Any]:
    return 1.5 * lib.sin(3.1 * t) + lib.sin(7.3 * t + 1), 2.0 * lib.sin(4.3 * t) + 1.2 * lib.cos(9.1 * t)


def arm(link: Any, viscous: tuple[Any, Any] = (0.3, 0.2), first: Any = None) -> Model:
    """A link that turns about a horizontal axle on one that turns about a vertical one, torques measured."""
    base = Body("base", inertia=first or FullInertia(FIRST[0], FIRST[1], inertia=FIRST[2]))
    outer = Body("arm", inertia=link)
    shoulder = Hinge("shoulder", GROUND.frame(**UP), base.frame(**UP), viscous=viscous[0])
    elbow = Hinge("elbow", base.frame(at=(0, 0, 0.2), **ACROSS), outer.frame(**ACROSS), viscous=viscous[1])
    motors = [Motor(shoulder, "u1", gain=1, hold="linear"), Motor(elbow, "u2", gain=1, hold="linear")]
    return Model([base, outer], [shoulder, elbow], motors, gravity=gravity(G))


def problem_of(model: Model, recordings: Any = (), **settings: Any) -> Problem:
    sensors = [HingeAngle(joint, f"q{i}", sigma=2e-4) for i, joint in enumerate(model.joints, start=1)]
    return Problem("arm", model, recordings, sensors, **{"step": 0.01, "state_weight": 1e8, **settings})


def driven(duration: float, step: float) -> Recording:
    t = np.arange(round(duration / step) + 1) * step
    return Recording(t, dict(zip(("u1", "u2"), torques(t), strict=True)))


def test_an_arm_moves_as_lagrange_says():
    q = ca.SX.sym("q", 2)
    R1 = turned(2, q[0])
    R2 = R1 @ turned(1, q[1])
    solids = [
        Solid(FIRST[0], matrix(FIRST[2]), R1 @ ca.DM(FIRST[1]), R1),
        Solid(MASS, matrix(ENTRIES), ca.DM([0, 0, 0.2]) + R2 @ ca.DM(CENTER), R2),
    ]
    motion = Motion(q, solids, (0, 0, -G), lambda q, v, t: ca.vertcat(*torques(t, ca)) - ca.DM([0.3, 0.2]) * v)
    inputs = driven(1.0, 0.001)
    found, _ = motion.run([0.0, 0.3], [0.0, 0.0], inputs.t)
    problem = problem_of(arm(FullInertia(MASS, CENTER, inertia=ENTRIES)), step=0.01)
    run = problem.simulate(initial={"shoulder": 0.0, "elbow": 0.3}, duration=1.0, inputs=inputs)
    angles = np.column_stack([run.signals["q1"], run.signals["q2"]])
    np.testing.assert_allclose(angles, found[::10][: len(angles)], atol=2e-5)


# --- the same pendulum declared in two ways ---


OUT = 0.35


def pendulum(full: bool) -> tuple[Model, list[Any]]:
    """Its centre of mass is as far from the axle as a Parameter says; a unit and a marker sit OUT from the axle."""
    l, J, m = Parameter("l", 0.2), Parameter("J", 0.006, lower=1e-6), 0.5
    if full:
        body = Body("rod", inertia=FullInertia(m, (l, 0, 0), inertia=(1e-4, J, J)))
        axle, unit = body.frame(**ACROSS), body.frame(at=(OUT, 0, 0))
    else:
        body = Body("rod", mass=m, inertia=(1e-4, J, J))
        axle, unit = body.frame(at=(-l, 0, 0), **ACROSS), body.frame(at=(OUT - l, 0, 0))
    hinge = Hinge(
        "hinge", GROUND.frame(**ACROSS), axle, viscous=Parameter("b", 0.01), load_friction=1e-4, compliance=1e-6
    )
    sensors = [HingeAngle(hinge, "q", sigma=1e-3), PointPosition(unit, "z", "z", sigma=1e-3)]
    sensors += [Gyroscope(unit, ("gx", "gy", "gz"), sigma=0.01), Accelerometer(unit, ("ax", "ay", "az"), sigma=0.1)]
    return Model([body], [hinge], gravity=gravity(G)), sensors


@cache
def swung() -> Recording:
    model, sensors = pendulum(False)
    truth = {"l": 0.25, "J": 0.005, "b": 0.004}
    run = Problem("p", model, [], sensors, step=0.01).simulate(truth, 0.6, {"hinge": 0.5})
    rng = np.random.default_rng(0)
    return Recording(run.t, {n: x + 1e-3 * rng.normal(size=len(x)) for n, x in run.signals.items()}, name="r")


@pytest.mark.study
@pytest.mark.parametrize("stepper", [Variational(), Spook(), Spook(multipliers="lifted")])
def test_a_pendulum_is_the_same_however_it_is_declared(stepper):
    found = []
    for full in (False, True):
        model, sensors = pendulum(full)
        found.append(Problem("p", model, [swung()], sensors, step=0.02, state_weight=1e6, stepper=stepper).solve())
    plain, full = found
    assert full.status is plain.status is Status.CONVERGED
    for name in ("l", "J", "b"):
        assert full[name].estimate == pytest.approx(plain[name].estimate, rel=1e-7)
        assert full[name].std_err == pytest.approx(plain[name].std_err, rel=1e-5)
    np.testing.assert_allclose(full.trajectories[0].q, plain.trajectories[0].q, atol=1e-8)
    assert full.mechanism.hinges[0].child_at == pytest.approx(plain.mechanism.hinges[0].child_at)
    assert full.physical["rod c_x"].std_err == pytest.approx(plain["l"].std_err, rel=1e-5)
    assert list(plain.physical) == []


# --- fits ---


GUESS = FullInertia(1.0, (0.1, 0, 0), inertia=(0.006, 0.015, 0.016))


@cache
def twin() -> Recording:
    model = arm(FullInertia(MASS, CENTER, inertia=ENTRIES))
    inputs = driven(1.5, 0.01)
    run = problem_of(model).simulate(initial={"elbow": 0.3}, duration=1.5, inputs=inputs, substeps=1)
    rng = np.random.default_rng(1)
    shown = {name: run.signals[name] + 2e-4 * rng.normal(size=len(run.t)) for name in ("q1", "q2")}
    return Recording(run.t, {**{n: u[: len(run.t)] for n, u in inputs.signals.items()}, **shown}, name="r")


@pytest.mark.study
def test_a_body_stays_inside_its_ellipsoid():
    """The data put the centre of mass outside of it."""
    guess = FullInertia(1.0, (0.05, 0, 0), inertia=(0.002, 0.004, 0.004))
    inside = Ellipsoid((0.05, 0, 0), (0.15, 0.15, 0.15))
    link, solution = fitted_inside(guess, inside)
    assert solution["arm_room"].at_bound
    left = solution(inside.room(link.mass, link.center_of_mass, link.inertia))
    assert left.estimate == pytest.approx(0, abs=0.01)


def fitted_inside(guess: FullInertia, inside: Ellipsoid) -> tuple[Any, Any]:
    link = LogCholesky("arm", guess, inside=inside, sigma=1.0)
    return link, problem_of(maximal(arm(link)), [twin()]).solve()


def test_point_masses_fit_too():
    corners = [(x, y, z) for x in (-0.05, 0.35) for y in (-0.1, 0.15) for z in (-0.12, 0.1)] + [
        (0.1, 0, 0),
        (0.2, 0, 0),
    ]
    link = PointMasses("arm", corners, GUESS, within=0.5)
    solution = problem_of(maximal(arm(link)), [twin()]).solve()
    assert solution.status is Status.CONVERGED
    seen = solution(link.pi[1])
    assert abs(seen.estimate - MASS * CENTER[0]) < 5e-3


@pytest.mark.parametrize(
    "given",
    [
        {"mass": 0.5, "inertia": (1e-4, 0.005, 0.02)},
        {"inertia": FullInertia(0.5, inertia=(0.00012, 0.00034, 0.000461))},
    ],
    ids=["made up", "printed"],
)
def test_given_moments_that_no_body_has_are_named(given):
    body = Body("rod", **given)
    hinge = Hinge("hinge", GROUND.frame(**ACROSS), body.frame(at=(-0.25, 0, 0), **ACROSS), viscous=Parameter("b", 0.01))
    sensors = [HingeAngle(hinge, "q", sigma=1e-3)]
    solution = Problem(
        "p", Model([body], [hinge], gravity=gravity(G)), [swung()], sensors, step=0.02, state_weight=1e8
    ).solve()
    (notice,) = [f.text for f in solution.findings if f.code == "inertia.unphysical"]
    assert "body 'rod'" in notice
    assert "test_full_inertia.py:" in notice
