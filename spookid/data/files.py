"""Recordings in files: comma-separated text and NumPy archives."""

from __future__ import annotations

import csv
import math
import os
import zipfile
import zlib
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.lib.npyio import NpzFile
from numpy.typing import NDArray

from spookid.data.arrays import NUMERIC_KINDS, FloatArray, checked_time
from spookid.errors import ProblemError


def names(signals: Iterable[str] | None) -> list[str] | None:
    """The chosen names; a lone text is one name, not its letters."""
    if signals is None:
        return None
    return [signals] if isinstance(signals, str) else list(signals)


def listing(names: Iterable[object]) -> str:
    return ", ".join(repr(name) for name in names) or "none"


def read_csv(
    path: Path, time: str, chosen: list[str] | None, others: Collection[str] = ()
) -> tuple[FloatArray, dict[str, FloatArray]]:
    """Time stamps and the chosen columns; ``others`` are not of the clock of ``time``, whose rows may end earlier."""
    rows = _csv_rows(path)
    if not rows or not any(rows[0][1]):
        raise ProblemError(f"{path} has no header; write the column names into line 1")
    header = [column.strip() for column in rows[0][1]]
    wanted = csv_columns(path, header, time, chosen)
    samples = rows[1:]
    for line, fields in samples:
        if len(fields) != len(header):
            raise ProblemError(
                f"{path} line {line} has {len(fields)} fields and the header {len(header)}; leave missing values empty"
            )
    at = header.index(time)
    t = np.array([csv_number(fields[at], path, line, time) for line, fields in samples])
    lines = np.array([line for line, _ in samples], dtype=np.intp)
    stamped = np.isfinite(t) if others else np.full(len(t), True)
    _check_csv_times(path, t[stamped].tolist(), lines[stamped].tolist())
    columns = {}
    for name in wanted:
        at = header.index(name)
        values = np.array([csv_number(fields[at], path, line, name) for line, fields in samples])
        columns[name] = values if name in others else _of_clock(path, name, values, stamped, lines)
    return t[stamped], columns


def _of_clock(path: Path, name: str, values: FloatArray, stamped: NDArray[np.bool_], lines: NDArray[np.intp]) -> Any:
    """The samples that have a time."""
    timeless = np.flatnonzero(~stamped & np.isfinite(values))
    if timeless.size:
        raise ProblemError(
            f"{path} line {lines[timeless[0]]} has a value of {name!r} and no time; remove it, give it a time, or name "
            "the time column of its own with times="
        )
    return values[stamped]


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


def csv_columns(path: Path, header: list[str], time: str, chosen: list[str] | None) -> list[str]:
    """Names of the signal columns to read.

    Raises:
        ProblemError: for a header without the time or a chosen column, or with one twice.
    """
    for name in header:
        if name and header.count(name) > 1:
            raise ProblemError(
                f"{path} line 1 has {header.count(name)} columns named {name!r}; rename or remove all but one"
            )
    if time not in header:
        raise ProblemError(
            f"{path} line 1 has no time column {time!r}; it has {listing(header)}: name one of them with time="
        )
    if chosen is None:
        if "" in header:
            raise ProblemError(
                f"{path} line 1 has no name for column {header.index('') + 1}; name it or choose columns with signals="
            )
        return [name for name in header if name != time]
    for name in chosen:
        if not name or name not in header:
            raise ProblemError(f"{path} line 1 has no column {name!r}; it has {listing(header)}")
    return chosen


def csv_number(text: str, path: Path, line: int, column: str) -> float:
    """Value of one field, NaN if it is empty.

    Raises:
        ProblemError: for what is no finite number.
    """
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


def read_npz(path: Path, time: str, chosen: list[str] | None, others: list[str]) -> tuple[FloatArray, dict[str, Any]]:
    """Time stamps and the chosen arrays; without a choice all numeric ones that are as long, and some others."""
    arrays = _npz_arrays(path, None if chosen is None else [time, *chosen])
    for name in [time, *(chosen or [])]:
        if name not in arrays:
            raise ProblemError(f"{path} has no array {name!r}; it has {listing(arrays)}")
    t = checked_time(arrays[time], f"{path}, array {time!r}")
    if chosen is not None:
        return t, {name: arrays[name] for name in chosen}
    return t, {
        name: array
        for name, array in arrays.items()
        if name in others or (name != time and array.shape == t.shape and array.dtype.kind in NUMERIC_KINDS)
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
    # Beside the target, so that the rename stays within one file system.
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow([time, *signals])
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
