"""Gravity, and how a mechanism stands in it."""

from __future__ import annotations

from typing import Any

import casadi as ca

from spookid.errors import declared_at
from spookid.mechanics import rotations
from spookid.parameter import symbolic


def gravity(g: Any) -> ca.SX:
    """Acceleration of gravity (0, 0, −g), (3,) [m/s²]."""
    return ca.vertcat(0, 0, -symbolic(g, f"{declared_at()}: gravity"))


def tilted_gravity(g: Any, a: Any, b: Any) -> ca.SX:
    """(0, 0, −g) rotated by exp((a, b, 0)), to first order (−b g, a g, −g); a, b [rad], result (3,) [m/s²]."""
    place = declared_at()
    tilt = ca.vertcat(symbolic(a, f"{place}: tilt"), symbolic(b, f"{place}: tilt"), 0)
    return rotations.matrix(rotations.exponential(tilt)) @ gravity(g)
