"""Samples that come one by one, in any order, make the factor data of a fit of the whole recording."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from mechanisms import DOWN, Array

from spookid import (
    GROUND,
    Body,
    Gyroscope,
    Hinge,
    HingeAngle,
    JointRate,
    JointTorque,
    Model,
    Motor,
    Parameter,
    Problem,
    ProblemError,
    Recording,
    Residual,
    Spook,
    gravity,
)
from spookid.assembly.assembly import Assembly, assemble
from spookid.smoothing.intake import Samples

STEP, DURATION = 0.01, 0.5


def rod(
    sensors: Any, signals: Mapping[str, Array], t: Array, motor: Mapping[str, Any] | None = None, **settings: Any
) -> Problem:
    """A driven rod, whatever the motion."""
    body = Body("rod", mass=0.5, inertia=(1e-4, Parameter("J", 0.005, lower=0), 0.005))
    pin = Hinge("pin", GROUND.frame(**DOWN), body.frame(at=(-0.2, 0, 0), x=(0, 1, 0), y=(1, 0, 0)))
    motors = [Motor(pin, signal="u", **(motor or {}))] if "u" in signals else []
    model = Model([body], [pin], motors=motors, gravity=gravity(9.81))
    return Problem("rod", model, [Recording(t, signals)], sensors(pin, body), step=STEP, **settings)


def regular() -> Problem:
    t = np.arange(0, DURATION, STEP)
    return rod(lambda pin, body: [HingeAngle(pin, "theta")], {"theta": np.sin(t), "u": np.cos(7 * t)}, t)


def jittered() -> Problem:
    rng = np.random.default_rng(0)
    t = np.sort(rng.uniform(0, DURATION, 150))
    signals = {"theta": np.sin(t), "rate": np.cos(t), "u": rng.standard_normal(150)}
    signals["rate"][rng.random(150) < 0.3] = np.nan
    return rod(lambda pin, body: [HingeAngle(pin, "theta", delay=0.013), JointRate(pin, "rate")], signals, t)


def late() -> Problem:
    """Delays of sensor and motor and a lag that are estimated, and a user's residual of the input."""
    t = np.arange(0, DURATION, STEP / 2) + 3.0
    rng = np.random.default_rng(1)
    delay = Parameter("delay", 0.004, lower=0, unit="s")
    signals = {"theta": np.sin(t), "u": rng.standard_normal(len(t))}
    own = Residual("own", lambda state: state.inputs["u"], sigma=1.0)
    motor = {"delay": Parameter("late", 0.012, lower=0, unit="s"), "lag": Parameter("lag", 0.003, lower=0, unit="s")}
    sensors = lambda pin, body: [HingeAngle(pin, "theta", delay=delay)]  # noqa: E731
    return rod(sensors, signals, t, motor, residuals=[own])


def measured() -> Problem:
    """A torque that is measured, on a line between its samples."""
    rng = np.random.default_rng(2)
    t = np.arange(0, DURATION, 0.7 * STEP)
    signals = {"theta": np.sin(t), "tau": rng.standard_normal(len(t)), "g1": t, "g2": t, "g3": t}

    def sensors(pin: Hinge, body: Body) -> list[Any]:
        gyroscope = Gyroscope(body.frame(), signals=("g1", "g2", "g3"))
        return [HingeAngle(pin, "theta"), JointTorque(pin, "tau"), gyroscope]

    return rod(sensors, signals, t)


def spooked() -> Problem:
    t = np.arange(0, DURATION, STEP / 3)
    signals = {"theta": np.sin(t), "u": np.cos(9 * t)}
    return rod(lambda pin, body: [HingeAngle(pin, "theta")], signals, t, stepper=Spook(), state_weight=10.0)


class Collected(dict[tuple[str, int], tuple[Array, Array]]):
    """What was given last for each row of each factor."""

    def __call__(self, name: str, row: int, data: Array, missing: Array) -> bool:
        self[name, row] = data.copy(), missing.copy()
        return True


def streamed(assembly: Assembly, order: np.ndarray, lag: int = 0) -> Collected:
    """Rows after all samples of a recording, taken in an order; a step is there once a sample behind it has come."""
    sampled, problem = assembly.sampled[0], assembly.problem
    recording, grid = sampled.recording, sampled.grid
    factors = assembly.transcription.factors
    stream = Samples(problem, factors, assembly.observed, recording.name, grid.start)
    given, newest, now = Collected(), -1, -np.inf
    for place in order:
        t = recording.t[place]
        values = {name: recording.signals[name][place] for name in recording.signals}
        stream.add(*stream.checked(t, values), max(newest - 20, 0))
        now = max(now, t)
        while grid.start + (newest + 1) * grid.step <= now + 1e-9:
            newest += 1
            stream.begin(newest, given)
            stream.forget(max(newest - 20, 0))
        stream.renew(newest, given)
    assert stream.counts.samples == sum(np.isfinite(values).sum() for values in recording.signals.values())
    assert stream.counts.late == stream.counts.crowded == 0
    return given


def shuffled(count: int, within: int) -> np.ndarray:
    """Places whose order is that of a few neighbours changed; the first stays, for inputs act from it on."""
    keys = np.arange(count) + np.random.default_rng(3).uniform(0, within, count)
    keys[0] = -1
    return np.argsort(keys)


@pytest.mark.parametrize("declared", [regular, jittered, late, measured, spooked])
@pytest.mark.parametrize("within", [0, 6])
def test_rows_are_those_of_a_fit_of_the_whole_recording(declared: Any, within: int) -> None:
    assembly = assemble(declared())
    chain, count = assembly.transcription.chains[0], assembly.sampled[0].grid.count
    given = streamed(assembly, shuffled(len(assembly.problem.recordings[0].t), within))
    compared = 0
    for factor in assembly.transcription.factors:
        if not factor.data.numel():
            continue
        data, missing = chain.data[factor.name], chain.missing.get(factor.name)
        # What lies behind the last step counts as at it in a recording that ends there.
        for row in range(1 if factor.first_only else count - factor.reach - 2):
            assert np.array_equal(given[factor.name, row][0], data[row]), (factor.name, row)
            assert missing is None or np.array_equal(given[factor.name, row][1], missing[row])
            compared += 1
    assert compared > 40


def test_bad_samples_are_refused() -> None:
    assembly = assemble(regular())
    start = assembly.sampled[0].grid.start
    stream = Samples(assembly.problem, assembly.transcription.factors, assembly.observed, "recording", start)
    stream.add(*stream.checked(0.02, {"theta": 0.1, "u": 1.0}), 0)
    for t, values, words in [
        (np.nan, {"theta": 0.0}, "the time nan; give seconds"),
        (0.03, {"phi": 0.0}, "no signal 'phi'; it has"),
        (0.03, {"theta": np.inf}, "'theta' is inf at 0.03 s"),
        (0.02, {"theta": 0.2}, "'theta' has a second sample at 0.02 s"),
        (0.02, {"u": 0.2}, "'u' has a second sample at 0.02 s"),
        (0.03, 4.0, "the samples at 0.03 s are 4.0; give a dict"),
    ]:
        with pytest.raises(ProblemError, match=words) as refused:
            stream.checked(t, values)
        assert "test_intake.py:" in str(refused.value)
    assert stream.checked(0.03, {"theta": np.nan, "u": None}) == (0.03, {})


def test_what_comes_too_late_is_counted() -> None:
    assembly = assemble(regular())
    start = assembly.sampled[0].grid.start
    stream = Samples(assembly.problem, assembly.transcription.factors, assembly.observed, "recording", start)
    stream.add(*stream.checked(0.0, {"theta": 0.1, "u": 1.0}), 0)
    stream.add(*stream.checked(-0.05, {"theta": 0.1}), 0)
    stream.add(*stream.checked(0.05, {"theta": 0.1}), 6)
    stream.add(*stream.checked(0.073, {"theta": 0.1}), 6)
    assert (stream.counts.samples, stream.counts.early, stream.counts.late, stream.counts.crowded) == (5, 1, 1, 1)
