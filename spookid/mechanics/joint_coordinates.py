"""A mechanism in the coordinates of its joints: poses from hinge angles, and impulses carried to the joints.

A spanning tree of hinges places every body (``Model.tree``); hinges that close loops are *cut*. The coordinates are the
angles of the tree's hinges, then the pose of each free body. An impulse residual p of all bodies (6 n_b,) does the
virtual work Sᵀp along unit rates of these coordinates; what the bodies beyond a hinge sum up to, about that hinge, is
its part along the axis and the five impulses λ that the hinge transmits (Newton–Euler, from the leaves to the root).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import casadi as ca

from spookid.mechanics import rotations
from spookid.mechanics.body import GROUND, Body, Frame
from spookid.mechanics.joints import ROWS, Hinge
from spookid.mechanics.manifold import Manifold
from spookid.mechanics.model import Mechanics, Model


@dataclass(frozen=True)
class Transmitted:
    """Impulses at the joints of the tree."""

    along: ca.SX
    """Sᵀp: about the axis of each hinge of the tree [N m s], then force (world) and torque (body) impulses on what each
    free body carries [N s, N m s], (n,)."""
    loads: dict[str, ca.SX]
    """λ of each hinge of the tree by its name, (5,), with p = Gᵀλ but for what acts along the axes."""


@dataclass(frozen=True, eq=False)
class JointCoordinates:
    """The coordinates of a model; ``n`` rates."""

    model: Model

    @cached_property
    def tree(self) -> tuple[Hinge, ...]:
        """Hinges that place bodies, in the order in which they do."""
        return tuple(self.model.tree())

    @cached_property
    def cut(self) -> tuple[Hinge, ...]:
        """Hinges that close loops."""
        return tuple(joint for joint in self.model.joints if joint not in self.tree)

    @cached_property
    def roots(self) -> tuple[Body, ...]:
        """Free bodies."""
        return tuple(body for body in self.model.bodies if body.free)

    @property
    def manifold(self) -> Manifold:
        """Angles of the tree's hinges, then position and orientation of each free body."""
        angles = (("flat", len(self.tree)),) if self.tree else ()
        return Manifold((*angles, *((("flat", 3), ("rotation", 4)) * len(self.roots))))

    @property
    def names(self) -> tuple[str, ...]:
        """What each rate belongs to, (n,): a hinge, or the force or torque on a free body."""
        free = (f"{body.name} {what}" for body in self.roots for what in ("force", "torque") for _ in range(3))
        return (*(joint.name for joint in self.tree), *free)

    @property
    def units(self) -> tuple[str, ...]:
        """Unit of a disturbance along each rate, (n,)."""
        return (*("N m" for _ in self.tree), *(u for _ in self.roots for u in ("N",) * 3 + ("N m",) * 3))

    @property
    def places(self) -> list[int]:
        """Of each rate's disturbance among those of ``Settings``: hinges in the model's order, then free bodies."""
        tree = [self.model.joints.index(joint) for joint in self.tree]
        return [*tree, *range(len(self.model.joints), len(self.model.joints) + 6 * len(self.roots))]

    def configuration(self, x: ca.SX) -> ca.SX:
        """q (7 n_b,) from the coordinates (ambient,)."""
        poses = {GROUND: (ca.SX(3, 1), ca.SX([1, 0, 0, 0]))}
        start = len(self.tree)
        for i, body in enumerate(self.roots):
            poses[body] = (x[start + 7 * i : start + 7 * i + 3], x[start + 7 * i + 3 : start + 7 * i + 7])
        for i, joint in enumerate(self.tree):
            known, new = (joint.parent, joint.child) if joint.parent.body in poses else (joint.child, joint.parent)
            turn = x[i] if known is joint.parent else -x[i]
            poses[new.body] = _beyond(poses[known.body], known, turn, new)
        return ca.vertcat(*(part for body in self.model.bodies for part in poses[body]))

    def transmitted(self, q: ca.SX, impulse: ca.SX) -> Transmitted:
        """Impulses at the joints, for p (6 n_b,) at the configuration q on which the tree's hinges hold."""
        at = {body: (q[7 * i : 7 * i + 3], self._axes(q, i)) for i, body in enumerate(self.model.bodies)}
        force = {body: impulse[6 * i : 6 * i + 3] for i, body in enumerate(self.model.bodies)}
        torque = {b: at[b][1] @ impulse[6 * i + 3 : 6 * i + 6] for i, b in enumerate(self.model.bodies)}
        along: dict[str, ca.SX] = {}
        loads: dict[str, ca.SX] = {}
        for joint, inner, outer in reversed(self._order()):
            sign = 1 if outer is joint.child.body else -1
            origin, axes = _frame(at, joint.child)
            about = torque[outer] + ca.cross(_origin(at, outer) - origin, force[outer])
            along[joint.name] = sign * ca.dot(axes[:, 0], about)
            moments = ca.vertcat(-ca.dot(axes[:, 2], about), ca.dot(axes[:, 1], about))
            loads[joint.name] = sign * ca.vertcat(-force[outer], moments)
            if inner is not GROUND:
                force[inner] += force[outer]
                torque[inner] += about + ca.cross(origin - _origin(at, inner), force[outer])
        free = [part for body in self.roots for part in (force[body], at[body][1].T @ torque[body])]
        rows = [*(along[joint.name] for joint in self.tree), *free]
        return Transmitted(ca.vertcat(ca.SX(0, 1), *rows), loads)

    def balanced(self, at: Mechanics, impulse: ca.SX) -> Transmitted:
        """Impulses at the joints with p = Σ_j (Gᵀλ + Ḡᵀτ)_j + what free bodies carry, exactly, for p (6 n_b,) at any
        configuration, one that pulls the tree's hinges apart too: ``along`` has τ in the place of Sᵀp."""
        rest, model = impulse, self.model
        along: dict[str, ca.SX] = {}
        loads: dict[str, ca.SX] = {}
        for joint, _, outer in reversed(self._order()):
            j, start = model.joints.index(joint), 6 * model.bodies.index(outer)
            held, slip = at.constraint[ROWS * j : ROWS * (j + 1), :].T, at.slip[j, :].T
            own = ca.horzcat(held, slip)[start : start + 6, :]
            # The first three rows of G are those of a point: ±1, so that they are their own inverse.
            force = ca.diag(own[:3, :3]) * rest[start : start + 3]
            turning = ca.solve(own[3:, 3:], rest[start + 3 : start + 6] - own[3:, :3] @ force)
            loads[joint.name], along[joint.name] = ca.vertcat(force, turning[:2]), turning[2]
            rest = rest - held @ loads[joint.name] - slip @ along[joint.name]
        starts = (6 * self.model.bodies.index(body) for body in self.roots)
        rows = [*(along[joint.name] for joint in self.tree), *(rest[i : i + 6] for i in starts)]
        return Transmitted(ca.vertcat(ca.SX(0, 1), *rows), loads)

    def _order(self) -> list[tuple[Hinge, Body, Body]]:
        """Hinges of the tree with the body on the side of the root and the other one."""
        placed, found = {GROUND, *self.roots}, []
        for joint in self.tree:
            inner, outer = joint.bodies() if joint.parent.body in placed else tuple(reversed(joint.bodies()))
            found.append((joint, inner, outer))
            placed.add(outer)
        return found

    @staticmethod
    def _axes(q: ca.SX, i: int) -> ca.SX:
        return rotations.matrix(q[7 * i + 3 : 7 * i + 7])


def _origin(at: dict[Body, tuple[ca.SX, ca.SX]], body: Body) -> ca.SX:
    return at[body][0]


def _frame(at: dict[Body, tuple[ca.SX, ca.SX]], frame: Frame) -> tuple[ca.SX, ca.SX]:
    """Origin and axes of a frame in the world."""
    if frame.body is GROUND:
        return frame.at, frame.axes
    position, rotation = at[frame.body]
    return position + rotation @ frame.at, rotation @ frame.axes


def _beyond(pose: Sequence[ca.SX], known: Frame, turn: ca.SX, new: Frame) -> tuple[ca.SX, ca.SX]:
    """Pose of the body of ``new`` whose frame is that of ``known``, on a body in ``pose``, turned about x."""
    position, e = pose
    half = ca.vertcat(ca.cos(turn / 2), ca.sin(turn / 2), 0, 0)
    e_frame = rotations.multiply(rotations.multiply(e, rotations.from_matrix(known.axes)), half)
    e_new = rotations.multiply(e_frame, rotations.conjugate(rotations.from_matrix(new.axes)))
    at = position + rotations.matrix(e) @ known.at - rotations.matrix(e_new) @ new.at
    return at, e_new
