"""Robots whose motions are simulated with disturbances, and their estimation with forward and with inverse dynamics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import casadi as ca
import numpy as np
from robot_folder import folder

from spookid import LogCholesky, robots
from spookid.mechanics import rotations
from spookid.mechanics.joint_coordinates import JointCoordinates
from spookid.mechanics.kinematics import Recursion
from spookid.mechanics.manifold import Manifold
from spookid.parameter import parameters_in
from spookid.transcription.factor import Factor, Group, Kind
from spookid.transcription.transcription import Chain, Point, Transcription

Array = Any
Formulation = Literal["inverse", "forward"]
STEP, STAGES = 0.01, 200
SIGMA_Q, SIGMA_V, SIGMA_W = 1e-3, 1e-2, 0.02
"""Noise of positions [rad or m] and of rates [rad/s or m/s]; disturbing forces, as a share of those that act."""
PRIOR = 0.5
"""Standard deviation of what is believed of an inertia's coordinates, which start with an error of 0.2."""
BAUMGARTE = 20.0  # 1/s


@dataclass(frozen=True)
class Kept:
    """What is done with a robot."""

    file: str
    unknown: tuple[str, ...]
    """Bodies whose inertias are unknown."""
    pose: Mapping[str, float]
    """Where joints are at the start, elsewhere zero."""
    free: bool = False
    feet: tuple[tuple[str, tuple[float, float, float]], ...] = ()
    """Points of bodies that stand."""
    rotors: bool = False
    """True if a thrust and three torques drive it, not its joints."""
    stages: int = STAGES
    """How long it moves."""


_LEG = {"hip": 0.0, "thigh": 0.8, "calf": -1.6}
MOTIONS = {
    "double pendulum": Kept("double_pendulum_description/urdf/double_pendulum.urdf", ("link2",), {"joint1": 0.5}),
    "UR5": Kept(
        "ur_description/urdf/ur5_robot.urdf",
        ("forearm_link", "wrist_3_link"),
        {"shoulder_lift_joint": -1.2, "elbow_joint": 1.0},
    ),
    "quadrotor": Kept("iris_description/robots/iris_simple.urdf", ("iris__base_link",), {}, free=True, rotors=True),
    "Bolt": Kept(
        "bolt_description/robots/bolt.urdf",
        ("base_link",),
        {f"{side}_{joint}": angle for side in ("FL", "FR") for joint, angle in (("HFE", 0.8), ("KFE", -1.6))},
        free=True,
        feet=tuple((f"{side}_LOWER_LEG", (0.0, 0.0, -0.16)) for side in ("FL", "FR")),
        stages=50,  # it tips over its two feet
    ),
    "B1": Kept(
        "b1_description/urdf/b1.urdf",
        ("base", "FR_thigh"),
        {f"{leg}_{part}_joint": angle for leg in ("FR", "FL", "RR", "RL") for part, angle in _LEG.items()},
        free=True,
        feet=tuple((f"{leg}_calf", (0.0, 0.0, -0.3)) for leg in ("FR", "FL", "RR", "RL")),
    ),
}


@dataclass(frozen=True, eq=False)
class Robot:
    """A robot's dynamics as functions, with some inertias as symbols θ."""

    name: str
    kept: Kept
    joints: JointCoordinates
    theta: ca.SX
    truth: Array
    scale: Array
    """Of each coordinate: 1, or 0.1 m."""

    @property
    def manifold(self) -> Manifold:
        """Of q."""
        return self.joints.manifold

    @property
    def n(self) -> int:
        """Rates."""
        return self.manifold.tangent

    def needed(self, q: ca.SX, v: ca.SX, a: ca.SX) -> ca.SX:
        """Inverse dynamics: M a + velocity products − weight, (n,)."""
        motion = Recursion(self.joints, q, v, a)
        return motion.along(motion.needed)

    @cached_property
    def symbols(self) -> tuple[ca.SX, ca.SX, ca.SX]:
        """q, v, a."""
        return ca.SX.sym("q", self.manifold.ambient), ca.SX.sym("v", self.n), ca.SX.sym("a", self.n)

    @cached_property
    def parts(self) -> ca.Function:
        """M, what is needed at a = 0, how inputs act, rows of standing feet in a, and their positions."""
        q, v, a = self.symbols
        needed = self.needed(q, v, a)
        mass = ca.densify(ca.jacobian(needed, a))
        feet = self.feet(q)
        slope = ca.densify(ca.jacobian(feet, q) @ self.manifold.basis(q))
        rate = slope @ v
        flow = self.manifold.basis(q) @ v
        turned = ca.jtimes(rate, q, ca.densify(flow)) if rate.numel() else ca.SX(0, 1)
        bias = ca.substitute(needed, a, ca.SX.zeros(self.n))
        return ca.Function("parts", [q, v, self.theta], [mass, bias, self.actuation(q), slope, turned, rate, feet])

    def feet(self, q: ca.SX) -> ca.SX:
        """Where points that stand are, (nc,)."""
        poses, found = self.joints.configuration(q), []
        names = [body.name for body in self.joints.model.bodies]
        for name, point in self.kept.feet:
            pose = poses[7 * names.index(name) : 7 * names.index(name) + 7]
            found.append(pose[:3] + rotations.matrix(pose[3:]) @ ca.DM(point))
        return ca.vertcat(ca.SX(0, 1), *found)

    def actuation(self, q: ca.SX) -> ca.SX:
        """How inputs act, (n, n_u): on joints, or as a thrust and torques of the trunk."""
        if self.kept.rotors:
            thrust = ca.vertcat(rotations.matrix(q[3:7])[:, 2], ca.SX.zeros(3))
            return ca.densify(ca.horzcat(thrust, ca.vertcat(ca.SX.zeros(3, 3), ca.SX.eye(3))))
        moved = self.n - 6 * self.kept.free
        return ca.vertcat(ca.SX.eye(moved), ca.SX.zeros(self.n - moved, moved))

    def standing(self, turned: Any, rate: Any, off: Any) -> Any:
        """What the acceleration of feet is to be, their velocity products taken off."""
        return -turned - 2 * BAUMGARTE * rate - BAUMGARTE**2 * off


def robot(name: str) -> Robot:
    """Read from its file."""
    kept = MOTIONS[name]
    read = robots.read(folder() / kept.file, free=kept.free)
    unknown = {body: LogCholesky(body, read.bodies[body].distribution) for body in kept.unknown}
    model = read.with_(inertias=unknown).model()
    joints = JointCoordinates(model)
    found = parameters_in(model.expressions(), name)
    scale = np.array([0.1 if p.unit else 1.0 for p in found])
    return Robot(name, kept, joints, ca.vertcat(*found), np.array([p.guess for p in found]), scale)


# --- motions ---


@dataclass(frozen=True, eq=False)
class Motion:
    """What is measured, (N, ...), and the inputs of each step."""

    q: Array
    v: Array
    u: Array
    force: float
    """Root mean square of the inputs' forces."""
    true: Array
    """q without noise."""


def simulated(one: Robot, seed: int = 0) -> Motion:
    """A motion around the start's pose, with disturbances, and noise of the sensors."""
    rng, n, manifold = np.random.default_rng(seed), one.n, one.manifold
    x, d = ca.SX.sym("x", manifold.ambient), ca.SX.sym("d", n)
    moved = ca.Function("moved", [x, d], [manifold.retract(x, d)])
    apart = ca.Function("apart", [x, d_ := ca.SX.sym("y", manifold.ambient)], [manifold.difference(d_, x)])
    q, v = start(one), np.zeros(n)
    home, size = q.copy(), 0.0
    waves, phases = rng.uniform(3.0, 9.0, (2, n)), rng.uniform(0, 2 * np.pi, (2, n))
    reach = 0.4 if not one.kept.feet else 0.15
    feet = np.asarray(one.parts(q, v, one.truth)[6]).ravel()
    seen_q, seen_v, inputs, true = [], [], [], []
    for k in range(one.kept.stages):
        mass, bias, act, slope, turned, rate, at = (np.asarray(p) for p in one.parts(q, v, one.truth))
        bias, turned, rate, at = (p.ravel() for p in (bias, turned, rate, at))
        wave = reach * np.mean(np.sin(waves * STEP * k + phases) - np.sin(phases), axis=0)
        off = np.asarray(apart(moved(home, wave), q)).ravel()
        wanted = mass @ (-60 * off - 12 * v) + bias
        u = np.linalg.lstsq(np.hstack([act, slope.T]), wanted, rcond=None)[0][: act.shape[1]]
        size = max(size, float(np.sqrt(np.mean((act @ u) ** 2)))) if k < 20 else size
        force = act @ u + SIGMA_W * size * rng.normal(size=n) - bias
        given = one.standing(turned, rate, at - feet)
        system = np.block([[mass, slope.T], [slope, np.zeros((len(feet), len(feet)))]])
        a = np.linalg.solve(system, np.concatenate([force, given]))[:n] if len(feet) else np.linalg.solve(mass, force)
        seen_q.append(np.asarray(moved(q, SIGMA_Q * rng.normal(size=n))).ravel())
        seen_v.append(v + SIGMA_V * rng.normal(size=n))
        true.append(q)
        inputs.append(u)
        v = v + STEP * a
        q = np.asarray(moved(q, STEP * v)).ravel()
    return Motion(np.array(seen_q), np.array(seen_v), np.array(inputs), size, np.array(true))


def start(one: Robot) -> Array:
    """Coordinates of the start's pose, (ambient,)."""
    joints = one.joints
    names = [joint.name for joint in joints.model.joints]
    displacements = ca.DM([one.kept.pose.get(name, 0.0) for name in names])
    free = ca.DM([0, 0, 0, 1, 0, 0, 0] * len(joints.roots))
    return np.asarray(ca.DM(joints.coordinates(displacements, free))).ravel()


# --- estimation ---


@dataclass(frozen=True, eq=False)
class Estimation:
    """States and inertias from what is measured."""

    transcription: Transcription
    start: Point
    robot: Robot


def prepared(one: Robot, kind: Formulation) -> Estimation:
    """The same estimation with forward or inverse dynamics."""
    motion, n, manifold, rng = simulated(one), one.n, one.manifold, np.random.default_rng(1)
    forces = 3 * len(one.kept.feet)
    more = n if kind == "forward" else 2 * n + forces
    whole = Manifold((*manifold.parts, ("flat", n + more))).joined
    steps = [ca.SX.sym(f"x{i}", whole.ambient) for i in range(2)]
    (q, v, w, a, force), (later, rate, *_) = (parted(one, x, kind) for x in steps)
    measured = ca.SX.sym("u", motion.u.shape[1])
    feet0 = ca.DM(np.asarray(one.parts(start(one), np.zeros(n), one.truth)[6]))
    seen_q, seen_v = ca.SX.sym("seen_q", manifold.ambient), ca.SX.sym("seen_v", n)
    mass, bias, act, slope, turned, speed, feet = one.parts(q, v, one.theta)
    acts = act @ measured + w * (SIGMA_W * motion.force)
    given = one.standing(turned, speed, feet - feet0)
    hard: list[Factor] = []
    none = ca.SX(0, 1)
    if kind == "inverse":
        lacking = one.needed(q, v, a) - acts - slope.T @ force
        # Rows that see the next step, too, are linearized; those of one step alone would be met at every point.
        pair = {0: steps[0], 1: steps[1]}
        hard.append(factor("inverse dynamics", lacking / motion.force, pair, measured, Kind.HARD))
        if forces:
            hard.append(factor("standing", slope @ a - given, pair, none, Kind.HARD))
        data = none
    else:
        a, data = accelerated(mass, acts - bias, slope, given), measured
    moves = ca.vertcat((rate - v) / STEP - a, manifold.difference(later, q) / STEP - rate)
    hard.append(factor("motion", moves, {0: steps[0], 1: steps[1]}, data, Kind.HARD))
    guess = one.truth + 0.2 * one.scale * rng.normal(size=len(one.truth))
    soft = [
        factor("positions", manifold.difference(seen_q, q) / SIGMA_Q, {0: steps[0]}, seen_q, Kind.SOFT),
        factor("rates", (seen_v - v) / SIGMA_V, {0: steps[0]}, seen_v, Kind.SOFT),
        factor("disturbances", w, {0: steps[0]}, none, Kind.SOFT),
        factor("prior", (one.theta - guess) / (PRIOR * one.scale), {0: steps[0]}, none, Kind.SOFT, first_only=True),
    ]
    each = {"positions": motion.q, "rates": motion.v}
    each["inverse dynamics" if kind == "inverse" else "motion"] = motion.u[:-1]
    chain = Chain("motion", len(motion.u), {name: np.ascontiguousarray(values) for name, values in each.items()}, {})
    names, free = [str(s) for s in ca.vertsplit(one.theta)], np.full(len(guess), np.inf)
    transcription = Transcription(whole, [*hard, *soft], one.theta, [], names, -free, free, one.scale, [chain])
    states = np.hstack([motion.q, motion.v, np.zeros((len(motion.u), more))])
    return Estimation(transcription, Point((states,), guess), one)


def parted(one: Robot, x: ca.SX, kind: Formulation) -> list[ca.SX]:
    """q, v, w, and with inverse dynamics a and forces of the feet."""
    sizes = [one.manifold.ambient, one.n, one.n]
    sizes += [one.n, 3 * len(one.kept.feet)] if kind == "inverse" else []
    parts = ca.vertsplit(x, np.cumsum([0, *sizes]).tolist())
    return [*parts, ca.SX(0, 1), ca.SX(0, 1)][:5]


def accelerated(mass: ca.SX, force: ca.SX, slope: ca.SX, given: ca.SX) -> ca.SX:
    """Forward dynamics, with forces of the feet eliminated."""
    factors = ca.ldl(mass, False)
    free = ca.ldl_solve(ca.densify(force), *factors)
    if not given.numel():
        return free
    spread = ca.ldl_solve(ca.densify(slope.T), *factors)
    reactions = ca.ldl_solve(ca.densify(given - slope @ free), *ca.ldl(ca.densify(slope @ spread), False))
    return free + spread @ reactions


def factor(
    name: str, residual: ca.SX, variables: Mapping[int, ca.SX], data: ca.SX, kind: Kind, first_only: bool = False
) -> Factor:
    """One of the estimation."""
    group = (
        Group.PRIOR
        if first_only
        else Group.STATE
        if name in ("disturbances",) or kind is Kind.HARD
        else Group.OBSERVATION
    )
    rows = tuple(f"{name} {i}" for i in range(residual.numel()))
    return Factor(name, group, ca.densify(residual), variables, data, rows, kind=kind, first_only=first_only)
