"""Loads on points of bodies that many mechanisms have: springs and dampers, forces and torques that are given, drag."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, get_args

import casadi as ca

from spookid.errors import ProblemError, collected, shown
from spookid.mechanics.body import Frame
from spookid.mechanics.coefficients import refuse_negative
from spookid.mechanics.moving import MovingFrame
from spookid.mechanics.point_loads import PointLoad
from spookid.parameter import symbolic

Axes = Literal["world", "frame"]
_ROUNDING = 1e-12
"""Lengths [m] and speeds [m/s] below which a direction is rounding."""


class SpringDamper(PointLoad):
    """A spring and a damper between the origins of two frames, at the distance l: they pull by k (l − l₀) + c dl/dt.

    Where the origins meet there is no direction to pull along, and no force.

    Args:
        a, b: frames of two bodies, or of a body and ``GROUND``.
        stiffness: k [N/m].
        rest: l₀ [m].
        damping: c [N s/m].

    Raises:
        ProblemError: for a negative fixed value.
    """

    def __init__(self, a: Frame, b: Frame, *, stiffness: Any = 0, rest: Any = 0, damping: Any = 0) -> None:
        self.frames = (a, b)
        self._stiffness, self._rest, self._damping = (
            _positive(value, name, self._what)
            for name, value in (("stiffness", stiffness), ("rest", rest), ("damping", damping))
        )

    def forces(self, at: Sequence[MovingFrame], inputs: ca.SX) -> Sequence[Any]:
        """Each end is pulled towards the other."""
        between, parting = at[1].origin - at[0].origin, at[1].velocity - at[0].velocity
        length = _size(between)
        along = between / length
        pull = self._stiffness * (length - self._rest) + self._damping * ca.dot(along, parting)
        return pull * along, -pull * along


class PointDrag(PointLoad):
    """Drag of a point through a medium at rest: −c v − d |v| v of the velocity v of a frame's origin.

    Args:
        frame: where it acts.
        linear: c [N s/m].
        quadratic: d [N s²/m²].

    Raises:
        ProblemError: for a negative fixed value.
    """

    def __init__(self, frame: Frame, *, linear: Any = 0, quadratic: Any = 0) -> None:
        self.frames = (frame,)
        self._linear = _positive(linear, "linear", self._what)
        self._quadratic = _positive(quadratic, "quadratic", self._what)

    def forces(self, at: Sequence[MovingFrame], inputs: ca.SX) -> Sequence[Any]:
        """Against the velocity."""
        v = at[0].velocity
        return [-(self._linear + self._quadratic * _size(v)) * v]


class _Given(PointLoad):
    """A vector that is constant or follows signals, at a frame."""

    def __init__(
        self, frame: Frame, vector: Any = (1, 1, 1), *, signals: str | Sequence[str] = (), axes: Axes = "world"
    ) -> None:
        self.frames = (frame,)
        self.signals = (signals,) if isinstance(signals, str) else collected(signals, str, f"{self._what}: signals")
        self._vector = symbolic(vector, f"{self._what}: vector", (3,))
        if len(self.signals) not in (0, 1, 3):
            raise ProblemError(
                f"{self._what} has {len(self.signals)} signals; give one for the whole vector or one for each axis"
            )
        if axes not in get_args(Axes):
            raise ProblemError(f"{self._what}: axes is {shown(axes)}; choose 'world' or 'frame'")
        self._turns = axes == "frame"

    def _given(self, at: MovingFrame, inputs: ca.SX) -> ca.SX:
        """In the axes of the world, (3,)."""
        vector = self._vector * inputs if self.signals else self._vector
        return at.axes @ vector if self._turns else vector


class PointForce(_Given):
    """A force at the origin of a frame: a constant vector, the vector times a signal, or a signal for each axis::

        PointForce(craft.frame(at=(0, 0.1, 0)), (F, 0, 0), signals="u", axes="frame")       # a thruster
        PointForce(tool.frame(), signals=("fx", "fy", "fz"))                                # measured in the world

    Args:
        frame: where it acts.
        vector: constant [N], or what the signals are multiplied by, axis by axis [N per unit].
        signals: of inputs in the recordings: one name, or three.
        axes: of the vector: those of the world, or of the frame.

    Raises:
        ProblemError: for another number of signals, or other axes.
    """

    def forces(self, at: Sequence[MovingFrame], inputs: ca.SX) -> Sequence[Any]:
        """The vector."""
        return [self._given(at[0], inputs)]


class PointTorque(_Given):
    """A torque on the body of a frame [N m]; arguments as of ``PointForce``."""

    def torques(self, at: Sequence[MovingFrame], inputs: ca.SX) -> Sequence[Any]:
        """The vector."""
        return [self._given(at[0], inputs)]


class Propeller(PointLoad):
    """A propeller that blows along the x axis of a frame: thrust k u, and a moment −c k u about that axis.

    ::

        Propeller(craft.frame(at=(0.2, 0, 0), x=(0, 0, 1)), "u_1", thrust=k, moment=c)
        Propeller(craft.frame(at=(0, 0.2, 0), x=(0, 0, 1)), "u_2", thrust=k, moment=-c)   # it turns the other way

    Args:
        frame: at its hub.
        signal: name of the input u in the recordings, which the thrust is proportional to, such as a command or the
            square of its speed.
        thrust: k [N per unit].
        moment: c [m], moment over thrust: positive of a propeller that turns about the axis by the right hand, which
            the air holds back; negative of one that turns the other way.
    """

    def __init__(self, frame: Frame, signal: str, *, thrust: Any = 1, moment: Any = 0) -> None:
        self.frames = (frame,)
        self.signals = collected([signal], str, f"{self._what}: signal")
        self._thrust = symbolic(thrust, f"{self._what}: thrust")
        self._moment = symbolic(moment, f"{self._what}: moment")

    def forces(self, at: Sequence[MovingFrame], inputs: ca.SX) -> Sequence[Any]:
        """Along the axis."""
        return [self._thrust * inputs[0] * at[0].x]

    def torques(self, at: Sequence[MovingFrame], inputs: ca.SX) -> Sequence[Any]:
        """About the axis."""
        return [-self._moment * self._thrust * inputs[0] * at[0].x]


def _positive(value: Any, name: str, what: str) -> ca.SX:
    found = symbolic(value, f"{what}: {name}")
    refuse_negative(found, name, what)
    return found


def _size(vector: ca.SX) -> ca.SX:
    """|x|, with a slope where it is zero."""
    return ca.sqrt(ca.sumsqr(vector) + _ROUNDING**2)
