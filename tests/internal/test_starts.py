"""Solves from several starts: drawn the same again, grouped by minimum, kept and told."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from solutions import pendulum_problem, recording
from test_robust_fits import TRUTH, rod, swing, within

from spookid import (
    GROUND,
    Body,
    Cost,
    Estimate,
    Hinge,
    HingeAngle,
    Model,
    Motor,
    Parameter,
    Problem,
    ProblemError,
    Recording,
    Status,
    Sweep,
    gravity,
    load,
)
from spookid.__main__ import main
from spookid.solvers.status import Iteration
from spookid.studies.starting import basins
from spookid.studies.sweep_points import Axis, SweepPoint, failed
from spookid.studies.variants import Variant, _drawn, drawn

FILE = """
from spookid import GROUND, Body, Hinge, HingeAngle, Model, Parameter, Problem, Recording, gravity

J = Parameter("J", 0.02, lower=1e-5)
body = Body("rod", mass=0.3, inertia=(1e-4, J, J))
frame = {"x": (0, 1, 0), "y": (0, 0, -1)}
pin = Hinge("pin", GROUND.frame(**frame), body.frame(at=(-0.15, 0, 0), x=(0, 1, 0), y=(1, 0, 0)))
problem = Problem("rod", Model([body], [pin], gravity=gravity(9.81)),
    recordings=[Recording.from_csv("run.csv")], observations=[HingeAngle(pin, "theta")], step=0.01)
"""


def short() -> Problem:
    return rod().with_(recordings=[swing().between(2.0, 4.0)])


def test_starts_are_drawn_from_what_is_known_and_the_same_again() -> None:
    problem = rod()
    assert drawn(problem, 0, 5, {}) == {}
    assert drawn(problem, 3, 5, {}) == drawn(problem, 3, 5, {})
    assert drawn(problem, 3, 5, {}) != drawn(problem, 4, 5, {}) != drawn(problem, 4, 6, {})
    rng = np.random.default_rng(0)

    def many(parameter: Parameter) -> np.ndarray:
        return np.array([_drawn(parameter, parameter.guess, rng) for _ in range(400)])

    free = many(Parameter("p", 0.02, lower=1e-6))
    assert 0.002 <= free.min() < 0.0025 < 0.16 < free.max() <= 0.2
    assert np.median(free) == pytest.approx(0.02, rel=0.4)
    bounded = many(Parameter("p", 0.5, lower=-1, upper=2))
    assert -1 <= bounded.min() < -0.9 < 1.9 < bounded.max() <= 2
    wide = many(Parameter("p", 0.5, lower=1e-4, upper=1))
    assert np.median(np.log10(wide)) == pytest.approx(-2, abs=0.4)
    believed = many(Parameter("p", 0.5, prior=(0.3, 0.1)))
    assert (believed.mean(), believed.std()) == (pytest.approx(0.3, abs=0.02), pytest.approx(0.1, abs=0.02))


def test_a_guess_of_zero_is_drawn_by_what_it_would_make_up() -> None:
    """A torque along a recorded swing, whose size is that of gravity, and an offset of the angle."""
    torque, zero, friction = Parameter("torque", 0.0), Parameter("zero", 0.0), Parameter("c", 0.0, lower=0)
    weight = 0.3 * 9.81 * 0.15
    body, frame = Body("rod", mass=0.3, inertia=(1e-4, 0.005, 0.005)), {"x": (0, 1, 0), "y": (0, 0, -1)}
    ends = GROUND.frame(**frame), body.frame(at=(-0.15, 0, 0), x=(0, 1, 0), y=(1, 0, 0))
    pin = Hinge("pin", *ends, viscous=friction)
    model = Model([body], [pin], [Motor(pin, "u", gain=1.0, offset=torque)], gravity=gravity(9.81))
    t = np.arange(0, 4, 0.01)
    run = Recording(t, {"theta": 1.5 * np.sin(5 * t), "u": 0 * t}, "run")
    problem = Problem("rod", model, [run], [HingeAngle(pin, "theta", offset=zero)], step=0.01)
    starts = [drawn(problem, start, 0, {}) for start in range(1, 200)]
    torques, zeros, frictions = (np.array([one[name] for one in starts]) for name in ("torque", "zero", "c"))
    assert 0.1 * weight < np.abs(torques).max() < 3 * weight
    assert torques.min() < 0 < torques.max()
    assert 0.5 * np.std(run.signals["theta"]) < np.abs(zeros).max() < np.std(run.signals["theta"])
    assert frictions.min() > 0
    placed = HingeAngle(pin, "theta", scale=1 + Parameter("s", 0.0))
    with pytest.raises(
        ProblemError, match=r"'s' has the initial value 0, .* give it a prior or both bounds, or hold it"
    ):
        problem.with_(observations=[placed]).solve(starts=3)
    assert drawn(problem.with_(observations=[placed]), 1, 0, {}, held=["s"])["s"] == 0


@pytest.mark.study
def test_the_best_start_is_the_answer() -> None:
    solution = short().solve(starts=2, seed=1)
    assert within(solution)
    assert solution.status is Status.CONVERGED
    assert sorted(start for one in solution.basins for start in one.starts) == [0, 1]
    assert solution.basins[0].parameters["J"] == pytest.approx(solution.values["J"], rel=1e-6)
    assert "2 of 2 starts converged, 2 of them at the best minimum." in solution.summary(verbose=True)
    with pytest.raises(ProblemError, match="starts and warm_start"):
        short().solve(starts=3, warm_start=solution)


def test_ctrl_c_ends_with_the_best_start_that_had_ended() -> None:
    told: list[int] = []

    def callback(iteration: Iteration) -> None:
        told.append(iteration.iteration)
        if told.count(0) == 3:
            raise KeyboardInterrupt

    problem = pendulum_problem().with_(recordings=[recording()])
    found, alone = problem.solve(starts=4, seed=1, callback=callback), problem.solve()
    assert (found.status, found.detail) == (Status.INTERRUPTED, "after 2 of 4 starts")
    assert sorted(start for one in found.basins for start in one.starts) == [0, 1]
    assert found.values["J"] == pytest.approx(alone.values["J"], rel=1e-6)
    told[:] = [0, 0]
    assert problem.solve(starts=4, callback=callback).detail == "after 0 of 4 starts"

    def raising(iteration: Iteration) -> None:
        raise RuntimeError("the user's own")

    with pytest.raises(RuntimeError, match="the user's own"):
        problem.solve(starts=4, callback=raising)


def test_fewer_than_two_starts_are_refused() -> None:
    for wrong in (0, 2.5):
        with pytest.raises(ProblemError, match="whole number from 2 on"):
            rod().solve(starts=wrong)


def test_minima_are_told_apart_and_what_failed_is_named() -> None:
    known = {
        name: Estimate(
            name=name,
            estimate=value,
            std_err=0.01 * value,
            reason="",
            initial=value,
            lower=0.0,
            upper=math.inf,
            unit="",
            at_bound=False,
        )
        for name, value in TRUTH.items()
    }

    def point(start: int, likely: float, shift: float = 0.0, status: Status = Status.CONVERGED) -> SweepPoint:
        moved = {n: e.changed(estimate=e.estimate + shift * e.std_err) for n, e in known.items()}
        return SweepPoint({"start": float(start)}, status, status.advice, 9, Cost(1.0, 2.0), moved, 0.1, likely)

    points = (
        replace(point(0, 10.0), notices=("odd",)),
        point(1, 50.0),
        point(2, 50.2, 0.3),
        point(3, 50.1, 20.0),
        point(4, 70.0, status=Status.STALLED),
        failed({"start": 5.0}, "no solution"),
    )
    axes = (Axis("start", tuple(map(float, range(6)))),)
    found = basins(Sweep("rod", axes, points, Variant(), {}))
    assert [one.starts for one in found] == [(2, 1), (3,), (0,), (4,), (5,)]
    assert [one.outcome for one in found] == ["converged"] * 3 + ["stalled", "failed"]
    assert found[0].message == Status.CONVERGED.advice
    assert found[1].message.endswith(
        "It is as likely as the best, with other estimates: the data do not distinguish them."
    )
    assert found[2].message.endswith("This is a local optimum: its log-likelihood is 40.2 below the best optimum. odd")
    assert found[3].message == Status.STALLED.advice
    assert found[4].message == "no solution"
    assert math.isnan(found[4].costs[0])


@pytest.mark.study
def test_noise_does_not_stand_in_for_the_mechanics_of_a_released_furuta_pendulum() -> None:
    sys.path.insert(0, str(Path(__file__).parents[2] / "results"))
    from robustness import FURUTA, furuta, release

    problem = furuta().with_(recordings=[release(2.5, 0)])
    far = problem.with_(initial={**problem.initial, **drawn(problem, 28, 0, {})})  # inertias off by a factor of 24
    solution, best = far.solve(), problem.solve()
    assert not any(finding.code == "motion.unexplained" for finding in solution.findings)
    assert solution.log_likelihood == pytest.approx(best.log_likelihood, abs=0.1)
    assert all(abs(solution[name].estimate - value) < 4 * solution[name].std_err for name, value in FURUTA.items())


@pytest.mark.study
def test_the_command_keeps_its_starts_and_writes_where_they_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    swing().between(2.0, 3.0).to_csv(tmp_path / "run.csv")
    (tmp_path / "rod.py").write_text(FILE)
    command = ["solve", "rod.py", "--starts", "3", "--jobs", "1", "--out", "out"]
    assert main(command) == 0
    assert "of 3 starts converged" in capsys.readouterr().out
    assert (tmp_path / "out" / "starts.png").is_file()
    assert not list(tmp_path.glob(".out*"))
    assert sum(len(one.starts) for one in load(tmp_path / "out").basins) == 3
