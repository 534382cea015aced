"""Friction of a joint as one law with slopes everywhere: stiction, Coulomb's friction, Stribeck's fall, damping."""

from __future__ import annotations

from typing import Any

import casadi as ca

from spookid.errors import ProblemError, declared_at
from spookid.mechanics.coefficients import Coefficient, is_plain, load_coefficient
from spookid.mechanics.loads import Load
from spookid.parameter import Parameter, is_zero


class ContinuousFriction(Load):
    """Friction against the rate s, with a slope at rest too, where it creeps instead of sticking::

        −σ (tanh(s/v_s + s/v_b) − tanh(s/v_s)) − c tanh(s/v_c) − b s

    This is Makkar, Dixon, Sawyer and Hu (AIM 2005), and (56) of Martinez, Tonneau and Mastalli with γ₀ = σ, γ₁ = 1/v_s,
    γ₂ = 1/v_s + 1/v_b, γ₃ = c, γ₄ = 1/v_c and γ₅ = b. It dissipates at every rate, as γ₂ ≥ γ₁ holds for all v_b; (57)
    prints the reverse. Of what a Parameter cannot say by its bounds, an expression must take care: exp(μ) is positive.

    It stands beside ``viscous`` and ``coulomb`` of a joint, or in their place: of two that are alike at large rates
    data tell the sum alone. A step takes friction at its middle rate, so near rest rates should change by v_b in it at
    most.

    Each argument is a number, an expression of Parameters, or one for each coordinate; those that are no velocities
    may be a ``Fourier``.

    Args:
        stiction: σ [N m or N], by which friction near rest rises above ``coulomb``; all of it where v_b is far below
            v_s.
        stribeck_velocity: v_s [rad/s or m/s], around which that is gone.
        breakaway_velocity: v_b [rad/s or m/s], around which it has risen.
        coulomb: c [N m or N].
        coulomb_velocity: v_c [rad/s or m/s], around which Coulomb's friction has risen; None: ``breakaway_velocity``.
        viscous: b [N m s or N s/m].

    Raises:
        ProblemError: for a fixed value that is negative, or a Parameter that its bounds let be so; of velocities that
            are or may be zero, too; and without the velocities that a value needs.
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
        """v_s, v_b and v_c as they were given, as far as the law has them [rad/s or m/s]."""
        return tuple(value for one in self._velocities.values() for _, _, value in one.listed())

    def effort(self, position: ca.SX, rate: ca.SX, inputs: ca.SX) -> ca.SX:
        """Against the rate."""
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
