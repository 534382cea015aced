"""Findings on motion that the forces of a model do not explain, as where a sign is reversed.

Where what disturbs a coordinate exceeds all that acts along it, of motors, gravity, loads, friction and the motion of
other bodies, the fit has put the disturbance in the place of the mechanics.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import casadi as ca
import numpy as np

from spookid.assembly.assembly import Assembly
from spookid.assembly.declaration import Declaration
from spookid.assembly.trajectories import along
from spookid.data.channels import BENT
from spookid.kernels.arrays import Array, contiguous
from spookid.mechanics.joint_coordinates import JointCoordinates
from spookid.mechanics.model import Model
from spookid.parameter import stacked
from spookid.results.findings import Finding
from spookid.results.motion import rms, rms_of_samples
from spookid.results.trajectory import Trajectory
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


def excess_findings(problem: Declaration, motion: Sequence[Trajectory]) -> list[Finding]:
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
