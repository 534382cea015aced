"""Twins of the robots of `results/bayesian.md` that stand on their feet, or fly: motions by Pinocchio, seen by
encoders, measured torques and an inertial unit on the trunk."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from bayesian_twins import FRICTION, INTERVAL, NOISE, WIDTH, Array, Noise, Twin
from robot_folder import folder

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import pinocchio as pin
from standing_robots import Legged, Moved

from spookid import (
    Accelerometer,
    Gyroscope,
    JointPosition,
    JointRate,
    JointTorque,
    Orientation,
    PointContact,
    Problem,
    Recording,
    Relation,
    Sensor,
    mirrored,
    robots,
    total_mass,
)

INERTIAL_UNIT = {"gyro": 2e-3, "acc": 2e-2, "turn": 2e-3}
"""Standard deviations of angular velocity [rad/s], specific force [m/s²] and orientation [rad]."""

SETTLING = 0.1  # s


@dataclass(frozen=True, eq=False)
class Stance:
    """How a robot is held, and how long."""

    file: str
    feet: tuple[str, ...]
    posture: Mapping[str, float]
    gains: tuple[float, float]
    """Of the joints' springs and dampers [N m/rad, N m s/rad]."""
    duration: float
    step: float
    pairs: tuple[tuple[str, str], ...]
    """Bodies that mirror each other, left and right."""
    like: str


_SIDES = (("FL", "FR"), ("RL", "RR"))
STANCES = {
    "Bolt": Stance(
        "bolt_description/robots/bolt.urdf",
        ("FL_FOOT", "FR_FOOT"),
        {f"{leg}_{joint}": angle for leg in _SIDES[0] for joint, angle in (("HFE", 0.6), ("KFE", -1.2))},
        (6.0, 0.1),
        0.6,  # it tips over its two feet
        0.01,
        tuple((f"FL_{part}", f"FR_{part}") for part in ("SHOULDER", "UPPER_LEG", "LOWER_LEG")),
        "biped",
    ),
    "B1": Stance(
        "b1_description/urdf/b1.urdf",
        tuple(f"{leg}_foot" for side in _SIDES for leg in side),
        {
            f"{leg}_{joint}_joint": angle
            for side in _SIDES
            for leg in side
            for joint, angle in (("thigh", 0.8), ("calf", -1.6))
        },
        (300.0, 10.0),
        1.2,
        0.02,
        tuple((f"{left}_{part}", f"{right}_{part}") for left, right in _SIDES for part in ("hip", "thigh", "calf")),
        "quadruped",
    ),
}


@dataclass
class Rubbing(Legged):
    """With viscous and Coulomb friction of each joint."""

    coefficients: tuple[Array, Array] = (np.zeros(0), np.zeros(0))

    def friction(self, v: Array) -> Array:
        """Of the joints."""
        viscous, coulomb = self.coefficients
        return viscous * v[6:] + coulomb * np.tanh(v[6:] / WIDTH)


@dataclass(frozen=True, eq=False)
class FloatingTwin(Twin):
    """A robot on its feet, held near a posture by springs and dampers whose rests swing."""

    @property
    def stance(self) -> Stance:
        """How it is held."""
        return STANCES[self.name]

    @property
    def like(self) -> str:
        """What the paper's tables call it."""
        return self.stance.like

    @cached_property
    def robot(self) -> robots.Robot:
        """As its file has it."""
        return robots.read(folder() / self.stance.file, free=True)

    @cached_property
    def labels(self) -> list[str]:
        """Joints, in Pinocchio's order."""
        return self._legged((np.zeros(0), np.zeros(0))).names

    @cached_property
    def run(self) -> Moved:
        """With friction."""
        sizes, rates = self._sizes
        return self._moved((FRICTION * sizes / rates, FRICTION * sizes))

    def _legged(self, coefficients: tuple[Array, Array]) -> Rubbing:
        at = self.stance
        path = str(folder() / at.file)
        return Rubbing(path, at.feet, at.posture, {}, 0.0, at.gains, coefficients=coefficients)

    def _moved(self, coefficients: tuple[Array, Array]) -> Moved:
        """Without its beginning, in which it settles within few steps."""
        run = self._legged(coefficients).moved(self.stance.duration + SETTLING, INTERVAL, {})
        first = round(SETTLING / INTERVAL)
        rest = (one[first:] for one in (run.q, run.v, run.torques, run.unit, run.forces))
        return Moved(run.t[: len(run.t) - first], *rest)

    @cached_property
    def _sizes(self) -> tuple[Array, Array]:
        """Root mean squares of torques without friction, and of rates, of each joint."""
        n = len(self.labels)
        bare = self._moved((np.zeros(n), np.zeros(n)))
        return np.sqrt(np.mean(bare.torques**2, axis=0)), np.sqrt(np.mean(bare.v[:, 6:] ** 2, axis=0))

    @property
    def t(self) -> Array:
        """[s]."""
        return self.run.t

    @property
    def motion(self) -> tuple[Array, ...]:
        """Angles and rates of the joints."""
        return self.run.q[:, 7:], self.run.v[:, 6:]

    @property
    def torques(self) -> Array:
        """Of the motors."""
        return self.run.torques

    def _problem(self, robot: robots.Robot) -> Problem:
        trunk, feet = robot.frame(next(iter(robot.bodies))), self.stance.feet
        unit = [
            Gyroscope(trunk, tuple(f"gyro_{axis}" for axis in "xyz"), sigma=INERTIAL_UNIT["gyro"]),
            Accelerometer(trunk, tuple(f"acc_{axis}" for axis in "xyz"), sigma=INERTIAL_UNIT["acc"]),
            Orientation(trunk, tuple(f"turn_{axis}" for axis in "wxyz"), sigma=INERTIAL_UNIT["turn"]),
        ]
        sizes = NOISE.torque * np.sqrt(np.mean(self.torques**2, axis=0))
        sensors: list[Sensor] = [*unit]
        for i, label in enumerate(self.labels, 1):
            joint = robot.joints[label]
            sensors.append(JointPosition(joint, f"q{i}", sigma=NOISE.angle))
            sensors.append(JointRate(joint, f"v{i}", sigma=NOISE.rate))
            sensors.append(JointTorque(joint, f"u{i}", sigma=float(sizes[i - 1])))
        model = robot.model(constraints=[PointContact(foot, robot.frame(foot)) for foot in feet])
        return Problem(self.name, model, [], sensors, step=self.stance.step, friction_width=WIDTH)

    def measured(self, noise: Noise, seed: int) -> Recording:
        """The motion with noise; that of the inertial unit is always the same size."""
        rng = np.random.default_rng(seed + 500)
        signals = dict(super().measured(noise, seed).signals)
        exact = {f"gyro_{axis}": self.run.unit[:, i] for i, axis in enumerate("xyz")}
        exact |= {f"acc_{axis}": self.run.unit[:, 3 + i] for i, axis in enumerate("xyz")}
        signals |= {name: x + INERTIAL_UNIT[name[:-2]] * rng.normal(size=len(x)) for name, x in exact.items()}
        turns = self._turned(INERTIAL_UNIT["turn"] * rng.normal(size=(len(self.t), 3)))
        return Recording(
            self.t, signals | {f"turn_{axis}": column for axis, column in zip("wxyz", turns.T, strict=True)}, self.name
        )

    def _turned(self, by: Array) -> Array:
        """The base's quaternions w, x, y, z, turned by small rotation vectors."""
        exact = [pin.Quaternion(q[3:7]) for q in self.run.q]
        turned = [one * pin.Quaternion(pin.exp3(w)) for one, w in zip(exact, by, strict=True)]
        return np.array([np.roll(one.coeffs(), 1) for one in turned])

    def constraints(self, problem: Problem) -> list[Relation]:
        """The mass is known, and left and right are alike."""
        bodies = {body.name: body for body in problem.model.bodies}
        whole = sum(float(self._pi(name)[0]) for name in bodies)
        return [
            total_mass(bodies.values(), whole),
            *(mirrored(bodies[left], bodies[right]) for left, right in self.stance.pairs),
        ]
