"""Hard rows and unknowns that a problem can be rid of step by step, and the merit function of those that remain.

Three things happen between a Transcription and a solver of least-squares problems.

- *Local* hard rows touch one step alone (rigid joints, g(q_k) = 0). Their null space is the tangent space of the
  surface they leave free, so that a mechanism with d degrees of freedom costs d unknowns a step; every point is put
  back on the surface by Newton's method. Redundant rows (closed loops) are found by their singular values.
- *Private* unknowns stand in one factor at one offset only (the multipliers of rigid joints). Each step's are fitted by
  linear least squares at every point and projected out of the linearization (variable projection).
- *Coupled* hard rows c = 0 link several steps. They enter as rows √ρ (c + s) of an augmented Lagrangian: ρ is a penalty
  and ρ s are their multipliers. Each step solves the linearized problem with Cδ = −c to round-off by the method of
  multipliers, s ← s + c + Cδ, which costs a back-substitution a pass; with those s the merit falls along the step.
  Where rows are few, or link neighbouring steps alone and are independent, their multipliers are solved for instead,
  together with the step (``saddle``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spookid.factor import Factor, Group
from spookid.kernels import Array
from spookid.native import address, integers, routines
from spookid.solvers.batched import null_space, rank, smallest_solution, split
from spookid.transcription import Block, Point, Transcription

PENALTY = 1e3
"""ρ makes the coupled rows this much stiffer than the soft ones at the start. Those that link neighbouring steps alone
are as stiff as the soft ones: ρ then only weighs them in the merit, and a large one would have steps follow the rows at
the expense of the cost. Rows that switch need it: a fit of exact friction does not converge without."""
_FEW_ROWS, _SMALL = 0.25, 16
"""Where rows reach beyond the next step a saddle-point solve costs 4 (1 + m/t)³ times the penalty's for m rows and t
unknowns a step: worth it for few rows, or steps that are small."""
_SAMPLES, _INDEPENDENT = 10, 1e-6
"""Steps that are looked at for rows that others imply, and the least share of the largest singular value."""
_STIFF, _STIFFEST = 1e4, 1e18
"""ρ is raised so much for rows that take the place of multipliers. Where the equations of motion themselves are hard,
slow errors in them cost next to nothing until they are this stiff; other rows lose to rounding much earlier."""
_NEWTON = 20
_ON_SURFACE = 1e-14
_REFITS = 3
_CHUNK = 128
"""Steps whose full Jacobians are in memory at once."""


@dataclass(frozen=True, eq=False)
class Rows:
    """One factor's linearization along one chain, in the unknowns that are left."""

    offsets: tuple[int, ...]
    matrix: Array
    """(count, columns + 1, rows): transposed Jacobian, steps in order of offset, parameters last; then the residual."""
    complement: Array | None
    """Orthonormal basis of the residuals that private unknowns cannot reach, (count, all rows, rows); None: all."""

    def reduce(self, residual: Array) -> Array:
        """A residual (count, all rows) in these rows."""
        if self.complement is None:
            return residual
        return np.asarray(np.matmul(residual[:, None, :], self.complement)[:, 0])


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


class Reduction:
    """A transcription seen by a least-squares solver."""

    def __init__(self, problem: Transcription, start: Point) -> None:
        self.problem = problem
        self.local = [f for f in problem.factors if f.hard and f.reach == 0 and not f.first_only]
        self.coupled = [f for f in problem.factors if f.hard and f not in self.local]
        self.kept = [f for f in problem.factors if f not in self.local]
        self.private = {f.name: (f.private[0], np.array(f.private[1])) for f in problem.factors if f.private}
        """Factor name to (offset, tangent columns) of the unknowns that stand in that factor only."""
        hidden = {c for _, columns in self.private.values() for c in columns}
        self.columns = np.array([c for c in range(problem.manifold.tangent) if c not in hidden], dtype=int)
        """Tangent columns of a step that are not private."""
        self._native = routines(sum(chain.steps for chain in problem.chains))
        self._shift = [
            {f.name: np.zeros((f.count(chain.steps), len(f.rows))) for f in self.coupled} for chain in problem.chains
        ]
        """s per chain and coupled factor."""
        self.saddle = False
        """True if the coupled rows are solved for together with their multipliers, not by a penalty."""
        self._local_rank = max((rank(self._local(start, c)[0]) for c in self._chains), default=0)
        self._private_rank = {
            f.name: max((rank(self._private(f, start, c)[0]) for c in self._chains), default=0)
            for f in self.kept
            if f.name in self.private
        }
        self.tangent = len(self.columns) - self._local_rank
        """Unknowns left of each step."""
        self.penalty = PENALTY * self._balance(start) if self.coupled else 0.0
        """ρ."""
        rows = sum(len(f.rows) - self._private_rank.get(f.name, 0) for f in self.coupled)
        few = 0 < rows <= max(_FEW_ROWS * self.tangent, _SMALL - self.tangent)
        switching = any(f.box is not None for f in self.coupled)  # a row that switches is no slow penalty's
        linked = rows > 0 and not switching and self._linked(start)
        self.saddle = few or switching or linked
        self._stiffness = 1.0 if linked else PENALTY
        self.penalty *= self._stiffness / PENALTY

    @property
    def _chains(self) -> range:
        return range(len(self.problem.chains))

    def _linked(self, point: Point) -> bool:
        """True if no factor reaches beyond the next step and the coupled rows are independent in the unknowns there, so
        that blocks of one step each suffice to solve for their multipliers."""
        if any(f.reach > 1 for f in self.kept) or self.private or any(f.reach == 0 for f in self.coupled):
            return False
        for c in self._chains:
            blocks = [self.problem.linearize_factor(f, point, c) for f in self.coupled]
            later = slice(self.problem.manifold.tangent, 2 * self.problem.manifold.tangent)
            whole = np.concatenate([b.matrix[:, later].transpose(0, 2, 1) for b in blocks], axis=1)
            values = np.linalg.svd(whole[:: max(len(whole) // _SAMPLES, 1)], compute_uv=False)
            if not np.all(values[:, -1] > _INDEPENDENT * values[:, 0]):
                return False
        return True

    @property
    def redundant(self) -> int:
        """Local hard rows of a step that say what others say already."""
        return sum(len(f.rows) for f in self.local) - self._local_rank

    def restore(self, point: Point) -> Point:
        """The point with its local hard rows satisfied and its private unknowns fitted."""
        if self.local:
            point = self._on_surface(point)
        for _ in range(_REFITS if self.private else 0):
            point, moved = self._refitted(point)
            if moved:
                break
        return point

    def evaluate(self, point: Point) -> Evaluation:
        """Residuals and merit."""
        residuals = self.problem.residuals(point)
        return Evaluation(point, self.problem.costs(residuals), residuals, self.merit(residuals))

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
        soft = any(f.group is Group.STATE and not f.first_only for f in self.kept if f not in self.coupled)
        self.penalty *= (_STIFF if soft else _STIFFEST) * PENALTY / self._stiffness
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

    def _held(self, chain: int, factor: Factor) -> Array | float:
        """s of a coupled factor as far as it stands in its rows: not where multipliers are solved for."""
        return 0.0 if self.saddle else self._shift[chain][factor.name]

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
        basis, drag = self._surface(point, chain) if self.local else (None, None)
        return [self._rows(f, point, chain, basis, drag) for f in self.kept], basis

    def _surface(self, point: Point, chain: int) -> tuple[Array, Array | None]:
        """Basis of the tangent space that local hard rows leave at each step, and how parameters drag it along,
        (N, columns, n_p); None if they do not."""
        blocks = [self.problem.linearize_factor(f, point, chain) for f in self.local]
        width = self.problem.manifold.tangent
        if not any(np.any(block.matrix[:, width:-1]) for block in blocks):
            return null_space(self._local_of(blocks), self._local_rank, self._native), None
        slopes = np.concatenate([b.matrix[:, width:-1].transpose(0, 2, 1) for b in blocks], axis=1)
        parts = split(self._local_of(blocks), self._local_rank, self._native)
        return parts.null, -np.matmul(parts.inverse, slopes)

    def _balance(self, point: Point) -> float:
        """ρ that makes the coupled rows as stiff as the soft ones in the unknowns they share."""
        width = self.problem.manifold.tangent
        soft, hard = np.zeros(width), np.zeros(width)
        for c in self._chains:
            for block in self.problem.linearize(point, c):
                squares = np.einsum("kcr,kcr->c", block.matrix, block.matrix)[: len(block.factor.variables) * width]
                if block.factor not in self.local:
                    target = hard if block.factor in self.coupled else soft
                    target += squares.reshape(-1, width).sum(axis=0)
        return float(soft @ hard / (hard @ hard))

    def expand(self, step: Array, basis: Array | None) -> Array:
        """Tangent step (N, all columns) of a step (N, tangent) of the unknowns that are left; private ones stay."""
        moved = step if basis is None else np.matmul(basis, step[:, :, None])[:, :, 0]
        full = np.zeros((len(step), self.problem.manifold.tangent))
        full[:, self.columns] = moved
        return full

    def _rows(self, factor: Factor, point: Point, chain: int, basis: Array | None, drag: Array | None) -> Rows:
        offsets, count = tuple(factor.variables), factor.count(self.problem.chains[chain].steps)
        private = factor.name in self.private
        if basis is None and not private and len(self.columns) == self.problem.manifold.tangent:
            return Rows(offsets, self._block(factor, point, chain, slice(0, count), None).matrix, None)
        rows, chunk, room = len(factor.rows), min(_CHUNK, count), None
        kept = rows - self._private_rank[factor.name] if private else rows
        complement = np.empty((count, rows, kept)) if private else None
        matrix = np.empty((count, len(offsets) * self.tangent + len(self.problem.names) + 1, kept))
        for start in range(0, count, chunk):
            part = slice(start, min(start + chunk, count))
            block = self._block(factor, point, chain, part, room)
            room = block.matrix if room is None else room
            if complement is not None:
                private_rows = self._private_of(block)
                complement[part] = null_space(private_rows, self._private_rank[factor.name], self._native)
            self._project(block, complement, basis, drag, part, matrix)
        return Rows(offsets, matrix, complement)

    def _block(self, factor: Factor, point: Point, chain: int, part: slice, room: Array | None) -> Block:
        """Some steps of a kept factor, shifted and scaled if it is hard."""
        block = self.problem.linearize_factor(factor, point, chain, part, room)
        if factor in self.coupled:
            held = self._held(chain, factor)
            np.add(block.residual, held if isinstance(held, float) else held[part], out=block.residual)
            np.multiply(block.matrix, np.sqrt(self.penalty), out=block.matrix)
        return block

    def _project(
        self,
        block: Block,
        complement: Array | None,
        basis: Array | None,
        drag: Array | None,
        part: slice,
        out: Array,
    ) -> None:
        """Rows of some steps in the complement and in the unknowns that are left."""
        offsets, width = tuple(block.factor.variables), self.problem.manifold.tangent
        left = None if complement is None else complement[part]
        moved = [slice(offset + part.start, offset + part.stop) for offset in offsets]
        if self._native is not None and basis is not None:
            seen, steps = integers(self.columns), integers([offset + part.start for offset in offsets])
            kept, target = out.shape[2], out[part]
            self._native.project(
                *(len(block.matrix), address(block.matrix), *block.matrix.shape[1:], address(left), kept),
                *(len(offsets), address(steps), width, len(seen), address(seen)),
                *(address(basis), self.tangent, address(drag), len(self.problem.names), address(target)),
            )
            return
        matrix = block.matrix if left is None else np.matmul(block.matrix, left)
        border = matrix[:, len(offsets) * width :].copy()
        for i, at in enumerate(moved):
            columns = matrix[:, i * width + self.columns]
            if drag is not None:
                border[:, :-1] += np.matmul(drag[at].transpose(0, 2, 1), columns)
            here = slice(i * self.tangent, (i + 1) * self.tangent)
            out[part, here] = columns if basis is None else np.matmul(basis[at].transpose(0, 2, 1), columns)
        out[part, len(offsets) * self.tangent :] = border

    def _local(self, point: Point, chain: int) -> tuple[Array, Array]:
        """Jacobian (N, rows, columns) and residual (N, rows) of the local hard rows."""
        if not self.local:
            return np.zeros((0, 0, 0)), np.zeros((0, 0))
        blocks = [self.problem.linearize_factor(f, point, chain) for f in self.local]
        return self._local_of(blocks), np.concatenate([block.residual for block in blocks], axis=1)

    def _local_of(self, blocks: Sequence[Block]) -> Array:
        parts = [block.matrix[:, _contiguous(self.columns)].transpose(0, 2, 1) for block in blocks]
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)

    def _private(self, factor: Factor, point: Point, chain: int) -> tuple[Array, Array]:
        """Jacobian (count, rows, private columns) and residual, shifted if hard, of a factor with private unknowns."""
        matrix = self.problem.linearize_private(factor, point, chain)
        residual = matrix[:, -1]
        if factor in self.coupled:
            residual = residual + self._held(chain, factor)
        return matrix[:, :-1].transpose(0, 2, 1), residual

    def _private_of(self, block: Block) -> Array:
        offset, columns = self.private[block.factor.name]
        place = list(block.factor.variables).index(offset)
        return block.matrix[:, _contiguous(place * self.problem.manifold.tangent + columns)]

    def _on_surface(self, point: Point) -> Point:
        """Newton's method on the local hard rows."""
        for _ in range(_NEWTON):
            steps, largest = [], 0.0
            for c in self._chains:
                jacobian, residual = self._local(point, c)
                move = smallest_solution(jacobian, -residual, self._local_rank, self._native)
                largest = max(largest, float(np.max(np.abs(residual), initial=0.0)))
                full = np.zeros((len(move), self.problem.manifold.tangent))
                full[:, self.columns] = move
                steps.append(full)
            if largest <= _ON_SURFACE or not np.isfinite(largest):
                break
            point = self.problem.retract(point, steps, np.zeros_like(point.parameters))
            if largest <= 1e-8:
                break
        return point

    def _refitted(self, point: Point) -> tuple[Point, bool]:
        """Private unknowns by least squares; True if they stand still (after one pass if the factor is linear)."""
        steps, largest = [np.zeros((chain.steps, self.problem.manifold.tangent)) for chain in self.problem.chains], 0.0
        for factor in (f for f in self.kept if f.name in self.private):
            offset, columns = self.private[factor.name]
            for c in self._chains:
                jacobian, residual = self._private(factor, point, c)
                move = smallest_solution(jacobian, -residual, self._private_rank[factor.name], self._native)
                steps[c][offset : offset + len(move), columns] = move
                ambient = columns + self.problem.manifold.ambient - self.problem.manifold.tangent
                size = 1e-12 + float(np.max(np.abs(point.states[c][:, ambient]), initial=0.0))
                largest = max(largest, float(np.max(np.abs(move), initial=0.0)) / size)
        return self.problem.retract(point, steps, np.zeros_like(point.parameters)), largest < 1e-12


def _contiguous(columns: NDArray[np.int64]) -> slice | NDArray[np.int64]:
    """The same columns as a slice if they follow one another: it copies nothing."""
    if len(columns) and np.all(np.diff(columns) == 1):
        return slice(int(columns[0]), int(columns[-1]) + 1)
    return columns
