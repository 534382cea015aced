"""Elimination by blocks, with and without hard rows, against LAPACK's band, and which of them is taken."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from benchmarks.problems import furuta
from mechanisms import Array

from spookid import Spook
from spookid.assembly.assembly import assemble as assembled
from spookid.estimation.identifiability import a_priori
from spookid.kernels.blocks import blocks
from spookid.kernels.thread_pool import Workspace
from spookid.solvers import elimination
from spookid.solvers.elimination import BandElimination, BlockElimination, eliminate
from spookid.solvers.rows import Rows
from spookid.solvers.saddle import BandSaddle, BlockSaddle, Saddle, saddle
from spookid.solvers.structured import NormalEquations, NotPositiveDefiniteError, normal_equations

ALPHA = 1e-3


pytestmark = pytest.mark.usefixtures("by_c")


def equations(steps: int, tangent: int, parameters: int, reach: int = 1) -> NormalEquations:
    rng = np.random.default_rng(4)
    shape = (steps - reach, (reach + 1) * tangent + parameters + 1, 2 * tangent)
    matrix = rng.normal(size=shape) * 10 ** rng.uniform(-2, 2, size=(1, shape[1], 1))
    matrix[:, [1, tangent + 1]] = 0.0  # an unknown that moves nothing
    first = Rows((0,), rng.normal(size=(1, tangent + parameters + 1, tangent)), None)
    return normal_equations([Rows(tuple(range(reach + 1)), matrix, None), first], steps, tangent, parameters)


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
    for one, two in ((found.own, expected.own), (found.forward(other), expected.forward(other))):
        close(one.taken, two.taken)
        assert one.square == pytest.approx(two.square, rel=1e-10)
        step = found.states(one, move)
        close(step, expected.states(two, move))
    assert step[tangent + 1] == -other[tangent + 1]  # its diagonal is taken for 1
    inner = slice(tangent, -2 * tangent)
    close(found.columns(inner), expected.columns(inner))
    close(found.border, expected.border)
    close(found.responses(), expected.responses())


@pytest.mark.parametrize(("tangent", "reach", "parameters"), [(1, 2, 0), (2, 2, 4), (3, 1, 10), (3, 2, 20), (11, 2, 3)])
def test_bands_are_those_of_dense_algebra(tangent, reach, parameters):
    whole = equations(9, tangent, parameters, reach)
    diagonal, n = whole.diagonal, len(whole.band)
    H = np.zeros((n, n))
    for d in range(whole.band.shape[1]):
        H[np.arange(d, n), np.arange(n - d)] = whole.band[: n - d, d]
    np.fill_diagonal(H, np.where(diagonal == 0, 1.0, (1 + ALPHA) * diagonal))
    L = np.linalg.cholesky(H + np.tril(H, -1).T)
    border = np.linalg.solve(L, whole.border)
    found = BandElimination(whole, diagonal, ALPHA)
    close(found.border, border)
    close(found.corner, border.T @ border)
    for d, entries in enumerate(found.columns(slice(0, n))):
        close(entries[: n - d], np.diagonal(L, -d))


@pytest.mark.parametrize("value", [-1e3, 0.0, np.nan])
def test_narrow_bands_that_are_not_positive_definite_are_refused(value):
    whole = equations(9, 3, 2)
    diagonal = whole.diagonal
    whole.band[3 * 3 + 2, 0] = value
    with pytest.raises(NotPositiveDefiniteError, match=f"leading minor {3 * 3 + 3}$"):
        BandElimination(whole, diagonal, 0.0)


@pytest.mark.parametrize("tangent", [3, 4])
def test_without_right_hand_sides_there_is_nothing_to_find(tangent):
    """By a band and by blocks; nor where the border has no column, of which a band alone is made."""
    whole = equations(9, tangent, 2)
    none = np.empty((len(whole.band), 0))
    assert eliminate(whole, ALPHA).solve(none).shape == none.shape
    bare = BandElimination(replace(whole.copy(), border=none), whole.diagonal, ALPHA)
    assert (bare.border.shape, bare.corner.shape, bare.responses().shape) == (none.shape, (0, 0), none.shape)
    close(bare.columns(slice(None)), BandElimination(whole.copy(), whole.diagonal, ALPHA).columns(slice(None)))


@pytest.mark.parametrize("columns", [1, 8, 14, 30])
@pytest.mark.parametrize("tangent", [4, 5, 11, 24])
def test_many_right_hand_sides_at_once(tangent, columns):
    whole = equations(9, tangent, 2)
    diagonal = whole.diagonal
    right = np.random.default_rng(6).normal(size=(len(whole.band), columns))
    expected = BandElimination(whole.copy(), diagonal, ALPHA).solve(right.copy())
    found = eliminate(whole, ALPHA)
    assert isinstance(found, BlockElimination)
    solved = found.solve(right.copy())
    close(solved, expected)
    back = np.column_stack([whole.apply(column, np.zeros(2))[0] for column in solved.T])
    np.testing.assert_allclose(
        back + ALPHA * diagonal[:, None] * solved, np.where(diagonal[:, None] > 0, right, 0.0), atol=1e-6
    )


def test_numbers_that_fade_do_not_linger():
    """Below 1e-308 a processor is a hundred times slower."""
    whole = equations(400, 4, 1)
    whole.border[4:] = 0.0  # L⁻¹ of it fades from step to step
    found = eliminate(whole, ALPHA)
    assert isinstance(found, BlockElimination)
    faded = np.abs(found._border)
    assert not np.any((faded > 0) & (faded < np.finfo(float).tiny))


def test_the_answer_is_the_same_by_bands(monkeypatch):
    assembly = assembled(furuta(Spook(), 201, 4))
    found = a_priori(assembly).sensitivities
    monkeypatch.setattr(elimination, "blocks", lambda: None)
    expected = a_priori(assembly).sensitivities
    assert np.isfinite(expected.standard_errors).any()
    np.testing.assert_allclose(found.standard_errors, expected.standard_errors, rtol=1e-9)


def test_curvature_is_added_and_damping_is_that_of_the_plain_matrix():
    whole, extra = equations(6, 5, 3), equations(6, 5, 3)
    extra.band[:] *= 0.5
    found = eliminate(whole, ALPHA, extra)
    assert isinstance(found, BlockElimination)
    diagonal = whole.diagonal
    whole.add(extra)
    expected = BandElimination(whole, diagonal, ALPHA)
    close(found.corner, expected.corner)
    close(found.states(found.own, np.ones(3)), expected.states(expected.own, np.ones(3)))


@pytest.mark.parametrize("extra", [False, True])
@pytest.mark.parametrize("tangent", [3, 5])
def test_equations_are_overwritten_only_if_they_may_be(tangent, extra):
    whole, extra = equations(6, tangent, 3), equations(6, tangent, 3) if extra else None
    before = whole.copy()
    kept = eliminate(whole, ALPHA, extra)
    for name in ("band", "border", "corner"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(before, name))
    taken = eliminate(whole, ALPHA, extra, overwrite=True)
    np.testing.assert_array_equal(taken.corner, kept.corner)
    np.testing.assert_array_equal(taken.states(taken.own, np.ones(3)), kept.states(kept.own, np.ones(3)))
    assert not np.array_equal(whole.band, before.band)


@pytest.mark.parametrize("value", [-1e3, 0.0, np.nan])
def test_what_is_not_positive_definite_is_refused_at_the_same_place(value):
    whole = equations(7, 6, 2)
    diagonal = whole.diagonal
    whole.band[3 * 6 + 4, 0] = value
    by = blocks()
    assert by is not None
    with pytest.raises(NotPositiveDefiniteError, match=f"leading minor {3 * 6 + 5}$"):
        BlockElimination(whole.copy(), diagonal, 0.0, by)
    if np.isfinite(value):
        with pytest.raises(NotPositiveDefiniteError, match=f"leading minor {3 * 6 + 5}$"):
            BandElimination(whole, diagonal, 0.0)


@pytest.mark.parametrize(("tangent", "reach"), [(3, 1), (5, 2)])
def test_few_unknowns_and_wide_couplings_are_left_to_the_band(tangent, reach):
    assert isinstance(eliminate(equations(8, tangent, 2, reach), ALPHA), BandElimination)


def test_no_c_code_no_blocks(by_numpy):
    assert isinstance(eliminate(equations(8, 6, 2), ALPHA), BandElimination)


# --- hard rows ---


def hard_rows(steps: int, tangent: int, parameters: int) -> list[Rows]:
    """Rows that see both steps, the next alone, their own alone, and ones that are there at some steps only."""
    rng = np.random.default_rng(6)
    linking = rng.normal(size=(steps - 1, 2 * tangent + parameters + 1, 4))
    linking[:, :tangent, 1] = 0.0
    linking[:, tangent : 2 * tangent, 2] = 0.0
    linking[::3, :, 3] = 0.0
    own = rng.normal(size=(steps, tangent + parameters + 1, 1))
    own[1::2] = 0.0
    return [Rows((0, 1), linking, None), Rows((0,), own, None)]


def both(whole: NormalEquations, hard: list[Rows]) -> tuple[Saddle, Saddle]:
    damping = ALPHA * whole.diagonal + (whole.diagonal == 0)
    found = saddle(whole, hard, damping, Workspace())
    assert isinstance(found, BlockSaddle)
    return found, BandSaddle(whole, hard, damping)


@pytest.mark.parametrize("factors", [slice(0, 1), slice(0, 2), slice(1, 2)])
@pytest.mark.parametrize(("tangent", "parameters"), [(5, 0), (9, 3), (16, 8)])
def test_saddle_points_by_blocks_and_by_bands_are_the_same(tangent, parameters, factors):
    steps = 10
    hard = hard_rows(steps, tangent, parameters)[factors]
    whole = equations(steps, tangent, parameters)
    found, expected = both(whole, hard)
    close(found.corner, expected.corner)
    rng = np.random.default_rng(7)
    g, move = rng.normal(size=len(whole.band)), rng.normal(size=parameters)
    values = [np.where(np.any(r.matrix[:, :-1], axis=1), rng.normal(size=r.matrix[:, 0].shape), 0.0) for r in hard]
    for one, two in ((found.own, expected.own), (found.forward(g, values), expected.forward(g, values))):
        close(one.taken, two.taken)
        assert one.square == pytest.approx(two.square, rel=1e-9)
        (step, multipliers), (right, others) = found.step(one, move), expected.step(two, move)
        close(step, right)
        for a, b, rows in zip(multipliers, others, hard, strict=True):
            close(a, np.where(np.any(rows.matrix[:, :-1], axis=1), b[: len(a)], 0.0))


def test_saddle_points_of_steps_that_only_hard_rows_link():
    steps, tangent = 8, 6
    whole = equations(steps, tangent, 2, reach=0)
    found, expected = both(whole, hard_rows(steps, tangent, 2)[:1])
    close(found.corner, expected.corner)
    close(found.step(found.own, np.ones(2))[0], expected.step(expected.own, np.ones(2))[0])


def test_hard_rows_that_repeat_one_another_do_not_matter():
    steps, tangent = 8, 7
    hard = hard_rows(steps, tangent, 2)[:1]
    again = [Rows((0, 1), np.concatenate([hard[0].matrix, hard[0].matrix[:, :, :2]], axis=2), None)]
    whole = equations(steps, tangent, 2)
    damping = ALPHA * whole.diagonal + (whole.diagonal == 0)
    once, twice = saddle(whole, hard, damping, Workspace()), saddle(whole, again, damping, Workspace())
    np.testing.assert_allclose(twice.corner, once.corner, rtol=1e-6, atol=1e-8 * np.abs(once.corner).max())
    one, two = once.step(once.own, np.ones(2))[0], twice.step(twice.own, np.ones(2))[0]
    np.testing.assert_allclose(two, one, rtol=1e-5, atol=1e-7 * np.abs(one).max())


def test_a_singular_saddle_point_is_refused():
    whole = equations(6, 5, 1)
    damping = np.zeros(len(whole.band))  # unknowns that move nothing are left without a pivot
    with pytest.raises(NotPositiveDefiniteError, match="no pivot in step"):
        saddle(whole, [Rows((0,), np.zeros((6, 7, 1)), None)], damping, Workspace())
