"""Recordings made ready: samples far off bridged for the initial guess, quaternions brought to one sign."""

from __future__ import annotations

from collections.abc import Sequence

import casadi as ca
import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from spookid.data.channels import BENT, Channel
from spookid.data.recording import Recording
from spookid.data.sampling import Grid
from spookid.data.state import State
from spookid.kernels.arrays import Array
from spookid.mechanics.kinematics import Values, evaluated
from spookid.mechanics.manifold import QUATERNION
from spookid.mechanics.model import Model


def prepared(recording: Recording, channels: Sequence[Channel]) -> Recording:
    """The recording without the samples that a robust loss is there for, and quaternions continuous in sign."""
    signals = {c.signal: medians(recording.signal(c.signal), c.period) for c in channels if c.loss in BENT}
    recording = recording.with_signals(**signals) if signals else recording
    for sensor in dict.fromkeys(c.sensor for c in channels if c.sensor.either_sign):
        recording = recording.with_signals(**_continuous(recording, sensor.signals))
    return recording


def medians(values: Array, period: float | None) -> Array:
    """Running medians over five finite samples, (N,)."""
    result, finite = values.copy(), np.isfinite(values)
    known = values[finite] if period is None else np.unwrap(values[finite], period=period)
    if len(known):  # ends are mirrored: repeated, three of five would be the first
        windows = sliding_window_view(np.pad(known, 2, mode="reflect"), 5)
        result[finite] = np.partition(windows, 2, axis=1)[:, 2]
    return result


def _continuous(recording: Recording, signals: Sequence[str]) -> dict[str, Array]:
    """Signals whose sign together may be either, with that which is nearer to the sample before."""
    values = np.column_stack([recording.signal(signal) for signal in signals])
    whole = np.isfinite(values).all(axis=1)
    values[whole] = QUATERNION.continuous(values[whole])
    return dict(zip(signals, values.T, strict=True))


def oriented(
    model: Model, channels: Sequence[Channel], recording: Recording, grid: Grid, states: Array, values: Values
) -> Recording:
    """The recording with signals whose sign together may be either in that which is nearer to the motion.

    Args:
        states: x = (q, v) at each step, (N, 13 n_b).
    """
    nearest = np.clip(np.rint((recording.t - grid.start) / grid.step), 0, grid.count - 1).astype(np.intp)
    for sensor in dict.fromkeys(c.sensor for c in channels if c.sensor.either_sign):
        q = ca.SX.sym("q", model.configuration.ambient)
        state = State(model, q, ca.SX(model.configuration.tangent, 1))
        shown = ca.vertcat(*(c.predicted(state) for c in channels if c.sensor is sensor))
        predicted = evaluated(shown, q, states[:, : q.numel()], values)[nearest]
        measured = np.column_stack([recording.signal(signal) for signal in sensor.signals])
        measured = QUATERNION.like(measured, predicted)
        recording = recording.with_signals(**dict(zip(sensor.signals, measured.T, strict=True)))
    return recording
