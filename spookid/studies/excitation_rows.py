"""What a planned motion asks of motors and contacts, and what the forces along it say of the parameters: with exact
derivatives.

Forces w(x, s, a; θ) along the coordinates of a tree and of free bodies (``mechanics.regressor``) are borne by motors
and by what holds: w = Sᵀe + Jᵀλ. Where that leaves a choice, the sum of squares of efforts e and of λ in SI units is
least. The fit knows efforts, measured or commanded, and no λ: with s = N ż for all that may move and D the spectral
densities of the noise along the coordinates, the information of a second of motion is (NᵀW)ᵀ (NᵀDN)⁻¹ (NᵀW), with
W = ∂w/∂θ at these efforts. The noise of positions is left out here, and counted in ``expected_errors``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import casadi as ca
import numpy as np

from spookid.assembly.problem import Problem
from spookid.kernels.arrays import Array, Mask
from spookid.mechanics.body import Frame
from spookid.mechanics.holding import Touch
from spookid.mechanics.manifold import halved
from spookid.parameter import Parameter
from spookid.studies.motion_limits import Cone
from spookid.studies.planned_coordinates import PlannedCoordinates, at_guesses

_ROUND = 1e-3
"""Of the tip of a cone, as a share of the least force or of 1 N, that has a slope."""


class Told(NamedTuple):
    """Positions, velocities, motor torques or forces, and contact forces of a planned motion at N instants."""

    signals: Array
    """Of all motors, (N, n_m)."""
    forces: list[Array]
    """Of each contact along its rows, (N, rows) [N, N m]."""
    states: Array
    """(q, v) of all bodies, (N, 13 n_b)."""
    accelerations: Array
    """Of all bodies, (N, 6 n_b)."""
    joints: Array
    """Positions, velocities and accelerations of all joints, (3, N, n_s)."""


@dataclass(frozen=True, eq=False)
class PlannedEfforts:
    """Efforts and forces of a problem as functions of z, ż and z̈ (3, N, m) of its planned coordinates.

    Args:
        coordinates: of the problem at its initial values.
        densities: of the noise of the effort along each joint's coordinate, then of force and torque on free bodies,
            (n_s + 6 n_f,) [N m/√Hz or N/√Hz].
        widths: of smooth friction, (n_s,) [rad/s or m/s].
        frames: whose places in the world are asked for.
        cones: whose forces are asked for.
    """

    coordinates: PlannedCoordinates
    densities: Array
    widths: Array
    frames: Sequence[Frame] = ()
    cones: Sequence[Cone] = ()
    _last: list[Array] = field(default_factory=list, repr=False)
    """z and y of the last motion."""

    @property
    def problem(self) -> Problem:
        """Problem whose initial values the design uses."""
        return self.coordinates.problem

    @property
    def free(self) -> tuple[Parameter, ...]:
        """Parameters that the motion is to identify, as declared."""
        return tuple(self.coordinates.regressor.free)

    def slopes(self, motion: Array) -> Array:
        """Derivatives of the forces by parameters, divided by the noise density, (N, m, n_p)."""
        (found,) = self._called(self._slopes, motion)
        return found.reshape(len(found), len(self.free), -1).transpose(0, 2, 1)

    def pulled(self, motion: Array, weights: Array) -> Array:
        """Gradient of Σ ``weights`` · ``slopes`` with respect to the motion, (3, N, m), for weights (N, m, n_p)."""
        flat = weights.transpose(0, 2, 1).reshape(len(weights), -1)
        return np.stack(np.split(self._called(self._pulled, motion, flat)[0], 3, axis=1))

    def asked(self, motion: Array) -> Array:
        """Limited quantities (N, 3 n_s + 3 f + 2 c): positions, rates and efforts of all joint coordinates, positions
        of frames, and for each friction cone the normal force and the friction reserve."""
        return self._called(self._asked, motion)[0]

    def asked_slopes(self, motion: Array) -> Array:
        """Derivatives of the limited quantities with respect to the motion, (3, N, rows, m)."""
        (flat,), m = self._called(self._asked_slopes, motion), motion.shape[2]
        return np.stack(np.split(flat.reshape(len(flat), 3 * m, -1).transpose(0, 2, 1), 3, axis=2))

    @cached_property
    def asked_pattern(self) -> Mask:
        """Sparsity of ``asked_slopes``, (rows, m): True if a quantity depends on a planned coordinate."""
        m, slopes = len(self.coordinates.planned), self._asked_jacobian
        found = np.zeros(slopes.shape, dtype=bool)
        found[tuple(np.array(part, dtype=np.intp) for part in slopes.sparsity().get_triplet())] = True
        return np.asarray(np.any(found.reshape(-1, 3, m), axis=1))

    def told(self, motion: Array, widths: Array | None = None) -> Told:
        """Motion and required efforts, optionally for other friction widths."""
        signals, forces, states, accelerations, *joints = self._called(self._told, motion, widths=widths)
        sizes = [one.labels(self.problem.model) for one in self.coordinates.held]
        cuts = np.cumsum([len(size) for size in sizes])[:-1]
        return Told(signals, np.split(forces, cuts, axis=1) if sizes else [], states, accelerations, np.stack(joints))

    # --- how they are made ---

    def _called(self, function: ca.Function, motion: Array, *more: Array, widths: Array | None = None) -> list[Array]:
        given = np.hstack(list(motion)), self._closed(motion[0])
        narrow = self.widths if widths is None else widths
        found = function(*(part.T for part in given), narrow, *(part.T for part in more))
        parts = found if isinstance(found, tuple) else (found,)
        return [np.asarray(part.full()).T for part in parts]

    def _closed(self, z: Array) -> Array:
        """y, kept for the functions of the same motion and as a start for the next."""
        if not (self._last and np.array_equal(self._last[0], z)):
            has_near = self._last and self._last[0].shape == z.shape and np.all(np.isfinite(self._last[1]))
            y = self.coordinates.closed(z, (self._last[0], self._last[1]) if has_near else None)
            if has_near and np.any(np.isnan(y)):
                y = self.coordinates.closed(z)
            self._last[:] = [z, y]
        return self._last[1]

    @cached_property
    def _given(self) -> list[ca.SX]:
        moving = self.coordinates.moving
        return [moving.motion, moving.y, ca.SX.sym("widths", len(self.widths))]

    def _function(self, name: str, found: Sequence[ca.SX], *more: ca.SX) -> ca.Function:
        given = [*self._given, *more]
        parts = ca.cse([ca.densify(part) for part in at_guesses(self.problem, found, given)])
        return ca.Function(name, given, parts)

    @cached_property
    def _borne(self) -> tuple[ca.SX, ca.SX, ca.SX]:
        """Efforts of the motors, (n_m,), λ, (rows,), and W, (n, n_p)."""
        (S, J), bodies, values = self.coordinates.bearing, self.coordinates.moving.bodies, self.problem.guess_on()
        function, others = self.coordinates.regressor.in_parameters()
        free, known = ([ca.DM([values[p.name] for p in some])] for some in (self.free, others))
        given, signals = (bodies.x, bodies.s, bodies.a, self._given[2]), self.problem.model.signals
        still = function(*given, ca.SX(len(self.problem.model.inputs), 1), *free, *known)[0]
        borne = ca.ldl_solve(still, *ca.ldl(ca.sparsify(S.T @ S + J.T @ J), True))
        e, u = S @ borne, ca.SX(len(self.problem.model.inputs), 1)
        for i, (motor, unit) in enumerate(zip(self.problem.model.motors, self.coordinates.motors[1], strict=True)):
            u[signals.index(motor.signal)] = e[i] / unit
        flat = function(*given, u, *free, *known)[1]
        return e, J @ borne, ca.reshape(flat, still.numel(), len(self.free))

    @cached_property
    def _told_rows(self) -> ca.SX:
        """``slopes`` in symbols."""
        N, R, squares = self.coordinates.moving.spread, self.coordinates.along, self.densities**2
        n, joints = N.shape[0], len(self.widths)
        roots = ca.SX(n, n)
        for i in range(len(squares) - joints):
            place = n - (len(squares) - joints) + i
            roots[place, place] = squares[joints + i]
        D = R.T @ ca.diag(ca.SX(ca.DM(squares[:joints]))) @ R + roots
        return halved(N.T @ D @ N, N.T @ self._borne[2])

    @cached_property
    def _slopes(self) -> ca.Function:
        return self._function("slopes", [ca.vec(self._told_rows)])

    @cached_property
    def _pulled(self) -> ca.Function:
        (motion, y, _), flat = self._given, ca.vec(self._told_rows)
        weights = ca.SX.sym("weights", flat.numel())
        own, of_others = (ca.jtimes(flat, part, weights, True) for part in (motion, y))
        m = motion.numel() // 3
        back = self.coordinates.moving.follow.T @ of_others
        return self._function("pulled", [own + ca.vertcat(back, ca.SX(2 * m, 1))], weights)

    @cached_property
    def _forces(self) -> list[ca.SX]:
        """Of each contact."""
        return [self._borne[1][own, 0] for own in self.coordinates.regressor.of_contacts]

    def _cone(self, cone: Cone) -> list[ca.SX]:
        """Force along the normal, and how much more friction it could bear."""
        contact = cone.contact
        force = self._forces[self.coordinates.held.index(contact)]
        parts = {axis: force[i] for i, axis in enumerate(contact.rows_along)}
        tip = _ROUND * max(cone.least, 1.0)
        across = ca.sqrt(sum((parts[axis] ** 2 for axis in "xy" if axis in parts), ca.SX(tip**2))) - tip
        return [parts["z"], cone.friction * parts["z"] - across]

    @cached_property
    def _asked_rows(self) -> ca.SX:
        bodies, model, places = self.coordinates.moving.bodies, self.problem.model, self.coordinates.motors[0]
        efforts = ca.SX(len(self.widths), 1)
        for i, place in enumerate(places):
            efforts[place] += self._borne[0][i]
        frames = (model.moving(frame, bodies.q, bodies.v).origin for frame in self.frames)
        cones = (row for cone in self.cones for row in self._cone(cone))
        return ca.vertcat(bodies.positions, bodies.rates, efforts, *frames, *cones)

    @cached_property
    def _asked(self) -> ca.Function:
        return self._function("asked", [self._asked_rows])

    @cached_property
    def _asked_jacobian(self) -> ca.SX:
        """(rows, 3 m)."""
        motion, y, _ = self._given
        own, of_others = (ca.jacobian(self._asked_rows, part) for part in (motion, y))
        back = of_others @ self.coordinates.moving.follow
        return ca.sparsify(own + ca.horzcat(back, ca.SX(back.shape[0], 2 * back.shape[1])))

    @cached_property
    def _asked_slopes(self) -> ca.Function:
        return self._function("asked_slopes", [ca.vec(self._asked_jacobian)])

    @cached_property
    def _told(self) -> ca.Function:
        bodies, units = self.coordinates.moving.bodies, ca.SX(ca.DM(self.coordinates.motors[1]))
        moved = bodies.positions, bodies.rates, bodies.rate_changes
        forces = ca.vertcat(ca.SX(0, 1), *self._forces)
        parts = [self._borne[0] / units, forces, ca.vertcat(bodies.q, bodies.v), bodies.accelerations, *moved]
        return self._function("told", parts)


def normal_and_across(contact: Touch, force: Array) -> tuple[Array, Array]:
    """Normal and tangential components of a contact force (N, rows), (N,) each; zero along axes without an equation."""
    parts = {axis: force[:, i] for i, axis in enumerate(contact.rows_along)}
    none = np.zeros(len(force))
    return parts.get("z", none), np.hypot(parts.get("x", none), parts.get("y", none))
