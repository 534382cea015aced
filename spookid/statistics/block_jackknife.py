"""Block jackknife: information of the recordings about the parameters, without each of several blocks in turn.

The states of a chain are eliminated without the observations of one block. Each elimination starts from the factor of
the whole chain before the block and ends at the end of the block, so that all blocks cost about two full eliminations.
After the block, the equations M differ from those of the whole chain only by ΔF in the next few steps and by Δb in the
border. With a block P of M⁻¹ and the response X at these steps,

    (b + Δb)ᵀ(M + ΔF)⁻¹(b + Δb) = bᵀM⁻¹b + XᵀΔb + ΔbᵀX + ΔbᵀPΔb − (X + PΔb)ᵀ(1 + ΔF P)⁻¹ΔF (X + PΔb).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from spookid.kernels.arrays import Array
from spookid.kernels.chain import Chain
from spookid.kernels.kernel import CHUNK
from spookid.kernels.precision import HALF_DIGITS
from spookid.kernels.stages import HardRows, mirrored
from spookid.records import dataclass
from spookid.solvers.rows import LinearizedFactor
from spookid.solvers.structured import NormalEquations, normal_equations
from spookid.statistics.condensing import Condensed, products
from spookid.transcription.factor import Group

BLOCKS = 20
"""Blocks of a recording, and recordings that are blocks themselves."""


@dataclass(frozen=True, eq=False)
class JackknifeBlocks:
    """Blocks of all chains for the block jackknife, one chain after the other; W blocks in total."""

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
    """Divide each chain into blocks, and sum scores and information of each block, without priors."""
    c.release()
    cuts = [cuts_of(chain.steps) for chain in c.linearized.problem.chains]
    schur = [schur_complements(terms, edges) for terms, edges in zip(c.linearized.chains, cuts, strict=True)]
    total, changes = sum(whole for whole, _ in schur), np.concatenate([rest - whole for whole, rest in schur])
    sums = [block_sums(c, chain, edges) for chain, edges in enumerate(cuts)]
    scores, information = (np.concatenate(parts) for parts in zip(*sums, strict=True))
    edges = tuple(np.array(edges, dtype=np.float64) for edges in cuts)
    return JackknifeBlocks(edges, scores, information, changes[:, :-1, -1], (total + changes)[:, :-1, :-1])


def cuts_of(steps: int) -> list[int]:
    """First steps of the blocks in a chain, and the number of steps in the chain."""
    found: list[int] = np.linspace(0, steps, min(BLOCKS, steps) + 1).round().astype(int).tolist()
    return found


def block_sums(c: Condensed, chain: int, edges: Sequence[int]) -> tuple[Array, Array]:
    """Scores T_wᵀ r̂_w and information T_wᵀ T_w of the blocks in one chain."""
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
    """Schur complements of a chain's states, including the gradient; NaN where none exists.

    Args:
        edges: first steps of W blocks, and the number of steps.

    Returns:
        That of all rows, (n_p + 1, n_p + 1).
        Those without the observations of each block, (W, n_p + 1, n_p + 1).
    """
    steps, size = terms[0].steps, terms[0].parameters + 1
    equations = normal_equations([term.source for term in terms], steps, terms[0].tangent, size - 1)
    hard = [HardRows(term.source.offsets, term.rows.matrix) for term in terms if term.factor.hard]
    chain = Chain(equations.band, None, equations.border, steps, hard)
    parts = [_observations(terms, *pair) for pair in pairwise(edges)]
    cuts, stood = [_stages(chain, some) for some in parts], dict[int, tuple[Array, Array]]()
    unknown = np.full((size, size), np.nan)
    for first, last in pairwise(sorted({0, chain.stages, *(stage for pair in cuts for stage in pair)})):
        stood[first] = chain.front.copy(), chain.taken
        if chain.sweep(first, last):
            return unknown, np.full((len(parts), size, size), np.nan)
    stood[chain.stages] = chain.front.copy(), chain.taken
    wide, response = chain.S - chain.T, chain.solve(None).reshape(-1, size)
    responses = {stage: response[stage * chain.T :][:wide].copy() for stage in stood}
    del response
    later, ahead = {chain.stages: (np.zeros((wide, wide)), np.zeros((wide, size)))}, None
    for stop in range(chain.stages, 0, -CHUNK):
        start = max(stop - CHUNK, 0)
        blocks, ahead = chain.inverse(start, stop, ahead)
        for stage in stood.keys() & set(range(start, stop)):
            own = responses[stage]
            own = np.pad(own, ((0, wide - len(own)), (0, 0)))
            later[stage] = blocks[stage - start, :wide, :wide].copy(), own
    without = [
        _without(equations, chain, some, pair, stood, later[pair[1]]) for some, pair in zip(parts, cuts, strict=True)
    ]
    whole = equations.corner - stood[chain.stages][1]
    return whole, np.array([unknown if found is None else found for found in without])


def _stages(chain: Chain, parts: Sequence[_Part]) -> tuple[int, int]:
    """Between which stages some observations stand."""
    ends = [stop + max(term.source.offsets) for term, _, stop in parts]
    first = min([start for _, start, _ in parts], default=0) // chain.group
    return first, -(-max(ends, default=0) // chain.group)


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
    whole: NormalEquations,
    chain: Chain,
    parts: Sequence[_Part],
    stages: tuple[int, int],
    stood: Mapping[int, tuple[Array, Array]],
    later: tuple[Array, Array],
) -> Array | None:
    """The Schur complement without some observations; None if the states are not determined.

    Args:
        stages: between which the observations stand.
        stood: the front of the whole chain at these, and what was taken from the corner.
        later: P and X behind them.
    """
    (first, last), t, kept, left = stages, chain.tangent, [], whole.corner.copy()
    chain.front[:], chain.corner[:] = stood[first][0], 0.0
    for term, start, stop in parts:
        observed = term.at(slice(start, stop))
        span = stop - start + max(observed.offsets)
        part = normal_equations([observed], span, term.tangent, term.parameters)
        rows = slice(start * t, start * t + len(part.band))
        kept.append((rows, whole.band[rows].copy(), whole.border[rows].copy()))
        whole.band[rows, : part.band.shape[1]] -= part.band
        whole.border[rows] -= part.border
        left -= part.corner
    sizes = whole.band[first * chain.t : last * chain.t, 0].copy()
    failed = chain.sweep(first, last)
    for rows, band, border in reversed(kept):
        whole.band[rows], whole.border[rows] = band, border
    # What is left of a direction that nothing else shows is rounding, of either sign.
    pivots = np.einsum("kii->ki", chain.panels[first:last, : chain.t, : chain.t]).ravel()[: len(sizes)]
    if failed or np.any(pivots**2 * _ROUNDING * sizes > 1):
        return None
    wide, (P, X) = len(later[0]), later
    change = mirrored((chain.front - stood[last][0])[:wide, :wide])
    moved = (chain.front - stood[last][0])[:wide, chain.B : chain.B + chain.borders]
    both, ratio = X + P @ moved, np.eye(wide) + change @ P
    if np.min(np.linalg.eigvals(ratio).real, initial=1.0) < HALF_DIGITS:
        return None
    taken = stood[first][1] + chain.taken + stood[chain.stages][1] - stood[last][1]
    taken = taken + X.T @ moved + moved.T @ both - both.T @ np.linalg.solve(ratio, change @ both)
    return np.asarray(left - taken)
