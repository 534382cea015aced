"""Cards of a fit, and whether a new log still agrees with one: a score test that refits no parameter.

A card holds estimates θ with covariance C. Along a new log the parameters are held at θ, and states and noise are
estimated. With g half the gradient of −2 log L in the parameters there, and S the information, both divided by the
overdispersion ĉ of the card's fit, the log asks for a change of −S⁻¹g with the covariance V = S⁻¹ + C. If parameter i
alone has changed, the change and its statistic are

    a_i = (V⁻¹δ)_i/(V⁻¹)_ii,    z_i = (V⁻¹δ)_i/√(V⁻¹)_ii,    V⁻¹δ = −(1 + S C)⁻¹g,    V⁻¹ = (1 + S C)⁻¹S,

z_i standard normal if the device is the same (Rao, 1948). With p parameters an alarm is |z_i| beyond the quantile of
the false-alarm rate over p (Bonferroni).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from spookid.argument_checks import checked
from spookid.assembly.problem import Problem
from spookid.data.recording import Recording
from spookid.errors import ProblemError
from spookid.estimation.fitting import Start, fit
from spookid.estimation.outliers import of_same_samples
from spookid.files import unreadable
from spookid.kernels.arrays import Array
from spookid.kernels.scipy_parts import special
from spookid.results import folders
from spookid.results.folders import versions
from spookid.results.result import Solution
from spookid.solvers.levenberg_marquardt import LevenbergMarquardt
from spookid.solvers.status import Status
from spookid.statistics.whiteness import FALSE_ALARMS
from spookid.studies.job import digest
from spookid.studies.variants import Chosen, raised
from spookid.tables.table import Block, Table, Tabular, number, quantity

_SCHEMA = 1
"""Version of the layout of the file."""


@dataclass(frozen=True, eq=False)
class Card:
    """Card of a fit: a file with estimates, noise and information matrix, to verify later logs."""

    problem: str
    """Name of the problem."""
    source: str
    """Problem file that was solved, with ``::key`` if it holds several."""
    command: str
    """What repeats the fit."""
    model: str
    """Hash of the model and the settings, without recordings."""
    names: tuple[str, ...]
    """Parameters with a standard error."""
    units: tuple[str, ...]
    estimates: tuple[float, ...]
    at_step: tuple[float, ...]
    """Estimates with what the time step adds to them, as a fit with this step has them."""
    covariance: tuple[tuple[float, ...], ...]
    held: Mapping[str, float]
    """Parameters without a standard error, at their values."""
    noise: Mapping[str, float]
    """Standard deviations by what they are of, in their units."""
    overdispersion: float
    """ĉ, by which squared errors of the fit are larger than for white noise."""
    estimator: str
    """"noise" or "hard"."""
    recordings: Mapping[str, str]
    """Hashes of the logs by name."""
    versions: Mapping[str, str]

    @property
    def std_errs(self) -> Array:
        """Standard errors, (n,)."""
        return np.sqrt(np.diag(np.array(self.covariance)))

    def save(self, path: str | PathLike[str]) -> None:
        """Write the card as JSON; raises ProblemError if the file cannot be written."""
        tree = {"schema": _SCHEMA, **{name: getattr(self, name) for name in self.__dataclass_fields__}}
        folders.write(Path(path), msgspec.json.format(msgspec.json.encode(tree), indent=1).decode() + "\n")

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Card:
        """Read one.

        Raises:
            ProblemError: for a file that is no card.
        """
        try:
            tree = msgspec.json.decode(Path(path).read_bytes())
        except OSError as error:
            raise unreadable(path, error) from None
        except ValueError:
            tree = None
        if not (isinstance(tree, dict) and tree.pop("schema", None) == _SCHEMA):
            raise ProblemError(f"{path} is no card of this version; write one with spookid card RESULT")
        try:
            return msgspec.convert(tree, cls)
        except msgspec.ValidationError as error:
            raise ProblemError(f"{path} is no card ({error}); write one with spookid card RESULT") from None


@checked
def card(problem: Problem, solution: Solution) -> Card:
    """Make the verification card of a fit. ::

        spookid.studies.card(problem, solution).save("arm.card.json")

    Raises:
        ProblemError: if no parameter of the model has a standard error.
    """
    known, own = solution.sensitivities, {p.name for p in problem.parameters if not p.per}
    free = [one for name, one in solution.parameters.items() if name in own and not (one.fixed or one.at_bound)]
    free = [one for one in free if one.name in known.names and math.isfinite(one.std_err) and one.std_err > 0]
    if not free:
        raise ProblemError(f"no parameter of {solution.problem!r} has a standard error; a card needs one at least")
    places = [known.names.index(one.name) for one in free]
    covariance = known.covariance[np.ix_(places, places)]
    scales = [one.scale if math.isfinite(one.scale) else 1.0 for one in free]
    widths = np.array([one.std_err * s for one, s in zip(free, scales, strict=True)])
    correlation = covariance / np.sqrt(np.outer(np.diag(covariance), np.diag(covariance)))
    errors = raised(solution)
    over = [(errors.get(one.name, 1.0) * s) ** 2 for one, s in zip(free, scales, strict=True)]
    corrected = [one.step_error if problem.corrects and math.isfinite(one.step_error) else 0.0 for one in free]
    return Card(
        problem=solution.problem,
        source=solution.source or "",
        command=f"spookid solve {solution.source}" if solution.source else "",
        model=_model(problem),
        names=tuple(one.name for one in free),
        units=tuple(one.unit for one in free),
        estimates=tuple(one.estimate for one in free),
        at_step=tuple(one.estimate + more for one, more in zip(free, corrected, strict=True)),
        covariance=tuple(map(tuple, (correlation * np.outer(widths, widths)).tolist())),
        held={name: one.estimate for name, one in solution.parameters.items() if name in own - {f.name for f in free}},
        noise={f"{one.kind} {', '.join(one.names)}": one.std for one in solution.noise},
        overdispersion=max(1.0, float(np.mean(over))),
        estimator=Chosen.by(solution).estimator or problem.estimator,
        recordings={recording.name: _hash(recording) for recording in problem.recordings},
        versions=versions(),
    )


def _model(problem: Problem) -> str:
    return digest(problem.with_(recordings=(), step=problem.step, initial={}))


def _hash(recording: Recording) -> str:
    result = hashlib.sha256()
    for name, samples in {"t": recording.t, **recording.signals}.items():
        result.update(name.encode() + np.ascontiguousarray(samples).tobytes())
    return result.hexdigest()


@dataclass(frozen=True)
class Change:
    """Estimated change of one parameter between fit and log, if no other parameter has changed."""

    name: str
    unit: str
    estimate: float
    """On the card."""
    change: float
    error: float
    """Standard error of the change, that of the card included; infinite if the log does not determine it."""
    statistic: float
    """Standard normal if nothing has changed."""


@dataclass(frozen=True, eq=False)
class Verification(Tabular):
    """Result of the test of a log against a card."""

    problem: str
    recording: str
    changes: tuple[Change, ...]
    false_alarms: float
    noise: Mapping[str, tuple[float, float]]
    """Standard deviations on the card and along the log, by what they are of."""

    @property
    def limit(self) -> float:
        """Of |z|."""
        return float(-special.ndtri(self.false_alarms / (2 * len(self.changes))))

    @property
    def strongest(self) -> Change:
        """Most significant change of a parameter."""
        return max(self.changes, key=lambda one: abs(one.statistic))

    @property
    def agrees(self) -> bool:
        """True if no parameter has changed significantly."""
        return abs(self.strongest.statistic) <= self.limit

    @property
    def verdict(self) -> str:
        """In a sentence."""
        one, rate = self.strongest, f"{100 * self.false_alarms:g} % of logs of an unchanged device give an alarm"
        if self.agrees:
            return f"{self.recording} agrees with the card of {self.problem} ({rate})."
        amount = f"{quantity(one.change, one.unit)} ± {number(one.error, 2)}"
        share = f", {100 * one.change / one.estimate:+.3g} %" if one.estimate else ""
        return (
            f"CHANGED {one.name} by {amount}{share}: |z = {one.statistic:+.1f}| exceeds {self.limit:.1f} ({rate}). "
            "A parameter with a similar effect may have changed instead."
        )

    def blocks(self) -> list[Block]:
        """Changes, noise and verdict."""
        rows = [
            (one.name, number(one.estimate, 4), number(one.change, 3), number(one.error, 2), f"{one.statistic:+.1f}")
            for one in self.changes
        ]
        sizes = [(name, number(before, 3), number(now, 3)) for name, (before, now) in self.noise.items()]
        head = ("parameter", "card", "change if alone", "std. error", "z")
        return [
            f"{self.problem}: {self.recording}",
            Table(head, rows),
            Table(("noise", "card", "log"), sizes),
            self.verdict,
        ]

    def records(self) -> Sequence[Mapping[str, Any]]:
        """A row for each parameter."""
        return [vars(one) for one in self.changes]


@checked
def verify(problem: Problem, known: Card, recording: Recording, false_alarms: float = FALSE_ALARMS) -> Verification:
    """Test if the parameters of a card describe another log, by a score test without a new fit. ::

        found = spookid.studies.verify(problem, Card.load("arm.card.json"), Recording.from_csv("today.csv"))
        print(found.verdict)

    Args:
        problem: the one that was solved, as its file declares it.
        known: the card of its fit.
        recording: a log with the signals of the problem.
        false_alarms: rate of alarms at devices that have not changed.

    Raises:
        ProblemError: for a problem that is another one than the card's, a log without its signals or along which
            motion and noise cannot be estimated, or a rate that is not between 0 and 1.
    """
    if not 0 < false_alarms < 1:
        raise ProblemError(f"the argument false_alarms is {false_alarms:g}; give a rate between 0 and 1")
    if problem.name != known.problem or _model(problem) != known.model:
        raise ProblemError(
            f"{problem.what} is not the problem of the card, which is of {known.problem!r}: its file has changed "
            "since; solve it again and write another card"
        )
    if not problem.rubs_smoothly:
        raise ProblemError(f"{problem.what} has friction that sticks, which has no score; give it friction='smooth'")
    tested = dict(zip(known.names, known.at_step, strict=True))
    missing = [p.name for p in problem.free if p.name not in tested and not p.per]
    values = {**{name: known.held[name] for name in missing if name in known.held}, **tested}
    posed = problem.with_(recordings=[recording], step=problem.step, estimator=known.estimator)
    initial = posed.parameter_set.updated(posed.initial, values)
    posed = of_same_samples(posed.with_(initial=initial, fixed={*posed.fixed, *missing}))
    names = [p.name for p in posed.free]
    made = fit(posed, LevenbergMarquardt(), None, Start(held=tested))
    likely = made.likelihood
    if made.outcome.status is not Status.CONVERGED or likely is None or likely.states is None:
        raise ProblemError(
            f"motion and noise of recording {recording.name!r} could not be estimated ({made.outcome.status.value}); "
            "check the log"
        )
    corner, counted = likely.states.schur, likely.normaliser
    score = corner[:-1, -1] + (0 if counted is None else counted)
    slopes, precision = _priors(posed, made.values)
    found = _changes(known, names, score - slopes, corner[:-1, :-1] - np.diag(precision))
    pairs = {f"{one.kind} {', '.join(one.names)}": one.std for one in likely.noise}
    noise = {name: (known.noise.get(name, math.nan), now) for name, now in pairs.items()}
    return Verification(problem.name, recording.name, found, false_alarms, noise)


def _priors(problem: Problem, values: Mapping[str, float]) -> tuple[Array, Array]:
    """Half the gradient of priors, and their information, of the free parameters, (n_p,) each: the card has them."""
    pairs = [(values[p.name], p.prior) for p in problem.free]
    slopes = [0.0 if prior is None else (value - prior[0]) / prior[1] ** 2 for value, prior in pairs]
    return np.array(slopes), np.array([0.0 if prior is None else 1 / prior[1] ** 2 for _, prior in pairs])


def _changes(known: Card, names: Sequence[str], score: Array, information: Array) -> tuple[Change, ...]:
    """Of each parameter of the card; those that each recording has of its own follow."""
    tested = [names.index(name) for name in known.names]
    others = [i for i in range(len(names)) if i not in tested]
    S, g = information[np.ix_(tested, tested)], score[tested]
    if others:
        own, link = information[np.ix_(others, others)], information[np.ix_(others, tested)]
        across = np.linalg.lstsq(own, link, rcond=None)[0]
        S, g = S - link.T @ across, g - across.T @ score[others]
    sizes = known.std_errs  # in standard errors of the card everything is of one size
    S, g = S * np.outer(sizes, sizes) / known.overdispersion, g * sizes / known.overdispersion
    C = np.array(known.covariance) / np.outer(sizes, sizes)
    both = np.linalg.solve(np.eye(len(g)) + S @ C, np.column_stack([S, -g]))
    pull, own = both[:, -1], np.maximum(np.diag(both[:, :-1]), 0.0)
    found = []
    for i, name in enumerate(known.names):
        seen = own[i] > np.finfo(float).eps
        error, change = (sizes[i] / math.sqrt(own[i]), sizes[i] * pull[i] / own[i]) if seen else (math.inf, 0.0)
        statistic = float(pull[i] / math.sqrt(own[i])) if seen else 0.0
        found.append(Change(name, known.units[i], known.estimates[i], float(change), float(error), statistic))
    return tuple(found)
