"""What is random in a problem: disturbances of the motion and errors of sensors, as sizes to estimate or to keep."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import casadi as ca
import numpy as np

from spookid.assembly.declaration import Declaration
from spookid.data.sampling import finite_samples
from spookid.data.sensors import TorqueMotor
from spookid.kernels.arrays import Array
from spookid.mechanics.joint_coordinates import disturbance_names, disturbance_units
from spookid.parameter import is_constant, substitute
from spookid.results.result import Noise
from spookid.statistics.noise_sizes import NoiseSize
from spookid.stepping.contact_rows import SLIP_FLOOR, slip_name
from spookid.stepping.impulses import Settings
from spookid.transcription.factor import Constant


def sizes(problem: Declaration, settings: Settings, constants: Sequence[Constant]) -> tuple[NoiseSize, ...]:
    """Of a problem whose noise is estimated: one disturbance a unit, but for what is declared, and each sensor's."""
    places = {c.symbol.element_hash(): i for i, c in enumerate(constants)}

    def place(symbol: ca.SX) -> int:
        return places[symbol.element_hash()]

    found: list[NoiseSize] = []
    model, hard = problem.model, problem.is_hard
    measured = {motor.label: motor.signal for motor in model.motors if motor.measured}
    declared = {freedom.label: freedom.joint.disturbance for freedom in model.freedoms}
    names, units = disturbance_names(model), disturbance_units(model)
    for unit in dict.fromkeys(units):
        free = [i for i, u in enumerate(units) if u == unit and names[i] not in measured]
        shared = [i for i in free if declared.get(names[i]) is None]
        if shared:
            where, none = tuple(place(settings.disturbance[i]) for i in shared), 0.0 if hard else None
            found.append(NoiseSize("disturbance", tuple(dict.fromkeys(names[i] for i in shared)), unit, where, none))
        for i in (i for i in free if i not in shared):
            where = (place(settings.disturbance[i]),)
            found.append(NoiseSize("disturbance", (names[i],), unit, where, given=0.0 if hard else declared[names[i]]))
    for signal, symbol in settings.torques.items():
        motor = next(m for m in model.motors if m.signal == signal)
        unit, given = motor.joint.coordinates[motor.coordinate].effort, None
        averaging = _averaging(problem, signal)
        if isinstance(motor, TorqueMotor) and motor.sigma is not None:
            given = motor.sigma * averaging
        found.append(NoiseSize("sensor", (signal,), unit, (place(symbol),), given, averaging=averaging))
    for slip in dict.fromkeys(contact.creeps for contact in model.holding.contacts if problem.scheme.switches):
        own = [i for i, contact in enumerate(model.holding.contacts) if contact.creeps == slip]
        where = tuple(place(settings.slips[i]) for i in own)
        labels = tuple(slip_name(model.holding.contacts[i]) for i in own)
        found.append(NoiseSize("disturbance", labels, "m/s", where, 0.0 if hard else slip, SLIP_FLOOR))
    for i, sensor in enumerate(problem.channels):
        floor = 0.0 if sensor.sigma else resolution([r.signal(sensor.signal) for r in problem.recordings])
        where = (place(settings.sensors[i]),)
        found.append(NoiseSize("sensor", (sensor.signal,), sensor.unit, where, sensor.sigma, floor / np.sqrt(12)))
    return tuple(found)


def _averaging(problem: Declaration, signal: str) -> float:
    """Standard deviation of white noise of a row that slow motions take for that in the samples, over that of a sample.

    Both have the same spectral density at low frequencies: means over overlapping intervals are not white, and steps
    may be shorter than the intervals Δ between samples. So it is √(Σ Δ² / (h Σ Δ)).
    """
    intervals = [np.diff(finite_samples(recording, signal)[0]) for recording in problem.recordings]
    every = np.concatenate([np.zeros(0), *intervals])
    return math.sqrt(float(every @ every) / (problem.step * float(every.sum()))) if len(every) else 1.0


def at_gains(
    problem: Declaration, noise: Sequence[Noise], values: Mapping[str, float], back: bool = False
) -> list[Noise]:
    """Noise of measured efforts as an effort at these gains, from that at their guesses; ``back``: the other way."""
    values, ratios = problem.parameter_set.on(values), {}
    for motor in problem.model.motors:
        if motor.measured and not is_constant(motor.sensitivity):
            ratio = abs(substitute(motor.sensitivity, values).item())
            ratios[motor.signal] = 1 / ratio if back else ratio

    def scaled(one: Noise) -> Noise:
        ratio = ratios.get(one.names[0], 1.0) if one.kind == "sensor" else 1.0
        return one if ratio == 1.0 else replace(one, std=one.std * ratio)

    return [scaled(one) for one in noise]


def resolution(recordings: Sequence[Array]) -> float:
    """The coarsest of the smallest steps between values of a signal in each recording, 0 if they come in no steps."""
    return max(map(_resolution, recordings), default=0.0)


def _resolution(values: Array) -> float:
    """Smallest step between values of a signal, 0 if they come in no steps."""
    known = np.unique(values[np.isfinite(values)])
    if len(known) < 2:
        return 0.0
    steps = np.diff(known)
    least = float(np.min(steps[steps > 1e-9 * np.max(np.abs(known))], initial=np.inf))
    # What comes in counts differs by whole numbers of them.
    counts = steps / least
    whole = np.abs(counts - np.rint(counts)) < 0.05
    return least if np.isfinite(least) and np.mean(whole) > 0.9 else 0.0
