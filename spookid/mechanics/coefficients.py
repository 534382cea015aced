"""Coordinates of joints, their limits, and coefficients: one number or one for each coordinate, those that differ by
direction or vary with the position."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import casadi as ca
import numpy as np

from spookid.argument_checks import Checked
from spookid.errors import ProblemError, declared_at, shown
from spookid.kernels.arrays import Array
from spookid.mechanics import rotations
from spookid.mechanics.inertia import at_guess
from spookid.parameter import expression, is_constant, is_zero, parameters_in, symbolic
from spookid.records import dataclass


@dataclass(frozen=True)
class Coordinate(metaclass=Checked):
    """One degree of freedom of a joint.

    >>> angle = Coordinate("pitch", "rad", period=2 * np.pi)

    Args:
        name: name of the coordinate, for labels of joints with several.
        unit: "rad" or "m".
        period: period of its sensor signal, 2π for an angle without limit; None without a period.
        counts_turns: True if its joint distinguishes one turn from the next.
    """

    name: str
    unit: Literal["rad", "m"]
    period: float | None = None
    counts_turns: bool = False

    @property
    def turns_over(self) -> bool:
        """True if the coordinate is a periodic angle."""
        return self.period is not None and not self.counts_turns

    def in_range(self, value: ca.SX) -> ca.SX:
        """Value of the coordinate; a periodic coordinate is wrapped to within half a period of zero."""
        if not self.turns_over or self.period is None:
            return value
        turn = 2 * math.pi / self.period
        return rotations.wrapped(turn * value) / turn

    @property
    def effort(self) -> str:
        """Unit of the effort along the coordinate: N m or N."""
        return {"rad": "N m", "m": "N"}[self.unit]


Limits = tuple[ca.SX | None, ...]
"""(lower, upper) of each coordinate, (2,) [rad or m]; None of those that have no limits."""

COMPLIANCE = 1e-4  # of joints and constraints of which nothing is said [m/N or rad/(N m)]


def refuse_negative(value: ca.SX | None, name: str, what: str) -> None:
    """Raise ProblemError for a negative coefficient; Parameters have their initial values in this check."""
    for entry in () if value is None else ca.vertsplit(ca.densify(value)):
        number, where = guessed(entry)
        if number < 0:
            raise ProblemError(f"{what}: {name} is {number:g}{where}; it must not be negative")


def not_negative(value: Any, name: str, what: str) -> ca.SX:
    """Convert a coefficient to one number or expression, and check that it is not negative."""
    found = symbolic(value, f"{what}: {name}")
    refuse_negative(found, name, what)
    return found


def guessed(value: ca.SX) -> tuple[float, str]:
    """Return the value of an expression at the initial values of its Parameters; NaN if it has other symbols."""
    numbers, where = guessed_all(value)
    return numbers.item(), where


def guessed_all(values: ca.SX) -> tuple[Array, str]:
    """Return the values of a matrix or column of expressions at the initial values of their Parameters."""
    if values.is_constant():
        return at_guess(ca.densify(values)), ""
    try:
        names = ", ".join(p.name for p in parameters_in([values], "the coefficient"))
    except ProblemError:
        return np.full(values.shape, np.nan), ""
    return at_guess(ca.densify(values)), f" at the initial value of {names}" if names else ""


def acts(value: ca.SX) -> bool:
    """False for zeros."""
    return not all(map(is_zero, ca.vertsplit(value)))


def coefficient(value: Any, coordinates: int, what: str) -> ca.SX:
    """Convert a coefficient to one expression for all coordinates, or to one for each coordinate."""
    given = expression(value, what)
    several = given.numel() == coordinates > 1
    return symbolic(ca.vec(given) if several else value, what, (coordinates,) if several else ())


def limits_of(value: Any, coordinates: Sequence[Coordinate], what: str) -> Limits | None:
    """Check the limits of a joint: a pair for one coordinate, or a pair or None for each of several coordinates."""
    if value is None:
        return None
    alone = len(coordinates) == 1 and not (isinstance(value, tuple) and len(value) == 1)
    pairs = [value] if alone else list(value) if isinstance(value, (list, tuple)) else []
    if len(pairs) != len(coordinates) or not all(pair is None or _is_pair(pair) for pair in pairs):
        names = ", ".join(coordinate.name for coordinate in coordinates) or "none"
        raise ProblemError(
            f"{what} has limits {shown(value)}; give (lower, upper), or None, for each of its coordinates: {names}"
        )
    found = [None if pair is None else symbolic(pair, f"{what}: limits", (2,)) for pair in pairs]
    for coordinate, limits in zip(coordinates, found, strict=True):
        turn = 2 * math.pi if coordinate.turns_over else math.inf
        if limits is not None and is_constant(width := limits[1] - limits[0]) and not 0 < float(width) < turn:
            raise ProblemError(
                f"{what}: limits are {float(limits[0]):g} and {float(limits[1]):g} {coordinate.unit}; give "
                f"(lower, upper){', less than a turn apart' if coordinate.turns_over else ''}"
            )
    return tuple(found) if any(pair is not None for pair in found) else None


def _is_pair(value: Any) -> bool:
    if isinstance(value, ca.SX):
        return bool(value.numel() == 2)
    listed = isinstance(value, (list, tuple)) or (isinstance(value, np.ndarray) and value.ndim > 0)
    return listed and len(value) == 2


@dataclass(frozen=True, eq=False)
class Asymmetric(metaclass=Checked):
    """Coefficient with one value for increasing and one for decreasing coordinates: ``viscous=Asymmetric(166.7,
    240.4)``.

    Give it as ``viscous``, ``coulomb``, ``load_friction`` and ``drag`` of a joint and for both entries of its
    ``stribeck``; of several coordinates each may have one.
    """

    forward: Any
    """Coefficient at positive velocity; a number, an expression of Parameters or a ``Fourier``."""
    backward: Any
    """Coefficient at negative velocity, likewise."""


@dataclass(frozen=True, eq=False)
class Fourier(metaclass=Checked):
    """Coefficient that varies with the coordinate x over the period X: mean + Σ_k (a_k cos 2πkx/X + b_k sin 2πkx/X).

    Give it as a coefficient of friction or drag, or in an ``Effort``, as a cogging torque of seven teeth does:
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
                raise ProblemError(f"{what}: harmonic {shown(k)} is no whole number from 1 on; give whole numbers")
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
        """Mean and amplitudes of the Fourier series with their names."""
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
    """Coefficient of a load: one value for all coordinates, or one value for each."""

    forward: tuple[ca.SX | Fourier, ...]  # at rates above zero
    backward: tuple[ca.SX | Fourier, ...] | None  # at rates below zero; None if it is the same

    def at(self, position: ca.SX) -> tuple[ca.SX, ca.SX | None]:
        """Values for forward and backward motion at positions (n,), one value or (n,) each."""

        def along(entries: tuple[ca.SX | Fourier, ...]) -> ca.SX:
            if len(entries) == 1:
                return entries[0].at(position) if isinstance(entries[0], Fourier) else entries[0]
            return ca.vertcat(*(e.at(position[i]) if isinstance(e, Fourier) else e for i, e in enumerate(entries)))

        return along(self.forward), None if self.backward is None else along(self.backward)

    def listed(self) -> list[tuple[int, str, ca.SX]]:
        """Index, description and value of each number or expression in the coefficient, for messages."""
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
        return all(isinstance(entry, ca.SX) and is_zero(entry) for entry in entries)


def load_coefficient(
    value: Any, what: str, *, sided: bool = True, varying: bool = True, negative: bool = False
) -> Coefficient:
    """Convert and check a coefficient of a load."""
    if isinstance(value, (list, tuple, Asymmetric, Fourier)):
        entries = list(value) if isinstance(value, (list, tuple)) else [value]
    else:
        entries = list(ca.vertsplit(ca.densify(ca.vec(expression(value, what)))))
    if not sided and any(isinstance(entry, Asymmetric) for entry in entries):
        raise ProblemError(f"{what} does not depend on the direction; give a number or expression, not an Asymmetric")
    if not varying and any(isinstance(entry, Fourier) for entry in entries):
        raise ProblemError(f"{what} does not vary with the position; give a number or an expression, not a Fourier")
    sides: list[tuple[ca.SX | Fourier, ...]] = []
    for side in ("forward", "backward"):
        chosen = (getattr(entry, side) if isinstance(entry, Asymmetric) else entry for entry in entries)
        sides.append(tuple(entry if isinstance(entry, Fourier) else symbolic(entry, what) for entry in chosen))
    for entry in () if negative else (*sides[0], *sides[1]):
        least, where = guessed(entry.least if isinstance(entry, Fourier) else entry)
        if least < 0 and isinstance(entry, Fourier):
            raise ProblemError(f"{what}: the Fourier falls to {least:g}{where}; give it a mean above its amplitudes")
        if least < 0:
            raise ProblemError(f"{what} is {least:g}{where}; it must not be negative")
    return Coefficient(sides[0], sides[1] if any(isinstance(entry, Asymmetric) for entry in entries) else None)


def is_plain(value: Any) -> bool:
    """True if a coefficient contains neither ``Asymmetric`` nor ``Fourier``."""
    entries = value if isinstance(value, (list, tuple)) else [value]
    return not any(isinstance(entry, (Asymmetric, Fourier)) for entry in entries)


def check_coordinate(joint: Any, coordinate: object, what: str) -> None:
    """Raise ProblemError for a coordinate that a joint does not have; ``what`` begins the message."""
    count = len(joint.coordinates)
    if not (isinstance(coordinate, int) and 0 <= coordinate < count):
        raise ProblemError(
            f"{what} coordinate {shown(coordinate)} of {joint.name!r}, which has {count}, from 0 on; give one of them"
        )
