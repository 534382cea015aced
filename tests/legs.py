"""A leg with three four-bar linkages in series, each driven by a motor on the link above the joint it moves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from mechanisms import Array

from spookid import GROUND, Body, ContinuousFriction, Hinge, HingeAngle, Model, Motor, Problem, Recording, gravity

ACROSS: dict[str, Any] = {"x": (0, 1, 0), "y": (1, 0, 0)}
"""Axle along y; angle 0 where the x axes of both bodies agree."""
JOINTS = ("hip", "knee", "ankle")
CRANK = 0.05
"""Of every motor [m]."""
HORNS = ((-0.06, 0.01), (-0.045, -0.02), (-0.055, 0.0))
"""(x, z) of the rod's end on the moved link, from its joint: with cranks of another length, no gear is constant [m]."""
MOTORS = ((-0.02, 0.12), (-0.015, 0.30), (-0.01, 0.26))
"""(x, z) of the motor's axle on the link above, from the joint that it moves [m]."""
LENGTHS, MASSES = (0.35, 0.33, 0.08), (2.5, 1.2, 0.5)
"""Of thigh, shank and foot, which hang straight down at angles of zero [m, kg]."""
TRUTH = {
    f"{name}_{joint}": value
    for joint, values in zip(JOINTS, ((2e-3, 0.05, 0.4), (1.5e-3, 0.03, 0.25), (8e-4, 0.02, 0.12)), strict=True)
    for name, value in zip(("J", "b", "c"), values, strict=True)
}
"""Rotor as felt at the crank [kg m²], damping [N m s] and Coulomb friction [N m] there."""


def leg(values: Mapping[str, Any]) -> Model:
    """In the x-z plane, the hip on the ground; friction and rotors are the motors'."""
    bodies: list[Body] = []
    joints: list[Hinge] = []
    closing: list[Hinge] = []
    motors: list[Motor] = []
    above, hang = GROUND, 0.0
    for name, horn, at, length, mass in zip(JOINTS, HORNS, MOTORS, LENGTHS, MASSES, strict=True):
        own = mass * length**2 / 12
        link = Body(name + "_link", mass=mass, inertia=(own, own, own / 10))
        crank = Body(name + "_crank", mass=0.1, inertia=(1e-5, 2e-5, 2e-5))
        pin = (horn[0] - at[0], horn[1] - at[1])  # from the motor's axle, with the joint at zero
        reach = float(np.hypot(pin[0] + CRANK, pin[1]))
        rod = Body(name + "_rod", mass=0.08, inertia=(1e-5, 0.08 * reach**2 / 12, 0.08 * reach**2 / 12))
        top, half = length / 2, reach / 2
        joint = Hinge(name, above.frame(at=(0, 0, hang), **ACROSS), link.frame(at=(0, 0, top), **ACROSS))
        friction = ContinuousFriction(viscous=values[f"b_{name}"], coulomb=values[f"c_{name}"], coulomb_velocity=0.05)
        axle = above.frame(at=(at[0], 0, hang + at[1]), **ACROSS)
        drive = Hinge(name + "_motor", axle, crank.frame(**ACROSS), loads=[friction], armature=values[f"J_{name}"])
        upper = Hinge(name + "_upper", crank.frame(at=(-CRANK, 0, 0), **ACROSS), rod.frame(at=(-half, 0, 0), **ACROSS))
        foot = link.frame(at=(horn[0], 0, top + horn[1]), **ACROSS)
        lower = Hinge(name + "_lower", rod.frame(at=(half, 0, 0), **ACROSS), foot)
        bodies += [link, crank, rod]
        joints += [joint, drive, upper]
        closing.append(lower)
        motors.append(Motor(drive, f"tau_{name}"))
        above, hang = link, -top
    return Model(bodies, [*joints, *closing], motors, gravity=gravity(9.81))


def sensors(model: Model) -> list[HingeAngle]:
    """Encoders at the joints and at the motors."""
    return [HingeAngle(j, j.name) for j in model.joints if j.name.removesuffix("_motor") in JOINTS]


def recording(problem: Problem, truth: Mapping[str, float], seconds: float, noise: float, seed: int = 0) -> Recording:
    """A swing by sines of torque, seen with noise [rad]."""
    t = np.arange(round(seconds / problem.step) + 1) * problem.step
    waves: dict[str, Array] = {}
    for i, (name, size) in enumerate(zip(JOINTS, (6.0, 2.5, 0.8), strict=True)):
        waves[f"tau_{name}"] = size * (np.sin((4 + 1.3 * i) * t + i) + 0.5 * np.sin((9 + 2.1 * i) * t + 2 * i))
    made = problem.simulate(truth, t[-1], {name: 0.0 for name in JOINTS}, inputs=Recording(t, waves), substeps=1)
    rng = np.random.default_rng(seed)
    return made.with_signals(
        **{o.signal: made.signals[o.signal] + noise * rng.normal(size=len(t)) for o in sensors(problem.model)}
    )
