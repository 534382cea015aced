"""Mass, centre of mass and inertia of an arm's payload from one run, with standard errors.

The equations of motion are linear in the payload's π = (m, m c, I about the origin of its frame). It follows from a
regression along a recording, without a fit of states. The fitted arm, with the covariance of all its parameters, is the
prior: standard errors contain the uncertainty of the arm and that of the run.

The gains of motors, and with them all masses, are rarely known well. A payload of known mass determines that scale
(``known_mass``). The arm after such a run is the prior of the next one (``calibration``).
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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
from spookid.report.summary import warnings_of
from spookid.results import folders
from spookid.results.findings import Finding, ranked
from spookid.results.folders import versions
from spookid.results.result import Solution
from spookid.results.values import Derived
from spookid.results.wording import warned
from spookid.statistics.prior_regression import Regression, regress
from spookid.statistics.whiteness import SURE
from spookid.studies.motor_efforts import check_tree, sampled_every
from spookid.studies.payload_notices import (
    STRANGE,
    ArmKnowledge,
    excesses,
    expected,
    findings_of,
    remarked,
)
from spookid.studies.payload_rows import fine_step, payload_rows, placed, with_values
from spookid.studies.simulation_start import values_of
from spookid.tables.table import ESTIMATED, Block, Table, Tabular, counted, estimated, number, seconds, uncertain

_CENTER = ("c_x", "c_y", "c_z")
_SURE = 2.0
"""Standard errors by which a mass exceeds zero that has a centre."""
_NO_MASS = "the mass does not differ from zero"
_NEGATIVE_MASS = "the mass is negative"
_UNSEEN = "the motion does not determine it"


@dataclass(frozen=True, eq=False)
class Payload(Tabular):
    """Payload of an arm, in the frame of the body or link that carries it."""

    problem: str
    """Name of the problem whose results are the arm's."""
    body: str
    """The body or link."""
    recording: str
    """Name of the run."""
    quantities: Mapping[str, Derived]
    """``"mass"`` [kg], ``"c_x"`` ... of the centre of mass [m], ``"I_xx"`` ... about that centre [kg m²]. Their
    ``from_prior`` is the share of the variance that comes from the uncertainty of the arm; the rest is from the run."""
    pi: Array
    """m, m c, I_xx, I_yy, I_zz, I_xy, I_xz, I_yz about the frame's origin, (10,)."""
    covariance: Array
    """Covariance of ``pi``, (10, 10); NaN for entries that the motion does not determine, 0 for given ones."""
    known_mass: float | None
    """Given mass of the payload [kg], or None."""
    gains: tuple[tuple[Derived, Derived], ...]
    """Effort per unit of the signal of each motor with an estimated gain, before and after this run."""
    residuals: Mapping[str, tuple[float, float]]
    """Rms of the effort residuals of each coordinate, and the rms to expect from the noise of the fit, both below
    ``cutoff`` [N m or N]; NaN if the noise of the fit is unknown."""
    units: tuple[str, ...]
    """Units of the residuals."""
    cutoff: float
    """Cutoff of the low-pass filter [Hz]."""
    stretches: int
    """Number of blocks of the block jackknife, which gives the standard errors."""
    findings: tuple[Finding, ...]
    """Warnings and notes, the most important first."""
    arm: ArmKnowledge = field(repr=False)
    """Knowledge of the arm after this run: the ``calibration`` of the next one."""
    seconds: float
    """Duration of the computation [s]."""

    def __getitem__(self, name: str) -> Derived:
        """Return one of ``quantities``."""
        return self.quantities[name]

    @property
    def notices(self) -> tuple[str, ...]:
        """Texts of ``findings``."""
        return tuple(finding.text for finding in self.findings)

    @property
    def exists(self) -> bool:
        """True if the mass was given, or differs from zero by two standard errors."""
        mass = self.quantities["mass"]
        return mass.estimate > _SURE * mass.std_err

    @property
    def fits(self) -> bool:
        """False if the recording probably is from another arm: residuals of a coordinate exceed four times the noise of
        the fit. The first of ``findings`` is then ``payload.misfit``."""
        left, limits = np.array(list(self.residuals.values())).T
        return not np.nanmax(excesses(left, limits), initial=0.0) > STRANGE

    def blocks(self) -> Sequence[Block]:
        """Verdict, warnings, quantities with standard errors, residuals and facts of the payload."""
        return self.page()

    def page(self, verbose: bool = False) -> list[Block]:
        """Return the text that the command prints; ``verbose`` adds notes and a table of residuals."""
        found: list[Block] = [self.verdict, *warnings_of(self.findings, verbose), self._found()]
        if any(q.from_prior > 0 and q.std_err > 0 for q in self.quantities.values()):
            found.append("arm: share of the variance that comes from the uncertainty of the arm.")
        open_ = [name for name, q in self.quantities.items() if q.reason] if self.exists else []
        reasons = dict.fromkeys(self.quantities[name].reason for name in open_)
        left = [f"  {', '.join(n for n in open_ if self.quantities[n].reason == why)}: {why}" for why in reasons]
        found += ["\n".join(["not identifiable", *left])] if left else []
        if self.gains:
            pairs = [(o.name, *(uncertain(one.estimate, one.std_err) for one in (o, n)), o.unit) for o, n in self.gains]
            found.append(Table(("gain", "before", "after this run", "unit"), pairs, left=(0, 3)))
        title = f"effort residuals (inverse dynamics) in recording {self.recording}, low-passed at {self.cutoff:g} Hz"
        rows = [
            (
                name,
                f"{number(rms, 3)} {unit}",
                f"{number(rms / noise, 2)} times the noise of the fit" if noise > 0 else "",
            )
            for (name, (rms, noise)), unit in zip(self.residuals.items(), self.units, strict=True)
        ]
        words = "; ".join(f"{name} {rms}{times and f' ({times})'}" for name, rms, times in rows)
        table = Table(("coordinate", "rms", ""), rows, left=(0, 2))
        found += [title, table] if verbose else [f"{title}, rms: {words}"]
        parts = counted(self.stretches, "block")
        return [*found, f"body frame: {self.body}; standard errors from {parts} of the run; {seconds(self.seconds)}"]

    @property
    def verdict(self) -> str:
        """The result in one sentence."""
        mass, given = self.quantities["mass"], self.known_mass
        size = f"mass {uncertain(mass.estimate, mass.std_err)} kg"
        if not self.fits:
            what = "NO answer, the run does not fit this arm"
        elif given is not None:
            what = f"calibrated with {f'{number(given)} kg' if given else 'no payload'} on {self.body}"
        elif mass.reason:
            what = f"the run does not determine the payload on body {self.body}"
        else:
            what = f"payload on {self.body}, {size}"
            what = what if self.exists else f"no significant payload on {self.body}, {size}"
        return f"{self.problem}: {what}{warned(self.findings)}"

    def _found(self) -> Table:
        rows = [
            (*estimated(name, q.estimate, q.std_err, q.unit), f"{100 * q.from_prior:.0f} %" if q.std_err > 0 else "")
            for name, q in self.quantities.items()
            if not q.reason
        ]
        return Table(("quantity", *ESTIMATED, "arm"), rows, left=(0, 5))

    def records(self) -> Sequence[dict[str, Any]]:
        """A row for each quantity."""
        return [
            {"quantity": name, "estimate": q.estimate, "std_err": q.std_err, "unit": q.unit, "reason": q.reason}
            for name, q in self.quantities.items()
        ]

    def save(self, path: str | PathLike[str]) -> None:
        """Write the payload as JSON for ``ArmKnowledge.load``; raises ProblemError if it cannot."""
        tree = {
            "schema": 1,
            "kind": "payload",
            "problem": self.problem,
            "body": self.body,
            "recording": self.recording,
            "known_mass": self.known_mass,
            "quantities": self.records(),
            "pi": {"names": PI, "units": UNITS, "estimates": self.pi, "covariance": self.covariance},
            "gains": [
                {"name": old.name, "unit": old.unit, "before": [old.estimate, old.std_err]}
                | {"after": [new.estimate, new.std_err]}
                for old, new in self.gains
            ],
            "residuals": [
                {"name": name, "unit": unit, "rms": rms, "expected": noise}
                for (name, (rms, noise)), unit in zip(self.residuals.items(), self.units, strict=True)
            ],
            "cutoff": self.cutoff,
            "stretches": self.stretches,
            "notices": self.notices,
            "arm": self.arm.tree(),
            "versions": versions(),
        }
        folders.write(Path(path), tree)


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
    """Estimate a payload that was attached to a body after the fit, from one recording, without a new fit.

    Args:
        problem: the problem of the arm.
        solution: the fit of the arm, which is the prior.
        recording: the run with the payload, with all signals of the problem's sensors and motors.
        body: the body that carries it, or a link of the robot's file on one; results are in its frame.
        known_mass: mass of the payload [kg], if it is known. The run then determines the common scale of gains and
            masses. 0: there is no payload.
        calibration: a Payload of an earlier run with a known mass, or ``ArmKnowledge.load`` of its file.
        values: values in this run of parameters with ``per="recording"``, by name; they are taken as certain.
        cutoff: cutoff of the low-pass filter [Hz]; default: the problem's own.

    Raises:
        ProblemError: for an unknown body, a mechanism with loops, a missing signal, results without standard errors or
            of another problem, or a negative mass.
    """
    began = time.perf_counter()
    check_tree(problem)
    arm = calibration.arm if isinstance(calibration, Payload) else calibration or ArmKnowledge.of(solution)
    arm.check(solution)
    used = with_values(problem, recording)
    fixed = _at(problem, solution, used, dict(values or {}), cutoff)
    frame, given = _frame(problem, body), _given(known_mass)
    found = payload_rows(fixed, arm.names, frame.body, placed(frame, fixed.guess))
    limits = expected(problem, solution, found)
    fit = regress(found.rows, arm.belief, given, limits)
    quantities = _quantities(body, fit, known_mass)
    findings = list(findings_of(problem, solution, found, limits, fit, quantities, known_mass))
    findings += _cut(used, recording)
    return Payload(
        problem.name,
        body,
        fixed.recordings[0].name,
        quantities,
        fit.estimates,
        fit.covariance,
        known_mass,
        _gains(problem, fixed, arm, fit),
        dict(zip(found.names, zip(fit.sizes.tolist(), limits.tolist(), strict=True), strict=True)),
        found.units,
        found.cutoff,
        fit.blocks,
        ranked(findings),
        ArmKnowledge(arm.names, arm.estimates, fit.found),
        seconds=time.perf_counter() - began,
    )


def _given(mass: float | None) -> Array:
    """Inertial parameters of a payload with a known mass, NaN where they are unknown."""
    given = np.full(len(PI), np.nan)
    if mass is None:
        return given
    if not (math.isfinite(mass) and mass >= 0):
        raise ProblemError(f"the known mass is {shown(mass)} kg; give a number from 0 on")
    given[: 1 if mass else None] = mass  # of no payload all is zero
    return given


def _cut(used: Recording, recording: Recording) -> list[Finding]:
    """What is left out at the ends of a recording."""
    before, after = used.t[0] - recording.t[0], recording.t[-1] - used.t[-1]
    ends = [f"{number(d, 2)} s at the {where}" for d, where in ((before, "beginning"), (after, "end")) if d > 0]
    if not ends:
        return []
    return [remarked(f"Times of the run at which a signal has no value are not used: {' and '.join(ends)}.")]


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
            f"{solution.problem!r} do not have; give the problem that was solved, or solve it again"
        )
    unsaid = min(own - set(values), default=None)
    if unsaid is not None:
        raise ProblemError(
            f"{problem.place}: {unsaid!r} is another in each recording; say what it is along {recording.name!r}, with "
            f"values={{{unsaid!r}: ...}} or --set {unsaid}=..."
        )
    found = values_of(problem, solution)
    cutoff = problem.cutoff if cutoff is None else cutoff
    rate = 1 / sampled_every(recording, problem.channels)
    if cutoff > rate / 2:
        raise ProblemError(
            f"the cutoff is {number(cutoff)} Hz, and recording {recording.name!r} has {number(rate, 3)} samples per "
            "second: give a cutoff below half of this rate, with cutoff= or --cutoff"
        )
    return problem.with_(
        recordings=[recording],
        initial={name: found[name] for name in solution.parameters if name in shared} | values,
        fixed=[p.name for p in problem.parameter_set.declared],
        cutoff=cutoff,
        step=fine_step(problem, recording, cutoff),
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
    centreless = _NEGATIVE_MASS if mass < -SURE * error else _NO_MASS
    units = ("kg", *["m"] * len(_CENTER), *["kg m^2"] * len(ENTRIES))
    found, none = {}, not mass > _SURE * error and known_mass is None
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
        found[name] = Derived(name, math.nan if reason else estimate, std_err, reason, units[i], body, share)
    return found


def _gains(problem: Problem, fixed: Problem, arm: ArmKnowledge, fit: Regression) -> tuple[tuple[Derived, Derived], ...]:
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
