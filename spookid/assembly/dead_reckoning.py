"""Coordinates of joints that no sensor of positions shows, from those of rates and accelerations, for an initial guess.

All steps at once, in least squares: with d the coordinates of the joints, whose rates are differences over the steps
around each, sensors show y(d, ḋ, d̈, θ), θ the Parameters that stand in sensors alone, such as biases. Rates come first
and accelerations after, for these are far from linear in d. A weak pull to the rest positions and to the guesses of θ
settles what no sensor sees; biases yield to it before angles do, and so it takes the drift away.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import casadi as ca
import numpy as np

from spookid.data.channels import Channel, apart, order
from spookid.data.state import State
from spookid.kernels.kernel import Array
from spookid.mechanics.joint_coordinates import JointCoordinates
from spookid.mechanics.kinematics import Values
from spookid.mechanics.model import Model
from spookid.parameter import parameters_in

_PULL = 1e-3
"""Weight of the pull, per rad, m or magnitude of a Parameter, against errors as shares of what a sensor shows."""
_ITERATIONS, _HALVINGS = 30, 8
_SETTLED = 1e-6
"""Share of the cost that a step takes at the end."""
_TURNS = 8
"""Angles at which a hinge is tried whose place in its turn only accelerations tell."""


@dataclass(frozen=True, eq=False)
class Motion:
    """Coordinates of all joints at the steps, some of them hidden."""

    moved: Array
    """(N, n_s), hidden ones at rest."""
    hidden: Sequence[int]
    """Numbers of those that no sensor of positions shows, n."""
    step: float
    """h [s]."""


def reckoned(
    model: Model, channels: Sequence[Channel], measured: Array, motion: Motion, values: Values
) -> tuple[Array, list[int]]:
    """Coordinates of all joints, (N, n_s), and the numbers of those that could be told from no sensor.

    Args:
        channels: all that there are.
        measured: what they have shown at the steps, smooth and without gaps, (N, n_o).
        values: of every parameter.
    """
    orders, found, seen = [order(channel, model) for channel in channels], None, set[int]()
    for most in (1, 2):
        if most not in orders:
            continue
        chosen = [i for i, n in enumerate(orders) if 0 < n <= most]
        fit = _Fit(model, [channels[i] for i in chosen], measured[:, chosen], motion, values)
        if fit.seen:
            found = fit.solved(fit.start() if found is None else found)
            seen |= fit.seen
    moved = motion.moved.copy()
    if found is not None:
        moved[:, list(motion.hidden)] = found
    return moved, [number for i, number in enumerate(motion.hidden) if i not in seen]


def seen_by(model: Model, channels: Sequence[Channel]) -> set[int]:
    """Numbers of the coordinates of a tree of joints that channels of positions see."""
    d = ca.SX.sym("d", len(model.freedoms))
    state = _state(model, d, ca.SX(d.numel(), 1), ca.SX(d.numel(), 1))
    shown = ca.vertcat(ca.SX(0, 1), *(channel.predicted(state) for channel in channels))
    slope = ca.jacobian(shown, d)
    return {j for j in range(d.numel()) if slope[:, j].nnz()}


class _Fit:
    """The least squares of some channels."""

    def __init__(
        self, model: Model, channels: Sequence[Channel], measured: Array, motion: Motion, values: Values
    ) -> None:
        self._motion, self._hidden = motion, list(motion.hidden)
        self._measured, self._sizes = measured, np.sqrt(np.mean(measured**2, axis=0))
        self._turning = [model.freedoms[i].coordinate.period for i in motion.hidden]
        self._accelerated = any(order(channel, model) == 2 for channel in channels)
        symbols = [ca.SX.sym(name, len(model.freedoms)) for name in ("d", "rate", "acceleration")]
        y = ca.SX.sym("y", len(channels))
        state = _state(model, *symbols)
        errors = ca.vertcat(*(apart(c, c.predicted(state), y[i]) for i, c in enumerate(channels)))
        errors = ca.densify(errors / ca.DM(np.where(self._sizes > 0, self._sizes, 1.0)))
        every = parameters_in([errors], "the sensors", ignore=[*symbols, y])
        known = {p.order for p in parameters_in(model.expressions(), "the model")}
        own = [p for p in every if p.order not in known]
        theta = ca.vertcat(ca.SX(0, 1), *own)
        slopes = [ca.jacobian(errors, s[self._hidden]) for s in symbols]
        self.seen = {j for s in slopes for j in range(len(self._hidden)) if s[:, j].nnz()}
        """Which of the hidden coordinates the channels see."""
        outputs = [errors, *map(ca.densify, slopes), ca.densify(ca.jacobian(errors, theta))]
        numbers = [p for p in every if p.order in known]
        outputs = ca.substitute(outputs, numbers, [ca.SX(values[p.name]) for p in numbers])
        self._function = ca.Function("errors", [*symbols, y, theta], outputs)
        self._guess = np.array([values[p.name] for p in own])
        self._magnitudes = np.array([abs(values[p.name]) or 1.0 for p in own])
        self._lower, self._upper = np.array([p.lower for p in own]), np.array([p.upper for p in own])

    def start(self) -> Array:
        """Hidden coordinates at rest, (N, n)."""
        return self._motion.moved[:, self._hidden]

    def solved(self, hidden: Array) -> Array:
        """Hidden coordinates of least error, from a start, (N, n)."""
        hidden, theta = self._turned(hidden), self._guess
        cost = self._cost(hidden, theta)
        for _ in range(_ITERATIONS):
            step, turn = self._step(hidden, theta)
            for halving in range(_HALVINGS):
                share = 0.5**halving
                trial = hidden + share * step, np.clip(theta + share * turn, self._lower, self._upper)
                reached = self._cost(*trial)
                if reached < cost:
                    break
            else:
                break
            (hidden, theta), gained, cost = trial, cost - reached, reached
            if gained <= _SETTLED * cost:
                break
        return hidden

    def _turned(self, hidden: Array) -> Array:
        """With hinges at the angle in their turn, of some, at which the errors are least."""
        for j, period in enumerate(self._turning if self._accelerated else []):
            if period is not None:
                tried = [hidden + turn * np.eye(len(self._hidden))[j] for turn in period / _TURNS * np.arange(_TURNS)]
                hidden = min(tried, key=lambda one: self._cost(one, self._guess, pulled=False))
        return hidden

    def _evaluated(self, hidden: Array, theta: Array) -> list[Array]:
        """Errors (m,) and their slopes in d, ḋ, d̈ (m, n) and θ (m, n_p) at the inner steps, each (N − 2, ...)."""
        h, d = self._motion.step, self._motion.moved.copy()
        d[:, self._hidden] = hidden
        rates, accelerations = (d[2:] - d[:-2]) / (2 * h), (d[2:] - 2 * d[1:-1] + d[:-2]) / h**2
        columns = [part.T for part in (d[1:-1], rates, accelerations, self._measured[1:-1])]
        results = self._function(*columns, theta)
        count, m = len(rates), self._measured.shape[1]
        # CasADi lays the matrices of all steps side by side.
        return [np.asarray(r.full()).reshape(m, count, -1).swapaxes(0, 1) for r in results]

    def _pull(self, hidden: Array, theta: Array) -> tuple[Array, Array]:
        return _PULL * (hidden - self.start()), _PULL * (theta - self._guess) / self._magnitudes

    def _cost(self, hidden: Array, theta: Array, pulled: bool = True) -> float:
        parts = [self._evaluated(hidden, theta)[0], *(self._pull(hidden, theta) if pulled else ())]
        return float(sum(np.sum(part**2) for part in parts))

    def _step(self, hidden: Array, theta: Array) -> tuple[Array, Array]:
        """Of Gauss and Newton, in the hidden coordinates (N, n) and in θ (n_p,)."""
        from scipy import sparse  # slow to load, and few ask for it
        from scipy.sparse.linalg import splu

        (count, n), h = hidden.shape, self._motion.step
        errors, position, rate, acceleration, own = self._evaluated(hidden, theta)
        blocks = [
            acceleration / h**2 - rate / (2 * h),
            position - 2 * acceleration / h**2,
            acceleration / h**2 + rate / (2 * h),
        ]
        m = errors.shape[1]
        rows = np.arange((count - 2) * m).reshape(count - 2, m, 1)
        places = [n * np.arange(o, o + count - 2).reshape(-1, 1, 1) + np.arange(n) for o in range(3)]
        places.append(n * count + np.arange(len(theta)).reshape(1, 1, -1))
        entries = [np.broadcast_arrays(b, rows, p) for b, p in zip([*blocks, own], places, strict=True)]
        values, i, j = (np.concatenate([np.ravel(entry[k]) for entry in entries]) for k in range(3))
        slope = sparse.csc_matrix((values, (i, j)), shape=(rows.size, n * count + len(theta)))
        weights = np.concatenate([np.full(n * count, _PULL), _PULL / self._magnitudes])
        right = slope.T @ errors.ravel() + weights * np.concatenate([np.ravel(p) for p in self._pull(hidden, theta)])
        step = -splu((slope.T @ slope + sparse.diags(weights**2)).tocsc()).solve(right)
        return step[: n * count].reshape(count, n), step[n * count :]


def _state(model: Model, d: ca.SX, rate: ca.SX, acceleration: ca.SX) -> State:
    """The state at coordinates of all joints and their derivatives, (n_s,) each; free bodies rest at the origin."""
    joints = JointCoordinates(model)
    at_origin = ca.vertcat(ca.SX(0, 1), *(ca.SX([0, 0, 0, 1, 0, 0, 0]) for _ in joints.roots))
    q = joints.configuration(joints.coordinates(d, at_origin))
    v = model.configuration.lowered(q, ca.densify(ca.jtimes(q, d, rate)))
    a = ca.jtimes(v, ca.vertcat(d, rate), ca.vertcat(rate, acceleration))
    return State(model, q, ca.densify(v), ca.densify(a))
