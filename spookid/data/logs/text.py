"""Separated text with a header row, as spreadsheets, loggers and oscilloscopes write it."""

from __future__ import annotations

import codecs
import io
import math
import re
from array import array
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spookid.data.arrays import FloatArray, available
from spookid.data.logs.columns import Clock, Options, by_clocks, is_unit
from spookid.data.logs.lines import BLANKS, delimiter_of, fields_of, heading, is_number, split_line, time_of
from spookid.errors import ProblemError, listing, shown
from spookid.files import regular, unreadable
from spookid.records import dataclass

_MISSING = ("", "na", "n/a", "#n/a", "null", "none", "-nan(ind)", "nan(ind)", "1.#qnan", "-1.#ind")
"""How recorders and spreadsheets write a sample that is missing, in small letters; ``nan`` is a number to Python."""


@dataclass(frozen=True, eq=False)
class _Sheet:
    """Rows of fields, with the line each starts on."""

    path: Path
    line: int  # of the header
    header: list[str]
    lines: NDArray[np.intp]
    rows: list[list[str]]  # empty if ``table`` holds their numbers
    delimiter: str
    note: str  # what a user should know of the characters of the file
    table: FloatArray | None = None  # columns, (fields, N), if all fields are plain numbers

    @cached_property
    def places(self) -> Mapping[str, int]:
        """Of columns by name."""
        return places_of(self.header)

    def texts(self, name: str) -> list[str]:
        at = self.places[name]
        return [fields[at] for fields in self.rows]


def places_of(header: Sequence[str]) -> Mapping[str, int]:
    """Dict from column name to index; a repeated name has the index of its first column."""
    return {name: i for i, name in reversed(list(enumerate(header)))}


def check_form(path: Path, header: int | None, delimiter: str | None, decimal: str | None) -> None:
    """Raise ProblemError for an invalid text format."""
    if header is not None and header < 1:
        raise ProblemError(f"{path}: header is {header}; give the number of its line, from 1")
    if delimiter is not None and (len(delimiter) != 1 or delimiter in '"\r\n'):
        raise ProblemError(f"{path}: delimiter is {shown(delimiter)}; give one character such as ';'")
    if decimal is not None and decimal == delimiter:
        raise ProblemError(f"{path}: decimal is {shown(decimal)}; give '.' or ',', and not the delimiter")


def read_text(
    options: Options,
    time: str,
    header: int | None,
    delimiter: str | None,
    decimal: str | None,
    rate: float | None = None,
) -> list[Clock]:
    """Read a text: signals sampled at the column ``time`` or at a fixed rate, and signals with their own timestamps."""
    check_form(options.path, header, delimiter, decimal)
    if rate is not None and not (math.isfinite(rate) and rate > 0):
        raise ProblemError(f"{options.path}: rate is {shown(rate)}; give samples per second")
    sheet = _sheet(options.path, None if rate else time, header, delimiter, decimal)
    if rate is not None:
        sheet = _counted(sheet, time)
    time = time_of(time, sheet.header)
    own, path = options.own, options.path
    chosen = None if options.signals is None else [*options.chosen(sheet.header), *own.values()]
    wanted = columns_of(f"{path} line {sheet.line}", sheet.header, time, chosen)
    for name in options.of_own:
        if name not in wanted:
            raise ProblemError(f"{options.path} has no column {name!r}, which times= names; it has {listing(wanted)}")
    if sheet.table is not None:
        values = {name: sheet.table[sheet.places[name]] for name in dict.fromkeys([time, *wanted])}
        values[time] = values[time] / (rate or 1.0)
        return _clocks(sheet, values, time, own, {}, sheet.note)
    units = None
    if sheet.rows:
        place, columns = f"{path} line {sheet.lines[0]}", [time, *wanted]
        units = units_of(place, sheet.places, sheet.rows[0], columns, options.units)
    if units is not None:
        sheet = replace(sheet, lines=sheet.lines[1:], rows=sheet.rows[1:])
    stamps = {name: texts for name in dict.fromkeys([time, *own.values()]) if is_date(texts := sheet.texts(name))}
    numeric = [name for name in dict.fromkeys([time, *wanted]) if name not in stamps]
    decimal = decimal or _decimal(sheet, numeric)
    dated, first = seconds(stamps, sheet.lines.tolist(), str(path))
    values = {**{name: _numbers(sheet, name, decimal) for name in numeric}, **dated}
    values[time] = values[time] / (rate or 1.0)
    of_dates = f"Timestamps of {path.name} are dates, converted to seconds since the first date, {first}."
    notes = [note for note in (sheet.note, of_dates if dated else "") if note]
    return _clocks(sheet, values, time, own, units or {}, " ".join(notes))


def _counted(sheet: _Sheet, time: str) -> _Sheet:
    """With the number of each sample in a column ``time``, which the text does not have."""
    if time in sheet.header:
        raise ProblemError(f"{sheet.path} has a column {time!r}; leave rate out, or give time= another name")
    header = [*sheet.header, time]
    if sheet.table is not None:
        return replace(sheet, header=header, table=np.vstack([sheet.table, np.arange(sheet.table.shape[1])]))
    above = 1 if sheet.rows and not any(map(is_number, sheet.rows[0])) else 0  # units
    rows = [[*row, "s" if i < above else str(i - above)] for i, row in enumerate(sheet.rows)]
    return replace(sheet, header=header, rows=rows)


def _clocks(
    sheet: _Sheet, values: dict[str, FloatArray], time: str, own: Mapping[str, str], units: dict[str, str], note: str
) -> list[Clock]:
    """Columns by their clocks; rows without a time of the first one are of the others, which may be longer."""
    place, lines = str(sheet.path), sheet.lines
    first, *others = by_clocks(place, values, time, own, units=units, row="line", rows=lines, note=note)
    if not own:
        return [first]
    stamped = np.isfinite(first.stamps)
    for name, v in first.columns.items():
        timeless = np.flatnonzero(~stamped & np.isfinite(v))
        if timeless.size:
            raise ProblemError(
                f"{place} line {lines[timeless[0]]} has a value of {name!r} and no time; remove it, give it a time, or "
                "name the time column of its own with times="
            )
    return [first.taken(np.flatnonzero(stamped)), *others]


def _sheet(path: Path, time: str | None, line: int | None, mark: str | None, decimal: str | None) -> _Sheet:
    """Rows from the header on, without the blank lines at the end."""
    text, note = decoded(path)
    whole, text = text.endswith(("\n", "\r")), text.rstrip("\r\n ")
    texts = io.StringIO(text, newline="").readlines()
    if line is None:
        found = heading(texts, time, mark)
        first, delimiter, texts = found.at + 1, found.delimiter, [found.text, *texts[found.at + 1 :]]
    else:
        first, texts = line, texts[line - 1 :]
        delimiter = mark or delimiter_of("".join(texts[:1]), time)
    if decimal != "," and (table := _table(texts[1:], delimiter)) is not None:
        names = [name.strip() for name in split_line(texts[0].rstrip("\r\n"), delimiter)] if '"' not in texts[0] else []
        if len(names) == len(table):
            return _Sheet(path, first, names, np.arange(table.shape[1]) + first + 1, [], delimiter, note, table)
    found_rows = fields_of(_taken(texts), delimiter, path, first)
    header = [column.strip() for column in next(found_rows, (0, []))[1]]
    if not any(header):
        raise ProblemError(f"{path} has no header; write the column names into line {line or 1}")
    lines, rows = array("q"), list[list[str]]()
    for number, fields in found_rows:
        if not fields:  # refused at once: a file may have millions of blank lines
            raise _uneven(path, number, fields, header)
        lines.append(number)
        rows.append(fields)
    if len(rows) > 1 and len(rows[-1]) < len(header) and not whole:
        rows.pop()
        note = f"{note} {path.name} breaks off in line {lines.pop()}, which is left out.".strip()
    _square(path, header, lines, rows)
    return _Sheet(path, first, header, np.array(lines, dtype=np.intp), rows, delimiter, note)


def _taken(texts: list[str]) -> Iterator[str]:
    """All of them, each of which is then forgotten."""
    texts.reverse()
    while texts:
        yield texts.pop()


def _table(texts: Sequence[str], delimiter: str) -> FloatArray | None:
    """Columns of plain numbers, finite and none of them missing; None of others."""
    if not texts or not re.fullmatch(rf"[-+.0-9eE\r\n{re.escape(delimiter)}]*", "".join(texts)):
        return None
    try:
        table = np.loadtxt(texts, delimiter=None if delimiter == BLANKS else delimiter, comments=None, ndmin=2)
    except ValueError:
        return None
    return np.ascontiguousarray(table.T) if len(table) == len(texts) and np.isfinite(table).all() else None


def _uneven(path: Path, line: int, fields: list[str], header: list[str]) -> ProblemError:
    count = len(header)
    return ProblemError(
        f"{path} line {line} has {len(fields)} fields and the header {count}; leave missing values empty"
    )


def _square(path: Path, header: list[str], lines: Sequence[int], rows: Sequence[list[str]]) -> None:
    """Take what a delimiter at the end of lines adds, a column without name or value, from header and rows."""
    while header and not header[-1] and all(not "".join(fields[len(header) - 1 :]).strip() for fields in rows):
        header.pop()
    for line, fields in zip(lines, rows, strict=True):
        while len(fields) > len(header) and not fields[-1].strip():
            fields.pop()
        if len(fields) != len(header):
            raise _uneven(path, line, fields, header)


_TAKEN = 12
"""Bytes of memory that a byte of text takes at least while it is read: as lines and as numbers."""


def decoded(path: Path) -> tuple[str, str]:
    """Decode the text of a file; a note reports text that is not UTF-8 but Windows-1252, which contains Latin-1."""
    try:
        if _TAKEN * (size := regular(path).stat().st_size) > available():
            raise ProblemError(
                f"{path} has {size:,} bytes, more than memory holds as text; split it, or write it as .npz"
            )
        content = path.read_bytes()
    except OSError as error:
        raise unreadable(path, error) from None
    try:
        if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            return content.decode("utf-16"), ""
        if b"\0" in content:  # UTF-16 that does not say so, or no text at all, which the others would take as it is
            raise ValueError
        with suppress(UnicodeDecodeError):
            return content.decode("utf-8-sig"), ""
        return content.decode("cp1252"), f"{path.name} is no UTF-8 text; it is read as Windows-1252 (Latin-1)."
    except ValueError:
        raise ProblemError(
            f"{path} is text neither in UTF-8 or UTF-16 nor in Windows-1252 (Latin-1); save it as comma-separated text "
            "in UTF-8"
        ) from None


def columns_of(
    place: str, header: list[str], time: str, chosen: Iterable[str] | None, remedy: str = "time="
) -> list[str]:
    """Names of the signal columns to read; ``remedy`` names another column of times."""
    name, count = next(iter(Counter(filter(None, header)).most_common(1)), ("", 0))
    if count > 1:
        raise ProblemError(f"{place} has {count} columns named {name!r}; rename or remove all but one")
    if time not in header:
        raise ProblemError(
            f"{place} has no time column {time!r}; it has {listing(header)}: name one of them with {remedy}"
        )
    if chosen is None:
        if "" in header:
            raise ProblemError(f"{place} has no name for column {header.index('') + 1}; name it, or use signals=")
        return [name for name in header if name != time]
    names, known = list(chosen), set(header)
    for name in names:
        if not name or name not in known:
            raise ProblemError(f"{place} has no column {name!r}; it has {listing(header)}")
    return names


def units_of(
    place: str, places: Mapping[str, int], fields: list[str], columns: list[str], said: Container[str] = ()
) -> dict[str, str] | None:
    """Unit of each column, from the row below the header; None if that row already contains samples."""
    if not fields[places[columns[0]]].strip() or any(map(is_number, fields)):
        return None
    units = {}
    for name in columns:
        unit = fields[places[name]].strip().strip("[]()").strip()
        if not unit or name in said:
            continue
        if not is_unit(unit):
            raise ProblemError(
                f"{place}, column {name!r}: {unit[:40]!r} is neither a finite number nor a unit that pint knows; "
                f"correct it, or say the unit with units={{{name!r}: ...}}"
            )
        units[name] = unit
    return units


def _decimal(sheet: _Sheet, columns: list[str]) -> str:
    """What begins the decimals; raises `ProblemError` if it could be either."""
    if sheet.delimiter == ",":
        return "."
    found: dict[str, tuple[int, str, str]] = {}
    for name in columns:
        for i, text in enumerate(sheet.texts(name)):
            for mark in ",.":
                if mark in text:
                    found.setdefault(mark, (int(sheet.lines[i]), name, text))
    if len(found) == 2:
        (line, name, text), (other, column, point) = found[","], found["."]
        raise ProblemError(
            f"{sheet.path} line {line}, column {name!r}: {text[:40]!r} has a comma, and line {other}, column "
            f"{column!r}, {point[:40]!r} a point; say with decimal= which of them begins decimals"
        )
    return "," if "," in found else "."


def _numbers(sheet: _Sheet, name: str, decimal: str) -> FloatArray:
    """Values of a column, NaN where a field is empty."""
    texts = sheet.texts(name)
    read = float if decimal == "." and _PLAIN.fullmatch("".join(texts)) and all(texts) else partial(_number, decimal)
    try:
        values = np.fromiter(map(read, texts), np.float64, len(texts))
    except ValueError:
        values = np.array([math.inf])
    if np.isinf(values).any():
        for line, text in zip(sheet.lines, texts, strict=True):
            number_of(text, decimal, f"{sheet.path} line {line}, column {name!r}")
    return values


def number_of(text: str, decimal: str, place: str) -> float:
    """Number in a text field, NaN if the field is empty."""
    try:
        value = _number(decimal, text)
    except ValueError:
        value = math.inf
    if math.isinf(value):
        remedy = "read dates with pandas and from_dataframe" if ":" in text else "leave a missing value empty"
        raise ProblemError(f"{place}: {text.strip()[:40]!r} is no finite number; {remedy}")
    return value


_PLAIN = re.compile(r"[-+.0-9eE]*")  # characters of numbers that need no look before Python reads them


def _number(decimal: str, text: str) -> float:
    if text.strip().lower() in _MISSING:
        return math.nan
    if decimal == ",":
        text = text.replace(".", "_").replace(",", ".")  # 1.234,5 and 1.234 are refused: who knows what they mean
    return math.inf if "_" in text else float(text)  # Python reads 1_0 as 10; a data file barely means that


_DATE = re.compile(r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?)(Z|[+-]\d\d:?\d\d)?", re.ASCII)


def is_date(texts: Sequence[str]) -> bool:
    """True if the first nonempty field is a date with a time of day."""
    first = next((text for text in texts if text.strip()), "")
    return _DATE.fullmatch(first.strip()) is not None


def seconds(
    columns: Mapping[str, Sequence[str]], lines: Sequence[int], place: str
) -> tuple[dict[str, FloatArray], str]:
    """Convert columns of dates to seconds since the earliest date, NaN for empty fields, and return this date."""
    found = {name: np.full(len(texts), "NaT", dtype="datetime64[ns]") for name, texts in columns.items()}
    origin: Any = np.datetime64("NaT")
    zoned, first = set[bool](), ""
    for name, texts in columns.items():
        for i, (line, text) in enumerate(zip(lines, map(str.strip, texts), strict=True)):
            if not text:
                continue
            where, match = f"{place} line {line}, column {name!r}", _DATE.fullmatch(text)
            try:
                stamp, zone = match.groups() if match else ("no date", "")
                ahead = datetime.fromisoformat(f"2000-01-01T00:00{zone or 'Z'}").utcoffset()
                at = np.datetime64(stamp.replace(",", "."), "ns") - np.timedelta64(ahead or 0)
            except ValueError:
                raise ProblemError(f"{where}: {text[:40]!r} is no time as 2026-01-31T12:00:00.5; correct it") from None
            zoned.add(zone is not None)
            if len(zoned) > 1:
                raise ProblemError(
                    f"{where}: {text!r} is the first with, or without, a time zone; give all dates one, or none"
                )
            found[name][i] = at
            if not first or at < origin:
                first, origin = text, at
    return {name: (own - origin) / np.timedelta64(1, "s") for name, own in found.items()}, first
