"""Joint fits of more recordings than one process holds: states are eliminated where recordings lie, sums travel.

The first recordings are fitted as usual: their fit tells what the problem is made of (steps, rows, sizes of noise
apart or together, the estimator) and where to begin. From there the likelihood of all is maximized (``joint_search``),
or with given weights the least squares are sought; both see recordings as sums only (``joint_fit_worker``), which are
taken in their order, so that all digits are the same for any number of workers. Where estimates of continuous time are
asked for, this is done with half the step, then with the whole one at the noise that was found.
"""

from __future__ import annotations

import hashlib
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
from spookid.assembly.loading import load_problem, whole_path
from spookid.assembly.problem import Problem
from spookid.assembly.standing_start import stands_free
from spookid.data.channels import BENT
from spookid.data.recording import SAMPLE
from spookid.errors import ProblemError
from spookid.estimation.extrapolation import extrapolated
from spookid.estimation.fit import Fit
from spookid.estimation.identifiability import Identifiability, judged
from spookid.estimation.likelihood_fit import STATES, begun_at, found_by
from spookid.estimation.solving import of_bodies, solve
from spookid.estimation.starts import free_delays
from spookid.kernels.arrays import Array
from spookid.results import folders
from spookid.results.findings import Finding
from spookid.results.folders import SCHEMA, versions
from spookid.results.result import Noise, Solution, Times
from spookid.solvers.levenberg_marquardt import LevenbergMarquardt
from spookid.solvers.reduced_problem import ReducedProblem
from spookid.solvers.resuming import Journal, kept_in
from spookid.solvers.status import Callback, Outcome, Status, counting_from
from spookid.statistics.condensing import pseudo_inverse
from spookid.statistics.covariance import ROBUST, ResidualStatistics
from spookid.statistics.variances import Variances, lost
from spookid.studies import joint_fit_worker
from spookid.studies.job import digest
from spookid.studies.joint_fit_worker import COARSE, MARKER, Source, Sums, states_of, template
from spookid.studies.joint_search import SETTLED, Elsewhere, Everyone, JointSearch
from spookid.studies.variants import AxisValue, Variant
from spookid.studies.worker_pool import WorkerPool
from spookid.transcription.parameter_constraints import FreeDirections
from spookid.transcription.transcription import Point

_GAP = 1e-2
"""What linear steps of all states may take from |r|² together."""
_BLOCKS = 1000
"""Of the jackknife at the most; each is a recording, or several."""
_FEWEST = 20
"""Recordings that scatter tells errors from."""


@dataclass(frozen=True, eq=False)
class JointPlan:
    """A joint fit that can be run."""

    problem: Problem
    path: str | None
    """Where workers find it, ``PROBLEM.py::key`` with an absolute path; None if only this process has it."""
    variant: Variant
    folder: Path
    """Where chains and states lie, for all workers, and what the fit goes on from if it is ended."""


@checked
def solve_jointly(
    problem: Problem | str | PathLike[str],
    folder: str | PathLike[str] | None,
    jobs: int,
    executor: Executor | None,
    callback: Callback | None,
    initial: Mapping[str, float] | None,
    fixed: Iterable[str],
    **settings: AxisValue,
) -> Solution:
    """See ``spookid.solve_jointly``."""
    path = None if isinstance(problem, Problem) else whole_path(problem)
    loaded = problem if isinstance(problem, Problem) else load_problem(problem)
    variant = Variant(initial=dict(initial or {}), fixed=tuple(fixed)).at(settings, loaded)
    if jobs < 1:
        raise ProblemError(f"{loaded.place}: jobs is {jobs}; give 1, 2, 3 ...")
    if folder is None and executor is not None:
        raise ProblemError(f"{loaded.place}: an executor needs a folder that its workers see; give folder=")
    pool = WorkerPool(jobs, executor)
    with TemporaryDirectory() if folder is None else nullcontext(folder) as place:
        return fit_jointly(planned(loaded, path, variant, Path(place).absolute(), pool), pool, callback)


def planned(problem: Problem, path: str | None, variant: Variant, folder: Path, pool: WorkerPool) -> JointPlan:
    """A plan that the problem accepts.

    Raises:
        ProblemError: for what a joint fit cannot do, or a folder that holds something else.
    """
    folders.check_continued(folder, MARKER)
    posed, backend, _ = variant.posed(problem)
    what = posed.what
    if not (posed.sample and posed.observations):
        raise ProblemError(f"{what} has no recordings or observations to fit; give both")
    if path is None and not pool.alone:
        raise ProblemError(f"{what} cannot be sent to workers; give the path of its file, or take jobs=1")
    refuse_contacts(posed, "a joint fit")
    others = {
        f"backend {backend!r}; take 'lm'": backend != "lm",
        f"friction {posed.friction!r}; take 'smooth'": not posed.rubs_smoothly,
        "state_weight inf; take estimator='hard'": posed.holds_dynamics,
        "parameters that each recording has of its own; fit these recordings in one process": posed.parameter_set.own,
        f"delays to estimate ({', '.join(free_delays(posed))}); fix them": free_delays(posed),
        "losses that leave outliers alone; take loss='linear'": any(c.loss in BENT for c in posed.channels),
        "a mechanism that only contacts hold; fit it in one process": stands_free(posed.model),
    }
    if refused := next((words for words, is_so in others.items() if is_so), None):
        raise ProblemError(
            f"{what}: a joint fit over workers does not know {refused}; leave it out, or solve in one process"
        )
    return JointPlan(problem, path, variant, folder)


def fit_jointly(plan: JointPlan, pool: WorkerPool, callback: Callback | None = None) -> Solution:
    """Fit all recordings together, or go on with a fit that was begun in the folder of the plan.

    Raises:
        ProblemError: as ``solve``, or for a recording that does not fit the problem.
        KeyboardInterrupt: once the user has interrupted; the same fit goes on from there.
    """
    facts = digest(plan.problem), plan.variant, sorted(versions().items())
    identity = hashlib.sha256(repr(facts).encode()).hexdigest()
    _keep_apart(plan, identity)
    with kept_in(Journal(plan.folder, identity)):
        return _fitted(plan, pool, callback)


def _fitted(plan: JointPlan, pool: WorkerPool, callback: Callback | None) -> Solution:
    began = time.perf_counter()
    posed, _, options = plan.variant.posed(plan.problem)
    first = solve(posed.with_(recordings=posed.sample[:SAMPLE], step=posed.step), "lm", options)
    if first.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    estimator = posed.estimator if first.choice is None else first.choice.estimator
    source = Source(plan.path, digest(plan.problem), plan.variant, estimator, posed.step, posed.corrects)
    found = _searched(plan, pool, source, _Start(first.noise, first.values, first.detail), callback, began)
    made = found.fit
    if not posed.corrects or made.outcome.status is not Status.CONVERGED or made.likelihood is None:
        return found.told(made.result, made)
    known, counted = made.likelihood, callback and counting_from(callback, made.result.iterations)
    start = _Start(known.noise, made.values, made.outcome.detail, hold=True)
    beside = replace(plan, folder=plan.folder / COARSE)
    coarse = _searched(beside, pool, replace(source, halved=False), start, counted, time.perf_counter())
    if coarse.outcome.status is Status.CONVERGED:
        return coarse.told(extrapolated(coarse.fit, made), made)
    effect = (
        f"The time step of {posed.step / 2:g} s is still in the estimates: the fit with twice that, which would tell "
        f"what it adds, did not converge ({coarse.outcome.detail})."
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
    plan: JointPlan, pool: WorkerPool, source: Source, start: _Start, callback: Callback | None, began: float
) -> _Searched:
    """All recordings fitted with one step."""
    posed, _, options = plan.variant.posed(plan.problem)
    assembly = template(plan.problem, source)
    everyone = Everyone(plan.problem, assembly, source, plan.folder, len(plan.problem.recordings), pool)
    search, logs = _search(everyone, start, options, callback)
    point = Elsewhere((), np.array([start.values[p.name] for p in assembly.problem.free]))
    sums = everyone.ask(search.pass_of("prepare", point, logs))
    search.freedom = max(int(sums["rows",]) - search.freedom * int(sums["steps",]), 1)
    built = time.perf_counter() - began
    outcome = search.run(point, logs, **({} if search.sizes else {"settled": SETTLED}))
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
    if begun is None:
        raise ProblemError(
            f"{assembly.problem.what}: the fit of its first recordings does not "
            f"find the noise ({start.detail}); give others first, or a state_weight"
        )
    sizes, logs = begun
    if start.hold:
        sizes = tuple(replace(size, given=math.inf) for size in sizes)
    return JointSearch(assembly.transcription, sizes, STATES, most, told, gap=_GAP / everyone.count, **own), logs


def _keep_apart(plan: JointPlan, identity: str) -> None:
    """Forget what an earlier fit has left in the folder, unless it was this one; other files are left alone."""
    place = plan.folder / MARKER
    try:
        same = msgspec.json.decode(place.read_bytes())["identity"] == identity
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        same = False
    if not same:
        joint_fit_worker.forget(plan.folder)
        folders.write(place, {"schema": SCHEMA, "problem": plan.problem.name, "identity": identity})


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
        """With the motion of the first recordings, and errors by all."""
        began, there, everyone, search = time.perf_counter(), self.search.best.point, self.everyone, self.search
        assembly, likelihood = everyone.assembly, None
        version = there.version if isinstance(there, Elsewhere) else 0
        states = states_of(everyone.folder, everyone.count, len(assembly.transcription.chains), version)
        outcome = replace(self.outcome, point=Point(states, there.parameters))
        if search.sizes:
            assembly, outcome, likelihood = found_by(assembly, search, outcome)
        block = -(-everyone.count // _BLOCKS)
        sums = everyone.ask(search.pass_of("errors", there, search.best.logs, block=block))
        known = _known(assembly, there.parameters, sums, 0.0 if likelihood is None else likelihood.doubt)
        times = replace(Times.of(outcome.timing, self.built, 0.0), analysis=time.perf_counter() - began)
        return Fit(assembly, outcome, "lm", times, likelihood).judged(known)

    def told(self, result: Solution, made: Fit, *findings: Finding) -> Solution:
        """A result of the fit that it is, or that tells what its step adds to the other."""
        steps, sums = int(self.sums["steps",]), self.sums
        size = replace(
            result.size,
            recordings=self.everyone.count,
            steps=steps,
            states=steps * self.everyone.assembly.transcription.manifold.tangent,
            residuals=int(sums["rows",]),
            jacobian_nonzeros=round(result.size.jacobian_nonzeros * steps / result.size.steps),
        )
        all_of_it = [_told(self.everyone, int(sums["outliers",])), *made.identifiability.findings, *findings]
        whole = result.changed(size=size).with_findings(lambda: all_of_it)
        return whole.changed(**of_bodies(self.posed, whole, made.clock))


def _told(everyone: Everyone, outliers: int) -> Finding:
    lost_workers = everyone.pool.lost
    first = len(everyone.assembly.transcription.chains)
    words = [f"Estimates, errors and noise are of all {everyone.count:,} recordings; motion, residuals and figures of"]
    words += [f"the first {first}, which also tell friction widths, and the estimator where none is given."]
    words += [f"{outliers:,} samples that stand out from their neighbours are left out."] * (outliers > 0)
    words += [f"Workers were lost {lost_workers} times, and their recordings done again."] * (lost_workers > 0)
    evidence = {"recordings": everyone.count, "left_out": outliers, "lost_workers": lost_workers}
    return Finding("fit.recordings", evidence=evidence, effect=" ".join(words))


def _known(assembly: Assembly, estimates: Array, sums: Sums, doubt: Array | float) -> Identifiability:
    """Errors: by the noise that was found, or from how recordings scatter if that is more, or no noise is known."""
    free = assembly.transcription.free_directions(estimates)
    information, prior = sums["information",], sums["prior",]
    places = [key[1] for key in sums if key[0] == "score"]
    scores, own = (np.array([sums[kind, place] for place in places]) for kind in ("score", "own"))
    best = pseudo_inverse(information, free)[0] @ scores.sum(axis=0)
    several = len(places) >= _FEWEST
    scattered = scores - own @ best
    if assembly.noise:
        information, scatter = _by_noise(assembly, information, sums, free, doubt)
    elif several:
        scatter = prior + scattered.T @ scattered * len(places) / (len(places) - 1)
    else:
        scatter = np.full_like(prior, np.nan)
    certain = Variances(np.ones(1), np.zeros((1, 1)), 1.0)
    blocks = scattered, own, -scores, sums["information",] - own
    statistics = ResidualStatistics(information, prior, (scatter - prior)[None], certain, *blocks)
    known = judged(assembly, estimates, free, statistics, math.inf, ROBUST if several and assembly.noise else math.inf)
    if assembly.noise or several:
        return known
    few = f"with given weights errors are from how recordings scatter, and there are fewer than {_FEWEST}"
    sensitivities = replace(known.sensitivities, reasons=dict.fromkeys(assembly.transcription.names, few))
    return replace(known, analysis=replace(known.analysis, sensitivities=sensitivities))


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
