"""Joint coordinates: poses, impulses carried to the joints, and the step in them against the one in all coordinates."""

from __future__ import annotations

from collections.abc import Sequence

import casadi as ca
import numpy as np
import pytest
from mechanisms import (
    DOWN,
    Array,
    chain,
    free_body,
    function,
    furuta,
    hub,
    mechanics,
    of_all_bodies,
    pendulum,
    retract,
    unit_quaternions,
)

from spookid import GROUND, Body, Hinge, Model, Motor, gravity
from spookid.mechanics.joint_coordinates import JointCoordinates, disturbance_units
from spookid.mechanics.kinematics import Recursion, central, displacements, place
from spookid.stepping.impulses import Settings
from spookid.stepping.joint_space import JointSpace
from spookid.transcription.factor import Factor, measured_noise

H, WIDTH, IMPULSE_WIDTH = 0.01, 0.05, 1e-4


def rider() -> Model:
    """Two free bodies, one of which carries a chain of two whose first hinge has its parent outside, and a pendulum."""
    base = Body("base", mass=2.0, inertia=(0.02, 0.03, 0.04), free=True)
    arm = Body("arm", mass=0.4, inertia=(0.004, 0.005, 0.006))
    tip = Body("tip", mass=0.2, inertia=(0.001, 0.002, 0.0015))
    stone = Body("stone", mass=1.0, inertia=(0.01, 0.01, 0.01), free=True)
    rod = Body("rod", mass=0.5, inertia=(1e-4, 0.005, 0.005))
    joints = [
        Hinge(
            "wrist",
            arm.frame(at=(0.1, 0, 0), x=(0, 1, 1), y=(1, 0, 0)),
            tip.frame(at=(0, 0.1, 0)),
            viscous=0.01,
            coulomb=0.02,
        ),
        Hinge("swing", GROUND.frame(**DOWN), rod.frame(at=(-0.2, 0, 0), x=(0, 1, 0), y=(1, 0, 0)), dry=0.01),
        Hinge(
            "root", arm.frame(at=(-0.1, 0, 0), x=(1, 2, 0), y=(-2, 1, 0)), base.frame(at=(0.1, 0, 0.2)), stiffness=0.3
        ),
    ]
    return Model([tip, stone, rod, base, arm], joints, [Motor(joints[2], "u", gain=2.0)], gravity=gravity(9.82))


def rubbing_furuta() -> Model:
    """With a motor and every kind of friction."""
    shoulder = {"viscous": 1e-3, "dry": 0.004, "stribeck": (0.002, 3.0), "drag": 1e-4}
    elbow = {"coulomb": 0.003, "stiffness": 0.1, "rest_angle": 0.2}
    return furuta(shoulder=shoulder, elbow=elbow, motor={"gain": 0.5, "shaft_inertia": 1e-4})


TREES = {"pendulum": pendulum, "furuta": rubbing_furuta, "chain": lambda: chain(viscous=0.02, dry=0.01), "rider": rider}


@pytest.fixture(params=TREES)
def model(request: pytest.FixtureRequest) -> Model:
    """A mechanism without loops."""
    return TREES[request.param]()


def coordinates(model: Model, rng: np.random.Generator) -> Array:
    """Random joint coordinates (ambient,)."""
    joints = JointCoordinates(model)
    n = len(joints.roots)
    free = np.hstack([rng.normal(size=(n, 3)), unit_quaternions(rng, n)]).ravel()
    return np.concatenate([rng.uniform(-3, 3, len(joints.tree)), free])


def poses(model: Model, x: Array) -> Array:
    """q (7 n_b,) at joint coordinates."""
    joints = JointCoordinates(model)
    symbol = ca.SX.sym("x", joints.manifold.ambient)
    return function([joints.configuration(symbol)], [symbol])(x)[0]


def alike(q: Array, other: Array) -> None:
    """Poses (7 n_b,) are the same; a quaternion and its negative are one orientation."""
    for one, two in zip(q.reshape(-1, 7), other.reshape(-1, 7), strict=True):
        np.testing.assert_allclose(one[:3], two[:3], atol=1e-12)
        np.testing.assert_allclose(one[3:] * np.sign(one[3:] @ two[3:]), two[3:], atol=1e-12)


def tree_angles(model: Model, x: Array) -> Array:
    """Of all hinges in the model's order, (n_j,)."""
    order = [model.joints.index(joint) for joint in JointCoordinates(model).tree]
    angles = np.zeros(len(model.joints))
    angles[order] = x[: len(order)]
    return angles


# --- poses ---


def test_names_follow_the_tree_and_then_the_free_bodies():
    joints = JointCoordinates(rider())
    six = ("force",) * 3 + ("torque",) * 3
    free = [f"{body} {what}" for body in ("stone", "base") for what in six]
    assert joints.names == ("swing", "root", "wrist", *free)
    assert disturbance_units(rider()) == ("N m",) * 3 + (("N",) * 3 + ("N m",) * 3) * 2
    assert joints.manifold.tangent == len(joints.names)


@pytest.mark.parametrize("name", ["pendulum", "furuta", "chain"])
def test_poses_are_those_of_placed_bodies(name):
    model, rng = TREES[name](), np.random.default_rng(1)
    for _ in range(5):
        x = coordinates(model, rng)
        alike(poses(model, x), place(model, tree_angles(model, x)[None], {})[0])


def test_what_free_bodies_carry_moves_with_them(model):
    x = coordinates(model, np.random.default_rng(2))
    q = poses(model, x)
    np.testing.assert_allclose(mechanics(model, q, np.zeros(6 * len(model.bodies))).g, 0, atol=1e-12)
    np.testing.assert_allclose(displacements(model, q[None], {})[0], tree_angles(model, x), atol=1e-12)
    joints = JointCoordinates(model)
    start = len(joints.tree)
    for i, body in enumerate(joints.roots):
        at = 7 * model.bodies.index(body)
        np.testing.assert_array_equal(q[at : at + 7], x[start + 7 * i : start + 7 * i + 7])


def test_unknowns_of_states_are_their_angles_and_free_poses(model):
    rng = np.random.default_rng(3)
    x = np.array([coordinates(model, rng) for _ in range(4)])
    q = np.array([poses(model, row) for row in x])
    angles = np.array([tree_angles(model, row) for row in x])
    states = np.hstack([q, np.zeros((4, 6 * len(model.bodies)))])
    found = JointSpace().start(model, states, angles, np.zeros((4, 0)), H)
    np.testing.assert_array_equal(JointCoordinates(model).manifold.like(found, x), x)  # signs are those of a motion


# --- impulses ---


def test_transmitted_impulses_are_what_the_joints_bear(model):
    rng, joints = np.random.default_rng(4), JointCoordinates(model)
    q = poses(model, coordinates(model, rng))
    at = mechanics(model, q, np.zeros(6 * len(model.bodies)))
    multipliers, axial = rng.normal(size=len(at.G)), rng.normal(size=len(model.joints))
    p = at.G.T @ multipliers + at.slip.T @ axial
    symbols = ca.SX.sym("q", len(q)), ca.SX.sym("p", len(p))
    found = joints.transmitted(*symbols)
    ordered = [found.loads[joint] for joint in model.joints]
    along, loads = function([found.along, ca.vertcat(*ordered)], symbols)(q, p)
    order = [model.joints.index(joint) for joint in joints.tree]
    np.testing.assert_allclose(along, np.concatenate([axial[order], np.zeros(6 * len(joints.roots))]), atol=1e-12)
    np.testing.assert_allclose(loads, multipliers, atol=1e-12)


def rates(model: Model, x: Array) -> Array:
    """S, (6 n_b, n): velocities of all bodies for unit rates of the coordinates, from the hinges' rows alone."""
    joints = JointCoordinates(model)
    at = mechanics(model, poses(model, x), np.zeros(6 * len(model.bodies)))
    held = np.eye(6 * len(model.bodies))
    free = [held[6 * i : 6 * i + 6] for i in (model.bodies.index(body) for body in joints.roots)]
    slips = at.slip[[model.joints.index(joint) for joint in joints.tree]]
    rows = np.vstack([at.G, slips, *free])
    return np.linalg.inv(rows)[:, len(at.G) :]


def test_impulses_along_the_coordinates_are_virtual_work(model):
    rng, joints = np.random.default_rng(5), JointCoordinates(model)
    x = coordinates(model, rng)
    p = rng.normal(size=6 * len(model.bodies))
    symbols = ca.SX.sym("q", 7 * len(model.bodies)), ca.SX.sym("p", len(p))
    (along,) = function([joints.transmitted(*symbols).along], symbols)(poses(model, x), p)
    np.testing.assert_allclose(along, rates(model, x).T @ p, atol=1e-12)


# --- the step ---


def numbers(model: Model, settings: Settings, disturbance: float, step: float = H) -> tuple[list[ca.SX], list[float]]:
    """Symbols of the settings and numbers for them."""
    known = [(settings.step, step), (settings.weight, 1.0), (settings.impulse_width, IMPULSE_WIDTH)]
    known += [(width, WIDTH) for width in ca.vertsplit(settings.slip_width)]
    known += [(s, disturbance) for s in ca.vertsplit(settings.disturbance)]
    known += [(s, 1.0) for s in settings.torques.values()]
    return [s for s, _ in known], [value for _, value in known]


def residual(
    model: Model, settings: Settings, factor: Factor, unknowns: Sequence[Array], u: Array, h: float = H
) -> Array:
    """Of a factor over three steps."""
    symbols, values = numbers(model, settings, 1.0, h)
    arguments = [*factor.variables.values(), factor.data, ca.vertcat(*symbols)]
    return function([factor.residual], arguments)(*unknowns, u, values)[0]


def neighbours(model: Model, rng: np.random.Generator) -> list[Array]:
    """Joint coordinates at three steps near each other."""
    space, middle = JointCoordinates(model).manifold, coordinates(model, rng)
    return [retract(space, middle, 0.02 * rng.normal(size=space.tangent)) for _ in range(3)]


def along_a_path(model: Model, step: float) -> list[Array]:
    """Joint coordinates at three steps of a smooth motion."""
    rng, space = np.random.default_rng(6), JointCoordinates(model).manifold
    middle, speed, bend = coordinates(model, rng), *rng.normal(size=(2, space.tangent))
    return [retract(space, middle, t * speed + t**2 * bend) for t in (-step, 0.0, step)]


def test_the_residual_is_the_virtual_work_of_that_in_all_coordinates_to_the_order_of_the_step(model):
    u = np.random.default_rng(7).normal(size=len(model.signals))
    missed = []
    for h in (0.02, 0.01):
        settings, x = Settings.of(model), along_a_path(model, h)
        impulse = JointSpace().factors(model, settings)[0]
        found = residual(model, settings, impulse, x, u, h)
        whole = of_all_bodies(model, settings)
        multipliers = borne(model, settings, x, u, h)
        p = residual(model, settings, whole, [np.concatenate([poses(model, row), multipliers]) for row in x], u, h)
        expected = rates(model, x[1]).T @ p
        assert np.abs(expected).max() > 1e-4
        missed.append(np.abs(found - expected).max() / h)
    assert missed[1] < missed[0] / 3.5 or missed[1] < 1e-12


def test_the_recursion_is_the_virtual_work_of_inertia_and_weight(model):
    """With velocities and accelerations of all bodies by differences of their poses along a smooth motion."""
    small = 1e-4
    x, joints = along_a_path(model, small), JointCoordinates(model)
    before, here, after = (poses(model, row) for row in x)
    symbols = [ca.SX.sym(name, here.size) for name in ("a", "b")]
    apart = function([model.configuration.difference(*symbols)], symbols)
    left, right = apart(here, before)[0] / small, apart(after, here)[0] / small
    v, a = (left + right) / 2, (right - left) / small
    at = mechanics(model, here, v)
    expected = rates(model, x[1]).T @ (at.M.reshape(len(v), len(v)) @ a - at.f)
    names = [ca.SX.sym("x", x[1].size), *(ca.SX.sym(name, joints.manifold.tangent) for name in ("s", "a"))]
    motion = Recursion(joints, *names)
    sides = [ca.SX.sym(name, x[1].size) for name in ("a", "b")]
    moved = function([joints.manifold.difference(*sides)], sides)
    s, t = (moved(*pair)[0] / small for pair in ((x[1], x[0]), (x[2], x[1])))
    found, speeds, pulls = function([motion.along(motion.needed), motion.v, motion.accelerations], names)(
        x[1], (s + t) / 2, (t - s) / small
    )
    np.testing.assert_allclose(found, expected, atol=1e-6)
    np.testing.assert_allclose(speeds, v, atol=1e-6)
    np.testing.assert_allclose(pulls, a, atol=1e-5)


def borne(model: Model, settings: Settings, x: Sequence[Array], u: Array, h: float = H) -> Array:
    """λ of all hinges that the step in joint coordinates finds, (5 n_j,)."""
    step = JointSpace().multipliers_along(model, settings)
    symbols, values = numbers(model, settings, 1.0, h)
    return function([step.value], [*step.variables.values(), step.data, ca.vertcat(*symbols)])(*x, u, values)[0]


def test_measured_torques_have_rows_of_their_own_and_no_density():
    model = rubbing_furuta()
    motor = Motor(model.joints[0], "u", gain=0.5, measured=True)
    measured = Model(model.bodies, model.joints, [motor], gravity=gravity(9.82))
    impulse = JointSpace().factors(measured, Settings.of(measured))[0]
    assert impulse.noise == (measured_noise("u"), "elbow")
    assert impulse.density == (1,)


def test_disturbances_whiten_the_rows_of_their_joints():
    model = rubbing_furuta()
    settings, rng = Settings.of(model), np.random.default_rng(7)
    x, u = neighbours(model, rng), np.zeros(1)
    impulse = JointSpace().factors(model, settings)[0]
    symbols, values = numbers(model, settings, 1.0)
    arguments = [*impulse.variables.values(), impulse.data, ca.vertcat(*symbols)]
    evaluate = function([impulse.residual], arguments)
    plain = evaluate(*x, u, values)[0]
    place = next(i for i, s in enumerate(symbols) if ca.is_equal(s, settings.disturbance[1]))
    values[place] = 4.0
    np.testing.assert_allclose(evaluate(*x, u, values)[0], plain / [1.0, 4.0])


def test_a_balanced_wheel_obeys_its_scalar_equation():
    model = hub(inertia=0.002, viscous=0.01, motor={"gain": 2.0})
    settings = Settings.of(model)
    impulse = JointSpace().factors(model, settings)[0]
    angles, u = np.array([0.3, 0.35, 0.43]), 0.7
    found = residual(model, settings, impulse, [angles[i : i + 1] for i in range(3)], np.array([u]))
    v, v_next = np.diff(angles) / H
    np.testing.assert_allclose(found, [0.002 * (v_next - v) + H * 0.01 * (v + v_next) / 2 - H * 2.0 * u], atol=1e-14)


def test_free_bodies_fall_freely():
    model = free_body()
    settings, space = Settings.of(model), JointCoordinates(model).manifold
    impulse = JointSpace().factors(model, settings)[0]
    rng = np.random.default_rng(8)
    before = coordinates(model, rng)
    fall = np.array([0.2, -0.1, 0.5])
    here, after = before.copy(), before.copy()
    here[:3] += H * fall
    after[:3] += 2 * H * fall - H**2 * np.array([0, 0, 9.82])
    found = residual(model, settings, impulse, [before, here, after], np.zeros(0))
    np.testing.assert_allclose(found, np.zeros(space.tangent), atol=1e-12)


def test_states_have_central_velocities():
    model, rng = chain(), np.random.default_rng(9)
    x = np.array([coordinates(model, rng)] * 4) + 0.01 * np.arange(4)[:, None]
    q = np.array([poses(model, row) for row in x])
    np.testing.assert_array_equal(JointSpace().states(model, q, x, H)[:, q.shape[1] :], central(q, H))


def test_loops_have_private_unknowns_of_their_cut_hinge():
    rod, other = (Body(name, mass=1.0, inertia=(0.01, 0.01, 0.01)) for name in ("rod", "other"))
    axle = {"x": (0, 0, 1), "y": (1, 0, 0)}
    joints = [
        Hinge("one", GROUND.frame(**axle), rod.frame(at=(-0.2, 0, 0), **axle)),
        Hinge("two", GROUND.frame(at=(0.1, 0, 0), **axle), other.frame(at=(-0.2, 0, 0), **axle)),
        Hinge("three", rod.frame(at=(0.2, 0, 0), **axle), other.frame(at=(0.2, 0, 0), **axle)),
    ]
    model = Model([rod, other], joints, gravity=gravity(0))
    coordinates_ = JointCoordinates(model)
    assert [joint.name for joint in coordinates_.cut] == ["three"]
    impulse, closing = JointSpace().factors(model, Settings.of(model))
    assert impulse.noise == ("one", "two", "three")
    assert impulse.private == (1, range(2, 2 + 6))
    assert closing.hard
    assert len(closing.rows) == 5
