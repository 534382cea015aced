"""Energies and powers of a mechanism, in joint coordinates and in those of bodies."""

from __future__ import annotations

from collections.abc import Mapping

import casadi as ca

from spookid.mechanics.coefficients import acts
from spookid.mechanics.friction_loads import smooth_sign
from spookid.mechanics.joints import Joint
from spookid.mechanics.model import Model


def along(joint: Joint, position: ca.SX, rate: ca.SX, inputs: Mapping[str, ca.SX], width: ca.SX) -> ca.SX:
    """What acts along the coordinates of a joint but for motors, (n,) [N m or N]: loads, and dry friction of constant
    bound, smooth over a width of the rate."""
    bound = joint.bound(position, rate)
    lean = 0 if bound.constant_lean is None else bound.constant_lean
    return joint.effort(position, rate, inputs, width) - smooth_sign(rate, width) * bound.constant - lean


def energy(model: Model, q: ca.SX, v: ca.SX, rates: ca.SX) -> ca.SX:
    """Kinetic energy, and that of gravity [J]; as ``kinetic_energy``, with poses q of all bodies."""
    total = kinetic_energy(model, v, rates)
    for i, body in enumerate(model.bodies):
        total -= body.mass * ca.dot(model.gravity, q[7 * i : 7 * i + 3])
    return total


def kinetic_energy(model: Model, v: ca.SX, rates: ca.SX) -> ca.SX:
    """Of bodies and rotors [J].

    Args:
        v: velocities of all bodies.
        rates: of all joints, (n_s,).
    """
    total = ca.dot(v, model.inertia() @ v) / 2
    for joint in (joint for joint in model.joints if acts(joint.armature)):
        total += joint.armature * ca.sumsqr(rates[model.freedoms_of(joint), 0]) / 2
    for motor in model.motors:
        total += motor.inertia * rates[model.freedoms_of(motor.joint).start + motor.coordinate] ** 2 / 2
    return total


def is_load_dependent(joint: Joint) -> bool:
    """True if dry friction hangs on the forces in the joint."""
    middle = ca.SX([0.5] * len(joint.coordinates))
    return not joint.bound(middle, middle).load.is_zero()
