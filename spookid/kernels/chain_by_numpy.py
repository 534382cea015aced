"""The elimination of a chain by NumPy, for installations without the C code: what ``chain.c`` does, and its oracle."""

from __future__ import annotations

import math

import numpy as np

from spookid.kernels.arrays import Array
from spookid.kernels.stages import Factors

_IMPLIED = 1e-13
"""As in ``chain.c``."""


class ByNumPy:
    """The functions of ``chain.c``, stage by stage."""

    def sweep(self, c: Factors, first: int, last: int) -> tuple[int, float]:
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
    def _parts(c: Factors) -> tuple[Array, Array, Array, Array]:
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

    def forward(self, c: Factors, right: Array) -> tuple[Array, Array, float]:
        inverse, ahead, border, signs = self._parts(c)
        half = self._down(c, inverse, ahead, right[:, :, None])[:, :, 0]
        return half * signs, np.einsum("ki,kib->b", half, border), float(np.sum(half * half * signs))

    def backward(self, c: Factors, half: Array | None, move: Array) -> Array:
        inverse, ahead, border, _ = self._parts(c)
        right = border @ move if half is None else half + border @ move
        return -self._up(c, inverse, ahead, right[:, :, None])[:, :, 0]

    def solve(self, c: Factors, both: Array, border: bool) -> None:
        inverse, ahead, own, signs = self._parts(c)
        half = own if border else self._down(c, inverse, ahead, both) * signs[:, None]
        both[:, :, : half.shape[2]] = self._up(c, inverse, ahead, half)

    @staticmethod
    def _down(c: Factors, inverse: Array, ahead: Array, right: Array) -> Array:
        """U⁻ᵀ right, (n, T, m)."""
        found, sums = np.empty(right.shape), np.zeros((c.S, right.shape[2]))
        for k, own in enumerate(right):
            found[k] = inverse[k].T @ (own + sums[: c.T])
            sums[: -c.T], sums[-c.T :] = sums[c.T :] - ahead[k].T @ found[k], 0.0
        return found

    @staticmethod
    def _up(c: Factors, inverse: Array, ahead: Array, half: Array) -> Array:
        """U⁻¹ half, (n, T, m)."""
        found = np.zeros((c.stages + c.r, *half.shape[1:]))
        for k in range(c.stages - 1, -1, -1):
            following = found[k + 1 : k + 1 + c.r].reshape(-1, half.shape[2])
            found[k] = inverse[k] @ (half[k] - ahead[k] @ following)
        return found[: c.stages]

    def inverse(self, c: Factors, first: int, last: int, ahead: Array) -> Array:
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


def _assembled(c: Factors, first: int, last: int) -> Array:
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
