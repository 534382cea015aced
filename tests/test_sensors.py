"""Every sensor: what it shows against differences of motions, its offset, scale and loss, and what it refuses."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

import casadi as ca
import numpy as np
import pytest
from mechanisms import Array
from scipy.integrate import solve_ivp

from spookid import (
    GROUND,
    Accelerometer,
    Body,
    Gyroscope,
    Hinge,
    HingeAngle,
    JointForce,
    JointPosition,
    JointRate,
    JointTorque,
    Model,
    Motor,
    Observation,
    Orientation,
    Parameter,
    PointDistance,
    PointPosition,
    Problem,
    ProblemError,
    Recording,
    Sensor,
    Solution,
    State,
    Status,
    gravity,
    tilted_gravity,
)

G, STEP, MASS, LENGTH = 9.82, 0.01, 0.5, 0.2
XYZ = ("x", "y", "z")


# --- what they show ---


arm = Body("arm", mass=1.3, inertia=(0.01, 0.02, 0.03))
rod = Body("rod", mass=0.7, inertia=(0.02, 0.03, 0.04))
base = GROUND.frame(at=(0.1, 0.2, 0.3), x=(0.1, 0.2, 1), y=(1, 0, -0.1))
shoulder = Hinge("shoulder", base, arm.frame(at=(-0.2, 0.1, 0), x=(0, 0, 1), y=(1, 0, 0)))
elbow = Hinge(
    "elbow", arm.frame(at=(0.3, 0, 0.1), x=(1, 0, 0), y=(0, 1, 0)), rod.frame(at=(0, 0.2, 0), x=(0, 1, 0), y=(0, 0, 1))
)
MODEL = Model([arm, rod], [shoulder, elbow], gravity=tilted_gravity(G, 0.1, 0.2))
unit = rod.frame(at=(0.1, -0.2, 0.3), x=(1, 1, 0), y=(-1, 1, 0.5))


def test_a_force_is_that_of_the_parent_side_on_the_child_side_whichever_is_nearer_to_the_ground() -> None:
    bar = Body("bar", mass=2, inertia=(1, 1, 1))
    for sign, sides in ((1, (GROUND.frame(), bar.frame())), (-1, (bar.frame(), GROUND.frame()))):
        joint = Hinge("joint", *sides)
        still = State(Model([bar], [joint], gravity=gravity(G)), ca.SX([0, 0, 0, 1, 0, 0, 0]), ca.SX(6, 1), ca.SX(6, 1))
        np.testing.assert_allclose(ca.DM(still.wrench(joint)[0]).full()[:, 0], [0, 0, sign * 2 * G])


def test_forces_in_closed_loops_are_refused() -> None:
    both = [Hinge(name, GROUND.frame(), arm.frame()) for name in ("one", "other")]
    with pytest.raises(ProblemError, match="a mechanism that closes loops"):
        JointForce(both[0], XYZ).channels(Model([arm], both, gravity=gravity(G)))


# --- a pendulum ---


TRUTH = {"J": 0.005, "b": 0.004}


@cache
def swing() -> tuple[Array, Array, Array, Array]:
    """Time, angle, rate and acceleration of a pendulum about the world's y, released at 2 rad."""
    t, inertia = np.arange(0, 6, STEP), TRUTH["J"] + MASS * LENGTH**2

    def turning(x: Any, w: Any) -> Any:
        return (-MASS * G * LENGTH * np.sin(x) - TRUTH["b"] * w) / inertia

    x, w = solve_ivp(lambda _, s: [s[1], turning(*s)], (0, 6), [2.0, 0.0], t_eval=t, rtol=1e-10, atol=1e-12).y
    return t, x, w, turning(x, w)


def mechanism(mass: Any = MASS, **hinge: Any) -> Model:
    J = Parameter("J", 0.01, lower=1e-6, unit="kg m^2")
    b = Parameter("b", 1e-3, lower=0, unit="N m s")
    bar = Body("bar", mass=mass, inertia=(1e-4, J, J))
    at_hinge = bar.frame(at=(-LENGTH, 0, 0), x=(0, 1, 0), y=(1, 0, 0))
    joint = Hinge("hinge", GROUND.frame(x=(0, 1, 0), y=(0, 0, -1)), at_hinge, viscous=b, **hinge)
    return Model([bar], [joint], gravity=gravity(G))


def noise(size: float, seed: int = 0) -> Array:
    return size * np.random.default_rng(seed).standard_normal(len(swing()[0]))


def fitted(model: Model, sensors: Sequence[Sensor], signals: dict[str, Array], **settings: Any) -> Solution:
    return Problem("pendulum", model, [Recording(swing()[0], signals)], sensors, step=STEP, **settings).solve()


def assert_true(solution: Solution, **truth: float) -> None:
    assert solution.status is Status.CONVERGED
    for name, value in (TRUTH | truth).items():
        estimate = solution[name]
        assert estimate.std_err > 0
        assert abs(estimate.estimate - value) < 3.5 * estimate.std_err, (name, estimate.estimate, estimate.std_err)


@cache
def clean(sigma: float | None = None) -> Solution:
    model = mechanism()
    return fitted(
        model, [HingeAngle(model.joints[0], "angle", sigma)], {"angle": swing()[1] + noise(1e-3)}, estimator="noise"
    )


def test_a_robust_loss_fits_with_hard_dynamics() -> None:
    """Its plain fit leaves estimates and no motion to start from, and is not asked for again."""
    model = mechanism()
    sensor = HingeAngle(model.joints[0], "angle", 1e-3, loss="cauchy")
    assert_true(fitted(model, [sensor], {"angle": swing()[1] + noise(1e-3)}, estimator="hard"))


def test_a_robust_loss_finds_the_size_of_the_noise_that_is_not_wrong() -> None:
    for loss in ("huber", "cauchy"):
        model, angle = mechanism(), swing()[1] + noise(1e-3)
        angle[::100] += 1.0
        sensor = HingeAngle(model.joints[0], "angle", loss=loss)
        solution = fitted(model, [sensor], {"angle": angle}, step_correction=False)
        (found,) = [n.std for n in solution.noise if n.kind == "sensor"]
        assert found == pytest.approx(1e-3, rel=0.08)


def test_an_encoder_may_count_and_begin_anywhere() -> None:
    """Counts of a turn, wrapped; where it begins is found, for the pendulum hangs down."""
    model, zero = mechanism(), Parameter("zero", 0.0, unit="counts")
    counts = (-1000 / (2 * math.pi) * (swing()[1] + noise(1e-3)) + 300) % 1000
    sensor = HingeAngle(model.joints[0], "counts", scale=-1000 / (2 * math.pi), offset=zero)
    solution = fitted(model, [sensor], {"counts": counts})
    assert_true(solution, zero=300)
    assert [n.unit for n in solution.noise if n.kind == "sensor"] == [""]
    assert solution.trajectories[0].periods == (1000,)
    assert solution["J"].std_err == pytest.approx(clean()["J"].std_err, rel=0.1)


def test_a_scale_is_found() -> None:
    model, scale = mechanism(), Parameter("scale", 1.0)
    sensor = JointRate(model.joints[0], "rate", scale=scale, offset=Parameter("drift", 0.0))
    angle = HingeAngle(model.joints[0], "angle")
    signals = {"angle": swing()[1] + noise(1e-3), "rate": 1.1 * swing()[2] + 0.2 + noise(0.01, 1)}
    assert_true(fitted(model, [angle, sensor], signals), scale=1.1, drift=0.2)
    plain = [kind(model.joints[0], "s").unit for kind in (HingeAngle, JointRate)]
    assert plain == ["rad", "rad/s"]


def test_a_load_cell_tells_a_mass() -> None:
    _, angle, rate, turning = swing()
    mass = Parameter("m", 0.4, lower=0.01, unit="kg")
    model = mechanism(mass)
    out = np.array([-np.sin(angle), 0 * angle, -np.cos(angle)])  # along the rod, in the world
    along = np.array([-np.cos(angle), 0 * angle, np.sin(angle)])
    force = MASS * (LENGTH * (turning * along - rate**2 * out) + [[0], [0], [G]])
    parent = ca.DM(model.joints[0].parent.axes).full()
    signals = dict(zip(XYZ, parent.T @ force, strict=True))
    signals = {name: value + noise(0.02, i) for i, (name, value) in enumerate(signals.items())}
    sensors = [HingeAngle(model.joints[0], "angle"), JointForce(model.joints[0], XYZ)]
    solution = fitted(model, sensors, {**signals, "angle": swing()[1] + noise(1e-3)})
    assert solution["m"].std_err < 0.005
    assert_true(solution, m=MASS)


# --- measured torques ---


@cache
def driven() -> Recording:
    """A pendulum driven by a torque that is measured with noise; K = 0.1 N m/A."""
    t, inertia = np.arange(0, 5, STEP), TRUTH["J"] + MASS * LENGTH**2

    def torque(at: Any) -> Any:
        return 0.3 * np.sin(3 * at) + 0.2 * np.sin(7.3 * at)

    def equations(at: float, s: Array) -> list[float]:
        return [s[1], (torque(at) - MASS * G * LENGTH * np.sin(s[0]) - TRUTH["b"] * s[1]) / inertia]

    x = solve_ivp(equations, (0, 5), [0.5, 0.0], t_eval=t, rtol=1e-10, atol=1e-12).y
    rng = np.random.default_rng(2)
    current = (torque(t) + 0.02 * rng.standard_normal(len(t)) + 0.05) / 0.1
    return Recording(t, {"angle": x[0] + 1e-4 * rng.standard_normal(len(t)), "current": current})


@pytest.mark.parametrize("weight", [None, 1e6])
def test_a_measured_torque_is_a_motor_whose_torque_is_measured(weight: float | None) -> None:
    def fit(declare: Any) -> Solution:
        model, sensors = declare(mechanism())
        given = {"step": STEP, "state_weight": weight}
        return Problem("driven", model, [driven()], sensors, **given).solve()

    def as_motor(model: Model) -> tuple[Model, list[Sensor]]:
        (joint,) = model.joints
        motors = [Motor(joint, "current", gain=0.1, measured=True)]
        return Model(model.bodies, model.joints, motors, gravity=model.gravity), [HingeAngle(joint, "angle")]

    def as_sensor(model: Model) -> tuple[Model, list[Sensor]]:
        (joint,) = model.joints
        return model, [JointTorque(joint, "current", scale=10), HingeAngle(joint, "angle")]

    one, other = fit(as_motor), fit(as_sensor)
    assert one.status is other.status is Status.CONVERGED
    for name in TRUTH:
        assert other[name].estimate == pytest.approx(one[name].estimate, rel=1e-9)
        assert other[name].std_err == pytest.approx(one[name].std_err, rel=1e-6)
    assert [n.names for n in one.noise] == [n.names for n in other.noise]


def test_the_offset_and_the_noise_of_a_torque() -> None:
    model, zero = mechanism(), Parameter("zero", 0.0, unit="A")
    (joint,) = model.joints
    sensors = [JointTorque(joint, "current", 0.2, scale=1 / 0.1, offset=zero), HingeAngle(joint, "angle")]
    problem = Problem("driven", model, [driven()], sensors, step=STEP)
    solution = problem.solve()
    assert_true(solution, zero=0.5)
    assert next(n for n in solution.noise if n.names == ("current",)).std == pytest.approx(0.02)
    # A copy keeps one motor a sensor, and loses it with the sensor.
    assert len(problem.with_(cutoff=5.0).model.motors) == 1
    assert len(problem.with_(observations=sensors[1:]).model.motors) == 0


# --- what they refuse ---


DRIVEN = Model([arm, rod], [shoulder, elbow], [Motor(elbow, "u")], gravity=gravity(G))


@pytest.mark.parametrize(
    ("declare", "words"),
    [
        (lambda: HingeAngle(elbow, "a", scale=0), "scale 0"),
        (lambda: Gyroscope(unit, XYZ, (0.1, 0.1, -1)), "must be positive, or None to estimate it"),
        (
            lambda: Gyroscope(unit, XYZ, offset=(1, 2)),
            "offset has 2 values; give one, or one for each of its 3",
        ),
        (lambda: Gyroscope(unit, XYZ, bias=1, offset=1), "bias and offset, which are one"),
        (lambda: Accelerometer(unit, XYZ, mounting=0), "mounting must have shape 3"),
        (lambda: Accelerometer(unit, "a"), "give the names of 3"),
        (lambda: Accelerometer(unit, XYZ, axis="xw"), "axis 'xw'; choose 'x', 'y', 'z'"),
        (lambda: Orientation(unit, ("w", *XYZ), None), "give one number [rad], all axes alike"),
        (lambda: PointPosition(unit, "xw", ("a", "b")), "choose 'x', 'y' or 'z'"),
        (lambda: PointPosition(unit, "xy", "a"), "give the names of 2"),
        (lambda: PointDistance(unit, rod.frame(), "d"), "it never changes"),
        (lambda: JointRate(elbow, "r", coordinate=1), "coordinate 1 of 'elbow'"),
        (lambda: JointTorque(elbow, "t", loss="huber"), "leave samples far off out"),
        (lambda: Problem("p", DRIVEN, [], [JointTorque(elbow, "t")]).channels, "what the Motor at"),
        (lambda: Gyroscope(Body("other", 1, (1, 1, 1)).frame(), XYZ).channels(MODEL), "which is not in the model"),
        (
            lambda: Observation(lambda s: s.angle(elbow) + ca.SX.sym("c"), "a").channels(MODEL),
            "the symbol 'c', which is no Parameter",
        ),
    ],
)
def test_wrong_sensors_are_refused_where_they_are_declared(declare: Any, words: str) -> None:
    with pytest.raises(ProblemError, match=words.replace("[", r"\[").replace("]", r"\]")) as refusal:
        declare()
    assert str(refusal.value).startswith("test_sensors.py:")


def test_common_arguments_leave_a_plain_sensor_as_it_was() -> None:
    state = State.symbols(MODEL)
    plain = JointPosition(elbow, "a").channels(MODEL)[0].predicted(state)
    assert str(plain) == str(state.angle(elbow)[0])


@pytest.mark.parametrize(
    ("shown", "turns"),
    [
        (lambda s: s.angle(shoulder) + s.angle(elbow), 1),
        (lambda s: 2 * s.angle(shoulder) - s.angle(elbow) / 2 + 1, 1 / 2),
        (lambda s: s.angle(shoulder) / 3 + s.position(unit)[2], 1 / 3),
        (lambda s: ca.sin(s.angle(shoulder)) + 3 * s.angle(elbow), 3),
        (lambda s: s.angle(shoulder) + math.pi * s.angle(elbow), None),
        (lambda s: s.angle(shoulder) ** 2, None),
        (lambda s: Parameter("ratio", 2.0) * s.angle(shoulder), None),
        (lambda s: s.rate(shoulder), None),
    ],
)
def test_a_sum_of_angles_has_the_period_of_its_factors(shown: Any, turns: float | None) -> None:
    (channel,) = Observation(shown, "shown", scale=4.0).channels(MODEL)
    assert channel.period == (None if turns is None else pytest.approx(4 * 2 * math.pi * turns))
    assert Observation(shown, "shown", period=5.0).channels(MODEL)[0].period == 5.0
