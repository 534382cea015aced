"""The state weight that the data choose: on twins, on a measured pendulum, in files and on the command line."""

from __future__ import annotations

import itertools
import json
import math
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mechanisms import furuta, pendulum, twin
from noisy import NoisyTwin
from solutions import difference

from spookid import (
    HingeAngle,
    Parameter,
    Problem,
    ProblemError,
    Recording,
    Spook,
    Status,
    Variational,
    load,
    load_problem,
    weight_plot,
)
from spookid.cli import main
from spookid.open_loop import windows
from spookid.periods import LONG, mean_period
from spookid.solution import Solution
from spookid.weight_choice import WeightChoice, WeightTrial, ended
from spookid.weighting import _Search, solve_weighted, windows_of

TRUTH = {"J": 0.005, "b": 2e-3}
NOISE = 2e-3


def problem(duration: float = 2.0, noise: float = NOISE, **settings: Any) -> Problem:
    """A swing of a pendulum, by its own stepper, with white noise."""
    J = Parameter("J", 0.004, lower=1e-6, unit="kg m^2")
    b = Parameter("b", 1e-3, lower=0, unit="N m s")
    model = pendulum(inertia=J, viscous=b)
    start = {"hinge": 1.5}
    return twin(model, TRUTH, initial=start, duration=duration, noise=noise, stepper=Variational(), **settings)


@pytest.fixture(scope="module")
def chosen() -> Solution:
    return problem().solve(state_weight="auto")


def choice(
    *errors: float,
    statuses: Mapping[int, Status] | None = None,
    share: float = 0.5,
    standard: Sequence[float] | None = None,
    estimates: Sequence[float] | None = None,
    step: Sequence[float] | None = None,
    replay: Sequence[float] | None = None,
    agreement: float = 10.0,
) -> WeightChoice:
    """Weights 1, 10, 100 ... with these errors, and standard errors that are not to be believed unless told."""
    told, relative, found = statuses or {}, standard or [0.1] * len(errors), estimates or [1.0] * len(errors)
    added = step or [math.nan] * len(errors)
    trials = (
        WeightTrial(10.0**i, e, r, share, {"J": J}, {"J": s * J}, {"J": t}, agreement, told.get(i, Status.CONVERGED))
        for i, (e, s, J, t, r) in enumerate(zip(errors, relative, found, added, replay or added, strict=True))
    )
    return WeightChoice(1.0, tuple(trials))


# --- the choice ---


def test_the_smallest_weight_that_is_as_good_as_the_best() -> None:
    assert choice(9.0, 3.0, 1.05, 1.0, 1.01).best.weight == 100
    assert choice(9.0, 3.0, 1.07, 1.0, 1.01).best.weight == 1000
    assert choice(9.0, 1.01, 3.0, 1.05, 1.0).best.weight == 1000  # one apart from the best may be there by accident


def test_a_rise_on_the_way_to_larger_weights_is_not_their_end() -> None:
    # A Furuta pendulum whose twin has no other noise than its sensors': errors at 10^1 ... 10^4.
    assert choice(1.59, 2.46, 1.86, 1.26, 1.25).best.weight == 1000
    assert not ended(choice(1.59, 2.46, 1.86).curve)
    assert ended(choice(1.59, 2.46, 2.45).curve)
    assert not ended(choice(1.59, 1.70, 1.70).curve)  # the impulse residuals have not settled
    assert not ended(choice(math.inf, math.inf, math.inf, share=0.01).curve)


def test_the_least_expected_errors_decide_if_they_agree_with_the_jackknife() -> None:
    errors, standard = (9.0, 1.9, 1.4, 1.0, 1.2), (0.05, 0.1, 0.101, 0.2, 0.3)
    believed = choice(*errors, standard=standard, agreement=1.5)
    assert believed.best.weight == 100  # as good as 10; 1 predicts so badly that it is out
    assert believed.criterion == "least expected errors"
    for agreement in (0.4, 2.1, math.nan):
        doubted = choice(*errors, standard=standard, agreement=agreement)
        assert doubted.best.weight == 1000
        assert doubted.criterion == "open-loop prediction"


def test_the_least_expected_errors_do_not_decide_if_predictions_suffer() -> None:
    assert choice(3.0, 2.6, 1.0, 1.2, standard=(0.3, 0.1, 0.2, 0.3), agreement=1.0).best.weight == 100
    assert choice(3.0, 2.4, 1.0, 1.2, standard=(0.3, 0.1, 0.2, 0.3), agreement=1.0).best.weight == 10


def test_the_least_expected_errors_do_not_decide_if_estimates_move_farther_than_they_say() -> None:
    given: dict[str, Any] = {"standard": (0.3, 0.1, 0.2, 0.3), "agreement": 1.0}
    assert choice(3.0, 1.5, 1.0, 1.2, estimates=(0.2, 0.5, 1.0, 1.0), **given).best.weight == 10
    assert choice(3.0, 1.5, 1.0, 1.2, estimates=(0.2, 0.4, 1.0, 1.0), **given).best.weight == 100
    both = choice(1.0, 1.0, standard=(0.1, math.nan), estimates=(1.0, 9.0)).curve
    assert both[0].apart(both[1]) == 0.0


def test_what_the_time_step_adds_counts_among_the_errors_and_explains_how_estimates_move() -> None:
    given: dict[str, Any] = {"standard": (0.3, 0.1, 0.11, 0.2), "agreement": 1.0}
    errors = (3.0, 1.5, 1.0, 1.2)
    assert choice(*errors, step=(0.0, 0.01, 0.0, 0.0), **given).best.weight == 10
    assert choice(*errors, step=(0.0, 0.1, 0.01, 0.0), **given).best.weight == 100
    moved: dict[str, Any] = {"standard": (0.3, 0.02, 0.03, 0.2), "estimates": (1.0, 1.25, 1.0, 1.0), "agreement": 1.0}
    assert choice(*errors, **moved).criterion == "open-loop prediction"
    explained = choice(*errors, step=(0.0, 0.0, -0.3, 0.0), **moved)  # 1.25 and 1.3 without it
    assert explained.criterion == "least expected errors"
    assert explained.best.weight == 10


def test_errors_that_say_nothing_do_not_decide() -> None:
    unknown = choice(3.0, 1.5, 1.0, standard=(1.0, 1.0, 1.0), agreement=1.0)
    assert unknown.criterion == "open-loop prediction"


def test_of_two_halves_of_a_doubt_one_is_made() -> None:
    errors, standard = (3.0, 2.1, 1.0, 1.2), (0.3, 0.1, 0.2, 0.3)
    assert choice(*errors, standard=standard, agreement=1.1).best.weight == 10
    assert choice(*errors, standard=standard, agreement=1.3).best.weight == 100
    assert choice(*errors, standard=standard, agreement=1 / 1.3).best.weight == 100


def test_a_weight_with_a_bad_replay_is_not_taken_if_others_that_predict_have_a_better_one() -> None:
    errors = (9.0, 1.2, 1.0, 1.01, 1.3, 2.6)
    assert choice(*errors).best.weight == 100
    assert choice(*errors, replay=(9.0, 3.0, 3.0, 1.3, 1.0, 0.1)).best.weight == 1000  # the last predicts too badly
    assert choice(*errors, replay=(9.0, 3.0, 3.0, 1.4, 1.0, 0.1)).best.weight == 10000
    assert choice(*errors, replay=[math.inf] * 6).best.weight == 100
    assert choice(*errors, replay=(90.0, 30.0, 30.0, 13.0, 10.0, 1.0)).best.weight == 100  # all went astray
    believed = choice(*errors, replay=(9.0, 3.0, 3.0, 1.3, 1.0, 0.1), standard=(0.3, 0.1, *[0.2] * 4), agreement=1.0)
    assert believed.best.weight == 10  # noise in the motion spoils every replay


def test_what_lies_beyond_two_decades_that_brought_nothing_is_left_out() -> None:
    # From above a search meets weights that one from below never tries; both have to choose the same.
    below = choice(2.2, 1.5, 1.16, 1.165, 1.185, share=0.01)
    above = choice(2.2, 1.5, 1.16, 1.165, 1.185, 1.09, 1.09, share=0.01)
    assert ended(below.curve)
    assert above.considered == below.curve
    assert above.best == below.best == below.curve[2]
    assert len(choice(2.2, 1.5, 1.16, 1.165, 1.14, 1.0, share=0.01).considered) == 6  # the error is falling again


def test_failed_fits_end_the_search_if_there_are_four_in_a_row_after_others() -> None:
    failed = {i: Status.STALLED for i in range(2, 6)}
    errors = (2.0, 1.0, 9.0, 9.0, 9.0, 9.0)
    assert not ended(choice(*errors[:5], statuses=failed, share=0.01).curve)
    assert ended(choice(*errors, statuses=failed, share=0.01).curve)
    assert not ended(choice(*[math.inf] * 6, share=0.01).curve)
    below = {i: Status.STALLED for i in range(3)}
    assert not choice(9.0, 9.0, 9.0, 1.0, 1.2, statuses=below).sunk
    assert choice(9.0, 9.0, 9.0, 9.0, 1.0, 1.2, statuses={**below, 3: Status.STALLED}).sunk


def test_fits_that_did_not_converge_or_cannot_be_simulated_count_only_if_all_are_so() -> None:
    stalled = {1: Status.STALLED}
    assert choice(9.0, 0.5, 1.0, statuses=stalled).best.weight == 100
    assert choice(math.inf, 2.0, statuses=stalled).best.status is Status.CONVERGED
    assert choice(3.0, 1.0, statuses=dict.fromkeys(range(2), Status.STALLED)).best.weight == 10


def test_a_twin_gets_a_weight_that_gives_its_truth_back(chosen: Solution) -> None:
    assert chosen.status is Status.CONVERGED
    assert chosen["J"].estimate == pytest.approx(TRUTH["J"], rel=5e-3)
    assert chosen["J"].initial == 0.004
    found = chosen.state_weight_choice
    assert found is not None
    assert found.best.weight == chosen.state_weight
    assert found.best.error == pytest.approx(NOISE, rel=0.2)
    assert [t.weight for t in found.curve] == sorted(t.weight for t in found.curve)


def test_the_estimates_are_no_worse_than_those_of_a_sweep(chosen: Solution) -> None:
    def off(solution: Solution) -> float:
        return math.hypot(*(solution[name].estimate / value - 1 for name, value in TRUTH.items()))

    sweep = [off(problem().solve(state_weight=10.0**k)) for k in range(-2, 9, 2)]
    assert max(sweep) > 5 * min(sweep)  # the weight matters
    assert off(chosen) < 1.2 * min(sweep) + 0.01


FURUTA = {"J_Azz": 0.003, "J_Byy": 0.004, "b_1": 1e-3, "b_2": 1e-4}
RELEASE = {"shoulder": 0.0, "elbow": 2.5}


def furuta_twins(noisy: Spook | Variational | None, seeds: int, step: float = 0.01) -> list[Problem]:
    """A Furuta pendulum with encoders of 1 mrad noise, and with noise in its motion if there is a stepper for it.

    Args:
        step: of the simulation without noise in the motion [s]; fits take 0.01 s.
    """
    J_Azz, J_Byy = (Parameter(name, 0.01, lower=1e-7, unit="kg m^2") for name in ("J_Azz", "J_Byy"))
    b_1, b_2 = (Parameter(name, 1e-4, lower=0, unit="N m s") for name in ("b_1", "b_2"))
    soft = {"compliance": 1e-4, "damping": 0.02}
    model = furuta(inertias=(J_Azz, J_Byy, 0.004), shoulder={"viscous": b_1, **soft}, elbow={"viscous": b_2, **soft})
    settings: dict[str, Any] = {"step": 0.01, "duration": 6.0, "stepper": noisy or Variational()}
    if noisy is None:
        settings |= {"noise": 1e-3, "initial": RELEASE, "step": step}
        return [twin(model, FURUTA, seed=seed, **settings).with_(step=0.01) for seed in range(seeds)]
    truth = dict(zip((J_Azz, J_Byy, b_1, b_2), FURUTA.values(), strict=True))
    twins = NoisyTwin(model, truth, RELEASE, state_weight=1e8, sigma=1e-3, **settings)
    sensors = [HingeAngle(joint, signal=joint.name) for joint in model.joints]  # of σ 1: κ is 100 then
    return [twins.draw(seed).with_(observations=sensors) for seed in range(seeds)]


@pytest.mark.parametrize("start", [2, 8])
def test_a_motion_that_noise_moves_gets_the_weight_that_says_so(start: int) -> None:
    (noisy,) = furuta_twins(Variational(), 1)
    found = solve_weighted(noisy, "lm", {}, None, None, start)
    choice = found.state_weight_choice
    assert choice is not None
    assert choice.criterion == "least expected errors"
    assert 10 <= found.state_weight <= 1000
    assert min(choice.curve, key=lambda trial: trial.error).weight > 1000  # that is what predictions prefer
    assert not [notice for notice in noisy.solve(state_weight=100.0).notices if "state weight" in notice]


INERTIAS = ("J_Azz", "J_Byy")


@cache
def times_the_best(noisy: Spook | Variational | None, step: float = 0.01) -> dict[Collection[str], float]:
    """Root mean square errors over ten draws of the noise, over the least that one weight of a sweep gives.

    A single draw tells little: at some weight of its sweep an error crosses zero by luck.
    """
    problems = furuta_twins(noisy, 10, step)

    def off(solutions: Sequence[Solution], names: Collection[str]) -> float:
        return math.sqrt(np.mean([(s[name].estimate / FURUTA[name] - 1) ** 2 for s in solutions for name in names]))

    found = [p.solve(state_weight="auto") for p in problems]
    sweep = [[p.solve(state_weight=10.0**k) for p in problems] for k in range(11 if noisy is None else 6)]
    every = (INERTIAS, tuple(FURUTA))
    return {names: off(found, names) / min(off(solutions, names) for solutions in sweep) for names in every}


@pytest.mark.study
@pytest.mark.parametrize("names", [INERTIAS, tuple(FURUTA)])
@pytest.mark.parametrize("noisy", [None, Variational(), Spook()])
def test_over_many_draws_the_estimates_are_no_worse_than_with_the_best_weight(
    noisy: Spook | Variational | None, names: Collection[str]
) -> None:
    assert times_the_best(noisy)[names] < 1.2


@pytest.mark.study
def test_of_a_motion_that_knows_no_step_all_estimates_together_are_no_worse_than_with_the_best_weight() -> None:
    # The step of 0.01 s biases all fits, inertias and friction each least with another weight.
    assert times_the_best(None, step=2.5e-4)[tuple(FURUTA)] < 1.2


@pytest.mark.parametrize("start", [-2, 12])
def test_any_start_leads_to_the_same_weight(chosen: Solution, start: int) -> None:
    found = solve_weighted(problem(), "lm", {}, None, None, start)
    assert found.state_weight == chosen.state_weight
    assert found["J"].estimate == pytest.approx(chosen["J"].estimate, rel=1e-5)


RELEASES = Path(__file__).parents[1] / "problems" / "pendulum_free_swing.py"
USUAL = [
    ("02_dry", Spook(), -2),
    ("01_viscous", Spook(), 12),
    ("01_stribeck", Spook(), 4),
    ("03_dry", Variational(), -2),
]
EVERY = itertools.product(
    [f"{i}_{friction}" for i in ("01", "02", "03") for friction in ("viscous", "dry", "stribeck")],
    [Spook(), Variational()],
    [-2, 4, 12],
)


@pytest.mark.skipif(not os.environ.get("SPOOKID_DATA"), reason="needs the measured data: set SPOOKID_DATA")
@pytest.mark.parametrize(
    ("name", "stepper", "start"),
    [*USUAL, *(pytest.param(*case, marks=pytest.mark.study) for case in EVERY if case not in USUAL)],
)
def test_a_measured_pendulum_gets_its_frequency_and_a_replay_from_any_start(
    name: str, stepper: Spook | Variational, start: int
) -> None:
    release = load_problem(f"{RELEASES}::{name}").with_(stepper=stepper)
    dry = load_problem(f"{RELEASES}::{name[:2]}_dry").with_(stepper=stepper)

    def replay(solution: Solution) -> float:
        theta = release.simulate(solution).signals["theta"]
        return float(np.nanmean((theta - np.unwrap(solution.trajectories[0].observed[:, 0])) ** 2))

    def frequency(solution: Solution) -> float:
        mass, length = 0.01225, 0.062
        return mass * 9.81 * length / (solution["J"].estimate + mass * length**2)

    found = solve_weighted(release, "lm", {}, None, None, start)
    assert frequency(found) == pytest.approx(frequency(dry.solve(state_weight=1e11)), rel=5e-3)
    assert replay(found) < 2 * min(replay(release.solve(state_weight=10.0**k)) for k in (9, 10, 11, 12))


# --- the criterion ---


def test_windows_last_two_mean_periods() -> None:
    t = np.arange(1000) * 0.01
    sine = problem().with_(recordings=[Recording(t, {"hinge": 0.1 * np.sin(2 * np.pi * t / 0.8)})])
    assert mean_period(windows(sine).evidence) == pytest.approx(0.8, rel=0.02)
    assert windows(sine).seconds == pytest.approx(1.6, rel=0.02)
    still = sine.with_(recordings=[Recording(t, {"hinge": np.zeros(1000)})])
    assert windows(still).seconds == pytest.approx(10.0)


def test_the_error_is_the_noise_where_the_estimates_are_right(chosen: Solution) -> None:
    assert windows(problem()).error(chosen) == pytest.approx(NOISE, rel=0.15)
    assert windows(problem(), most=1).error(chosen) == pytest.approx(NOISE, rel=0.3)


def test_a_replay_is_a_simulation_of_each_whole_recording(chosen: Solution) -> None:
    theta = problem().simulate(chosen).signals["hinge"]
    missed = theta - chosen.trajectories[0].observed[:, 0]
    assert windows(problem()).whole.error(chosen) == pytest.approx(math.sqrt(np.mean(missed**2)), rel=1e-9)


def test_a_mechanism_that_cannot_be_simulated_has_an_infinite_error(chosen: Solution) -> None:
    judge = windows(problem())
    first = replace(chosen.trajectories[0], v=np.full_like(chosen.trajectories[0].v, np.nan))
    assert judge.error(replace(chosen, trajectories=(first,))) == math.inf


def test_the_score_counts_octaves_of_the_horizon(chosen: Solution) -> None:
    judge = windows(problem(), periods=LONG)
    assert judge.seconds == pytest.approx(2.0, abs=0.05)  # all of the recording
    assert judge.score(chosen) == pytest.approx(NOISE, rel=0.2)
    small = problem().solve(state_weight=1.0)
    assert judge.score(small) < 0.8 * judge.error(small)  # a prediction goes wrong with time


# --- where it is used ---


def test_problems_take_auto_and_nothing_else_that_is_no_number() -> None:
    auto = problem(state_weight="auto")
    assert auto.state_weight == "auto"
    assert auto.weight == 100.0
    assert len(auto.simulate(duration=0.5, initial={"hinge": 1.0}).t) == 51
    with pytest.raises(ProblemError, match=r"state_weight is 'automatic'; it must be a positive number or \"auto\""):
        problem(state_weight="automatic")
    with pytest.raises(ProblemError, match="needs recordings and observations to be solved"):
        auto.with_(recordings=[]).solve()


def test_a_warm_start_needs_fewer_iterations_and_must_fit(chosen: Solution) -> None:
    weighted = problem().with_(state_weight=chosen.state_weight)
    again = weighted.solve(warm_start=chosen)
    assert again.iterations < weighted.solve().iterations
    assert again.cost.total == pytest.approx(chosen.cost.total, rel=1e-6)
    with pytest.raises(ProblemError, match="warm_start has no states of recording"):
        weighted.solve(warm_start=chosen, step=0.02)
    with pytest.raises(ProblemError, match="warm_start has 1 recordings and this problem 2"):
        weighted.solve(warm_start=chosen, recordings=[*weighted.recordings] * 2)


def test_an_interrupt_ends_the_search_with_the_iterate_there_is() -> None:
    def interrupt(iteration: Any) -> None:
        if iteration.iteration == 2:
            raise KeyboardInterrupt

    found = problem().solve(state_weight="auto", callback=interrupt)
    assert found.status is Status.INTERRUPTED
    assert found.state_weight_choice is None


def searching(start: int, when: Callable[[float, Solution | None, int], Status | None]) -> tuple[_Search, bool]:
    """A search whose fits end as ``when`` says of weight, warm start and number, and if it was interrupted."""
    fits = 0

    def fit(weighted: Problem, before: Solution | None) -> Solution:
        nonlocal fits
        fits += 1
        status = when(weighted.weight, before, fits)
        return weighted.solve(warm_start=before) if status is None else replace(weighted.solve(), status=status)

    search = _Search(problem(), fit, windows_of(problem()), None)
    return search, search.run(start)


def test_an_interrupt_while_the_choice_is_confirmed_keeps_the_best_fit(chosen: Solution) -> None:
    search, stopped = searching(4, lambda _, before, n: Status.INTERRUPTED if before is None and n > 1 else None)
    assert stopped
    found = search.answer()
    assert found.status is Status.INTERRUPTED
    assert found.state_weight == chosen.state_weight
    assert found.iterations > 0
    assert found["J"].estimate == pytest.approx(chosen["J"].estimate, rel=1e-5)
    assert found.state_weight_choice == search.choice


def test_a_first_fit_that_fails_is_fitted_anew_from_its_neighbour(chosen: Solution) -> None:
    search, _ = searching(4, lambda weight, before, _: Status.STALLED if weight == 1e4 and before is None else None)
    assert search.trials[4].tells
    assert search.answer().state_weight == chosen.state_weight


def test_a_better_minimum_from_the_guess_is_sought_for_all_and_the_search_goes_on(chosen: Solution) -> None:
    def worse(weighted: Problem, before: Solution | None) -> Solution:
        found = weighted.solve(warm_start=before)
        return found if before is None else replace(found, cost=replace(found.cost, observation=1e3))

    search = _Search(problem(), worse, windows_of(problem()), None)
    search.run(4)
    assert search.guessed >= set(search.solutions) - {0}
    assert search.answer().cost.total < 100
    assert search.answer().state_weight == chosen.state_weight


def test_it_is_written_and_read_back(chosen: Solution, tmp_path: Path) -> None:
    chosen.save(tmp_path / "out")
    tree = json.loads((tmp_path / "out" / "solution.json").read_text())
    assert tree["state_weight"] == chosen.state_weight
    found = chosen.state_weight_choice
    assert found is not None
    assert tree["state_weight_choice"]["criterion"] == found.criterion
    assert set(tree["state_weight_choice"]["curve"][0]) == {
        "weight",
        "error",
        "replay",
        "state_share",
        "estimates",
        "standard_errors",
        "step_errors",
        "agreement",
        "status",
    }
    assert (tmp_path / "out" / "state_weight.png").read_bytes().startswith(b"\x89PNG")
    assert difference(load(tmp_path / "out"), chosen) == ""
    assert f"Chosen by {found.criterion}: " in chosen.summary()
    assert sum(line.endswith("chosen") for line in chosen.summary().splitlines()) == 1


def test_the_figure_shows_what_is_known() -> None:
    known = choice(3.0, 1.0, math.inf, 1.2, 1.3, 0.9, 0.8, statuses={3: Status.STALLED}, share=0.0)
    figure = weight_plot.figure(known, "a $problem")
    upper, _, lower = figure.axes
    labels = [text.get_text() for text in upper.get_legend().get_texts()]
    marks = ["fit converged", "fit not converged", "left out"]
    assert labels == [*marks, "whole recordings", "chosen, 10", "within 6 % of the least"]
    assert lower.get_ylim() == (0.0, 1.0)


FILE = '''"""A pendulum."""
from pathlib import Path
from spookid import GROUND, Body, Hinge, HingeAngle, Model, Parameter, Problem, Recording, Variational, gravity

J, b = Parameter("J", 0.004, lower=1e-6, unit="kg m^2"), Parameter("b", 1e-3, lower=0)
rod = Body("rod", mass=0.5, inertia=(1e-4, J, J))
up, out = GROUND.frame(x=(0, 1, 0), y=(0, 0, -1)), rod.frame(at=(-0.2, 0, 0), x=(0, 1, 0), y=(1, 0, 0))
hinge = Hinge("hinge", up, out, viscous=b)
model = Model([rod], [hinge], gravity=gravity(9.81))
run = Recording.from_csv(Path(__file__).parent / "run.csv")
problem = Problem("swing", model, [run], [HingeAngle(hinge, signal="hinge")], stepper=Variational())
'''


def test_the_command_line_takes_auto_and_doubts_a_weight(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("spookid.pictures.DPI", 20)
    problem().recordings[0].to_csv(tmp_path / "run.csv")
    Path("swing.py").write_text(FILE)
    assert main(["solve", "swing.py", "--state-weight", "auto", "--out", "auto"]) == 0
    assert "Chosen by " in capsys.readouterr().out
    assert Path("auto/state_weight.png").exists()
    assert main(["check", "swing.py", "--state-weight", "auto"]) == 0
    assert "state weight κ = auto" in " ".join(capsys.readouterr().out.split())  # lines break where the path ends
    assert main(["solve", "swing.py", "--state-weight", "0.01", "--out", "small"]) == 0
    assert "The state weight 0.01 is far too small" in capsys.readouterr().out
    assert not Path("small/state_weight.png").exists()
    assert json.loads(Path("small/solution.json").read_text())["state_weight_choice"] is None
    with pytest.raises(SystemExit):
        main(["solve", "swing.py", "--state-weight", "some"])
    assert "'some' is neither a number nor auto" in capsys.readouterr().err
