"""Measured signals over time: checked once where they enter, immutable afterwards."""

from __future__ import annotations

import csv
import math
import os
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO, TypeAlias

import numpy as np
from numpy.lib.npyio import NpzFile
from numpy.typing import NDArray

from spookid.errors import ProblemError, declared_at

FloatArray: TypeAlias = NDArray[np.float64]
FilePath: TypeAlias = str | os.PathLike[str]

_NUMERIC_KINDS = "biuf"  # dtype.kind of booleans, integers and floats


@dataclass(frozen=True, eq=False)
class Recording:
    """One measurement run: time stamps and the signals sampled there.

    Any sequence of numbers is accepted and copied to a read-only float64 array; a masked or ``None`` entry of a
    signal becomes NaN. Raises `ProblemError` for fewer than two samples, a time that is not finite or does not
    increase, no signals, a signal of another length, with an infinite value or without one finite value.
    """

    t: FloatArray
    """Time stamps [s], shape (N,), finite and strictly increasing; they may be irregular."""
    signals: Mapping[str, FloatArray]
    """Signal name to its samples, each shape (N,), in the signal's own unit; NaN is a missing sample."""
    name: str = "recording"
    """What messages and results call this run."""
    q: FloatArray | None = None
    """Positions and quaternions of the bodies, shape (N, bodies, 7), of a simulated recording; None if measured."""
    v: FloatArray | None = None
    """Linear and angular velocities of the bodies, shape (N, bodies, 6), of a simulated recording; None if measured."""
    closed_loop: bool | None = None
    """True if inputs answer to the measured motion, as a controller's do, False if they do not; None: found out."""

    def __post_init__(self) -> None:
        name = self.name or "recording"
        place = f"{declared_at()}: recording {name!r}"
        t = _checked_time(self.t, place)
        _set_fields(
            self,
            name=name,
            t=t,
            signals=MappingProxyType(_checked_signals(self.signals, len(t), place)),
            q=_checked_states(self.q, "q", (len(t), None, 7), place),
            v=_checked_states(self.v, "v", (len(t), None, 6), place),
        )
        if not (self.closed_loop is None or isinstance(self.closed_loop, bool)):
            raise ProblemError(f"{place}: closed_loop is {self.closed_loop!r}; give True, False or None")
        if self.q is not None and self.v is not None and self.q.shape[1] != self.v.shape[1]:
            bodies = f"q has {self.q.shape[1]} bodies and v has {self.v.shape[1]}"
            raise ProblemError(f"{place}: {bodies}; give both the same")

    @classmethod
    def from_csv(
        cls, path: FilePath, *, time: str = "t", signals: Iterable[str] | None = None, name: str | None = None
    ) -> Recording:
        """Read comma-separated text with a header row; an empty field or ``nan`` is a missing sample.

        Every column other than `time` [s] is a signal, unless `signals` chooses some; columns not chosen are not
        parsed. `name` defaults to the file's stem. Raises `ProblemError` naming the file and the line (from 1).
        """
        t, columns = _read_csv(Path(path), time, _names(signals))
        return cls(t=t, signals=columns, name=name or Path(path).stem)

    @classmethod
    def from_npz(
        cls, path: FilePath, *, time: str = "t", signals: Iterable[str] | None = None, name: str | None = None
    ) -> Recording:
        """Read a NumPy archive: array `time` [s], shape (N,), and the signals.

        Every other numeric array of shape (N,) is a signal, unless `signals` chooses some. `name` defaults to the
        file's stem. Raises `ProblemError` naming the file and the array; arrays of Python objects are refused,
        because reading them would run code from the file.
        """
        t, arrays = _read_npz(Path(path), time, _names(signals))
        return cls(t=t, signals=arrays, name=name or Path(path).stem)

    def to_csv(self, path: FilePath, decimals: int | None = None, *, time: str = "t") -> None:
        """Write times (column `time`) and all signals, NaN as an empty field; the file appears whole or not at all.

        `from_csv` reads back the very same numbers, or all of them rounded to `decimals` digits after the point.
        Raises `ProblemError` if a signal is itself called `time`, if rounding makes two times equal, or if the
        file cannot be written.
        """
        _write_csv(self, Path(path), decimals, time)

    def signal(self, name: str) -> FloatArray:
        """Samples of one signal, shape (N,); raises `ProblemError` listing the signals there are if it is unknown."""
        try:
            return self.signals[name]
        except KeyError:
            raise ProblemError(
                f"recording {self.name!r} has no signal {name!r}; it has {_listing(self.signals)}"
            ) from None

    def with_signals(self, **arrays: Any) -> Recording:
        """Copy with the given signals, each shape (N,), replaced or added."""
        return Recording(self.t, {**self.signals, **arrays}, self.name, self.q, self.v, self.closed_loop)

    def between(self, start: float, stop: float) -> Recording:
        """Copy of the samples with start <= t < stop [s]; raises `ProblemError` if fewer than two remain."""
        keep = (self.t >= start) & (self.t < stop)
        count = np.count_nonzero(keep)
        if count < 2:
            raise ProblemError(
                f"recording {self.name!r} has {count} samples with {start:.12g} s <= t < {stop:.12g} s "
                f"and needs 2; it lasts from {self.t[0]:.12g} s to {self.t[-1]:.12g} s"
            )
        return Recording(
            t=self.t[keep],
            signals={name: values[keep] for name, values in self.signals.items()},
            name=self.name,
            q=None if self.q is None else self.q[keep],
            v=None if self.v is None else self.v[keep],
            closed_loop=self.closed_loop,
        )


# --- checks on construction ---


def _set_fields(recording: Recording, **values: object) -> None:
    """Set fields of the frozen recording while it is being made."""
    for field, value in values.items():
        object.__setattr__(recording, field, value)


def _floats(values: object, what: str) -> FloatArray:
    """Read-only float64 copy of any shape; `what` names the array in messages."""
    if isinstance(values, np.ma.MaskedArray) and values.dtype.kind in _NUMERIC_KINDS:
        values = np.ma.filled(values.astype(np.float64), np.nan)
    try:
        raw = np.asarray(values)
        if raw.dtype.kind not in _NUMERIC_KINDS + "O":  # texts, dates and complex numbers would convert, but wrongly
            raise TypeError(f"dtype {raw.dtype}")
        array = np.array(raw, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ProblemError(f"{what} is no array of real numbers ({error}); convert it to float first") from None
    array.flags.writeable = False
    return array


def _checked_time(values: object, place: str) -> FloatArray:
    t = _floats(values, f"{place}: time")
    if t.ndim != 1:
        raise ProblemError(f"{place}: time has shape {t.shape}; give it one dimension")
    if len(t) < 2:
        raise ProblemError(f"{place}: time has {len(t)} samples; at least 2 are needed")
    bad = np.flatnonzero(~np.isfinite(t))
    if bad.size:
        raise ProblemError(f"{place}: t[{bad[0]}] is {t[bad[0]]}; remove that sample or give it a finite time")
    late = np.flatnonzero(t[1:] <= t[:-1])
    if late.size:
        i = late[0]
        raise ProblemError(
            f"{place}: t[{i + 1}] = {t[i + 1]:.17g} s does not exceed t[{i}] = {t[i]:.17g} s; "
            "sort the samples by time and remove repeated times"
        )
    return t


def _checked_signals(signals: object, count: int, place: str) -> dict[str, FloatArray]:
    if not isinstance(signals, Mapping):
        raise ProblemError(f"{place}: signals is a {type(signals).__name__}; give a dict of name to array")
    if not signals:
        raise ProblemError(f"{place}: there are no signals; give at least one besides the time")
    return {_checked_name(name, place): _checked_signal(name, values, count, place) for name, values in signals.items()}


def _checked_name(name: object, place: str) -> str:
    # Spaces around a name would not survive a CSV file, whose header is stripped.
    if not isinstance(name, str) or not name or name != name.strip():
        raise ProblemError(f"{place}: {name!r} is no signal name; give a text without spaces around it")
    return name


def _checked_signal(name: str, values: object, count: int, place: str) -> FloatArray:
    what = f"{place}: signal {name!r}"
    y = _floats(values, what)
    if y.shape != (count,):
        raise ProblemError(f"{what} has shape {y.shape} and the time ({count},); give one value for each time")
    bad = np.flatnonzero(np.isinf(y))
    if bad.size:
        raise ProblemError(f"{what} is infinite at sample [{bad[0]}]; write NaN where a sample is missing")
    if np.isnan(y).all():
        raise ProblemError(f"{what} has not one finite sample; remove it or give it values")
    return y


def _checked_states(values: object, field: str, shape: tuple[int, None, int], place: str) -> FloatArray | None:
    if values is None:
        return None
    array = _floats(values, f"{place}: {field}")
    if array.ndim != 3 or (array.shape[0], array.shape[2]) != (shape[0], shape[2]):
        raise ProblemError(f"{place}: {field} has shape {array.shape}; give it ({shape[0]}, bodies, {shape[2]})")
    if not np.isfinite(array).all():
        raise ProblemError(
            f"{place}: {field} holds a value that is not finite; a simulated state has no missing values"
        )
    return array


# --- files ---


def _names(signals: Iterable[str] | None) -> list[str] | None:
    """The chosen names; a lone text is one name, not its letters."""
    if signals is None:
        return None
    return [signals] if isinstance(signals, str) else list(signals)


def _listing(names: Iterable[object]) -> str:
    return ", ".join(repr(name) for name in names) or "none"


def _read_csv(path: Path, time: str, chosen: list[str] | None) -> tuple[FloatArray, dict[str, FloatArray]]:
    rows = _csv_rows(path)
    if not rows or not any(rows[0][1]):
        raise ProblemError(f"{path} has no header; write the column names into line 1")
    header = [column.strip() for column in rows[0][1]]
    wanted = _csv_columns(path, header, time, chosen)
    samples = rows[1:]
    for line, fields in samples:
        if len(fields) != len(header):
            raise ProblemError(
                f"{path} line {line} has {len(fields)} fields and the header {len(header)}; leave missing values empty"
            )
    at = header.index(time)
    t = [_number(fields[at], path, line, time) for line, fields in samples]
    _check_csv_times(path, t, [line for line, _ in samples])
    columns = {}
    for name in wanted:
        at = header.index(name)
        columns[name] = np.array([_number(fields[at], path, line, name) for line, fields in samples])
    return np.array(t), columns


def _csv_rows(path: Path) -> list[tuple[int, list[str]]]:
    """Rows with the line each starts on (a quoted field may span lines), without the blank lines at the end."""
    rows: list[tuple[int, list[str]]] = []
    line = 1
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file)
            for fields in reader:
                rows.append((line, fields))
                line = reader.line_num + 1
    except OSError as error:
        raise _unreadable(path, error) from None
    except UnicodeDecodeError:
        raise ProblemError(f"{path} is no UTF-8 text; save it as comma-separated text in UTF-8") from None
    except csv.Error as error:
        raise ProblemError(f"{path} line {line} is no comma-separated text ({error}); correct that line") from None
    while rows and not "".join(rows[-1][1]).strip() and len(rows[-1][1]) < 2:
        rows.pop()
    return rows


def _csv_columns(path: Path, header: list[str], time: str, chosen: list[str] | None) -> list[str]:
    """Names of the signal columns to read."""
    for name in header:
        if name and header.count(name) > 1:
            raise ProblemError(
                f"{path} line 1 has {header.count(name)} columns named {name!r}; rename or remove all but one"
            )
    if time not in header:
        raise ProblemError(
            f"{path} line 1 has no time column {time!r}; it has {_listing(header)}: name one of them with time="
        )
    if chosen is None:
        if "" in header:
            raise ProblemError(
                f"{path} line 1 has no name for column {header.index('') + 1}; name it or choose columns with signals="
            )
        return [name for name in header if name != time]
    for name in chosen:
        if not name or name not in header:
            raise ProblemError(f"{path} line 1 has no column {name!r}; it has {_listing(header)}")
    return chosen


def _number(text: str, path: Path, line: int, column: str) -> float:
    """Value of one field, NaN if it is empty."""
    text = text.strip()
    if not text:
        return math.nan
    try:
        value = math.inf if "_" in text else float(text)  # Python reads 1_0 as 10; a data file hardly means that
    except ValueError:
        value = math.inf
    if math.isinf(value):
        raise ProblemError(
            f"{path} line {line}, column {column!r}: {text[:40]!r} is no finite number; leave a missing value empty"
        )
    return value


def _check_csv_times(path: Path, t: list[float], lines: list[int]) -> None:
    """Like the check on construction, but with the line to look at."""
    for i, line in enumerate(lines):
        if math.isnan(t[i]):
            raise ProblemError(f"{path} line {line} has no time; remove the line or give it one")
        if i and t[i] <= t[i - 1]:
            raise ProblemError(
                f"{path} line {line}: time {t[i]!r} does not exceed {t[i - 1]!r} of the row before; "
                "sort the rows by time and remove repeated times"
            )


def _read_npz(path: Path, time: str, chosen: list[str] | None) -> tuple[FloatArray, dict[str, Any]]:
    arrays = _npz_arrays(path, None if chosen is None else [time, *chosen])
    for name in [time, *(chosen or [])]:
        if name not in arrays:
            raise ProblemError(f"{path} has no array {name!r}; it has {_listing(arrays)}")
    t = _checked_time(arrays[time], f"{path}, array {time!r}")
    if chosen is not None:
        return t, {name: arrays[name] for name in chosen}
    return t, {
        name: array
        for name, array in arrays.items()
        if name != time and array.shape == t.shape and array.dtype.kind in _NUMERIC_KINDS
    }


def _npz_arrays(path: Path, wanted: list[str] | None) -> dict[str, NDArray[Any]]:
    """Every array of the archive by name; those not wanted are left unread, as empty arrays."""
    try:
        with path.open("rb") as file:  # NumPy would leave the file of a damaged archive open
            archive = _npz_archive(path, file)
            return {name: _npz_array(path, archive, name, wanted) for name in archive.files}
    except OSError as error:
        raise _unreadable(path, error) from None


def _npz_archive(path: Path, file: BinaryIO) -> NpzFile:
    try:
        archive = np.load(file, allow_pickle=False)
    except (ValueError, EOFError, zipfile.BadZipFile):
        archive = None
    if not isinstance(archive, NpzFile):
        raise ProblemError(f"{path} is no NumPy archive (.npz); write it with numpy.savez")
    return archive


def _npz_array(path: Path, archive: NpzFile, name: str, wanted: list[str] | None) -> NDArray[Any]:
    try:
        return np.asarray(archive[name] if wanted is None or name in wanted else ())
    except (ValueError, EOFError, zipfile.BadZipFile, zlib.error):
        raise ProblemError(
            f"{path}, array {name!r} holds Python objects or is damaged; "
            "save it as plain numbers, or leave it out with signals="
        ) from None


def _unreadable(path: Path, error: OSError) -> ProblemError:
    return ProblemError(f"{path} cannot be read ({error.strerror or error}); check the path")


def _write_csv(recording: Recording, path: Path, decimals: int | None, time: str) -> None:
    if time in recording.signals:
        raise ProblemError(f"recording {recording.name!r} has a signal {time!r} too; name the time column with time=")
    if decimals is not None and decimals < 0:
        raise ProblemError(f"recording {recording.name!r} cannot be written with {decimals} decimals; give 0 or more")
    columns = [[_text(value, decimals) for value in values] for values in (recording.t, *recording.signals.values())]
    if len({float(text) for text in columns[0]}) < len(columns[0]):
        raise ProblemError(f"recording {recording.name!r} has times that {decimals} decimals make equal; give more")
    # Beside the target, so that the rename stays within one file system.
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow([time, *recording.signals])
            writer.writerows(zip(*columns, strict=True))
        part.replace(path)
    except OSError as error:
        raise ProblemError(f"{path} cannot be written ({error.strerror or error}); check the folder") from None
    finally:
        part.unlink(missing_ok=True)


def _text(value: np.float64, decimals: int | None) -> str:
    if math.isnan(value):
        return ""
    return repr(float(value)) if decimals is None else f"{value:.{decimals}f}"
