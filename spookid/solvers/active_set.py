"""Active set of a box law, such as dry friction, updated at each iterate.

A value inside [−1, 1] has slack zero. A value that leaves the box is fixed at that end, and a slack of the wrong sign
is fixed at zero. If both happen alternately, the minimum lies at the corner: value and slack are both fixed until the
sign of a multiplier shows that releasing one lowers the cost.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from spookid.kernels.arrays import Array
from spookid.solvers.reduced_problem import Evaluation, ReducedProblem
from spookid.transcription.factor import Factor
from spookid.transcription.transcription import Point

_MOST_TURNS = 3
"""Changes of a code after which all stay: between two pieces neither of which has a minimum there is no end."""
_WORTH = 1e-10
"""A row is let go if, moved by one of its own unit, the cost falls by more than this share."""


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
                codes[chain][factor.name] = _suggested(*self._problem.boxed(factor, plain, chain))
            self._left[chain, factor.name] = np.full(codes[chain][factor.name].shape, np.nan)
        return replace(point, codes=tuple(codes))

    def update(self, here: Evaluation, settled: bool) -> Point:
        """Point with the updated active set; laws without corners keep theirs until a solver has ``settled`` with
        them."""
        if not self._boxes:
            return here.point
        point, codes = here.point, [dict(chain) for chain in here.point.codes]
        worth = _WORTH * here.cost / self._reduced.penalty
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
