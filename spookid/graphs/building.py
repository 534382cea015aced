"""Graphs of a mechanism's forward and inverse dynamics, as in sections 5.1 to 5.3."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from spookid.argument_checks import Checked, checked
from spookid.errors import ProblemError, collected, declared_at, shown
from spookid.graphs.factor import Coordinates, GraphFactor, Observation, Prior
from spookid.graphs.graph import Graph
from spookid.graphs.integration import (
    Dynamics,
    InverseDynamics,
    PositionConstraint,
    SoftEquality,
    Trapezoid,
    VelocityConstraint,
)
from spookid.graphs.writing import Stage
from spookid.kernels.arrays import Array
from spookid.mechanics.system import System, point, vector


@dataclass(frozen=True)
class Sigmas(metaclass=Checked):
    """Standard deviations of the factors of a graph; 0 for equality constraints.

    Defaults are those of Table 2, roots of its covariances, except for the first rates, which are known here.
    """

    trapezoid: float | tuple[float, float] = 0.1
    """Standard deviation of both integrations, or of positions and of rates, in their units."""
    dynamics: float = 1e-2
    """Standard deviation of the dynamics, in the unit of an acceleration."""
    constraints: float = 0.0
    """On positions and on rates."""
    start: float = 0.0
    """Standard deviation of the first positions and rates."""
    equality: float = 10.0
    """Standard deviation of soft equalities."""
    reference: float = 0.0
    """Standard deviation of the reference motion of inverse dynamics."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            pair = name == "trapezoid" and isinstance(value, Sequence) and len(value) == 2
            if not all(0 <= one < math.inf for one in (value if pair else [value])):
                many = "one number or a pair of them" if name == "trapezoid" else "a number"
                raise ProblemError(f"{declared_at()}: Sigmas: {name} is {shown(value)}; give {many}, from 0 on")
            if pair:
                object.__setattr__(self, name, tuple(value))


TIGHT = Sigmas(trapezoid=(1e-7, 1e-4))
"""For inverse dynamics: accelerations are second differences of the reference, so that the trapezoidal rule may miss
little."""


@checked
def forward_dynamics(
    system: System,
    step: float,
    q: Any,
    v: Any = 0.0,
    *,
    coordinates: Coordinates = "dependent",
    noise: Sigmas | None = None,
    more: Iterable[GraphFactor] = (),
) -> Graph:
    """Build the factor graph of the forward dynamics: the motion from a given first state (Figures 2 and 3)::

        graph = forward_dynamics(system, 1e-3, q0)
        found = graph.solve(5001, start=simulated(system, 1e-3, 5001, q0))

    Args:
        step: h [s].
        q, v: coordinates and rates of the first step; one number for all rates. With constraints, the independent
            coordinates are given to the graph, and the others follow.
        coordinates: ``"independent"`` to integrate z and dz, with q and v linked to them.
        noise: of the factors; by default ``Sigmas()``, with which a motion without data is the same as with any. It is
            the weight of sensors against the motion, and required if there are sensors.
        more: further factors, such as ``Observation``.

    Raises:
        ProblemError: for a state of the wrong shape or that is not finite, other coordinates, noise of another type
            than ``Sigmas``, or sensors without noise.
    """
    what = f"{declared_at()}: forward_dynamics"
    others = collected(more, GraphFactor, f"{what}: more")  # type: ignore[type-abstract]
    if noise is None and any(isinstance(factor, Observation) for factor in others):
        raise ProblemError(
            f"{what} has an Observation and no noise, against which it is weighed; give noise=Sigmas(...), how well "
            "the trapezoidal rule and the equations of motion hold"
        )
    noise = Sigmas() if noise is None else noise
    place = point(q, system.manifold, f"{what}: q")
    first = _first(system, place, vector(v, len(system.names), f"{what}: v", or_one=True), coordinates, noise.start)
    factors = [
        *first,
        *_integrations(coordinates, noise),
        Dynamics(coordinates, sigma=noise.dynamics),
        *_constraints(system, coordinates, noise.constraints),
    ]
    return Graph(system, [*factors, *others], step=step)


@checked
def inverse_dynamics(
    system: System,
    step: float,
    reference: Sequence[str],
    *,
    coordinates: Coordinates = "dependent",
    noise: Sigmas = TIGHT,
    more: Iterable[GraphFactor] = (),
) -> Graph:
    """Build the graph of the inverse dynamics: efforts along ``system.actuation`` for a given motion (Figure 4)::

        graph = inverse_dynamics(system, 1e-3, ["reference"])
        found = graph.solve(10001, {"reference": theta}, start={"q": q0}, stages=STAGES)
        found["Q"]

    The trapezoidal rule is blind to accelerations that alternate from step to step; the second difference of the
    efforts, with a residual of mean 0, determines these.

    Args:
        step: h [s].
        reference: names of signals, one for each independent coordinate, whose values at all steps are the motion.
        coordinates: those that are integrated.
        noise: standard deviations of the factors.
        more: further factors.

    Raises:
        ProblemError: for names that are not texts, or not as many as independent coordinates, a system without efforts,
            other coordinates, or noise of another type than ``Sigmas``.
    """
    what = f"{declared_at()}: inverse_dynamics"
    others = collected(more, GraphFactor, f"{what}: more")  # type: ignore[type-abstract]
    names = _reference(system, reference, what)
    x, rows = ("q", _independent(system)) if coordinates == "dependent" else ("z", None)
    factors = [
        Prior(x, names, at="every", rows=rows, sigma=noise.reference, name="reference"),
        SoftEquality("q", sigma=noise.equality),
        *_integrations(coordinates, noise),
        *_constraints(system, coordinates, noise.constraints),
        InverseDynamics(coordinates, sigma=noise.dynamics),
        SoftEquality("Q", 2, sigma=noise.equality),
    ]
    return Graph(system, [*factors, *others], step=step)


def _reference(system: System, reference: Any, what: str) -> tuple[str, ...]:
    """One signal for each independent coordinate."""
    names = (reference,) if isinstance(reference, str) else reference
    own = _independent(system)
    fits = isinstance(names, Sequence) and len(names) == len(own)
    if not (fits and all(isinstance(name, str) and name for name in names)):
        remedy = f"give one signal name for each coordinate {', '.join(own)}"
        raise ProblemError(f"{what}: reference is {shown(reference)}; {remedy}")
    return tuple(names)


def _integrations(coordinates: Coordinates, noise: Sigmas) -> list[Trapezoid]:
    x, dx, ddx = ("q", "v", "a") if coordinates == "dependent" else ("z", "dz", "ddz")
    of_x, of_dx = noise.trapezoid if isinstance(noise.trapezoid, tuple) else (noise.trapezoid, noise.trapezoid)
    return [Trapezoid(x, dx, sigma=of_x), Trapezoid(dx, ddx, sigma=of_dx)]


def _independent(system: System) -> tuple[str, ...]:
    return tuple(system.names[i] for i in system.independent)


def _first(system: System, place: Array, flow: Array, coordinates: Coordinates, sigma: float) -> list[Prior]:
    """Of the first step: all that is independent."""
    own = list(system.independent)
    if len(own) == len(system.names) and coordinates == "dependent":
        return [Prior("q", place.tolist(), sigma=sigma), Prior("v", flow.tolist(), sigma=sigma)]
    chosen = place[[system.manifold.coordinate(i) for i in own]].tolist(), flow[own].tolist()
    if coordinates == "independent":
        return [Prior("z", chosen[0], sigma=sigma), Prior("dz", chosen[1], sigma=sigma)]
    rows = _independent(system)
    return [Prior("q", chosen[0], rows=rows, sigma=sigma), Prior("v", chosen[1], rows=rows, sigma=sigma)]


def _constraints(system: System, coordinates: Coordinates, sigma: float) -> list[GraphFactor]:
    if coordinates == "dependent" and len(system.independent) == len(system.names):
        return []
    return [PositionConstraint(coordinates, sigma=sigma), VelocityConstraint(coordinates, sigma=sigma)]


STAGES = (
    Stage(variables=("q",), factors=("reference", PositionConstraint, "soft equality q")),
    Stage(variables=("q", "v", "a"), factors=("reference", PositionConstraint, "soft equality q", Trapezoid)),
    Stage(
        variables=("q", "v", "a"),
        factors=("reference", PositionConstraint, "soft equality q", Trapezoid, VelocityConstraint),
    ),
)
"""Of section 7.2 those before the last one, for ``inverse_dynamics`` in dependent coordinates: where the mechanism is,
how it moves, how it moves within its constraints; then ``Graph.solve`` asks for the efforts too."""
