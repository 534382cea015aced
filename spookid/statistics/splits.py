"""Homogeneity of recordings, by score tests: whether one would have a parameter elsewhere than the others.

A parameter that is another in one recording changes the residuals of that recording alone, along T_r e_p with T_r its
part of T. With what parameters common to all would do projected out, products of these columns are

    δ_rs A_r − A_r A⁻¹ A_s,    A_r = T_rᵀT_r,

so that the columns themselves need not be made.

Data parted at an onset: whether a parameter is another after it, which, and by how much.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from spookid.kernels.arrays import Array
from spookid.records import dataclass
from spookid.statistics.condensing import Condensed
from spookid.statistics.linearized import Columns
from spookid.transcription.factor import Group


@dataclass(frozen=True, eq=False)
class Heterogeneity:
    """Parameters that may be others in one recording; k pairs of both."""

    names: tuple[str, ...]
    """What is told of each."""
    before: Array
    """Squares of the columns, parameters not projected out, (k,)."""
    gram: Array
    """Products of what is left of them, (k, k)."""
    across: Array
    """With other columns, (m, k)."""
    pulls: Array
    """Less those with the residuals and slopes of volumes, (k,)."""


def heterogeneity(condensed: Condensed, others: Sequence[Columns], steps: Array, volumes: Array) -> Heterogeneity:
    """Of every parameter that moves in every recording that it stands in, if these are several.

    Args:
        others: m vectors per chain from which states are projected out.
        steps: of the parameters, (n_p, m), that are to be projected out of them, too.
        volumes: half the slopes in the parameters of the logarithms in −2 log L of each recording, (recordings, n_p).
    """
    if len(condensed.linearized.chains) == 1:
        nothing = np.zeros(0)
        return Heterogeneity((), nothing, np.zeros((0, 0)), np.zeros((steps.shape[1], 0)), nothing)
    moving = np.flatnonzero(np.diag(condensed.inverse) > 0)
    own, across, pulls = [], [], []
    for terms, *parts in zip(condensed.linearized.chains, condensed.T, condensed.residuals, others, strict=True):
        rows = [i for i, term in enumerate(terms) if not (term.factor.hard or term.factor.group is Group.PRIOR)]
        T, r, states = (_flat([part[i] for i in rows]) for part in parts)
        products = T @ T[moving].T
        own.append(products[moving])
        across.append(states @ T[moving].T - steps.T @ products)
        pulls.append(-T[moving] @ r[0])
    A = np.concatenate(own)
    inverse = condensed.inverse[np.ix_(moving, moving)]
    gram = -A @ inverse @ A.T
    slopes = volumes[:, moving].ravel() - A @ inverse @ volumes[:, moving].sum(axis=0)
    n = len(moving)
    for i, block in enumerate(own):
        gram[i * n : (i + 1) * n, i * n : (i + 1) * n] += block
    problem = condensed.linearized.problem
    kept = np.flatnonzero(np.tile(problem.shared_by_chains[moving], len(own)))
    names = [
        f"recordings disagree on {problem.names[p]}, {chain.name} by {{}} with the others"
        for chain in problem.chains
        for p in moving.tolist()
    ]
    before, pulled = np.concatenate([np.diag(block) for block in own]), np.concatenate(pulls) - slopes
    told = tuple(names[i] for i in kept.tolist())
    return Heterogeneity(told, before[kept], gram[np.ix_(kept, kept)], np.hstack(across)[:, kept], pulled[kept])


def _flat(parts: Columns) -> Array:
    """Vectors of one chain, (m, rows of all factors)."""
    return np.hstack([part.transpose(1, 0, 2).reshape(part.shape[1], part.shape[0] * part.shape[2]) for part in parts])


_CLEARLY = 6.0
"""Squared z by which a parameter must explain a change better than any other: twenty times as likely (2 log 20)."""
_SURE = 2.0
"""Times the squared threshold beyond which a change is told even if two parameters explain it alike."""
LOST, _ROUNDING = 1e-8, 1e-12
"""Share of the information in B below which what is left after elimination is rounding, and of the largest eigenvalue
of an information matrix with diagonal 1."""


def normalized(t: Array, freedom: Array) -> Array:
    """z of a standard normal variable that is as unlikely as t of Student's with so many degrees of freedom; 0 where
    there are none (Wallace, Ann. Math. Statist. 30, 1959, whose error is some 1 % in the farthest tail)."""
    known = np.maximum(freedom, 1e-9)
    size = (8 * known + 1) / (8 * known + 3) * np.sqrt(known * np.log1p(t**2 / known))
    return np.asarray(np.where(freedom > 0, np.copysign(size, t), 0.0))


@dataclass(frozen=True, eq=False)
class Knowledge:
    """What some data tell of the parameters."""

    score: Array
    """At the reference, (n,)."""
    information: Array
    """(n, n)."""

    def plus(self, other: Knowledge) -> Knowledge:
        """Of both."""
        return Knowledge(self.score + other.score, self.information + other.information)

    @property
    def root(self) -> Array:
        """L with L Lᵀ the inverse of the information, zero along what is not known, (n, r)."""
        sizes = np.sqrt(np.maximum(self.information.diagonal(), 0))
        scale = np.divide(1.0, sizes, out=np.zeros_like(sizes), where=sizes > 0)
        values, vectors = np.linalg.eigh(scale[:, None] * self.information * scale)
        kept = values > _ROUNDING * max(float(values[-1]), 1e-300)
        return np.asarray(scale[:, None] * vectors[:, kept] / np.sqrt(values[kept]))

    @property
    def solved(self) -> Array:
        """The best distance from the reference, zero along what is not known, (n,)."""
        root = self.root
        return np.asarray(root @ (root.T @ self.score))

    def without(self, j: int) -> Knowledge:
        """Of the other parameters, whatever the j-th is."""
        score, information = self.score, self.information
        ratios = information[:, j] / information[j, j]
        score, information = score - ratios * score[j], information - np.outer(ratios, information[j])
        score[j], information[j], information[:, j] = 0.0, 0.0, 0.0
        return Knowledge(score, information)


@dataclass(frozen=True, eq=False)
class Split:
    """The data parted at an onset."""

    since: float
    """The onset [s]."""
    earlier: Knowledge
    later: Knowledge
    scatter: Array
    """Of past blocks as long as what is later, 1 at the least, (n,)."""
    freedom: Array
    """Degrees of freedom of ``scatter``, (n,)."""
    scatter_earlier: Array
    """Of past blocks as long as what is earlier, as ``scatter``."""

    @cached_property
    def _terms(self) -> tuple[Array, Array]:
        """u and v of each parameter, (n,)."""
        both = self.earlier.plus(self.later)
        left = self.later.information @ both.root
        return self.later.score - left @ (both.root.T @ both.score), self.later.information.diagonal() - np.sum(
            left**2, axis=1
        )

    @cached_property
    def z(self) -> Array:
        """Of a change of each parameter, (n,), as unlikely as Student's t is with a scatter that is known as well as
        it is; 0 where nothing can be said."""
        u, v = self._terms
        said = v > LOST * self.later.information.diagonal()
        return normalized(np.where(said, u / np.sqrt(np.where(said, v * self.scatter, 1.0)), 0.0), self.freedom)

    @property
    def strongest(self) -> int:
        """The parameter whose change explains the data best."""
        return int(np.argmax(np.abs(self.z)))

    def is_near(self, i: int) -> bool:
        """True if a change of another parameter explains them nearly as well."""
        return float(self.z[self.strongest] ** 2 - self.z[i] ** 2) < _CLEARLY

    def tells(self, threshold: float) -> bool:
        """True if something has changed, and it is clear which; later it may be clearer, unless it is sure."""
        square = float(self.z[self.strongest] ** 2)
        alone = sum(map(self.is_near, range(len(self.z)))) == 1
        return square >= threshold**2 * (1.0 if alone else _SURE)

    def change(self, j: int) -> float:
        """δ of parameter j."""
        u, v = self._terms
        return float(u[j] / v[j])

    def error(self, j: int) -> float:
        """Standard error of δ."""
        return float(np.sqrt(self.scatter[j] / self._terms[1][j]))

    def before(self, j: int) -> tuple[float, float]:
        """Distance of parameter j from the reference before it changed, and its standard error."""
        both = self.earlier.plus(self.later)
        constant = Knowledge(both.score - self.later.information[:, j] * self.change(j), both.information)
        return float(constant.solved[j]), float(np.sqrt(np.sum(self.earlier.root[j] ** 2) * self.scatter_earlier[j]))

    @property
    def kept(self) -> Knowledge:
        """What is known from before of all parameters but the one that has changed."""
        return self.earlier.without(self.strongest)
