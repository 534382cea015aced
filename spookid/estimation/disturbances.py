"""Estimated process noise of each recording with standard errors, and findings on too large process noise.

Process noise that replaces the mechanics indicates, for example, a reversed sign, or measurement noise that is fitted
as motion. The estimate is the posterior given all data. The weighted residuals of a step are r = w/(s √h), of unit
variance. With H = JᵀJ in states and parameters, r has the mean r̂ and the covariance J H⁻¹Jᵀ. In closed loops, λ and
the random impulses along the coordinates of cut joints are private to the step: r̂ and J are known in the complement C
of their rows P only, and the remainder keeps its prior covariance,

    cov r = C (J H⁻¹Jᵀ) Cᵀ + PPᵀ,

which does not affect the motion: λ balances everything in the range of Jᵀ of the loop constraints, and the projector
removes P except for the noise of measured efforts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from spookid.assembly.assembly import Assembly
from spookid.assembly.problem import Problem
from spookid.assembly.trajectories import along, noise_of_impulses
from spookid.estimation.suspects import is_robust
from spookid.kernels.arrays import Array, contiguous
from spookid.kernels.precision import HALF_DIGITS
from spookid.mechanics.joint_coordinates import JointCoordinates, Projection, disturbance_units
from spookid.mechanics.model import Model
from spookid.parameter import stacked
from spookid.results.findings import Finding
from spookid.results.result import Noise
from spookid.results.trajectory import Trajectory, rms, rms_of_samples
from spookid.results.values import Disturbance
from spookid.results.wording import is_seen
from spookid.statistics.condensing import Condensed
from spookid.statistics.whiteness import OFF
from spookid.tables.table import quantity
from spookid.transcription.factor import measured_noise
from spookid.transcription.transcription import Point


def unexplained_findings(assembly: Assembly, point: Point, motion: Sequence[Trajectory]) -> list[Finding]:
    """One that names the coordinates of the tree, among those that inputs or gravity drive, whose process noise is
    larger than what acts along them at rest, for friction moves nothing: the data contradict the model. Where
    loops close, all of it is less what the joints bear."""
    problem = assembly.problem
    model, joints = problem.model, JointCoordinates(problem.model)
    found = [one for one in _outweighed(assembly, point, motion) if one.driven]
    if not found:
        return []
    closed = model.has_loops or model.ties  # where other coordinates of a loop move as this one does
    carried = [] if closed else [_needed(assembly, point, c, t)[0] for c, t in enumerate(motion)]
    told, units = {}, {freedom.label: freedom.coordinate.effort for freedom in model.freedoms}
    for label, size, acting, _ in found:
        place = joints.names.index(label)
        force = acting if closed else float(np.hypot(acting, rms(np.concatenate(carried)[:, place])))
        if size > force:
            told[label] = size, force, units[label]
    signs = ", ".join(["a sensor", "a joint axis", "gravity", *dict.fromkeys(motor.signal for motor in model.motors)])
    cause = f"Is a sign reversed ({signs}), a unit wrong, or a force missing?"
    said = "The process noise exceeds all forces of the model", "The data contradict the model."
    return _exceeding("motion.unexplained", told, ("disturbance", "acting"), said, cause=cause)


class _Outweighed(NamedTuple):
    """A coordinate of the tree whose process noise is larger than what acts along it at rest (rms) [N or N m]."""

    label: str
    size: float
    acting: float
    driven: bool
    """True if inputs or gravity drive it."""


def _outweighed(assembly: Assembly, point: Point, motion: Sequence[Trajectory]) -> list[_Outweighed]:
    problem = assembly.problem
    if not problem.estimates_noise or problem.is_hard:
        return []
    joints, labels = JointCoordinates(problem.model), assembly.transcription.motion.noise
    bases = [_projected(assembly, point, c, t) for c, t in enumerate(motion)]
    disturbed = np.concatenate([_disturbing(assembly, t, basis) for t, basis in zip(motion, bases, strict=True)])
    parts = zip(*(_acting(assembly, point, c, t, bases[c], resting=True) for c, t in enumerate(motion)), strict=True)
    acting, driving = map(np.concatenate, parts)
    found = []
    for label in (label for label in _tree(joints) if label in labels):
        place = joints.names.index(label)
        size = rms(disturbed[:, place])
        if size > (force := rms(acting[:, place])):
            found.append(_Outweighed(label, size, force, bool(np.any(driving[:, place] > HALF_DIGITS * size))))
    return found


def left_to_noise(assembly: Assembly, point: Point, motion: Sequence[Trajectory]) -> list[str]:
    """Coordinates whose process noise exceeds their loads and motor efforts, and sensors whose signal is mostly
    noise."""
    found = [one.label for one in _outweighed(assembly, point, motion)]
    for i, channel in enumerate(assembly.problem.channels):
        shown = np.concatenate([trajectory.observed[:, i] for trajectory in motion])
        if math.sqrt(2) * rms_of_samples(motion, i) > np.nanstd(shown):
            found.append(channel.signal)
    return found


def all_efforts(assembly: Assembly, point: Point, motion: Sequence[Trajectory]) -> dict[str, float]:
    """Root mean square of loads and motor efforts along each coordinate of the tree, by its label [N or N m]; empty for
    closed loops, where joint forces are unknown."""
    model = assembly.problem.model
    if model.has_loops or model.ties:
        return {}
    parts = [(_acting(assembly, point, c, t)[0], *_needed(assembly, point, c, t)) for c, t in enumerate(motion)]
    squares = np.concatenate([acting**2 + coupling**2 + own**2 for acting, coupling, own in parts])
    totals = np.sqrt(np.nanmean(squares, axis=0)).tolist()
    return dict(zip(_tree(JointCoordinates(model)), totals, strict=True))


def excess_findings(problem: Problem, motion: Sequence[Trajectory]) -> list[Finding]:
    """Warning about sensors whose residuals far exceed their given sigma; sensors with a robust loss are exempt."""
    given = [(i, c, c.sigma) for i, c in enumerate(problem.channels) if c.sigma and not is_robust(c)]
    sizes = {channel.signal: (rms_of_samples(motion, i), sigma, channel.unit) for i, channel, sigma in given}
    told = {signal: one for signal, one in sizes.items() if one[0] > OFF * one[1]}
    said = "The residuals of sensors far exceed their sigma", "This minimum does not explain the data."
    advice = "Try other starts (starts=20), and look for a missing effect in the model, or for a wrong sigma or unit."
    return _exceeding("residuals.excess", told, ("rms", "sigma"), said, advice=advice)


def _exceeding(
    code: str, told: Mapping[str, tuple[float, float, str]], keys: tuple[str, str], said: tuple[str, str], **words: str
) -> list[Finding]:
    """One of root mean squares that exceed something, by name with that and their unit; none if there are none."""
    sizes = (f"{name} {quantity(a, unit, 2)} against {quantity(b, unit, 2)}" for name, (a, b, unit) in told.items())
    evidence = {name: dict(zip(keys, one[:2], strict=True)) for name, one in told.items()}
    effect = f"{said[0]} (rms): {'; '.join(sizes)}. {said[1]}"
    return [Finding(code, tuple(told), evidence, effect, **words)] if told else []


def _tree(joints: JointCoordinates) -> tuple[str, ...]:
    """Labels of the coordinates of the tree's joints, the first of all rates."""
    return joints.names[: len(joints.names) - 6 * len(joints.roots)]


def _symbols(model: Model) -> tuple[ca.SX, ca.SX, ca.SX]:
    n = model.configuration.tangent
    return ca.SX.sym("q", model.configuration.ambient), ca.SX.sym("v", n), ca.SX.sym("a", n)


def _acting(
    assembly: Assembly,
    point: Point,
    chain: int,
    trajectory: Trajectory,
    basis: Array | None = None,
    resting: bool = False,
) -> tuple[Array, Array]:
    """Root of the squares of gravity with loads on points, of loads, of motors and of dry friction along each
    coordinate of the tree, and of gravity and motors alone, (N, n_t) each [N or N m]; ``basis``: of what loops leave;
    ``resting``: without what loads of joints add in motion, and without dry friction."""
    model, joints = assembly.problem.model, JointCoordinates(assembly.problem.model)
    q, v, _ = _symbols(model)
    u = ca.SX.sym("u", len(model.inputs))
    weight = joints.transmitted(q, model.weight() + model.pushed(q, v, u)).along
    rates = ca.SX(len(model.freedoms), 1) if resting else model.rates(q, v)
    inputs, at = model.by_signal(u), model.displacements(q)
    loads, motors = [], ca.SX.zeros(len(model.freedoms))
    for joint in model.joints:
        own = model.freedoms_of(joint)
        width = assembly.settings.slip_width[own, 0]
        loads.append(model.effort(joint, at[own, 0], rates[own, 0], inputs, width, (at, rates)))
    for motor in model.motors:
        place = model.freedoms_of(motor.joint).start + motor.coordinate
        motors[place] += motor.driving_effort(u[model.signals.index(motor.signal)])
    every = ca.vertcat(weight, stacked(loads), motors)
    held = contiguous(assembly.sampled[chain].acting.held)
    values = along([q, v, u], every, [*_states(trajectory), held], assembly.numbers(point, chain))
    n, slips, tree = len(joints.names), len(model.freedoms), len(_tree(joints))
    friction = np.nan_to_num(trajectory.friction) / assembly.problem.step * (not resting)

    def left(forces: Array) -> Array:
        """What reactions of loops leave of forces along the coordinates of the tree, free bodies and cut joints."""
        return forces[:, :tree] if basis is None else np.einsum("kij,kj->ki", basis[:, :tree], forces)

    def of_joints(forces: Array) -> Array:
        """The same of forces along the coordinates of all joints."""
        own, cut = forces[:, joints.places[:tree]], forces[:, joints.cut_places]
        return left(np.hstack([own, np.zeros((len(own), n - tree)), cut]))

    heavy = np.hstack([values[:, :n], np.zeros((len(values), len(joints.cut_places)))])
    driving = left(heavy) ** 2 + of_joints(values[:, n + slips :]) ** 2
    resisting = of_joints(values[:, n : n + slips]) ** 2 + of_joints(friction) ** 2
    return np.sqrt(driving + resisting), np.sqrt(driving)


def _needed(assembly: Assembly, point: Point, chain: int, trajectory: Trajectory) -> tuple[Array, Array]:
    """What the motion of other coordinates asks of each coordinate of the tree, and what its own acceleration does,
    (N, n_t) [N or N m]."""
    model, joints = assembly.problem.model, JointCoordinates(assembly.problem.model)
    q, v, a = _symbols(model)
    p = ca.SX.sym("p", model.configuration.tangent)
    whole, turning = model.inertia() @ a, []
    for i, body in enumerate(model.bodies):
        omega = v[6 * i + 3 : 6 * i + 6]
        turning.append(ca.vertcat(ca.SX(3, 1), ca.cross(omega, body.inertia @ omega)))
    carried = joints.transmitted(q, p).along
    S = ca.jacobian(carried, p).T
    needed = ca.substitute(carried, p, whole + ca.vertcat(*turning))
    own = ca.vertcat(*(S[:, j].T @ model.inertia() @ S[:, j] for j in range(S.shape[1])))
    states = _states(trajectory)
    slopes = np.gradient(states[1], assembly.problem.step, axis=0)
    constants = assembly.numbers(point, chain)
    values = along([q, v, a], ca.vertcat(needed, own), [*states, contiguous(slopes)], constants)
    n, tree = len(joints.names), len(_tree(joints))
    rates = along([q, v], model.rates(q, v), states, constants)[:, joints.places[:tree]]
    changes = np.gradient(rates, assembly.problem.step, axis=0)
    own_part = values[:, n : n + tree] * changes
    return values[:, :tree] - own_part, own_part


def _states(trajectory: Trajectory) -> list[Array]:
    """q (N, 7 n_b) and v (N, 6 n_b)."""
    return [contiguous(part.reshape(len(trajectory.t), -1)) for part in (trajectory.q, trajectory.v)]


def followed_findings(noise: Sequence[Noise], motion: Sequence[Trajectory]) -> list[Finding]:
    """Warnings about sensors whose estimated noise is not identifiable: those without residuals, and measured efforts,
    which drive the motion as if they had no noise."""
    unseen = [name for one in noise if one.kind == "sensor" and not is_seen(one) for name in one.names]
    signals = motion[0].signals if motion else ()
    found = []
    for column, name in ((signals.index(name), name) for name in unseen if name in signals):
        shown = np.concatenate([trajectory.observed[:, column] for trajectory in motion])
        shown = shown[np.isfinite(shown)]
        if shown.size and rms_of_samples(motion, column) <= HALF_DIGITS * np.std(shown):
            found.append(name)
    efforts = [name for name in unseen if name not in signals]
    told = []
    if found:
        each = "its sensor" if len(found) == 1 else "each sensor"
        said = f"The estimated motion follows {', '.join(found)} exactly"
        effect = f"{said}: their estimated noise is zero, and measurement errors appear as motion."
        advice = f"If the sensor has noise, give {each} the known standard deviation sigma=, or use a longer step."
        told.append(Finding("sensors.overfitted", tuple(found), {}, effect, advice=advice))
    if efforts:
        effect = (
            f"The noise of forces or torques {', '.join(efforts)} is not identifiable and set to zero: other noise or "
            "process noise explains the residuals as well. Standard errors assume that this noise is zero."
        )
        advice = "Declare JointTorque or JointForce with the known noise standard deviation sigma."
        told.append(Finding("sensors.overfitted", tuple(efforts), {}, effect, advice=advice))
    return told


# --- of each recording ---

HARD = "the dynamics are deterministic: there is no process noise"
GIVEN = "a weight was given, which determines no process noise"
UNDETERMINED = "the states are not determined"


def disturbances(
    assembly: Assembly, point: Point, condensed: Condensed | None, motion: Sequence[Trajectory]
) -> tuple[Disturbance, ...]:
    """Process noise of each recording; zero for deterministic dynamics, NaN if its size is unknown."""
    problem, labels, units = assembly.problem, _labels(assembly.problem.model), _units(assembly.problem.model)
    if problem.estimates_noise and not problem.is_hard:
        return tuple(_of(assembly, point, condensed, c, trajectory) for c, trajectory in enumerate(motion))
    why, size = (GIVEN, np.nan) if problem.is_weighted else (HARD, 0.0)
    none = (np.full((len(t.t), len(labels)), np.nan) for t in motion)
    return tuple(
        Disturbance(t.name, labels, units, why, t.t, np.full_like(error, size), error)
        for t, error in zip(motion, none, strict=True)
    )


def _of(
    assembly: Assembly, point: Point, condensed: Condensed | None, chain: int, trajectory: Trajectory
) -> Disturbance:
    model, random = assembly.problem.model, _random(assembly)
    sizes = noise_of_impulses(assembly)[: len(random)] * random / assembly.problem.step
    basis = _projected(assembly, point, chain, trajectory)
    labels, units = _labels(model), _units(model)
    whole = np.eye(len(random))[None] if basis is None else basis
    disturbed = np.abs(whole[:, :, random]).max(axis=(0, 2), initial=0.0)
    kept = np.flatnonzero(disturbed > HALF_DIGITS)  # what is measured is disturbed only through loops
    whole, value = whole[:, kept], _disturbing(assembly, trajectory, basis)[:, kept]
    error = np.full(value.shape, np.nan)
    if condensed is not None:
        found = _errors(condensed, chain, whole * sizes)
        error[1 : len(found) + 1] = found
    chosen = tuple(labels[i] for i in kept), tuple(units[i] for i in kept)
    return Disturbance(
        trajectory.name, *chosen, "" if condensed is not None else UNDETERMINED, trajectory.t, value, error
    )


def _random(assembly: Assembly) -> NDArray[np.bool_]:
    """True for the coordinates of the tree, of free bodies and of cut joints that have process noise."""
    joints, motors = JointCoordinates(assembly.problem.model), assembly.problem.model.motors
    measured = {measured_noise(motor.signal) for motor in motors if motor.measured}
    count = len(joints.places) + len(joints.cut_places)  # what rows follow are those of contacts
    return np.array([label not in measured for label in assembly.transcription.motion.noise[:count]], dtype=bool)


def _disturbing(assembly: Assembly, trajectory: Trajectory, basis: Array | None) -> Array:
    """Process noise along the coordinates of the tree and of free bodies, (N, n) [N or N m]; ``basis``: of what loops
    leave."""
    random = _random(assembly)
    impulses = np.where(random, np.nan_to_num(trajectory.impulse_residual[:, : len(random)]), 0.0)
    value = impulses if basis is None else np.einsum("kij,kj->ki", basis, impulses)
    value[np.isnan(trajectory.impulse_residual).any(axis=1)] = np.nan
    return np.asarray(value / assembly.problem.step)


def _errors(condensed: Condensed, chain: int, made: Array) -> Array:
    """Of what matrices (N or 1, n, m) make of the first m weighted residuals, from the second step on, (count, n)."""
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
    """True for the contacts whose λ is free in the step around each t_k, (N, n_c): they hold from a step to the next,
    (N − 1, n_c), beside it."""
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
