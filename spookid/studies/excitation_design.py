"""How good a planned motion is, and how far it is within its limits, with gradients in its coefficients.

Of the information M = P + Σ Jᵀ J Δt (``excitation_rows``) a criterion is −log det M, the largest relative standard
error (as a norm of high order, which is smooth), or the logarithms of the errors of some parameters. Directions that no
motion shows are left out of M.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import casadi as ca
import numpy as np

from spookid.kernels.kernel import Array, Mask
from spookid.studies.excitation_basis import Basis
from spookid.studies.excitation_rows import PlannedEfforts

Criterion: TypeAlias = str | Sequence[str]
"""``"determinant"``, ``"largest"``, or names of parameters."""
_ORDER = 8
"""Of the norm that stands for the largest of some squares."""
SHOWN = 1e-12
"""Share of the largest eigenvalue of the scaled information below which no motion shows a direction."""
_HALVINGS = 10
_MARGIN = 0.01
"""Of each limit, which the motion between the instants of a design may need."""


@dataclass(frozen=True, eq=False)
class Bounds:
    """Of n coordinates and f frames, infinite where there is none."""

    position: Array
    """(2, n) [rad or m]."""
    rate: Array
    """(n,) [rad/s or m/s]."""
    effort: Array
    """(n,) [N m or N]."""
    place: Array
    """(2, 3 f) [m]."""

    @cached_property
    def rows(self) -> tuple[Array, Array]:
        """Lower and upper of positions, rates, efforts and places, (3 n + 3 f,)."""
        symmetric = np.concatenate([self.rate, self.effort])
        lower = [self.position[0], -symmetric, self.place[0]]
        return np.concatenate(lower), np.concatenate([self.position[1], symmetric, self.place[1]])

    @cached_property
    def scales(self) -> Array:
        """By which rows are divided, (3 n + 3 f,)."""
        lower, upper = self.rows
        half = (upper - lower) / 2
        return np.where(np.isfinite(half) & (half > 0), half, 1.0)

    @cached_property
    def present(self) -> Mask:
        """True for rows that have a limit."""
        lower, upper = self.rows
        return np.isfinite(lower) | np.isfinite(upper)

    def beyond(self, rows: Array) -> float:
        """How far rows (N, 3 n + 3 f) lie beyond, in shares of half the range; negative inside."""
        lower, upper = self.rows
        off = np.maximum(lower - rows, rows - upper) / self.scales
        return float(np.max(off[:, self.present], initial=-np.inf))


@dataclass(frozen=True, eq=False)
class Design:
    """A motion of coefficients z (n m,), of one coordinate after the other."""

    efforts: PlannedEfforts
    basis: Basis
    bounds: Bounds
    t: Array
    """Instants that it is judged at, evenly spaced, (N,) [s]."""
    known: Array
    """Information beforehand, (n_p, n_p)."""
    sizes: Array
    """Of the parameters, whose shares errors are, (n_p,)."""
    judged: Mask
    """Parameters whose errors count, (n_p,); of −log det all do."""
    determinant: bool
    largest: bool
    """True for the largest of these errors, False for all together."""
    shown: Array
    """Directions of scaled parameters that count, orthonormal columns (n_p, r)."""

    @cached_property
    def functions(self) -> Array:
        """Of the basis, (3, N, m)."""
        return self.basis.at(self.t)

    def motion(self, z: Array, functions: Array | None = None) -> Array:
        """(3, N, n)."""
        at = self.functions if functions is None else functions
        return np.asarray(at @ z.reshape(-1, self.basis.size).T)

    # --- how much it tells ---

    def information(self, motion: Array) -> Array:
        """Of the data in scaled parameters, (n_p, n_p)."""
        rows = self.efforts.slopes(motion) * self.sizes
        flat = rows.reshape(-1, len(self.sizes))
        return np.asarray(flat.T @ flat * (self.t[1] - self.t[0]))

    def judge(self, data: Array) -> tuple[float, Array]:
        """The criterion, and minus its gradient in the information, (n_p, n_p)."""
        whole = data + self.known * np.outer(self.sizes, self.sizes)
        inner = self.shown.T @ whole @ self.shown
        try:
            factor = np.linalg.cholesky(inner)
        except np.linalg.LinAlgError:
            return np.inf, np.zeros_like(whole)
        half = np.linalg.solve(factor, self.shown.T)
        covariance = half.T @ half
        if self.determinant:
            return -2 * float(np.sum(np.log(np.diag(factor)))), covariance
        squares = np.diag(covariance)[self.judged]
        if self.largest:
            top = float(np.max(squares))
            total = float(np.sum((squares / top) ** _ORDER))
            value = np.log(top) + np.log(total) / _ORDER
            weights = (squares / top) ** (_ORDER - 1) / (total * top)
        else:
            value, weights = float(np.sum(np.log(squares))), 1 / squares
        columns = covariance[:, self.judged]
        return float(value), (columns * weights) @ columns.T

    def value(self, z: Array) -> float:
        """The criterion at coefficients."""
        return self.judge(self.information(self.motion(z)))[0]

    def gradient(self, z: Array) -> Array:
        """Of the criterion in the coefficients."""
        motion = self.motion(z)
        rows = self.efforts.slopes(motion) * self.sizes
        flat = rows.reshape(-1, len(self.sizes))
        step = self.t[1] - self.t[0]
        slope = self.judge(flat.T @ flat * step)[1]
        pulled = self.efforts.pulled(motion, -2 * step * (rows @ slope) * self.sizes)
        return np.asarray(np.einsum("dkm,dkn->nm", self.functions, pulled)).ravel()

    # --- what it takes ---

    def rows(self, z: Array, functions: Array | None = None) -> Array:
        """Positions, rates, efforts and places, (N, 3 n + 3 f)."""
        motion = self.motion(z, functions)
        return np.hstack([motion[0], motion[1], self.efforts.asked(motion)])

    def fitted(self, z: Array, t: Array, least: float = 0.0) -> tuple[Array, float]:
        """A motion about its middle within the limits at times (N,), and the share of it that this is: 1 at the most,
        and 0 if it would be no more than ``least``."""
        functions, middle = self.basis.at(t), self._middle(z)

        def inside(share: float) -> bool:
            return self.bounds.beyond(self.rows(middle + share * (z - middle), functions)) <= 0

        if inside(1.0):
            return z, 1.0
        low, high = least, 1.0
        if not inside(least):
            return middle, 0.0
        for _ in range(_HALVINGS):
            share = (low + high) / 2
            low, high = (share, high) if inside(share) else (low, share)
        return np.asarray(middle + low * (z - middle)), low

    def _middle(self, z: Array) -> Array:
        """The constant part of a motion."""
        parts = z.reshape(-1, self.basis.size).copy()
        parts[:, 1:] = 0.0
        return parts.ravel()


@dataclass(eq=False)
class DesignProgram:
    """A design as a nonlinear program (``solvers.callbacks.Evaluated``)."""

    design: Design
    origin: Array
    """Where it starts."""

    @property
    def size(self) -> int:
        """Unknowns."""
        return len(self.origin)

    @cached_property
    def bounds(self) -> tuple[Array, Array]:
        """Of the rows, each over its scale."""
        limits = self.design.bounds
        kept, (lower, upper) = limits.present, limits.rows
        room = np.where(np.isfinite(upper - lower), _MARGIN * limits.scales, 0.0)
        pair = [((side) / limits.scales)[kept] for side in (lower + room, upper - room)]
        return np.tile(pair[0], len(self.design.t)), np.tile(pair[1], len(self.design.t))

    def objective(self, z: Array) -> float:
        """The criterion."""
        return self.design.value(z)

    def gradient(self, z: Array) -> Array:
        """Of the criterion."""
        return self.design.gradient(z)

    def constraints(self, z: Array) -> Array:
        """Rows that have limits, those of one instant after the other."""
        limits = self.design.bounds
        return (self.design.rows(z) / limits.scales)[:, limits.present].ravel()

    def jacobian(self, z: Array) -> Array:
        """Its nonzeros, column by column."""
        dense = self._dense(z)
        return dense.transpose(2, 0, 1).reshape(dense.shape[2], -1)[self._pattern.T]

    @cached_property
    def jacobian_sparsity(self) -> ca.Sparsity:
        """Which unknowns stand in which rows: of positions and rates those of their coordinate."""
        columns, rows = np.nonzero(self._pattern.T)
        return ca.Sparsity.triplet(self._pattern.shape[0], self.size, rows.tolist(), columns.tolist())

    @cached_property
    def _pattern(self) -> Mask:
        """(rows, unknowns)."""
        design, m = self.design, self.design.basis.size
        n, count = self.size // m, len(design.bounds.scales)
        own = np.ones((count, n), dtype=bool)
        own[: 2 * n] = np.tile(np.eye(n, dtype=bool), (2, 1))
        return np.tile(np.repeat(own[design.bounds.present], m, axis=1), (len(design.t), 1))

    def _dense(self, z: Array) -> Array:
        """(N, rows, unknowns)."""
        design, functions = self.design, self.design.functions
        motion, m = design.motion(z), design.basis.size
        slopes = design.efforts.asked_slopes(motion)
        asked = np.einsum("dkrn,dkm->krnm", slopes, functions)
        n = motion.shape[2]
        own = np.einsum("dkm,in->kdinm", functions[:2], np.eye(n)).reshape(len(design.t), 2 * n, n, m)
        whole = np.concatenate([own, asked], axis=1) / design.bounds.scales[:, None, None]
        return np.asarray(whole[:, design.bounds.present].reshape(len(design.t), -1, n * m))
