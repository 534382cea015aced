"""The page of text: numbers rounded as people round them, and everything said that must be said."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import numpy as np
import pytest
from solutions import awkward, estimated, solution

from spookid import Cost, Finding, Noise, Solution, Status
from spookid.report.summary import WIDTH, summarize
from spookid.results.result import Times
from spookid.results.trajectory import rms
from spookid.results.wording import noise_words, remark, status_words
from spookid.statistics.sensitivities import NO_FACTOR
from spookid.statistics.weak_directions import WeakDirection
from spookid.tables.table import bounds, deviation, labelled, number, quantity, seconds, uncertain

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
        (Status.CONVERGED, "converged in 5 iterations and 3.0 s"),
        (Status.MAX_ITERATIONS, "NOT converged: the iteration limit came after 5 iterations"),
        (Status.STALLED, "NOT converged: stalled after 5 iterations"),
        (Status.DIVERGED, "FAILED at the initial guess"),
        (Status.INTERRUPTED, "interrupted after 5 iterations"),
    ],
)
def test_the_headline_says_how_it_ended(status: Status, words: str) -> None:
    s = solution()
    times = Times(build=1.0, compile=0.5, solve=1.0, evaluate=0.5, factorize=0.5, analysis=0.4, other=0.1)
    ended = replace(s, status=status, history=s.history[:1] * 6, times=times, clocks=())
    assert words.replace("3.0 s", "3 s") in status_words(ended)
    assert summarize(ended).startswith(f"pendulum: {status_words(ended)}\n====")
    assert " ".join(summarize(ended).split()).count(ended.message) == 1


def test_one_iteration_is_singular() -> None:
    s = solution()
    assert "in 1 iteration and" in status_words(replace(s, history=s.history[:2]))


def line(text: str, start: str) -> str:
    (found,) = (line for line in text.splitlines() if line.strip().startswith(start + " "))
    return found


def test_the_table_of_parameters() -> None:
    text = solution().summary()
    J = solution()["J"]
    value, error = uncertain(J.estimate, J.std_err).split(" ± ")
    assert line(text, "J").split() == ["J", value, "±", error, "kg", "m^2", "0.004", "≥", "1e-06"]
    assert line(text, "b").endswith("≥ 0         at lower bound")
    assert line(text, "J_x").endswith("[1e-06, 1]  the data do not determine it")
    assert line(text, "m").split() == ["m", "0.5", "kg", "0.5", "fixed"]
    noise = solution().sensitivities.noise
    assert f"Noise found: impulses {number(noise['state'], 3)} /√κ, theta {number(noise['theta'], 3)} sigma." in text
    assert "one variance for the impulses, one for each sensor" in " ".join(text.split())
    assert "at a bound stay there" in text


def test_fit_and_cost_are_those_of_the_solution() -> None:
    s = solution()
    trajectory = s.trajectories[0]
    misfit = rms(trajectory.observed - trajectory.predicted)
    row = line(s.summary(), "theta")
    assert f"{number(misfit, 3)} rad" in row
    assert row.split()[-1] == "95"
    assert number(s.cost.state) in line(s.summary(), "state")
    assert f"{100 * s.cost.observation / s.cost.total:.0f} %" in line(s.summary(), "observation")
    assert number(s.history[0].cost.total) in line(s.summary(), "total")
    assert "Σ|(θ − mean)/sigma|²" not in s.summary()
    assert "3.5" in line(replace(s, cost=Cost(1, 1, 3.5)).summary(), "prior")


def test_several_recordings_name_the_worst_even_if_names_repeat() -> None:
    s = solution(3)
    one = s.trajectories[1]
    bad = replace(one, name="release 0", squares=0.25 * one.samples, largest=0.5 * one.samples)
    text = replace(s, trajectories=(s.trajectories[0], bad, s.trajectories[2])).summary()
    assert "worst of 3 recordings" in text
    assert line(text, "theta").endswith("285      release 0: 0.5 rad")
    assert "worst" not in solution().summary()


def test_each_signal_has_its_own_unit() -> None:
    s = solution(2)
    lengths = tuple(replace(t, units=("m",), periods=(None,)) for t in s.trajectories)
    row = line(replace(s, trajectories=lengths).summary(), "theta")
    assert row.count(" m ") == 2
    assert row.endswith(" m")
    bare = tuple(replace(t, units=("",)) for t in s.trajectories)
    assert re.fullmatch(
        r"  theta +\S+ +\S+ +\d+ +release \d: \S+", line(replace(s, trajectories=bare).summary(), "theta")
    )
    assert (quantity(0.12345, "m/s"), quantity(0.12345, "", 2)) == ("0.123 m/s", "0.12")
    assert (labelled("a", "kg m^2"), labelled("a", "")) == ("a [kg m²]", "a")


@pytest.mark.parametrize(
    ("size", "words"),
    [
        (
            Noise("disturbance", ("shoulder", "elbow"), 2.1e-4, "N m", 2.1e-5, 0.1),
            "disturbance of shoulder, elbow 0.00021 N m rms over a step of 10 ms (2.1e-05 N m/√Hz)",
        ),
        (Noise("disturbance", ("cart force",), 1e-9, "N", 1e-10, NAN), "disturbance of cart force none seen"),
        (
            Noise("disturbance", ("pin",), 0.5, "N m", 0.05, NAN, given=True),
            "disturbance of pin 0.5 N m rms over a step of 10 ms (0.05 N m/√Hz) (given)",
        ),
        (
            Noise("sensor", ("theta1",), 4.4e-4, "rad", NAN, 0.1, 1.534e-3),
            "theta1 0.44 mrad, its resolution is 1.53 mrad",
        ),
        (Noise("sensor", ("x",), 0.002, "m", NAN, NAN, given=True), "x 0.002 m (given)"),
        (Noise("sensor", ("x",), 0.002, "m", NAN, NAN), "x none seen"),
    ],
)
def test_noise_is_said_in_physical_units(size: Noise, words: str) -> None:
    assert noise_words(size, 0.01) == words
    assert "step of 0.25 s" in noise_words(Noise("disturbance", ("a",), 1.0, "N", 2.0, 0.1), 0.25)
    assert [deviation(x, "rad") for x in (0.0999, 0.1)] == ["99.9 mrad", "0.1 rad"]


def test_noise_that_was_estimated_is_said_and_no_weight() -> None:
    s = estimated()
    text = " ".join(s.summary().split())
    assert "Standard errors are linearized, from the marginal likelihood of parameters and noise" in text
    motion, sensor = s.noise
    assert f"Noise found: disturbance of hinge {number(motion.std, 3)} N m rms over a step of 10 ms" in text
    assert f"theta {number(1000 * sensor.std, 3)} mrad." in text
    assert "squares of what disturbs the motion over its size" in text
    assert f"log-likelihood {s.log_likelihood:.1f} of the data" in text
    assert "friction smooth, step h = 0.01 s, noise estimated Dynamics estimated (noise of motion and sensors" in text
    assert "κ" not in text
    assert "nan" not in text
    assert "at the initial guess" not in text
    failed = replace(s, status=Status.DIVERGED, noise=(), log_likelihood=NAN)
    assert "Noise found" not in failed.summary()
    assert "log-likelihood" not in line(failed.summary(), "observation") + failed.summary().partition("Cost")[2]


def test_hard_dynamics_are_said_in_words() -> None:
    hard = replace(solution(), state_weight=INF, dynamics="hard", cost=Cost(0.0, 2.0))
    text = " ".join(hard.summary().split())
    assert "step h = 0.01 s, hard dynamics Dynamics hard (the motion obeys the mechanics" in text
    assert "state 0 0 % infinite weight: the motion obeys the mechanics" in text


def test_weak_directions_are_said_in_words() -> None:
    s = solution()
    weak = (WeakDirection(0.0, {"J_x": 1.0}, "Fix it."), WeakDirection(0.5, {"J": 1.0, "b": -0.4}))
    known = replace(s.sensitivities, weak=weak, covariance_sandwich=s.sensitivities.covariance)
    text = " ".join(replace(s, sensitivities=known).summary().split())
    assert "The data do not see J_x. Fix it." in text
    assert "The data hardly see that these change together: J +100 %, b -40 % (0.5 sigma for 100 %)." in text
    assert "these estimates mean little" in text
    known = replace(known, covariance_sandwich=s.sensitivities.covariance / 25)
    s = replace(s, findings=(*s.findings, Finding("errors.white-noise")))
    text = " ".join(replace(s, sensitivities=known).summary().split())
    assert "these estimates mean little. How hardly the data see what they see is told for white noise" in text
    wide = replace(known, covariance_sandwich=25 * s.sensitivities.covariance)
    assert "white noise, which a notice below" not in replace(s, sensitivities=wide).summary()
    known = replace(known, weak=weak[:1])
    assert "these estimates mean little" in replace(s, sensitivities=known).summary()
    assert "Weak" not in replace(s, sensitivities=replace(s.sensitivities, weak=())).summary()


def test_work_settings_and_notices() -> None:
    s = solution()
    text = " ".join(s.summary().split())
    assert "1 recording, 100 steps, 1,203 unknowns (1,200 of states, 3 of parameters), 1,295 residuals" in text
    for part in ("build", "compile", "solve", "evaluate", "factorize", "rest"):
        assert f"{part} " in text
    assert "backend lm, stepper spook, friction smooth, step h = 0.01 s, state weight κ = 100" in text
    assert "Dry friction" not in text
    rubbing = " ".join(replace(s, sticking={"hinge": 0.25}, complementarity_residual=1e-9).summary().split())
    assert "hinge sticks for 25 % of the time Largest distance from the exact law: 1e-09 N s or N m s." in rubbing
    assert f"numpy {np.__version__}" in text
    assert "Notices - state_weight=100 is the paper's weight" in text
    assert "Notices" not in replace(s, findings=()).summary()


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


@pytest.mark.parametrize("make", [solution, lambda: solution(3), lambda: estimated(2), awkward, long_names])
def test_the_page_is_at_most_100_columns_wide_and_loses_no_name(make: object) -> None:
    s = make()  # type: ignore[operator]
    text = summarize(s)
    assert max(map(len, text.splitlines())) <= WIDTH == 100
    assert not any(line != line.rstrip() for line in text.splitlines())
    assert all(section and not section.startswith("\n") for section in text.split("\n\n"))
    squeezed = "".join(text.split())
    assert all(name in squeezed for name in s.parameters)


def test_a_solution_without_parameters_or_trajectories_has_a_page_too() -> None:
    s = replace(solution(), parameters={}, trajectories=(), history=())
    assert "Parameters" not in summarize(s)
    assert "Fit" not in summarize(s)
    assert "after 0 iterations" in summarize(replace(s, status=Status.STALLED))
