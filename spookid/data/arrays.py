"""Arrays as recordings hold them: checked once where they enter, read-only afterwards. How much memory there is."""

from __future__ import annotations

import math
import mmap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from spookid.argument_checks import LARGEST
from spookid.errors import ProblemError
from spookid.tables.table import counted

FloatArray: TypeAlias = NDArray[np.float64]

NUMERIC_KINDS = "biuf"  # dtype.kind of booleans, integers and floats


def floats(values: object, what: str) -> FloatArray:
    """Return a read-only float64 copy of an array; `what` names the array in messages."""
    if isinstance(values, np.ma.MaskedArray) and values.dtype.kind in NUMERIC_KINDS:
        values = np.ma.filled(values.astype(np.float64), np.nan)
    try:
        raw = np.asarray(values)
        if raw.dtype.kind not in NUMERIC_KINDS + "O":  # texts, dates and complex numbers would convert, but wrongly
            raise TypeError(f"dtype {raw.dtype}")
        array = np.array(raw, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ProblemError(f"{what} is no array of real numbers ({error}); convert it to float first") from None
    array.flags.writeable = False
    return array


def merged(
    t: FloatArray, signals: Mapping[str, object], times: Mapping[str, object], place: str
) -> tuple[FloatArray, Mapping[str, object]]:
    """Merge timestamps of several clocks and their signals; a signal is NaN at times without a sample."""
    given: dict[str, object] = dict(signals)
    clocks: dict[str, tuple[FloatArray, FloatArray]] = {}
    for name, stamps in times.items():
        if name not in given:
            raise ProblemError(f"{place}: times has timestamps of {name!r}, which is no signal; give it samples")
        what, at = f"{place}: {name!r}", floats(stamps, f"{place}: times of {name!r}")
        own = floats(given[name], f"{what}: samples")
        if at.ndim != 1 or own.shape != at.shape:
            raise ProblemError(f"{what} has samples of shape {own.shape} and times of {at.shape}; give as many of both")
        order = np.argsort(at, kind="stable")
        order = order[np.isfinite(at[order])]
        if (twice := np.flatnonzero(np.diff(at[order]) == 0)).size:
            raise ProblemError(f"{what} has two samples at {at[order][twice[0]]:.17g} s; remove one")
        clocks[name] = at[order], own[order]
    whole = np.unique(np.concatenate([t, *(stamps for stamps, _ in clocks.values())]))
    found: dict[str, FloatArray] = {}
    for name, values in given.items():
        stamps, own = clocks.get(name) or (t, floats(values, f"{place}: signal {name!r}"))
        if own.shape != stamps.shape:
            raise ProblemError(
                f"{place}: signal {name!r} has shape {own.shape} and its time {stamps.shape}"
                "; give a number for each time"
            )
        found[name] = np.full(len(whole), np.nan)
        found[name][np.searchsorted(whole, stamps)] = own
    return whole, found


def checked_time(values: object, place: str) -> FloatArray:
    t = floats(values, f"{place}: time")
    if t.ndim != 1:
        raise ProblemError(f"{place}: time has shape {t.shape}; give it one dimension")
    if len(t) < 2:
        raise ProblemError(f"{place}: time has {counted(len(t), 'sample')}; at least 2 are needed")
    bad = np.flatnonzero(~(np.abs(t) <= LARGEST))
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


def checked_signals(signals: Mapping[str, object], count: int, place: str) -> dict[str, FloatArray]:
    if not signals:
        raise ProblemError(f"{place}: there are no signals; give at least one besides the time")
    found = {}
    for name, values in signals.items():
        # Spaces around a name would not survive a CSV file, whose header is stripped.
        if not isinstance(name, str) or not name or name != name.strip():
            raise ProblemError(f"{place}: {name!r} is no signal name; give a text without spaces around it")
        what = f"{place}: signal {name!r}"
        found[name] = y = floats(values, what)
        if y.shape != (count,):
            raise ProblemError(f"{what} has shape {y.shape} and the time ({count},); give one value for each time")
        if (bad := np.flatnonzero(np.abs(y) > LARGEST)).size:
            size = "infinite" if np.isinf(y[bad[0]]) else f"beyond {LARGEST:g}"
            raise ProblemError(f"{what} is {size} at sample [{bad[0]}]; write NaN where a sample is missing")
        if np.isnan(y).all():
            raise ProblemError(f"{what} has not one finite sample; remove it or give it values")
    return found


def checked_states(values: object, field: str, count: int, width: int, place: str) -> FloatArray | None:
    if values is None:
        return None
    array = floats(values, f"{place}: {field}")
    if array.ndim != 3 or (array.shape[0], array.shape[2]) != (count, width):
        raise ProblemError(f"{place}: {field} has shape {array.shape}; give it ({count}, bodies, {width})")
    if not np.isfinite(array).all():
        raise ProblemError(
            f"{place}: {field} holds a value that is not finite; simulated states have no missing values"
        )
    return array


_CGROUPS = (
    ("memory.max", "memory.current", "memory.stat", "inactive_file"),
    ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "memory/memory.stat", "total_inactive_file"),
)
"""Files below ``/sys/fs/cgroup`` with the limit of a container and what it uses, also for files held until memory is
needed, and by what name."""


def available() -> float:
    """Memory available to this process, including what it already uses [bytes]; infinite if unknown."""
    held = (_text("/proc/self/statm").split() or ["0", "0"])[:2]
    size, resident = (float(pages) * mmap.PAGESIZE for pages in held)
    return resident + min(_left(size), default=math.inf)


def _left(size: float) -> Iterator[float]:
    """What the system, the container and the process have left, of which the last has a size of addresses [bytes]."""
    for line in _text("/proc/meminfo").splitlines():
        if line.startswith("MemAvailable:"):
            yield 1024.0 * float(line.split()[1])
    for *files, cached in _CGROUPS:
        limit, used, stat = (_text(f"/sys/fs/cgroup/{name}") for name in files)
        if limit.strip().isdigit() and used.strip().isdigit():
            entries = dict(line.split(maxsplit=1) for line in stat.splitlines() if " " in line)
            yield max(float(limit) - float(used) + float(entries.get(cached, "0")), 0.0)
    try:
        import resource  # not on Windows
    except ImportError:
        return
    allowed = resource.getrlimit(resource.RLIMIT_AS)[0]
    if allowed != resource.RLIM_INFINITY and size:
        yield max(allowed - size, 0.0)


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="ascii")
    except OSError:
        return ""
