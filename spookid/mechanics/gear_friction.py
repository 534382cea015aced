"""Friction of gears, whose bound grows with the efforts that they transmit."""

from __future__ import annotations

from typing import Any

import casadi as ca

from spookid.errors import ProblemError, declared_at, shown
from spookid.kernels.precision import ROUNDING
from spookid.mechanics.coefficients import load_coefficient
from spookid.mechanics.joint_coordinates import JointCoordinates
from spookid.mechanics.loads import Bound, Efforts, Load
from spookid.mechanics.model import Model
from spookid.parameter import is_zero

_EFFORTS = ("coulomb", "stiction", "stribeck_velocity")
_SHARES = ("motor", "external", "motor_stiction", "external_stiction", "motor_square", "external_square", "exponent")


class GearFriction(Load):
    """Dry friction of a geared joint, whose bound depends on the motor effort τ_m and the gravity effort τ_e::

        c + |K_m τ_m − K_e τ_e| + exp(−|s/v_s|^α) (c_s + |K_ms τ_m − K_es τ_e| + Q)

    Q acts where τ_m and τ_e oppose each other: Q_e τ_e² if the motor is the stronger one, else Q_m τ_m². With
    ``viscous`` of the joint these are the friction models M1 to M6 of Duclusaud et al. (arXiv 2410.08650).

    >>> geared = Hinge("m3", GROUND.frame(), arm.frame(), loads=[GearFriction(0.1, motor=0.2, external=0.2)])
    >>> geared = Hinge("directional", GROUND.frame(), arm.frame(), loads=[GearFriction(0.1, motor=0.2, external=0.3)])

    τ_m is the effort of motors and servos at the coordinate, τ_e that of the weight of what the joint carries, without
    inertial forces. The friction sticks in simulations and in fits with ``friction="exact"``.

    Each argument is a number, an expression of Parameters, or one for each coordinate.

    Args:
        coulomb: c [N m or N].
        motor: K_m.
        external: K_e.
        stiction: c_s, by which friction at rest is larger [N m or N].
        motor_stiction: K_ms.
        external_stiction: K_es.
        motor_square: Q_m [1/(N m) or 1/N].
        external_square: Q_e [1/(N m) or 1/N].
        stribeck_velocity: v_s [rad/s or m/s]; needed by all that acts near rest.
        exponent: α.
        rounding: width over which absolute values and the change between Q_m and Q_e are rounded off, as a share of
            the efforts. Fits of Q_m and Q_e converge better with a wider one, such as 0.3.

    Raises:
        ProblemError: for negative fixed values, or without the ``stribeck_velocity`` that a value needs.
    """

    sees_efforts = True

    def __init__(
        self,
        coulomb: Any = 0,
        *,
        motor: Any = 0,
        external: Any = 0,
        stiction: Any = 0,
        motor_stiction: Any = 0,
        external_stiction: Any = 0,
        motor_square: Any = 0,
        external_square: Any = 0,
        stribeck_velocity: Any = None,
        exponent: Any = 2,
        rounding: float = 0.1,
    ) -> None:
        what = f"{declared_at()}: GearFriction"
        if not 0 < rounding < 1:
            raise ProblemError(f"{what}: rounding is {shown(rounding)}; give a share of the efforts between 0 and 1")
        near = {"stiction": stiction, "motor_stiction": motor_stiction, "external_stiction": external_stiction}
        near |= {"motor_square": motor_square, "external_square": external_square}
        given = {"coulomb": coulomb, "motor": motor, "external": external, **near}
        self._values = {name: load_coefficient(value, f"{what}: {name}", sided=False) for name, value in given.items()}
        self._stribeck = [name for name in near if not self._values[name].is_absent]
        if self._stribeck:
            if stribeck_velocity is None:
                raise ProblemError(
                    f"{what} has {self._stribeck[0]} and no stribeck_velocity; give the rate [rad/s or m/s]"
                )
            rates = {"stribeck_velocity": stribeck_velocity, "exponent": exponent}
            for name, value in rates.items():
                self._values[name] = load_coefficient(value, f"{what}: {name}", sided=False, varying=False)
                if any(is_zero(entry) for _, _, entry in self._values[name].listed()):
                    raise ProblemError(f"{what}: {name} is 0; it must be positive")
        self._rounding = float(rounding)
        self.reported = self._values

    def bound_under(self, position: ca.SX, rate: ca.SX, efforts: Efforts) -> Bound:
        """Friction bound c of each coordinate for given efforts of the motor and of gravity."""
        own = {name: value.at(position)[0] for name, value in self._values.items()}
        motor, external = efforts.motor, efforts.external
        total = own["coulomb"] + self._size(own["motor"] * motor, own["external"] * external)
        if self._stribeck:
            relative = (rate / own["stribeck_velocity"]) ** 2 + ROUNDING
            pair = own["motor_stiction"] * motor, own["external_stiction"] * external
            extra = own["stiction"] + self._size(*pair) + self._squares(own, motor, external)
            total += ca.exp(-(relative ** (own["exponent"] / 2))) * extra
        return Bound(ca.SX.zeros(rate.numel()), total + ca.SX.zeros(rate.numel()))

    def expressions(self, coordinates: int) -> list[ca.SX]:
        """All expressions that may contain a Parameter, including those that have no effect in the example state."""
        own = [value for one in self._values.values() for _, _, value in one.listed()]
        return [*super().expressions(coordinates), *own]

    def _size(self, a: ca.SX, b: ca.SX) -> ca.SX:
        """|a − b|, rounded off over a share of both."""
        return _root((a - b) ** 2 + self._rounding**2 * (a**2 + b**2))

    def _squares(self, own: dict[str, ca.SX], motor: ca.SX, external: ca.SX) -> ca.SX:
        if not {"motor_square", "external_square"} & set(self._stribeck):
            return ca.SX(0)
        larger, smaller = _root(motor**2), _root(external**2)
        driving = (1 + ca.tanh((larger - smaller) / (self._rounding * (larger + smaller)))) / 2
        square = driving * own["external_square"] * external**2 + (1 - driving) * own["motor_square"] * motor**2
        return ca.if_else(motor * external < 0, square, 0)


def _root(square: ca.SX) -> ca.SX:
    return ca.sqrt(square + ROUNDING)


def gear_efforts(model: Model, q: ca.SX, position: ca.SX, rates: ca.SX, u: ca.SX, width: ca.SX) -> Efforts:
    """Efforts of motors and of gravity along the coordinates of all joints, (n_s,); 0 if no friction bound needs them.

    Args:
        q: poses of all bodies, on which the joints hold, (7 n_b,).
        position: coordinates of the joints, (n_s,).
        rates: their rates, (n_s,).
        u: inputs, (n_u,).
        width: of smooth friction, (n_s,).

    Raises:
        ProblemError: for gears in a closed loop, where the weight that they carry is not determined.
    """
    motor, external = (ca.SX(len(model.freedoms), 1) for _ in range(2))
    inputs = model.by_signal(u)
    geared = [joint for joint in model.joints if any(load.sees_efforts for load in joint.loads)]
    if not geared:
        return Efforts(motor, external, inputs)
    if model.has_loops:
        raise ProblemError(
            f"{geared[0].place}: {geared[0].kind} {geared[0].name!r} has GearFriction in a model with closed loops, "
            "where the weight that a joint carries is not determined; use Friction"
        )
    for joint in geared:
        own = model.freedoms_of(joint)
        for servo in (servo for servo in model.servos if servo.joint is joint):
            motor[own] += servo.mean_effort(position[own, 0], rates[own, 0], inputs)
    for one in model.motors:
        place = model.freedoms_of(one.joint).start + one.coordinate
        motor[place] += one.driving_effort(inputs[one.signal]) - one.damping * rates[place]
    joints = JointCoordinates(model)
    carried = joints.transmitted(q, model.weight()).along
    for row, place in enumerate(joints.places):
        if place < len(model.freedoms):
            external[place] = carried[row]
    return Efforts(model.in_motion(ca.densify(motor), (position, rates), inputs), ca.densify(external), inputs)
