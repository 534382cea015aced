"""The steps in the window of a fixed-lag smoother, with their data, and the equations of factors at these steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spookid.errors import ProblemError
from spookid.kernels.arrays import Array, Mask
from spookid.kernels.precision import ROUNDING
from spookid.transcription.factor import Factor, Group, Kind
from spookid.transcription.transcription import Transcription

_ROOM = 4
"""Windows that a buffer has room for: steps move to its front once it is full, and not with every update."""


class Sliding:
    """Array of consecutive steps, the oldest first, contiguous in memory.

    Args:
        most: steps at the most.
        shape: of one step.
    """

    def __init__(self, most: int, shape: tuple[int, ...], kind: type = float) -> None:
        self._room: NDArray[Any] = np.zeros((_ROOM * most, *shape), dtype=kind)
        self._start = self._stop = 0
        self._address, self._stride = int(self._room.ctypes.data), self._room.strides[0]

    @property
    def values(self) -> NDArray[Any]:
        """A view, (steps, *shape)."""
        return self._room[self._start : self._stop]

    def __len__(self) -> int:
        return self._stop - self._start

    @property
    def address(self) -> int:
        """Of the oldest step's numbers."""
        return self._address + self._start * self._stride

    def append(self, value: object) -> None:
        """Add the newest step."""
        if self._stop == len(self._room):
            count = self._stop - self._start
            self._room[:count] = self._room[self._start : self._stop]
            self._start, self._stop = 0, count
        self._room[self._stop] = value
        self._stop += 1

    def drop(self) -> None:
        """Forget the oldest step."""
        self._start += 1


class Placed:
    """Factor along the window, with its data and its equations."""

    def __init__(self, factor: Factor, window: LagWindow, most: int) -> None:
        self.factor, self.offsets, self._window = factor, tuple(factor.variables), window
        self.tangent = t = window.manifold.tangent
        self.residual_kernel, self.jacobian_kernel = window.kernels.residual(factor), window.kernels.jacobian(factor)
        self.rows, self.columns = len(factor.rows), len(self.offsets) * t + len(window.names) + 1
        self.data = Sliding(most, (factor.data.numel(),))
        self.absent = Sliding(most, (self.rows,), bool)
        self.matrix = np.zeros((most, self.columns, self.rows))
        """Transposed Jacobians where it is linearized, and there the residual below, (most, columns, rows)."""
        self.residual = np.zeros((most, self.rows))
        """At the best point."""
        self._waits = self.factor.data.numel() > 0
        """True if it takes data."""
        self.native = False
        """True if compiled code evaluates it."""
        self.held: list[NDArray[Any]] = []
        """What compiled code has addresses of."""

    def append(self) -> None:
        """Add the equations that begin at a new step, inactive until they have data, if they use any."""
        self.data.append(0.0)
        self.absent.append(self._waits)

    def drop(self) -> None:
        """Delete the equations that begin at the oldest step."""
        self.data.drop()
        self.absent.drop()

    def count(self, steps: int, first: int) -> int:
        """Number of steps at which the factor applies, in a window whose oldest step has number ``first``; zero while
        none of its equations has data."""
        if self._waits and self.absent.values.all():
            return 0
        standing = max(steps - self.factor.reach, 0)
        return min(standing, int(first == 0)) if self.factor.first_only else standing

    @property
    def leaving(self) -> int:
        """Number of steps in the window if steps leave it, else zero."""
        return self._window.steps if self._window.steps == self._window.most else 0

    def standing(self, most: int) -> int:
        """Number of times that the factor applies in the first ``most`` steps."""
        return min(self.count(self._window.steps, self._window.first), most)

    def evaluate(self, states: Array, shared: Sequence[Array], count: int) -> None:
        """Residuals of the factor at given states, (count, rows)."""
        if count:
            self.residual_kernel(self._stepwise(states, count), shared, self.residual[:count])
            self.residual[:count][self.absent.values[:count]] = 0.0

    def linearize(self, states: Array, shared: Sequence[Array], count: int) -> None:
        """Transposed Jacobians of the factor, (count, columns, rows)."""
        if count:
            self.jacobian_kernel(self._stepwise(states, count), shared, self.matrix[:count])

    def _stepwise(self, states: Array, count: int) -> list[Array]:
        return [*(states[offset : offset + count] for offset in self.offsets), self.data.values[:count]]


class Beliefs:
    """Prior equations of the parameters, which are never marginalized."""

    def __init__(self, factor: Factor, window: LagWindow) -> None:
        self.placed = Placed(factor, window, 1)
        self.placed.append()
        given = [chain.data[factor.name][0] for chain in window.problem.chains if factor.name in chain.data]
        if given:
            self.set_data(next((data for data in given if np.any(data)), given[0]), None)

    def set_data(self, data: Array, missing: Mask | None) -> None:
        """Set the data of the only equation."""
        self.placed.data.values[0] = data
        self.placed.absent.values[0] = False if missing is None else missing

    def linearize(self, state: Array, shared: Sequence[Array]) -> None:
        """Linearize the prior, which is the same at any state."""
        self.placed.linearize(state, shared, 1)

    def evaluate(self, state: Array, shared: Sequence[Array]) -> float:
        """The cost."""
        self.placed.evaluate(state, shared, 1)
        return float(np.vdot(self.placed.residual[0], self.placed.residual[0]))

    @property
    def rows(self) -> Array:
        """(rows, n_p + 1)."""
        placed, t = self.placed, len(self.placed.offsets) * self.placed.tangent
        whole = np.concatenate([placed.matrix[0, t:-1].T, placed.residual[0][:, None]], axis=1)
        return np.asarray(np.where(placed.absent.values[0][:, None], 0.0, whole))


class LagWindow:
    """See the module.

    Args:
        transcription: of which the factors are taken, and the constants of its first chain.
        most: steps at the most.

    Raises:
        ProblemError: if there are rows that a smoother cannot take.
    """

    def __init__(self, transcription: Transcription, most: int) -> None:
        check(transcription)
        self.problem = transcription
        self.manifold, self.names = transcription.manifold, transcription.names
        self.reach = max(f.reach for f in transcription.factors)
        if most < self.reach + 1:
            raise ProblemError(
                f"window is {most} steps, but a factor connects {self.reach + 1} steps; give a window of this length"
            )
        self.most, self.kernels = most, transcription.kernels
        self.placed = [Placed(f, self, most) for f in transcription.factors if f.group is not Group.PRIOR]
        self.beliefs = [Beliefs(f, self) for f in transcription.factors if f.group is Group.PRIOR]
        self.by_name = {placed.factor.name: placed for placed in self.placed}
        self.states = Sliding(most, (self.manifold.ambient,))
        """Best values."""
        self.points = Sliding(most, (self.manifold.ambient,))
        """Where the rows are linearized, as far as ``frozen`` says; the best values elsewhere."""
        self.changes = 0
        """How often steps, or data of theirs, have come or gone."""
        self.frozen = 0
        """How many of the oldest steps stay where they were linearized."""
        self._best = True
        self.first = 0
        """Number of the oldest step."""
        self.numbers = transcription.numbers(0)
        self.hidden: Mask = ~np.isin(np.arange(self.manifold.tangent), transcription.visible)
        """True for tangent columns of private unknowns."""
        self._private = [self.manifold.coordinate(int(column)) for column in np.flatnonzero(self.hidden)]

    @property
    def steps(self) -> int:
        """How many are kept."""
        return len(self.states)

    def append(self, state: Array) -> None:
        """Add the newest step."""
        self.changes += 1
        for part in (self.states, self.points):
            part.append(state)
        for placed in self.placed:
            placed.append()

    def drop(self) -> None:
        """Delete the oldest step; linearization points of states in its equations stay fixed."""
        self.changes += 1
        for part in (self.states, self.points):
            part.drop()
        for placed in self.placed:
            placed.drop()
        self.first += 1
        self.frozen = min(self.reach, self.steps)

    def choose_points(self, best: bool) -> None:
        """Linearize all states at the best values, except those whose first estimates are fixed."""
        self.points.values[self.frozen :] = self.states.values[self.frozen :]
        self._best = best

    @property
    def linearized(self) -> Array:
        """Linearization points of the states, (steps, ambient)."""
        return self.states.values if self._best else self.points.values

    def linearize(self, point: Array, count: int, native: bool = True) -> None:
        """Jacobians of the first ``count`` steps at given parameters; without factors that compiled code has evaluated
        if not ``native``."""
        for placed in self._evaluated(native):
            placed.linearize(self.linearized, [point, self.numbers], placed.standing(count))

    def evaluate(self, parameters: Array, count: int, native: bool = True) -> float:
        """Residuals at the best values, and the cost of the prior."""
        shared = [parameters, self.numbers]
        for placed in self._evaluated(native):
            placed.evaluate(self.states.values, shared, placed.standing(count))
        return sum(beliefs.evaluate(self.states.values[:1], shared) for beliefs in self.beliefs)

    def _evaluated(self, native: bool) -> list[Placed]:
        """Factors that are anywhere in the window; those of the first step leave with it."""
        some = self.placed if native else [placed for placed in self.placed if not placed.native]
        return [placed for placed in some if not (placed.factor.first_only and self.first)]

    def oldest(self) -> tuple[float, int]:
        """Of the residuals that begin at the oldest step: their sum of squares, and how many of them have data and show
        what is measured, which is what it would be in the mean if the noise is as large as it is said to be."""
        square, count = 0.0, 0
        for placed in self.placed:
            if placed.standing(1) and not placed.factor.hard:
                square += float(np.vdot(placed.residual[0], placed.residual[0]))
                if placed.factor.group in (Group.OBSERVATION, Group.RESIDUAL):
                    count += placed.rows - int(np.count_nonzero(placed.absent.values[0]))
        return square, count

    def continued(self) -> Array:
        """State after the newest one, (ambient,), extrapolated by the last difference. Private unknowns of the newest
        steps have no equations yet: they are copied from the last step with all its equations."""
        states = self.states.values
        if len(states) == 1:
            return np.asarray(states[0].copy())
        if self.manifold.tangent == self.manifold.ambient:
            after = 2 * states[-1] - states[-2]
        else:
            room = np.empty((1, self.manifold.ambient))
            after = self.kernels.continued([states[-1:], states[-2:-1]], [], room)[0]
        after[self._private] = states[max(len(states) - max(self.reach, 1), 0), self._private]
        return np.asarray(after)

    def moved(self, states: Array, steps: Array) -> Array:
        """States (n, ambient) after tangent steps (n, t)."""
        if self.manifold.tangent == self.manifold.ambient:
            return np.asarray(states + steps)
        return self.kernels.mover([states, np.ascontiguousarray(steps)], [], np.empty_like(states))

    def rows(self, step: int, hard: bool) -> Array:
        """Equations whose oldest step is the ``step``-th in the window, in the unknowns of that and the next ``reach``
        steps, the parameters, and the residual, (m, (reach + 1) t + n_p + 1); constraints have largest entry 1."""
        t, n = self.manifold.tangent, len(self.names)
        parts = [np.zeros((0, (self.reach + 1) * t + n + 1))]
        for placed in self.placed:
            if placed.factor.hard is hard and step < placed.count(self.steps, self.first):
                block = np.zeros((placed.rows, parts[0].shape[1]))
                matrix = placed.matrix[step].T
                for i, offset in enumerate(placed.offsets):
                    block[:, offset * t : (offset + 1) * t] = matrix[:, i * t : (i + 1) * t]
                block[:, -n - 1 : -1] = matrix[:, len(placed.offsets) * t : -1]
                block[:, -1] = placed.residual[step]
                sizes = np.max(np.abs(block[:, :-1]), axis=1)
                least = ROUNDING * np.max(sizes) if hard else 0.0
                parts.append(block[(sizes > least) & ~placed.absent.values[step]])
        whole = np.concatenate(parts)
        return whole / np.max(np.abs(whole[:, :-1]), axis=1, keepdims=True, initial=1e-300) if hard else whole

    def believed(self) -> Array:
        """Prior equations of the parameters, (m, n_p + 1)."""
        if not self.beliefs:
            return np.zeros((0, len(self.names) + 1))
        return np.concatenate([beliefs.rows for beliefs in self.beliefs])

    def arrays(self) -> dict[str, Array]:
        """All that changes, by names."""
        found: dict[str, Array] = {
            "states": self.states.values.copy(),
            "points": self.points.values.copy(),
            "window": np.array([self.first, self.frozen]),
        }
        for placed in [*self.placed, *(beliefs.placed for beliefs in self.beliefs)]:
            found[f"data {placed.factor.name}"] = placed.data.values.copy()
            found[f"absent {placed.factor.name}"] = placed.absent.values.copy()
        return found

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Restore the content of ``arrays`` into an empty window."""
        for state, point in zip(arrays["states"], arrays["points"], strict=True):
            self.append(state)
            self.points.values[-1] = point
        self.first, self.frozen = (int(value) for value in arrays["window"])
        for placed in [*self.placed, *(beliefs.placed for beliefs in self.beliefs)]:
            placed.data.values[:] = arrays[f"data {placed.factor.name}"]
            placed.absent.values[:] = arrays[f"absent {placed.factor.name}"]
        self.changes += 1


def check(transcription: Transcription) -> None:
    """Raise ProblemError for equations that a smoother does not support."""
    for factor in transcription.factors:
        if factor.box is not None or factor.kind in {Kind.PAIRS, Kind.INEQUALITY}:
            raise ProblemError(
                f"the equations {factor.name} are not smooth, which a fixed-lag smoother does not support; "
                'choose friction="smooth"'
            )
        if factor.group is Group.PRIOR and not factor.soft:
            raise ProblemError(f"constraints {factor.name} contain parameters only; fix a parameter")
