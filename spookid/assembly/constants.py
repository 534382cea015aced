"""Numbers of the symbols in the factors: settings, widths of friction, fixed parameters, and sizes of the free ones.

What is random in a problem: process noise of the motion and errors of sensors, as sizes to estimate or to keep.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import casadi as ca
import numpy as np

from spookid.assembly.initialization import WIDTH_AT_REST, SampledRecording
from spookid.assembly.problem import Problem
from spookid.data.channels import Channel
from spookid.data.sampling import finite_samples
from spookid.data.sensors import TorqueMotor
from spookid.kernels.arrays import Array
from spookid.kernels.precision import ROUNDING
from spookid.mechanics.hidden import anchored
from spookid.mechanics.joint_coordinates import disturbance_names, disturbance_units
from spookid.parameter import Parameter, is_constant, number, substitute
from spookid.results.result import Noise
from spookid.statistics.marginal import NoiseSize
from spookid.stepping.base import SWITCHED
from spookid.stepping.contact_rows import SLIP_FLOOR, slip_name
from spookid.stepping.impulses import Settings
from spookid.transcription.factor import Constant, Factor

WIDTH_SHARE = 0.01
"""Default friction width of a coordinate as a share of the root mean square of its slip rate."""
IMPULSE_SHARE = 1e-3
"""Width of |λ| in the load-dependent law as a share of the impulse of the mechanism's weight in one step."""


def slip_widths(problem: Problem, sampled: tuple[SampledRecording, ...]) -> Array:
    """Friction width of each coordinate, (n_s,) [rad/s or m/s]; see ``Problem.friction_width``."""
    if isinstance(problem.friction_width, (int, float)) and not problem.sticks_exactly:
        return np.full(len(problem.model.freedoms), problem.friction_width)
    if not sampled:
        return declared_widths(problem, np.full(len(problem.model.freedoms), WIDTH_AT_REST))
    return widths_along(problem, np.vstack([np.diff(e.guess.displacements, axis=0) / e.grid.step for e in sampled]))


def widths_along(problem: Problem, rates: Array) -> Array:
    """Friction width of each coordinate, (n_s,) [rad/s or m/s], for a motion with slip rates (N, n_s)."""
    return declared_widths(problem, width_along(rates))


def width_along(rates: Array) -> Array:
    """Default friction width of each coordinate, (n_s,), for a motion with slip rates (N, n_s)."""
    share = WIDTH_SHARE * np.sqrt(np.mean(rates**2, axis=0))
    return np.where(share > 0, share, WIDTH_AT_REST)


def declared_widths(problem: Problem, otherwise: Array) -> Array:
    """Declared friction width of each coordinate at the initial values, and ``otherwise`` without one, (n_s,)."""
    declared = None if problem.sticks_exactly else problem.friction_width
    if declared is None:
        return otherwise
    if not isinstance(declared, Mapping):
        return np.full(len(otherwise), declared)
    known = {name: number(ca.SX(width), problem.guess_on()) for name, width in declared.items()}
    pairs = zip(problem.model.freedoms, otherwise.tolist(), strict=True)
    return np.array([known.get(freedom.label, width) for freedom, width in pairs])


def _width_formulas(problem: Problem, settings: Settings) -> list[tuple[ca.SX, ca.SX]]:
    """Friction widths that are Parameters: the symbol of a number, and what it is instead."""
    declared = problem.friction_width if isinstance(problem.friction_width, Mapping) else {}
    pairs = ((settings.slip_width[i], declared.get(f.label)) for i, f in enumerate(problem.model.freedoms))
    return [(symbol, width) for symbol, width in pairs if isinstance(width, ca.SX)]


def width_keys(problem: Problem, settings: Settings) -> list[int]:
    """Key that is equal for problems whose friction widths are the same Parameters."""
    return [one.element_hash() for pair in _width_formulas(problem, settings) for one in pair]


def with_width_formulas(written: Sequence[Factor], problem: Problem, settings: Settings) -> list[Factor]:
    """Factors in which Parameters of friction widths replace their numbers."""
    if not (formulas := _width_formulas(problem, settings)):
        return list(written)
    symbols, widths = (ca.vertcat(*one) for one in zip(*formulas, strict=True))
    return [f.substituted(symbols, widths) if ca.depends_on(f.residual, symbols) else f for f in written]


def at_widths(
    constants: Sequence[Constant], problem: Problem, settings: Settings, values: Mapping[str, float]
) -> list[Constant]:
    """Constants in which friction widths have the numbers for these Parameter values."""
    formulas = _width_formulas(problem, settings)
    widths = {symbol.element_hash(): number(width, values) for symbol, width in formulas}
    return (
        [replace(one, value=widths.get(one.symbol.element_hash(), one.value)) for one in constants]
        if widths
        else [*constants]
    )


def numbers(
    problem: Problem,
    settings: Settings,
    widths: Array,
    turning: Array | None = None,
    touch: float = WIDTH_AT_REST,
    rounding: float = 0.0,
) -> tuple[Constant, ...]:
    """Numerical value of every symbol in the factors, except the free parameters."""
    values = problem.guess_on()
    masses = sum(substitute(body.mass, values).item() for body in problem.model.bodies)
    weight = float(masses * np.linalg.norm(substitute(problem.model.gravity, values)))
    free = {p.name for p in problem.free}
    return (
        Constant(settings.step, problem.step),
        Constant(settings.weight, problem.weight),
        *(Constant(settings.slip_width[j], float(width)) for j, width in enumerate(widths)),
        *(
            Constant(settings.turn_width[j], float(width))
            for j, width in enumerate(widths if turning is None else turning)
        ),
        Constant(settings.impulse_width, IMPULSE_SHARE * problem.step * max(weight, 1e-6)),
        Constant(settings.touch_speed, touch),
        Constant(settings.touch_impulse, masses * touch),
        Constant(settings.touch_rounding, rounding),
        *(Constant(p, values[p.name]) for p in problem.parameters if p.name not in free),
        *(Constant(s, 1.0) for s in ca.vertsplit(settings.disturbance)),
        *(Constant(s, 1.0) for s in settings.torques.values()),
        *(Constant(s, 1.0) for s in ca.vertsplit(settings.slips)),
        *(
            Constant(settings.sensors[i], o.sigma or 1.0)
            for i, o in enumerate(problem.channels[: settings.sensors.numel()])
        ),
    )


def chosen_numbers(problem: Problem, values: Mapping[str, float], recording: int) -> tuple[Constant, ...]:
    """Selector of a recording, and its own parameters by the symbols of the declared parameters."""
    known = problem.parameter_set
    choice = zip(ca.vertsplit(known.choice), known.chosen(recording).tolist(), strict=True)
    own = [Constant(p, values[known.name_on(p, known.recordings[recording])]) for p in known.own]
    return (*(Constant(symbol, value) for symbol, value in choice), *own)


def magnitude(parameter: Parameter, guess: float) -> float:
    """Typical size of a parameter: of its initial value, otherwise the span of its bounds, otherwise 1.

    An initial value of either sign below the rounding of its bounds' span, or of 1, is a zero: it is no scale.
    """
    span = parameter.upper - parameter.lower
    otherwise = span if np.isfinite(span) else 1.0
    signed = parameter.lower < 0 < parameter.upper
    return otherwise if guess == 0 or (signed and abs(guess) < ROUNDING * otherwise) else abs(guess)


def sizes(problem: Problem, settings: Settings, constants: Sequence[Constant]) -> tuple[NoiseSize, ...]:
    """Estimated noise of a problem: one process noise per unit, unless declared, and one noise per sensor."""
    places = {c.symbol.element_hash(): i for i, c in enumerate(constants)}

    def place(symbol: ca.SX) -> int:
        return places[symbol.element_hash()]

    found: list[NoiseSize] = []
    model, hard = problem.model, problem.is_hard
    measured = {motor.label: motor.signal for motor in model.motors if motor.measured}
    declared = {freedom.label: freedom.joint.disturbance for freedom in model.freedoms}
    names, units, states = disturbance_names(model), disturbance_units(model), anchored(model.hidden)
    kinds = [*(freedom.coordinate.effort for freedom in model.freedoms), *units[len(model.freedoms) :]]
    for unit in dict.fromkeys(kinds):  # walks begin with the noise of joints: from far less a search ends at none
        free = [i for i, kind in enumerate(kinds) if kind == unit and names[i] not in measured]
        shared = [i for i in free if declared.get(names[i]) is None]
        if shared:
            where, none = tuple(place(settings.disturbance[i]) for i in shared), 0.0 if hard else None
            labels = tuple(names[i] for i in shared)
            own, own_units = tuple(dict.fromkeys(labels)), tuple(dict.fromkeys((names[i], units[i]) for i in shared))
            found.append(NoiseSize("disturbance", own, unit, where, none, labels=labels, units=own_units))
        for i in (i for i in free if i not in shared):
            where = (place(settings.disturbance[i]),)
            given, internal = 0.0 if hard else declared[names[i]], names[i] in states and declared[names[i]] == 0
            found.append(NoiseSize("disturbance", (names[i],), units[i], where, given, internal=internal))
    for signal, symbol in settings.torques.items():
        motor = next(m for m in model.motors if m.signal == signal)
        unit, given = motor.joint.coordinates[motor.coordinate].effort, None
        averaging = _averaging(problem, signal)
        if isinstance(motor, TorqueMotor) and motor.sigma is not None:
            given = motor.sigma * averaging
        found.append(NoiseSize("sensor", (signal,), unit, (place(symbol),), given, averaging=averaging))
    for slip in dict.fromkeys(
        contact.creeps for contact in model.holding.contacts if SWITCHED not in problem.scheme.refuses
    ):
        slides = [i for i, contact in enumerate(model.holding.contacts) if contact.creeps == slip]
        where = tuple(place(settings.slips[i]) for i in slides)
        labels, given = tuple(slip_name(model.holding.contacts[i]) for i in slides), 0.0 if hard else slip
        found.append(NoiseSize("disturbance", labels, "m/s", where, given, SLIP_FLOOR, internal=given == 0))
    for i, sensor in enumerate(problem.channels):
        floor = 0.0 if sensor.sigma else resolution(sensor, [r.signal(sensor.signal) for r in problem.recordings])
        where, floor, name = (place(settings.sensors[i]),), floor / np.sqrt(12), sensor.signal
        found.append(NoiseSize("sensor", (name,), sensor.unit, where, sensor.sigma, floor, internal=name in states))
    return tuple(found)


def _averaging(problem: Problem, signal: str) -> float:
    """Standard deviation of white noise of a row that slow motions take for that in the samples, over that of a sample.

    Both have the same spectral density at low frequencies: means over overlapping intervals are not white, and steps
    may be shorter than the intervals Δ between samples. So it is √(Σ Δ² / (h Σ Δ)).
    """
    intervals = [np.diff(finite_samples(recording, signal)[0]) for recording in problem.recordings]
    every = np.concatenate([np.zeros(0), *intervals])
    return math.sqrt(float(every @ every) / (problem.step * float(every.sum()))) if len(every) else 1.0


def at_gains(problem: Problem, noise: Sequence[Noise], values: Mapping[str, float], back: bool = False) -> list[Noise]:
    """Convert measured noise from an effort at the initial gains to an effort at given gains; ``back``: inversely."""
    values, ratios = problem.parameter_set.on(values), {}
    for motor in problem.model.motors:
        if motor.measured and not is_constant(motor.sensitivity):
            ratio = abs(substitute(motor.sensitivity, values).item())
            ratios[motor.signal] = 1 / ratio if back else ratio

    def scaled(one: Noise) -> Noise:
        ratio = ratios.get(one.names[0], 1.0) if one.kind == "sensor" else 1.0
        return one if ratio == 1.0 else replace(one, std=one.std * ratio)

    return [scaled(one) for one in noise]


def resolution(channel: Channel, recordings: Sequence[Array]) -> float:
    """Resolution of a channel: the declared count, or the largest, over recordings, of the smallest steps between
    values of the signal; 0 without steps."""
    declared = channel.sensor.resolution
    return max(map(_resolution, recordings), default=0.0) if declared is None else float(declared)


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
