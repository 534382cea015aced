"""What the data tell of the parameters, as tables."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from spookid.kernels.kernel import Array
from spookid.tables.numbers import counted, number
from spookid.tables.table import Table
from spookid.tables.tabular import Block, Tabular


class Knowledge(Tabular):
    """Parameters with their standard errors and correlations, and how well the data see directions."""

    names: tuple[str, ...]
    reasons: Mapping[str, str]
    """Why a parameter has no standard error, by its name."""
    singular_values: Array
    """Of each direction, descending."""

    @property
    @abstractmethod
    def standard_errors(self) -> Array:
        """(n_p,), NaN where there is a reason."""

    @property
    @abstractmethod
    def correlation(self) -> Array:
        """(n_p, n_p)."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {', '.join(self.names) or 'no parameters'}>"

    def blocks(self) -> Sequence[Block]:
        """Title, a row for each parameter, and how well the data see directions."""
        errors = zip(self.names, self.standard_errors.tolist(), strict=True)
        rows = [(name, number(error), self.reasons.get(name, "")) for name, error in errors]
        seen = ", ".join(number(value, 2) for value in self.singular_values)
        return [
            f"What the data tell of {counted(len(self.names), 'parameter')}",
            Table(("parameter", "std err", "reason"), rows, left=(0, 2)),
            f"Directions are seen at {seen or 'no'} sigma for a change of 100 %.",
        ]

    def records(self) -> Sequence[dict[str, Any]]:
        """A row for each parameter: standard error, the reason why it has none, correlations with all."""
        parts = zip(self.names, self.standard_errors.tolist(), self.correlation.tolist(), strict=True)
        return [
            {"parameter": n, "std_err": e, "reason": self.reasons.get(n, ""), **dict(zip(self.names, row, strict=True))}
            for n, e, row in parts
        ]
