"""The linearized problem with its states condensed out: T of (3.32), whose product with itself is their Schur
complement, and what a fit leaves of any vector of residuals.

With whitened Jacobians J_x of the states and J_χ of the parameters, T = (I − J_x J_x⁺) J_χ. A projection costs two
substitutions in the states' Cholesky factor, so all of this is linear in the number of steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spookid.kernels.kernel import Array
from spookid.solvers.elimination import Elimination, eliminate
from spookid.solvers.selected_inversion import cross_covariances, selected_inverse_backward
from spookid.solvers.structured import NotPositiveDefiniteError
from spookid.statistics.linearized import Columns, LinearizedFactor, LinearizedProblem, Signs, added, chunks, products

_RANK = 1e-10
"""Eigenvalues of the scaled information below this share of the largest are zero to round-off."""
_SOUND = 1e-6
"""Relative error of tr(J_x J_x⁺), a whole number, with which its parts are still of use."""


class Condensed:
    """A linearized problem with its states condensed out.

    Args:
        here: the problem.
        held: True for parameters that do not move, (n_p,).
        refined: project twice, so that T is exact to round-off.
        open: directions of the parameters along which nothing is estimated, (n_p, k); None: there are none.

    Raises:
        NotPositiveDefiniteError: if the states are not determined.
    """

    def __init__(
        self, here: LinearizedProblem, held: NDArray[np.bool_], refined: bool = True, open: Array | None = None
    ) -> None:
        self.linearized, n = here, here.parameters
        self._states, self._eliminations = 0, dict[int, Elimination]()
        projected = [self._projected(c, refined) for c in range(len(here.chains))]
        self.T = [[part[:, :n] for part in parts] for parts in projected]
        """Per chain and factor, transposed: (count, n_p, rows)."""
        self.information = self.inner(self.T, self.T)
        """TᵀT, the Schur complement of the states, (n_p, n_p)."""
        self.inverse, self._moving = pseudo_inverse(self.information, held, open)
        """Its inverse for the parameters that are not held, 0 elsewhere, (n_p, n_p)."""
        self.residuals = self._without_parameters([[part[:, n:] for part in parts] for parts in projected])
        """r̂ = (I − H) r, what the best changes of states and parameters leave, (count, 1, rows)."""

    @property
    def freedom(self) -> int:
        """Rows that depend on anything, hard ones too, less the unknowns that move any."""
        rows = sum(int(term.alive.sum()) for terms in self.linearized.chains for term in terms)
        return rows - self._states - self._moving

    def release(self) -> None:
        """Forget the states' factors, the larger part of all that is kept; they are made again when asked for."""
        self._eliminations.clear()

    def leverages(self) -> list[Columns] | None:
        """Per chain and factor the sums over the steps of the diagonal of J_x J_x⁺, which is how far the states follow
        noise in each row, (rows,). None if rounding spoils it."""
        found = [self._leverages(c) for c in range(len(self.linearized.chains))]
        trace = sum(float(np.sum(rows)) for parts in found for rows in parts)
        return found if abs(trace - self._states) <= _SOUND * self._states else None

    def covariances(self, chain: int, place: int) -> Array:
        """JH⁻¹Jᵀ of one factor's rows at each step, what is not known of them where noise is what it is taken for,
        (count, rows, rows)."""
        term, T = self.linearized.chains[chain][place], self.T[chain][place]
        N, t = term.steps, term.tangent
        found = np.matmul(T.transpose(0, 2, 1), np.matmul(self.inverse, T))
        for start, covariances in selected_inverse_backward(self._elimination(chain).columns, N, t):
            here = slice(start, start + len(covariances))
            states = term.at(here).matrix[:, : term.unknowns]
            across = cross_covariances(covariances, term.source.offsets, states)
            found[here] += np.matmul(states.transpose(0, 2, 1), across)
        return np.asarray(found)

    def rows(self, *columns: Sequence[Sequence[Array | Signs]]) -> Iterator[tuple[Any, ...]]:
        """Each linearized factor of each chain, with its parts of vectors of residuals."""
        for terms, *parts in zip(self.linearized.chains, *columns, strict=True):
            yield from zip(terms, *parts, strict=True)

    def left(self, columns: Sequence[Sequence[Array | Signs]]) -> list[Columns]:
        """(I − H) times vectors of residuals, per chain."""
        return self._without_parameters([self.without_states(c, part) for c, part in enumerate(columns)])

    def inner(self, one: Sequence[Columns], other: Sequence[Columns]) -> Array:
        """Inner products of vectors of residuals, (m, m')."""
        pairs = ((a, b) for ones, others in zip(one, other, strict=True) for a, b in zip(ones, others, strict=True))
        return np.asarray(sum(products(a, b) for a, b in pairs))

    def without_states(self, chain: int, columns: Sequence[Array | Signs]) -> Columns:
        """(I − J_x J_x⁺) times vectors of residuals of one chain."""
        steps = self._steps(chain, columns)
        left = [np.array(c, dtype=np.float64) for c in columns]
        self._subtract(chain, left, steps)
        return left

    def _projected(self, chain: int, refined: bool) -> Columns:
        """T, and in the last column (I − J_x J_x⁺) r, of one chain."""
        terms, found = self.linearized.chains[chain], []
        self._eliminations[chain], moving = _eliminated(terms)
        self._states += moving
        steps = self._eliminations[chain].responses().reshape(terms[0].steps, terms[0].tangent, -1)
        for term in terms:
            columns = np.empty((len(term.residual), steps.shape[2], term.residual.shape[1]))
            for here, rows in term.parts():
                columns[here] = rows.matrix[:, term.unknowns :] - rows.image(steps[here.start :])
            found.append(columns)
        del steps
        if refined:
            self._subtract(chain, found, self._steps(chain, found))
        return found

    def _steps(self, chain: int, columns: Sequence[Array | Signs]) -> Array:
        """J_x⁺ times vectors of residuals of one chain, (N, tangent, m)."""
        terms = self.linearized.chains[chain]
        right = np.zeros((terms[0].steps, terms[0].tangent, columns[0].shape[1]))
        for term, part in zip(terms, columns, strict=True):
            for here, rows in term.parts():
                rows.pull(part[here].astype(np.float64), right[here.start :])
        return self._elimination(chain).solve(right.reshape(-1, right.shape[2])).reshape(right.shape)

    def _subtract(self, chain: int, columns: Columns, steps: Array) -> None:
        """Take J_x times steps of the states of one chain, (N, tangent, m), from vectors of residuals."""
        for term, part in zip(self.linearized.chains[chain], columns, strict=True):
            for here, image in term.images(steps):
                part[here] -= image

    def _without_parameters(self, columns: Sequence[Columns]) -> list[Columns]:
        """(I − T T⁺) times vectors of residuals, in their place."""
        steps = (self.inverse @ self.inner(self.T, columns)).T
        for Ts, parts in zip(self.T, columns, strict=True):
            for T, part in zip(Ts, parts, strict=True):
                for here in chunks(len(T), T[:1].size):
                    part[here] -= np.matmul(steps, T[here])
        return list(columns)

    def _leverages(self, chain: int) -> Columns:
        """Of one chain, with the covariances P of neighbouring steps in the unknowns that each row sees."""
        terms = self.linearized.chains[chain]
        N, t = terms[0].steps, terms[0].tangent
        found = [np.zeros(term.residual.shape[1]) for term in terms]
        for start, covariances in selected_inverse_backward(self._elimination(chain).columns, N, t):
            for term, total in zip(terms, found, strict=True):
                states = term.at(slice(start, start + len(covariances))).matrix[:, : term.unknowns]
                total += np.einsum("kur,kur->r", states, cross_covariances(covariances, term.source.offsets, states))
        return found

    def _elimination(self, chain: int) -> Elimination:
        if chain not in self._eliminations:
            self._eliminations[chain], _ = _eliminated(self.linearized.chains[chain])
        return self._eliminations[chain]


def _eliminated(terms: Sequence[LinearizedFactor]) -> tuple[Elimination, int]:
    """The states of one chain, and how many of them move any row."""
    for damping in (0.0, 1e-14):
        equations = added(terms)
        moving = int(np.count_nonzero(equations.diagonal))
        try:
            return eliminate(equations, damping, overwrite=True), moving
        except NotPositiveDefiniteError:
            continue
    raise NotPositiveDefiniteError("the states are not determined")


def pseudo_inverse(information: Array, held: NDArray[np.bool_], open: Array | None = None) -> tuple[Array, int]:
    """Pseudo-inverse, each parameter scaled by its own information, of those that are not held; and its rank.

    Args:
        open: directions along which it is zero, (n_p, k), and with which the others have nothing in common: what lies
            across them in the measure of the information is inverted.
    """
    if open is not None:
        across = information @ open
        rest = np.eye(len(information)) - open @ np.linalg.pinv(open.T @ across, hermitian=True) @ across.T
        inverse, rank = pseudo_inverse(rest.T @ information @ rest, held)
        return rest @ inverse @ rest.T, rank
    scale = np.sqrt(np.diag(information))
    scale = np.where((scale > 0) & ~held, scale, np.inf)
    values, vectors = np.linalg.eigh(information / np.outer(scale, scale))
    seen = values > _RANK * values.max(initial=0.0)
    half = vectors[:, seen] / np.sqrt(values[seen]) / scale[:, None]
    return np.asarray(half @ half.T), int(np.sum(seen))
