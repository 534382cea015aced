"""What the equations of motion leave along a recording, and how that follows the parameters and a payload.

With positions that are low-passed and differentiated, each coordinate of a tree of joints leaves at each instant

    w = what the motion takes less what acts [N m or N],

linear in a payload's π = (m, m c, I about the origin of its frame). All of it passes the filter of the positions once
more, as in ``motor_efforts``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import casadi as ca
import numpy as np

from spookid.assembly.assembly import settings_of
from spookid.assembly.problem import Problem
from spookid.data.recording import Recording
from spookid.data.sampling import SPOILED, finite_samples, low_passed, spoiled_steps
from spookid.errors import ProblemError
from spookid.estimation.gaps import GAP
from spookid.kernels.arrays import Array, Mask, contiguous
from spookid.kernels.kernel import Kernel
from spookid.mechanics.body import Body, Frame
from spookid.mechanics.inertia import inertia_matrix, second_moment, six
from spookid.mechanics.joint_coordinates import JointCoordinates
from spookid.mechanics.kinematics import Recursion
from spookid.mechanics.model import Model
from spookid.mechanics.motor import Motor
from spookid.mechanics.regressor import moved
from spookid.parameter import stacked, substitute
from spookid.statistics.prior_regression import Rows
from spookid.stepping.joint_space import instant
from spookid.studies.motor_efforts import Measured, constants, recorded, sampled_every
from spookid.tables.table import number

_FINE = 5.0
"""Instants in a period of the cutoff: more would say the same."""
_STILL = 3.0
"""Friction widths below which a joint with dry friction may stick, and its row says nothing."""


@dataclass(frozen=True, eq=False)
class PayloadRows:
    """Regression equations of a payload along a recording, channel by channel."""

    names: tuple[str, ...]
    """What each is the balance of: a coordinate of a joint, or the force or torque on a free body."""
    units: tuple[str, ...]
    """N m or N."""
    motors: tuple[Motor | None, ...]
    """What drives it, if anything does."""
    rows: Rows
    cutoff: float
    """Of the filter [Hz]."""
    left_out: float
    """Duration of gaps, with what the filter makes of them [s]."""


def placed(frame: Frame, values: Mapping[str, float]) -> tuple[Array, Array]:
    """Pose of a frame on its body: origin in the body's frame (3,), and axes (3, 3), as numbers."""
    center = ca.SX(3, 1) if frame.body.distribution is None else frame.body.distribution.center_of_mass
    at, axes = substitute(frame.at + center, values), substitute(frame.axes, values)
    return np.asarray(at), np.asarray(axes)


def fine_step(problem: Problem, recording: Recording, cutoff: float) -> float:
    """Time between evaluated instants [s], from the sampling interval or the cutoff [Hz]."""
    return max(sampled_every(recording, problem.channels), 1 / (_FINE * cutoff))


def with_values(problem: Problem, recording: Recording) -> Recording:
    """Part of a recording during which all sensors and inputs have values."""
    seen = [finite_samples(recording, channel.signal)[0] for channel in problem.channels]
    acting = [finite_samples(recording, name)[0] for name in problem.model.signals if name not in recording.before]
    start = max((t[0] for t in [*seen, *acting]), default=recording.t[0])
    stop = min((t[-1] for t in seen), default=recording.t[-1])
    if start <= recording.t[0] and stop >= recording.t[-1]:
        return recording
    return recording.between(start, math.nextafter(stop, math.inf))


def payload_rows(problem: Problem, parameters: Sequence[str], body: Body, place: tuple[Array, Array]) -> PayloadRows:
    """All rows of a recording.

    Args:
        problem: a tree of joints, with that recording, a step of ``fine_step``, and all parameters fixed at what was
            found.
        parameters: names of those that the rows are to be differentiated by.
        body: that carries the payload.
        place: of the payload's frame on the body.

    Raises:
        ProblemError: for a recording without a signal, or too short for the cutoff.
    """
    (recording,), settings = problem.recordings, settings_of(problem)
    motion, joints = recorded(problem, settings), JointCoordinates(problem.model)
    inner, gap = _inner(problem, motion), _gaps(problem, recording, motion.t)
    declared = {p.name: p for p in problem.parameters}
    places = [i for i, name in enumerate(parameters) if name in declared]
    own, equations = stacked(declared[parameters[i]] for i in places), instant(problem.model, settings)
    lacking = equations.lacking / settings.step
    slopes = [ca.jacobian(lacking, own), _payload(equations.symbols, joints, body, place)]
    symbols, numbers, widths = constants(problem, settings, motion.rates)
    parts = [ca.densify(lacking), *(ca.vertcat(*matrix.nonzeros()) for matrix in slopes)]
    function = ca.Function(
        "payload", [equations.symbols, equations.u, ca.vertcat(*symbols)], [ca.densify(stacked(parts))]
    )
    found = np.empty((len(motion.t), 1, function.numel_out(0)))
    Kernel(function, 2)([contiguous(motion.moving), contiguous(motion.inputs)], [contiguous(numbers)], found)
    still, rate = _still(problem, joints, motion, widths), 1 / problem.step
    found, still = (low_passed(one, rate, problem.cutoff)[inner] for one in (found[:, 0], still))
    left, by_parameters, by_payload = np.split(found, np.cumsum([lacking.numel(), slopes[0].nnz()]), axis=1)
    gains = np.zeros((lacking.numel(), len(parameters)))
    for motor in problem.model.motors:
        slope = substitute(ca.jacobian(motor.unit_effort, own) / motor.unit_effort, problem.guess)
        gains[joints.names.index(motor.label), places] = np.asarray(slope).ravel()
    of_parameters = -left[:, :, None] * gains  # of w over what the gain has become, that of a scale is 0
    of_parameters[:, :, places] += _spread(by_parameters, slopes[0])
    usable = np.where((still < 0.5) & ~gap[inner, None], 1.0, 0.0)
    rows = Rows(motion.t[inner], left, of_parameters, _spread(by_payload, slopes[1]), gains, usable)
    units = [problem.model.freedoms[i].coordinate.effort for i in joints.places if i < len(problem.model.freedoms)]
    units += ["N", "N", "N", "N m", "N m", "N m"] * len(joints.roots)
    driven = {motor.label: motor for motor in problem.model.motors}
    motors = tuple(driven.get(name) for name in joints.names)
    return PayloadRows(joints.names, tuple(units), motors, rows, problem.cutoff, float(gap.sum() * problem.step))


def _gaps(problem: Problem, recording: Recording, t: Array) -> Mask:
    """True at instants that are spoiled by samples that are missing, (N,)."""
    spoiled, wide = np.zeros(len(t), dtype=bool), SPOILED / problem.cutoff
    signals = {*(c.signal for c in problem.channels), *problem.model.signals}
    for signal in signals:
        stamps = finite_samples(recording, signal)[0]
        apart = np.diff(stamps)
        longest = max(GAP * float(np.median(apart)), 0.5 / problem.cutoff)
        for i in np.flatnonzero(apart > longest):
            spoiled |= (t > stamps[i] - wide) & (t < stamps[i + 1] + wide)
    return spoiled


def _inner(problem: Problem, motion: Measured) -> slice:
    """Without the ends that the filter spoils."""
    ends, recording = spoiled_steps(problem.cutoff, problem.step), problem.recordings[0]
    if len(motion.t) <= 4 * ends:
        raise ProblemError(
            f"recording {recording.name!r} lasts {number(recording.t[-1] - recording.t[0], 3)} s, too short for a "
            f"filter with a cutoff of {number(problem.cutoff)} Hz; give a longer recording, or raise the "
            "cutoff"
        )
    return slice(ends, -ends)


def _still(problem: Problem, joints: JointCoordinates, motion: Measured, widths: Array) -> Array:
    """1 where a joint that may stick does not turn, (N, n)."""
    freedoms = problem.model.freedoms
    still = (np.abs(motion.rates) < _STILL * widths) & np.array([one.rubs for one in freedoms], dtype=bool)
    free = np.zeros((len(motion.t), len(joints.places) - len(freedoms)))
    return np.hstack([still, free])[:, joints.places]


def _payload(symbols: ca.SX, joints: JointCoordinates, body: Body, place: tuple[Array, Array]) -> ca.SX:
    """How w follows the payload's π in its own frame, (n, 10)."""
    model: Model = joints.model
    n, ambient = joints.manifold.tangent, joints.manifold.ambient
    x, s, a = symbols[:ambient], symbols[-2 * n : symbols.numel() - n], symbols[-n:]
    motion, pi = Recursion(joints, x, s, a), ca.SX.sym("pi", 10)
    nothing = (ca.SX(3, 1), ca.SX(3, 1))
    center = ca.SX(3, 1) if body.distribution is None else body.distribution.center_of_mass
    wrenches = dict.fromkeys(model.bodies, nothing) | {body: moved(shifted(pi, *place), motion.bodies[body], center)}
    return ca.jacobian(motion.along(wrenches), pi)


def shifted(pi: ca.SX, at: Array, axes: Array) -> ca.SX:
    """Transform inertial parameters π to a frame with origin ``at`` and given axes, (10,)."""
    mass, moment, inertia = pi[0], ca.DM(axes) @ pi[1:4], inertia_matrix(pi[4:], "inertia")
    turned = ca.DM(axes) @ second_moment(inertia) @ ca.DM(axes).T
    arm = ca.DM(at)
    whole = turned + moment @ arm.T + arm @ moment.T + mass * (arm @ arm.T)
    return ca.vertcat(mass, moment + mass * arm, six(ca.trace(whole) * ca.SX.eye(3) - whole))


def _spread(values: Array, pattern: ca.SX) -> Array:
    """Numbers of the nonzeros at their places, (N, rows, columns)."""
    rows, columns = pattern.sparsity().get_triplet()
    found = np.zeros((len(values), *pattern.shape))
    found[:, rows, columns] = values
    return found
