"""Residuals of one's own: what is known of a motion beside its mechanics and its sensors.

Energy observations: measured work of motors against what the mechanism has gained and lost.

Over a step, by the midpoint rule (Martinez et al., eqs. 62 and 63, of second order in h),

    r = Σ ∫ v̂ τ̂ dt − [E(x₊) − E(x)] − h P(x̄),

with measured rates and efforts v̂, τ̂, kinetic energy and that of gravity E, and the power P that all else takes at the
mean x̄ of the two states. Its variance is h² Σ (τ̂² σ_v² + v̂² σ_τ²) and the square of a floor, the error of the rule.

**It is no further evidence.** The equations of motion say dE/dt + P = v τ, so that at the true motion r is what the
noise of rates and efforts make it: h Σ (τ̂ e_v + v e_τ). Sensors and equations of motion have rows of e_v and e_τ
already, of which r is a combination; a likelihood of all rows together would give it no weight. It moves estimates
towards what balances work, which helps where the other rows are weighted wrongly, as with a state weight that is given.
Standard errors, therefore, are never smaller than those of the block jackknife, in which rows that err together count
as they scatter.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from inspect import signature
from typing import Any, Literal, NamedTuple

import casadi as ca
import numpy as np

from spookid.data.arrays import FloatArray, floats
from spookid.data.channels import Channel
from spookid.data.recording import Recording
from spookid.data.sampling import Grid, finite_samples, low_passed
from spookid.data.sensors import JointPosition, JointRate
from spookid.data.state import State
from spookid.doors import Door
from spookid.errors import ProblemError, declared_at, evaluating, shown
from spookid.kernels.kernel import Array
from spookid.mechanics.model import Model
from spookid.mechanics.motor import Motor
from spookid.mechanics.powers import along, energy, is_load_dependent, kinetic_energy
from spookid.parameter import number, parameters_in

KINDS = ("soft", "hard", "inequality")


@dataclass(frozen=True, eq=False)
class Residual(metaclass=Door):
    """Rows that are small, zero, or not negative at every step: ``Residual("energy", lambda s, n: ..., sigma=1e-3)``.

    Raises:
        ProblemError: if ``expression`` takes neither one state nor two, or two at the start, the kind is unknown, or a
            soft residual has not exactly one of ``sigma`` and ``covariance``, positive.
    """

    name: str
    expression: Callable[..., Any]
    """Of a ``State``, or of two neighbouring ones in the order of time; rows (n,), of Parameters too."""
    kind: Literal["soft", "hard", "inequality"] = "soft"
    """``"soft"``: normally distributed around zero; ``"hard"``: zero, in units in which 1e-6 is nothing (best with a
    given state weight, for it takes a freedom from what disturbs the motion); ``"inequality"``: not negative, in such
    units (for backend "ipopt")."""
    sigma: float | Sequence[float] | None = None
    """Standard deviation of soft rows, one for all or one each."""
    covariance: Any = None
    """Of soft rows, (n, n), in the place of ``sigma``."""
    at: Literal["start"] | None = None
    """``"start"``: the rows stand at the first state of each recording only: an angle of release, rest. The
    velocity there is that of the result: with ``Variational()`` the slope at t_0 of the parabola through the first
    three poses (of second order in h), with ``Spook()`` and ``OneStep`` the first state's own."""
    place: str = field(default_factory=declared_at, repr=False)

    is_repeated = False
    """True if its rows are made of data that other rows have too; errors are then no smaller than the jackknife's."""

    def __post_init__(self) -> None:
        if not callable(self.expression) or self.states not in (1, 2):
            raise ProblemError(f"{self._what} needs a function of one state, or of two neighbouring ones")
        if self.at not in (None, "start"):
            raise ProblemError(f'{self._what} has at={shown(self.at)}; give "start", or leave it out for every step')
        if self.at == "start" and self.states != 1:
            raise ProblemError(f"{self._what} stands at the start only; make it a function of one state")
        if self.kind not in KINDS:
            raise ProblemError(f"{self._what} is of kind {self.kind!r}; choose from {', '.join(KINDS)}")
        if (self.sigma is None) + (self.covariance is None) != (1 if self.kind == "soft" else 2):
            need = "one of sigma and covariance" if self.kind == "soft" else "neither sigma nor covariance"
            raise ProblemError(f"{self._what} is {self.kind}; give it {need}")

    @property
    def _what(self) -> str:
        return f"{self.place}: Residual {self.name!r}"

    @cached_property
    def states(self) -> int:
        """How many states it is a function of."""
        try:
            return len(signature(self.expression).parameters)
        except ValueError:  # of C code
            return 0

    def data(self, model: Model) -> int:
        """How many numbers of a recording its rows take at each step; see ``EnergyBalance``."""
        return 0

    def measured(
        self,
        recording: Recording,
        model: Model,
        channels: tuple[Channel, ...],
        steps: Grid,
        values: Mapping[str, float],
        states: Array,
    ) -> Array:
        """These numbers along a recording, (N − 1, n)."""
        raise NotImplementedError

    def rows(self, *states: State, data: ca.SX | None = None) -> ca.SX:
        """Its rows, (n,).

        Args:
            data: of a recording, as many as ``data`` says.

        Raises:
            ProblemError: if the expression cannot be evaluated.
        """
        with evaluating(self._what):
            value = self.expression(*states)
            parts = value if isinstance(value, (list, tuple)) else [value]
            return ca.densify(ca.vertcat(ca.SX(0, 1), *(ca.vec(ca.SX(part)) for part in parts)))

    def order(self, model: Model) -> int:
        """How many time derivatives of the configuration it sees: 0, 1 for velocities, 2 for accelerations."""
        states = [State.symbols(model) for _ in range(self.states)]
        rows = self.rows(*states)
        return max(state.order(rows) for state in states)

    def whitening(self, rows: int) -> Array:
        """W with which W r has unit covariance, (rows, rows); the unit matrix for other kinds.

        Raises:
            ProblemError: for sigma or a covariance of another size, or not positive.
        """
        if self.kind != "soft":
            return np.eye(rows)
        if self.covariance is None:
            sigma = np.ravel(floats(self.sigma, f"{self._what}: sigma"))
            sigma = np.full(rows, sigma[0]) if sigma.size == 1 else sigma
            if sigma.shape != (rows,) or not np.all((sigma > 0) & np.isfinite(sigma)):
                raise ProblemError(f"{self._what} has sigma {shown(self.sigma)}; give one positive number, or {rows}")
            return np.diag(1 / sigma)
        try:
            covariance = np.asarray(self.covariance, dtype=float).reshape(rows, rows)
            if not np.allclose(covariance, covariance.T, rtol=1e-9, atol=0):  # NaN is not like itself either
                raise ValueError
            return np.asarray(np.linalg.inv(np.linalg.cholesky(covariance)))
        except (ValueError, np.linalg.LinAlgError):
            what = f"{self._what}: covariance must be a symmetric, positive definite {rows} x {rows} matrix"
            raise ProblemError(what) from None

    def check(self, model: Model) -> None:
        """Raise ProblemError if it does not fit the model."""
        states = [State.symbols(model) for _ in range(self.states)]
        rows = self.rows(*states)
        if not rows.numel():
            raise ProblemError(f"{self._what} has no rows")
        moving = ca.which_depends(rows, ca.vertcat(*(x for state in states for x in (state.q, state.v))), 1, True)
        if self.kind == "hard" and not all(moving):
            raise ProblemError(
                f"{self._what} has a hard row that no state moves; write one parameter as an expression of the others"
            )
        self.whitening(rows.numel())


_THIRD = 20.0
"""Variance of third differences of white noise over its own (von Neumann, Ann. Math. Statist. 12, 1941)."""
_MIDPOINT = 1 / 12
"""Error of the rule over h³ p̈, of the midpoint's (1/24) and the trapezoid's (1/12) the larger."""


class Work(NamedTuple):
    """What was measured over each step of a recording, the data of an ``EnergyBalance``."""

    signals: FloatArray
    """∫ v̂ u dt of each motor, (N − 1, m)."""
    moved: FloatArray
    """∫ v̂ dt of its coordinate, (N − 1, m)."""
    sigma: FloatArray
    """Of the balance [J], (N − 1,)."""


@dataclass(frozen=True, eq=False)
class EnergyBalance(Residual):
    """Measured work of all motors against the energy that the mechanism gains and loses, one soft row a step:
    ``Problem(..., residuals=[EnergyBalance()])``.

    Each motor's coordinate needs a ``JointRate``, or a ``JointPosition`` whose differences are its work per torque. The
    standard deviation of each row follows from those of the rates' and efforts' samples (``sigma`` of the sensors, of
    measured efforts from third differences of their samples, as of sensors that have none) and from a floor, the rule's
    error along all power that moves bodies, of springs and gravity too. It is no further evidence; standard errors take
    account of that (see above).

    Raises:
        ProblemError: when a problem is declared with it: for friction that hangs on loads, contacts that hold at times,
            motors whose coordinate has no such sensor, or no motor.
    """

    name: str = "energy"
    expression: Callable[..., Any] = field(default=lambda before, after: None, repr=False)
    sigma: Any = 1.0
    """Factor of the rows' standard deviations."""
    place: str = field(default_factory=declared_at, repr=False)

    is_repeated = True

    def check(self, model: Model) -> None:
        """Raise ProblemError if it does not fit the model."""
        if not model.motors:
            raise ProblemError(f"{self._what}: there are no motors; declare those whose work was measured")
        if rubbing := [joint.name for joint in model.joints if is_load_dependent(joint)]:
            raise ProblemError(f"{self._what}: friction of {rubbing[0]!r} hangs on its load; make it coulomb")
        if switching := [contact for contact in model.holding.contacts if contact.switches]:
            raise ProblemError(
                f"{self._what}: {switching[0].kind} {switching[0].name!r} holds at times, and a touchdown takes energy "
                "that no motor's work shows; leave the balance out"
            )
        super().check(model)

    def data(self, model: Model) -> int:
        """How many numbers of the recording its rows take at each step."""
        return 2 * len(model.motors) + 1

    def rows(self, *states: State, data: ca.SX | None = None) -> ca.SX:
        """(measured work − energy gained − energy lost)/σ_E, (1,).

        Args:
            data: signals, moved and sigma of ``Work``, one below the other.
        """
        before, after = states
        model, m = before.model, len(before.model.motors)
        data = ca.SX.ones(self.data(model)) if data is None else data
        work = ca.SX(0)
        for i, motor in enumerate(model.motors):
            work += motor.unit_effort * data[i] + motor.offset * data[m + i]
        joints = ca.vertcat(ca.SX(0, 1), *(before.rate(joint) for joint in model.joints))
        then = ca.vertcat(ca.SX(0, 1), *(after.rate(joint) for joint in model.joints))
        gained = energy(model, after.q, after.v, then) - energy(model, before.q, before.v, joints)
        return ca.densify((work - gained - before.step * _lost(before, after)) / data[2 * m])

    def measured(
        self,
        recording: Recording,
        model: Model,
        channels: tuple[Channel, ...],
        steps: Grid,
        values: Mapping[str, float],
        states: FloatArray,
    ) -> FloatArray:
        """Its data along a recording, (N − 1, 2 m + 1).

        Args:
            states: as they are guessed at the steps, (N, 13 n_b).

        Raises:
            ProblemError: if a motor's coordinate has no sensor.
        """
        found = [self._work(recording, motor, _sensor(self, motor, channels), steps, values) for motor in model.motors]
        signals, moved, variance, power = (np.array(part).T for part in zip(*found, strict=True))
        gained = np.diff(low_passed(_kinetic(model, states, values), 1 / steps.step, 1 / (8 * steps.step)))
        bends = [np.diff(part, 2) for part in (steps.step * np.sum(power, axis=1), gained)]
        floor = _MIDPOINT * max((float(np.sqrt(np.mean(bend**2))) for bend in bends if len(bend)), default=0.0)
        sigma = np.sqrt(np.sum(variance, axis=1) + floor**2)
        if not np.all(sigma > 0):
            raise ProblemError(
                f"{self._what}: recording {recording.name!r} has steps over which nothing moves or drives, without any "
                "noise; give the sensors a sigma"
            )
        return np.column_stack([signals, moved, sigma])

    def _work(
        self, recording: Recording, motor: Motor, channel: Channel, steps: Grid, values: Mapping[str, float]
    ) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """∫ v̂ u dt, ∫ v̂ dt, the variance of the work over each step, (N − 1,), and the power at the steps, (N,)."""
        u_t, u = finite_samples(recording, motor.signal)
        y_t, y = finite_samples(recording, channel.signal)
        offset, scale, delay = (number(one, values) for one in (channel.offset, channel.scale, channel.delay))
        gain, late = number(motor.unit_effort, values), number(motor.delay, values)
        shown = np.unwrap(y, period=channel.period) if channel.period else y
        y_t, true, times = y_t - delay, (shown - offset) / scale, steps.times()
        sigma = (channel.sigma or _spread(y)) / abs(scale)
        of_motor = getattr(motor, "sigma", None) or (abs(gain) * _spread(u) if motor.measured else 0.0)
        inside = (y_t > times[0]) & (y_t < times[-1])
        fine = np.union1d(times, y_t[inside])
        if isinstance(channel.sensor, JointRate):
            rate = np.interp(fine, y_t, true)
            pieces = np.diff(fine) * (rate[1:] + rate[:-1]) / 2
        else:
            pieces = np.diff(np.interp(fine, y_t, true))
        middle = (fine[1:] + fine[:-1]) / 2 - late
        effort = np.interp(middle, u_t, u) if motor.hold == "linear" else u[_before(u_t, middle)]
        starts = np.searchsorted(fine, times[:-1])
        signals, moved = (np.add.reduceat(part, starts) for part in (effort * pieces, pieces))
        mean, h = signals / np.where(moved == 0, 1.0, moved), steps.step
        mean = np.where(moved == 0, np.interp(times[:-1] + h / 2, u_t, u), mean) * gain
        of_moved = _of_moved(channel, sigma, h, np.median(np.diff(y_t)))
        variance = mean**2 * of_moved + moved**2 * of_motor**2 * min(float(np.median(np.diff(u_t))) / h, 1.0)
        power = low_passed(gain * signals / h, 1 / h, 1 / (8 * h))
        return signals, moved, variance, power


def _sensor(residual: EnergyBalance, motor: Motor, channels: tuple[Channel, ...]) -> Channel:
    """Of the motor's coordinate: of its rate, or else of its position."""
    for kind in (JointRate, JointPosition):
        for channel in channels:
            sensor = channel.sensor
            if isinstance(sensor, kind) and (sensor.joint, sensor.coordinate) == (motor.joint, motor.coordinate):
                return channel
    raise ProblemError(
        f"{residual._what}: {motor.label!r} has no JointRate and no JointPosition, so that the work of its motor was "
        "not measured; declare one"
    )


def _spread(values: FloatArray) -> float:
    """Standard deviation of white noise in samples of something smooth."""
    return math.sqrt(float(np.mean(np.diff(values, 3) ** 2)) / _THIRD) if len(values) > 3 else 0.0


def _kinetic(model: Model, states: FloatArray, values: Mapping[str, float]) -> FloatArray:
    """Kinetic energy along states (N, 13 n_b), (N,)."""
    x, n = ca.SX.sym("x", states.shape[1]), model.configuration.ambient
    state = State(model, x[:n], x[n:])
    energy_of = kinetic_energy(model, state.v, ca.vertcat(ca.SX(0, 1), *(state.rate(joint) for joint in model.joints)))
    known = parameters_in([energy_of], "the energy", ignore=[x])
    function = ca.Function("kinetic", [x, ca.vertcat(ca.SX(0, 1), *known)], [energy_of])
    return np.asarray(function(states.T, ca.DM([values[p.name] for p in known])).full()[0])


def _before(t: FloatArray, at: FloatArray) -> Any:
    return np.maximum(np.searchsorted(t, at, side="right") - 1, 0)


def _of_moved(channel: Channel, sigma: float, step: float, interval: float) -> float:
    """Variance of ∫ v̂ dt over a step."""
    if isinstance(channel.sensor, JointRate):
        return sigma**2 * step * min(float(interval), step)
    return 2 * sigma**2


def _lost(before: State, after: State) -> ca.SX:
    """Power that all but gravity and the signals of motors takes, at the mean of two states [W]."""
    model = before.model
    taken = ca.SX(0)
    widths = ca.SX.ones(len(model.freedoms)) if before.widths is None else before.widths
    for joint in model.joints:
        own = model.freedoms_of(joint)
        turned = after.angle(joint) - before.angle(joint)
        turns = [c.period for c in joint.coordinates]
        turned = ca.vertcat(
            ca.SX(0, 1),
            *(
                turned[i] if period is None else ca.atan2(ca.sin(turned[i]), ca.cos(turned[i]))
                for i, period in enumerate(turns)
            ),
        )
        rate = (before.rate(joint) + after.rate(joint)) / 2
        middle = joint.in_range(before.angle(joint) + turned / 2)
        taken -= ca.dot(rate, along(joint, middle, rate, before.inputs, widths[own, 0]))
    for motor in model.motors:
        rate = (before.rate(motor.joint) + after.rate(motor.joint))[motor.coordinate] / 2
        taken += motor.damping * rate**2
    if model.loads:
        for state in (before, after):
            u = ca.vertcat(ca.SX(0, 1), *(state.inputs[signal] for signal in model.signals))
            taken -= ca.dot(state.v, model.pushed(state.q, state.v, u)) / 2
    return taken
