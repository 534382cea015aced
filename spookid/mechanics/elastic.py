"""Elastic gears: a motor with a coordinate of its own behind a joint, and a spring and a damper between both."""

from __future__ import annotations

from copy import copy
from typing import Any

import casadi as ca

from spookid.errors import ProblemError, declared_at
from spookid.mechanics.body import GROUND, Body
from spookid.mechanics.coefficients import Coordinate, load_coefficient, not_negative
from spookid.mechanics.hidden import Hidden, Wheel
from spookid.mechanics.joints import Hinge, Joint
from spookid.mechanics.loads import Load
from spookid.parameter import Placeholder
from spookid.records import dataclass


@dataclass(frozen=True, eq=False, repr=False)
class Drum(Wheel):
    """Wheel whose turns are lengths, as of what moves along."""

    coordinates = (Coordinate("position", "m"),)


class Elastic(Load):
    """Elastic gear of a joint with one coordinate q: its motor turns by θ and drives it by k (θ − q) + d (θ̇ − q̇).

    ``joint.motor`` is the joint of the motor, named "elbow motor" of a joint "elbow", which the model adds. Motor,
    encoder and friction before the gear are declared there, as felt behind it. The spin of the rotor has no gyroscopic
    effect on the bodies (Spong, 1987). Take a step below a quarter of the period of the motor on its spring.

    >>> gear = Elastic(stiffness=200, damping=0.1, motor_inertia=0.01, viscous=0.05)
    >>> elbow = Hinge("elbow", GROUND.frame(), arm.frame(), elastic=gear)
    >>> model = Model([arm], [elbow], [Motor(elbow.motor, "torque")], gravity=gravity(9.81))
    >>> sensors = [HingeAngle(elbow.motor, "theta"), HingeAngle(elbow, "q")]  # before and behind the gear

    Args:
        stiffness: k [N m/rad or N/m].
        damping: d [N m s/rad or N s/m].
        motor_inertia: inertia along θ; n² times that of the rotor with a gear of ratio n [kg m² or kg].
        arguments: of the motor's joint, see ``Joint``: ``viscous``, ``coulomb``, ``disturbance`` and others.

    Raises:
        ProblemError: for a negative fixed value, or a joint that has not one coordinate.
    """

    hidden: Hidden | None = None
    """The joint of the motor, of a gear that a joint has."""
    _coordinate: Coordinate
    _theta: Placeholder
    _speed: Placeholder

    def __init__(self, stiffness: Any, damping: Any = 0, *, motor_inertia: Any, **arguments: Any) -> None:
        self.place = declared_at()
        what = f"{self.place}: Elastic"
        given = {"stiffness": stiffness, "damping": damping}
        self.reported = {
            name: load_coefficient(value, f"{what}: {name}", sided=False, varying=False)
            for name, value in given.items()
        }
        self._inertia, self._arguments = not_negative(motor_inertia, "motor_inertia", what), arguments

    def on(self, joint: Joint) -> Elastic:
        """The gear of a joint, with its motor."""
        name = f"{joint.name} motor"
        if self.hidden is not None and self.hidden.name == name:
            return self
        if len(joint.coordinates) != 1:
            what = f"{self.place}: Elastic of {joint.kind} {joint.name!r}"
            raise ProblemError(f"{what}, which has {len(joint.coordinates)} coordinates; give it to a joint of one")
        made = copy(self)
        made._coordinate = joint.coordinates[0]
        body = Body(name, mass=1, inertia=(self._inertia,) * 3)
        q, s, made._theta, made._speed = (Placeholder(f"{name} {of}") for of in ("q", "rate of q", "θ", "rate of θ"))
        kind = Drum if made._coordinate.unit == "m" else Hinge if made._coordinate.turns_over else Wheel
        own = {**self._arguments, "loads": [_Reaction(made, q, s), *self._arguments.get("loads", ())]}
        motor = kind(name, GROUND.frame(), body.frame(), **own)
        sides = (q, joint, False), (s, joint, True), (made._theta, motor, False), (made._speed, motor, True)
        made.hidden = Hidden(motor, [(symbol, side, 0, of_rate) for symbol, side, of_rate in sides])
        return made

    def check(self, coordinates: int, what: str) -> None:
        if self.hidden is None:
            raise ProblemError(f"{what}: an Elastic is among its loads; give it as elastic=")
        super().check(coordinates, what)

    def effort(self, position: ca.SX, rate: ca.SX, inputs: ca.SX) -> ca.SX:
        return self._passed(self._theta - position, self._speed - rate)

    def _passed(self, twist: ca.SX, speed: ca.SX) -> ca.SX:
        stiffness, damping = (one.at(twist)[0] for one in self.reported.values())
        return stiffness * self._coordinate.in_range(twist) + damping * speed


class _Reaction(Load):
    """Effort of an elastic gear on its motor."""

    def __init__(self, gear: Elastic, q: ca.SX, s: ca.SX) -> None:
        self._gear, self._q, self._s = gear, q, s

    def effort(self, position: ca.SX, rate: ca.SX, inputs: ca.SX) -> ca.SX:
        return -self._gear._passed(position - self._q, rate - self._s)
