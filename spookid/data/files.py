"""Recordings written as comma-separated text, and how messages name columns."""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TypeAlias

import numpy as np

from spookid.data.arrays import FloatArray
from spookid.errors import ProblemError
from spookid.files import replacing

FilePath: TypeAlias = str | os.PathLike[str]


def names(signals: Iterable[str] | None) -> list[str] | None:
    """The chosen names; a lone text is one name, not its letters."""
    if signals is None:
        return None
    return [signals] if isinstance(signals, str) else list(signals)


def listing(names: Iterable[object]) -> str:
    return ", ".join(repr(name) for name in names) or "none"


def write_csv(
    name: str, t: FloatArray, signals: Mapping[str, FloatArray], path: Path, decimals: int | None, time: str
) -> None:
    if time in signals:
        raise ProblemError(f"recording {name!r} has a signal {time!r} too; name the time column with time=")
    if decimals is not None and decimals < 0:
        raise ProblemError(f"recording {name!r} cannot be written with {decimals} decimals; give 0 or more")
    columns = [[_text(value, decimals) for value in values] for values in (t, *signals.values())]
    if len({float(text) for text in columns[0]}) < len(columns[0]):
        raise ProblemError(f"recording {name!r} has times that {decimals} decimals make equal; give more")
    try:
        with replacing(path) as part, part.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow([time, *signals])
            writer.writerows(zip(*columns, strict=True))
    except OSError as error:
        raise ProblemError(f"{path} cannot be written ({error.strerror or error}); check the folder") from None


def _text(value: np.float64, decimals: int | None) -> str:
    if math.isnan(value):
        return ""
    return repr(float(value)) if decimals is None else f"{value:.{decimals}f}"
