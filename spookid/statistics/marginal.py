"""Noise standard deviations: which are estimated, their initial values, and the estimating equations.

If all efforts are measured, no equation is a density of the state, and all motions have the same prior. The maximum of
log L is then biased in the parameters: with the states integrated out, a residual τ − I a has the spectral density
σ_τ² + σ_q² I² ω⁴, which makes the inertia I too small through all frequencies without motion, of which short steps have
many. This is the functional errors-in-variables model (Kendall and Stuart, The Advanced Theory of Statistics, vol. 2,
ch. 29): for given noise, least squares in states and parameters are consistent for the parameters, but not for the
noise. Therefore θ minimizes the squares, and the log-sigmas η minimize −log L at that θ.

Lower limits of process noise: equations divided by a standard deviation that tends to zero dominate H = JᵀJ, and the
information of all others is lost in rounding. One limit follows from the Jacobians before a search, the other from the
rounding error of log det H at the present iterate, which depends on weakly determined directions of the states.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from spookid.kernels.arrays import Array
from spookid.kernels.precision import TINY
from spookid.records import dataclass
from spookid.solvers.condensation import rank, smallest_solution
from spookid.solvers.reduced_problem import ReducedProblem
from spookid.transcription.factor import Group, measured_noise
from spookid.transcription.transcription import Point, Transcription

NoiseKind = Literal["disturbance", "sensor"]


@dataclass(frozen=True)
class NoiseSize:
    """One noise standard deviation that several equations share."""

    kind: NoiseKind
    names: tuple[str, ...]
    """What it is the noise of: hinges and free bodies, or one signal."""
    unit: str
    """Unit of a sensor's signal, or of the force, torque or velocity of process noise."""
    places: tuple[int, ...]
    """Of its symbols among the constants."""
    given: float | None = None
    """Its value if it is not estimated; of process noise a density per √Hz."""
    floor: float = 0.0
    """It is not smaller: what a sensor resolves."""
    averaging: float = 1.0
    """Of a measured effort: the standard deviation of the means that drive the motion, as white noise, over that of a
    sample."""
    marginalized: bool = False
    """True if the data barely determine it, and standard errors are averaged over it."""
    labels: tuple[str, ...] = ()
    """Name of each of its symbols, where a free body has three; empty: of each name one."""
    units: tuple[tuple[str, str], ...] = ()
    """Each name with its own unit, where a walk shares the noise of joints at first."""
    internal: bool = False
    """``Noise.internal``."""

    @property
    def of_motion(self) -> bool:
        """True for the slip of contacts, whose process noise is a velocity instead of a force."""
        return self.kind == "disturbance" and self.floor > 0

    @property
    def keys(self) -> tuple[str, ...]:
        """Keys of the noise in ``Factor.noise``, because a signal may have the name of a hinge."""
        return self.names if self.kind == "disturbance" else tuple(map(measured_noise, self.names))

    @property
    def singles(self) -> tuple[NoiseSize, ...]:
        """Separate standard deviations, one for each name."""
        own = {name: tuple(place for label, place in self.symbols if label == name) for name in self.names}
        units = dict(self.units)
        return tuple(
            replace(self, names=(n,), places=of, labels=(n,) * len(of), unit=units.get(n, self.unit))
            for n, of in own.items()
        )

    @property
    def symbols(self) -> tuple[tuple[str, int], ...]:
        """Name and place of each of its symbols."""
        return tuple(zip(self.labels or self.names, self.places, strict=True))


def told_apart(sizes: Sequence[NoiseSize], which: Sequence[bool]) -> tuple[NoiseSize, ...]:
    """Noise standard deviations, separated by name where requested."""
    return tuple(one for size, apart in zip(sizes, which, strict=True) for one in (size.singles if apart else (size,)))


def spread(values: Array, sizes: Sequence[NoiseSize], parts: Sequence[NoiseSize]) -> Array:
    """Values of common standard deviations for the separated ones."""
    by_name = {key: value for size, value in zip(sizes, values.tolist(), strict=True) for key in size.keys}
    return np.array([by_name[part.keys[0]] for part in parts])


def starting_logs(
    sizes: Sequence[NoiseSize], problem: Transcription, start: Point, signals: Sequence[Sequence[Array]], share: float
) -> Array:
    """Initial log-sigmas η: of a sensor from fourth differences of its samples, of process noise a small share of the
    residual impulses at the initial values, as a search from far too large noise fails. For a measured effort the whole
    residual is used, so that the initial motion follows its own sensors.

    Args:
        signals: per sensor its samples in each recording, gaps as NaN.
        share: of the residual impulses, for process noise.
    """
    projected = ReducedProblem(problem, start).project(start)
    residuals = _with_least_noise(problem, projected)
    logs, sensor = [], 0
    for size in sizes:
        if size.given:
            found = size.given
        elif size.kind == "sensor" and size.keys[0] not in _rows_of_states(problem):
            found = max(roughness(signals[sensor]), size.floor)
        else:
            squares = [
                np.mean(values[:, i] ** 2)
                for chain in residuals
                for factor, values in zip(problem.factors, chain, strict=True)
                for i, name in enumerate(factor.noise)
                if name in size.keys
            ]
            found = (1.0 if size.kind == "sensor" else share) * float(np.sqrt(np.mean(squares)))
            found = max(found, size.floor if size.kind == "disturbance" else 0.0)
        sensor += size.kind == "sensor" and size.keys[0] not in _rows_of_states(problem)
        logs.append(np.log(max(found, TINY)))
    return np.array(logs)


def _with_least_noise(problem: Transcription, point: Point) -> list[list[Array]]:
    """Residuals at a point. Random impulses along cut joints, which are zero in an initial guess if they are unknowns
    that a step shares with the next, are the least that take over what the others lack."""
    residuals = problem.residuals(point)
    for chain, found in enumerate(residuals):
        for i, factor in enumerate(problem.factors):
            silent = np.all(found[i] == 0, axis=0)
            if factor.noise and factor.motion and np.any(silent):
                J = problem.linearize_factor(factor, point, chain).matrix[:, : -1 - len(problem.names)]
                own = J[:, np.any(J[:, :, silent] != 0, axis=(0, 2))].transpose(0, 2, 1)
                move = smallest_solution(own, -found[i], rank(own)) if own.size else np.zeros((len(own), 0))
                found[i] = np.where(silent, np.matmul(own, move[:, :, None])[:, :, 0], found[i])
    return residuals


def _rows_of_states(problem: Transcription) -> set[str]:
    """Names of noise in the equations of motion."""
    return {name for factor in problem.factors if factor.group is Group.STATE for name in factor.noise}


def roughness(recordings: Sequence[Array]) -> float:
    """Standard deviation of white noise, from the median of fourth differences."""
    parts = [np.diff(values[np.isfinite(values)], 4) / np.sqrt(70) for values in recordings]
    together = np.abs(np.concatenate(parts)) if parts else np.zeros(0)
    return float(np.median(together)) / 0.6745 if len(together) else 0.0


@dataclass(frozen=True, eq=False)
class Swept:
    """Derivatives of the likelihood from a backward sweep over the states."""

    volume: Array
    """Half the gradient of the logarithms in θ, states following, (n_p,)."""
    noise: Callable[[], tuple[Mapping[str, float], Mapping[str, float]]]
    """By name of the noise Σ r², and what states that follow it add to its slope; found out once."""

    @property
    def residual(self) -> Mapping[str, float]:
        """Sum of squared residuals of each noise, by name."""
        return self.noise()[0]

    @property
    def following(self) -> Mapping[str, float]:
        """Contribution of the states' changes to the derivative for each noise, by name."""
        return self.noise()[1]


@dataclass(frozen=True, eq=False)
class Marginal:
    """Marginal likelihood at a point whose states are best for its parameters and noise."""

    value: float
    """−2 log L, but for a constant of the number of rows; infinite if the states are not determined."""
    gradient: Array
    """Half the gradient of |r|² in θ, states following, (n_p,)."""
    density: bool
    """True if rows are a density of the states; else parameters are estimated by the squares alone."""
    information: Array
    """Schur complement of the states in JᵀJ, (n_p, n_p)."""
    sweep: Callable[[], Swept]
    """It takes longer than the value, which alone is asked for where a step has led nowhere; found out once."""
    freedom: Callable[[], Mapping[str, float]]
    """Rows less their leverage Σ rᵀ P r by name of the noise; it takes less than a sweep."""
    coloured: Callable[[], Mapping[str, float]]
    """What is to be added to the squares to expect for noise that neighbouring rows have in common, by its name."""
    strength: Callable[[], Mapping[str, float]]
    """Sum of squares of the Jacobian in the states by name of the noise; of observations along slow motions."""
    fisher: Callable[[], Mapping[tuple[str, str], float]]
    """Expected d²(−log L)/(d log s d log s') by the names of two noises: 2 |(I − J P Jᵀ)_gg'|², by random signs."""
    rounding: Callable[[], Mapping[str, float]]
    """What rounding of squares does to log det H at most, by name of the noise in equations of motion."""
    ahead: Callable[[Array], Mapping[str, Array]]
    """Σ r² by name of the noise after steps δ of the parameters, to first order, states following: of columns (δ, 1),
    (n_p + 1, m), the products of residuals after any two of them, (m, m)."""

    @classmethod
    def of_squares(cls, corner: Array) -> Marginal:
        """Objective for given weights, without log-determinants: ``value`` is the least |r|².

        Args:
            corner: what eliminating the states leaves, gradient and |r|² in the last row, (n_p + 1, n_p + 1).
        """
        gradient, swept = corner[:-1, -1], Swept(np.zeros(len(corner) - 1), lambda: ({}, {}))
        least, information = float(corner[-1, -1]), corner[:-1, :-1]
        return cls(least, gradient, False, information, lambda: swept, dict, dict, dict, dict, dict, lambda steps: {})

    @property
    def volume(self) -> Array:
        """Half the gradient of the log-determinants in θ, (n_p,)."""
        return self.sweep().volume

    @property
    def counted(self) -> Array:
        """Contribution of the log-determinants to the score, (n_p,); zero if no equation is a density of the states."""
        return self.volume if self.density else np.zeros_like(self.volume)

    @property
    def score(self) -> Array:
        """Gradient d(−log L)/dθ, or that of the squares alone, (n_p,); zero at the estimates."""
        return self.gradient + self.counted

    @property
    def slopes(self) -> Mapping[str, float]:
        """Derivatives d(−log L)/d log s by the name of the noise s; for noise shared by neighbouring equations,
        expected minus observed squares."""
        found, expected = self.sweep(), self.expected  # a sweep tells the freedom, too
        return {n: expected[n] + found.following[n] - found.residual[n] for n in expected}

    @property
    def expected(self) -> Mapping[str, float]:
        """Expected sum of squares of each noise."""
        coloured = self.coloured()
        return {name: freedom + coloured.get(name, 0.0) for name, freedom in self.freedom().items()}

    @property
    def beside(self) -> Array:
        """Score minus the gradient of −log L in θ, (n_p,)."""
        return np.zeros_like(self.gradient) if self.density else -self.volume


_CONDITION = 1e11
"""Information of the equations of motion over that of sensors at most."""
_DIGITS = 0.1
"""Limit of the bound of rounding errors in log det H by one process noise. Actual errors are about a tenth of the
bound, so that a search still resolves 0.01 of the log-likelihood."""


def floors(sizes: Sequence[NoiseSize], logs: Array, found: Marginal, spared: float = 1.0) -> Array:
    """Lower limits of the log-sigmas, (n_s,): resolution of the sensor, and the value below which the information
    matrix becomes ill-conditioned.

    Args:
        spared: share of that information which is left to others.
    """
    of_names = found.strength()
    strength = {size: sum(of_names[name] for name in size.keys) for size in sizes}
    of_kind = {kind: sum(v for s, v in strength.items() if s.kind == kind) for kind in ("disturbance", "sensor")}
    lowest = []
    for size, log in zip(sizes, logs, strict=True):
        others = of_kind["sensor" if size.kind == "disturbance" else "disturbance"]
        known = others > 0 and strength[size] > 0
        floor = log + np.log(strength[size] * spared / (_CONDITION * others)) / 2 if known else -np.inf
        lowest.append(max(floor, np.log(size.floor)) if size.floor > 0 else floor)
    return np.array(lowest)


def sharp(sizes: Sequence[NoiseSize], logs: Array, found: Marginal) -> Array:
    """Smallest log-sigmas of process noise with acceptable rounding errors, from the likelihood at these values,
    (n_s,); −∞ for sensors.

    The bound of rounding is taken to go with 1/s². As variances of the states fall with s, what this gives is right
    from below, and too large, but never above s, from above.
    """
    bounds = found.rounding()
    bound = np.array([sum(bounds.get(name, 0.0) for name in size.keys) for size in sizes])
    moving = np.array([size.kind == "disturbance" for size in sizes], dtype=bool) & (bound > 0)
    return np.asarray(np.where(moving, logs + np.log(np.where(moving, bound, 1.0) / _DIGITS) / 2, -np.inf))
