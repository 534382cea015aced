"""The reduced problem: hard rows and unknowns eliminated step by step, and the merit function of those that remain.

- *Local* hard rows touch one step alone (rigid joints, g(q_k) = 0): steps stay in their null space (``null_space``).
- *Private* unknowns stand in one factor at one offset only (the multipliers of rigid joints): they are fitted by least
  squares and projected out (variable projection).
- *Coupled* hard rows c = 0 link several steps. They enter as rows √ρ (c + s) of an augmented Lagrangian, with the
  penalty ρ and the multipliers ρ s, s ← s + c + Cδ; or their multipliers are solved for together with the step
  (``saddle``).

See docs/explanation/solver.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from spookid.kernels.arrays import Array, contiguous
from spookid.kernels.riccati import RiccatiRoutines
from spookid.kernels.thread_pool import SERIAL, ThreadPool, Workspace
from spookid.records import dataclass
from spookid.solvers.condensation import Layout, condensed
from spookid.solvers.null_space import NullSpace, TangentSpace
from spookid.solvers.rows import Rows, Stream
from spookid.transcription.factor import Block, Factor, Group
from spookid.transcription.transcription import Point, Transcription

PENALTY = 1e3
"""ρ makes the coupled rows this much stiffer than the soft ones at the start. Those that link neighbouring steps alone
are as stiff as the soft ones: ρ then only weighs them in the merit, and a large one would have steps follow the rows at
the expense of the cost. Rows that switch need it: a fit of exact friction does not converge without."""
_FEW_ROWS, _SMALL = 0.25, 16
"""Where rows reach beyond the next step a saddle-point solve costs 4 (1 + m/t)³ times the penalty's for m rows and t
unknowns a step: worth it for few rows, or steps that are small."""
_SAMPLES, _INDEPENDENT = 32, 1e-6
"""Steps that are looked at for rows that others imply, and the least share of the largest singular value."""
_STIFF = 10.0
"""ρ is raised so much for rows that take the place of multipliers."""
_STIFFEST = 1e14
"""Where the equations of motion themselves are hard, slow errors in them cost next to nothing until they are so much
stiffer than the observations in the unknowns that are left; a hundred times as much, and rounding takes over."""
_RANDOM = 1e11
"""Where sizes of random rows are estimated, and may be anything, hard rows of the dynamics are so much stiffer than the
observations: the information in the parameters is then right to four digits or more, and none are lost to rounding."""


@dataclass(frozen=True, eq=False)
class Evaluation:
    """A point and what it costs."""

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
    """A transcription as a least-squares solver sees it, in the null space of its local hard rows."""

    def __init__(
        self, problem: Transcription, start: Point, pool: ThreadPool = SERIAL, recursion: RiccatiRoutines | None = None
    ) -> None:
        self.problem, self.pool, self.start = problem, pool, start
        self.local = list(problem.local)
        self.coupled = [f for f in problem.factors if f.hard and f not in self.local]
        self.kept = [f for f in problem.factors if f not in self.local]
        self.private = {f.name: (f.private[0], np.array(f.private[1])) for f in problem.factors if f.private}
        """Factor name to (offset, tangent columns) of the unknowns that stand in that factor only."""
        self.columns = np.array(problem.visible, dtype=int)
        """Tangent columns of a step that are not private."""
        self._null_space = NullSpace(problem, start, pool)
        self._here: _Linearized | None = None
        """The point that was looked at last."""
        self._shift = [
            {f.name: np.zeros((f.count(chain.steps), len(f.rows))) for f in self.coupled} for chain in problem.chains
        ]
        """s per chain and coupled factor."""
        self.workspaces = [Workspace() for _ in problem.chains]
        """Memory for one factorization at a time, per chain."""
        self.recursion = recursion
        """What solves for the coupled rows in any case; None: what costs least."""
        self.saddle = False
        """True if the coupled rows are solved for together with their multipliers, not by a penalty."""
        self.tangent = len(self.columns) - self._null_space.rank
        """Unknowns left of each step."""
        self.penalty = PENALTY * self._balance(start, *Group) if self.coupled else 0.0
        """ρ."""
        rows = sum(len(f.rows) - self.hidden(f) for f in self.coupled)
        few = 0 < rows <= max(_FEW_ROWS * self.tangent, _SMALL - self.tangent)
        switching = any(f.box is not None for f in self.coupled)  # a row that switches is no slow penalty's
        linked = rows > 0 and not switching and self._linked(start)
        self.saddle = few or switching or linked or recursion is not None
        self._stiffness = 1.0 if linked else PENALTY
        self.penalty *= self._stiffness / PENALTY

    @property
    def _chains(self) -> range:
        return range(len(self.problem.chains))

    def _linked(self, point: Point) -> bool:
        """True if no factor reaches beyond the next step and the coupled rows are independent in the unknowns there, so
        that blocks of one step each suffice to solve for their multipliers; those of the first state stand there."""
        linking = [f for f in self.coupled if not f.first_only]
        if any(f.reach > 1 for f in self.kept) or not linking or any(f.reach == 0 for f in linking):
            return False
        for c in self._chains:
            blocks = [b for b in self._samples(point, c) if b.factor in linking]
            later = slice(self.problem.manifold.tangent, 2 * self.problem.manifold.tangent)
            whole = np.concatenate([self._unreached(b)[:, later].transpose(0, 2, 1) for b in blocks], axis=1)
            values = np.linalg.svd(whole, compute_uv=False)
            if not np.all(values[:, -1] > _INDEPENDENT * values[:, 0]):
                return False
        return True

    def _unreached(self, block: Block) -> Array:
        """Its matrix in the rows that private unknowns do not reach."""
        if block.factor.name not in self.private:
            return block.matrix
        offset, columns = self.private[block.factor.name]
        place = list(block.factor.variables).index(offset) * self.problem.manifold.tangent + columns
        rows = np.linalg.svd(block.matrix[:, place])[2][:, self.hidden(block.factor) :]
        return np.asarray(np.matmul(block.matrix, rows.transpose(0, 2, 1)))

    @property
    def redundant(self) -> int:
        """Local hard rows of a step that say what others say already."""
        return sum(len(f.rows) for f in self.local) - self._null_space.rank

    def hidden(self, factor: Factor) -> int:
        """How many rows of a factor its private unknowns reach."""
        return self._null_space.ranks.get(factor.name, 0)

    def project(self, point: Point) -> Point:
        """The point with its local hard rows satisfied and its private unknowns fitted."""
        self._here = _Linearized(*self._null_space.project(point, self._held), {})
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
        """Cost Σ r² + ρ Σ |c + s|² − ρ Σ |s|² of raw residuals."""
        return sum(self.problem.costs(residuals).values()) + self.constraint_merit(residuals)

    def infeasibility(self, residuals: list[list[Array]]) -> float:
        """How much satisfying the coupled rows could change the cost, to first order: ρ Σ |c| (|c| + 2|s|)."""
        return self._coupled_sum(
            residuals, lambda rows, shift: float(np.vdot(rows, rows) + 2 * np.sum(np.abs(rows * shift)))
        )

    def shift_to(self, scaled: Sequence[Sequence[Array]], rows: Sequence[Sequence[Rows]]) -> float:
        """Set the multipliers s of the coupled rows; the norm of √ρ times their change.

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

    def stiffen(self) -> None:
        """Turn the coupled rows into stiff soft ones, for those who look at a linearization without multipliers."""
        soft = [f for f in self.kept if f.group is Group.STATE and not f.first_only and f not in self.coupled]
        dynamics = any(f.box is None and not f.first_only for f in self.coupled)
        if dynamics and any(f.noise for f in soft):
            self.penalty = _RANDOM * self._balance(self.start, Group.OBSERVATION)
        elif soft or not self.coupled:
            self.penalty *= _STIFF * PENALTY / self._stiffness
        else:
            self.penalty *= _STIFFEST * self._balance_left(self.start)
        self.saddle = False

    def forces(self, chain: int) -> list[Array]:
        """√ρ s of each coupled factor, (count, rows): what the rows √ρ c are multiplied by."""
        return [np.sqrt(self.penalty) * self._shift[chain][f.name] for f in self.coupled]

    def multipliers(self, chain: int, factor: Factor) -> Array:
        """s of a coupled factor, (count, rows)."""
        return self._shift[chain][factor.name]

    def augmented(self, chain: int, residuals: Sequence[Array]) -> list[Array]:
        """Residuals of the kept factors as the linearized problem has them."""
        values = []
        for factor, rows in zip(self.problem.factors, residuals, strict=True):
            if factor in self.coupled:
                values.append(np.sqrt(self.penalty) * (rows + self._held(chain, factor)))
            elif factor in self.kept:
                values.append(rows)
        return values

    def pulls(self, chain: int, residuals: Sequence[Array]) -> list[Array]:
        """What the rows of the kept factors are multiplied by in the gradient, per factor, (count, rows)."""
        forces = iter(self.forces(chain) if self.saddle else ())
        rows = zip(self.kept, self.augmented(chain, residuals), strict=True)
        return [next(forces) if self.saddle and f in self.coupled else values for f, values in rows]

    def _held(self, chain: int, factor: Factor) -> Array | float:
        """s of a coupled factor as far as it stands in its rows: not where multipliers are solved for."""
        return 0.0 if self.saddle or factor not in self.coupled else self._shift[chain][factor.name]

    def constraint_merit(self, residuals: list[list[Array]]) -> float:
        """ρ Σ |c + s|² − ρ Σ |s|² of the coupled rows."""
        return self._coupled_sum(residuals, lambda rows, shift: float(np.vdot(rows, rows + 2 * shift)))

    def _coupled_sum(self, residuals: list[list[Array]], term: Callable[[Array, Array], float]) -> float:
        """ρ times the sum of a term of c and s."""
        return self.penalty * sum(
            term(rows, self._shift[c][factor.name])
            for c, values in enumerate(residuals)
            for factor, rows in zip(self.problem.factors, values, strict=True)
            if factor in self.coupled
        )

    def reduce(self, point: Point, chain: int) -> tuple[list[Rows], Array | None]:
        """The kept factors linearized in the unknowns that are left, and the basis (N, columns, tangent) of a step."""
        space = self.spaces(point)[chain]
        return [self._taken(f, point, chain, space) for f in self.kept], space.basis

    def linearize(self, point: Point, chain: int) -> tuple[list[Rows | Stream], Array | None]:
        """The same, but factors that keep all their rows and columns are streams."""
        space = self.spaces(point)[chain]
        rows: list[Rows | Stream] = []
        for factor in self.kept:
            whole = self.whole and factor not in self.coupled
            rows.append(self._stream(factor, point, chain) if whole else self._taken(factor, point, chain, space))
        return rows, space.basis

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
        """What is left to each chain at a point; found out once."""
        if self._here is None or self._here.point is not point:
            self._here = _Linearized(point, self._null_space.spaces(point), {})
        return self._here.spaces

    @cached_property
    def whole(self) -> bool:
        """True if nothing is left out of a step: its tangent columns are the unknowns, and all rows are there."""
        return not self.local and not self._null_space.ranks and len(self.columns) == self.problem.manifold.tangent

    def _balance(self, point: Point, *groups: Group) -> float:
        """ρ that makes the coupled rows as stiff as the soft ones of some groups in the unknowns they share."""
        blocks = (b for c in self._chains for b in self._samples(point, c))
        shared = (b for b in blocks if b.factor in self.coupled or b.factor.group in groups)
        rows = ((b.factor, b.matrix) for b in shared if b.factor not in self.local)
        return self._ratio(rows, self.problem.manifold.tangent)

    def _balance_left(self, point: Point) -> float:
        """By how much ρ is to grow to make them as stiff as all soft rows in the unknowns that are left of each step,
        whatever those are."""
        reduced = (zip(self.kept, self.reduce(point, c)[0], strict=True) for c in self._chains)
        return self._ratio(((factor, rows.matrix) for pairs in reduced for factor, rows in pairs), self.tangent)

    def _ratio(self, rows: Iterable[tuple[Factor, Array]], width: int) -> float:
        """Squares of soft rows over those of coupled ones, in unknowns of which a step has so many; 1 if they share
        none."""
        soft, hard = np.zeros(width), np.zeros(width)
        for factor, matrix in rows:
            squares = np.einsum("kcr,kcr->c", matrix, matrix)[: len(factor.variables) * width]
            target = hard if factor in self.coupled else soft
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
        """Tangent step (N, all columns) of a step (N, tangent) of the unknowns that are left; private ones stay."""
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
            held = self._held(chain, factor)
            matrix[:, -1] += held if isinstance(held, float) else rows.reduce(held)
            matrix *= np.sqrt(self.penalty)
        return rows
