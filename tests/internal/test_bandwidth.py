"""The step that a motion's bandwidth allows, and which problems take it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from mechanisms import Array

from spookid import (
    GROUND,
    Body,
    JointPosition,
    JointTorque,
    Model,
    Motor,
    Parameter,
    Prismatic,
    Problem,
    Recording,
    Spook,
    gravity,
)
from spookid.assembly.assembly import assemble
from spookid.data.interpolation import SHARE, longest_step

TICK, HZ = 1e-3, 2 * np.pi
T = np.arange(20_000) * TICK
ONE_HZ = float(np.sqrt(12 * SHARE)) / HZ
MASS, SPRING, FRICTION = 2.0, 30.0, 4.0


def step_of(values: Array, *, angle: bool = False, scale: float = 1.0) -> float:
    return longest_step(Recording(T, {"q": values}), "q", angle=angle, scale=scale, cutoff=10.0)


def noisy(values: Array, size: float) -> Array:
    return values + size * np.random.default_rng(1).normal(size=len(T))


@pytest.mark.parametrize("size", [0.0, 1e-4, 1e-2])
def test_a_sinusoid_has_its_step_whatever_its_size_and_noise(size: float) -> None:
    wanted = np.floor(ONE_HZ / TICK) * TICK
    for amplitude, beside in ((1.0, 0 * T), (1e-3, 0 * T), (0.01, 5 + 0.3 * T)):
        values = noisy(amplitude * np.sin(HZ * T) + beside, size * amplitude)
        assert step_of(values) == pytest.approx(wanted)


@pytest.mark.parametrize("cutoff", [5.0, 20.0])
def test_noise_of_ten_percent_is_not_the_motion(cutoff: float) -> None:
    """100 samples a second, of which the noise has more power in its rates than the motion."""
    t = np.arange(601) * 0.01
    for seed in range(5):
        values = np.sin(HZ * t) + 0.1 * np.random.default_rng(seed).normal(size=601)
        found = longest_step(Recording(t, {"q": values}), "q", angle=False, scale=1.0, cutoff=cutoff)
        assert 0.02 <= found <= 0.05


def test_fast_parts_count_by_the_power_of_their_rates() -> None:
    values = np.sin(HZ * 0.4 * T) + 0.02 * np.sin(HZ * 5 * T)
    rates = np.array([0.4, 0.02 * 5]) ** 2
    curvature = np.sqrt(rates @ (HZ * np.array([0.4, 5])) ** 4 / rates.sum())
    assert step_of(noisy(values, 1e-5)) == pytest.approx(np.sqrt(12 * SHARE / curvature), rel=0.02, abs=TICK)


def test_angles_turn_what_they_carry() -> None:
    turning = np.mod(HZ * 1.0 * T, 2 * np.pi)
    assert step_of(turning, angle=True) == pytest.approx(ONE_HZ, abs=1.1 * TICK)
    assert step_of(np.degrees(turning), angle=True, scale=180 / np.pi) == pytest.approx(ONE_HZ, abs=1.1 * TICK)
    small, wide = (size * np.sin(HZ * T) for size in (0.05, 1.5))
    assert step_of(small, angle=True) == step_of(small)
    assert step_of(wide, angle=True) < 0.8 * step_of(wide)


def test_what_stands_still_allows_any_step() -> None:
    assert np.isnan(step_of(np.full(len(T), 0.7), angle=True))
    assert np.isnan(step_of(np.full(len(T), 0.7)))


# --- problems ---


def slide(**given: Any) -> Problem:
    """A mass on a spring that a measured force moves to and fro at 1 Hz."""
    x, v, a = np.sin(HZ * T), HZ * np.cos(HZ * T), -(HZ**2) * np.sin(HZ * T)
    body = Body("body", mass=MASS, inertia=(1, 1, 1))
    joint = Prismatic("slide", GROUND.frame(), body.frame(), viscous=Parameter("b", FRICTION), stiffness=SPRING)
    recording = Recording(T, {"x": x, "f": MASS * a + FRICTION * v + SPRING * x})
    motors = [Motor(joint, "f", hold="linear", measured=given.pop("measured", True))]
    return Problem(
        "slide", Model([body], [joint], motors, gravity=gravity(0.0)), [recording], [JointPosition(joint, "x")], **given
    )


def test_with_it_the_step_is_off_by_the_share_that_is_told() -> None:
    problem = slide()
    assert problem.step == problem.bandwidth_step == pytest.approx(ONE_HZ, abs=TICK)
    ready = assemble(problem)
    x = np.sin(HZ * ready.sampled[0].grid.times())
    states = replace(ready.start, states=(x[:, None],))
    (rows,) = (rows for rows in ready.transcription.residuals(states)[0][:1])
    acting = np.sqrt((SPRING**2 + (HZ * FRICTION) ** 2) / 2)
    assert np.sqrt(np.mean(rows**2)) / acting == pytest.approx(SHARE, rel=0.06)
    assert any("0.038 s follows from the bandwidth of the motion" in finding.text for finding in ready.findings)


def test_only_measured_efforts_ask_for_it() -> None:
    assert slide(measured=False).step == 0.01
    assert slide(step=0.02).step == 0.02
    assert slide(stepper=Spook()).step == 0.01  # of first order
    assert not any(finding.code == "step.chosen" for finding in assemble(slide(step=0.02)).findings)
    chosen = slide()
    assert chosen.with_(cutoff=5.0).step == chosen.step
    other = Model(chosen.model.bodies, chosen.model.joints, gravity=gravity(0.0))
    sensors = [JointTorque(other.joints[0], "f"), *chosen.observations]
    assert Problem("other", other, chosen.recordings, sensors).step == chosen.step


def test_a_step_that_was_not_given_follows_the_recordings() -> None:
    chosen = slide()
    (recording,) = chosen.recordings
    unseen = chosen.with_(recordings=[])
    assert unseen.step == 0.01
    assert unseen.with_(fixed=["b"]).with_(recordings=[recording]).step == chosen.step
    signals = {"x": np.sin(HZ * T / 2), "f": recording.signals["f"]}
    assert chosen.with_(recordings=[Recording(T, signals)]).step == pytest.approx(2 * chosen.step, rel=0.05)
    assert chosen.with_(step=0.02).with_(recordings=[]).step == 0.02
    assert slide(step=0.02).with_(recordings=[recording]).step == 0.02
    assert slide(step=0.02).with_(step=None).step == chosen.step
