"""Block jackknife: recordings cut into stretches, and what each of these blocks says about the parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from spookid.kernels.kernel import Array
from spookid.statistics.condensing import Condensed
from spookid.statistics.leave_block_out import schur_complements
from spookid.statistics.linearized import products
from spookid.transcription.factor import Group

BLOCKS = 20
"""Stretches that a recording is cut into."""


@dataclass(frozen=True, eq=False)
class JackknifeBlocks:
    """Blocks of all chains, one chain after the other; W in all."""

    edges: tuple[Array, ...]
    """Per chain the first step of each block, and the number of steps at the end."""
    scores: Array
    """T_wᵀ r̂_w, (W, n_p)."""
    information: Array
    """T_wᵀ T_w, (W, n_p, n_p)."""
    gradients: Array
    """Tᵀ r without the observations of each block less Tᵀ r, (W, n_p); NaN if the states are not determined."""
    remaining: Array
    """TᵀT without them, (W, n_p, n_p)."""


def jackknife_blocks(c: Condensed) -> JackknifeBlocks:
    """Cut each chain into blocks and sum what their rows say, those of priors left out."""
    c.release()
    cuts = [_cuts(chain.steps) for chain in c.linearized.problem.chains]
    schur = [schur_complements(terms, edges) for terms, edges in zip(c.linearized.chains, cuts, strict=True)]
    total, changes = sum(whole for whole, _ in schur), np.concatenate([rest - whole for whole, rest in schur])
    sums = [_sums(c, chain, edges) for chain, edges in enumerate(cuts)]
    scores, information = (np.concatenate(parts) for parts in zip(*sums, strict=True))
    edges = tuple(np.array(edges, dtype=np.float64) for edges in cuts)
    return JackknifeBlocks(edges, scores, information, changes[:, :-1, -1], (total + changes)[:, :-1, :-1])


def _cuts(steps: int) -> list[int]:
    """First steps of the blocks of a chain, and the number of its steps."""
    found: list[int] = np.linspace(0, steps, min(BLOCKS, steps) + 1).round().astype(int).tolist()
    return found


def _sums(c: Condensed, chain: int, edges: Sequence[int]) -> tuple[Array, Array]:
    """T_wᵀ r̂_w and T_wᵀ T_w of the blocks of one chain."""
    n, count = c.linearized.parameters, len(edges) - 1
    scores, information = np.zeros((count, n)), np.zeros((count, n, n))
    for term, T, r in zip(c.linearized.chains[chain], c.T[chain], c.residuals[chain], strict=True):
        if term.factor.group is Group.PRIOR:
            continue
        for w, (first, last) in enumerate(pairwise(edges)):
            scores[w] += products(T[first:last], r[first:last])[:, 0]
            information[w] += products(T[first:last], T[first:last])
    return scores, information
