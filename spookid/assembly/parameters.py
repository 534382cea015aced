"""Initial values of Parameters with which no fit could begin.

The parameters of a problem: those that recordings share, and those of which each recording has its own.

A model is written in what was declared, ``m_tool`` say; what is estimated is ``m_tool[empty]`` and ``m_tool[loaded]``.
One set of one-step functions serves all recordings, so that in factors a declared symbol p becomes Σ c_r p[r], where
the choice c is 1 for the recording a factor stands in, and 0 for all others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, lru_cache

import casadi as ca
import numpy as np

from spookid.data.channels import Channel, Sensor
from spookid.data.recording import Recording
from spookid.errors import ProblemError
from spookid.kernels.arrays import Array
from spookid.kernels.program import first_cause
from spookid.mechanics.body import Body
from spookid.mechanics.contacts import Contact
from spookid.mechanics.joints import Joint
from spookid.mechanics.model import Model
from spookid.mechanics.motor import Motor
from spookid.mechanics.point_loads import PointLoad
from spookid.parameter import Parameter, is_constant, number, own_name, parameters_in, stacked, substitute
from spookid.records import dataclass
from spookid.transcription.factor import Factor


def check_finite(model: Model, channels: Sequence[Channel], values: Mapping[str, float]) -> None:
    """Raise ProblemError if a declared expression of Parameters is not finite.

    Args:
        values: initial values of all Parameters, by name.
    """
    things: tuple[Body | Joint | Motor | Contact | PointLoad, ...]
    things = (*model.bodies, *model.joints, *model.motors, *model.contacts, *model.loads)
    declared = [(f"{model.place}: the gravity of the Model", [model.gravity])]
    declared += [(f"{thing.place}: an expression of {thing!r}", thing.expressions()) for thing in things]
    declared += [(f"{_what(c.sensor)}: an expression of it", c.expressions()) for c in channels]
    every = ca.veccat(*(e for _, expressions in declared for e in expressions))
    if is_constant(every) or np.isfinite(substitute(every, values)).all():
        return
    for what, expressions in declared:
        parameters = parameters_in(expressions, what)
        numbers = [np.array([values[p.name]]) for p in parameters]
        if why := first_cause(ca.veccat(*expressions), parameters, numbers, {p.name: p for p in parameters}):
            raise ProblemError(f"{what} is not finite at the initial values: {why}; change them")


def check_scales(sensors: Sequence[Sensor], motors: Sequence[Motor], values: Mapping[str, float]) -> None:
    """Raise ProblemError for a sensor with scale zero, or a motor winding without resistance.

    Args:
        values: initial values of all Parameters, by name.
    """
    for sensor in sensors:
        if any(number(scale, values) == 0 for scale in sensor.each("scale")):
            raise ProblemError(f"{_what(sensor)} has a scale that is 0 at {_guesses(sensor.each('scale'))}; change it")
    for motor in motors:
        if motor.resistance is not None and number(motor.resistance, values) == 0:
            raise ProblemError(
                f"{motor.place}: Motor has a resistance that is 0 at {_guesses([motor.resistance])}; change it"
            )


def check_delays(
    sensors: Sequence[Sensor], motors: Sequence[Motor], recording: Recording, values: Mapping[str, float]
) -> None:
    """Raise ProblemError for a delay that exceeds the duration of a recording."""
    lasts = float(recording.t[-1] - recording.t[0])
    late = [(_what(sensor), delay) for sensor in sensors for delay in sensor.each("delay")]
    for what, delay in [*late, *((f"{motor.place}: Motor with {motor.signal!r}", motor.delay) for motor in motors)]:
        if not abs(number(delay, values)) < lasts:
            raise ProblemError(
                f"{what} has a delay of {number(delay, values):g} s, and recording {recording.name!r} lasts {lasts:g} "
                "s; give it in seconds"
            )


def _guesses(expressions: Sequence[ca.SX]) -> str:
    names = ", ".join(p.name for p in parameters_in(expressions, "it"))
    return f"the initial value of {names}" if names else "the values given"


def _what(sensor: Sensor) -> str:
    names = sensor.signals[0] if len(sensor.signals) == 1 else sensor.signals
    return f"{sensor.place}: {type(sensor).__name__} of {names!r}"


@dataclass(frozen=True, eq=False)
class ParameterSet:
    """The declared Parameters of a problem, and their values in each recording."""

    declared: tuple[Parameter, ...]
    """Those of the model, in the order of their declaration."""
    recordings: tuple[str, ...]
    """Names."""

    @cached_property
    def own(self) -> tuple[Parameter, ...]:
        """Declared Parameters that have a separate value in each recording; none if there is no recording."""
        return tuple(filter(self._differs, self.declared))

    @cached_property
    def every(self) -> tuple[Parameter, ...]:
        """All Parameters that have one value: shared Parameters, and those of each recording."""
        return tuple(one for p in self.declared for one in self.of(p))

    def of(self, declared: Parameter) -> tuple[Parameter, ...]:
        """Return the Parameters behind a declared Parameter: itself, or one per recording if each has its own value."""
        return tuple(map(declared.of, self.recordings)) if self._differs(declared) else (declared,)

    def _differs(self, declared: Parameter) -> bool:
        return declared.per is not None and bool(self.recordings)

    @cached_property
    def known(self) -> dict[str, Parameter]:
        """Parameter names that users may give; the name of a declared Parameter selects those of all recordings."""
        return {p.name: p for p in (*self.every, *self.own)}

    @cached_property
    def declared_names(self) -> dict[str, str]:
        """Map the name of each recording's Parameter to the declared name."""
        return {one.name: p.name for p in self.own for one in self.of(p)}

    def check(self, what: str) -> None:
        """Raise ProblemError if Parameters of two recordings would have the same name."""
        twice = next((name for name, count in Counter(self.recordings).items() if count > 1), None)
        if self.own and twice is not None:
            raise ProblemError(
                f"{what} has several recordings named {twice!r}, each with its own {self.own[0].name!r}; give each "
                "recording its own name"
            )
        names = [p.name for p in self.every]
        stray = next((p for p in self.declared if names.count(p.name) > 1), None)
        if stray is not None:
            raise ProblemError(f"{what} holds {stray.name!r}, which is that of one recording; write the declared one")

    def expanded(self, values: Mapping[str, float]) -> dict[str, float]:
        """Expand values to the names of all Parameters that they set; a value for one recording has priority."""
        found = {}
        for p in self.every:
            name = p.name if p.name in values else self.declared_names.get(p.name, p.name)
            if name in values:
                found[p.name] = values[name]
        return found

    def updated(self, old: Mapping[str, float], new: Mapping[str, float]) -> dict[str, float]:
        """Merge old and new values by name; a new value for all recordings replaces old values of each recording."""
        kept = {name: value for name, value in old.items() if self.declared_names.get(name) not in new}
        return {**kept, **new}

    def gone(self, names: Iterable[str], recordings: Iterable[str]) -> set[str]:
        """Select the names of values for recordings that no longer exist."""
        left = set(recordings)
        lost = [name for name in self.recordings if name not in left]
        return {p.of(name).name for p in self.own for name in lost}.intersection(names)

    def name_on(self, declared: Parameter, recording: str | None) -> str:
        """Name of a declared Parameter in a recording; in the first recording if None."""
        return declared.of(recording or self.recordings[0]).name if self._differs(declared) else declared.name

    def on(self, values: Mapping[str, float], recording: str | None = None) -> dict[str, float]:
        """Return a dict from declared Parameter name to value in one recording; None selects the first recording."""
        return {**values, **{p.name: values[self.name_on(p, recording)] for p in self.own}}

    @property
    def choice(self) -> ca.SX:
        """Selector symbols c, one per recording, that choose the recording; none if all Parameters are shared."""
        return _choice(len(self.recordings) if self.own else 0)

    def chosen(self, recording: int) -> Array:
        """Values of the selector symbols for a recording, (n_c,)."""
        return np.eye(len(self.recordings))[recording] if self.own else np.zeros(0)

    def written(self, factor: Factor) -> Factor:
        """Replace declared Parameters in a factor by those of the recordings; without them, the factor is unchanged."""
        symbols = stacked(self.own)
        if not (self.own and ca.depends_on(factor.residual, symbols)):
            return factor
        return factor.substituted(symbols, self._sums)

    def in_recordings(self, expression: ca.SX) -> ca.SX:
        """Replace declared Parameters in an expression by those of the recordings."""
        if not self.own:
            return expression
        inserted: ca.SX = ca.substitute(expression, ca.vertcat(*self.own), self._sums)
        return inserted

    def in_each(self, title: str, expression: ca.SX) -> list[tuple[str, ca.SX]]:
        """Yield an expression and its title; once per recording if its Parameters differ between recordings."""
        declared = [p for p in self.own if ca.depends_on(expression, p)]
        if not declared:
            return [(title, expression)]
        symbols = ca.vertcat(*declared)
        return [
            (own_name(title, name), ca.substitute(expression, symbols, ca.vertcat(*(p.of(name) for p in declared))))
            for name in self.recordings
        ]

    @property
    def _sums(self) -> ca.SX:
        """What stands for parameters of which each recording has its own."""
        return ca.vertcat(*(ca.dot(self.choice, ca.vertcat(*self.of(p))) for p in self.own))


@lru_cache(maxsize=8)
def _choice(recordings: int) -> ca.SX:
    """The same symbols for all fits, so that expressions need not be built anew."""
    return ca.SX.sym("choice", recordings)
