"""Noise of sensors that is correlated in time: declared, estimated, recognized. Twins of a driven mass on a spring with
errors of a first-order Gauss–Markov process, integrated exactly, without this package."""

from __future__ import annotations

import numpy as np
import pytest
from test_estimator_choice import STEP, STIFFNESS, TRUTH, offs, recorded

from spookid import (
    GROUND,
    Body,
    JointPosition,
    Model,
    Motor,
    Parameter,
    Prismatic,
    Problem,
    ProblemError,
    Recording,
)

TAU = 0.05


def posed(recording: Recording, step: float = STEP, **sensor: object) -> Problem:
    m, b = Parameter("m", 1.5, lower=0.1), Parameter("b", 0.7, lower=0)
    car = Body("car", mass=m, inertia=(1, 1, 1))
    slide = Prismatic("slide", GROUND.frame(), car.frame(), viscous=b, stiffness=STIFFNESS)
    model = Model([car], [slide], [Motor(slide, "f", hold="previous")], gravity=(0, 0, 0))
    return Problem("car", model, [recording], [JointPosition(slide, "x", **sensor)], step=step, estimator="noise")


def test_a_correlation_time_is_estimated_and_errors_cover() -> None:
    far, taus = [], []
    for seed in range(6):
        tau = Parameter("tau", 0.02, lower=1e-3, unit="s")
        solution = posed(recorded(seed, 0.02, 1e-3, TAU), correlation_time=tau).solve()
        far += offs(solution)
        taus.append((solution["tau"].estimate - TAU) / solution["tau"].std_err)
    assert np.sum(np.array(far) > 1.96) <= 3  # of 12: more by accident in one of 400
    assert np.max(far) < 3.5
    assert np.max(np.abs(taus)) < 3.5


def test_a_given_time_has_the_errors_of_generalized_least_squares() -> None:
    """Without a random force the motion is linear in its start and m, b nearly so: rows are known in closed form."""
    recording = recorded(0, 0.0, 1e-3, TAU)
    white = posed(recording).with_(estimator="hard").solve()
    given = posed(recording, correlation_time=TAU).with_(estimator="hard").solve()
    for name in TRUTH:
        assert abs(given[name].estimate - white[name].estimate) < 4 * white[name].std_err
    (noise,) = (n for n in given.noise if n.kind == "sensor")
    assert noise.std == pytest.approx(1e-3 * np.sqrt(1 - np.exp(-2 * STEP / TAU)), rel=0.05)


def test_samples_between_the_steps_and_gaps() -> None:
    recording = recorded(1, 0.02, 1e-3, TAU)
    x = np.array(recording.signal("x"))
    x[300:330] = np.nan
    gapped = recording.with_signals(x=x)
    plain = posed(recording, correlation_time=TAU).solve()
    for other in (posed(recording, 2 * STEP, correlation_time=TAU), posed(gapped, correlation_time=TAU)):
        solution = other.solve()
        assert max(offs(solution)) < 3.5
        for name in TRUTH:
            assert abs(solution[name].estimate - plain[name].estimate) < 2 * plain[name].std_err


def test_correlated_noise_is_recognized_by_its_likelihood() -> None:
    found = [posed(recorded(seed, 0.02, 1e-3, TAU)).with_(estimator="auto").solve() for seed in range(3)]
    codes = [{f.code: f for f in solution.findings} for solution in found]
    told = [own["noise.correlated"] for own in codes if "noise.correlated" in own]
    assert len(told) >= 2
    for finding in told:
        assert finding.subject == ("x",)
        assert finding.evidence["correlation_times"]["x"] == pytest.approx(TAU, rel=0.5)
    for solution in found:
        assert max(offs(solution)) < 3.5


def test_white_noise_is_not_taken_for_correlated() -> None:
    for seed in range(3):
        solution = posed(recorded(seed, 0.02, 1e-3)).with_(estimator="auto").solve()
        assert "noise.correlated" not in {f.code for f in solution.findings}


def test_what_cannot_be_is_refused() -> None:
    recording = recorded(0, 0.02, 1e-3)
    with pytest.raises(ProblemError, match="positive time"):
        posed(recording, correlation_time=-0.1).solve()
    with pytest.raises(ProblemError, match="leave sigma out"):
        posed(recording, correlation_time=Parameter("tau", 0.02, lower=1e-3), sigma=1e-3).solve()
    with pytest.raises(ProblemError, match="steps apart"):
        posed(recording, STEP / 10, correlation_time=TAU).solve()
