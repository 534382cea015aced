"""Block jackknife: recordings cut into stretches, and what each of these blocks says about the parameters.

A chain's states are eliminated without the observations of one block from where the elimination of the whole chain
stood before that block.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from spookid.kernels.arrays import Array
from spookid.kernels.chain import Chain
from spookid.kernels.thread_pool import Workspace
from spookid.records import dataclass
from spookid.solvers.structured import NormalEquations
from spookid.statistics.condensing import Condensed
from spookid.statistics.linearized import LinearizedFactor, added, hard_rows, products
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
        if term.factor.hard or term.factor.group is Group.PRIOR:
            continue
        for w, (first, last) in enumerate(pairwise(edges)):
            scores[w] += products(T[first:last], r[first:last])[:, 0]
            information[w] += products(T[first:last], T[first:last])
    return scores, information


_Part = tuple[LinearizedFactor, int, int]

_ROUNDING = 256 * float(np.finfo(np.float64).eps)
"""Part of a diagonal entry below which a pivot has no digits."""


def schur_complements(terms: Sequence[LinearizedFactor], edges: Sequence[int]) -> tuple[Array, Array]:
    """Schur complements of a chain's states in the corner, gradient and all; NaN where there is none.

    Args:
        edges: first steps of W blocks, and the number of steps.

    Returns:
        That of all rows, (n_p + 1, n_p + 1).
        Those without the observations of each block, (W, n_p + 1, n_p + 1).
    """
    steps, size = terms[0].steps, terms[0].parameters + 1
    equations = added(terms, Workspace())
    damping = (equations.band[:, 0] == 0).astype(np.float64)
    chain = Chain(equations.band, damping, equations.border, steps, hard_rows(terms))
    blocks, reached, before = [_observations(terms, *pair) for pair in pairwise(edges)], 0, []
    starts = [min([start for _, start, _ in parts], default=steps) // chain.group for parts in blocks]
    unknown = np.full((size, size), np.nan)
    for i in range(len(blocks)):
        stage = min(*starts[i:], chain.stages)
        if chain.sweep(reached, stage):
            break
        before.append((stage, chain.front.copy(), chain.corner.copy()))
        reached = stage
    if len(before) < len(blocks) or chain.sweep(reached):
        return unknown, np.full((len(blocks), size, size), np.nan)
    whole = equations.corner - chain.taken
    without = [_without(equations, chain, parts, *there) for parts, there in zip(blocks, before, strict=True)]
    return whole, np.array([unknown if found is None else found for found in without])


def _observations(terms: Sequence[LinearizedFactor], first: int, last: int) -> list[_Part]:
    """Those at some steps: factors with their first row and the one behind the last."""
    parts = []
    for term in (s for s in terms if s.factor.group is Group.OBSERVATION):
        middle = term.factor.reach // 2  # a factor over several steps observes the middle one
        start, stop = max(first - middle, 0), min(max(last - middle, 0), len(term.residual))
        if start < stop:
            parts.append((term, start, stop))
    return parts


def _without(
    whole: NormalEquations, chain: Chain, parts: Sequence[_Part], stage: int, front: Array, corner: Array
) -> Array | None:
    """The Schur complement without some observations, from where all stages before one are eliminated; None if the
    states are not determined."""
    chain.front[:], chain.corner[:], left = front, corner, whole.corner.copy()
    t, kept = chain.tangent, []
    for term, start, stop in parts:
        part = term.between(start, stop)
        rows = slice(start * t, start * t + len(part.band))
        kept.append((rows, whole.band[rows].copy(), whole.border[rows].copy()))
        whole.band[rows, : part.band.shape[1]] -= part.band
        whole.border[rows] -= part.border
        left -= part.corner
    sizes = np.append(whole.band[:, 0], np.ones(chain.stages * chain.t - len(whole.band))).reshape(-1, chain.t)[stage:]
    failed = chain.sweep(stage)
    for rows, band, border in reversed(kept):
        whole.band[rows], whole.border[rows] = band, border
    if failed:
        return None
    pivots = np.einsum("kii->ki", chain.panels[stage:, : chain.t, : chain.t]) ** -2
    # What is left of a direction that nothing else shows is rounding, of either sign.
    return None if np.any(pivots < _ROUNDING * sizes) else np.asarray(left - chain.taken)
