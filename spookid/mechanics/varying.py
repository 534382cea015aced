"""Coefficients of loads: numbers and expressions, and those that differ by direction or vary with the position."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import casadi as ca

from spookid.doors import Door
from spookid.errors import ProblemError, declared_at, shown
from spookid.mechanics.coefficients import guessed, is_absent
from spookid.parameter import expression, is_constant, symbolic


@dataclass(frozen=True, eq=False)
class Asymmetric(metaclass=Door):
    """One value where a coordinate grows, another where it falls: ``viscous=Asymmetric(166.7, 240.4)``.

    It can stand for ``viscous``, ``coulomb``, ``load_friction`` and ``drag`` of a joint and for both entries of its
    ``stribeck``; of several coordinates each may have one.
    """

    forward: Any
    """At rates above zero; a number, an expression of Parameters or a ``Fourier``."""
    backward: Any
    """At rates below zero, likewise."""


@dataclass(frozen=True, eq=False)
class Fourier(metaclass=Door):
    """mean + Σ_k (a_k cos 2πkx/X + b_k sin 2πkx/X), a value that varies with the coordinate x over the period X.

    It can stand for a coefficient of friction or drag, or in an ``Effort``, as a cogging torque of seven teeth does:
    ``Effort(Fourier({7: (a_7, b_7), 14: (a_14, b_14)}))``.

    Raises:
        ProblemError: for no harmonics, harmonics that are no whole numbers from 1 on or no pairs, or a period that is
            not positive.
    """

    harmonics: Mapping[int, tuple[Any, Any]]
    """(a_k, b_k) by k."""
    mean: Any = 0
    period: Any = 2 * math.pi
    """X [rad or m]; of a hinge, whose angle is in (−π, π], a turn or an integer part of one."""

    def __post_init__(self) -> None:
        what = f"{declared_at()}: Fourier"
        if not (isinstance(self.harmonics, Mapping) and self.harmonics):
            raise ProblemError(f"{what}: harmonics is {shown(self.harmonics)}; give {{1: (cosine, sine), ...}}")
        for k in self.harmonics:
            if not (isinstance(k, int) and k >= 1):
                raise ProblemError(f"{what}: harmonic {shown(k)} is no whole number from 1 on")
        pairs = {k: symbolic(pair, f"{what}: harmonic {k}", (2,)) for k, pair in self.harmonics.items()}
        object.__setattr__(self, "harmonics", pairs)
        object.__setattr__(self, "mean", symbolic(self.mean, f"{what}: mean"))
        object.__setattr__(self, "period", symbolic(self.period, f"{what}: period"))
        if is_constant(self.period) and not float(self.period) > 0:
            raise ProblemError(f"{what}: period is {float(self.period):g}; it must be positive")

    def at(self, position: ca.SX) -> ca.SX:
        """Values at positions, (n,)."""
        phase = 2 * math.pi / self.period * position
        waves = (pair[0] * ca.cos(k * phase) + pair[1] * ca.sin(k * phase) for k, pair in self.harmonics.items())
        return sum(waves, self.mean + ca.SX.zeros(position.numel()))

    def listed(self) -> list[tuple[str, ca.SX]]:
        """Mean and amplitudes with what each is, for people."""
        waves = [
            (f"{name} {k}", pair[i]) for k, pair in self.harmonics.items() for i, name in enumerate(("cos", "sin"))
        ]
        return [("mean", self.mean), *waves]

    @property
    def least(self) -> ca.SX:
        """Below which no value is."""
        return self.mean - sum((ca.norm_2(pair) for pair in self.harmonics.values()), ca.SX(0))


@dataclass(frozen=True, eq=False)
class Coefficient:
    """A coefficient of a load: one entry for all coordinates, or one for each."""

    forward: tuple[ca.SX | Fourier, ...]
    """At rates above zero."""
    backward: tuple[ca.SX | Fourier, ...] | None
    """At rates below zero; None if it is the same."""

    def at(self, position: ca.SX) -> tuple[ca.SX, ca.SX | None]:
        """Forward and backward at positions (n,): one value or (n,) each."""
        forward = _at(self.forward, position)
        return forward, None if self.backward is None else _at(self.backward, position)

    def listed(self) -> list[tuple[int, str, ca.SX]]:
        """Place among its entries, what it is, and the value of each of its numbers and expressions, for people."""
        sides = [("", self.forward)]
        if self.backward is not None:
            sides = [("forward", self.forward), ("backward", self.backward)]
        return [
            (i, f"{side} {part}".strip(), value)
            for side, entries in sides
            for i, entry in enumerate(entries)
            for part, value in (entry.listed() if isinstance(entry, Fourier) else [("", entry)])
        ]

    @property
    def is_absent(self) -> bool:
        """True for the number zero."""
        entries = (*self.forward, *(self.backward or ()))
        return all(isinstance(entry, ca.SX) and is_absent(entry) for entry in entries)


def load_coefficient(
    value: Any, what: str, *, sided: bool = True, varying: bool = True, negative: bool = False
) -> Coefficient:
    """A coefficient as a user gives it.

    Args:
        value: a number, an expression, an ``Asymmetric``, a ``Fourier``, or one of these for each coordinate.
        what: names the thing in an error message.
        sided, varying: True if it may be an ``Asymmetric``, a ``Fourier``.
        negative: True if it may be negative.

    Raises:
        ProblemError: if it is none of these.
    """
    entries = _entries(value, what)
    if not sided and any(isinstance(entry, Asymmetric) for entry in entries):
        raise ProblemError(f"{what} does not hang on the direction; give a number or an expression, not an Asymmetric")
    sides = []
    for side in ("forward", "backward"):
        chosen = [getattr(entry, side) if isinstance(entry, Asymmetric) else entry for entry in entries]
        sides.append(tuple(_entry(entry, what, varying) for entry in chosen))
    if not negative:
        for entry in (*sides[0], *sides[1]):
            _refuse_negative_entry(entry, what)
    return Coefficient(sides[0], sides[1] if any(isinstance(entry, Asymmetric) for entry in entries) else None)


def is_plain(value: Any) -> bool:
    """True if no ``Asymmetric`` or ``Fourier`` stands in a coefficient."""
    entries = value if isinstance(value, (list, tuple)) else [value]
    return not any(isinstance(entry, (Asymmetric, Fourier)) for entry in entries)


def _entries(value: Any, what: str) -> list[Any]:
    if isinstance(value, (list, tuple, Asymmetric, Fourier)):
        return list(value) if isinstance(value, (list, tuple)) else [value]
    return list(ca.vertsplit(ca.densify(ca.vec(expression(value, what)))))


def _entry(value: Any, what: str, varying: bool) -> ca.SX | Fourier:
    if not isinstance(value, Fourier):
        return symbolic(value, what)
    if not varying:
        raise ProblemError(f"{what} does not vary with the position; give a number or an expression, not a Fourier")
    return value


def _refuse_negative_entry(entry: ca.SX | Fourier, what: str) -> None:
    least, where = guessed(entry.least if isinstance(entry, Fourier) else entry)
    if least < 0:
        if isinstance(entry, Fourier):
            raise ProblemError(f"{what}: the Fourier falls to {least:g}{where}; give it a mean above its amplitudes")
        raise ProblemError(f"{what} is {least:g}{where}; it must not be negative")


def _at(entries: tuple[ca.SX | Fourier, ...], position: ca.SX) -> ca.SX:
    if len(entries) == 1:
        return entries[0].at(position) if isinstance(entries[0], Fourier) else entries[0]
    return ca.vertcat(*(e.at(position[i]) if isinstance(e, Fourier) else e for i, e in enumerate(entries)))
