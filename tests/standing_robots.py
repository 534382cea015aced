"""Motions of legged robots on contacts by Pinocchio, and what encoders, torques and an inertial unit show of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from mechanisms import Array

from spookid import (
    Accelerometer,
    Gyroscope,
    JointPosition,
    JointTorque,
    Parameter,
    PointContact,
    Problem,
    Recording,
    robots,
)

pin = pytest.importorskip("pinocchio")

SIGMAS = {"q": 2e-4, "tau": 0.05, "gyro": 2e-3, "acc": 2e-2}
"""Of angles, torques, angular velocities and specific forces."""


PARTS = 10
"""Steps of the integration between samples."""


@dataclass(frozen=True)
class Moved:
    """A motion at N samples."""

    t: Array
    """[s], (N,)."""
    q: Array
    """As Pinocchio has it: place, quaternion x, y, z, w, and angles, (N, 7 + n)."""
    v: Array
    """Of the base in its axes, and of the joints, (N, 6 + n)."""
    torques: Array
    """Of the motors, (N, n)."""
    unit: Array
    """Angular velocity and specific force of the base in its axes, (N, 6)."""
    forces: Array
    """Of all feet, (N, feet, 3)."""


@dataclass
class Legged:
    """A robot on point feet, held near a posture by springs and dampers of its controller.

    Args:
        scales: by which inertias of links are multiplied, by the name of their joint.
    """

    path: str
    feet: Sequence[str]
    posture: Mapping[str, float]
    scales: Mapping[str, float]
    viscous: float
    gains: tuple[float, float]

    def __post_init__(self) -> None:
        self.model = pin.buildModelFromUrdf(self.path, pin.JointModelFreeFlyer())
        for name, scale in self.scales.items():
            i = self.model.getJointId(name)
            own = self.model.inertias[i]
            self.model.inertias[i] = pin.Inertia(scale * own.mass, own.lever, scale * own.inertia)
        self.data, self.names = self.model.createData(), list(self.model.names)[2:]
        self.contacts = []
        for foot in self.feet:
            frame = self.model.frames[self.model.getFrameId(foot)]
            kind, where = pin.ContactType.CONTACT_3D, pin.LOCAL_WORLD_ALIGNED
            self.contacts.append(pin.RigidConstraintModel(kind, self.model, frame.parentJoint, frame.placement, where))

    def start(self) -> Array:
        """The posture, with the lowest foot on the ground."""
        q = pin.neutral(self.model)
        for name, value in self.posture.items():
            q[self.model.joints[self.model.getJointId(name)].idx_q] = value
        pin.framesForwardKinematics(self.model, self.data, q)
        q[2] -= min(self.data.oMf[self.model.getFrameId(foot)].translation[2] for foot in self.feet)
        return np.asarray(q)

    def torques(self, t: float, q: Array, v: Array) -> Array:
        """Of the motors."""
        home, phases = self.start()[7:], np.arange(len(self.names))
        wanted = home + 0.15 * np.sin(2 * np.pi * (0.7 + 0.12 * phases) * t + phases) - 0.15 * np.sin(phases)
        return self.gains[0] * (wanted - q[7:]) - self.gains[1] * v[6:]

    def friction(self, v: Array) -> Array:
        """Of the joints."""
        return self.viscous * v[6:]

    def acceleration(self, t: float, q: Array, v: Array, holding: Sequence[int]) -> tuple[Array, list[Array]]:
        """With the forces of the feet that hold."""
        held, forces = pin.StdVec_RigidConstraintModel(), pin.StdVec_RigidConstraintData()
        for i in holding:
            held.append(self.contacts[i])
            forces.append(self.contacts[i].createData())
        pin.initConstraintDynamics(self.model, self.data, held, forces)
        effort = np.concatenate([np.zeros(6), self.torques(t, q, v) - self.friction(v)])
        a = pin.constraintDynamics(self.model, self.data, q, v, effort, held, forces)
        return np.array(a), [np.array(f.contact_force.linear) for f in forces]

    def moved(self, duration: float, step: float, lifted: Mapping[int, float]) -> Moved:
        """From the posture on; feet are lifted for good at some times."""
        t, q = np.arange(round(duration / step) + 1) * step, self.start()
        v, found = np.zeros(self.model.nv), []
        for now in t:
            holding = [i for i in range(len(self.feet)) if now < lifted.get(i, np.inf) - 1e-9]
            a, some = self.acceleration(now, q, v, holding)
            forces = np.zeros((len(self.feet), 3))
            forces[holding] = some
            found.append((q, v, self.torques(now, q, v), np.concatenate(self._unit(q, v, a)), forces))
            for part in range(PARTS):
                q, v = self._stepped(now + part * step / PARTS, q, v, step / PARTS, holding)
        return Moved(t, *map(np.array, zip(*found, strict=True)))

    def recorded(self, duration: float, step: float, lifted: Mapping[int, float], seed: int) -> tuple[Recording, Array]:
        """What is measured, and the forces of all feet, (N, feet, 3)."""
        run = self.moved(duration, step, lifted)
        ends = [lifted.get(i, np.inf) + 1e-9 for i in range(len(self.feet))]
        down = 1.0 * (run.t[:, None] <= np.array(ends))
        names = [f"{kind}_{name}" for kind in ("q", "tau") for name in self.names]
        names += [f"{kind}_{axis}" for kind in ("gyro", "acc") for axis in "xyz"] + [f"down_{f}" for f in self.feet]
        rng = np.random.default_rng(seed)
        sizes = np.array([SIGMAS.get(name.partition("_")[0], 0.0) for name in names])
        exact = np.hstack([run.q[:, 7:], run.torques, run.unit, down])
        values = exact + sizes * rng.standard_normal(exact.shape)
        return Recording(t=run.t, signals=dict(zip(names, values.T, strict=True)), name="twin"), run.forces

    def _unit(self, q: Array, v: Array, a: Array) -> tuple[Array, Array]:
        """Angular velocity and specific force of the base in its axes."""
        R = pin.Quaternion(q[3:7]).toRotationMatrix()
        return v[3:6], a[:3] + np.cross(v[3:6], v[:3]) - R.T @ self.model.gravity.linear

    def _stepped(self, t: float, q: Array, v: Array, h: float, holding: Sequence[int]) -> tuple[Array, Array]:
        """By the Runge-Kutta method of order 4, as far as the tangent space allows: of order 4 for so short a step."""
        slopes: list[tuple[Array, Array]] = []
        for share in (0.0, 0.5, 0.5, 1.0):
            dq, dv = slopes[-1] if slopes else (np.zeros(len(v)), np.zeros(len(v)))
            here, speed = pin.integrate(self.model, q, share * h * dq), v + share * h * dv
            slopes.append((speed, self.acceleration(t + share * h, here, speed, holding)[0]))
        (k1, k2, k3, k4), (l1, l2, l3, l4) = (list(part) for part in zip(*slopes, strict=True))
        moved = (k1 + 2 * k2 + 2 * k3 + k4) / 6
        return pin.integrate(self.model, q, h * moved), v + h * (l1 + 2 * l2 + 2 * l3 + l4) / 6


def standing(legged: Legged, recording: Recording, groups: Mapping[str, str], **options: Any) -> Problem:
    """The robot with a scale of the inertias of each group of bodies, by a part of their names, and its friction."""
    robot = robots.read(legged.path, free=True)
    base = next(iter(robot.bodies))
    scales = {name: Parameter(f"s_{name}", 1.0, lower=0.1) for name in groups}
    inertias = {}
    for name, body in robot.bodies.items():
        group = next((g for g, part in groups.items() if part in name), None) or next(iter(groups))
        if name == base:
            group = next(iter(groups))
        inertias[name] = robots_inertia(scales[group], body)
    viscous = Parameter("b", 0.5 * legged.viscous + 0.1, lower=0, unit="N m s")
    robot = robot.with_(inertias=inertias, joints={name: {"viscous": viscous} for name in robot.joints})
    feet = [PointContact(foot, robot.frame(foot), holds=f"down_{foot}") for foot in legged.feet]
    unit = robot.frame(base)
    sensors: list[Any] = [
        Gyroscope(unit, ("gyro_x", "gyro_y", "gyro_z"), sigma=SIGMAS["gyro"]),
        Accelerometer(unit, ("acc_x", "acc_y", "acc_z"), sigma=SIGMAS["acc"]),
    ]
    for name, joint in robot.joints.items():
        sensors.append(JointPosition(joint, f"q_{name}", sigma=SIGMAS["q"]))
        sensors.append(JointTorque(joint, f"tau_{name}", sigma=SIGMAS["tau"]))
    return Problem("standing", robot.model(constraints=feet), [recording], sensors, **options)


def robots_inertia(scale: Parameter, body: Any) -> Any:
    """A body's inertia times a number."""
    from spookid import FullInertia

    return FullInertia.from_pi(scale * body.distribution.pi)
