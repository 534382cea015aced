"""Loops that cannot close are refused before a fit; those that leave bodies no freedom are told.

Constraints must take the same number of freedoms all along a recording, and inertias be those of bodies; turns of
angles that a stepper must tell and cannot are refused.

Coordinates of joints that nothing tells, as the angle of a flywheel of which a tachometer tells the rate.

No sensor shows such a coordinate and no force depends on it: it is cyclic, and may be moved all along a recording with
no change of anything that is measured. A row of the first state keeps it where its initial guess is, which is no
information.

What a user should know about how a problem was set up, before any fit, and what a fit asks of memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import casadi as ca
import numpy as np

from spookid.assembly.declared import uncorrected
from spookid.assembly.initialization import SampledRecording, lacking, seen_by
from spookid.assembly.problem import Problem
from spookid.assembly.schedules import idle_findings
from spookid.assembly.tracking import Tracking, state_at
from spookid.data.arrays import available
from spookid.data.channels import all_predicted, order
from spookid.data.interpolation import SHARE
from spookid.data.sampling import grid
from spookid.errors import ProblemError
from spookid.kernels.arrays import Array
from spookid.kernels.precision import DEPENDENT, EQUAL
from spookid.mechanics.constraints import Distance, LinearConstraint
from spookid.mechanics.contacts import Impact
from spookid.mechanics.holding import Touch
from spookid.mechanics.inertia import impossible
from spookid.mechanics.joint_coordinates import JointCoordinates
from spookid.mechanics.kinematics import Values, displacements, evaluated, rest_positions
from spookid.mechanics.manifold import jacobian
from spookid.mechanics.model import Model
from spookid.parameter import is_constant, parameters_in
from spookid.results.findings import Finding, ranked
from spookid.stepping.base import EXTRAPOLATED
from spookid.tables.table import number
from spookid.transcription.transcription import Transcription

OPEN = 1e-2
"""Violation of joints, as a share of how far the bodies are apart, or in rad, that is no rounding of lengths."""
_TRIALS = 20
"""Poses near that at rest from which a loop is closed."""


def check_closure(problem: Problem) -> None:
    """Raise ProblemError if loops cannot be closed, before they are followed along recordings.

    Loops whose lengths are sought are left to the fit.

    Raises:
        ProblemError: naming the joint that closes the loop and how far it stays open.
    """
    model, q = problem.model, ca.SX.sym("q", problem.model.configuration.ambient)
    rods = [tie for tie in model.ties if isinstance(tie, Distance)]
    loops = model.has_loops and bool(JointCoordinates(model).cut)
    if not (loops or rods):
        return
    held = model.holding.told_by_poses(q, tied=bool(rods))
    free = {p.name for p in problem.free} | {p.name for p in problem.parameter_set.own}
    if free & {p.name for p in parameters_in([held], "the model", ignore=[q])}:
        return
    values = problem.guess_on(None)
    if loops:
        _check_closes(model, q, values)
    if rods:
        _check_lengths(model, rods, q, values)


def _check_lengths(model: Model, rods: Sequence[Distance], q: ca.SX, values: Values) -> None:
    shares = (ca.fabs(model.holding.tied(rod, q)) / rod.length for rod in rods)
    tracking = Tracking(model, [], values)
    rest = tracking.at(rest_positions(model, values)[None])
    gaps = _nearest(tracking, rest, ca.vertcat(*shares), q, values, OPEN)
    if gaps.max() > OPEN:
        what = f"{rods[int(np.argmax(gaps))].what} has a length that no pose gives: {_TRIALS} were tried, and it stays"
        raise ProblemError(f"{what} off by a share of {gaps.max():.2g}; correct it, or make it a Parameter")


def _nearest(tracking: Tracking, rest: Array, off: ca.SX, q: ca.SX, values: Values, enough: float) -> Array:
    """Violations of rows in the first pose, of some near that at rest, that violates them little enough, or least."""
    rng, least = np.random.default_rng(0), np.full(1, np.inf)
    for count in (1, _TRIALS - 1):  # others than the pose at rest only if need be
        away = (count > 1) * rng.normal(size=(count, tracking.space.tangent))
        ended = tracking.settled(tracking.moved(np.repeat(rest, count, axis=0), away), np.zeros((count, 0)))
        gaps = evaluated(off, q, tracking.poses(ended), values)
        least = min(least, gaps[np.argmin(gaps.max(axis=1))], key=np.max)
        if least.max() <= enough:
            break
    return least


def _check_closes(model: Model, q: ca.SX, values: Values) -> None:
    parts = {joint: model.joint(joint, q).violation for joint in model.joints}
    sizes = [_size(g[: len(joint.linear)]) + _size(g[len(joint.linear) :]) for joint, g in parts.items()]
    positions = ca.vertcat(*(q[i : i + 3] for i in range(0, q.numel(), 7)))
    tracking = Tracking(model, [], values, tied=False)
    rest = tracking.at(rest_positions(model, values)[None])
    places = evaluated(positions, q, tracking.poses(rest), values).reshape(-1, 3)
    enough = OPEN * min(max(float(np.ptp(places, axis=0).max()), 1e-9), 1.0)
    least = _nearest(tracking, rest, ca.vertcat(*sizes), q, values, enough)
    if least.max() <= enough:
        return
    joint = JointCoordinates(model).cut[0]
    widest = model.joints[int(np.argmax(least))]
    raise ProblemError(
        f"{joint.place}: {joint.kind} {joint.name!r} closes a loop that cannot close: {_TRIALS} poses were tried, and "
        f"its joints stay {float(np.sum(least)):.3g} m or rad apart together, most of all {widest.kind} "
        f"{widest.name!r} with {float(np.max(least)):.3g}; correct the lengths of its links, or make one a Parameter"
    )


def _size(rows: ca.SX) -> ca.SX:
    return ca.norm_2(rows) if rows.numel() else ca.SX(0)


def welded_findings(problem: Problem, states: Array) -> list[Finding]:
    """Warning that joints allow no motion in any pose except by their compliance.

    Args:
        states: along a recording, (N, 13 n_b).
    """
    model, values = problem.model, problem.guess_on(None)
    poses = states[:, : model.configuration.ambient]
    if not (model.has_loops and JointCoordinates(model).cut):
        return []
    q = ca.SX.sym("q", model.configuration.ambient)
    held = model.holding.told_by_poses(q, tied=False)
    some = poses[np.linspace(0, len(poses) - 1, 5).astype(int)]
    G = ca.densify(jacobian(held, q, model.configuration))
    rows = evaluated(ca.vec(G.T), q, some, values).reshape(len(some), *G.shape)
    singular = np.linalg.svd(rows, compute_uv=False)
    if G.shape[0] < G.shape[1] or np.any(singular[:, G.shape[1] - 1] <= DEPENDENT * singular[:, 0]):
        return []
    names = tuple(joint.name for joint in JointCoordinates(model).cut)
    effect = (
        f"The mechanism has no degree of freedom: the loops of joints {', '.join(map(repr, names))} lock all bodies. "
        "Only compliant joints allow motion."
    )
    return [Finding("mechanism.immobile", names, effect=effect, advice="Remove a joint, or correct its axes.")]


_DEPENDENT = 3e-3
"""A row with so small a share of it left beside the others, against where most is left, depends on them; recordings
come no nearer to a pose where nothing is left than their samples do."""
_NOTHING = 1e-7
"""Where no more is ever left, a row follows from the others for good."""


def check_ranks(model: Model, poses: Array, times: Array, values: Values) -> None:
    """Raise ProblemError for a constraint whose equations are redundant in some poses but not in others.

    Nothing would determine its multipliers there, and the motion would have an additional degree of freedom.

    Args:
        poses: along a recording, (N, 7 n_b).
        times: of them, (N,) [s].

    Raises:
        ProblemError: naming the constraint, its row and a time.
    """
    if not model.ties:
        return
    matrices = _constraint_rows(model, poses, values)
    hits = [tie for tie in model.ties if isinstance(tie, Impact)]
    for tie in model.ties:
        own = model.rows_of(tie)
        # Impacts of different points happen at different times, and other rows hold without them.
        apart = {i for hit in hits if hit is not tie for i in _range(model.rows_of(hit))}
        for name, row in zip(model.holding.names[tie], range(own.start, own.stop), strict=True):
            left = _left(matrices[:, [other for other in range(row) if other not in apart]], matrices[:, row])
            k = int(np.argmin(left))
            if not np.isfinite(left).all():
                k = int(np.flatnonzero(~np.isfinite(left))[0])
                raise ProblemError(f"{tie.what}: row {name!r} has no finite derivative at {times[k]:g} s; write it so")
            if isinstance(tie, Touch) and np.max(left) <= _NOTHING:
                raise ProblemError(
                    f"{tie.what}: row {name!r} follows from joints and other contacts, so that its force is not known; "
                    "leave it out with axes=, or make one Weld of contacts on one body"
                )
            if not isinstance(tie, Impact) and np.max(left) > _NOTHING and left[k] < _DEPENDENT * np.max(left):
                raise ProblemError(
                    f"{tie.what}: row {name!r} takes no freedom at {times[k]:g} s, as it does elsewhere; leave that "
                    "part of the recording out, or write the constraint in another way"
                )


def _range(rows: slice) -> range:
    return range(rows.start, rows.stop)


def _constraint_rows(model: Model, poses: Array, values: Values) -> Array:
    """G, (N, n_g, 6 n_b), with rows of about length one."""
    q = ca.SX.sym("q", model.configuration.ambient)
    G = ca.densify(model.mechanics(q).constraint)
    rows = evaluated(ca.vec(G.T), q, poses, values).reshape(len(poses), *G.shape)
    typical = np.median(np.linalg.norm(rows, axis=2, keepdims=True), axis=0, keepdims=True)
    return np.asarray(rows / np.where(typical > 0, typical, 1.0))


def _left(others: Array, row: Array) -> Array:
    """Length of what others (N, n, m) leave of a row (N, m), (N,)."""
    if not others.shape[1] or not np.isfinite(others).all():
        return np.asarray(np.linalg.norm(row, axis=1))
    _, sizes, directions = np.linalg.svd(others, full_matrices=False)
    spanned = directions * (sizes > DEPENDENT * sizes[:, :1])[:, :, None]
    inside = np.einsum("knm,km->kn", spanned, row)
    return np.asarray(np.linalg.norm(row - np.einsum("knm,kn->km", spanned, inside), axis=1))


def given_inertias(model: Model) -> Iterator[Finding]:
    """One for each body.

    They are no error: of a body that turns about one axis the other moments are nobody's business, and are often made
    up.
    """
    for body in model.bodies:
        if is_constant(body.inertia) and (wrong := impossible(ca.DM(body.inertia).full())):
            effect = f"The inertia of body {body.name!r}, declared at {body.place}, is not physical: {wrong}."
            advice = "Correct the inertia if the body rotates about this axis."
            yield Finding("inertia.unphysical", (body.name,), effect=effect, advice=advice)


def check_turns(model: Model, poses: Array, times: Array, values: Mapping[str, float]) -> None:
    """Raise ProblemError if an angle passes ±π in the motion and a constraint depends on its number of turns.

    Args:
        poses: q at each step, (N, 7 n_b).
        times: of the steps, (N,) [s].
        values: number of every parameter.

    Raises:
        ProblemError: naming the constraint, the joint and the time.
    """
    ties = [tie for tie in model.ties if isinstance(tie, LinearConstraint) and not tie.told_by_poses]
    if not ties:
        return
    shown = displacements(model, poses, values)
    for tie, term in ((one, term) for one in ties for term in one.terms if term.turns_over):
        column = shown[:, model.freedoms_of(term.joint).start + term.coordinate]
        passed = np.flatnonzero(np.abs(np.diff(column)) > np.pi)
        if passed.size:
            raise ProblemError(
                f"{tie.what}: {term.label} passes half a turn at {times[passed[0] + 1]:g} s, and with this stepper a "
                "ratio that is a Parameter, or none of whole numbers, holds within half a turn to either side only; "
                "take Variational(), coordinates of joints, and leave constraints on velocities out"
            )


def cyclic(problem: Problem) -> list[int]:
    """Indices of tree coordinates that no sensor determines and on which no force depends.

    Not looked for where loops close, bodies are free, or what acts is not that of joints alone, but for constraints on
    velocities.
    """
    model = problem.model
    others = model.has_loops or model.contacts or model.holding.contacts or model.loads
    if others or problem.residuals or any(body.free for body in model.bodies):
        return []
    seen = seen_by(model, [c for c in problem.channels if order(c, model) == 0])
    candidates = [i for i in range(len(model.freedoms)) if i not in seen]
    if not candidates:
        return []
    rng, guess = np.random.default_rng(0), problem.guess_on()
    values = {name: value * rng.uniform(0.9, 1.1) for name, value in guess.items()}
    function, n = _felt(problem, values), len(model.freedoms)
    found = set(candidates)
    for _ in range(2):  # motions that are no special ones
        motion = rng.uniform(-1, 1, (3, n))
        felt = function(*motion).full()
        for i in candidates:
            shifted = motion.copy()
            shifted[0, i] += rng.uniform(0.3, 1.0)
            if not np.allclose(function(*shifted).full(), felt, rtol=EQUAL, atol=EQUAL * np.max(np.abs(felt))):
                found.discard(i)
    return sorted(found)


def _felt(problem: Problem, values: Values) -> ca.Function:
    """Of coordinates and their derivatives, (n_s,) each: what they take of the forces, what sensors show, and what
    constraints hold."""
    symbols = [ca.SX.sym(name, len(problem.model.freedoms)) for name in ("d", "rate", "acceleration")]
    state = state_at(problem.model, *symbols)
    held = [tie.rates(problem.model, state.q, state.v) for tie in problem.model.ties]
    shown = ca.vertcat(all_predicted(problem.channels, state), *held)
    parameters = parameters_in([shown], "sensors and constraints", ignore=symbols)
    (shown,) = ca.substitute([shown], list(parameters), [ca.SX(values[p.name]) for p in parameters])
    return ca.Function("felt", symbols, [ca.vertcat(lacking(problem.model, values)(*symbols), shown)])


def setup_findings(problem: Problem, sampled: Sequence[SampledRecording]) -> tuple[Finding, ...]:
    """Findings about a problem and the samples of its recordings, sorted by rank."""
    found = [*_rigid(problem), *_uncorrected(problem), *step_chosen(problem), *given_inertias(problem.model)]
    found += welded_findings(problem, sampled[0].guess.states)
    found += idle_findings(problem.model, [(one.recording, one.held) for one in sampled])
    for recording in problem.recordings:
        found += (Finding("recording.changed", (recording.name,), effect=note) for note in recording.notes)
    return ranked([*found, *(finding for one in sampled for finding in one.guess.findings)])


def _rigid(problem: Problem) -> list[Finding]:
    """That joints are not as compliant as declared, in a stepper whose joints are rigid."""
    soft = tuple(problem.stepper.stiffened(problem.model))
    effect = f"This stepper has rigid joints: it ignores the compliance and damping of joints {', '.join(soft)}."
    return [Finding("stepper.rigid", soft, effect=effect)] if soft else []


def step_chosen(problem: Problem) -> list[Finding]:
    """Note that the time step was chosen from the motion."""
    if problem.step != problem.bandwidth_step:
        return []
    taken = ", removed from the estimates by a fit with half the step, whose samples and residuals are shown"
    effect = (
        f"The time step {problem.step:g} s follows from the bandwidth of the motion: its discretization error is "
        f"{100 * SHARE:g} % of the forces and torques{taken if problem.corrects else ''}. Set step= to change the step."
    )
    return [Finding("step.chosen", evidence={"step": problem.step}, effect=effect)]


def _uncorrected(problem: Problem) -> list[Finding]:
    """That estimates are not those of continuous time although they were asked for."""
    asked = problem.estimates_noise and EXTRAPOLATED not in problem.stepper.refuses and problem.step_correction
    effect = (
        f"A model with {uncorrected(problem)} allows no extrapolation to step zero: estimates contain the "
        f"discretization error of the step h = {problem.step:g} s. A smaller step shows how large this error is."
    )
    return [Finding("step.uncorrected", (), {"step": problem.step}, effect)] if asked and uncorrected(problem) else []


_STATES = 100
"""Numbers that the initial states of a body take at each step, at least."""
_ENTRIES, _BY_WEIGHT = 40, 12
"""Numbers that a fit with its standard errors takes for each structural nonzero of the Jacobian, of estimated noise and
of given weights; one with half the step beside it takes as many again."""
_DOUBLE = np.dtype(np.float64).itemsize


def memory(problem: Problem, transcription: Transcription) -> float:
    """Memory of a fit, estimated from the nonzeros of the Jacobian, within a factor of two or three [bytes]."""
    entries = _ENTRIES if problem.estimates_noise else _BY_WEIGHT
    return float(_DOUBLE * entries * (2 if problem.corrects else 1) * transcription.nonzeros)


def check_states(problem: Problem) -> None:
    """Raise ProblemError if the initial states alone exceed memory, before other arrays are allocated.

    Raises:
        ProblemError: with its size.
    """
    steps = sum(grid(recording, problem.step).count for recording in problem.recordings)
    bodies = len(problem.model.bodies)
    _check_memory(problem, steps, f"states of {13 * bodies} numbers", _DOUBLE * _STATES * bodies * steps)


def check_fit(problem: Problem, transcription: Transcription) -> None:
    """Raise ProblemError if a fit exceeds memory, before the fit begins.

    Raises:
        ProblemError: with its size.
    """
    steps = sum(chain.steps for chain in transcription.chains)
    what = f"{transcription.unknowns:,} unknowns and {transcription.nonzeros:,} Jacobian nonzeros"
    _check_memory(problem, steps, what, memory(problem, transcription))


def _check_memory(problem: Problem, steps: int, what: str, needed: float) -> None:
    free = available()
    if needed > free:
        raise ProblemError(
            f"{problem.what} has {steps:,} steps of {number(problem.step)} s, with {what}: "
            f"some {size(needed)} of memory, of which {size(free)} may be had; take a larger step, step=, or shorter "
            "recordings, recording.between(start, stop), and see that their times are in seconds"
        )


def size(count: float) -> str:
    """Bytes in words."""
    share, unit = (count / 1e9, "GB") if count >= 1e9 else (count / 1e6, "MB")
    return f"{share:.0f} {unit}" if share >= 100 else f"{number(share, 2)} {unit}"
