"""Loads on points of bodies, for mechanisms with springs, dampers or thrusters that stand at no joint."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from typing import Any, Literal, Self

import casadi as ca
import numpy as np

from spookid.argument_checks import Checked
from spookid.errors import ProblemError, collected, declared_at, evaluating
from spookid.kernels.precision import ROUNDING
from spookid.mechanics.body import GROUND, Body, Frame
from spookid.mechanics.coefficients import not_negative
from spookid.mechanics.moving import MovingFrame, anywhere
from spookid.parameter import symbolic


class PointLoad(metaclass=Checked):
    """Base class of forces and torques that act at frames of bodies, in world axes. A spring:

    >>> class Spring(PointLoad):
    ...     def __init__(self, a, b, stiffness):
    ...         self.frames, self.stiffness = (a, b), stiffness
    ...
    ...     def forces(self, at, inputs):
    ...         pull = self.stiffness * (at[1].origin - at[0].origin)
    ...         return pull, -pull
    >>> spring = Spring(GROUND.frame(), rod.frame(at=(0.1, 0, 0)), 20.0)
    >>> sprung = Model([rod], [hinge], loads=[spring], gravity=gravity(9.81))

    A subclass sets ``frames`` and defines ``forces``, ``torques`` or both, with any Parameters. Of each frame it gets
    ``origin``, ``axes`` and ``velocity`` in the world, and ``omega`` in the axes of its body.
    """

    frames: Sequence[Frame]
    """Frames at which it acts; on a frame of ``GROUND`` it has no effect."""
    signals: Sequence[str] = ()
    """Names of input signals in the recordings, which the methods receive."""
    place: str
    """``file.py:line`` of its declaration."""

    def __new__(cls, *_: Any, **__: Any) -> Self:
        made = super().__new__(cls)
        object.__setattr__(made, "place", declared_at())
        return made

    @property
    def title(self) -> str:
        """Description, shown in tables."""
        return type(self).__name__

    def forces(self, at: Sequence[MovingFrame], inputs: ca.SX) -> Sequence[Any]:
        """Forces at the origins of the frames, (3,) each [N].

        Args:
            at: the frames in the world, in the order of ``frames``.
            inputs: as many as ``signals``.
        """
        return [ca.SX(3, 1) for _ in at]

    def torques(self, at: Sequence[MovingFrame], inputs: ca.SX) -> Sequence[Any]:
        """Torques on the bodies of the frames, (3,) each [N m]; arguments as for ``forces``."""
        return [ca.SX(3, 1) for _ in at]

    def wrenches(self, at: Sequence[MovingFrame], inputs: ca.SX) -> list[tuple[ca.SX, ca.SX]]:
        """Force and torque of the load at each frame.

        Raises:
            ProblemError: if they cannot be evaluated, or are of other numbers or shapes.
        """
        return list(zip(*(self._evaluated(name, at, inputs) for name in ("forces", "torques")), strict=True))

    def _evaluated(self, name: str, at: Sequence[MovingFrame], inputs: ca.SX) -> list[ca.SX]:
        what = f"{self._what}: {name}"
        with evaluating(what):
            found = list(getattr(self, name)(at, inputs))
        if len(found) != len(at):
            raise ProblemError(f"{what} gives {len(found)} vectors for {len(at)} frames; give one for each frame")
        return [symbolic(vector, what, (3,)) for vector in found]

    @property
    def _what(self) -> str:
        return f"{self.place}: {self.title}"

    def check(self, bodies: Iterable[Body]) -> None:
        """Raise ProblemError if the load's frames are not on the model's bodies, or its forces have another shape."""
        frames = collected(getattr(self, "frames", None), Frame, f"{self._what}: frames")
        known = {id(body) for body in (*bodies, GROUND)}
        for frame in frames:
            if id(frame.body) not in known:
                raise ProblemError(
                    f"{self._what} acts on Body {frame.body.name!r}, which is not in the bodies; add it to the model"
                )
        if all(frame.body is GROUND for frame in frames):
            raise ProblemError(f"{self._what} acts on no body that moves; give it a frame of one")
        collected(self.signals, str, f"{self._what}: signals")
        self.expressions()

    def expressions(self) -> list[ca.SX]:
        """All expressions that may contain a Parameter, including those of the load's frames."""
        at = [anywhere(frame, i) for i, frame in enumerate(self.frames)]
        inputs = ca.SX(ca.DM(np.linspace(0.4, 0.6, len(self.signals))))
        of_frames = [part for frame in self.frames for part in frame.expressions()]
        return of_frames + [part for wrench in self.wrenches(at, inputs) for part in wrench]

    def on(self, frames: Iterable[Frame]) -> PointLoad:
        """Copy of the load that acts on other frames."""
        other = copy(self)
        object.__setattr__(other, "frames", tuple(frames))
        object.__setattr__(other, "place", self.place)
        return other


Axes = Literal["world", "frame"]


class SpringDamper(PointLoad):
    """Spring and damper between the origins of two frames at distance l, with tension k (l − l₀) + c dl/dt.

    If the origins coincide, the force is zero.

    >>> strut = SpringDamper(GROUND.frame(at=(0, 0, 1)), arm.frame(), stiffness=200, rest=0.5, damping=3)

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
        self._stiffness = not_negative(stiffness, "stiffness", self._what)
        self._rest, self._damping = not_negative(rest, "rest", self._what), not_negative(damping, "damping", self._what)

    def forces(self, at: Sequence[MovingFrame], inputs: ca.SX) -> Sequence[Any]:
        between, parting = at[1].origin - at[0].origin, at[1].velocity - at[0].velocity
        length = size(between)
        along = between / length
        pull = self._stiffness * (length - self._rest) + self._damping * ca.dot(along, parting)
        return pull * along, -pull * along


class PointDrag(PointLoad):
    """Drag force −c v − d |v| v on a point with velocity v in a medium at rest.

    >>> flown = Model([rod], [hinge], loads=[PointDrag(rod.frame(), quadratic=0.01)], gravity=gravity(9.81))

    Args:
        frame: frame at whose origin it acts.
        linear: c [N s/m].
        quadratic: d [N s²/m²].

    Raises:
        ProblemError: for a negative fixed value.
    """

    def __init__(self, frame: Frame, *, linear: Any = 0, quadratic: Any = 0) -> None:
        self.frames = (frame,)
        self._linear = not_negative(linear, "linear", self._what)
        self._quadratic = not_negative(quadratic, "quadratic", self._what)

    def forces(self, at: Sequence[MovingFrame], inputs: ca.SX) -> Sequence[Any]:
        v = at[0].velocity
        return [-(self._linear + self._quadratic * size(v)) * v]


class _Given(PointLoad):
    """A vector that is constant or follows signals, at a frame."""

    def __init__(
        self, frame: Frame, vector: Any = (1, 1, 1), *, signals: str | Sequence[str] = (), axes: Axes = "world"
    ) -> None:
        self.frames = (frame,)
        self.signals = (signals,) if isinstance(signals, str) else collected(signals, str, f"{self._what}: signals")
        self._vector = symbolic(vector, f"{self._what}: vector", (3,))
        if len(self.signals) not in (0, 1, 3):
            raise ProblemError(f"{self._what} has {len(self.signals)} signals; give one for all axes, or one each")
        self._turns = axes == "frame"

    def _given(self, at: MovingFrame, inputs: ca.SX) -> ca.SX:
        """In the axes of the world, (3,)."""
        vector = self._vector * inputs if self.signals else self._vector
        return at.axes @ vector if self._turns else vector


class PointForce(_Given):
    """Force at the origin of a frame: a constant vector, a vector times a signal, or a signal for each axis:

    >>> force = PointForce(arm.frame(at=(0, 0.1, 0)), (5.0, 0, 0), signals="u", axes="frame")  # a thruster
    >>> force = PointForce(rod.frame(), signals=("fx", "fy", "fz"))  # measured in the world

    Args:
        frame: frame at whose origin it acts.
        vector: constant force [N], or factors of the signals, axis by axis [N per unit].
        signals: one name or three names of inputs in the recordings.
        axes: axes of the vector: those of the world, or of the frame.

    Raises:
        ProblemError: for another number of signals, or other axes.
    """

    def forces(self, at: Sequence[MovingFrame], inputs: ca.SX) -> Sequence[Any]:
        return [self._given(at[0], inputs)]


class PointTorque(_Given):
    """Torque on the body of a frame [N m]; arguments as for ``PointForce``.

    >>> wheel = PointTorque(arm.frame(), (0, 0, 0.2), signals="u", axes="frame")
    """

    def torques(self, at: Sequence[MovingFrame], inputs: ca.SX) -> Sequence[Any]:
        return [self._given(at[0], inputs)]


class Propeller(PointLoad):
    """Propeller with thrust k u along the x axis of a frame, and moment −c k u about this axis.

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
        return [self._thrust * inputs[0] * at[0].x]

    def torques(self, at: Sequence[MovingFrame], inputs: ca.SX) -> Sequence[Any]:
        return [-self._moment * self._thrust * inputs[0] * at[0].x]


def size(vector: ca.SX) -> ca.SX:
    """Norm |x|, differentiable at zero."""
    return ca.sqrt(ca.sumsqr(vector) + ROUNDING**2)
