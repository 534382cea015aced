"""Joints between bodies, and the motors that drive them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import casadi as ca

from spookid.errors import ProblemError, declared_at, shown
from spookid.mechanics.body import Body, Frame
from spookid.parameter import expression, is_constant, symbolic

ROWS = 5
"""Constraint rows of a hinge: three of position, two of direction."""

_NOT_NEGATIVE = ("damping", "viscous", "dry", "coulomb", "drag", "stiffness")


@dataclass(frozen=True, eq=False)
class Hinge:
    """A regularized hinge (Marklund et al., Appendix F) about the x axes of two frames.

    Its angle is zero where the y axes agree and grows with a right-handed turn of the child about x. Everything but
    the frames is a number or an expression of Parameters.

    Raises:
        ProblemError: for a negative fixed coefficient, a hinge of a body to itself, or a ``stribeck`` without exactly
            one of ``dry`` and ``coulomb``.
    """

    name: str
    parent: Frame
    """Frame a of the paper."""
    child: Frame
    """Frame b of the paper."""
    compliance: Any = 1e-4
    """ε: (linear [m/N], angular [rad/(N m)]), or one number for both."""
    damping: Any = 0.02
    """τ, relaxation time of the constraint [s]."""
    viscous: Any = 0
    """b [N m s]: torque −b s of the slip rate s."""
    dry: Any = 0
    """μ [m, with r = 1 m]: dry friction bounded by μ Σ|λ_i| over the hinge's constraint impulses."""
    coulomb: Any = 0
    """c [N m]: dry friction of constant bound h c."""
    stribeck: Any = None
    """(δ, ζ): adds δ exp(−ζ s²) to ``dry`` or ``coulomb`` (4.1), δ in its unit, ζ [s²], s of the step before."""
    drag: Any = 0
    """d [N m s²]: torque −d s|s|."""
    stiffness: Any = 0
    """k [N m]: torque −k (θ − θ₀), θ in (−π, π]."""
    rest_angle: Any = 0
    """θ₀ [rad]."""
    disturbance: float | None = None
    """Size of the random torque about its axis [N m/√Hz]; None: it is estimated."""
    limits: Any = None
    """(lower, upper) [rad]: the angle stays between them, less than a turn apart; each pushes back only, with the
    hinge's angular compliance and damping. Needs ``friction="exact"``."""
    place: str = field(default_factory=declared_at, repr=False)

    def __post_init__(self) -> None:
        what = f"{self.place}: Hinge {self.name!r}"
        for side in (self.parent, self.child):
            if not isinstance(side, Frame):
                raise ProblemError(
                    f"{what} joins {shown(side)}, which is no frame; use body.frame(...) or GROUND.frame(...)"
                )
        if self.parent.body is self.child.body:
            raise ProblemError(f"{what} joins {self.parent.body.name!r} to itself")
        compliance = expression(self.compliance, f"{what}: compliance")
        compliance = ca.vec(compliance) if compliance.numel() == 2 else ca.repmat(compliance, 2)
        values = {name: symbolic(getattr(self, name), f"{what}: {name}") for name in (*_NOT_NEGATIVE, "rest_angle")}
        values["compliance"] = symbolic(compliance, f"{what}: compliance", (2,))
        if self.stribeck is not None:
            values["stribeck"] = symbolic(self.stribeck, f"{what}: stribeck", (2,))
        if self.limits is not None:
            values["limits"] = symbolic(self.limits, f"{what}: limits", (2,))
            _check_limits(values["limits"], what)
        for name, value in values.items():
            object.__setattr__(self, name, value)
            _refuse_negative(value, name, what)
        if self.stribeck is not None and _absent(self.dry) == _absent(self.coulomb):
            raise ProblemError(f"{what} has stribeck, which adds to dry or to coulomb; give exactly one of them")

    @property
    def rubs(self) -> bool:
        """True if it has dry friction of any kind."""
        return not (_absent(self.dry) and _absent(self.coulomb))

    def compliances(self) -> ca.SX:
        """ε of each constraint row, (5,)."""
        return ca.vertcat(*([self.compliance[0]] * 3 + [self.compliance[1]] * 2))

    def bodies(self) -> tuple[Body, Body]:
        """Parent and child."""
        return self.parent.body, self.child.body

    def expressions(self) -> list[ca.SX]:
        """All that may hold a Parameter."""
        own = [getattr(self, name) for name in (*_NOT_NEGATIVE, "rest_angle", "compliance")]
        pairs = [pair for pair in (self.stribeck, self.limits) if pair is not None]
        return own + pairs + self.parent.expressions() + self.child.expressions()


@dataclass(frozen=True, eq=False)
class Motor:
    """A motor on a hinge (F.3): impulse h K u − J_shaft (s₊ − s), with u a measured input.

    Raises:
        ProblemError: if ``hinge`` is no hinge, or for a negative fixed shaft inertia.
    """

    hinge: Hinge
    signal: str
    """Name of the input u in the recordings."""
    gain: Any = 1
    """K, torque per unit of the signal [N m/unit]."""
    shaft_inertia: Any = 0
    """J_shaft [kg m²], felt along the hinge only."""
    measured: bool = field(default=False, kw_only=True)
    """True if the signal is a measurement of what the motor did, with noise of its own, such as a current or a torque;
    False if it is known, such as a command, and only what disturbs the mechanism is random."""
    place: str = field(default_factory=declared_at, repr=False)

    def __post_init__(self) -> None:
        what = f"{self.place}: Motor"
        if not isinstance(self.hinge, Hinge):
            raise ProblemError(f"{what} drives {shown(self.hinge)}, which is no Hinge")
        object.__setattr__(self, "gain", symbolic(self.gain, f"{what}: gain"))
        object.__setattr__(self, "shaft_inertia", symbolic(self.shaft_inertia, f"{what}: shaft_inertia"))
        _refuse_negative(self.shaft_inertia, "shaft_inertia", what)

    def expressions(self) -> list[ca.SX]:
        """All that may hold a Parameter."""
        return [self.gain, self.shaft_inertia]


def _absent(value: ca.SX) -> bool:
    return is_constant(value) and float(value) == 0


def _check_limits(limits: ca.SX, what: str) -> None:
    if is_constant(limits) and not 0 < float(limits[1] - limits[0]) < 2 * math.pi:
        raise ProblemError(
            f"{what}: limits are {float(limits[0]):g} and {float(limits[1]):g} rad; give (lower, upper), less than a "
            "turn apart"
        )


def _refuse_negative(value: ca.SX, name: str, what: str) -> None:
    if name in ("rest_angle", "limits"):
        return
    for entry in ca.vertsplit(ca.densify(value)):
        if is_constant(entry) and float(entry) < 0:
            raise ProblemError(f"{what}: {name} is {float(entry):g}; it must not be negative")
