"""Friction and drag along the coordinates of a joint, and smooth functions that replace the sign of a slip rate.

Every coefficient is a number, an expression of Parameters, an ``Asymmetric``, a ``Fourier``, or one of these for each
coordinate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import casadi as ca

from spookid.errors import ProblemError, declared_at, shown
from spookid.mechanics.coefficients import Coefficient, is_plain, load_coefficient
from spookid.mechanics.loads import Bound, Load
from spookid.parameter import Parameter, is_zero


class Viscous(Load):
    """Viscous friction torque or force −b s at the velocity s of a joint coordinate.

    >>> bearing = Hinge("bearing", GROUND.frame(), arm.frame(), loads=[Viscous(0.01)])

    Args:
        b: [N m s or N s/m]. If it differs by direction, the slope changes over the width of smooth friction.

    Raises:
        ProblemError: for a negative fixed coefficient.
    """

    def __init__(self, b: Any) -> None:
        self._b = load_coefficient(b, f"{declared_at()}: Viscous")
        self.reported = {"viscous": self._b}

    def effort(self, position: ca.SX, rate: ca.SX, inputs: ca.SX) -> ca.SX:
        return _against(self._b, position, rate, ca.fabs(rate))

    def smooth_effort(self, position: ca.SX, rate: ca.SX, inputs: ca.SX, width: ca.SX) -> ca.SX:
        """Effort −b s; if b depends on the direction, s tanh(s/w) replaces |s|."""
        return _against(self._b, position, rate, rate * smooth_sign(rate, width))


class Drag(Load):
    """Quadratic drag torque or force −d s|s| at the velocity s of a joint coordinate.

    >>> blade = Hinge("blade", GROUND.frame(), arm.frame(), loads=[Drag(0.002)])

    Args:
        d: [N m s² or N s²/m²].

    Raises:
        ProblemError: for a negative fixed coefficient.
    """

    def __init__(self, d: Any) -> None:
        self._d = load_coefficient(d, f"{declared_at()}: Drag")
        self.reported = {"drag": self._d}

    def effort(self, position: ca.SX, rate: ca.SX, inputs: ca.SX) -> ca.SX:
        """Effort −d s|s|, which is differentiable at rest."""
        return _against(self._d, position, rate * ca.fabs(rate), rate**2)


def _against(coefficient: Coefficient, position: ca.SX, flow: ca.SX, size: ca.SX) -> ca.SX:
    """What acts against a flow, of a coefficient that may differ by its direction."""
    forward, backward = coefficient.at(position)
    if backward is None:
        return -forward * flow
    return -(forward + backward) / 2 * flow - (forward - backward) / 2 * size


class Friction(Load):
    """Dry friction of a joint: Coulomb friction, load-dependent friction, and the Stribeck effect (4.1).

    If Parameters of a ``Fourier`` make the bound negative, friction drives: give its mean a lower bound.

    >>> motor = Hinge("motor", GROUND.frame(), arm.frame(), loads=[Friction(coulomb=0.1, stribeck=(0.05, 2.0))])

    Args:
        coulomb: c [N m or N].
        load_friction: μ [m, with r = 1 m].
        stribeck: (δ, ζ): δ exp(−ζ s²) is added to μ, or to c if there is no μ, s of the step before.

    Raises:
        ProblemError: for negative fixed values, or a ``stribeck`` without exactly one of ``coulomb`` and
            ``load_friction``.
    """

    def __init__(self, coulomb: Any = 0, load_friction: Any = 0, stribeck: Any = None) -> None:
        what = f"{declared_at()}: Friction"
        given = {"coulomb": coulomb, "load_friction": load_friction}
        if stribeck is not None:
            given |= dict(zip(("stribeck delta", "stribeck zeta"), _pair(stribeck, what), strict=True))
        self._values = {name: load_coefficient(value, f"{what}: {name}") for name, value in given.items()}
        self.reported = self._values
        self._follows_load = not self._values["load_friction"].is_absent
        if stribeck is not None and self._follows_load != self._values["coulomb"].is_absent:
            raise ProblemError(f"{what} has stribeck, which adds to load_friction or to coulomb; give one of them")

    def bound_at(self, position: ca.SX, rate: ca.SX) -> Bound:
        """(μ, c), Stribeck's term included."""
        sides = {name: value.at(position) for name, value in self._values.items()}
        forward = self._bound({name: side[0] for name, side in sides.items()}, rate)
        if all(side[1] is None for side in sides.values()):
            return forward
        behind = {name: side[0] if side[1] is None else side[1] for name, side in sides.items()}
        return Bound.sided(forward, self._bound(behind, rate))

    def _bound(self, values: Mapping[str, ca.SX], rate: ca.SX) -> Bound:
        still = ca.SX.zeros(rate.numel())
        load, constant = values["load_friction"], values["coulomb"]
        if "stribeck delta" not in values:
            return Bound(load + still, constant + still)
        extra = values["stribeck delta"] * ca.exp(-values["stribeck zeta"] * rate**2)
        return Bound(load + extra, constant + still) if self._follows_load else Bound(load + still, constant + extra)


def _pair(value: Any, what: str) -> Sequence[Any]:
    pair = ca.vertsplit(ca.vec(value)) if isinstance(value, ca.SX) else value
    if not (isinstance(pair, (list, tuple)) and len(pair) == 2):
        raise ProblemError(f"{what}: stribeck is {shown(value)}; give a pair (delta, zeta)")
    return pair


_NEAR = 1e-3  # half the difference of two slips over the width below which its fourth power is rounding


def smooth_absolute(impulse: ca.SX, width: ca.SX) -> ca.SX:
    """Smooth absolute value √(λ² + δ²), with an error of at most δ."""
    return ca.sqrt(impulse**2 + width**2)


def smooth_sign(slip: ca.SX, width: ca.SX) -> ca.SX:
    """Smooth sign tanh(s/δ) of the slip rate s; sticking becomes creep at a rate of about δ."""
    return ca.tanh(slip / width)


def mean_sign(begin: ca.SX, end: ca.SX, width: ca.SX) -> ca.SX:
    """Mean of tanh(s/δ) over slip rates from s to s₊, δ (ln cosh(s₊/δ) − ln cosh(s/δ))/(s₊ − s): the average friction
    of a joint that reverses within a step (a discrete gradient; Gonzalez, J. Nonlinear Sci. 6, 1996)."""
    a, b = begin / width, end / width
    sign = ca.tanh((a + b) / 2)
    half = (b - a) / 2
    near = ca.fabs(half) < _NEAR  # where the difference has too few digits, the first terms of its series do
    rise = _log_cosh(b) - _log_cosh(a)
    return ca.if_else(near, sign * (1 - half**2 / 3 * (1 - sign**2)), rise / ca.if_else(near, 1.0, 2 * half))


def _log_cosh(x: ca.SX) -> ca.SX:
    """ln 2cosh x without overflow."""
    return ca.fabs(x) + ca.log1p(ca.exp(-2 * ca.fabs(x)))


class ContinuousFriction(Load):
    """Dry friction as a smooth function of the velocity s; at rest the joint creeps instead of sticking::

        −σ (tanh(s/v_s + s/v_b) − tanh(s/v_s)) − c tanh(s/v_c) − b s

    This is Makkar, Dixon, Sawyer and Hu (AIM 2005), and (56) of Martinez, Tonneau and Mastalli with γ₀ = σ, γ₁ = 1/v_s,
    γ₂ = 1/v_s + 1/v_b, γ₃ = c, γ₄ = 1/v_c and γ₅ = b. It dissipates at every rate, as γ₂ ≥ γ₁ holds for all v_b; (57)
    prints the reverse. Use an expression where bounds of a Parameter do not suffice: exp(μ) is positive.

    Use it with ``viscous`` and ``coulomb`` of a joint, or instead of them. If two terms are alike at large rates, data
    determine only their sum. A step takes friction at its middle rate, so near rest rates should change by at most v_b
    in it.

    Each argument is a number, an expression of Parameters, or one for each coordinate; all but velocities may be a
    ``Fourier``.

    Args:
        stiction: σ [N m or N], excess of friction near rest over ``coulomb``; reached fully if v_b is far below v_s.
        stribeck_velocity: v_s [rad/s or m/s], around which the excess vanishes.
        breakaway_velocity: v_b [rad/s or m/s], around which the excess is reached.
        coulomb: c [N m or N].
        coulomb_velocity: v_c [rad/s or m/s], around which Coulomb friction is reached; None: ``breakaway_velocity``.
        viscous: b [N m s or N s/m].

    Raises:
        ProblemError: for values that are negative, or Parameters that may become so; for velocities that are or may
            become zero; and for missing velocities.
    """

    def __init__(
        self,
        *,
        stiction: Any = 0,
        stribeck_velocity: Any = None,
        breakaway_velocity: Any = None,
        coulomb: Any = 0,
        coulomb_velocity: Any = None,
        viscous: Any = 0,
    ) -> None:
        what = f"{declared_at()}: ContinuousFriction"
        rising = breakaway_velocity if coulomb_velocity is None else coulomb_velocity
        efforts = {"stiction": stiction, "coulomb": coulomb, "viscous": viscous}
        velocities = {
            "stribeck_velocity": stribeck_velocity,
            "breakaway_velocity": breakaway_velocity,
            "coulomb_velocity": rising,
        }
        self._efforts = {name: _taken(value, f"{what}: {name}") for name, value in efforts.items()}
        needed = {"stiction": ("stribeck_velocity", "breakaway_velocity"), "coulomb": ("coulomb_velocity",)}
        wanted = [v for name, names in needed.items() if not self._efforts[name].is_absent for v in names]
        for name in (name for name in wanted if velocities[name] is None):
            raise ProblemError(f"{what} has no {name}; give the rate [rad/s or m/s]")
        self._velocities = {name: _taken(velocities[name], f"{what}: {name}", rate=True) for name in wanted}
        shown = [name for name in wanted if name != "coulomb_velocity" or coulomb_velocity is not None]
        self.reported = {**self._efforts, **{name: self._velocities[name] for name in shown}}

    @property
    def velocities(self) -> tuple[ca.SX, ...]:
        """Velocities v_s, v_b and v_c of the friction law that are given [rad/s or m/s]."""
        return tuple(value for one in self._velocities.values() for _, _, value in one.listed())

    def effort(self, position: ca.SX, rate: ca.SX, inputs: ca.SX) -> ca.SX:
        stiction, coulomb, viscous = (one.at(position)[0] for one in self._efforts.values())
        at = {name: rate / one.at(position)[0] for name, one in self._velocities.items()}
        total = viscous * rate
        if "stribeck_velocity" in at:
            past, risen = ca.tanh(at["stribeck_velocity"]), ca.tanh(at["breakaway_velocity"])
            total += stiction * risen * (1 - past**2) / (1 + past * risen)  # no difference: rounding does not drive
        if "coulomb_velocity" in at:
            total += coulomb * ca.tanh(at["coulomb_velocity"])
        return -total


def _taken(value: Any, what: str, rate: bool = False) -> Coefficient:
    """One that cannot be negative, or zero if it is a rate."""
    if rate and not is_plain(value):
        raise ProblemError(f"{what} does not vary with the position; give a number or an expression")
    found = load_coefficient(value, what, sided=False)
    for entry in (entry for entry in found.forward if isinstance(entry, ca.SX)):
        if rate and is_zero(entry):
            raise ProblemError(f"{what} is 0; it must be positive")
    for one in value if isinstance(value, (list, tuple)) else [value]:
        if isinstance(one, Parameter) and (one.lower < 0 or (rate and one.lower == 0)):
            least = "a positive bound" if rate else "lower=0"
            raise ProblemError(f"{what} is Parameter {one.name!r}, whose bounds let it create energy; give it {least}")
    return found
