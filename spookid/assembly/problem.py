"""A problem as it is declared: a mechanism, its recordings and how to fit them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import field
from functools import cached_property
from numbers import Real
from typing import Any, Literal, Self, cast

import casadi as ca
import numpy as np

from spookid.argument_checks import Checked, checked
from spookid.assembly.keeping import kept
from spookid.assembly.parameters import ParameterSet, check_delays, check_finite, check_scales
from spookid.data.channels import Channel, Sensor, channels_of
from spookid.data.inputs import samples_of
from spookid.data.interpolation import longest_step
from spookid.data.recording import SAMPLE, Recording, RecordingFiles
from spookid.data.residual import Residual
from spookid.data.sampling import grid
from spookid.data.sensors import JointPosition, with_torques
from spookid.data.state import State
from spookid.errors import ProblemError, collected, declared_at
from spookid.mechanics.contacts import Impact
from spookid.mechanics.inertia import at_guess
from spookid.mechanics.model import Model
from spookid.mechanics.relations import Relation, bare
from spookid.parameter import Parameter, parameters_in
from spookid.records import dataclass
from spookid.results.settings import DynamicsAndFriction, Estimator
from spookid.stepping.base import EXTRAPOLATED, Scheme, Stepper
from spookid.stepping.impulses import DryFriction, Form
from spookid.stepping.variational import Variational

BACKENDS = ("lm", "riccati", "ipopt")
FRICTIONS = ("smooth", "exact", "mpcc")
ESTIMATORS = ("auto", "noise", "hard")
AUTO: Literal["auto"] = "auto"
"""The same as no state weight: the noise is estimated."""
STEP = 0.01
"""h where nothing else is asked for [s]."""
_TELLS_STEP = {"model", "recordings", "observations", "cutoff", "stepper"}
"""What the bandwidth of a motion follows from."""
_DECLARES = {"model", "recordings", "observations", "residuals", "constraints"}
"""What ``channels`` and ``parameter_set`` follow from."""
Dynamics = Literal["estimated", "hard", "weight"]
"""Where the weight of the equations of motion comes from: noise that the data tell, none at all, or a given number."""


@dataclass(frozen=True, eq=False)
class Problem(DynamicsAndFriction, Estimator, metaclass=Checked):
    """What is to be identified, from what, and how: what ``Problem`` knows before it does anything.

    Its parameters are those that stand in the model; they are not listed again.

    Raises:
        ProblemError: for settings out of range, a signal that a recording lacks, recordings too short for the step, or
            an unknown name in ``initial`` or ``fixed``.
    """

    name: str
    """Of the problem in results and messages."""
    model: Model
    """The mechanism, with Parameters where numbers are not known."""
    recordings: Sequence[Recording] = ()
    """Measured motion; each recording has its own states, all share the parameters. May be empty to simulate only."""
    observations: Sequence[Sensor] = ()
    """What the signals of the recordings show."""
    residuals: Sequence[Residual] = field(kw_only=True, default=())
    """What else is known of the motion: see ``Residual``."""
    constraints: Sequence[Relation | Any] = field(kw_only=True, default=())
    """What is known of parameters among themselves, held exactly: relations such as ``m_1 + m_2 == 3.2`` or ``c_1 <=
    c_2`` of any expressions, ``total_mass(...)``, ``mirrored(...)``, ``Relation(name, ...)``."""
    step: float = cast(float, None)
    """h [s]; None: 0.01 s, or where the efforts of motors are measured and the stepper is of second order what the
    motion's bandwidth asks for, so that the step is off by 0.5 % of them (``spookid.data.interpolation``); it then
    follows the recordings given to ``with_``."""
    state_weight: float | Literal["auto"] | None = None
    """None (or "auto"): the sizes of what disturbs the motion and of the sensors' noise are estimated together with the
    parameters (see ``spookid.statistics``). A number is the paper's κ, weight of the squared impulse residuals
    [1/(N s)²] against the squared observation residuals; ``math.inf`` makes the dynamics hard."""
    stepper: Stepper = field(default_factory=Variational)
    """How the equations of motion become those of a time step: ``Variational()``, ``Spook()`` or your own."""
    friction: str = "smooth"
    """How dry friction is represented: ``"smooth"`` (what sticks creeps), ``"exact"`` (it stands still; for simulations
    and backend "lm"), ``"mpcc"`` (the same law as complementarity pairs, for backend "ipopt"; a simulation solves each
    step's complementarity problem exactly, so that it is the same with ``"mpcc"`` as with ``"exact"``)."""
    friction_width: float | None = None
    """Slip rate [rad/s] over which smooth dry friction turns from one sign to the other: a joint that sticks creeps at
    a fraction of it. By default each joint has 1 % of the root mean square of its slip rate in the initial guess (and
    0.01 rad/s where there is no recording or no motion). The load-dependent law also smooths |λ| over a thousandth of
    the impulse of the mechanism's weight in one step. Of friction that sticks the width only says below which slip
    rate it is taken to stop at once; with ``"exact"`` it is always the default."""
    cutoff: float = 10.0
    """Cutoff of the low-pass filter that makes the initial guess [Hz]."""
    initial: Mapping[str, float] = field(default_factory=dict)
    """Guesses by parameter name, in the place of those declared. Where recordings have their own, ``"m"`` speaks of all
    and ``"m[loaded]"`` of one, here and in ``fixed``."""
    step_correction: bool = True
    """True for the parameters of the mechanism in continuous time: with ``Variational()``, estimated noise and smooth
    friction fits with steps of h and h/2 are extrapolated. False for those of the mechanism in steps of h, as of data
    simulated so; what other settings tell are always these."""
    estimator: str = "auto"
    """Of fits without a state weight: ``"noise"`` estimates what disturbs the motion, ``"hard"`` takes it for none,
    with errors from stretches of the recordings; ``"auto"`` takes the second where the data say that it is the better
    one (``Variational()`` with smooth friction, backend "lm"; see ``spookid.estimation.estimator_choice``)."""
    every: int | None = None
    """None: every sample counts, at its own time. A number: every so many steps are observed, from the first on, and
    what lies between these is left out (as in the paper, with 1)."""
    fixed: Iterable[str] = ()
    """Names of parameters that keep their guess; bounds are for estimates, so these may lie outside theirs."""
    place: str = field(default_factory=declared_at, repr=False)

    follows_motion = False  # no field: True of a problem whose step was not given

    def __post_init__(self) -> None:
        for name, kind in (("recordings", Recording), ("observations", Sensor), ("residuals", Residual)):
            if not isinstance(getattr(self, name), RecordingFiles):
                object.__setattr__(self, name, collected(getattr(self, name), kind, f"{self.what}: {name}"))
        object.__setattr__(self, "initial", dict(self.initial))
        if isinstance(self.constraints, (ca.SX, Relation)):
            raise ProblemError(f"{self.what}: constraints is one relation; put it in a list, constraints=[...]")
        related = collected(self.constraints, object, f"{self.what}: constraints")
        object.__setattr__(self, "constraints", tuple(bare(one, self.what) for one in related))
        fixed = [self.fixed] if isinstance(self.fixed, str) else self.fixed
        object.__setattr__(self, "fixed", frozenset(collected(fixed, str, f"{self.what}: fixed")))
        if isinstance(self.model, Model):
            object.__setattr__(self, "model", with_torques(self.model, self.observations))
        if self.step is None:
            object.__setattr__(self, "follows_motion", True)
            object.__setattr__(self, "step", self.bandwidth_step or STEP)
        self._check_settings()
        self._check_names()
        self._check_signals()

    def _check_settings(self) -> None:
        for name in ("step", "state_weight", "friction_width", "cutoff"):
            value = getattr(self, name)
            if name == "friction_width" and value is None:
                continue
            if name == "state_weight" and (value is None or value == AUTO):
                continue
            finite = isinstance(value, Real) and (math.isfinite(value) or name == "state_weight")
            if not (finite and value > 0):
                other = ", or left out to estimate the noise" if name == "state_weight" else ""
                raise ProblemError(f"{self.what}: {name} is {value!r}; it must be a positive number{other}")
        if not (self.every is None or (isinstance(self.every, int) and self.every >= 1)):
            raise ProblemError(f"{self.what}: every is {self.every!r}; it must be a whole number from 1 on, or None")
        for name, choices in (("friction", FRICTIONS), ("estimator", ESTIMATORS)):
            if getattr(self, name) not in choices:
                raise ProblemError(
                    f"{self.what}: {name} {getattr(self, name)!r} is not known; choose from {_list(choices)}"
                )
        if not isinstance(getattr(self.stepper, "name", None), str):
            raise ProblemError(f"{self.what}: stepper {type(self.stepper).__name__} has no name; give its class one")
        names = [residual.name for residual in self.residuals]
        for residual in self.residuals:
            residual.check(self.model)
            if residual.at == "start" and residual.kind == "hard" and self.estimates_noise:
                raise ProblemError(
                    f"{residual.place}: Residual {residual.name!r} is hard at the start, which fits that estimate the "
                    "noise cannot hold; give it a small sigma, or the problem a state_weight"
                )
            if names.count(residual.name) > 1:
                raise ProblemError(
                    f"{residual.place}: Residual {residual.name!r} has the name of another one; rename it"
                )

    def _check_names(self) -> None:
        self.parameter_set.check(self.what)
        known = self.parameter_set.known
        for name in (*self.initial, *self.fixed):
            if name not in known:
                raise ProblemError(f"{self.what} has no parameter {name!r}; its parameters are {_list(known)}")
        for name, value in self.initial.items():
            p = known[name]
            finite = isinstance(value, Real) and math.isfinite(value)
            fixed = {name, self.parameter_set.declared_names.get(name)} & set(self.fixed)
            if not (finite and (fixed or p.lower <= value <= p.upper)):
                raise ProblemError(
                    f"{self.what}: guess {value!r} of {name!r} is outside [{p.lower:g}, {p.upper:g}]"
                    "; move it, or the bounds"
                )

    def _check_signals(self) -> None:
        for recording in self.sample:
            self.check_recording(recording)

    def check_recording(self, recording: Recording) -> None:
        """Raise ProblemError for a recording that this problem cannot be fitted to."""
        values = self.guess_on(recording.name)
        try:
            steps = grid(recording, self.step)
            for channel in self.channels:
                recording.signal(channel.signal)
            samples_of(recording, self.model.inputs, steps)
        except ProblemError as error:
            raise ProblemError(f"{self.what}: {error}") from None
        check_scales(self.observations, self.model.motors, values)
        check_finite(self.model, self.channels, values)
        check_delays(self.observations, self.model.motors, recording, values)

    @property
    def sample(self) -> Sequence[Recording]:
        """Its recordings; of files the first few, others being looked at when they are read."""
        return self.recordings[:SAMPLE] if isinstance(self.recordings, RecordingFiles) else self.recordings

    @property
    def what(self) -> str:
        """Where it was declared, and its name, as messages begin."""
        return f"{self.place}: Problem {self.name!r}"

    @property
    def dynamics(self) -> Dynamics:
        """Where the weight of the equations of motion comes from."""
        if self.state_weight is None or self.state_weight == AUTO:
            return "estimated"
        return "weight" if math.isfinite(self.state_weight) else "hard"

    @property
    def corrects(self) -> bool:
        """True if its estimates are to be those of continuous time."""
        return (
            self.step_correction
            and self.estimates_noise
            and EXTRAPOLATED not in self.stepper.refuses
            and not self.uncorrected
        )

    @property
    def uncorrected(self) -> str:
        """What keeps estimates from being extrapolated to continuous time; empty if nothing does."""
        # Impacts leave errors that do not fall with the square of the step.
        struck = [tie.name for tie in self.model.ties if isinstance(tie, Impact)]
        if struck:
            return f"impacts ({', '.join(struck)})"
        if self.model.contacts:
            return f"contacts that push ({', '.join(contact.name for contact in self.model.contacts)})"
        unequal = [residual.name for residual in self.residuals if residual.kind == "inequality"]
        return f"residuals that are inequalities ({', '.join(unequal)})" if unequal else ""

    @cached_property
    def bandwidth_step(self) -> float | None:
        """The longest step that the motion allows [s]; None where no effort is measured or no joint's position is, and
        for steps of first order."""
        measured = isinstance(self.model, Model) and any(motor.measured for motor in self.model.motors)
        if not measured or getattr(self.stepper, "order", None) != 2:
            return None
        return fitting_step(self.sample, self.observations, self.cutoff)

    @property
    def weight(self) -> float:
        """κ as a number: 1 where residuals are whitened by the noise that is estimated."""
        return 1.0 if self.estimates_noise else float(cast(float, self.state_weight))

    @cached_property
    def channels(self) -> tuple[Channel, ...]:
        """One for each signal of the sensors, in the order of their declaration."""
        return kept(channels_of, self.model, tuple(self.observations))

    @cached_property
    def parameter_set(self) -> ParameterSet:
        """What was declared, and what it stands for in the recordings."""
        # At a state of numbers, only Parameters are left as symbols of what a sensor shows.
        n, m = self.model.configuration.ambient, self.model.configuration.tangent
        q, v = (ca.SX(ca.DM(np.linspace(0.1, 0.9, size))) for size in (n, m))
        state = State(self.model, q, v, v, dict.fromkeys(self.model.signals, ca.SX(1)), ca.SX(1))
        shown = [channel.predicted(state) for channel in self.channels if channel.is_free_form]
        own = [residual.rows(*[state] * residual.states) for residual in self.residuals]
        beside = [expression for channel in self.channels for expression in channel.expressions()]
        expressions = [*self.model.expressions(), *shown, *beside, *own]
        related = [difference for relation in self.constraints for difference, _ in relation.rows]
        declared = parameters_in([*expressions, *related], self.what)
        self._check_related(parameters_in(expressions, self.what))
        several = self.recordings
        names = several.names if isinstance(several, RecordingFiles) else tuple(one.name for one in several)
        return ParameterSet(declared, names)

    def _check_related(self, used: Sequence[Parameter]) -> None:
        """Refuse a constraint of which nothing stands in the model, the sensors or the residuals."""
        known = {p.name for p in used}
        for relation in self.constraints:
            for title, (difference, _) in zip(relation.titles, relation.rows, strict=True):
                related = [p.name for p in parameters_in([difference], self.what)]
                if not set(related) & known:
                    names = ", ".join(related)
                    raise ProblemError(
                        f"{relation.place}: constraint {title!r}: {names} stands in no model, sensor or residual of "
                        "this problem; relate Parameters that do"
                    )

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """All parameters of the model and its sensors, in the order of their declaration, those of each recording."""
        return self.parameter_set.every

    @cached_property
    def free(self) -> tuple[Parameter, ...]:
        """Parameters to estimate."""
        declared = self.parameter_set.declared_names
        return tuple(p for p in self.parameters if not {p.name, declared.get(p.name)} & set(self.fixed))

    @cached_property
    def delays(self) -> tuple[str, ...]:
        """Names of the parameters in the delays of sensors and inputs, those of each recording too."""
        late = [*(channel.delay for channel in self.channels), *(one.delay for one in self.model.inputs)]
        declared = parameters_in(late, self.what)
        return tuple({p.name: p for d in declared for p in (d, *self.parameter_set.of(d))})

    @cached_property
    def guess(self) -> dict[str, float]:
        """Guess of every parameter, by name."""
        return {p.name: p.guess for p in self.parameters} | self.given

    @cached_property
    def given(self) -> dict[str, float]:
        """Guesses in the place of those declared, by the name of each parameter."""
        return {name: float(value) for name, value in self.parameter_set.expanded(self.initial).items()}

    @checked
    def guess_on(self, recording: str | None = None) -> dict[str, float]:
        """Guess of every parameter, and by the names of what was declared those of a recording; None: of the first."""
        return self.parameter_set.on(self.guess, recording)

    @property
    def scheme(self) -> Scheme[Any]:
        """The stepper with the form of dry friction and of what is random."""
        return self.stepper.fitting(self.model, DryFriction(cast(Form, self.friction)), self.dynamics)

    def with_(self, **changes: Any) -> Self:
        """A copy with any of the arguments changed; what it says of recordings that it has no longer is forgotten.

        Raises:
            ProblemError: for a name that is no argument, or a value that is refused.
        """
        unknown = set(changes) - set(self.__dataclass_fields__)
        if unknown:
            raise ProblemError(
                f"{self.what} has no setting {min(unknown)!r}; it has {_list(self.__dataclass_fields__)}"
            )
        type(self).admits(**changes)
        recordings = changes.get("recordings", self.recordings)
        if self.parameter_set.own and recordings is not self.recordings:
            recordings = changes["recordings"] = collected(recordings, Recording, f"{self.what}: recordings")
            said, names = {*self.initial, *self.fixed}, [recording.name for recording in recordings]
            gone = self.parameter_set.gone(said, names)
            kept = {name: value for name, value in self.initial.items() if name not in gone}
            changes = {"initial": kept, "fixed": set(self.fixed) - gone, **changes}
        follows = self.follows_motion and "step" not in changes
        if follows and not _TELLS_STEP.isdisjoint(changes):
            changes["step"] = None
        changed = self._changed(changes)
        if follows:
            object.__setattr__(changed, "follows_motion", True)
        return changed

    def _changed(self, changes: Mapping[str, Any]) -> Self:
        """A copy that finds out again only what the changes may change."""
        changed = copy(self)
        kept = {*self.__dataclass_fields__, *(("channels", "parameter_set") if _DECLARES.isdisjoint(changes) else ())}
        for name in set(changed.__dict__) - kept:
            del changed.__dict__[name]
        changed.__dict__.update(changes)
        changed.__post_init__()
        return changed


def _list(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"


def fitting_step(recordings: Sequence[Recording], sensors: Sequence[Sensor], cutoff: float) -> float | None:
    """The shortest of the longest steps that the motions of joints allow [s]; None if no joint is seen to move."""
    found = [
        longest_step(
            recording,
            sensor.signal,
            angle=sensor.measured.unit == "rad",
            scale=at_guess(sensor.each("scale")[0]).item(),
            cutoff=cutoff,
        )
        for recording in recordings
        for sensor in sensors
        if isinstance(sensor, JointPosition) and sensor.signal in recording.signals
    ]
    moving = [step for step in found if np.isfinite(step)]
    return min(moving, default=None)
