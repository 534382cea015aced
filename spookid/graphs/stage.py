"""One of several solves of a graph, each of more than the one before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from spookid.doors import Door
from spookid.errors import ProblemError, declared_at, shown
from spookid.graphs.factor import GraphFactor
from spookid.graphs.variables import Variables
from spookid.graphs.writing import Written
from spookid.solvers import stages


@dataclass(frozen=True)
class Stage(metaclass=Door):
    """What counts and what moves; ``Graph.solve`` has a last one of everything::

        Stage(factors=(Prior, PositionConstraint, SoftEquality), variables=("q",))

    Args:
        factors: kinds of factors, or names of single ones; None: all that are of its variables alone.
        variables: names of those that move, others staying where they are; None: all.
        parameters: True if Parameters are estimated.
    """

    factors: Sequence[type[GraphFactor] | str] | None = None
    variables: Sequence[str] | None = None
    parameters: bool = False
    place: str = field(default_factory=declared_at, repr=False)

    def __post_init__(self) -> None:
        for name in ("factors", "variables"):
            value = getattr(self, name)
            if isinstance(value, (str, type)):  # one of them
                object.__setattr__(self, name, (value,))

    def of(self, variables: Variables, written: Sequence[Written]) -> stages.Stage:
        """The stage of a graph's transcription.

        Raises:
            ProblemError: for a variable or a factor that the graph does not have, or without a factor with a sigma.
        """
        moving = variables.names if self.variables is None else tuple(self.variables)
        if not moving:
            raise ProblemError(f"{self.place}: Stage moves nothing; name some of {', '.join(variables.names)}")
        for name in moving:
            if name not in variables.names:
                raise ProblemError(f"{self.place}: Stage moves {shown(name)}; choose from {', '.join(variables.names)}")
        chosen = [part for part in written if self._counts(part.source, moving)]
        for one in self.factors or ():
            if not any(_is(part.source, one) for part in written):
                raise ProblemError(f"{self.place}: Stage holds {shown(one)}, which is no factor of the graph")
        if not any(part.factor.soft and set(part.source.variables) & set(moving) for part in chosen):
            names = ", ".join(moving)
            raise ProblemError(f"{self.place}: Stage has no factor of {names} with a sigma; add one")
        coordinates = [
            i for name in moving for i in range(*variables.coordinates(name).indices(variables.manifold.ambient))
        ]
        return stages.Stage(tuple(part.factor.name for part in chosen), tuple(coordinates), self.parameters)

    def _counts(self, source: GraphFactor, moving: Sequence[str]) -> bool:
        if self.factors is None:
            return set(source.variables) <= set(moving)
        return any(_is(source, one) for one in self.factors)


def _is(source: GraphFactor, one: type[GraphFactor] | str) -> bool:
    return source.title == one if isinstance(one, str) else type(source) is one
