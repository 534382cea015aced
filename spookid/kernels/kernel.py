"""One-step CasADi functions evaluated over a whole horizon, straight into NumPy buffers."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from threading import Lock
from typing import Any

import casadi as ca
import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Integers = NDArray[np.int64]

Evaluate = Callable[[Sequence[Array], Sequence[Array], Array], Array]
"""What a kernel does, whatever evaluates it: stepwise arrays, shared arrays and the result's place to the result."""

_Byte = ctypes.c_char

CHUNK = 128
"""Steps evaluated by one mapped call. Creating a map costs time in proportion; a chunk is mapped once and rebound."""


class Kernel:
    """A one-step function with one result, repeated along rows of arrays.

    Args:
        function: CasADi function of ``repeated`` per-step vectors followed by shared vectors, with one dense result.
        repeated: how many of its arguments change from step to step.
        places: where its numbers stand in a step's result, ascending, all others being zero; None: everywhere.
    """

    def __init__(self, function: ca.Function, repeated: int, places: Integers | None = None) -> None:
        self._function = function
        self._repeated = repeated
        self.places = places
        self._mapped = lru_cache(maxsize=8)(self._map)
        self._lock = Lock()

    def __call__(self, stepwise: Sequence[Array], shared: Sequence[Array], out: Array) -> Array:
        """Evaluate into ``out`` and return it.

        Args:
            stepwise: arrays (n, size), C-contiguous; may be shifted views of one another.
            shared: arrays (size,).
            out: (n, columns, rows), C-contiguous: CasADi's column-major result of each step.
        """
        n = out.shape[0]
        size = min(CHUNK, n)
        start = 0
        while start < n:
            # The last chunk overlaps the one before, so that every call has the same size.
            first = min(start, n - size)
            rows, part = [a[first : first + size] for a in stepwise], out[first : first + size]
            if self.places is None:
                self._evaluate(size, [*rows, *shared], part)
            else:
                numbers = np.empty((size, len(self.places)))
                self._evaluate(size, [*rows, *shared], numbers)
                part[:] = 0.0
                part.reshape(size, -1)[:, self.places] = numbers
            start += size
        return out

    def _evaluate(self, size: int, arguments: Sequence[Array], out: Array) -> None:
        with self._lock:  # a buffer serves one thread at a time
            buffer, evaluate = self._mapped(size)
            for i, argument in enumerate(arguments):
                if argument.size:
                    buffer.set_arg(i, argument.data)
            buffer.set_res(0, out.data)
            evaluate()
            failed = buffer.ret()
        if failed:
            raise FloatingPointError(f"evaluating {self._function.name()} failed")

    def _map(self, size: int) -> tuple[ca.FunctionBuffer, Callable[[], None]]:
        shared = list(range(self._repeated, self._function.n_in()))
        mapped = self._function.map(f"{self._function.name()}_{size}", "serial", size, shared, [])
        if mapped.nnz_out(0) < mapped.numel_out(0):  # maps drop zeros beside an empty argument
            arguments = mapped.mx_in()
            mapped = ca.Function(mapped.name(), arguments, [ca.densify(mapped(*arguments))])
        buffer: tuple[ca.FunctionBuffer, Callable[[], None]] = mapped.buffer()
        return buffer


@dataclass(frozen=True, eq=False)
class Call:
    """A kernel with its arguments along a chain."""

    kernel: Evaluate
    stepwise: Sequence[Array]
    shared: Sequence[Array]
    shape: tuple[int, int]
    """Of one step's result: columns and rows."""

    def __call__(self, steps: slice) -> Array:
        """The result at some steps, (count, columns, rows)."""
        stepwise, shared = self.at(steps)
        return self.kernel(stepwise, shared, np.empty((len(stepwise[0]), *self.shape)))

    def parts(self, start: int) -> Iterator[tuple[int, Array]]:
        """The results from a step on, a few steps at a time: the first's number and (count, columns, rows), in a room
        that is used again."""
        n = len(self.stepwise[0])
        size = min(CHUNK, n)
        room = np.empty((size, *self.shape))
        while start < n:
            first = min(start, n - size)  # the last part overlaps the one before, as in ``Kernel``
            self.kernel(*self.at(slice(first, first + size)), room)
            yield start, room[start - first :]
            start = first + size

    def at(self, steps: slice) -> tuple[Sequence[Array], Sequence[Array]]:
        """Stepwise arguments at some steps, and shared ones."""
        return [a[steps] for a in self.stepwise], self.shared


def location(array: NDArray[Any]) -> int:
    """Address of an array's first number."""
    try:  # NumPy takes several times as long to tell
        return ctypes.addressof(_Byte.from_buffer(array.data))
    except (TypeError, ValueError):  # read-only, not contiguous, or empty
        return int(array.ctypes.data)


def contiguous(values: object) -> Array:
    """Float64 C-contiguous array, as the buffers need it."""
    return np.ascontiguousarray(values, dtype=np.float64)
