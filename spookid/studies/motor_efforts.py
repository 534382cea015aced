"""Inverse dynamics: what motors have to do along a motion, and what they did.

Positions of a recording are low-passed, forward and back, and differentiated; the equations of motion at each instant
leave one effort a joint that a motor drives. Nothing is fitted: with parameters from elsewhere it is a prediction, of
the torques and currents of a trajectory that no estimate has seen. Signals of the motors, predicted and measured, pass
the same filter as the positions (Gautier, "Dynamic identification of robots with power model", ICRA 1997).

When which contact of a solution touches, and with which impulse; the impacts that it has found.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, TypeAlias

import casadi as ca
import numpy as np

from spookid.argument_checks import checked, is_whole
from spookid.assembly.assembly import assemble, gather, settings_of
from spookid.assembly.constants import chosen_numbers, numbers, widths_along
from spookid.assembly.impact_estimates import Strike, strikes_of
from spookid.assembly.problem import Problem
from spookid.data.channels import Channel
from spookid.data.recording import Recording
from spookid.data.sampling import finite_samples, low_passed, spoiled_steps
from spookid.errors import ProblemError, shown
from spookid.estimation.fitting import warm
from spookid.kernels.arrays import Array
from spookid.mechanics.contacts import HeldContact
from spookid.mechanics.joint_coordinates import JointCoordinates
from spookid.parameter import number, own_name
from spookid.results.result import Solution
from spookid.results.trajectory import rms
from spookid.stepping.impulses import Settings
from spookid.stepping.joint_space import JointSpace, instant
from spookid.studies.simulation_start import Parameters, values_of
from spookid.tables.table import Block, Table, Tabular, counted
from spookid.tables.table import number as digits

Moving: TypeAlias = tuple[Any, Any, Any]
"""Positions, velocities and accelerations of all joints, (N, n) each, in the order of the model's joints."""


@dataclass(frozen=True, eq=False)
class MotorEfforts(Tabular):
    """Efforts and signals of m motors at N instants of a motion."""

    motors: tuple[str, ...]
    """The coordinate that each drives."""
    signals: tuple[str, ...]
    units: tuple[str, ...]
    """Units of the efforts: N m or N."""
    t: Array
    """[s], (N,); NaN where no recording was asked about."""
    efforts: Array
    """Predicted efforts, gain times signal (n K u) along the coordinate of each motor: those of the motion including
    friction, springs, motor inertia and back-EMF, less the offset, (N, m) [N m or N]."""
    predicted: Array
    """Predicted signals, (N, m)."""
    measured: Array
    """Measured signals, (N, m); NaN where there are none."""
    measured_efforts: Array
    """Measured efforts, gain times measured signal, (N, m) [N m or N]."""
    cutoff: float
    """Cutoff of the low-pass filter of all of these [Hz]; NaN for a given motion, which is not filtered."""
    recording: str = ""
    """Name of the recording; empty for a given motion."""

    @property
    def errors(self) -> Array:
        """Root mean square difference of measured and predicted efforts, (m,) [N m or N]; NaN without a measurement."""
        return np.array([rms(e) for e in (self.measured_efforts - self.efforts).T])

    def blocks(self) -> Sequence[Block]:
        """Title, and a table with the measured effort and the prediction error of each motor."""
        rows = []
        for i, (error, unit) in enumerate(zip(self.errors.tolist(), self.units, strict=True)):
            known = math.isfinite(error)
            spread = float(np.nanstd(self.measured_efforts[:, i])) if known else 0.0
            share = f"{100 * error / spread:.3g} %" if spread > 0 else ""
            measured, off = (f"{digits(size, 3)} {unit}" if known else "" for size in (spread, error))
            rows.append((self.motors[i], f"{digits(rms(self.efforts[:, i]), 3)} {unit}", measured, off, share))
        heads = ("motor", "predicted, rms", "measured, std", "rms error", "of the std")
        what = f"efforts along {self.recording}" if self.recording else "efforts along a motion"
        if math.isfinite(self.cutoff):
            what += f": measured (gain times signal) less inverse dynamics, both low-passed at {self.cutoff:g} Hz"
        return [f"predicted {what}, {counted(len(self.t), 'instant')}", Table(heads, rows, left=(0,))]

    def records(self) -> Sequence[dict[str, Any]]:
        """A row for each instant and motor."""
        return [
            {"t": float(t), "motor": motor, "signal": self.signals[i], "effort": float(self.efforts[k, i])}
            | {"predicted": float(self.predicted[k, i]), "measured": float(self.measured[k, i])}
            for k, t in enumerate(self.t)
            for i, motor in enumerate(self.motors)
        ]


@checked
def inverse_dynamics(
    problem: Problem,
    parameters: Parameters = None,
    recording: int | Recording = 0,
    *,
    motion: Moving | None = None,
    cutoff: float | None = None,
) -> MotorEfforts:
    """Compute motor efforts along a recording or a given motion, and compare them with measured efforts.

    Dry friction is smooth, with the problem's ``friction_width`` or 1 % of the motion's rms rate, as in a fit.

    Args:
        parameters: a Solution for its estimates, or values by name; None: the problem's initial values. For a
            motion, or a recording that is not of the problem, give values of Parameters with ``per="recording"``, as
            ``{**solution.values, "offset": 0.1}``.
        recording: one of the problem's, by its number, or another one with the signals of the problem's sensors.
        motion: positions, rates and accelerations of all joints, (N, n) each, in the order of the model's joints; of
            hinges and sliders alone. Then nothing is filtered, and nothing measured.
        cutoff: cutoff of the low-pass filter [Hz]; default: the problem's own.

    Raises:
        ProblemError: if the mechanism closes loops or has constraints, if no motor or more than one drives a
            coordinate that is asked about, for unknown names, for arrays of another shape, or for parameters that are
            known of other recordings alone.
    """
    said = set(parameters.values if isinstance(parameters, Solution) else dict(parameters or {}))
    values = problem.parameter_set.updated(problem.initial, values_of(problem, parameters))
    problem = problem.with_(initial=values, fixed=[p.name for p in problem.parameter_set.declared])
    check_tree(problem)
    if not problem.model.motors:
        raise ProblemError(f"{problem.what} has no motors; declare those that drive it")
    if motion is not None:
        _refuse_others(problem, {*said, *problem.initial}, "the motion given")
        return _told(problem.with_(recordings=[]), _given(problem, motion))
    if not isinstance(recording, Recording):
        if not (isinstance(recording, Integral) and 0 <= recording < len(problem.recordings)):
            what = f"{problem.what} has no recording number {shown(recording)}"
            raise ProblemError(f"{what}; it has {len(problem.recordings)}, counted from 0 on")
        recording = problem.recordings[recording]
    own = recording.name in problem.parameter_set.recordings
    told, name = (said, recording.name) if own else ({*said, *problem.initial}, None)
    _refuse_others(problem, told, f"recording {recording.name!r}", name)
    cutoff, step = problem.cutoff if cutoff is None else cutoff, sampled_every(recording, problem.channels)
    problem = problem.with_(recordings=[recording], step=step, cutoff=cutoff)
    return _compared(problem, recorded(problem, settings_of(problem)))


@dataclass(frozen=True, eq=False)
class Measured:
    """A motion at N instants."""

    t: Array
    moving: Array
    """Positions, velocities and accelerations in joint coordinates, (N, ambient + 2 n)."""
    rates: Array
    """Of all joints, (N, n_s)."""
    inputs: Array
    """Their means over the intervals before and behind, (N, n_u)."""


def check_tree(problem: Problem) -> None:
    """Refuse forces that cannot be distinguished from motor efforts, and motors on the same coordinate."""
    model, what = problem.model, problem.what
    if model.has_loops or model.ties or model.is_unilateral:
        raise ProblemError(
            f"{what} closes loops, or has constraints, limits or contacts, whose forces no motion distinguishes from "
            "those of motors; inverse dynamics need a tree of joints"
        )
    labels = [motor.label for motor in model.motors]
    for motor in model.motors:
        if labels.count(motor.label) > 1:
            raise ProblemError(
                f"{motor.place}: two Motors drive {motor.label!r}, of which inverse dynamics determine the sum only; "
                "declare one"
            )


def _refuse_others(problem: Problem, said: Collection[str], what: str, name: str | None = None) -> None:
    """Refuse values of other recordings alone, of parameters of which each recording has its own.

    Args:
        said: names of the parameters that have a value.
        what: is asked about.
        name: of the recording of the problem that this is; None if it is none.
    """
    for p in (p for p in problem.parameter_set.declared if p.per is not None):
        stray = min((one for one in said if one.startswith(f"{p.name}[")), default=None)
        if stray and p.name not in said and not (name and own_name(p.name, name) in said):
            raise ProblemError(
                f"{problem.place}: {stray!r} does not apply to {what}; give values by name, with one for {p.name!r}"
            )


def _given(problem: Problem, motion: Moving) -> Measured:
    """The motion in the order of the tree's joints."""
    model, n = problem.model, len(problem.model.freedoms)
    if any(len(joint.coordinates) != 1 for joint in model.joints) or any(body.free for body in model.bodies):
        raise ProblemError(
            f"{problem.what} has joints of several coordinates or of none, or free bodies; "
            "give a recording instead of motion"
        )
    try:
        arrays = [np.atleast_2d(np.asarray(part, dtype=np.float64)) for part in motion]
    except (TypeError, ValueError, RuntimeError):
        arrays = []
    if len(arrays) != 3:
        raise ProblemError(
            f"{problem.place}: motion of problem {problem.name!r} is {shown(motion)}; give positions, rates and "
            f"accelerations, three arrays of numbers (N, {n})"
        )
    for name, part in zip(("positions", "rates", "accelerations"), arrays, strict=True):
        if part.shape != (len(arrays[0]), n) or not np.all(np.isfinite(part)):
            raise ProblemError(
                f"{problem.place}: {name} of motion have the shape {part.shape}; give finite numbers of the shape "
                f"({len(arrays[0])}, {n})"
            )
    order = [model.freedoms_of(joint).start for joint in JointCoordinates(model).tree]
    none = np.zeros((len(arrays[0]), len(model.inputs)))
    return Measured(np.full(len(none), np.nan), np.hstack([part[:, order] for part in arrays]), arrays[1], none)


def sampled_every(recording: Recording, channels: Sequence[Channel]) -> float:
    """Sampling interval of the fastest of several sensors [s]."""
    return min(float(np.median(np.diff(finite_samples(recording, c.signal)[0]))) for c in channels)


def recorded(problem: Problem, settings: Settings) -> Measured:
    """Filtered motion of the problem's recording, without the ends that the filter distorts.

    Args:
        settings: of the problem; equations of others with the same ones need not be made again.
    """
    model, sampled = problem.model, gather(problem, problem.recordings[0])
    steps, scheme, equations = sampled.grid, JointSpace(), instant(model, settings)
    none = np.zeros((steps.count, 0))
    x = scheme.start(model, sampled.guess.states, sampled.guess.displacements, none, steps.step)
    differences = ca.Function("differences", [*equations.neighbours, settings.step], [ca.densify(equations.moving)])
    moving = np.asarray(differences(x[:-2].T, x[1:-1].T, x[2:].T, steps.step).full()).T
    rates = np.gradient(sampled.guess.displacements, steps.step, axis=0)
    around = (sampled.acting.mean[:-1] + sampled.acting.mean[1:]) / 2
    return Measured(steps.times()[1:-1], moving, rates[1:-1], around)


def _told(problem: Problem, motion: Measured) -> MotorEfforts:
    """What the motors have to do."""
    motors = problem.model.motors
    inputs = motion.inputs.copy()
    inputs[:, [problem.model.signals.index(motor.signal) for motor in motors]] = 0.0
    function, values = _equations(problem, motion)
    efforts, units = (np.asarray(part.full()).T for part in function(motion.moving.T, inputs.T, values))
    none = np.full(efforts.shape, np.nan)
    signals, labels = (tuple(getattr(motor, name) for motor in motors) for name in ("signal", "label"))
    kinds = tuple(motor.joint.coordinates[motor.coordinate].effort for motor in motors)
    return MotorEfforts(labels, signals, kinds, motion.t, efforts, efforts / units, none, none, math.nan)


def constants(problem: Problem, settings: Settings, rates: Array) -> tuple[list[ca.SX], list[float], Array]:
    """Values of all symbols in the equations at one instant, and the widths of smooth friction, (n_s,).

    Args:
        problem: all of whose parameters are fixed.
        rates: of all joints, (N, n_s).
    """
    widths = widths_along(problem, rates)
    known = [*numbers(problem, settings, widths), *chosen_numbers(problem, problem.guess, 0)]
    with_time = settings.step, settings.impulse_width
    brief = 1e-9  # h of an instant [s]
    shares = [brief / problem.step if any(c.symbol is s for s in with_time) else 1.0 for c in known]
    return [c.symbol for c in known], [c.value * share for c, share in zip(known, shares, strict=True)], widths


def _equations(problem: Problem, motion: Measured) -> tuple[ca.Function, list[float]]:
    """Function (x and its derivatives, inputs, numbers) to what is missing along the coordinate of each motor and to
    its unit effort, (m,) both, and the numbers."""
    model, settings = problem.model, settings_of(problem)
    equations, names = instant(model, settings), JointCoordinates(model).names
    symbols, values, _ = constants(problem, settings, motion.rates)
    lacking = [equations.lacking[names.index(motor.label)] / settings.step for motor in model.motors]
    units = [motor.unit_effort for motor in model.motors]
    inputs = [equations.symbols, equations.u, ca.vertcat(*symbols)]
    return ca.Function("efforts", inputs, [ca.densify(ca.vertcat(*part)) for part in (lacking, units)]), values


def _compared(problem: Problem, motion: Measured) -> MotorEfforts:
    """Beside what was recorded, both through the same filter, without the ends that it spoils."""
    told, (recording,), motors = _told(problem, motion), problem.recordings, problem.model.motors
    rate, ends = 1 / problem.step, spoiled_steps(problem.cutoff, problem.step)
    if len(motion.t) <= 2 * ends + 1:
        raise ProblemError(
            f"recording {recording.name!r} lasts {motion.t[-1] - motion.t[0]:.3g} s, too short for a "
            f"filter with a cutoff of {problem.cutoff:g} Hz; raise the cutoff"
        )

    def filtered(columns: Array) -> Array:
        return low_passed(columns, rate, problem.cutoff)[ends:-ends]

    places = [problem.model.signals.index(motor.signal) for motor in motors]
    shown = filtered(motion.inputs[:, places])
    values = problem.guess_on(recording.name)
    gains = np.array([number(motor.unit_effort, values) for motor in motors])
    return replace(
        told,
        t=told.t[ends:-ends],
        efforts=filtered(told.efforts),
        predicted=filtered(told.predicted),
        measured=shown,
        measured_efforts=gains * shown,
        cutoff=problem.cutoff,
        recording=recording.name,
    )


_NOTHING = 1e-6
"""Share of the largest impulse of a step that is none: solvers end near zero."""


@dataclass(frozen=True)
class TouchSpan:
    """Consecutive steps in which a contact is closed."""

    contact: str
    """Name of the ``Contact``."""
    begin: float
    """When its first step begins [s]."""
    end: float
    """When its last step ends [s]."""
    impulse: tuple[float, float, float]
    """Sum on the point, along the plane's normal and its x and y axes [N s]."""


def touches(problem: Problem, solution: Solution, recording: int) -> tuple[TouchSpan, ...]:
    """As of ``Problem.touches``."""
    if not (is_whole(recording) and 0 <= recording < len(solution.trajectories)):
        count = len(solution.trajectories)
        raise ProblemError(f"{problem.place}: recording is {shown(recording)}; the solution has {count}, from 0 on")
    trajectory, contacts = solution.trajectories[recording], problem.model.contacts
    impulses = trajectory.touches
    if impulses is None or impulses.shape[1] != len(contacts):
        raise ProblemError(f"{problem.what}: touches takes a solution of this problem; give one")
    step, found = float(np.diff(trajectory.t).mean()), list[TouchSpan]()
    known = np.nan_to_num(impulses)
    pushes = known[:, :, 0] > _NOTHING * np.max(known[:, :, 0], initial=0.0)
    for i, contact in enumerate(contacts):
        edges = np.flatnonzero(np.diff(np.concatenate([[0], pushes[:, i].astype(int), [0]])))
        for first, last in edges.reshape(-1, 2).tolist():
            x, y, z = known[first:last, i].sum(axis=0).tolist()
            begin = float(trajectory.t[first])
            found.append(TouchSpan(contact.name, begin, begin + (last - first) * step, (x, y, z)))
    return tuple(sorted(found, key=lambda span: (span.begin, span.contact)))


def strikes(problem: Problem, solution: Solution, recording: int) -> tuple[Strike, ...]:
    """As of ``Problem.impacts``."""
    multipliers, assembly = _multipliers(problem, solution, recording, "impacts"), assemble(problem)
    return strikes_of(assembly, warm(assembly, solution, {}), recording, multipliers)


def contact_forces(problem: Problem, solution: Solution, recording: int) -> dict[str, Array]:
    """As of ``Problem.contact_forces``."""
    impulses, holding = _multipliers(problem, solution, recording, "contact_forces"), problem.model.holding
    means = impulses / float(np.diff(solution.trajectories[recording].t).mean())
    held = (contact for contact in holding.contacts if isinstance(contact, HeldContact))
    return {contact.name: means[:, holding.rows_of(contact)] for contact in held}


def _multipliers(problem: Problem, solution: Solution, recording: int, asked: str) -> Array:
    multipliers = solution.trajectories[recording].multipliers
    if multipliers.shape[1] != problem.model.holding.count:
        raise ProblemError(f"{problem.what}: {asked} takes a solution of another problem; give one of this problem")
    return multipliers
