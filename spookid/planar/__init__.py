"""Mechanisms of the plane in natural coordinates. ::

from spookid import planar

A, D = planar.Ground("A", (0, 0)), planar.Ground("D", (4, 0))
P, R = planar.Point("P", (1, 0)), planar.Point("R", (1, 2))
bars = [planar.Link("crank", A, P, 1), planar.Link("coupler", P, R, 2), planar.Link("rocker", D, R, 4)]
fourbar = planar.Mechanism(bars, gravity=9.8)
"""

from spookid.planar.mechanism import Mechanism
from spookid.planar.parts import (
    AbsoluteAngle,
    ConstantDistance,
    FixedSlider,
    MovingSlider,
    PinFriction,
    PlanarConstraint,
    PlanarLoad,
    RelativeAngle,
    Spring,
    Torque,
)
from spookid.planar.points import Ground, Link, Placement, Point

__all__ = [
    "AbsoluteAngle",
    "ConstantDistance",
    "FixedSlider",
    "Ground",
    "Link",
    "Mechanism",
    "MovingSlider",
    "PinFriction",
    "Placement",
    "PlanarConstraint",
    "PlanarLoad",
    "Point",
    "RelativeAngle",
    "Spring",
    "Torque",
]
