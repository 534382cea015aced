"""Joints between bodies: the base of all kinds, and the hinge."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import InitVar, field
from functools import cached_property
from typing import Any, ClassVar

import casadi as ca

from spookid.argument_checks import Checked
from spookid.errors import ProblemError, collected, declared_at, shown
from spookid.mechanics import rotations
from spookid.mechanics.body import Body, Frame
from spookid.mechanics.coefficients import (
    COMPLIANCE,
    Coordinate,
    acts,
    coefficient,
    is_plain,
    limits_of,
    refuse_negative,
)
from spookid.mechanics.friction_loads import Drag, Friction, Viscous
from spookid.mechanics.loads import Bound, Efforts, Load, Spring
from spookid.mechanics.manifold import Manifold, solved
from spookid.mechanics.moving import MovingFrame, angle_about_x, check_joint, inserted, rate, written
from spookid.parameter import expression, stacked, symbolic
from spookid.records import dataclass

_COEFFICIENTS = ("viscous", "load_friction", "coulomb", "drag", "stiffness", "armature")
_NOT_NEGATIVE = ("compliance", "damping", *_COEFFICIENTS, "stribeck")


@dataclass(frozen=True, eq=False)
class Joint(metaclass=Checked):
    """Joint between two frames, with compliance and damping (Marklund et al., Appendix F); base class of joints.

    A subclass says which rows vanish where it holds, which coordinates it leaves and what transform they make; rows and
    coordinates are six together. Everything else follows: what it transmits, rates, loads, sensors, labels. A slider:

    >>> class Slider(Joint):
    ...     coordinates = (Coordinate("x", "m"),)
    ...     linear, angular = ("y", "z"), ("xy", "xz", "yz")
    ...
    ...     def violation(self, a, b):
    ...         turned = (ca.dot(a.x, b.y), ca.dot(a.x, b.z), ca.dot(a.y, b.z))
    ...         return ca.vertcat((a.axes.T @ (b.origin - a.origin))[1:], *turned)
    ...
    ...     def position(self, a, b):
    ...         return ca.dot(a.x, b.origin - a.origin)
    ...
    ...     def transform(self, position):
    ...         return ca.vertcat(position, 0, 0), ca.SX([1, 0, 0, 0])

    All arguments except frames are numbers or expressions of Parameters; coefficients of loads are one number, or one
    for each coordinate.

    Args:
        name: for results and messages.
        parent: frame a of the paper, of a body or ``GROUND``.
        child: frame b of the paper, of the other body.
        compliance: ε: (linear [m/N], angular [rad/(N m)]), or one number for both.
        damping: τ, relaxation time of the constraint [s].
        viscous: b [N m s or N s/m]: −b s of the rate s.
        load_friction: μ [m, with r = 1 m]: dry friction bounded by μ Σ|λ_i| over the joint's constraint impulses.
        coulomb: c [N m or N]: dry friction of constant bound h c.
        stribeck: (δ, ζ): adds δ exp(−ζ s²) to ``load_friction`` or ``coulomb`` (4.1), δ in its unit, ζ [s²], s of the
            step before.
        drag: d [N m s² or N s²/m²]: −d s|s|.
        stiffness, rest: k [N m/rad or N/m], x₀ [rad or m]: −k (x − x₀), an angle x of a hinge in (−π, π].
        disturbance: process noise along its coordinates [N/√Hz, N m/√Hz]; None: it is estimated.
        limits: (lower, upper) [rad or m] of the one coordinate, or that or None for each of several: it stays between
            them, angles less than a turn apart; each pushes back only, with the joint's compliance of that kind and its
            damping. Needs ``friction="exact"``.
        loads: further loads along its coordinates, such as subclasses of ``Load``.
        dry: another name of ``load_friction``.
        armature: inertia along its coordinates only, such as that of rotors behind gears [kg m² or kg].
        elastic: an ``Elastic`` gear between the joint and its motor; None: the motor turns with the joint.

    Raises:
        ProblemError: for a negative fixed coefficient, a joint of a body to itself, a ``stribeck`` without exactly one
            of ``load_friction`` and ``coulomb``, limits that do not fit its coordinates, or rows and coordinates that
            are not six together.
    """

    coordinates: ClassVar[tuple[Coordinate, ...]]
    """Free coordinates of the joint, translations first."""
    linear: ClassVar[tuple[str, ...]] = ()
    """Names of its rows that are lengths; they come first."""
    angular: ClassVar[tuple[str, ...]] = ()
    """Names of its rows that are cosines or angles."""

    name: str
    parent: Frame
    child: Frame
    compliance: Any = COMPLIANCE
    damping: Any = 0.02
    viscous: Any = 0
    load_friction: Any = 0
    coulomb: Any = 0
    stribeck: Any = None
    drag: Any = 0
    stiffness: Any = 0
    rest: Any = 0
    disturbance: float | None = None
    limits: Any = None
    loads: Sequence[Load] = ()
    place: str = field(default_factory=declared_at, repr=False)
    dry: InitVar[Any] = field(default=None, kw_only=True)
    armature: Any = field(default=0, kw_only=True)
    elastic: Any = field(default=None, kw_only=True)

    # --- what a kind of joint is ---

    @property
    def manifold(self) -> Manifold:
        """Manifold of the joint's position; unit quaternions for rotations about more than one axis."""
        return Manifold((("flat", len(self.coordinates)),)).joined

    @abstractmethod
    def violation(self, a: MovingFrame, b: MovingFrame) -> ca.SX:
        """Constraint residual g of the joint: ``linear`` equations [m], then ``angular`` equations."""

    @abstractmethod
    def position(self, a: MovingFrame, b: MovingFrame) -> ca.SX:
        """Position of the joint on its manifold, from the poses of both frames."""

    @abstractmethod
    def transform(self, position: ca.SX) -> tuple[ca.SX, ca.SX]:
        """Origin (3,) [m] and unit quaternion (4,) of frame b in frame a for g = 0."""

    # --- what follows ---

    def motion(self, position: ca.SX, rates: ca.SX) -> tuple[ca.SX, ca.SX]:
        """Velocity (3,) of the origin of frame b in frame a, and angular velocity (3,) of b against a in the axes of b;
        linear in the rates (n,). Joints of the package have a closed form."""
        p = ca.SX.sym("p", self.manifold.ambient)
        away, turn = self.transform(p)
        flow = ca.densify(self.manifold.basis(p) @ rates)
        spin = 2 * rotations.multiply(rotations.conjugate(turn), ca.jtimes(turn, p, flow))[1:]
        drift, omega = ca.substitute([ca.jtimes(away, p, flow), spin], [p], [ca.densify(position)])
        return drift, omega

    def displacement(self, a: MovingFrame, b: MovingFrame) -> ca.SX:
        """Coordinates of a position, (n,) [m or rad]; for a rotation its rotation vector."""
        return self.manifold.difference(self.position(a, b), self.manifold.zero)

    def in_range(self, displacement: ca.SX) -> ca.SX:
        """Coordinates (n,), with periodic angles wrapped to (−π, π]."""
        parts = zip(self.coordinates, ca.vertsplit(displacement) if self.coordinates else (), strict=True)
        return stacked(coordinate.in_range(value) for coordinate, value in parts)

    def rates(self, a: MovingFrame, b: MovingFrame) -> ca.SX:
        """Joint velocities in the tangent space of the position, (n,) [m/s or rad/s]; linear in body velocities."""
        symbols = a.in_symbols(), b.in_symbols()
        position = self.position(*symbols)
        moved = self.manifold.lowered(position, rate(position, symbols))
        return inserted(moved, symbols, (a, b))

    def slopes(self, a: MovingFrame, b: MovingFrame, moving: MovingFrame) -> ca.SX:
        """Derivatives of equations and coordinates by the twist of the frame ``moving``, (6, 6)."""
        held = ca.jacobian(ca.SX(self.violation(a, b)), moving.pose) @ moving.basis
        return ca.vertcat(held, ca.jacobian(ca.SX(self.rates(a, b)), moving.twist))

    def carried(
        self, a: MovingFrame, b: MovingFrame, outer: MovingFrame, force: ca.SX, torque: ca.SX
    ) -> tuple[ca.SX, ca.SX]:
        """Joint impulses λ and τ (along the coordinates) that equal a given impulse on the body of frame ``outer``.

        Args:
            force: at the centre of mass, in the world, (3,).
            torque: about it, in the world, (3,).
        """
        symbols = a.in_symbols(), b.in_symbols()
        moving = symbols[0] if outer is a else symbols[1]
        own = inserted(self.slopes(*symbols, moving), symbols, (a, b))
        found = solved(own.T, ca.vertcat(force, outer.body_axes.T @ torque))
        return found[: self.rows], found[self.rows :]

    @property
    def is_own(self) -> bool:
        """True for user-defined joints, including subclasses of the package's joints."""
        return not type(self).__module__.startswith("spookid.")

    @property
    def rows(self) -> int:
        """Number of its constraint equations."""
        return len(self.linear) + len(self.angular)

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels of the joint's coordinates; the joint's name if it has only one."""
        if len(self.coordinates) == 1:
            return (self.name,)
        return tuple(f"{self.name} {coordinate.name}" for coordinate in self.coordinates)

    @property
    def kind(self) -> str:
        """Its kind, for messages."""
        return type(self).__name__

    @cached_property
    def acting(self) -> tuple[Load, ...]:
        """All loads of the joint: those of its coefficients, then the additional loads."""
        own: list[tuple[bool, Load]] = [
            (acts(self.stiffness), Spring(self.stiffness, self.rest)),
            (acts(self.viscous), Viscous(self.viscous)),
            (acts(self.drag), Drag(self.drag)),
            (acts(self.load_friction) or acts(self.coulomb), Friction(self.coulomb, self.load_friction, self.stribeck)),
        ]
        return (*(load for acts, load in own if acts), *self.loads)

    @property
    def signals(self) -> tuple[str, ...]:
        """Names of the inputs of the joint's loads."""
        return tuple(dict.fromkeys(signal for load in self.loads for signal in load.signals))

    def bound(self, at: ca.SX, rates: ca.SX, efforts: Efforts) -> Bound:
        """Bound of dry friction for given coordinates, velocities of the preceding step, and efforts, (n,)."""
        return sum((load.bound_under(at, rates, efforts) for load in self.acting), Bound.none(len(self.coordinates)))

    def effort(self, position: ca.SX, rates: ca.SX, inputs: Mapping[str, ca.SX], width: ca.SX) -> ca.SX:
        """Efforts of the joint's loads along its coordinates, without dry friction, (n,) [N m or N].

        Args:
            inputs: inputs by signal.
            width: width of smooth friction, (n,).
        """
        own = ((load, stacked(inputs[name] for name in load.signals)) for load in self.acting)
        efforts = (ca.SX(load.smooth_effort(position, rates, given, width)) for load, given in own)
        return sum(efforts, ca.SX.zeros(len(self.coordinates)))

    @cached_property
    def some_bound(self) -> Bound:
        """Example of a dry-friction bound at a numerical position and velocity."""
        numbers = ca.SX([0.5] * len(self.coordinates))
        return self.bound(numbers, numbers, Efforts.sample(len(self.coordinates)))

    @cached_property
    def rubbing(self) -> tuple[bool, ...]:
        """True for each coordinate that has dry friction."""
        return self.some_bound.acts

    @property
    def follows_load(self) -> bool:
        """True if the dry friction depends on the forces that the joint transmits."""
        return not self.some_bound.load.is_zero()

    @property
    def rubs(self) -> bool:
        """True if a coordinate of the joint has dry friction."""
        return any(self.rubbing)

    def compliances(self) -> ca.SX:
        """ε of each constraint equation."""
        linear, angular = ca.vertsplit(self.compliance)
        return stacked([linear] * len(self.linear) + [angular] * len(self.angular))

    @property
    def stops(self) -> list[tuple[int, ca.SX]]:
        """Limits (lower, upper) of each coordinate that has limits, (2,)."""
        return [(i, pair) for i, pair in enumerate(self.limits or ()) if pair is not None]

    @property
    def motor(self) -> Joint:
        """Joint of the motor behind the joint's elastic gear; the joint itself without such a gear."""
        return self if self.elastic is None else self.elastic.hidden.joint

    def bodies(self) -> tuple[Body, Body]:
        """Parent and child."""
        return self.parent.body, self.child.body

    def expressions(self) -> list[ca.SX]:
        """All expressions that may contain a Parameter, including those of methods of a subclass."""
        own = [getattr(self, name) for name in ("damping", *_COEFFICIENTS, "rest", "compliance")]
        pairs = [pair for pair in (self.stribeck, *(pair for _, pair in self.stops)) if pair is not None]
        of_loads = [e for load in self.loads for e in load.expressions(len(self.coordinates))]
        of_kind = written(self) if self.is_own else []
        return own + pairs + of_loads + of_kind + self.parent.expressions() + self.child.expressions()

    # --- declaration ---

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r} of {self.parent.body.name} and {self.child.body.name}>"

    def __post_init__(self, dry: Any) -> None:
        what = f"{self.place}: {self.kind} {self.name!r}"
        rows, coordinates = self.rows, len(self.coordinates)
        if rows + coordinates != 6:  # degrees of freedom of a rigid body
            given = f"{what} has {rows} rows and {coordinates} coordinates"
            raise ProblemError(f"{given}; name as many in linear, angular and coordinates as make 6")
        if self.parent.body is self.child.body:
            raise ProblemError(f"{what} joins {self.parent.body.name!r} to itself; give frames of two bodies")
        if dry is not None:
            self._renamed("dry", dry, "load_friction", what)
        self._convert(what)
        for name in _NOT_NEGATIVE:
            refuse_negative(getattr(self, name), name, what)
        if self.stribeck is not None and acts(self.load_friction) == acts(self.coulomb):
            raise ProblemError(f"{what} has stribeck, which adds to load_friction or to coulomb; give one of them")
        if self.is_own:
            check_joint(self, what)

    def _renamed(self, alias: str, value: Any, name: str, what: str) -> None:
        """Take a value under another name, which must not have one of its own."""
        own = getattr(self, name)
        if not (isinstance(own, (int, float)) and own == 0):
            raise ProblemError(f"{what} has {alias} and {name}, which are one; give {name} alone")
        if is_plain(value):
            value = coefficient(value, len(self.coordinates), f"{what}: {alias}")
            if name in _NOT_NEGATIVE:
                refuse_negative(value, alias, what)
        object.__setattr__(self, name, value)

    def _convert(self, what: str) -> None:
        loads: list[Load] = []  # of coefficients that differ by direction or vary with the position
        kinds = {("viscous",): Viscous, ("drag",): Drag, ("coulomb", "load_friction", "stribeck"): Friction}
        for names, kind in kinds.items():
            given = [getattr(self, name) for name in names]
            if not all(map(is_plain, given)):
                loads.append(kind(*given))
                for name in names:
                    object.__setattr__(self, name, None if name == "stribeck" else 0)
        compliance = expression(self.compliance, f"{what}: compliance")
        compliance = ca.vec(compliance) if compliance.numel() == 2 else ca.repmat(compliance, 2)
        values = {
            name: coefficient(getattr(self, name), len(self.coordinates), f"{what}: {name}")
            for name in (*_COEFFICIENTS, "rest")
        }
        values["damping"] = symbolic(self.damping, f"{what}: damping")
        values["compliance"] = symbolic(compliance, f"{what}: compliance", (2,))
        if self.stribeck is not None:
            values["stribeck"] = symbolic(self.stribeck, f"{what}: stribeck", (2,))
        values["limits"] = limits_of(self.limits, self.coordinates, what)
        if values["limits"] and any(kind == "rotation" for kind, _ in self.manifold.parts):
            raise ProblemError(f"{what} has limits, but its rotation is no angle; leave limits out")
        loads += [load for load in collected(self.loads, Load, f"{what}: loads") if load is not self.elastic]
        if self.elastic is not None:
            if not hasattr(self.elastic, "on"):
                raise ProblemError(f"{what}: elastic is {shown(self.elastic)}; give an Elastic")
            values["elastic"] = self.elastic.on(self)
            loads.append(values["elastic"])
        values["loads"] = tuple(loads)
        for load in values["loads"]:
            load.check(len(self.coordinates), what)
        for name, value in values.items():
            object.__setattr__(self, name, value)


@dataclass(frozen=True, eq=False, repr=False)
class Hinge(Joint):
    """Hinge joint: rotation about the x axes of two frames.

    Its angle is zero where the y axes agree and grows with a right-handed turn of the child about x.

    Args:
        rest_angle: θ₀ [rad], another name of ``rest``; other arguments are those of ``Joint``.
    """

    coordinates = (Coordinate("angle", "rad", 2 * math.pi),)
    linear = ("x", "y", "z")
    angular = ("xy", "xz")

    rest_angle: InitVar[Any] = field(default=None, kw_only=True)

    def __post_init__(self, dry: Any, rest_angle: Any) -> None:
        if rest_angle is not None:
            self._renamed("rest_angle", rest_angle, "rest", f"{self.place}: {self.kind} {self.name!r}")
        super().__post_init__(dry)

    def violation(self, a: MovingFrame, b: MovingFrame) -> ca.SX:
        """Distance of the origins, and y and z components (child's axes) of the parent's x axis (F.1), (5,)."""
        return ca.vertcat(a.origin - b.origin, ca.dot(a.x, b.y), ca.dot(a.x, b.z))

    def position(self, a: MovingFrame, b: MovingFrame) -> ca.SX:
        return angle_about_x(a, b)

    def rates(self, a: MovingFrame, b: MovingFrame) -> ca.SX:
        """Hinge velocity (F.2), computed with the child's x axis, which is constant in its own frame."""
        return ca.dot(b.frame.axes[:, 0], b.omega) - ca.dot(b.x, a.axes @ (a.frame.axes.T @ a.omega))

    def transform(self, position: ca.SX) -> tuple[ca.SX, ca.SX]:
        half = position / 2
        return ca.SX(3, 1), ca.vertcat(ca.cos(half), ca.sin(half), 0, 0)

    def motion(self, position: ca.SX, rates: ca.SX) -> tuple[ca.SX, ca.SX]:
        return ca.SX(3, 1), ca.vertcat(rates, 0, 0)

    def carried(
        self, a: MovingFrame, b: MovingFrame, outer: MovingFrame, force: ca.SX, torque: ca.SX
    ) -> tuple[ca.SX, ca.SX]:
        """Impulses in closed form: forces are ±λ, and the moment about the child's origin is perpendicular to x."""
        sign = 1 if outer is b else -1
        moment = torque + ca.cross(outer.center - b.origin, force)
        across = ca.vertcat(-ca.dot(b.z, moment), ca.dot(b.y, moment))
        return sign * ca.vertcat(-force, across), sign * ca.dot(b.x, moment)
