"""Share of the inverse-dynamics efforts that a model explains before any fit, with parameters near their initial
values.

The motion is that of the initial values. The difference of required and acting efforts along each coordinate, or along
the free directions of loops, is compared with its parts from accelerations, rates, positions and inputs. If a time, an
angle or a force has a wrong unit, one part dominates the others, and no parameters near the initial values balance it:
the unexplained share is then about one for any mechanism.

All inputs of a log share a clock, so that one lag τ is estimated for all equations together with the parameters, by
weighted least squares under the null hypothesis. Residuals are not white: the variance of τ follows from sums of scores
over blocks of time with equal information (Ibragimov, Müller, Journal of Business and Economic Statistics 28, 2010),
and the likelihood ratio is corrected by it (Kent, Biometrika 69, 1982). If a model error is correlated for longer than
a block, the errors are too small.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import pairwise

import casadi as ca
import numpy as np

from spookid.assembly import initialization
from spookid.assembly.checks import check_closure
from spookid.assembly.constants import magnitude, resolution, width_along
from spookid.assembly.initialization import prepared
from spookid.assembly.problem import Problem
from spookid.data.channels import Channel
from spookid.data.inputs import acting
from spookid.data.recording import Recording
from spookid.data.sampling import Grid, finite_samples, grid
from spookid.errors import ProblemError
from spookid.estimation.grouping import unknown
from spookid.estimation.motions import Given, Motion, directions, measured
from spookid.kernels.arrays import Array, contiguous
from spookid.kernels.kernel import Kernel
from spookid.kernels.precision import HALF_DIGITS
from spookid.kernels.scipy_parts import special
from spookid.mechanics.kinematics import Values
from spookid.mechanics.regressor import Regressor
from spookid.records import dataclass
from spookid.solvers.quadratic_program import bounded_least_squares
from spookid.statistics.marginal import roughness


class Balance:
    """Force balance of a problem's model, built once for all recordings; refuses loops that cannot close."""

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

    def along(self, recording: Recording, most: int = 5000, least: int = 10, rows: int = 900) -> Efforts:
        """Efforts that a recording requires where it moves most, at so many steps; raises ProblemError if it is too
        short, or loops do not close."""
        problem, model = self.problem, self.problem.model
        step = max(1 / (8 * problem.cutoff), longest_interval(problem, recording))
        recording = _liveliest(recording, [c.signal for c in problem.channels], step * most)
        steps, values = grid(recording, step), problem.guess_on(recording.name)
        guess = initialization.guess(model, problem.channels, recording, steps, values, problem.cutoff)
        given = measured(self.regressor, guess, step, np.ones((steps.count - 1, len(model.holding.contacts))))
        widths = width_along(np.gradient(guess.displacements, step, axis=0))
        every = math.ceil((steps.count - 2) / len(given.motion.x))
        ends = math.ceil(1 / problem.cutoff / step / every)
        kept = np.arange(len(given.motion.x))[ends:-ends]
        if len(kept) < least:
            raise ProblemError(f"recording {recording.name!r} has only {len(kept)} usable samples; record longer")
        kept = kept[:: max(len(kept) * given.motion.s.shape[1] // rows, 1)]
        given = Given(Motion(*(part[kept] for part in given.motion)), given.holding[kept])
        bases = _together(directions(self.regressor, given, widths, values))
        clock = steps.times()[1:-1]
        samples = self._acting(recording, steps, values)
        return Efforts(self, given.motion, widths, values, bases, clock[kept * every], clock, samples)

    def with_inputs(self, efforts: Efforts, recording: Recording) -> Efforts:
        """Same motion with the inputs of another recording with equal sample times."""
        steps = Grid(efforts.clock[0] - efforts.step, efforts.step, len(efforts.clock) + 2)
        return replace(efforts, samples=self._acting(recording, steps, efforts.values))

    def beyond_noise(self, efforts: Efforts, recording: Recording, draws: int = 8, errors: float = 3.0) -> Array:
        """Unexplained share along each direction, (m,), less in its square than what the white noise of the sensors
        contributes: so many of its standard deviations, from repetitions with more of that noise."""
        rng = np.random.default_rng(0)
        recording, before = prepared(recording, self.problem.channels), self.left(efforts, efforts.nearest)
        squares = [np.zeros(before.shape[1])]
        for _ in range(draws):
            noisy = self.along(recording.with_signals(**_noise(self.problem.channels, recording, rng)))
            more = self.left(replace(noisy, widths=efforts.widths, late=efforts.late), efforts.nearest) - before
            squares.append(np.mean(more**2, axis=0))
        share = errors**2 * np.sum(squares, axis=0) / draws / efforts.sizes**2
        return np.asarray(np.sqrt(np.maximum(efforts.unexplained**2 - share, 0.0)))

    def _acting(self, recording: Recording, steps: Grid, values: Values) -> Array:
        """Inputs at the inner steps, (N − 2, n_u)."""
        mean = acting(recording, self.problem.model.inputs, steps, values)[0].mean
        return (mean[1:] + mean[:-1]) / 2

    def rows(self, efforts: Efforts, free: Array) -> tuple[Array, Array]:
        """Residuals of the balance, (N, m), and their derivatives in the free Parameters, (N, m, n)."""
        left, flat = np.split(self._along(self._rows, efforts, free, 1 + len(free)), [self._count], axis=1)
        slopes = flat.reshape(len(left), len(free), self._count)
        return efforts.along(left), efforts.along(slopes.transpose(0, 2, 1))

    def left(self, efforts: Efforts, free: Array) -> Array:
        """Residuals of the balance, without derivatives, (N, m)."""
        return efforts.along(self._along(self._left, efforts, free, 1))

    def _along(self, kernel: Kernel, efforts: Efforts, free: Array, columns: int) -> Array:
        known = [efforts.values[p.name] for p in self._others]
        stepwise = [contiguous(part) for part in (*efforts.motion, efforts.inputs)]
        out = np.empty((len(efforts.t), columns * self._count))
        return kernel(stepwise, [contiguous(part) for part in (efforts.widths, free, known)], out)


@dataclass(frozen=True, eq=False)
class Efforts:
    """Motion at N instants, and the efforts that act then."""

    balance: Balance
    motion: Motion
    widths: Array
    """Of smooth friction [rad/s or m/s]."""
    values: dict[str, float]
    """Initial values, by name."""
    bases: Array | None
    """Directions that loops leave, as many at each instant, (N, m_0, m); None without loops."""
    t: Array
    """[s], (N,)."""
    clock: Array
    """Times of all samples of the inputs [s]."""
    samples: Array
    """Inputs then."""
    late: float = 0.0
    """By how much later than their timestamps inputs act [s]."""

    def along(self, rows: Array) -> Array:
        """Project equations of all coordinates (N, m_0, ...) on the directions that loops leave free, (N, m, ...)."""
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
        """Best values of the free Parameters within their bounds and a factor of ten of the initial values."""
        free = self.balance.free
        at = np.array([self.values[p.name] for p in free])
        if not free:
            return at
        sizes = np.array([magnitude(p, self.values[p.name]) for p in free])
        ridge = 1e-3  # weight of a change of 100 % against what is left, as a share of the parts
        guess, limits = at, np.array([_near(p.lower, p.upper, g, s) for p, g, s in zip(free, at, sizes, strict=True)]).T
        for _ in range(2):  # weighted by the parts at the initial values, then at what these lead to
            weights = self.parts(at) * math.sqrt(len(self.t))

            def weighted(x: Array, weights: Array = weights) -> tuple[Array, Array]:
                left, slopes = self.balance.rows(self, x)
                near = ridge * (x - guess) / sizes, ridge * np.diag(1 / sizes)
                whole = (slopes / weights[:, None]).reshape(-1, len(x))
                return np.append(left / weights, near[0]), np.vstack([whole, near[1]])

            if not np.all(np.isfinite(weighted(at)[0])):
                return guess
            at = bounded_least_squares(weighted, at, limits[0], limits[1], 10)
        return at

    def parts(self, free: Array) -> Array:
        """Rms of the sum of effort magnitudes from accelerations, rates, inputs and positions, (m,); 1 if zero."""
        motion, inputs = self.motion, self.samples
        still = replace(self, motion=motion._replace(a=0 * motion.a))
        rest = replace(self, motion=Motion(motion.x, 0 * motion.s, 0 * motion.a))
        stages = (self, still, rest, replace(rest, samples=0 * inputs))
        left = [self.balance.left(one, free) for one in stages]
        parts = [*(one - other for one, other in pairwise(left)), left[-1]]
        total = np.sqrt(np.mean(sum((part**2 for part in parts), np.zeros(1)), axis=0))
        return np.where(total > 0, total, 1.0)

    @cached_property
    def sizes(self) -> Array:
        """Parts at the best values, (m,)."""
        return self.parts(self.nearest)

    @cached_property
    def unexplained(self) -> Array:
        """Unexplained share of the effort along each direction, (m,); infinite if it is not a number."""
        with np.errstate(all="ignore"):
            left = self.balance.left(self, self.nearest)
            share = np.sqrt(np.mean(left**2, axis=0)) / self.sizes
        return np.where(np.isfinite(share), share, math.inf)

    def delayed(self, late: float) -> Efforts:
        """Same motion with inputs that act later [s]."""
        return replace(self, late=late)


def _together(bases: list[Array] | None) -> Array | None:
    """Bases as one array: as many directions of each as all have."""
    if bases is None:
        return None
    count = min(basis.shape[1] for basis in bases)
    return np.array([basis[:, :count] for basis in bases])


def _noise(channels: Sequence[Channel], recording: Recording, rng: np.random.Generator) -> dict[str, Array]:
    """Signals of a recording with as much white noise again, of which quantization is the least."""
    noisy = {}
    for channel in channels:
        values = recording.signal(channel.signal)
        known = values if channel.period is None else np.unwrap(values[np.isfinite(values)], period=channel.period)
        std = max(roughness([known]), resolution(channel, [values]) / math.sqrt(12))
        noisy[channel.signal] = values + std * rng.standard_normal(len(values))
    return noisy


def longest_interval(problem: Problem, recording: Recording) -> float:
    """Median interval between samples of the slowest sensor [s]; 0 for sensors with one or two samples."""
    times = (finite_samples(recording, channel.signal)[0] for channel in problem.channels)
    return max((float(np.median(np.diff(t))) for t in times if len(t) > 2), default=0.0)


def _near(lower: float, upper: float, guess: float, size: float, decade: float = 10.0) -> tuple[float, float]:
    """Bounds a decade around an initial value; of a parameter that may have either sign a decade around zero."""
    if lower < 0 or guess == 0:
        return max(lower, -decade * size), min(upper, decade * size)
    return max(lower, guess / decade), min(upper, guess * decade)


def _liveliest(recording: Recording, signals: list[str], duration: float) -> Recording:
    """The block of so many seconds over which signals spread most; the whole of a shorter recording."""
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


# --- lags of inputs ---


@dataclass(frozen=True)
class InputLag:
    """Time lag of inputs with least squares of the force balance."""

    late: float
    """[s]; negative if inputs act sooner than their timestamps say."""
    error: float
    """Its standard error [s]."""
    gain: float
    """Increase of twice the log-likelihood, corrected for autocorrelated residuals."""
    blocks: int
    """From which that is known."""

    def is_clear(self, level: float = 1e-3) -> bool:
        """True if the lag differs from zero by its error and by the likelihood, which differ if inputs jump."""
        most = special.stdtrit(self.blocks - 1, 1 - level / 2)
        return bool(min(abs(self.late) / self.error, math.sqrt(max(self.gain, 0.0))) > most)


def input_lag(efforts: Efforts, blocks: int = 16) -> InputLag | None:
    """Time lag of all inputs of a recording, up to a period of the cutoff, from scores of so many blocks; None if the
    motion does not determine a lag of half a step or more."""
    step, balance, at = efforts.step, efforts.balance, efforts.nearest
    without = _weighted(efforts)

    def left(*lags: float) -> Array:
        """Residuals for inputs that act later, which other parameters do not explain, (lags, N, m)."""
        return without(np.array([balance.left(efforts.delayed(late), at) for late in lags]))

    most = math.floor(1 / balance.problem.cutoff / step + 1e-9)
    lags = step * np.arange(-most, most + 1)  # whole steps: what is interpolated is smaller, and would leave less
    candidates = left(*lags)
    squares = np.sum(candidates**2, axis=(1, 2))
    least = int(np.argmin(squares))
    if least in (0, most, 2 * most):
        return None
    nearest, (later, sooner) = candidates[least], left(lags[least] + step, lags[least] - step)
    slope = (later - sooner) / (2 * step)
    told = np.sum(slope**2, axis=1)
    if (whole := float(told.sum())) == 0:
        return None
    more = -float(np.sum(slope * nearest)) / whole
    begins = np.unique(np.searchsorted(np.cumsum(told), np.arange(blocks) * whole / blocks))
    scores = np.add.reduceat(np.sum(slope * (nearest + more * slope), axis=1), begins)
    if (variance := float(np.sum(scores**2)) * len(begins) / max(len(begins) - 1, 1)) == 0:
        return None
    gain = float(squares[most] - squares[least]) * whole / variance
    return InputLag(lags[least] + float(np.clip(more, -step, step)), math.sqrt(variance) / whole, gain, len(begins))


def _weighted(efforts: Efforts, weighings: int = 3) -> Callable[[Array], Array]:
    """Takes from weighted rows (lags, N, m) what parameters near those that leave least explain. Weights are what is
    left without a lag, by the weights before; gains are held, or all others might vanish."""
    balance, at = efforts.balance, efforts.nearest
    slopes = balance.rows(efforts, at)[1]
    still = balance.rows(replace(efforts, samples=0 * efforts.samples), at)[1]
    slopes = slopes[:, :, np.all(slopes == still, axis=(0, 1))]
    weights = parts = efforts.parts(at)

    def without(values: Array) -> Array:
        matrix = (slopes / weights[:, None]).reshape(len(slopes) * len(weights), slopes.shape[2])
        sizes = np.linalg.norm(matrix, axis=0)
        directions, shares, _ = np.linalg.svd(matrix / np.where(sizes > 0, sizes, 1.0), full_matrices=False)
        basis = directions[:, shares > HALF_DIGITS * np.max(shares, initial=0.0)]
        rows = (values / weights).reshape(len(values), -1)
        return np.asarray(rows - (rows @ basis) @ basis.T).reshape(values.shape)

    given = balance.left(efforts, at)[None]
    for _ in range(weighings):
        weights = np.maximum(weights * np.sqrt(np.mean(without(given)[0] ** 2, axis=0)), HALF_DIGITS * parts)
    return without
