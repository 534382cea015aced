"""The dynamically consistent projector: which part of a force along the coordinates accelerates what holds together."""

from __future__ import annotations

from functools import cached_property

import casadi as ca
import numpy as np

from spookid.kernels.arrays import Array
from spookid.mechanics.joint_coordinates import JointCoordinates
from spookid.mechanics.model import Model
from spookid.records import dataclass

_RANK = 1e-7
"""Singular values of the closing rows, in the metric of M, that are zero to this share of the largest."""


@dataclass(frozen=True, eq=False)
class Projection:
    """What forces along all coordinates of a model do along those of its tree, less what closing rows bear.

    Args:
        model: of bodies whose tree's joints hold at the configurations given.
    """

    model: Model

    @cached_property
    def ingredients(self) -> tuple[ca.SX, ca.SX]:
        """The symbol of the configuration, (7 n_b,), and below one another, column by column, M of the bodies and of
        what turns with coordinates alone, G of all rows and Ḡ of all coordinates, (·, 6 n_b) each."""
        q, model = ca.SX.sym("q", self.model.configuration.ambient), self.model
        at, own = model.mechanics(q), ca.SX.zeros(len(model.freedoms))
        for joint in model.joints:
            own[model.freedoms_of(joint)] += joint.armature
        for motor in model.motors:
            own[model.freedoms_of(motor.joint).start + motor.coordinate] += motor.inertia
        mass = at.mass + at.slip.T @ ca.diag(own) @ at.slip
        return q, ca.vec(ca.vertcat(mass, at.constraint, at.slip))

    def matrices(self, values: Array, bearing: Array | None = None) -> Array:
        """Nᵀ[I, B] at each step, (N, n, n + n_c): B makes forces along the coordinates of cut joints those along the n
        of the tree and of free bodies, which they do as much work with.

        Args:
            values: of ``ingredients`` along a motion, (N, ·).
            bearing: True for each contact that may hold, (N, n_c); None: all do.
        """
        joints, model = JointCoordinates(self.model), self.model
        width, rows, n = model.configuration.tangent, model.rows, len(joints.places)
        stacked = values.reshape(len(values), width, -1).transpose(0, 2, 1)
        M, G, slips = np.split(stacked, [width, width + rows], axis=1)
        held = [row for joint in joints.tree for row in _range(model.rows_of(joint))]
        closing = [row for thing in joints.closing for row in _range(model.rows_of(thing))]
        tree = [place for place in joints.places if place < len(model.freedoms)]
        free = [6 * model.bodies.index(body) + i for body in joints.roots for i in range(6)]
        own = np.broadcast_to(np.eye(width)[free], (len(M), len(free), width))
        S = np.linalg.inv(np.concatenate([G[:, held], slips[:, tree], own], axis=1))[:, :, width - n :]
        L = np.linalg.cholesky(S.transpose(0, 2, 1) @ M @ S)
        J = G[:, closing] @ S
        if bearing is not None:
            J = J * self._acting(bearing, closing)[:, :, None]
        _, sizes, bases = np.linalg.svd(
            np.linalg.solve(L, J.transpose(0, 2, 1)).transpose(0, 2, 1), full_matrices=False
        )
        bases = bases * (sizes > _RANK * sizes.max(axis=1, keepdims=True, initial=0.0))[:, :, None]
        along = np.linalg.solve(L, np.broadcast_to(np.eye(n), L.shape))
        projector = L @ (along - bases.transpose(0, 2, 1) @ (bases @ along))
        return np.asarray(
            np.concatenate([projector, projector @ (slips[:, joints.cut_places] @ S).transpose(0, 2, 1)], 2)
        )

    def _acting(self, bearing: Array, closing: list[int]) -> Array:
        """1 for each closing row that acts, else 0, (N, rows)."""
        acts = np.ones((len(bearing), len(closing)))
        for i, contact in enumerate(self.model.holding.contacts):
            places = [closing.index(row) for row in _range(self.model.rows_of(contact))]
            acts[:, places] = bearing[:, i : i + 1]
        return acts


def _range(rows: slice) -> range:
    return range(rows.start, rows.stop)
