"""Findings on a misspecified model, from score tests of the residuals of a fit whose noise was estimated."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from spookid.assembly.assembly import Assembly
from spookid.assembly.problem import Problem
from spookid.assembly.trajectories import sample_places
from spookid.estimation import variations
from spookid.estimation.variations import Speed
from spookid.kernels.arrays import Array
from spookid.mechanics.joint_coordinates import JointCoordinates
from spookid.mechanics.kinematics import displacements, unwrapped
from spookid.parameter import substitute
from spookid.results.findings import Finding
from spookid.results.trajectory import Trajectory
from spookid.statistics.condensing import Condensed
from spookid.statistics.likelihood import States
from spookid.statistics.score_tests import Experiment, ScoreTests, Signals, misfits, run_score_tests
from spookid.transcription.transcription import Point


def misspecification_tests(
    assembly: Assembly,
    point: Point,
    states: States | None,
    condensed: Condensed,
    trajectories: tuple[Trajectory, ...],
    values: dict[str, float],
) -> ScoreTests:
    """What the residuals of a fit say to every test."""
    moving = speeds(assembly.problem, trajectories, values)
    declared = partial(variations.alternatives, assembly, condensed, point, moving, states)
    known = [np.zeros(condensed.linearized.parameters)] * len(trajectories)
    counted = states is not None and states.density
    volumes = np.array([chain.sweep[0] for chain in states.chains] if states and counted else known)
    return run_score_tests(condensed, _experiment(assembly, trajectories, values), declared, volumes)


def misfit_findings(
    of_fit: ScoreTests | None, coarser: Callable[[], ScoreTests | None] = lambda: None
) -> list[Finding]:
    """One of all that the tests find, strongest first; none if the residuals are what the noise makes them.

    Args:
        coarser: of a fit with steps twice as long and the same noise, to take off what the step does, if need be.
    """
    lacking = () if of_fit is None else misfits(of_fit, coarser)
    if not lacking:
        return []
    words = "; ".join(f"{one.words} ({abs(one.z):.0f} standard errors)" for one in lacking)
    evidence = {"misfits": [{"words": one.words, "standard_errors": float(one.z)} for one in lacking]}
    advice = "Estimates and standard errors mean little until the model has it, or it is ruled out."
    effect = f"The residuals are not noise: {words}."
    return [Finding("residuals.autocorrelated", (), evidence, effect, advice=advice)]


def speeds(problem: Problem, trajectories: tuple[Trajectory, ...], values: dict[str, float]) -> dict[str, Speed]:
    """Typical rates of coordinates that move, by their labels."""
    moved = [_moved(problem, t, values)[:: problem.every or 1] for t in trajectories]
    interval = problem.step * (problem.every or 1)
    rates = [np.diff(one, axis=0) / interval for one in moved]
    speeds, changes = (_typical(parts) for parts in (rates, [np.diff(r, axis=0) for r in rates]))
    known = zip(problem.model.freedoms, speeds, changes, strict=True)
    return {freedom.label: Speed(speed, change) for freedom, speed, change in known if speed > 0}


def _typical(parts: list[Array]) -> list[float]:
    """Root mean square of each column."""
    found: list[float] = np.sqrt(np.mean(np.concatenate(parts) ** 2, axis=0)).tolist()
    return found


def _moved(problem: Problem, trajectory: Trajectory, values: dict[str, float]) -> Array:
    """Coordinates of all joints, continuous in time, (N, n_s)."""
    poses = trajectory.q.reshape(len(trajectory.q), -1)
    return unwrapped(
        problem.model, displacements(problem.model, poses, problem.parameter_set.on(values, trajectory.name))
    )


def _experiment(assembly: Assembly, trajectories: tuple[Trajectory, ...], values: dict[str, float]) -> Experiment:
    problem = assembly.problem
    model = problem.model
    tree = [f for joint in JointCoordinates(model).tree for f in model.freedoms[model.freedoms_of(joint)]]
    motions = []
    for trajectory, sampled in zip(trajectories, assembly.sampled, strict=True):
        motions.append(Signals(_continuous(trajectory), sampled.acting.held))
    signals = [o.signal for o in problem.channels]
    constants = assembly.transcription.constants
    impulses = {
        name: float(constants[place])
        for size in assembly.noise
        if size.kind == "disturbance"
        for name, place in zip(size.names, size.places, strict=False)
    }
    return Experiment(
        problem.step,
        tuple(motions),
        tuple((o.signal, o.unit) for o in problem.channels),
        tuple((freedom.label, freedom.coordinate.effort) for freedom in tree),
        dict(zip(signals, assembly.sigmas.tolist(), strict=True)),
        impulses,
        _motors(problem, values),
        frozenset(o.signal for o in problem.channels if o.sensor.either_sign),
        tuple(_apart(assembly, chain) for chain in range(len(trajectories))),
    )


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


def _motors(problem: Problem, values: dict[str, float]) -> tuple[tuple[str, str, int, float], ...]:
    """Coordinate, signal, its place among the inputs and gain of motors whose signal is known."""
    signals = problem.model.signals
    return tuple(
        (
            m.label,
            m.signal,
            signals.index(m.signal),
            substitute(m.unit_effort, problem.parameter_set.on(values)).item(),
        )
        for m in problem.model.motors
        if not m.measured
    )
