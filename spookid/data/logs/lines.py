"""Separated text line by line, for logs that are read while they are written."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from spookid.data.logs.text import columns_of, delimiter_of, number_of, split_line, units_of
from spookid.data.logs.units import to_si
from spookid.errors import ProblemError


class Lines:
    """What the lines so far have said of a text: its columns, what divides fields and begins decimals, and units.

    Args:
        path: as messages name it.
        time: column of the stamps.
        signals: columns that are read; the header must have them, the others are not parsed.
    """

    def __init__(self, path: Path, time: str, signals: Sequence[str]) -> None:
        self._path, self._columns = path, [time, *signals]
        self.header: list[str] = []
        """Names of the columns; none before the first line."""
        self._places: list[int] = []
        self._delimiter, self._decimal = ",", ""
        self._scales: dict[str, tuple[float, float]] | None = None
        """SI at 0 and 1 of the unit, by column; None before the line below the header."""

    def row(self, line: int, text: str) -> tuple[float, dict[str, float]] | None:
        """Stamp [s] and signals of a line, missing ones left out; None for one that has none, as the header.

        Raises:
            ProblemError: for what is no such line; names line, column and remedy.
        """
        if not self.header:
            self._begin(text)
            return None
        fields = self._fields(line, text)
        if not fields or (len(fields) == 1 and not fields[0].strip()):
            return None
        place = f"{self._path} line {line}"
        if len(fields) != len(self.header):
            raise ProblemError(
                f"{place} has {len(fields)} fields and the header {len(self.header)}; leave missing values empty"
            )
        if self._scales is None:
            units = units_of(place, self.header, fields, self._columns)
            self._scales = {name: _scale(place, name, unit, self._columns[0]) for name, unit in (units or {}).items()}
            if units is not None:
                return None
        t, *values = (
            self._value(place, name, fields[at]) for name, at in zip(self._columns, self._places, strict=True)
        )
        if math.isnan(t):
            raise ProblemError(f"{place} has no time; remove the line or give it one")
        return t, {name: v for name, v in zip(self._columns[1:], values, strict=True) if not math.isnan(v)}

    def _begin(self, text: str) -> None:
        self._delimiter = delimiter_of(text, self._columns[0])
        header = [name.strip() for name in self._fields(1, text)]
        if not any(header):
            raise ProblemError(f"{self._path} has no header; write the column names into line 1")
        columns_of(f"{self._path} line 1", header, self._columns[0], self._columns[1:])
        self.header, self._places = header, [header.index(name) for name in self._columns]

    def _fields(self, line: int, text: str) -> list[str]:
        try:
            return split_line(text, self._delimiter)
        except csv.Error as error:
            raise ProblemError(
                f"{self._path} line {line} is no comma-separated text ({error}); correct that line"
            ) from None

    def _value(self, place: str, name: str, text: str) -> float:
        """In SI; the first comma or point in a number decides what begins decimals in all."""
        if not self._decimal and self._delimiter != ",":
            self._decimal = next((mark for mark in text if mark in ",."), "")
        value = number_of(text, self._decimal or ".", f"{place}, column {name!r}")
        zero, one = (self._scales or {}).get(name, (0.0, 1.0))
        return zero + value * (one - zero)


def _scale(place: str, name: str, unit: str, time: str) -> tuple[float, float]:
    zero, one = to_si(np.array([0.0, 1.0]), unit, f"{place}, column {name!r}", "s" if name == time else "").tolist()
    return zero, one
