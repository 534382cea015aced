"""Log-determinants of the rows that are a density: the random rows of each step, and the surface of the first state.

Rows with a Jacobian D in some unknowns multiply volumes across them by √det DDᵀ, |det D| if they are as many as the
unknowns. As d log √det DDᵀ = ⟨D⁺ᵀ, dD⟩, the pseudo-inverse D⁺ tells how this changes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from spookid.kernels.kernel import Array
from spookid.solvers.rows import Rows
from spookid.solvers.structured import NotPositiveDefiniteError
from spookid.statistics.systems import independent_combinations
from spookid.transcription.factor import Factor


class Determinants:
    """Of one chain.

    Args:
        kept: factors with their rows.
        tangent: unknowns of a step.

    Raises:
        NotPositiveDefiniteError: if what is random or hard does not determine the newest unknowns of a step.
    """

    def __init__(self, kept: Sequence[tuple[Factor, Rows]], tangent: int) -> None:
        self._total = 0.0
        self.slopes: dict[int, Array] = {}
        """D⁺ of factors by their number, 0 in rows of D that are no part of it, (count, t, rows)."""
        newest: list[tuple[int, Array, Array]] = []
        for i, (factor, rows) in enumerate(kept):
            stop = len(rows.offsets) * tangent
            part = rows.matrix[:, stop - tangent : stop]
            if factor.hard and factor.first_only:
                self._add([(i, part, independent_combinations(rows, tangent))])
            elif factor.hard or factor.density:
                newest.append((i, part, _random(factor, rows)))
        if len(newest) == 1 and (own := _own(*kept[newest[0][0]])) is not None:
            self._take(newest[0][0], newest[0][1], own)
        elif newest:
            self._add(newest)

    def logarithm(self) -> float:
        """Σ log det DDᵀ."""
        return self._total

    def _take(self, number: int, part: Array, own: Array) -> None:
        """The random rows of a factor in their own unknowns: where a torque is measured its joint's motion is given."""
        block = part[:, own[:, None], own]
        signs, logarithms = np.linalg.slogdet(block)
        if np.any(signs == 0):
            raise NotPositiveDefiniteError("what is random does not move the mechanism")
        self._total += 2 * float(np.sum(logarithms))
        slopes = np.zeros_like(part)
        slopes[:, own[:, None], own] = np.linalg.inv(block).transpose(0, 2, 1)
        self.slopes[number] = slopes

    def _add(self, members: Sequence[tuple[int, Array, Array]]) -> None:
        """Rows that stand in one D: of each factor its number, its transposed Jacobian (count, t, rows) and those
        combinations of its rows that are part of D."""
        parts = [part @ taken for _, part, taken in members]
        transposed = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=2)
        square = transposed.shape[1] == transposed.shape[2]
        gram = transposed if square else np.matmul(transposed.transpose(0, 2, 1), transposed)
        signs, logarithms = np.linalg.slogdet(gram)
        if np.any(signs == 0):
            raise NotPositiveDefiniteError("what is random does not move the mechanism")
        self._total += (2 if square else 1) * float(np.sum(logarithms))
        inverse = np.linalg.inv(gram)
        whole = inverse.transpose(0, 2, 1) if square else np.matmul(transposed, inverse)
        at = 0
        for i, _, taken in members:
            stop = at + taken.shape[1]
            self.slopes[i] = whole[:, :, at:stop] @ taken.T
            at = stop


def _own(factor: Factor, rows: Rows) -> Array | None:
    """Places of the random rows of a factor whose other rows are measurements, one an unknown; None if it has none."""
    if factor.hard or rows.complement is not None or len(factor.density) == rows.matrix.shape[2]:
        return None
    return np.array(factor.density)


def _random(factor: Factor, rows: Rows) -> Array:
    """The rows of a factor that are hard or a density, as columns of an identity; all if they are combined."""
    left = rows.matrix.shape[2]
    if factor.hard or rows.complement is not None or not factor.density:
        return np.eye(left)
    return np.eye(left)[:, list(factor.density)]
