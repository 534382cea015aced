"""Which members of complementarity pairs and box laws are held, and whether others were better, by linear programs.

Pairs 0 ≤ a ⟂ b ≥ 0 with both members at zero are each on two pieces, a = 0 and b = 0. A point is B-stationary if on
no piece a step that all other rows allow lowers the cost to first order. The program in which both members of these
pairs may grow contains all pieces: if it gains nothing the point is strongly stationary, and so B-stationary (Scheel
and Scholtes, Mathematics of Operations Research 25, 2000). Else a pair of which both grow is split into its two pieces,
until none is left (Luo, Pang and Ralph, Mathematical Programs with Equilibrium Constraints, 1996).

The active set of a box law, such as dry friction, is updated at each iterate. A value inside [−1, 1] has slack zero. A
value that leaves the box is fixed at that end, and a slack of the wrong sign is fixed at zero. If both happen
alternately, the minimum lies at the corner: value and slack are both fixed until the sign of a multiplier shows that
releasing one lowers the cost.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from spookid.kernels.arrays import Array, Integers, Mask
from spookid.records import dataclass
from spookid.solvers.program import Program
from spookid.solvers.reduced_problem import Evaluation, ReducedProblem
from spookid.transcription.factor import Factor
from spookid.transcription.transcription import Point

_OPEN = -1
"""Of a pair of which both members may grow, instead of the member that is held, 0 or 1."""
_ZERO = 1e-6
"""Steps, and distances to bounds, that count as none; linear programs are solved to a tenth of it."""


@dataclass(frozen=True, eq=False)
class Pieces:
    """Pieces around a point z of a program with complementarity pairs; each piece fixes one member of each pair."""

    program: Program
    z: Array
    cost: float
    both: list[Mask]
    """Of each factor of pairs, which have both members at zero."""

    def better(self, gain: float) -> list[Mask] | None:
        """Member of each pair to fix on a better piece, True for the first; None if no piece gains more than ``gain``,
        a sum of cosines with the residual, beyond the present one.

        Raises:
            ArithmeticError: if a linear program has no solution, or there are more of them than members of pairs.
        """
        here, pairs = self._solved(self._held)[0], self._pairs
        pieces, left = [np.full(len(pairs), _OPEN)], 2 * len(pairs) + 1
        while pieces:
            if not left:
                raise ArithmeticError
            piece, left = pieces.pop(), left - 1
            value, moved = self._solved(piece)
            if value >= here - gain:
                continue
            moves = moved[pairs]
            growing = np.where(piece == _OPEN, moves.min(axis=1), 0.0)
            pair = int(np.argmax(growing))
            if growing[pair] <= _ZERO:
                return self._masks(np.where(piece == _OPEN, moves.argmin(axis=1), piece))
            for member in (0, 1):
                split = piece.copy()
                split[pair] = member
                pieces.append(split)
        return None

    @property
    def _of_pairs(self) -> list[tuple[Integers, Mask]]:
        """Of each factor of pairs the rows of both members (count, pairs, 2), and True where the first is held."""
        found = []
        for place in self.program.places:
            if place.factor.pairs:
                rows = np.stack(np.hsplit(place.rows, 2), axis=2)
                found.append((rows, np.hsplit(place.role.upper == 0, 2)[0]))
        return found

    @cached_property
    def _pairs(self) -> Integers:
        """Rows of both members of pairs with both at zero, (pairs, 2)."""
        return np.vstack([rows[both] for (rows, _), both in zip(self._of_pairs, self.both, strict=True)])

    @cached_property
    def _held(self) -> Integers:
        """Which of them is held here, (pairs,)."""
        first = [first[both] for (_, first), both in zip(self._of_pairs, self.both, strict=True)]
        return np.where(np.concatenate(first), 0, 1)

    def _masks(self, held: Integers) -> list[Mask]:
        found, start = list[Mask](), 0
        for (_, first), both in zip(self._of_pairs, self.both, strict=True):
            mask, count = first.copy(), int(both.sum())
            mask[both] = held[start : start + count] == 0
            found.append(mask)
            start += count
        return found

    @cached_property
    def _linear(self) -> tuple[Array, Any, Array, Array]:
        """Cosines of the gradient, rows of unit size, and bounds of steps, in unknowns that their columns' lengths
        scale."""
        from scipy.sparse import csc_matrix, diags_array

        program, z, pattern = self.program, self.z, self.program.jacobian_sparsity
        soft, hard = program.lengths(z), program.lengths(z, hard=True)
        lengths = np.where(soft > _ZERO**2 * soft.max(), soft, np.where(hard > 0, hard, 1.0))
        given = program.jacobian(z), np.array(pattern.row()), np.array(pattern.colind())
        matrix = csc_matrix(given, shape=pattern.shape) @ diags_array(1 / lengths)
        largest = np.maximum(abs(matrix).max(axis=1).toarray().ravel(), _ZERO**2)
        lower, upper = program.box
        below = np.where(z - lower <= _ZERO, 0.0, -1.0)
        above = np.where(upper - z <= _ZERO, 0.0, 1.0)
        cosines = program.gradient(z) / (2 * np.sqrt(self.cost) * lengths)
        return cosines, (diags_array(1 / largest) @ matrix).tocsr(), below, above

    def _solved(self, piece: Integers) -> tuple[float, Array]:
        """Least sum of cosines along steps of at most one on a piece, and how each row moves, (rows,)."""
        from scipy.optimize import linprog

        cosines, rows, below, above = self._linear
        values, (lower, upper) = self.program.constraints(self.z), self.program.bounds
        low, high = values - lower <= _ZERO, upper - values <= _ZERO
        for members, first in self._of_pairs:  # what is not held is free
            high[members] = low[members] = np.stack([first, ~first], axis=2)
        high[self._pairs] = piece[:, None] == np.arange(2)
        low[self._pairs] = True
        fixed = low & high
        signs, some = np.where(low, -1.0, 1.0)[low ^ high], low ^ high
        found = linprog(
            cosines,
            A_eq=rows[fixed],
            b_eq=np.zeros(int(fixed.sum())),
            A_ub=rows[some].multiply(signs[:, None]) if some.any() else None,
            b_ub=np.zeros(len(signs)) if some.any() else None,
            bounds=np.column_stack([below, above]),
        )
        if found.status:
            raise ArithmeticError
        return float(found.fun), np.asarray(rows @ found.x)


def judged(here: Pieces, gain: float, fell: bool) -> tuple[list[Mask] | None, str]:
    """Members to fix next on a better piece, or None and the type of stationary point.

    Args:
        fell: False if the last piece that seemed better was not.
    """
    zero, pairs = (sum(int(count(both)) for both in here.both) for count in (np.sum, np.size))
    said = "B-stationary"
    if zero:
        try:
            held = here.better(gain) if fell else None
            if held is not None:
                return held, ""
        except ArithmeticError:
            fell = False
        said = said if fell else "strongly stationary for the active set found"
    return None, f"{said}; {zero} of {pairs} pairs are zero on both sides"


_MOST_TURNS = 3
"""Changes of a code after which all stay: between two pieces neither of which has a minimum there is no end."""
WORTH = 1e-9
"""A row, or a member of a pair, is let go if, moved by its own size, the cost falls by more than this share."""


class ActiveSet:
    """Active set of all piecewise (box) laws of a problem, with a memory to detect cycles."""

    def __init__(self, reduced: ReducedProblem) -> None:
        self._reduced, self._problem = reduced, reduced.problem
        self._boxes = [f for f in reduced.problem.factors if f.box is not None]
        self._left: dict[tuple[int, str], Array] = {}
        """The code that each law had before the present one, NaN if none."""
        self._turns: dict[tuple[int, str], Array] = {}
        """How often each law without corners has changed its code."""
        self._least, self._best, self._frozen = np.inf, dict[tuple[int, str], Array](), False

    def start(self, point: Point) -> Point:
        """Point with the active set that its own values suggest, where it has none."""
        if not self._boxes:
            return point
        codes: list[dict[str, Array]] = [dict(chain) for chain in point.codes] or [{} for _ in point.states]
        for chain, factor in self._pairs(point):
            if factor.name not in codes[chain]:
                plain = replace(point, codes=())
                corners = factor.box is not None and factor.box.corners
                codes[chain][factor.name] = _begun(*self._problem.boxed(factor, plain, chain), corners)
            self._left[chain, factor.name] = np.full(codes[chain][factor.name].shape, np.nan)
        return replace(point, codes=tuple(codes))

    def update(self, here: Evaluation, settled: bool) -> Point:
        """Point with the updated active set; laws without corners keep theirs until a solver has ``settled`` with
        them."""
        if not self._boxes:
            return here.point
        point, codes = here.point, [dict(chain) for chain in here.point.codes]
        worth = WORTH * here.cost / self._reduced.penalty
        for chain, factor in self._pairs(point):
            old, left = point.codes[chain][factor.name], self._left[chain, factor.name]
            if not (settled or factor.box is None or factor.box.corners):
                continue
            new = _suggested(*self._problem.boxed(factor, point, chain))
            if factor.box is not None and factor.box.corners:
                inside, end = np.hsplit(self._reduced.multipliers(chain, factor), 2)
                new = np.where(np.abs(old) == 2, _released(old, inside, end, worth), _moved(old, left, new))
            self._left[chain, factor.name] = np.where(new == old, left, old)
            codes[chain][factor.name] = new
        return replace(point, codes=tuple(self._chosen(here, codes) if settled else codes))

    def _chosen(self, here: Evaluation, codes: list[dict[str, Array]]) -> list[dict[str, Array]]:
        """Codes that are to hold next; once laws without corners go to and fro, for good those with the least cost."""
        before = here.point.codes
        plain = [pair for pair in self._pairs(here.point) if pair[1].box is not None and not pair[1].box.corners]
        if here.cost < self._least:
            self._least = here.cost
            self._best = {(chain, f.name): before[chain][f.name] for chain, f in plain}
        for chain, f in plain:
            turns = self._turns.setdefault((chain, f.name), np.zeros(before[chain][f.name].shape))
            turns += codes[chain][f.name] != before[chain][f.name]
            self._frozen |= bool(np.max(turns, initial=0.0) > _MOST_TURNS)
        if self._frozen:
            for chain, f in plain:
                codes[chain][f.name] = self._best[chain, f.name]
        return codes

    def unsettled(self, point: Point) -> int:
        """Number of laws without corners whose active set would change."""
        found = 0
        for chain, factor in self._pairs(point):
            if factor.box is not None and not factor.box.corners:
                wanted = _suggested(*self._problem.boxed(factor, point, chain))
                found += int(np.sum(wanted != point.codes[chain][factor.name]))
        return found

    def _pairs(self, point: Point) -> list[tuple[int, Factor]]:
        return [(chain, factor) for chain in range(len(point.states)) for factor in self._boxes]


def _suggested(wanted: Array, lower: Array, upper: Array) -> Array:
    """The end beyond which a law wants to be, or 0."""
    return np.where(wanted < lower, -1.0, np.where(wanted > upper, 1.0, 0.0))


def _begun(wanted: Array, lower: Array, upper: Array, corners: bool) -> Array:
    """Codes at a start: where value and slack are both at their ends, as at another solver's answer, the corner."""
    near = np.minimum(np.abs(wanted - lower), np.abs(wanted - upper)) <= _ZERO
    return np.where(near & corners, 2 * np.sign(wanted - (lower + upper) / 2), _suggested(wanted, lower, upper))


def _moved(old: Array, left: Array, new: Array) -> Array:
    """Codes after 0, −1 or 1: those that are suggested, or the corner where that was tried before."""
    tried = (new == left) | (np.abs(left) == 2)
    return np.where((new != old) & tried & (old + new != 0), 2 * (old + new), new)


def _released(old: Array, slack_push: Array, end_push: Array, worth: float) -> Array:
    """Codes after a corner: the piece into which the cost falls most, or the corner still."""
    end = np.sign(old)
    slip, stick = end * slack_push, -end * end_push
    piece = np.where(slip > stick, end, 0.0)
    return np.where(np.maximum(slip, stick) > worth, piece, old)
