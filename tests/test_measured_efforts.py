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


@pytest.mark.parametrize("step", [0.01, *(pytest.param(step, marks=pytest.mark.study) for step in (0.03, None))])
def test_an_inertia_is_what_it_is_however_short_the_step(step: float | None) -> None:
    # The maximum of the likelihood has an inertia that is 5 standard errors too small with steps of 10 ms.
    found = [wheel(driven(seed), step=step).solve() for seed in range(4)]
    assert all(solution.status is Status.CONVERGED for solution in found)
    z = np.array([list(off(solution).values()) for solution in found])
    assert np.all(np.abs(z.mean(axis=0)) < 1.5), z
    assert np.all(np.abs(z) < 4), z


@pytest.mark.parametrize("step", [0.01, *(pytest.param(step, marks=pytest.mark.study) for step in (0.03, None))])
def test_the_noise_of_a_torque_is_that_of_its_samples_whatever_the_step(step: float | None) -> None:
    found = wheel(driven(0), step=step).solve()
    told = wheel(driven(0), TORQUE, step=step).solve()
    (free, given) = (next(n for n in s.noise if n.names == ("tau",)) for s in (found, told))
    assert free.std == pytest.approx(TORQUE, rel=0.1)
    assert given.std == pytest.approx(TORQUE, rel=1e-9)
    assert given.given


@pytest.mark.study
def test_means_over_neighbouring_steps_share_noise_and_raise_no_alarm() -> None:
    found = [wheel(driven(seed), step=0.03).solve() for seed in range(4)]
    assert not any(finding.code == "residuals.autocorrelated" for s in found for finding in s.findings)


@pytest.mark.parametrize("corrected", [True, False])
def test_samples_between_steps_of_the_motion_raise_no_alarm(corrected: bool) -> None:
    # The parabola through three states misses up to twice the noise of the angle, and each fit said so.
    found = [wheel(driven(seed), step_correction=corrected).solve() for seed in range(2)]
    assert not any(finding.code == "residuals.autocorrelated" for s in found for finding in s.findings)
    assert all(next(n for n in s.noise if n.names == ("q",)).std == pytest.approx(ANGLE, rel=0.06) for s in found)


def test_a_step_that_is_too_long_to_tell_samples_between_is_asked_about() -> None:
    long = wheel(driven(0), step=0.19, step_correction=False).solve()
    (notice,) = (f.text for f in long.findings if f.code in ("residuals.autocorrelated", "residuals.no-effect"))
    assert "residuals of q are not white" in notice
    assert "does it stay with half of it?" in notice


@pytest.mark.study
def test_errors_are_those_of_the_noise_of_samples() -> None:
    # 12 wheels: the root mean square of J and b over their errors is 1 but for accident.
    found = [list(off(wheel(driven(seed), TORQUE).solve()).values()) for seed in range(12)]
    assert 0.7 < np.sqrt(np.mean(np.square(found))) < 1.35


# --- an arm of two links that hangs down ---


ARM = {"I1": 0.05, "I2": 0.02, "c": 0.12, "b1": 0.05, "b2": 0.03}


def arm(values: dict[str, float], **settings: Any) -> Problem:
    I1, I2, c, b1, b2 = (Parameter(name, value, lower=0) for name, value in values.items())
    down, along = {"x": (0, 1, 0), "y": (0, 0, -1)}, {"x": (0, 1, 0), "y": (1, 0, 0)}
    upper, lower = Body("upper", mass=1.2, inertia=(1e-3, I1, I1)), Body("lower", mass=0.8, inertia=(1e-3, I2, I2))
    hinges = [
        Hinge("shoulder", GROUND.frame(**down), upper.frame(at=(-0.15, 0, 0), **along), viscous=b1),
        Hinge("elbow", upper.frame(at=(0.15, 0, 0), **along), lower.frame(at=(-c, 0, 0), **along), viscous=b2),
    ]
    sensors = [HingeAngle(hinge, f"q{i}") for i, hinge in enumerate(hinges)]
    torques = [JointTorque(hinge, f"tau{i}") for i, hinge in enumerate(hinges)]
    return Problem("arm", Model([upper, lower], hinges, gravity=gravity(9.81)), [], [*sensors, *torques], **settings)


def moved(seed: int, interval: float, angle: float, drag: float = 0.0) -> Recording:
    """20 s with six frequencies up to 0.6 Hz in both joints; drag in the shoulder [N m s²]."""
    rng, t = np.random.default_rng(seed), np.arange(0, 20 + interval / 2, interval)
    omega, sizes = 0.2 * np.pi * np.arange(1, 7), rng.normal(0, 0.4, (2, 6))
    phases = omega * t[:, None, None] + rng.uniform(0, 2 * np.pi, (2, 6))
    waves = (sizes * np.sin(phases), sizes * omega * np.cos(phases), -sizes * omega**2 * np.sin(phases))
    motion = tuple(wave.sum(axis=2) for wave in waves)
    torque = arm(ARM, step=0.01).inverse_dynamics(ARM, motion=motion).predicted
    torque = torque + np.outer(drag * motion[1][:, 0] * np.abs(motion[1][:, 0]), (1, 0))
    shown = motion[0] + angle * rng.normal(size=torque.shape), torque + TORQUE * rng.normal(size=torque.shape)
    signals = {
        f"{name}{i}": column for name, of in zip(("q", "tau"), shown, strict=True) for i, column in enumerate(of.T)
    }
    return Recording(t, signals, f"run {seed}")


SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.study) for seed in range(1, 6))]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("interval", "angle"), [(0.005, 1e-4), pytest.param(0.002, 1e-5, marks=pytest.mark.study)])
def test_an_exact_arm_has_no_notice_at_the_step_of_its_motion(seed: int, interval: float, angle: float) -> None:
    # With steps of h alone I1 is 3 to 11 standard errors off, and the parabola between them raises an alarm.
    solution = arm({name: 1.3 * value for name, value in ARM.items()}).solve(recordings=[moved(seed, interval, angle)])
    assert solution.status is Status.CONVERGED
    assert solution.step > 8 * interval
    assert any(finding.code == "step.chosen" for finding in solution.findings)
    assert not any(finding.code == "residuals.autocorrelated" for finding in solution.findings)
    z = [(solution[name].estimate - value) / solution[name].std_err for name, value in ARM.items()]
    assert np.max(np.abs(z)) < 3, z
    stds = {one.names[0]: one.std for one in solution.noise}
    assert stds["q0"] == pytest.approx(angle, rel=0.06)
    assert stds["q1"] == pytest.approx(angle, rel=0.06)


def test_what_an_arm_lacks_is_told_at_the_step_of_its_motion() -> None:
    solution = arm(ARM).solve(recordings=[moved(0, 0.005, 1e-4, drag=0.02)])
    (notice,) = (f.text for f in solution.findings if f.code == "residuals.autocorrelated")
    assert "of drag in shoulder are missing" in notice
