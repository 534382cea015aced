"""Which columns of a regressor are combinations of others, and what stays to be known: base parameters.

Columns are taken from left to right. One that what is left of it beside those before it is rounding does nothing of
its own, and its coefficient goes with theirs (Gautier, IEEE Transactions on Robotics and Automation 7, 1991).
"""

from __future__ import annotations

import numpy as np

from spookid.kernels.arrays import Array
from spookid.records import dataclass
from spookid.statistics.spectrum import RANK

_ROUNDING = 1e-10
"""Length of a column, as a share of the longest one, that is rounding."""


@dataclass(frozen=True, eq=False)
class Grouping:
    """Columns of a matrix W (rows, n) in three kinds; W z = W_kept (z_kept + shares z_joined)."""

    kept: tuple[int, ...]
    """Columns that are independent."""
    joined: tuple[int, ...]
    """Columns that are combinations of these."""
    still: tuple[int, ...]
    """Columns of zeros."""
    shares: Array
    """W_joined = W_kept shares, (kept, joined)."""
    singular_values: Array
    """Of the columns that are kept, each over its length, descending."""

    @property
    def condition(self) -> float:
        """Ratio of the largest and the smallest of these; NaN of none."""
        values = self.singular_values
        return float(values[0] / values[-1]) if len(values) else float("nan")

    @property
    def null_space(self) -> Array:
        """Directions that W does not see, as rows (joined + still, n)."""
        count = len(self.kept) + len(self.joined) + len(self.still)
        rows = np.zeros((len(self.joined) + len(self.still), count))
        for row, column in enumerate((*self.joined, *self.still)):
            rows[row, column] = 1.0
        rows[: len(self.joined), list(self.kept)] = -self.shares.T
        return rows


def regrouped(matrix: Array) -> Grouping:
    """The columns of a matrix (rows, n) that are independent, and how the others follow them."""
    square = np.linalg.qr(matrix, mode="r") if len(matrix) > matrix.shape[1] else matrix
    lengths = np.linalg.norm(square, axis=0)
    still = tuple(np.flatnonzero(lengths <= _ROUNDING * np.max(lengths, initial=0.0)).tolist())
    unit = square / np.where(lengths > 0, lengths, 1.0)
    kept: list[int] = []
    span = np.zeros((len(square), 0))
    for column in (i for i in range(matrix.shape[1]) if i not in still):
        left = unit[:, column]
        for _ in range(2):  # once more, for what rounding has left of it
            left = left - span @ (span.T @ left)
        if (length := float(np.linalg.norm(left))) > RANK:
            kept.append(column)
            span = np.column_stack([span, left / length])
    joined = tuple(i for i in range(matrix.shape[1]) if i not in still and i not in kept)
    shares = np.linalg.lstsq(unit[:, kept], unit[:, joined], rcond=None)[0]
    shares = np.where(np.abs(shares) > RANK, shares, 0.0) * lengths[list(joined)] / lengths[kept][:, None]
    values = np.linalg.svd(unit[:, kept], compute_uv=False) if kept else np.zeros(0)
    return Grouping(tuple(kept), joined, still, shares, np.asarray(values))
