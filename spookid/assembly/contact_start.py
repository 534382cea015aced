"""Contacts of a fit: what they take, and where they begin, from the poses that are measured; where
impacts are before any fit: smoothed motions have no jumps, so that samples themselves tell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import casadi as ca
import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from spookid.assembly.initialization import Guess, SampledRecording
from spookid.assembly.problem import Problem
from spookid.assembly.schedules import FAR, Strikes, strikes_at
from spookid.data.sampling import Grid
from spookid.errors import ProblemError
from spookid.kernels.arrays import Array, Mask, contiguous
from spookid.mechanics.contacts import Contact, Impact
from spookid.mechanics.kinematics import evaluated
from spookid.mechanics.model import Model
from spookid.stepping import contact_law
from spookid.stepping.base import CONTACTS
from spookid.transcription.transcription import Point

_SPEED = 0.1
"""Share of the root mean square of the speeds of contacts that counts."""
_AT_REST = 1e-2
"""The same where nothing moves [m/s]."""
_NOISE = 3.0
"""Standard deviations of a gap's noise within which a contact touches."""


_LAG = 10
"""Steps over which a slip is looked at, where the noise of one step would hide it."""
_STAYS = 2
"""Steps before and after one for which what rests is as near."""
_TOUCHING = 1e-3
"""Share of the speed that counts, times h, within which a contact touches at least."""


def check_contacts(problem: Problem) -> None:
    """Raise ProblemError for contacts or joint limits that a fit does not support."""
    what = f"{problem.place}: Problem {problem.name!r} has"
    if any(joint.limits is not None for joint in problem.model.joints):
        raise ProblemError(
            f"{what} limits of joints, which fits have as a Contact; leave them out, or write their stops so"
        )
    if not problem.model.contacts:
        return
    what = f"{what} contacts, which fits"
    if why := problem.scheme.refuses.get(CONTACTS):
        raise ProblemError(f"{what} do not have with the stepper {problem.stepper.name!r}: {why}")


def check_samples(problem: Problem, sampled: tuple[SampledRecording, ...], between: bool) -> None:
    """Raise ProblemError for contacts without a sample at each step; ``between``: some samples are between steps."""
    intervals = [float(np.median(np.diff(e.recording.t))) for e in sampled]
    if problem.model.contacts and (between or any(interval > 1.01 * problem.step for interval in intervals)):
        raise ProblemError(
            f"{problem.place}: Problem {problem.name!r} has contacts, steps of {problem.step:g} s and samples every "
            f"{intervals[0]:g} s; contacts need a sample at each step: give step= that interval, or every=1"
        )


def refuse_contacts(problem: Problem, what: str) -> None:
    """Raise ProblemError for unilateral contacts: ``what`` needs a motion whose contacts are known."""
    if problem.model.contacts:
        names = ", ".join(contact.name for contact in problem.model.contacts)
        raise ProblemError(
            f"{problem.place}: Problem {problem.name!r} has contacts that push ({names}), and {what} would need "
            "to know what touches when; leave them out"
        )


def touch_speed(problem: Problem, sampled: tuple[SampledRecording, ...]) -> float:
    """Smallest speed that counts as motion of a contact [m/s]."""
    if not (problem.model.contacts and sampled):
        return _AT_REST
    n = problem.model.configuration.ambient
    moved = [np.diff(places_of(problem, e, e.guess.states[:, :n]), axis=0) / e.grid.step for e in sampled]
    return _SPEED * float(np.sqrt(np.mean([np.mean(np.sum(rates**2, axis=2)) for rates in moved]))) or _AT_REST


def contact_start(
    problem: Problem, sampled: SampledRecording, poses: Array, speed: float, sharpness: float, known: Array | None
) -> Array:
    """Initial values of the contact unknowns at each step, (N, n), from poses (N, 7 n_b).

    A contact is closed where it rests within the noise of its gap, and in steps in which it turns; below the share
    ``sharpness`` of the speed it sticks.

    Args:
        known: what they did before each step, see ``touching``.
    """
    contacts, form = problem.model.contacts, problem.scheme.law.form
    if not contacts:
        return np.zeros((len(poses), 0))
    places = places_of(problem, sampled, poses)
    settings = form, sampled.grid.step, speed, sharpness
    own = [_own(contact, places[:, i], *settings) for i, contact in enumerate(contacts)]
    if known is not None:
        starts = np.cumsum([0, *(contact_law.size(contact, "exact") for contact in contacts)])
        for columns, first, end in zip(own, starts[:-1], starts[1:], strict=True):
            columns[:-1, : end - first] = known[1:, first:end]
    return np.hstack(own)


def touching(problem: Problem, unknowns: Array) -> Array | None:
    """Unknowns u and z of all contacts before each step, and rates behind them, (N, n), from the unknowns of a fit (N,
    ambient); None without contacts. No pose determines the first rates, before the contacts of the first step."""
    model, law = problem.model, problem.scheme.law
    if not model.contacts:
        return None
    last = unknowns.shape[1] - law.unknowns(model)
    start, columns = last - contact_law.unknowns(model, law.form), list[int]()
    for contact in model.contacts:
        columns += range(start, start + contact_law.size(contact, "exact"))
        start += contact_law.size(contact, law.form)
    return unknowns[:, [*columns, *_rates_among(problem)]]


def with_first_rates(problem: Problem, unknowns: Array, touched: Array) -> Array:
    """Unknowns (N, ambient) with the first rates that ``touching`` returns."""
    own = _rates_among(problem)
    unknowns[0, own] = touched[0, -len(own) :]
    return unknowns


def _rates_among(problem: Problem) -> range:
    """Which of the unknowns of a step are rates, behind as many directions of the coordinates; in problems with
    contacts."""
    motion = problem.scheme.motion(problem.model)
    return range(motion.ambient - motion.tangent // 2, motion.ambient)


def with_codes(problem: Problem, sampled: tuple[SampledRecording, ...], start: Point) -> Point:
    """Start in which contacts are active where the measured poses suggest it."""
    if not problem.model.contacts or problem.sticks_in_pairs:
        return start
    return replace(start, codes=tuple({contact_law.CONTACT_LAW: _codes(problem, e)} for e in sampled))


def _codes(problem: Problem, sampled: SampledRecording) -> Array:
    """In each step, (N − 1, m)."""
    poses = sampled.guess.states[:, : problem.model.configuration.ambient]
    places, h, columns = places_of(problem, sampled, poses), sampled.grid.step, []
    for i, contact in enumerate(problem.model.contacts):
        rests, turns = _touches(contact, places[:, i, 0], h)
        columns.append(np.where(turns, 1.0 * contact.rebounds, np.where(rests, 0.0, -1.0))[:, None])
        if contact.rubs:
            slips = _lagged(places[:, i, 1:]) / h
            slow = np.linalg.norm(slips, axis=1) < _NOISE * noise_of(places[:, i, 1:]) / (_LAG * h)
            ends = -np.sign(slips) if contact.cone == "box" else np.ones((len(slips), 1))
            columns.append(np.where((rests & slow)[:, None], 0.0, ends))
    return contiguous(np.hstack(columns))


def _lagged(values: Array) -> Array:
    """Changes over a step, (N − 1, n), as means over up to ``_LAG`` steps around it."""
    steps = np.arange(len(values) - 1)
    first, last = np.maximum(steps - _LAG // 2, 0), np.minimum(steps + 1 + _LAG // 2, len(steps))
    return np.asarray((values[last] - values[first]) / (last - first)[:, None])


def _touches(contact: Contact, gap: Array, step: float) -> tuple[Mask, Mask]:
    """In which steps a contact rests, its gap within its noise for a while, and in which it turns, the speed along the
    normal jumping most, (N − 1,)."""
    near, rate = _NOISE * noise_of(gap), np.diff(gap) / step
    before = np.append(rate[:1], rate[:-1])
    highest = sliding_window_view(np.pad(gap, _STAYS, mode="edge"), 2 * _STAYS + 2).max(axis=1)
    jump = np.pad(rate - before, 1)
    most = (jump[1:-1] > jump[:-2]) & (jump[1:-1] >= jump[2:]) & (jump[1:-1] > contact.threshold)
    turns = most & (before < -contact.threshold - near / step) & (gap[:-1] + step * before < near)
    return (highest < near) & ~turns, turns


def _own(contact: Contact, place: Array, form: str, step: float, speed: float, sharpness: float) -> Array:
    """Unknowns of a contact, (N, n), from its point in the frame of its plane, (N, 3)."""
    gap, rates = place[:, 0], np.vstack([np.diff(place, axis=0), np.zeros((1, 3))]) / step
    rests, turns = _touches(contact, gap, step)
    closed = np.append(rests | turns | (np.abs(gap[1:]) < _TOUCHING * speed * step), False)
    slips = rates[:, 1:] / speed
    # So much that it is closed at whatever rate it seems to have.
    u = closed[:, None] * (1.0 + np.maximum(rates[:, :1], 0.0) / speed)
    if not contact.rubs:
        return u
    if contact.cone == "box":
        beside, z = np.maximum(slips, 0.0), -np.clip(slips / sharpness, -1.0, 1.0)
    else:
        beside = np.linalg.norm(slips, axis=1, keepdims=True)
        z = -slips / np.maximum(beside, sharpness)
    return np.hstack([u, z, beside] if contact_law.in_pairs(form) else [u, z])


def noise_of(values: Array) -> float:
    """Standard deviation of white noise, from a quantile of second differences in time that neither rare impacts nor
    rest determine."""
    second = np.abs(np.diff(values, 2, axis=0))
    return float(np.quantile(second, 0.8) / (1.2816 * np.sqrt(6))) if second.size else 0.0


def places_of(
    problem: Problem, sampled: SampledRecording, poses: Array, values: Mapping[str, float] | None = None
) -> Array:
    """Contact points in the frames of their planes, (N, n, 3); ``values`` replace initial values of parameters."""
    model, values = problem.model, {**problem.guess_on(sampled.recording.name), **(values or {})}
    q = ca.SX.sym("q", model.configuration.ambient)
    rows = ca.vertcat(*(model.contact(contact, q) for contact in model.contacts))
    return evaluated(rows, q, poses, values).reshape(len(poses), -1, 3)


Places = NDArray[np.intp]

_SIDE: Places = np.arange(2, 8)
"""Steps before and after an impact, from the one nearest to it, that determine how its point moves there."""
_JUMP = 3.0
"""Velocities that jump by less than so many of their errors do not determine when."""


def begun(
    model: Model, smooth: Guess, samples: Guess, told: Strikes, steps: Grid, values: Mapping[str, float]
) -> tuple[Guess, Strikes]:
    """Initial states that jump at impacts, and the impacts where parabolas on both sides intersect.

    Args:
        smooth, samples: the initial states from smoothed sensors, and from their samples as they are.
        values: of the parameters.
    """
    times = [list(own) for own in told.times]
    every = sorted(x for own in times for x in own)
    states, moved = smooth.states.copy(), smooth.displacements.copy()
    for i, impact in enumerate(model.holding.contacts):
        if not isinstance(impact, Impact) or not times[i]:
            continue
        q = ca.SX.sym("q", model.configuration.ambient)
        height = impact.height(model.original or model, q)
        heights = evaluated(height, q, samples.states[:, : q.numel()], values)[:, 0]
        for j, x in enumerate(times[i]):
            k = round(x)
            near = [abs(x - other) for other in every if other != x]
            room = min([*near, k + 1, steps.count - k])
            side = _SIDE[room > _SIDE]
            times[i][j] = _meeting(heights, k, side, x)
            own = slice(max(k - _SIDE[-1], 0), k + _SIDE[-1] + 1)
            states[own], moved[own] = samples.states[own], samples.displacements[own]
    return replace(smooth, states=states, displacements=moved), strikes_at(model, times, steps, told.scheduled)


def _meeting(heights: Array, k: int, side: Places, told: float) -> float:
    """Where the parabolas through the heights on both sides of step k meet, in steps; what was told if they do not."""
    if len(side) < 4:
        return told
    fits = [np.polyfit(sign * side, heights[k + sign * side], 2) for sign in (-1, 1)]
    gap = fits[0] - fits[1]
    left = [heights[k + s * side] - np.polyval(f, s * side) for s, f in zip((-1, 1), fits, strict=True)]
    if abs(gap[1]) < _JUMP * np.std(left):
        return told
    at = 0.0
    for _ in range(5):
        slope = 2 * gap[0] * at + gap[1]
        at -= float(np.polyval(gap, at) / slope) if slope else np.inf
    return k + at if abs(k + at - told) <= FAR else told
