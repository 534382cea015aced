"""Fits of recordings with long gaps: the parts are fitted first, and the motion in a gap is simulated.

An initial motion that is interpolated through a gap may be wrong by whole turns, and a fit from there may end in a
local minimum with too much noise. The parts between the gaps are therefore fitted first, as separate recordings with
common parameters. The motion in a gap is then simulated from the end of the preceding part. The fit of the whole
recording starts from this motion, and must fit the data nearly as well as the separate parts.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np

from spookid.assembly.assembly import gather
from spookid.assembly.constants import chosen_numbers, numbers, slip_widths
from spookid.assembly.problem import Problem
from spookid.data.channels import order
from spookid.data.inputs import acting
from spookid.data.recording import Recording
from spookid.data.sampling import Grid, grid, smoothed
from spookid.errors import ProblemError
from spookid.estimation.fit import Fit
from spookid.estimation.fitting import Start
from spookid.estimation.step_errors import SHORTEST
from spookid.estimation.suspects import leading
from spookid.estimation.work import Work, as_begun
from spookid.kernels.arrays import Array, contiguous
from spookid.kernels.scipy_parts import special
from spookid.results.findings import Finding
from spookid.results.result import Solution
from spookid.results.trajectory import Trajectory
from spookid.solvers.status import Status
from spookid.stepping.impulses import Settings
from spookid.stepping.simulation import NewtonStepper, StepFailedError, march
from spookid.tables.table import number

GAP = 5.0
"""Sample intervals without a sample that are a gap, if motion or cutoff are no slower, too."""
Span = tuple[float, float]


def has_gaps(problem: Problem) -> bool:
    """True if samples are missing for long, and the parts of the recordings can be fitted first: motion across gaps is
    smooth."""
    model = problem.model
    apart = model.contacts or model.holding.contacts or problem.parameter_set.own
    spans = {} if apart else _long_gaps(problem)
    return bool(spans) and all(_pieces(problem, i, spans) for i in range(len(problem.recordings)))


def parts_of(problem: Problem) -> Problem:
    """Problem whose recordings are the parts between the gaps, with its own noise estimate."""
    lead, spans = leading(problem), _long_gaps(problem)
    pieces = [_pieces(problem, i, spans) for i in range(len(problem.recordings))]
    return lead.with_(recordings=[part for own in pieces for part in own], step=lead.step)


def across(work: Work, parts: Fit) -> None:
    """Continue the fit of the parts across the gaps: simulate there, then fit with the noise of the parts, as start of
    the next fit. Skipped if the parts did not converge, because the whole may determine more."""
    problem = work.problem
    if parts.outcome.status is not Status.CONVERGED:
        return
    lead, spans, told = leading(problem), _long_gaps(problem), parts.told()
    ends = np.cumsum([0, *(len(_pieces(problem, i, spans)) for i in range(len(problem.recordings)))])
    crossed = tuple(_joined(lead, told, i, told.trajectories[a:b]) for i, (a, b) in enumerate(pairwise(ends)))
    work.fit = work.run(as_begun(lead), Start(told.changed(trajectories=crossed), hold=True), parts)
    work.near, work.problem = work.fit.result, as_begun(problem)
    work.remarks.append(partial(_judged, problem, told, work.fit.told(), spans))


def _long_gaps(problem: Problem) -> dict[int, list[Span]]:
    """Times without samples of a position, by number of the recording."""
    found = {}
    for i, recording in enumerate(problem.recordings):
        positions = [(c.signal, c.period) for c in problem.channels if order(c, problem.model) == 0]
        if spans := _merged([span for one in positions for span in _gaps(problem, recording, *one)]):
            found[i] = spans
    return found


def _gaps(problem: Problem, recording: Recording, signal: str, period: float | None) -> list[Span]:
    """Times without a sample that are several spacings long, and a quarter of the motion's typical period: samples
    around a shorter one show the way."""
    known = recording.t[np.isfinite(recording.signal(signal))]
    if len(known) < SHORTEST:
        return []
    edges = np.concatenate([recording.t[:1], known, recording.t[-1:]])
    apart, usual = np.diff(edges), float(np.median(np.diff(known)))
    longest = max(GAP * usual, SHORTEST * problem.step / 2)
    if not np.any(apart > longest):
        return []
    steps = grid(recording, problem.step)
    shown = smoothed(recording, signal, steps, period=period, cutoff=problem.cutoff)
    at, seen = steps.times(), np.ones(steps.count, dtype=np.bool_)
    for place in np.flatnonzero(apart > longest):
        seen &= (at < edges[place] - problem.step) | (at > edges[place + 1] + problem.step)
    rate = np.gradient(shown, problem.step)
    slope = np.gradient(rate, problem.step)[seen]
    typical = 2 * np.pi * np.std(rate[seen]) / np.std(slope) if np.any(slope) else np.inf
    places = np.flatnonzero(apart > max(longest, typical / 4))
    return [(float(edges[k]), float(edges[k + 1])) for k in places]


def _merged(spans: list[Span]) -> list[Span]:
    """Spans that overlap as one, in order."""
    found: list[Span] = []
    for low, high in sorted(spans):
        if found and low <= found[-1][1]:
            found[-1] = found[-1][0], max(high, found[-1][1])
        else:
            found.append((low, high))
    return found


def _pieces(problem: Problem, place: int, spans: dict[int, list[Span]]) -> list[Recording]:
    """Parts of a recording beside its gaps that are long enough; itself if it has none."""
    recording, gaps = problem.recordings[place], spans.get(place, [])
    begins, ends = [recording.t[0], *(high for _, high in gaps)], [*(low for low, _ in gaps), recording.t[-1]]
    near = problem.step * 1e-6
    found = []
    for low, high in zip(begins, ends, strict=True):
        if high - low >= SHORTEST * problem.step:
            try:
                part = recording.between(float(low), float(high) + near)
            except ProblemError:
                continue  # a signal without a sample there
            found.append(part)
    return found


# --- across ---


def _joined(problem: Problem, parts: Solution, place: int, known: tuple[Trajectory, ...]) -> Trajectory:
    whole = grid(problem.recordings[place], problem.step)
    first, last = known[0], known[-1]
    motion: list[tuple[Array, Array, Array]] = []
    if first.t[0] > whole.start:
        motion.append((np.array([whole.start]), first.q[:1], np.zeros_like(first.v[:1])))
    stops = [*(one.t[0] for one in known[1:]), float(whole.times()[-1]) + problem.step]
    for one, stop in zip(known, stops, strict=True):
        motion.append((one.t, one.q, one.v))
        count = int(np.ceil((stop - one.t[-1]) / problem.step - 1e-6))
        if count > 1:
            motion.append(_simulated(problem, parts, place, one, count))
    t, q, v = (np.concatenate([piece[i] for piece in motion]) for i in range(3))
    return replace(last, name=problem.recordings[place].name, t=t, q=q, v=v, multipliers=np.zeros((0, 0)))


def _simulated(
    problem: Problem, parts: Solution, place: int, before: Trajectory, count: int
) -> tuple[Array, Array, Array]:
    """Times and states of the steps behind a part; of those that have a solution."""
    values = {name: value for name, value in parts.values.items() if name in problem.parameter_set.known}
    fixed = problem.with_(initial=values, fixed=[p.name for p in problem.parameters], step=problem.step)
    model, settings = problem.model, Settings.of(problem.model)
    widths = slip_widths(fixed, tuple(gather(fixed, one) for one in fixed.recordings))
    constants = (*numbers(fixed, settings, widths), *chosen_numbers(fixed, fixed.guess, place))
    stepper = NewtonStepper(problem.stepper.forward(model, settings), constants)
    steps = Grid(float(before.t[-1]), problem.step, count)
    now, _ = acting(problem.recordings[place], model.inputs, steps, fixed.guess)
    inputs = problem.stepper.forward_inputs(now.held, now.mean, now.late)
    if problem.stepper.staggered and model.holding.takes_inputs:
        inputs = np.hstack([inputs, now.mean])
    start = np.concatenate([before.q[-1].ravel(), before.v[-1].ravel()])
    try:
        marched = march(stepper, contiguous(start), contiguous(inputs))
    except StepFailedError as error:
        marched = error.states
    states = problem.stepper.recorded(model, marched, problem.step)
    states = states[np.all(np.isfinite(states), axis=1)][1:]
    n, bodies = model.configuration.ambient, len(model.bodies)
    q, v = states[:, :n].reshape(-1, bodies, 7), states[:, n:].reshape(-1, bodies, 6)
    return steps.times()[1 : len(states) + 1], q, v


# --- whether they fit together ---


def _judged(
    problem: Problem,
    parts: Solution,
    held: Solution,
    spans: dict[int, list[Span]],
    answer: Solution,
    sure: float = 1e-6,
) -> Solution:
    """The answer, and a finding if the whole fits worse than the parts by more than an accident of that probability:
    by an F test, because residuals in the gaps, of other sensors too, and between parts add degrees of freedom."""
    own, whole = (max(one.size.residuals - one.size.states - one.size.parameters, 1) for one in (parts, held))
    added = max(whole - own, 1)
    most = special.fdtri(added, own, 1 - sure) * added * parts.cost.total / own
    if held.status is Status.CONVERGED and held.cost.total - parts.cost.total <= most:
        return answer
    places = [
        f"recording {problem.recordings[i].name} from {number(low)} to {number(high)} s"
        for i, own in spans.items()
        for low, high in own
    ]
    names, evidence = (problem.recordings[i].name for i in spans), {"cost": held.cost.total, "parts": parts.cost.total}
    effect = (
        f"The parts of a recording before and after a gap disagree ({'; '.join(places)}): with equal noise standard "
        f"deviations, a common fit of all parts has cost {number(held.cost.total, 4)}, and separate fits have "
        f"{number(parts.cost.total, 4)}."
    )
    cause = "Either the motion across a gap was not found, or the model changes during the recording."
    advice = "Fit the parts as separate recordings, and compare."
    told = Finding("recording.gap", tuple(names), evidence, effect, cause, advice)
    return answer.with_findings(lambda: [told])
