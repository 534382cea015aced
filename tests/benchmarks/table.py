"""Rows of measured figures beside their targets, as text and as Markdown."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any


@dataclass(frozen=True)
class Row:
    """One figure."""

    what: str
    value: float
    unit: str
    ratio: float | None = None
    """To the floor, LAPACK's banded Cholesky, measured in the same run."""
    target: str = ""
    note: str = ""

    @property
    def cells(self) -> tuple[str, ...]:
        """Texts of one line."""
        ratio = "" if self.ratio is None else f"{self.ratio:.2f}"
        return (self.what, f"{self.value:.3g} {self.unit}", ratio, self.target, self.note)


HEADER = ("what", "median", "to floor", "target", "")


def seconds(work: Callable[[], Any], repeats: int, clock: Callable[[], float] = time.perf_counter) -> float:
    """Median time of some work [s]."""
    times = []
    for _ in range(repeats):
        began = clock()
        work()
        times.append(clock() - began)
    return median(times)


def text(rows: Sequence[Row]) -> str:
    """Aligned columns."""
    table = [HEADER, *(row.cells for row in rows)]
    widths = [max(len(line[i]) for line in table) for i in range(len(HEADER))]
    return "\n".join("  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() for line in table)


def markdown(rows: Sequence[Row], caption: str) -> str:
    """A page with a table."""
    lines = [HEADER, ("---",) * len(HEADER), *(row.cells for row in rows)]
    return "\n".join(["# Benchmarks", "", caption, "", *("| " + " | ".join(line) + " |" for line in lines), ""])
