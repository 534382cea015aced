"""What a problem's declaration has to be: settings in range, names that are known, signals that recordings have."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from copy import copy
from numbers import Real
from typing import TYPE_CHECKING, Any, TypeVar

import casadi as ca
import numpy as np

from spookid.assembly.parameters import ParameterSet, check_delays, check_finite, check_scales
from spookid.data.channels import Channel, Sensor
from spookid.data.inputs import samples_of
from spookid.data.interpolation import longest_step
from spookid.data.recording import Recording, RecordingFiles
from spookid.data.residual import Residual
from spookid.data.sampling import grid
from spookid.data.sensors import JointPosition, with_filters, with_torques
from spookid.data.state import State
from spookid.errors import ProblemError, collected
from spookid.mechanics.contacts import Impact
from spookid.mechanics.hidden import anchored
from spookid.mechanics.inertia import at_guess
from spookid.mechanics.model import Model
from spookid.mechanics.relations import Relation, bare
from spookid.parameter import Parameter, parameters_in
from spookid.results.settings import AUTO, CHOICES

if TYPE_CHECKING:
    from spookid.assembly.problem import Problem

P = TypeVar("P", bound="Problem")
STEP = 0.01
"""h where nothing else is asked for [s]."""
_OF_STEP = {"model", "recordings", "observations", "cutoff", "stepper"}
"""What the bandwidth of a motion follows from."""
_OF_PARAMETERS = {"model", "recordings", "observations", "residuals", "constraints", "friction_width"}
"""What the channels and the parameters of a problem follow from."""


def normalized(problem: Problem) -> Iterator[tuple[str, Any]]:
    """Declared fields in a standard form: tuples, relations without names, and a model with measured torques."""
    for name, kind in (("recordings", Recording), ("observations", Sensor), ("residuals", Residual)):
        if not isinstance(getattr(problem, name), RecordingFiles):
            yield name, collected(getattr(problem, name), kind, f"{problem.what}: {name}")
    yield "initial", dict(problem.initial)
    if isinstance(problem.friction_width, Mapping):
        yield "friction_width", dict(problem.friction_width)
    if isinstance(problem.constraints, (ca.SX, Relation)):
        raise ProblemError(f"{problem.what}: constraints is one relation; put it in a list, constraints=[...]")
    related = collected(problem.constraints, object, f"{problem.what}: constraints")
    yield "constraints", tuple(bare(one, problem.what) for one in related)
    fixed = [problem.fixed] if isinstance(problem.fixed, str) else problem.fixed
    yield "fixed", frozenset(collected(fixed, str, f"{problem.what}: fixed"))
    if isinstance(problem.model, Model):
        yield "model", with_filters(with_torques(problem.model, problem.observations), problem.observations)
        yield from _anchored(problem)


_ANCHORED = 1e-5
"""Standard deviation of the integral of a random walk over a recording [s]: far below what a fit determines of it.
With a larger one, and without process noise, the angles of wheels are lost in rounding."""


def _anchored(problem: Problem) -> Iterator[tuple[str, Any]]:
    """Sensors of hidden states that begin at zero; those of random walks end there, too."""
    names = anchored(problem.model.hidden)
    if not names:
        return
    if isinstance(problem.recordings, RecordingFiles):
        raise ProblemError(f"{problem.what} has hidden states and RecordingFiles; read the recordings first")
    joints = {joint.name: joint for joint in problem.model.joints}
    seen = [sensor for sensor in problem.observations if getattr(sensor, "signal", None) not in names]
    yield "observations", (*seen, *(JointPosition(joints[name], name, sigma=_ANCHORED) for name in names))
    recordings = []
    for recording in problem.recordings:
        signals = {name: np.full(len(recording.t), np.nan) for name in names}
        for name, both in names.items():
            signals[name][[0, -1] if both else [0]] = 0.0
        recordings.append(recording.with_signals(**signals))
    yield "recordings", tuple(recordings)


def measured_channels(problem: Problem) -> list[Channel]:
    """Channels without those of the zeros at which additional states begin."""
    return [one for one in problem.channels if one.signal not in anchored(problem.model.hidden)]


def split(problem: Problem, options: Mapping[str, Any]) -> tuple[Problem, dict[str, Any]]:
    """Split options into settings of the problem, which are applied, and other options."""
    own = {name: value for name, value in options.items() if name in problem.__dataclass_fields__}
    return problem.with_(**own), {name: value for name, value in options.items() if name not in own}


def changed(problem: P, changes: dict[str, Any]) -> P:
    """Copy with other settings; only what depends on them is computed again, see ``Problem.with_``."""
    settings = problem.__dataclass_fields__
    if unknown := set(changes) - set(settings):
        raise ProblemError(f"{problem.what} has no setting {min(unknown)!r}; it has {listed(settings)}")
    type(problem).admits(**changes)
    recordings = changes.get("recordings", problem.recordings)
    if problem.parameter_set.own and recordings is not problem.recordings:
        recordings = changes["recordings"] = collected(recordings, Recording, f"{problem.what}: recordings")
        said, names = {*problem.initial, *problem.fixed}, [recording.name for recording in recordings]
        gone = problem.parameter_set.gone(said, names)
        initial = {name: value for name, value in problem.initial.items() if name not in gone}
        changes = {"initial": initial, "fixed": set(problem.fixed) - gone, **changes}
    follows = problem.follows_motion and "step" not in changes
    if follows and not _OF_STEP.isdisjoint(changes):
        changes["step"] = None
    same = {*settings, *(("channels", "parameter_set") if _OF_PARAMETERS.isdisjoint(changes) else ())}
    made = copy(problem)
    for name in set(made.__dict__) - same:
        del made.__dict__[name]
    made.__dict__.update(changes)
    made.__post_init__()
    if follows:
        object.__setattr__(made, "follows_motion", True)
    return made


def check(problem: Problem) -> None:
    """Raise ProblemError for settings out of range, unknown names, or a recording that cannot be fitted."""
    widths = problem.friction_width
    each = widths.values() if isinstance(widths, Mapping) else [widths]
    numbers: list[tuple[str, Any]] = [("friction_width", value) for value in each if not isinstance(value, ca.SX)]
    numbers += [(name, getattr(problem, name)) for name in ("step", "state_weight", "cutoff")]
    for name, value in numbers:
        if (value is None and name in ("state_weight", "friction_width")) or (name, value) == ("state_weight", AUTO):
            continue
        finite = isinstance(value, Real) and (math.isfinite(value) or name == "state_weight")
        if not (finite and value > 0):
            other = ", or left out to estimate the noise" if name == "state_weight" else ""
            raise ProblemError(f"{problem.what}: {name} is {value!r}; it must be a positive number{other}")
    if not (problem.every is None or (isinstance(problem.every, int) and problem.every >= 1)):
        raise ProblemError(f"{problem.what}: every is {problem.every!r}; it must be a whole number from 1 on, or None")
    for name, choices in CHOICES.items():
        if getattr(problem, name) not in choices:
            value = getattr(problem, name)
            raise ProblemError(f"{problem.what}: {name} {value!r} is not known; choose from {listed(choices)}")
    if not isinstance(getattr(problem.stepper, "name", None), str):
        kind = type(problem.stepper).__name__
        raise ProblemError(f"{problem.what}: stepper {kind} has no name; give its class one")
    names = [residual.name for residual in problem.residuals]
    for residual in problem.residuals:
        residual.check(problem.model)
        if residual.at == "start" and residual.is_hard and problem.estimates_noise:
            raise ProblemError(
                f"{residual.place}: Residual {residual.name!r} is hard at the start, which fits that estimate the "
                "noise cannot hold; give it a small sigma, or the problem a state_weight"
            )
        if names.count(residual.name) > 1:
            raise ProblemError(f"{residual.place}: Residual {residual.name!r} has the name of another one; rename it")
    _check_names(problem)
    labels = [freedom.label for freedom in problem.model.freedoms if freedom.rubs]
    if unknown := set(widths if isinstance(widths, Mapping) else ()) - set(labels):
        what = f"{problem.what}: friction_width names {min(unknown)!r}, which has no dry friction"
        raise ProblemError(f"{what}; those that have are {listed(labels)}")
    for recording in problem.sample:
        check_recording(problem, recording)


def _check_names(problem: Problem) -> None:
    problem.parameter_set.check(problem.what)
    known = problem.parameter_set.known
    for name in (*problem.initial, *problem.fixed):
        if name not in known:
            raise ProblemError(f"{problem.what} has no parameter {name!r}; its parameters are {listed(known)}")
    for name, value in problem.initial.items():
        p = known[name]
        finite = isinstance(value, Real) and math.isfinite(value)
        fixed = {name, problem.parameter_set.declared_names.get(name)} & set(problem.fixed)
        if not (finite and (fixed or p.lower <= value <= p.upper)):
            where = f"initial value {value!r} of parameter {name!r} is outside its bounds [{p.lower:g}, {p.upper:g}]"
            raise ProblemError(f"{problem.what}: {where}; move it, or the bounds")


def check_recording(problem: Problem, recording: Recording) -> None:
    """Raise ProblemError for a recording to which the problem cannot be fitted."""
    values, motors = problem.guess_on(recording.name), problem.model.motors
    try:
        steps = grid(recording, problem.step)
        for channel in problem.channels:
            recording.signal(channel.signal)
        samples_of(recording, problem.model.inputs, steps)
    except ProblemError as error:
        raise ProblemError(f"{problem.what}: {error}") from None
    check_scales(problem.observations, motors, values)
    check_finite(problem.model, problem.channels, values)
    check_delays(problem.observations, motors, recording, values)


def declared_parameters(problem: Problem) -> ParameterSet:
    """Return the Parameters of the model, the sensors, the residuals and the constraints, in all recordings.

    Raises:
        ProblemError: for a constraint without a Parameter of the model, the sensors or the residuals.
    """
    # At a state of numbers, only Parameters are left as symbols of what a sensor shows.
    model, channels, what = problem.model, problem.channels, problem.what
    q, v = (ca.SX(ca.DM(np.linspace(0.1, 0.9, m))) for m in (model.configuration.ambient, model.configuration.tangent))
    state = State(model, q, v, v, dict.fromkeys(model.signals, ca.SX(1)), ca.SX(1))
    shown = [channel.predicted(state) for channel in channels if channel.is_free_form]
    own = [residual.rows(*[state] * residual.states) for residual in problem.residuals]
    beside = [expression for channel in channels for expression in channel.expressions()]
    widths = problem.friction_width.values() if isinstance(problem.friction_width, Mapping) else ()
    expressions = [*model.expressions(), *shown, *beside, *own, *(one for one in widths if isinstance(one, ca.SX))]
    related = [difference for relation in problem.constraints for difference, _ in relation.rows]
    declared, used = parameters_in([*expressions, *related], what), {p.name for p in parameters_in(expressions, what)}
    for relation in problem.constraints:
        for title, (difference, _) in zip(relation.titles, relation.rows, strict=True):
            names = [p.name for p in parameters_in([difference], what)]
            if used.isdisjoint(names):
                raise ProblemError(
                    f"{relation.place}: constraint {title!r}: {', '.join(names)} occurs in no model, sensor or "
                    "residual of this problem; relate Parameters that do"
                )
    several = problem.recordings
    of_all = several.names if isinstance(several, RecordingFiles) else tuple(one.name for one in several)
    return ParameterSet(declared, of_all)


def free_parameters(problem: Problem) -> tuple[Parameter, ...]:
    """Those that are estimated."""
    declared = problem.parameter_set.declared_names
    return tuple(p for p in problem.parameters if not {p.name, declared.get(p.name)} & set(problem.fixed))


def delays(problem: Problem) -> tuple[str, ...]:
    """Names of the parameters in delays of sensors, and in delays and lags of inputs, for all recordings."""
    late = [*(channel.delay for channel in problem.channels)]
    late += [expression for one in problem.model.inputs for expression in (one.delay, one.lag)]
    pairs = ((d, *problem.parameter_set.of(d)) for d in parameters_in(late, problem.what))
    return tuple({p.name: p for pair in pairs for p in pair})


def uncorrected(problem: Problem) -> str:
    """Model parts that prevent extrapolation of estimates to step zero, as text; empty if there are none."""
    # Impacts leave errors that do not fall with the square of the step.
    kept = {
        "impacts": [tie.name for tie in problem.model.ties if isinstance(tie, Impact)],
        "contacts that push": [contact.name for contact in problem.model.contacts],
        "residuals that are inequalities": [one.name for one in problem.residuals if one.is_inequality],
    }
    return next((f"{what} ({', '.join(names)})" for what, names in kept.items() if names), "")


def bandwidth_step(problem: Problem) -> float | None:
    """Longest time step that the motion's bandwidth allows [s]; None without measured efforts or joint positions, and
    for first-order steppers."""
    measured = isinstance(problem.model, Model) and any(motor.measured for motor in problem.model.motors)
    if not measured or getattr(problem.stepper, "order", None) != 2:
        return None
    sensors = [one for one in problem.observations if isinstance(one, JointPosition)]
    found = [_longest(recording, one, problem.cutoff) for recording in problem.sample for one in sensors]
    return min((step for step in found if np.isfinite(step)), default=None)


def _longest(recording: Recording, sensor: JointPosition, cutoff: float) -> float:
    if sensor.signal not in recording.signals:
        return math.inf
    scale, angle = at_guess(sensor.each("scale")[0]).item(), sensor.measured.unit == "rad"
    return longest_step(recording, sensor.signal, angle=angle, scale=scale, cutoff=cutoff)


def listed(names: Iterable[str]) -> str:
    """Names in a message."""
    return ", ".join(names) or "none"


def rows(problem: Problem) -> list[dict[str, Any]]:
    """Table rows, one for each parameter."""
    free, guess = {p.name for p in problem.free}, problem.guess
    return [
        {"parameter": p.name, "guess": guess[p.name], "lower": p.lower, "upper": p.upper, "unit": p.unit}
        | {"fixed": p.name not in free, "note": p.note}
        for p in problem.parameters
    ]
