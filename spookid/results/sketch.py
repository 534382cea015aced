"""A mechanism as words and numbers: what a result folder keeps of the model, so that it can be shown without it."""

from __future__ import annotations

from spookid.mechanics.robot_file import RobotFile
from spookid.records import dataclass

Vector = tuple[float, float, float]


@dataclass(frozen=True)
class Quantity:
    """A coefficient of a body, a joint or a motor."""

    name: str
    formula: str
    """Its expression of parameters; empty if it is a number."""
    value: float
    """At the estimates, in ``unit``."""
    unit: str


@dataclass(frozen=True)
class BodyOutline:
    """A rigid body."""

    name: str
    free: bool
    """True if no joint holds it."""
    quantities: tuple[Quantity, ...]


@dataclass(frozen=True)
class JointOutline:
    """A joint of any kind between two bodies; "GROUND" is the inertial frame."""

    name: str
    parent: str
    child: str
    parent_at: Vector
    """Where it is on the parent, in the parent's frame [m]."""
    child_at: Vector
    """Where it is on the child, in the child's frame [m]."""
    axis: Vector
    """Direction in the parent's frame."""
    quantities: tuple[Quantity, ...]
    """Those that are not zero."""
    kind: str = "Hinge"
    """Name of its class."""
    turn: tuple[Vector, Vector, Vector] | None = None
    """Rows of the rotation that takes the child's axes to the parent's where its coordinates are zero; None in files of
    earlier versions."""


@dataclass(frozen=True)
class ConstraintOutline:
    """What holds beside the joints."""

    name: str
    kind: str
    """Name of its class."""
    ties: tuple[str, ...]
    """Joints or bodies that it ties; none if a user's function says what it holds."""
    at: tuple[Vector, ...]
    """Where it ends on these bodies, in their frames [m]; none of other kinds."""
    quantities: tuple[Quantity, ...]
    """Those that are not zero."""


@dataclass(frozen=True)
class MotorOutline:
    """A motor on a coordinate of a joint."""

    hinge: str
    signal: str
    """Name of its input."""
    quantities: tuple[Quantity, ...]


@dataclass(frozen=True)
class PointOutline:
    """A coordinate of a point of a body in the world."""

    body: str
    at: Vector
    """In the body's frame [m]."""
    axis: int
    """Of the world: 0, 1 or 2."""


@dataclass(frozen=True)
class SensorOutline:
    """An observed signal."""

    signal: str
    title: str
    """What it measures."""
    sigma: float
    """Standard deviation of its noise as it was given; NaN if it was estimated."""
    unit: str
    point: PointOutline | None = None
    """What it shows as it is, if that is a coordinate of a point."""
    joint: str = ""
    """The joint's coordinate whose position it shows without a scale or a delay of its own, if it does."""


@dataclass(frozen=True)
class Mechanism:
    """All parts; bodies in the order of the states."""

    bodies: tuple[BodyOutline, ...]
    hinges: tuple[JointOutline, ...]
    """Joints of all kinds; result files have had this name for them since there were hinges only."""
    motors: tuple[MotorOutline, ...]
    sensors: tuple[SensorOutline, ...]
    gravity: Vector
    """Acceleration of gravity at the estimates [m/s²]."""
    constraints: tuple[ConstraintOutline, ...] = ()
    robot: RobotFile | None = None
    """The file that the model was read from, if it was."""

    def __post_init__(self) -> None:
        bodies = {"GROUND", *(body.name for body in self.bodies)}
        for joint in self.hinges:
            if stray := {joint.parent, joint.child} - bodies:
                raise ValueError(f"joint {joint.name!r} holds body {min(stray)!r}, which is none of its bodies")
        for sensor in self.sensors:
            if sensor.point is not None and sensor.point.body not in bodies:
                raise ValueError(f"signal {sensor.signal!r} is of body {sensor.point.body!r}, none of its bodies")
