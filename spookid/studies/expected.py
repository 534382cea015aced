"""What a fit of a planned motion will tell, before anything has moved.

The planned motion takes the place of a recording: efforts that it takes are computed, sensors show it without errors,
and the equations of the fit are linearized there at the noise that is known. What the fit would report as standard
errors then follows as it does after a fit (``estimation.identifiability``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
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
from spookid.kernels.arrays import Array, Mask
from spookid.mechanics.joint_coordinates import disturbance_names
from spookid.parameter import number as number_of
from spookid.results.result import Noise, Solution
from spookid.solvers.structured import NotPositiveDefiniteError
from spookid.statistics.covariance import ResidualStatistics, analyse
from spookid.statistics.marginal import NoiseSize
from spookid.statistics.variances import Variances
from spookid.studies.simulation_start import Noises, given_sizes
from spookid.tables.table import Block, Table, Tabular, counted, number, quantity, superscripts
from spookid.transcription.parameter_constraints import FreeDirections

_MOST = 1e9
"""Repetitions beyond which an error is out of reach."""
_HALVINGS = 60


@dataclass(frozen=True, eq=False)
class ExpectedErrors(Tabular):
    """Standard errors of n parameters before and after a motion."""

    problem: str
    duration: float
    """Of the motion [s]."""
    names: tuple[str, ...]
    units: tuple[str, ...]
    values: Array
    """At which they are, (n,)."""
    before: Array
    """What is known beforehand: by priors, or by a solution; infinite where nothing is, (n,)."""
    after: Array
    """What a fit of the motion, with that, is expected to report; NaN where there is a reason, (n,)."""
    reasons: Mapping[str, str]
    """Why a parameter has no error, by its name."""
    covariance: Array
    """Of all after the motion, NaN likewise, (n, n)."""
    known: Array
    """Information beforehand, (n, n)."""
    data: Array
    """Information of the motion itself, (n, n)."""
    held: Mask
    """True for parameters that their bounds hold, (n,)."""
    normals: Array
    """Slopes of constraints between parameters that hold, (k, n)."""
    sizes: Array
    """Whose shares relative errors are: the values' or, where they are zero, their typical sizes, (n,)."""

    @property
    def relative(self) -> Array:
        """Errors after the motion over the sizes of the parameters, (n,)."""
        return self.after / self.sizes

    def repetitions(self, name: str, error: float) -> float:
        """How often the motion has to be made until the error of a parameter is below another; infinite if no number
        of repetitions comes there. Fractions stand for shares of one.

        Args:
            error: [the parameter's unit].

        Raises:
            ProblemError: for a name that is no free parameter.
        """
        place, free = self._place(name), FreeDirections(self.held, self.normals)

        def after(times: float) -> float:
            found = _errors(self.names, self.known + times * self.data, self.sizes, free)[0][place]
            return math.inf if math.isnan(found) else float(found)

        if not after(_MOST) <= error:
            return math.inf
        low, high = -9.0, math.log10(_MOST)
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            low, high = (low, middle) if after(10**middle) <= error else (middle, high)
        return float(10**high)

    def until(self, name: str, error: float, relative: bool = False) -> str:
        """A sentence that says how long the motion has to be made until the error of a parameter is below another.

        Args:
            relative: True if ``error`` is a share of the parameter.
        """
        place = self._place(name)
        wanted = error * self.sizes[place] if relative else error
        said = f"{100 * error:.3g} %" if relative else quantity(error, self.units[place])
        times = self.repetitions(name, wanted)
        if math.isinf(times):
            return f"The error of {name} does not come below {said}, however often this motion is made."
        if self.before[place] <= wanted:
            return f"The error of {name} is below {said} already."
        if times <= 1:
            return f"The error of {name} is below {said} after one run of {self.duration:g} s."
        count = math.ceil(times - 1e-9)
        return f"The error of {name} is below {said} after {count} runs, {number(count * self.duration)} s in all."

    def _place(self, name: str) -> int:
        if name not in self.names:
            raise ProblemError(
                f"{name!r} is no free parameter of {self.problem!r}; there are {', '.join(self.names) or 'none'}"
            )
        return self.names.index(name)

    def blocks(self) -> Sequence[Block]:
        """Title, a row for each parameter, and what is not seen."""
        rows = []
        for i, name in enumerate(self.names):
            share = f"{100 * self.relative[i]:.3g} %" if math.isfinite(self.relative[i]) else ""
            before = number(self.before[i], 3) if math.isfinite(self.before[i]) else "unknown"
            after = number(self.after[i], 3) if math.isfinite(self.after[i]) else self.reasons.get(name, "")
            rows.append((name, number(self.values[i]), before, after, share, superscripts(self.units[i])))
        heads = ("parameter", "value", "error before", "expected after", "relative", "unit")
        title = (
            f"Errors to expect of {counted(len(self.names), 'parameter')} of {self.problem} after {self.duration:g} s"
        )
        return [title, Table(heads, rows, left=(0, 5))]

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
    """What a fit of a planned motion, a recording without errors, is expected to report.

    Args:
        planned: the motion, with all signals of the problem (``planned_recording`` makes it of joint angles).
        noise: sizes by name: standard deviations of signals in their units, disturbances of joints [N m/√Hz or N/√Hz];
            or a solution, for those that it found. What it does not name is as the problem declares it, else as
            ``known`` has found it.
        known: a solution of the same mechanism: its estimates are where the errors are asked for, and what it knows
            counts as known beforehand, in the place of the priors.

    Raises:
        ProblemError: for a problem with a given state weight, for noise of unknown size, and as ``Problem``.
    """
    _check(problem, noise)
    # What sticks and what slides follows from data; the smooth law tells nearly the same of friction.
    problem = at_estimates(problem, known).with_(recordings=[planned], friction="smooth")
    names, statistics, free = _linearized(problem, noise, known)
    beforehand = knowledge(names, statistics.prior, known)
    data = statistics.information - statistics.prior
    values = np.array([problem.guess[p.name] for p in problem.free])
    magnitudes = np.array([magnitude(p, problem.guess[p.name]) for p in problem.free])
    after, reasons, covariance = _errors(names, beforehand + data, magnitudes, free)
    before = _errors(names, beforehand, magnitudes, free)[0]
    return ExpectedErrors(
        problem.name,
        float(planned.t[-1] - planned.t[0]),
        names,
        tuple(p.unit for p in problem.free),
        values,
        np.where(np.isnan(before), math.inf, before),
        after,
        reasons,
        covariance,
        beforehand,
        data,
        free.held,
        free.normals,
        magnitudes,
    )


def _check(problem: Problem, noise: Noises) -> None:
    """Refuse what errors cannot be foretold of."""
    if not problem.estimates_noise:
        raise ProblemError(
            f"{problem.place}: Problem {problem.name!r} has a state weight, which says nothing of the size of the "
            "noise; leave it out, and errors can be foretold"
        )
    refuse_contacts(problem, "errors that are foretold")
    if not (noise is None or isinstance(noise, (Solution, Mapping))):
        raise ProblemError(f"{problem.place}: noise is {shown(noise)}; give sizes by name, or a solution")


def _linearized(
    problem: Problem, noise: Noises, known: Solution | None
) -> tuple[tuple[str, ...], ResidualStatistics, FreeDirections]:
    """Names of parameters, and what the equations of a fit tell of them, linearized along the motion; what bounds or
    constraints between them leave free.

    Raises:
        ProblemError: for noise of unknown size, or a motion that leaves states undetermined.
    """
    assembly = assemble(problem)
    random = known_noise(problem, assembly.noise, noise, known)
    try:
        assembly, point = at_noise(assembly, at_gains(problem, random, problem.guess, back=True))
    except NotPositiveDefiniteError as error:
        raise ProblemError(
            f"{problem.place}: the motion does not determine the states: {error}; lengthen it, or add sensors"
        ) from None
    free = assembly.transcription.free_directions(point.parameters)
    free = replace(free, held=np.zeros_like(free.held))  # a guess at its bound is no estimate that data hold there
    found = a_posteriori(assembly, point, free)
    if found.statistics is None:
        raise ProblemError(f"{problem.place}: the motion does not determine the states; measure more of them")
    return tuple(assembly.transcription.names), found.statistics, free


def at_estimates(problem: Problem, known: Solution | None) -> Problem:
    """The problem with the estimates of a solution for guesses, as far as it has them."""
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
    """Information beforehand, (n, n): that of a solution, its priors within it; of parameters that it does not know,
    and without a solution, that of priors."""
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


def known_noise(
    problem: Problem, random: Sequence[NoiseSize], noise: Noises, known: Solution | None
) -> list[Noise]:
    """The noise of a problem as it is given, else as it is declared, else as a solution has found it; that of measured
    efforts as an effort at the problem's guesses.

    Raises:
        ProblemError: if one is missing, or a name is none.
    """
    said = _said(problem, noise)
    found = _said(problem, known)
    names = {name for size in random for name in size.names}
    if isinstance(noise, Mapping) and (stray := next((name for name in noise if name not in names), None)):
        raise ProblemError(
            f"{problem.place}: noise names {stray!r}, and what is random is {', '.join(sorted(names))}; correct it"
        )
    return [_noise(problem, size, name, said, found) for size in random for name in size.names]


def effort_densities(problem: Problem, planned: Recording, noise: Noises, known: Solution | None) -> Array:
    """Spectral densities of what is random in the effort along each joint's coordinate, then in force and torque on
    free bodies, (n_s + 6 n_f,) [N m/√Hz or N/√Hz]: the noise of its measurement, or the disturbance of its motion.

    Raises:
        ProblemError: if one is unknown.
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
    return np.array([math.hypot(*measured[name]) if name in measured else disturbed[name] for name in names])


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
        what = "disturbance of joint" if moving else "signal"
        raise ProblemError(
            f"{problem.place}: the noise of {what} {name!r} is not known; declare it, give its size with noise= (of a "
            f"command --noise {name}=SIZE), or a solution that has found it"
        )
    if not (value > 0 or (moving and value == 0)):
        raise ProblemError(f"{problem.place}: noise of {name!r} is {shown(value)}; give a number above 0")
    root = math.sqrt(problem.step)
    std = value / root if moving else value
    return Noise(size.kind, (name,), std, size.unit, value if moving else math.nan, math.nan, given=True)


def _errors(
    names: Sequence[str], information: Array, magnitudes: Array, free: FreeDirections
) -> tuple[Array, Mapping[str, str], Array]:
    """Standard errors, why some have none, and the covariance."""
    n = len(names)
    none, certain = np.zeros((0, n)), Variances(np.ones(1), np.zeros((1, 1)), 1.0)
    blocks = none, np.zeros((0, n, n)), none, np.zeros((0, n, n))
    statistics = ResidualStatistics(information, np.zeros((n, n)), information[None], certain, *blocks)
    found = analyse(names, statistics, magnitudes, free).sensitivities
    return found.standard_errors, found.reasons, found.covariance
