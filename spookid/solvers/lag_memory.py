"""Marginalized steps of a fixed-lag smoother, and the elimination of the steps in its window, in NumPy and in C."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping

import numpy as np

from spookid.kernels.arrays import Array, Integers, contiguous
from spookid.kernels.precision import ROUNDING, TINY
from spookid.kernels.window import FactorRows, WindowRoutines, WindowRows, addresses, vectors, window_library
from spookid.solvers.fronts import Front, Pivots, eliminate, settled
from spookid.solvers.lag_window import LagWindow, Placed

_PARTS = [f"{front} {part}" for front in ("carried", "border") for part in ("soft", "hard", "linear")]


class Memory:
    """Marginalized equations, and the equations of the window that are eliminated with them."""

    def __init__(self, window: LagWindow) -> None:
        self._window = window
        self._t, self._n = window.manifold.tangent, len(window.names)
        self._carried = _empty(window.reach * self._t + self._n)
        """Of the oldest states that are kept and the parameters."""
        self._border = _empty(self._n)
        """Of the parameters alone."""
        self.score, self.information = np.zeros(self._n), np.zeros((self._n, self._n))
        """Of rows that have left; see ``FixedLag.released``."""
        self._found: list[Pivots] = []

    def linearize(self, parameters: Array, point: Array | None, count: int) -> None:
        """Linearize the equations of the first ``count`` steps at the first estimates of states and parameters
        (``point``); without ``point``, at the best values."""
        window = self._window
        window.choose_points(point is None)
        window.linearize(parameters if point is None else point, count)
        for beliefs in window.beliefs:
            beliefs.linearize(window.states.values[:1], [parameters, window.numbers])
        self.evaluate(parameters, count)

    def evaluate(self, parameters: Array, count: int) -> tuple[float, float]:
        """Cost of the window's residuals at the best values, and the largest constraint violation."""
        cost = self._window.evaluate(parameters, count)
        found = [(p, p.residual[: p.standing(count)]) for p in self._window.placed]
        cost += sum(float(np.vdot(values, values)) for placed, values in found if not placed.factor.hard)
        hard = [np.max(np.abs(values), initial=0.0) for placed, values in found if placed.factor.hard]
        return cost, float(max(hard, default=0.0))

    def border_step(self, border: Pivots) -> Array:
        """Step of the parameters without bounds."""
        step = np.zeros(border.count)
        border.solve(step)
        return step

    def factorize(self, slopes: Array, beside: Array) -> Pivots:
        """Eliminate all steps, then the parameters, whose equations are returned. ``slopes``: linear terms of the
        equations by their oldest step, (steps, (reach + 1) t + n_p); ``beside``: more equations of the parameters
        alone, (m, n_p + 1)."""
        carried, firm, rest = self._carried, self._border.hard, [self._border.soft, beside]
        self._found = []
        for step in range(self._window.steps):
            found, carried, more = self._eliminated(carried, step, slopes[step])
            carried, firm = settled(carried, firm)
            self._found.append(found)
            rest.append(more)
        start = len(carried.linear) - self._n
        linear = self._border.linear + carried.linear[start:]
        return eliminate(Front(np.concatenate(rest), firm, linear), self._n, self._n)[0]

    @property
    def square(self) -> float:
        """Squared norm of the states' step for given parameters, in standard errors."""
        return sum(found.square for found in self._found)

    def pivots(self, step: int) -> Pivots:
        """Equations that determine a step's state from the next states and the parameters."""
        return self._found[step]

    def step(self, parameters: Array) -> Array:
        """Step of all states, (steps, t), for a given step of the parameters."""
        t, reach, count = self._t, self._window.reach, self._window.steps
        steps = np.zeros((count + reach, t))
        for k in reversed(range(count)):
            whole = np.concatenate([steps[k : k + reach + 1].ravel(), parameters])
            self._found[k].solve(whole)
            steps[k] = whole[:t]
        return steps[:count]

    @property
    def carried_states(self) -> Array:
        """Marginalized residuals in terms of the states that they contain, (rows, reach t)."""
        return self._carried.soft[:, : self._window.reach * self._t]

    def covariances(self) -> Array:
        """Covariances of each state and the next ones for given parameters, (steps, (reach + 1) t, (reach + 1) t)."""
        t, size = self._t, self._window.reach * self._t
        found = np.zeros((len(self._found) + 1, size + t, size + t))
        known = np.eye(size + t + self._n)[:, t : t + size]
        for k in reversed(range(len(self._found))):
            whole = self._found[k].responses(known)[:t]
            along, noise, later = whole[:, :size], whole[:, size:], found[k + 1, :size, :size]
            across = along @ later
            own = across @ along.T + noise @ noise.T
            found[k, :t, :t] = (own + own.T) / 2  # what is not symmetric would grow from step to step
            found[k, :t, t:], found[k, t:, :t], found[k, t:, t:] = across, across.T, later
        return found[:-1]

    def merit(self, steps: Array, parameters: Array) -> tuple[float, float]:
        """Cost of the marginalized equations after a step, and the largest constraint violation."""
        cost = violation = 0.0
        for front, step in self._moved(steps, parameters):
            values = front.soft[:, :-1] @ step + front.soft[:, -1]
            cost += float(values @ values) + 2 * float(front.linear @ step)
            violation = max(violation, float(np.max(np.abs(front.hard[:, :-1] @ step + front.hard[:, -1]), initial=0)))
        return cost, violation

    def follow(self, steps: Array, parameters: Array) -> None:
        """Update the values of marginalized equations after a step."""
        for front, step in self._moved(steps, parameters):
            front.soft[:, -1] += front.soft[:, :-1] @ step
            front.hard[:, -1] += front.hard[:, :-1] @ step
        self.score += self.information @ parameters

    def leave(self, slopes: Array) -> None:
        """Marginalize the equations of the oldest step, with their linear term."""
        start = len(self._carried.linear) - self._n
        before = self._carried.linear[start:]
        _, self._carried, rest = self._eliminated(self._carried, 0, slopes)
        self.score += rest[:, :-1].T @ rest[:, -1] + self._carried.linear[start:] - before
        self.information += rest[:, :-1].T @ rest[:, :-1]
        self._carried, firm = settled(self._carried, self._border.hard)
        whole = Front(np.concatenate([self._border.soft, rest]), firm[:0], np.zeros(self._n))
        self._border = Front(eliminate(whole, self._n, self._n)[0].rows, firm, self._border.linear)

    def arrays(self) -> dict[str, Array]:
        """Complete content of the memory, as arrays by name."""
        parts = [part.copy() for one in (self._carried, self._border) for part in (one.soft, one.hard, one.linear)]
        found = dict(zip(_PARTS, parts, strict=True))
        return found | {"score": self.score.copy(), "information": self.information.copy()}

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Take what ``arrays`` gave."""
        parts = [contiguous(arrays[name]).copy() for name in _PARTS]
        self._carried, self._border = Front(*parts[:3]), Front(*parts[3:])
        self.score, self.information = arrays["score"].copy(), arrays["information"].copy()

    def _eliminated(self, carried: Front, step: int, slopes: Array) -> tuple[Pivots, Front, Array]:
        """The carried rows, and those whose oldest step is the ``step``-th, without its state."""
        wide = _widened(carried, self._t, self._n)
        rows = [self._window.rows(step, hard) for hard in (False, True)]
        soft, hard = np.concatenate([wide.soft, rows[0]]), np.concatenate([wide.hard, rows[1]])
        return eliminate(
            Front(soft, hard, wide.linear + slopes), self._t, (self._window.reach + 1) * self._t, self._window.hidden
        )

    def _moved(self, steps: Array, parameters: Array) -> tuple[tuple[Front, Array], tuple[Front, Array]]:
        """Carried rows with steps of their unknowns."""
        whole = np.zeros((self._window.reach, self._t))
        whole[: len(steps)] = steps[: self._window.reach]
        linked = np.concatenate([whole.ravel(), parameters])
        return (self._carried, linked), (self._border, parameters)


def _empty(count: int) -> Front:
    """Nothing known of some unknowns."""
    return Front(np.zeros((0, count + 1)), np.zeros((0, count + 1)), np.zeros(count))


def _widened(front: Front, tangent: int, parameters: int) -> Front:
    """The same with one more step before the parameters."""
    place, parts = len(front.linear) - parameters, (front.soft, front.hard, front.linear)
    cut = ((part[..., :place], np.zeros((*part.shape[:-1], tangent)), part[..., place:]) for part in parts)
    return Front(*(np.concatenate(pieces, axis=-1) for pieces in cut))  # a sixth of the time of np.insert


class NativeMemory(Memory):
    """The same in compiled code."""

    def __init__(self, window: LagWindow, loaded: ctypes.CDLL) -> None:
        super().__init__(window)
        t, n, most = self._t, self._n, window.most
        self._states = (window.reach + 1) * t
        self._wide, self._slim = vectors(self._states + n + 1), vectors(n + 1)
        linked = window.reach * t
        soft = sum(p.rows for p in window.placed if not p.factor.hard)
        hard = sum(p.rows for p in window.placed if p.factor.hard)
        self._beside = np.zeros((2 * n + sum(beliefs.placed.rows for beliefs in window.beliefs), self._slim))
        rooms = linked + max(soft, len(self._beside)) + 1, (window.reach + 1) * hard + n + 1
        self._theta, self._point = np.zeros(n), np.zeros(n)
        self._pivots, self._shifts = np.zeros(most * t * self._wide + n * self._slim), np.zeros(most * t + n)
        self._places, self._counts = np.zeros(most * t + n, dtype=np.int64), np.zeros((most + 1, 2), dtype=np.int64)
        self._rows = (
            *(np.zeros((linked, linked + n + 1)), np.zeros((rooms[1], linked + n + 1)), np.zeros(linked + n)),
            *(np.zeros((n, n + 1)), np.zeros((n + 1, n + 1)), np.zeros(n)),
        )
        self._held: Integers = np.zeros(4, dtype=np.int64)
        size = (sum(rooms) + 3) * self._wide + (rooms[0] + 2 * n + 1) * self._slim
        self._work = np.zeros(size)
        self._factors = (FactorRows * len(window.placed))(*(self._factor(p) for p in window.placed))
        kept = (self._pivots, self._shifts, self._places, self._counts, *self._rows, self._held)
        self._window_rows = WindowRows(
            *(t, window.manifold.ambient, window.reach, n, 0, len(window.placed), ctypes.addressof(self._factors)),
            *(0, 0, *addresses([self._theta, self._point, window.numbers]), *addresses(kept)),
            *(*addresses([self.score, self.information, self._work]), *rooms, 0.0, window.hidden.ctypes.data),
        )
        self._by = WindowRoutines(loaded, self._window_rows, self._beside)
        self._evaluated: tuple[tuple[int, int, bytes, bytes], tuple[float, float]] | None = None
        """Where residuals were evaluated last, and what ``evaluate`` gave there."""
        self._bound = -1
        """Changes of the window that the C code already has."""

    def _factor(self, placed: Placed) -> FactorRows:
        """Of a factor; kernels without a program are called from Python."""
        offsets = np.array(placed.offsets, dtype=np.int64)
        jacobian, value = placed.jacobian_kernel, placed.residual_kernel
        placed.held.append(offsets)
        where = (offsets.ctypes.data, placed.matrix.ctypes.data, placed.residual.ctypes.data)
        sizes = 0, placed.rows, len(offsets), int(placed.factor.hard)
        width = placed.factor.data.numel()
        if jacobian.program is not None and value.program is not None:
            assert jacobian.places is not None
            placed.held.append(jacobian.places)
            placed.native = True
            programs = jacobian.program.address.value, value.program.address.value
            return FactorRows(*sizes, *where, *programs, jacobian.places.ctypes.data, 0, 0, width)
        return FactorRows(*sizes, *where, 0, 0, 0, 0, 0, width)

    def _bind(self) -> None:
        """Tell the compiled code where the window stands by now."""
        window, rows = self._window, self._window_rows
        if self._bound == window.changes:
            return
        self._bound = window.changes
        rows.steps, rows.best = window.steps, window.states.address
        for factor, placed in zip(self._factors, window.placed, strict=True):
            factor.count = placed.count(window.steps, window.first)
            factor.data, factor.absent = placed.data.address, placed.absent.address

    def linearize(self, parameters: Array, point: Array | None, count: int) -> None:
        self._bind()
        window, best = self._window, point is None
        self._theta[:], self._point[:] = parameters, parameters if point is None else point
        window.choose_points(best)
        self._window_rows.points = window.states.address if best else window.points.address
        self._by.jacobians(count)
        window.linearize(self._point, count, native=False)
        for beliefs in window.beliefs:
            beliefs.linearize(window.states.values[:1], [parameters, window.numbers])
        self.evaluate(parameters, count)

    def evaluate(self, parameters: Array, count: int) -> tuple[float, float]:
        window = self._window
        where = window.changes, count, parameters.tobytes(), window.states.values.tobytes()
        if self._evaluated is not None and self._evaluated[0] == where:
            return self._evaluated[1]
        self._bind()
        self._theta[:] = parameters
        believed = window.evaluate(parameters, count, native=False)
        cost, violation = self._by.residuals(count)
        self._evaluated = where, (cost + believed, violation)
        return self._evaluated[1]

    def factorize(self, slopes: Array, beside: Array) -> Pivots:
        self._bind()
        self._beside[: len(beside), : self._n + 1] = beside
        self._by.sweep(False, slopes, len(beside))
        return self._of(self._window.steps, self._n, self._slim, self._n)

    @property
    def square(self) -> float:
        return float(self._window_rows.square)

    def pivots(self, step: int) -> Pivots:
        return self._of(step, self._t, self._wide, self._states + self._n)

    def _of(self, step: int, count: int, wide: int, unknowns: int) -> Pivots:
        """Pivots as they stand in the compiled code's room."""
        hard, found = self._counts[step].tolist()
        at = step * self._t
        rows = self._pivots[at * self._wide :][: found * wide].reshape(found, wide)[:, : unknowns + 1]
        return Pivots(rows, self._places[at : at + found], self._shifts[at : at + found], hard, count)

    def border_step(self, border: Pivots) -> Array:
        return self._by.border_step(self._n)

    def step(self, parameters: Array) -> Array:
        return self._by.states_step(parameters, (self._window.steps, self._t))

    @property
    def carried_states(self) -> Array:
        return self._rows[0][: self._held[0], : self._window.reach * self._t]

    def covariances(self) -> Array:
        return self._by.covariances((self._window.steps, self._states, self._states))

    def merit(self, steps: Array, parameters: Array) -> tuple[float, float]:
        self._bind()
        return self._by.merit(np.ascontiguousarray(steps), parameters, False)

    def follow(self, steps: Array, parameters: Array) -> None:
        self._by.merit(np.ascontiguousarray(steps), parameters, True)

    def leave(self, slopes: Array) -> None:
        self._bind()
        self._by.sweep(True, np.ascontiguousarray(slopes), 0)

    def arrays(self) -> dict[str, Array]:
        counts = iter(self._held.tolist())
        parts = [part if name.endswith("linear") else part[: next(counts)] for name, part in self._named()]
        found = {name: part.copy() for (name, _), part in zip(self._named(), parts, strict=True)}
        return found | {"score": self.score.copy(), "information": self.information.copy()}

    def restore(self, arrays: Mapping[str, Array]) -> None:
        for name, place in self._named():
            place[: len(arrays[name])] = arrays[name]
        self._held[:] = [len(arrays[name]) for name in _PARTS if not name.endswith("linear")]
        self.score[:], self.information[:] = arrays["score"], arrays["information"]

    def _named(self) -> list[tuple[str, Array]]:
        return list(zip(_PARTS, self._rows, strict=True))


def memory_of(window: LagWindow) -> Memory:
    """Memory in compiled code if available, otherwise in Python."""
    loaded = window_library()
    return Memory(window) if loaded is None else NativeMemory(window, loaded)


def restarted(
    arrays: Mapping[str, Array], parameters: Array, gradient: Array, information: Array, kept: Array
) -> dict[str, Array]:
    """Arrays as of ``FixedLag.arrays()`` with other parameters from the oldest step of the window on.

    Information from steps that have left the window is dropped, except equality constraints and the given information:
    it would be wrong if the parameters changed a little earlier.

    Args:
        arrays: of the smoother.
        parameters: where the new ones begin, (n_p,).
        gradient: Eᵀe of rows [E | e] that are known of the new ones beforehand, there, (n_p,).
        information: EᵀE, (n_p, n_p).
        kept: equations about the oldest states that are kept, (r, reach t + n_p + 1).
    """
    n = len(parameters)
    hard, states = arrays["carried hard"], len(arrays["carried linear"]) - n
    order = np.r_[states : states + n, :states, states + n]  # parameters first, which are eliminated
    front = Front(np.zeros((0, states + n + 1)), hard[:, order], np.zeros(states + n))
    left = eliminate(front, n, n + states)[1].hard
    nothing = ("waits", "carried linear", "border linear", "score", "information")
    return {
        **arrays,
        **{name: np.zeros_like(arrays[name]) for name in nothing},
        "parameters": parameters.copy(),
        "first estimates": parameters[None].copy() if n else arrays["first estimates"],
        "slopes": np.zeros((0, 0)),
        "carried soft": kept if len(kept) else arrays["carried soft"][:0],
        "carried hard": np.insert(left, [states] * n, 0.0, axis=1),
        "border soft": _rows(gradient, information),
        "border hard": arrays["border hard"][:0],
    }


def _rows(gradient: Array, information: Array) -> Array:
    """[E | e] with these products, (r, n_p + 1)."""
    scale = np.sqrt(np.maximum(information.diagonal(), TINY))
    sizes, along = np.linalg.eigh(information / np.outer(scale, scale))
    kept = sizes > ROUNDING * np.max(sizes, initial=0.0)
    roots = np.sqrt(sizes[kept])
    return np.column_stack([roots[:, None] * along[:, kept].T * scale, along[:, kept].T @ (gradient / scale) / roots])
