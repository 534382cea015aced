"""The page of text: numbers rounded as people round them, and everything said that must be said."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import numpy as np
import pytest
from solutions import awkward, estimated, solution

from spookid import Cost, Finding, Noise, Solution, Status
from spookid.report.summary import summarize
from spookid.results.trajectory import rms
from spookid.results.wording import noise_words, remark, verdict
from spookid.statistics.sensitivities import NO_FACTOR
from spookid.statistics.weak_directions import WeakDirection
from spookid.tables.table import COLUMNS, bounds, concise, deviation, number, seconds, uncertain
from spookid.tables.table import estimated as estimated_cells

NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (0.003758489, 4.06e-5, "0.003758 ± 0.000041"),
        (1234, 123, "1230 ± 120"),
        (0, 1e-3, "0.0000 ± 0.0010"),
        (-0.0, 0.1, "0.00 ± 0.10"),
        (-1e-4, 0.1, "0.00 ± 0.10"),
        (-0.25, 0.1, "-0.25 ± 0.10"),
        (0.0999, 0.0996, "0.10 ± 0.10"),
        (99.99, 9.96, "100 ± 10"),
        (1e-5, 3.33e-4, "0.00001 ± 0.00033"),
        (1.234567e-7, 1e-9, "(1.235 ± 0.010)e-7"),
        (-3.2e-9, 1e-8, "(-0.3 ± 1.0)e-8"),
        (123456789, 1234, "(1.234568 ± 0.000012)e8"),
        (1e9, 2e9, "(1.0 ± 2.0)e9"),
        (0.1, 1e-12, "0.1 ± 1.0e-12"),
        (0.1, 0.0, "0.1 ± 0"),
        (5.0, NAN, "5"),
        (5.0, INF, "5"),
        (NAN, 1.0, "nan"),
    ],
)
def test_two_digits_of_the_error_decide(value: float, error: float, text: str) -> None:
    assert uncertain(value, error) == text


def test_rounding_is_never_off_by_more_than_half_a_digit() -> None:
    random = np.random.default_rng(1)
    for _ in range(2000):
        value = random.normal() * 10.0 ** random.integers(-12, 12)
        error = abs(value) * 10.0 ** random.uniform(-7, 3)
        mantissa, _, exponent = uncertain(value, error).strip("(").partition(")e")
        shown, shown_error = (float(part) * 10.0 ** int(exponent or 0) for part in mantissa.split(" ± "))
        assert shown_error == pytest.approx(error, rel=0.051)
        assert abs(shown - value) <= 0.051 * error


def test_numbers_bounds_and_durations() -> None:
    assert [number(x) for x in (-0.0, 0.012344, 1e-7, NAN)] == ["0", "0.01234", "1e-07", "nan"]
    assert bounds(-INF, INF) == ""
    assert bounds(0, INF) == "≥ 0"
    assert bounds(-INF, 0.25) == "≤ 0.25"
    assert bounds(-0.2, 0.2) == "[-0.2, 0.2]"
    assert [seconds(t) for t in (0, 0.00023, 0.0994, 0.0996, 1.26, 9.96, 123.4)] == [
        "0 s", "0.23 ms", "99 ms", "0.1 s", "1.3 s", "10 s", "123 s",
    ]  # fmt: skip
    assert rms(np.array([3.0, NAN, -4.0])) == math.sqrt(12.5)
    assert math.isnan(rms(np.array([NAN])))


def test_remarks_say_why_there_is_no_error() -> None:
    J, b, J_x, m = solution().parameters.values()
    assert [remark(p) for p in (J, b, J_x, m)] == ["", "at lower bound", "the data do not determine it", "fixed"]
    assert remark(replace(b, estimate=2.0, upper=2.0)) == "at upper bound"
    assert remark(replace(b, reason=NO_FACTOR)) == "at lower bound, the normal equations are singular at the solution"


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (Status.CONVERGED, "pendulum: converged, 1 warning; 1 of 3 parameters is not identifiable"),
        (Status.MAX_ITERATIONS, "pendulum: NOT converged, the iteration limit was reached"),
        (Status.STALLED, "pendulum: NOT converged, stalled"),
        (Status.DIVERGED, "pendulum: FAILED at the initial values"),
        (Status.INTERRUPTED, "pendulum: interrupted"),
    ],
)
def test_the_first_line_says_how_it_ended(status: Status, words: str) -> None:
    ended = replace(solution(), status=status)
    assert verdict(ended).startswith(words)
    assert summarize(ended).startswith(verdict(ended))
    assert str(ended) == ended.summary() == summarize(ended)
    assert " ".join(summarize(ended).split()).count(ended.message) == (status is not Status.CONVERGED)
    assert " ".join(summarize(ended, verbose=True).split()).count(ended.message) >= 1


def line(text: str, start: str) -> str:
    found = [line for line in text.splitlines() if line.strip().startswith(start + " ")]
    return found[0]


def test_the_table_of_parameters() -> None:
    text, J = solution().summary(), solution()["J"]
    _, value, error, share, low, dots, high, *unit = line(text, "J").split()[:1] + [
        word for word in line(text, "J").split()[1:] if word != "%"
    ]
    assert (float(value), float(error)) == pytest.approx((J.estimate, J.std_err), rel=0.05)
    assert float(share) == pytest.approx(100 * J.std_err / J.estimate, rel=0.1)
    assert (float(low), float(high)) == pytest.approx(
        (J.estimate - 1.96 * J.std_err, J.estimate + 1.96 * J.std_err), abs=0.6 * J.std_err
    )
    assert (dots, unit) == ("..", ["kg", "m^2"])
    assert line(text, "b").endswith("at lower bound")
    assert "the data do not determine it" in text
    assert line(text, "m").split() == ["m", "0.5", "kg", "fixed"]
    noise = solution().sensitivities.noise
    assert f"noise: impulses {number(noise['state'], 3)} /√κ, theta".replace(",", ";") in text
    assert "at a bound stay at the bound" in text
    every = solution().summary(verbose=True)
    assert re.search(r"J +[^ ]+ [^\n]* 0\.004\s+≥ 1e-06", every)


@pytest.mark.parametrize(
    ("value", "error", "cells"),
    [
        (1.4862e-5, 2.4e-8, ("x x1e-5", "1.4862", "0.0024", "0.2 %", "1.481 .. 1.491", "m")),
        (20.9, 1.4, ("x", "20.9", "1.4", "6.7 %", "18 .. 24", "m")),
        (0.0, 0.013, ("x", "0.000", "0.013", "> 100 %", "-0.03 .. 0.03", "m")),
        (5.0, NAN, ("x", "5", "", "", "", "m")),
    ],
)
def test_cells_of_an_estimate(value: float, error: float, cells: tuple[str, ...]) -> None:
    assert estimated_cells("x", value, error, "m") == cells


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [(0.189, 0.069, "0.189(69)"), (20.9, 1.4, "20.9(1.4)"), (1.4862e-9, 2.4e-12, "1.4862(24)e-9"), (5.0, NAN, "5")],
)
def test_errors_in_units_of_the_last_digit(value: float, error: float, text: str) -> None:
    assert concise(value, error) == text


def test_fit_and_cost_are_those_of_the_solution() -> None:
    s = solution()
    trajectory = s.trajectories[0]
    misfit = rms(trajectory.observed - trajectory.predicted)
    text = s.summary(verbose=True)
    row = line(text, "theta")
    assert deviation(misfit, "rad") in row
    assert row.split()[-1] == "95"
    assert "95 samples" in s.summary()
    assert number(s.cost.state) in line(text, "state")
    assert f"{100 * s.cost.observation / s.cost.total:.0f} %" in line(text, "observation")
    assert number(s.history[0].cost.total) in line(text, "total")
    assert "Σ|(θ − mean)/sigma|²" not in text
    assert "3.5" in line(replace(s, cost=Cost(1, 1, 3.5)).summary(verbose=True), "prior")


def test_several_recordings_name_the_worst_even_if_names_repeat() -> None:
    s = solution(3)
    one = s.trajectories[1]
    bad = replace(one, name="release 0", squares=0.25 * one.samples, largest=0.5 * one.samples)
    text = replace(s, trajectories=(s.trajectories[0], bad, s.trajectories[2])).summary(verbose=True)
    assert "worst of 3 recordings" in text
    assert line(text, "theta").endswith("285      release 0: 0.5 rad")
    assert "worst" not in solution().summary(verbose=True)


@pytest.mark.parametrize(
    ("size", "words"),
    [
        (
            Noise("disturbance", ("shoulder", "elbow"), 2.1e-4, "N m", 2.1e-5, 0.1),
            "process noise of shoulder, elbow 0.00021 N m rms over a step of 10 ms (2.1e-05 N m/√Hz)",
        ),
        (Noise("disturbance", ("cart force",), 1e-9, "N", 1e-10, NAN), "process noise of cart force not identified"),
        (
            Noise("disturbance", ("pin",), 0.5, "N m", 0.05, NAN, given=True),
            "process noise of pin 0.5 N m rms over a step of 10 ms (0.05 N m/√Hz) (given)",
        ),
        (Noise("sensor", ("theta1",), 4.4e-4, "rad", NAN, 0.1, 1.534e-3), "theta1 0.44 mrad"),
        (Noise("sensor", ("x",), 0.002, "m", NAN, NAN, given=True), "x 0.002 m (given)"),
        (Noise("sensor", ("x",), 0.002, "m", NAN, NAN), "x not identified"),
    ],
)
def test_noise_is_said_in_physical_units(size: Noise, words: str) -> None:
    assert noise_words(size, 0.01) == words
    assert "step of 0.25 s" in noise_words(Noise("disturbance", ("a",), 1.0, "N", 2.0, 0.1), 0.25)
    assert [deviation(x, "rad") for x in (0.0999, 0.1)] == ["99.9 mrad", "0.1 rad"]


def test_noise_that_was_estimated_is_said_and_no_weight() -> None:
    s = estimated()
    text = " ".join(s.summary(verbose=True).split())
    motion, sensor = s.noise
    assert f"process noise of hinge {number(motion.std, 3)} N m rms over a step of 10 ms" in text
    assert f"theta {number(1000 * sensor.std, 3)} mrad" in text
    assert "process noise over its standard deviation" in text
    assert f"log-likelihood {s.log_likelihood:.1f} marginal, of the data" in text
    assert "friction smooth, step h = 0.01 s, noise estimated Dynamics estimated (process and measurement" in text
    assert "κ" not in text
    assert "nan" not in text
    assert "at the initial values" not in text
    failed = replace(s, status=Status.DIVERGED, noise=(), log_likelihood=NAN)
    assert "noise:" not in failed.summary()
    assert "log-likelihood" not in failed.summary(verbose=True).partition("cost")[2].partition("work")[0]


def test_deterministic_dynamics_are_said_in_words() -> None:
    hard = replace(solution(), state_weight=INF, dynamics="hard", cost=Cost(0.0, 2.0))
    text = " ".join(hard.summary(verbose=True).split())
    assert "step h = 0.01 s, deterministic dynamics Dynamics deterministic dynamics (no process noise" in text
    assert "state 0 0 % deterministic dynamics: none" in text
    assert "process noise none (deterministic dynamics)" in text


def test_weak_directions_are_said_in_words() -> None:
    s = solution()
    weak = (WeakDirection(0.0, {"J_x": 1.0}, "Fix it."), WeakDirection(0.5, {"J": 1.0, "b": -0.4}))
    known = replace(s.sensitivities, weak=weak, covariance_sandwich=s.sensitivities.covariance)
    text = " ".join(replace(s, sensitivities=known).summary().split())
    assert "not identifiable, or weakly J_x (not identifiable): Fix it." in text
    assert "J +100 %, b -40 % (0.5 sigma for 100 %)" in text
    assert "or weakly" not in replace(s, sensitivities=replace(s.sensitivities, weak=())).summary()
    many = tuple(WeakDirection(0.0, {f"p{i}": 1.0}, "Fix it.") for i in range(5))
    text = replace(s, sensitivities=replace(known, weak=many)).summary()
    assert text.count("Fix it.") == 3
    assert "2 more: in full with --verbose" in text


def test_correlations_above_09() -> None:
    s = solution()
    names = s.sensitivities.names
    covariance = np.diag(
        np.where(np.isfinite(s.sensitivities.standard_errors), s.sensitivities.standard_errors, 1.0) ** 2
    )
    i, j = names.index("J"), names.index("b")
    covariance[j, j] = 4 * covariance[i, i]
    covariance[i, j] = covariance[j, i] = -0.95 * np.sqrt(covariance[i, i] * covariance[j, j])
    known = replace(s.sensitivities, covariance=covariance)
    assert "correlations above 0.9: J, b -0.95" in replace(s, sensitivities=known).summary()
    covariance[i, j] = covariance[j, i] = covariance[i, j] / 2
    assert "correlations" not in replace(s, sensitivities=known).summary()


def test_three_warnings_are_in_full() -> None:
    codes = ("residuals.excess", "samples.outliers", "prior.contradicted", "estimators.differ", "step.error")
    found = tuple(Finding(code, evidence={"x": 1}, effect=f"Is {code}: so much.", advice="Do it.") for code in codes)
    note = Finding("step.chosen", effect="A note.")
    s = replace(solution(), findings=(*found, note))
    text = s.summary()
    assert f"WARNING {codes[0]}   Is {codes[0]}." in text
    assert text.count("Do it.") == 3
    assert "2 more warnings, in full with --verbose: estimators.differ, step.error" in text
    assert "5 warnings" in verdict(s)
    assert "A note." not in text
    whole = s.summary(verbose=True)
    assert whole.count("Do it.") == 5
    assert "NOTE step.chosen   A note." in whole


def test_work_settings_and_friction() -> None:
    s = solution()
    text = " ".join(s.summary(verbose=True).split())
    assert "1 recording, 100 steps, 1,203 unknowns (1,200 of states, 3 of parameters), 1,295 residuals" in text
    for part in ("build", "compile", "solve", "evaluate", "factorize", "rest"):
        assert f"{part} " in text
    assert "backend lm, stepper spook, friction smooth, step h = 0.01 s, weight κ = 100" in text
    assert "dry friction" not in text
    rubbing = replace(s, sticking={"hinge": 0.25}, complementarity_residual=1e-9).summary(verbose=True)
    assert "hinge 25 % Largest deviation from the exact friction law: 1e-09 N s or N m s." in " ".join(rubbing.split())
    assert f"numpy {np.__version__}" in text


def long_names() -> Solution:
    s = solution()
    name, unit = "a_very_long_name_for_a_parameter_" * 4, "kg m^2 s^-1 rad^-1 A^-1"
    j = replace(s["J"], name=name, unit=unit, lower=-1.23456e-5, upper=1.23456e5, std_err=NAN, reason=NO_FACTOR)
    trajectory = replace(s.trajectories[0], signals=("signal " * 20,), name="recording " * 20)
    return replace(
        s,
        problem="problem" * 30,
        parameters={name: j},
        trajectories=(trajectory, trajectory),
        findings=(Finding("weight.paper", effect="notice " * 40), Finding("step.chosen", effect="x" * 300)),
        versions={"spookid": "0.1.0.dev123456789+" + "f" * 120},
    )


@pytest.mark.parametrize("verbose", [False, True])
@pytest.mark.parametrize("make", [solution, lambda: solution(3), lambda: estimated(2), awkward, long_names])
def test_the_page_is_at_most_80_columns_wide_and_loses_no_name(make: object, verbose: bool) -> None:
    s = make()  # type: ignore[operator]
    text = summarize(s, verbose)
    assert max(map(len, text.splitlines())) <= COLUMNS == 80
    assert not any(line != line.rstrip() for line in text.splitlines())
    assert all(section and not section.startswith("\n") for section in text.split("\n\n"))
    squeezed = "".join(text.split())
    assert all(name in squeezed for name in s.parameters)


def test_a_solution_without_parameters_or_trajectories_has_a_page_too() -> None:
    s = replace(solution(), parameters={}, trajectories=(), history=())
    assert "parameter " not in summarize(s)
    assert "residuals" not in summarize(s, verbose=True).partition("work")[0].split()
    assert "0 iterations" in summarize(s)
