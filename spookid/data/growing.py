"""Rows of a log that may still grow: a file, one that something goes on writing to, or standard input."""

from __future__ import annotations

import csv
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from spookid.data.files import csv_columns, csv_number
from spookid.errors import ProblemError

STANDARD_INPUT = "-"
_PAUSE = 0.1
"""Between two looks at a file that grows [s]."""
_PIECE = 1 << 20
"""Bytes that are read at once."""


@dataclass(frozen=True, slots=True)
class Row:
    """A line of a log."""

    line: int
    """Its number in the file, from 1."""
    t: float
    """Stamp [s]."""
    values: dict[str, float]
    """Of the signals; those that are missing are left out."""


class GrowingLog:
    """Comma-separated text with a header row, as ``Recording.from_csv`` reads it, but row by row.

    Args:
        path: of the file, or ``-`` for standard input.
        time: column of the stamps.
        signals: columns that are read; the header must have them, the others are not parsed.
        follow: True to wait for rows after the last one, without end. A row counts once its newline is there.
        told: called with a sentence when the file has been cut short or replaced; its new rows follow.
    """

    def __init__(
        self,
        path: str,
        signals: Sequence[str],
        *,
        time: str = "t",
        follow: bool = False,
        told: Callable[[str], object] = lambda sentence: None,
    ) -> None:
        self.path = Path("standard input" if path == STANDARD_INPUT else path)
        """As messages name it."""
        self._piped, self._follow = path == STANDARD_INPUT, follow and path != STANDARD_INPUT
        self._time, self._signals, self._told = time, list(signals), told

    def __iter__(self) -> Iterator[Row]:
        """All rows.

        Raises:
            ProblemError: naming file, line and column, for what is no row of numbers, or a file that cannot be read.
        """
        while True:
            try:
                with nullcontext(sys.stdin.buffer) if self._piped else self.path.open("rb") as file:
                    yield from self._rows(file)
            except OSError as error:
                raise ProblemError(f"{self.path} cannot be read ({error.strerror or error}); check the path") from None
            if not self._follow:
                return
            while not self.path.exists():
                time.sleep(_PAUSE)

    def _rows(self, file: BinaryIO) -> Iterator[Row]:
        """Of one file, until it ends, or another is in its place."""
        header: list[str] | None = None
        for line, text in enumerate(self._lines(file), start=1):
            fields = self._fields(line, text)
            if header is None:
                header = [name.strip() for name in fields]
                if not any(header):
                    raise ProblemError(f"{self.path} has no header; write the column names into line 1")
                csv_columns(self.path, header, self._time, self._signals)
                places = {name: header.index(name) for name in self._signals}
                stamp = header.index(self._time)
            elif fields and not (len(fields) == 1 and not fields[0].strip()):
                if len(fields) != len(header):
                    raise ProblemError(
                        f"{self.path} line {line} has {len(fields)} fields and the header {len(header)}; leave missing "
                        "values empty"
                    )
                yield self._row(line, fields, stamp, places)
        if header is None and not self._follow:
            raise ProblemError(f"{self.path} has no header; write the column names into line 1")

    def _row(self, line: int, fields: list[str], stamp: int, places: dict[str, int]) -> Row:
        t = csv_number(fields[stamp], self.path, line, self._time)
        if math.isnan(t):
            raise ProblemError(f"{self.path} line {line} has no time; remove the line or give it one")
        numbers = {name: csv_number(fields[at], self.path, line, name) for name, at in places.items()}
        return Row(line, t, {name: value for name, value in numbers.items() if not math.isnan(value)})

    def _fields(self, line: int, text: bytes) -> list[str]:
        try:
            return next(csv.reader([text.decode("utf-8-sig" if line == 1 else "utf-8")], strict=True), [])
        except UnicodeDecodeError:
            raise ProblemError(f"{self.path} line {line} is no UTF-8 text; save it as such") from None
        except csv.Error as error:
            raise ProblemError(
                f"{self.path} line {line} is no comma-separated text ({error}); correct that line"
            ) from None

    def _lines(self, file: BinaryIO) -> Iterator[bytes]:
        """Whole lines; the last one counts without its newline only if nothing can follow."""
        if self._piped:
            yield from file
            return
        rest = b""
        while True:
            piece = file.read(_PIECE)
            if piece:
                *lines, rest = (rest + piece).split(b"\n")
                yield from lines
            elif not self._follow:
                if rest:
                    yield rest
                return
            elif sentence := self._ended(file):
                self._told(sentence)
                return
            else:
                time.sleep(_PAUSE)

    def _ended(self, file: BinaryIO) -> str:
        """Why a file that is followed gives no more rows; empty if it may."""
        own = os.fstat(file.fileno())
        try:
            there = os.stat(self.path)
        except FileNotFoundError:
            return f"{self.path} is gone; waiting for a new one"
        if not os.path.samestat(own, there):
            return f"{self.path} has been replaced; going on with the rows of the new one"
        if own.st_size < file.tell():
            return f"{self.path} has been cut short; going on with its rows from the first"
        return ""
