"""Questions about units, clocks and signs: asked where they should be, and nowhere else; sizes that exceed memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from mechanisms import Array

from spookid import (
    GROUND,
    Body,
    JointPosition,
    Model,
    Motor,
    Observation,
    Parameter,
    Prismatic,
    Problem,
    ProblemError,
    Recording,
    Solution,
    gravity,
    load_problem,
)

PENDULUM = Path(__file__).parents[1] / "problems" / "pendulum.py"
T = np.arange(1250) * 4e-3


def slide(late: float = 0.0, change: Callable[[Recording], Recording] = lambda r: r) -> Problem:
    """A mass on a spring that a force moves along a known path; guesses are off by a third."""
    rates = 2 * np.pi * np.array([0.4, 1.1, 2.3])

    def force(t: Array) -> Array:
        parts = zip((0.5, 0.2, 0.1), rates, strict=True)
        return sum((size * ((30 - 2 * w**2) * np.sin(w * t) + 4 * w * np.cos(w * t)) for size, w in parts), 0 * t)

    x = np.sin(np.outer(T, rates)) @ [0.5, 0.2, 0.1] + 1e-4 * np.random.default_rng(0).normal(size=len(T))
    body = Body("body", mass=Parameter("m", 1.5, lower=0.1), inertia=(1, 1, 1))
    joint = Prismatic("slide", GROUND.frame(), body.frame(), viscous=Parameter("b", 3.0, lower=0), stiffness=30.0)
    model = Model([body], [joint], [Motor(joint, "f")], gravity=gravity(0.0))
    recording = change(Recording(T, {"x": x, "f": force(T + late)}, "run"))
    return Problem("slide", model, [recording], [JointPosition(joint, "x")])


def scaled(signal: str, factor: float) -> Callable[[Recording], Recording]:
    return lambda r: r.with_signals(**{signal: factor * r.signal(signal)})


def swing(change: Callable[[Recording], Recording]) -> Problem:
    problem = load_problem(PENDULUM)
    return problem.with_(recordings=[change(problem.recordings[0])])


def faster(factor: float) -> Callable[[Recording], Recording]:
    return lambda r: replace(r, t=factor * r.t)


# --- what is asked ---


def test_nothing_is_asked_of_what_the_model_explains() -> None:
    assert slide(2e-3).questions() == ()
    assert swing(lambda r: r).questions() == ()


@pytest.mark.parametrize(
    ("problem", "words"),
    [
        (lambda: slide(change=scaled("x", 1e3)), "if x was in millimetres"),
        (lambda: slide(change=scaled("x", 1e2)), "if x was in centimetres"),
        (lambda: slide(change=scaled("f", -1)), "if f had the other sign"),
        (lambda: slide(change=scaled("f", 1e3)), "if f was in thousandths"),
        (
            lambda: slide(change=lambda r: r.with_signals(f=1e3 * np.cos(50 * T))),
            "initial value wrong by more than a factor of ten",
        ),
        (lambda: slide(0.03), " ms later than the timestamps imply"),
        (lambda: slide(-0.03), " ms earlier than the timestamps imply"),
        (lambda: slide(change=faster(1e3)), "Are its times t in milliseconds?"),
        (lambda: swing(scaled("theta", 180 / np.pi)), "if theta was in degrees"),
        (
            lambda: swing(lambda r: scaled("theta", -1)(r.with_signals(theta=r.signal("theta") + np.pi))),
            "half a turn on",
        ),
        (lambda: swing(lambda r: r.with_signals(theta=np.rint(652 * r.signal("theta")))), "ticks of an encoder"),
        (lambda: swing(faster(1e3)), "Are its times t in milliseconds?"),
        (lambda: slide(change=lambda r: r.with_signals(x=r.signal("x") + 0.5 * (T > 2))), "Was its counter reset?"),
    ],
)
def test_what_is_wrong_is_asked_about(problem: Callable[[], Problem], words: str) -> None:
    (asked,) = problem().questions()
    assert asked.startswith("Is this meant?")
    assert words in asked


def test_times_that_are_no_seconds_are_refused_before_a_fit_of_too_many_steps() -> None:
    with pytest.raises(ProblemError, match=r"sample every 4 s, which are .* steps .*give times in seconds"):
        slide(change=faster(1e3)).solve()


def pushed(seed: int) -> Callable[[Recording], Recording]:
    """A force that is not modelled."""
    window = np.hanning(201) / np.linalg.norm(np.hanning(201))
    push = 10 * np.convolve(np.random.default_rng(seed).normal(size=len(T) + 200), window, "valid")
    return lambda r: r.with_signals(f=r.signal("f") + push)


@pytest.mark.parametrize(("late", "words"), [(0.04, " ms later than"), (-0.04, " ms earlier than"), (0.0, "")])
@pytest.mark.parametrize("seed", range(4))
def test_a_lag_is_asked_about_where_a_force_that_is_not_modelled_hides_it(late: float, words: str, seed: int) -> None:
    asked = slide(late, pushed(seed)).questions()
    assert [words in one for one in asked] == [True] * bool(words)


def shaken(
    noise: float, driven: bool, change: Callable[[Recording], Recording] = lambda r: r, seed: int = 0
) -> Problem:
    """A mass on a spring of which an accelerometer alone is known: a driven one, or a stiff one that rings."""
    rng, rates = np.random.default_rng(seed), 2 * np.pi * np.array([0.4, 1.1, 2.3])
    if driven:
        m, c, k, t = 2.0, 4.0, 40.0, np.arange(1600) * 5e-3
        sizes = np.array([0.5, 0.2, 0.1])
        a = -np.sin(np.outer(t, rates)) @ (sizes * rates**2)
        force = np.sin(np.outer(t, rates)) @ (sizes * (k - m * rates**2)) + np.cos(np.outer(t, rates)) @ (
            c * sizes * rates
        )
    else:
        m, c, k, t = 1.0, 0.536, 10088.0, np.arange(1700) * 3e-3
        a, force = 24.6 * np.exp(-c / 2 * t) * np.cos(np.sqrt(k) * t + 1.77), 0 * t
    body = Body("body", mass=m, inertia=(1, 1, 1))
    spring = Parameter("k", 0.8 * k if driven else k, lower=1)
    joint = Prismatic("slide", GROUND.frame(), body.frame(), viscous=Parameter("c", c, lower=0), stiffness=spring)
    model = Model([body], [joint], [Motor(joint, "f")], gravity=gravity(0.0))
    recording = change(Recording(t, {"a": a + noise * rng.normal(size=len(t)), "f": force}, "run"))
    sensor = Observation(lambda state: state.acceleration(body.frame())[0], "a")
    return Problem("shaken", model, [recording], [sensor], step=float(t[1]))


@pytest.mark.parametrize("noise", [0.0, 0.05, 0.2, 0.7])
@pytest.mark.parametrize("driven", [True, False])
def test_nothing_is_asked_of_what_noisy_accelerations_leave(noise: float, driven: bool) -> None:
    for seed in range(2):
        assert shaken(noise, driven, seed=seed).questions() == ()


@pytest.mark.parametrize("noise", [0.05, 0.7])
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (scaled("a", -1), "if f had the other sign"),
        (scaled("f", -1), "if f had the other sign"),
        (scaled("f", 1e3), "if f was in thousandths"),
        (faster(1e3), "Are its times t in milliseconds?"),
    ],
)
def test_noisy_accelerations_with_something_wrong_are_asked_about(
    noise: float, change: Callable[[Recording], Recording], words: str
) -> None:
    (asked,) = shaken(noise, driven=True, change=change).questions()
    assert words in asked


@pytest.mark.parametrize("wrong", [True, False])
def test_millimetres_are_asked_about_where_noise_hides_accelerations(wrong: bool) -> None:
    noise = 0.02 * np.random.default_rng(1).normal(size=len(T))
    factor = 1e3 if wrong else 1.0
    asked = slide(change=lambda r: r.with_signals(x=factor * (r.signal("x") + noise))).questions()
    assert ["x was in millimetres" in one for one in asked] == [True] * wrong


def test_a_lag_is_told_where_no_parameter_is_free() -> None:
    known = slide(0.03).with_(fixed=("m", "b"), initial={"m": 2.0, "b": 4.0})
    (asked,) = known.questions()
    assert " about 28 ± " in asked  # samples hold for 4 ms


def test_an_answer_that_is_in_doubt_asks_without_being_asked() -> None:
    def solved(made: Problem) -> Solution:
        return made.with_(recordings=[made.recordings[0].between(0, 2)]).solve()

    doubtful = solved(slide(change=scaled("x", 1e3)))
    assert doubtful.findings[0].code == "question.model"
    assert "if x was in millimetres" in doubtful.notices[0]
    assert not any(finding.code.startswith("question.") for finding in solved(slide(2e-3)).findings)


def test_what_is_given_twice_is_asked_about() -> None:
    problem = slide()
    again = replace(problem.recordings[0], name="again")
    (asked,) = problem.with_(recordings=[*problem.recordings, again]).questions()
    assert "Recordings 'run' and 'again' contain the same samples" in asked
    (asked,) = problem.with_(observations=[*problem.observations, problem.observations[0]]).questions()
    assert "2 sensors use signal 'x'" in asked
