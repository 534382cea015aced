"""Springs, dampers, forces, torques and drag at points: against their power, and against equations by hand."""

from __future__ import annotations

from typing import Any

import casadi as ca
import numpy as np
import pytest
from mechanisms import function
from scipy.integrate import solve_ivp
from scipy.spatial.transform import Rotation

from spookid import (
    GROUND,
    Body,
    Fixed,
    Model,
    Parameter,
    PointDrag,
    PointForce,
    PointLoad,
    PointPosition,
    PointTorque,
    Prismatic,
    Problem,
    ProblemError,
    Recording,
    Spook,
    SpringDamper,
    Variational,
    gravity,
)

ONE, TWO = (Body(name, mass=1.0, inertia=(1, 1, 1), free=True) for name in ("one", "two"))
ON_ONE, ON_TWO = ONE.frame(at=(0.3, -0.2, 0.1), x=(0, 1, 1), y=(1, 0, 0)), TWO.frame(at=(-0.1, 0.4, 0.2))
U = (0.7, -0.4, 0.9)


def pushed(*loads: PointLoad) -> tuple[Any, int]:
    """Forces and torques of loads on both bodies as a function of numbers, with both frames."""
    model = Model([ONE, TWO], loads=loads, gravity=gravity(0))
    q, v, u = ca.SX.sym("q", 14), ca.SX.sym("v", 12), ca.SX.sym("u", len(model.signals))
    at = [model.moving(frame, q, v) for frame in (ON_ONE, ON_TWO)]
    force = model.pushed(q, v, u)
    slopes = [ca.jacobian(force, x) for x in (q, v)]
    outputs = [force, *(f.origin for f in at), *(f.velocity for f in at), at[0].axes, at[0].body_axes, *slopes]
    return function(outputs, [q, v, u]), len(model.signals)


def somewhere(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    q = rng.normal(size=14)
    for i in (3, 10):
        q[i : i + 4] /= np.linalg.norm(q[i : i + 4])
    return q, rng.normal(size=12)


def test_a_spring_and_a_damper_pull_along_their_line():
    evaluate, _ = pushed(SpringDamper(ON_ONE, ON_TWO, stiffness=3.0, rest=0.5, damping=0.7))
    for seed in range(3):
        q, v = somewhere(seed)
        force, a, b, v_a, v_b = evaluate(q, v, [])[:5]
        length = np.linalg.norm(b - a)
        parting = (b - a) @ (v_b - v_a) / length
        pull = 3.0 * (length - 0.5) + 0.7 * parting
        np.testing.assert_allclose(force[:3], pull * (b - a) / length, atol=1e-12)
        np.testing.assert_allclose(force[6:9], -force[:3], atol=1e-12)
        assert force @ v == pytest.approx(-pull * parting)  # torques too: what it takes is what the points give


def test_where_ends_meet_there_is_no_force_and_a_slope():
    """A rest length of zero is a spring in three directions; a rest length pulls nowhere there."""
    evaluate, _ = pushed(
        SpringDamper(ONE.frame(), TWO.frame(), stiffness=3.0),
        SpringDamper(ONE.frame(), TWO.frame(), stiffness=1, rest=1),
    )
    at = np.tile([0.0, 0, 0, 1, 0, 0, 0], 2)
    results = evaluate(at, np.zeros(12), [])
    assert all(np.isfinite(part).all() for part in results)
    np.testing.assert_allclose(results[0], 0)
    moved = at.copy()
    moved[7] = 2.0
    np.testing.assert_allclose(evaluate(moved, np.zeros(12), [])[0][:3], [3.0 * 2 + (2 - 1), 0, 0])


def test_drag_brakes_the_point():
    evaluate, _ = pushed(PointDrag(ON_ONE, linear=0.4, quadratic=0.3))
    q, v = somewhere()
    force, _, _, v_a, _ = evaluate(q, v, [])[:5]
    np.testing.assert_allclose(force[:3], -(0.4 + 0.3 * np.linalg.norm(v_a)) * v_a)
    assert force @ v == pytest.approx(-(0.4 + 0.3 * np.linalg.norm(v_a)) * v_a @ v_a)
    assert all(np.isfinite(part).all() for part in evaluate(q, np.zeros(12), []))


@pytest.mark.parametrize("axes", ["world", "frame"])
@pytest.mark.parametrize("signals", [(), "u", ("u", "w", "x")], ids=["constant", "one", "three"])
def test_given_forces_and_torques(axes, signals):
    vector = np.array([1.5, -2.0, 0.5])
    inputs = np.array(U if len(signals) == 3 else U[:1] if signals else [1.0])
    wanted = vector * inputs
    q, v = somewhere()
    for kind in (PointForce, PointTorque):
        evaluate, count = pushed(kind(ON_ONE, tuple(vector), signals=signals, axes=axes))
        force, _, _, v_a, _, frame, body = evaluate(q, v, U[:count])[:7]
        given = frame @ wanted if axes == "frame" else wanted
        np.testing.assert_allclose(force[6:], 0)
        if kind is PointForce:
            np.testing.assert_allclose(force[:3], given, atol=1e-12)
            assert force @ v == pytest.approx(given @ v_a)
        else:
            np.testing.assert_allclose(force[:3], 0)
            np.testing.assert_allclose(force[3:6], body.T @ given, atol=1e-12)


@pytest.mark.parametrize("stepper", [Spook(), Variational()], ids=["spook", "variational"])
def test_a_craft_flies_as_newton_and_euler_say(stepper):
    """A thruster in its axes, a torque and drag in the world's, by inputs held from sample to sample."""
    inertia, mass, out = np.array([0.02, 0.03, 0.04]), 1.5, np.array([0.0, 0.1, 0.05])
    t = np.arange(101) * 0.01
    inputs = Recording(t, {"u": np.sign(np.sin(5 * t)), "tx": 0.02 * np.cos(4 * t), "ty": 0.01 * t, "tz": 0.01 + 0 * t})

    def rate(_: float, s: np.ndarray, given: np.ndarray) -> np.ndarray:
        turn = Rotation.from_quat(s[3:7], scalar_first=True)
        drift, w, thrust = s[7:10], s[10:], np.array([2.0 * given[0], 0, 0])
        at_point = drift + turn.apply(np.cross(w, out))
        drag = -(0.3 + 0.2 * np.linalg.norm(at_point)) * at_point
        torque = np.cross(out, thrust + turn.inv().apply(drag)) + turn.inv().apply(given[1:]) - np.cross(w, inertia * w)
        flow = 0.5 * np.array([-s[4:7] @ w, *(s[3] * w + np.cross(s[4:7], w))])
        force = (turn.apply(thrust) + drag) / mass - [0, 0, 9.82]
        return np.array([*drift, *flow, *force, *(torque / inertia)])

    state = np.array([0, 0, 0, 1, 0, 0, 0, 1, 0, 3, 0.5, 1.0, -0.7], dtype=float)
    centers = [state[:3]]
    for given in np.column_stack(list(inputs.signals.values()))[:-1]:
        state = solve_ivp(rate, (0, 0.01), state, args=(given,), rtol=1e-9, atol=1e-11).y[:, -1]
        centers.append(state[:3])
    body = Body("craft", mass=mass, inertia=tuple(inertia), free=True)
    loads = [
        PointForce(body.frame(at=tuple(out)), (2.0, 0, 0), signals="u", axes="frame"),
        PointTorque(body.frame(), signals=("tx", "ty", "tz")),
        PointDrag(body.frame(at=tuple(out)), linear=0.3, quadratic=0.2),
    ]
    model = Model([body], loads=loads, gravity=gravity(9.82))
    sensors = [PointPosition(body.frame(), axis, signal=axis) for axis in "xyz"]
    problem = Problem("craft", model, observations=sensors, step=0.01, stepper=stepper)
    start = np.array([[0, 0, 0, 1, 0, 0, 0]]), np.array([[1, 0, 3, 0.5, 1.0, -0.7]])
    run = problem.simulate({}, 1.0, start, inputs=inputs)
    found = np.column_stack([run.signals[axis] for axis in "xyz"])
    np.testing.assert_allclose(found, centers, atol=0.05 if isinstance(stepper, Spook) else 1e-5)


def test_a_spring_is_identified_between_a_slide_and_a_post():
    """m x'' = −k (l − l₀) x/l − c x² x'/l², l² = x² + d²."""
    m, d, truth = 2.0, 0.3, {"k": 40.0, "rest": 0.25, "c": 1.5}
    P = {name: Parameter(name, guess, lower=0) for name, guess in (("k", 10.0), ("rest", 0.1), ("c", 0.5))}
    cart = Body("cart", mass=m, inertia=(1, 1, 1))
    slide = Prismatic("slide", GROUND.frame(), cart.frame())
    spring = SpringDamper(GROUND.frame(at=(0, d, 0)), cart.frame(), stiffness=P["k"], rest=P["rest"], damping=P["c"])
    model = Model([cart], [slide], loads=[spring], gravity=gravity(9.82))

    def rate(_: float, s: np.ndarray) -> list[float]:
        x, v = s
        length = np.hypot(x, d)
        pull = truth["k"] * (length - truth["rest"]) + truth["c"] * x * v / length
        return [v, -pull * x / length / m]

    t = np.arange(401) * 0.01
    x = solve_ivp(rate, (0, 4), [0.5, 0.0], t_eval=t, rtol=1e-10, atol=1e-12).y[0]
    seen = Recording(t, {"x": x + 1e-4 * np.random.default_rng(0).normal(size=len(t))})
    sensor = PointPosition(cart.frame(), "x", signal="x")
    solution = Problem("post", model, [seen], [sensor], step=0.01).solve()
    assert solution.status.value == "converged"
    for name, value in truth.items():
        assert 0 < solution[name].std_err < 0.05 * value
        assert abs(solution[name].estimate - value) < 4 * solution[name].std_err, (name, solution[name])


def test_mistakes_are_told():
    body = Body("b", mass=1, inertia=(1, 1, 1))
    here, there = body.frame(), GROUND.frame()
    for declare, complaint in (
        (lambda: SpringDamper(here, there, stiffness=-1), "SpringDamper: stiffness is -1; it must not be negative"),
        (lambda: SpringDamper(here, there, damping=(1, 2)), "SpringDamper: damping must have one number"),
        (lambda: PointDrag(here, linear=-1), "PointDrag: linear is -1; it must not be negative"),
        (lambda: PointForce(here, (1, 2)), "PointForce: vector must have shape 3"),
        (
            lambda: PointForce(here, signals=("a", "b")),
            "PointForce has 2 signals; give one for all axes, or one each",
        ),
        (lambda: PointForce(here, signals=(1,)), "PointForce: signals holds 1"),
        (
            lambda: Model([body], [Fixed("f", here, there)], loads=[SpringDamper(body, there)], gravity=gravity(0)),
            "SpringDamper: a is .*; give a frame",
        ),
    ):
        with pytest.raises(ProblemError, match=rf"test_point_forces\.py:\d+: {complaint}"):
            declare()
