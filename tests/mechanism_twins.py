"""Twins of mechanisms with loops, gears and wheels: a declaration, and the motion of the same thing by Lagrange's
equations in coordinates of one's own (``lagrange``), at a tolerance of 1e-10."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import casadi as ca
import numpy as np
from lagrange import Motion, Solid, turned
from mechanisms import Array

from spookid import (
    GROUND,
    Body,
    Distance,
    Gear,
    Hinge,
    Holonomic,
    JointPosition,
    Model,
    Nonholonomic,
    Parameter,
    PointPosition,
    Prismatic,
    Problem,
    Recording,
    Sensor,
    Spherical,
    State,
    Universal,
    gravity,
)

G = 9.81
ACROSS = {"x": (0, 1, 0), "y": (1, 0, 0)}
"""A horizontal axle along y; its angle turns x towards −z."""
UP = {"x": (0, 0, 1), "y": (1, 0, 0)}
"""A vertical axle."""


@dataclass(frozen=True)
class Reference:
    """The motion in coordinates of its own."""

    motion: Motion
    q: Sequence[float]
    """Where it starts, (n,)."""
    v: Sequence[float]
    """Rates there."""
    signals: Mapping[str, Any]
    """What the sensors see, as expressions of the coordinates."""

    def seen(self, t: Array) -> dict[str, Array]:
        """Signals without noise at times (N,)."""
        found, _ = self.motion.run(self.q, self.v, t)
        return {name: self.motion.along(signal, found)[:, 0] for name, signal in self.signals.items()}


@dataclass(frozen=True)
class Twin:
    """A mechanism, and what its sensors see."""

    truth: Mapping[str, float]
    declared: Callable[[Mapping[str, Any]], Model]
    """Of numbers or Parameters by the names of ``truth``."""
    sensors: Callable[[Model], list[Sensor]]
    reference: Callable[[], Reference]
    noise: float = 5e-4
    """[rad or m]."""
    lower: float = 1e-6

    def recording(self, duration: float, step: float, seed: int) -> Recording:
        """With noise."""
        t, rng = np.arange(round(duration / step) + 1) * step, np.random.default_rng(seed)
        seen = self.reference().seen(t)
        return Recording(t, {name: x + self.noise * rng.normal(size=len(t)) for name, x in seen.items()})

    def problem(self, recording: Recording, off: float = 1.4, **settings: Any) -> Problem:
        """With guesses that are off by a factor, up and down in turn."""
        guesses = {n: v * (off if i % 2 else 1 / off) for i, (n, v) in enumerate(self.truth.items())}
        model = self.declared({name: Parameter(name, guess, lower=self.lower) for name, guess in guesses.items()})
        return Problem("twin", model, [recording], self.sensors(model), **{"step": 0.005, **settings})


def markers(points: Mapping[str, tuple[Any, Any]]) -> list[Sensor]:
    """All coordinates of points, (body, at) by name."""
    frames = {name: body.frame(at=at) for name, (body, at) in points.items()}
    return [PointPosition(frame, axis, f"{name}{axis}") for name, frame in frames.items() for axis in ("x", "y", "z")]


def marked(points: Mapping[str, Any]) -> dict[str, Any]:
    """The same from points as expressions of the coordinates."""
    return {f"{name}{axis}": p[i] for name, p in points.items() for i, axis in enumerate("xyz")}


def euler(angles: ca.SX) -> ca.SX:
    """About z, then y, then x, (3, 3)."""
    return turned(2, angles[0]) @ turned(1, angles[1]) @ turned(0, angles[2])


# --- a slider-crank ---


def slider_crank() -> Twin:
    """It starts to turn over from near its upper dead point; one angle, and the slider's position, are seen."""
    a, l, masses = 0.1, 0.3, (0.5, 0.4, 0.8)
    truth = {"I": 0.004, "b": 0.004, "F": 0.5}

    def declared(p: Mapping[str, Any]) -> Model:
        crank = Body("crank", mass=masses[0], inertia=(1e-4, 6e-4, 6e-4))
        rod = Body("rod", mass=masses[1], inertia=(1e-4, p["I"], 0.004))
        block = Body("block", mass=masses[2], inertia=(1e-3, 1e-3, 1e-3))
        along = {"x": (1, 0, 0), "y": (0, 1, 0)}
        joints = [
            Hinge("axle", GROUND.frame(**ACROSS), crank.frame(at=(-a / 2, 0, 0), **ACROSS), viscous=p["b"]),
            Hinge("big end", crank.frame(at=(a / 2, 0, 0), **ACROSS), rod.frame(at=(-l / 2, 0, 0), **ACROSS)),
            Hinge("small end", rod.frame(at=(l / 2, 0, 0), **ACROSS), block.frame(**ACROSS)),
            Prismatic("way", GROUND.frame(**along), block.frame(**along), viscous=p["F"]),
        ]
        return Model([crank, rod, block], joints, gravity=gravity(G))

    def reference() -> Reference:
        q = ca.SX.sym("q")
        end = a * ca.vertcat(ca.cos(q), 0, -ca.sin(q))
        back = ca.asin(-a * ca.sin(q) / l)
        R = turned(1, back)
        place = end[0] + l * ca.cos(back)
        solids = [
            Solid(masses[0], (1e-4, 6e-4, 6e-4), end / 2, turned(1, q)),
            Solid(masses[1], (1e-4, truth["I"], 0.004), end + R @ ca.DM([l / 2, 0, 0]), R),
            Solid(masses[2], (1e-3, 1e-3, 1e-3), ca.vertcat(place, 0, 0), ca.SX.eye(3)),
        ]

        def forces(q_: ca.SX, v: ca.SX, _: ca.SX) -> ca.SX:
            slope = ca.jacobian(place, q)
            return -truth["b"] * v - truth["F"] * slope**2 * v

        motion = Motion(q, solids, (0, 0, -G), forces)
        return Reference(motion, [-1.3], [2.0], {"angle": q, "place": place})

    def sensors(model: Model) -> list[Sensor]:
        return [JointPosition(model.joints[0], "angle"), JointPosition(model.joints[3], "place")]

    return Twin(truth, declared, sensors, reference)


# --- a spatial four-bar ---


def rssr() -> Twin:
    """Two cranks about axles that cross, and a coupler between two balls, seen by markers and both angles."""
    a, c, far = 0.15, 0.25, np.array([0.35, 0.15, 0.05])
    l = 0.4
    truth = {"I": 0.006, "J": 0.008, "b": 0.01}
    mass = {"crank": 0.4, "coupler": 0.5, "rocker": 0.6}
    side = (0.0, 0.06, 0.0)

    def declared(p: Mapping[str, Any]) -> Model:
        crank = Body("crank", mass=mass["crank"], inertia=(1e-4, 1e-3, 1e-3))
        coupler = Body("coupler", mass=mass["coupler"], inertia=(8e-4, p["J"], p["J"]))
        rocker = Body("rocker", mass=mass["rocker"], inertia=(1e-4, 4e-3, p["I"]))
        joints = [
            Hinge("axle", GROUND.frame(**ACROSS), crank.frame(at=(-a / 2, 0, 0), **ACROSS), viscous=p["b"]),
            Spherical("near", crank.frame(at=(a / 2, 0, 0)), coupler.frame(at=(-l / 2, 0, 0)), viscous=1e-3),
            Hinge("pivot", GROUND.frame(at=tuple(far), **UP), rocker.frame(at=(-c / 2, 0, 0), **UP)),
            Spherical("far", coupler.frame(at=(l / 2, 0, 0)), rocker.frame(at=(c / 2, 0, 0)), viscous=1e-3),
        ]
        return Model([crank, coupler, rocker], joints, gravity=gravity(G))

    def reference() -> Reference:
        q = ca.SX.sym("q", 5)  # crank, coupler's Euler angles, rocker
        first, R, last = turned(1, q[0]), euler(q[1:4]), turned(2, q[4])
        ball = first @ ca.DM([a, 0, 0])
        other = ca.DM(far) + last @ ca.DM([c, 0, 0])
        middle = ball + R @ ca.DM([l / 2, 0, 0])
        solids = [
            Solid(mass["crank"], (1e-4, 1e-3, 1e-3), ball / 2, first),
            Solid(mass["coupler"], (8e-4, truth["J"], truth["J"]), middle, R),
            Solid(mass["rocker"], (1e-4, 4e-3, truth["I"]), ca.DM(far) + last @ ca.DM([c / 2, 0, 0]), last),
        ]

        def spin(A: ca.SX, v: ca.SX) -> ca.SX:
            W = A.T @ ca.reshape(ca.jacobian(ca.vec(A), q) @ v, 3, 3)
            return ca.vertcat(W[2, 1], W[0, 2], W[1, 0])

        def forces(q_: ca.SX, v: ca.SX, _: ca.SX) -> ca.SX:
            rates = [spin(first.T @ R, v), spin(R.T @ last, v)]  # of the balls, in the axes of their children
            lost = truth["b"] * v[0] ** 2 / 2 + 1e-3 * sum(ca.dot(w, w) for w in rates) / 2
            return -ca.gradient(lost, v)

        motion = Motion(q, solids, (0, 0, -G), forces, holonomic=ball + R @ ca.DM([l, 0, 0]) - other)
        start = motion.closed([0.3, 0.6, 0.1, 0.2, 1.8], [3.0, 0, 0, 0, 0])
        points = {"m": middle + R @ ca.DM(side), "n": middle}
        return Reference(motion, *start, {"crank": q[0], "rocker": q[4], **marked(points)})

    def sensors(model: Model) -> list[Sensor]:
        coupler, hinges = model.bodies[1], (model.joints[0], model.joints[2])
        angles: list[Sensor] = [JointPosition(h, s) for h, s in zip(hinges, ("crank", "rocker"), strict=True)]
        return [*angles, *markers({"m": (coupler, side), "n": (coupler, (0, 0, 0))})]

    return Twin(truth, declared, sensors, reference)


# --- a disc that rolls ---


def rolling_disc() -> Twin:
    """On the floor, leaning over; three of its points are seen."""
    radius, mass = 0.3, 1.0
    truth = {"J_axial": 0.045, "J_across": 0.0225}
    points = {"c": (0, 0, 0), "m": (0.2, 0, 0), "k": (0, 0.2, 0)}

    def declared(p: Mapping[str, Any]) -> Model:
        disc = Body("disc", mass=mass, inertia=(p["J_across"], p["J_across"], p["J_axial"]), free=True)
        own = disc.frame()

        def arm(s: State) -> ca.SX:
            """From the centre to the lowest point, in the world."""
            n = s.axes(own)[:, 2]
            return radius * ca.vertcat(n[2] * n[0], n[2] * n[1], n[2] ** 2 - 1) / ca.sqrt(1 - n[2] ** 2)

        def slip(s: State) -> ca.SX:
            turning = s.axes(own) @ s.angular_velocity(disc)
            return (s.velocity(own) + ca.cross(turning, arm(s)))[:2]

        floor = Holonomic("floor", lambda s: s.position(own)[2] + arm(s)[2])
        return Model([disc], gravity=gravity(G), constraints=[floor, Nonholonomic("rolling", slip)])

    def reference() -> Reference:
        q = ca.SX.sym("q", 5)  # place on the floor, heading, lean, roll
        R = turned(2, q[2]) @ turned(0, q[3]) @ ca.DM([[1, 0, 0], [0, 0, -1], [0, 1, 0]]) @ turned(2, q[4])
        centre, n = ca.vertcat(q[0], q[1], radius * ca.cos(q[3])), R[:, 2]
        arm = radius * ca.vertcat(n[2] * n[0], n[2] * n[1], n[2] ** 2 - 1) / ca.sqrt(1 - n[2] ** 2)

        def rolling(q_: ca.SX, v: ca.SX) -> ca.SX:
            W = R.T @ ca.reshape(ca.jacobian(ca.vec(R), q) @ v, 3, 3)
            turning = R @ ca.vertcat(W[2, 1], W[0, 2], W[1, 0])
            return (ca.jacobian(centre, q) @ v + ca.cross(turning, arm))[:2]

        inertia = (truth["J_across"], truth["J_across"], truth["J_axial"])
        motion = Motion(q, [Solid(mass, inertia, centre, R)], (0, 0, -G), rolling=rolling)
        start = motion.closed([0, 0, 0.2, 0.3, 0], [0, 0, 0.8, 0.1, -6.0])
        return Reference(motion, *start, marked({name: centre + R @ ca.DM(at) for name, at in points.items()}))

    def sensors(model: Model) -> list[Sensor]:
        return markers({name: (model.bodies[0], at) for name, at in points.items()})

    return Twin(truth, declared, sensors, reference)


# --- a gear pair ---


def gear_pair() -> Twin:
    """A wheel out of balance drives another one three turns to two through many turns; both angles are seen."""
    ratio, offset, arm, mass = -1.5, 0.3, 0.05, 0.6
    truth = {"J": 0.002, "b": 0.003}

    def declared(p: Mapping[str, Any]) -> Model:
        one = Body("one", mass=mass, inertia=(1e-3, 0.002, 1e-3))
        two = Body("two", mass=0.4, inertia=(1e-3, p["J"], 1e-3))
        first = Hinge("first", GROUND.frame(**ACROSS), one.frame(at=(-arm, 0, 0), **ACROSS))
        second = Hinge("second", GROUND.frame(at=(0.2, 0, 0), **ACROSS), two.frame(**ACROSS), viscous=p["b"])
        mesh = Gear("mesh", first, second, ratio, offset)
        return Model([one, two], [first, second], gravity=gravity(G), constraints=[mesh])

    def reference() -> Reference:
        q = ca.SX.sym("q")
        solids = [
            Solid(mass, (1e-3, 0.002, 1e-3), arm * ca.vertcat(ca.cos(q), 0, -ca.sin(q)), turned(1, q)),
            Solid(0.4, (1e-3, truth["J"], 1e-3), ca.SX([0.2, 0, 0]), turned(1, ratio * q + offset)),
        ]
        motion = Motion(q, solids, (0, 0, -G), lambda q_, v, _: -truth["b"] * ratio**2 * v)
        return Reference(motion, [-1.4], [9.0], {"first": q, "second": ratio * q + offset})

    def sensors(model: Model) -> list[Sensor]:
        return [JointPosition(joint, joint.name) for joint in model.joints]

    return Twin(truth, declared, sensors, reference)


# --- a gimbal ---


def gimbal() -> Twin:
    """A housing on a cross with a rotor that spins; three angles are seen."""
    masses, drop = (0.8, 0.5), 0.06
    truth = {"I": 0.003, "J": 0.0012, "b": 0.002, "b_rotor": 2e-4}

    def declared(p: Mapping[str, Any]) -> Model:
        housing = Body("housing", mass=masses[0], inertia=(p["I"], 0.004, 0.002))
        rotor = Body("rotor", mass=masses[1], inertia=(7e-4, 7e-4, p["J"]))
        cross = Universal("cross", GROUND.frame(), housing.frame(at=(0, 0, drop)), viscous=p["b"])
        spindle = Hinge("spindle", housing.frame(**UP), rotor.frame(**UP), viscous=p["b_rotor"])
        return Model([housing, rotor], [cross, spindle], gravity=gravity(G))

    def reference() -> Reference:
        q = ca.SX.sym("q", 3)
        R = turned(0, q[0]) @ turned(1, q[1])
        place = R @ ca.DM([0, 0, -drop])
        solids = [
            Solid(masses[0], (truth["I"], 0.004, 0.002), place, R),
            Solid(masses[1], (7e-4, 7e-4, truth["J"]), place, R @ turned(2, q[2])),
        ]
        loss = ca.DM([truth["b"], truth["b"], truth["b_rotor"]])
        motion = Motion(q, solids, (0, 0, -G), lambda q_, v, _: -loss * v)
        return Reference(motion, [0.6, 0.3, 0.0], [0.0, 1.0, 40.0], {f"q{i}": q[i] for i in range(3)})

    def sensors(model: Model) -> list[Sensor]:
        cross, spindle = model.joints
        return [*(JointPosition(cross, f"q{i}", coordinate=i) for i in range(2)), JointPosition(spindle, "q2")]

    return Twin(truth, declared, sensors, reference)


# --- a double wishbone ---


def wishbone() -> Twin:
    """Two arms on axles along x, a knuckle between balls, a tie rod to the chassis, a spring at the lower arm."""
    lower, upper, base, pin, rack = 0.35, 0.25, 0.25, (0.08, 0.02, 0.05), (0.1, 0.05, 0.07)
    hub, masses = (0.0, 0.0, 0.12), (1.5, 1.0, 4.0)
    truth = {"I": 0.02, "k": 120.0, "b": 1.5}
    axle = {"x": (1, 0, 0), "y": (0, 1, 0)}

    def at(point: Sequence[float]) -> tuple[float, ...]:
        """A point of the knuckle, given from its lower ball, from its centre of mass."""
        return tuple(np.subtract(point, hub))

    height = 0.24  # between the balls of the knuckle

    def length() -> float:
        """Of the tie rod with the mechanism as it is drawn: both arms straight out, the knuckle upright."""
        return float(np.linalg.norm(np.add((0, lower, 0), pin) - np.array(rack)))

    def declared(p: Mapping[str, Any]) -> Model:
        low = Body("lower", mass=masses[0], inertia=(p["I"], 0.01, 0.02))
        high = Body("upper", mass=masses[1], inertia=(0.008, 0.004, 0.008))
        knuckle = Body("knuckle", mass=masses[2], inertia=(0.05, 0.06, 0.03))
        spring = {"stiffness": p["k"], "viscous": p["b"], "rest": 0.3}
        joints = [
            Hinge("lower axle", GROUND.frame(**axle), low.frame(at=(0, -lower / 2, 0), **axle), **spring),
            Spherical("lower ball", low.frame(at=(0, lower / 2, 0)), knuckle.frame(at=at((0, 0, 0)))),
            Hinge(
                "upper axle",
                GROUND.frame(at=(0, lower - upper, base), **axle),
                high.frame(at=(0, -upper / 2, 0), **axle),
            ),
            Spherical("upper ball", high.frame(at=(0, upper / 2, 0)), knuckle.frame(at=at((0, 0, height)))),
        ]
        rod = Distance("tie rod", GROUND.frame(at=rack), knuckle.frame(at=at(pin)), length())
        return Model([low, high, knuckle], joints, gravity=gravity(G), constraints=[rod])

    def reference() -> Reference:
        q = ca.SX.sym("q", 5)  # lower arm, knuckle's Euler angles, upper arm
        R_low, R, R_high = turned(0, q[0]), euler(q[1:4]), turned(0, q[4])
        ball = R_low @ ca.DM([0, lower, 0])
        root = ca.DM([0, lower - upper, base])
        solids = [
            Solid(masses[0], (truth["I"], 0.01, 0.02), ball / 2, R_low),
            Solid(masses[1], (0.008, 0.004, 0.008), root + R_high @ ca.DM([0, upper / 2, 0]), R_high),
            Solid(masses[2], (0.05, 0.06, 0.03), ball + R @ ca.DM(hub), R),
        ]
        rod = ball + R @ ca.DM(pin) - ca.DM(rack)
        rows = ca.vertcat(
            ball + R @ ca.DM([0, 0, height]) - root - R_high @ ca.DM([0, upper, 0]), ca.dot(rod, rod) - length() ** 2
        )

        def forces(q_: ca.SX, v: ca.SX, _: ca.SX) -> ca.SX:
            return ca.vertcat(-truth["k"] * (q[0] - 0.3) - truth["b"] * v[0], ca.SX(4, 1))

        motion = Motion(q, solids, (0, 0, -G), forces, holonomic=rows)
        start = motion.closed([-0.5, 0, 0, 0, -0.5], [0.0] * 5)
        centre = ball + R @ ca.DM(hub)
        points = {"w": centre + R @ ca.DM([0, 0.1, 0]), "x": centre + R @ ca.DM([0.1, 0, 0])}
        return Reference(motion, *start, {"low": q[0], **marked(points)})

    def sensors(model: Model) -> list[Sensor]:
        knuckle = model.bodies[2]
        seen = {"w": (knuckle, (0, 0.1, 0)), "x": (knuckle, (0.1, 0, 0))}
        return [JointPosition(model.joints[0], "low"), *markers(seen)]

    return Twin(truth, declared, sensors, reference)


TWINS: dict[str, Callable[[], Twin]] = {
    "slider-crank": slider_crank,
    "RSSR four-bar": rssr,
    "rolling disc": rolling_disc,
    "gear pair": gear_pair,
    "gimbal": gimbal,
    "double wishbone": wishbone,
}
