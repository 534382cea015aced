"""Joint fits of more recordings than one process holds: states are eliminated where recordings lie, sums travel.

The first recordings are fitted as usual: their fit says what the problem is made of (steps, rows, noise standard
deviations apart or together, the estimator) and where to begin. From there the likelihood of all is maximized
(``joint_search``), or with given weights the least squares are sought; both see recordings as sums only
(``joint_fit_worker``), which are taken in their order, so that all digits are the same for any number of workers. Where
estimates of continuous time are asked for, this is done with half the step, then with the whole one at the noise that
was found.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import numpy as np

from spookid.argument_checks import checked
from spookid.assembly.assembly import Assembly
from spookid.assembly.contact_start import refuse_contacts
from spookid.assembly.problem import Problem
from spookid.assembly.standing_start import stands_free
from spookid.data.losses import robust
from spookid.data.recording import SAMPLE
from spookid.errors import ProblemError
from spookid.estimation.extrapolation import extrapolated
from spookid.estimation.fit import Fit
from spookid.estimation.identifiability import Identifiability, judged
from spookid.estimation.likelihood_fit import SHARE, STATES, begun_at, found_by, rated
from spookid.estimation.solving import of_bodies, solve_whole
from spookid.estimation.starts import free_delays
from spookid.estimation.step_errors import SHORTEST
from spookid.kernels.arrays import Array
from spookid.results import folders
from spookid.results.findings import Finding
from spookid.results.folders import SCHEMA
from spookid.results.result import Noise, Solution, Times
from spookid.solvers.levenberg_marquardt import LevenbergMarquardt
from spookid.solvers.reduced_problem import ReducedProblem
from spookid.solvers.resuming import Journal, kept_in
from spookid.solvers.status import Callback, Outcome, Status, counting_from
from spookid.statistics import block_jackknife
from spookid.statistics.block_jackknife import BLOCKS
from spookid.statistics.condensing import pseudo_inverse
from spookid.statistics.covariance import ResidualStatistics
from spookid.statistics.marginal import starting_logs
from spookid.statistics.sensitivities import ROBUST
from spookid.statistics.trial import GAP
from spookid.statistics.variances import Variances, lost
from spookid.studies import joint_fit_worker
from spookid.studies.job import Source
from spookid.studies.joint_fit_worker import COARSE, MARKER, Sums, Template, states_of
from spookid.studies.joint_search import SETTLED, Elsewhere, Everyone, JointSearch
from spookid.studies.variants import AxisValue, is_hard
from spookid.studies.worker_pool import WorkerPool
from spookid.transcription.parameter_constraints import FreeDirections
from spookid.transcription.transcription import Point

_CLOSE = 1e-6
"""Promise of a step, of the log-likelihood, below which the search ends: as close as the last step of a fit in one
process comes, which is not taken here."""
_BLOCKS = 1000
"""Of the jackknife at the most; each is a recording, or several."""


@dataclass(frozen=True, eq=False)
class JointPlan:
    """Plan of a joint fit, ready to run."""

    source: Source
    folder: Path
    """Where chains and states lie, for all workers, and where the fit continues if it is ended."""


@checked
def solve_jointly(
    problem: Problem | str | PathLike[str],
    *,
    folder: str | PathLike[str] | None = None,
    jobs: int = 1,
    executor: Executor | None = None,
    callback: Callback | None = None,
    initial: Mapping[str, float] | None = None,
    fixed: Iterable[str] = (),
    **settings: AxisValue,
) -> Solution:
    """Fit recordings together that exceed the memory of one process; see ``spookid.studies.joint_fit``.

    Args:
        problem: the path of a problem file, ``PROBLEM.py`` or ``PROBLEM.py::key``, which workers load themselves; a
            Problem is fitted in this process. Its recordings may be ``RecordingFiles``.
        folder: folder for the states while the fit runs, shared by all workers; an interrupted fit continues from it.
            It is not removed. It may be new, empty, or that of an earlier joint fit. None: a temporary folder; an
            executor needs a folder that its workers can read.
        jobs: worker processes, each of which holds one recording at a time. The digits are the same for any number.
        executor: an executor instead of processes, such as one of a cluster.
        callback: called with every accepted iterate.
        initial, fixed: initial values and parameters to hold, as in ``Problem``.
        settings: settings of the problem and the solver, texts and numbers as in ``sweep``.

    Returns:
        the solution with the motion of the first few recordings only.

    Raises:
        ProblemError: for settings that a joint fit does not support, a recording that does not fit the problem, or a
            folder that holds something else.
    """
    source = Source.of(problem, initial, fixed)
    source = replace(source, variant=source.variant.at(settings, source.problem))
    if jobs < 1:
        raise ProblemError(f"{source.problem.place}: jobs is {jobs}; give 1, 2, 3 ...")
    if folder is None and executor is not None:
        raise ProblemError(f"{source.problem.place}: an executor needs a folder that its workers see; give folder=")
    pool = WorkerPool(jobs, executor)
    with TemporaryDirectory() if folder is None else nullcontext(folder) as place:
        return fit_jointly(planned(source, Path(place).absolute(), pool), pool, callback)


def planned(source: Source, folder: Path, pool: WorkerPool) -> JointPlan:
    """Make a plan after a check that the problem supports a joint fit.

    Raises:
        ProblemError: for what a joint fit cannot do, or a folder that holds something else.
    """
    folders.check_continued(folder, MARKER)
    posed, backend, _ = source.posed
    what = posed.what
    if not (posed.sample and posed.observations):
        raise ProblemError(f"{what} has no recordings or observations to fit; give both")
    if source.path is None and not pool.alone:
        raise ProblemError(f"{what} cannot be sent to workers; give the path of its file, or take jobs=1")
    refuse_contacts(posed, "a joint fit")
    others = {
        f"backend {backend!r}; take 'lm'": backend != "lm",
        f"friction {posed.friction!r}; take 'smooth'": not posed.rubs_smoothly,
        "state_weight inf; take estimator='hard'": posed.holds_dynamics,
        "parameters with a value per recording; fit these recordings in one process": posed.parameter_set.own,
        f"delays to estimate ({', '.join(free_delays(posed))}); fix them": free_delays(posed),
        "robust losses; use loss='linear'": any(robust(c.loss) for c in posed.channels),
        "noise by StudentT or with jitter; fit it in one process": any(c.is_adjusted for c in posed.channels),
        "a mechanism that is supported by contacts only; fit it in one process": stands_free(posed.model),
    }
    if refused := next((words for words, is_so in others.items() if is_so), None):
        raise ProblemError(
            f"{what}: a joint fit over workers does not know {refused}; leave it out, or solve in one process"
        )
    return JointPlan(source, folder)


def fit_jointly(plan: JointPlan, pool: WorkerPool, callback: Callback | None = None) -> Solution:
    """Fit all recordings together, or continue an unfinished fit in the folder of ``plan``.

    Raises:
        ProblemError: as ``solve``, or for a recording that does not fit the problem.
        KeyboardInterrupt: once the user has interrupted; the same fit continues from there.
    """
    identity, place = plan.source.identity(), plan.folder / MARKER
    try:
        same = msgspec.json.decode(place.read_bytes())["identity"] == identity
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        same = False
    if not same:  # what an earlier fit has left is forgotten, other files are left alone
        joint_fit_worker.forget(plan.folder)
        folders.write(place, {"schema": SCHEMA, "problem": plan.source.problem.name, "identity": identity})
    with kept_in(Journal(plan.folder, identity)):
        began, (posed, _, options) = time.perf_counter(), plan.source.posed
        count, some = len(posed.recordings), posed.with_(recordings=posed.recordings[:SAMPLE], step=posed.step)
        first = solve_whole(some, "lm", options, callback if count <= SAMPLE else None)
        if count <= SAMPLE:
            return first
        # Errors without process noise come from the scatter of recordings, or need all motions at hand.
        if count < BLOCKS and (is_hard(first) or not posed.estimates_noise):
            return solve_whole(posed, "lm", options, callback)
        found = _fitted(plan, pool, first, callback, began)
    if not is_hard(first):
        return found.changed(choice=first.choice)
    none = (replace(one, std=0.0, density=0.0) if one.kind == "disturbance" else one for one in found.noise)
    return found.changed(choice=first.choice, noise=tuple(none))


def _fitted(plan: JointPlan, pool: WorkerPool, first: Solution, callback: Callback | None, began: float) -> Solution:
    """All recordings, with the estimator and from the estimates of the fit of the first ones."""
    posed, _, _ = plan.source.posed
    estimator = posed.estimator if first.choice is None else first.choice.estimator
    template = Template(plan.source, estimator, posed.step, posed.corrects)
    found = _searched(plan, pool, template, _Start(first.noise, first.values, first.detail), callback, began)
    made = found.fit
    if not posed.corrects or made.outcome.status is not Status.CONVERGED or made.likelihood is None:
        return found.told(made.result, made)
    known, counted = made.likelihood, callback and counting_from(callback, made.result.iterations)
    start = _Start(known.noise, made.values, made.outcome.detail, hold=True)
    beside = replace(plan, folder=plan.folder / COARSE)
    coarse = _searched(beside, pool, replace(template, halved=False), start, counted, time.perf_counter())
    if coarse.outcome.status is Status.CONVERGED:
        return coarse.told(extrapolated(coarse.fit, made), made)
    effect = (
        f"The estimates contain the discretization error of the step {posed.step / 2:g} s: a fit with twice the step, "
        f"which removes this error, did not converge ({coarse.outcome.detail})."
    )
    kept = Finding("step.error", (), {"step": posed.step / 2}, effect, advice="Take a smaller step.")
    return found.told(made.result, made, kept)


@dataclass(frozen=True)
class _Start:
    """Where a search over all recordings begins."""

    noise: Sequence[Noise]
    values: Mapping[str, float]
    detail: str
    """Of the fit that has found them."""
    hold: bool = False
    """True to keep the noise."""


def _searched(
    plan: JointPlan, pool: WorkerPool, template: Template, start: _Start, callback: Callback | None, began: float
) -> _Searched:
    """All recordings fitted with one step."""
    posed, _, options = plan.source.posed
    problem, assembly = template.assembled()
    everyone = Everyone(template, assembly, plan.folder, len(problem.recordings), pool)
    search, logs = _search(everyone, start, options, callback)
    point = Elsewhere((), np.array([start.values[p.name] for p in assembly.problem.free]))
    sums = everyone.ask(search.pass_of("prepare", point, logs))
    search.freedom = max(int(sums["rows",]) - search.freedom * int(sums["steps",]), 1)
    built = time.perf_counter() - began
    outcome = search.run(point, logs, _CLOSE if search.sizes else SETTLED)
    if outcome.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    if outcome.status is Status.DIVERGED:
        raise ProblemError(f"{posed.what}: {outcome.detail}")
    return _Searched(posed, everyone, search, outcome, sums, built)


def _search(
    everyone: Everyone, start: _Start, options: Mapping[str, Any], callback: Callback | None
) -> tuple[JointSearch, Array]:
    """The search, and logarithms of sizes to begin with."""
    assembly, told = everyone.assembly, callback or (lambda _: None)
    most = options.get("max_iterations", LevenbergMarquardt.max_iterations)
    reduced = ReducedProblem(assembly.transcription, assembly.start)
    own: dict[str, Any] = {"everyone": everyone, "freedom": reduced.tangent, "redundant": reduced.redundant}
    if not assembly.problem.estimates_noise:
        return JointSearch(assembly.transcription, (), LevenbergMarquardt(), most, told, **own), np.zeros(0)
    begun = begun_at(assembly, start.noise)
    if begun is None and assembly.problem.is_hard:  # a solution says that there is no process noise
        signals = [[e.samples[i].values for e in assembly.sampled] for i in range(len(assembly.problem.channels))]
        logs = starting_logs(rated(assembly), assembly.transcription, assembly.start, signals, SHARE)
        begun = assembly.noise, logs
    if begun is None:
        raise ProblemError(
            f"{assembly.problem.what}: the fit of its first recordings does not "
            f"find the noise ({start.detail}); give others first, or a state_weight"
        )
    sizes, logs = begun
    if start.hold:
        sizes = tuple(replace(size, given=math.inf) for size in sizes)
    return JointSearch(assembly.transcription, sizes, STATES, most, told, gap=GAP / everyone.count, **own), logs


@dataclass(frozen=True, eq=False)
class _Searched:
    """A search over all recordings that has ended."""

    posed: Problem
    everyone: Everyone
    search: JointSearch
    outcome: Outcome
    sums: Sums
    """How large it is."""
    built: float
    """Seconds before it."""

    @cached_property
    def fit(self) -> Fit:
        """Result of the fit: motion of the first recordings, and standard errors from all recordings."""
        began, there, everyone, search = time.perf_counter(), self.search.best.point, self.everyone, self.search
        assembly, likelihood = everyone.assembly, None
        version = there.version if isinstance(there, Elsewhere) else 0
        states = states_of(everyone.folder, everyone.count, len(assembly.transcription.chains), version)
        outcome = replace(self.outcome, point=Point(states, there.parameters))
        if search.sizes:
            likelihood = found_by(assembly, search, outcome)
            assembly, outcome = likelihood.assembly, likelihood.outcome
        block = -(-everyone.count // _BLOCKS) if everyone.count >= BLOCKS else 0
        of_step = {"block": block, "biased": not self.posed.corrects}
        sums = everyone.ask(search.pass_of("errors", there, search.best.logs, **of_step))
        mean = int(self.sums["steps",]) / everyone.count
        length = math.inf if block else mean / block_jackknife.BLOCKS
        known = _known(assembly, there.parameters, sums, 0.0 if likelihood is None else likelihood.doubt, length)
        missed = np.full(len(there.parameters), np.nan)
        if of_step["biased"] and mean >= SHORTEST:
            missed = -known.analysis.gain @ sums["missed",]
        times = replace(Times.of(outcome.timing, self.built, 0.0), analysis=time.perf_counter() - began)
        return Fit(assembly, outcome, "lm", times, likelihood).judged(known, missed)

    def told(self, result: Solution, made: Fit, *findings: Finding) -> Solution:
        """Result of this fit, or of a fit with smaller steps, corrected for the discretization bias by this fit."""
        steps, sums = int(self.sums["steps",]), self.sums
        size = replace(
            result.size,
            recordings=self.everyone.count,
            steps=steps,
            states=steps * self.everyone.assembly.transcription.manifold.tangent,
            residuals=int(sums["rows",]),
            jacobian_nonzeros=round(result.size.jacobian_nonzeros * steps / result.size.steps),
        )
        scattered = not made.assembly.noise or made.identifiability.sensitivities.inflation.size > 0
        all_of_it = [_told(self.everyone, int(sums["outliers",]), scattered), *made.identifiability.findings, *findings]
        whole = result.changed(size=size).with_findings(lambda: all_of_it)
        return whole.changed(**of_bodies(self.posed, whole, made.clock))


def _told(everyone: Everyone, outliers: int, scattered: bool) -> Finding:
    lost_workers = everyone.pool.lost
    first = len(everyone.assembly.transcription.chains)
    words = [
        f"Estimates, standard errors and noise are based on all {everyone.count:,} recordings. Motion, residuals, "
        f"figures, friction widths and the automatic choice of the estimator are based on the first {first}."
    ]
    what = "recordings" if everyone.count >= BLOCKS else "blocks of the recordings"
    words += [f"Standard errors are computed from the scatter between {what}."] * scattered
    words += [f"{outliers:,} samples that stand out from their neighbours are left out."] * (outliers > 0)
    words += [f"Workers ended {lost_workers} times, and their recordings were fitted again."] * (lost_workers > 0)
    evidence = {"recordings": everyone.count, "left_out": outliers, "lost_workers": lost_workers}
    return Finding("fit.recordings", evidence=evidence, effect=" ".join(words))


def _known(assembly: Assembly, estimates: Array, sums: Sums, doubt: Array | float, length: float) -> Identifiability:
    """Errors: by the noise that was found, or from how recordings scatter if that is more, or no noise is known; of few
    recordings it is blocks of them, of some steps length."""
    free = assembly.transcription.free_directions(estimates)
    information, prior = sums["information",], sums["prior",]
    places = [key[1] for key in sums if key[0] == "score"]
    scores, own = (np.array([sums[kind, place] for place in places]) for kind in ("score", "own"))
    best = pseudo_inverse(information, free)[0] @ scores.sum(axis=0)
    scattered = scores - own @ best
    if assembly.noise:
        information, scatter = _by_noise(assembly, information, sums, free, doubt)
    else:
        scatter = prior + scattered.T @ scattered * len(places) / (len(places) - 1)
    certain = Variances(np.ones(1), np.zeros((1, 1)), 1.0)
    blocks = scattered, own, -scores, sums["information",] - own
    statistics = ResidualStatistics(information, prior, (scatter - prior)[None], certain, *blocks)
    return judged(assembly, estimates, free, statistics, length, ROBUST if assembly.noise else math.inf)


def _by_noise(
    assembly: Assembly, information: Array, sums: Sums, free: FreeDirections, doubt: Array | float
) -> tuple[Array, Array]:
    """Information, and what makes errors of it, as ``identifiability`` has them of recordings at hand."""
    estimated = [size for size in assembly.noise if size.given is None and size.kind == "disturbance"]
    kept = np.array([not size.marginalized for size in estimated], dtype=bool)
    C, R = sums["C",], sums["R",]
    errors, _ = pseudo_inverse(information - lost(C[:, kept], R[np.ix_(kept, kept)]), free)
    errors += doubt
    left = information - lost(C, R)
    return left, left @ errors @ left
