"""Energy observations: measured work of motors against what the mechanism has gained and lost.

Over a step, by the midpoint rule (Martinez et al., eqs. 62 and 63, of second order in h),

    r = Σ ∫ v̂ τ̂ dt − [E(x₊) − E(x)] − h P(x̄),

with measured rates and efforts v̂, τ̂, kinetic energy and that of gravity E, and the power P that all else takes at the
mean x̄ of the two states. Its variance is h² Σ (τ̂² σ_v² + v̂² σ_τ²) and the square of a floor, the error of the rule.

**It is no further evidence.** The equations of motion say dE/dt + P = v τ, so that at the true motion r is what the
noise of rates and efforts make it: h Σ (τ̂ e_v + v e_τ). Sensors and equations of motion have rows of e_v and e_τ
already, of which r is a combination; a likelihood of all rows together would give it no weight. It moves estimates
towards what balances work, which helps where the other rows are weighted wrongly, as with a weight κ that is given.
Standard errors, therefore, are never smaller than those of the block jackknife, in which rows that err together count
as they scatter.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any

import casadi as ca
import numpy as np

from spookid.data.arrays import FloatArray
from spookid.data.channels import Channel
from spookid.data.inputs import lagged
from spookid.data.recording import Recording
from spookid.data.residual import Residual
from spookid.data.sampling import Grid, finite_samples, low_passed
from spookid.data.sensors import JointPosition, JointRate
from spookid.data.state import State
from spookid.errors import ProblemError, declared_at
from spookid.mechanics import rotations
from spookid.mechanics.gear_friction import gear_efforts
from spookid.mechanics.joint_coordinates import along, energy, kinetic_energy
from spookid.mechanics.loads import Efforts
from spookid.mechanics.model import Model
from spookid.mechanics.motor import Motor
from spookid.parameter import number, parameters_in, stacked
from spookid.records import dataclass


@dataclass(frozen=True, eq=False)
class EnergyBalance(Residual):
    """Residual of each step between the measured work of all motors and the change of the mechanism's energy:
    ``Problem(..., residuals=[EnergyBalance()])``.

    Each motor's coordinate needs a ``JointRate``, or a ``JointPosition`` whose differences are its work per torque. The
    standard deviation of each row follows from those of the rates' and efforts' samples (``sigma`` of the sensors, of
    measured efforts from third differences of their samples, as of sensors that have none) and from a floor, the rule's
    error along all power that moves bodies, of springs and gravity too. It adds no information; standard errors take
    account of that (see above).

    >>> driven = Model([rod], [hinge], [Motor(hinge, "u", measured=True)], gravity=gravity(9.81))
    >>> balanced = Problem("balanced", driven, observations=[JointRate(hinge, "rate")], residuals=[EnergyBalance()])

    Raises:
        ProblemError: when a problem is declared with it: for friction that depends on loads, contacts that switch,
            motors whose coordinate has no such sensor, or no motor.
    """

    name: str = "energy"
    expression: Callable[..., Any] = field(default=lambda before, after: None, repr=False)
    sigma: Any = 1.0
    """Factor of the rows' standard deviations."""
    place: str = field(default_factory=declared_at, repr=False)

    is_repeated = True

    def check(self, model: Model) -> None:
        """Raise ProblemError if the model does not support the energy balance."""
        if not model.motors:
            raise ProblemError(f"{self._what}: there are no motors; declare those whose work was measured")
        if rubbing := [joint.name for joint in model.joints if joint.follows_load]:
            raise ProblemError(f"{self._what}: friction of {rubbing[0]!r} depends on its load; make it coulomb")
        if switching := [contact for contact in model.holding.contacts if contact.switches]:
            raise ProblemError(
                f"{self._what}: {switching[0].kind} {switching[0].name!r} holds at times, and a touchdown takes energy "
                "that no motor's work shows; leave the balance out"
            )
        super().check(model)

    def data(self, model: Model) -> int:
        """Number of measured values that the energy balance uses at each step."""
        return 2 * len(model.motors) + 1

    def rows(self, *states: State, data: ca.SX | None = None) -> ca.SX:
        """Residual of one step: (measured work − energy gained − energy lost)/σ_E, (1,).

        Args:
            data: ∫ v̂ u dt of each motor, ∫ v̂ dt of its coordinate, and sigma [J], one below the other.
        """
        before, after = states
        model, m = before.model, len(before.model.motors)
        data = ca.SX.ones(self.data(model)) if data is None else data
        work = ca.SX(0)
        for i, motor in enumerate(model.motors):
            work += motor.unit_effort * data[i] + motor.offset * data[m + i]
        joints = stacked(before.rate(joint) for joint in model.joints)
        then = stacked(after.rate(joint) for joint in model.joints)
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
        """Measured data of the energy balance along a recording, (N − 1, 2 m + 1).

        Args:
            states: initial values at the steps, (N, 13 n_b).

        Raises:
            ProblemError: if a motor's coordinate has no sensor.
        """
        found = [self._work(recording, motor, _sensor(self, motor, channels), steps, values) for motor in model.motors]
        signals, moved, variance, power = (np.array(part).T for part in zip(*found, strict=True))
        gained = np.diff(low_passed(_kinetic(model, states, values), 1 / steps.step, 1 / (8 * steps.step)))
        bends = [np.diff(part, 2) for part in (steps.step * np.sum(power, axis=1), gained)]
        # Of h³ p̈ the midpoint's rule errs by 1/24, the trapezoid's by 1/12.
        floor = max((float(np.sqrt(np.mean(bend**2))) for bend in bends if len(bend)), default=0.0) / 12
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
        if lag := number(motor.lag, values):
            u_t, u, _ = lagged(u_t, u, lag, motor.hold != "previous")
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
        before = np.maximum(np.searchsorted(u_t, middle, side="right") - 1, 0)
        effort = np.interp(middle, u_t, u) if lag or motor.hold != "previous" else u[before]
        starts = np.searchsorted(fine, times[:-1])
        signals, moved = (np.add.reduceat(part, starts) for part in (effort * pieces, pieces))
        mean, h = signals / np.where(moved == 0, 1.0, moved), steps.step
        mean = np.where(moved == 0, np.interp(times[:-1] + h / 2, u_t, u), mean) * gain
        of_moved = 2 * sigma**2  # variance of ∫ v̂ dt over a step
        if isinstance(channel.sensor, JointRate):
            of_moved = sigma**2 * h * min(float(np.median(np.diff(y_t))), h)
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
    """Standard deviation of white noise in samples of something smooth, of whose variance third differences have the
    sum of the squares of 1, 3, 3, 1 (von Neumann, Ann. Math. Statist. 12, 1941)."""
    return math.sqrt(float(np.mean(np.diff(values, 3) ** 2)) / math.comb(6, 3)) if len(values) > 3 else 0.0


def _kinetic(model: Model, states: FloatArray, values: Mapping[str, float]) -> FloatArray:
    """Kinetic energy along states (N, 13 n_b), (N,)."""
    x, n = ca.SX.sym("x", states.shape[1]), model.configuration.ambient
    state = State(model, x[:n], x[n:])
    energy_of = kinetic_energy(model, state.v, stacked(state.rate(joint) for joint in model.joints))
    known = parameters_in([energy_of], "the energy", ignore=[x])
    function = ca.Function("kinetic", [x, stacked(known)], [energy_of])
    return np.asarray(function(states.T, ca.DM([values[p.name] for p in known])).full()[0])


def _lost(before: State, after: State) -> ca.SX:
    """Power that all but gravity and the signals of motors takes, at the mean of two states [W]."""
    model = before.model
    taken = ca.SX(0)
    widths = ca.SX.ones(len(model.freedoms)) if before.widths is None else before.widths
    sides = [
        gear_efforts(model, one.q, model.displacements(one.q), model.rates(one.q, one.v), inputs, widths)
        for one, inputs in ((one, stacked(one.inputs[signal] for signal in model.signals)) for one in (before, after))
    ]
    motors, weights = (sum(parts, ca.SX(0)) / 2 for parts in zip(*((s.motor, s.external) for s in sides), strict=True))
    efforts = Efforts(motors, weights, before.inputs)
    middle, rates = [], [(before.rate(joint) + after.rate(joint)) / 2 for joint in model.joints]
    for joint in model.joints:
        turned = after.angle(joint) - before.angle(joint)
        turns = [c.period for c in joint.coordinates]
        turned = stacked(
            turned[i] if period is None else rotations.wrapped(turned[i]) for i, period in enumerate(turns)
        )
        middle.append(joint.in_range(before.angle(joint) + turned / 2))
    motion = stacked(middle), stacked(rates)
    for joint, at, rate in zip(model.joints, middle, rates, strict=True):
        own = model.freedoms_of(joint)
        taken -= ca.dot(rate, along(model, joint, at, rate, before.inputs, widths[own, 0], efforts[own], motion))
    for motor in model.motors:
        rate = (before.rate(motor.joint) + after.rate(motor.joint))[motor.coordinate] / 2
        taken += motor.damping * rate**2
    if model.loads:
        for state in (before, after):
            u = stacked(state.inputs[signal] for signal in model.signals)
            taken -= ca.dot(state.v, model.pushed(state.q, state.v, u)) / 2
    return taken
