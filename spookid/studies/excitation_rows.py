"""What a planned motion asks of motors, and what the efforts along it tell of the parameters: with exact derivatives.

Of a tree whose every coordinate is driven, w(x, s, a; θ) = K u (``mechanics.regressor``). Efforts u are measured, or
commanded while something disturbs the motion; either way a second of motion tells Jᵀ W J of the free parameters, with
J = ∂(w − K u)/∂θ at the u that the motion takes and W one over the spectral densities of that noise. The noise of
positions is left out here, and counted where errors are promised (``expected_errors``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import casadi as ca
import numpy as np

from spookid.assembly.declaration import Declaration
from spookid.estimation.grouping import unknown
from spookid.kernels.kernel import Array
from spookid.mechanics.body import Frame
from spookid.mechanics.recursion import Recursion
from spookid.mechanics.regressor import Regressor
from spookid.parameter import Parameter, parameters_in, substitute


@dataclass(frozen=True, eq=False)
class PlannedEfforts:
    """Functions of a planned motion of a problem, positions, rates and accelerations (N, n) each, in the order of the
    model's coordinates.

    Args:
        problem: at whose guesses they are.
        densities: of the noise of each coordinate's effort, (n,) [N m/√Hz or N/√Hz].
        widths: of smooth friction, (n,) [rad/s or m/s].
        frames: whose places in the world are asked for.
    """

    problem: Declaration
    densities: Array
    widths: Array
    frames: Sequence[Frame] = ()

    @cached_property
    def free(self) -> tuple[Parameter, ...]:
        """Those that are to be found, as they were declared."""
        return tuple(unknown(self.problem))

    def slopes(self, motion: Array) -> Array:
        """J, each row over its noise's density, (N, n, n_p), at a motion (3, N, n)."""
        found = self._called(self._slopes, motion)[0]
        return found.reshape(len(found), len(self.free), -1).transpose(0, 2, 1)

    def pulled(self, motion: Array, weights: Array) -> Array:
        """Gradient of Σ ``weights`` · J in the motion, (3, N, n), for weights (N, n, n_p)."""
        flat = weights.transpose(0, 2, 1).reshape(len(weights), -1)
        return self._apart(self._called(self._pulled, motion, flat)[0])

    def asked(self, motion: Array) -> Array:
        """Efforts along the coordinates, then places of frames, (N, n + 3 f)."""
        return self._called(self._asked, motion)[0]

    def asked_slopes(self, motion: Array) -> Array:
        """Their slopes in the motion, (3, N, n + 3 f, n)."""
        (flat,), n = self._called(self._asked_slopes, motion), motion.shape[2]
        return np.stack(np.split(flat.reshape(len(flat), 3 * n, -1).transpose(0, 2, 1), 3, axis=2))

    # --- how they are made ---

    @cached_property
    def _regressor(self) -> Regressor:
        return Regressor(self.problem.model, self.free)

    @cached_property
    def _order(self) -> list[int]:
        """Of the model's coordinates, those of the tree."""
        return [self.problem.model.freedoms_of(joint).start for joint in self._regressor.joints.tree]

    def _apart(self, flat: Array) -> Array:
        """(N, 3 n) as (3, N, n)."""
        return np.stack(np.split(flat, 3, axis=1))

    def _called(self, function: ca.Function, motion: Array, *more: Array) -> list[Array]:
        found = function(np.hstack(list(motion)).T, *(part.T for part in more))
        parts = found if isinstance(found, tuple) else (found,)
        return [np.asarray(part.full()).T for part in parts]

    @cached_property
    def _symbols(self) -> tuple[ca.SX, list[ca.SX]]:
        """The motion (3 n,), in the model's order, and its parts in that of the tree."""
        n = len(self.problem.model.freedoms)
        motion = ca.SX.sym("motion", 3 * n)
        return motion, [motion[i * n : (i + 1) * n, 0][self._order, 0] for i in range(3)]

    @cached_property
    def _rows(self) -> tuple[ca.SX, ca.SX]:
        """Efforts along the coordinates, (n,), and J over the densities, (n, n_p), both in the model's order."""
        problem, regressor, (_, parts) = self.problem, self._regressor, self._symbols
        function, others = regressor.in_parameters()
        values, n, signals = problem.guess_on(), len(problem.model.freedoms), problem.model.signals
        free, known = ([ca.DM([values[p.name] for p in some])] for some in (self.free, others))
        gains = np.zeros((n, len(signals)))
        for motor in problem.model.motors:
            place = problem.model.freedoms_of(motor.joint).start + motor.coordinate
            gains[place, signals.index(motor.signal)] += substitute(motor.unit_effort, values).item()
        widths = self.widths
        still = function(*parts, widths, ca.SX(len(signals), 1), *free, *known)[0]
        back = np.argsort(self._order)
        efforts = still[back.tolist(), 0]
        u = ca.DM(np.linalg.inv(gains)) @ efforts
        flat = function(*parts, widths, u, *free, *known)[1]
        slopes = ca.reshape(flat, n, len(self.free))[back.tolist(), :]
        return ca.densify(efforts), ca.diag(ca.DM(1 / self.densities)) @ slopes

    @cached_property
    def _slopes(self) -> ca.Function:
        return ca.Function("slopes", [self._symbols[0]], [ca.densify(ca.vec(self._rows[1]))])

    @cached_property
    def _pulled(self) -> ca.Function:
        motion, flat = self._symbols[0], ca.vec(self._rows[1])
        weights = ca.SX.sym("weights", flat.numel())
        back = ca.jtimes(flat, motion, weights, True)
        return ca.Function("pulled", [motion, weights], [ca.densify(back)])

    @cached_property
    def _asked(self) -> ca.Function:
        motion, parts = self._symbols
        body, model = Recursion(self._regressor.joints, *parts), self.problem.model
        places = [model.moving(frame, body.q, body.v).origin for frame in self.frames]
        found = ca.vertcat(self._rows[0], *places)
        others, values = parameters_in([found], "the frames", ignore=[motion]), self.problem.guess_on()
        found = ca.substitute(found, ca.vertcat(ca.SX(0, 1), *others), ca.DM([values[p.name] for p in others]))
        return ca.Function("asked", [motion], [ca.densify(found)])

    @cached_property
    def _asked_slopes(self) -> ca.Function:
        motion = self._symbols[0]
        return ca.Function("slopes", [motion], [ca.densify(ca.vec(ca.jacobian(self._asked(motion), motion)))])
