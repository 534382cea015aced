"""The inside of what ``test_sensors`` tests."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import casadi as ca
import numpy as np
import pytest
from mechanisms import Array
from scipy.optimize import least_squares
from scipy.spatial.transform import Rotation
from test_sensors import (
    MODEL,
    TRUTH,
    XYZ,
    assert_true,
    base,
    clean,
    elbow,
    fitted,
    mechanism,
    noise,
    shoulder,
    swing,
    unit,
)

from spookid import (
    GROUND,
    Accelerometer,
    Body,
    Fixed,
    Gyroscope,
    HingeAngle,
    JointForce,
    JointRate,
    Model,
    Observation,
    Orientation,
    Parameter,
    PointDistance,
    PointPosition,
    Problem,
    ProblemError,
    Recording,
    Sensor,
    Spherical,
    State,
    gravity,
)
from spookid.assembly.assembly import assemble
from spookid.data.losses import LOSSES
from spookid.mechanics.kinematics import displacements, place
from spookid.transcription.factor import Group

# --- what they show ---


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
    alone = replace(Accelerometer(unit, "a", bias=2, axis="y"), mounting=MOUNTING)
    np.testing.assert_allclose(shown(alone, 0.37), shown(own, 0.37)[1], atol=1e-12)


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


# --- losses ---


REACH = [0.0, 1e-12, 1e-3, 0.3, math.sqrt(0.1) - 1e-9, math.sqrt(0.1) + 1e-9, 0.7, 1.5, 30.0, 1e6, 1e12]


def rho(loss: str, z: Array) -> Array:
    return {"linear": z, "huber": np.where(z <= 1, z, 2 * np.sqrt(z) - 1), "cauchy": np.log1p(z)}[loss]


@pytest.mark.parametrize("loss", ["huber", "cauchy"])
def test_rows_have_the_squares_of_scipy_and_derivatives_everywhere(loss: str) -> None:
    r = ca.SX.sym("r")
    row = LOSSES[loss].row(r)
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
    for loss in ("huber", "cauchy"):
        cost = ca.sumsqr(ca.vertcat(*(LOSSES[loss].row(m - samples[i]) for i in range(len(y)))))
        slope = ca.Function("slope", [m], [ca.gradient(cost, m)])
        best = least_squares(lambda x: x[0] - y, [0.0], loss=loss, xtol=1e-15, ftol=1e-15, gtol=1e-15).x[0]
        assert abs(float(slope(best))) < 1e-4


# --- a pendulum ---


@pytest.mark.parametrize(
    ("loss", "sigma"), [("cauchy", None), pytest.param("huber", None, marks=pytest.mark.study), ("huber", 1e-3)]
)
def test_samples_far_off_move_no_estimate_with_a_robust_loss(loss: str, sigma: float | None) -> None:
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


# --- what they refuse ---


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
