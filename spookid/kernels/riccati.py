"""The Riccati recursion of a chain in C (``riccati.c``)."""

from __future__ import annotations

import ctypes
from dataclasses import replace

import numpy as np

from spookid.kernels.arrays import Array, Integers
from spookid.kernels.blocks import LANES, ROWS, addresses, aligned, sizes, symmetric
from spookid.kernels.library import library
from spookid.kernels.native import address
from spookid.kernels.thread_pool import Workspace
from spookid.records import dataclass

_NO_ROOM = -2
"""What C code says if the rows of a step are more than it was told."""


@dataclass(frozen=True, eq=False)
class Stages:
    """Steps of a chain, and where its hard rows are used: at the later step that a row sees, else at the earlier."""

    later: Integers
    """Of each row, (count, m): 1 at the later step, 0 at the earlier one, −1 nowhere, for it sees no state."""
    slot: Integers
    """Place among the rows of that step, (count, m)."""
    rows: Integers
    """How many of a step, (N,)."""
    seen: Integers
    """Unknowns of a step that stand in rows with the next one, ascending."""
    sizes: Integers
    """As the C code takes them: N, t, m, columns of the border, unknowns that are seen, and rows of a step at most."""


@dataclass(frozen=True, eq=False)
class Recursion:
    """What is kept of each step; see ``riccati.c``."""

    stages: Stages
    panels: Array
    """(N, rows, columns)."""
    crossed: Array
    """(N, gives, gives)."""
    combined: Array
    """(N, most, most)."""
    order: Integers
    """(N, t)."""
    counts: Integers
    """(N, 4)."""


class RiccatiRoutines:
    """The functions of the C code; all arrays C-contiguous."""

    def __init__(self, loaded: ctypes.CDLL) -> None:
        self._place, self._backward = loaded.place_stages, loaded.riccati_backward
        self._forward, self._steps = loaded.riccati_forward, loaded.riccati_steps
        self._backward.restype = ctypes.c_longlong

    def stages(self, band: Array, hard: Array) -> Stages:
        """Of a band (N, t, 2 t) and hard rows, transposed Jacobians (count, 2 t + n_p + 1, m)."""
        (steps, t, _), (count, columns, m) = band.shape, hard.shape
        later, slot = np.empty((2, count, m), dtype=np.int64)
        rows, marked = np.empty(steps, dtype=np.int64), np.zeros(t, dtype=bool)
        given = np.array([steps, t, m, columns - 2 * t, 0, 0], dtype=np.int64)
        self._place(address(given), *sizes(count), *addresses(hard, band, later, slot, rows, marked))
        seen = np.flatnonzero(marked).astype(np.int64)
        given[4:] = len(seen), int(np.max(rows, initial=0))
        return Stages(later, slot, rows, seen, given)

    def backward(
        self, stages: Stages, band: Array, damping: Array, border: Array, hard: Array, workspace: Workspace
    ) -> tuple[Recursion, Array, int]:
        """The recursion, products through the inverse of the border with itself, and 0 or the number of the first step
        that no data and no hard row determine.

        Args:
            stages: of the band and the hard rows.
            band: lower band of the soft rows' matrix, transposed, (N, t, 2 t).
            damping: added to its diagonal, (N t,).
            border: of the soft rows, (N t, n_p + 1) in whole columns.
            hard: transposed Jacobians and values of the hard rows, (count, 2 t + n_p + 1, m).
            workspace: holds what is kept until the next recursion.
        """
        steps, t, m, borders, seen, most = stages.sizes.tolist()
        gives, before = min(most, t), vectors(t) + vectors(seen)
        wide = max(before + vectors(borders), vectors(most)) * LANES
        panels = workspace.aligned("stages", (steps, _whole(t) + ROWS + _whole(gives), wide))
        crossed = workspace.zeros("crossed", (steps, gives, gives))
        combined = workspace.zeros("combined", (steps, most, most))
        order, counts = np.empty((steps, t), dtype=np.int64), np.empty((steps, 4), dtype=np.int64)
        corner = aligned((_whole(borders), wide))
        corner[:] = 0.0
        failed = self._backward(
            *(address(stages.sizes), *sizes(len(hard))),
            *addresses(band, damping, np.ascontiguousarray(border.T), hard, stages.later, stages.slot, stages.rows),
            *addresses(stages.seen, panels, crossed, combined, order, counts, corner),
        )
        if failed == _NO_ROOM:  # as many as link two steps may be passed on
            more = replace(stages, sizes=np.append(stages.sizes[:-1], most + m))
            return self.backward(more, band, damping, border, hard, workspace)
        if failed < 0:
            raise MemoryError("riccati_backward")
        taken = symmetric(corner[:borders, before * LANES :][:, :borders])
        return Recursion(stages, panels, crossed, combined, order, counts), taken, int(failed)

    def forward(self, made: Recursion, gradient: Array, values: Array) -> tuple[Array, Array, float]:
        """What ``steps`` takes of a gradient of the states (N, t) and values of the hard rows (count, m), both as r:
        that, borderᵀK⁻¹r, (n_p + 1,), and rᵀK⁻¹r."""
        stages = made.stages
        steps, t, _, borders, _, most = stages.sizes.tolist()
        out, pulled, square = np.zeros((steps, t + 2 * min(most, t))), np.empty(borders), np.empty(1)
        self._forward(
            *(address(stages.sizes), *sizes(len(values)), *addresses(stages.later, stages.slot, stages.seen)),
            *addresses(made.panels, made.crossed, made.combined, made.order, made.counts),
            *addresses(gradient, values, out, pulled, square),
        )
        return out, pulled, float(square[0])

    def steps(self, made: Recursion, half: Array | None, move: Array) -> tuple[Array, Array]:
        """The states' step (N, t) and the multipliers (count, m) for a step of the parameters, given what ``forward``
        made, or nothing for the border's last column."""
        stages = made.stages
        states, multipliers = np.empty(made.order.shape), np.zeros(stages.later.shape)
        self._steps(
            *(address(stages.sizes), *sizes(len(multipliers)), *addresses(stages.later, stages.slot, stages.seen)),
            *addresses(made.panels, made.combined, made.order, made.counts, half, move, states, multipliers),
        )
        return states, multipliers


def riccati_routines() -> RiccatiRoutines | None:
    """The functions; None without the C extension."""
    loaded = library()
    return None if loaded is None else RiccatiRoutines(loaded)


def vectors(count: int) -> int:
    """That hold so many numbers."""
    return -(-count // LANES)


def _whole(count: int) -> int:
    return -(-count // ROWS) * ROWS
