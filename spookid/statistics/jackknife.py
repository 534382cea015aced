"""What each stretch of a recording says about the parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from spookid.kernels.kernel import Array
from spookid.solvers.elimination import eliminate
from spookid.solvers.structured import NormalEquations, NotPositiveDefiniteError
from spookid.statistics.condensed import Contraction, Strip, added
from spookid.transcription.factor import Group

WINDOWS = 20
"""Stretches that a recording is cut into."""


@dataclass(frozen=True, eq=False)
class Windows:
    """Stretches of all chains, one chain after the other; W in all."""

    edges: tuple[Array, ...]
    """Per chain the first step of each stretch, and the number of steps at the end."""
    scores: Array
    """T_wᵀ r̂_w, (W, n_p)."""
    information: Array
    """T_wᵀ T_w, (W, n_p, n_p)."""
    gradients: Array
    """Tᵀ r without the observations of each stretch less Tᵀ r, (W, n_p); NaN if the states are not determined."""
    remaining: Array
    """TᵀT without them, (W, n_p, n_p)."""


def windows(c: Contraction) -> Windows:
    """Cut each chain into stretches and sum what their rows say, those of priors left out."""
    n, edges, scores, information = c.linear.parameters, [], [], []
    whole = [added(strips) for strips in c.linear.chains]
    reduced = [_reduced(equations) for equations in whole]
    total, left_out = np.sum(reduced, axis=0), []
    for i, chain in enumerate(c.linear.problem.chains):
        count = min(WINDOWS, chain.steps)
        cuts = np.linspace(0, chain.steps, count + 1).round().astype(int)
        score, inner = np.zeros((count, n)), np.zeros((count, n, n))
        for strip, T, r in zip(c.linear.chains[i], c.T[i], c.residuals[i], strict=True):
            if strip.factor.group is Group.PRIOR:
                continue
            for w in range(count):
                rows = slice(cuts[w], cuts[w + 1])
                score[w] += np.tensordot(T[rows], r[rows, 0], axes=((0, 2), (0, 1)))
                inner[w] += np.tensordot(T[rows], T[rows], axes=((0, 2), (0, 2)))
        for first, last in pairwise(cuts.tolist()):
            rest = _reduced(_without(whole[i], c.linear.chains[i], first, last), overwrite=True)
            left_out.append(total - reduced[i] + rest)
        edges.append(cuts.astype(np.float64))
        scores.append(score)
        information.append(inner)
    corners = np.array(left_out).reshape(-1, n + 1, n + 1)
    gradients = corners[:, :-1, -1] - total[:-1, -1]
    return Windows(tuple(edges), np.concatenate(scores), np.concatenate(information), gradients, corners[:, :-1, :-1])


def _without(whole: NormalEquations, strips: Sequence[Strip], first: int, last: int) -> NormalEquations:
    """Normal equations of a chain without the observations at some steps."""
    rest = whole.copy()
    for strip in (s for s in strips if s.factor.group is Group.OBSERVATION):
        middle = strip.factor.reach // 2
        start = max(first - middle, 0)
        part = strip.between(start, max(last - middle, 0))
        rows = slice(start * strip.tangent, start * strip.tangent + len(part.band))
        rest.band[rows, : part.band.shape[1]] -= part.band
        rest.border[rows] -= part.border
        np.subtract(rest.corner, part.corner, out=rest.corner)
    return rest


def _reduced(equations: NormalEquations, overwrite: bool = False) -> Array:
    """Schur complement of the states in the corner, gradient and all, (n_p + 1, n_p + 1); NaN if there is none."""
    try:
        return np.asarray(equations.corner - eliminate(equations, 0.0, overwrite=overwrite).corner)
    except NotPositiveDefiniteError:
        return np.full_like(equations.corner, np.nan)
