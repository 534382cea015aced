"""What a fit of a robot tells its user: combinations before parameters, priors that settle, torques, exact sensors."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

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
    Recording,
    gravity,
    load,
)
from spookid.estimation.followed import followed_notices
from spookid.report.conclusion import conclusion
from spookid.results.notices import FOLLOWED
from spookid.solution import Solution
from spookid.statistics.settled import left_open

TORQUE = 0.02
"""Noise of the measured torque [N m]."""


@lru_cache
def swing() -> Solution:
    """A rod on a level axle whose whole inertia is believed within 30 %, driven by a measured torque, in two runs."""
    values = {"xx": 0.01, "yy": 0.012, "zz": 0.008, "xy": 5e-4}
    moments = [Parameter(f"I_{axes}", value) for axes, value in values.items()]
    centre = [Parameter(f"c_{axis}", value) for axis, value in zip("xyz", (0.1, 0.0, 0.02), strict=True)]
    rod = Body("rod", inertia=FullInertia(Parameter("m", 1.0, lower=0), centre, inertia=[*moments, 0, 0], within=0.3))
    level = {"x": (0, 1, 0), "y": (1, 0, 0)}
    hinge = Hinge("hinge", GROUND.frame(**level), rod.frame(**level), viscous=Parameter("b", 0.05))
    model = Model([rod], [hinge], [Motor(hinge, "u", measured=True, hold="linear")], gravity=gravity(9.81))
    problem = Problem("swing", model, [], [HingeAngle(hinge, "q")], step=0.05)
    return problem.with_(recordings=[run(problem, name, seed) for seed, name in enumerate(("one", "other"))]).solve()


def run(problem: Problem, name: str, seed: int) -> Recording:
    random, t, w = np.random.default_rng(seed), np.arange(401) * 0.01, 2 * math.pi * 0.8
    motion = [np.sin(w * t), w * np.cos(w * t), -(w**2) * np.sin(w * t)]
    torque = problem.inverse_dynamics({"c_x": 0.11}, motion=tuple(part[:, None] for part in motion)).predicted[:, 0]
    noise = random.normal(size=(2, t.size))
    return Recording(t, {"q": motion[0] + 1e-4 * noise[0], "u": torque + TORQUE * noise[1]}, name)


def test_the_conclusion_counts_combinations_where_inertias_are_unknown() -> None:
    text = conclusion(swing())
    assert "the data determine all 3 base parameters, the least certain" in text
    assert "they determine b to ± " in text
    assert "I_xx" not in text.split("known from priors")[0].split(";")[0]
    assert text.endswith("known from priors.")


def test_what_priors_settle_is_told_in_one_sentence() -> None:
    solution = swing()
    weak = solution.sensitivities.weak
    assert weak
    assert not left_open(solution.sensitivities)
    assert all(direction.advice.startswith("Priors tell it") for direction in weak)
    (section,) = [part for part in solution.summary().split("\n\n") if part.startswith("Weak directions")]
    assert section.startswith("Weak directions\n  What the data hardly see of ")
    assert "their priors tell." in section
    assert "mean little" not in section
    unknown = replace(solution.sensitivities, seen=None)
    assert left_open(unknown) == weak  # nothing says that priors tell them


def test_a_measured_torque_stands_in_the_table_of_the_fit(tmp_path: Path) -> None:
    solution = swing()
    sizes = []
    for trajectory in solution.trajectories:
        (fit,) = trajectory.efforts or ()
        assert (fit.signal, fit.unit, fit.steps) == ("u", "N m", len(trajectory.t) - 2)
        impulses = trajectory.impulse_residual[1:-1, 0]
        assert fit.rms == pytest.approx(np.sqrt(np.mean(impulses**2)) / solution.step)
        assert fit.largest == pytest.approx(np.max(np.abs(impulses)) / solution.step)
        sizes.append(fit.rms)
    # Each of the five samples in a step errs by itself.
    assert all(TORQUE / 5 < size < TORQUE for size in sizes)
    (row,) = (line for line in solution.summary().splitlines() if line.startswith("  u, mean of a step"))
    assert row.endswith(f"{'one' if sizes[0] > sizes[1] else 'other'}: {max(sizes):.3g} N m")
    solution.save(tmp_path / "r")
    assert [t.efforts for t in load(tmp_path / "r").trajectories] == [t.efforts for t in solution.trajectories]


def test_a_sensor_that_is_followed_exactly_gets_a_notice() -> None:
    solution = swing()
    assert not any(notice.startswith(FOLLOWED) for notice in solution.notices)
    exact = [replace(t, squares=0 * t.observed, largest=0 * t.observed) for t in solution.trajectories]
    unseen = [replace(one, std=1e-13, error=math.nan) for one in solution.noise]
    (notice,) = followed_notices(unseen, exact)
    assert notice.startswith(f"{FOLLOWED} q exactly: no noise was found")
    assert followed_notices([replace(one, given=True) for one in unseen], exact) == []
    assert followed_notices(unseen, solution.trajectories) == []
    assert followed_notices(solution.noise, exact) == []
