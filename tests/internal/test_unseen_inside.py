"""The inside of what ``test_unseen`` tests."""

from __future__ import annotations

import numpy as np
import pytest
from test_unseen import TRUTH, driven, slider

from spookid import Model, Motor, Parameter, gravity
from spookid.assembly.assembly import assemble
from spookid.estimation.identifiability import a_priori
from spookid.kernels.arrays import Array
from spookid.statistics.covariance import ResidualStatistics, analyse
from spookid.statistics.sensitivities import UNOBSERVED, Seen, Sensitivities
from spookid.statistics.variances import Variances
from spookid.statistics.weak_directions import WeakDirection, in_units
from spookid.transcription.parameter_constraints import FreeDirections


def statistics_of(information: np.ndarray) -> ResidualStatistics:
    n = len(information)
    nothing = 2 * (np.zeros((0, n)), np.zeros((0, n, n)))
    known = Variances(np.ones(1), np.zeros((1, 1)), 1.0)
    return ResidualStatistics(information, np.zeros((n, n)), information[None], known, *nothing)


def test_directions_are_told_in_shares_of_the_estimates_with_their_signs() -> None:
    # Guesses of 500, 1 and 0 (its magnitude 1), and only ratios of what is estimated are seen.
    estimates, magnitudes = np.array([95.0, 200.0, -3.2]), np.array([500.0, 200.0, 3.2])
    across = np.eye(3) - np.outer(estimates, estimates) / (estimates @ estimates)
    information = 1e4 * across @ np.diag([1.0, 1.0, 100.0]) @ across
    weak = analyse(
        ["M", "b", "f"], statistics_of(information), magnitudes, FreeDirections(np.zeros(3, bool)), estimates
    )
    (direction,) = [w.direction for w in weak.sensitivities.weak]
    assert direction == pytest.approx({"M": 1.0, "b": 1.0, "f": 1.0}, rel=1e-6)


def test_an_estimate_that_is_zero_within_its_error_does_not_hide_what_else_is_unseen() -> None:
    estimates, magnitudes = np.array([2.0, 1e-9]), np.array([2.0, 1.0])
    information = np.array([[1.0, 2.0], [2.0, 4.0]]) * 100  # a change of 2 in the first is one of −1 in the second
    weak = analyse(["a", "f"], statistics_of(information), magnitudes, FreeDirections(np.zeros(2, bool)), estimates)
    (direction,) = [w.direction for w in weak.sensitivities.weak]
    assert direction == pytest.approx({"a": 1.0, "f": -1.0})


def test_directions_can_be_told_of_other_estimates() -> None:
    weak = WeakDirection(0.5, {"a": 1.0, "b": -0.5}, "Fix a.")
    other = in_units(weak, {"a": 1.0, "b": 2.0}, {"a": 2.0, "b": -0.5})  # changes of 1 and −1, as shares 0.5 and 2
    assert other.direction == pytest.approx({"b": 1.0, "a": 0.25})
    assert list(other.direction) == ["b", "a"]
    assert other.singular_value == pytest.approx(0.5 * np.hypot(1, 0.5) / np.hypot(0.5, 2))


def test_weak_directions_are_judged_by_the_errors_that_are_shown() -> None:
    analysis = analyse(
        ["a", "b"], statistics_of(np.diag([100.0, 400.0])), np.ones(2), FreeDirections(np.zeros(2, bool)), np.ones(2)
    )
    known = analysis.sensitivities
    assert known.weak == ()
    object.__setattr__(known, "covariance_sandwich", np.diag([4.0, 1e-3]))
    raised = known.robust(100, np.zeros(2, bool))
    (weak,) = analysis.weak(raised, np.ones(2))
    assert raised.standard_errors[0] == pytest.approx(2.0)
    assert (weak.direction, weak.singular_value) == ({"a": 1.0}, pytest.approx(0.5))


def test_a_poor_guess_does_not_hide_what_the_data_see() -> None:
    """Dry friction and a constant force are one, moving one way; mass and friction are seen from any guess."""
    f = Parameter("f", 0.0, unit="N")
    twin = slider(35.0)
    motor = Motor(twin.model.joints[0], signal="u", gain=35.0, offset=f)
    model = Model(twin.model.bodies, twin.model.joints, [motor], gravity=gravity(9.81))
    problem = twin.with_(model=model, recordings=[driven(one_way=True)])
    for initial in ({}, {"M": 80, "b": 150, "c": 15}, TRUTH):
        guesses = {name: value for name, value in initial.items() if name != "G"}
        weak = a_priori(assemble(problem.with_(initial=guesses))).sensitivities.weak
        assert all(set(w.direction) <= {"c", "f"} for w in weak)


def raised(scatter: Array) -> Sensitivities:
    """Errors of two parameters, of which the difference is known far better, with those of a jackknife."""
    covariance, none = np.array([[1.0, 0.9999], [0.9999, 1.0]]), np.full(2, np.nan)
    seen = Seen(covariance, scatter, np.zeros((0, 2)), np.ones(2), np.zeros((2, 2)))
    known = Sensitivities(("a", "b"), covariance, scatter, np.eye(2), none, {}, none, (), seen=seen)
    return known.robust(100, np.zeros(2, bool))


def test_the_error_of_a_difference_is_raised_as_one() -> None:
    """One of two errors is raised, the other by a hair is not; their difference scatters as it should."""
    scatter = np.array([[2.26, 2.2499], [2.2499, 2.24]])
    known = raised(scatter)
    assert known.raised == ("a",)
    assert known.error_of({"a": 2.0})[0] == pytest.approx(2 * np.sqrt(2.26))
    assert known.error_of({"a": 1.0, "b": -1.0}) == (pytest.approx(np.sqrt(2e-4)), "")


def test_an_error_that_is_raised_beyond_all_sizes_is_none() -> None:
    known = raised(np.array([[5e4, 0.0], [0.0, 1.0]]))
    assert np.isnan(known.standard_errors[0])
    assert known.standard_errors[1] == 1
    assert known.reasons == {"a": UNOBSERVED}
    error, reason = known.error_of({"a": 1.0, "b": 1.0})
    assert np.isnan(error)
    assert reason == UNOBSERVED
