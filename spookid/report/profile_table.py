"""Profiles as text."""

from __future__ import annotations

import math
from collections.abc import Sequence

from spookid.report.wording import labelled, number
from spookid.studies.profile import Profile


def table(profiles: Sequence[Profile]) -> str:
    """A row a parameter: estimate and both 95 % intervals, then a sentence for each."""
    head = ["parameter", "estimate", "linearized 95 %", "likelihood ratio 95 %", "fits"]
    rows = [
        [
            labelled(p.name, p.unit),
            number(p.estimate, 5),
            interval(p.linear),
            interval(p.interval),
            str(len(p.points) - 1),
        ]
        for p in profiles
    ]
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    lines = ["  ".join(cell.rjust(w) for cell, w in zip(row, widths, strict=True)) for row in [head, *rows]]
    verdicts = [f"{p.name}: {p.verdict}" for p in profiles]
    return "\n".join([f"Profiles of {profiles[0].problem}", "", *lines, "", *verdicts])


def interval(ends: tuple[float, float]) -> str:
    """``[low, high]``, a dash if it is unknown."""
    if any(math.isnan(end) for end in ends):
        return "-"
    return f"[{number(ends[0], 5)}, {number(ends[1], 5)}]"
