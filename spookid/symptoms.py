"""Notices of what a model lacks, from the residuals of a fit whose noise was estimated."""

from __future__ import annotations

import numpy as np

from spookid import variations
from spookid.assembly import Assembly
from spookid.joint_coordinates import JointCoordinates
from spookid.kernels import Array
from spookid.kinematics import hinge_angles
from spookid.parameter import substitute
from spookid.problem import Problem
from spookid.solution import Trajectory
from spookid.solvers.contraction import Contraction
from spookid.statistics.likelihood_fit import Found
from spookid.statistics.misfit import Motion, Scene, Symptom, symptoms
from spookid.uncertainty import MISFIT


def notices(
    found: Found,
    contraction: Contraction,
    trajectories: tuple[Trajectory, ...],
    values: dict[str, float],
) -> list[str]:
    """One notice of all symptoms, strongest first; none if the residuals are what the noise makes them."""
    assembly = found.assembly
    if not assembly.noise:
        return []
    speeds = _speeds(assembly.problem, trajectories, values)
    declared = variations.causes(assembly, contraction, found.outcome.point, speeds, found.states)
    known = [np.zeros(contraction.linear.parameters)] * len(trajectories)
    volumes = np.array(known if found.states is None else [chain.sweep[0] for chain in found.states.chains])
    lacking = symptoms(contraction, _scene(assembly, trajectories, values), declared, volumes)
    if not lacking:
        return []
    told = "; ".join(map(_told, lacking))
    return [f"{MISFIT}: {told}. Estimates and standard errors mean little until the model has it, or it is ruled out."]


def _speeds(problem: Problem, trajectories: tuple[Trajectory, ...], values: dict[str, float]) -> dict[str, float]:
    """Root mean square of the rates of hinges that move, by their names [rad/s]."""
    rates = [np.diff(_angles(problem, t, values), axis=0) / problem.step for t in trajectories]
    speeds = np.sqrt(np.mean(np.concatenate(rates) ** 2, axis=0)).tolist()
    return {joint.name: speed for joint, speed in zip(problem.model.joints, speeds, strict=True) if speed > 0}


def _angles(problem: Problem, trajectory: Trajectory, values: dict[str, float]) -> Array:
    """Of all hinges, continuous in time, (N, n_j)."""
    poses = trajectory.q.reshape(len(trajectory.q), -1)
    return np.unwrap(hinge_angles(problem.model, poses, values), axis=0)


def _told(symptom: Symptom) -> str:
    return f"{symptom.words} ({abs(symptom.z):.0f} standard errors)"


def _scene(assembly: Assembly, trajectories: tuple[Trajectory, ...], values: dict[str, float]) -> Scene:
    problem = assembly.problem
    tree = JointCoordinates(problem.model).tree
    columns = [problem.model.joints.index(joint) for joint in tree]
    motions = []
    for trajectory, evidence in zip(trajectories, assembly.evidence, strict=True):
        angles = _angles(problem, trajectory, values)[:, columns]
        motions.append(Motion(_continuous(trajectory), angles, evidence.inputs))
    signals = [o.signal for o in problem.observations]
    constants = assembly.transcription.constants
    impulses = {
        name: float(constants[place])
        for size in assembly.noise
        if size.kind == "disturbance"
        for name, place in zip(size.names, size.places, strict=False)
    }
    return Scene(
        problem.step,
        tuple(motions),
        tuple((o.signal, o.unit) for o in problem.observations),
        tuple(joint.name for joint in tree),
        dict(zip(signals, assembly.sigmas.tolist(), strict=True)),
        impulses,
        _motors(problem, values),
    )


def _continuous(trajectory: Trajectory) -> Array:
    """What the sensors would show, continuous in time, (N, n_o)."""
    columns = [
        values if period is None else np.unwrap(values, period=period)
        for values, period in zip(trajectory.predicted.T, trajectory.periods, strict=True)
    ]
    return np.column_stack(columns)


def _motors(problem: Problem, values: dict[str, float]) -> tuple[tuple[str, str, int, float], ...]:
    """Hinge, signal, its place among the inputs and gain of motors whose signal is known."""
    signals = problem.model.signals
    return tuple(
        (m.hinge.name, m.signal, signals.index(m.signal), substitute(m.gain, values).item())
        for m in problem.model.motors
        if not m.measured
    )
