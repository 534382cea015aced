"""Lines of separated text: which of them is the header, what divides their fields, and which names mean time."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from spookid.errors import ProblemError
from spookid.records import dataclass

_DELIMITERS = ",;\t|"
BLANKS = " "  # delimiter that stands for blanks, as many as there are
_COMMENT = re.compile(r"\s*[#%]|sep=.\s*$")
"""Begins a line that is none of the table; Excel writes the second."""


def number_in(words: Sequence[str]) -> str:
    """Number at the end of the words of a name, or the only one; empty without any."""
    numbers = [word for word in words if word.isdigit()]
    return numbers[-1] if numbers and (words[-1].isdigit() or len(numbers) == 1) else ""


def tokens(text: str) -> list[str]:
    """Words and numbers in a column name, in lower case; ``q1`` gives two tokens."""
    apart = re.sub(r"([a-z])([A-Z])", r"\1 \2", text)
    return re.findall(r"[a-z]+|\d+", apart.lower())


TIMES = ("t", "time", "timestamp", "stamp", "sec", "secs", "seconds")
"""First words of columns that hold times."""
REMAINDERS = ("nsec", "nsecs", "nanosec", "nanosecs", "nanoseconds", "usec", "usecs")
"""Last words of columns that hold the fraction of a second."""


def time_in(names: Iterable[str]) -> str:
    """First column name that means time; ``t`` if there is none."""
    return next((name for name in names if tokens(name)[:1] and tokens(name)[0] in TIMES), "t")


def time_of(time: str, names: Iterable[str]) -> str:
    """``time``, or if that is ``t`` and missing, the only column whose name says just time, in seconds."""
    there = list(dict.fromkeys(names))
    if time != "t" or time in there or any(tokens(name)[-1:] and tokens(name)[-1] in REMAINDERS for name in there):
        return time
    whole = [name for name in there if {*_DELIMITERS}.isdisjoint(name)]
    alike = [name for name in whole if tokens(name)[:1] and tokens(name)[0] in TIMES]
    alike = [name for name in alike if {*tokens(name)[1:]} <= {"s", *TIMES[4:]}]
    return alike[0] if len(alike) == 1 else time


@dataclass(frozen=True)
class Heading:
    """Column names from the header line."""

    at: int  # which line that is, from 0
    text: str  # without a mark of a comment
    delimiter: str


def heading(texts: Sequence[str], time: str | None, delimiter: str | None = None) -> Heading:
    """Find the header of a text: the first line that is not a comment, or a comment before it that names each number,
    as NumPy writes it."""
    at = next((i for i, text in enumerate(texts) if text.strip() and not _COMMENT.match(text)), len(texts))
    if at > 0 and _COMMENT.match(texts[at - 1]):
        text = re.sub(r"^\s*[#%](?![,;\t|])[ ]?", "", texts[at - 1])
        mark = delimiter or delimiter_of(text, time)
        below = _names(texts[at], mark) if at < len(texts) else []
        if len(below) == len(_names(text, mark)) and any(map(is_number, below)):
            return Heading(at - 1, text, mark)
    text = texts[at] if at < len(texts) else ""
    return Heading(at, text, delimiter or delimiter_of(text, time))


def names_of(path: Path, text: str) -> list[str]:
    """Names in the header of a text of unknown format."""
    texts = text.splitlines(keepends=True)
    found = heading(texts, None)
    names = _names(found.text, found.delimiter)
    while names and not names[-1]:
        names.pop()
    if len(names) < 2 or all(is_number(name) for name in names if name):
        raise ProblemError(f"{path} line {found.at + 1} has no names of columns; write them there, with commas between")
    return names


def fields_of(texts: Iterable[str], delimiter: str, path: Path, first: int) -> Iterator[tuple[int, list[str]]]:
    """Yield the fields of each row with its first line number; a quoted field may span several lines."""
    if delimiter == BLANKS:
        yield from ((line, text.split()) for line, text in enumerate(texts, first))
        return
    line, reader = first, csv.reader(texts, delimiter=delimiter)
    try:
        for fields in reader:
            yield line, fields
            line = reader.line_num + first
    except csv.Error as error:
        raise ProblemError(f"{path} line {line} is no comma-separated text ({error}); correct that line") from None


def split_line(text: str, delimiter: str) -> list[str]:
    """Split a line into fields; raises `csv.Error` if a quoted field does not end on the line."""
    return text.split() if delimiter == BLANKS else next(csv.reader([text], delimiter=delimiter, strict=True), [])


def delimiter_of(header: str, time: str | None) -> str:
    """Detect the delimiter that splits a header into the most columns, preferably with a time column; blanks are tried
    last, because names may contain blanks."""

    def columns(delimiter: str) -> tuple[bool, float]:
        fields = _names(header, delimiter)
        timed = time is not None and time_of(time, fields) in fields
        if delimiter == BLANKS:
            return timed, 1.5 if time is None and len(fields) > 1 else 0
        return timed, len(fields)

    best: str = max((*_DELIMITERS, BLANKS), key=columns)
    return best


def is_number(text: str) -> bool:
    try:
        float(text.replace(",", "."))
    except ValueError:
        return False
    return True


def _names(text: str, delimiter: str) -> list[str]:
    try:
        return [field.strip() for field in split_line(text.rstrip("\r\n"), delimiter)]
    except csv.Error:  # a field that never ends: told when rows are read
        return []
