"""Settings and parameters of a problem by name, as the command line, sweeps and their files spell them."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import casadi as ca
import numpy as np

from spookid.assembly.declaration import AUTO, BACKENDS, FRICTIONS, Declaration
from spookid.data.recording import RecordingFiles
from spookid.data.state import State
from spookid.errors import ProblemError
from spookid.mechanics.joints import Joint
from spookid.solvers.levenberg_marquardt import LevenbergMarquardt
from spookid.stepping.spook import Spook
from spookid.stepping.variational import Variational
from spookid.studies.axes import AxisValue
from spookid.studies.random_starts import START, drawn

STEPPERS = {"spook": Spook(), "spook-lifted": Spook(multipliers="lifted"), "variational": Variational()}
"""Time steppers by name."""

UNITS = {"step": "s", "friction_width": "rad/s", "cutoff": "Hz"}
"""Of settings that have one."""

_NUMBERS = ("step", "state_weight", "friction_width", "cutoff")
_CHOICES = {"stepper": tuple(STEPPERS), "friction": FRICTIONS, "backend": BACKENDS}
_WHOLE = (bool, int)
_OPTIONS = {f.name: type(f.default) if isinstance(f.default, _WHOLE) else float for f in fields(LevenbergMarquardt)}
"""Options of the solver, and of what kind each is."""


@dataclass(frozen=True)
class Variant:
    """What is to be changed about a problem before it is solved; texts and numbers only, so that it can travel."""

    settings: Mapping[str, AxisValue] = field(default_factory=dict)
    """The problem's own settings by name, ``backend``, and options of the solver."""
    held: Mapping[str, float] = field(default_factory=dict)
    """Parameters that are held at a value."""
    initial: Mapping[str, float] = field(default_factory=dict)
    """Guesses of parameters."""
    fixed: tuple[str, ...] = ()
    """Parameters that keep their guess."""
    seed: int = 0
    """Of guesses that are drawn; see ``random_starts``."""

    def at(self, point: Mapping[str, AxisValue], problem: Declaration) -> Variant:
        """This variant at a point of a grid whose axes are settings and parameters of ``problem``.

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
                held[name] = _held(name, value)
            else:
                settings[name] = _checked(name, value, known)
        return Variant(settings, held, initial, self.fixed, self.seed)

    def posed(self, problem: Declaration) -> tuple[Declaration, str, dict[str, Any]]:
        """The changed problem, the backend and the solver's options.

        Raises:
            ProblemError: for what the problem refuses.
        """
        known = problem.parameter_set.known
        initial = {name: value for name, value in {**self.initial, **self.held}.items() if name in known}
        fixed = {name for name in (*self.fixed, *self.held) if name in known}
        options: dict[str, Any] = dict(self.settings)
        backend = str(options.pop("backend", BACKENDS[0]))
        if "stepper" in options:
            options["stepper"] = STEPPERS[options["stepper"]]
        own = {name: options.pop(name) for name in list(options) if name not in _OPTIONS}
        options = {
            name: _OPTIONS[name](value) if _OPTIONS[name] in _WHOLE else value for name, value in options.items()
        }
        guesses = problem.parameter_set.updated(problem.initial, initial)
        changed = problem.with_(initial=guesses, fixed={*problem.fixed, *fixed}, **own)
        return changed, backend, options


def digest(problem: Declaration) -> str:
    """A number that changes with anything in the problem that can change its solution: model, data, settings."""
    model = problem.model
    q, v = ca.SX.sym("q", model.configuration.ambient), ca.SX.sym("v", model.configuration.tangent)
    state = State(model, q, v, v, {signal: ca.SX(i + 1) for i, signal in enumerate(model.signals)}, ca.SX(1))
    values = [*model.expressions(), model.violation(q), *(s.predicted(state) for s in problem.channels)]
    values += [_loads(joint, state) for joint in model.joints if joint.loads]
    values += [model.holding.rates(q, v), model.holding.speeds(ca.SX(ca.DM(range(1, len(model.signals) + 1))))]
    values += [channel.delay for channel in problem.channels]
    for residual in problem.residuals:
        rows = residual.rows(*[state] * residual.states)
        values.append(residual.whitening(rows.numel()) @ rows)
    values += [relation.expression for relation in problem.constraints]
    symbols = [q, v, ca.vertcat(*problem.parameter_set.declared)]
    values.append(model.pushed(q, v, ca.SX(ca.DM(range(1, len(model.signals) + 1)))))
    formulas = ca.Function("problem", symbols, [ca.densify(ca.vec(ca.SX(value))) for value in values])
    result = hashlib.sha256(formulas.serialize().encode())
    for part in _facts(problem):
        result.update(repr(part).encode())
    if isinstance(problem.recordings, RecordingFiles):
        result.update(repr(problem.recordings.facts).encode())
        return result.hexdigest()
    for recording in problem.recordings:
        for name, samples in {"t": recording.t, **recording.signals}.items():
            result.update(name.encode() + np.ascontiguousarray(samples).tobytes())
    return result.hexdigest()


def _loads(joint: Joint, state: State) -> ca.SX:
    """What the loads of a joint do in a state, with inputs that differ."""
    inputs, width = {name: ca.SX(i + 1) for i, name in enumerate(joint.signals)}, ca.SX.ones(len(joint.coordinates))
    bound = joint.bound(state.angle(joint), state.rate(joint))
    parts = (bound.load, bound.constant, bound.load_lean, bound.constant_lean)
    effort = joint.effort(state.angle(joint), state.rate(joint), inputs, width)
    return ca.vertcat(effort, *(part for part in parts if part is not None))


def _facts(problem: Declaration) -> list[object]:
    """All but formulas and data, in types whose text is complete."""
    model = problem.model
    return [
        problem.name,
        [(body.name, body.free) for body in model.bodies],
        [(joint.kind, joint.name, joint.parent.body.name, joint.child.body.name) for joint in model.joints],
        [(tie.kind, tie.name, tie.signals) for tie in model.ties],
        [(motor.label, motor.signal, motor.measured) for motor in model.motors],
        [(one.signal, one.hold) for one in model.inputs],
        [(residual.name, residual.kind, residual.at, residual.states) for residual in problem.residuals],
        [(type(sensor).__name__, tuple(sensor.signals), sensor.sigma) for sensor in problem.observations],
        [(s.signal, s.sigma, s.unit, s.period, s.title, s.loss) for s in problem.channels],
        [(p.name, p.lower, p.upper, p.prior) for p in problem.parameters],
        sorted(problem.guess.items()),
        sorted(problem.fixed),
        [problem.step, problem.dynamics, problem.weight, problem.friction_width, problem.cutoff, problem.friction],
        [problem.step_correction, problem.every],
        [problem.estimator, *(recording.closed_loop for recording in problem.sample)],
        [model.signals, *(joint.disturbance for joint in model.joints)],
        problem.stepper,
    ]


def _held(name: str, value: AxisValue) -> float:
    if isinstance(value, str) or not math.isfinite(value):
        raise ProblemError(f"the parameter {name!r} is given {value!r}; it takes finite numbers")
    return value


def _checked(name: str, value: AxisValue, parameters: set[str]) -> AxisValue:
    """A setting's value, if it fits."""
    if name not in (*_NUMBERS, *_CHOICES, *_OPTIONS):
        raise ProblemError(
            f"{name!r} is neither a setting ({', '.join((*_NUMBERS, *_CHOICES, *_OPTIONS))}) nor a parameter "
            f"({', '.join(sorted(parameters)) or 'there are none'})"
        )
    if name in parameters:
        raise ProblemError(f"{name!r} is a setting and a parameter of this problem; rename the parameter")
    if name in _CHOICES:
        if value not in _CHOICES[name]:
            raise ProblemError(f"{name} is {value!r}; choose from {', '.join(_CHOICES[name])}")
    elif isinstance(value, str):
        if (name, value) != ("state_weight", AUTO):
            other = " or auto" if name == "state_weight" else ""
            raise ProblemError(f"{name} is {value!r}; it takes numbers{other}")
    elif _OPTIONS.get(name) and not (value >= 0 and value == int(value)):
        raise ProblemError(f"{name} is {value!r}; it takes 0, 1, 2 ...")
    return value
