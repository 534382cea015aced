"""Elimination by blocks against LAPACK's band, and which of them is taken."""

from __future__ import annotations

import numpy as np
import pytest

from spookid.blocks import blocks
from spookid.compiler import CompilationError, find
from spookid.kernels import Array
from spookid.solvers.elimination import BandElimination, BlockElimination, eliminate
from spookid.solvers.reduction import Rows
from spookid.solvers.structured import NormalEquations, NotPositiveDefiniteError, assemble

ALPHA = 1e-3


@pytest.fixture(autouse=True)
def compiled(monkeypatch):
    try:
        find()
    except CompilationError:
        pytest.skip("there is no C compiler")
    monkeypatch.setenv("SPOOKID_COMPILE", "on")


def equations(steps: int, tangent: int, parameters: int, reach: int = 1) -> NormalEquations:
    rng = np.random.default_rng(4)
    shape = (steps - reach, (reach + 1) * tangent + parameters + 1, 2 * tangent)
    matrix = rng.normal(size=shape) * 10 ** rng.uniform(-2, 2, size=(1, shape[1], 1))
    matrix[:, [1, tangent + 1]] = 0.0  # an unknown that moves nothing
    first = Rows((0,), rng.normal(size=(1, tangent + parameters + 1, tangent)), None)
    return assemble([Rows(tuple(range(reach + 1)), matrix, None), first], steps, tangent, parameters)


def close(found: Array, expected: Array) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-11 * np.abs(expected).max(initial=0.0))


@pytest.mark.parametrize(("tangent", "parameters"), [(4, 0), (5, 2), (8, 7), (11, 13), (24, 13), (26, 8)])
def test_blocks_and_bands_give_the_same(tangent, parameters):
    whole = equations(9, tangent, parameters)
    found = eliminate(whole, ALPHA)
    assert isinstance(found, BlockElimination)
    expected = BandElimination(whole, whole.diagonal, ALPHA)
    close(found.corner, expected.corner)
    rng = np.random.default_rng(5)
    other, move = rng.normal(size=len(whole.band)), rng.normal(size=parameters)
    for one, two in ((found.own, expected.own), (found.half(other), expected.half(other))):
        close(one.taken, two.taken)
        assert one.square == pytest.approx(two.square, rel=1e-10)
        step = found.states(one, move)
        close(step, expected.states(two, move))
    assert step[tangent + 1] == -other[tangent + 1]  # its diagonal is taken for 1


def test_curvature_is_added_and_damping_is_that_of_the_plain_matrix():
    whole, extra = equations(6, 5, 3), equations(6, 5, 3)
    extra.band[:] *= 0.5
    found = eliminate(whole, ALPHA, extra)
    assert isinstance(found, BlockElimination)
    expected = BandElimination(whole.plus(extra), whole.diagonal, ALPHA)
    close(found.corner, expected.corner)
    close(found.states(found.own, np.ones(3)), expected.states(expected.own, np.ones(3)))


@pytest.mark.parametrize("value", [-1e3, 0.0, np.nan])
def test_what_is_not_positive_definite_is_refused_at_the_same_place(value):
    whole = equations(7, 6, 2)
    diagonal = whole.diagonal
    whole.band[3 * 6 + 4, 0] = value
    by = blocks(7)
    assert by is not None
    with pytest.raises(NotPositiveDefiniteError, match=f"leading minor {3 * 6 + 5}$"):
        BlockElimination(whole, diagonal, 0.0, by)
    if np.isfinite(value):
        with pytest.raises(NotPositiveDefiniteError, match=f"leading minor {3 * 6 + 5}$"):
            BandElimination(whole, diagonal, 0.0)


@pytest.mark.parametrize(("tangent", "reach"), [(3, 1), (5, 2)])
def test_few_unknowns_and_wide_couplings_are_left_to_the_band(tangent, reach):
    assert isinstance(eliminate(equations(8, tangent, 2, reach), ALPHA), BandElimination)


def test_no_compiler_no_blocks(monkeypatch):
    monkeypatch.setenv("SPOOKID_COMPILE", "off")
    assert isinstance(eliminate(equations(8, 6, 2), ALPHA), BandElimination)
