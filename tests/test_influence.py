"""Changes of the estimates with data and settings, against fits with these changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from mechanisms import maximal, paper_twin, pendulum

from spookid import Parameter, Problem, Solution, Spook, Variational

TRUTH = {"J": 0.005, "b": 0.004, "m": 0.5}
STEPPERS = [Spook(), Spook(multipliers="lifted"), Variational()]
TIGHT = {"gradient_tolerance": 1e-12, "step_tolerance": 1e-12, "decrease_tolerance": 1e-15}


def swing(noise: float = 1e-4, **settings: object) -> Problem:
    """A pendulum, 0.6 s, its mass fixed; the noise is small, where Gauss–Newton is right."""
    J, b, m = Parameter("J", 0.01, lower=1e-6), Parameter("b", 1e-3, lower=0), Parameter("m", 0.5)
    model = pendulum(inertia=J, viscous=b, mass=m, compliance=1e-3)
    settings = {"duration": 0.6, "initial": {"hinge": 1.0}, "state_weight": 1e4, "fixed": ["m"], **settings}
    return paper_twin(model, TRUTH, noise=noise, **settings)


@pytest.fixture(scope="module", params=STEPPERS, ids=lambda stepper: stepper.name)
def problem(request: pytest.FixtureRequest) -> Problem:
    return swing(stepper=request.param)


@pytest.fixture(scope="module")
def solution(problem: Problem) -> Solution:
    return problem.solve(**TIGHT)


def slope(low: Problem, high: Problem, width: float) -> np.ndarray:
    """Difference quotient of the estimates of J and b."""
    ends = [[s["J"].estimate, s["b"].estimate] for s in (low.solve(**TIGHT), high.solve(**TIGHT))]
    return (np.array(ends[1]) - np.array(ends[0])) / width


def with_sample(problem: Problem, k: int, change: float) -> Problem:
    recording = problem.recordings[0]
    angle = recording.signal("hinge").copy()
    angle[k] += change
    return problem.with_(recordings=[recording.with_signals(hinge=angle)])


@pytest.mark.parametrize("k", [0, 25, 60])
def test_a_sample(problem, solution, k):
    expected = slope(with_sample(problem, k, -1e-3), with_sample(problem, k, 1e-3), 2e-3)
    assert solution.influence.observations[0].shape == (61, 1, 2)
    largest = np.abs(solution.influence.observations[0]).max(axis=(0, 1))
    np.testing.assert_array_less(np.abs(solution.influence.observations[0][k, 0] - expected), 0.01 * largest)


def test_the_state_weight(problem, solution):
    low, high = (problem.with_(state_weight=weight) for weight in (0.99e4, 1.01e4))
    np.testing.assert_allclose(solution.influence.state_weight, slope(low, high, 200.0), rtol=0.1)


def test_a_fixed_parameter(problem, solution):
    low, high = (problem.with_(initial={"m": m}) for m in (0.499, 0.501))
    assert solution.influence.fixed_names == ("m",)
    np.testing.assert_allclose(solution.influence.fixed[0], slope(low, high, 2e-3), rtol=0.01)


def test_the_clock(problem, solution):
    def run(factor: float) -> Problem:
        recording = replace(problem.recordings[0], t=problem.recordings[0].t * factor)
        return problem.with_(recordings=[recording], step=problem.step * factor)

    expected = slope(run(0.999), run(1.001), 0.002 * problem.step)
    np.testing.assert_allclose(solution.influence.step, expected, rtol=0.01)


def test_a_missing_sample_has_none():
    gap = with_sample(swing(), 30, np.nan).solve()
    assert np.all(gap.influence.observations[0][30] == 0)
    assert np.all(gap.influence.observations[0][29] != 0)


@pytest.mark.parametrize("w", [0, 7, 19])
def test_a_stretch_left_out(problem, solution, w):
    edges = solution.influence.edges[0]
    np.testing.assert_allclose(edges, np.linspace(0, 61, 21).round() * 0.01)
    gap, t = problem, problem.recordings[0].t
    for k in np.flatnonzero((t > edges[w] - 1e-6) & (t < edges[w + 1] - 1e-6)):
        gap = with_sample(gap, k, np.nan)
    refit = gap.solve(**TIGHT)
    expected = np.array([refit[name].estimate - solution[name].estimate for name in ("J", "b")])
    largest = np.abs(solution.influence.stretches[0]).max(axis=0)
    np.testing.assert_array_less(np.abs(solution.influence.stretches[0][w] - expected), 0.02 * largest)


def test_two_recordings_have_their_own_stretches():
    problem = swing()
    short = problem.recordings[0].between(0.1, 0.2)
    influence = problem.with_(recordings=[*problem.recordings, short]).solve().influence
    assert [len(s) for s in influence.stretches] == [20, 10]
    starts, ends = [e[0] for e in influence.edges], [e[-1] for e in influence.edges]
    assert (starts, ends) == (pytest.approx([0.0, short.t[0]]), pytest.approx([0.61, short.t[0] + 0.1]))
    assert [o.shape for o in influence.observations] == [(61, 1, 2), (10, 1, 2)]


def test_geometry_of_rigid_joints():
    """Is known in the coordinates of the joints, and not where joints hold by rows."""
    J, l = Parameter("J", 0.01, lower=1e-6), Parameter("l", 0.2)
    model = pendulum(inertia=J, length=l)
    truth: Mapping[str, float] = {"J": 0.005, "l": 0.2}
    settings = {"initial": {"hinge": 1.0}, "duration": 0.4, "fixed": ["l"], "noise": 1e-3}
    problem = paper_twin(model, truth, stepper=Variational(), **settings)
    solution = problem.solve(**TIGHT)
    longer = problem.with_(initial={"l": 0.2002}).solve(**TIGHT)
    change = (longer["J"].estimate - solution["J"].estimate) / (0.0002)
    assert solution.influence.fixed[0, 0] == pytest.approx(change, rel=0.02)
    assert np.isnan(problem.solve(model=maximal(model)).influence.fixed).all()
    soft = paper_twin(model, truth, **settings).solve().influence
    assert np.isfinite(soft.fixed).all()


def test_a_parameter_at_its_bound_does_not_move():
    low = paper_twin(pendulum(viscous=Parameter("c", 1e-3, lower=0)), {"c": -2e-3}, initial={"hinge": 1.0}).solve()
    assert low["c"].at_bound
    assert np.all(low.influence.observations[0] == 0)
    assert np.all(low.influence.step == 0)
