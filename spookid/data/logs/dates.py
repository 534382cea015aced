"""Times of text that are dates: ISO 8601, as pandas and most loggers write them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime

import numpy as np

from spookid.data.arrays import FloatArray
from spookid.errors import ProblemError

_DATE = re.compile(r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?)(?:[.,](\d+))?(Z|[+-]\d\d:?\d\d)?", re.ASCII)


def is_date(texts: Sequence[str]) -> bool:
    """True if the first text that is there is a date with a time of day."""
    first = next((text for text in texts if text.strip()), "")
    return _DATE.fullmatch(first.strip()) is not None


def seconds(
    columns: Mapping[str, Sequence[str]], lines: Sequence[int], place: str
) -> tuple[dict[str, FloatArray], str]:
    """Columns of dates as seconds from the first of all, NaN where there is none, and what that one is.

    Args:
        lines: of the file, one a row.

    Raises:
        ProblemError: for what is no date, or where some have a time zone and others none.
    """
    parts: dict[str, list[tuple[int, float] | None]] = {name: [] for name in columns}
    zones, first = set(), ""
    origin: tuple[int, float] | None = None
    for name, texts in columns.items():
        for line, text in zip(lines, map(str.strip, texts), strict=True):
            one = _moment(text, f"{place} line {line}, column {name!r}") if text else None
            parts[name].append(one)
            if one is None:
                continue
            zones.add(text[-1] == "Z" or bool(re.search(r"[+-]\d\d:?\d\d$", text[11:])))
            if len(zones) > 1:
                raise ProblemError(
                    f"{place} line {line}, column {name!r}: {text!r} is the first with, or without, a time "
                    "zone; give all dates one, or none"
                )
            if origin is None or one < origin:
                origin, first = one, text
    whole, share = origin or (0, 0.0)
    found = {
        name: np.array(
            [np.nan if one is None else (one[0] - whole) + (one[1] - share) for one in own], dtype=np.float64
        )
        for name, own in parts.items()
    }
    return found, first


def _moment(text: str, where: str) -> tuple[int, float]:
    """Whole seconds since 1970, and the rest, which keeps its nanoseconds so."""
    match, at = _DATE.fullmatch(text), None
    if match is not None:
        with suppress(ValueError):  # of the 30th of February
            at = datetime.fromisoformat(match[1] + (match[3] or ""))
    if match is None or at is None:
        raise ProblemError(f"{where}: {text[:40]!r} is no date and time as 2026-01-31T12:00:00.5; correct it")
    return int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()), float(f"0.{match[2] or 0}")
