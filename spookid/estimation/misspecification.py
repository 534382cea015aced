"""Findings on model errors, from score tests of the residuals of a fit with estimated noise, and on inputs.

Possible errors are variations of the model: longer, heavier or more inert bodies, and friction of joints, by a symbolic
amount. The derivatives of the factors at amount zero give the effects on the residuals, for any stepper.

A measured input may be interpolated linearly between its samples, or as band-limited. Both agree if it is slow compared
with the sampling rate. If the residuals change by d, the estimates change by −(TᵀT)⁻¹Tᵀd with T as in (3.32).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from spookid.assembly.assembly import Assembly
from spookid.assembly.correlated import is_correlated
from spookid.assembly.initialization import SampledRecording
from spookid.assembly.observations import chain_of
from spookid.assembly.problem import Problem
from spookid.assembly.trajectories import sample_places
from spookid.data.inputs import acting
from spookid.data.losses import robust
from spookid.data.sampling import finite_samples
from spookid.errors import ProblemError
from spookid.estimation.disturbances import all_efforts
from spookid.estimation.variations import Speed, alternatives
from spookid.kernels.arrays import Array
from spookid.mechanics.joint_coordinates import JointCoordinates
from spookid.mechanics.kinematics import displacements, unwrapped
from spookid.mechanics.loads import Hold, Input
from spookid.parameter import substitute
from spookid.results.findings import Finding
from spookid.results.trajectory import Trajectory
from spookid.solvers.rows import Columns, LinearizedFactor
from spookid.statistics.causes import Experiment, Signals
from spookid.statistics.condensing import Condensed
from spookid.statistics.likelihood import States
from spookid.statistics.score_tests import Determinants, ScoreTests, misfits, run_score_tests
from spookid.statistics.sensitivities import Sensitivities
from spookid.statistics.whiteness import Misfit
from spookid.tables.table import number
from spookid.transcription.factor import measured_noise
from spookid.transcription.transcription import Point


def misspecification_tests(
    assembly: Assembly,
    point: Point,
    states: States | None,
    condensed: Condensed,
    trajectories: tuple[Trajectory, ...],
    values: dict[str, float],
    errors: Array,
) -> ScoreTests:
    """Results of all score tests for a fit with these standard errors."""
    moving = speeds(assembly.problem, trajectories, values)
    experiment = _experiment(assembly, point, trajectories, values)
    declared = partial(alternatives, assembly, condensed, point, moving, states, experiment.efforts)
    return run_score_tests(condensed, experiment, declared, _determinants(states, condensed), errors)


def _determinants(states: States | None, condensed: Condensed) -> Determinants:
    known = np.zeros((len(condensed.linearized.chains), condensed.linearized.parameters))
    if states is None or not states.problem.has_density:
        return Determinants(known, known, lambda: ())
    chains, linearized = states.recordings, condensed.linearized.chains
    volumes, following = (np.array([chain.sweep[i] for chain in chains]) for i in (0, 2))

    def images() -> list[Columns]:
        moves = (chain.sweep[1].reshape(chain.steps, chain.t, 1) for chain in chains)
        return [_images(one, terms) for one, terms in zip(moves, linearized, strict=True)]

    return Determinants(volumes, following, images)


def _images(steps: Array, terms: Sequence[LinearizedFactor]) -> Columns:
    """Of a step of the states (N, tangent, 1) in the rows of each factor."""
    return [np.concatenate([part for _, part in term.images(steps)]) for term in terms]


def misfit_findings(
    of_fit: ScoreTests | None, coarser: Callable[[], ScoreTests | None] = lambda: None
) -> list[Finding]:
    """A warning of causes that change estimates by a standard error or more, strongest first, and a note of others. A
    fit with twice the step excludes discretization error."""
    found = () if of_fit is None else misfits(of_fit, coarser)
    if of_fit is None or not found:
        return []
    warned, noted = ([one for one in found if bool(of_fit.effects(one)) is warns] for warns in (True, False))
    told = []
    if warned:
        moved = [f"{_listed(of_fit.effects(one))}{f' ({i})' * (len(warned) > 1)}" for i, one in enumerate(warned, 1)]
        effect = f"The residuals are not noise: {_causes(warned)}."
        shifts = f"estimates would change by about {'; '.join(moved)} standard errors{_narrower(warned)}."
        advice = f"Add this effect to the model, or show that it is absent. With this effect in the model, {shifts}"
        told += [Finding("residuals.autocorrelated", (), _evidence(of_fit, warned), effect, advice=advice)]
    if noted:
        effect = f"Tests of the residuals find only small effects: {_causes(noted)}."
        advice = "With these effects in the model, no estimate would change by a standard error."
        told += [Finding("residuals.no-effect", (), _evidence(of_fit, noted), effect, advice=advice)]
    return told


def _causes(found: Sequence[Misfit]) -> str:
    rivals = (f", or {one.rival}" * bool(one.rival) for one in found)
    return "; ".join(f"{m.words} ({abs(m.z):.0f} standard errors{r})" for m, r in zip(found, rivals, strict=True))


def _evidence(of_fit: ScoreTests, found: Sequence[Misfit]) -> dict[str, list[dict[str, object]]]:
    numbered = ((one, float(one.z)) for one in found)
    return {
        "misfits": [
            {
                "words": m.words,
                "standard_errors": z,
                "shifts": of_fit.shifts(m),
                "narrower": float(np.min(m.narrower)),
                "unfollowed": m.unfollowed,
            }
            for m, z in numbered
        ]
    }


def _narrower(found: Sequence[Misfit], least: float = 1.4) -> str:
    """By how much standard errors would fall with one of some causes, to first order, if by so large a factor. They
    fall further: the smaller the noise, the less of the cause is taken for noise."""
    factor = 1 / min(float(np.min(one.narrower)) for one in found)
    return f", and standard errors would fall by a factor of {factor:.2g} or more" if factor >= least else ""


def _listed(shifts: Mapping[str, float], most: int = 4) -> str:
    """The first of several shifts, each with its parameter."""
    words = [f"{name} {shift:+.1f}" for name, shift in list(shifts.items())[:most]]
    return ", ".join([*words, *([f"{len(shifts) - most} more"] if len(shifts) > most else [])])


def speeds(problem: Problem, trajectories: tuple[Trajectory, ...], values: dict[str, float]) -> dict[str, Speed]:
    """Return a dict from label of a moving coordinate to its typical velocity."""
    model, known = problem.model, problem.parameter_set
    poses = ((t.q.reshape(len(t.q), -1), known.on(values, t.name)) for t in trajectories)
    moved = [unwrapped(model, displacements(model, *one))[:: problem.every or 1] for one in poses]
    interval = problem.step * (problem.every or 1)
    rates = [np.diff(one, axis=0) / interval for one in moved]
    parts = rates, [np.diff(one, axis=0) for one in rates]
    speeds, changes = (np.sqrt(np.mean(np.concatenate(one) ** 2, axis=0)).tolist() for one in parts)
    spans = np.max([np.ptp(one, axis=0) for one in moved], axis=0).tolist()
    found = zip(model.freedoms, speeds, changes, spans, strict=True)
    return {freedom.label: Speed(*of) for freedom, *of in found if of[0] > 0}


def _experiment(
    assembly: Assembly, point: Point, trajectories: tuple[Trajectory, ...], values: dict[str, float]
) -> Experiment:
    problem, model, known = assembly.problem, assembly.problem.model, assembly.problem.parameter_set.on(values)
    tree = [f for joint in JointCoordinates(model).tree for f in model.freedoms[model.freedoms_of(joint)]]
    pairs = zip(trajectories, assembly.sampled, strict=True)
    channels, constants = problem.channels, assembly.transcription.constants
    impulses = {
        name: float(constants[place])
        for size in assembly.noise
        if size.kind == "disturbance"
        for name, place in size.symbols
    }
    # Delays and offsets are not sought in sensors whose noise is correlated or uneven: their columns would be others.
    known_noise = zip(channels, assembly.sigmas.tolist(), strict=True)
    sigmas = {o.signal: np.inf if is_correlated(o) or o.sensor.jitter != 0 else sigma for o, sigma in known_noise}
    plain = {o.signal: not (o.is_adjusted or robust(o.loss)) for o in channels}
    floors = {one.names[0]: one.floor for one in assembly.noise if one.kind == "sensor"}
    counts = {o.signal: math.sqrt(12) * floors[o.signal] / sigmas[o.signal] for o in channels}
    # Motors whose signal is known: their coordinate, signal, its place among the inputs, and gain.
    motors = (
        (m.label, m.signal, model.signals.index(m.signal), substitute(m.unit_effort, known).item())
        for m in model.motors
        if not m.measured
    )
    return Experiment(
        problem.step,
        tuple(Signals(_continuous(trajectory), sampled.acting.held) for trajectory, sampled in pairs),
        tuple((o.signal, o.unit) for o in channels),
        tuple((freedom.label, freedom.coordinate.effort) for freedom in tree),
        sigmas,
        tuple(size.keys for size in assembly.noise if size.given is None),
        impulses,
        all_efforts(assembly, point, trajectories),
        tuple(motors),
        _longest_interval(assembly),
        frozenset(o.signal for o in channels if o.sensor.either_sign),
        tuple(_apart(assembly, chain) for chain in range(len(trajectories))),
        frozenset(one.names[0] for one in assembly.noise if one.floor**2 > sigmas.get(one.names[0], np.inf) ** 2 / 2),
        {measured_noise(name): count for name, count in counts.items() if count > 1 and plain[name]},
    )


def _longest_interval(assembly: Assembly) -> float:
    """Between samples of measured inputs that are taken as linear [s]; 0.0 without any."""
    signals = [one.signal for one in assembly.problem.model.inputs if one.hold == "linear"]
    times = (finite_samples(sampled.recording, signal)[0] for sampled in assembly.sampled for signal in signals)
    return max((float(np.median(np.diff(t))) for t in times if len(t) > 1), default=0.0)


def _apart(assembly: Assembly, chain: int) -> dict[str, Array]:
    """How far samples between the steps are from the nearest one, in steps, by the name of their factor."""
    places = {one.name: sample_places(assembly, one, chain) for one in assembly.observed if one.reach}
    return {name: np.abs(at - np.rint(at)) for name, at in places.items()}


def _continuous(trajectory: Trajectory) -> Array:
    """What the sensors would show, continuous in time, (N, n_o)."""
    columns = [
        values if period is None else np.unwrap(values, period=period)
        for values, period in zip(trajectory.predicted.T, trajectory.periods, strict=True)
    ]
    return np.column_stack(columns)


# --- variations of the model ---


_OTHER: dict[str, Hold] = {"linear": "band", "band": "linear"}


def hold_findings(assembly: Assembly, point: Point, condensed: Condensed | None, known: Sensitivities) -> list[Finding]:
    """Warning for each input for which another interpolation would change an estimate by a standard error."""
    found = []
    for one in (one for one in assembly.problem.model.inputs if one.hold in _OTHER):
        other = _OTHER[one.hold]
        moved = None if condensed is None else _moved(assembly, point, condensed, replace(one, hold=other))
        if moved is None:
            continue
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = dict(zip(known.names, (moved / known.standard_errors).tolist(), strict=True))
        large = {name: ratio for name, ratio in ratios.items() if abs(ratio) > 1}
        if large:
            listed = ", ".join(f"{name} {number(ratio, 2)}" for name, ratio in large.items())
            effect = (
                f"Input {one.signal} is interpolated between its samples with hold {one.hold!r}. With hold {other!r}, "
                f"estimates would change by these multiples of their standard errors: {listed}."
            )
            advice = f"Give the motor the correct hold between samples, or record input {one.signal} at a higher rate."
            cause = f"{one.signal} changes fast against its sampling rate."
            found.append(
                Finding("input.between-samples", tuple(large), {"standard_errors": large}, effect, cause, advice)
            )
    return found


def _moved(assembly: Assembly, point: Point, condensed: Condensed, other: Input) -> Array | None:
    """How far the estimates would move with an input interpolated otherwise, (n_p,); None where it cannot be."""
    problem, transcription = assembly.problem, assembly.transcription
    try:
        sampled = [_with_input(assembly, one, other) for one in assembly.sampled]
    except ProblemError:  # samples that are not even
        return None
    factors = list(transcription.factors)
    chains = [chain_of(problem, one, factors, assembly.observed, i) for i, one in enumerate(sampled)]
    changed, before = transcription.with_chains(chains).residuals(point), transcription.residuals(point)
    columns = []
    for c, terms in enumerate(condensed.linearized.chains):
        differences = {f.name: a - b for f, a, b in zip(factors, changed[c], before[c], strict=True)}
        parts = []
        for term in terms:
            rows = np.nan_to_num(differences[term.factor.name])
            rows = rows if term.complement is None else np.matmul(rows[:, None], term.complement)[:, 0]
            parts.append((term.scale * rows * term.alive)[:, None])
        columns.append(condensed.without_states(c, parts))
    return np.asarray(-condensed.inverse @ condensed.inner(columns, condensed.T)[0])


def _with_input(assembly: Assembly, sampled: SampledRecording, other: Input) -> SampledRecording:
    """Samples of a recording with one of its inputs interpolated otherwise."""
    problem = assembly.problem
    inputs = [other if one.signal == other.signal else one for one in problem.model.inputs]
    now, slopes = acting(sampled.recording, inputs, sampled.grid, problem.guess_on(sampled.recording.name))
    return replace(sampled, acting=now, slopes=slopes)
