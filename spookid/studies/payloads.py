"""What an arm carries, from a run with it: mass, centre of mass and inertia of a payload, and their errors.

The equations of motion are linear in the payload's π = (m, m c, I about the origin of its frame), so that it follows
from a regression along a recording, without a fit of states. The arm is what a fit has found of it, with the covariance
of all its parameters together as what is known beforehand: errors hold what the fit left open, and what the run does.

What a motor's unit does, and with it all masses, is rarely known well. A payload of known mass tells that scale
(``known_mass``): what was found of the arm by such a run is what is known of it before the next one (``calibration``).
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Any

import casadi as ca
import numpy as np

from spookid.argument_checks import checked
from spookid.assembly.problem import Problem
from spookid.data.recording import Recording
from spookid.errors import ProblemError, shown
from spookid.kernels.arrays import Array
from spookid.mechanics.body import GROUND, Frame
from spookid.mechanics.inertia import ENTRIES, PI, inertia_matrix, six, steiner
from spookid.mechanics.regressor import UNITS
from spookid.parameter import number as number_of
from spookid.parameter import parameters_in, substitute
from spookid.results import folders
from spookid.results.folders import versions
from spookid.results.result import Solution
from spookid.results.values import Derived
from spookid.statistics.prior_regression import Regression, regress
from spookid.studies.motor_efforts import check_tree, sampled_every
from spookid.studies.payload_notices import NEGATIVE, STRANGE, ArmKnowledge, excesses, expected, notices_of
from spookid.studies.payload_rows import fine_step, payload_rows, placed, with_values
from spookid.studies.simulation_start import values_of
from spookid.tables.table import Block, Table, Tabular, counted, number, superscripts, uncertain

_SCHEMA = 1
"""Version of the layout of its file."""
_CENTER = ("c_x", "c_y", "c_z")
_TOLD = 2.0
"""Standard errors from which on a mass is one, and has a centre."""
_NO_MASS = "the mass is not told from zero"
_NEGATIVE_MASS = "the mass is negative"
_UNTOLD = "?"
_UNSEEN = "the motion does not determine it"


@dataclass(frozen=True, eq=False)
class Payload(Tabular):
    """What was found of a payload, in the frame of the body or link that carries it."""

    problem: str
    """Name of the problem whose results are the arm's."""
    body: str
    """The body or link."""
    recording: str
    """Name of the run."""
    quantities: Mapping[str, Derived]
    """``"mass"`` [kg], ``"c_x"`` ... of the centre of mass [m], ``"I_xx"`` ... about that centre [kg m²]; their
    ``from_prior`` is the share of the variance that is the arm's uncertainty, the rest is the run's."""
    pi: Array
    """m, m c, I_xx, I_yy, I_zz, I_xy, I_xz, I_yz about the frame's origin, (10,)."""
    covariance: Array
    """Of these, (10, 10); NaN of those that the motion does not determine, 0 of those that were given."""
    known_mass: float | None
    """[kg], as it was given."""
    gains: tuple[tuple[Derived, Derived], ...]
    """Of motors with a gain that was estimated, what a unit of the signal does before and after this run."""
    residuals: Mapping[str, tuple[float, float]]
    """Of each coordinate the root mean square of what is left of the balance of its efforts, and what the noise of the
    fit lets expect of it, below ``cutoff`` [N m or N]; NaN if the fit does not say."""
    units: tuple[str, ...]
    """Of these."""
    cutoff: float
    """[Hz]."""
    stretches: int
    """Of the run, from which the errors are."""
    notices: tuple[str, ...]
    arm: ArmKnowledge = field(repr=False)
    """What is known of the arm after this run: the ``calibration`` of the next one."""
    seconds: float
    """That it took."""

    def __getitem__(self, name: str) -> Derived:
        """One of ``quantities``."""
        return self.quantities[name]

    @property
    def exists(self) -> bool:
        """True if the mass is told from zero, by two standard errors, or was given."""
        mass = self.quantities["mass"]
        return mass.estimate > _TOLD * mass.std_err

    @property
    def fits(self) -> bool:
        """False if the run hardly is one of this arm: four times what the noise of the fit lets expect is left of the
        balance of some coordinate. Then the first of ``notices`` says so."""
        left, told = np.array(list(self.residuals.values())).T
        return not np.nanmax(excesses(left, told), initial=0.0) > STRANGE

    def blocks(self) -> Sequence[Block]:
        """What was found, where its errors are from, and what to know of it."""
        found = [self._found()]
        if self.gains:
            heads = ("gain", "before", "after this run", "")
            rows = [
                (g.name, *(uncertain(one.estimate, one.std_err) for one in (g, after)), superscripts(g.unit))
                for g, after in self.gains
            ]
            found.append(Table(heads, rows, left=(0, 3)))
        heads = ("balance of", "rms of what is left", "noise of the fit", "")
        rows = [
            (name, number(left, 3), number(told, 3) if math.isfinite(told) else "", unit)
            for (name, (left, told)), unit in zip(self.residuals.items(), self.units, strict=True)
        ]
        first = 0 if self.fits else 1
        return [self._title, *self.notices[:first], *found, Table(heads, rows, left=(0, 3)), *self.notices[first:]]

    @property
    def _title(self) -> str:
        given = "" if self.known_mass is None else f", of which {number(self.known_mass)} kg are known"
        what = f"Payload on {self.body} of {self.problem} along {self.recording}{given}"
        return f"{what}; frame of {self.body}, errors from {counted(self.stretches, 'part')} of the run"

    def _found(self) -> Table:
        rows = []
        for name, q in self.quantities.items():
            told = _UNTOLD if q.reason else uncertain(q.estimate, q.std_err)
            share = f"{100 * q.from_prior:.0f} %" if math.isfinite(q.from_prior) and q.std_err > 0 else ""
            rows.append((name, told, superscripts(q.unit), share, q.reason))
        return Table(("", "estimate", "", "of the variance: the arm's", ""), rows, left=(0, 2, 4))

    def records(self) -> Sequence[dict[str, Any]]:
        """A row for each quantity."""
        return [
            {"quantity": name, "estimate": q.estimate, "std_err": q.std_err, "unit": q.unit, "reason": q.reason}
            for name, q in self.quantities.items()
        ]

    def save(self, path: str | PathLike[str]) -> None:
        """Write it as JSON, with all covariances; ``ArmKnowledge.load`` reads what the next run takes of it.

        Raises:
            ProblemError: if the file cannot be written.
        """
        tree = {
            "schema": _SCHEMA,
            "kind": "payload",
            "problem": self.problem,
            "body": self.body,
            "recording": self.recording,
            "known_mass": self.known_mass,
            "quantities": self.records(),
            "pi": {"names": PI, "units": UNITS, "estimates": self.pi, "covariance": self.covariance},
            "gains": [
                {"name": old.name, "unit": old.unit, "before": _pair(old), "after": _pair(new)}
                for old, new in self.gains
            ],
            "residuals": [
                {"name": name, "unit": unit, "rms": rms, "expected": told}
                for (name, (rms, told)), unit in zip(self.residuals.items(), self.units, strict=True)
            ],
            "cutoff": self.cutoff,
            "stretches": self.stretches,
            "notices": self.notices,
            "arm": self.arm.tree(),
            "versions": versions(),
        }
        folders.write(Path(path), tree)


def _pair(value: Derived) -> list[float]:
    return [value.estimate, value.std_err]


@checked
def payload(
    problem: Problem,
    solution: Solution,
    recording: Recording,
    body: str,
    *,
    known_mass: float | None = None,
    calibration: ArmKnowledge | Payload | None = None,
    values: Mapping[str, float] | None = None,
    cutoff: float | None = None,
) -> Payload:
    """What hangs on a body along a recording, beyond what the body was when it was fitted.

    Args:
        problem: whose results these are.
        solution: what is known of the arm.
        recording: the run with the payload, with all signals of the problem's sensors and motors.
        body: or a link of the robot's file that is part of one; in its frame all is told.
        known_mass: of the payload [kg]: then the run tells how gains and masses are to be scaled together. 0: there is
            no payload.
        calibration: what such a run before it has found, or the file of it by ``ArmKnowledge.load``.
        values: of parameters with ``per="recording"`` in this run, by name; they are taken as certain.
        cutoff: of the low-pass filter [Hz]; None: the problem's own.

    Raises:
        ProblemError: for an unknown body, a mechanism with loops, a recording that lacks a signal, results without
            errors or of another problem, a mass below 0.
    """
    began = time.perf_counter()
    check_tree(problem)
    arm = calibration.arm if isinstance(calibration, Payload) else calibration or ArmKnowledge.of(solution)
    arm.check(solution)
    used = with_values(problem, recording)
    fixed = _at(problem, solution, used, dict(values or {}), cutoff)
    found = _regressed(problem, solution, fixed, arm, body, known_mass)
    notices = (*found.notices, *_ends(recording, used))
    return replace(found, notices=notices, seconds=time.perf_counter() - began)


def _regressed(
    problem: Problem, solution: Solution, fixed: Problem, arm: ArmKnowledge, body: str, known_mass: float | None
) -> Payload:
    """What the balance of efforts tells.

    Args:
        fixed: the problem along the run, at what is known of the arm.
        arm: how well that is.
    """
    frame, given = _frame(problem, body), _given(known_mass)
    found = payload_rows(fixed, arm.names, frame.body, placed(frame, fixed.guess))
    told = expected(problem, solution, found)
    fit = regress(found.rows, arm.belief, given, told)
    quantities = _quantities(body, fit, known_mass)
    return Payload(
        problem.name,
        body,
        fixed.recordings[0].name,
        quantities,
        fit.estimates,
        fit.covariance,
        known_mass,
        _gains(problem, fixed, arm, fit),
        dict(zip(found.names, zip(fit.sizes.tolist(), told.tolist(), strict=True), strict=True)),
        found.units,
        found.cutoff,
        fit.blocks,
        tuple(notices_of(problem, solution, found, told, fit, quantities, known_mass)),
        ArmKnowledge(arm.names, arm.estimates, fit.found),
        seconds=math.nan,
    )


def _given(known_mass: float | None) -> Array:
    """π that is known: nothing, the mass, or all of none."""
    if known_mass is not None and not (math.isfinite(known_mass) and known_mass >= 0):
        raise ProblemError(f"the known mass is {shown(known_mass)} kg; give a number from 0 on")
    given = np.full(len(PI), np.nan)
    if known_mass == 0:
        given[:] = 0.0
    elif known_mass is not None:
        given[0] = known_mass
    return given


def _frame(problem: Problem, name: str) -> Frame:
    """Of a body, or one that has a name of its own."""
    model = problem.model
    known = {body.name: body for body in model.bodies}
    if name in known:
        return known[name].frame()
    frames = {key: frame for key, frame in model.frames.items() if frame.body is not GROUND}
    if name not in frames:
        others = f", and as part of these {', '.join(frames)}" if frames else ""
        raise ProblemError(f"{problem.what} has no body {name!r}; it has {', '.join(known)}{others}")
    return frames[name]


def _ends(whole: Recording, used: Recording) -> Iterator[str]:
    """What is left out at the ends of a recording."""
    before, after = used.t[0] - whole.t[0], whole.t[-1] - used.t[-1]
    ends = [f"{number(d, 2)} s at its {where}" for d, where in ((before, "beginning"), (after, "end")) if d > 0]
    if ends:
        yield f"Where not all signals have values, the run is left out: {' and '.join(ends)}."


def _at(
    problem: Problem, solution: Solution, recording: Recording, values: dict[str, float], cutoff: float | None
) -> Problem:
    """The problem with all parameters fixed at what was found."""
    own = {p.name for p in problem.parameter_set.declared if p.per is not None}
    stray = min(set(values) - own, default=None)
    if stray is not None:
        known = f"; those are {', '.join(sorted(own))}" if own else ""
        raise ProblemError(
            f"{problem.place}: {stray!r} is no parameter that each recording has its own of{known}"
            '; declare it with per="recording"'
        )
    shared = [p.name for p in problem.parameter_set.declared if p.per is None]
    missing = [name for name in shared if name not in solution.parameters]
    if missing:
        raise ProblemError(
            f"{problem.what} has a parameter {missing[0]!r}, which the results of "
            f"{solution.problem!r} lack; give the problem that was solved, or solve it again"
        )
    unsaid = min(own - set(values), default=None)
    if unsaid is not None:
        raise ProblemError(
            f"{problem.place}: {unsaid!r} is another in each recording; say what it is along {recording.name!r}, with "
            f"values={{{unsaid!r}: ...}} or --set {unsaid}=..."
        )
    found = values_of(problem, solution)
    cutoff = problem.cutoff if cutoff is None else cutoff
    _check_cutoff(problem, recording, cutoff)
    return problem.with_(
        recordings=[recording],
        initial={name: found[name] for name in solution.parameters if name in shared} | values,
        fixed=[p.name for p in problem.parameter_set.declared],
        cutoff=cutoff,
        step=fine_step(problem, recording, cutoff),
    )


def _check_cutoff(problem: Problem, recording: Recording, cutoff: float) -> None:
    """Refuse a filter that would filter nothing."""
    rate = 1 / sampled_every(recording, problem.channels)
    if cutoff > rate / 2:
        raise ProblemError(
            f"the cutoff is {number(cutoff)} Hz, and recording {recording.name!r} has {number(rate, 3)} samples a "
            "second: give one below half of that, with cutoff= or --cutoff"
        )


# --- what follows ---


def _quantities(body: str, fit: Regression, known_mass: float | None) -> dict[str, Derived]:
    """Mass, centre and inertia about it, by the delta method."""
    pi = ca.SX.sym("pi", len(PI))
    center = pi[1:4] / pi[0]
    about = six(inertia_matrix(pi[4:], "inertia") - steiner(pi[0], center))
    whole = ca.vertcat(pi[0], center, about)
    function = ca.Function("quantities", [pi], [ca.densify(whole), ca.densify(ca.jacobian(whole, pi))])
    mass, error = fit.estimates[0], math.sqrt(fit.covariance[0, 0])
    estimates, slopes = (np.asarray(part.full()) for part in function(fit.estimates if mass else np.ones(len(PI))))
    centreless = _NEGATIVE_MASS if mass < -NEGATIVE * error else _NO_MASS
    found, none = {}, not mass > _TOLD * error and known_mass is None
    for i, name in enumerate(("mass", *_CENTER, *ENTRIES)):
        used = np.flatnonzero(slopes[i])
        part = np.ix_(used, used)
        variance, own = (float(slopes[i, used] @ c[part] @ slopes[i, used]) for c in (fit.covariance, fit.of_belief))
        reason = "" if math.isfinite(variance) else _UNSEEN
        if known_mass == 0:
            estimate, variance, own = (0.0 if i == 0 else math.nan), 0.0 if i == 0 else math.nan, 0.0
            reason = "" if i == 0 else "there is no payload"
        else:
            estimate = float(estimates[i, 0])
            reason = reason or (centreless if i and none else "")
        share = min(own / variance, 1.0) if variance > 0 else math.nan
        std_err = math.nan if reason else math.sqrt(variance)
        found[name] = Derived(name, math.nan if reason else estimate, std_err, reason, _unit(i), body, share)
    return found


def _unit(i: int) -> str:
    return "kg" if i == 0 else "m" if i < 4 else "kg m^2"


def _gains(
    problem: Problem, fixed: Problem, arm: ArmKnowledge, fit: Regression
) -> tuple[tuple[Derived, Derived], ...]:
    """Of each motor whose gain was estimated, before and after."""
    names, found = list(arm.names), []
    for motor in problem.model.motors:
        every = parameters_in([motor.unit_effort], motor.place)
        own = [p for p in every if p.name in names]
        if not own:
            continue
        slope = ca.jacobian(motor.unit_effort, ca.vertcat(*own)) / motor.unit_effort
        value = number_of(motor.unit_effort, fixed.guess)
        slopes, place = np.ravel(substitute(slope, fixed.guess)), [names.index(p.name) for p in own]
        unit, pair = f"{motor.joint.coordinates[motor.coordinate].effort} per unit of {motor.signal}", []
        for belief in (arm.belief, fit.found):
            estimate = value * math.exp(slopes @ belief.mean[place])
            spread = abs(estimate) * float(np.linalg.norm(slopes @ belief.root[place]))
            pair.append(Derived(motor.label, estimate, spread, "", unit, motor.label))
        found.append((pair[0], pair[1]))
    return tuple(found)
