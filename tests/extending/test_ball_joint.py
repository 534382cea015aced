"""A joint of one's own that turns about every axis: its coordinates are a unit quaternion with three rates."""

from __future__ import annotations

import math
from typing import Any

import casadi as ca
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.spatial.transform import Rotation

from spookid import (
    GROUND,
    Body,
    Coordinate,
    Joint,
    JointPosition,
    Manifold,
    Model,
    Parameter,
    PointPosition,
    Problem,
    Recording,
    Spook,
    Variational,
    gravity,
)

G, M, L = 9.82, 0.8, 0.25
TRUTH = {"J": 0.012, "b": 0.006}


class Ball(Joint):
    """About the origins of both frames, as a quaternion from the parent's axes to the child's."""

    coordinates = (Coordinate("rx", "rad"), Coordinate("ry", "rad"), Coordinate("rz", "rad"))
    linear = ("x", "y", "z")
    manifold = Manifold((("rotation", 4),))

    def violation(self, a, b):
        return a.origin - b.origin

    def position(self, a, b):
        return b.orientation_in(a)

    def transform(self, position):
        return ca.SX(3, 1), position


def top(inertia: Any = TRUTH["J"], **loads: Any) -> Model:
    """A heavy top that hangs from a ball, its axis along z."""
    body = Body("top", mass=M, inertia=(inertia, inertia, 0.004))
    return Model([body], [Ball("ball", GROUND.frame(), body.frame(at=(0, 0, L)), **loads)], gravity=gravity(G))


def chain() -> Model:
    """Two balls, one with the new body as the parent, in frames that are turned."""
    one, two = Body("one", mass=1, inertia=(0.01, 0.02, 0.03)), Body("two", mass=0.5, inertia=(0.02, 0.01, 0.015))
    first = Ball(
        "first",
        one.frame(at=(0, 0.1, 0.2), x=(1, 1, 0), y=(0, 0, 1)),
        GROUND.frame(at=(0, 0, 1), x=(0, 1, 0), y=(1, 0, 0)),
    )
    second = Ball("second", one.frame(at=(0, 0, -0.3)), two.frame(at=(0.2, 0, 0), x=(0, 0, 1), y=(0, 1, 0)))
    return Model([two, one], [second, first], gravity=gravity(G))


def test_rows_and_rates_are_derivatives():
    """Against differences, at a random state, at no rotation and at rest."""
    model, rng, eps = chain(), np.random.default_rng(0), 1e-5
    q, v = ca.SX.sym("q", 14), ca.SX.sym("v", 12)
    at, delta = model.mechanics(q), ca.SX.sym("delta", 12)
    evaluate = ca.Function("at", [q, v], [at.violation, at.constraint, at.slip @ v, at.displacement])
    move = ca.Function("move", [q, delta], [model.configuration.retract(q, delta)])
    still = np.tile([0, 0, 0, 1, 0, 0, 0], 2).astype(float)
    loose = np.concatenate([rng.normal(size=7), rng.normal(size=7)])
    for i in (3, 10):
        loose[i : i + 4] /= np.linalg.norm(loose[i : i + 4])
    for where, velocity in ((loose, rng.normal(size=12)), (still, rng.normal(size=12)), (still, np.zeros(12))):
        _, constraint, rates, _ = (part.full() for part in evaluate(where, velocity))
        ahead, behind = (evaluate(move(where, s * eps * velocity), 0) for s in (1, -1))
        change = [((a - b) / (2 * eps)).full()[:, 0] for a, b in zip(ahead, behind, strict=True)]
        np.testing.assert_allclose(constraint @ velocity, change[0], atol=1e-8)
        # A rotation vector ψ turns with J(ψ)⁻¹ω, J = 1 − (1 − cos a)/a² [ψ]× + (a − sin a)/a³ [ψ]×².
        for psi, own, turned in zip(
            np.split(evaluate(where, 0)[3].full()[:, 0], 2),
            np.split(rates[:, 0], 2),
            np.split(change[3], 2),
            strict=True,
        ):
            a, cross = max(np.linalg.norm(psi), 1e-9), ca.skew(psi).full()
            right = np.eye(3) - (1 - math.cos(a)) / a**2 * cross + (a - math.sin(a)) / a**3 * cross @ cross
            np.testing.assert_allclose(own, right @ turned, atol=1e-6)


def test_bodies_are_placed_where_the_joints_hold():
    model = chain()
    sensors = [JointPosition(joint, f"{joint.name}{i}", coordinate=i) for joint in model.joints for i in range(3)]
    problem = Problem("chain", model=model, observations=sensors, step=0.01)
    initial = {"first rx": 0.4, "first ry": -0.3, "second rz": (0.7, 0.5)}
    run = problem.simulate(initial=initial, duration=0.05)
    for name, value in {"first0": 0.4, "first1": -0.3, "first2": 0, "second0": 0, "second2": 0.7}.items():
        assert run.signals[name][0] == pytest.approx(value, abs=1e-12)
    assert np.diff(run.signals["second2"])[0] / 0.01 == pytest.approx(0.5, abs=0.3)


def swung(noise: float, seed: int = 0) -> Recording:
    """Markers on the top's rim and its rotation vector, by Euler's equations about the pivot."""
    inertia = np.diag([TRUTH["J"] + M * L**2] * 2 + [0.004])
    arm = np.array([0, 0, -L])

    def rate(_, s):
        e, w = s[:4] / np.linalg.norm(s[:4]), s[4:]
        turn = Rotation.from_quat(e, scalar_first=True)
        torque = np.cross(arm, turn.inv().apply([0, 0, -M * G])) - TRUTH["b"] * w - np.cross(w, inertia @ w)
        flow = 0.5 * np.array([-e[1:] @ w, *(e[0] * w + np.cross(e[1:], w))])
        return [*flow, *np.linalg.solve(inertia, torque)]

    t = np.arange(301) * 0.01
    start = [*Rotation.from_rotvec([0.7, 0.2, 0]).as_quat(scalar_first=True), 0.4, 1.5, 3.0]
    states = solve_ivp(rate, (0, 3), start, t_eval=t, rtol=1e-10, atol=1e-12).y.T
    turns = Rotation.from_quat(states[:, :4], scalar_first=True)
    rng = np.random.default_rng(seed)
    points = {f"p{axis}": turns.apply([0.1, 0, -L])[:, i] for i, axis in enumerate("xyz")}
    more = {f"r{axis}": turns.apply([0, 0.1, -L])[:, i] for i, axis in enumerate("xyz")}
    return Recording(t, {name: x + noise * rng.normal(size=len(t)) for name, x in {**points, **more}.items()})


@pytest.mark.study
@pytest.mark.parametrize(
    "settings",
    [
        {"stepper": Variational()},
        {"stepper": Variational(), "estimator": "hard"},
        {"stepper": Variational(), "state_weight": math.inf},
        {"stepper": Spook(multipliers="lifted"), "step": 0.005, "state_weight": 1e8},
    ],
    ids=["variational", "stretches", "hard", "lifted"],
)
def test_a_top_is_identified(settings):
    J, b = Parameter("J", 0.02, lower=1e-4, unit="kg m^2"), Parameter("b", 0.01, lower=0, unit="N m s")
    model, sigma = top(J, viscous=b, compliance=1e-7), 2e-4 if "state_weight" in settings else None
    body = model.bodies[0]
    sensors = [
        PointPosition(body.frame(at=at), axis, signal=f"{name}{axis}", sigma=sigma)
        for name, at in (("p", (0.1, 0, 0)), ("r", (0, 0.1, 0)))
        for axis in "xyz"
    ]
    problem = Problem("top", model=model, recordings=[swung(2e-4)], observations=sensors, **{"step": 0.01, **settings})
    solution = problem.solve()
    assert solution.status.value == "converged"
    # SPOOK is of first order: it damps by itself.
    names = ("J",) if isinstance(settings["stepper"], Spook) else ("J", "b")
    for name in names:
        found, truth = solution[name], TRUTH[name]
        assert 0 < found.std_err < 0.1 * truth
        slack = 0.0 if solution.noise and len(names) > 1 else 0.02 * truth  # what the step does
        assert abs(found.estimate - truth) < 4 * found.std_err + slack
    assert "top" in solution.summary()
    if solution.noise:
        moving = [name for size in solution.noise if size.kind == "disturbance" for name in size.names]
        assert sorted(moving) == ["ball rx", "ball ry", "ball rz"]


def test_friction_springs_and_drag_act_on_each_coordinate():
    """Dry friction of each axis stops a body that turns about it, a spring of one number holds all."""
    run = {}
    for name, loads in {"rub": {"coulomb": (0.01, 0.02, 0.03)}, "spring": {"stiffness": 2.0, "viscous": 0.1}}.items():
        model = top(0.004, **loads)
        sensors = [JointPosition(model.joints[0], f"r{i}", coordinate=i) for i in range(3)]
        problem = Problem(
            name,
            model=model.__class__(model.bodies, model.joints, gravity=gravity(0)),
            observations=sensors,
            step=0.01,
            friction="exact",
        )
        run[name] = problem.simulate(initial={"ball rz": (0.0, 3.0)}, duration=3.0)
    rz = run["rub"].signals["r2"]
    assert rz[-1] == pytest.approx(0.5 * 3**2 * 0.004 / 0.03, rel=0.05)
    assert np.ptp(rz[-50:]) < 1e-6
    assert abs(run["spring"].signals["r2"][-1]) < 1e-2
