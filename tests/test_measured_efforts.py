"""Fits to torques that are measured: estimates and noise on twins whose motion is known in closed form."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from spookid import (
    GROUND,
    Body,
    Hinge,
    HingeAngle,
    JointTorque,
    Model,
    Parameter,
    Problem,
    Recording,
    Solution,
    Status,
    gravity,
)

TICK = 0.01
INERTIA, VISCOUS = 0.02, 0.05
ANGLE, TORQUE = 1e-4, 0.02
"""Standard deviations of the noise of a sample [rad, N m]."""


def driven(seed: int) -> Recording:
    """10 s of a wheel that a torque moves with six frequencies up to 0.6 Hz, both measured with white noise."""
    t, rng = TICK * np.arange(1001), np.random.default_rng(seed)
    omega, phases = 0.2 * np.pi * np.arange(1, 7)[:, None], rng.uniform(0, 2 * np.pi, (6, 1))
    angle, rate, acceleration = (
        0.4 * np.sum(factor * np.sin(omega * t + phases + turned), axis=0)
        for factor, turned in ((1, 0.0), (omega, np.pi / 2), (omega**2, np.pi))
    )
    signals = {"q": angle + ANGLE * rng.normal(size=t.size)}
    signals["tau"] = INERTIA * acceleration + VISCOUS * rate + TORQUE * rng.normal(size=t.size)
    return Recording(t, signals, f"run {seed}")


def wheel(recording: Recording, sigma: float | None = None, **settings: Any) -> Problem:
    J, b = Parameter("J", 0.03, lower=1e-6), Parameter("b", 0.1, lower=0.0)
    body = Body("wheel", mass=1.0, inertia=(J, 1.0, 1.0))
    axle = Hinge("axle", GROUND.frame(), body.frame(), viscous=b)
    sensors = [HingeAngle(axle, "q"), JointTorque(axle, "tau", sigma=sigma)]
    return Problem("wheel", Model([body], [axle], gravity=gravity(0.0)), [recording], sensors, **settings)


def off(solution: Solution) -> dict[str, float]:
    """Estimates less the truth, over their standard errors."""
    truth = {"J": INERTIA, "b": VISCOUS}
    return {name: (solution[name].estimate - value) / solution[name].std_err for name, value in truth.items()}


@pytest.mark.parametrize("step", [0.01, 0.03, None])
def test_an_inertia_is_what_it_is_however_short_the_step(step: float | None) -> None:
    # The maximum of the likelihood has an inertia that is 5 standard errors too small with steps of 10 ms.
    found = [wheel(driven(seed), step=step).solve() for seed in range(4)]
    assert all(solution.status is Status.CONVERGED for solution in found)
    z = np.array([list(off(solution).values()) for solution in found])
    assert np.all(np.abs(z.mean(axis=0)) < 1.5), z
    assert np.all(np.abs(z) < 4), z


@pytest.mark.parametrize("step", [0.01, 0.03, None])
def test_the_noise_of_a_torque_is_that_of_its_samples_whatever_the_step(step: float | None) -> None:
    found = wheel(driven(0), step=step).solve()
    told = wheel(driven(0), TORQUE, step=step).solve()
    (free, given) = (next(n for n in s.noise if n.names == ("tau",)) for s in (found, told))
    assert free.std == pytest.approx(TORQUE, rel=0.1)
    assert given.std == pytest.approx(TORQUE, rel=1e-9)
    assert given.given


def test_means_over_neighbouring_steps_share_noise_and_raise_no_alarm() -> None:
    found = [wheel(driven(seed), step=0.03).solve() for seed in range(4)]
    assert not any(notice.startswith("The residuals are not noise") for s in found for notice in s.notices)


@pytest.mark.parametrize("corrected", [True, False])
def test_samples_between_steps_of_the_motion_raise_no_alarm(corrected: bool) -> None:
    # The parabola through three states misses up to twice the noise of the angle, and each fit said so.
    found = [wheel(driven(seed), step_correction=corrected).solve() for seed in range(2)]
    assert not any(notice.startswith("The residuals are not noise") for s in found for notice in s.notices)
    assert all(next(n for n in s.noise if n.names == ("q",)).std == pytest.approx(ANGLE, rel=0.06) for s in found)


def test_a_step_that_is_too_long_to_tell_samples_between_is_asked_about() -> None:
    long = wheel(driven(0), step=0.19, step_correction=False).solve()
    (notice,) = (n for n in long.notices if n.startswith("The residuals are not noise"))
    assert "those of q are not white" in notice
    assert "does it stay with half of it?" in notice


def test_errors_are_those_of_the_noise_of_samples() -> None:
    # 12 wheels: the root mean square of J and b over their errors is 1 but for accident.
    found = [list(off(wheel(driven(seed), TORQUE).solve()).values()) for seed in range(12)]
    assert 0.7 < np.sqrt(np.mean(np.square(found))) < 1.35
