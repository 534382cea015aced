"""How much of what a recorded motion takes a model explains before any fit, its parameters near their guesses.

The motion is that of the initial guess. What it takes less what acts is left along each coordinate, or along the
directions that loops leave; it is compared with the parts that it is made of, which come from accelerations, rates,
positions and inputs. Where a time, an angle or a force is in another unit one part dwarfs the others, and nothing that
is near the guesses balances it: the share is then about one, whatever the mechanism and its size.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property
from itertools import pairwise

import casadi as ca
import numpy as np

from spookid.assembly import initialization
from spookid.assembly.checks import check_closure
from spookid.assembly.constants import magnitude, width_along
from spookid.assembly.problem import Problem
from spookid.data.inputs import acting
from spookid.data.recording import Recording
from spookid.data.sampling import Grid, finite_samples, grid
from spookid.errors import ProblemError
from spookid.estimation.grouping import unknown
from spookid.estimation.motions import Given, Motion, directions, measured
from spookid.kernels.arrays import Array, contiguous
from spookid.kernels.kernel import Kernel
from spookid.mechanics.kinematics import Values
from spookid.mechanics.regressor import Regressor
from spookid.records import dataclass
from spookid.solvers.quadratic_program import bounded_least_squares

_PER_CUTOFF = 8
"""Steps in a period of the cutoff; there may be fewer samples."""
_MOST_STEPS = 5000
"""Of a recording, where it moves most."""
_LEAST = 10
"""Instants without which nothing is told."""
_ROWS = 900
"""That tell whether a model explains a motion."""
_DECADE = 10.0
"""Factor by which a parameter may be off its guess."""
_PASSES = 2
"""Of least squares, each weighted by the parts at the parameters of the one before."""
_EVALUATIONS = 10
_RIDGE = 1e-3
"""Weight of a change of 100 % of a parameter against what is left, as a share of the parts."""


class Balance:
    """The balance of forces of a problem's model, built once for all of its recordings.

    Raises:
        ProblemError: if its loops cannot close.
    """

    def __init__(self, problem: Problem) -> None:
        check_closure(problem)
        self.problem, self.free = problem, unknown(problem)
        self.regressor = Regressor(problem.model, self.free)
        function, self._others = self.regressor.in_parameters()
        x, s, a, width, u, *numbers = (ca.SX.sym("x", function.size1_in(i)) for i in range(function.n_in()))
        left, slopes = function(x, s, a, width, u, *numbers)
        given = [x, s, a, u, width, *numbers]
        self._rows = Kernel(ca.Function("rows", given, [ca.densify(ca.vertcat(left, slopes))]), 4)
        self._left, self._count = Kernel(ca.Function("left", given, [ca.densify(left)]), 4), left.numel()

    def along(self, recording: Recording) -> Efforts:
        """What a recording asks for.

        Raises:
            ProblemError: if it is too short, or loops do not close along it.
        """
        problem, model = self.problem, self.problem.model
        step = max(1 / (_PER_CUTOFF * problem.cutoff), longest_interval(problem, recording))
        recording = _liveliest(recording, [c.signal for c in problem.channels], step * _MOST_STEPS)
        steps, values = grid(recording, step), problem.guess_on(recording.name)
        guess = initialization.guess(model, problem.channels, recording, steps, values, problem.cutoff)
        given = measured(self.regressor, guess, step, np.ones((steps.count - 1, len(model.holding.contacts))))
        widths = width_along(np.gradient(guess.displacements, step, axis=0))
        every = math.ceil((steps.count - 2) / len(given.motion.x))
        ends = math.ceil(1 / problem.cutoff / step / every)
        kept = np.arange(len(given.motion.x))[ends:-ends]
        if len(kept) < _LEAST:
            raise ProblemError(
                f"recording {recording.name!r} has {len(kept)} instants that tell efforts; record longer"
            )
        kept = kept[:: max(len(kept) * given.motion.s.shape[1] // _ROWS, 1)]
        given = Given(Motion(*(part[kept] for part in given.motion)), given.holding[kept])
        bases = _together(directions(self.regressor, given, widths, values))
        clock = steps.times()[1:-1]
        samples = self._acting(recording, steps, values)
        return Efforts(self, given.motion, widths, values, bases, clock[kept * every], clock, samples)

    def with_inputs(self, efforts: Efforts, recording: Recording) -> Efforts:
        """The same motion with the inputs of another recording, whose samples have the same times."""
        steps = Grid(efforts.clock[0] - efforts.step, efforts.step, len(efforts.clock) + 2)
        return replace(efforts, samples=self._acting(recording, steps, efforts.values))

    def _acting(self, recording: Recording, steps: Grid, values: Values) -> Array:
        """Inputs at the inner steps, (N − 2, n_u)."""
        mean = acting(recording, self.problem.model.inputs, steps, values)[0].mean
        return (mean[1:] + mean[:-1]) / 2

    def rows(self, efforts: Efforts, free: Array) -> tuple[Array, Array]:
        """What is left, (N, m), and its slopes with the free Parameters, (N, m, n)."""
        left, flat = np.split(self._along(self._rows, efforts, free, 1 + len(free)), [self._count], axis=1)
        slopes = flat.reshape(len(left), len(free), self._count)
        return efforts.along(left), efforts.along(slopes.transpose(0, 2, 1))

    def left(self, efforts: Efforts, free: Array) -> Array:
        """What is left alone, (N, m)."""
        return efforts.along(self._along(self._left, efforts, free, 1))

    def _along(self, kernel: Kernel, efforts: Efforts, free: Array, columns: int) -> Array:
        known = [efforts.values[p.name] for p in self._others]
        stepwise = [contiguous(part) for part in (*efforts.motion, efforts.inputs)]
        out = np.empty((len(efforts.t), columns * self._count))
        return kernel(stepwise, [contiguous(part) for part in (efforts.widths, free, known)], out)


@dataclass(frozen=True, eq=False)
class Efforts:
    """A motion at N instants, and what acts then."""

    balance: Balance
    motion: Motion
    widths: Array
    """Of smooth friction [rad/s or m/s]."""
    values: dict[str, float]
    """Guesses, by name."""
    bases: Array | None
    """Directions that loops leave, as many at each instant, (N, m_0, m); None without loops."""
    t: Array
    """[s], (N,)."""
    clock: Array
    """Times of all samples of the inputs [s]."""
    samples: Array
    """Inputs then."""
    late: float = 0.0
    """By how much later than their stamps inputs act [s]."""

    def along(self, rows: Array) -> Array:
        """Rows of all coordinates (N, m_0, ...), along the directions that loops leave, (N, m, ...)."""
        if self.bases is None:
            return rows
        return np.asarray(np.einsum("kji,kj...->ki...", self.bases, rows))

    @property
    def step(self) -> float:
        """Of the balance [s]."""
        return float(self.clock[1] - self.clock[0])

    @cached_property
    def inputs(self) -> Array:
        """(N, n_u)."""
        columns = [np.interp(self.t - self.late, self.clock, column) for column in self.samples.T]
        return np.column_stack(columns) if columns else np.zeros((len(self.t), 0))

    @cached_property
    def nearest(self) -> Array:
        """Values of the free Parameters within a decade of their guesses, and within their bounds, that leave least."""
        free = self.balance.free
        at = np.array([self.values[p.name] for p in free])
        if not free:
            return at
        sizes = np.array([magnitude(p, self.values[p.name]) for p in free])
        guess, limits = at, np.array([_near(p.lower, p.upper, g, s) for p, g, s in zip(free, at, sizes, strict=True)]).T
        for _ in range(_PASSES):
            weights = self.parts(at) * math.sqrt(len(self.t))

            def weighted(x: Array, weights: Array = weights) -> tuple[Array, Array]:
                left, slopes = self.balance.rows(self, x)
                near = _RIDGE * (x - guess) / sizes, _RIDGE * np.diag(1 / sizes)
                whole = (slopes / weights[:, None]).reshape(-1, len(x))
                return np.append(left / weights, near[0]), np.vstack([whole, near[1]])

            if not np.all(np.isfinite(weighted(at)[0])):
                return guess
            at = bounded_least_squares(weighted, at, limits[0], limits[1], _EVALUATIONS)
        return at

    def parts(self, free: Array) -> Array:
        """Root mean square of what comes from accelerations, rates, inputs and positions together, (m,); 1 for none."""
        motion, inputs = self.motion, self.samples
        still = replace(self, motion=motion._replace(a=0 * motion.a))
        rest = replace(self, motion=Motion(motion.x, 0 * motion.s, 0 * motion.a))
        stages = (self, still, rest, replace(rest, samples=0 * inputs))
        left = [self.balance.left(one, free) for one in stages]
        parts = [*(one - other for one, other in pairwise(left)), left[-1]]
        total = np.sqrt(np.mean(sum((part**2 for part in parts), np.zeros(1)), axis=0))
        return np.where(total > 0, total, 1.0)

    @cached_property
    def _sizes(self) -> Array:
        return self.parts(self.nearest)

    @cached_property
    def unexplained(self) -> Array:
        """Share of the parts that is left along each direction, (m,); infinite where it is no number."""
        with np.errstate(all="ignore"):
            left = self.balance.left(self, self.nearest)
            share = np.sqrt(np.mean(left**2, axis=0)) / self._sizes
        return np.where(np.isfinite(share), share, math.inf)

    def delayed(self, late: float) -> Efforts:
        """The same with inputs that act later [s]."""
        return replace(self, late=late)


def _together(bases: list[Array] | None) -> Array | None:
    """Bases as one array: as many directions of each as all have."""
    if bases is None:
        return None
    count = min(basis.shape[1] for basis in bases)
    return np.array([basis[:, :count] for basis in bases])


def longest_interval(problem: Problem, recording: Recording) -> float:
    """The median interval between samples of the sensor that has fewest [s]; 0 of one sample each."""
    times = (finite_samples(recording, channel.signal)[0] for channel in problem.channels)
    return max((float(np.median(np.diff(t))) for t in times if len(t) > 1), default=0.0)


def _near(lower: float, upper: float, guess: float, size: float) -> tuple[float, float]:
    """Bounds a decade around a guess; of a parameter that may have either sign a decade around zero."""
    if lower < 0 or guess == 0:
        return max(lower, -_DECADE * size), min(upper, _DECADE * size)
    return max(lower, guess / _DECADE), min(upper, guess * _DECADE)


def _liveliest(recording: Recording, signals: list[str], duration: float) -> Recording:
    """The stretch of so many seconds over which signals spread most; the whole of a shorter recording."""
    start, stop = float(recording.t[0]), float(recording.t[-1])
    if stop - start <= duration:
        return recording
    columns = np.column_stack([recording.signal(signal) for signal in signals])
    columns = columns / np.maximum(np.nanstd(columns, axis=0), 1e-300)
    begins = np.arange(start, stop - duration / 2, duration)
    edges = np.append(np.searchsorted(recording.t, begins), len(recording.t))
    spread = [float(np.nansum(np.nanstd(columns[a:b], axis=0))) for a, b in pairwise(edges) if b > a + 1]
    begin = begins[int(np.argmax(spread))]
    return recording.between(begin, begin + duration)
