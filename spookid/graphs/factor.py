"""What every factor of a graph is: an error of the variables at one step or two neighbouring ones, and its sigma.

A factor of your own is a subclass with ``variables``, ``labels`` and ``error``. Numbers of equations are those of
Blanco-Claraco, Leanza and Reina, *A general framework for modeling and dynamic simulation of multibody systems using
factor graphs*.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from inspect import signature
from itertools import pairwise
from numbers import Integral
from typing import Any, ClassVar, Literal

import casadi as ca
import numpy as np

from spookid.argument_checks import Checked
from spookid.errors import ProblemError, declared_at, evaluating, shown
from spookid.kernels.arrays import Array
from spookid.mechanics.manifold import Manifold, split
from spookid.mechanics.system import System, floats
from spookid.parameter import symbolic
from spookid.transcription.factor import Group

MEANING = {
    "q": "coordinates",
    "v": "rates of q",
    "a": "accelerations, rates of v",
    "z": "independent coordinates",
    "dz": "rates of z",
    "ddz": "accelerations, rates of dz",
    "Q": "unknown efforts",
}
"""All variables that a graph may have, in their order in a step."""


@dataclass(frozen=True, eq=False)
class Variables:
    """Names and sizes of the variables of each step in a factor graph."""

    system: System
    names: tuple[str, ...]  # in the order of ``MEANING``

    @cached_property
    def manifold(self) -> Manifold:
        """Manifold of the variables of one step."""
        return Manifold(tuple(part for name in self.names for part in self.space(name).parts)).joined

    def space(self, name: str) -> Manifold:
        """Where one of them lives."""
        return self.system.manifold if name == "q" else Manifold((("flat", len(self.labels(name))),))

    def labels(self, name: str) -> tuple[str, ...]:
        """Name of each tangent direction of a variable."""
        if name == "Q":
            return self.system.actuated
        own = self.system.names
        return own if name in ("q", "v", "a") else tuple(own[i] for i in self.system.independent)

    def coordinates(self, name: str) -> slice:
        """Slice of a variable's coordinates within those of a step."""
        return self._places[name][0]

    def columns(self, name: str) -> slice:
        """Slice of a variable's tangent directions within those of a step."""
        return self._places[name][1]

    @cached_property
    def _places(self) -> dict[str, tuple[slice, slice]]:
        """Of each variable, which estimates in time ask for at each step."""
        found, ambient, tangent = {}, 0, 0
        for name, space in ((name, self.space(name)) for name in self.names):
            found[name] = slice(ambient, ambient + space.ambient), slice(tangent, tangent + space.tangent)
            ambient, tangent = found[name][0].stop, found[name][1].stop
        return found

    def of(self, x: ca.SX) -> dict[str, ca.SX]:
        """Split the variables of one step, (ambient,), into a dict from name to values."""
        return dict(zip(self.names, split(x, [self.space(name).ambient for name in self.names]), strict=True))

    def read(self, states: Array) -> dict[str, Array]:
        """Split the variables of all steps, (N, ambient), into a dict from name to array (N, size of the variable)."""
        return {name: states[:, self.coordinates(name)] for name in self.names}

    def written(self, values: Mapping[str, Array]) -> Array:
        """The same the other way."""
        return np.ascontiguousarray(np.hstack([values[name] for name in self.names]))


def independent(system: System, q: ca.SX) -> ca.SX:
    """Indices of the independent coordinates among all coordinates, (f,)."""
    chosen: ca.SX = q[[system.manifold.coordinate(column) for column in system.independent]]
    return chosen


Coordinates = Literal["dependent", "independent"]


@dataclass(frozen=True, eq=False)
class Window:
    """Variables, signals and time step at step k, as arguments of a factor."""

    variables: Variables
    step: ca.SX
    """h [s]."""
    steps: Sequence[Mapping[str, ca.SX]]
    """Variables by name, of step k and of so many that follow as the factor reaches."""
    given: Mapping[str, ca.SX]
    """Its signals at step k, by name."""

    @property
    def now(self) -> Mapping[str, ca.SX]:
        """Variables of step k."""
        return self.steps[0]

    @property
    def after(self) -> Mapping[str, ca.SX]:
        """Variables of the following step k + 1."""
        return self.steps[1]

    @property
    def system(self) -> System:
        """The mechanism."""
        return self.variables.system

    def changes(self, name: str) -> list[ca.SX]:
        """Change x_{k+1} ⊟ x_k of a variable from each step to the next."""
        space, x = self.variables.space(name), [step[name] for step in self.steps]
        return [space.difference(after, before) for before, after in pairwise(x)]


@dataclass(frozen=True, eq=False, kw_only=True)
class GraphFactor(metaclass=Checked):
    """Factor of a graph: a residual e of some variables with cost |e/sigma|², or an equality constraint if sigma is 0.

    Args:
        sigma: standard deviation of the error, in its unit: one number, or one for each row; 0 for a constraint.
        name: its name in results; default: its kind.
    """

    sigma: float | Sequence[float] = 0.0
    name: str = ""
    place: str = field(default_factory=declared_at, repr=False)

    group: ClassVar[Group] = Group.STATE
    """Part of the cost that it belongs to."""
    reach = 0
    """Number of further steps that it depends on."""
    first_only = False
    """True if it holds at the first step only."""
    optional = False
    """True if its signals belong to its rows, one to each, and rows without data are left out."""

    def __post_init__(self) -> None:
        if np.any(numbers(self.sigma, f"{self.what}: sigma") < 0):
            raise ProblemError(f"{self.what}: sigma is {shown(self.sigma)}; give numbers from 0 on, 0 for a constraint")
        for variable in self.variables:
            if not (isinstance(variable, str) and variable in MEANING):
                names = ", ".join(MEANING)
                raise ProblemError(f"{self.what} is of a variable {shown(variable)}; choose from {names}")

    @property
    def title(self) -> str:
        """Its name, or its kind."""
        return self.name or self.default

    @property
    def default(self) -> str:
        """Its kind, in words."""
        return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(self).__name__).lower()

    @property
    def what(self) -> str:
        """File and line of the declaration and the kind of factor, for messages."""
        return f"{self.place}: {type(self).__name__}"

    @property
    @abstractmethod
    def variables(self) -> tuple[str, ...]:
        """Names of the variables that the factor connects."""

    def signals(self, system: System) -> tuple[str, ...]:
        """Names of the signals that the factor uses at each step."""
        return ()

    @abstractmethod
    def labels(self, variables: Variables) -> tuple[str, ...]:
        """Name of each component of the residual."""

    @abstractmethod
    def error(self, at: Window) -> ca.SX:
        """e, (rows,)."""

    def sigmas(self, rows: int) -> Array:
        """Standard deviation of each component of the residual, (rows,).

        Raises:
            ProblemError: if there are as many as neither one nor the rows.
        """
        values = np.atleast_1d(np.asarray(self.sigma, dtype=float))
        if len(values) not in (1, rows):
            raise ProblemError(f"{self.what} has {len(values)} sigmas and {rows} rows; give one, or one for each row")
        return np.broadcast_to(values, rows).copy()


@dataclass(frozen=True, eq=False)
class OfVariable(GraphFactor):
    """Base class of factors of one variable, with one equation for each of its directions."""

    variable: str

    @property
    def default(self) -> str:
        return f"{super().default} {self.variable}"

    @property
    def variables(self) -> tuple[str, ...]:
        return (self.variable,)

    def labels(self, variables: Variables) -> tuple[str, ...]:
        return variables.labels(self.variable)


def numbers(values: Any, what: str) -> Array:
    """Values as a vector."""
    found = np.atleast_1d(floats(values, what, "numbers"))
    if found.ndim != 1 or not np.all(np.isfinite(found)):
        raise ProblemError(f"{what} is {shown(values)}; give finite numbers, one for each row")
    return found


At = Literal["first", "every"]


@dataclass(frozen=True, eq=False)
class Prior(OfVariable):
    """Prior e = x ⊟ x₀ (21) on all directions of a variable or on some::

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

    value: Sequence[float] | Sequence[str]
    at: At = "first"
    rows: Sequence[str | int] | None = None
    group: ClassVar[Group] = Group.OBSERVATION

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("value", "rows"):
            if isinstance(getattr(self, name), str):  # one name, and not its letters
                object.__setattr__(self, name, (getattr(self, name),))
        if not self._named:
            object.__setattr__(self, "value", tuple(numbers(self.value, f"{self.what}: value").tolist()))

    @property
    def _named(self) -> bool:
        if hasattr(self.value, "dtype") or not isinstance(self.value, Sequence):
            return False
        return any(isinstance(one, str) for one in self.value)

    @property
    def first_only(self) -> bool:  # type: ignore[override]
        return self.at == "first"

    @property
    def optional(self) -> bool:  # type: ignore[override]
        return self._named

    def signals(self, system: System) -> tuple[str, ...]:
        return tuple(map(str, self.value)) if self._named else ()

    def labels(self, variables: Variables) -> tuple[str, ...]:
        own = super().labels(variables)
        return tuple(own[i] for i in self.directions(variables))

    def directions(self, variables: Variables) -> tuple[int, ...]:
        """Indices of the tangent directions that the factor constrains.

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
        space, x, directions = at.variables.space(self.variable), at.now[self.variable], self.directions(at.variables)
        value = [at.given[str(one)] for one in self.value] if self._named else [float(one) for one in self.value]
        wanted = space.ambient if self.rows is None else len(directions)
        if len(value) != wanted:
            raise ProblemError(f"{self.what}: value has {len(value)} numbers or names; give {wanted}")
        if self.rows is None and not self._named:
            return space.difference(x, ca.vertcat(*value))
        try:
            return x[[space.coordinate(direction) for direction in directions]] - ca.vertcat(*value)
        except ValueError:
            raise ProblemError(
                f"{self.what}: rows of an orientation move no single coordinate; give a value of all of {self.variable}"
            ) from None


@dataclass(frozen=True, eq=False)
class Observation(GraphFactor):
    """Observation factor e = y(q, v, a, ...) minus the sample of a signal at the step; omitted if the sample is NaN::

        Observation("gyro", lambda q, v: v[2] + bias, sigma=0.01)

    Args:
        signal: its name in the data.
        shown: a function that returns one expression; its arguments are named as the variables, and Parameters may
            occur in it.
        sigma: in the unit of the signal.
    """

    signal: str
    shown: Callable[..., ca.SX]
    group: ClassVar[Group] = Group.OBSERVATION
    optional = True  # a sensor need not have a sample at each step

    def __post_init__(self) -> None:
        if not self.signal:
            raise ProblemError(f"{self.what} is of a signal {shown(self.signal)}; give its name")
        try:
            signature(self.shown)
        except ValueError:
            raise ProblemError(
                f"{self.what} of {self.signal!r} shows a function whose arguments have no names; give lambda q: ..."
            ) from None
        super().__post_init__()

    @property
    def default(self) -> str:
        return f"observation {self.signal}"

    @property
    def variables(self) -> tuple[str, ...]:
        """Arguments of the function."""
        return tuple(signature(self.shown).parameters)

    def signals(self, system: System) -> tuple[str, ...]:
        return (self.signal,)

    def labels(self, variables: Variables) -> tuple[str, ...]:
        return (self.signal,)

    def error(self, at: Window) -> ca.SX:
        what = f"{self.what} of {self.signal!r}"
        with evaluating(what):
            value = self.shown(**{name: at.now[name] for name in self.variables})
        return symbolic(value, what) - at.given[self.signal]
