"""Rows of a log one by one: of one that is there, of one that something continues writing to, or of standard input."""

from __future__ import annotations

import csv
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO

import numpy as np

from spookid.data.logs.columns import to_si
from spookid.data.logs.lines import heading, split_line
from spookid.data.logs.text import columns_of, number_of, places_of, units_of
from spookid.data.reading import method_for
from spookid.data.recording import Recording
from spookid.errors import ProblemError
from spookid.files import GLANCE, unreadable
from spookid.records import dataclass

STANDARD_INPUT = "-"


@dataclass(frozen=True, slots=True)
class Row:
    """A line of a log."""

    line: int  # its number in the file, from 1; that of the timestamp where a file has no lines
    t: float  # timestamp [s]
    values: dict[str, float]  # of the signals; those that are missing are left out


class GrowingLog:
    """Reader of a text log that still grows, with a header row; other formats are read at once."""

    def __init__(
        self,
        path: str,
        signals: Sequence[str],
        *,
        time: str = "t",
        units: Mapping[str, str] = MappingProxyType({}),
        follow: bool = False,
        told: Callable[[str], object] = lambda sentence: None,
    ) -> None:
        self.path = Path("standard input" if path == STANDARD_INPUT else path)
        """As messages name it."""
        self._piped, self._follow = path == STANDARD_INPUT, follow and path != STANDARD_INPUT
        self._time, self._signals, self._told = time, list(signals), told
        self._units = units
        """Of columns, which count more than those below the header."""
        if wrong := next((name for name in units if name not in (time, *signals)), None):
            raise ProblemError(f"--units: no column {wrong!r} is read; it reads {', '.join([time, *signals])}")
        self._whole = not self._piped and method_for(self.path) not in (None, "from_csv")
        if self._whole and self._follow:
            raise ProblemError(f"{self.path} is no text, which alone can be followed; leave --follow out")

    def __iter__(self) -> Iterator[Row]:
        """All rows."""
        if self._whole:
            yield from self._recorded()
            return
        while True:
            try:
                with nullcontext(sys.stdin.buffer) if self._piped else self.path.open("rb") as file:
                    yield from self._rows(file)
            except OSError as error:
                raise unreadable(self.path, error) from None
            if not self._follow:
                return
            while not self.path.exists():
                time.sleep(GLANCE)

    def _recorded(self) -> Iterator[Row]:
        """Of a file that is no text."""
        options = {} if self._time == "t" else {"time": self._time}  # messages have timestamps without a name
        recording = Recording.from_file(self.path, signals=self._signals, units=self._units, **options)
        for note in recording.notes:
            self._told(note)
        for i, t in enumerate(recording.t):
            values = {name: float(samples[i]) for name, samples in recording.signals.items()}
            yield Row(i, float(t), {name: value for name, value in values.items() if not math.isnan(value)})

    def _rows(self, file: BinaryIO) -> Iterator[Row]:
        """Of one file, until it ends, or another is in its place."""
        lines = Lines(self.path, self._time, self._signals, self._units)
        for line, text in enumerate(self._lines(file), start=1):
            try:
                decoded = text.decode("utf-8-sig" if line == 1 else "utf-8")
            except UnicodeDecodeError:
                raise ProblemError(f"{self.path} line {line} is no UTF-8 text; save it as such") from None
            row = lines.row(line, decoded)
            if row is not None:
                yield Row(line, *row)
        if not lines.header and not self._follow:
            raise ProblemError(f"{self.path} has no header; write the column names into line 1")

    def _lines(self, file: BinaryIO) -> Iterator[bytes]:
        """Whole lines; the last one counts without its newline only if nothing can follow."""
        if self._piped:
            yield from file
            return
        rest = b""
        while True:
            if piece := file.readline():
                rest += piece
                if piece.endswith(b"\n"):
                    yield rest[:-1]
                    rest = b""
            elif not self._follow:
                if rest:
                    yield rest
                return
            elif sentence := self._ended(file):
                self._told(sentence)
                return
            else:
                time.sleep(GLANCE)

    def _ended(self, file: BinaryIO) -> str:
        """Why a file that is followed gives no more rows; empty if it may."""
        own = os.fstat(file.fileno())
        try:
            there = os.stat(self.path)
        except FileNotFoundError:
            return f"{self.path} is gone; waiting for a new one"
        if not os.path.samestat(own, there):
            return f"{self.path} has been replaced; continuing with the rows of the new one"
        if own.st_size < file.tell():
            return f"{self.path} has been cut short; continuing with its rows from the first"
        return ""


class Lines:
    """Format of a growing text log: columns, delimiter, decimal sign, and units, detected from its first lines."""

    def __init__(self, path: Path, time: str, signals: Sequence[str], units: Mapping[str, str]) -> None:
        self._path, self._columns, self._units = path, [time, *signals], units
        self.header: list[str] = []
        """Names of the columns; none before the first line."""
        self._places: list[int] = []
        self._delimiter, self._decimal = ",", ""
        self._above: list[str] = []
        """Lines above the header."""
        self._scales: dict[str, tuple[float, float]] | None = None
        """SI at 0 and 1 of the unit, by column; None before the line below the header."""

    def row(self, line: int, text: str) -> tuple[float, dict[str, float]] | None:
        """Return time [s] and available signals of a line; None for a line without them, such as the header."""
        if not self.header and not self._begun(line, text):
            return None
        fields = self._fields(line, text)
        if not fields or (len(fields) == 1 and not fields[0].strip()):
            return None
        place = f"{self._path} line {line}"
        if len(fields) != len(self.header):
            counts = f"{len(fields)} fields and the header {len(self.header)}"
            raise ProblemError(f"{place} has {counts}; leave missing values empty")
        if self._scales is None:
            units = units_of(place, places_of(self.header), fields, self._columns, self._units)
            self._scales = {}
            for name, unit in {**(units or {}), **self._units}.items():
                is_time, what = name == self._columns[0], f"{place}, column {name!r}"
                zero, one = to_si(np.array([0.0, 1.0]), unit, what, "s" if is_time else "").tolist()
                self._scales[name] = zero, one
            if units is not None:
                return None
        values = {}
        for name, at in zip(self._columns, self._places, strict=True):
            if not self._decimal and self._delimiter != ",":  # the first comma or point in a number decides for all
                self._decimal = next((mark for mark in fields[at] if mark in ",."), "")
            value = number_of(fields[at], self._decimal or ".", f"{place}, column {name!r}")
            zero, one = self._scales.get(name, (0.0, 1.0))
            values[name] = zero + value * (one - zero)
        t = values.pop(self._columns[0])
        if math.isnan(t):
            raise ProblemError(f"{place} has no time; remove the line or give it one")
        return t, {name: v for name, v in values.items() if not math.isnan(v)}

    def _begun(self, line: int, text: str) -> bool:
        """Take a line of the beginning; True if it is the first one below the header."""
        self._above.append(text)
        found = heading(self._above, self._columns[0])
        if found.at == len(self._above):
            return False
        self._delimiter, place = found.delimiter, found.at + 1
        header = [name.strip() for name in self._fields(place, found.text)]
        columns_of(
            f"{self._path} line {place}", header, self._columns[0], self._columns[1:], "time= (of commands --time)"
        )
        self.header, self._places = header, [header.index(name) for name in self._columns]
        return place < line

    def _fields(self, line: int, text: str) -> list[str]:
        try:
            return split_line(text, self._delimiter)
        except csv.Error as error:
            what = f"{self._path} line {line} is no comma-separated text ({error})"
            raise ProblemError(f"{what}; correct that line") from None
