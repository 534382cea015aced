"""Schur complements without the observations of a stretch against dense projections of all other rows."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from benchmarks.problems import pendulum
from benchmarks.rows import STEPPERS, set_up
from mechanisms import Array

from spookid import LevenbergMarquardt, Recording
from spookid.estimation.identifiability import a_posteriori
from spookid.solvers.rows import LinearizedFactor
from spookid.statistics.block_jackknife import schur_complements
from spookid.statistics.condensing import linearize
from spookid.transcription.factor import Group
from spookid.transcription.parameter_constraints import FreeDirections


def dense(terms: Sequence[LinearizedFactor], left_out: range) -> Array:
    """Products of what the states leave of the parameters' columns and of the residuals."""
    unknowns, width = terms[0].steps * terms[0].tangent, terms[0].parameters + 1
    rows = []
    for term in terms:
        for k, part in enumerate(term.at(slice(None)).matrix):
            if term.factor.group is Group.OBSERVATION and k + term.factor.reach // 2 in left_out:
                continue
            J = np.zeros((part.shape[1], unknowns + width))
            for i, offset in enumerate(term.source.offsets):
                place = slice((k + offset) * term.tangent, (k + offset + 1) * term.tangent)
                J[:, place] = part[i * term.tangent : (i + 1) * term.tangent].T
            J[:, unknowns:] = part[term.unknowns :].T
            rows.append(J)
    J = np.vstack(rows)
    basis, values, _ = np.linalg.svd(J[:, :unknowns], full_matrices=False)
    basis = basis[:, values > 1e-12 * values[0]]
    left = J[:, unknowns:] - basis @ (basis.T @ J[:, unknowns:])
    return left.T @ left


def schur(stepper: str, steps: int, edges: Sequence[int]) -> tuple[Sequence[LinearizedFactor], Array, Array]:
    assembly = set_up(pendulum(STEPPERS[stepper], steps))
    point = LevenbergMarquardt(max_iterations=2).solve(assembly.transcription, assembly.start).point
    (terms,) = linearize(assembly.transcription, point).chains
    return terms, *schur_complements(terms, edges)


@pytest.mark.parametrize("stepper", ["SPOOK", "rigid Variational"])
@pytest.mark.parametrize(("steps", "edges"), [(40, [0, 1, 2, 17, 38, 39, 40]), (4, [0, 1, 2, 3, 4])])
def test_a_stretch_is_left_out(stepper, steps, edges, engine):
    terms, whole, without = schur(stepper, steps, edges)
    all_rows = dense(terms, range(0))
    sizes = np.sqrt(np.outer(np.diag(all_rows), np.diag(all_rows)))
    np.testing.assert_allclose(whole / sizes, all_rows / sizes, atol=1e-8)
    for found, block in zip(without, pairwise(edges), strict=True):
        np.testing.assert_allclose(found / sizes, dense(terms, range(*block)) / sizes, atol=1e-8)


@pytest.mark.parametrize("stepper", ["SPOOK", "rigid Variational"])
def test_nothing_is_known_without_all_observations(stepper):
    _, whole, without = schur(stepper, 6, [0, 6])
    assert np.all(np.isfinite(whole))
    assert np.all(np.isnan(without))


def test_estimates_change_as_in_fits_without_a_block() -> None:
    problem = pendulum(STEPPERS["rigid Variational"], 200).with_(fixed=["b"])  # which would be at its bound
    assembly = set_up(problem)
    point = LevenbergMarquardt().solve(assembly.transcription, assembly.start).point
    known = a_posteriori(assembly, point, FreeDirections(np.zeros(1, dtype=bool)))
    (run,) = problem.recordings
    for w in (0, 12):
        theta = run.signal("theta").copy()
        theta[slice(*known.edges[0][w : w + 2].astype(int))] = np.nan
        rest = set_up(problem.with_(recordings=[Recording(run.t, {"theta": theta})]))
        without = LevenbergMarquardt().solve(rest.transcription, point).point
        moved = without.parameters - point.parameters
        np.testing.assert_allclose(known.analysis.blocks[w], moved, rtol=0.1)
