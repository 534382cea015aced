"""What the data say about the parameters at a solution that any solver found."""

from __future__ import annotations

import numpy as np

from spookid.kernels.arrays import Array, Mask
from spookid.records import dataclass
from spookid.solvers.condensation import combinations
from spookid.solvers.linearization import Linearization
from spookid.solvers.reduced_problem import ReducedProblem
from spookid.solvers.steps import DampedStep, schur
from spookid.solvers.structured import NotPositiveDefiniteError
from spookid.transcription.transcription import Point, Transcription

_UNSEEN = 1e-10
"""Largest share of a direction that is not seen, in units in which each parameter by itself is seen alike."""

_DAMPING = 1e-14
"""So that unknowns that little is known of have pivots."""


@dataclass(frozen=True, eq=False)
class Information:
    """What is known at a point."""

    matrix: Array
    """Schur complement of the states in JᵀWJ, hard rows held exactly, (n_p, n_p); NaN if it cannot be had."""
    redundant: int
    """Hard rows of a step that follow from the others."""


def information(problem: Transcription, point: Point) -> Information:
    """Information in the parameters at ``point``; of a complementarity pair the smaller member is held at zero."""
    held = problem.at_solution()
    try:
        reduced = ReducedProblem(held, point)
        chains = range(len(held.chains))
        here = Linearization(reduced, reduced.evaluate(point), [reduced.linearize(point, c) for c in chains])
        return Information(schur(here), reduced.redundant)
    except (NotPositiveDefiniteError, np.linalg.LinAlgError):
        return unknown(problem)


def implied(problem: Transcription, point: Point) -> list[dict[str, Mask]]:
    """Per chain and by the name of its factor, True for hard rows that others imply at ``point``, (count, rows): of
    local ones those that earlier ones of their step combine to, of coupled ones those that the elimination leaves out.

    Raises:
        NotPositiveDefiniteError: if the states are not determined.
    """
    held = problem.at_solution()
    reduced = ReducedProblem(held, point)
    chains = range(len(held.chains))
    here = Linearization(reduced, reduced.evaluate(point), [reduced.linearize(point, c) for c in chains])
    step, found = DampedStep(here, _DAMPING), []
    for c in chains:
        rows = dict[str, Mask]()
        blocks = [held.local_rows(f, point, c)(slice(None))[:, : len(reduced.columns)] for f in reduced.local]
        if blocks:
            combined = combinations(np.concatenate(blocks, axis=2))
            cuts = np.cumsum([block.shape[2] for block in blocks])[:-1]
            rows |= dict(zip((f.name for f in reduced.local), np.split(combined, cuts, axis=1), strict=True))
        for factor, block, there in zip(reduced.coupled, here.coupled[c], step.held(c), strict=True):
            if block.complement is None:  # else rows are combined
                rows[factor.name] = ~there & np.any(block.matrix[:, :-1] != 0, axis=1)
        found.append(rows)
    return found


def unknown(problem: Transcription) -> Information:
    """Where it cannot be had."""
    n = len(problem.names)
    return Information(np.full((n, n), np.nan), 0)


def unseen_directions(problem: Transcription, point: Point, scales: Array) -> Array:
    """Directions of the parameters, over their scales, that move nothing at ``point`` and that equalities between them
    leave: orthonormal rows, (k, n_p)."""
    basis = problem.free_directions(point.parameters, unequal=False).basis(scales)
    along = scales[:, None] * basis
    matrix = along.T @ information(problem, point).matrix @ along
    if not np.all(np.isfinite(matrix)):
        return np.zeros((0, len(scales)))
    lengths = np.sqrt(np.maximum(np.diag(matrix), 0.0))
    moves = lengths > _UNSEEN * np.max(lengths, initial=0.0)
    sizes = np.where(moves, lengths, 1.0)
    values, vectors = np.linalg.eigh(np.where(np.outer(moves, moves), matrix, 0.0) / np.outer(sizes, sizes))
    directions = (vectors / sizes[:, None])[:, values < _UNSEEN]
    return np.asarray((basis @ np.linalg.qr(directions)[0]).T)
