"""The width of smooth friction is estimated with all else, or is sharper than the data resolve."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from cranes import STEP, TRUTH, crane, record

from spookid import Parameter, ProblemError, Solution, Status, load

WIDTH = 1e-2


@pytest.fixture(scope="module")
def solved() -> Solution:
    return crane(record(0, 20.0, WIDTH)).solve()


def test_the_width_of_a_crane_is_found_and_its_parameters_are_right(solved: Solution) -> None:
    assert solved.status is Status.CONVERGED
    (label, width), *others = solved.friction_widths.items()
    assert (label, width.unit, others) == ("rail", "m/s", [])
    assert abs(width.width - WIDTH) < 3 * width.std_err
    assert width.resolved
    for name, truth in TRUTH.items():
        assert abs(solved[name].estimate - truth) < 3 * solved[name].std_err
    assert not solved.findings or all(one.severity == "note" for one in solved.findings)


def test_its_likelihood_is_that_of_a_profile(solved: Solution) -> None:
    """Fits with given widths are no more likely, and at one standard error 0.5 less, with half the step as reported."""
    settings, width = {"step_correction": False, "estimator": "noise", "step": STEP / 2}, solved.friction_widths
    problem = crane(record(0, 20.0, WIDTH), **settings)
    best, error = width["rail"].width, width["rail"].std_err
    here, less, more = (
        problem.solve(friction_width=at, warm_start=solved).log_likelihood for at in (best, best - error, best + error)
    )
    assert here == pytest.approx(max(here, less, more), abs=0.1)
    assert (less + more) / 2 - here == pytest.approx(-0.5, abs=0.35)


def test_its_uncertainty_is_in_the_errors(solved: Solution) -> None:
    held = crane(record(0, 20.0, WIDTH)).solve(friction_width=solved.friction_widths["rail"].width)
    assert held.friction_widths == {}
    ratios = {name: solved[name].std_err / held[name].std_err for name in TRUTH}
    assert min(ratios.values()) > 0.99  # searches end where sizes of noise are off by a hundredth of their errors
    assert ratios["c"] > 1.01
    assert list(solved.sensitivities.raised) == list(held.sensitivities.raised)


def test_friction_that_is_sharper_than_the_data_resolve_is_said_to_be_so() -> None:
    found = crane(record(1, 10.0, 1e-4)).solve()
    width = found.friction_widths["rail"]
    assert not width.resolved
    assert width.width < 3e-3
    assert "friction width: rail sharper than the data resolve" in found.summary()
    assert abs(found["c"].estimate - TRUTH["c"]) < 3 * found["c"].std_err


def test_folders_and_pages_keep_it(solved: Solution, tmp_path: Path) -> None:
    solved.save(tmp_path)
    again = load(tmp_path)
    assert again.friction_widths["rail"].width == pytest.approx(solved.friction_widths["rail"].width)
    assert again.friction_widths["rail"].resolved
    assert "friction width: rail 0.0" in again.summary()


def test_a_plan_has_the_stage_unless_the_width_is_given_or_held(solved: Solution) -> None:
    problem = crane(record(0, 20.0, WIDTH))
    assert "friction width" in [stage.name for stage in problem.plan().stages]
    assert "friction width" in {one.stage for one in solved.stages}
    for settings in ({"friction_width": 0.01}, {"friction": "exact"}, {"state_weight": 1e4}):
        assert "friction width" not in [stage.name for stage in problem.plan(**settings).stages]


def test_widths_are_given_by_coordinate_as_numbers_or_parameters() -> None:
    problem = crane(record(2, 10.0, WIDTH), friction_width={"rail": Parameter("w", 2e-2, lower=1e-4, upper=0.1)})
    found = problem.solve()
    assert abs(found["w"].estimate - WIDTH) < 3 * found["w"].std_err
    at = problem.with_(friction_width={"rail": found["w"].estimate}).solve()
    assert at.log_likelihood == pytest.approx(found.log_likelihood, abs=0.2)
    assert np.isfinite(at["c"].std_err)
    with pytest.raises(ProblemError, match=r"friction_width names 'hook', which has no dry friction; .* rail"):
        problem.with_(friction_width={"hook": 0.1})
    with pytest.raises(ProblemError, match="friction_width is -1"):
        problem.with_(friction_width={"rail": -1})
