"""Standard errors of parameters and of expressions in them, the share of priors, and the influence of the data.

Expressions may be identifiable although their single parameters are not."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spookid.kernels.arrays import Array
from spookid.records import dataclass
from spookid.statistics.weak_directions import RESOLVED, UNSEEN, WeakDirection
from spookid.tables.table import Block, Table, Tabular, counted, number

UNOBSERVED = "the data do not determine it"
CONSTRAINED = "the constraints determine it"
CORRELATED = 0.9
"""Correlations above this are listed."""
LEADS = 0.5
"""Share of the variance from which a number is mostly known from priors."""
DOUBTED = 3.0
"""Standard errors are doubted if they are not those of the jackknife within this factor: with the right model and
weights from 10^5 on it is 2.8 at most in 36 fits of a pendulum watched for 200 steps and more."""

ROBUST = 1.5
"""Errors of the block jackknife replace plain ones that they exceed by this factor."""

LEAST_BLOCK = 10
"""Steps of a block from which its jackknife says something."""

AT_BOUND = "held at its bound"
TIED = "the data determine it only together with {}, at a bound"
NO_DIGITS = "its variance is below rounding errors"
NO_FREEDOM = "no degrees of freedom are left to estimate the noise"
NO_FACTOR = "the normal equations are singular at the solution"

IMPULSES = "state"
"""Name of the impulses among the noise."""


@dataclass(frozen=True, eq=False)
class Seen:
    """Covariances in the space of the identifiable parameters: 0 in all unidentifiable directions."""

    covariance: Array
    """(n_p, n_p)."""
    scatter: Array
    """That of the block jackknife, (n_p, n_p)."""
    hidden: Array
    """Unidentifiable directions, of parameters over their magnitudes, times these magnitudes, (k, n_p)."""
    magnitudes: Array
    """Of the parameters, 0 of those that are held, (n_p,)."""
    priors: Array
    """What the uncertainty of priors adds to the covariance, (n_p, n_p)."""
    raised_from: float = np.inf
    """Ratio of the jackknife's standard error from which it is taken."""

    def error(self, slope: Array) -> float:
        """Standard error of an expression with this derivative in the parameters (n_p,); NaN if the data do not
        determine it: it has a part in unidentifiable directions, or its own relative error is as large as theirs."""
        length = float(np.sum((self.magnitudes * slope) ** 2))
        if not np.all(np.isfinite(self.covariance)) or np.sum((self.hidden @ slope) ** 2) > RESOLVED * length:
            return float("nan")
        variance, scattered = (float(slope @ matrix @ slope) for matrix in (self.covariance, self.scatter))
        variance = max(scattered if scattered > self.raised_from**2 * variance else variance, 0.0)
        return float(np.sqrt(variance)) if UNSEEN**2 * variance <= length else float("nan")

    @property
    def joint(self) -> Array:
        """Joint covariance of all parameters, (n_p, n_p), scaled by one factor: the mean ratio of the block jackknife
        to the white-noise covariance over all directions that the data determine, if it exceeds one.

        The jackknife's own matrix has the rank of its blocks, and standard errors that are raised one by one lose the
        correlations. One factor, as for a reduced number of independent samples, keeps them.
        """
        axes, sizes = _axes(self.covariance, np.where(self.magnitudes > 0, self.magnitudes, 1.0))
        over = (axes / sizes).T

        def total(matrix: Array) -> float:
            return float(np.einsum("ij,jk,ik->", over, matrix, over))

        told = len(over) - total(self.priors)
        if not (np.all(np.isfinite(self.scatter)) and told > RESOLVED):
            return self.covariance
        factor = (total(self.scatter) - total(self.priors)) / told
        return np.asarray(self.priors + max(factor, 1.0) * (self.covariance - self.priors))


def _axes(covariance: Array, magnitudes: Array) -> tuple[Array, Array]:
    """Principal axes u of parameters over their magnitudes and standard deviations d along them: with axes u/magnitude
    over d the covariance is the identity; directions without variance are left out."""
    variances, axes = np.linalg.eigh(covariance / np.outer(magnitudes, magnitudes))
    open_ones = variances > np.finfo(float).eps * len(magnitudes) * np.max(variances, initial=0.0)
    return axes[:, open_ones] / magnitudes[:, None], np.sqrt(variances[open_ones])


def root_of(covariance: Array, magnitudes: Array) -> Array:
    """Matrix L with L Lᵀ = covariance, (n_p, k), with a column for each direction with variance."""
    axes, sizes = _axes(covariance, magnitudes)
    return np.asarray(axes * (magnitudes**2)[:, None] * sizes)


def prior_share(slopes: Mapping[str, float], error: float, names: Sequence[str], seen: Seen | None) -> float:
    """Share of an expression's variance that comes from priors, from 0 to 1: 1 if the data add nothing. NaN if unknown.

    With P the covariance, and the information that of data and priors, P = P I_data P + P I_prior P. It is that of
    white noise also where the standard error was raised to the jackknife's: a larger error is no larger share of the
    data.

    Args:
        slopes: in the parameters on which it depends.
        error: the standard error; the share is unknown where it is NaN, and 0 where it is 0.
        names: of the parameters that were estimated.
    """
    if seen is None or not np.isfinite(error):
        return float("nan")
    slope = np.array([slopes.get(name, 0.0) for name in names])
    variance = float(slope @ seen.covariance @ slope)
    return float(min(slope @ seen.priors @ slope / variance, 1.0)) if error > 0 and variance > 0 else 0.0


def _alone(information: Array) -> Array:
    """Variances by priors alone; infinite of parameters whose priors leave a direction open, (n_p,)."""
    scale = np.sqrt(np.where(np.diag(information) > 0, np.diag(information), 1.0))
    inverse = np.linalg.pinv(information / np.outer(scale, scale), rcond=1e-9, hermitian=True)
    whole = np.diag(inverse @ (information / np.outer(scale, scale))) > 1 - 1e-6
    return np.where(whole, np.diag(inverse) / scale**2, np.inf)


def of_priors(seen: Seen, sizes: Array) -> Array:
    """Directions of scaled parameters that priors determine better than the data, of length one, (k, n_p).

    With P = L Lᵀ the covariance, and what priors add to it P I_prior P, the eigenvectors u of Lᵀ I_prior L above a half
    are the directions L u.
    """
    if not (np.all(np.isfinite(seen.covariance)) and np.all(np.isfinite(seen.priors))):
        return np.zeros((0, len(sizes)))
    axes, widths = _axes(seen.covariance, sizes)
    shares, found = np.linalg.eigh((axes / widths).T @ seen.priors @ (axes / widths))
    directions = ((axes * sizes[:, None] * widths) @ found[:, shares > LEADS]).T
    return np.asarray(directions / np.linalg.norm(directions, axis=1, keepdims=True))


def error_of(
    slopes: Mapping[str, float], names: Sequence[str], covariance: Array, reasons: Mapping[str, str], seen: Seen | None
) -> tuple[float, str]:
    """Standard error of an expression, or the reason why it has none.

    Args:
        slopes: in those parameters on which it depends; others than ``names`` are certain.
        names: of the parameters that were estimated.
        covariance: NaN where there are reasons.
        seen: None: a parameter without an error leaves the expression without one.
    """
    slopes = {name: s for name, s in slopes.items() if reasons.get(name) != CONSTRAINED}
    slope = np.array([slopes.get(name, 0.0) for name in names])
    rows = np.flatnonzero(slope)
    without = {name: reasons[name] for name in slopes if slopes[name] and name in reasons}
    if not without and (seen is None or rows.size < 2):
        part = slope[rows]
        return float(np.sqrt(max(part @ covariance[np.ix_(rows, rows)] @ part, 0.0))) if rows.size else 0.0, ""
    # Of several parameters the error is raised as a whole: errors that are raised one by one lose their correlations.
    error = float("nan") if seen is None or set(without.values()) - {UNOBSERVED} else seen.error(slope)
    return error, "" if np.isfinite(error) else next(iter(without.values()), UNOBSERVED)


@dataclass(frozen=True, eq=False, repr=False)
class Sensitivities(Tabular):
    """Linearized uncertainty of the estimated parameters (3.26 to 3.32)."""

    names: tuple[str, ...]
    covariance: Array
    """(TᵀT)⁻¹ Tᵀ Cov(r) T (TᵀT)⁻¹ with one variance for the impulse residuals and one for each sensor, widened for
    what is unknown of these (``student``): ± 1.96 standard errors are Student's interval of 95 %, (n_p, n_p); NaN in
    the rows of parameters without a standard error."""
    covariance_sandwich: Array
    """Covariance of the block jackknife over blocks of the recordings: it only assumes that noise is not correlated
    over more than a block, (n_p, n_p)."""
    factor: Array
    """Upper triangular R with RᵀR = TᵀT, T as in (3.32) for whitened residuals, (n_p, n_p)."""
    dispersion: Array
    """Squared standard error over what it were if all weights said the noise, (n_p,); NaN without an error."""
    reasons: Mapping[str, str]
    """Why a parameter has no standard error, by its name."""
    singular_values: Array
    """Spectrum of T with each column scaled by the parameter's magnitude and the noise, descending: a direction's value
    is one over its relative standard error."""
    weak: tuple[WeakDirection, ...]
    noise: Mapping[str, float] = field(default_factory=dict)
    """Standard deviation of the noise in units of what the weights say: of "state" 1/√κ, of a signal its sigma."""
    inflation: Array = field(default_factory=lambda: np.zeros(0))
    """By how much standard errors have been raised to those of the jackknife, (n_p,); empty if none has."""
    seen: Seen | None = None
    """Of combinations of parameters that have no standard errors; None if that is not known."""
    at: Mapping[str, float] = field(default_factory=dict)
    """Estimates of the parameters at which this holds, where the reported ones are extrapolated."""

    def error_of(self, slopes: Mapping[str, float], held: bool = False) -> tuple[float, str]:
        """Standard error of an expression from its derivatives, or the reason why it has none.

        Args:
            held: True to presume that parameters at a bound stay there.
        """
        moving = {name: s for name, s in slopes.items() if not (held and self.reasons.get(name) == AT_BOUND)}
        return error_of(moving, self.names, self.covariance, self.reasons, self.seen)

    @property
    def raised(self) -> tuple[str, ...]:
        """Parameters whose standard errors come from the block jackknife."""
        return tuple(name for name, ratio in zip(self.names, self.inflation.tolist(), strict=False) if ratio > 1)

    def robust(
        self, block: float, linked: NDArray[np.bool_], larger: float = ROBUST, prior: Array | None = None
    ) -> Sensitivities:
        """Sensitivities with jackknife standard errors where these are ``larger`` by more than that factor.

        Args:
            block: steps of a block; of few steps the jackknife says nothing.
            linked: True for parameters in constraints, which have one factor, or these would not hold, (n_p,).
            prior: information of the priors, (n_p, n_p): no error is raised above that of the prior alone.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.sqrt(np.diag(self.covariance_sandwich) / np.diag(self.covariance))
        ratio = np.where(np.isfinite(ratio) & (ratio > larger) & (block >= LEAST_BLOCK), ratio, 1.0)
        if prior is not None:
            with np.errstate(divide="ignore", invalid="ignore"):
                most = np.sqrt(_alone(prior) / np.diag(self.covariance))
            ratio = np.maximum(np.fmin(ratio, most), 1.0)
        ratio[linked] = np.max(ratio[linked], initial=1.0)
        seen = self.seen and replace(self.seen, raised_from=larger if block >= LEAST_BLOCK else math.inf)
        if not np.any(ratio > 1):
            return replace(self, seen=seen)
        covariance, reasons = self.covariance * np.outer(ratio, ratio), self.reasons
        if seen is not None:  # an error that is raised so far is none, as one that was so large before
            gone = np.flatnonzero(UNSEEN * np.sqrt(np.diag(covariance)) > seen.magnitudes)
            covariance[gone], covariance[:, gone] = np.nan, np.nan
            reasons = {**reasons, **dict.fromkeys((self.names[i] for i in gone.tolist()), UNOBSERVED)}
        return replace(self, covariance=covariance, inflation=ratio, reasons=reasons, seen=seen)

    def with_variance(self, added: Array, raised: bool = True) -> Sensitivities:
        """Sensitivities with an additional covariance (n_p, n_p) that the jackknife does not contain; ``raised`` if it
        replaces the effect of the jackknife."""
        covariance, known = self.covariance + added, self.inflation if self.inflation.size else np.ones(len(self.names))
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.sqrt(np.diag(covariance) / np.diag(self.covariance))
        seen = self.seen
        if seen is not None:
            seen = replace(seen, covariance=seen.covariance + added, scatter=seen.scatter + added)
        inflation = known * np.where(np.isfinite(ratio), ratio, 1.0) if raised else self.inflation
        return replace(self, covariance=covariance, inflation=inflation, seen=seen)

    @property
    def standard_errors(self) -> Array:
        """Square roots of the covariance's diagonal, (n_p,); NaN where there is a reason."""
        return np.sqrt(np.diag(self.covariance))

    @property
    def agreement(self) -> float:
        """Geometric mean of the ratio of white-noise to jackknife standard errors: near 1 if process and measurement
        noise are white as assumed. NaN if no parameter has both."""
        with np.errstate(divide="ignore", invalid="ignore"):
            logarithms = np.log(self.standard_errors) - np.log(np.diag(self.covariance_sandwich)) / 2
        known = logarithms[np.isfinite(logarithms)]
        return float(np.exp(known.mean())) if known.size else float("nan")

    @property
    def correlation(self) -> Array:
        """(n_p, n_p)."""
        errors = self.standard_errors
        return np.asarray(self.covariance / np.outer(errors, errors))

    def __repr__(self) -> str:
        return f"<Sensitivities of {', '.join(self.names) or 'no parameters'}>"

    def blocks(self) -> Sequence[Block]:
        """Title, a table of parameters, and the singular values of directions."""
        errors = zip(self.names, self.standard_errors.tolist(), strict=True)
        rows = [(name, number(error), self.reasons.get(name, "")) for name, error in errors]
        seen = ", ".join(number(value, 2) for value in self.singular_values)
        return [
            f"Identifiability of {counted(len(self.names), 'parameter')}",
            Table(("parameter", "std err", "reason"), rows, left=(0, 2)),
            f"Parameter changes of 100 % along the principal directions equal {seen or 'no'} standard errors.",
        ]

    def records(self) -> Sequence[dict[str, Any]]:
        """A row for each parameter: standard error, the reason why it has none, correlations with all."""
        parts = zip(self.names, self.standard_errors.tolist(), self.correlation.tolist(), strict=True)
        return [
            {"parameter": n, "std_err": e, "reason": self.reasons.get(n, ""), **dict(zip(self.names, row, strict=True))}
            for n, e, row in parts
        ]


def doubted(agreement: float, block: float) -> bool:
    """True if standard errors differ so much from those of the jackknife that either may be wrong. ``block``: steps per
    block; short blocks are correlated, and give no answer."""
    return block >= LEAST_BLOCK and math.isfinite(agreement) and not 1 / DOUBTED <= agreement <= DOUBTED


def times(ratio: float, more: str, less: str) -> str:
    """Ratio as text, such as "2 times more" or less."""
    size = max(ratio, 1 / ratio)
    return f"{size:.{1 if size < 9.95 else 0}f} times {more if ratio > 1 else less}"


def prior_led(known: Sensitivities) -> frozenset[str]:
    """Names of the parameters whose variance comes mostly from priors."""
    errors = zip(known.names, known.standard_errors.tolist(), strict=True)
    shares = {name: prior_share({name: 1.0}, error, known.names, known.seen) for name, error in errors}
    return frozenset(name for name, share in shares.items() if share > LEADS)


def is_settled(weak: WeakDirection, of_priors: frozenset[str]) -> bool:
    """True if ``prior_led`` names every parameter of a direction, so that no action is needed."""
    return of_priors.issuperset(weak.direction)


def left_open(known: Sensitivities) -> tuple[WeakDirection, ...]:
    """Weakly identifiable directions that priors do not determine either, the weakest first."""
    of_priors = prior_led(known)
    return tuple(one for one in known.weak if not is_settled(one, of_priors))


def settled_parameters(known: Sensitivities) -> tuple[str, ...]:
    """Names of the parameters in weakly identifiable directions that priors determine."""
    of_priors = prior_led(known)
    settled = (name for one in known.weak if is_settled(one, of_priors) for name in one.direction)
    return tuple(dict.fromkeys(settled))


@dataclass(frozen=True, eq=False)
class Influence:
    """First-order changes of the estimates by changes of data and settings.

    The last axis is that of the free parameters (n_p); parameters that the data do not determine have NaN, those held
    at a bound 0. Gauss–Newton's approximation: exact where the residuals are small or the model is nearly linear.
    """

    observations: tuple[Array, ...]
    """Per recording ∂θ/∂y [1/unit of the signal], (N, n_o, n_p); 0 where a sample is missing."""
    state_weight: Array
    """∂θ/∂κ, (n_p,); 0 if κ is infinite."""
    step: Array
    """∂θ/∂h [1/s] with the samples as they are, (n_p,): what an error of the recordings' clock does."""
    step_error: Array
    """What steps of h instead of 0 add to the estimates, to leading order (see ``step_errors``), (n_p,); NaN where
    it is not known."""
    fixed_names: tuple[str, ...]
    """Parameters that the user fixed."""
    fixed: Array
    """∂θ/∂(fixed parameter), (n_fixed, n_p); NaN if a fixed parameter is part of the geometry of rigid joints."""
    edges: tuple[Array, ...]
    """Per recording, the begins of its blocks and the end of the last one [s], (W + 1,)."""
    stretches: tuple[Array, ...]
    """Per recording, the change of the estimates without the samples of a block, (W, n_p); NaN if they all depend on
    it."""

    def __repr__(self) -> str:
        stretches = sum(len(one) for one in self.stretches)
        return f"<Influence of {stretches} blocks of recordings on {self.step.size} parameters>"
