"""Inputs between their samples: a band-limited signal is restored, and estimates that depend on it are named."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from mechanisms import Array

from spookid import (
    GROUND,
    Body,
    FixedLagSmoother,
    Hinge,
    HingeAngle,
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


def controlled(seed: int, hold: str, kept: int = 2) -> Problem:
    """A pendulum under a sampled controller that follows a multisine by a noisy angle, its torque constant between the
    controller's samples; so many samples are logged for each of those."""
    rng, h, steps = np.random.default_rng(seed), 0.01, 600
    J, b, load = 0.03, 0.015, 0.5 * 9.81 * 0.2
    phases, rates = rng.uniform(0, 2 * np.pi, 4), 2 * np.pi * np.array([0.3, 0.7, 1.3, 2.1])
    state, shown, torque, before = np.array([0.2, 0.0]), list[float](), list[float](), None

    def slope(x: Array, u: float) -> Array:
        return np.array([x[1], (u - b * x[1] - load * np.sin(x[0])) / J])

    for k in range(steps * kept):
        angle = state[0] + 2e-3 * rng.standard_normal()
        if k % kept == 0:
            rate = 0.0 if before is None else (angle - before) / h
            wanted = 0.5 * float(np.sin(rates * k * h / kept + phases).sum())
            u, before = 3 * (wanted - angle) - 0.2 * rate, angle
        shown.append(angle)
        torque.append(u)
        acting, part = u + 1e-3 * rng.standard_normal() / np.sqrt(h / kept), h / kept / 5
        for _ in range(5):
            middle = state + part / 2 * slope(state, acting)
            state = state + part * slope(middle, acting)
    rod = Body("rod", mass=0.5, inertia=(Parameter("J", 0.015, lower=1e-6), 1e-3, 1e-3))
    pin = Hinge("pin", GROUND.frame(), rod.frame(at=(0, 0, 0.2)), viscous=Parameter("b", 0.02, lower=0))
    model = Model([rod], [pin], [Motor(pin, "u", gain=Parameter("K", 0.9, lower=0), hold=hold)], gravity=gravity(9.81))
    recording = Recording(h / kept * np.arange(len(shown)), {"theta": np.array(shown), "u": np.array(torque)})
    return Problem("controlled", model, [recording], [HingeAngle(pin, "theta")], step=h)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kept", [1, 4])
def test_nothing_is_told_of_a_torque_that_a_sampled_controller_holds(seed: int, kept: int) -> None:
    found = controlled(seed, "previous", kept).solve()
    assert [one.text for one in found.findings if one.severity != "note"] == []


def test_lines_between_samples_of_a_controller_are_told() -> None:
    (finding,) = [one for one in controlled(0, "linear").solve().findings if one.severity != "note"]
    assert "inputs that are constant between samples (hold='previous')" in finding.text
