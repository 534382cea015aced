"""The reduced problem: constraints and private unknowns eliminated step by step, and the remaining merit function.

- *Local* equality constraints contain one step only (rigid joints, g(q_k) = 0): steps stay in their null space
  (``null_space``).
- *Private* unknowns occur in one factor at one offset only (the multipliers of rigid joints): they are fitted by least
  squares and projected out (variable projection).
- *Coupled* equality constraints c = 0 link several steps. Their multipliers ρ s are unknowns of the same linear system;
  the merit function is an augmented Lagrangian, with ρ |c + s|² − ρ |s|².

See docs/explanation/solver.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from spookid.kernels.arrays import Array, contiguous
from spookid.kernels.thread_pool import SERIAL, ThreadPool, Workspace
from spookid.records import dataclass
from spookid.solvers.condensation import Layout, condensed
from spookid.solvers.null_space import NullSpace, TangentSpace
from spookid.solvers.rows import Rows, Stream
from spookid.transcription.factor import Block, Factor, Group
from spookid.transcription.transcription import Point, Transcription

PENALTY = 1e3
"""ρ makes coupled rows that switch this much stiffer in the merit than the soft ones at the start: a fit of exact
friction does not converge without. All others are as stiff as the soft ones: a large ρ would have steps follow the rows
at the expense of the cost."""
_SAMPLES = 32
"""Steps that are looked at for how stiff rows are."""


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Evaluated point: residuals and cost."""

    point: Point
    costs: dict[Group, float]
    """Of the soft factors."""
    residuals: list[list[Array]]
    """Per chain and factor, hard ones as they are, (count, rows)."""
    merit: float
    """Cost and augmented Lagrangian terms."""

    @property
    def cost(self) -> float:
        """Sum over the groups."""
        return sum(self.costs.values())


@dataclass(frozen=True, eq=False)
class _Linearized:
    """A point, what is left to its steps, and what has been linearized there."""

    point: Point
    spaces: list[TangentSpace]
    """Per chain."""
    rows: dict[tuple[int, str], Rows]
    """By chain and name of the factor."""


class ReducedProblem:
    """Transcription in the null space of its local equality constraints, as a least-squares solver uses it.

    Args:
        null_space: that of the problem, if its ranks are known; None: they are found at ``start``.
    """

    def __init__(
        self, problem: Transcription, start: Point, pool: ThreadPool = SERIAL, null_space: NullSpace | None = None
    ) -> None:
        self.problem, self.pool, self.start = problem, pool, start
        self.local = list(problem.local)
        self.coupled = [f for f in problem.factors if f.hard and f not in self.local]
        self.kept = [f for f in problem.factors if f not in self.local]
        self.private = {f.name: (f.private[0], np.array(f.private[1])) for f in problem.factors if f.private}
        """Factor name to (offset, tangent columns) of the unknowns that occur in that factor only."""
        self.columns = np.array(problem.visible, dtype=int)
        """Tangent columns of a step that are not private."""
        self._null_space = null_space or NullSpace(problem, start, pool)
        self._here: _Linearized | None = None
        """The point that was looked at last."""
        self._shift = [
            {f.name: np.zeros((f.count(chain.steps), len(f.rows))) for f in self.coupled} for chain in problem.chains
        ]
        """s per chain and coupled factor."""
        self.workspaces = [Workspace() for _ in problem.chains]
        """Memory for one factorization at a time, per chain."""
        self.tangent = len(self.columns) - self._null_space.rank
        """Unknowns left of each step."""
        self.flat = self._null_space.flat
        """As of the null space."""
        switching = any(f.box is not None for f in self.coupled)
        self.penalty = (PENALTY if switching else 1.0) * self._balance(start) if self.coupled else 0.0
        """ρ."""

    @property
    def _chains(self) -> range:
        return range(len(self.problem.chains))

    @property
    def redundant(self) -> int:
        """Number of redundant local equality constraints of a step."""
        return sum(len(f.rows) for f in self.local) - self._null_space.rank

    def hidden(self, factor: Factor) -> int:
        """Number of equations of a factor that its private unknowns can satisfy."""
        return self._null_space.ranks.get(factor.name, 0)

    def project(self, point: Point) -> Point:
        """Point projected onto its local equality constraints, with fitted private unknowns."""
        self._here = _Linearized(*self._null_space.project(point), {})
        return self._here.point

    def evaluate(self, point: Point) -> Evaluation:
        """Residuals and merit."""
        residuals = self.problem.residuals(point, self._known(point), self.pool)
        costs = self.problem.costs(residuals)
        return Evaluation(point, costs, residuals, sum(costs.values()) + self.constraint_merit(residuals))

    def _known(self, point: Point) -> list[dict[str, Array]]:
        """Residuals at a projected point, per chain by the name of their factor: those that projecting has
        found out, and others that linearizing gives at hardly more than their own price, for most points are
        linearized at."""
        place = self._here
        if self.whole or place is None or place.point is not point:
            return []
        cheap = [f for f in self.kept if not (f.name in self.private or f in self.coupled or f.first_only)]

        def of(c: int) -> dict[str, Array]:
            for factor in cheap:
                place.rows[c, factor.name] = self._rows(factor, point, c, place.spaces[c])
            rows = {name: rows.matrix[:, -1] for (chain, name), rows in list(place.rows.items()) if chain == c}
            return {**place.spaces[c].residuals, **rows}

        return self.pool.map(of, self._chains)

    def merit(self, residuals: list[list[Array]]) -> float:
        """Merit function Σ r² + ρ Σ |c + s|² − ρ Σ |s|² of raw residuals."""
        return sum(self.problem.costs(residuals).values()) + self.constraint_merit(residuals)

    def infeasibility(self, residuals: list[list[Array]]) -> float:
        """First-order change of the cost if coupled constraints were satisfied: ρ Σ |c| (|c| + 2|s|)."""
        return self._coupled_sum(
            residuals, lambda rows, shift: float(np.vdot(rows, rows) + 2 * np.sum(np.abs(rows * shift)))
        )

    def shift_to(self, scaled: Sequence[Sequence[Array]], rows: Sequence[Sequence[Rows]]) -> float:
        """Set the multipliers s of the coupled constraints; returns the norm of √ρ times their change.

        Args:
            scaled: √ρ s per chain and coupled factor, in the rows that are left.
            rows: per chain and coupled factor its linearization.
        """
        error = 0.0
        for chain, values in enumerate(scaled):
            for factor, value, block in zip(self.coupled, values, rows[chain], strict=True):
                shift = value[: len(block.matrix)] / np.sqrt(self.penalty)
                if block.complement is not None:
                    shift = np.matmul(block.complement, shift[:, :, None])[:, :, 0]
                error += float(np.sum((shift - self._shift[chain][factor.name]) ** 2))
                self._shift[chain][factor.name] = shift
        return float(np.sqrt(self.penalty * error))

    def forces(self, chain: int) -> list[Array]:
        """Multipliers √ρ s of each coupled factor, (count, rows), by which √ρ c is multiplied."""
        return [np.sqrt(self.penalty) * self._shift[chain][f.name] for f in self.coupled]

    def multipliers(self, chain: int, factor: Factor) -> Array:
        """Multipliers s of a coupled factor, (count, rows)."""
        return self._shift[chain][factor.name]

    def augmented(self, chain: int, residuals: Sequence[Array]) -> list[Array]:
        """Residuals of the remaining factors in the form of the linearized problem."""
        values = []
        for factor, rows in zip(self.problem.factors, residuals, strict=True):
            if factor in self.kept:
                values.append(np.sqrt(self.penalty) * rows if factor in self.coupled else rows)
        return values

    def pulls(self, chain: int, residuals: Sequence[Array]) -> list[Array]:
        """Multipliers of the equations of the remaining factors in the gradient, per factor, (count, rows)."""
        forces, rows = iter(self.forces(chain)), zip(self.kept, self.augmented(chain, residuals), strict=True)
        return [next(forces) if f in self.coupled else values for f, values in rows]

    def constraint_merit(self, residuals: list[list[Array]]) -> float:
        """Constraint part of the merit, ρ Σ |c + s|² − ρ Σ |s|², of the coupled constraints."""
        return self._coupled_sum(residuals, lambda rows, shift: float(np.vdot(rows, rows + 2 * shift)))

    def _coupled_sum(self, residuals: list[list[Array]], term: Callable[[Array, Array], float]) -> float:
        """ρ times the sum of a term of c and s."""
        return self.penalty * sum(
            term(rows, self._shift[c][factor.name])
            for c, values in enumerate(residuals)
            for factor, rows in zip(self.problem.factors, values, strict=True)
            if factor in self.coupled
        )

    def linearize(self, point: Point, chain: int, kept: bool = False) -> tuple[list[Rows | Stream], Array | None]:
        """Linearized factors in the remaining unknowns, and the basis (N, columns, tangent) of a step; complete factors
        are streamed, unless Jacobians are ``kept``."""
        space = self.spaces(point)[chain]
        rows: list[Rows | Stream] = []
        for factor in self.kept:
            stream = self.whole and not kept and factor not in self.coupled
            rows.append(self._stream(factor, point, chain) if stream else self._taken(factor, point, chain, space))
        return rows, space.basis

    def scale(self, factor: Factor) -> float:
        """Factor by which residuals are multiplied before they are squared."""
        return float(np.sqrt(self.penalty)) if factor in self.coupled else 1.0

    def rows(self, factor: Factor, point: Point, chain: int) -> Rows:
        """One of these factors."""
        return self._taken(factor, point, chain, self.spaces(point)[chain])

    def _taken(self, factor: Factor, point: Point, chain: int, space: TangentSpace) -> Rows:
        """Rows that evaluating has found out, or new ones."""
        there = {} if self._here is None else self._here.rows
        return there.get((chain, factor.name)) or self._rows(factor, point, chain, space)

    def _stream(self, factor: Factor, point: Point, chain: int) -> Stream:
        call = self.problem.jacobian(factor, point, chain)
        return Stream(tuple(factor.variables), call, partial(self.problem.pull_back, factor, point, chain))

    def spaces(self, point: Point) -> list[TangentSpace]:
        """Remaining directions of each chain at a point, computed once."""
        if self._here is None or self._here.point is not point:
            self._here = _Linearized(point, self._null_space.spaces(point), {})
        return self._here.spaces

    @cached_property
    def whole(self) -> bool:
        """True if no equation or unknown is eliminated: tangent columns are the unknowns."""
        return not self.local and not self._null_space.ranks and len(self.columns) == self.problem.manifold.tangent

    def _balance(self, point: Point) -> float:
        """ρ that makes the coupled rows as stiff as the soft ones in the unknowns they share; 1 if they share none."""
        width = self.problem.manifold.tangent
        soft, hard = np.zeros(width), np.zeros(width)
        for block in (b for c in self._chains for b in self._samples(point, c) if b.factor not in self.local):
            squares = np.einsum("kcr,kcr->c", block.matrix, block.matrix)[: len(block.factor.variables) * width]
            target = hard if block.factor in self.coupled else soft
            target += squares.reshape(-1, width).sum(axis=0)
        return float(soft @ hard / (hard @ hard)) or 1.0

    def _samples(self, point: Point, chain: int) -> Iterator[Block]:
        """All factors linearized at some steps of a chain."""
        for factor in self.problem.factors:
            call = self.problem.jacobian(factor, point, chain)
            every = max(len(call.stepwise[0]) // _SAMPLES, 1)
            some = replace(call, stepwise=[contiguous(values[::every]) for values in call.stepwise])
            yield Block(factor, chain, some(slice(None)))

    def expand(self, step: Array, basis: Array | None) -> Array:
        """Tangent step (N, all columns) from a step (N, tangent) of the remaining unknowns; private ones stay."""
        moved = step if basis is None else np.matmul(basis, step[:, :, None])[:, :, 0]
        if len(self.columns) == self.problem.manifold.tangent:
            return moved
        full = np.zeros((len(step), self.problem.manifold.tangent))
        full[:, self._places] = moved
        return full

    @cached_property
    def _places(self) -> slice | NDArray[np.int64]:
        """The columns as a slice if they follow one another: it copies nothing."""
        if len(self.columns) and np.all(np.diff(self.columns) == 1):
            return slice(int(self.columns[0]), int(self.columns[-1]) + 1)
        return self.columns

    def _rows(self, factor: Factor, point: Point, chain: int, space: TangentSpace) -> Rows:
        offsets, complement = tuple(factor.variables), space.complements.get(factor.name)
        call = self.problem.jacobian(factor, point, chain)
        places = None
        if self.whole:
            matrix, places = call(slice(None)), call.kernel.places
        else:
            layout = Layout(offsets, self.problem.manifold.tangent, self.problem.visible, len(self.problem.names))
            matrix = condensed(call, layout, space.basis, space.drag, complement)
        rows = Rows(offsets, matrix, complement, places)
        if factor in self.coupled:
            matrix *= np.sqrt(self.penalty)
        return rows
