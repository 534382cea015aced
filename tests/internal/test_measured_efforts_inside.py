"""The inside of what ``test_measured_efforts`` tests."""

from __future__ import annotations

from typing import Any

import pytest
from test_measured_efforts import driven, wheel

from spookid import Problem, Status
from spookid.assembly.assembly import assemble
from spookid.estimation import work
from spookid.estimation.extrapolation import finer
from spookid.estimation.fit import Fit


def test_a_fit_that_a_finer_one_goes_on_from_ends_near_its_maximum_or_there_if_that_one_fails(monkeypatch) -> None:
    problem, own = wheel(driven(0)), work.fit
    alone, begun = wheel(driven(0), step_correction=False).solve(), []

    def failing(which: Problem, *rest: Any) -> Fit:
        begun.append(own(which, *rest))
        return begun[-1].with_(status=Status.STALLED) if which.step < problem.step else begun[-1]

    monkeypatch.setattr(work, "fit", failing)
    found = problem.solve()
    assert begun[0].likelihood.carry is not None
    assert "by less than 0.1" in begun[0].result.detail
    assert "by less than 0.0001" in found.detail
    assert any(finding.code == "step.error" for finding in found.findings)
    for name in ("J", "b"):
        assert found[name].estimate == pytest.approx(alone[name].estimate, abs=0.02 * alone[name].std_err)


def test_fits_with_h_and_half_of_it_have_the_kernels_of_the_motion_in_common() -> None:
    of = []
    for problem in (wheel(driven(0)), finer(wheel(driven(0)))):
        transcription = assemble(problem).transcription
        of.append({f.name: transcription.kernels.jacobian(f) for f in transcription.factors})
    one, other = of
    shared = {name for name in one.keys() & other.keys() if one[name] is other[name]}
    assert "impulse" in shared
    assert shared < one.keys() | other.keys()  # there are half as many samples a step
