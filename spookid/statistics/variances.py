"""Covariances of estimates whose noise variances are themselves estimated.

The covariance Σ_g s_g² C_g of estimates depends on estimated variances s_g², whose errors have the covariance D. Normal
intervals would be too short (Student), and far too short if a variance is estimated near zero. Each variance is
therefore described by a normal distribution about its estimate, truncated at zero (the posterior of a flat prior), with
the mean and deviation of that distribution. A covariance with relative variance 2/ν then has ν degrees of freedom
(Satterthwaite, Biometrics Bulletin 2, 1946). This is done in all directions together, so that an expression of
parameters has the same error as an equal parameter:

    C = Σ_g s_g² C_g,    N = Σ_gh D_gh A_g A_h,    A_g = C^{-1/2} C_g C^{-1/2},    2/ν: each eigenvalue of N,

and C becomes C^{1/2} f(N) C^{1/2}, f = (t_ν/1.96)²: ± 1.96 standard errors are Student's interval of 95 %. For one
parameter this is Satterthwaite's interval; for several it is never narrower, to first order in D.

Noise variances of the groups of residuals follow from the residuals of the fit, (3.26, 3.27) with degrees of freedom.

With H the hat matrix of states and parameters, residuals are r̂ = (I − H) r. If group g has the variance s_g²,

    E |r̂_g|² = Σ_g' M_gg' s_g'²,        M_gg' = |(I − H)_gg'|²  (Frobenius),

so the variances follow from the sums of squares. Where the states follow the measurements, as with a small state
weight, most of the measurement noise appears in the impulse residuals: M is far from diagonal, and dividing the sum of
each group by its number of residuals would attribute it to process noise. M is estimated with random signs: |(I − H)
z|² for z = ±1 in one group and 0 elsewhere. The exactly known trace tr (I − H)_gg corrects estimates from few draws.
The equations are solved repeatedly with residuals weighted by the new variances, until the standard errors converge:
restricted maximum likelihood of normal noise, by Fisher scoring. With these weights, M/2 is the information about the
variances, and D = 2 M⁻¹ is the covariance of their relative errors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np

from spookid.kernels.arrays import Array
from spookid.kernels.precision import TINY
from spookid.kernels.scipy_parts import nnls, special
from spookid.records import dataclass
from spookid.solvers.linearization import Linearization
from spookid.solvers.rows import Columns, LinearizedFactor
from spookid.solvers.structured import NotPositiveDefiniteError
from spookid.statistics.condensing import Condensed, Signs, products
from spookid.transcription.factor import Group
from spookid.transcription.parameter_constraints import FreeDirections

LEVEL = 0.05
"""Probability of what lies outside of an interval of 95 %."""
_FREEDOM = (1.0, 1e12)
"""Degrees of freedom at least, as fewer say nothing, and at most: then Student's distribution is the normal one."""
_SURE = 30.0
"""Standard deviations from zero beyond which it matters nothing that a variance is not negative."""


@dataclass(frozen=True, eq=False)
class Variances:
    """Noise variances estimated from residuals, relative to the assumed ones."""

    estimates: Array
    """(n_g,), NaN if there are no degrees of freedom."""
    doubt: Array
    """D, covariance of their errors, (n_g, n_g)."""
    common: float
    """The variance of all groups if the weights had the right ratios."""

    def likely(self) -> tuple[Array, Array]:
        """Mean and covariance of the variances, given that they are not negative: (n_g,), (n_g, n_g)."""
        errors = np.sqrt(np.diag(self.doubt))
        certain = errors <= self.estimates / _SURE
        a = np.where(certain, _SURE, self.estimates / np.maximum(errors, TINY))
        hazard = np.exp(-(a**2) / 2 - special.log_ndtr(a)) / np.sqrt(2 * np.pi)
        most = np.maximum(self.estimates, self.common)
        means = np.where(certain, self.estimates, np.minimum(self.estimates + errors * hazard, most))
        shares = np.minimum(np.sqrt(1 - a * hazard - hazard**2), most / np.maximum(errors, TINY))
        return means, self.doubt * np.outer(shares, shares)


def widened(known: Array, parts: Array, variances: Variances) -> Array:
    """Covariance for which ± 1.96 standard errors are Student's interval, (n, n). ``known``: part of the covariance
    that is certain, (n, n); ``parts``: C_g, (n_g, n, n); ``variances``: s_g²."""
    means, D = variances.likely()
    C = known + np.tensordot(means, parts, axes=1)
    values, vectors = np.linalg.eigh(C)
    seen = values > np.finfo(float).eps * values.max(initial=0.0)
    root, whitening = (vectors[:, seen] * values[seen] ** power for power in (0.5, -0.5))
    A = whitening.T @ parts @ whitening
    relative, directions = np.linalg.eigh(np.einsum("gh,gij,hjk->ik", D, A, A, optimize=True))
    freedom = np.clip(2 / np.maximum(relative, TINY), *_FREEDOM)
    half = root @ directions * student(freedom)
    return np.asarray(half @ half.T)


def student(freedom: Array | float) -> Array | float:
    """Width of an interval by Student's distribution over that by the normal one."""
    return special.stdtrit(freedom, 1 - LEVEL / 2) / special.ndtri(1 - LEVEL / 2)  # type: ignore[no-any-return]


_PROBES = (8, 96)
"""Random vectors for each group: at least and at most."""
_SAMPLES = 10_000
"""Steps that they cover together, if that takes no more than the most of them."""
_ROUGHLY = 16
"""Factor by which there are fewer where two digits will do: errors grow by its root."""
_ROUNDS = 6
_SETTLED, _DOUBT_SETTLED = 0.02, 0.1
"""Relative changes of standard errors, and of the errors of variances, that end the rounds."""
_ALIKE = 2.0
"""Ratio of standard deviations up to which weights are good enough to estimate them with."""
_SHRINK, _FOR_ZERO = 100.0, 2
"""A variance that comes out as 0 is weighted with its error, as weights may be far off; then with so many times less
from round to round, this many times at least."""
_LEAST = 1e-3
"""Standard deviation of a group relative to the largest that weights assume at least."""
_APART = 1e-2
"""Eigenvalue of M with a diagonal of ones below which random signs do not resolve it."""

Members: TypeAlias = Mapping[str, Mapping[str, Array]]
"""Name of a group of rows to its factors' names and masks of their rows, (rows,)."""


@dataclass(frozen=True, eq=False)
class VarianceComponents:
    """Variances of whitened residuals by group: 1 if the assumed noise is correct."""

    groups: tuple[str, ...]
    """"state", and the label of each row of observations."""
    variances: Array
    """(n_g,)."""
    doubt: Array
    """Covariance of the errors of these variances, (n_g, n_g)."""
    common: float
    """The variance of all groups if the weights had the right ratios."""
    shares: Array
    """T_gᵀT_g of each group, (n_g, n_p, n_p)."""
    prior: Array
    """The same of the priors, whose variance is 1, (n_p, n_p)."""

    @property
    def scatter(self) -> Array:
        """Tᵀ Cov(r) T, (n_p, n_p)."""
        return np.asarray(self.prior + np.tensordot(self.variances, self.shares, axes=1))


def estimate(first: Condensed, free: FreeDirections, roughly: bool = False) -> VarianceComponents:
    """Estimate the variances, and each group's information on the parameters. ``roughly``: True for two digits, in a
    fraction of the time."""
    here = first.linearized
    fewer = _ROUGHLY if roughly else 1
    steps = sum(chain.steps for chain in here.problem.chains)
    probes = int(np.clip(_SAMPLES // (fewer * steps), max(_PROBES[0] // fewer, 2), _PROBES[1]))
    members, prior = _members(here)
    n = here.parameters
    shares = np.array([_share(first, rows) for rows in members.values()]).reshape(len(members), n, n)
    variances, now = np.ones(len(members)), np.full(n + len(members), np.inf)
    settled = np.repeat([_SETTLED, _DOUBT_SETTLED], [n, len(members)])
    ratios, common, doubt = _round(first, members, prior, None if roughly else _traces(first, members), probes)
    for number in range(_ROUNDS):
        doubt = doubt * np.outer(variances, variances)
        variances = variances * ratios
        noise = VarianceComponents(tuple(members), variances, doubt, common, shares, _share(first, prior))
        deviations = np.sqrt(np.diag(doubt))
        last, now = now, np.append(np.sqrt(np.diag(first.inverse @ noise.scatter @ first.inverse)), deviations)
        still = np.all(np.abs(now - last) <= settled * now) and (np.all(variances > 0) or number >= _FOR_ZERO)
        if not variances.any() or still or number == _ROUNDS - 1:
            break
        if number == 0 and variances.max() <= _ALIKE**2 * variances.min():
            break
        likely = np.maximum(variances, deviations / _SHRINK**number)
        variances = np.maximum(likely, _LEAST**2 * likely.max())
        variances = variances / variances[0]  # only ratios matter, and the first group's rows are the many
        first.release()
        try:
            weighted = here.scaled(_scales(members, variances))
            ratios, _, doubt = _round(Condensed(weighted, free, refined=False), members, prior, None, probes)
        except NotPositiveDefiniteError:
            break
    return noise


def size_products(c: Condensed, groups: Sequence[Sequence[str]]) -> tuple[Array, Array]:
    """Products C of T, (n_p, groups), and R of themselves, (groups, groups), of the groups' residuals, states projected
    out: sums over recordings. ``groups``: names of the noise whose rows have one size."""
    if not groups:
        return np.zeros((c.linearized.parameters, 0)), np.zeros((0, 0))
    columns = [_rows_of(terms, groups) for terms in c.linearized.chains]
    left = [c.without_states(chain, part) for chain, part in enumerate(columns)]
    return c.inner(c.T, left), c.inner(left, left)


def lost(C: Array, R: Array) -> Array:
    """Matrix CᵀR⁻¹C of ``size_products``, (n_p, n_p): information on the parameters that is lost if noise is estimated
    with them."""
    known = np.diag(R) > 1  # of squares that are next to nothing only rounding would be told
    C, R = C[:, known], R[np.ix_(known, known)]
    scale = np.sqrt(np.maximum(np.diag(R), TINY))
    values, vectors = np.linalg.eigh(R / np.outer(scale, scale))
    half = C / scale @ vectors / np.sqrt(np.maximum(values, _APART))
    return np.asarray(half @ half.T)


def _rows_of(terms: Sequence[LinearizedFactor], groups: Sequence[Sequence[str]]) -> Columns:
    """Residuals of the rows of each group, 0 elsewhere, (count, groups, rows)."""
    columns = []
    for term in terms:
        r, noise = term.residual, term.factor.noise
        part = np.zeros((len(r), len(groups), r.shape[1]))
        for i, names in enumerate(groups):
            mask = np.array([name in names for name in noise]) if noise else np.zeros(r.shape[1], dtype=bool)
            part[:, i] = r * mask if len(mask) == r.shape[1] else 0.0
        columns.append(part)
    return columns


def prior(condensed: Condensed) -> Array:
    """TᵀT of the priors, (n_p, n_p)."""
    return _share(condensed, _members(condensed.linearized)[1])


def _members(here: Linearization) -> tuple[Members, Mapping[str, Array]]:
    """The groups of noisy rows, and the rows of the priors."""
    found: dict[str, dict[str, Array]] = {}
    prior: dict[str, Array] = {}
    for term in here.chains[0]:
        factor, n = term.factor, term.alive.shape[1]
        if factor.hard:
            continue
        if factor.group is Group.PRIOR:
            prior[factor.name] = np.ones(n)
            continue
        labels = (factor.group.value,) * n if factor.group is Group.STATE else factor.rows
        for label in dict.fromkeys(labels):
            found.setdefault(label, {})[factor.name] = np.array([other == label for other in labels], dtype=np.float64)
    return found, prior


def _round(
    c: Condensed, members: Members, prior: Mapping[str, Array], traces: Array | None, probes: int
) -> tuple[Array, float, Array]:
    """Variances relative to those that the rows are weighted with, (n_g,): of each group, of all, and D. ``traces``: tr
    (I − H)_gg of each group, if they are known; ``probes``: random vectors for each group."""
    rng = np.random.default_rng(0)
    M = np.zeros((len(members), len(members)))
    groups, together = list(members.values()), max(_PROBES[0] // probes, 1)
    for first in range(0, len(groups), together):
        some = groups[first : first + together]
        signs = [
            [np.hstack([_signs(s, rows, probes, rng) for rows in some]) for s in terms] for terms in c.linearized.chains
        ]
        found, controls = (np.split(part, len(some), axis=-1) for part in _probed(c, signs, members))
        for j, (own, control) in enumerate(zip(found, controls, strict=True), start=first):
            M[:, j] = own.mean(axis=1) if traces is None else _controlled(own, control, float(traces[j]))
    M = (M + M.T) / 2
    squares = _squares(c, c.residuals, members)[:, 0]
    if prior:  # their share of the residuals has variance 1 and cannot be told from the data
        squares = np.maximum(squares - _of_priors(c, members, prior), 0.0)
    weights = 1 / np.sqrt(np.maximum(M.sum(axis=1), TINY))
    if not (np.all(np.isfinite(M)) and np.all(np.isfinite(squares))):  # residuals whose squares overflow
        return np.full(len(M), np.nan), np.nan, np.full_like(M, np.nan)
    ratios = np.asarray(nnls(M * weights[:, None], squares * weights)[0])
    common = float(squares.sum() / max(M.sum(), TINY))
    return ratios, common, common * (common * _doubt(M))  # of floats a square may overflow


def _doubt(M: Array) -> Array:
    """2 M⁻¹, (n_g, n_g); 0 for a group that leaves no residuals and hence says nothing of the parameters."""
    diagonal = np.diag(M)
    scale = np.where(diagonal > 0, 1 / np.sqrt(np.maximum(diagonal, TINY)), 0.0)
    values, vectors = np.linalg.eigh(M * np.outer(scale, scale))
    return np.asarray(2 * np.outer(scale, scale) * (vectors / np.maximum(values, _APART) @ vectors.T))


def _signs(term: LinearizedFactor, rows: Mapping[str, Array], probes: int, rng: np.random.Generator) -> Signs:
    """Random signs in a group's rows, 0 elsewhere, (count, probes, rows)."""
    count, n = term.alive.shape
    if term.factor.name not in rows:
        return np.zeros((count, probes, n), dtype=np.int8)
    signs = rng.integers(0, 2, (count, probes, n)).astype(np.int8) * np.int8(2) - np.int8(1)
    return np.asarray(signs * (term.alive * rows[term.factor.name])[:, None].astype(np.int8))


def _controlled(values: Array, controls: Array, mean: float) -> Array:
    """Means of ``values`` (n_g, probes), by their regression on ``controls`` (probes,) whose mean is known, (n_g,)."""
    apart = controls - controls.mean()
    slopes = values @ apart / max(float(apart @ apart), TINY)
    return np.asarray(np.maximum(values.mean(axis=1) - slopes * (controls.mean() - mean), 0.0))


def _traces(c: Condensed, members: Members) -> Array | None:
    """tr (I − H)_gg of each group, (n_g,); None if rounding or stiff rows are in the way."""
    if any(term.factor.hard for term in c.linearized.chains[0]) or (leverages := c.leverages()) is None:
        return None
    traces = np.array([-np.trace(c.inverse @ _share(c, rows)) for rows in members.values()])
    for s, taken in c.rows(leverages):
        free = np.sum(s.alive, axis=0) - taken
        traces += [float(free @ rows.get(s.factor.name, np.zeros(len(free)))) for rows in members.values()]
    return traces


def _probed(c: Condensed, signs: Sequence[Sequence[Signs]], members: Members) -> tuple[Array, Array]:
    """Of what is left of random signs: squares in each group, (n_g, probes), and products with the signs, (probes,)."""
    left = c.left(signs)
    controls = np.asarray(sum(np.einsum("kmr,kmr->m", a, b) for _, a, b in c.rows(signs, left)))
    return _squares(c, left, members), controls


def _squares(c: Condensed, columns: list[Columns], members: Members) -> Array:
    """Sums of squares of columns in the rows of each group, (n_g, m)."""
    total = np.zeros((len(members), columns[0][0].shape[1]))
    for s, part in c.rows(columns):
        own = [(i, rows[s.factor.name]) for i, rows in enumerate(members.values()) if s.factor.name in rows]
        squares = np.einsum("kmr,kmr->mr", part, part) if own else np.zeros(0)
        for i, mask in own:
            total[i] += squares @ mask
    return total


def _share(c: Condensed, rows: Mapping[str, Array]) -> Array:
    """T_gᵀT_g of a group, (n_p, n_p)."""
    n = c.linearized.parameters
    total = np.zeros((n, n))
    for s, T in c.rows(c.T):
        if s.factor.name in rows:
            total += products(T, T, rows[s.factor.name])
    return total


def _of_priors(c: Condensed, members: Members, prior: Mapping[str, Array]) -> Array:
    """|(I − H)_gp|² of each group g and the priors p, whose rows see no states, (n_g,)."""
    seen = np.hstack([T.transpose(1, 0, 2).reshape(T.shape[1], -1) for s, T in c.rows(c.T) if s.factor.name in prior])
    change = (c.inverse @ seen).T
    return np.asarray(_squares(c, [[np.matmul(change, T) for T in Ts] for Ts in c.T], members).sum(axis=1))


def _scales(members: Members, variances: Array) -> dict[str, Array]:
    """Numbers to multiply each factor's rows by, so that they have one variance; 1 is left out."""
    scales: dict[str, Array] = {}
    for variance, rows in zip(variances, members.values(), strict=True):
        for name, mask in rows.items():
            scales[name] = scales.get(name, np.zeros(len(mask))) + mask / np.sqrt(variance)
    return {name: scale for name, scale in scales.items() if np.any(scale != 1)}
