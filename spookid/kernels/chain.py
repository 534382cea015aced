"""A chain's states eliminated in order of time, with the multipliers of hard rows: in C (``chain.c``), or by NumPy.

With H = JᵀJ of the soft rows and hard rows A x = b that link steps, ordered by stages of a few steps, the multipliers
of a row behind the last step that it sees,

    K = [H + AᵀA  Aᵀ],    K = Uᵀ s U,    s = ±1,
        [A        −ε]

has as many positive pivots as unknowns and as many negative ones as rows in every stage, for AᵀA makes each leading
block of H + AᵀA definite in what the rows determine: rows are never exchanged. A multiplier whose pivot is rounding
belongs to a row that others imply, and is left out. Parameters, and the gradient as the last column, are a border.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spookid.kernels.arrays import Array, Integers, location
from spookid.kernels.library import library
from spookid.kernels.native import address
from spookid.kernels.thread_pool import Workspace
from spookid.records import dataclass

LANES, ROWS = 8, 4
"""Numbers in a vector, and rows that are factorized at once."""
_IMPLIED = 1e-13
"""As in ``chain.c``."""


@dataclass(frozen=True, eq=False)
class HardRows:
    """Hard rows of one factor."""

    offsets: tuple[int, ...]
    """Of the steps that they see, ascending."""
    matrix: Array
    """Transposed Jacobians and values, (count, columns, rows): steps in order of offset, then the border."""
    slack: Array | None = None
    """ε, (count, rows); None: 0."""


class Shape:
    """How N steps of t unknowns and their hard rows stand in stages, and these in panels.

    Args:
        steps: N.
        tangent: t.
        reach: steps between the first and the last one that a row sees, at the most.
        borders: b.
        hard: hard rows.
    """

    def __init__(self, steps: int, tangent: int, reach: int, borders: int, hard: Sequence[HardRows]) -> None:
        self.steps, self.tangent, self.reach, self.borders, self.hard = steps, tangent, max(reach, 1), borders, hard
        self.places, self.multipliers = _places(hard)
        self.group = max(-(-ROWS // max(tangent, 1)), 1)
        self.stages, self.r = -(-steps // self.group), -(-self.reach // self.group)
        self.t = self.group * tangent
        self.T = self.t + self.group * self.multipliers
        self.S = (self.r + 1) * self.T
        self.B = -(-self.S // LANES) * LANES
        self.V = self.B + -(-borders // LANES) * LANES
        self.panel = self.stages, self.T, self.B


class Chain(Shape):
    """A chain, factorized by ``sweep``.

    Args:
        band: lower band of H + AᵀA, transposed, (N t, width): entry [j, d] is that of row j + d and column j. It may
            stand at the end of what ``workspace`` holds as "panels": then factors take its place.
        damping: added to its diagonal, (N t,); None: 1 where that is zero.
        border: (N t, b), in whole columns; with a workspace factors take its place.
        steps: N.
        hard: hard rows.
        workspace: holds the factors until the next ones; None: they stay.
        kept: False if only ``front`` and ``taken`` are wanted.
    """

    def __init__(
        self,
        band: Array,
        damping: Array | None,
        border: Array,
        steps: int,
        hard: Sequence[HardRows] = (),
        workspace: Workspace | None = None,
        kept: bool = True,
    ) -> None:
        tangent = len(band) // max(steps, 1)
        reach = max(-(-band.shape[1] // max(tangent, 1)) - 1, *(max(rows.offsets) for rows in hard), 0)
        super().__init__(steps, tangent, reach, border.shape[1], hard)
        columns = np.ascontiguousarray(border.T)
        self.given: tuple[Array, Array | None, Array] | None = np.ascontiguousarray(band), damping, columns
        """Not needed any more when all is eliminated."""
        shape = self.panel if kept else (0, *self.panel[1:])
        self.panels = aligned(shape) if workspace is None else workspace.aligned("panels", shape)
        more = np.zeros((self.borders, self.stages * self.group * self.multipliers))
        self.Y = (columns if workspace is not None else np.empty_like(columns)), more
        """What the border leaves in U, of unknowns (b, N t) and of multipliers (b, n m)."""
        self.front, self.corner = np.zeros((self.S, self.V)), np.zeros((-(-self.borders // ROWS) * ROWS, self.V))
        self.logarithm = 0.0
        """log |det K| of the stages so far, without rows that others imply."""
        sizes = self.stages, self.group, self.tangent, self.multipliers, self.r, self.borders, *band.shape
        self.sizes = np.array(sizes, dtype=np.int64)
        """As ``chain.c`` takes them."""
        loaded = library()
        self._by = _ByNumPy() if loaded is None else _compiled(loaded)

    def sweep(self, first: int = 0, last: int | None = None) -> int:
        """Eliminate some stages after those before; 0, or the number of the first that has no pivot."""
        failed, logarithm = self._by.sweep(self, first, self.stages if last is None else last)
        self.logarithm += logarithm
        return failed

    @property
    def taken(self) -> Array:
        """borderᵀK⁻¹border of the stages so far, (b, b)."""
        return mirrored(-self.corner[: self.borders, : self.borders])

    def forward(self, right: Array) -> tuple[Array, Array, float]:
        """A right-hand side (n, T) as ``backward`` takes it, borderᵀK⁻¹right, (b,), and rightᵀK⁻¹right."""
        return self._by.forward(self, right)

    def backward(self, half: Array | None, move: Array) -> Array:
        """−K⁻¹(right + border move), (n, T), for ``half`` of a right-hand side or none."""
        return self._by.backward(self, half, move)

    def solve(self, right: Array | None) -> Array:
        """K⁻¹ right, (n, T, m), of what ``stood`` has made, in its place; None: of the border."""
        if right is not None and right.shape[2] == 1:
            half = self.forward(right[:, :, 0])[0]
            return -self.backward(half, np.zeros(self.borders))[:, :, None]
        if right is None:
            right = np.empty((self.stages, self.T, self.borders))
            self._by.solve(self, right, True)
            return right
        self._by.solve(self, right, False)
        return right

    def inverse(self, first: int, last: int, ahead: Array | None) -> tuple[Array, Array]:
        """Blocks of K⁻¹, of some stages and the r next of each, (count, S, S), and what the stages before them take for
        ``ahead``; None: of the end."""
        wide = self.r * self.T
        if ahead is None:
            ahead = aligned((wide + ROWS, -(-wide // LANES) * LANES))
            ahead[:] = 0.0
        return self._by.inverse(self, first, last, ahead), ahead

    def stood(self, states: Array, values: Sequence[Array] = ()) -> Array:
        """Right-hand sides of the states (N t, m) and of the hard rows, each (count, rows, m), as (n, T, m), the same
        memory if there are no hard rows and stages are whole."""
        (rows, count), t = states.shape, self.t
        if t == self.T and rows == self.stages * t and states.flags.c_contiguous:
            return states.reshape(self.stages, t, count)
        right = np.zeros((self.stages, self.T, count))
        full = rows // max(t, 1)
        right[:full, :t] = states[: full * t].reshape(full, t, count)
        right[full : full + 1, : rows - full * t] = states[full * t :]
        behind = right[:, t:].reshape(self.stages, self.group, self.multipliers, count)
        for (at, columns), value in zip(self.places, values, strict=False):
            stage, step = np.divmod(np.arange(at.start, at.stop), self.group)
            behind[stage, step, columns] = value
        return right

    def states(self, whole: Array) -> Array:
        """The states' part (N t, ...) of (n, T, ...)."""
        part = whole if self.t == self.T else np.ascontiguousarray(whole[:, : self.t])
        return part.reshape(self.stages * self.t, *whole.shape[2:])[: self.steps * self.tangent]

    def of_rows(self, whole: NDArray[Any]) -> list[NDArray[Any]]:
        """The hard rows' parts, each (count, rows, ...), of (n, T, ...)."""
        if not self.hard:
            return []
        behind = whole[:, self.t :].reshape(self.stages * self.group, self.multipliers, *whole.shape[2:])
        return [behind[place] for place in self.places]

    def seen(self, place: int) -> Integers:
        """Where in a stage's block of the inverse the unknowns stand that begin with its step at some place: of that
        step and those in reach, then the multipliers of these."""
        stage, step = np.divmod(place + np.arange(self.reach + 1), self.group)
        states = (stage * self.T + step * self.tangent)[:, None] + np.arange(self.tangent)
        rows = (stage * self.T + self.t + step * self.multipliers)[:, None] + np.arange(self.multipliers)
        return np.concatenate([states.ravel(), rows.ravel()])


def _places(hard: Sequence[HardRows]) -> tuple[list[tuple[slice, slice]], int]:
    """Steps at which the rows of each factor end, and which multipliers of these are theirs; how many a step has. Those
    that never end at one step, as of the first and of later ones, share theirs."""
    places: list[tuple[slice, slice]] = []
    for rows in hard:
        last, (count, _, width) = max(rows.offsets), rows.matrix.shape
        beside = [c for at, c in places if at.start < last + count and last < at.stop]
        start = max((columns.stop for columns in beside), default=0)
        places.append((slice(last, last + count), slice(start, start + width)))
    return places, max((columns.stop for _, columns in places), default=0)


class _Rows(ctypes.Structure):
    """The structure ``Hard`` of ``chain.c``."""

    _fields_ = [(name, ctypes.c_longlong) for name in ("count", "rows", "offsets", "at")] + [
        (name, ctypes.c_void_p) for name in ("offset", "matrix", "slack")
    ]


class _Compiled:
    """The functions of ``chain.c``."""

    def __init__(self, loaded: ctypes.CDLL) -> None:
        names = ("sweep", "forward", "backward", "solve", "inverse")
        self._sweep, self._forward, self._backward, self._solve, self._inverse = (
            getattr(loaded, f"chain_{name}") for name in names
        )
        self._sweep.restype, self._forward.restype, self._backward.restype = ctypes.c_longlong, ctypes.c_double, None

    def sweep(self, c: Chain, first: int, last: int) -> tuple[int, float]:
        assert c.given is not None
        logarithm = ctypes.c_double()
        held = [np.array(rows.offsets, dtype=np.int64) for rows in c.hard]
        matrices = [np.ascontiguousarray(rows.matrix) for rows in c.hard]
        hard = (_Rows * max(len(held), 1))(
            *(
                _Rows(len(m), m.shape[2], len(o), at.start, *(location(a) for a in (o, m)), _slack(rows))
                for rows, (_, at), o, m in zip(c.hard, c.places, held, matrices, strict=True)
            )
        )
        failed = self._sweep(
            *(address(c.sizes), *numbers(first, last), *addresses(*c.given), hard, *numbers(len(held))),
            *addresses(c.front, c.corner, c.panels[first:last] if len(c.panels) else None, *c.Y),
            ctypes.byref(logarithm),
        )
        if failed < 0:
            raise MemoryError("chain_sweep")
        return int(failed), logarithm.value

    def forward(self, c: Chain, right: Array) -> tuple[Array, Array, float]:
        half, pulled = np.empty((c.stages, c.T)), np.empty(c.borders)
        square = self._forward(address(c.sizes), *addresses(c.panels, *c.Y, right, half, pulled))
        return half, pulled, float(square)

    def backward(self, c: Chain, half: Array | None, move: Array) -> Array:
        found = np.empty((c.stages, c.T))
        self._backward(address(c.sizes), *addresses(c.panels, *c.Y, half, np.ascontiguousarray(move), found))
        return found

    def solve(self, c: Chain, both: Array, border: bool) -> None:
        given = address(c.sizes), *addresses(c.panels, *c.Y), *numbers(both.shape[2]), ctypes.c_int(border)
        if self._solve(*given, address(both)):
            raise MemoryError("chain_solve")

    def inverse(self, c: Chain, first: int, last: int, ahead: Array) -> Array:
        found = np.empty((last - first, c.S, c.S))
        if self._inverse(address(c.sizes), *numbers(first, last), *addresses(c.panels, ahead, found)):
            raise MemoryError("chain_inverse")
        return found


_compiled = lru_cache(maxsize=4)(_Compiled)


def _slack(rows: HardRows) -> int | None:
    return None if rows.slack is None else location(rows.slack)


class _ByNumPy:
    """The same, stage by stage."""

    def sweep(self, c: Chain, first: int, last: int) -> tuple[int, float]:
        t, T, S, B, b = c.t, c.T, c.S, c.B, c.borders
        total, whole = 0.0, _assembled(c, first, last)
        for k in range(first, last):
            U = c.front.copy()
            U[:T] += whole[k - first]
            try:
                L = np.linalg.cholesky(U[:t, :t].T)
            except np.linalg.LinAlgError:
                return k + 1, total
            U[:t] = np.linalg.solve(L, U[:t])
            U[:t, :t] = L.T
            for i in range(t, T):
                above, rows = U[:t, i], U[t:i]
                given = above @ above - U[i, i]
                U[i] = above @ U[:t] - rows[:, i] @ rows - U[i]
                pivot = U[i, i]
                if np.isnan(pivot):
                    return k + 1, total
                U[i] *= 1 / math.sqrt(pivot) if pivot > _IMPLIED * given else 0.0
            pivots = np.diag(U)[:T]
            if not np.all(np.isfinite(pivots)):
                return k + 1, total
            total += 2 * float(np.sum(np.log(pivots[pivots > 0])))
            signed = np.where(np.arange(T) < t, 1.0, -1.0)[:, None] * U[:T]
            c.corner[:b, :b] -= signed[:, B : B + b].T @ U[:T, B : B + b]
            if len(c.panels):
                c.panels[k] = U[:T, :B]
                unknowns = slice(k * t, min((k + 1) * t, c.steps * c.tangent))
                c.Y[0][:, unknowns] = U[: unknowns.stop - unknowns.start, B : B + b].T
                c.Y[1][:, k * (T - t) : (k + 1) * (T - t)] = U[t:T, B : B + b].T
                c.panels[k, range(T), range(T)] = np.where(pivots > 0, 1 / np.where(pivots > 0, pivots, 1.0), 0.0)
            c.front[: S - T, : S - T] = U[T:S, T:S] - signed[:, T:S].T @ U[:T, T:S]
            c.front[: S - T, B:] = U[T:S, B:] - signed[:, T:S].T @ U[:T, B:]
            c.front[: S - T, S - T : B], c.front[S - T :] = 0.0, 0.0
        return 0, total

    @staticmethod
    def _parts(c: Chain) -> tuple[Array, Array, Array, Array]:
        """Of each stage U⁻¹, U of the stages ahead, what the border leaves in it, and s."""
        U = np.triu(c.panels[:, : c.T, : c.T])
        diagonal = np.einsum("kii->ki", U)
        kept = diagonal > 0
        diagonal[:] = 1 / np.where(kept, diagonal, 1.0)
        signs = np.where(np.arange(c.T) < c.t, 1.0, -1.0)
        border = np.zeros((c.stages, c.T, c.borders))
        whole = np.zeros((c.stages * c.t, c.borders))
        whole[: c.steps * c.tangent] = c.Y[0].T
        border[:, : c.t] = whole.reshape(c.stages, c.t, c.borders)
        border[:, c.t :] = c.Y[1].T.reshape(c.stages, c.T - c.t, c.borders)
        return np.linalg.inv(U) * kept[:, None], c.panels[:, :, c.T : c.S], border, signs

    def forward(self, c: Chain, right: Array) -> tuple[Array, Array, float]:
        inverse, ahead, border, signs = self._parts(c)
        half = self._down(c, inverse, ahead, right[:, :, None])[:, :, 0]
        return half * signs, np.einsum("ki,kib->b", half, border), float(np.sum(half * half * signs))

    def backward(self, c: Chain, half: Array | None, move: Array) -> Array:
        inverse, ahead, border, _ = self._parts(c)
        right = border @ move if half is None else half + border @ move
        return -self._up(c, inverse, ahead, right[:, :, None])[:, :, 0]

    def solve(self, c: Chain, both: Array, border: bool) -> None:
        inverse, ahead, own, signs = self._parts(c)
        half = own if border else self._down(c, inverse, ahead, both) * signs[:, None]
        both[:, :, : half.shape[2]] = self._up(c, inverse, ahead, half)

    @staticmethod
    def _down(c: Chain, inverse: Array, ahead: Array, right: Array) -> Array:
        """U⁻ᵀ right, (n, T, m)."""
        found, sums = np.empty(right.shape), np.zeros((c.S, right.shape[2]))
        for k, own in enumerate(right):
            found[k] = inverse[k].T @ (own + sums[: c.T])
            sums[: -c.T], sums[-c.T :] = sums[c.T :] - ahead[k].T @ found[k], 0.0
        return found

    @staticmethod
    def _up(c: Chain, inverse: Array, ahead: Array, half: Array) -> Array:
        """U⁻¹ half, (n, T, m)."""
        found = np.zeros((c.stages + c.r, *half.shape[1:]))
        for k in range(c.stages - 1, -1, -1):
            following = found[k + 1 : k + 1 + c.r].reshape(-1, half.shape[2])
            found[k] = inverse[k] @ (half[k] - ahead[k] @ following)
        return found[: c.stages]

    def inverse(self, c: Chain, first: int, last: int, ahead: Array) -> Array:
        inverse, panels, _, signs = self._parts(c)
        found, wide = np.empty((last - first, c.S, c.S)), c.S - c.T
        for k in range(last - 1, first - 1, -1):
            P, known, G = found[k - first], ahead[:wide, :wide], inverse[k] @ panels[k]
            P[c.T :, c.T :], P[: c.T, c.T :] = known, -G @ known
            P[c.T :, : c.T] = P[: c.T, c.T :].T
            own = inverse[k] * signs @ inverse[k].T - P[: c.T, c.T :] @ G.T
            P[: c.T, : c.T] = (own + own.T) / 2
            ahead[:wide, :wide] = P[:wide, :wide]
        return found


def _assembled(c: Chain, first: int, last: int) -> Array:
    """Rows of some stages in K, above its diagonal, as they stand in their panels, (count, T, V)."""
    assert c.given is not None
    (band, damping, border), count = c.given, c.stages
    whole = np.zeros((count, c.T, c.V))
    lengths = count * c.t
    entries, right = np.zeros((lengths, band.shape[1])), np.zeros((lengths, c.borders))
    entries[len(band) :, 0] = 1.0
    entries[: len(band)], right[: len(band)] = band, border.T
    entries[: len(band), 0] += band[:, 0] == 0 if damping is None else damping
    for i in range(c.t):
        stage, unknown = np.divmod(i + np.arange(band.shape[1]), c.t)
        seen = stage <= c.r
        whole[:, i, (stage * c.T + unknown)[seen]] = entries[i :: c.t][:, seen]
        whole[:, i, c.B : c.B + c.borders] = right[i :: c.t]
    stands = np.zeros((count * c.group, c.multipliers), dtype=np.bool_)
    for rows, (at, columns) in zip(c.hard, c.places, strict=True):
        stands[at, columns] = True
        for k, matrix in enumerate(rows.matrix):
            end, step = divmod(k + max(rows.offsets), c.group)
            own = c.t + step * c.multipliers + columns.start + np.arange(matrix.shape[1])
            for o, offset in enumerate(rows.offsets):
                there, place = divmod(k + offset, c.group)
                unknowns = place * c.tangent + np.arange(c.tangent)
                part = matrix[o * c.tangent : (o + 1) * c.tangent]
                whole[there, unknowns[:, None], (end - there) * c.T + own] += part
            whole[end, own, c.B : c.B + c.borders] = matrix[len(rows.offsets) * c.tangent :].T
            if rows.slack is not None:
                whole[end, own, own] -= rows.slack[k]
    multipliers = np.arange(c.t, c.T)
    whole[:, multipliers, multipliers] -= ~stands.reshape(count, -1)
    return whole[first:last]


def numbers(*counts: int) -> tuple[ctypes.c_longlong, ...]:
    """As C code takes them."""
    return tuple(ctypes.c_longlong(count) for count in counts)


def addresses(*arrays: NDArray[Any] | None) -> list[ctypes.c_void_p]:
    """As C code takes them."""
    return [address(array) for array in arrays]


def mirrored(upper: Array) -> Array:
    """A square matrix made symmetric by its upper triangle."""
    return np.triu(upper) + np.triu(upper, 1).T


def aligned(shape: tuple[int, ...]) -> Array:
    """Room that begins where a vector may."""
    count = math.prod(shape)
    buffer = np.empty(count + LANES)
    start = -location(buffer) % (LANES * buffer.itemsize) // buffer.itemsize
    return buffer[start : start + count].reshape(shape)
