"""Samples at the end of a sensor's range count as missing; those of an encoder that turns or rests do not."""

from __future__ import annotations

import math

import numpy as np
import pytest
from test_between_recordings import INERTIA, NOISE, STEP, wheel

from spookid import Recording

VISCOUS = 0.05


def swept(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """True angle of a wheel J ω' = u − b ω under a torque that is constant over each sample, and the torque."""
    rng = np.random.default_rng(seed)
    t = STEP * np.arange(1500)
    torque = sum(0.2 * np.sin(2 * math.pi * f * t + rng.uniform(0, 6)) for f in (0.3, 0.7, 1.9))
    decay, angle, rate, angles = math.exp(-VISCOUS * STEP / INERTIA), 0.0, 0.0, [0.0]
    for u in torque[:-1]:
        final, lag = u / VISCOUS, INERTIA / VISCOUS
        angle += final * STEP + (rate - final) * lag * (1 - decay)
        rate = final + (rate - final) * decay
        angles.append(angle)
    return np.array(angles), torque


def solved(q: np.ndarray, u: np.ndarray):  # type: ignore[no-untyped-def]
    return wheel([Recording(STEP * np.arange(len(q)), {"q": q, "u": u}, name="run")]).solve(estimator="noise")


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("tick", [0.0, 2e-3])
def test_saturated_samples_are_named_and_bias_nothing(seed: int, tick: float) -> None:
    angle, torque = swept(seed)
    noisy = angle + NOISE * np.random.default_rng(seed).normal(size=len(angle))
    noisy = tick * np.round(noisy / tick) if tick else noisy
    low, high = np.quantile(noisy, [0.05, 0.9])
    clipped = np.clip(noisy, low, high)
    solution = solved(clipped, torque)
    (found,) = (one for one in solution.findings if one.code == "samples.saturated")
    assert found.subject == ("q",)
    assert found.evidence["samples"]["q"] == np.count_nonzero((clipped == low) | (clipped == high))
    for name, value in (("J", INERTIA), ("b", VISCOUS)):
        assert abs(solution[name].estimate - value) < 4 * solution[name].std_err
        assert solution[name].std_err < 0.05 * value


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("tick", [1e-3, 0.01, 0.05])
def test_an_encoder_that_turns_or_rests_is_not_saturated(seed: int, tick: float) -> None:
    angle, torque = swept(seed)
    top = 100 + int(np.argmax(angle[100:-100]))
    rests = np.concatenate([np.zeros(50), angle[:top], np.full(60, angle[top]), angle[top:]])
    for motion, effort in ((angle, torque), (rests, np.insert(torque, [0] * 50 + [top] * 60, 0.0))):
        solution = solved(tick * np.round(motion / tick), effort)
        assert not any(one.code == "samples.saturated" for one in solution.findings)
