"""The motion that a fit learns most from, under limits, before anything moves (Swevers et al., IEEE Transactions on
Robotics and Automation 13, 1997; Martinez et al., Appendix B).

Joint angles are Fourier series or splines from rest to rest. They are chosen for the information of the efforts along
them (``excitation_rows``), and what is promised is what the fit itself would report (``expected_errors``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, get_args

import numpy as np

from spookid.assembly.assembly import WIDTH_AT_REST, magnitude
from spookid.assembly.declaration import Declaration
from spookid.data.recording import Recording
from spookid.data.sampling import finite_samples
from spookid.doors import checked
from spookid.errors import ProblemError, shown
from spookid.kernels.kernel import Array, Mask
from spookid.results.result import Result
from spookid.solvers.callbacks import Watch
from spookid.studies.excitation_basis import Basis, BasisName
from spookid.studies.excitation_design import SHOWN, Bounds, Criterion, Design
from spookid.studies.excitation_rows import PlannedEfforts
from spookid.studies.excitation_search import Search
from spookid.studies.expected import ExpectedErrors, at_estimates, effort_densities, expected_errors, knowledge
from spookid.studies.motion_limits import MotionLimits
from spookid.studies.planned_motion import check_driven, planned_recording
from spookid.studies.random_motion import Noises
from spookid.studies.regression_unknowns import beliefs_of
from spookid.tables.numbers import counted, number
from spookid.tables.table import Table
from spookid.tables.tabular import Block, Tabular

RATE = 100.0
"""Of the controller where neither it nor a recording tells [Hz]."""
HARMONICS, STARTS, ITERATIONS = 10, 3, 100
_INSTANTS = 16
"""At which a design is judged, in a period of its highest frequency."""
_WIDTH = 0.02
"""Of smooth friction in a design, as a share of the limit of the rate."""
_TOLD = 0.9
"""A parameter counts among the largest errors if motions at random lessen its error by more than this factor."""
_RANDOM = 10
"""Motions at random that tell which directions can be seen."""

Progress = Callable[[int, int, float], None]
"""Told the number of the start from 1 on, its iterations and the criterion."""


@dataclass(frozen=True, eq=False)
class Excitation(Tabular):
    """A motion that was designed."""

    problem: str
    criterion: Criterion
    basis: Basis
    labels: tuple[str, ...]
    """Of the n coordinates."""
    motion: Array
    """Positions, rates and accelerations, (3, N, n)."""
    efforts: Array
    """Along the coordinates, (N, n) [N m or N]."""
    bounds: Bounds
    trajectory: Recording
    """Signals of the problem along it, with ``<label>_rate``: positions without noise, and what motors are to do."""
    expected: ExpectedErrors
    random: Array
    """Criterion of the starts, random motions within the same limits."""
    found: float
    """Criterion of this one."""
    ends: tuple[str, ...]
    """How each search ended, in the words of IPOPT."""
    directions: int
    """That motions or what is known beforehand show, which is what −log det counts."""
    interrupted: bool = False
    notices: tuple[str, ...] = field(default=())

    def blocks(self) -> Sequence[Block]:
        """What was designed, its extremes beside their limits, the errors to expect, and notices."""
        kind = "Fourier series" if self.basis.name == "fourier" else "B-splines"
        how = f"{counted(len(self.labels), 'joint')}, {kind} up to {self.basis.harmonics / self.basis.duration:g} Hz"
        title = f"Excitation of {self.problem}: {self.basis.duration:g} s at {self._rate:g} Hz, {how}"
        rows = []
        for i, label in enumerate(self.labels):
            (low, high), most = self.bounds.position[:, i], (self.bounds.rate[i], self.bounds.effort[i])
            at, rate, effort = (part[:, i] for part in (self.motion[0], self.motion[1], self.efforts))
            where = f"{number(at.min(), 3)} … {number(at.max(), 3)}"
            within = f"{number(low, 3)} … {number(high, 3)}" if math.isfinite(low) or math.isfinite(high) else ""
            largest = (number(float(np.max(np.abs(part))), 3) for part in (rate, effort))
            limits = (number(one, 3) if math.isfinite(one) else "" for one in most)
            pairs = zip(largest, limits, strict=True)
            rows.append((label, where, within, *(text for pair in pairs for text in pair)))
        heads = ("joint", "position", "limits", "rate", "limit", "effort", "limit")
        return [title, Table(heads, rows), self._gain, *self.expected.blocks(), *self.notices]

    @property
    def _rate(self) -> float:
        return 1 / float(np.median(np.diff(self.trajectory.t)))

    @property
    def _gain(self) -> str:
        """What the design has gained over its random starts."""
        best = float(np.min(self.random))
        if self.criterion == "determinant":
            share = math.exp((self.found - best) / 2 / max(self.directions, 1))
            what = "Errors are, in the geometric mean over all directions that motions show,"
        else:
            what = "The largest relative error is" if self.criterion == "largest" else "The errors named are"
            over = 2.0 if self.criterion == "largest" else 2.0 * max(len(self.criterion), 1)
            share = math.exp((self.found - best) / over)
        those = "that" if self.criterion == "largest" else "those"
        return f"{what} {share:.2g} times {those} of the best of {counted(len(self.random), 'random motion')}."

    def records(self) -> Sequence[dict[str, Any]]:
        """A row for each parameter: see ``ExpectedErrors``."""
        return self.expected.records()

    def __repr__(self) -> str:
        return f"<Excitation of {self.problem!r}: {self.basis.duration:g} s>"


@checked
def excite(
    problem: Declaration,
    duration: float,
    *,
    criterion: Criterion = "determinant",
    limits: MotionLimits | None = None,
    noise: Noises = None,
    known: Result | None = None,
    rate: float | None = None,
    basis: BasisName = "fourier",
    harmonics: int = HARMONICS,
    starts: int = STARTS,
    max_iterations: int = ITERATIONS,
    seed: int = 0,
    progress: Progress | None = None,
) -> Excitation:
    """Design a motion of hinges and sliders, each driven by one motor, from rest to rest.

    Args:
        problem: with or without recordings, whose place the motion takes.
        duration: [s].
        criterion: ``"determinant"``, −log det of the information; ``"largest"``, the largest relative standard error of
            those that a motion can lessen; or names of parameters, whose errors are made small.
        limits: every coordinate needs one of its rate.
        noise: sizes that the problem does not declare; see ``expected_errors``.
        known: a solution, from whose estimates and covariance the design goes on: which experiment comes next.
        rate: of the controller [Hz]; None: of the problem's recordings, else 100.
        basis: ``"fourier"`` or ``"bspline"``.
        harmonics: the highest frequency is that many periods in the duration; splines have as many coefficients.
        starts: random motions within the limits that a search begins from; the best is taken.
        max_iterations: of each search; 0 for the best of the random motions themselves.
        seed: of the random motions.
        progress: told how far it is.

    Returns:
        the best motion. If Ctrl-C comes after the first search, the best until then, marked as interrupted.

    Raises:
        ProblemError: for a mechanism that is no tree of driven hinges and sliders, noise of unknown size, limits that
            name what there is not or leave no room, and wrong arguments.
    """
    check_driven(problem)
    _check(problem, duration, criterion, basis, harmonics, starts, max_iterations, seed, rate)
    problem = at_estimates(problem, known)
    rate = _rate(problem) if rate is None else float(rate)
    plan = _Plan(problem, Basis(basis, float(duration), harmonics), rate, limits or MotionLimits(), noise, known)
    rng = np.random.default_rng(seed)
    search, left_out = plan.search(criterion, rng)
    return plan.result(criterion, search, _searched(search, rng, starts, max_iterations, progress), left_out)


class _Found(NamedTuple):
    """What searches have come to."""

    begun: list[Array]
    """Random motions that they start from."""
    found: list[Array]
    """What was found from the first of these."""
    ends: list[str]
    """How these searches ended."""
    interrupted: bool
    """True if Ctrl-C came."""


def _searched(search: Search, rng: np.random.Generator, starts: int, most: int, progress: Progress | None) -> _Found:
    """From random motions, the best first.

    Raises:
        KeyboardInterrupt: if that came before the first was found.
    """
    begun = [search.random(rng) for _ in range(starts)]
    begun.sort(key=search.design.value)
    found: list[Array] = []
    ends: list[str] = []
    watch = Watch()
    for i, z in enumerate(begun if most else [], 1):

        def seen(iteration: int, value: float, start: int = i) -> None:
            if progress is not None:
                progress(start, iteration, value)

        try:
            best, end = search.improved(z, watch, seen, most)
        except KeyboardInterrupt:
            watch.interrupted = True
        if watch.interrupted:
            if not found:
                raise KeyboardInterrupt
            return _Found(begun, found, ends, True)
        found.append(best)
        ends.append(end)
    return _Found(begun, found, ends, False)


@dataclass(frozen=True, eq=False)
class _Plan:
    """What a design is made of."""

    problem: Declaration
    basis: Basis
    rate: float
    limits: MotionLimits
    noise: Noises
    known: Result | None

    @property
    def t(self) -> Array:
        """Times of the controller, (N,) [s]."""
        return np.linspace(0.0, self.basis.duration, round(self.basis.duration * self.rate) + 1)

    def result(self, criterion: Criterion, search: Search, found: _Found, notices: tuple[str, ...]) -> Excitation:
        """The best motion, and the errors to expect of it."""
        problem, design, candidates = self.problem, search.design, [*found.begun, *found.found]
        values = [design.value(z) for z in candidates]
        motion = design.motion(candidates[int(np.argmin(values))], design.basis.at(self.t))
        trajectory = planned_recording(problem, self.t, motion)
        return Excitation(
            problem.name,
            criterion,
            self.basis,
            tuple(freedom.label for freedom in problem.model.freedoms),
            motion,
            design.efforts.asked(motion)[:, : motion.shape[2]],
            design.bounds,
            trajectory,
            expected_errors(problem, trajectory, noise=self.noise, known=self.known),
            np.array(values[: len(found.begun)]),
            min(values),
            tuple(found.ends),
            design.shown.shape[1],
            found.interrupted,
            notices,
        )

    def search(self, criterion: Criterion, rng: np.random.Generator) -> tuple[Search, tuple[str, ...]]:
        """With notices of what no motion shows."""
        problem, n = self.problem, len(self.problem.model.freedoms)
        bounds, frames = self.limits.bounds(problem), self.limits.frames(problem)
        width = problem.friction_width
        widths = np.maximum(_WIDTH * bounds.rate, WIDTH_AT_REST) if width is None else np.full(n, width)
        instants = np.linspace(0.0, self.basis.duration, _INSTANTS * self.basis.harmonics + 1)

        def design(densities: Array, known: Array, judged: Mask, shown: Array) -> Design:
            efforts = PlannedEfforts(problem, densities, widths, frames)
            sizes = np.array([magnitude(p, problem.guess[p.name]) for p in efforts.free])
            how = criterion == "determinant", criterion == "largest"
            return Design(efforts, self.basis, bounds, instants, known, sizes, judged, *how, shown)

        none = len(problem.free)
        blind = design(np.ones(n), np.zeros((none, none)), np.ones(none, dtype=bool), np.eye(none))
        first = Search(blind, self.t)
        z = [first.drawn(rng) for _ in range(_RANDOM)]
        recording = planned_recording(problem, self.t, blind.motion(z[0], self.basis.at(self.t)))
        free, names = blind.efforts.free, [p.name for p in blind.efforts.free]
        slopes = beliefs_of(problem, free).at(np.array([problem.guess[name] for name in names]))[1]
        known = knowledge(names, slopes.T @ slopes, self.known)
        densities = effort_densities(problem, recording, self.noise, self.known)
        seeing = design(densities, known, np.ones(none, dtype=bool), np.eye(none))
        data = sum((seeing.information(seeing.motion(one)) for one in z), np.zeros((none, none)))
        shown, judged = _seen(data, known * np.outer(seeing.sizes, seeing.sizes))
        left_out = [name for name, counts in zip(names, judged, strict=True) if not counts]
        if not isinstance(criterion, str):
            judged = _named(problem, names, criterion, judged)
            left_out = []
        told = (
            f"Motions hardly lessen the errors of {', '.join(left_out)}; the largest error is that of the others."
            if left_out and criterion == "largest"
            else ""
        )
        return Search(design(densities, known, judged, shown), self.t), tuple(filter(None, [told]))


def _seen(data: Array, known: Array) -> tuple[Array, Mask]:
    """Directions that motions or what is known beforehand show, and the parameters whose errors motions lessen."""
    sizes, directions = np.linalg.eigh(data + known)
    shown = directions[:, sizes > SHOWN * max(float(sizes[-1]), 1e-300)]
    hidden = 1 - np.sum(shown**2, axis=1) > _UNSEEN
    after = np.diag(shown @ np.linalg.inv(shown.T @ (data + known) @ shown) @ shown.T)
    values, turns = np.linalg.eigh(known)
    some = values > SHOWN * max(float(values[-1]), 1e-300)
    before = np.diag((turns[:, some] / values[some]) @ turns[:, some].T)
    unknown = 1 - np.sum(turns[:, some] ** 2, axis=1) > _UNSEEN
    return shown, ~hidden & (unknown | (after < _TOLD**2 * before))


_UNSEEN = 1e-4
"""Share of a parameter's squared length in directions that nothing shows, from which on it is not seen."""


def _named(problem: Declaration, names: Sequence[str], wanted: Sequence[str], seen: Mask) -> Mask:
    """Which parameters are asked for by name.

    Raises:
        ProblemError: for a name that is no free parameter, or that no motion tells anything of.
    """
    for name in wanted:
        if name not in names:
            raise ProblemError(
                f"{problem.place}: criterion names {name!r}, which is no free parameter; there are {', '.join(names)}"
            )
        if not seen[names.index(name)]:
            raise ProblemError(
                f"{problem.place}: criterion names {name!r}, of which joint motions within these limits tell next to "
                "nothing; leave it out, or fix what it cannot be told from"
            )
    return np.array([name in wanted for name in names])


def _rate(problem: Declaration) -> float:
    """That of the first recording's first sensor."""
    if not (problem.recordings and problem.channels):
        return RATE
    return 1 / float(np.median(np.diff(finite_samples(problem.recordings[0], problem.channels[0].signal)[0])))


def _check(
    problem: Declaration,
    duration: float,
    criterion: Criterion,
    basis: str,
    harmonics: int,
    starts: int,
    max_iterations: int,
    seed: int,
    rate: float | None,
) -> None:
    what = f"{problem.place}: excite"
    for name, value in (("duration", duration), ("rate", RATE if rate is None else rate)):
        if not (isinstance(value, (int, float)) and 0 < value < math.inf):
            raise ProblemError(f"{what}: {name} is {shown(value)}; give a number above 0")
    counts = ("harmonics", harmonics), ("starts", starts), ("max_iterations", max_iterations), ("seed", seed)
    for name, count in counts:
        least = {"harmonics": 3, "starts": 1}.get(name, 0)
        if not (isinstance(count, int) and count >= least):
            raise ProblemError(f"{what}: {name} is {shown(count)}; give a whole number from {least} on")
    if basis not in get_args(BasisName):
        raise ProblemError(f"{what}: basis {shown(basis)} is not known; choose from {', '.join(get_args(BasisName))}")
    if not criterion or (isinstance(criterion, str) and criterion not in ("determinant", "largest")):
        raise ProblemError(
            f"{what}: criterion {shown(criterion)} is not known; choose 'determinant' or 'largest', or give a list of "
            "names of parameters"
        )
    if not problem.free:
        raise ProblemError(f"{what}: Problem {problem.name!r} has no free parameter to learn of")
    highest = harmonics / duration
    if (sampled := RATE if rate is None else rate) < 4 * highest:
        raise ProblemError(f"{what}: a rate of {sampled:g} Hz is too low for motions up to {highest:g} Hz; raise it")
