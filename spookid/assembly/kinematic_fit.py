"""Joint coordinates in least squares from what sensors of rates and accelerations show, all steps at once.

With d the coordinates of the joints, whose rates are differences over the steps around each, sensors show
y(d, ḋ, d̈, θ), θ the Parameters that stand in sensors alone, such as biases. A weak pull to the rest positions and to
the guesses of θ settles what no sensor sees; biases yield to it before angles do, and so it takes the drift away. It
acts on means of neighbouring steps, and to lines: differences over two steps do not tell even steps from odd ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import casadi as ca
import numpy as np

from spookid.data.channels import Channel, apart
from spookid.data.state import State
from spookid.kernels.arrays import Array
from spookid.mechanics.joint_coordinates import JointCoordinates
from spookid.mechanics.kinematics import Values
from spookid.mechanics.model import Model
from spookid.parameter import parameters_in, stacked
from spookid.records import dataclass

_PULL = 1e-3
"""Weight of the pull, per rad, m or magnitude of a Parameter, against errors as shares of what a sensor shows."""
_ITERATIONS, _TRIALS, _HALVINGS = 30, 4, 8
"""At the most: of a fit, of one from an angle that is tried, of a step."""
_SETTLED = 1e-6
"""Share of the cost that a step takes at the end."""
_TURNS = 8
"""Angles at which a hinge is tried."""
BETTER = 0.9
"""Share of the cost below which another angle is taken."""


@dataclass(frozen=True, eq=False)
class Motion:
    """Coordinates of all joints at the steps, some of them hidden."""

    moved: Array
    """(N, n_s), hidden ones at rest."""
    hidden: Sequence[int]
    """Numbers of those that no sensor of positions shows, n."""
    step: float
    """h [s]."""


@dataclass(frozen=True, eq=False)
class _Point:
    """Where a fit stands."""

    hidden: Array
    """Coordinates that are sought, (N, n)."""
    theta: Array
    """θ, (n_p,)."""
    rest: Array
    """To where the coordinates are pulled, (N, n)."""


class KinematicFit:
    """The least squares of some channels.

    Args:
        measured: what they have shown at the steps, smooth and without gaps, (N, n_o).
        values: of every parameter.
    """

    def __init__(
        self, model: Model, channels: Sequence[Channel], measured: Array, motion: Motion, values: Values
    ) -> None:
        self._motion, self._hidden, self._measured = motion, list(motion.hidden), measured
        sizes = np.sqrt(np.mean(measured**2, axis=0))
        symbols = [ca.SX.sym(name, len(model.freedoms)) for name in ("d", "rate", "acceleration")]
        y = ca.SX.sym("y", len(channels))
        state = state_at(model, *symbols)
        errors = ca.vertcat(*(apart(c, c.predicted(state), y[i]) for i, c in enumerate(channels)))
        errors = ca.densify(errors / ca.DM(np.where(sizes > 0, sizes, 1.0)))
        every = parameters_in([errors], "the sensors", ignore=[*symbols, y])
        of_model = {p.order for p in parameters_in(model.expressions(), "the model")}
        own, known = ([p for p in every if (p.order in of_model) == inside] for inside in (False, True))
        slopes = [ca.jacobian(errors, s[self._hidden]) for s in symbols]
        columns = range(len(self._hidden))
        self.seen = {j for slope in slopes for j in columns if slope[:, j].nnz()}
        """Which of the hidden coordinates the channels see."""
        periods = [model.freedoms[i].coordinate.period for i in motion.hidden]
        self._turning = {j: p for j, p in enumerate(periods) if p is not None and slopes[0][:, j].nnz()}
        outputs = [errors, *map(ca.densify, slopes), ca.densify(ca.jacobian(errors, stacked(own)))]
        outputs = ca.substitute(outputs, list(known), [ca.SX(values[p.name]) for p in known])
        self._function = ca.Function("errors", [*symbols, y, stacked(own)], outputs)
        self._pulls = _pulls(len(motion.moved))
        self._guess = np.array([values[p.name] for p in own])
        self._magnitudes = np.array([abs(values[p.name]) or 1.0 for p in own])
        self._lower, self._upper = np.array([p.lower for p in own]), np.array([p.upper for p in own])

    def solved(self, start: Array | None = None) -> Array:
        """Hidden coordinates of least error, (N, n), from a start; None: from rest."""
        rest = self._motion.moved[:, self._hidden]
        best = self._descended(_Point(rest if start is None else start, self._guess, rest), _TRIALS)
        for j, period in self._turning.items():
            before, least = best, BETTER * self._cost(best)
            for turn in period / _TURNS * np.arange(1, _TURNS):
                along = turn * np.eye(len(self._hidden))[j]
                point = _Point(before.hidden + along, self._guess, before.rest + along)
                trial = self._descended(point, _TRIALS)
                if self._cost(trial) < least:
                    best, least = trial, self._cost(trial)
        return self._descended(best, _ITERATIONS).hidden

    def _descended(self, point: _Point, most: int) -> _Point:
        """After so many steps of Gauss and Newton, or fewer."""
        cost = self._cost(point)
        for _ in range(most):
            step, change = self._step(point)
            for halving in range(_HALVINGS):
                share = 0.5**halving
                theta = np.clip(point.theta + share * change, self._lower, self._upper)
                trial = replace(point, hidden=point.hidden + share * step, theta=theta)
                reached = self._cost(trial)
                if reached < cost:
                    break
            else:
                break
            point, gained, cost = trial, cost - reached, reached
            if gained <= _SETTLED * cost:
                break
        return point

    def _evaluated(self, point: _Point) -> list[Array]:
        """Errors (m,) and their slopes in d, ḋ, d̈ (m, n) and θ (m, n_p) at the inner steps, each (N − 2, ...)."""
        d = self._motion.moved.copy()
        d[:, self._hidden] = point.hidden
        columns = [part.T for part in (*derivatives(d, self._motion.step), self._measured[1:-1])]
        results = self._function(*columns, point.theta)
        count, m = len(d) - 2, self._measured.shape[1]
        # CasADi lays the matrices of all steps side by side.
        return [np.asarray(r.full()).reshape(m, count, -1).swapaxes(0, 1) for r in results]

    def _pull(self, point: _Point) -> Array:
        away = self._pulls @ (point.hidden - point.rest)
        return _PULL * np.append(away, (point.theta - self._guess) / self._magnitudes)

    def _cost(self, point: _Point) -> float:
        return float(np.sum(self._evaluated(point)[0] ** 2) + np.sum(self._pull(point) ** 2))

    def _step(self, point: _Point) -> tuple[Array, Array]:
        """Of Gauss and Newton, in the hidden coordinates (N, n) and in θ (n_p,)."""
        from scipy import sparse  # slow to load, and few ask for it
        from scipy.sparse.linalg import splu

        (count, n), h = point.hidden.shape, self._motion.step
        errors, position, rate, acceleration, own = self._evaluated(point)
        blocks = [
            acceleration / h**2 - rate / (2 * h),
            position - 2 * acceleration / h**2,
            acceleration / h**2 + rate / (2 * h),
        ]
        rows = np.arange(errors.size).reshape(errors.shape)
        places = [n * np.arange(o, o + count - 2).reshape(-1, 1, 1) + np.arange(n) for o in range(3)]
        places.append(n * count + np.arange(own.shape[2]).reshape(1, 1, -1))
        entries = [np.broadcast_arrays(b, rows, p) for b, p in zip([*blocks, own], places, strict=True)]
        values, i, j = (np.concatenate([np.ravel(entry[k]) for entry in entries]) for k in range(3))
        away = sparse.kron(self._pulls, sparse.eye_array(n))
        pull = _PULL * sparse.block_diag([away, sparse.diags_array(1 / self._magnitudes)])
        slope = sparse.csc_matrix((values, (i, j)), shape=(errors.size, pull.shape[1]))
        right = slope.T @ errors.ravel() + pull.T @ self._pull(point)
        step = -splu((slope.T @ slope + pull.T @ pull).tocsc()).solve(right)
        return step[: n * count].reshape(count, n), step[n * count :]


def _pulls(count: int) -> Any:
    """Of values at so many steps the means of neighbours and the second differences, a sparse (2 N − 3, N)."""
    from scipy import sparse  # slow to load, and few ask for it

    means = sparse.diags_array([0.5, 0.5], offsets=[0, 1], shape=(count - 1, count))
    bends = sparse.diags_array([1.0, -2.0, 1.0], offsets=[0, 1, 2], shape=(count - 2, count))
    return sparse.vstack([means, bends]).tocsr()


def derivatives(d: Array, step: float) -> tuple[Array, Array, Array]:
    """Coordinates (N, n) and their first and second differences at the inner steps, (N − 2, n) each."""
    return d[1:-1], (d[2:] - d[:-2]) / (2 * step), (d[2:] - 2 * d[1:-1] + d[:-2]) / step**2


def state_at(model: Model, d: ca.SX, rate: ca.SX, acceleration: ca.SX) -> State:
    """The state at coordinates of all joints and their derivatives, (n_s,) each; free bodies rest at the origin."""
    q = JointCoordinates(model).posed(d)
    v = model.configuration.lowered(q, ca.densify(ca.jtimes(q, d, rate)))
    a = ca.jtimes(v, ca.vertcat(d, rate), ca.vertcat(rate, acceleration))
    return State(model, q, ca.densify(v), ca.densify(a))
