"""What a fit of a planned motion will report, before anything has moved.

The planned motion takes the place of a recording: efforts that it takes are computed, sensors show it without errors,
and the equations of the fit are linearized there at the noise that is known. What the fit would report as standard
errors then follows as it does after a fit (``estimation.identifiability``).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from spookid.argument_checks import checked
from spookid.assembly.assembly import assemble, settings_of
from spookid.assembly.constants import at_gains, magnitude, numbers, sizes
from spookid.assembly.contact_start import refuse_contacts
from spookid.assembly.problem import Problem
from spookid.data.recording import Recording
from spookid.errors import ProblemError, shown
from spookid.estimation.fitting import at_noise
from spookid.estimation.identifiability import a_posteriori
from spookid.estimation.physical import predicted_quantities
from spookid.kernels.arrays import Array, Mask
from spookid.mechanics.joint_coordinates import disturbance_names
from spookid.parameter import number as number_of
from spookid.report.conclusion import assumed
from spookid.report.summary import LEGEND, bodies, correlated_pairs, correlation_line, covered
from spookid.results.result import Derived, Noise, Solution
from spookid.solvers.structured import NotPositiveDefiniteError
from spookid.statistics.covariance import ResidualStatistics, analyse
from spookid.statistics.marginal import NoiseSize
from spookid.statistics.sensitivities import Sensitivities
from spookid.statistics.variances import Variances
from spookid.studies.simulation_start import Noises, given_sizes
from spookid.studies.variants import Chosen, estimator_line, is_hard, raised
from spookid.tables.table import Block, Table, Tabular, counted, estimated, number, quantity
from spookid.transcription.parameter_constraints import FreeDirections


@dataclass(frozen=True, eq=False)
class ExpectedErrors(Tabular):
    """Standard errors of n parameters before and after a planned motion."""

    problem: str
    duration: float
    """Duration of the motion [s]."""
    names: tuple[str, ...]
    units: tuple[str, ...]
    values: Array
    """Values at which the errors are predicted, (n,)."""
    before: Array
    """Standard errors before the motion: of priors or of a solution; infinite without either, (n,)."""
    after: Array
    """Standard errors after the motion, together with ``before``; NaN where there is a reason, (n,)."""
    reasons: Mapping[str, str]
    """Reasons for missing errors, by name."""
    covariance: Array
    """Covariance after the motion, NaN likewise, (n, n)."""
    known: Array
    """Information of the prior, (n, n)."""
    data: Array
    """Information of the motion itself, (n, n)."""
    held: Mask
    """True for parameters that their bounds hold, (n,)."""
    normals: Array
    """Slopes of constraints between parameters that hold, (k, n)."""
    sizes: Array
    """Magnitudes for relative errors: the values or, where they are zero, their typical sizes, (n,)."""
    assumptions: Mapping[str, str] = field(default_factory=dict)
    """Estimator, stepper, friction and noise in words."""
    physical: Mapping[str, Derived] = field(default_factory=dict)
    """Masses, centres of mass and moments of bodies with an unknown full inertia, with the errors after the motion."""

    @property
    def relative(self) -> Array:
        """Standard errors after the motion, relative to the sizes of the parameters, (n,)."""
        return self.after / self.sizes

    def repetitions(self, name: str, error: float) -> float:
        """Number of repetitions of the motion, possibly fractional, after which the standard error of a parameter falls
        below a limit; infinite if no number suffices.

        Args:
            error: [the parameter's unit].

        Raises:
            ProblemError: for a name that is no free parameter.
        """
        from scipy.optimize import brentq  # half a second to load

        place, free = self._place(name), FreeDirections(self.held, self.normals)

        def excess(power: float) -> float:
            found = _predicted(self.names, self.known, 10**power * self.data, self.sizes, free).standard_errors[place]
            return 1.0 if math.isnan(found) else float(found) - error

        if excess(9.0) > 0:
            return math.inf
        return float(10 ** brentq(excess, -9.0, 9.0)) if excess(-9.0) > 0 else 0.0

    def until(self, name: str, error: float, relative: bool = False) -> str:
        """Sentence on how often the motion must be repeated until a standard error falls below a limit.

        Args:
            relative: True if ``error`` is a share of the parameter.
        """
        place = self._place(name)
        wanted = error * self.sizes[place] if relative else error
        said = f"{100 * error:.3g} %" if relative else quantity(error, self.units[place])
        times = self.repetitions(name, wanted)
        if math.isinf(times):
            return f"The standard error of {name} stays above {said}, however often this motion is repeated."
        if self.before[place] <= wanted:
            return f"The standard error of {name} is already below {said} without a motion."
        count = math.ceil(times - 1e-9)
        if count <= 1:
            return f"The standard error of {name} is below {said} after one run of {self.duration:g} s."
        return f"The standard error of {name} is below {said} after {count} runs ({number(count * self.duration)} s)."

    def _place(self, name: str) -> int:
        if name not in self.names:
            raise ProblemError(
                f"{name!r} is no free parameter of {self.problem!r}; there are {', '.join(self.names) or 'none'}"
            )
        return self.names.index(name)

    def blocks(self) -> Sequence[Block]:
        """Verdict, a table of parameters, correlations, and unidentifiable parameters."""
        return self.page()

    def page(self, verbose: bool = False) -> list[Block]:
        """Return the text that commands print; ``verbose`` adds coordinates of inertia and all correlations."""
        return [f"{self.problem}: {self.verdict}", *self.tables(verbose), *estimator_line(self.assumptions)]

    @property
    def verdict(self) -> str:
        """Sentence on the parameters that the motion identifies."""
        count, unknown = counted(len(self.names), "parameter"), len(self.reasons)
        identified = sum(not remark for remark in map(self._remark, range(len(self.names))))
        words = f"a motion of {self.duration:g} s identifies {identified} of {count} better than the prior"
        return f"{words}; {unknown} {'is' if unknown == 1 else 'are'} not identifiable" if unknown else words

    def tables(self, verbose: bool = False) -> Iterator[Block]:
        """Yield the tables and sentences of ``page`` after the verdict."""
        hidden = set() if verbose else covered(self.physical.values(), (), len(self.names))
        if grids := bodies(self.physical):
            yield from grids
            yield LEGEND
        rows = []
        for i, name in enumerate(self.names):
            if name in hidden or name in self.reasons:
                continue
            called, value, error, *_ = estimated(name, float(self.values[i]), float(self.after[i]), self.units[i])
            before = self.before[i] / self.sizes[i]
            known = _percent(before) if math.isfinite(before) else "unknown"
            rows.append((called, value, error, _percent(self.relative[i]), self.units[i], known, self._remark(i)))
        yield Table(("parameter", "value", "std. error", "rel.", "unit", "before", ""), rows, left=(0, 4, 6))
        yield "Standard errors: as a fit of the motion would report. before: relative error without the motion."
        yield from correlation_line(correlated_pairs(self.names, self.covariance, hidden), verbose)
        if self.reasons:
            yield "\n".join(["not identifiable", *(f"  {name}: {why}" for name, why in self.reasons.items())])

    def _remark(self, i: int) -> str:
        """Whether an error is mostly that of before; empty if not."""
        if self.names[i] in self.reasons:
            return self.reasons[self.names[i]]
        share = (self.after[i] / self.before[i]) ** 2
        return "" if not share > 0.5 else "mostly prior" if share < 0.99 else "prior"

    def records(self) -> Sequence[dict[str, Any]]:
        """A row for each parameter."""
        columns = self.names, self.values.tolist(), self.before.tolist(), self.after.tolist(), self.units
        return [
            {"parameter": name, "value": value, "before": before, "after": after, "unit": unit}
            | {"reason": self.reasons.get(name, "")}
            for name, value, before, after, unit in zip(*columns, strict=True)
        ]

    def __repr__(self) -> str:
        return f"<ExpectedErrors of {self.problem!r}: {len(self.names)} parameters>"


@checked
def expected_errors(
    problem: Problem, planned: Recording, *, noise: Noises = None, known: Solution | None = None
) -> ExpectedErrors:
    """Predict the standard errors that a fit of a planned motion will have.

    Args:
        planned: the motion, with all signals of the problem (``planned_recording`` makes it of joint angles).
        noise: standard deviations of signals in their units and process noise of joints [N m/√Hz or N/√Hz], by name;
            or a solution, for those that it found. Noise without a value here is that of the problem, else that of
            ``known``.
        known: a solution of the same mechanism: errors are predicted at its estimates, and its covariance is the prior,
            instead of the declared priors.

    Raises:
        ProblemError: for a problem with a given ``state_weight``, for unknown noise, and as ``Problem``.
    """
    _check(problem, noise)
    # What sticks and what slides follows from data; the smooth law says nearly the same of friction.
    problem = at_estimates(problem, known).with_(recordings=[planned], friction="smooth")
    fitted = noise if isinstance(noise, Solution) else known
    if fitted is not None and problem.chooses_estimator:
        problem = problem.with_(estimator="hard" if is_hard(fitted) else "noise")
    assembly = assemble(problem)
    names, random = tuple(assembly.transcription.names), known_noise(problem, assembly.noise, noise, known)
    try:
        assembly, point = at_noise(assembly, at_gains(problem, random, problem.guess, back=True))
    except NotPositiveDefiniteError as error:
        raise ProblemError(
            f"{problem.place}: the motion does not determine the states: {error}; lengthen it, or add sensors"
        ) from None
    free = assembly.transcription.free_directions(point.parameters)
    free = replace(free, held=np.zeros_like(free.held))  # an initial value is no estimate at a bound
    statistics = a_posteriori(assembly, point, free).statistics
    if statistics is None:
        raise ProblemError(f"{problem.place}: the motion does not determine the states; measure more of them")
    beforehand = knowledge(names, statistics.prior, known)
    factors = {} if fitted is None else raised(fitted)
    scales = np.array([factors.get(name, 1.0) for name in names])
    data = (statistics.information - statistics.prior) / np.outer(scales, scales)
    values = np.array([problem.guess[p.name] for p in problem.free])
    magnitudes = np.array([magnitude(p, problem.guess[p.name]) for p in problem.free])
    before, after = (_predicted(names, beforehand, more, magnitudes, free) for more in (np.zeros_like(data), data))
    return ExpectedErrors(
        problem.name,
        float(planned.t[-1] - planned.t[0]),
        names,
        tuple(p.unit for p in problem.free),
        values,
        np.where(np.isnan(before.standard_errors), math.inf, before.standard_errors),
        after.standard_errors,
        after.reasons,
        after.covariance,
        beforehand,
        data,
        free.held,
        free.normals,
        magnitudes,
        assumed(problem) if fitted is None else Chosen.by(fitted).assumed(problem),
        predicted_quantities(problem, after),
    )


def _check(problem: Problem, noise: Noises) -> None:
    """Refuse a problem whose errors cannot be predicted."""
    if not problem.estimates_noise:
        raise ProblemError(
            f"{problem.place}: Problem {problem.name!r} has a given state_weight, so that the noise is "
            "unknown; leave it out to predict errors"
        )
    refuse_contacts(problem, "errors that are predicted")
    if not (noise is None or isinstance(noise, (Solution, Mapping))):
        raise ProblemError(f"{problem.place}: noise is {shown(noise)}; give sizes by name, or a solution")


def _percent(share: float) -> str:
    percent = 100 * float(share)
    digits = 1 if percent < 0.1 else 2
    return f"{'> ' * (percent > 100)}{number(percent, digits) if percent < 99.5 else 100} %"


def at_estimates(problem: Problem, known: Solution | None) -> Problem:
    """Set the problem's initial values to the estimates of a solution, for parameters that it contains."""
    if known is None:
        return problem
    said = {p.name: known.values[p.name] for p in problem.parameter_set.declared if p.name in known.values}
    if problem.free and not said:
        raise ProblemError(
            f"{problem.place}: the solution of {known.problem!r} has none of the parameters of {problem.name!r}; give "
            "one of this mechanism"
        )
    inside = {p.name: float(np.clip(said[p.name], p.lower, p.upper)) for p in problem.free if p.name in said}
    return problem.with_(initial={**problem.initial, **said, **inside})


def knowledge(names: Sequence[str], prior: Array, known: Solution | None) -> Array:
    """Return the prior information matrix, (n, n): from a solution including its priors, or from priors alone for
    parameters that the solution does not contain."""
    if known is None:
        return prior
    of = known.sensitivities
    rows = [of.names.index(n) for n in names if n in of.names and n not in of.reasons]
    places = [i for i, n in enumerate(names) if n in of.names and n not in of.reasons]
    found = np.array(prior)
    found[places, :] = found[:, places] = 0.0
    covariance = of.covariance[np.ix_(rows, rows)]
    width = np.sqrt(np.diag(covariance))
    width = np.where(width > 0, width, 1.0)  # units are far apart
    scaled = np.linalg.pinv(covariance / np.outer(width, width), rcond=1e-14, hermitian=True)
    found[np.ix_(places, places)] = scaled / np.outer(width, width)
    return found


def known_noise(problem: Problem, random: Sequence[NoiseSize], noise: Noises, known: Solution | None) -> list[Noise]:
    """Collect the noise of a problem: given values first, then declared values, then values of a solution. Noise of
    measured signals is converted to effort noise at the initial values.

    Raises:
        ProblemError: if one is missing, or a name is none.
    """
    said = _said(problem, noise)
    found = _said(problem, known)
    names = {name for size in random for name in size.names}
    if isinstance(noise, Mapping) and (stray := next((name for name in noise if name not in names), None)):
        raise ProblemError(f"{problem.place}: noise names {stray!r}; there is noise of {', '.join(sorted(names))}")
    return [_noise(problem, size, name, said, found) for size in random for name in size.names]


def effort_densities(problem: Problem, planned: Recording, noise: Noises, known: Solution | None) -> Array:
    """Return spectral densities of effort noise (measurement or process noise) for each joint coordinate, then of force
    and torque on free bodies, (n_s + 6 n_f,) [N m/√Hz or N/√Hz].

    Raises:
        ProblemError: if one is unknown or zero.
    """
    problem = problem.with_(recordings=[planned])
    settings = settings_of(problem)
    constants = numbers(problem, settings, np.ones(len(problem.model.freedoms)))
    found = known_noise(problem, sizes(problem, settings, constants), noise, known)
    of_each = {(one.kind, one.names[0]): one for one in found}
    interval, measured = float(np.median(np.diff(planned.t))), dict[str, list[float]]()
    for motor in (motor for motor in problem.model.motors if motor.measured):
        measured.setdefault(motor.label, []).append(of_each["sensor", motor.signal].std * math.sqrt(interval))
    names = disturbance_names(problem.model)
    disturbed = {name: one.density for (kind, _), one in of_each.items() if kind == "disturbance" for name in one.names}
    densities = [math.hypot(*measured[name]) if name in measured else disturbed[name] for name in names]
    if silent := [name for name, density in zip(names, densities, strict=True) if not density > 0]:
        raise ProblemError(
            f"{problem.place}: a motion is designed for the noise of efforts, and there is none of {silent[0]!r}, as "
            f"with deterministic dynamics; give its size with noise= (of a command --noise {silent[0]}=SIZE)"
        )
    return np.array(densities)


def _said(problem: Problem, noise: Noises) -> dict[tuple[str, str], float]:
    """By kind and name; of measured efforts as efforts."""
    found = given_sizes(problem, noise)
    if isinstance(noise, Solution):
        return found
    values = problem.guess_on()
    units = {m.signal: abs(number_of(m.unit_effort, values)) for m in problem.model.motors if m.measured}
    return {key: size * (units.get(key[1], 1.0) if key[0] == "sensor" else 1.0) for key, size in found.items()}


def _noise(
    problem: Problem,
    size: NoiseSize,
    name: str,
    said: Mapping[tuple[str, str], float],
    found: Mapping[tuple[str, str], float],
) -> Noise:
    value, moving = said.get((size.kind, name)), size.kind == "disturbance"
    if value is None and size.given is not None:
        motor = next((m for m in problem.model.motors if m.measured and m.signal == name and not moving), None)
        ratio = 1.0 if motor is None else abs(number_of(motor.sensitivity, problem.guess_on()))
        value = size.given if moving else ratio * size.given / size.averaging
    value = found.get((size.kind, name)) if value is None else value
    if value is None:
        what = "joint" if moving else "signal"
        raise ProblemError(
            f"{problem.place}: the noise of {what} {name!r} is not known; declare it, give its size with noise= (of a "
            f"command --noise {name}=SIZE), or a solution that has found it"
        )
    if not (value > 0 or (moving and value == 0)):
        raise ProblemError(f"{problem.place}: noise of {name!r} is {shown(value)}; give a number above 0")
    root = math.sqrt(problem.step)
    std = value / root if moving else value
    return Noise(size.kind, (name,), std, size.unit, value if moving else math.nan, math.nan, given=True)


def _predicted(
    names: Sequence[str], prior: Array, data: Array, magnitudes: Array, free: FreeDirections
) -> Sensitivities:
    """Uncertainty of the parameters by the information of the prior and of the data, (n, n) each."""
    n = len(names)
    none, certain = np.zeros((0, n)), Variances(np.ones(1), np.zeros((1, 1)), 1.0)
    blocks = none, np.zeros((0, n, n)), none, np.zeros((0, n, n))
    statistics = ResidualStatistics(prior + data, prior, data[None], certain, *blocks)
    return analyse(names, statistics, magnitudes, free).sensitivities
