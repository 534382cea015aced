"""Sensors: what a measured signal says about the state."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from numbers import Real
from typing import Literal, Protocol, runtime_checkable

import casadi as ca

from spookid.errors import ProblemError, declared_at, shown
from spookid.mechanics import rotations
from spookid.mechanics.body import Body, Frame
from spookid.mechanics.joints import Hinge
from spookid.mechanics.model import Model


@dataclass(frozen=True, eq=False)
class State:
    """One state of a mechanism in symbols, for ``Observation``."""

    model: Model
    q: ca.SX
    """Poses (r, e) of all bodies, (7 n_b,)."""
    v: ca.SX
    """Velocities (ṙ in the world, ω in the body) of all bodies, (6 n_b,)."""

    def angle(self, hinge: Hinge) -> ca.SX:
        """Angle of a hinge in (−π, π] [rad]."""
        return self.model.hinge(hinge, self.q, self.v).angle

    def rate(self, hinge: Hinge) -> ca.SX:
        """Slip rate of a hinge [rad/s]."""
        return self.model.hinge(hinge, self.q, self.v).slip

    def position(self, frame: Frame) -> ca.SX:
        """Origin of a frame in the world, (3,) [m]."""
        return self.model.moving(frame, self.q, self.v).origin

    def axes(self, frame: Frame) -> ca.SX:
        """Axes of a frame in the world, columns of (3, 3)."""
        return self.model.moving(frame, self.q, self.v).axes

    def velocity(self, frame: Frame) -> ca.SX:
        """Velocity of a frame's origin in the world, (3,) [m/s]."""
        moving = self.model.moving(frame, self.q, self.v)
        if frame.body not in self.model.bodies:
            return ca.SX(3, 1)
        i = self.model.bodies.index(frame.body)
        rotation = rotations.matrix(self.q[7 * i + 3 : 7 * i + 7])
        return self.v[6 * i : 6 * i + 3] + rotation @ ca.cross(moving.omega, frame.at)

    def angular_velocity(self, body: Body) -> ca.SX:
        """ω of a body in its own frame, (3,) [rad/s]."""
        i = self.model.bodies.index(body)
        return self.v[6 * i + 3 : 6 * i + 6]


@runtime_checkable
class Sensor(Protocol):
    """What every observation has."""

    @property
    def signal(self) -> str:
        """Name of the measured signal in the recordings."""

    @property
    def sigma(self) -> float | None:
        """Standard deviation of its noise, in the signal's unit; None: it is estimated, or 1 with a given weight."""

    @property
    def unit(self) -> str:
        """The signal's unit."""

    @property
    def place(self) -> str:
        """``file.py:line`` of its declaration."""

    @property
    def title(self) -> str:
        """What it measures, for people."""

    @property
    def period(self) -> float | None:
        """Period of the signal, None if it has none."""

    @property
    def is_free_form(self) -> bool:
        """True if it may hold Parameters of its own."""

    def check(self, model: Model) -> None:
        """Raise ProblemError if it does not fit the model."""

    def predicted(self, state: State) -> ca.SX:
        """What it would show, a scalar."""


@dataclass(frozen=True, eq=False)
class HingeAngle:
    """The angle of a hinge [rad], measured by an encoder; wrapped or multi-turn, residuals are modulo 2π.

    Raises:
        ProblemError: if ``hinge`` is no hinge or ``sigma`` is not positive.
    """

    hinge: Hinge
    signal: str
    """Name of the measured signal in the recordings."""
    sigma: float | None = None
    """Standard deviation of its noise [rad]; None: it is estimated, or 1 with a given state weight."""
    place: str = field(default_factory=declared_at, repr=False)

    period = 2 * math.pi
    """The signal's period [rad]."""
    unit = "rad"
    is_free_form = False

    @property
    def title(self) -> str:
        """What it measures."""
        return f"angle of {self.hinge.name}"

    def __post_init__(self) -> None:
        if not isinstance(self.hinge, Hinge):
            raise ProblemError(f"{self.place}: HingeAngle observes {shown(self.hinge)}, which is no Hinge")
        _check_sigma(self)

    def check(self, model: Model) -> None:
        """Raise ProblemError if the hinge is not in the model."""
        if self.hinge not in model.joints:
            raise ProblemError(f"{self.place}: HingeAngle observes {self.hinge.name!r}, which is not in the model")

    def predicted(self, state: State) -> ca.SX:
        """The angle in (−π, π]."""
        return state.angle(self.hinge)


@dataclass(frozen=True, eq=False)
class PointPosition:
    """One coordinate of a point of a body in the world [m], as a marker or a camera gives it.

    Raises:
        ProblemError: if ``point`` is no frame, ``axis`` none of x, y, z, or ``sigma`` not positive.
    """

    point: Frame
    """A frame whose origin is the point, ``body.frame(at=...)``."""
    axis: Literal["x", "y", "z"]
    """Coordinate in the world."""
    signal: str
    """Name of the measured signal in the recordings."""
    sigma: float | None = None
    """Standard deviation of its noise [m]; None: it is estimated, or 1 with a given state weight."""
    place: str = field(default_factory=declared_at, repr=False)

    period = None
    """It has none."""
    unit = "m"
    is_free_form = True  # its frame may be on no joint

    @property
    def title(self) -> str:
        """What it measures."""
        return f"{self.axis} of a point of {self.point.body.name}"

    def __post_init__(self) -> None:
        if not isinstance(self.point, Frame):
            raise ProblemError(f"{self.place}: PointPosition observes {shown(self.point)}, which is no frame")
        if self.axis not in ("x", "y", "z"):
            raise ProblemError(f"{self.place}: PointPosition has axis {self.axis!r}; choose 'x', 'y' or 'z'")
        _check_sigma(self)

    def check(self, model: Model) -> None:
        """Raise ProblemError if the body is not in the model."""
        if self.point.body not in model.bodies:
            raise ProblemError(f"{self.place}: PointPosition observes a point of a body that is not in the model")

    def predicted(self, state: State) -> ca.SX:
        """The coordinate."""
        return state.position(self.point)["xyz".index(self.axis)]


@dataclass(frozen=True, eq=False)
class Observation:
    """Any scalar expression of the state, of Parameters too: ``Observation(lambda s: s.position(tip)[2] - z_0, "z")``.

    Raises:
        ProblemError: if ``expression`` cannot be called or ``sigma`` is not positive.
    """

    expression: Callable[[State], ca.SX]
    """Of a ``State`` with ``angle``, ``rate``, ``position``, ``velocity``, ``axes`` and ``angular_velocity``."""
    signal: str
    """Name of the measured signal in the recordings."""
    sigma: float | None = None
    """Standard deviation of its noise, in the signal's unit; None: it is estimated, or 1 with a given state weight."""
    period: float | None = None
    """The signal's period, for angles 2π; residuals are taken the short way round."""
    unit: str = ""
    """The signal's unit, for people."""
    place: str = field(default_factory=declared_at, repr=False)

    is_free_form = True
    title = "an expression of the state"

    def __post_init__(self) -> None:
        if not callable(self.expression):
            raise ProblemError(f"{self.place}: Observation of {self.signal!r} needs a function of the state")
        _check_sigma(self)

    def check(self, model: Model) -> None:
        """Raise ProblemError if the expression is no scalar."""
        shape = self.predicted(symbolic_state(model)).shape
        if shape != (1, 1):
            raise ProblemError(f"{self.place}: Observation of {self.signal!r} gives shape {shape}; it must be a scalar")

    def predicted(self, state: State) -> ca.SX:
        """The expression's value."""
        return ca.SX(self.expression(state))


def _check_sigma(sensor: Sensor) -> None:
    if sensor.sigma is None:
        return
    if not (isinstance(sensor.sigma, Real) and math.isfinite(sensor.sigma) and sensor.sigma > 0):
        kind = type(sensor).__name__
        raise ProblemError(
            f"{sensor.place}: {kind} of {sensor.signal!r} has sigma {sensor.sigma!r}; it must be positive, or None to "
            "estimate it"
        )


def symbolic_state(model: Model) -> State:
    """A state of fresh symbols."""
    return State(model, ca.SX.sym("q", model.configuration.ambient), ca.SX.sym("v", model.configuration.tangent))


def error(sensor: Sensor, state: State, measured: ca.SX) -> ca.SX:
    """Predicted less measured, the short way round for periodic signals."""
    difference = sensor.predicted(state) - measured
    if sensor.period is None:
        return difference
    turn = 2 * math.pi / sensor.period
    return ca.atan2(ca.sin(turn * difference), ca.cos(turn * difference)) / turn


def sees_velocities(sensor: Sensor, model: Model) -> bool:
    """True if what it shows depends on velocities."""
    state = symbolic_state(model)
    return int(ca.jacobian(sensor.predicted(state), state.v).nnz()) > 0
