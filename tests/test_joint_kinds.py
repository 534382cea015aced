"""Every kind of joint: its rows and rates against differences, its motion against Lagrange's equations, and fits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import casadi as ca
import numpy as np
import pytest
from lagrange import Motion, Solid, turned
from mechanisms import Array
from scipy.spatial.transform import Rotation

from spookid import (
    GROUND,
    Body,
    Cylindrical,
    Fixed,
    Hinge,
    Joint,
    JointPosition,
    Model,
    Motor,
    Parameter,
    PinInSlot,
    Planar,
    PointPosition,
    Prismatic,
    Problem,
    ProblemError,
    Recording,
    Screw,
    Sensor,
    Solution,
    Spherical,
    Spook,
    Status,
    Universal,
    Variational,
    gravity,
)

KINDS = [Prismatic, Cylindrical, Screw, Universal, Spherical, Planar, PinInSlot, Fixed]
G, MASS, INERTIA, CHILD_AT, PITCH = 9.82, 0.7, (0.004, 0.006, 0.005), (0.05, 0.02, -0.12), 0.03


def joint(kind: type[Joint], parent: Any, child: Any, **loads: Any) -> Joint:
    more = {"pitch": PITCH} if kind is Screw else {}
    return kind("joint", parent, child, **more, **loads)


def two_bodies(kind: type[Joint]) -> Model:
    """Joints of one kind in a row, the first with the new body as the parent, in frames that are turned."""
    one, two = Body("one", mass=1, inertia=(0.01, 0.02, 0.03)), Body("two", mass=0.5, inertia=(0.02, 0.01, 0.015))
    near = one.frame(at=(0, 0.1, 0.2), x=(1, 1, 0), y=(0, 0, 1)), GROUND.frame(at=(0, 0, 1), x=(0, 1, 0), y=(1, 0, 0))
    far = one.frame(at=(0, 0, -0.3)), two.frame(at=(0.2, 0, 0), x=(0, 0, 1), y=(0, 1, 0))
    more = {"pitch": PITCH} if kind is Screw else {}
    return Model([two, one], [kind("far", *far, **more), kind("near", *near, **more)], gravity=gravity(G))


# --- what a joint is ---


@pytest.mark.parametrize("kind", KINDS)
def test_rows_and_rates_are_derivatives(kind):
    """Against differences, at a random state, at no rotation and at rest."""
    model, rng, eps = two_bodies(kind), np.random.default_rng(0), 1e-5
    q, v, delta = ca.SX.sym("q", 14), ca.SX.sym("v", 12), ca.SX.sym("delta", 12)
    at = model.mechanics(q)
    evaluate = ca.Function("at", [q, v], [at.violation, at.constraint, at.slip @ v, at.displacement])
    move = ca.Function("move", [q, delta], [model.configuration.retract(q, delta)])
    still = np.tile([0, 0, 0, 1, 0, 0, 0], 2).astype(float)
    loose = rng.normal(size=14)
    for i in (3, 10):
        loose[i : i + 4] /= np.linalg.norm(loose[i : i + 4])
    for where, velocity in ((loose, rng.normal(size=12)), (still, rng.normal(size=12)), (still, np.zeros(12))):
        _, constraint, rates, _ = (part.full() for part in evaluate(where, velocity))
        ahead, behind = (evaluate(move(where, s * eps * velocity), 0) for s in (1, -1))
        change = [((a - b) / (2 * eps)).full().ravel() for a, b in zip(ahead, behind, strict=True)]
        np.testing.assert_allclose(constraint @ velocity, change[0], atol=1e-8)
        if kind is not Spherical:  # whose rates are no derivatives of its rotation vector
            np.testing.assert_allclose(rates.ravel(), change[3], atol=1e-7)


@pytest.mark.parametrize("kind", [Hinge, *KINDS])
def test_motion_in_closed_form_is_the_derivative_of_the_transform(kind):
    made, rng = joint(kind, GROUND.frame(), Body("body", mass=1, inertia=(1, 1, 1)).frame()), np.random.default_rng(1)
    p, s = ca.SX.sym("p", made.manifold.ambient), ca.SX.sym("s", len(made.coordinates))
    closed = made.motion(p, s)
    if not made.coordinates:
        assert not ca.vertcat(*closed).nnz()
        return
    both = ca.Function("motion", [p, s], [*closed, *Joint.motion(made, p, s)])
    where = made.manifold.normed(rng.normal(size=p.numel()))
    drift, omega, expected_drift, expected_omega = (part.full() for part in both(where, rng.normal(size=s.numel())))
    np.testing.assert_allclose(drift, expected_drift, atol=1e-14)
    np.testing.assert_allclose(omega, expected_omega, atol=1e-14)


def test_a_screw_counts_its_turns():
    body = Body("nut", mass=1, inertia=(0.01, 0.01, 0.01))
    model = Model([body], [joint(Screw, GROUND.frame(), body.frame())], gravity=(0, 0, 0))
    problem = Problem("screw", model, observations=[JointPosition(model.joints[0], "turn")], step=0.01)
    run = problem.simulate(initial={"joint": (20.0, 3.0)}, duration=0.5)
    assert run.signals["turn"][-1] % (2 * math.pi) == pytest.approx(21.5 % (2 * math.pi), abs=1e-6)
    assert run.q[-1, 0, 0] == pytest.approx(21.5 * PITCH, abs=1e-8)


# --- motion ---


@dataclass
class Swung:
    """A joint's coordinates in minimal form, and where the child's frame is in the parent's."""

    q: ca.SX
    shift: Any
    R: ca.SX
    start: Sequence[float]
    """Positions."""
    rates: Sequence[float]


def minimal(kind: type[Joint]) -> Swung:
    """Rotations about z, then y, then x for a ball, whose rotation vector has no simple rates."""
    n = len(kind.coordinates)
    q = ca.SX.sym("q", n)
    e = ca.SX.eye(3)
    turned_x = {Cylindrical: 1, PinInSlot: 1, Planar: 2, Screw: 0}
    if kind is Spherical:
        R = turned(2, q[2]) @ turned(1, q[1]) @ turned(0, q[0])
        return Swung(q, ca.SX(3, 1), R, (0.3, 0.2, 0.1), (0.5, 1.0, -0.4))
    if kind is Universal:
        return Swung(q, ca.SX(3, 1), turned(0, q[0]) @ turned(1, q[1]), (0.4, -0.3), (1.0, 0.6))
    R = turned(0, q[turned_x[kind]]) if kind in turned_x else e
    shift = {
        Prismatic: lambda: ca.vertcat(q[0], 0, 0),
        Cylindrical: lambda: ca.vertcat(q[0], 0, 0),
        Screw: lambda: ca.vertcat(PITCH * q[0], 0, 0),
        Planar: lambda: ca.vertcat(0, q[0], q[1]),
        PinInSlot: lambda: ca.vertcat(0, q[0], 0),
    }[kind]()
    return Swung(q, shift, R, (0.1, 0.2, 0.5)[:n], (0.3, -0.8, 1.1)[:n])


AXES = ca.DM([[0.6, -0.8, 0], [0.8, 0.6, 0], [0, 0, 1]])
"""Of the frame on the ground, columns."""


def friction(kind: type[Joint]) -> list[float]:
    """Viscous friction of each coordinate [N s/m or N m s]."""
    return [(1.0 + i if c.unit == "m" else 0.02) + 0.01 * i for i, c in enumerate(kind.coordinates)]


def strength(kind: type[Joint]) -> float:
    """Of the motor on the first coordinate [N or N m]."""
    return 3.0 if kind.coordinates[0].unit == "m" else 0.1


def moved(kind: type[Joint], t: Array) -> tuple[Array, Array, Swung]:
    """Coordinates and points (N, 6) of the body under gravity, friction and a force or torque along the first one."""
    swung = minimal(kind)
    n = swung.q.numel()
    R = AXES @ swung.R
    r = AXES @ swung.shift - R @ ca.DM(CHILD_AT)

    def forces(q: ca.SX, v: ca.SX, time: ca.SX) -> ca.SX:
        if kind is Spherical:  # torques −b ω in the child's axes, and their virtual work
            spin = swung.R.T @ ca.reshape(ca.jacobian(ca.vec(swung.R), q) @ v, 3, 3)
            omega = ca.vertcat(spin[2, 1], spin[0, 2], spin[1, 0])
            along = ca.jacobian(omega, v)
            return along.T @ (-ca.DM(friction(kind)) * omega + ca.vertcat(strength(kind) * ca.sin(5 * time), 0, 0))
        drive = ca.vertcat(strength(kind) * ca.sin(5 * time), ca.SX(n - 1, 1))
        return -ca.DM(friction(kind)) * v + drive

    motion = Motion(swung.q, [Solid(MASS, INERTIA, r, R)], (0, 0, -G), forces)
    q, _ = motion.run(swung.start, swung.rates, t)
    points = [r + R @ ca.DM(at) for at in ((0.1, 0, 0), (0, 0.1, 0))]
    return q, motion.along(ca.vertcat(*points), q), swung


def model(kind: type[Joint], inertia: Any = INERTIA, viscous: Any = None, gain: Any = None) -> Model:
    body = Body("body", mass=MASS, inertia=inertia)
    b = friction(kind) if viscous is None else viscous
    parent = GROUND.frame(x=(0.6, 0.8, 0), y=(-0.8, 0.6, 0))
    made = joint(kind, parent, body.frame(at=CHILD_AT), viscous=b[0] if len(b) == 1 else b)
    return Model(
        [body], [made], [Motor(made, signal="u", gain=strength(kind) if gain is None else gain)], gravity=gravity(G)
    )


def markers(made: Model) -> list[PointPosition]:
    points = [made.bodies[0].frame(at=at) for at in ((0.1, 0, 0), (0, 0.1, 0))]
    return [PointPosition(p, axis, f"{axis}{i}", sigma=None) for i, p in enumerate(points) for axis in ("x", "y", "z")]


def start(swung: Swung, kind: type[Joint]) -> tuple[Array, Array]:
    """Pose and velocity of the body at the beginning."""
    v = ca.SX.sym("v", swung.q.numel())
    R = AXES @ swung.R
    r = AXES @ swung.shift - R @ ca.DM(CHILD_AT)
    spin = R.T @ ca.reshape(ca.jacobian(ca.vec(R), swung.q) @ v, 3, 3)
    twist = ca.vertcat(ca.jacobian(r, swung.q) @ v, spin[2, 1], spin[0, 2], spin[1, 0])
    numbers = [m.full() for m in ca.Function("start", [swung.q, v], [r, R, twist])(swung.start, swung.rates)]
    e = Rotation.from_matrix(numbers[1]).as_quat(scalar_first=True)
    return np.concatenate([numbers[0][:, 0], e])[None], numbers[2].T


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind is not Fixed])
def test_motion_is_that_of_lagranges_equations(kind):
    t = np.arange(101) * 0.01
    _, points, swung = moved(kind, t)
    made = model(kind)
    problem = Problem("swing", made, observations=markers(made), step=0.01)
    fine = np.arange(2001) * 5e-4
    inputs = Recording(fine, {"u": np.sin(5 * (fine + 2.5e-4))})
    run = problem.simulate(initial=start(swung, kind), duration=1.0, inputs=inputs)
    found = np.column_stack([run.signals[f"{axis}{i}"] for i in range(2) for axis in "xyz"])
    np.testing.assert_allclose(found, points, atol=2e-5)


# --- fits ---


def sensors(made: Model) -> list[Sensor]:
    """Of every coordinate; a ball's, which Euler angles do not give, is seen by markers."""
    own = made.joints[0]
    if isinstance(own, Spherical):
        return markers(made)
    return [JointPosition(own, f"q{i}", coordinate=i) for i in range(len(own.coordinates))]


def recording(kind: type[Joint], noise: float = 5e-4, seed: int = 1) -> Recording:
    t = np.arange(201) * 0.01
    q, points, _ = moved(kind, t)
    rng = np.random.default_rng(seed)
    signals = {f"{axis}{i}": points[:, 3 * i + j] for i in range(2) for j, axis in enumerate("xyz")}
    signals |= {f"q{i}": column for i, column in enumerate(q.T)}
    seen = {name: values + noise * rng.normal(size=len(t)) for name, values in signals.items()}
    return Recording(t, {**seen, "u": np.sin(5 * (t + 0.005))})


def unknown(kind: type[Joint], **settings: Any) -> Problem:
    """Friction of each coordinate and the motor's gain are to be found."""
    viscous = [Parameter(f"b{i}", 2 * b, lower=0) for i, b in enumerate(friction(kind))]
    made = model(kind, viscous=viscous, gain=Parameter("K", 2 * strength(kind)))
    given = {"observations": sensors(made), "recordings": [recording(kind)], "step": 0.01, "step_correction": False}
    return Problem("swing", made, **{**given, "estimator": "noise", **settings})


def check(kind: type[Joint], solution: Solution, share: float) -> None:
    assert solution.status is Status.CONVERGED
    truth = {"K": strength(kind), **{f"b{i}": b for i, b in enumerate(friction(kind))}}
    for name, value in truth.items():
        found = solution[name]
        assert abs(found.estimate - value) < 3 * found.std_err + share * value


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind is not Fixed])
def test_joints_are_identified(kind):
    check(kind, unknown(kind).solve(), 0.01)


@pytest.mark.parametrize(
    "settings",
    [
        {"stepper": Variational(), "state_weight": 1e8},
        {"stepper": Variational(), "state_weight": math.inf},
        {"stepper": Spook()},
        {"stepper": Spook(), "state_weight": 1e6},
        pytest.param({"stepper": Spook(multipliers="lifted"), "state_weight": 1e6}, marks=pytest.mark.study),
    ],
    ids=["weight", "hard", "noise", "eliminated", "lifted"],
)
def test_every_stepper_takes_them(settings):
    """Positions and angles in one joint; SPOOK's step is of first order."""
    check(
        Cylindrical, unknown(Cylindrical, **settings).solve(), 0.1 if isinstance(settings["stepper"], Spook) else 0.01
    )


# --- bodies in parts, limits, sketches ---


def test_a_body_in_parts_swings_as_one():
    """A pendulum whose rod and bob are fixed to each other, as one body and as two, rigid in the one stepper."""
    rod, bob = Body("rod", mass=0.4, inertia=(1e-4, 2e-3, 2e-3)), Body("bob", mass=0.6, inertia=(1e-3, 1e-3, 1e-3))
    axle = {"x": (0, 1, 0), "y": (1, 0, 0)}
    own = Hinge("pin", GROUND.frame(**axle), rod.frame(at=(-0.1, 0, 0), **axle), compliance=1e-8)
    weld = Fixed(
        "weld", rod.frame(at=(0.1, 0, 0), y=(0, 1, 1)), bob.frame(at=(-0.05, 0, 0), y=(0, 1, 1)), compliance=1e-8
    )
    parts = Model([rod, bob], [own, weld], gravity=gravity(G))
    centre = 0.6 * 0.15  # of both, from the rod's centre of mass
    together = 3e-3 + 0.4 * centre**2 + 0.6 * (0.15 - centre) ** 2
    whole = Body("whole", mass=1.0, inertia=(1.1e-3, together, together))
    alone = Hinge("pin", GROUND.frame(**axle), whole.frame(at=(-0.1 - centre, 0, 0), **axle), compliance=1e-8)
    for stepper, near in ((Variational(), 1e-6), (Spook(), 2e-3)):
        runs = []
        for made in (parts, Model([whole], [alone], gravity=gravity(G))):
            problem = Problem("pin", made, observations=[JointPosition(made.joints[0], "q")], stepper=stepper)
            runs.append(problem.simulate(initial={"pin": 0.5}, duration=0.5))
        np.testing.assert_allclose(runs[0].signals["q"], runs[1].signals["q"], atol=near)


def test_each_coordinate_has_its_own_limits():
    """A puck that slides into a wall while it turns on."""
    puck = Body("puck", mass=1, inertia=(0.01, 0.01, 0.01))
    slide = Planar("table", GROUND.frame(), puck.frame(), limits=((-1, 0.2), None, None))
    model = Model([puck], [slide], gravity=(0, 0, 0))
    sensors = [JointPosition(slide, name, coordinate=i) for i, name in enumerate(("y", "z", "angle"))]
    for stepper in (Variational(), Spook()):
        problem = Problem("puck", model, observations=sensors, step=0.01, stepper=stepper, friction="exact")
        run = problem.simulate(initial={"table y": (0.0, 1.0), "table z": (0, 1), "table angle": (0, 3)}, duration=0.5)
        assert run.signals["y"].max() < 0.2 + 0.02
        assert run.signals["z"][-1] == pytest.approx(0.5, abs=1e-6)
        assert run.signals["angle"][-1] == pytest.approx(1.5, abs=1e-6)


@pytest.mark.parametrize(
    ("kind", "loads", "message"),
    [
        (Planar, {"limits": (0, 1)}, "for each of its coordinates: y, z, angle"),
        (Cylindrical, {"limits": (None, (0, 7))}, "less than a turn apart"),
        (Cylindrical, {"limits": ((1, 0), None)}, r"give \(lower, upper\)"),
        (Spherical, {"limits": ((0, 1), None, None)}, "is no angle"),
        (Fixed, {"limits": (0, 1)}, "for each of its coordinates: none"),
        (Cylindrical, {"viscous": (1, -1)}, "must not be negative"),
        (Universal, {"stiffness": (1, 2, 3)}, "stiffness must have"),
    ],
)
def test_loads_that_do_not_fit_are_refused(kind, loads, message):
    with pytest.raises(ProblemError, match=rf"test_joint_kinds.py:\d+: {kind.__name__} 'joint'.*{message}"):
        joint(kind, GROUND.frame(), Body("body", mass=1, inertia=(1, 1, 1)).frame(), **loads)


@pytest.mark.parametrize("pitch", [{}, {"pitch": 0}])
def test_a_screw_needs_a_pitch(pitch):
    with pytest.raises(ProblemError, match=r"test_joint_kinds.py:\d+: Screw 'spindle' has (no pitch|pitch 0)"):
        Screw("spindle", GROUND.frame(), Body("nut", mass=1, inertia=(1, 1, 1)).frame(), **pitch)
