"""Gears, rods and users' own rows: derivatives, motion against Lagrange's equations, fits, and what is refused."""

from __future__ import annotations

import math
from typing import Any

import casadi as ca
import numpy as np
import pytest
from mechanism_twins import ACROSS, TWINS, Twin
from mechanisms import Array
from scipy.integrate import solve_ivp

from spookid import (
    GROUND,
    Body,
    Distance,
    Gear,
    Hinge,
    Holonomic,
    JointPosition,
    JointRate,
    Model,
    Motor,
    Nonholonomic,
    Observation,
    Parameter,
    PointPosition,
    Prismatic,
    Problem,
    ProblemError,
    Recording,
    Solution,
    Spook,
    Status,
    Variational,
    gravity,
)

ALONG = {"x": (1, 0, 0), "y": (0, 1, 0)}


def rack(**changes: Any) -> Model:
    """A rack on a slope, its pinion, a weight on a rod, and a belt that a free block cannot leave."""
    pinion = Body("pinion", mass=0.5, inertia=(1e-3, 2e-3, 1e-3))
    bar = Body("bar", mass=0.8, inertia=(1e-3, 1e-3, 1e-3))
    weight = Body("weight", mass=0.3, inertia=(1e-4, 1e-4, 1e-4), free=True)
    slope = GROUND.frame(at=(0, 0, -0.1), x=(0.8, 0, -0.6), y=(0, 1, 0))
    turn = Hinge("turn", GROUND.frame(**ACROSS), pinion.frame(**ACROSS))
    slide = Prismatic("slide", slope, bar.frame(x=(0.8, 0, -0.6), y=(0, 1, 0)))
    hook = bar.frame(at=(0.1, 0, 0))
    given = {
        "constraints": [
            Nonholonomic("keel", lambda s: s.velocity(weight.frame())[1], speed=0.1),
            Gear("mesh", turn, slide, 0.05),
            Distance("rod", hook, weight.frame(at=(0, 0, 0.02)), 0.4),
            Holonomic("plane", lambda s: s.position(weight.frame())[0] - 0.3),
        ],
        **changes,
    }
    return Model([pinion, bar, weight], [turn, slide], gravity=gravity(9.81), **given)


def test_rows_are_derivatives_and_stand_in_their_order():
    model, rng, eps = rack(), np.random.default_rng(1), 1e-6
    held = model.rows - 1
    assert model.holding.labels()[-4:] == ("mesh.ratio", "rod.length", "plane.0", "keel.0")
    assert model.rows_of(model.constraints[0]) == slice(held, held + 1)
    q, delta = ca.SX.sym("q", 21), ca.SX.sym("delta", 18)
    at = model.mechanics(q)
    evaluate = ca.Function("at", [q], [at.violation, at.constraint])
    move = ca.Function("move", [q, delta], [model.configuration.retract(q, delta)])
    where, velocity = rng.normal(size=21), rng.normal(size=18)
    for i in (3, 10, 17):
        where[i : i + 4] /= np.linalg.norm(where[i : i + 4])
    G = evaluate(where)[1].full()
    ahead, behind = (evaluate(move(where, s * eps * velocity))[0].full() for s in (1, -1))
    np.testing.assert_allclose(G[:held] @ velocity, (ahead - behind)[:, 0] / (2 * eps), atol=1e-6)
    np.testing.assert_allclose(G[held] @ velocity, velocity[13], atol=1e-12)


@pytest.mark.parametrize("turns", [0, 1, -7, 40])
@pytest.mark.parametrize("ratio", [2.0, -1.5, 1 / 3, 0.7])
def test_a_gear_holds_through_any_number_of_turns(ratio, turns):
    one, two = (Body(name, mass=1, inertia=(1, 1, 1)) for name in ("one", "two"))
    a, b = (Hinge(f"hinge {body.name}", GROUND.frame(), body.frame()) for body in (one, two))
    model = Model([one, two], [a, b], gravity=(0, 0, 0), constraints=[Gear("gear", a, b, ratio, 0.1)])
    angle = 0.4 + 2 * math.pi * turns
    pose = [(0, 0, 0, math.cos(x / 2), math.sin(x / 2), 0, 0) for x in (angle, ratio * angle + 0.1 + 1e-3)]
    q = ca.SX.sym("q", 14)
    rows = ca.Function("rows", [q], [model.violation(q)])(np.ravel(pose)).full()
    assert rows[-1, 0] == pytest.approx(1e-3, abs=1e-9)


# --- motion ---


@pytest.mark.parametrize("name", ["RSSR four-bar", "rolling disc", "gear pair", "double wishbone"])
def test_motion_is_that_of_lagranges_equations(name):
    twin, t = TWINS[name](), np.arange(51) * 0.01
    reference = twin.reference()
    model = twin.declared(twin.truth)
    problem = Problem("twin", model, observations=twin.sensors(model), step=0.01)
    run = problem.simulate(initial=reference.motion.state(reference.q, reference.v), duration=0.5)
    for signal, values in reference.seen(t).items():
        np.testing.assert_allclose(run.signals[signal], values, atol=1e-5)


def test_soft_constraints_hold_nearly():
    model = rack()
    run = Problem(
        "rack", model, observations=[JointPosition(model.joints[1], "x")], stepper=Spook(), step=1e-3
    ).simulate(initial=(start(), np.zeros((3, 6))), duration=0.3)
    q = ca.SX.sym("q", 21)
    rows = ca.Function("rows", [q], [model.violation(q)])
    assert max(np.abs(rows(pose.ravel()).full()).max() for pose in run.q) < 2e-3
    assert run.q[-1, 2, 1] - run.q[0, 2, 1] == pytest.approx(0.03, abs=2e-3)  # 0.1 m/s across for 0.3 s


def start() -> Array:
    """The rack where all of its constraints hold."""
    bar = np.array([0, 0, -0.1])
    weight = np.array([0.3, 0.0, 0.0])
    weight[2] = bar[2] - math.sqrt(0.4**2 - 0.2**2) - 0.02
    still = (1, 0, 0, 0)
    return np.array([(0, 0, 0, *still), (*bar, *still), (*weight, *still)])


def test_speeds_may_be_an_input():
    """A block on a belt, whose speed is a signal: all steppers follow it."""
    block = Body("block", mass=1, inertia=(0.01, 0.01, 0.01))
    slide = Prismatic("slide", GROUND.frame(**ALONG), block.frame(**ALONG))
    belt = Nonholonomic("belt", lambda s: s.rate(slide), speed="v", compliance=1e-9)
    model = Model([block], [slide], gravity=(0, 0, 0), constraints=[belt])
    t = np.arange(0, 1.001, 0.01)
    inputs = Recording(t, {"v": np.sin(3 * t)})
    means = np.concatenate([[0], np.cumsum(0.01 * np.sin(3 * t[:-1]))])
    for stepper in (Variational(), Spook()):
        problem = Problem("belt", model, observations=[JointPosition(slide, "x")], step=0.01, stepper=stepper)
        run = problem.simulate(duration=1.0, inputs=inputs, initial={"slide": 0.0})
        np.testing.assert_allclose(run.signals["x"], means, atol=1e-6)


# --- fits ---


def check(twin: Twin, solution: Solution, share: float) -> None:
    assert solution.status is Status.CONVERGED
    for name, value in twin.truth.items():
        assert abs(solution[name].estimate - value) < 3 * solution[name].std_err + share * value


@pytest.mark.parametrize(
    ("name", "settings", "share"),
    [
        ("gear pair", {}, 0.002),
        pytest.param("gear pair", {"stepper": Spook(), "state_weight": 1e6}, 0.05, marks=pytest.mark.study),
        pytest.param("rolling disc", {"state_weight": 1e6}, 0.002, marks=pytest.mark.study),
        ("rolling disc", {}, 0.002),
        ("slider-crank", {}, 0.02),
    ],
)
def test_twins_are_identified(name, settings, share):
    twin = TWINS[name]()
    problem = twin.problem(twin.recording(1.0, 0.005, 3), step_correction=False, estimator="noise", **settings)
    check(twin, problem.solve(), share)


def test_a_ratio_is_identified_through_turns():
    twin = TWINS["gear pair"]()
    made = twin.declared(twin.truth)
    first, second = made.joints
    ratio = Parameter("ratio", -1.4)
    model = Model(
        made.bodies, made.joints, gravity=gravity(9.81), constraints=[Gear("mesh", first, second, ratio, 0.3)]
    )
    recording = twin.recording(1.0, 0.01, 0)
    assert np.ptp(recording.signals["second"]) > 2 * math.pi
    problem = Problem("ratio", model, [recording], twin.sensors(model), step=0.01, step_correction=False)
    found = problem.solve(estimator="noise")["ratio"]
    assert abs(found.estimate + 1.5) < 3 * found.std_err + 1e-4


def test_a_speed_that_is_a_signal_is_fitted():
    """A pendulum under a cart whose speed is given, so that the disturbance of the cart says nothing."""
    truth, m, l, w = {"I": 0.004, "b": 0.003}, 0.5, 0.2, 6.0

    def flow(t: float, x: Array) -> list[float]:
        pull = 0.5 * w * math.cos(w * t)
        torque = m * l * (9.81 * math.cos(x[0]) + pull * math.sin(x[0])) - truth["b"] * x[1]
        return [x[1], torque / (truth["I"] + m * l**2)]

    t, rng = np.arange(201) * 0.005, np.random.default_rng(0)
    angle = solve_ivp(flow, (0, 1), [0.3, 0.0], t_eval=t, rtol=1e-10, atol=1e-12).y[0]
    place = 0.5 / w * (1 - np.cos(w * t))
    seen = {"angle": angle + 5e-4 * rng.normal(size=t.size), "place": place + 5e-4 * rng.normal(size=t.size)}
    recording = Recording(t, {**seen, "v": np.append(np.diff(place) / 0.005, 0.0)})
    inertia, viscous = Parameter("I", 0.006, lower=1e-6), Parameter("b", 0.005, lower=0)
    cart, rod = Body("cart", mass=1, inertia=(0.01, 0.01, 0.01)), Body("rod", mass=m, inertia=(1e-4, inertia, 0.004))
    slide = Prismatic("slide", GROUND.frame(**ALONG), cart.frame(**ALONG))
    hinge = Hinge("hinge", cart.frame(**ACROSS), rod.frame(at=(-l, 0, 0), **ACROSS), viscous=viscous)
    drive = Nonholonomic("drive", lambda s: s.rate(slide), speed="v")
    model = Model([cart, rod], [slide, hinge], gravity=gravity(9.81), constraints=[drive])
    sensors = [JointPosition(hinge, "angle"), JointPosition(slide, "place")]
    problem = Problem("cart", model, [recording], sensors, step=0.005, state_weight=math.inf)
    solution = problem.solve()
    assert solution.status is Status.CONVERGED
    for name, value in truth.items():
        assert solution[name].estimate == pytest.approx(value, rel=0.01)


@pytest.mark.parametrize("turned", [True, False], ids=["angle seen", "no sensor of the angle"])
def test_a_rolling_wheel_is_seen_between_the_steps_by_sensors_with_clocks_of_their_own(turned):
    m, b, r, I = 1.5, 0.02, 0.05, 2e-3

    def driven(t: float, y: Array) -> list[float]:
        force = math.cos(4 * t) / r
        return [y[1], (force - b * y[1] / r**2) / (m + 0.3 + I / r**2)]

    clocks = {
        "x": np.arange(0.0113, 0.6, 0.0171),
        "w": np.arange(0.0027, 0.6, 0.0063),
        "theta": np.arange(0.0044, 0.6, 0.0231),
        "a": np.arange(0.008, 0.6, 0.012),
    }
    rng, values = np.random.default_rng(4), {}
    for signal, clock in clocks.items():
        run = solve_ivp(driven, (0, 0.6), [0.1, 0.0], t_eval=clock, rtol=1e-10, atol=1e-12).y
        acceleration = np.array([driven(*one)[1] for one in zip(clock, run.T, strict=True)])
        true = {"x": run[0], "w": run[1] / r, "theta": run[0] / r, "a": acceleration}[signal]
        values[signal] = true + {"x": 2e-4, "w": 0.01, "theta": 4e-3, "a": 0.02}[signal] * rng.normal(size=len(clock))
    t = np.arange(0, 0.6, 0.01)
    cart = Body("cart", mass=Parameter("m", 1.4, lower=0.1), inertia=(1, 1, 1))
    wheel = Body("wheel", mass=0.3, inertia=(1e-3, I, 1e-3))
    slide = Prismatic("slide", GROUND.frame(**ALONG), cart.frame(**ALONG), disturbance=0.02)
    axle = Hinge(
        "axle", cart.frame(**ACROSS), wheel.frame(**ACROSS), viscous=Parameter("b", 0.018, lower=0), disturbance=1e-3
    )
    tread = Nonholonomic("tread", lambda s: s.rate(slide) - r * s.rate(axle))
    motor = Motor(axle, "u", gain=1.0, hold="linear")
    model = Model([cart, wheel], [slide, axle], [motor], gravity=gravity(9.81), constraints=[tread])
    recording = Recording(t, {"u": np.cos(4 * t), **values}, times=clocks)
    along = Observation(lambda s: s.acceleration(cart.frame())[0], "a")
    sensors = [JointPosition(slide, "x"), JointRate(axle, "w"), along]
    sensors += [JointPosition(axle, "theta")] * turned
    solution = Problem("wheel", model, [recording], sensors, step=0.01).solve()
    assert solution.status is Status.CONVERGED
    for name, value in (("m", m), ("b", b)):
        assert abs(solution[name].estimate - value) < 3 * solution[name].std_err + 1e-3 * value < 0.03 * value


# --- what is refused ---


def arm(*constraints: Any) -> Model:
    rod = Body("rod", mass=1, inertia=(0.01, 0.01, 0.01))
    hinge = Hinge("hinge", GROUND.frame(**ACROSS), rod.frame(at=(-0.2, 0, 0), **ACROSS))
    return Model([rod], [hinge], gravity=gravity(9.81), constraints=list(constraints))


ELSEWHERE = Hinge("other", GROUND.frame(), Body("elsewhere", mass=1, inertia=(1, 1, 1)).frame())


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: Gear("g", ELSEWHERE, ELSEWHERE, 2), "ties a coordinate to itself"),
        (lambda: Gear("g", ELSEWHERE, arm().joints[0], 0), "ratio 0"),
        (lambda: Gear("g", ELSEWHERE, arm().joints[0], 2, coordinate_a=1), "which has 1"),
        (lambda: arm(Gear("g", ELSEWHERE, arm().joints[0], 2)), "'other', which is not in the model"),
        (lambda: Distance("d", GROUND.frame(), GROUND.frame(at=(1, 0, 0)), 1), "joins 'GROUND' to itself"),
        (lambda: Distance("d", GROUND.frame(), ELSEWHERE.child, -1), "must be positive"),
        (lambda: arm(Distance("d", GROUND.frame(), ELSEWHERE.child, 1)), "'elsewhere', which is not in the bodies"),
        (lambda: arm(Holonomic("h", lambda s: s.v[0])), "write it as Nonholonomic"),
        (lambda: arm(Holonomic("h", lambda s: 1.0)), "no motion changes"),
        (lambda: arm(Holonomic("h", lambda s: s.nothing)), "cannot be evaluated"),
        (lambda: arm(Nonholonomic("n", lambda s: s.q[0])), "write it as Holonomic"),
        (lambda: arm(Nonholonomic("n", lambda s: s.v[0] ** 2)), "not linear"),
        (lambda: arm(Nonholonomic("n", lambda s: s.v[0] - 1)), "not zero at rest"),
        (lambda: arm(Nonholonomic("n", lambda s: s.a[0])), "depends on accelerations"),
        (lambda: arm(Nonholonomic("n", lambda s: s.v[:2], speed=(1, 2, 3))), "speed must have"),
        (lambda: arm(Nonholonomic("n", lambda s: s.v[:2], compliance=-1)), "must not be negative"),
        (lambda: arm(Nonholonomic("hinge", lambda s: s.v[:2])), "has the name of another one"),
    ],
)
def test_what_does_not_fit_is_refused(made, message):
    with pytest.raises(ProblemError, match=rf"test_constraints.py:\d+: .*{message}"):
        made()


@pytest.mark.parametrize("backend", ["lm", "ipopt"])
@pytest.mark.parametrize("settings", [{}, {"state_weight": 1e5}, {"state_weight": math.inf}, {"stepper": Spook()}])
def test_a_row_that_is_said_twice_changes_no_answer(backend, settings):
    t = np.arange(100) * 0.01
    u, down = 0.5 * np.sin(7 * t), {"x": (0, 1, 0), "y": (0, 0, -1)}

    def problem(rows, *recordings, **more):
        J, b = Parameter("J", 0.02, lower=1e-5), Parameter("b", 0.05, lower=0)
        first, other = Body("first", mass=1, inertia=(1e-3, J, 1e-3)), Body("other", mass=1, inertia=(1e-3, 2e-3, 1e-3))
        drive = Hinge("drive", GROUND.frame(**down), first.frame(at=(0, 0, 0.1), **down), viscous=b)
        driven = Hinge("driven", GROUND.frame(**down), other.frame(**down))
        gears = [Gear(f"gear {i}", drive, driven, 0.5) for i in range(rows)]
        model = Model([first, other], [drive, driven], [Motor(drive, "u")], gravity=gravity(9.81), constraints=gears)
        return Problem("gears", model, [*recordings], [JointPosition(drive, "q", sigma=1e-3)], step=0.01, **more)

    truth, start = {"J": 0.01, "b": 0.03}, {"drive": (0.3, 0.0)}
    log = problem(1).simulate(truth, 0.99, start, inputs=Recording(t, {"u": u}), noise={"q": 1e-3}, substeps=4)
    once, twice = (problem(rows, log, **settings).solve(backend=backend) for rows in (1, 2))
    for name in truth:
        assert twice[name].estimate == pytest.approx(once[name].estimate, abs=0.01 * once[name].std_err)
        assert twice[name].std_err == pytest.approx(once[name].std_err, rel=1e-3)


def test_rows_that_lose_their_rank_are_refused():
    """At the point of a cusp its row has no derivative left."""
    rod = Body("rod", mass=1, inertia=(0.01, 0.01, 0.01), free=True)
    frame = rod.frame()
    bowl = Holonomic("bowl", lambda s: s.position(frame)[0] ** 2 + s.position(frame)[2])
    cusp = Holonomic("cusp", lambda s: s.position(frame)[0] ** 3 - s.position(frame)[1] ** 2)
    t = np.arange(50) * 0.01
    seen = {"x": t - 0.25, "y": np.abs(t - 0.25) ** 1.5, "z": -((t - 0.25) ** 2)}
    model = Model([rod], gravity=gravity(9.81), constraints=[bowl, cusp])
    sensors = [PointPosition(frame, axis, axis) for axis in "xyz"]
    problem = Problem("rank", model, [Recording(t, seen)], sensors, step=0.01, state_weight=1e4)
    with pytest.raises(ProblemError, match=r"test_constraints.py:\d+: Holonomic 'cusp': row '0' takes no freedom at"):
        problem.solve(max_iterations=1)
