"""Covariance and identifiability of the parameters from the linearized residuals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

import numpy as np
from numpy.typing import NDArray

from spookid.kernels.arrays import Array
from spookid.records import dataclass
from spookid.statistics.sensitivities import (
    AT_BOUND,
    CONSTRAINED,
    NO_DIGITS,
    NO_FACTOR,
    NO_FREEDOM,
    TIED,
    UNOBSERVED,
    Seen,
    Sensitivities,
)
from spookid.statistics.variances import Variances, widened
from spookid.statistics.weak_directions import (
    RANK,
    SMALL_SHARE,
    UNSEEN,
    WEAK,
    Spectrum,
    WeakDirection,
    describe,
    invisible,
    references,
    weak_by_errors,
)
from spookid.transcription.parameter_constraints import FreeDirections


@dataclass(frozen=True, eq=False)
class ResidualStatistics:
    """Statistics of the linearized residuals for the parameters, with T as in (3.32) for whitened residuals."""

    information: Array
    """TᵀT, the Schur complement of the states in JᵀWJ, that of priors included, (n_p, n_p)."""
    prior: Array
    """The priors' part of it, (n_p, n_p)."""
    shares: Array
    """T_gᵀT_g of the rows that have one noise variance, (n_g, n_p, n_p)."""
    variances: Variances
    """These variances, (n_g)."""
    scores: Array
    """T_wᵀ r̂_w of the blocks that the recordings are cut into, (W, n_p)."""
    block_information: Array
    """T_wᵀ T_w, (W, n_p, n_p)."""
    gradients: Array
    """Tᵀ r without the observations of each block less Tᵀ r, (W, n_p); NaN if the states are not determined."""
    remaining: Array
    """TᵀT without them, (W, n_p, n_p)."""
    noise: Mapping[str, float] = field(default_factory=dict)
    """Standard deviations of the groups of residuals, in units of what the weights say."""

    @property
    def scatter(self) -> Array:
        """Covariance of the score, Tᵀ Cov(r) T, with the estimated noise, (n_p, n_p)."""
        return np.asarray(self.prior + np.tensordot(self.variances.estimates, self.shares, axes=1))


@dataclass(frozen=True, eq=False)
class Analysis:
    """Sensitivities, with intermediate results that other analyses need."""

    sensitivities: Sensitivities
    gain: Array
    """(TᵀT)⁻¹: 0 in the rows of fixed parameters, NaN in those of unidentifiable ones, (n_p, n_p)."""
    hidden: Array
    """Unidentifiable directions, of length one in parameters over their magnitudes, (k, n_p)."""
    references: Array
    """Reference values for relative changes of the parameters, (n_p,)."""
    blocks: Array
    """Changes of the estimates without the observations of each block, (W, n_p), 0 and NaN likewise; NaN if all hangs
    on it."""

    def weak(self, known: Sensitivities, magnitudes: Array) -> tuple[WeakDirection, ...]:
        """Weakly identifiable directions, judged by the increased standard errors of ``sensitivities``."""
        unseen = (w for w in known.weak if any(name in known.reasons for name in w.direction))
        return *unseen, *weak_by_errors(known.names, known.covariance, magnitudes, self.references)


def analyse(
    names: Sequence[str],
    statistics: ResidualStatistics | None,
    magnitudes: Array,
    free: FreeDirections,
    estimates: Array | None = None,
) -> Analysis:
    """Compute the uncertainty of the estimates from the statistics of the residuals.

    Args:
        names: of the parameters, (n_p).
        statistics: None if the states are not determined.
        magnitudes: scale of each parameter for the spectrum, (n_p,), positive.
        free: directions in which parameters move; errors are conditional on bounds and constraints that hold.
        estimates: reference for relative changes along weakly identifiable directions, (n_p,); None: the magnitudes.
    """
    if statistics is None or not np.all(np.isfinite(statistics.scatter)):
        return _unknown(tuple(names), free.held, statistics)
    scatter = statistics.scatter.copy()
    if not free.tied:  # a bound says nothing of what nothing pushes against it
        open_ends = free.held & invisible(statistics.information, statistics.scatter, magnitudes)
        free, information = FreeDirections(free.held & ~open_ends), statistics.information
        # With these held, errors of others leave nothing of their scatter but rounding.
        scatter[open_ends], scatter[:, open_ends] = information[open_ends], information[:, open_ends]
    settled = free.settled(magnitudes)
    still = free.held | settled
    spectrum = Spectrum.of(statistics.information, scatter, magnitudes, free)
    half, inverse = spectrum.half, spectrum.inverse
    parts = half.T @ statistics.prior @ half, half.T @ statistics.shares @ half
    covariance = half @ widened(*parts, statistics.variances) @ half.T
    units = references(
        magnitudes if estimates is None else estimates, magnitudes, statistics.information, statistics.scatter
    )
    tied, weak = _weak(names, statistics, spectrum, magnitudes, free, magnitudes / units)
    conditions = _where(names, free.held, AT_BOUND) | _where(names, settled, CONSTRAINED)
    lost = _where(names, ~still & ~(np.diag(covariance) > 0), NO_DIGITS) | tied
    told = {name: reason for name, reason in lost.items() if name not in conditions}
    reasons = told | _where(names, spectrum.unseen, UNOBSERVED)
    hidden = np.array([i for i, name in enumerate(names) if name in reasons], dtype=np.intp)
    unknown, promised = np.union1d(hidden, np.flatnonzero(still)), np.diag(inverse).copy()
    promised[unknown] = np.nan
    scattered = _changes(spectrum.half, -statistics.scores, statistics.information - statistics.block_information)
    of_priors, count = inverse @ statistics.prior @ inverse, len(scattered)
    scatter = of_priors + ((count - 1) / count * scattered.T @ scattered if count else np.nan)
    result = Sensitivities(
        tuple(names),
        _blank(covariance.copy(), unknown),
        _blank(scatter.copy(), unknown),
        _triangular(statistics.information),
        np.diag(covariance) / promised,
        conditions | reasons,
        np.sort(spectrum.values)[::-1],
        weak,
        statistics.noise,
        seen=Seen(covariance, scatter, *spectrum.hidden(magnitudes, still), of_priors),
    )
    changes = _changes(spectrum.half, statistics.gradients, statistics.remaining)
    inverse[hidden], changes[:, hidden] = np.nan, np.nan
    return Analysis(result, inverse, spectrum.vectors[:, spectrum.values < UNSEEN].T, units, changes)


def _weak(
    names: Sequence[str],
    statistics: ResidualStatistics,
    spectrum: Spectrum,
    magnitudes: Array,
    free: FreeDirections,
    ratios: Array,
) -> tuple[dict[str, str], tuple[WeakDirection, ...]]:
    """Why parameters are not determined that the data see only together with some at a bound, and weakly identifiable
    directions."""
    reasons, tied = _tied(names, statistics, magnitudes, free, ratios)
    few = [i for i in np.argsort(spectrum.values) if spectrum.values[i] < WEAK]
    weak = (describe(float(spectrum.values[i]), spectrum.vectors[:, i], ratios, names) for i in few)
    return reasons, (*tied, *weak)


def _where(names: Sequence[str], so: NDArray[np.bool_], reason: str) -> dict[str, str]:
    return {name: reason for name, is_so in zip(names, so.tolist(), strict=True) if is_so}


def _tied(
    names: Sequence[str], statistics: ResidualStatistics, magnitudes: Array, free: FreeDirections, ratios: Array
) -> tuple[dict[str, str], list[WeakDirection]]:
    """Why parameters are not determined that the data see only together with some at a bound, and these directions."""
    held = free.held
    if not np.any(held):
        return {}, []
    spectrum = Spectrum.of(statistics.information, statistics.scatter, magnitudes, free.unbounded)
    reasons: dict[str, str] = {}
    weak = []
    for i in np.flatnonzero(spectrum.values < UNSEEN):
        vector = spectrum.vectors[:, i]
        part = np.abs(vector) >= SMALL_SHARE * np.abs(vector).max()
        if np.any(part & held) and np.any(part & ~held):
            ends = ", ".join(name for name, at in zip(names, part & held, strict=True) if at)
            reasons |= {n: TIED.format(ends) for n, with_it in zip(names, part & ~held, strict=True) if with_it}
            weak.append(describe(float(spectrum.values[i]), vector, ratios, names))
    return reasons, weak


def unseen(
    names: Sequence[str], information: Array, scatter: Array, magnitudes: Array, free: FreeDirections
) -> tuple[str, ...]:
    """Names of the parameters that are not identifiable."""
    hidden = Spectrum.of(information, scatter, magnitudes, free).unseen
    return tuple(name for name, is_hidden in zip(names, hidden, strict=True) if is_hidden)


def without_blocks(statistics: ResidualStatistics, magnitudes: Array, free: FreeDirections) -> Array:
    """Change of the estimates if a block is removed, for each block, (W, n_p); NaN if unknown."""
    spectrum = Spectrum.of(statistics.information, statistics.scatter, magnitudes, free)
    changes = _changes(spectrum.half, -statistics.scores, statistics.information - statistics.block_information)
    changes[:, spectrum.unseen] = np.nan
    return changes


def _changes(half: Array, gradients: Array, remaining: Array) -> Array:
    """−S_w⁻¹ g_w in what is seen, (W, n_p), from what is left without each block; NaN if S_w is singular."""
    changes = np.full(gradients.shape, np.nan)
    for w, (gradient, information) in enumerate(zip(gradients, remaining, strict=True)):
        rest = half.T @ information @ half
        if np.all(np.isfinite(rest)) and np.linalg.eigvalsh(rest).min(initial=1.0) > RANK:
            changes[w] = -half @ np.linalg.solve(rest, half.T @ gradient)
    return changes


def _triangular(information: Array) -> Array:
    """R factor of T by an eigendecomposition, so that a singular Schur complement has one too."""
    values, vectors = np.linalg.eigh(information)
    return np.asarray(np.linalg.qr(np.sqrt(np.clip(values, 0.0, None))[:, None] * vectors.T, mode="r"))


def _blank(covariance: Array, unknown: NDArray[np.intp]) -> Array:
    """NaN in the rows and columns of unknown parameters."""
    covariance[unknown], covariance[:, unknown] = np.nan, np.nan
    return covariance


def _unknown(names: tuple[str, ...], held: NDArray[np.bool_], statistics: ResidualStatistics | None) -> Analysis:
    reason, n = NO_FACTOR if statistics is None else NO_FREEDOM, len(names)
    reasons = {name: AT_BOUND if is_held else reason for name, is_held in zip(names, held, strict=True)}
    free, blocks = int(np.sum(~held)), 0 if statistics is None else len(statistics.scores)
    one, two, three, four = (np.full((n, n), np.nan) for _ in range(4))
    dispersion, spectrum = np.full(n, np.nan), np.full(free, np.nan)
    result = Sensitivities(names, one, two, three, dispersion, reasons, spectrum, ())
    return Analysis(result, four, np.zeros((0, n)), np.ones(n), np.full((blocks, n), np.nan))
