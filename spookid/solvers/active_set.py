"""Which rows of a box law hold: an active set that follows the iterates.

A value inside [−1, 1] has slack zero; where the value leaves the box it is held at that end, and where an end's slack
has the wrong sign the slack is held at zero. If both happen in turn neither piece has a minimum: it lies at the corner
between them. There both are held until the multiplier of one says that letting it go lowers the cost.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from spookid.kernels.kernel import Array
from spookid.solvers.reduced_problem import Evaluation, ReducedProblem
from spookid.transcription.factor import Factor
from spookid.transcription.transcription import Point

_WORTH = 1e-10
"""A row is let go if, moved by one of its own unit, it promises more than this share of the cost."""


class ActiveSet:
    """Codes of all box laws of a problem, with the memory that finds corners."""

    def __init__(self, reduced: ReducedProblem) -> None:
        self._reduced, self._problem = reduced, reduced.problem
        self._boxes = [f for f in reduced.problem.factors if f.box is not None]
        self._left: dict[tuple[int, str], Array] = {}
        """The code that each law had before the present one, NaN if none."""

    def start(self, point: Point) -> Point:
        """The point with the codes that its own values suggest."""
        if not self._boxes:
            return point
        codes: list[dict[str, Array]] = [{} for _ in point.states]
        for chain, factor in self._pairs(point):
            slack, value = self._problem.boxed(factor, point, chain)
            codes[chain][factor.name] = _suggested(slack, value)
            self._left[chain, factor.name] = np.full(slack.shape, np.nan)
        return replace(point, codes=tuple(codes))

    def update(self, here: Evaluation) -> Point:
        """The point with the codes that hold from here on."""
        if not self._boxes:
            return here.point
        point, codes = here.point, [dict(chain) for chain in here.point.codes]
        worth = _WORTH * here.cost / self._reduced.penalty
        for chain, factor in self._pairs(point):
            old, left = point.codes[chain][factor.name], self._left[chain, factor.name]
            values = self._problem.boxed(factor, point, chain)
            slack_push, end_push = np.hsplit(self._reduced.multipliers(chain, factor), 2)
            new = np.where(np.abs(old) == 2, _released(old, slack_push, end_push, worth), _moved(old, left, *values))
            self._left[chain, factor.name] = np.where(new == old, left, old)
            codes[chain][factor.name] = new
        return replace(point, codes=tuple(codes))

    def _pairs(self, point: Point) -> list[tuple[int, Factor]]:
        return [(chain, factor) for chain in range(len(point.states)) for factor in self._boxes]


def _suggested(slack: Array, value: Array) -> Array:
    """0 or the end that value + slack lies beyond."""
    beyond = value + slack
    return np.where(np.abs(beyond) <= 1, 0.0, np.sign(beyond))


def _moved(old: Array, left: Array, slack: Array, value: Array) -> Array:
    """Codes after 0, −1 or 1: those that the values suggest, or the corner where that was tried before."""
    new = _suggested(slack, value)
    tried = (new == left) | (np.abs(left) == 2)
    return np.where((new != old) & tried & (old + new != 0), 2 * (old + new), new)


def _released(old: Array, slack_push: Array, end_push: Array, worth: float) -> Array:
    """Codes after a corner: the piece into which the cost falls most, or the corner still."""
    end = np.sign(old)
    slip, stick = end * slack_push, -end * end_push
    piece = np.where(slip > stick, end, 0.0)
    return np.where(np.maximum(slip, stick) > worth, piece, old)
