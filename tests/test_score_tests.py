"""What a model lacks is named, with about its size, and nothing is on data that the model fits."""

import sys
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spookid import GROUND, Body, Hinge, HingeAngle, Model, Motor, Parameter, Problem, Recording, Solution, gravity

sys.path.insert(0, str(Path(__file__).parents[1] / "results"))
from truth_driven import drive

STEP, DURATION = 0.01, 10.0
TRUTH = {"J": 2e-3, "b": 2e-3, "c": 5e-3, "K": 0.05}
SEEDS = (0, pytest.param(1, marks=pytest.mark.study))
"""One draw of the noise tells whether a cause is told; more of them, how often."""
Change = Callable[[np.ndarray, np.random.Generator], np.ndarray]


@cache
def rod(dry: bool = True, slow: float = 0.0) -> Problem:
    """A driven pendulum, with Coulomb friction or without, that at low rates is more by a share ``slow``."""
    J, b = Parameter("J", 1e-3, lower=1e-7), Parameter("b", 1e-4, lower=0)
    K, c = Parameter("K", 0.03), Parameter("c", 1e-3, lower=0)
    body = Body("rod", mass=0.2, inertia=(1e-5, J, J))
    frames = GROUND.frame(x=(0, 1, 0), y=(0, 0, -1)), body.frame(at=(-0.15, 0, 0), x=(0, 1, 0), y=(1, 0, 0))
    extra = (slow * c, 0.4) if slow else None  # up to 1.6 rad/s, half of the typical rate
    pin = Hinge("pin", *frames, viscous=b, coulomb=c if dry else 0, stribeck=extra)
    model = Model(bodies=[body], joints=[pin], motors=[Motor(pin, signal="u", gain=K)], gravity=gravity(9.81))
    return Problem("rod", model, observations=[HingeAngle(pin, "theta", loss="linear")], step=STEP, friction_width=0.05)


@cache
def arm(longer: float = 1.0) -> Problem:
    """A rod at the end of a driven arm, as in a Furuta pendulum, whose arm is declared longer than it is."""
    J_A, J_B = Parameter("J_A", 0.002, lower=1e-6), Parameter("J_B", 0.01, lower=1e-6)
    b_1, b_2, K = Parameter("b_1", 1e-4, lower=0), Parameter("b_2", 1e-4, lower=0), Parameter("K", 0.05)
    first, second = Body("arm", 0.24, (1e-4, 0.003, J_A)), Body("rod", 0.43, (1e-3, J_B, J_B))
    up, down = {"x": (0, 0, 1), "y": (1, 0, 0)}, {"x": (1, 0, 0), "y": (0, 0, -1)}
    shoulder = Hinge("shoulder", GROUND.frame(**up), first.frame(at=(-0.13 * longer, 0, 0), **up), viscous=b_1)
    tip = first.frame(at=(0.12 * longer, 0, 0), **down)
    elbow = Hinge("elbow", tip, second.frame(at=(-0.09, 0, 0), x=(0, 1, 0), y=(1, 0, 0)), viscous=b_2)
    model = Model([first, second], [shoulder, elbow], [Motor(shoulder, signal="u", gain=K)], gravity=gravity(9.81))
    return Problem("arm", model, observations=[HingeAngle(shoulder, "q1"), HingeAngle(elbow, "q2")], step=STEP)


def draw(
    problem: Problem,
    truth: Mapping[str, float],
    initial: Mapping[str, float],
    seed: int,
    disturbance: float = 1e-5,
    hidden: float = 0.0,
) -> Recording:
    """A twin's recording, of a drive but for what is ``hidden`` of it; each is simulated once."""
    return drawn(problem, tuple(truth.items()), tuple(initial.items()), seed, disturbance, hidden)


@cache
def drawn(
    problem: Problem,
    truth: tuple[tuple[str, float], ...],
    initial: tuple[tuple[str, float], ...],
    seed: int,
    disturbance: float,
    hidden: float,
) -> Recording:
    t = np.arange(0.0, DURATION + 2 * STEP, STEP)
    known = np.sin(2 * t) + np.sin(5.3 * t)
    drive = Recording(t=t, signals={"u": known + hidden * np.sin(9.1 * t)})
    noise = dict.fromkeys((joint.name for joint in problem.model.joints), disturbance)
    noise |= dict.fromkeys((sensor.signal for sensor in problem.observations), 1e-3)
    run = problem.simulate(dict(truth), DURATION, dict(initial), inputs=drive, noise=noise, seed=seed, substeps=4)
    signals = {sensor.signal: run.signals[sensor.signal] for sensor in problem.observations}
    return Recording(t=run.t, signals=signals | {"u": np.interp(run.t, t, known)}, name=f"seed {seed}")


def fitted(
    seed: int,
    change: Change | None = None,
    dry: bool = True,
    disturbance: float = 1e-5,
    slow: float = 0.0,
    hidden: float = 0.0,
    **settings: Any,
) -> Solution:
    """A fit to a twin whose angle has been changed."""
    run = draw(rod(slow=slow), TRUTH, {"pin": 1.5}, seed, disturbance, hidden)
    theta = run.signals["theta"]
    if change is not None:
        theta = change(theta, np.random.default_rng(seed))
    recording = Recording(t=run.t, signals={**run.signals, "theta": theta})
    return rod(dry).with_(recordings=[recording], **settings).solve()


def told(solution: Solution) -> str:
    """The text of what the model lacks, whatever it does to the estimates, empty if there is none."""
    return " ".join(f.text for f in solution.findings if f.code in ("residuals.autocorrelated", "residuals.no-effect"))


def late(theta: np.ndarray, _: np.random.Generator) -> np.ndarray:
    """Half a step late."""
    t = STEP * np.arange(len(theta))
    return np.interp(t - STEP / 2, t, theta)


@pytest.mark.parametrize("disturbance", [pytest.param(0.0, marks=pytest.mark.study), 1e-3])
@pytest.mark.parametrize("seed", [*SEEDS, pytest.param(2, marks=pytest.mark.study)])
def test_nothing_is_told_of_data_that_the_model_fits(seed: int, disturbance: float) -> None:
    assert not told(fitted(seed, disturbance=disturbance))


def test_nothing_is_told_of_sharp_friction_that_the_model_fits() -> None:
    """Where friction changes its sign within few steps, the likelihood is rough, and its slopes are no evidence."""
    problem, _ = drive(773310019)
    assert not told(problem.solve(step=0.0025, step_correction=False, friction_width=0.0198))


def coarse(theta: np.ndarray, _: np.random.Generator) -> np.ndarray:
    """In counts of 0.02 rad."""
    return 0.02 * np.rint(theta / 0.02)


@pytest.mark.parametrize("seed", SEEDS)
def test_of_coarse_counts_only_what_is_missing_is_told(seed: int) -> None:
    assert not told(fitted(seed, coarse, disturbance=0.0))
    assert "of dry friction in pin are missing: Coulomb friction?" in told(fitted(seed, coarse, dry=False))


@pytest.mark.parametrize("seed", SEEDS)
def test_an_offset_is_told_with_its_size(seed: int) -> None:
    assert "theta is off by about 0.02 rad: an offset?" in told(fitted(seed, lambda theta, _: theta + 0.02))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_delay_is_told(seed: int) -> None:
    notice = told(fitted(seed, late))
    assert "a delay?" in notice
    assert any(
        f"about {x} ms" in notice for x in ("4.5", "4.6", "4.7", "4.8", "4.9", "5", "5.1", "5.2", "5.3", "5.4", "5.5")
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_friction_that_is_left_out_is_told_with_its_size(seed: int) -> None:
    notice = told(fitted(seed, dry=False))
    assert "of dry friction in pin are missing: Coulomb friction?" in notice
    assert any(
        notice.startswith(f"The residuals are not noise: {size} N m")
        for size in ("0.0047", "0.0048", "0.0049", "0.005", "0.0051")
    )


def test_friction_that_is_declared_too_large_is_told_with_its_size() -> None:
    notice = told(fitted(0, initial={"c": 2 * TRUTH["c"]}, fixed=["c"]))
    assert "of dry friction in pin are too much" in notice
    assert any(f"{size} N m of dry friction" in notice for size in ("0.0048", "0.0049", "0.005", "0.0051", "0.0052"))


@pytest.mark.parametrize(
    ("change", "dry", "cause"),
    [
        (lambda theta, _: theta + 0.02, True, "an offset?"),
        (lambda theta, _: theta + 0.002, True, "an offset?"),
        (late, True, "a delay?"),
        (None, False, "Coulomb friction?"),
    ],
)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_cause_is_a_warning_if_it_matters_to_estimates_or_errors(
    change: Change | None, dry: bool, cause: str, seed: int
) -> None:
    """A fit without the cause shows how far estimates move, by its own errors, and how much smaller these are."""
    wrong, right = fitted(seed, change, dry=dry), fitted(seed)
    found = {one["words"]: (f, one) for f in wrong.findings for one in f.evidence.get("misfits", ())}
    (finding, evidence), *_ = (known for words, known in found.items() if words.endswith(cause))
    shifts, names = evidence["shifts"], list(evidence["shifts"])
    before, after = (np.array([one[name].std_err for name in names]) for one in (wrong, right))
    moved = {name: (right[name].estimate - wrong[name].estimate) / wrong[name].std_err for name in names}
    assert shifts == pytest.approx(moved, abs=0.4 + 0.2 * max(map(abs, moved.values())))
    assert evidence["narrower"] > 0.8 * np.min(after / before)  # errors fall at least so far
    matters = np.abs([moved[name] for name in names]) * before > after
    assert (finding.severity == "warning") is bool(np.any(matters | (after < 0.5 * before)))
    largest = max(moved, key=lambda name: abs(moved[name]))
    assert (f"{largest} {shifts[largest]:+.1f}" in finding.text) is (finding.severity == "warning")


@pytest.mark.parametrize("seed", SEEDS)
def test_friction_that_is_higher_at_low_rates_is_told(seed: int) -> None:
    what = "of friction at low rates in pin are missing: a Stribeck law, or sticking (friction='exact')?"
    assert what in told(fitted(seed, slow=1.0))


@pytest.mark.study
def test_a_length_that_is_wrong_is_told_with_its_size() -> None:
    truth = {"J_A": 3e-3, "J_B": 4e-3, "b_1": 1e-3, "b_2": 1e-3, "K": 0.1}
    run = draw(arm(), truth, {"elbow": 2.0}, seed=0)
    notice = told(arm(longer=1.02).with_(recordings=[run]).solve())
    assert any(f"the length of arm is off by about -{x} %?" in notice for x in ("1.8", "1.9", "2", "2.1"))


@pytest.mark.study
def test_recordings_that_disagree_are_told() -> None:
    runs = [draw(rod(), TRUTH | {"J": J}, {"pin": 1.5}, seed) for seed, J in enumerate((2e-3, 2e-3, 2.04e-3))]
    notice = told(rod().with_(recordings=runs).solve())
    assert any(f"recordings disagree on J, seed 2 by {size}e-05 with the others?" in notice for size in ("3.9", "4"))
    alike = [draw(rod(), TRUTH, {"pin": 1.5}, seed) for seed in range(2)]
    assert not told(rod().with_(recordings=alike).solve())


@pytest.mark.parametrize("seed", SEEDS)
def test_noise_that_lasts_is_told_if_it_has_no_usual_cause(seed: int) -> None:
    notice = told(fitted(seed, hidden=0.1))
    assert "residuals of pin are not white" in notice
    assert "an unmodelled effect lasts for several samples" in notice


@pytest.mark.parametrize("seed", SEEDS)
def test_outliers_are_told(seed: int) -> None:
    def far(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return np.where(rng.random(len(theta)) < 0.01, theta + 0.2 * rng.standard_normal(len(theta)), theta)

    assert "outliers?" in told(fitted(seed, far))


def test_what_is_lacking_stands_before_the_estimates() -> None:
    text = fitted(0, dry=False).summary()
    assert text.index("The residuals are not noise") < text.index("parameter ")
    assert text.count("The residuals are not noise") == 1


def test_an_input_that_moves_between_its_samples_is_told() -> None:
    """The motor feels a sine; the recording has samples of it, which are taken as held, half an interval late."""
    fine = np.arange(0.0, DURATION + 2 * STEP, STEP / 10)
    drive = Recording(t=fine, signals={"u": np.sin(2 * fine) + np.sin(5.3 * fine)})
    run = rod().simulate(TRUTH, DURATION, {"pin": 1.5}, inputs=drive, noise={"theta": 1e-3}, seed=0, substeps=10)
    solution = rod().with_(recordings=[Recording(t=run.t, signals=run.signals)]).solve()
    assert "u acts on pin early by about" in told(solution)
    assert "does it move between its samples?" in told(solution)


def test_joints_without_dry_friction_may_stand_beside_those_that_stick() -> None:
    swing = rod()
    wheel = Body("wheel", mass=0.5, inertia=(0.01, 0.01, 0.01))
    across = {"x": (0, 1, 0), "y": (1, 0, 0)}
    axle = Hinge("axle", GROUND.frame(**across), wheel.frame(at=(0.02, 0, 0), **across))
    model = Model([*swing.model.bodies, wheel], [*swing.model.joints, axle], gravity=gravity(9.81))
    both = Problem(
        "both", model, observations=[*swing.observations, HingeAngle(axle, "q")], step=STEP, friction="exact"
    )
    truth = {name: TRUTH[name] for name in ("J", "b", "c")}
    run = both.simulate(truth, 1.5, {"pin": 1.0, "axle": -2.0}, noise={"theta": 1e-3, "q": 1e-3}, seed=1)
    solution = both.with_(recordings=[Recording(run.t, run.signals)]).solve()
    assert not told(solution)


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_told_of_a_measured_torque_that_the_model_fits(seed: int) -> None:
    J, b = Parameter("J", 1e-3, lower=1e-7), Parameter("b", 1e-4, lower=0)
    body = Body("rod", mass=0.2, inertia=(1e-5, J, J))
    frames = GROUND.frame(x=(0, 1, 0), y=(0, 0, -1)), body.frame(at=(-0.15, 0, 0), x=(0, 1, 0), y=(1, 0, 0))
    pin = Hinge("pin", *frames, viscous=b)
    model = Model([body], [pin], motors=[Motor(pin, "u", gain=0.2, measured=True)], gravity=gravity(9.81))
    problem = Problem("rod", model, observations=[HingeAngle(pin, "theta")], step=STEP, step_correction=False)
    assert not problem.corrects
    t = STEP * np.arange(601)
    drive = Recording(t=t, signals={"u": np.sin(2 * t) + np.sin(5.3 * t)})
    options = {"inputs": drive, "noise": {"theta": 1e-3}, "seed": seed}
    run = problem.simulate({"J": 2e-3, "b": 2e-3}, 5.9, {"pin": 1.5}, **options)
    u = run.signals["u"] + 0.05 * np.random.default_rng(seed).standard_normal(len(run.t))
    solution = problem.with_(recordings=[Recording(run.t, {"theta": run.signals["theta"], "u": u})]).solve()
    assert not told(solution)
    assert abs(solution["J"].estimate - 2e-3) < 3 * solution["J"].std_err
