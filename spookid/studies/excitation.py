"""The motion that a fit learns most from, under limits, before anything moves (Swevers et al., IEEE Transactions on
Robotics and Automation 13, 1997; Martinez et al., Appendix B).

Joint angles are Fourier series or splines from rest to rest. They are chosen for the information of the efforts along
them (``excitation_rows``), and what is promised is what the fit itself would report (``expected_errors``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from spookid.argument_checks import checked
from spookid.assembly.constants import declared_widths, magnitude
from spookid.assembly.initialization import WIDTH_AT_REST
from spookid.assembly.problem import Problem
from spookid.data.recording import Recording
from spookid.errors import ProblemError, shown
from spookid.kernels.arrays import Array, Mask
from spookid.kernels.precision import NO_INFORMATION
from spookid.results.result import Solution
from spookid.solvers.callbacks import Watch
from spookid.solvers.resuming import next_place
from spookid.statistics.weak_directions import RESOLVED
from spookid.studies.excitation_design import LIMITED, Basis, BasisName, Criterion, Design, Search
from spookid.studies.excitation_result import Excitation
from spookid.studies.excitation_rows import PlannedEfforts
from spookid.studies.expected import at_estimates, effort_densities, expected_errors, knowledge
from spookid.studies.motion_limits import MotionLimits
from spookid.studies.motor_efforts import sampled_every
from spookid.studies.planned_coordinates import PlannedCoordinates, home_pose
from spookid.studies.planned_motion import recorded
from spookid.studies.regression_unknowns import beliefs_of
from spookid.studies.simulation_start import Initial, Noises

RATE = 100.0
"""Of the controller where neither it nor a recording says it [Hz]."""
MOST_ITERATIONS = 1000
"""Of each search, by default."""
_INSTANTS = 16
"""At which a design is judged, in a period of its highest frequency."""
_WIDTH = 0.02
"""Of smooth friction in a design, as a share of the limit of the rate."""
_TOLD = 0.9
"""A parameter counts among the largest errors if motions at random lessen its error by more than this factor."""
_RANDOM = 10
"""Random motions that show which directions are identifiable."""

Progress = Callable[[int, int, float], None]
"""A function of the number of the start, from 1 on, its iterations and the criterion."""


@checked
def excite(
    problem: Problem,
    duration: float,
    *,
    criterion: Criterion = "determinant",
    limits: MotionLimits | None = None,
    noise: Noises = None,
    known: Solution | None = None,
    rate: float | None = None,
    basis: BasisName = "fourier",
    harmonics: int = 10,
    starts: int = 3,
    max_iterations: int = MOST_ITERATIONS,
    seed: int = 0,
    initial: Initial = None,
    progress: Progress | None = None,
) -> Excitation:
    """Design a motion from rest to rest that identifies the parameters best. Motors must drive all degrees of freedom.

    Joints are hinges and sliders; they may close loops, and free bodies may stand on contacts that hold throughout.

    Args:
        problem: a problem, with or without recordings; the motion replaces them.
        duration: [s].
        criterion: ``"determinant"``, −log det of the information; ``"largest"``, the largest relative standard error of
            those that a motion can lessen; or names of parameters, whose errors are made small.
        limits: limits of the motion; each coordinate needs a limit of its rate.
        noise: noise that the problem does not declare; see ``expected_errors``.
        known: a solution, from whose estimates and covariance the design continues: which experiment comes next.
        rate: sampling rate of the controller [Hz]; default: that of the problem's recordings, else 100.
        basis: ``"fourier"`` or ``"bspline"``.
        harmonics: the highest frequency is that many periods in the duration; splines have as many coefficients.
        starts: random motions within the limits that a search begins from; the best is taken.
        max_iterations: limit of iterations of each search. A search ends where it converges; `notices` report one that
            does not. 0 returns the best of the random motions.
        seed: seed of the random motions.
        initial: a pose around which motions are planned, as of ``simulate``, and where contacts stand; None: joints in
            the middle of their limits, in mechanisms with loops or free bodies where the problem's first recording
            begins, else where springs are at rest.
        progress: a function of start, iteration and criterion.

    Returns:
        the best motion. If Ctrl-C comes while motions are searched, the best until then, marked as interrupted.

    Raises:
        ProblemError: for a mechanism that motors do not move in every way, or that rolls, hits or only touches, noise
            of unknown size, limits that name what there is not or leave no room, and wrong arguments.
    """
    _check(problem, duration, criterion, harmonics, starts, max_iterations, seed, rate)
    problem = at_estimates(problem, known)
    if rate is None:  # that of the first recording's first sensor
        known_rate = problem.recordings and problem.channels
        rate = 1 / sampled_every(problem.recordings[0], problem.channels[:1]) if known_rate else RATE
    home = home_pose(problem, initial)
    plan = _Plan(
        problem, Basis(basis, float(duration), harmonics), float(rate), limits or MotionLimits(), noise, known, home
    )
    rng = np.random.default_rng(seed)
    search, left_out = plan.search(criterion, rng)
    return plan.result(criterion, search, _searched(search, rng, starts, max_iterations, progress), left_out)


class _Found(NamedTuple):
    """The random motions that searches start from, what was found, how each ended, and whether Ctrl-C came."""

    begun: list[Array]
    found: list[Array]
    ends: list[str]
    interrupted: bool


def _searched(search: Search, rng: np.random.Generator, starts: int, most: int, progress: Progress | None) -> _Found:
    """From random motions, the best first; of a search that Ctrl-C ends, where it stood."""
    begun = sorted((search.random(rng) for _ in range(starts)), key=search.design.value)
    found: list[Array] = []
    ends: list[str] = []
    watch = Watch()
    for i, z in enumerate(begun if most else [], 1):

        def seen(iteration: int, value: float, start: int = i) -> None:
            if progress is not None:
                progress(start, iteration, value)

        guess = search.design.efforts.problem.guess
        place = next_place("excitation", repr(sorted(guess.items())), search.design.known.tobytes(), z.tobytes())
        if (kept := place.read()) is not None:
            found.append(kept["best"])
            ends.append(str(kept["end"]))
            continue
        try:
            best, end = search.improved(z, watch, seen, most)
        except KeyboardInterrupt:
            watch.interrupted = True
            break
        found.append(best)
        if watch.interrupted:
            break
        ends.append(end)
        if place.due:
            place.keep({"best": best, "end": np.array(end)})
    return _Found(begun, found, ends, watch.interrupted)


@dataclass(frozen=True, eq=False)
class _Plan:
    """What a design is made of."""

    problem: Problem
    basis: Basis
    rate: float
    limits: MotionLimits
    noise: Noises
    known: Solution | None
    initial: Initial

    @property
    def t(self) -> Array:
        """Timestamps of the trajectory for a controller, (N,) [s]."""
        return np.linspace(0.0, self.basis.duration, round(self.basis.duration * self.rate) + 1)

    def result(self, criterion: Criterion, search: Search, found: _Found, notices: tuple[str, ...]) -> Excitation:
        """Return the best motion with its expected standard errors."""
        problem, design, candidates = self.problem, search.design, [*found.begun, *found.found]
        values = [design.value(z) for z in candidates]
        planned = design.motion(candidates[int(np.argmin(values))], design.basis.at(self.t))
        told, n = design.efforts.told(planned), len(problem.model.freedoms)
        trajectory = recorded(design.efforts, self.t, planned)
        contacts = zip(problem.model.holding.contacts, told.forces, strict=True)
        if limited := found.ends.count(LIMITED):
            stopped = f"{limited} of {len(found.ends)} searches stopped at max_iterations before they converged"
            notices = (*notices, f"{stopped}; raise max_iterations.")
        return Excitation(
            problem.name,
            criterion,
            self.basis,
            tuple(freedom.label for freedom in problem.model.freedoms),
            planned,
            told.joints,
            design.efforts.asked(planned)[:, 2 * n : 3 * n],
            {contact.name: force for contact, force in contacts},
            self.limits,
            design.bounds,
            trajectory,
            expected_errors(problem, trajectory, noise=self.noise, known=self.known),
            np.array(values[: len(found.begun)]),
            min(values),
            tuple(found.ends),
            design.shown.shape[1],
            problem,
            self.initial,
            found.interrupted,
            notices,
        )

    def search(self, criterion: Criterion, rng: np.random.Generator) -> tuple[Search, tuple[str, ...]]:
        """Set up the search for a motion, with warnings of parameters that no motion identifies."""
        problem, bounds = self.problem, self.limits.bounds(self.problem)
        finite = np.isfinite(bounds.position).all(axis=0)
        middle = np.where(finite, np.where(finite, bounds.position, 0.0).mean(axis=0), 0.0)
        coordinates = PlannedCoordinates(problem, middle, self.initial)
        t = self.t
        shown_by = [channel.signal for channel in problem.channels]
        idle = Recording(t=t, signals={name: 0 * t for name in (*problem.model.signals, *shown_by)})
        densities = effort_densities(problem, idle, self.noise, self.known)
        fastest = np.where(np.isfinite(bounds.rate), np.maximum(bounds.rate, WIDTH_AT_REST / _WIDTH), 1.0)
        widths = declared_widths(problem, _WIDTH * fastest)
        frames, cones = self.limits.frames(problem), self.limits.cones(problem)
        efforts = PlannedEfforts(coordinates, densities, widths, frames, cones)
        instants = np.linspace(0.0, self.basis.duration, _INSTANTS * self.basis.harmonics + 1)
        free = efforts.free
        names, values = [p.name for p in free], np.array([problem.guess[p.name] for p in free])
        scales = np.array([magnitude(p, problem.guess[p.name]) for p in free])
        slopes = beliefs_of(problem, free)(values)[1]
        known = knowledge(names, slopes.T @ slopes, self.known)

        def design(judged: Mask, shown: Array) -> Design:
            how = criterion == "determinant", criterion == "largest"
            return Design(efforts, self.basis, bounds, instants, known, scales, judged, *how, shown)

        blind = design(np.ones(len(free), dtype=bool), np.eye(len(free)))
        first = Search(blind, t)
        drawn = [first.drawn(rng) if not coordinates.dependent else first.random(rng, 1) for _ in range(_RANDOM)]
        data = sum((blind.information(blind.motion(z)) for z in drawn), np.zeros((len(free), len(free))))
        shown, judged = _seen(data, known * np.outer(scales, scales))
        left_out = [name for name, counts in zip(names, judged, strict=True) if not counts]
        if not isinstance(criterion, str):
            judged = _named(problem, names, criterion, judged)
            left_out = []
        said = (
            f"Random motions barely reduce the standard errors of {', '.join(left_out)}. The criterion 'largest' omits "
            "these parameters."
        )
        return Search(design(judged, shown), t), (said,) if left_out and criterion == "largest" else ()


def _seen(data: Array, known: Array) -> tuple[Array, Mask]:
    """Directions that motions or what is known from the prior show, and the parameters whose errors motions lessen."""
    sizes, directions = np.linalg.eigh(data + known)
    shown = directions[:, sizes > NO_INFORMATION * max(float(sizes[-1]), 1e-300)]
    hidden = 1 - np.sum(shown**2, axis=1) > RESOLVED
    after = np.diag(shown @ np.linalg.inv(shown.T @ (data + known) @ shown) @ shown.T)
    values, turns = np.linalg.eigh(known)
    some = values > NO_INFORMATION * max(float(values[-1]), 1e-300)
    before = np.diag((turns[:, some] / values[some]) @ turns[:, some].T)
    unknown = 1 - np.sum(turns[:, some] ** 2, axis=1) > RESOLVED
    return shown, ~hidden & (unknown | (after < _TOLD**2 * before))


def _named(problem: Problem, names: Sequence[str], wanted: Sequence[str], seen: Mask) -> Mask:
    """Which parameters are asked for by name.

    Raises:
        ProblemError: for a name that is no free parameter, or that no motion determines.
    """
    for name in wanted:
        if name not in names:
            raise ProblemError(
                f"{problem.place}: criterion names {name!r}, which is no free parameter; there are {', '.join(names)}"
            )
        if not seen[names.index(name)]:
            raise ProblemError(
                f"{problem.place}: criterion names {name!r}, which joint motions within these limits barely "
                "determine; leave it out, or fix the parameters that it is correlated with"
            )
    return np.array([name in wanted for name in names])


def _check(
    problem: Problem,
    duration: float,
    criterion: Criterion,
    harmonics: int,
    starts: int,
    max_iterations: int,
    seed: int,
    rate: float | None,
) -> None:
    what = f"{problem.place}: excite"
    for name, value in (("duration", duration), ("rate", RATE if rate is None else rate)):
        if not 0 < value < math.inf:
            raise ProblemError(f"{what}: {name} is {shown(value)}; give a number above 0")
    counts = ("harmonics", harmonics), ("starts", starts), ("max_iterations", max_iterations), ("seed", seed)
    for name, count in counts:
        least = {"harmonics": 3, "starts": 1}.get(name, 0)
        if count < least:
            raise ProblemError(f"{what}: {name} is {shown(count)}; give a whole number from {least} on")
    if not criterion or (isinstance(criterion, str) and criterion not in ("determinant", "largest")):
        raise ProblemError(
            f"{what}: criterion {shown(criterion)} is not known; choose 'determinant' or 'largest', or give a list of "
            "names of parameters"
        )
    if not problem.free:
        raise ProblemError(f"{what}: Problem {problem.name!r} has no free parameter to learn of; free one")
    highest = harmonics / duration
    if (sampled := RATE if rate is None else rate) < 4 * highest:
        raise ProblemError(f"{what}: a rate of {sampled:g} Hz is too low for motions up to {highest:g} Hz; raise it")
