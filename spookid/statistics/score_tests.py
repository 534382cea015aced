"""Score tests of what a model may lack, told by what its residuals correlate with.

Each usual alternative (a sensor that lags or is off, friction, a length or an inertia that is wrong, a motor that
lags) would change the whitened residuals r along a column e, were it there with size a: r + a e. With states and
parameters projected out of both, what the data say of it is

    a = −eᵀr/eᵀe,    z = −eᵀr/|e|,

z standard normal if the model is right (Rao's score test; r is white then). The strongest is taken up and projected out
before the next is tested, so that each says something of its own. What is left when no alternative is found, and
still not white, lasts in a way that no one has a name for (``whiteness``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from functools import cached_property

import numpy as np

from spookid.kernels.arrays import Array
from spookid.records import dataclass
from spookid.statistics import splits, whiteness
from spookid.statistics.condensing import Condensed
from spookid.statistics.linearized import Columns, LinearizedFactor
from spookid.statistics.whiteness import Misfit, Tails, limit, tails_of
from spookid.transcription.factor import Group, measured_noise

_MOST = 3
"""Misfits that are told."""
_INDEPENDENT = {True: 1e-4, False: 1e-2}
"""Share of what states leave of a column's square that parameters must leave, too, or it is no alternative of its own:
what motion, parameters and the equations of motion make up together is left with the disturbance itself. More, if what
the alternative does to the volume of the states is not known."""
MISSING = "missing or too much"
"""In words of an alternative: one of both is said, by the sign of its size."""
_LATE = (0.0, np.inf)
"""Delays that there are: of two sensors either lags."""


@dataclass(frozen=True)
class Alternative:
    """One usual alternative."""

    words: str
    """With the size in the place of {}, and where it is felt."""
    unit: str
    columns: tuple[Columns, ...]
    """e per chain and factor, (count, 1, rows that are left)."""
    sizes: tuple[float, float] = (-np.inf, np.inf)
    """Between which it is an alternative: nothing acts before it is told to, and no one declares twice a mass."""
    volume: float | None = None
    """Half its slope of the logarithms in −2 log L; None if it is not known, and about what parameters would do."""


@dataclass(frozen=True, eq=False)
class Signals:
    """One recording's estimated motion, N steps."""

    observed: Array
    """What the sensors would show, continuous in time, (N, n_o)."""
    inputs: Array
    """(N, n_u)."""


@dataclass(frozen=True, eq=False)
class Experiment:
    """What the tests take."""

    step: float
    """h [s]."""
    motions: tuple[Signals, ...]
    sensors: tuple[tuple[str, str], ...]
    """Signal and unit of each."""
    coordinates: tuple[tuple[str, str], ...]
    """Label, and unit of what acts along it, of those of joints that have random rows."""
    sigmas: dict[str, float]
    """Of sensors by their signal."""
    impulses: dict[str, float]
    """Random impulse of a step of coordinates by their label [N m s or N s]."""
    motors: tuple[tuple[str, str, int, float], ...]
    """Coordinate, signal, the signal's place and gain of each motor."""
    uneven: frozenset[str] = frozenset()
    """Signals whose noise changes with the motion, as that of a quaternion's components: no tails are told of them."""
    apart: tuple[Mapping[str, Array], ...] = ()
    """Per recording, of factors of samples between the steps by their name: how far each row's sample is from the
    nearest step, in steps, (count, rows)."""


def run_score_tests(
    condensed: Condensed, experiment: Experiment, declared: Callable[[], Sequence[Alternative]], volumes: Array
) -> ScoreTests:
    """What the residuals say to each test, the alternatives when they are asked for.

    Args:
        declared: alternatives in what is declared of bodies and joints.
        volumes: ``Alternative.volume`` of the parameters in each recording, (recordings, n_p).
    """

    def alternatives() -> _Answers:
        every = [c for c in (*_usual(condensed, experiment), *declared()) if _acts(c)]
        if not every:
            return _Answers((), _Tests(np.zeros((0, 2)), np.zeros(0), np.zeros(0)), np.zeros((0, 0)))
        return _tested(condensed, every, volumes)

    even = [signal for signal, _ in experiment.sensors if signal not in experiment.uneven]
    tails = tuple(tails_of(condensed, signal, experiment.apart) for signal in even)
    return ScoreTests(condensed, tails, alternatives)


def misfits(tests: ScoreTests, coarser: Callable[[], ScoreTests | None] = lambda: None) -> tuple[Misfit, ...]:
    """What they speak for, strongest first; nothing on all but 1 % of the data that a model fits.

    Args:
        coarser: of a fit with steps twice as long and the same noise; it takes a while, and is asked where the finer
            fit tells something. What the step does, which falls with its square, is no misfit: both the finer fit and
            the extrapolation to no step must tell one.
    """
    far = []
    for i, own in enumerate(tests.tails):
        if own.are_heavy(len(tests.tails)):
            before = coarser()
            far.append(own.misfit(None if before is None else before.tails[i]))
    told = far if len(far) >= _MOST else [*far, *_strongest(tests.alternatives, coarser)]
    return tuple(told[:_MOST]) or _lasting(tests.condensed, coarser)


def _strongest(answers: _Answers, coarser: Callable[[], ScoreTests | None]) -> list[Misfit]:
    """Alternatives that both fits speak for."""
    found = answers.strongest(answers)
    if found and (before := coarser()) is not None:
        known = before.alternatives
        common = answers.of(known.words)  # the coarser fit may hold what no data see
        if common.words == known.words:
            answers, found = common, common.strongest(known)
    return [Misfit(_said(words, size, unit), z) for i, size, z in found for words, unit in answers.words[i : i + 1]]


def _said(words: str, size: float, unit: str) -> str:
    """Words with the size, of what may be missing or too much with what it is."""
    if MISSING in words:
        words, size = words.replace(MISSING, "missing" if size > 0 else "too much"), abs(size)
    return words.replace("{}", _amount(size, unit))


def _acts(alternative: Alternative) -> bool:
    return any(np.any(part) for chain in alternative.columns for part in chain)


def _tested(condensed: Condensed, alternatives: Sequence[Alternative], volumes: Array) -> _Answers:
    chains = range(len(condensed.linearized.chains))
    columns = [condensed.without_states(i, _stacked([c.columns[i] for c in alternatives])) for i in chains]
    # What parameters project out of them is told by products: the vectors that are left need not be made.
    with_parameters, squares = condensed.inner(columns, condensed.T), condensed.inner(columns, columns)
    steps = condensed.inverse @ with_parameters.T
    own, apart = squares - with_parameters @ steps, splits.heterogeneity(condensed, columns, steps, volumes)
    known = np.array([c.volume is not None for c in alternatives])
    # Determinants, too, count as far as parameters leave them; there all slopes of the likelihood are zero.
    slopes = np.array([c.volume or 0.0 for c in alternatives]) - steps.T @ volumes.sum(axis=0)
    tests = _Tests(
        np.vstack([*(c.sizes for c in alternatives), *[(-np.inf, np.inf)] * len(apart.names)]),
        np.repeat([limit(len(alternatives)), limit(len(apart.names))], [len(alternatives), len(apart.names)]),
        np.append(
            np.array([_INDEPENDENT[k] for k in known.tolist()]) * np.diag(squares), _INDEPENDENT[False] * apart.before
        ),
    )
    gram = np.block([[own, apart.across], [apart.across.T, apart.gram]])
    pulls = np.append(-condensed.inner(columns, condensed.residuals)[:, 0] - known * slopes, apart.pulls)
    words = (*((c.words, c.unit) for c in alternatives), *((f"{name}?", "") for name in apart.names))
    return _Answers(words, tests, gram, pulls)


@dataclass(frozen=True, eq=False)
class _Tests:
    """Of m alternatives."""

    sizes: Array
    """Least and largest, (m, 2)."""
    limits: Array
    """Standard errors from which on each is told, (m,)."""
    least: Array
    """Squares of the columns, states and parameters projected out, from which on each is an alternative of its own,
    (m,)."""

    def strongest(self, fine: _Products, coarse: _Products) -> list[tuple[int, float, float]]:
        """Number, size and standard errors of what is told, by products with steps of h/2 and of h, or twice the
        same."""
        found: list[tuple[int, float, float]] = []
        while len(found) < _MOST:
            own = np.diag(fine.gram) > self.least
            sizes, z = fine.pulls / np.where(own, np.diag(fine.gram), 1.0), fine.scores
            without = z + (z - coarse.scores) / 3
            own &= (self.sizes[:, 0] < sizes) & (sizes < self.sizes[:, 1])
            own &= (np.minimum(np.abs(z), np.abs(without)) > self.limits) & (z * without > 0)
            z = np.where(own, z, 0.0)
            if not np.any(z):
                break
            best = int(np.argmax(np.abs(z)))
            found.append((best, float(sizes[best]), float(z[best])))
            fine, coarse = fine.less(best), coarse.less(best)
        return found


@dataclass(frozen=True, eq=False)
class _Products:
    """Of m columns from which states and parameters are projected out."""

    gram: Array
    """With one another, (m, m)."""
    pulls: Array
    """Less those with the residuals, (m,)."""

    @property
    def scores(self) -> Array:
        """Standard errors by which the size of each is not zero, (m,); 0 where nothing is left of it."""
        squares = np.diag(self.gram)
        return np.asarray(np.where(squares > 0, self.pulls, 0.0) / np.sqrt(np.where(squares > 0, squares, 1.0)))

    def less(self, one: int) -> _Products:
        """With that one projected out."""
        share = self.gram[:, one] / (self.gram[one, one] or 1.0)
        return _Products(self.gram - np.outer(share, self.gram[one]), self.pulls - share * self.pulls[one])


@dataclass(frozen=True, eq=False)
class ScoreTests:
    """Of one fit."""

    condensed: Condensed
    tails: tuple[Tails, ...]
    """Of each sensor."""
    ask: Callable[[], _Answers]
    """What makes ``alternatives``."""

    @cached_property
    def alternatives(self) -> _Answers:
        """What the residuals say to all of them."""
        return self.ask()


@dataclass(frozen=True, eq=False)
class _Answers:
    """What the residuals of one fit say to all alternatives."""

    words: tuple[tuple[str, str], ...]
    """Of m alternatives, with {} for the size, and its unit."""
    tests: _Tests
    gram: Array
    """Products of their columns with one another, (m, m)."""
    pulls: Array = field(default_factory=lambda: np.zeros(0))
    """Less those with the residuals, (m,)."""

    def strongest(self, coarser: _Answers) -> list[tuple[int, float, float]]:
        """As ``_Tests.strongest``."""
        return self.tests.strongest(_Products(self.gram, self.pulls), _Products(coarser.gram, coarser.pulls))

    def of(self, words: Sequence[tuple[str, str]]) -> _Answers:
        """Those among these alternatives; itself if all are."""
        if words == self.words:
            return self
        kept = [i for i, one in enumerate(self.words) if one in words]
        tests = _Tests(self.tests.sizes[kept], self.tests.limits[kept], self.tests.least[kept])
        chosen = tuple(self.words[i] for i in kept)
        return _Answers(chosen, tests, self.gram[np.ix_(kept, kept)], self.pulls[kept])


def _lasting(condensed: Condensed, coarser: Callable[[], ScoreTests | None]) -> tuple[Misfit, ...]:
    """Noise that is not white, the worst; what the step does is taken off."""
    found = _not_white(correlations := whiteness.serial_correlations(condensed))
    if found and (before := coarser()) is not None:
        coarse = whiteness.serial_correlations(before.condensed, coarse=True)
        if [one.noise for one in coarse] == [one.noise for one in correlations]:
            return _not_white(whiteness.beyond_step(correlations, coarse))
    return found


def _not_white(correlations: Sequence[whiteness.SerialCorrelation]) -> tuple[Misfit, ...]:
    if not correlations or abs((worst := max(correlations, key=lambda test: abs(test.z))).z) <= limit(
        len(correlations)
    ):
        return ()
    return (Misfit(worst.words, worst.z),)


def _amount(size: float, unit: str) -> str:
    """A size in words, times in milliseconds, shares in percent."""
    scale, unit = {"s": (1000, "ms"), "%": (100, "%")}.get(unit, (1, unit))
    return f"{scale * size:.2g} {unit}".rstrip()


def _stacked(columns: Sequence[Columns]) -> Columns:
    return [np.concatenate(parts, axis=1) for parts in zip(*columns, strict=True)]


def _usual(condensed: Condensed, experiment: Experiment) -> list[Alternative]:
    found = [
        alternative for i in range(len(experiment.sensors)) for alternative in _of_sensor(condensed, experiment, i)
    ]
    for j in range(len(experiment.coordinates)):
        found += _of_coordinate(condensed, experiment, j)
    return found + [
        alternative for m in range(len(experiment.motors)) for alternative in _of_motor(condensed, experiment, m)
    ]


def _of_sensor(condensed: Condensed, experiment: Experiment, i: int) -> list[Alternative]:
    signal, unit = experiment.sensors[i]
    sigma, h, key = experiment.sigmas[signal], experiment.step, measured_noise(signal)
    rates = [-np.gradient(m.observed[:, i], h) / sigma for m in experiment.motions]
    ones = [np.full(len(m.observed), 1 / sigma) for m in experiment.motions]
    return [
        Alternative(
            f"{signal} lags by about {{}}: a delay?", "s", _rows(condensed, Group.OBSERVATION, key, rates), _LATE
        ),
        Alternative(f"{signal} is off by about {{}}: an offset?", unit, _rows(condensed, Group.OBSERVATION, key, ones)),
    ]


def _of_coordinate(condensed: Condensed, experiment: Experiment, j: int) -> list[Alternative]:
    """A constant torque or force a lacks where the residual is −a h over the random impulse."""
    name, unit = experiment.coordinates[j]
    if name not in experiment.impulses:
        return []
    parts = [np.full(len(m.observed), -experiment.step / experiment.impulses[name]) for m in experiment.motions]
    what = "torque" if unit == "N m" else "force"
    words = f"{{}} of constant {what} in {name}: an offset of the motor, or a tilt?"
    return [Alternative(words, unit, _rows(condensed, Group.STATE, name, parts))]


def _of_motor(condensed: Condensed, experiment: Experiment, m: int) -> list[Alternative]:
    """Late, or early: an input that moves between its samples is taken as held, half an interval late."""
    driven, signal, place, gain = experiment.motors[m]
    scale = experiment.step * gain / experiment.impulses.get(driven, np.inf)
    slopes = [scale * np.gradient(motion.inputs[:, place], experiment.step) for motion in experiment.motions]
    words = {
        f"{signal} acts on {driven} late by about {{}}: a delay?": slopes,
        f"{signal} acts on {driven} early by about {{}}: does it move between its samples?": [-s for s in slopes],
    }
    return [Alternative(w, "s", _rows(condensed, Group.STATE, driven, s), _LATE) for w, s in words.items()]


def _rows(condensed: Condensed, group: Group, noise: str, values: Sequence[Array]) -> tuple[Columns, ...]:
    """A column in the rows of a group that have this noise, from values at every step of each recording."""
    return tuple(
        [_column(term, group, noise, v) for term in terms]
        for terms, v in zip(condensed.linearized.chains, values, strict=True)
    )


def _column(term: LinearizedFactor, group: Group, noise: str, values: Array) -> Array:
    factor, (count, rows) = term.factor, term.residual.shape
    if factor.group is not group or noise not in factor.noise:
        return np.zeros((count, 1, rows))
    first = factor.reach // 2  # a factor over several steps belongs to the middle one
    mask = np.array([name == noise for name in factor.noise], dtype=np.float64)
    column = values[first : first + count, None] * mask
    if term.complement is not None:
        column = np.matmul(column[:, None], term.complement)[:, 0]
    return np.asarray((column * term.alive)[:, None])
