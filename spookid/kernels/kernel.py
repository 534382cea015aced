"""One-step CasADi functions evaluated over a whole horizon, straight into NumPy buffers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from threading import Lock

import casadi as ca
import numpy as np

from spookid.kernels.arrays import Array, Integers
from spookid.kernels.program import Program, program_of

CHUNK = 128
"""Steps evaluated by one call of CasADi's virtual machine. Creating a map costs time in proportion; a chunk is mapped
once and rebound."""


class Kernel:
    """A one-step function with one result, repeated along rows of arrays.

    The block interpreter evaluates it; without the C extension, and at single steps, CasADi's virtual machine does.

    Args:
        function: CasADi function of ``repeated`` per-step vectors followed by shared vectors, with one dense result.
        repeated: how many of its arguments change from step to step.
        places: places of its numbers in a step's result, ascending, all others being zero; None: they are the result.
        once: True if it is evaluated at one step alone, which takes less time than reading its instructions.
    """

    def __init__(
        self, function: ca.Function, repeated: int, places: Integers | None = None, once: bool = False
    ) -> None:
        self._function, self._repeated, self._once = function, repeated, once
        self.places = places
        self._mapped = lru_cache(maxsize=8)(self._map)
        self._lock = Lock()

    @cached_property
    def program(self) -> Program | None:
        """What C code calls; None where CasADi's virtual machine evaluates the function."""
        return None if self._once else program_of(self._function, self._repeated)

    def __call__(self, stepwise: Sequence[Array], shared: Sequence[Array], out: Array) -> Array:
        """Evaluate into ``out`` and return it. Several threads may do so at once.

        Args:
            stepwise: arrays (n, size), C-contiguous; may be shifted views of one another.
            shared: arrays (size,).
            out: (n, columns, rows), C-contiguous: CasADi's column-major result of each step. Zero where the kernel
                has no ``places``, for there it stays as it is: pages that nothing is written to cost no time.
        """
        if self.program is not None:
            self.program.run(stepwise, shared, out, self.places)
        else:
            self._by_casadi(stepwise, shared, out)
        return out

    def numbers(self, shape: tuple[int, int]) -> Integers:
        """Which of its numbers is where in a step's result of this shape, −1 where there is none."""
        assert self.places is not None
        which = np.full(shape, -1, dtype=np.int64)
        which.ravel()[self.places] = np.arange(len(self.places))
        return which

    def _by_casadi(self, stepwise: Sequence[Array], shared: Sequence[Array], out: Array) -> None:
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
                part.reshape(size, -1)[:, self.places] = numbers
            start += size

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

    kernel: Kernel
    stepwise: Sequence[Array]
    shared: Sequence[Array]
    shape: tuple[int, int]
    """Of one step's result: columns and rows."""
    scales: Array | None = None
    """What its rows are multiplied with, (rows,)."""

    @property
    def program(self) -> Program | None:
        """What C code calls for the result; None where it has to ask Python."""
        return self.kernel.program if self.scales is None else None

    def __call__(self, steps: slice) -> Array:
        """The result at some steps, (count, columns, rows)."""
        return self.into(self.room(len(self.stepwise[0][steps])), steps)

    def parts(self, start: int) -> Iterator[tuple[int, Array]]:
        """The results from a step on, a few steps at a time: the first's number and (count, columns, rows), in a room
        that is used again."""
        n = len(self.stepwise[0])
        size = min(CHUNK, n)
        room = self.room(size)
        while start < n:
            first = min(start, n - size)  # the last part overlaps the one before, as in ``Kernel``
            self.into(room, slice(first, first + size))
            yield start, room[start - first :]
            start = first + size

    def into(self, room: Array, steps: slice) -> Array:
        """The result at some steps in a room that was made for it, or that holds others."""
        self.kernel(*self.at(steps), room)
        return room if self.scales is None else np.multiply(room, self.scales, out=room)

    def room(self, count: int) -> Array:
        """For the result at so many steps."""
        return (np.empty if self.kernel.places is None else np.zeros)((count, *self.shape))

    def at(self, steps: slice) -> tuple[Sequence[Array], Sequence[Array]]:
        """Stepwise arguments at some steps, and shared ones."""
        return [a[steps] for a in self.stepwise], self.shared
