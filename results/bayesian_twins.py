"""Twins of the robots of `results/bayesian.md`: a motion whose torques are exact, noise on all that is measured, and a
model that knows inertias and friction within 70 %."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import casadi as ca
import numpy as np
from robot_folder import folder

from spookid import (
    FullInertia,
    JointPosition,
    JointRate,
    LogCholesky,
    Motor,
    Parameter,
    Problem,
    Recording,
    Solution,
    robots,
)
from spookid.mechanics.inertia import PI
from spookid.parameter import substitute

Array = np.ndarray
FILES = {
    "double pendulum": ("double_pendulum_description/urdf/double_pendulum.urdf", {}),
    "Z1": ("z1_description/urdf/z1.urdf", {"jointGripper": 0.0}),
}
"""In the package example-robot-data, and joints that are held."""
LIKE = {"double pendulum": "pendulum", "Z1": "manipulator"}
"""What the paper's tables call them."""
STEP, INTERVAL, DURATION = 0.02, 0.01, 6.0  # s
AMPLITUDE, HARMONICS, BASE = 0.9, 5, 0.2  # rad, -, Hz
FRICTION = 0.1  # of the rms torque of a joint: viscous at the rms rate, and Coulomb
NOMINAL = 1.3  # what the model is told beforehand, over what is true
WITHIN = 0.7  # and how well it is said to know that
WIDTH = 0.05  # rad/s
MOST = 200  # iterations
KINDS = {"viscous": "b", "coulomb": "c"}
"""Coefficients of friction, and the letters of their Parameters."""


@dataclass(frozen=True, eq=False)
class Noise:
    """Standard deviations of angles [rad], rates [rad/s], and torques as a share of their rms."""

    angle: float
    rate: float
    torque: float


NOISE = Noise(angle=1e-3, rate=1e-2, torque=0.02)
"""Of all but table II."""


@dataclass(frozen=True, eq=False)
class Twin:
    """A robot that moves as it is told, and the problem to find out what it is."""

    name: str

    @property
    def like(self) -> str:
        """What the paper's tables call it."""
        return LIKE[self.name]

    @cached_property
    def robot(self) -> robots.Robot:
        """As its file has it."""
        path, held = FILES[self.name]
        return robots.read(folder() / path, held=held)

    @cached_property
    def truth(self) -> dict[str, float]:
        """Of the Parameters."""
        values = {}
        for name in self.robot.bodies:
            own = LogCholesky(name, FullInertia.from_pi(self._pi(name)))
            values |= {p.name: p.guess for p in own.coordinates}
        sizes, rates = self._sizes
        for i, (size, rate) in enumerate(zip(sizes, rates, strict=True), 1):
            values |= {f"b{i}": FRICTION * size / rate, f"c{i}": FRICTION * size}
        return values

    @cached_property
    def motion(self) -> tuple[Array, ...]:
        """Angles, rates and accelerations: five harmonics each."""
        rng, t = np.random.default_rng(7), self.t
        n = len(self.labels)
        found = [np.zeros((len(t), n)) for _ in range(3)]
        for k in range(1, HARMONICS + 1):
            w = 2 * np.pi * BASE * k
            size, phase = AMPLITUDE * rng.uniform(0.3, 1, n) / k, rng.uniform(0, 2 * np.pi, n)
            for i, part in enumerate(found):
                part += size * w**i * np.sin(w * t[:, None] + phase + i * np.pi / 2)
        return tuple(found)

    @cached_property
    def t(self) -> Array:
        """[s]."""
        return np.arange(round(DURATION / INTERVAL) + 1) * INTERVAL

    @cached_property
    def labels(self) -> list[str]:
        """Joints that move."""
        return [name for name, joint in self.robot.joints.items() if joint.coordinates]

    @cached_property
    def torques(self) -> Array:
        """What the motion takes, friction included."""
        return self.problem.inverse_dynamics(self.truth, motion=self.motion).efforts

    @cached_property
    def problem(self) -> Problem:
        """Without recordings, all that is believed 1.3 of the truth; the same symbols for all trials."""
        return self.believed({name: NOMINAL for name in [*self.robot.bodies, *self.labels]})

    def believed(self, shares: Mapping[str, float]) -> Problem:
        """Without recordings; inertias and friction are believed to be these shares of the truth, ± 70 %.

        Args:
            shares: by bodies and joints.
        """
        inertias = {
            name: LogCholesky(name, FullInertia.from_pi(shares[name] * self._pi(name)), within=WITHIN)
            for name in self.robot.bodies
        }
        joints = {}
        for i, label in enumerate(self.labels, 1):
            guesses = {what: shares[label] * self.truth[f"{letter}{i}"] for what, letter in KINDS.items()}
            joints[label] = {
                what: Parameter(f"{KINDS[what]}{i}", g, lower=0, prior=(g, WITHIN * g)) for what, g in guesses.items()
            }
        return self._problem(self.robot.with_(inertias=inertias, joints=joints))

    def _problem(self, robot: robots.Robot) -> Problem:
        moving = [robot.joints[label] for label in self.labels]
        motors = [Motor(joint, f"u{i}", measured=True) for i, joint in enumerate(moving, 1)]
        model = robot.model(motors=motors)
        sensors = [JointPosition(joint, f"q{i}") for i, joint in enumerate(moving, 1)]
        sensors += [JointRate(joint, f"v{i}") for i, joint in enumerate(moving, 1)]
        return Problem(self.name, model, [], sensors, step=STEP, friction_width=WIDTH)

    def _pi(self, name: str) -> Array:
        return np.asarray(substitute(self.robot.bodies[name].distribution.pi, {}))

    @cached_property
    def _sizes(self) -> tuple[Array, Array]:
        """Root mean squares of torques without friction, and of rates."""
        nothing = {label: {"viscous": 0, "coulomb": 0, "armature": 0} for label in self.labels}
        bare = self._problem(self.robot.with_(joints=nothing)).inverse_dynamics(motion=self.motion).efforts
        return np.sqrt(np.mean(bare**2, axis=0)), np.sqrt(np.mean(self.motion[1] ** 2, axis=0))

    def measured(self, noise: Noise, seed: int) -> Recording:
        """The motion with noise."""
        rng, (q, v, *_) = np.random.default_rng(seed), self.motion
        sizes = noise.torque * np.sqrt(np.mean(self.torques**2, axis=0))
        signals = {}
        for i in range(len(self.labels)):
            for letter, exact, size in (("q", q, noise.angle), ("v", v, noise.rate), ("u", self.torques, sizes[i])):
                signals[f"{letter}{i + 1}"] = exact[:, i] + size * rng.normal(size=len(self.t))
        return Recording(self.t, signals, self.name)

    def start(self, seed: int) -> dict[str, float]:
        """Guesses: the nominal ones, those of friction and masses wrong by 70 % (normally distributed logarithms)."""
        rng = np.random.default_rng(1000 + seed)
        found = {}
        for p in self.problem.parameters:
            if p.name[0] in "bc" and p.name[1:].isdigit():
                found[p.name] = p.guess * float(np.exp(WITHIN * rng.normal()))
            elif p.name.endswith("_alpha"):  # m = exp(2 alpha): all of π grows by the same share
                found[p.name] = p.guess + WITHIN / 2 * float(rng.normal())
        return found

    def started(self, seed: int) -> Problem:
        """With noise of this seed, from a start that is off by 70 %; noise is estimated."""
        given = {"recordings": [self.measured(NOISE, seed)], "initial": self.start(seed)}
        return self.problem.with_(**given, step_correction=False, estimator="noise")

    @cached_property
    def base(self) -> tuple[list[ca.SX], list[str]]:
        """What the motion shows, and the kinds of these: inertial or friction."""
        combinations = self.problem.base_parameters().combinations
        inertial = [any(entry in one.name for entry in PI) for one in combinations]
        return [one.formula for one in combinations], ["inertial" if own else "friction" for own in inertial]

    def errors(self, values: Solution | dict[str, float]) -> dict[str, float]:
        """Relative ℓ2 errors of base parameters: inertial ones, friction, and all."""
        known = values.values if isinstance(values, Solution) else values
        formulas, kinds = self.base
        apart = self.apart([substitute(f, known).item() for f in formulas])
        return {kind: _norm(apart, [kind in (one, "all") for one in kinds]) for kind in ("inertial", "friction", "all")}

    def apart(self, found: Sequence[float]) -> Array:
        """Estimates of base parameters and what is true of them, (n, 2)."""
        formulas, _ = self.base
        return np.column_stack([found, [substitute(f, self.truth).item() for f in formulas]])


def trajectory_error(twin: Twin, solution: Solution) -> float:
    """Largest error of an estimated angle [rad]."""
    motion = solution.trajectories[0]
    names = [f"q{i + 1}" for i in range(len(twin.labels))]
    found = np.column_stack([motion.predicted[:, list(motion.signals).index(name)] for name in names])
    true = np.column_stack([np.interp(motion.t, twin.t, column) for column in twin.motion[0].T])
    return float(np.nanmax(np.abs(found - true)))


def _norm(pairs: Array, chosen: list[bool]) -> float:
    found, true = pairs[np.array(chosen)].T
    return float(np.linalg.norm(found - true) / np.linalg.norm(true))
