"""The inside of what ``test_levenberg_marquardt`` tests."""

from __future__ import annotations

import time
from functools import partial

import casadi as ca
import numpy as np
import pytest
from test_levenberg_marquardt import spin as spin
from test_levenberg_marquardt import swing

from spookid import LevenbergMarquardt, Manifold, Parameter, Status
from spookid.solvers.status import Iteration, Outcome
from spookid.statistics.sensitivities import AT_BOUND
from spookid.transcription.factor import Factor, Group
from spookid.transcription.transcription import Chain, Point, Transcription

# --- bounds ---


@pytest.mark.parametrize(
    ("bounds", "held", "other"),
    [
        ({"J": {"lower": 0.006}}, "J", "b"),
        pytest.param({"J": {"lower": 1e-6, "upper": 0.0045}, "guess": 0.004}, "J", "b", marks=pytest.mark.study),
        ({"b": {"lower": 0.0, "upper": 0.003}}, "b", "J"),
    ],
)
def test_a_truth_outside_the_box_ends_on_the_bound(bounds, held, other):
    free = {"J": Parameter("J", bounds.get("guess", 0.01), **bounds.get("J", {}))}
    free["b"] = Parameter("b", 1e-3, **bounds.get("b", {}))
    problem = swing(**free)
    solution = problem.solve()
    assert solution.status is Status.CONVERGED
    assert solution[held].at_bound
    assert solution[held].estimate in (free[held].lower, free[held].upper)
    assert np.isnan(solution[held].std_err)
    assert solution[held].reason == AT_BOUND
    # The other one is where it would be if the first had been fixed there.
    fixed = problem.solve(initial={held: solution[held].estimate}, fixed=[held])
    assert not solution[other].at_bound
    assert solution[other].estimate == pytest.approx(fixed[other].estimate, rel=1e-7)
    assert solution[other].std_err == pytest.approx(fixed[other].std_err, rel=1e-2)
    assert solution.cost.total == pytest.approx(fixed.cost.total, rel=1e-9)


# --- how it ends ---


def minimise(residual: object, start: float, **settings: object) -> Outcome:
    """A single state x with the residual of x, and a parameter in a row of its own."""
    x, p, none = ca.SX.sym("x"), ca.SX.sym("p"), ca.SX.sym("none", 0)
    rows = ca.vertcat(residual(x), 1e-3 * p)
    factor = Factor("f", Group.STATE, rows, {0: x}, none, ("row",) * rows.numel())
    chain = Chain("run", 1, {}, {})
    box = np.array([-np.inf]), np.array([np.inf]), np.array([1.0])
    problem = Transcription(Manifold((("flat", 1),)), [factor], p, [], ["p"], *box, [chain])
    return LevenbergMarquardt(**settings).solve(problem, Point((np.array([[start]]),), np.zeros(1)))


@pytest.mark.parametrize(
    ("residual", "start", "end"),
    [
        (lambda x: ca.exp(x) - 2, 3.0, np.log(2)),
        (lambda x: ca.vertcat(10 * (ca.sin(x) - x), 1 - x), -1.2, None),
        (lambda x: ca.vertcat(x - 1, x + 2), 5.0, -0.5),
    ],
)
def test_small_problems_converge(residual, start, end):
    outcome = minimise(residual, start)
    assert outcome.status is Status.CONVERGED
    if end is not None:
        assert outcome.point.states[0][0, 0] == pytest.approx(end, abs=1e-8)


def test_a_parameter_without_effect_is_tried_at_other_values():
    """Samples 1 and −3 of a exp(−z t), a ≥ 0: a is zero for small z, which then has no effect, and 1 for large z."""
    x, p, none = ca.SX.sym("x"), ca.SX.sym("p", 2), ca.SX.sym("none", 0)
    rows = ca.vertcat(p[0] - 1, p[0] * ca.exp(-p[1]) + 3, x)
    factor = Factor("f", Group.STATE, rows, {0: x}, none, ("row",) * 3)
    box = np.array([0.0, 0.01]), np.array([np.inf, 100.0]), np.ones(2)
    chains = [Chain("run", 1, {}, {})]
    problem = Transcription(Manifold((("flat", 1),)), [factor], p, [], ["a", "z"], *box, chains)
    outcome = LevenbergMarquardt().solve(problem, Point((np.zeros((1, 1)),), np.array([0.0, 0.1])))
    assert outcome.status is Status.CONVERGED
    assert outcome.history[0].total == 10.0
    assert outcome.history[-1].total == pytest.approx(9.0, rel=1e-6)
    assert outcome.point.parameters[0] == pytest.approx(1.0, rel=1e-3)

    def interrupted(step: Iteration, last: int) -> None:
        if step.iteration == last:
            raise KeyboardInterrupt

    for last in range(len(outcome.history)):
        start, stop = Point((np.zeros((1, 1)),), np.array([0.0, 0.1])), partial(interrupted, last=last)
        part = LevenbergMarquardt().solve(problem, start, stop)
        assert part.status is Status.INTERRUPTED
        assert part.history[-1].total == min(step.total for step in part.history)


def test_a_perfect_start_has_converged_at_once():
    outcome = minimise(lambda x: x, 0.0)
    assert (outcome.status, len(outcome.history)) == (Status.CONVERGED, 1)
    assert "round-off" in outcome.detail


def test_a_kink_stalls():
    # Below x = 1e-8 the slope of |x| + 1 promises more than any step with damping up to 1e8 can keep.
    outcome = minimise(lambda x: ca.fabs(x) + 1, 1e-12)
    assert outcome.status is Status.STALLED
    assert outcome.point.states[0][0, 0] == pytest.approx(0, abs=1e-12)
    assert "damping" in outcome.detail


def test_steps_to_where_residuals_are_not_finite_are_refused():
    outcome = minimise(lambda x: ca.log(x), 30.0)  # Newton's first step is to −72
    assert outcome.status is Status.CONVERGED
    assert outcome.point.states[0][0, 0] == pytest.approx(1)


def test_an_interruption_keeps_the_best_iterate(spin):
    seen: list[Iteration] = []

    def callback(iteration: Iteration) -> None:
        seen.append(iteration)
        if iteration.iteration == 2:
            raise KeyboardInterrupt

    solution = spin.solve(callback=callback)
    assert solution.status is Status.INTERRUPTED
    assert solution.iterations == 2
    assert list(solution.values.values()) == seen[-1].parameters.tolist()
    assert solution.cost.total == pytest.approx(seen[-1].total)
    assert [step.cost.total for step in solution.history] == [i.total for i in seen]
    # The states belong to that iterate too.
    motion = solution.trajectories[0]
    assert solution.cost.observation == pytest.approx(np.sum((motion.predicted - motion.observed) ** 2), rel=1e-9)


def test_an_interruption_before_the_first_cost_leaves_nothing_to_keep(spin, monkeypatch):
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Transcription, "residuals", interrupted)
    with pytest.raises(KeyboardInterrupt):
        spin.solve()


def test_callbacks_see_every_accepted_iterate(spin):
    seen: list[Iteration] = []
    began = time.perf_counter()
    solution = spin.solve(callback=seen.append, max_iterations=3)
    assert [i.iteration for i in seen] == [0, 1, 2, 3]
    assert [i.total for i in seen] == [step.cost.total for step in solution.history]
    assert solution.times.solve < time.perf_counter() - began
