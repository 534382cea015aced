"""What a fit of a robot tells its user: combinations before parameters, priors that settle, torques, exact sensors."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
from test_loops import AXLE, BASE, LENGTHS, closed

from spookid import (
    GROUND,
    Body,
    FullInertia,
    Hinge,
    HingeAngle,
    Model,
    Motor,
    Parameter,
    Problem,
    ProblemError,
    Recording,
    Solution,
    gravity,
    load,
)
from spookid.estimation import grouping, motions, solving
from spookid.estimation.disturbances import followed_findings
from spookid.statistics.sensitivities import left_open

TORQUE = 0.02
"""Noise of the measured torque [N m]."""


@lru_cache
def swing(corrected: bool = True) -> Solution:
    """A rod on a level axle whose whole inertia is believed within 30 %, driven by a measured torque, in two runs."""
    values = {"xx": 0.01, "yy": 0.012, "zz": 0.008, "xy": 5e-4}
    moments = [Parameter(f"I_{axes}", value) for axes, value in values.items()]
    centre = [Parameter(f"c_{axis}", value) for axis, value in zip("xyz", (0.1, 0.0, 0.02), strict=True)]
    rod = Body("rod", inertia=FullInertia(Parameter("m", 1.0, lower=0), centre, inertia=[*moments, 0, 0], within=0.3))
    level = {"x": (0, 1, 0), "y": (1, 0, 0)}
    hinge = Hinge("hinge", GROUND.frame(**level), rod.frame(**level), viscous=Parameter("b", 0.05))
    model = Model([rod], [hinge], [Motor(hinge, "u", measured=True, hold="linear")], gravity=gravity(9.81))
    problem = Problem("swing", model, [], [HingeAngle(hinge, "q")], step=0.05, step_correction=corrected)
    return problem.with_(recordings=[run(problem, name, seed) for seed, name in enumerate(("one", "other"))]).solve()


def run(problem: Problem, name: str, seed: int) -> Recording:
    random, t, w = np.random.default_rng(seed), np.arange(401) * 0.01, 2 * math.pi * 0.8
    motion = [np.sin(w * t), w * np.cos(w * t), -(w**2) * np.sin(w * t)]
    torque = problem.inverse_dynamics({"c_x": 0.11}, motion=tuple(part[:, None] for part in motion)).predicted[:, 0]
    noise = random.normal(size=(2, t.size))
    return Recording(t, {"q": motion[0] + 1e-4 * noise[0], "u": torque + TORQUE * noise[1]}, name)


def test_what_priors_settle_is_told_in_one_sentence() -> None:
    solution = swing()
    weak = solution.sensitivities.weak
    assert weak
    assert not left_open(solution.sensitivities)
    assert all(direction.advice.startswith("Only the prior determines this combination") for direction in weak)
    assert "or weakly" not in solution.summary()
    assert "weakly identifiable; determined by priors" in " ".join(solution.summary(verbose=True).split())
    unknown = replace(solution.sensitivities, seen=None)
    assert left_open(unknown) == weak  # nothing says that priors tell them


def test_a_measured_torque_stands_in_the_table_of_the_fit(tmp_path: Path) -> None:
    finer = [fit for trajectory in swing().trajectories for fit in trajectory.efforts or ()]
    solution, sizes = swing(corrected=False), []
    for trajectory in solution.trajectories:
        (fit,) = trajectory.efforts or ()
        assert (fit.signal, fit.unit, fit.steps) == ("u", "N m", len(trajectory.t) - 2)
        impulses = trajectory.impulse_residual[1:-1, 0]
        assert fit.rms == pytest.approx(np.sqrt(np.mean(impulses**2)) / solution.step)
        assert fit.largest == pytest.approx(np.max(np.abs(impulses)) / solution.step)
        sizes.append(fit.rms)
        assert all(half.steps == 2 * fit.steps + 1 and half.rms > fit.rms for half in finer)
    # Each of the five samples in a step errs by itself.
    assert all(TORQUE / 5 < size < TORQUE for size in sizes)
    (row,) = (line for line in solution.summary(verbose=True).splitlines() if line.startswith("  u, mean of a step"))
    assert row.endswith(f"{'one' if sizes[0] > sizes[1] else 'other'}: {max(sizes):.3g} N m")
    solution.save(tmp_path / "r")
    assert [t.efforts for t in load(tmp_path / "r").trajectories] == [t.efforts for t in solution.trajectories]


def test_a_sensor_that_is_followed_exactly_gets_a_notice() -> None:
    solution = swing()
    assert not any(finding.code == "sensors.overfitted" for finding in solution.findings)
    exact = [replace(t, squares=0 * t.observed, largest=0 * t.observed) for t in solution.trajectories]
    unseen = [replace(one, std=1e-13, error=math.nan) for one in solution.noise]
    sensor, effort = followed_findings(unseen, exact)
    assert sensor.text.startswith("The estimated motion follows q exactly: their estimated noise is zero")
    assert effort.text.startswith("The noise of forces or torques u is not identifiable and set to zero")
    assert followed_findings([replace(one, given=True) for one in unseen], exact) == []
    assert followed_findings(unseen, solution.trajectories) == [effort]
    assert followed_findings(solution.noise, exact) == []


def looped() -> Problem:
    """A four-bar whose rocker has an unknown centre of mass."""
    inertia = FullInertia(0.5, (Parameter("c", 0.005, unit="m"), 0, 0), inertia=(1e-5, 4e-3, 4e-3))
    crank, coupler = Body("crank", 0.2, (1e-5, 2e-4, 2e-4)), Body("coupler", 0.4, (1e-5, 3e-3, 3e-3))
    rocker = Body("rocker", inertia=inertia)
    a, b, c = (length / 2 for length in LENGTHS)
    joints = [
        Hinge("drive", GROUND.frame(**AXLE), crank.frame(at=(-a, 0, 0), **AXLE), viscous=0.01),
        Hinge("knee", crank.frame(at=(a, 0, 0), **AXLE), coupler.frame(at=(-b, 0, 0), **AXLE)),
        Hinge("wrist", coupler.frame(at=(b, 0, 0), **AXLE), rocker.frame(at=(c, 0, 0), **AXLE)),
        Hinge("pivot", GROUND.frame(at=(BASE, 0, 0), **AXLE), rocker.frame(at=(-c, 0, 0), **AXLE)),
    ]
    model = Model([crank, coupler, rocker], joints, gravity=(0, -9.81, 0))
    sensors = [HingeAngle(joints[0], "crank", sigma=1e-3), HingeAngle(joints[-1], "rocker", sigma=1e-3)]
    problem = Problem("loop", model, observations=sensors, step=0.01, state_weight=1e6, every=1)
    seen = problem.simulate({"c": 0.01}, 0.4, closed(LENGTHS, BASE, 0.5), noise={"crank": 1e-3, "rocker": 1e-3})
    return problem.with_(recordings=[Recording(seen.t, seen.signals, "release")])


@pytest.mark.study
def test_combinations_of_loops_are_told_whatever_closes_or_it_is_said_why_not(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = looped()
    solution = problem.solve()
    of_any = list(solution.base_parameters)
    assert of_any
    assert not any(finding.code == "base-parameters.limited" for finding in solution.findings)

    monkeypatch.setattr(motions, "_TRIALS", 0)  # as if no loop closed
    of_motion = problem.solve()
    assert list(of_motion.base_parameters) == of_any
    (notice,) = [f.text for f in of_motion.findings if f.code == "base-parameters.limited"]
    assert notice.startswith(
        "The base parameters are those of the recorded motion, and another motion may identify more"
    )

    def short(*_: object) -> None:
        raise ProblemError("the recording is too short")

    monkeypatch.setattr(grouping, "measured", short)
    neither = problem.solve()
    assert neither.base_parameters == {}
    assert "The base parameters of the bodies could not be computed: the recording is too short" in neither.notices


@pytest.mark.usefixtures("kept")
def test_an_analysis_that_fails_leaves_the_fit_and_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError("init:\n.../function.cpp:1: variables [c] are free")

    monkeypatch.setattr(solving, "base_quantities", fails)
    solution = looped().solve()
    with pytest.raises(RuntimeError, match="are free"):
        solution.base_parameters  # noqa: B018
    usual = solution.notices
    solution.save(tmp_path / "res")
    for one in (solution, load(tmp_path / "res")):
        assert (one.values, one["c"].std_err) == (solution.values, solution["c"].std_err)
        assert one.base_parameters == {}
        assert one.physical
        reason = "RuntimeError: .../function.cpp:1: variables [c] are free"
        told = f"Result field base_parameters could not be computed: {reason}"
        assert one.notices == (*usual, told)
    assert "base_parameters could not be" in (tmp_path / "res" / "summary.txt").read_text()
