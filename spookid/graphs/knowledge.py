"""Factors of what is known of the variables: beforehand, as a reference, or from sensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from inspect import signature
from numbers import Integral
from types import NoneType
from typing import ClassVar, Literal

import casadi as ca

from spookid.errors import ProblemError, evaluating, shown
from spookid.graphs.factor import MEANING, GraphFactor, Variables, Window, numbers
from spookid.mechanics.system import System
from spookid.parameter import symbolic
from spookid.transcription.factor import Group

At = Literal["first", "every"]


@dataclass(frozen=True, eq=False)
class Prior(GraphFactor):
    """e = x ⊟ x₀ (21), of all directions of a variable or of some::

        Prior("q", q0)                                              # where the motion begins
        Prior("q", ("reference",), at="every", rows=("theta",))     # a reference, from data

    Args:
        variable: x.
        value: x₀: its coordinates, or with ``rows`` one number for each of these, which then must be flat. Or as many
            names of signals, whose values at each step are x₀; where one is NaN that row is left out.
        at: ``"first"`` step alone, or ``"every"`` one.
        rows: names of directions, such as those of ``system.names``, or their numbers; None: all.
        sigma: in the unit of x.
    """

    variable: str
    value: Sequence[float] | Sequence[str]
    at: At = "first"
    rows: Sequence[str | int] | None = None
    group: ClassVar[Group] = Group.OBSERVATION

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("value", "rows"):
            if isinstance(getattr(self, name), str):  # one name, and not its letters
                object.__setattr__(self, name, (getattr(self, name),))
        if not isinstance(self.rows, (Sequence, NoneType)):
            raise ProblemError(f"{self.what}: rows is {shown(self.rows)}; give a list of names or numbers")
        if not self._named:
            object.__setattr__(self, "value", tuple(numbers(self.value, f"{self.what}: value").tolist()))

    @property
    def _named(self) -> bool:
        if hasattr(self.value, "dtype") or not isinstance(self.value, Sequence):
            return False
        return any(isinstance(one, str) for one in self.value)

    @property
    def default(self) -> str:
        """With the name of the variable."""
        return f"prior {self.variable}"

    @property
    def variables(self) -> tuple[str, ...]:
        """The one."""
        return (self.variable,)

    @property
    def first_only(self) -> bool:
        """As it was asked for."""
        return self.at == "first"

    @property
    def optional(self) -> bool:
        """True if its values are data."""
        return self._named

    def signals(self, system: System) -> tuple[str, ...]:
        """Names that were given as values."""
        return tuple(map(str, self.value)) if self._named else ()

    def labels(self, variables: Variables) -> tuple[str, ...]:
        """Names of the directions that it is of."""
        own = variables.labels(self.variable)
        return tuple(own[i] for i in self.directions(variables))

    def directions(self, variables: Variables) -> tuple[int, ...]:
        """Numbers of the directions that it is of.

        Raises:
            ProblemError: for one that the variable does not have.
        """
        own = variables.labels(self.variable)
        if self.rows is None:
            return tuple(range(len(own)))
        for row in self.rows:
            if not (row in own if isinstance(row, str) else isinstance(row, Integral) and 0 <= int(row) < len(own)):
                raise ProblemError(f"{self.what}: rows holds {shown(row)}; {self.variable} has {', '.join(own)}")
        return tuple(own.index(row) if isinstance(row, str) else int(row) for row in self.rows)

    def error(self, at: Window) -> ca.SX:
        """The difference."""
        space, x, directions = at.variables.space(self.variable), at.now[self.variable], self.directions(at.variables)
        value = [at.given[str(one)] for one in self.value] if self._named else [float(one) for one in self.value]
        wanted = space.ambient if self.rows is None else len(directions)
        if len(value) != wanted:
            raise ProblemError(f"{self.what}: value has {len(value)} numbers or names; give {wanted}")
        if self.rows is None and not self._named:
            return space.difference(x, ca.vertcat(*value))
        return x[[self._coordinate(at, direction) for direction in directions]] - ca.vertcat(*value)

    def _coordinate(self, at: Window, direction: int) -> int:
        try:
            return at.variables.space(self.variable).coordinate(direction)
        except ValueError:
            raise ProblemError(
                f"{self.what}: rows of an orientation move no single coordinate; give a value of all of {self.variable}"
            ) from None


@dataclass(frozen=True, eq=False)
class Observation(GraphFactor):
    """e = y(q, v, a, ...) − the sample of a signal at the step; none where that is NaN::

        Observation("gyro", lambda q, v: v[2] + bias, sigma=0.01)

    Args:
        signal: its name in the data.
        shown: a function of some variables, called what they are, that gives the expression of one number; Parameters
            may stand in it.
        sigma: in the unit of the signal.
    """

    signal: str
    shown: Callable[..., ca.SX]
    group: ClassVar[Group] = Group.OBSERVATION

    def __post_init__(self) -> None:
        if not self.signal:
            raise ProblemError(f"{self.what} is of a signal {shown(self.signal)}; give its name")
        try:
            signature(self.shown)
        except ValueError:
            raise ProblemError(
                f"{self.what} of {self.signal!r} shows a function whose arguments have no names; give lambda q: ..."
            ) from None
        unknown = next((name for name in self.variables if name not in MEANING), None)
        if unknown is not None:
            raise ProblemError(
                f"{self.what} of {self.signal!r} is a function of {unknown!r}; name its arguments {', '.join(MEANING)}"
            )
        super().__post_init__()

    @property
    def default(self) -> str:
        """With the name of the signal."""
        return f"observation {self.signal}"

    @property
    def variables(self) -> tuple[str, ...]:
        """Arguments of the function."""
        return tuple(signature(self.shown).parameters)

    @property
    def optional(self) -> bool:
        """True: a sensor need not have a sample at each step."""
        return True

    def signals(self, system: System) -> tuple[str, ...]:
        """The one."""
        return (self.signal,)

    def labels(self, variables: Variables) -> tuple[str, ...]:
        """That of the signal."""
        return (self.signal,)

    def error(self, at: Window) -> ca.SX:
        """Predicted less measured."""
        what = f"{self.what} of {self.signal!r}"
        with evaluating(what):
            value = self.shown(**{name: at.now[name] for name in self.variables})
        return symbolic(value, what) - at.given[self.signal]
