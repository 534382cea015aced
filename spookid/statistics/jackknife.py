"""What each stretch of a recording says about the parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from spookid.kernels.kernel import Array
from spookid.statistics.condensed import Contraction
from spookid.statistics.leaving_out import reduced
from spookid.statistics.strips import products
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
    c.release()
    cuts = [_cuts(chain.steps) for chain in c.linear.problem.chains]
    schur = [reduced(strips, edges) for strips, edges in zip(c.linear.chains, cuts, strict=True)]
    total, changes = sum(whole for whole, _ in schur), np.concatenate([rest - whole for whole, rest in schur])
    sums = [_sums(c, chain, edges) for chain, edges in enumerate(cuts)]
    scores, information = (np.concatenate(parts) for parts in zip(*sums, strict=True))
    edges = tuple(np.array(edges, dtype=np.float64) for edges in cuts)
    return Windows(edges, scores, information, changes[:, :-1, -1], (total + changes)[:, :-1, :-1])


def _cuts(steps: int) -> list[int]:
    """First steps of the stretches of a chain, and the number of its steps."""
    found: list[int] = np.linspace(0, steps, min(WINDOWS, steps) + 1).round().astype(int).tolist()
    return found


def _sums(c: Contraction, chain: int, edges: Sequence[int]) -> tuple[Array, Array]:
    """T_wᵀ r̂_w and T_wᵀ T_w of the stretches of one chain."""
    n, count = c.linear.parameters, len(edges) - 1
    scores, information = np.zeros((count, n)), np.zeros((count, n, n))
    for strip, T, r in zip(c.linear.chains[chain], c.T[chain], c.residuals[chain], strict=True):
        if strip.factor.group is Group.PRIOR:
            continue
        for w, (first, last) in enumerate(pairwise(edges)):
            scores[w] += products(T[first:last], r[first:last])[:, 0]
            information[w] += products(T[first:last], T[first:last])
    return scores, information
