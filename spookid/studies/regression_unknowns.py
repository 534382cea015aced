"""What a regression is solved for: base parameters, linear, or the Parameters of a problem, nonlinear with priors."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import casadi as ca
import numpy as np

from spookid.assembly.constants import magnitude
from spookid.assembly.priors import priors
from spookid.assembly.problem import Problem
from spookid.errors import ProblemError
from spookid.estimation.grouping import BaseParameters
from spookid.kernels.arrays import Array
from spookid.kernels.precision import NO_INFORMATION
from spookid.parameter import parameters_in, stacked
from spookid.results.trajectory import rms
from spookid.statistics.weak_directions import RESOLVED, Grouping, regrouped
from spookid.studies.regression_rows import Balances, Rows

PASSES = 3
"""Of least squares, each weighted by what the one before leaves."""
_LAGS = 4
"""Rows, of half a period of the cutoff each, over which what is left is taken to be correlated."""


def errors(rows: Sequence[Rows]) -> Array:
    """Root mean square residual of each equation, (m,)."""
    left = np.concatenate([one.left for one in rows])
    return np.array([rms(column) for column in left.T])


def linear(rows: Sequence[Rows]) -> tuple[Grouping, Array, Array, list[Rows]]:
    """Solve the linear regression: returns independent columns, coefficients, residual deviation of each equation, and
    residuals with slopes."""
    grouping = regrouped(np.vstack([one.slopes.reshape(-1, one.slopes.shape[2]) for one in rows]))
    chosen = [Rows(one.left, one.slopes[:, :, list(grouping.kept)]) for one in rows]
    left = list(chosen)
    weights, at = np.ones(rows[0].left.shape[1]), np.zeros(len(grouping.kept))
    for _ in range(PASSES):
        at = _solved(chosen, weights)
        left = [Rows(one.left + one.slopes @ at, one.slopes) for one in chosen]
        weights = spread(left)
    return grouping, at, weights, left


def _solved(rows: Sequence[Rows], weights: Array) -> Array:
    """Least squares of rows over weights, columns scaled to length one."""
    matrix = np.vstack([(one.slopes / weights[:, None]).reshape(-1, one.slopes.shape[2]) for one in rows])
    right = -np.concatenate([(one.left / weights).ravel() for one in rows])
    lengths = np.linalg.norm(matrix, axis=0)
    return np.asarray(np.linalg.lstsq(matrix / lengths, right, rcond=None)[0] / lengths)


def spread(rows: Sequence[Rows]) -> Array:
    """Residual standard deviation of each equation, corrected for degrees of freedom; nearly zero if exact."""
    found, count = errors(rows), sum(one.left.size for one in rows)
    free = max(count - rows[0].slopes.shape[2], 1)
    found *= math.sqrt(count / free)
    return np.maximum(found, max(1e-12 * float(found.max()), 1e-300))


def covariance(rows: Sequence[Rows], weights: Array, known: Array | None = None) -> Array:
    """Sandwich covariance H⁻¹ (S + P) H⁻¹ with autocorrelated scores S and prior P; NaN if unidentifiable."""
    n = rows[0].slopes.shape[2]
    prior = np.zeros((n, n)) if known is None else known
    information, scatter = prior.copy(), prior.copy()
    for one in rows:
        slopes, left = one.slopes / weights[:, None], one.left / weights
        information += np.einsum("kmi,kmj->ij", slopes, slopes)
        scores = np.einsum("kmi,km->ki", slopes, left)
        scatter += scores.T @ scores
        for lag in range(1, min(_LAGS, len(scores) - 1) + 1):
            product = (1 - lag / (_LAGS + 1)) * scores[lag:].T @ scores[:-lag]
            scatter += product + product.T
    scale = 1 / np.sqrt(np.maximum(np.diag(information), 1e-300))
    sizes, directions = np.linalg.eigh(information * np.outer(scale, scale))
    seen = sizes > NO_INFORMATION * sizes[-1]
    inverse = (directions[:, seen] / sizes[seen]) @ directions[:, seen].T * np.outer(scale, scale)
    covariance = np.asarray(inverse @ scatter @ inverse)
    hidden = np.sum(directions[:, ~seen] ** 2, axis=1) > RESOLVED
    covariance[hidden, :] = covariance[:, hidden] = np.nan
    return covariance


def augmented(rows: Sequence[Rows], weights: Array, prior: Array, slopes: Array) -> Rows:
    """Stack the weighted equations; equations of priors are last."""
    n = slopes.shape[1]
    left = [(one.left / weights).ravel() for one in rows]
    columns = [(one.slopes / weights[:, None]).reshape(-1, n) for one in rows]
    return Rows(np.concatenate([*left, prior]), np.vstack([*columns, slopes]))


def in_base(balances: Balances) -> dict[str, Any]:
    """Results in base parameters, in which equations are linear: fields of a ``Regression``.

    Raises:
        ProblemError: if nothing that acts is known in size.
    """
    problem, regressor = balances.problem, balances.regressor
    rows = balances.linear()
    if not any(np.any(one.left) for one in rows):
        raise ProblemError(
            f"{problem.what} has nothing that acts and is known in size, so that all of its "
            "parameters may grow by the same share; give efforts that were measured"
        )
    grouping, at, weights, left = linear(rows)
    kept = list(grouping.kept)
    variances = covariance(left, weights)
    base = BaseParameters(
        problem=problem.name,
        motion=(),
        quantities=regressor.quantities,
        grouping=grouping,
        guess=problem.guess_on(),
        held=regressor.held,
        scaled=True,
    ).combinations
    every = np.zeros(len(regressor.quantities))
    every[kept] = at
    seen = {p.name for p in parameters_in([q.formula for q in regressor.quantities], "the model")}
    return dict(
        names=tuple(one.name for one in base),
        units=tuple(one.unit for one in base),
        formulas=tuple(one.formula for one in base),
        estimates=at,
        std_errs=np.sqrt(np.diag(variances)),
        rows=balances.labels,
        errors=errors([Rows(one.left + one.slopes @ every, one.slopes) for one in balances.linear(every=True)]),
        held=tuple(p.name for p in regressor.free if p.name not in seen),
        condition=grouping.condition,
        coefficients=every,
    )


Beliefs: TypeAlias = Callable[[Array], tuple[Array, Array]]
"""Priors: of values of the free Parameters rows over their standard deviations, and their slopes."""


def in_declared(balances: Balances) -> dict[str, Any]:
    """Results in the declared Parameters, with bounds and priors: fields of a ``Regression``.

    Raises:
        ProblemError: if none is free, or the least squares do not converge.
    """
    problem, free = balances.problem, balances.regressor.free
    if not free:
        raise ProblemError(f"{problem.what} has no free parameter; free one")
    guess = problem.guess_on()
    at = np.array([guess[p.name] for p in free])
    beliefs, limits = beliefs_of(problem, free), np.array([[p.lower, p.upper] for p in free]).T
    sizes = np.array([p.prior[1] if p.prior else magnitude(p, guess[p.name]) for p in free])
    weights = linear(balances.linear())[2]  # as small as they can be, but for what is held there
    at, active = np.clip(at, *np.nextafter(limits, limits[::-1])), np.zeros(len(at))
    for _ in range(PASSES - 1):
        at, active = _least(_rows_of(balances, weights, beliefs), at, limits, sizes, problem)
        weights = spread(balances.in_parameters(at))
    rows, prior, inner = balances.in_parameters(at), beliefs(at)[1], active == 0
    of_inner = [Rows(one.left, one.slopes[:, :, inner]) for one in rows]
    variances = np.full((len(at),) * 2, np.nan)
    variances[np.ix_(inner, inner)] = covariance(of_inner, weights, prior[:, inner].T @ prior[:, inner])
    columns = augmented(of_inner, weights, np.zeros(len(prior)), prior[:, inner]).slopes
    columns = columns[:, np.any(columns, axis=0)]
    sizes = np.linalg.svd(columns / np.linalg.norm(columns, axis=0), compute_uv=False)
    return dict(
        names=tuple(p.name for p in free),
        units=tuple(p.unit for p in free),
        formulas=tuple(free),
        estimates=at,
        std_errs=np.sqrt(np.diag(variances)),
        rows=balances.labels,
        errors=errors(balances.in_parameters(at, every=True)),
        held=(),
        condition=float(sizes[0] / sizes[-1]),
        coefficients=at,
    )


def _least(
    function: Callable[[Array], Rows], at: Array, limits: Array, sizes: Array, problem: Problem
) -> tuple[Array, Array]:
    """Where the squares are least within bounds, and which of these hold."""
    from scipy.optimize import least_squares  # half a second to load

    @lru_cache(maxsize=1)  # rows and slopes are asked for one after the other
    def rows(x: bytes) -> Rows:
        return function(np.frombuffer(x))

    with np.errstate(over="ignore", invalid="ignore"):  # steps to where rows are not finite are shortened
        found = least_squares(
            lambda x: rows(x.tobytes()).left,
            at,
            lambda x: rows(x.tobytes()).slopes,
            bounds=limits,
            x_scale=sizes,
            ftol=1e-6,  # a share of thousands of squares with a variance of 1
        )
    if not found.success:
        raise ProblemError(
            f"{problem.what}: the nonlinear regression has not converged; give initial values "
            'that are nearer, or unknowns="base"'
        )
    return found.x, found.active_mask


def _rows_of(balances: Balances, weights: Array, beliefs: Beliefs) -> Callable[[Array], Rows]:
    """Weighted rows and priors at values of the free Parameters, fewer of the same squares where rows are linear in
    quantities that depend on these alone."""
    regressor = balances.regressor
    if regressor.held:
        return lambda x: augmented(balances.in_parameters(x), weights, *beliefs(x))
    columns, others = regressor.quantities, balances.problem.guess_on()
    known = [
        p
        for p in parameters_in([q.formula for q in columns], "the model")
        if not any(p is one for one in regressor.free)
    ]
    z = ca.substitute(
        ca.vertcat(*(q.formula for q in columns)),
        stacked(known),
        ca.DM([others[p.name] for p in known]),
    )
    free = ca.vertcat(*regressor.free)
    function = ca.Function("quantities", [free], [ca.densify(z), ca.densify(ca.jacobian(z, free))])
    whole = [np.concatenate([one.slopes, one.left[:, :, None]], axis=2) / weights[:, None] for one in balances.linear()]
    small = np.asarray(np.linalg.qr(np.vstack([part.reshape(-1, part.shape[2]) for part in whole]), mode="r"))

    def at(x: Array) -> Rows:
        value, slopes = (np.asarray(part.full()) for part in function(x))
        prior, of_prior = beliefs(x)
        left = small[:, :-1] @ value[:, 0] + small[:, -1]
        return Rows(np.concatenate([left, prior]), np.vstack([small[:, :-1] @ slopes, of_prior]))

    return at


def beliefs_of(problem: Problem, free: Sequence[ca.SX]) -> Beliefs:
    """Priors of the free Parameters."""
    symbols, guess = ca.vertcat(*free), problem.guess_on()
    rows = stacked(belief.row for belief in priors(problem))
    fixed = [p for p in problem.parameters if not any(p is one for one in free)]
    rows = ca.substitute(rows, stacked(fixed), ca.DM([guess[p.name] for p in fixed]))
    function = ca.Function("beliefs", [symbols], [rows, ca.densify(ca.jacobian(rows, symbols))])

    def at(x: Array) -> tuple[Array, Array]:
        values, slopes = (np.asarray(part.full()) for part in function(x))
        return values[:, 0], slopes

    return at
