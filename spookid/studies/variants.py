"""Fits of variants of a problem: what is changed about it, and what all of them share so that they compare.

A study makes its fits by a ``Fit``. ``Chosen`` is what the fit of the problem itself has chosen: estimator and samples.
A ``Variant`` is what is changed: settings, parameters and initial values, by name.

Initial values may be drawn at random: from a parameter's prior, its two bounds, or else a decade to either side of the
guess. A parameter with an initial value of zero is drawn by the size with which it would make up a tenth of what the
recorded motion takes, of what its sensor shows, or, of a delay, of a period of the cutoff.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Protocol, TypeAlias

import casadi as ca
import numpy as np

from spookid.assembly.problem import Problem
from spookid.data.channels import all_predicted
from spookid.data.sampling import finite_samples
from spookid.data.state import State
from spookid.errors import ProblemError
from spookid.estimation.friction_width import at_widths, widths_of
from spookid.estimation.outliers import of_same_samples
from spookid.estimation.solving import solve
from spookid.estimation.trials import with_correlation
from spookid.parameter import Parameter, substitute
from spookid.report.conclusion import assumed, dynamics
from spookid.results.result import Solution
from spookid.results.settings import AUTO, BACKENDS, CHOICES
from spookid.results.values import Outlier
from spookid.solvers.levenberg_marquardt import LevenbergMarquardt
from spookid.stepping.base import DETERMINISTIC
from spookid.stepping.spook import Spook
from spookid.stepping.variational import Variational

AxisValue: TypeAlias = float | str
"""A value of a setting or a parameter: a number, or the name of a stepper, of a backend ..."""
START = "start"
"""The axis of a sweep over starts."""
STEPPERS = {"spook": Spook(), "spook-lifted": Spook(multipliers="lifted"), "variational": Variational()}
"""Time steppers by name."""
_NUMBERS = ("step", "state_weight", "friction_width", "cutoff")
_CHOICES = {"stepper": tuple(STEPPERS), "backend": BACKENDS, **CHOICES}
_OPTIONS = {f.name: type(f.default) if isinstance(f.default, int) else float for f in fields(LevenbergMarquardt)}
"""Options of the solver, and of what kind each is."""
_PART = 0.1
"""Assumed contribution of a parameter with initial value zero, as a share of the whole."""


class Fit(Protocol):
    """Function that fits a problem for a study, such as ``Job.fit``."""

    def __call__(self, problem: Problem, near: Solution | None = None, doing: str = "", hold: bool = False) -> Solution:
        """Solve a problem, from a solution near by if there is one, whose noise is held if that is asked for."""


def fitting(backend: str = "lm", options: Mapping[str, Any] = MappingProxyType({})) -> Fit:
    """Plain fits by a solver."""

    def fit(problem: Problem, near: Solution | None = None, doing: str = "", hold: bool = False) -> Solution:
        return solve(problem, backend, options, None, near, hold)

    return fit


@dataclass(frozen=True)
class Chosen:
    """Estimator and outliers that a fit has chosen; only results with the same choices are comparable."""

    estimator: str
    """"noise" or "hard"; empty where there was no choice."""
    words: str
    """The estimator, and why it was chosen."""
    outliers: tuple[Outlier, ...]
    correlation_times: Mapping[str, float] = field(default_factory=dict)
    """Of sensors with correlated noise, by signal [s]."""
    friction_widths: Mapping[str, float] = field(default_factory=dict)
    """Of coordinates with smooth dry friction, by label [rad/s or m/s]."""

    @classmethod
    def by(cls, solution: Solution) -> Chosen:
        """Read the chosen estimator and outliers from a solution."""
        choice = solution.choice
        known = {} if choice is None else choice.correlation_times
        outliers, widths = tuple(solution.outliers), widths_of(solution)
        return cls(choice.estimator if choice else "", dynamics(solution), outliers, known, widths)

    def posed(self, problem: Problem) -> Problem:
        """Apply the chosen estimator, if the stepper supports it, and the chosen outliers to a problem."""
        estimator = self.estimator or ("noise" if problem.chooses_estimator else problem.estimator)
        if estimator == "hard" and not (problem.estimates_noise and DETERMINISTIC not in problem.scheme.refuses):
            estimator = "noise"
        problem = at_widths(
            with_correlation(problem.with_(estimator=estimator), self.correlation_times), self.friction_widths
        )
        return of_same_samples(problem, self)

    def assumed(self, problem: Problem) -> dict[str, str]:
        """Assumptions of a study, as text."""
        return assumed(problem) | ({"Estimator": self.words} if self.estimator else {})


def is_hard(solution: Solution) -> bool:
    """True if the fit chose deterministic dynamics; its log-likelihood is then that of the fit with estimated noise."""
    return solution.choice is not None and solution.choice.is_hard


def raised(solution: Solution) -> dict[str, float]:
    """Factor by which the block jackknife increased each standard error; without parameters at a bound."""
    known = solution.sensitivities
    factors = known.inflation if known.inflation.size else np.ones(len(known.names))
    pairs = zip(known.names, factors.tolist(), strict=True)
    return {name: factor for name, factor in pairs if not solution[name].at_bound}


def estimator_line(assumptions: Mapping[str, str]) -> list[str]:
    """Sentence on the estimator, for tables of studies."""
    return [f"Estimator: {assumptions['Estimator']}"] if "Estimator" in assumptions else []


@dataclass(frozen=True)
class Variant:
    """Changes of a problem before it is solved, as texts and numbers that can be sent to workers."""

    settings: Mapping[str, AxisValue] = field(default_factory=dict)
    """The problem's own settings by name, ``backend``, and options of the solver."""
    held: Mapping[str, float] = field(default_factory=dict)
    """Parameters that are held at a value."""
    initial: Mapping[str, float] = field(default_factory=dict)
    """Initial values of parameters."""
    fixed: tuple[str, ...] = ()
    """Parameters that keep their initial value."""
    seed: int = 0
    """Of initial values that are drawn."""
    chosen: Chosen | None = None
    """What a fit has chosen that all variants are to share."""

    def at(self, point: Mapping[str, AxisValue], problem: Problem) -> Variant:
        """Return this variant of ``problem`` at a point of a grid of settings and parameters.

        A parameter's name goes before that of an option of the solver.

        Raises:
            ProblemError: for a name that is neither or both, or a value that does not fit it.
        """
        settings, held, initial = dict(self.settings), dict(self.held), dict(self.initial)
        known = set(problem.parameter_set.known)
        for name, value in point.items():
            if name in self.settings:
                raise ProblemError(f"{name} is given and swept; leave one of them out")
            if name == START and name not in known:
                guesses = drawn(problem, value, self.seed, problem.parameter_set.expanded(initial), self.fixed)
                initial |= {one: guess for one, guess in guesses.items() if one not in self.fixed}
            elif name in known and name not in _NUMBERS and name not in _CHOICES:
                if isinstance(value, str) or not math.isfinite(value):
                    raise ProblemError(f"the value of the parameter {name!r} is {value!r}; give a finite number")
                held[name] = value
            else:
                settings[name] = _checked(name, value, known)
        return Variant(settings, held, initial, self.fixed, self.seed, self.chosen)

    def posed(self, problem: Problem) -> tuple[Problem, str, dict[str, Any]]:
        """Changed problem, solver backend and solver options.

        Raises:
            ProblemError: for what the problem refuses.
        """
        known = problem.parameter_set.known
        initial = {name: value for name, value in {**self.initial, **self.held}.items() if name in known}
        own: dict[str, Any] = {name: value for name, value in self.settings.items() if name not in _OPTIONS}
        options = {name: _OPTIONS[name](value) for name, value in self.settings.items() if name in _OPTIONS}
        backend = str(own.pop("backend", BACKENDS[0]))
        if "stepper" in own:
            own["stepper"] = STEPPERS[own["stepper"]]
        guesses = problem.parameter_set.updated(problem.initial, initial)
        fixed = {*problem.fixed, *(name for name in (*self.fixed, *self.held) if name in known)}
        changed = problem.with_(initial=guesses, fixed=fixed, **own)
        return changed if self.chosen is None else self.chosen.posed(changed), backend, options


def _checked(name: str, value: AxisValue, parameters: set[str]) -> AxisValue:
    """A setting's value, if it fits."""
    every = (*_NUMBERS, *_CHOICES, *_OPTIONS)
    if name not in every:
        others = ", ".join(sorted(parameters)) or "there are none"
        raise ProblemError(f"{name!r} is neither a setting ({', '.join(every)}) nor a parameter ({others})")
    if name in parameters:
        raise ProblemError(f"{name!r} is a setting and a parameter of this problem; rename the parameter")
    if name in _CHOICES:
        if value not in _CHOICES[name]:
            raise ProblemError(f"{name} is {value!r}; choose from {', '.join(_CHOICES[name])}")
    elif isinstance(value, str):
        if (name, value) != ("state_weight", AUTO):
            other = " or auto" if name == "state_weight" else ""
            raise ProblemError(f"{name} is {value!r}; it takes numbers{other}")
    elif _OPTIONS.get(name, float) is not float and not (value >= 0 and value == int(value)):
        raise ProblemError(f"{name} is {value!r}; it takes 0, 1, 2 ...")
    return value


# --- initial values at random ---


def drawn(
    problem: Problem, start: float | str, seed: int, guesses: Mapping[str, float], held: Collection[str] = ()
) -> dict[str, float]:
    """Draw the initial values of a start, reproducible by its seed; start 0 has the problem's initial values.

    Args:
        initial values: initial values that replace the problem's own.
        held: parameters whose initial values are not wanted.

    Raises:
        ProblemError: for a start that is no whole number from 0 on, or an initial value of zero whose size is unknown.
    """
    if isinstance(start, str) or start < 0 or start != int(start):
        raise ProblemError(f"the number of the start is {start!r}; give a whole number of at least 0")
    if start == 0:
        return {}
    rng = np.random.default_rng([seed, int(start)])
    found = {}
    for p in problem.free:
        guess = guesses.get(p.name, problem.guess[p.name])
        if guess == 0 and not _ranged(p) and p.name not in held:
            guess = _size(problem, p) * rng.choice([-1.0] * (p.lower < 0) + [1.0] * (p.upper > 0))
        found[p.name] = _drawn(p, guess, rng)
    return found


def _ranged(parameter: Parameter) -> bool:
    """True if its prior or both bounds say where to draw."""
    return parameter.prior is not None or (math.isfinite(parameter.lower) and math.isfinite(parameter.upper))


def _drawn(parameter: Parameter, guess: float, rng: np.random.Generator) -> float:
    lower, upper = parameter.lower, parameter.upper
    if parameter.prior is not None:
        return float(np.clip(rng.normal(*parameter.prior), lower, upper))
    if not _ranged(parameter):
        return float(np.clip(guess * 10 ** rng.uniform(-1.0, 1.0), lower, upper))
    if lower > 0 and upper / lower > 100:  # all of their decades are as likely
        return float(np.exp(rng.uniform(np.log(lower), np.log(upper))))
    return float(rng.uniform(lower, upper))


def _size(problem: Problem, parameter: Parameter) -> float:
    """Of a parameter with an initial value of zero.

    Raises:
        ProblemError: if it is not known.
    """
    known = problem.parameter_set
    copies = {p.name: {p.name, *(one.name for one in known.of(p))} for p in known.declared}
    size = next((_sizes(problem)[name] for name, own in copies.items() if parameter.name in own), math.inf)
    if not math.isfinite(size):
        raise ProblemError(
            f"{problem.place}: {parameter.name!r} has the initial value 0, which gives starts no scale, and "
            "neither the motion nor a sensor's offset determines its size; give it a prior or both bounds, or hold it"
        )
    return size


@lru_cache(maxsize=1)
def _sizes(problem: Problem) -> dict[str, float]:
    """With which each declared parameter makes up a tenth of the whole at the initial values; 0 if the motion does not
    depend on it, infinite if that is not known."""
    from spookid.estimation.explained import Balance  # which few starts need

    shown = all_predicted(problem.channels, State.symbols(problem.model))
    seen, values = {symbol.name() for symbol in ca.symvar(shown)}, problem.guess
    declared = problem.parameter_set.declared
    found = {p.name: _PART / problem.cutoff if p.name in problem.delays else math.inf for p in declared}
    for channel in problem.channels:
        samples = [finite_samples(recording, channel.signal)[1] for recording in problem.sample]
        spread = max((float(np.std(one)) for one in samples if len(one)), default=0.0)
        for p in declared:
            slope = abs(float(substitute(ca.jacobian(channel.offset, p), values).item()))
            found[p.name] = min(found[p.name], _PART * spread / slope) if slope * spread > 0 else found[p.name]
    try:
        balance = Balance(problem)
        efforts = balance.along(problem.sample[0])
    except (ProblemError, IndexError, np.linalg.LinAlgError):  # of too short a recording, say
        return found
    at = np.array([efforts.values[p.name] for p in balance.free])
    slopes = balance.rows(efforts, at)[1] / efforts.parts(at)[:, None]
    for p, share in zip(balance.free, np.sqrt(np.mean(slopes**2, axis=(0, 1))), strict=True):
        if share > 1e-12:  # a smaller one is rounding
            found[p.name] = min(found[p.name], _PART / float(share))
        elif p.name not in seen and math.isinf(found[p.name]):
            found[p.name] = 0.0
    return found
