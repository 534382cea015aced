"""Profiles: intervals by refitting, against parabolas and linearization, in folders and on the command line."""

from __future__ import annotations

import json
import math
import signal
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mechanisms import pendulum, twin
from scipy.optimize import brentq

from spookid import Parameter, Problem, ProblemError, Solution, Status, Variational
from spookid.__main__ import main
from spookid.assembly.loading import load_problem
from spookid.estimation.solving import solve
from spookid.studies import profile_study as profile_folder
from spookid.studies import profiling
from spookid.studies.job import Source
from spookid.studies.profile_study import table
from spookid.studies.profiling import Profile, ProfilePoint, interval_words
from spookid.studies.worker_pool import WorkerPool
from spookid.tables.table import HALF_WIDTH

TRUTH = {"J": 0.005, "b": 2e-3}


def problem(truth: Mapping[str, float] = TRUTH, **changes: Any) -> Problem:
    """A swing of a pendulum with noise."""
    J = Parameter("J", 0.004, lower=1e-6, unit="kg m^2")
    b = Parameter("b", 1e-3, lower=0, unit="N m s")
    model = pendulum(inertia=J, viscous=b)
    settings = {"state_weight": 1e4, "stepper": Variational(), **changes}
    return twin(model, truth, initial={"hinge": 1.0}, duration=1.0, noise=0.01, **settings)


@pytest.fixture(scope="module")
def solution() -> Solution:
    return problem().solve()


@pytest.fixture(scope="module")
def J(solution: Solution) -> Profile:
    return problem().profile("J", solution)


def of(zetas: dict[float, float], lower: float = -math.inf, upper: float = math.inf, std_err: float = 1.0) -> Profile:
    """A profile about 0 with these ζ at these values."""
    points = (ProfilePoint(x, z * z + 1, z, Status.CONVERGED, {}) for x, z in sorted({**zetas, 0.0: 0.0}.items()))
    return Profile("swing", "b", "N m", 0.0, std_err, lower, upper, tuple(points))


# --- intervals by hand ---


def test_a_straight_line_gives_the_linear_interval() -> None:
    found = of({x: x for x in (-3.0, -1.5, -0.5, 0.7, 1.4, 2.6)})
    assert found.interval == pytest.approx((-HALF_WIDTH, HALF_WIDTH))
    assert found.interval == pytest.approx(found.linear)
    assert found.verdict.startswith("The linearized interval is accurate")


def test_a_bent_line_gives_another() -> None:
    found = of({-2.0: -4.0, -1.0: -2.0, 1.0: 1.0, 3.0: 3.0})
    assert found.interval == pytest.approx((-HALF_WIDTH / 2, HALF_WIDTH))
    assert "0.75 times as wide" in found.verdict
    shifted = of({-2.0: -2.5, -1.0: -1.25, 1.0: 0.83, 3.0: 2.5})
    assert "as wide as the linearized interval, but not centred" in shifted.verdict


def test_an_interval_has_as_many_digits_as_show_its_width() -> None:
    assert interval_words((1.2, 3.4)) == "[1.2, 3.4]"
    assert interval_words((1.3499999e-4, 1.3500001e-4)) == "[0.00013499999, 0.00013500001]"


def test_an_end_that_is_not_reached_is_the_bound_or_infinite() -> None:
    assert of({-1.0: -1.0, 3.0: 3.0}, lower=-1.0).interval == pytest.approx((-1.0, HALF_WIDTH))
    found = of({-1.0: -1.0, 3.0: 3.0})
    assert found.interval == pytest.approx((-math.inf, HALF_WIDTH))
    assert found.verdict == "The data give no bound on b below."
    assert of({-1.0: -0.1, 1.0: 0.1}).verdict == "The data give no bound on b below or above."
    known = of({-3.0: -3.0, 3.0: 3.0}, std_err=math.nan)
    assert known.verdict == "The data give bounds on parameter b, although it has no standard error."
    assert interval_words(known.linear) == "-"


def test_a_cheaper_fit_beside_the_estimate_and_a_failed_one_are_told() -> None:
    found = of({-3.0: -3.0, 3.0: 3.0})
    cheap = replace(found.points[0], cost=0.5, zeta=0.0)
    assert "the estimate is not at the minimum" in replace(found, points=(cheap, *found.points[1:])).verdict
    stalled = replace(found.points[0], status=Status.STALLED)
    assert replace(found, points=(stalled, *found.points[1:])).verdict == "No verdict: a fit did not converge."


# --- refitted ---


@pytest.mark.study
def test_the_ends_are_where_the_refitted_cost_rises_by_the_critical_value(J: Profile, solution: Solution) -> None:
    factor = solution.sensitivities.factor
    noise = solution["J"].std_err ** 2 / np.linalg.inv(factor.T @ factor)[0, 0]

    def rise(value: float) -> float:
        fit = problem().solve(fixed=["J"], initial={"J": value})
        return (fit.cost.total - solution.cost.total) / noise - HALF_WIDTH**2

    low, high = J.interval
    assert brentq(rise, J.estimate, 2 * high - J.estimate, rtol=1e-4) == pytest.approx(high, abs=0.02 * (high - low))
    assert rise(low) == pytest.approx(0.0, abs=0.3)


@pytest.mark.study
def test_without_a_weight_the_profile_is_that_of_the_likelihood() -> None:
    swing = problem(state_weight=None)
    noisy = swing.simulate(TRUTH, 2.0, {"hinge": 1.0}, noise={"hinge": 2e-3}, seed=1, substeps=1)
    random = np.random.default_rng(2).normal(size=len(noisy.t))
    swing = swing.with_(recordings=[noisy.with_signals(hinge=noisy.signal("hinge") + 2e-3 * random)])
    found = swing.solve()
    b = swing.profile("b", found)
    assert b.likely
    assert b.converged
    for point in b.points[::3]:
        refitted = swing.solve(fixed=["b"], initial={"b": point.value}, warm_start=found)
        assert point.log_likelihood == pytest.approx(refitted.log_likelihood, abs=2e-3)
        assert point.zeta**2 == pytest.approx(2 * (found.log_likelihood - point.log_likelihood), abs=1e-9)
    assert b.interval == pytest.approx(b.linear, rel=0.1)
    assert b.interval[0] < TRUTH["b"] < b.interval[1]
    better = replace(b.points[0], log_likelihood=found.log_likelihood + 0.1)
    assert "the estimate is not at the maximum" in replace(b, points=(better, *b.points[1:])).verdict


def test_estimated_noise_without_a_likelihood_has_no_profile(solution: Solution) -> None:
    blind = replace(solution, dynamics="estimated", log_likelihood=math.nan)
    with pytest.raises(ProblemError, match="a profile needs the likelihood"):
        problem().profile("J", blind)


def test_the_profile_of_a_nearly_linear_parameter_is_straight(J: Profile, solution: Solution) -> None:
    assert J.estimate == solution["J"].estimate
    assert J.interval == pytest.approx(J.linear, rel=0.02)
    assert [p.zeta for p in J.points] == sorted(p.zeta for p in J.points)
    assert min(p.zeta for p in J.points) < -2.4
    assert max(p.zeta for p in J.points) > 2.4
    assert all(set(p.others) == {"b"} for p in J.points)
    assert J.converged


def test_noise_that_is_not_what_the_weights_say_is_no_curvature() -> None:
    twin = problem(state_weight=100.0)
    solution = twin.solve()
    pooled = solution.cost.total / (solution.size.residuals - solution.size.states - solution.size.parameters)
    assert not 0.8 < pooled / solution.sensitivities.dispersion[0] < 1.25
    found = twin.profile("J", solution)
    assert found.interval == pytest.approx(found.linear, rel=0.02)


def test_a_parameter_at_its_bound_has_one_side() -> None:
    found = problem({"J": 0.005, "b": -3e-3}).profile("b")
    assert math.isnan(found.std_err)
    assert (found.estimate, found.interval[0]) == (0, 0)
    assert 0 < found.interval[1] < 1e-2
    assert min(point.value for point in found.points) == 0
    assert found.verdict == "The data give bounds on parameter b, although it has no standard error."


def test_only_free_parameters_have_a_profile() -> None:
    with pytest.raises(ProblemError, match="parameter 'c' is unknown; its free parameters are J, b"):
        problem().profile("c")
    with pytest.raises(ProblemError, match="parameter 'b' is fixed; its free parameters are J"):
        problem().profile("b", fixed=["b"])


# --- folder and command ---


def test_the_folder_holds_what_the_profile_says(J: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spookid.report.pictures.DPI", 20)
    profile_folder.answer([J], "swing").save(tmp_path / "out", "profile.json")
    tree = json.loads((tmp_path / "out" / "profile.json").read_text())
    entry = tree["parameters"]["J"]
    assert (tree["schema"], tree["problem"], entry["interval"]) == (2, "twin", list(J.interval))
    assert [point["zeta"] for point in entry["points"]] == [point.zeta for point in J.points]
    assert (tmp_path / "out" / "profile.txt").read_text() == table([J]) + "\n"
    open_ended = of({-1.0: -0.1, 1.0: 0.1}, std_err=math.nan)
    profile_folder.answer([open_ended], "swing").save(tmp_path / "out", "profile.json")
    entry = json.loads((tmp_path / "out" / "profile.json").read_text())["parameters"]["b"]
    assert (entry["interval"], entry["linear"]) == ([None, None], [None, None])


def test_the_figure_has_a_panel_for_each(J: Profile) -> None:
    figure = profile_folder.figure([J, of({-3.0: -3.0, 3.0: 3.0}), J, J])
    shown = [axes for axes in figure.axes if axes.axison]
    assert [axes.get_xlabel() for axes in shown] == ["J [kg m²]", "b [N m]", "J [kg m²]", "J [kg m²]"]


FILE = '''"""A pendulum."""
from pathlib import Path
from spookid import GROUND, Body, Hinge, HingeAngle, Model, Parameter, Problem, Recording, Variational, gravity

J, b = Parameter("J", 0.004, lower=1e-6, unit="kg m^2"), Parameter("b", 1e-3, lower=0)
rod = Body("rod", mass=0.5, inertia=(1e-4, J, J))
up, out = GROUND.frame(x=(0, 1, 0), y=(0, 0, -1)), rod.frame(at=(-0.2, 0, 0), x=(0, 1, 0), y=(1, 0, 0))
hinge = Hinge("hinge", up, out, viscous=b)
model, run = Model([rod], [hinge], gravity=gravity(9.81)), Recording.from_csv(Path(__file__).parent / "run.csv")
problem = Problem("swing", model, [run], [HingeAngle(hinge, signal="hinge")], state_weight=1e4, stepper=Variational())
'''


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a problem and its recording."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("spookid.report.pictures.DPI", 20)
    problem().recordings[0].to_csv(tmp_path / "run.csv")
    Path("swing.py").write_text(FILE)
    return tmp_path


def test_the_command_writes_the_folder_and_prints_the_table(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", "swing.py", "--parameter", "J", "--fix", "b", "--out", "out"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out == Path("out/profile.txt").read_text() + "\nWritten to out\n"
    assert {path.name for path in Path("out").iterdir()} == {"profile.json", "profile.txt", "profile.png"}
    assert main(["profile", "swing.py", "--parameter", "J", "--fix", "b", "--out", "out", "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")


def test_wrong_input_and_fits_that_do_not_converge(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", "swing.py", "--parameter", "c", "--out", "out"]) == 2
    assert "--parameter c: swing has no free parameter 'c'; it has J, b" in capsys.readouterr().err
    assert main(["profile", "swing.py", "--parameter", "J", "--max-iterations", "0", "--out", "out"]) == 3
    assert "not every fit of the profile of J converged" in capsys.readouterr().err


def test_what_was_fitted_before_an_interrupt_is_kept_and_the_same_command_goes_on(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the same digits, and without another fit of what was fitted."""
    fits = []

    def interrupted(problem: Problem, backend: str, options: Any, callback: Any, *near: Any) -> Solution:
        fits.append(problem)

        def interrupt(iteration: Any) -> None:
            callback(iteration)
            if len(fits) == 3 and not Path("out").exists():
                signal.raise_signal(signal.SIGINT)

        return solve(problem, backend, options, interrupt, *near)

    monkeypatch.setattr("spookid.cli.runner.solve", interrupted)
    assert main(["profile", "swing.py", "--parameter", "J", "--out", "out"]) == 130
    assert "interrupted before swing was done; 2 of its fits are saved" in capsys.readouterr().err
    assert not Path("out").exists()
    assert main(["profile", "swing.py", "--parameter", "J", "--out", "out"]) == 0
    resumed, fits[:] = len(fits) - 3, []
    assert main(["profile", "swing.py", "--parameter", "J", "--out", "whole"]) == 0
    assert len(fits) == resumed + 2
    assert Path("out/profile.json").read_bytes() == Path("whole/profile.json").read_bytes()
    assert sorted(path.name for path in here.iterdir() if "fits" in path.name) == []


def test_workers_walk_both_sides_to_the_same_digits(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And what they have fitted is not fitted again."""
    plan = Source(load_problem("swing.py"), str(here / "swing.py"))
    posed, backend, options = plan.variant.posed(plan.problem)
    found = solve(posed, backend, options)
    alone = profiling.profile(posed, "J", None, found)
    with ThreadPoolExecutor(2) as threads:
        pool = WorkerPool(executor=threads)
        assert profile_folder.shared(plan, posed, ["J"], found, pool, here / "kept")[0].points == alone.points
        monkeypatch.setattr(profile_folder, "solve", None)
        assert profile_folder.shared(plan, posed, ["J"], found, pool, here / "kept")[0].points == alone.points
