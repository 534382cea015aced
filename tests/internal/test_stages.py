"""Solves in stages: what a stage leaves out does not count, what does not move stays, the last one is the answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import casadi as ca
import numpy as np
import pytest

from spookid import LevenbergMarquardt, Manifold, load_problem
from spookid.assembly.assembly import assemble
from spookid.solvers.stages import Stage, restricted, solve_in_stages
from spookid.transcription.factor import Factor, Group, Kind
from spookid.transcription.transcription import Chain, Point, Transcription

N = 6
VARIABLES = Manifold((("rotation", 4), ("flat", 3)))
LM = LevenbergMarquardt(gradient_tolerance=1e-12, decrease_tolerance=1e-15)
PROBLEMS = Path(__file__).parents[2] / "problems"


def chain_of_rotations() -> Transcription:
    """An orientation e and x at each step: x drifts and pulls e along, both are measured, and m scales the drift."""
    m, x = ca.SX.sym("m"), {i: ca.SX.sym("x", 7) for i in (0, 1)}
    data, none = ca.SX.sym("y", 7), ca.SX(0, 1)
    flat = Manifold((("rotation", 4),))
    turned = flat.difference(x[1][:4], x[0][:4]) - 0.3 * x[0][4:]
    drift = 10 * (x[1][4:] - m * x[0][4:])
    seen = ca.vertcat(flat.difference(x[0][:4], data[:4]), x[0][4:] - data[4:])
    factors = [
        Factor("turn", Group.STATE, turned, x, none, ("a", "b", "c"), kind=Kind.HARD),
        Factor("drift", Group.STATE, drift, x, none, ("a", "b", "c")),
        Factor("seen", Group.OBSERVATION, seen, {0: x[0]}, data, tuple("abcdef")),
    ]
    rng = np.random.default_rng(0)
    y = 0.3 * rng.normal(size=(N, 7))
    y[:, 0] = 1.0
    y[:, :4] /= np.linalg.norm(y[:, :4], axis=1)[:, None]
    one = np.ones(1)
    chain = Chain("chain", N, {"seen": y}, {})
    return Transcription(VARIABLES, factors, m, (), ["m"], -9 * one, 9 * one, one, [chain])


def start(problem: Transcription) -> Point:
    return Point((problem.chains[0].data["seen"].copy(),), np.array([0.5]))


def costs(problem: Transcription, point: Point) -> list[float]:
    return [float(np.vdot(rows, rows)) for rows in problem.residuals(point)[0]]


def test_the_last_stage_is_the_answer_wherever_the_others_led() -> None:
    problem = chain_of_rotations()
    direct = LM.solve(problem, start(problem)).point
    stages = [
        Stage(("seen",), tuple(range(4)), parameters=False),
        Stage(("drift", "seen"), (4, 5, 6)),
        Stage(("turn", "drift", "seen")),
    ]
    found = solve_in_stages(problem, stages, start(problem), LM.solve)
    assert len(found) == 3
    assert found[-1].point.parameters == pytest.approx(direct.parameters, abs=1e-5)
    assert np.abs(found[-1].point.states[0] - direct.states[0]).max() < 1e-5


def test_what_does_not_move_stays_and_what_does_not_count_may_grow() -> None:
    problem = chain_of_rotations()
    first = start(problem)
    (outcome,) = solve_in_stages(problem, [Stage(("drift",), (4, 5, 6), parameters=False)], first, LM.solve)
    assert np.array_equal(outcome.point.states[0][:, :4], first.states[0][:, :4])
    assert np.array_equal(outcome.point.parameters, first.parameters)
    assert costs(problem, outcome.point)[1] < 1e-12 < costs(problem, first)[1]
    assert costs(problem, outcome.point)[2] > costs(problem, first)[2]


def test_derivatives_of_a_stage_are_those_of_the_whole() -> None:
    problem, moving = chain_of_rotations(), (4, 5, 6)
    point = start(problem)
    part = restricted(problem, Stage(("turn", "drift", "seen"), moving), point)
    assert part.manifold.tangent == 3
    inner = Point((np.ascontiguousarray(point.states[0][:, 4:]),), point.parameters)
    for whole, own in zip(problem.factors, part.factors, strict=True):
        exact = problem.linearize_factor(whole, point, 0).matrix
        found = part.linearize_factor(own, inner, 0).matrix
        chosen = [6 * i + j for i in range(len(whole.variables)) for j in (3, 4, 5)]
        chosen += [*range(6 * len(whole.variables), exact.shape[1])]
        assert found == pytest.approx(exact[:, chosen], abs=1e-14)


def test_a_fit_of_a_problem_in_stages_is_the_same_fit() -> None:
    made = assemble(load_problem(PROBLEMS / "pendulum.py"))
    problem, names = made.transcription, tuple(f.name for f in made.transcription.factors)
    direct = LM.solve(problem, made.start)
    stages = [Stage(tuple(n for n in names if n != "impulse"), parameters=False), Stage(names)]
    found = solve_in_stages(problem, stages, made.start, LM.solve)
    assert found[-1].point.parameters == pytest.approx(direct.point.parameters, rel=1e-5)


@pytest.mark.parametrize(
    ("stage", "sentence"),
    [
        (Stage(("nothing",)), "there is no factor 'nothing'"),
        (Stage(("seen",), ()), "a stage moves no state; name coordinates that move"),
        (Stage(("seen",), (0, 1, 4)), "coordinates 0 to 3 form one rotation: select all of them or none"),
    ],
)
def test_stages_that_are_none(stage: Stage, sentence: str) -> None:
    problem: Any = chain_of_rotations()
    with pytest.raises(ValueError, match=sentence):
        restricted(problem, stage, start(problem))
