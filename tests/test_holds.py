"""Inputs between their samples: a band-limited signal is restored, and estimates that depend on it are named."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from spookid import (
    GROUND,
    Body,
    FixedLagSmoother,
    JointPosition,
    Model,
    Motor,
    Parameter,
    Prismatic,
    Problem,
    ProblemError,
    Recording,
    gravity,
)

TRUTH = {"m": 2.0, "k": 4000.0, "b": 6.0}
"""Of an oscillator with a natural frequency of 7.1 Hz."""
RATE = 64.0
_FINE = 64


def record(seed: int = 0, duration: float = 20.0, share: float = 1 / 3, noise: float = 1e-5) -> Recording:
    """Its motion under a multisine up to a share of the sampling rate, by fine steps of its linear equations."""
    from scipy.signal import StateSpace, lsim

    rng, count = np.random.default_rng(seed), round(duration * RATE)
    fine = np.arange(count * _FINE + 1) / (RATE * _FINE)
    frequencies = np.arange(1, 43) * RATE * share / 42
    phases = rng.uniform(0, 2 * np.pi, len(frequencies))
    force = np.sin(2 * np.pi * frequencies[:, None] * fine + phases[:, None]).sum(axis=0) * 5
    m, k, b = TRUTH["m"], TRUTH["k"], TRUTH["b"]
    _, y, _ = lsim(StateSpace([[0, 1], [-k / m, -b / m]], [[0], [1 / m]], [[1, 0]], [[0]]), force, fine)
    x = y[::_FINE] + noise * rng.normal(size=count + 1)
    return Recording(fine[::_FINE], {"x": x, "u": force[::_FINE]})


def oscillator(recording: Recording, hold: str, **settings: Any) -> Problem:
    m, k, b = (Parameter(name, 1.2 * value, lower=0.01) for name, value in TRUTH.items())
    block = Body("block", mass=m, inertia=(1, 1, 1))
    slide = Prismatic("slide", GROUND.frame(), block.frame(), stiffness=k, viscous=b)
    motor = Motor(slide, "u", hold=hold)
    model = Model([block], [slide], [motor], gravity=gravity(0))
    return Problem("oscillator", model, [recording], [JointPosition(slide, "x")], step=1 / (2 * RATE), **settings)


def test_a_band_limited_hold_gives_the_values_of_an_oscillator() -> None:
    found = oscillator(record(), "band").solve()
    for name, value in TRUTH.items():
        assert found[name].estimate == pytest.approx(value, rel=2e-3 if name != "b" else 0.02)


def test_lines_are_far_off_and_the_warning_says_by_how_much() -> None:
    lines, band = (
        oscillator(record(), hold).solve(estimator="noise", step_correction=False) for hold in ("linear", "band")
    )
    (finding,) = [one for one in lines.findings if one.code == "input.between-samples"]
    moves = finding.evidence["standard_errors"]
    assert "m" in moves
    moved = (band["m"].estimate - lines["m"].estimate) / lines["m"].std_err
    assert moves["m"] == pytest.approx(moved, rel=0.3)
    assert "with hold 'linear'" in finding.effect


def test_a_slow_input_moves_no_estimate() -> None:
    found = oscillator(record(share=0.03, noise=1e-3), "linear").solve()
    assert not [one for one in found.findings if one.code == "input.between-samples"]


def test_it_needs_even_samples_and_no_smoother() -> None:
    recording = record(duration=4.0)
    kept = np.ones(len(recording.t), dtype=bool)
    kept[60] = False
    holed = Recording(recording.t[kept], {name: values[kept] for name, values in recording.signals.items()})
    with pytest.raises(ProblemError, match=r"hold 'band' of input 'u' needs .* at equal intervals"):
        oscillator(holed, "band").solve()
    with pytest.raises(ProblemError, match="hold 'band', for which a smoother would need later samples"):
        FixedLagSmoother(oscillator(recording, "band"), 20)
