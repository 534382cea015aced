"""Small linear algebra along a horizon in C (``native.c``, ``condense.c``), on eight steps at once.

NumPy does the same without the C extension.

Equations of one step solved in compiled C (``newton.c``), which calls back for their values.

Householder's reflections of sparse matrices that have one pattern: which entries each of them touches.

The columns of T (m, k), m ≥ k, are eliminated in an order that keeps what fills in small: next is the column whose
reflection costs least. For the rows of joints that goes along their tree, with those that close loops last; a
reflection turns the rows of two bodies and one more for each freedom behind them. Reflections need no pivots: any order
is stable as long as the columns are independent.
"""

from __future__ import annotations

import ctypes
import dataclasses
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spookid.kernels.arrays import Array, Integers, Mask, location
from spookid.kernels.library import library
from spookid.records import dataclass


def _checked(failed: int) -> None:
    if failed:
        raise MemoryError


_SPARSE = {"settle": 17, "fit": 14, "condense": 11, "lift": 15, "products": 16}
_DENSE = {"invert": 5, "images": 12, "pulls": 10, "rank": 6, "decompose": 7, "orthonormal": 4}
"""How many arguments each function takes."""


class Routines:
    """The functions of ``native.c``, ``condense.c`` and ``dense.c``; arrays are given by their addresses, unchecked."""

    def __init__(self, loaded: ctypes.CDLL) -> None:
        found = (declared(loaded, f"{name}_along", count) for name, count in (_SPARSE | _DENSE).items())
        self.settle, self.fit, self.condense, self.lift, self.products, *rest = found
        self.invert, self.images, self.pulls, self.rank, self.decompose, self.orthonormal = rest


def routines() -> Routines | None:
    """The routines; None without the C extension."""
    loaded = library()
    return None if loaded is None else _found(loaded)


_found = lru_cache(maxsize=4)(Routines)


def declared(loaded: ctypes.CDLL, name: str, arguments: int, result: Any = _checked) -> Any:
    """A function of so many arguments, integers of 64 bits and addresses, which are passed alike.

    Args:
        result: its type, or what is done with an integer; by default an error if it is not zero: of memory.
    """
    function = getattr(loaded, name)
    function.argtypes, function.restype = [ctypes.c_void_p] * arguments, result
    return function


class Lists:
    """Lists of indices as C code takes them: the address of their addresses."""

    def __init__(self, *lists: object) -> None:
        self.held = [np.ascontiguousarray(values, dtype=np.int32) for values in lists]
        self._pointers = (ctypes.c_void_p * len(lists))(*map(location, self.held))

    @property
    def address(self) -> ctypes.Array[ctypes.c_void_p]:
        """Of the first list's address."""
        return self._pointers


def strides(array: Array) -> tuple[int, ...]:
    """In numbers, not bytes."""
    return tuple(stride // array.itemsize for stride in array.strides)


def integers(values: object) -> NDArray[np.int64]:
    """As the routines take lists of indices."""
    return np.ascontiguousarray(values, dtype=np.int64)


_Size, _Address, _Number = ctypes.c_longlong, ctypes.c_void_p, ctypes.c_double
_Evaluate = ctypes.CFUNCTYPE(None)


@dataclasses.dataclass(frozen=True)
class Limits:
    """Where Newton's method ends."""

    tolerance: float
    """A step is solved when a correction of the velocities is below this share of the largest."""
    rounding: float
    """Corrections of which this share is below the tolerance may be rounding."""
    least_share: float
    """Of a correction, below which the search along it ends."""
    most: int
    """Corrections."""


class _Problem(ctypes.Structure):
    """The structure of ``newton.c``."""

    _fields_ = [
        ("evaluate", _Evaluate),
        *((name, _Size) for name in ("n", "velocities", "following")),
        *((name, _Address) for name in ("equations", "jacobian", "follows", "unknowns")),
        *((name, _Number) for name in ("tolerance", "rounding", "least_share")),
        ("most", _Size),
        ("left", _Number),
    ]


class NewtonRoutine:
    """Solves from the unknowns in their buffer."""

    def __init__(self, loaded: ctypes.CDLL, problem: _Problem, held: tuple[object, ...]) -> None:
        self._routine, self._problem, self._held = declared(loaded, "solve_step", 2, ctypes.c_int), problem, held
        self._room = np.empty(problem.n * (problem.n + 2))
        self._arguments = ctypes.byref(problem), location(self._room)

    def __call__(self) -> None:
        """Raises ArithmeticError, with the residual left, if the method does not get there."""
        if self._routine(*self._arguments):
            raise ArithmeticError(self._problem.left)


def newton_routine(
    evaluate: Callable[[], object],
    unknowns: Array,
    outputs: tuple[Array, Array, Array],
    velocities: int,
    limits: Limits,
) -> NewtonRoutine | None:
    """The routine for buffers that stay where they are; None without the C extension.

    Args:
        evaluate: from the buffer of unknowns (n,) into those of the outputs; what it raises is lost.
        outputs: of the equations (n,), their Jacobian (n, n), by columns, and what must be finite at the end.
        velocities: how many of the unknowns are velocities, which come first.
    """
    loaded = library()
    if loaded is None:
        return None
    callback = _Evaluate(evaluate)
    buffers = [location(array) for array in (*outputs, unknowns)]
    ends = limits.tolerance, limits.rounding, limits.least_share, limits.most
    problem = _Problem(callback, unknowns.size, velocities, outputs[2].size, *buffers, *ends, 0.0)
    return NewtonRoutine(loaded, problem, (callback, unknowns, outputs))


@dataclass(frozen=True, eq=False)
class Reflections:
    """The plan that ``condense.c`` follows."""

    sizes: Integers
    """m, k, number of entries with fill, and of those that a kernel gives."""
    lists: Lists


@dataclass(frozen=True, eq=False)
class _Step:
    """One reflection."""

    column: int
    rows: Integers
    """It turns these; the first becomes a row of R."""
    changed: Integers
    """Columns to come that it changes."""


def reflections(numbers: Integers, residual: Integers) -> Reflections:
    """The plan for a matrix T of a kernel's numbers.

    Args:
        numbers: which of the numbers an entry of T is, −1 for none, (m, k).
        residual: which of them are the residual.
    """
    m, k = numbers.shape
    steps, filled = _eliminated(numbers >= 0)
    entry = np.where(filled, np.cumsum(filled).reshape(m, k) - 1, -1)
    rows, columns = np.nonzero(numbers >= 0)
    pivots = integers([step.rows[0] for step in steps])
    over = [np.flatnonzero(filled[pivots[:j], step.column]) for j, step in enumerate(steps)]
    free = integers(sorted(set(range(m)) - set(pivots)))
    blocks = [entry[np.ix_(step.rows, step.changed)].T.ravel() for step in steps]
    lists = Lists(
        numbers[rows, columns],
        entry[rows, columns],
        residual,
        [step.column for step in steps],
        _starts([len(step.rows) for step in steps]),
        _joined([step.rows for step in steps]),
        _joined([entry[step.rows, step.column] for step in steps]),
        _starts([len(step.changed) for step in steps]),
        _joined(blocks),
        _starts([len(before) for before in over]),
        _joined(over),
        _joined([entry[pivots[before], step.column] for before, step in zip(over, steps, strict=True)]),
        free,
        *_reach(steps, free, m),
        _starts([len(block) for block in blocks])[:-1],
        np.stack([rows, columns], axis=1),
    )
    return Reflections(integers([m, k, np.sum(filled), len(rows)]), lists)


def _eliminated(pattern: Mask) -> tuple[list[_Step], Mask]:
    """The reflections in their order, and the pattern with all that fills in."""
    filled, rest = pattern.copy(), pattern.copy()
    left, steps = list(range(pattern.shape[1])), list[_Step]()
    while left:
        ones = rest[:, left].astype(float)
        shared = ones.T @ ones > 0
        next_one = int(np.argmin(ones.sum(axis=0) * shared.sum(axis=0)))
        changed = integers([left[i] for i in np.flatnonzero(shared[next_one]) if i != next_one])
        column = left.pop(next_one)
        rows = np.flatnonzero(rest[:, column])
        # The row of R is one that few others see, so that what is left stays sparse.
        first = rows[int(np.argmin(rest[rows].sum(axis=1)))]
        ordered = integers([first, *rows[rows != first]])
        rest[np.ix_(rows, changed)] = True
        filled |= rest
        rest[first], rest[:, column] = False, False
        steps.append(_Step(column, ordered, changed))
    return steps, filled


def _reach(steps: Sequence[_Step], free: Integers, m: int) -> tuple[Integers, Integers]:
    """Between which columns of the null space each reflection finds entries, when the last one comes first."""
    low, high = np.full(m, len(free)), np.zeros(m, dtype=np.int64)
    low[free], high[free] = np.arange(len(free)), np.arange(1, len(free) + 1)
    found = np.zeros((2, len(steps)), dtype=np.int64)
    for j, step in reversed(list(enumerate(steps))):
        low[step.rows], high[step.rows] = found[:, j] = low[step.rows].min(), high[step.rows].max()
    return found[0], found[1]


def _starts(counts: Iterable[int]) -> Integers:
    return integers(np.cumsum([0, *counts]))


def _joined(lists: Sequence[NDArray[Any]]) -> Integers:
    return integers(np.concatenate([integers([]), *lists]))
