"""What each stretch of a recording says about the parameters."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spookid.factor import Group
from spookid.kernels import Array
from spookid.solvers.contraction import Contraction

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


def windows(c: Contraction) -> Windows:
    """Cut each chain into stretches and sum what their rows say, those of priors left out."""
    n, edges, scores, information = c.linear.parameters, [], [], []
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
        edges.append(cuts.astype(np.float64))
        scores.append(score)
        information.append(inner)
    return Windows(tuple(edges), np.concatenate(scores), np.concatenate(information))
