"""Factors of a graph as one-step functions of a transcription with their data; stages; equality constraints that can
all hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import casadi as ca
import numpy as np

from spookid.argument_checks import Checked
from spookid.errors import ProblemError, declared_at, shown
from spookid.graphs.factor import GraphFactor, Variables, Window
from spookid.kernels.arrays import Array, Mask, contiguous
from spookid.kernels.precision import DEPENDENT
from spookid.solvers import stages
from spookid.transcription.factor import Constant, Factor, Kind
from spookid.transcription.transcription import Point, Transcription

EXACTLY = "{} exactly"  # name of the equality constraints of a factor that has soft ones too


@dataclass(frozen=True, eq=False)
class Written:
    """Equations of one factor of a graph: all equations, only residuals, or only equality constraints."""

    source: GraphFactor
    factor: Factor
    constants: tuple[Constant, ...]  # its sigmas
    signals: tuple[str, ...]
    """Names of its data, one below the other; the presence of each row follows them if samples may be missing."""

    def data(self, given: Mapping[str, Array], count: int) -> tuple[Array, Mask]:
        """Return data (count, n_d) at the first ``count`` steps, and flags of equations without data, (count, rows)."""
        gaps = self.source.optional and not self.factor.hard
        columns = np.full((count, len(self.signals)), np.nan)
        for i, signal in enumerate(self.signals):
            if signal in given:
                columns[:, i] = given[signal][:count]
            elif not self.source.optional:
                what = f"{self.source.what} takes the signal {signal!r}"
                raise ProblemError(f"{what}, which is missing in the data; give its values")
        absent = np.isnan(columns)
        if gaps:
            return contiguous(np.hstack([np.where(absent, 0.0, columns), ~absent])), absent
        if np.any(absent):
            signal = self.signals[int(np.argmax(absent.any(axis=0)))]
            what = f"{self.source.what} takes the signal {signal!r}"
            raise ProblemError(f"{what}, which has gaps; give its values at all steps")
        return columns, np.zeros((count, len(self.factor.rows)), dtype=bool)


def written(source: GraphFactor, variables: Variables, step: ca.SX) -> list[Written]:
    """Translate one factor of a graph for the solver, with constraints separate from residuals."""
    labels, signals = source.labels(variables), source.signals(variables.system)
    x = {i: ca.SX.sym(f"x_{i}", variables.manifold.ambient) for i in range(source.reach + 1)}
    whole = ca.SX.sym("given", len(signals))
    given = dict(zip(signals, ca.vertsplit(whole) if signals else (), strict=True))
    error = ca.densify(source.error(Window(variables, step, [variables.of(one) for one in x.values()], given)))
    if error.numel() != len(labels):
        what = f"{source.what} has an error of {error.numel()} rows and {len(labels)} labels"
        raise ProblemError(f"{what}; make them one")
    sigmas, found = source.sigmas(len(labels)), list[Written]()
    for soft, rows in ((True, np.flatnonzero(sigmas > 0)), (False, np.flatnonzero(sigmas == 0))):
        if not len(rows):
            continue
        chosen, data, own, constants = error[rows.tolist()], whole, signals, list[Constant]()
        if soft:
            sizes = ca.SX.sym("sigma", len(rows))
            constants = list(map(Constant, ca.vertsplit(sizes), sigmas[rows].tolist()))
            chosen = chosen / sizes
        if source.optional:
            own, data = tuple(signals[i] for i in rows), whole[rows.tolist()]
            if soft:
                present = ca.SX.sym("present", len(rows))
                chosen, data = present * chosen, ca.vertcat(data, present)
        name = source.title if soft or len(rows) == len(labels) else EXACTLY.format(source.title)
        names, kind = tuple(f"{source.title}: {labels[i]}" for i in rows), Kind.SOFT if soft else Kind.HARD
        factor = Factor(name, source.group, chosen, x, data, names, first_only=source.first_only, kind=kind)
        found.append(Written(source, factor, tuple(constants), own))
    return found


def check_hard_rows(problem: Transcription, parts: Sequence[Written], point: Point, what: str) -> None:
    """Raise ProblemError for redundant constraints at the first step, or more constraints than unknowns of a step."""
    width = problem.manifold.tangent
    hard = [part for part in parts if part.factor.hard]
    every = _added(problem, [p for p in hard if not (p.factor.reach or p.factor.first_only)], point, [], "each step")
    linked = sum(len(part.factor.rows) for part in hard if part.factor.reach)
    if rank(every) + linked > width:
        raise ProblemError(
            f"{what} has {rank(every) + linked} constraints for {width} unknowns of a step; give some of its factors a "
            "sigma"
        )
    first = [part for part in hard if part.factor.first_only and not part.factor.reach]
    _added(problem, first, point, every, "the first step")


def _added(
    problem: Transcription, parts: Sequence[Written], point: Point, known: list[Array], where: str
) -> list[Array]:
    """Slopes of the rows that are known, and of these parts beside them, each (rows, tangent)."""
    for part in parts:
        slopes = problem.jacobian(part.factor, point, 0)(slice(0, 1))[0, : problem.manifold.tangent].T
        if not np.all(np.isfinite(slopes)):
            continue  # of a start that is not feasible; the solve says so
        if rank([*known, slopes]) < rank(known) + len(slopes):
            raise ProblemError(
                f"{part.source.what} {part.source.title!r} fixes at {where} what other hard factors determine already; "
                "give it rows of independent coordinates, or a sigma"
            )
        known = [*known, slopes]
    return known


def rank(rows: Sequence[Array]) -> int:
    """Rank of the matrix that stacks the given matrices vertically."""
    return int(np.linalg.matrix_rank(np.vstack(rows), DEPENDENT)) if rows else 0


@dataclass(frozen=True)
class Stage(metaclass=Checked):
    """Stage of a solve: which factors are used, which variables are free. ``Graph.solve`` adds a last stage with all::

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
        """Return the corresponding stage for the transcription of a graph.

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
        for one in (one for one in self.factors or () if not any(_is(part.source, one) for part in written)):
            what = f"{self.place}: Stage holds {shown(one)}, which is no factor of the graph"
            raise ProblemError(f"{what}; add it to the graph, or leave it out")
        if not any(part.factor.soft and set(part.source.variables) & set(moving) for part in chosen):
            names = ", ".join(moving)
            raise ProblemError(f"{self.place}: Stage has no factor of {names} with a sigma; add one")
        every = range(variables.manifold.ambient)
        coordinates = [i for name in moving for i in every[variables.coordinates(name)]]
        return stages.Stage(tuple(part.factor.name for part in chosen), tuple(coordinates), self.parameters)

    def _counts(self, source: GraphFactor, moving: Sequence[str]) -> bool:
        if self.factors is None:
            return set(source.variables) <= set(moving)
        return any(_is(source, one) for one in self.factors)


def _is(source: GraphFactor, one: type[GraphFactor] | str) -> bool:
    return source.title == one if isinstance(one, str) else type(source) is one
