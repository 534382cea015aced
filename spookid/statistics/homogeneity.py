"""Homogeneity of recordings, by score tests: whether one would have a parameter elsewhere than the others.

A parameter that is another in one recording changes the residuals of that recording alone, along T_r e_p with T_r its
part of T. With what parameters common to all would do projected out, products of these columns are

    δ_rs A_r − A_r A⁻¹ A_s,    A_r = T_rᵀT_r,

so that the columns themselves need not be made.
"""

from __future__ import annotations

from collections.abc import Sequence

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
        rows = [i for i, term in enumerate(terms) if term.factor.group is not Group.PRIOR]
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
