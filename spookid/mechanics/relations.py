"""What is known of parameters among themselves: a total mass, two arms that mirror each other, one friction that is
larger than another."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import field
from functools import cached_property
from typing import Any, Literal

import casadi as ca

from spookid.argument_checks import checked
from spookid.errors import ProblemError, declared_at, shown
from spookid.mechanics.body import Body, Frame
from spookid.mechanics.inertia import DIGITS, PI, from_second_moment, pseudo_inertia, second_moment, six
from spookid.parameter import is_constant, is_zero, symbolic
from spookid.records import dataclass


@dataclass(frozen=True, eq=False)
class Relation:
    """Named relation between parameters: ``Relation("rotor", J_1 + J_2 == 3e-4)``.

    Bare relations, ``m_1 + m_2 == 3.2`` or ``c_1 <= c_2``, may be listed in a problem's ``constraints``, too. Messages
    and reports call a relation by its name, and errors name its line.

    >>> m_1, m_2 = Parameter("m_1", 1.0), Parameter("m_2", 2.0)
    >>> weighed = Relation("weighed", m_1 + m_2 == 3.2)

    Raises:
        ProblemError: for anything but ``==``, ``<=`` or ``>=`` between expressions of Parameters.
    """

    name: str
    """Name in messages and reports."""
    expression: Any
    """A relation, or a column of several."""
    labels: Sequence[str] = ()
    """Labels of several equations in messages and reports; default: numbers."""
    place: str = field(default_factory=declared_at, repr=False)

    def __post_init__(self) -> None:
        if not (isinstance(self.name, str) and self.name):
            raise ProblemError(f"{self.place}: a Relation's name is {shown(self.name)}; give a text")
        if not isinstance(self.expression, ca.SX) or not self.expression.numel():
            raise ProblemError(
                f"{self._what} is {shown(self.expression)}, which holds no Parameter; write a relation of some, such "
                "as m_1 + m_2 == 3.2"
            )
        if self.labels and len(self.labels) != len(self.rows):
            raise ProblemError(f"{self._what} has {len(self.labels)} labels for {len(self.rows)} rows; give one each")

    @property
    def titles(self) -> tuple[str, ...]:
        """Names of the equations in messages."""
        if len(self.rows) == 1:
            return (self.name,)
        labels = self.labels or [f"row {i + 1}" for i in range(len(self.rows))]
        return tuple(f"{self.name}, {label}" for label in labels)

    @property
    def _what(self) -> str:
        return f"{self.place}: constraint {self.name!r}"

    @cached_property
    def rows(self) -> tuple[tuple[ca.SX, bool], ...]:
        """Left side minus right side of each relation, with True for equalities and False for inequalities."""
        found = []
        for relation in ca.vertsplit(ca.densify(ca.vec(self.expression))):
            if is_constant(relation):
                raise ProblemError(f"{self._what} holds no Parameter; relate some of them, or leave it out")
            equal, less = relation.is_op(ca.OP_EQ), relation.is_op(ca.OP_LE) or relation.is_op(ca.OP_LT)
            if not (equal or less):
                raise ProblemError(f"{self._what} is no relation; write ==, <= or >= between two expressions")
            difference = relation.dep(0) - relation.dep(1)
            graph = ca.Function("row", ca.symvar(relation), [difference])
            constants = (i for i in range(graph.n_instructions()) if graph.instruction_id(i) == ca.OP_CONST)
            if not all(math.isfinite(graph.instruction_constant(i)) for i in constants):
                raise ProblemError(f"{self._what} holds a number that is not finite; correct it, or leave it out")
            found.append((difference, equal))
        return tuple(found)


def bare(relation: Any, what: str) -> Relation:
    """Relation named after its source code."""
    if isinstance(relation, Relation):
        return relation
    name = _written(relation) if isinstance(relation, ca.SX) else shown(relation)
    return Relation(name, relation, place=what.partition(": ")[0])


def _written(relation: ca.SX) -> str:
    """One relation as people write it; of several the first."""
    first = ca.vertsplit(ca.densify(ca.vec(relation)))[0] if relation.numel() else relation
    for op, sign in ((ca.OP_EQ, "=="), (ca.OP_LE, "<="), (ca.OP_LT, "<=")):
        if first.numel() and first.is_op(op):
            sides = (str(first.dep(i)) for i in range(2))
            return f" {sign} ".join(
                side[1:-1] if side.startswith("(") and side.endswith(")") else side for side in sides
            )
    return str(first)


@checked
def total_mass(bodies: Iterable[Body], mass: Any, name: str = "total mass") -> Relation:
    """Relation that the masses of bodies add up to a measured total.

    Args:
        bodies: some bodies, or all of a model or a robot: ``model.bodies``, ``robot.bodies.values()``.
        mass: [kg], a number or an expression of Parameters.

    Raises:
        ProblemError: if no mass of theirs is unknown, or ``mass`` is no positive number.
    """
    what = f"{declared_at()}: total_mass"
    given = list(bodies)
    stray = next((body for body in given if not isinstance(body, Body)), None)
    if stray is not None or not given:
        raise ProblemError(f"{what} is given {shown(stray if given else given)}; give a list of bodies")
    whole = symbolic(mass, f"{what}: mass")
    if is_constant(whole) and not float(whole) > 0:
        raise ProblemError(f"{what} is given the mass {float(whole):g} kg; it must be positive")
    masses = sum((body.mass for body in given), ca.SX(0))
    if is_constant(masses) and is_constant(whole):
        names = ", ".join(body.name for body in given)
        raise ProblemError(f"{what}: no mass of {names} is a Parameter; there is nothing to relate")
    return Relation(name, masses == whole)


@checked
def mirrored(
    left: Body | Frame, right: Body | Frame, plane: Literal["xy", "xz", "yz"] = "xz", name: str = ""
) -> Relation:
    """Relation that one body is the mirror image of another in mass, first moments and inertia, ten equations in π.

    In its own frame, the right body has the inertia of the left one, with the coordinate across the plane reversed.
    With J the pseudo-inertia, J_right = R J_left R, so that first moments across the plane and the two products of
    inertia that have it change their sign.

    Args:
        left, right: frames on the bodies, ``body.frame(at=..., x=..., y=...)``, such as those of their joints, both
            placed so that one is the other's mirror image; a body means the frame its inertia is given in.
        plane: mirror plane of both frames.

    Raises:
        ProblemError: for twice the same body, bodies without an unknown, or known numbers of both that
            are no mirror images.
    """
    what = f"{declared_at()}: mirrored"
    frames = [one.frame() if isinstance(one, Body) else one for one in (left, right)]
    names = [one.body.name for one in frames]
    if frames[0].body is frames[1].body:
        raise ProblemError(f"{what} is given {names[0]} twice; give two bodies")
    signs = ca.SX([*(1 if axis in plane else -1 for axis in "xyz"), 1])
    image, other = ca.diag(signs) @ _pseudo(frames[0]) @ ca.diag(signs), _pseudo(frames[1])
    one, two = (ca.vertcat(J[3, 3], J[:3, 3], six(from_second_moment(J[:3, :3]))) for J in (image, other))
    rows = _related(one, two, f"{what}: {names[1]} is no mirror image of {names[0]}")
    if not rows:
        raise ProblemError(f"{what}: nothing of {names[0]} and {names[1]} is a Parameter; there is nothing to relate")
    return Relation(name or f"{names[1]} mirrors {names[0]}", ca.vertcat(*rows.values()), tuple(rows))


def _related(one: ca.SX, other: ca.SX, what: str) -> dict[str, ca.SX]:
    """Equalities of the entries that depend on Parameters, by their names."""
    rows = {}
    for title, a, b in zip(PI, ca.vertsplit(ca.densify(one)), ca.vertsplit(ca.densify(other)), strict=True):
        a, b = ca.simplify(a), ca.simplify(b)
        if not (is_constant(a) and is_constant(b)):
            slopes = ca.jacobian(a - b, ca.vertcat(*ca.symvar(a - b)))  # none of such as 0 m
            if not all(map(is_zero, slopes.nonzeros())):
                rows[title] = a == b
        elif abs(float(a) - float(b)) > DIGITS * max(abs(float(a)), abs(float(b))):
            raise ProblemError(f"{what}, its {title} is {float(b):g}, not {float(a):g}; correct it, or free it")
    return rows


def _pseudo(frame: Frame) -> ca.SX:
    """The pseudo-inertia of the frame's body in the frame, (4, 4)."""
    body = frame.body
    c = -frame.axes.T @ frame.at  # a frame is placed from the centre of mass
    return pseudo_inertia(body.mass, c, frame.axes.T @ second_moment(body.inertia) @ frame.axes)
