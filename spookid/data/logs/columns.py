"""Columns by name with the timestamps of their clock, as every reader makes them, and what a recording is made of them:
units are converted to SI where they enter; an angle is in radians. Libraries that only some files need, and what
their readers raise, in one sentence."""

from __future__ import annotations

import re
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spookid.data.arrays import FloatArray, available, checked_signals, checked_time, floats
from spookid.errors import ProblemError, listing, shown
from spookid.files import AnyPath, regular, unreadable
from spookid.records import dataclass
from spookid.tables.table import counted


def library(module: str, package: str, what: str, install: str = "'spookid[logs]'") -> Any:
    """Import an optional package at its first use."""
    try:
        return import_module(module)
    except ImportError:
        raise ProblemError(f"{what} needs {package}; install it with: pip install {install}") from None


@contextmanager
def reading(path: Path, kind: str, remedy: str) -> Iterator[None]:
    """Convert exceptions of a reading library into one sentence; missing files are refused first."""
    try:
        if not path.is_dir():
            regular(path).open("rb").close()
        yield
    except ProblemError:
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.strerror is not None:  # of the system; those of libraries have none
            raise unreadable(path, error) from None
        reason = next(iter(str(error).strip().splitlines()), "")[:80].rstrip(".:; ") or type(error).__name__
        raise ProblemError(f"{path} is no {kind} or is damaged ({reason}); {remedy}") from None


_EASY, _RATIO = 1e8, 20.0
"""Bytes of numbers that any file may hold, and for each of its own bytes: measurements compress to no less."""
COPIES = 4
"""How often numbers are in memory while they are read."""


def bytes_of(path: Path) -> int:
    """Size in bytes of a file, or of all files in a folder."""
    return sum(one.stat().st_size for one in path.rglob("*")) if path.is_dir() else path.stat().st_size


def most_unpacked(path: Path) -> float:
    """Largest number of bytes that measurements in a compressed file of this size may unpack to."""
    return _EASY + _RATIO * bytes_of(path)


def most_bytes(path: Path) -> float:
    """Largest number of bytes of numbers that may be read from a file."""
    return min(most_unpacked(path), available() / COPIES)


def check_amount(path: Path, count: float) -> None:
    """Refuse, before reading, more numbers than memory can hold or than the size of the file allows."""
    if 8.0 * count > most_bytes(path):
        raise ProblemError(
            f"{path} declares {count:,.0f} numbers, more than memory holds or than measurements compress to in its "
            f"{bytes_of(path):,} bytes; choose fewer with signals=, or write it without compression"
        )


_BRACKETS = re.compile(r"[\[(]\s*([^\[\]()\d\W][^\[\]()]*?)\s*[\])]$")
_MOST_NAMES = 8  # that a message lists


@dataclass(frozen=True, eq=False)
class Clock:
    """Columns whose samples share timestamps."""

    place: str  # file, and topic or group, as messages begin
    time: str  # name of the column of the timestamps
    stamps: Any  # shape (N,), in seconds unless ``units`` says otherwise
    columns: Mapping[str, Any]  # column name to its samples, each shape (N,)
    units: Mapping[str, str] = field(default_factory=dict)
    """What the file itself says of the units, by column; those it says nothing of are in SI."""
    kind: str = "column"  # what messages call an array
    row: str = "row"  # what messages call a sample
    rows: NDArray[np.intp] | None = None  # numbers of the rows in the file, (N,); from 0 on if None
    ordered: bool = True
    """Whether timestamps that go back are an error, as in tables; else samples are sorted, and those without a
    timestamp are left out."""
    note: str = ""  # what a user should know of the file

    def number(self, i: Any) -> int:
        return int(i if self.rows is None else self.rows[i])

    def taken(self, order: NDArray[np.intp]) -> Clock:
        """Select and order samples."""
        columns = {name: values[order] for name, values in self.columns.items()}
        rows = order if self.rows is None else self.rows[order]
        return replace(self, stamps=self.stamps[order], columns=columns, rows=rows)


def by_clocks(place: str, columns: Mapping[str, Any], time: str, own: Mapping[str, str], **words: Any) -> list[Clock]:
    """Group columns by timestamps: those sampled at ``time``, and those with their own column of timestamps."""
    shared = {name: v for name, v in columns.items() if name not in {time, *own, *own.values()}}
    found = [Clock(place, time, columns[time], shared, **words)]
    for stamps in dict.fromkeys(own.values()):
        signals = {name: columns[name] for name, column in own.items() if column == stamps}
        found.append(Clock(place, stamps, columns[stamps], signals, ordered=False, **words))
    return found


@dataclass(frozen=True)
class Options:
    """Common options of the readers of all file formats."""

    path: Path  # the file, or what messages call the place of the data
    name: str  # of the recording
    signals: tuple[str, ...] | None  # columns that are wanted, None: all
    units: Mapping[str, str]  # unit by column, or by the name before the brackets of several
    own: Mapping[str, str]  # column of the timestamps of signals that have other ones

    @classmethod
    def of(
        cls,
        path: AnyPath,
        name: str | None,
        signals: Iterable[str] | None,
        units: Mapping[str, str] | None,
        times: Mapping[str, str] | None = None,
    ) -> Options:
        where = Path(path)
        chosen = (signals,) if isinstance(signals, str) else None if signals is None else tuple(signals)
        return cls(where, name or where.stem, chosen, dict(units or {}), dict(times or {}))

    @property
    def of_own(self) -> set[str]:
        """Names of the signals with their own timestamps, and names of these timestamps."""
        return {*self.own, *self.own.values()}

    def wants(self, name: str) -> bool:
        """True if the user wants a column; the choice ``q`` includes ``q[0]``, ``q[1]``."""
        return self.signals is None or name in self.signals or whole(name) in self.signals

    def chosen(self, there: Collection[str]) -> list[str]:
        """Return the existing names that the user chose; unknown names are kept, to be refused later."""
        found = {name: [one for one in there if whole(one) == name] or [name] for name in self.signals or ()}
        return [one for name, several in found.items() for one in ([name] if name in there else several)]

    def check(self, known: Iterable[str]) -> None:
        """Raise ProblemError if the user chose columns that do not exist."""
        there = list(known)
        for name in self.signals or ():
            if name not in there and name not in map(whole, there):
                raise ProblemError(f"{self.path} has no signal {name!r}; it has {short_listing(there)}")


Parts = tuple[FloatArray, dict[str, FloatArray], dict[str, FloatArray], tuple[str, ...]]
"""Timestamps of the clock with the most [s], signals in SI, timestamps of other clocks [s], and notes of reading."""


def whole(name: str) -> str:
    """Name of the array to which a column such as ``q[2]`` belongs."""
    return re.sub(r"\[\d+\]$", "", name)


def short_listing(there: Sequence[str]) -> str:
    """List of names, abbreviated if there are many."""
    return several(listing([name]) for name in there)


def several(words: Iterable[str]) -> str:
    """Words joined by commas; a long list is abbreviated."""
    said = list(words)
    return ", ".join(said[:_MOST_NAMES]) + (f" and {len(said) - _MOST_NAMES} more" if said[_MOST_NAMES:] else "")


def parts(clocks: Sequence[Clock], options: Options) -> Parts:
    """Return timestamps and signals of a recording, converted, sorted, and without repeated times."""
    _check_names(clocks, options)
    notes = [*dict.fromkeys(clock.note for clock in clocks if clock.note)]
    clean = [_merged(_in_order(_converted(clock, options)), notes) for clock in clocks]
    t: FloatArray = max((clock.stamps for clock in clean), key=len)
    signals: dict[str, FloatArray] = {}
    times: dict[str, FloatArray] = {}
    for clock in clean:
        signals.update(clock.columns)
        if not np.array_equal(clock.stamps, t):
            times.update(dict.fromkeys(clock.columns, clock.stamps))
    count = len(np.unique(np.concatenate([clock.stamps for clock in clean]))) * len(signals)
    if t.itemsize * count > available():
        raise ProblemError(f"{options.path} has {count:,} samples and gaps between them; choose fewer with signals=")
    place = f"{options.path}: recording {options.name!r}"
    checked_time(t, place)
    if not times:
        checked_signals(signals, len(t), place)
    return t, signals, times, tuple(notes)


def _check_names(clocks: Sequence[Clock], options: Options) -> None:
    found: dict[str, str] = {}
    for clock in clocks:
        for name in clock.columns:
            if name in found:
                raise ProblemError(
                    f"{clock.place} has {name!r}, which {found[name]} has too; choose one with topics= (of commands "
                    "--topics), or give them prefixes with topics={'/topic': 'prefix'}"
                )
            found[name] = clock.place
    there = [*dict.fromkeys(clock.time for clock in clocks), *found]
    for name in options.units:
        if name not in there and name not in map(whole, there):
            what = f"{options.path} has no column {name!r}, which units= names"
            raise ProblemError(f"{what}; it has {short_listing(there)}")


def _converted(clock: Clock, options: Options) -> Clock:
    """Arrays of numbers in SI."""

    def converted(name: str, values: object, what: str, dimension: str = "") -> FloatArray:
        array = floats(values, what)
        unit = options.units.get(name, options.units.get(whole(name), clock.units.get(name)))
        if unit is None and (said := _unconverted(name)):
            advice = f"convert the signal with units={{{name!r}: {said!r}}}, or give its true unit"
            warnings.warn(
                f"{what} is read in SI units, and its name says {said!r}; {advice}", UserWarning, stacklevel=2
            )
        return array if unit is None else to_si(array, unit, what, dimension)

    stamps = converted(clock.time, clock.stamps, f"{clock.place}, {clock.kind} {clock.time!r}: time", "s")
    if stamps.ndim != 1:
        where = f"{clock.place}, {clock.kind} {clock.time!r}"
        raise ProblemError(f"{where}: time has shape {stamps.shape}; give it one dimension")
    columns = {}
    for name, values in clock.columns.items():
        what = f"{clock.place}: signal {name!r}"
        columns[name] = array = converted(name, values, what)
        if array.shape != stamps.shape:
            raise ProblemError(f"{what} has shape {array.shape} and the time {stamps.shape}; give as many of both")
        bad = np.flatnonzero(np.isinf(array))
        if bad.size:
            raise ProblemError(
                f"{clock.place} {clock.row} {clock.number(bad[0])}, {clock.kind} {name!r} is infinite; write NaN where "
                "a sample is missing, or choose others with signals="
            )
    return replace(clock, stamps=stamps, columns=columns)


def _in_order(clock: Clock) -> Clock:
    """Samples by time."""
    t = clock.stamps
    if not clock.ordered:
        order = np.argsort(t, kind="stable")
        return clock.taken(order[np.isfinite(t[order])])
    timeless = np.flatnonzero(~np.isfinite(t))
    if timeless.size:
        where = f"{clock.row} {clock.number(timeless[0])}"
        raise ProblemError(f"{clock.place} {where} has no time; remove the {clock.row} or give it one")
    back = np.flatnonzero(np.diff(t) < 0)
    if back.size:
        i, row = int(back[0]), clock.row
        raise ProblemError(
            f"{clock.place} {row} {clock.number(i + 1)}: time {float(t[i + 1])!r} is earlier than {float(t[i])!r} of "
            f"the {row} before; sort the {row}s by time"
        )
    return clock


def _merged(clock: Clock, notes: list[str]) -> Clock:
    """Each time once: of several samples at one time, the last that is finite counts."""
    t = clock.stamps
    repeated = np.flatnonzero(np.diff(t) == 0) + 1
    if not repeated.size:
        return clock
    if len(repeated) == len(t) - 1:
        raise ProblemError(
            f"{clock.place}: all {len(t):,} {clock.row}s have the time {t[0]:.17g} s; write timestamps with more digits"
        )
    new = np.ones(len(t), dtype=np.bool_)
    new[repeated] = False
    group = np.cumsum(new) - 1
    columns = {}
    for name, values in clock.columns.items():
        columns[name] = np.full(int(group[-1]) + 1, np.nan)
        finite = np.isfinite(values)
        columns[name][group[finite]] = values[finite]  # of several assignments to one place the last holds
    first = int(repeated[0])
    notes.append(
        f"{clock.place}: {counted(len(repeated), clock.row)} of {len(t):,} repeat a time, first {clock.row} "
        f"{clock.number(first)} at {t[first]:.12g} s; of several samples at one time the last is taken."
    )
    return replace(clock, stamps=t[new], columns=columns, rows=None if clock.rows is None else clock.rows[new])


_NONE = ("", "-", "1")  # how files say that a number has no unit
_SPELLINGS = {
    r"\b([kmuµ]?N)([cm]?m)\b": r"(\1*\2)",  # to pint Nm is a unit of yarn
    r"\b[Aa]mps?\b": "ampere",  # and amps are attometres per second
    r"\bs2\b": "s^2",
    r"\brevs?\b": "turn",
}
"""What logs write and pint reads as something else, or not at all."""
_UNCLEAR = {"g": "'gram' or 'g_0'", "G": "'gauss' or 'g_0'"}
"""Units of which nobody can say whether they are of an acceleration."""
_LONGEST = 64


class _Real(float):
    """Numbers in units, of which pint would take 9**9**9 for an integer of any length; these overflow."""


def to_si(values: FloatArray, unit: object, what: str, dimension: str = "") -> FloatArray:
    """Convert values to SI units; rad/s for angular rates, N m for torques and K for temperatures. A minus before a
    unit reverses the sign, as in '-deg'."""
    if not isinstance(unit, str):
        raise ProblemError(f"{what} has the unit {shown(unit)}; give a text such as 'deg'")
    if unit.strip() not in _NONE and unit.strip().startswith("-") and len(unit) <= _LONGEST:
        return -to_si(values, unit.strip()[1:], what, dimension)
    if unit.strip() in _NONE and not dimension:
        return values
    if unit.strip() in _UNCLEAR:
        raise ProblemError(f"{what} has the unit {unit!r}; with units= say which one it is, {_UNCLEAR[unit.strip()]}")
    known = _units(f"{what}: the unit {unit!r}")
    try:
        quantity = known.Quantity(values, _spelled(unit))
        converted = quantity.to_base_units()
    except Exception:  # pint raises of many kinds at texts that are no unit
        raise ProblemError(
            f"{what} has the unit {shown(unit)}, which pint does not know; write it as in 'deg'"
        ) from None
    if dimension and not quantity.is_compatible_with(dimension):
        raise ProblemError(f"{what} has the unit {unit!r}, which is no time; write it as in 'ms'")
    return np.asarray(converted.magnitude, dtype=np.float64)


def _unconverted(name: str) -> str:
    """The unit in brackets at the end of a name, if it is another one than that of SI; else empty."""
    found = _BRACKETS.search(name)
    return found[1] if found and is_unit(found[1]) and to_si(np.ones(1), found[1], name)[0] != 1.0 else ""


def is_unit(text: str) -> bool:
    """True if the package pint knows this text as a unit."""
    if text.strip() in _NONE:
        return True
    try:
        _units("a row of units").Unit(_spelled(text))
    except ProblemError:
        raise
    except Exception:
        return False
    return True


def _spelled(unit: str) -> str:
    """A unit as pint reads it; raises ValueError for texts longer than any unit, which pint would read for minutes."""
    if len(unit) > _LONGEST:
        raise ValueError
    for written, meant in _SPELLINGS.items():
        unit = re.sub(written, meant, unit)
    return unit.strip()


def _units(what: str) -> Any:
    return _registry(library("pint", "pint", what, install="pint"))


@cache
def _registry(pint: Any) -> Any:
    return pint.UnitRegistry(non_int_type=_Real)
