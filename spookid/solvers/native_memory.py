"""``lag_memory.Memory`` in compiled code."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spookid.kernels.arrays import Array, Integers
from spookid.kernels.window import FactorRows, WindowRoutines, WindowRows, addresses, vectors, window_library
from spookid.solvers.fronts import Pivots
from spookid.solvers.lag_memory import Memory
from spookid.solvers.lag_window import LagWindow, Placed

_FRONTS = ("carried", "border")


class NativeMemory(Memory):
    """See the module.

    Args:
        loaded: the compiled code.
    """

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
        """Of the window's changes, those that the C code has been told."""

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

    @property
    def border_linear(self) -> Array:
        return self._rows[5]

    def follow(self, steps: Array, parameters: Array) -> None:
        self._by.merit(np.ascontiguousarray(steps), parameters, True)

    def leave(self, slopes: Array) -> None:
        self._bind()
        self._by.sweep(True, np.ascontiguousarray(slopes), 0)

    def arrays(self) -> dict[str, Array]:
        carried, firm, linear, *border = self._rows
        counts = self._held.tolist()
        parts: list[tuple[str, NDArray[Any]]] = [
            *(("carried soft", carried[: counts[0]]), ("carried hard", firm[: counts[1]]), ("carried linear", linear)),
            *(("border soft", border[0][: counts[2]]), ("border hard", border[1][: counts[3]])),
            *(("border linear", border[2]), ("score", self.score), ("information", self.information)),
        ]
        return {name: part.copy() for name, part in parts}

    def restore(self, arrays: Mapping[str, Array]) -> None:
        names = [f"{front} {part}" for front in _FRONTS for part in ("soft", "hard", "linear")]
        for name, place in zip(names, self._rows, strict=True):
            place[: len(arrays[name])] = arrays[name]
        counted = [name for name in names if not name.endswith("linear")]
        self._held[:] = [len(arrays[name]) for name in counted]
        self.score[:], self.information[:] = arrays["score"], arrays["information"]


def memory_of(window: LagWindow) -> Memory:
    """In compiled code if there is any."""
    loaded = window_library()
    return Memory(window) if loaded is None else NativeMemory(window, loaded)
