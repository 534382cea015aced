"""Findings on motion that the forces of a model do not explain, as where a sign is reversed.

Where what disturbs a coordinate exceeds all that acts along it, of motors, gravity, loads, friction and the motion of
other bodies, the fit has put the disturbance in the place of the mechanics.

Findings on sensors and measured efforts that the estimated motion follows exactly, so that their errors count as
motion.

Whether the data show the sizes of noise that were given for sensors.

A sigma that is too small makes the motion follow the sensor's noise, and what disturbs the motion so large that forces
tell little; one that is too large hides what sensors show. The slope of the likelihood in a size tells at once that it
is off, and a fit in which it is estimated what it is. Where that fit tells doubts of its own, they are the cause.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from typing import NamedTuple

import casadi as ca
import numpy as np

from spookid.assembly.assembly import Assembly
from spookid.assembly.problem import Problem
from spookid.assembly.trajectories import along
from spookid.data.channels import BENT, Sensor
from spookid.kernels.arrays import Array, contiguous
from spookid.mechanics.joint_coordinates import JointCoordinates
from spookid.mechanics.model import Model
from spookid.parameter import stacked
from spookid.results.findings import Finding
from spookid.results.motion import rms, rms_of_samples
from spookid.results.result import Noise, Solution
from spookid.results.trajectory import Trajectory
from spookid.results.wording import is_seen
from spookid.solvers.status import Status
from spookid.statistics.whiteness import limit
from spookid.tables.table import quantity
from spookid.transcription.transcription import Point

_FAR = 5.0
"""Times its sigma that residuals of a sensor may be in root mean square: more is no matter of how well it is known."""


def unexplained_findings(assembly: Assembly, point: Point, motion: Sequence[Trajectory]) -> list[Finding]:
    """One that names the coordinates of the tree whose disturbance is larger than what acts along them.

    None where no noise is estimated, or where loops close and joints of the tree bear what is not known here.
    """
    problem = assembly.problem
    model = problem.model
    if not problem.estimates_noise or problem.is_hard or model.has_loops or model.ties:
        return []
    joints, labels = JointCoordinates(model), assembly.transcription.motion.noise
    random = [label for label in _tree(joints) if label in labels]
    if not random:
        return []
    disturbed = _stacked([t.impulse_residual / problem.step for t in motion])
    acting = _stacked([_acting(assembly, point, c, t) for c, t in enumerate(motion)])
    sizes = {label: rms(disturbed[:, labels.index(label)]) for label in random}
    forces = {label: rms(acting[:, joints.names.index(label)]) for label in random}
    found = [label for label in random if sizes[label] > forces[label]]
    if not found:
        return []
    carried = _stacked([_coupling(assembly, point, c, t) for c, t in enumerate(motion)])
    told = {}
    for label in found:
        force = float(np.hypot(forces[label], rms(carried[:, joints.names.index(label)])))
        if sizes[label] > force:
            told[label] = _Excess(sizes[label], force, _units(model)[label])
    if not told:
        return []
    signals = ", ".join(dict.fromkeys(motor.signal for motor in model.motors))
    driven = f" or of {signals}" if signals else ""
    evidence = {label: {"disturbance": one.size, "acting": one.against} for label, one in told.items()}
    said = "What disturbs the motion exceeds all that acts in the model"
    effect = f"{said} (rms): {_listed(told)}. The model does not explain the motion."
    signs = f"Is the sign of a sensor, of the axis of a joint, of gravity{driven} reversed"
    return [Finding("motion.unexplained", tuple(told), evidence, effect, f"{signs}, a unit wrong, or a force missing?")]


def excess_findings(problem: Problem, motion: Sequence[Trajectory]) -> list[Finding]:
    """One that names the sensors whose samples are far farther off than the sigma that was given for them; none of
    those with a robust loss."""
    told = {}
    for i, channel in enumerate(problem.channels):
        if channel.sigma and channel.loss not in BENT:
            size = rms_of_samples(motion, i)
            if size > _FAR * channel.sigma:
                told[channel.signal] = _Excess(size, channel.sigma, channel.unit)
    if not told:
        return []
    evidence = {signal: {"rms": one.size, "sigma": one.against} for signal, one in told.items()}
    said = "The fit misses what sensors show by far more than their sigma"
    effect = f"{said} (rms): {_listed(told)}. This minimum does not explain the data."
    advice = "Try other starts (starts=20), and look for what the model lacks, or for a sigma or a unit that is wrong."
    return [Finding("residuals.excess", tuple(told), evidence, effect, advice=advice)]


class _Excess(NamedTuple):
    """Root mean square of something, what it exceeds, and the unit of both."""

    size: float
    against: float
    unit: str


def _listed(told: Mapping[str, _Excess]) -> str:
    return "; ".join(
        f"{name} {quantity(one.size, one.unit, 2)} against {quantity(one.against, one.unit, 2)}"
        for name, one in told.items()
    )


def _units(model: Model) -> dict[str, str]:
    return {freedom.label: freedom.coordinate.effort for freedom in model.freedoms}


def _tree(joints: JointCoordinates) -> tuple[str, ...]:
    """Labels of the coordinates of the tree's joints, the first of all rates."""
    return joints.names[: len(joints.names) - 6 * len(joints.roots)]


def _stacked(parts: Sequence[Array]) -> Array:
    return np.concatenate(parts)


def _symbols(model: Model) -> tuple[ca.SX, ca.SX, ca.SX]:
    n = model.configuration.tangent
    return ca.SX.sym("q", model.configuration.ambient), ca.SX.sym("v", n), ca.SX.sym("a", n)


def _acting(assembly: Assembly, point: Point, chain: int, trajectory: Trajectory) -> Array:
    """Root of the squares of gravity with loads on points, of loads, of motors and of dry friction along each
    coordinate of the tree, (N, n_t) [N or N m]."""
    model, joints = assembly.problem.model, JointCoordinates(assembly.problem.model)
    q, v, _ = _symbols(model)
    u = ca.SX.sym("u", len(model.signals))
    weight = joints.transmitted(q, model.weight() + model.pushed(q, v, u)).along
    rates, inputs = model.rates(q, v), {signal: u[i] for i, signal in enumerate(model.signals)}
    loads, motors = [], ca.SX.zeros(len(model.freedoms))
    for joint in model.joints:
        own = model.freedoms_of(joint)
        width = assembly.settings.slip_width[own, 0]
        loads.append(joint.effort(model.joint(joint, q).displacement, rates[own, 0], inputs, width))
    for motor in model.motors:
        place = model.freedoms_of(motor.joint).start + motor.coordinate
        motors[place] += motor.effort(u[model.signals.index(motor.signal)])
    every = ca.vertcat(weight, stacked(loads), motors)
    held = contiguous(assembly.sampled[chain].acting.held)
    values = along([q, v, u], every, [*_states(trajectory), held], assembly.numbers(point, chain))
    n, slips = len(joints.names), len(model.freedoms)
    tree = joints.places[: len(_tree(joints))]
    total = values[:, : len(tree)] ** 2
    friction = np.nan_to_num(trajectory.friction) / assembly.problem.step
    for part in (values[:, n : n + slips], values[:, n + slips :], friction):
        total += part[:, tree] ** 2
    return np.sqrt(total)


def _coupling(assembly: Assembly, point: Point, chain: int, trajectory: Trajectory) -> Array:
    """What the motion of other coordinates asks of each coordinate of the tree, (N, n_t) [N or N m]."""
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
    return np.asarray(values[:, :tree] - values[:, n : n + tree] * changes)


def _states(trajectory: Trajectory) -> list[Array]:
    """q (N, 7 n_b) and v (N, 6 n_b)."""
    return [contiguous(part.reshape(len(trajectory.t), -1)) for part in (trajectory.q, trajectory.v)]


_ROUNDING = 1e-10
"""Error of a signal that is rounding, as a share of how far its values spread."""


def followed_findings(noise: Sequence[Noise], motion: Sequence[Trajectory]) -> list[Finding]:
    """Of sensors whose noise was estimated and is not seen: those that differ from the motion by rounding, and measured
    efforts, which drive it as if they had none."""
    unseen = [name for one in noise if one.kind == "sensor" and not is_seen(one) for name in one.names]
    signals = motion[0].signals if motion else ()
    found = [name for name in unseen if name in signals and _is_followed(motion, signals.index(name))]
    efforts = [name for name in unseen if name not in signals]
    told = []
    if found:
        each = "its sensor" if len(found) == 1 else "each sensor"
        said = f"The estimated motion follows {', '.join(found)} exactly"
        effect = f"{said}: no noise was found there, and what the samples err by counts as motion."
        advice = f"Unless they are free of noise, give {each} the sigma that is known of it, or the fit a longer step."
        told.append(Finding("sensors.overfitted", tuple(found), {}, effect, advice=advice))
    if efforts:
        effect = (
            f"The estimated motion follows the measured {', '.join(efforts)} as if without noise: the data do not tell "
            "that noise, as where other efforts or disturbances can stand for it, and standard errors take it for none."
        )
        advice = "Declare JointTorque or JointForce with the sigma that is known of it."
        told.append(Finding("sensors.overfitted", tuple(efforts), {}, effect, advice=advice))
    return told


def _is_followed(motion: Sequence[Trajectory], column: int) -> bool:
    values = np.concatenate([trajectory.observed[:, column] for trajectory in motion])
    known = values[np.isfinite(values)]
    return bool(known.size and rms_of_samples(motion, column) <= _ROUNDING * np.std(known))


_WORTH = math.log(1.25)
"""Difference of the logarithms of two sizes from which on standard errors by one of them are of no use."""


def given_noise_findings(
    problem: Problem, result: Solution, solve: Callable[[Problem], Solution]
) -> Iterator[Finding]:
    """One that names the sensors whose sigma is not what the data show, if the model explains them with another.

    Args:
        result: of the problem.
        solve: a problem from its guesses.
    """
    off = refuted(problem, result)
    if not off or result.status is Status.INTERRUPTED:
        return
    freed = [_without_sigma(sensor) if off & set(sensor.signals) else sensor for sensor in problem.observations]
    found = solve(problem.with_(observations=freed, step=problem.step, step_correction=False))
    if found.status is not Status.CONVERGED or any(finding.doubts for finding in found.findings):
        return
    units = {channel.signal: channel.unit for channel in problem.channels}
    before = {one.names[0]: one.std for one in result.noise if one.kind == "sensor"}
    others = {
        name: one.std
        for one in found.noise
        if one.kind == "sensor" and (name := one.names[0]) in off and one.std > 0
        if abs(math.log(one.std / before[name])) > _WORTH
    }
    words = [f"{n} {quantity(std, units[n], 2)}, sigma={before[n]:g} was given" for n, std in others.items()]
    if others:
        evidence = {name: {"sigma": before[name], "estimate": std} for name, std in others.items()}
        said = "Noise that was given is not what the data show, which the model explains with"
        advice = "Leave sigma out, and it is estimated, or correct it."
        yield Finding("noise.given-refuted", tuple(others), evidence, f"{said} {'; '.join(words)}.", advice=advice)


def refuted(problem: Problem, result: Solution) -> set[str]:
    """Signals whose sigma was given and is off, by the slope of the likelihood; of quaternions nothing can be told, for
    their components are not independent of one another."""
    bound = {channel.signal for channel in problem.channels if channel.sensor.either_sign}
    given = [one for one in result.noise if one.kind == "sensor" and one.given and one.names[0] not in bound]
    return {one.names[0] for one in given if abs(one.score) > limit(len(given))}


def _without_sigma(sensor: Sensor) -> Sensor:
    other = copy(sensor)
    object.__setattr__(other, "sigma", None)
    return other
