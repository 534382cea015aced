"""Score tests for model errors, by the correlation of the residuals with the effects of usual causes.

Each cause (delay or offset of a sensor, friction, a wrong length or inertia, a lag of a motor) of magnitude a changes
the whitened residuals r along a column e: r + a e. With states and parameters projected out of both, its estimate is

    a = −eᵀr/eᵀe,    z = −eᵀr/|e|,

where z is standard normal if the model is right (Rao's score test). The strongest cause is projected out before the
next is tested.

A parameter with another value in one recording changes the residuals of that recording only, along T_r e_p with T_r its
part of T. With common parameters projected out, products of these columns are δ_rs A_r − A_r A⁻¹ A_s with A_r =
T_rᵀT_r.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain

import numpy as np

from spookid.kernels.arrays import Array, Mask
from spookid.kernels.precision import NO_INFORMATION
from spookid.kernels.scipy_parts import special
from spookid.records import dataclass
from spookid.solvers.rows import Columns
from spookid.statistics import whiteness
from spookid.statistics.causes import DELAY, LAG, ONCE, Alternative, Experiment, Key, rounding, usual
from spookid.statistics.condensing import Condensed, products
from spookid.statistics.whiteness import Misfit, Tails, limit, narrower, said, tails_of
from spookid.transcription.factor import Group

_MOST = 3
"""Most model errors that are reported."""
_INDEPENDENT = {True: 1e-4, False: 1e-2}
"""Share of what states leave of a column's square that parameters must leave, too, or it is no alternative of its own:
an effect that motion and parameters can compensate is indistinguishable from process noise. The share is larger if the
effect of the alternative on the log-determinant is unknown."""


@dataclass(frozen=True, eq=False)
class Determinants:
    """Half the slopes of the log-determinants in −2 log L; zero where they do not count."""

    volumes: Array
    """In the parameters, states following, in each recording, (recordings, n_p)."""
    following: Array
    """The part of the states in these, (recordings, n_p)."""
    images: Callable[[], Sequence[Columns]]
    """Per recording and factor, the image of H⁻¹ times the slopes in the states, (count, 1, rows): a column moves the
    states, and so changes determinants by its product with these, the other way."""


def run_score_tests(
    condensed: Condensed,
    experiment: Experiment,
    declared: Callable[[], Sequence[Alternative]],
    determinants: Determinants,
    errors: Array,
) -> ScoreTests:
    """Score tests of the residuals; alternatives are tested on request. ``declared``: alternatives in declared
    properties of bodies and joints; ``errors``: reported standard errors of the parameters, (n_p,)."""

    def causes() -> list[Alternative]:
        every = (*usual(condensed, experiment), *declared())
        return [one for one in every if any(map(np.any, chain(*one.columns)))]

    def alternatives() -> _Answers:
        if every := causes():
            return _tested(condensed, every, determinants)
        none = np.zeros(0)
        return _Answers((), np.zeros((0, 2)), none, none, np.zeros((0, 0)), none, none, np.zeros((len(errors), 0)))

    def narrowed(keys: Collection[Key]) -> Mapping[Key, Array]:
        return {c.key: narrower(condensed, c.columns, experiment.noises) for c in causes() if c.key in keys}

    raw = condensed
    if experiment.counts:
        condensed = raw.less(rounding(raw, experiment.counts))
    even = [(i, signal) for i, (signal, _) in enumerate(experiment.sensors) if signal not in experiment.uneven]
    tails = tuple(tails_of(raw, signal, experiment.apart, experiment.timed(i)) for i, signal in even)
    return ScoreTests(condensed, tails, alternatives, narrowed, errors, determinants.volumes)


def misfits(tests: ScoreTests, coarser: Callable[[], ScoreTests | None] = lambda: None) -> tuple[Misfit, ...]:
    """Model errors that the tests indicate, strongest first; with a correct model, none in 99 % of all data sets.
    ``coarser`` gives the tests of a fit with twice the step and the same noise; it is called only if the finer fit
    indicates an error. Discretization error, proportional to the squared step, does not count: both the finer fit and
    the extrapolation must indicate the error. Residuals that are not white count if no other cause changes an estimate
    by a standard error."""
    far = []
    for i, own in enumerate(tests.tails):
        if own.are_heavy(len(tests.tails)):
            before = coarser()
            far.append(own.misfit(None if before is None else before.tails[i]))
        far += own.of_jitter(len(tests.tails))
    told = (far if len(far) >= _MOST else [*far, *_strongest(tests, coarser)])[:_MOST]
    if any(tests.effects(one) for one in told):
        return tuple(told)
    return *told, *_lasting(tests.condensed, coarser)


def _strongest(tests: ScoreTests, coarser: Callable[[], ScoreTests | None]) -> list[Misfit]:
    """Alternatives that both fits speak for."""
    answers = tests.alternatives
    found = answers.strongest(answers)
    if found and (before := coarser()) is not None:
        known = before.alternatives  # the coarser fit may hold what no data see, or not resolve what acts at low rates
        answers, known = answers.of(known.keys), known.of(answers.keys)
        found = answers.strongest(known)
    narrowed = tests.narrowed({answers.keys[meant[0][0]] for meant, *_ in found}) if found else {}
    told = []
    for meant, z, change in found:
        words = [said(*answers.keys[i][:2], size) for i, size in meant]
        factor = narrowed.get(answers.keys[meant[0][0]], 1.0)
        told.append(Misfit(words[0], z, change, "".join(words[1:]), narrower=factor))
    return told


def _tested(condensed: Condensed, alternatives: Sequence[Alternative], determinants: Determinants) -> _Answers:
    volumes, images = determinants.volumes, determinants.images()
    following, columns = np.zeros(len(alternatives)), list[Columns]()
    for i, terms in enumerate(condensed.linearized.chains):
        stacked = [np.hstack(p) for p in zip(*(c.columns[i] for c in alternatives), strict=True)]
        for term, part, image in zip(terms, stacked, images[i], strict=True) if images else ():
            following -= 0.0 if term.factor.hard else products(part, image)[:, 0]
        columns.append(condensed.without_states(i, stacked))
    # What parameters project out of them is told by products: the vectors that are left need not be made.
    with_parameters, squares = condensed.inner(columns, condensed.T), condensed.inner(columns, columns)
    steps = condensed.inverse @ with_parameters.T
    own = squares - with_parameters @ steps
    names, before, apart, across, pulled, rough, follow = _heterogeneity(condensed, columns, steps, determinants)
    known = np.array([c.volume is not None for c in alternatives])
    # Determinants, too, count as far as parameters leave them; there all slopes of the likelihood are zero.
    slopes = np.array([c.volume or 0.0 for c in alternatives]) + following - steps.T @ volumes.sum(axis=0)
    held, information, _ = _at_bounds(condensed, volumes)
    released = steps + held[:, None] * (with_parameters.T - condensed.information @ steps) / information[:, None]
    shares = np.where(known, _INDEPENDENT[True], _INDEPENDENT[False])
    return _Answers(
        (*(c.key for c in alternatives), *((name, "", 1.0) for name in names)),
        np.vstack([*(c.sizes for c in alternatives), *[(-np.inf, np.inf)] * len(names)]),
        np.repeat([limit(len(alternatives)), limit(len(names))], [len(alternatives), len(names)]),
        np.append(shares * np.diag(squares), _INDEPENDENT[False] * before),
        np.block([[own, across], [across.T, apart]]),
        np.append(-condensed.inner(columns, condensed.residuals)[:, 0] - known * slopes, pulled),
        np.append(following - steps.T @ determinants.following.sum(axis=0), rough),
        np.hstack([released, follow]),
    ).with_phases()


def _at_bounds(condensed: Condensed, volumes: Array) -> tuple[Mask, Array, Array]:
    """True for parameters at their bounds, which a cause may release; the information on each, others estimated, 1 of
    those that move; and the change that each would make without its bound, (n_p,) each."""
    problem, across = condensed.linearized.problem, condensed.information @ condensed.inverse
    information = np.diag(condensed.information - across @ condensed.information)
    held = (np.diag(condensed.inverse) == 0) & condensed.at_bounds & (problem.lower < problem.upper)
    held &= information > NO_INFORMATION * np.diag(condensed.information)
    information, total = np.where(held, information, 1.0), volumes.sum(axis=0)
    slopes = condensed.inner(condensed.T, condensed.residuals)[:, 0] + total - across @ total
    return held, information, np.where(held, -slopes / information, 0.0)


def _heterogeneity(
    condensed: Condensed, others: Sequence[Columns], steps: Array, determinants: Determinants
) -> tuple[tuple[str, ...], Array, Array, Array, Array, Array, Array]:
    """Every parameter that moves, as one that is another in one recording, if these are several: k pairs of both.

    Args:
        others: m vectors per chain from which states are projected out.
        steps: of the parameters, (n_p, m), that are to be projected out of them, too.

    Returns:
        Words of each; squares of the columns, parameters not projected out, (k,); products of what is left of them,
        (k, k), and with other columns, (m, k); less those with the residuals and slopes of volumes, (k,);
        ``_Answers.rough``, (k,); steps of the parameters, (n_p, k).
    """
    problem = condensed.linearized.problem
    if len(problem.chains) == 1:
        none = np.zeros((0, 0)), np.zeros((steps.shape[1], 0)), np.zeros(0), np.zeros(0), np.zeros((len(steps), 0))
        return (), np.zeros(0), *none
    moving = np.flatnonzero(np.diag(condensed.inverse) > 0)
    own, across, pulls = [], [], []
    for terms, *parts in zip(condensed.linearized.chains, condensed.T, condensed.residuals, others, strict=True):
        rows = [i for i, term in enumerate(terms) if not (term.factor.hard or term.factor.group is Group.PRIOR)]
        T, r, states = (
            np.hstack([part[i].transpose(1, 0, 2).reshape(part[i].shape[1], -1) for i in rows]) for part in parts
        )
        products = T @ T[moving].T
        own.append(products[moving])
        across.append(states @ T[moving].T - steps.T @ products)
        pulls.append(-T[moving] @ r[0])
    A, inverse = np.concatenate(own), condensed.inverse[np.ix_(moving, moving)]
    gram, n = -A @ inverse @ A.T, len(moving)
    for i, block in enumerate(own):
        gram[i * n : (i + 1) * n, i * n : (i + 1) * n] += block
    totals = (total[:, moving] for total in (determinants.volumes, determinants.following))
    volumes, rough = (own.ravel() - A @ inverse @ own.sum(axis=0) for own in totals)
    pulled = np.concatenate(pulls) - volumes
    kept = np.flatnonzero(np.tile(problem.shared_by_chains[moving], len(own)))
    before = np.concatenate([np.diag(block) for block in own])[kept]
    words = [
        f"recordings disagree on {problem.names[p]}: recording {chain.name} differs by {{}} from others?"
        for chain in problem.chains
        for p in moving.tolist()
    ]
    follow = (condensed.inverse[:, moving] @ A.T)[:, kept]
    of_kept = gram[np.ix_(kept, kept)], np.hstack(across)[:, kept], pulled[kept], rough[kept], follow
    return tuple(words[i] for i in kept.tolist()), before, *of_kept


_Told = tuple[list[tuple[int, float]], float, Array]
"""Number and magnitude of an alternative and of one that explains at least half of the same; standard errors; change of
the parameters."""


@dataclass(frozen=True, eq=False)
class _Answers:
    """What the residuals of one fit say to m alternatives, whose columns lose states and parameters."""

    keys: tuple[Key, ...]
    """Of each; words with {} for the size."""
    sizes: Array
    """Least and largest, (m, 2)."""
    limits: Array
    """Standard errors from which each is reported, (m,)."""
    least: Array
    """Squares of the columns from which each is an alternative of its own, (m,)."""
    gram: Array
    """Products of the columns with one another, (m, m)."""
    pulls: Array
    """Less those with the residuals, (m,)."""
    rough: Array
    """Slopes of the log-determinants as the states follow, (m,): random sums of which the best estimate of the variance
    is their square. They are near zero for smooth forces, and large where friction changes its sign in few steps."""
    steps: Array
    """Change of the parameters per size of each, the other way, (n_p, m)."""

    def strongest(self, coarse: _Answers) -> list[_Told]:
        """Alternatives that the fits with steps h and h/2, or this fit alone, indicate; each law once."""
        found: list[_Told] = []
        fine, words = self, np.array([words for words, *_ in self.keys], dtype=np.str_)
        while len(found) < _MOST:
            squares, z = np.diag(fine.gram), fine.scores
            own = squares > self.least
            sizes, without = fine.pulls / np.where(own, squares, 1.0), z + (z - coarse.scores) / 3
            doubt = limit(1) / np.sqrt(np.where(own, squares, 1.0))
            own &= (self.sizes[:, 0] - doubt < sizes) & (sizes < self.sizes[:, 1] + doubt)
            own &= ~np.isin(words, [words[meant[0][0]] for meant, *_ in found])
            own &= (np.minimum(np.abs(z), np.abs(without)) > self.limits) & (z * without > 0)
            if not np.any(own):
                break
            best = int(np.argmax(np.where(own, np.abs(z), 0.0)))
            for free, simple in ((LAG, DELAY), (ONCE, "")):  # of causes that say the same, the one with less freedom
                if free in words[best]:
                    like = own & [simple in one and free not in one for one in words.tolist()]
                    like &= z**2 > z[best] ** 2 - limit(1) ** 2
                    best = int(np.argmax(np.where(like, np.abs(z), 0.0))) if np.any(like) else best
            meant = [(best, float(sizes[best]))]
            shared = fine.gram[best] ** 2 / np.where(own, squares, 1.0) / squares[best]
            own &= (shared > 0.5) & (z**2 > z[best] ** 2 / 2) & (words != words[best])
            if np.any(own):
                rival = int(np.argmax(np.where(own, np.abs(z), 0.0)))
                meant.append((rival, float(sizes[rival])))
            found.append((meant, float(z[best]), -fine.steps[:, best] * sizes[best]))
            fine, coarse = fine.less(best), coarse.less(best)
        return found

    @property
    def scores(self) -> Array:
        """Size of each alternative in standard errors from zero, (m,); 0 if it cannot be distinguished."""
        squares = np.diag(self.gram)
        variances = np.where(squares > 0, squares + self.rough**2, 1.0)
        return np.asarray(np.where(squares > 0, self.pulls, 0.0) / np.sqrt(variances))

    def less(self, one: int) -> _Answers:
        """With that one projected out."""
        share = self.gram[:, one] / (self.gram[one, one] or 1.0)
        gram = self.gram - np.outer(share, self.gram[one])
        steps = self.steps - np.outer(self.steps[:, one], share)
        pulls, rough = (own - share * own[one] for own in (self.pulls, self.rough))
        return replace(self, gram=gram, pulls=pulls, rough=rough, steps=steps)

    def with_phases(self) -> _Answers:
        """The first of each cosine and sine replaced by their best combination, the second by what is across it. The
        square of its score has a χ² distribution of two degrees of freedom."""
        turn, limits = np.eye(len(self.keys)), self.limits.copy()
        waves = [i for i, (words, *_) in enumerate(self.keys) if ONCE in words]
        for pair in zip(waves[::2], waves[1::2], strict=True):
            both = np.ix_(pair, pair)
            best = np.linalg.pinv(self.gram[both]) @ self.pulls[list(pair)]
            along, across = best / (np.linalg.norm(best) or 1.0)
            turn[both] = [[along, -across], [across, along]]
            limits[list(pair)] = math.sqrt(-2 * special.log_ndtr(-limits[pair[0]]) - 2 * math.log(4))
        gram, least = turn.T @ self.gram @ turn, (turn**2).T @ self.least
        pulls, rough, steps = turn.T @ self.pulls, turn.T @ self.rough, self.steps @ turn
        return replace(self, limits=limits, least=least, gram=gram, pulls=pulls, rough=rough, steps=steps)

    def of(self, keys: Sequence[Key]) -> _Answers:
        """Those among these alternatives."""
        kept = [i for i, one in enumerate(self.keys) if one in keys]
        parts = self.sizes[kept], self.limits[kept], self.least[kept], self.gram[np.ix_(kept, kept)], self.pulls[kept]
        return _Answers(tuple(self.keys[i] for i in kept), *parts, self.rough[kept], self.steps[:, kept])


@dataclass(frozen=True, eq=False)
class ScoreTests:
    """Of one fit."""

    condensed: Condensed
    tails: tuple[Tails, ...]
    """Of each sensor."""
    ask: Callable[[], _Answers]
    """What makes ``alternatives``."""
    narrowed: Callable[[Collection[Key]], Mapping[Key, Array]]
    """``Misfit.narrower`` of these causes."""
    errors: Array
    """Reported standard errors of the parameters, (n_p,)."""
    volumes: Array
    """As of ``Determinants``."""

    @cached_property
    def alternatives(self) -> _Answers:
        """Results of the score tests for all alternatives."""
        return self.ask()

    def shifts(self, misfit: Misfit) -> dict[str, float]:
        """Change of each estimate, in its standard errors, with this cause in the model, largest first; of one at a
        bound as far as the cause moves it away from there."""
        held, information, beyond = _at_bounds(self.condensed, self.volumes)
        inside = held & ((misfit.change + beyond) * beyond < 0)
        change, errors = np.where(held, inside * (misfit.change + beyond), misfit.change), self.errors.copy()
        errors[held] = information[held] ** -0.5
        there = np.isfinite(errors) & (errors > 0)
        over = np.where(there, change / np.where(there, errors, 1.0), 0.0)
        pairs = zip(self.condensed.linearized.problem.names, over.tolist(), strict=True)
        return dict(sorted(pairs, key=lambda pair: -abs(pair[1])))

    def effects(self, misfit: Misfit, least: float = 0.7) -> dict[str, float]:
        """Changes of estimates by at least one of the standard errors that they have with this cause in the model, and
        of those whose errors fall to so small a share of what they are, as with twice the data."""
        names = self.condensed.linearized.problem.names
        factors = dict(zip(names, np.broadcast_to(misfit.narrower, len(names)).tolist(), strict=True))
        return {p: s for p, s in self.shifts(misfit).items() if abs(s) >= factors[p] or 0 < factors[p] <= least}


def _lasting(condensed: Condensed, coarser: Callable[[], ScoreTests | None]) -> tuple[Misfit, ...]:
    """Noise that is not white, the worst; what the step does is taken off."""
    found = whiteness.not_white(condensed, correlations := whiteness.serial_correlations(condensed))
    if found and (before := coarser()) is not None:
        coarse = whiteness.serial_correlations(before.condensed, coarse=True)
        if [one.noise for one in coarse] == [one.noise for one in correlations]:
            return whiteness.not_white(condensed, whiteness.beyond_step(correlations, coarse))
    return found
