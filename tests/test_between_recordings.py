"""Do recordings agree? The factor by which errors have to grow, against fits of single recordings."""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from spookid import (
    GROUND,
    Body,
    Hinge,
    HingeAngle,
    Model,
    Motor,
    Parameter,
    Problem,
    Recording,
    Solution,
    gravity,
    load,
)

INERTIA, STEP, NOISE = 0.02, 0.01, 1e-3
EQUAL, DIFFERENT = (0.05,) * 4, (0.05, 0.05, 0.05, 0.08)


def turned(viscous: float, seed: int) -> Recording:
    """A wheel J ω' = u − b ω with a torque that is constant over each sample, in closed form."""
    rng = np.random.default_rng(seed)
    torque = np.repeat(rng.normal(0, 0.3, 20), 20)
    decay, angle, rate, angles = math.exp(-viscous * STEP / INERTIA), 0.0, 0.0, [0.0]
    for u in torque[:-1]:
        final, lag = u / viscous, INERTIA / viscous
        angle += final * STEP + (rate - final) * lag * (1 - decay)
        rate = final + (rate - final) * decay
        angles.append(angle)
    noisy = np.array(angles) + NOISE * rng.normal(size=len(angles))
    return Recording(STEP * np.arange(len(angles)), {"q": noisy, "u": torque}, name=f"run{seed}")


def wheel(recordings: list[Recording]) -> Problem:
    inertia = Parameter("J", 0.015, lower=1e-6, unit="kg m^2")
    viscous = Parameter("b", 0.04, lower=0, unit="N m s")
    disc = Body("disc", mass=1.0, inertia=(inertia, 1.0, 1.0))
    hinge = Hinge("hinge", GROUND.frame(), disc.frame(), viscous=viscous)
    model = Model([disc], [hinge], [Motor(hinge, "u")], gravity=gravity(0.0))
    return Problem("wheel", model, recordings=recordings, observations=[HingeAngle(hinge, "q")], step=STEP)


@cache
def fits(viscous: tuple[float, ...], first: int = 0) -> tuple[Solution, tuple[Solution, ...]]:
    """Of all recordings together, and of each."""
    recordings = [turned(b, first + i) for i, b in enumerate(viscous)]
    joint, *single = (wheel(some).solve(estimator="noise") for some in (recordings, *([one] for one in recordings)))
    return joint, tuple(single)


@pytest.mark.parametrize("viscous", [EQUAL, DIFFERENT])
@pytest.mark.parametrize("name", ["J", "b"])
def test_the_factor_is_that_of_single_fits(viscous: tuple[float, ...], name: str) -> None:
    joint, single = fits(viscous)
    values = np.array([one[name].estimate for one in single])
    # Each with the noise that is common to all recordings: errors of all four are those of one over √4.
    error = joint[name].std_err * math.sqrt(len(values))
    expected = max(1.0, float(np.std(values, ddof=1)) / error)
    assert joint[name].scale == pytest.approx(expected, rel=0.25)


def test_a_warning_names_what_differs_and_offers_its_model() -> None:
    joint, _ = fits(DIFFERENT)
    (found,) = (one for one in joint.findings if one.code == "recordings.differ")
    assert found.severity == "warning"
    assert "b" in found.subject
    assert "run3" in found.effect
    assert 'per="recording"' in found.advice
    assert found.evidence["b"]["spread"] == pytest.approx(np.std(DIFFERENT, ddof=1), rel=0.2)
    assert found.evidence["b"]["recordings"]["run3"]["estimate"] == pytest.approx(DIFFERENT[3], rel=0.1)
    assert "between" in joint.summary().split()


def test_equal_recordings_agree() -> None:
    scales = []
    for first in range(0, 80, 4):
        recordings = [turned(b, 100 + first + i) for i, b in enumerate(EQUAL)]
        joint = wheel(recordings).solve(estimator="noise", step_correction=False)
        assert not any(one.code == "recordings.differ" for one in joint.findings)
        scales += [joint["J"].scale, joint["b"].scale]
    assert np.mean(np.square(scales)) < 2


def test_one_recording_has_no_factor(tmp_path: Path) -> None:
    joint, single = fits(DIFFERENT)
    assert math.isnan(single[0]["b"].scale)
    assert "between" not in single[0].summary().split()
    joint.save(tmp_path / "joint")
    assert load(tmp_path / "joint")["b"].scale == joint["b"].scale
