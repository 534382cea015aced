"""Every sensor: what it shows against differences of motions, its offset, scale and loss, and what it refuses."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import casadi as ca
import numpy as np
import pytest
from mechanisms import Array
from scipy.integrate import solve_ivp
from scipy.optimize import least_squares
from scipy.spatial.transform import Rotation

from spookid import (
    GROUND,
    Accelerometer,
    Body,
    Fixed,
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
    Spherical,
    State,
    Status,
    gravity,
    tilted_gravity,
)
from spookid.assembly.assembly import assemble
from spookid.data.losses import LOSSES, Loss, robust
from spookid.mechanics.kinematics import displacements, place
from spookid.transcription.factor import Group

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
MOUNTING = (0.1, -0.2, 0.3)


def angles(t: Array) -> Array:
    return np.column_stack([0.3 + 1.1 * np.sin(2 * t), -0.5 + 0.7 * np.cos(3 * t)])


def states(at: float, h: float = 1e-4) -> tuple[Array, Array, Array, list[Array]]:
    """q, v, a at a time and poses (n_b, 7) at three times around it, v and a by differences of the poses."""
    poses = [p.reshape(2, 7) for p in place(MODEL, angles(at + h * np.arange(-1, 2)), {})]
    v, a = [], []
    for i in range(2):
        r = [p[i, :3] for p in poses]
        e = [turn(p[i]) for p in poses]
        left, right = (e[0].inv() * e[1]).as_rotvec() / h, (e[1].inv() * e[2]).as_rotvec() / h
        v += [(r[2] - r[0]) / (2 * h), (left + right) / 2]
        a += [(r[2] - 2 * r[1] + r[0]) / h**2, (right - left) / h]
    return poses[1].ravel(), np.concatenate(v), np.concatenate(a), poses


def shown(sensor: Sensor, at: float) -> Array:
    q, v, a, _ = states(at)
    state = State(MODEL, *(ca.SX(ca.DM(x)) for x in (q, v, a)))
    return np.array([float(channel.predicted(state)) for channel in sensor.channels(MODEL)])


def turn(pose: Array) -> Rotation:
    return Rotation.from_quat(pose[3:], scalar_first=True)


def axes(pose: Array) -> Array:
    """Of the unit in the world."""
    own = ca.DM(unit.axes).full() @ Rotation.from_rotvec(MOUNTING).as_matrix()
    return np.asarray(turn(pose).as_matrix() @ own)


def place_of(pose: Array) -> Array:
    return np.asarray(pose[:3] + turn(pose).apply(ca.DM(unit.at).full()[:, 0]))


def test_an_accelerometer_shows_specific_force() -> None:
    _, _, _, poses = states(0.37)
    r = [place_of(p[1]) for p in poses]
    force = (r[2] - 2 * r[1] + r[0]) / 1e-8 - ca.DM(MODEL.gravity).full()[:, 0]
    own = Accelerometer(unit, XYZ, bias=(1, 2, 3), mounting=MOUNTING)
    np.testing.assert_allclose(shown(own, 0.37), axes(poses[1][1]).T @ force + [1, 2, 3], atol=1e-5)


def test_a_gyroscope_shows_angular_velocity_in_its_own_axes() -> None:
    _, _, _, poses = states(0.37)
    world = (turn(poses[-1][1]) * turn(poses[0][1]).inv()).as_rotvec() / 2e-4
    own = Gyroscope(unit, XYZ, mounting=MOUNTING, scale=(1, 2, 3), bias=0.5)
    np.testing.assert_allclose(shown(own, 0.37), [1, 2, 3] * (axes(poses[1][1]).T @ world) + 0.5, atol=1e-6)


def test_rates_points_distances_and_orientations() -> None:
    _, _, _, poses = states(0.37)
    rates = np.diff(angles(0.37 + np.array([-1e-6, 1e-6])), axis=0)[0] / 2e-6
    assert shown(JointRate(elbow, "r"), 0.37) == pytest.approx(rates[1], abs=1e-6)
    here = place_of(poses[1][1])
    np.testing.assert_allclose(shown(PointPosition(unit, "zx", ("a", "b")), 0.37), here[[2, 0]], atol=1e-12)
    away = PointDistance(GROUND.frame(at=(1, 2, 3)), unit, "d", offset=0.5)
    assert shown(away, 0.37) == pytest.approx(np.linalg.norm(here - [1, 2, 3]) + 0.5, abs=1e-12)
    (w, x, y, z) = shown(Orientation(unit, ("w", "x", "y", "z"), 0.1, mounting=MOUNTING), 0.37)
    np.testing.assert_allclose(Rotation.from_quat([x, y, z, w]).as_matrix(), axes(poses[1][1]), atol=1e-12)


def test_a_joint_hands_on_the_force_that_the_bodies_beyond_it_take() -> None:
    _, _, _, poses = states(0.37)
    accelerations = [(p[2] - 2 * p[1] + p[0])[:3] / 1e-8 for p in zip(*poses, strict=True)]
    g = ca.DM(MODEL.gravity).full()[:, 0]
    whole = 1.3 * (accelerations[0] - g) + 0.7 * (accelerations[1] - g)
    np.testing.assert_allclose(shown(JointForce(shoulder, XYZ), 0.37), ca.DM(base.axes).full().T @ whole, atol=1e-4)
    parent = turn(poses[1][0]).as_matrix() @ ca.DM(elbow.parent.axes).full()
    beyond = parent.T @ (0.7 * (accelerations[1] - g))
    np.testing.assert_allclose(shown(JointForce(elbow, XYZ), 0.37), beyond, atol=1e-4)


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


# --- losses ---

REACH = [0.0, 1e-12, 1e-3, 0.3, math.sqrt(0.1) - 1e-9, math.sqrt(0.1) + 1e-9, 0.7, 1.5, 30.0, 1e6, 1e12]


def rho(loss: Loss, z: Array) -> Array:
    return {"linear": z, "huber": np.where(z <= 1, z, 2 * np.sqrt(z) - 1), "cauchy": np.log1p(z)}[loss]


@pytest.mark.parametrize("loss", LOSSES)
def test_rows_have_the_squares_of_scipy_and_derivatives_everywhere(loss: Loss) -> None:
    r = ca.SX.sym("r")
    row = robust(r, loss)
    first, second = ca.jacobian(row, r), ca.hessian(row, r)[0]
    function = ca.Function("row", [r], [row, first, second])
    for at in [*REACH, *(-x for x in REACH)]:
        value, slope, curvature = (float(part) for part in function(at))
        assert value == pytest.approx(math.copysign(1, at) * math.sqrt(float(rho(loss, np.array(at**2)))), rel=1e-13)
        size = 1e-6 * max(abs(at), 1e-3)
        ends = [function(at + s * size) for s in (1, -1)]
        assert slope == pytest.approx((float(ends[0][0]) - float(ends[1][0])) / (2 * size), rel=1e-6, abs=1e-12)
        assert curvature == pytest.approx((float(ends[0][1]) - float(ends[1][1])) / (2 * size), rel=1e-4, abs=1e-6)
    assert float(function(0)[1]) == pytest.approx(1, abs=1e-15)


def test_a_location_is_that_of_scipy() -> None:
    """The same minimum as ``scipy.optimize.least_squares`` with the loss and ``f_scale=1``."""
    y = np.append(np.random.default_rng(0).standard_normal(30), [40.0, 55.0])
    m, samples = ca.SX.sym("m"), ca.SX(ca.DM(y))
    for loss in LOSSES:
        cost = ca.sumsqr(ca.vertcat(*(robust(m - samples[i], loss) for i in range(len(y)))))
        slope = ca.Function("slope", [m], [ca.gradient(cost, m)])
        best = least_squares(lambda x: x[0] - y, [0.0], loss=loss, xtol=1e-15, ftol=1e-15, gtol=1e-15).x[0]
        assert abs(float(slope(best))) < 1e-4


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


@pytest.mark.parametrize(
    ("loss", "sigma"), [("cauchy", None), pytest.param("huber", None, marks=pytest.mark.study), ("huber", 1e-3)]
)
def test_samples_far_off_move_no_estimate_with_a_robust_loss(loss: Loss, sigma: float | None) -> None:
    rng, angle = np.random.default_rng(5), swing()[1] + noise(1e-3)
    wrong = rng.choice(len(angle), len(angle) // 100, replace=False)
    angle[wrong] += rng.choice([-1, 1], len(wrong))
    model = mechanism()
    sensor = HingeAngle(model.joints[0], "angle", sigma, loss=loss)
    solution = fitted(model, [sensor], {"angle": angle}, estimator="noise")
    assert_true(solution)
    for name in TRUTH:
        best, other = clean(sigma)[name], solution[name]
        assert abs(other.estimate - best.estimate) < 0.5 * best.std_err
        # Errors are averaged over a disturbance that is hardly seen, and one fit may see it where the other does not.
        assert 0.4 * best.std_err < other.std_err < 1.5 * best.std_err


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


def test_motion_capture_tells_a_pendulum_and_how_its_markers_sit() -> None:
    t, angle, _, _ = swing()
    sits, rng = (0.1, -0.2, 0.15), np.random.default_rng(3)
    hanging = Rotation.from_rotvec([0, math.pi / 2, 0])
    swung = Rotation.from_rotvec(np.outer(angle, [0, 1, 0])) * hanging * Rotation.from_rotvec(sits)
    seen = swung * Rotation.from_rotvec(0.01 * rng.standard_normal((len(t), 3)))
    w, x, y, z = (seen.as_quat(scalar_first=True) * rng.choice([-1, 1], len(t))[:, None]).T
    model = mechanism()
    mounting = [Parameter(f"m_{axis}", 0.0, unit="rad") for axis in "xyz"]
    sensor = Orientation(model.bodies[0].frame(), ("w", "x", "y", "z"), 0.01, mounting=mounting)
    solution = fitted(model, [sensor], {"w": w, "x": x, "y": y, "z": z})
    assert_true(solution, m_x=sits[0], m_y=sits[1], m_z=sits[2])
    hinge = displacements(model, solution.trajectories[0].q.reshape(len(t), 7), {})[:, 0]
    np.testing.assert_allclose(hinge, angle, atol=5e-3)


@pytest.mark.parametrize("coordinates", ["joint", "maximal"])
def test_quaternions_of_a_body_that_turns_over_keep_the_sign_that_the_fit_has(coordinates: str) -> None:
    t, rng = np.arange(0, 3, 0.01), np.random.default_rng(4)
    turning = Rotation.from_rotvec(np.outer(8 * t, [0, 0, 1])) * Rotation.from_rotvec(np.outer(np.sin(t), [0.6, 0, 0]))
    w, x, y, z = (turning.as_quat(scalar_first=True) * rng.choice([-1, 1], len(t))[:, None]).T
    ball, top = Body("ball", 1.0, (1, 1, 1)), Body("top", 1.0, (1, 1, 1))
    joints = [
        Spherical("first", GROUND.frame(), ball.frame()),
        Fixed("second", ball.frame(x=(0, 1, 0), y=(0, 0, 1)), top.frame()),
    ]
    seen = Orientation(ball.frame(), ("w", "x", "y", "z"), 0.01)
    problem = Problem(
        "top",
        Model([ball, top], joints, coordinates=coordinates, gravity=gravity(Parameter("g", 9.81))),
        [Recording(t, {"w": w, "x": x, "y": y, "z": z})],
        [seen],
        step=0.01,
        cutoff=30.0,
    )
    assembly = assemble(problem)
    (residuals,) = assembly.transcription.residuals(assembly.start)
    pairs = zip(assembly.transcription.factors, residuals, strict=True)
    missed = [np.abs(rows[5:-5]).max() for factor, rows in pairs if factor.group is Group.OBSERVATION]
    assert len(missed) == 1
    assert missed[0] < 0.5


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


def test_a_copy_of_an_inertial_sensor_keeps_its_bias() -> None:
    own = replace(Gyroscope(unit, XYZ, bias=0.5), mounting=MOUNTING)
    np.testing.assert_allclose(shown(own, 0.37), shown(Gyroscope(unit, XYZ, mounting=MOUNTING), 0.37) + 0.5)


def test_sensors_of_ones_own_have_the_common_arguments_too() -> None:
    class Clinometer(Sensor):
        unit = "rad"

        def __init__(self, signal: str, **common: Any) -> None:
            self.signals = (signal,)
            for name, value in common.items():
                setattr(self, name, value)

        def predicted(self, state: State) -> Any:
            return ca.asin(state.axes(unit)[2, 0])

    plain = shown(Clinometer("c"), 0.2)
    assert shown(Clinometer("c", scale=2, offset=0.1), 0.2) == pytest.approx(2 * plain + 0.1)
    with pytest.raises(ProblemError, match="loss 'no'"):
        Clinometer("c", loss="no").channels(MODEL)
    own = Observation(lambda s: s.rate(elbow), "r", scale=3, offset=1)
    assert shown(own, 0.2) == pytest.approx(3 * shown(JointRate(elbow, "r"), 0.2) + 1)


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
