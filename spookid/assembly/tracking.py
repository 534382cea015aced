"""Joint coordinates in least squares from what sensors of rates and accelerations show, all steps at once.

With d the coordinates of the joints, whose rates are differences over the steps around each, sensors show
y(d, ḋ, d̈, θ), θ the Parameters that stand in sensors alone, such as biases. A weak pull to the rest positions and to
the initial values of θ settles what no sensor sees; biases yield to it before angles do, and so it takes the drift
away. It acts on means of neighbouring steps, and to lines: differences over two steps do not distinguish even
steps from odd ones.

Poses along which loops close and sensors show what they have shown, of all steps at once.

In joint coordinates (``JointCoordinates``) the rows of the joints that close loops, of constraints and of sensors are
made least by Gauss–Newton. Each step stays on the branch of the step before, and what rows leave free moves as little
as it can between neighbours: where no row tells, coordinates stay where they are.

Steps are solved in windows, each from the pose before the window. A window is believed up to the first step that is
not where a linear prediction from its neighbour has it, such as one on the other branch of a loop; the next one begins
there, so that the first of each window is that which a march step by step would find.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import casadi as ca
import numpy as np

from spookid.data.channels import Channel, all_predicted, apart, signed
from spookid.data.state import State
from spookid.kernels.arrays import Array, Mask, contiguous
from spookid.kernels.kernel import Kernel
from spookid.kernels.precision import EQUAL, HALVINGS, MET, NEWTON
from spookid.mechanics.joint_coordinates import JointCoordinates
from spookid.mechanics.kinematics import Values
from spookid.mechanics.manifold import Manifold, jacobian
from spookid.mechanics.model import Model
from spookid.parameter import Parameter, parameters_in, stacked
from spookid.records import dataclass
from spookid.solvers.quadratic_program import DECREASE

_PULL = 1e-3
"""Weight of the pull, per rad, m or magnitude of a Parameter, against errors as shares of what a sensor shows."""
_TRIALS = 4
"""Steps from an angle that is tried, at the most."""
_SHARE_LEFT = 1e-6
"""Share of the cost that a step takes at the end."""
TURNS = 8
"""Angles at which a hinge is tried."""
BETTER = 0.9
"""Share of the cost below which another angle is taken."""


@dataclass(frozen=True, eq=False)
class Motion:
    """Coordinates of all joints at the steps; some of them are not measured."""

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
    """Least-squares fit of joint coordinates to position channels, without dynamics.

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
        """Unmeasured coordinates with least residuals, (N, n), from a start; from rest if None."""
        rest = self._motion.moved[:, self._hidden]
        best = self._descended(_Point(rest if start is None else start, self._guess, rest), _TRIALS)
        for j, period in self._turning.items():
            before, least = best, BETTER * self._cost(best)
            for turn in period / TURNS * np.arange(1, TURNS):
                along = turn * np.eye(len(self._hidden))[j]
                point = _Point(before.hidden + along, self._guess, before.rest + along)
                trial = self._descended(point, _TRIALS)
                if self._cost(trial) < least:
                    best, least = trial, self._cost(trial)
        return self._descended(best, NEWTON).hidden

    def _descended(self, point: _Point, most: int) -> _Point:
        """After so many steps of Gauss and Newton, or fewer."""
        cost = self._cost(point)
        for _ in range(most):
            step, change = self._step(point)
            for halving in range(HALVINGS):
                share = 0.5**halving
                theta = np.clip(point.theta + share * change, self._lower, self._upper)
                trial = replace(point, hidden=point.hidden + share * step, theta=theta)
                reached = self._cost(trial)
                if reached < cost:
                    break
            else:
                break
            point, gained, cost = trial, cost - reached, reached
            if gained <= _SHARE_LEFT * cost:
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
    """Coordinates (N, n) with their first and second differences at the inner steps, (N − 2, n) each."""
    return d[1:-1], (d[2:] - d[:-2]) / (2 * step), (d[2:] - 2 * d[1:-1] + d[:-2]) / step**2


def state_at(model: Model, d: ca.SX, rate: ca.SX, acceleration: ca.SX) -> State:
    """State for coordinates of all joints and their derivatives, (n_s,) each; free bodies rest at the origin."""
    q = JointCoordinates(model).posed(d)
    v = model.configuration.lowered(q, ca.densify(ca.jtimes(q, d, rate)))
    a = ca.jtimes(v, ca.vertcat(d, rate), ca.vertcat(rate, acceleration))
    return State(model, q, ca.densify(v), ca.densify(a))


_STIFF = 1e4
"""Weight of the constraints against observations that contradict them: what remains of them is 1e-8 of the noise."""
_TIE = 1e-6
"""Weight of the change from the step before, which determines what rows leave free."""
_MOST_IN_WINDOW = 20
"""Steps that do not converge in a window are begun again nearer by."""
_FARTHEST = 0.5
"""Of a correction [rad or m]: far starts stay on the branch they are on."""
_ASTRAY = 0.5
"""Share of the way between neighbours by which a linear prediction may miss it."""
_JUMP = 4.0
"""Of the median way between neighbours: shorter ones lead to no other branch."""
_FIRST_WINDOW = 32
"""Steps; each window is twice as long as one that was accepted whole."""
_LONGEST_WINDOW = 4096


class Tracking:
    """Residuals of loop constraints and position channels in joint coordinates x (n_x,), with n rates.

    Args:
        values: of every parameter.
        tied: whether constraints are held, too.
        weights: of the channels, 1 by default.
    """

    def __init__(
        self, model: Model, channels: Sequence[Channel], values: Values, tied: bool = True, weights: Array | None = None
    ) -> None:
        joints = JointCoordinates(model)
        self.space: Manifold = joints.manifold
        x, before, step = (ca.SX.sym(name, self.space.ambient) for name in ("x", "before", "step"))
        step, measured = step[: self.space.tangent], ca.SX.sym("measured", len(channels))
        q = joints.configuration(x)
        held = model.holding.told_by_poses(q, tied)
        of_tree = {row for joint in joints.tree for row in range(held.numel())[model.rows_of(joint)]}
        held = held[[row for row in range(held.numel()) if row not in of_tree]]
        shown = all_predicted(channels, State(model, q, ca.SX(model.configuration.tangent, 1)))
        near = signed(channels, measured, shown)
        errors = ca.vertcat(ca.SX(0, 1), *(apart(c, shown[i], near[i]) for i, c in enumerate(channels)))
        rows = ca.vertcat(_STIFF * held, errors if weights is None else ca.DM(weights) * errors)
        slope = jacobian(rows, x, self.space)
        way = self.space.difference(x, before)
        system = ca.blockcat([[slope, rows], [_TIE * ca.SX.eye(way.numel()), _TIE * way]])
        symbols = [x, measured, before, step]
        parameters = parameters_in([rows, slope, q], "the model", ignore=symbols)
        self._system = _kernel("system", [x, before, measured], system, parameters)
        self._moved = _kernel("moved", [x, step], self.space.retract(x, step), [])
        self._way = _kernel("way", [x, before], way, [])
        self._posed = _kernel("posed", [x], q, parameters)
        self._coordinates = _kernel(
            "coordinates",
            [d := ca.SX.sym("d", len(model.freedoms))],
            joints.coordinates(d, ca.repmat(ca.SX([0, 0, 0, 1, 0, 0, 0]), len(joints.roots), 1)),
            [],
        )
        self._rows, self._sizes = rows.numel(), (system.shape, q.numel())
        self._shared = [contiguous([values[p.name] for p in parameters])] if parameters else []

    def at(self, displacements: Array) -> Array:
        """Coordinates x for displacements of all joints, free bodies at the origin, (N, n_s) to (N, n_x)."""
        return self._coordinates([contiguous(displacements)], [], self._points(len(displacements)))

    def poses(self, x: Array) -> Array:
        """Poses q for coordinates x, (N, n_x) to (N, 7 n_b)."""
        return self._posed([contiguous(x)], self._shared, np.empty((len(x), self._sizes[1])))

    def moved(self, x: Array, steps: Array) -> Array:
        """Coordinates x ⊞ step, (N, n_x), (N, n) to (N, n_x)."""
        return self._moved([contiguous(x), contiguous(steps)], [], self._points(len(x)))

    def rows(self, x: Array, targets: Array) -> Array:
        """Residuals of constraints, multiplied by 1e4, and of channels, (N, rows)."""
        return self._equations(x, x, targets)[:, : self._rows, -1]

    def slopes(self, x: Array, targets: Array) -> Array:
        """Derivatives of these residuals with respect to the n rates, (N, rows, n)."""
        return self._equations(x, x, targets)[:, : self._rows, :-1]

    def settled(self, x: Array, targets: Array) -> Array:
        """Coordinates with least residuals, each from its own start, (N, n_x), (N, n_o) to (N, n_x)."""
        for _ in range(NEWTON):
            equations = self._equations(x, x, targets)
            found = _corrections(equations)
            steps = self._damped(equations, found.steps)
            x = self.moved(x, steps)
            if np.all(found.settled(steps)):
                break
        return x

    def _damped(self, equations: Array, steps: Array) -> Array:
        """Corrections of at most ``_FARTHEST``, by damping: scaling all of them would stall where one is singular."""
        steps = steps.copy()
        while len(far := np.flatnonzero(np.abs(steps).max(axis=1, initial=0.0) > _FARTHEST)):
            equations[far, self._rows :] *= 10
            steps[far] = _corrections(equations[far]).steps
        return steps

    def along(self, start: Array, targets: Array) -> Array:
        """Coordinates with least residuals, each starting at the preceding one, (n_x,), (N, n_o) to (N, n_x)."""
        found, size = [self.settled(start[None], targets[:1])], _FIRST_WINDOW
        at = 1
        while at < len(targets):
            window = self._followed(found[-1][-1:], targets[at : at + size])
            found.append(window)
            at, whole = at + len(window), len(window) == size
            size = min(2 * size, _LONGEST_WINDOW) if whole else len(window)
        return np.concatenate(found)

    def _followed(self, start: Array, targets: Array) -> Array:
        """The first points of a window, all that are believed, at least one."""
        x = np.repeat(start, len(targets), axis=0)
        for _ in range(_MOST_IN_WINDOW):
            found = _corrections(self._equations(x, np.concatenate([start, x[:-1]]), targets))
            steps = _limited(found.chained())
            x = self.moved(x, steps)
            if np.all(settled := found.settled(steps)):
                break
        else:  # where the first has no point of rest, its neighbours have none, and rows contradict each other
            different = settled != settled[0]
            x = x[: int(np.argmax(different))] if np.any(different) else x
        before = np.concatenate([start, x[:-1]])
        ways = self._way([x, before], [], np.empty((len(x), self.space.tangent)))
        direct = _corrections(self._equations(before, before, targets[: len(x)])).steps
        missed = np.abs(ways - direct).max(axis=1, initial=0.0)
        far = np.abs(ways).max(axis=1, initial=0.0)
        astray = (missed > _ASTRAY * far + MET) & (far > _JUMP * np.median(far))
        return x[: 1 + int(np.argmax(astray[1:]))] if np.any(astray[1:]) else x

    def _equations(self, x: Array, before: Array, targets: Array) -> Array:
        """Slopes and values, of the rows and of the way from ``before``, (N, rows + n, n + 1)."""
        out = np.empty((len(x), *self._sizes[0][::-1]))
        stepwise = [contiguous(part) for part in (x, before, targets)]
        return self._system(stepwise, self._shared, out).transpose(0, 2, 1)

    def _points(self, count: int) -> Array:
        return np.empty((count, self.space.ambient))


def _kernel(name: str, repeated: Sequence[ca.SX], expression: ca.SX, parameters: Sequence[Parameter]) -> Kernel:
    symbols = [*repeated, *([ca.vertcat(*parameters)] if parameters else [])]
    return Kernel(ca.Function(name, symbols, [ca.densify(expression)]), len(repeated))


@dataclass(frozen=True, eq=False)
class _Corrections:
    """Of Gauss and Newton."""

    steps: Array
    """(N, n)."""
    passed: Array
    """What of a correction of the step before each takes on, (N, n, n)."""
    gained: Array
    """Share of what is left of the rows that each takes away, in squares, (N,)."""

    def settled(self, steps: Array) -> Mask:
        """True where a further iteration would not change the solution, (N,)."""
        return np.asarray((np.abs(steps).max(axis=1, initial=0.0) <= EQUAL) | (self.gained <= DECREASE))

    def chained(self) -> Array:
        """Solve the recursion δ_k = step_k + passed_k δ_{k−1} by doubling."""
        steps, passed, shift = self.steps.copy(), self.passed, 1
        while shift < len(steps) and np.max(np.abs(passed), initial=0.0) > EQUAL:
            steps[shift:] += np.matmul(passed[shift:], steps[:-shift, :, None])[:, :, 0]
            passed = np.concatenate([passed[:shift], np.matmul(passed[shift:], passed[:-shift])])
            shift *= 2
        return steps


def _corrections(systems: Array) -> _Corrections:
    """None where anything is not finite, which will be traced where all residuals are."""
    n = systems.shape[2] - 1
    finite = np.all(np.isfinite(systems), axis=(1, 2))
    regular = np.where(finite[:, None, None], systems, np.eye(*systems.shape[1:]))
    triangles = np.asarray(np.linalg.qr(regular, mode="r"))
    inverse, right = np.linalg.inv(triangles[:, :n, :n]), triangles[:, :, n]
    steps = -np.matmul(inverse, right[:, :n, None])[:, :, 0] * finite[:, None]
    gain, left = np.sum(right[:, :n] ** 2, axis=1), np.sum(right**2, axis=1)
    gained = np.divide(gain, left, out=np.zeros(len(left)), where=left > 0) * finite
    return _Corrections(steps, _TIE**2 * np.matmul(inverse, inverse.transpose(0, 2, 1)), gained)


def _limited(steps: Array) -> Array:
    longest = np.abs(steps).max(axis=1, initial=0.0, keepdims=True)
    return np.asarray(steps * np.minimum(1.0, _FARTHEST / np.maximum(longest, 1e-300)))
