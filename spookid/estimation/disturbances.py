"""What disturbed the motion of each recording, with standard errors: the posterior of what is random, all data given.

The random rows of a step are r = w/(s √h), of unit variance. With H = JᵀJ in states and parameters, r has the mean r̂
and the covariance J H⁻¹Jᵀ. Where loops close, λ and the random impulses along the coordinates of cut joints are private
to the step: r̂ and J are known in the complement C of their rows P alone, and the rest is what it was before any data,

    cov r = C (J H⁻¹Jᵀ) Cᵀ + PPᵀ,

which is nothing that moves the mechanism: λ takes up whatever stands in the range of Jᵀ of the closing rows, and the
projector takes P away but for noise of measured efforts in it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from spookid.assembly.assembly import Assembly
from spookid.assembly.trajectories import along, noise_of_impulses
from spookid.kernels.arrays import Array, contiguous
from spookid.mechanics.joint_coordinates import JointCoordinates, Projection, disturbance_units
from spookid.mechanics.model import Model
from spookid.results.trajectory import Trajectory
from spookid.results.values import Disturbance
from spookid.statistics.condensing import Condensed
from spookid.transcription.factor import measured_noise
from spookid.transcription.transcription import Point

HARD = "the dynamics are hard: nothing disturbs the motion"
GIVEN = "a state weight was given, which is no size of a disturbance"
_NOTHING = 1e-9
"""Share of a disturbance elsewhere that is rounding."""
UNDETERMINED = "the states are not determined"


def disturbances(
    assembly: Assembly, point: Point, condensed: Condensed | None, motion: Sequence[Trajectory]
) -> tuple[Disturbance, ...]:
    """One for each recording; zero where the dynamics are hard, NaN where nothing says how large it may be.

    Args:
        condensed: the fit linearized at its noise; None if the states are not determined.
    """
    if not assembly.problem.estimates_noise or assembly.problem.is_hard:
        return tuple(_none(assembly, trajectory) for trajectory in motion)
    return tuple(_of(assembly, point, condensed, c, trajectory) for c, trajectory in enumerate(motion))


def _none(assembly: Assembly, trajectory: Trajectory) -> Disturbance:
    labels, units = _labels(assembly.problem.model), _units(assembly.problem.model)
    shape = len(trajectory.t), len(labels)
    hard = assembly.problem.dynamics in ("estimated", "hard")
    value = np.full(shape, 0.0 if hard else np.nan)
    return Disturbance(
        trajectory.name, labels, units, HARD if hard else GIVEN, trajectory.t, value, np.full(shape, np.nan)
    )


def _of(
    assembly: Assembly, point: Point, condensed: Condensed | None, chain: int, trajectory: Trajectory
) -> Disturbance:
    model, step = assembly.problem.model, assembly.problem.step
    measured = {measured_noise(motor.signal) for motor in model.motors if motor.measured}
    joints = JointCoordinates(model)
    along_all = len(joints.places) + len(joints.cut_places)  # what rows follow are those of contacts
    random = np.array([label not in measured for label in assembly.transcription.motion.noise[:along_all]])
    sizes = noise_of_impulses(assembly)[:along_all] * random / step
    whole = _projected(assembly, point, chain, trajectory)
    labels, units = _labels(model), _units(model)
    whole = np.eye(len(random))[None] if whole is None else whole
    disturbed = np.abs(whole[:, :, random]).max(axis=(0, 2), initial=0.0)
    kept = np.flatnonzero(disturbed > _NOTHING)  # what is measured is disturbed only through loops
    whole = whole[:, kept]
    impulses = np.where(random, np.nan_to_num(trajectory.impulse_residual[:, :along_all]), 0.0) / step
    value = np.matmul(whole, impulses[:, :, None])[:, :, 0]
    value[np.isnan(trajectory.impulse_residual).any(axis=1)] = np.nan
    error = np.full(value.shape, np.nan)
    if condensed is not None:
        found = _errors(condensed, chain, whole * sizes)
        error[1 : len(found) + 1] = found
    chosen = tuple(labels[i] for i in kept), tuple(units[i] for i in kept)
    return Disturbance(
        trajectory.name, *chosen, "" if condensed is not None else UNDETERMINED, trajectory.t, value, error
    )


def _errors(condensed: Condensed, chain: int, made: Array) -> Array:
    """Of what matrices (N or 1, n, m) make of the first m random rows, from the second step on, (count, n)."""
    terms = condensed.linearized.chains[chain]
    place = next(i for i, term in enumerate(terms) if term.factor.motion)
    known, complement = condensed.covariances(chain, place), terms[place].complement
    at = made if len(made) == 1 else made[1 : len(known) + 1]
    free = 0.0
    if complement is not None:
        before = np.einsum("kij,kij->ki", at, at)
        at = np.matmul(at, complement[:, : at.shape[2]])
        free = before - np.einsum("kij,kij->ki", at, at)
    else:
        known = known[:, : at.shape[2], : at.shape[2]]
    variances = free + np.einsum("kij,kij->ki", np.matmul(at, known), at)
    return np.asarray(np.sqrt(np.maximum(variances, 0.0)))


def _projected(assembly: Assembly, point: Point, chain: int, trajectory: Trajectory) -> Array | None:
    """Nᵀ[I, B] at each step, (N, n, rows); None where nothing closes."""
    model = assembly.problem.model
    if not JointCoordinates(model).closing:
        return None
    projection = Projection(model)
    q, value = projection.ingredients
    poses = contiguous(trajectory.q.reshape(len(trajectory.t), -1))
    held = assembly.sampled[chain].held
    return projection.matrices(along([q], value, [poses], assembly.numbers(point, chain)), _bearing(held))


def _bearing(held: Array) -> Array:
    """True for the contacts whose λ is free in the step around each t_k, for they hold in an interval beside it,
    (N, n_c).

    Args:
        held: those that hold from each step to the next, (N − 1, n_c).
    """
    if not held.size:
        return np.zeros((len(held) + 1, held.shape[1]), dtype=bool)
    wide = np.vstack([held[:1], held, held[-1:], held[-1:]])  # of intervals −1 to N
    return np.asarray((wide[:-2] + wide[1:-1] + wide[2:]) > 0)


def _labels(model: Model) -> tuple[str, ...]:
    """Of the coordinates of the tree and of free bodies, each with its axis."""
    names = JointCoordinates(model).names
    tree = len(names) - 6 * len(JointCoordinates(model).roots)
    return (*names[:tree], *(f"{name} {'xyz'[i % 3]}" for i, name in enumerate(names[tree:])))


def _units(model: Model) -> tuple[str, ...]:
    units = disturbance_units(model)
    return tuple(units[place] for place in JointCoordinates(model).places)
