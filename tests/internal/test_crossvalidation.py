"""Cross-validation and agreement: statistics by hand and by simulation, models side by side, folder and command."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mechanisms import pendulum, twin
from scipy import stats
from solutions import solution as solved

from spookid import Parameter, Problem, ProblemError, Recording, Solution, Spook, Status, Variational, load_problem
from spookid.__main__ import main
from spookid.studies import crossvalidation_study as crossvalidation_folder
from spookid.studies.agreement import ParameterAgreement, _jointly, agreement
from spookid.studies.agreement import Test as ChiSquare
from spookid.studies.crossvalidation import CrossValidation, comparison, verdict
from spookid.studies.crossvalidation_study import cases, same_recordings
from spookid.tables.table import as_text

TRUTH = {"J": 0.005, "b": 2e-3, "c": 0.02}
J = Parameter("J", 0.004, lower=1e-6, unit="kg m^2")
b = Parameter("b", 1e-3, lower=0, unit="N m s")
c = Parameter("c", 1e-3, lower=0, unit="N m")
MODELS = {"viscous": {"viscous": b}, "dry": {"viscous": b, "coulomb": c}}


def swings(**truth: float) -> list[Recording]:
    """Three swings of a pendulum with dry friction, from different angles."""
    runs = []
    for i, angle in enumerate((1.0, 1.4, 1.8)):
        made = twin(
            pendulum(inertia=J, **MODELS["dry"]),
            {**TRUTH, **truth},
            initial={"hinge": angle},
            duration=1.5,
            noise=2e-3,
            seed=i,
            stepper=Variational(),
        )
        runs.append(replace(made.recordings[0], name=f"swing {i}"))
    return runs


RUNS = swings()


def problem(friction: str, runs: Sequence[Recording] = RUNS) -> Problem:
    """One model on the swings."""
    model = pendulum(inertia=J, **MODELS[friction])
    made = twin(model, {}, initial={"hinge": 1.0}, duration=0.1, stepper=Variational(), state_weight=1e5)
    return made.with_(name=friction, recordings=runs)


@pytest.fixture(scope="module")
def results() -> dict[str, CrossValidation]:
    return {name: problem(name).crossvalidate() for name in MODELS}


# --- agreement ---


def with_estimates(values: Sequence[float], errors: Sequence[float], correlation: float = 0.0) -> Solution:
    """A solution whose J and b are these."""
    s = solved()
    names = s.sensitivities.names
    covariance = np.full((len(names), len(names)), np.nan)
    place = [names.index("J"), names.index("b")]
    mixed = correlation * errors[0] * errors[1]
    covariance[np.ix_(place, place)] = [[errors[0] ** 2, mixed], [mixed, errors[1] ** 2]]
    changed = {n: replace(s[n], estimate=v, std_err=e) for n, v, e in zip(("J", "b"), values, errors, strict=True)}
    hidden = {"J_x": replace(s["J_x"], std_err=math.nan)}
    parameters = {**s.parameters, **changed, **hidden}
    known = replace(s.sensitivities, covariance=covariance, covariance_sandwich=covariance)
    long = [replace(trajectory, t=np.arange(200.0)) for trajectory in s.trajectories]
    return replace(s, parameters=parameters, sensitivities=known, trajectories=tuple(long))


def test_two_estimates_are_compared_as_by_hand() -> None:
    found = agreement([with_estimates((1.0, 5.0), (0.3, 1.0)), with_estimates((2.0, 5.0), (0.4, 1.0))])
    first, second = found.parameters[:2]
    assert (first.name, second.name) == ("J", "b")
    assert first.test.statistic == pytest.approx(1.0 / (0.3**2 + 0.4**2))
    assert (first.test.freedom, first.test.sigma) == (1, pytest.approx(2.0))
    assert (second.test.statistic, second.test.sigma) == (pytest.approx(0.0), pytest.approx(0.0, abs=1e-6))
    assert found.joint.freedom == 2
    assert found.joint.statistic == pytest.approx(4.0)
    assert found.verdict == "These 2 recordings agree on J (2.0 sigma), b (0.0 sigma); jointly 1.5 sigma."


def test_correlation_counts_jointly() -> None:
    pair = [with_estimates((1.0, 1.0), (1.0, 1.0), 0.99), with_estimates((3.0, -1.0), (1.0, 1.0), 0.99)]
    found = agreement(pair)
    assert [p.test.agree for p in found.parameters[:2]] == [True, True]
    assert found.joint.statistic == pytest.approx(400.0)
    assert "agree on each parameter by itself, but not on all of them; jointly" in found.verdict


def test_what_does_not_agree_is_named_with_its_sigma() -> None:
    found = agreement([with_estimates((1.0, 5.0), (0.1, 1.0)), with_estimates((1.0 + 0.5798, 5.0), (0.1, 1.0))])
    assert "do not agree on J: 4.1 sigma" in found.verdict
    far = agreement([with_estimates((1.0, 5.0), (1e-3, 1.0)), with_estimates((2.0, 5.0), (1e-3, 1.0))])
    assert far.parameters[0].test.sigma == pytest.approx(1000 / math.sqrt(2), rel=1e-3)


@pytest.mark.parametrize(("times", "jackknife"), [(2.9, False), (3.1, True), (0.3, True), (30.0, True)])
def test_the_errors_are_those_of_the_jackknife_where_the_noise_is_not_white(times: float, jackknife: bool) -> None:
    pair = [with_estimates((1.0, 5.0), (0.1, 1.0)), with_estimates((1.5798, 5.0), (0.1, 1.0))]
    wide = [
        replace(s, sensitivities=replace(s.sensitivities, covariance=times**2 * s.sensitivities.covariance))
        for s in pair
    ]
    found = agreement(wide)
    assert found.ratio == pytest.approx(times)
    short = [replace(s, trajectories=tuple(replace(t, t=t.t[:199]) for t in s.trajectories)) for s in wide]
    assert agreement(short).standard is None
    assert (found.standard is not None) == jackknife
    assert found.parameters[0].std_errs[0] == pytest.approx(0.1 if jackknife else 0.1 * times)
    assert ("do not agree on J: 3.9 sigma" in found.verdict) == jackknife  # 4.1 if twenty stretches told it exactly
    assert found.standard is None or found.standard.parameters[0].std_errs[0] == pytest.approx(0.1 * times)


@pytest.mark.study
@pytest.mark.skipif(not os.environ.get("SPOOKID_DATA"), reason="needs the measured data: set SPOOKID_DATA")
def test_measured_releases_disagree_on_viscous_friction_and_agree_on_dry() -> None:
    file = Path(__file__).parents[2] / "problems" / "pendulum_free_swing.py"
    # With a weight as large as this the estimates are those of a deterministic motion, and sharp.
    weighted = {"state_weight": 1e10, "stepper": Spook(), "every": 1}
    found = {
        friction: agreement([load_problem(f"{file}::{i}_{friction}").solve(**weighted) for i in ("01", "02", "03")])
        for friction in ("viscous", "dry")
    }
    assert "do not agree on b" in found["viscous"].verdict
    assert all(p.test.agree for p in found["dry"].parameters)
    J = found["dry"].parameters[0]
    assert J.spread < 0.005
    usual = found["dry"].standard
    assert usual is not None
    assert min(usual.parameters[0].std_errs) > 5 * max(J.std_errs)  # these never disagree


@pytest.mark.parametrize("count", [1, 3, 8])
def test_scatter_of_twenty_stretches_is_no_exact_covariance(count: int) -> None:
    rng, stretches = np.random.default_rng(count), 20
    sigmas = []
    for _ in range(400):
        values = rng.normal(size=(3, stretches, count))
        covariances = [np.cov(v.T).reshape(count, count) / stretches for v in values]
        pairs = [
            ParameterAgreement(
                f"p{i}",
                "",
                tuple(values[:, :, i].mean(axis=1).tolist()),
                tuple(math.sqrt(c[i, i]) for c in covariances),
                ChiSquare(math.nan, 0, math.nan),
            )
            for i in range(count)
        ]
        sigmas.append(_jointly(pairs, range(count), covariances, stretches - 1).sigma)
    assert np.mean(np.array(sigmas) > 1.96) < 0.08
    assert np.mean(np.array(sigmas) > 3.0) <= 0.01
    assert math.isnan(_jointly(pairs * 18, [0] * 18, covariances, stretches - 1).sigma)  # too many to be told


def test_one_recording_without_a_jackknife_leaves_standard_errors() -> None:
    pair = [with_estimates((value, 5.0), (0.1, 1.0)) for value in (1.0, 1.5)]
    narrow, unknown = (
        replace(s, sensitivities=replace(s.sensitivities, covariance_sandwich=factor * s.sensitivities.covariance))
        for s, factor in zip(pair, (0.01, math.nan), strict=True)
    )
    found = agreement([narrow, unknown])
    assert found.standard is None
    assert found.parameters[0].std_errs == pytest.approx((0.1, 0.1))


def test_without_errors_nothing_is_said() -> None:
    found = agreement([with_estimates((1.0, 5.0), (math.nan, math.nan))] * 2)
    assert "cannot be compared" in found.verdict
    assert math.isnan(found.joint.sigma)


def test_the_statistic_is_chi_square_if_the_errors_are_right() -> None:
    rng, errors = np.random.default_rng(0), (0.3, 2.0)
    sigmas = []
    for _ in range(200):
        drawn = [with_estimates(tuple(rng.normal((1.0, 5.0), errors)), errors) for _ in range(3)]
        sigmas.append(agreement(drawn).joint.sigma)
    probabilities = 2 * stats.norm.sf(sigmas)
    assert stats.kstest(probabilities, "uniform").pvalue > 0.01


# --- models ---


def test_the_model_that_made_the_data_is_best_and_its_recordings_agree(results: dict[str, CrossValidation]) -> None:
    text = verdict(list(results.values()))
    assert text.startswith("By cross-validation model dry is best")
    assert "worse in 6 of 6 pairs of recordings" in text
    assert results["dry"].score < results["viscous"].score / 2
    assert results["dry"].agreement.parameters[0].test.agree
    assert "do not agree on b" in results["viscous"].agreement.verdict


def test_scores_are_what_state_estimation_with_fixed_parameters_costs(results: dict[str, CrossValidation]) -> None:
    dry = results["dry"]
    assert len(dry.scores) == 9
    fit = problem("dry", RUNS[:1]).solve()
    steps = len(fit.trajectories[0].t)
    assert dry.own("swing 0").cost == pytest.approx(fit.cost.total / steps, rel=1e-6)
    held = problem("dry", RUNS[1:2]).with_(initial=fit.values, fixed=list(TRUTH)).solve()
    other = next(score for score in dry.others("swing 0") if score.on == "swing 1")
    assert other.cost == pytest.approx(held.cost.total / steps, rel=1e-4)
    assert dry.score == pytest.approx(np.mean([score.cost for score in dry.held_out]))
    assert "fitted to" in str(dry)


def test_no_verdict_where_there_is_none(results: dict[str, CrossValidation]) -> None:
    dry, viscous = results["dry"], results["viscous"]
    assert verdict([dry]).startswith("On recordings that were not fitted, the cost of dry is ")
    assert "differ in `state_weight`" in verdict([replace(dry, state_weight=1.0), viscous])
    failed = replace(dry, scores=(replace(dry.scores[0], status=Status.STALLED), *dry.scores[1:]))
    assert verdict([failed]) == "No verdict on dry: 1 of 9 fits did not converge."
    assert verdict([failed, viscous]) == f"{verdict([viscous])} {verdict([failed])}"


@pytest.mark.study
def test_without_a_weight_models_are_ordered_by_akaikes_criterion() -> None:
    viscous, dry = (problem(name, RUNS[:2]).with_(state_weight=None).crossvalidate() for name in MODELS)
    assert (viscous.count, dry.count) == (4, 5)  # with the sizes of one disturbance and one sensor
    together = problem("dry", RUNS[:2]).solve(state_weight=None)
    assert dry.log_likelihood == pytest.approx(together.log_likelihood, abs=1e-6)
    assert dry.aic == 10 - 2 * dry.log_likelihood
    assert math.isnan(dry.state_weight)
    alone = problem("dry", RUNS[:1]).solve(state_weight=None)
    assert dry.own("swing 0").cost == pytest.approx(-2 * alone.log_likelihood)
    assert all(score.cost >= dry.own(score.on).cost - 1e-3 for score in dry.held_out)
    text = verdict([viscous, dry])
    assert text.startswith(f"By Akaike's criterion model dry is best (AIC {dry.aic:.1f}); viscous is ")
    assert "worse in 2 of 2 pairs of recordings" in text
    assert verdict([dry]).startswith("On recordings that were not fitted, −2 log L of model dry is ")
    assert "differ in `state_weight`" in verdict([dry, replace(viscous, dynamics="weight", state_weight=1.0)])
    stalled = replace(dry, together=Status.STALLED)
    assert verdict([stalled]) == "No verdict on dry: 1 of 5 fits did not converge."
    unknown = replace(dry, log_likelihood=math.nan)
    assert verdict([unknown]).startswith("No verdict on dry: its likelihood is not known")
    assert "k: parameters and noise standard deviations" in as_text(comparison([viscous, unknown]))
    crossvalidation_folder.figure([[viscous, dry]]).draw_without_rendering()


def test_several_recordings_of_different_names_are_needed() -> None:
    with pytest.raises(ProblemError, match="has 1 recording; cross-validation needs two or more"):
        problem("dry", RUNS[:1]).crossvalidate()
    with pytest.raises(ProblemError, match="has several recordings named 'swing 0'"):
        problem("dry", [RUNS[0], RUNS[0]]).crossvalidate()


# --- cases ---


def test_problems_that_differ_only_in_recordings_are_one_model() -> None:
    single = {f"{i}_{name}": problem(name, [run]) for i, run in enumerate(RUNS) for name in MODELS}
    found = cases(single)
    assert [case.name for case in found] == ["viscous", "dry"]
    assert [[r.name for r in case.problem.recordings] for case in found] == [["swing 0", "swing 1", "swing 2"]] * 2
    assert same_recordings(found[0].problem, found[1].problem)
    stiff = {"a": problem("dry"), "b": problem("dry").with_(state_weight=1.0)}
    assert [case.name for case in cases(stiff)] == ["a", "b"]
    assert [case.name for case in cases({"a": problem("dry"), "b": problem("dry").with_(friction="exact")})] == [
        "a",
        "b",
    ]


def test_equal_recordings_count_once_and_names_are_told_apart() -> None:
    other = replace(RUNS[1], name="swing 0")
    (found,) = cases({"x": problem("dry", RUNS[:1]), "y": problem("dry", [RUNS[0], other])})
    assert found.name == "x, y"
    assert [r.name for r in found.problem.recordings] == ["swing 0", "swing 0 (2)"]


# --- folder and command ---

FILE = '''"""Two models of a pendulum on three swings."""
from pathlib import Path
from spookid import GROUND, Body, Hinge, HingeAngle, Model, Parameter, Problem, Recording, Variational, gravity

J, b = Parameter("J", 0.004, lower=1e-6, unit="kg m^2"), Parameter("b", 1e-3, lower=0)
c = Parameter("c", 1e-3, lower=0)
HERE = Path(__file__).parent

def problem(friction, runs):
    rod = Body("rod", mass=0.5, inertia=(1e-4, J, J))
    up, out = GROUND.frame(x=(0, 1, 0), y=(0, 0, -1)), rod.frame(at=(-0.2, 0, 0), x=(0, 1, 0), y=(1, 0, 0))
    hinge = Hinge("hinge", up, out, viscous=b, **friction)
    model = Model([rod], [hinge], gravity=gravity(9.81))
    recordings = [Recording.from_csv(HERE / f"{run}.csv") for run in runs]
    return Problem("p", model, recordings, [HingeAngle(hinge, signal="hinge")], state_weight=1e5, stepper=Variational())

problems = {f"{run}_{name}": problem(law, [run]) for run in (0, 1) for name, law in
            (("viscous", {}), ("dry", {"coulomb": c}))}
problems["lonely"] = problem({"drag": 1e-6}, [0])
'''


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a problem file and its recordings."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("spookid.report.pictures.DPI", 20)
    for i, run in enumerate(RUNS[:2]):
        run.to_csv(tmp_path / f"{i}.csv")
    Path("swings.py").write_text(FILE)
    return tmp_path


def test_the_command_sets_models_side_by_side(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["crossvalidate", "swings.py", "--out", "out"]) == 0
    out, err = capsys.readouterr()
    assert err == "spookid: lonely has fewer than two recordings and is left out\n"
    assert "By cross-validation model dry is best" in out
    assert out.endswith("\n\nWritten to out\n")
    names = {"crossvalidation.json", "crossvalidation.md", "crossvalidation.png"}
    assert {path.name for path in Path("out").iterdir()} == names
    (models,) = json.loads(Path("out/crossvalidation.json").read_text())["sets"]
    assert models["verdict"] in out
    viscous, dry = models["models"]
    assert (viscous["name"], dry["name"], dry["recordings"]) == ("viscous", "dry", ["0", "1"])
    assert dry["cv"] < viscous["cv"]
    assert {m["agreement"]["errors"] for m in (viscous, dry)} <= {"standard", "jackknife"}
    assert dry["agreement"]["verdict_by_standard_errors"].startswith("These 2 recordings ")
    assert {len(m["scores"]) for m in (viscous, dry)} == {4}
    assert "| dry | mean |" in Path("out/crossvalidation.md").read_text()


def test_wrong_input_and_fits_that_do_not_converge(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["crossvalidate", "swings.py::0_dry", "--out", "out"]) == 2
    assert "cross-validation needs a model with two or more recordings" in capsys.readouterr().err
    assert not Path("out").exists()
    flags: list[Any] = ["--max-iterations", "0", "--quiet", "--out", "out"]
    assert main(["crossvalidate", "swings.py", *flags]) == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert "not every fit of viscous, dry converged" in err
