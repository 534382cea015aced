"""What a scaffold needs to know of a log before it is read: its columns, and how the problem file reads it."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from spookid.data.logs.columns import short_listing, whole
from spookid.data.logs.text import decoded
from spookid.data.npz import read_npz
from spookid.data.reading import method_for
from spookid.data.recording import Recording
from spookid.errors import ProblemError
from spookid.robots.columns import Matched, match
from spookid.tables.numbers import quantity

_DELIMITERS = ",;\t|"
_SLOWEST = 0.2
"""Median time between samples [s] above which a log shows little of how a robot moves; more are hardly seconds."""


@dataclass(frozen=True)
class Log:
    """A file of signals."""

    path: Path
    columns: tuple[str, ...]
    has_times: bool
    """True if one of the columns has the times; False if the format itself knows them."""
    units: Mapping[str, str] = field(default_factory=dict)
    """What was said of units, by column."""

    def matched(self, labels: list[str], actuators: Mapping[str, str]) -> Matched:
        """Its columns by the coordinates of a robot, and by its actuators; see ``match``."""
        return match(self.columns if self.has_times else ["time", *self.columns], labels, actuators)

    def recording(self, matched: Matched) -> Recording:
        """What was matched."""
        return self.read(matched.signals, matched.time)

    def read(self, signals: Iterable[str], time: str) -> Recording:
        """Some of its columns.

        Args:
            time: column of the times, if one has them.
        """
        chosen = list(signals)
        stamps = {"time": time} if self.has_times else {}
        return Recording.from_file(self.path, signals=chosen, units=self._units([time, *chosen]), **stamps)

    def call(self, matched: Matched) -> str:
        """How the problem file reads it, as ``LOG`` and ``signals``."""
        time = f"time={json.dumps(matched.time)}, " if self.has_times else ""
        units = self._units([matched.time, *matched.signals])
        more = f", units={json.dumps(units, ensure_ascii=False)}" if units else ""
        return f"Recording.{method_for(self.path) or 'from_file'}(LOG, {time}signals=signals{more})"

    def _units(self, used: Iterable[str]) -> dict[str, str]:
        """Units of columns that are used; a reader refuses those of others."""
        read = {name for column in used for name in (column, whole(column))}
        there = {name for column in self.columns for name in (column, whole(column))}
        return {name: unit for name, unit in self.units.items() if name in read or name not in there}


def opened(path: Path, units: Mapping[str, str] | None = None) -> Log:
    """A log whose columns are known.

    Args:
        units: those of columns that are not in SI, as pint writes them.

    Raises:
        ProblemError: if it cannot be read, or has no column of which a unit is said.
    """
    said, method = dict(units or {}), method_for(path)
    if method not in ("from_csv", "from_npz"):
        return Log(path, tuple(Recording.from_file(path, units=said).signals), False, said)
    columns = _header(path) if method == "from_csv" else _arrays(path)
    for name in said:
        if name not in columns and name not in map(whole, columns):
            raise ProblemError(f"{path} has no column {name!r}, which --units names; it has {short_listing(columns)}")
    return Log(path, tuple(columns), True, said)


def notices(recording: Recording, time: str) -> tuple[str, ...]:
    """What its reading did, and a question if its times are hardly seconds.

    Args:
        time: column of the times.
    """
    apart = float(np.median(np.diff(recording.t)))
    if apart < _SLOWEST:
        return recording.notes
    unit = next((unit for unit, size in (("ms", 1e-3), ("us", 1e-6)) if apart * size < _SLOWEST), "ns")
    return (
        *recording.notes,
        f"samples are {quantity(apart, 's')} apart, too far for the motion of a robot: is {time!r} in {unit}? Then say "
        f"--units {time}={unit}",
    )


def _header(path: Path) -> list[str]:
    line = io.StringIO(decoded(path)[0], newline="").readline()
    names = [name.strip() for name in next(csv.reader([line], delimiter=max(_DELIMITERS, key=line.count)), [])]
    if len(names) < 2:
        raise ProblemError(f"{path} line 1 has no names of columns; write them there, with commas between")
    return names


def _arrays(path: Path) -> list[str]:
    try:
        return list(read_npz(path, lambda _: False))
    except OSError as error:
        raise ProblemError(f"{path} cannot be read ({error.strerror or error}); check the path") from None
    except ValueError:
        raise ProblemError(f"{path} is no NumPy archive (.npz); write it with numpy.savez") from None
