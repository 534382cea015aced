"""Measured signals over time: checked once where they enter, immutable afterwards.

Recordings in files that are read when they are asked for, for problems of more of them than memory holds.
"""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import InitVar, field, replace
from functools import lru_cache
from glob import glob
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast, overload

import numpy as np

from spookid.argument_checks import Checked, checked
from spookid.data.arrays import FloatArray, checked_signals, checked_states, checked_time, merged
from spookid.data.reading import Readable
from spookid.errors import ProblemError, declared_at, evaluating, listing, shown
from spookid.files import AnyPath, replacing
from spookid.records import dataclass
from spookid.tables.table import Block, Table, Tabular, by_rows, counted, number, quantity


@dataclass(frozen=True, eq=False)
class Recording(Tabular, Readable, metaclass=Checked):
    """One measurement run: timestamps and the signals sampled there.

    Any sequence of numbers is accepted and copied to a read-only float64 array; a masked or ``None`` entry of a
    signal becomes NaN.

    Args:
        t: timestamps [s], shape (N,), finite and strictly increasing; they may be irregular.
        signals: signal name to its samples, each shape (N,), in the signal's own unit; NaN is a missing sample.
        name: name of this run in messages and results.
        q: positions and quaternions of the bodies, shape (N, bodies, 7), of a simulated recording; None if measured.
        v: linear and angular velocities of the bodies, shape (N, bodies, 6), likewise.
        closed_loop: True if inputs depend on the measured motion, as those of a controller; None: it is tested.
        several_clocks: True if NaN marks the time of another clock, not a missing sample; ``times`` sets it.
        before: time [s] and value of each signal's last sample before the first timestamp, which an input keeps until
            its next sample; ``between`` sets it.
        times: timestamps [s] of signals with a separate clock, by their names, in any order, as many as their samples.
            ``t`` then has the timestamps of all clocks, and signals are NaN where they have no sample.
        notes: changes that reading made to the samples, such as repeated timestamps; problems and results report them.
        units: of columns that were given and converted when the file was read.

    Raises:
        ProblemError: for fewer than two samples, a time that is not finite or does not increase, no signals, a signal
            of another length, with an infinite value or without one finite value.
    """

    t: FloatArray
    signals: Mapping[str, FloatArray]
    name: str = "recording"
    q: FloatArray | None = None
    v: FloatArray | None = None
    closed_loop: bool | None = None
    several_clocks: bool = field(default=False, kw_only=True)
    before: Mapping[str, tuple[float, float]] = field(default_factory=dict, kw_only=True, repr=False)
    times: InitVar[Mapping[str, Any] | None] = field(default=None, kw_only=True)
    notes: tuple[str, ...] = field(default=(), kw_only=True, repr=False)
    units: Mapping[str, str] = field(default_factory=dict, kw_only=True, repr=False)

    def __post_init__(self, times: Mapping[str, Any] | None) -> None:
        name = self.name or "recording"
        place = f"{declared_at()}: recording {name!r}"
        t, signals = checked_time(self.t, place), cast(Mapping[str, object], self.signals)
        if times:
            t, signals = merged(t, signals, times, place)
        known = {
            "name": name,
            "t": t,
            "signals": MappingProxyType(checked_signals(signals, len(t), place)),
            "q": checked_states(self.q, "q", len(t), 7, place),
            "v": checked_states(self.v, "v", len(t), 6, place),
            "several_clocks": self.several_clocks or bool(times),
            "before": MappingProxyType(dict(self.before)),
            "units": MappingProxyType(dict(self.units)),
        }
        self.__dict__.update(known)  # of a frozen recording, while it is made
        if self.q is not None and self.v is not None and self.q.shape[1] != self.v.shape[1]:
            bodies = f"q has poses of {self.q.shape[1]} bodies, but v has velocities of {self.v.shape[1]}"
            raise ProblemError(f"{place}: {bodies}; give both the same")

    def __repr__(self) -> str:
        return f"<Recording {self.name!r}: {len(self.t):,} samples of {listing(self.signals)} in {self._duration}>"

    @property
    def _duration(self) -> str:
        return quantity(float(self.t[-1] - self.t[0]), "s", 6)

    def blocks(self) -> Sequence[Block]:
        """Title, and a table with each signal's number of samples, minimum and maximum."""
        rows = []
        for name, values in self.signals.items():
            known = values[np.isfinite(values)]
            rows.append((name, f"{known.size:,}", number(known.min()), number(known.max())))
        title = f"{self.name}: {self._duration}, {counted(len(self.t), 'timestamp')}"
        return [title, Table(("signal", "samples", "least", "largest"), rows), *self.notes]

    def records(self) -> Sequence[dict[str, Any]]:
        """A row for each timestamp: ``t`` [s] and all signals, NaN where a sample is missing."""
        columns = {"t": self.t, **{name: values for name, values in self.signals.items() if name != "t"}}
        return by_rows(columns)

    @checked
    def to_csv(self, path: AnyPath, decimals: int | None = None, *, time: str = "t") -> None:
        """Write times (column `time`) and all signals to a CSV file, NaN as an empty field; the file is complete or
        absent.

        `from_csv` reads back the very same numbers, or all of them rounded to `decimals` digits after the point.
        Raises `ProblemError` if a signal is itself called `time`, if rounding makes two times equal, or if the
        file cannot be written.
        """
        what = f"recording {self.name!r}"
        if time in self.signals:
            raise ProblemError(f"{what} has a signal {time!r} too; name the time column with time=")
        if decimals is not None and decimals < 0:
            raise ProblemError(f"{what} cannot be written with {decimals} decimals; give 0 or more")
        columns = [[_text(value, decimals) for value in values] for values in (self.t, *self.signals.values())]
        if len({float(text) for text in columns[0]}) < len(columns[0]):
            raise ProblemError(f"{what} has times that {decimals} decimals make equal; give more")
        try:
            with replacing(Path(path)) as part, part.open("w", newline="", encoding="utf-8") as file:
                writer = csv.writer(file, lineterminator="\n")
                writer.writerow([time, *self.signals])
                writer.writerows(zip(*columns, strict=True))
        except OSError as error:
            raise ProblemError(f"{path} cannot be written ({error.strerror or error}); check the folder") from None

    @checked
    def signal(self, name: str) -> FloatArray:
        """Samples of one signal, shape (N,); raises `ProblemError` with the list of signals if it is unknown."""
        try:
            return self.signals[name]
        except KeyError:
            raise ProblemError(
                f"recording {self.name!r} has no signal {name!r}; its signals are {listing(self.signals)}"
            ) from None

    def with_signals(self, **arrays: Any) -> Recording:
        """Return a copy with the given signals, each shape (N,), replaced or added."""
        before = {name: sample for name, sample in self.before.items() if name not in arrays}
        return replace(self, signals={**self.signals, **arrays}, before=before)

    @checked
    def between(self, start: float, stop: float) -> Recording:
        """Return a copy of the samples with start <= t < stop [s]; raises `ProblemError` if fewer than two remain.

        The last sample before them is kept in `before`: a command that was given earlier still acts.
        """
        keep = (self.t >= start) & (self.t < stop)
        count = np.count_nonzero(keep)
        if count < 2:
            raise ProblemError(
                f"recording {self.name!r} has {count} samples with {start:.12g} s <= t < {stop:.12g} s, fewer than "
                f"2; the recording lasts from {self.t[0]:.12g} s to {self.t[-1]:.12g} s"
            )
        before = dict(self.before)
        for name, values in self.signals.items():
            known = np.flatnonzero(np.isfinite(values) & (self.t < start))
            if known.size:
                before[name] = float(self.t[known[-1]]), float(values[known[-1]])
        return replace(
            self,
            t=self.t[keep],
            signals={name: values[keep] for name, values in self.signals.items()},
            q=None if self.q is None else self.q[keep],
            v=None if self.v is None else self.v[keep],
            before=before,
        )


def _text(value: np.float64, decimals: int | None) -> str:
    if math.isnan(value):
        return ""
    return repr(float(value)) if decimals is None else f"{value:.{decimals}f}"


SAMPLE = 4  # recordings that tell what a problem of many is made of


class RecordingFiles(Sequence[Recording], metaclass=Checked):
    """Several recordings in files; each file is read when it is needed.

    ``solve_jointly`` and ``spookid solve --jobs`` or ``--scheduler`` hold one at a time in each worker; all else reads
    them all.

    Args:
        paths: a pattern such as ``"logs/*.npz"``, whose files are taken in the order of their names, or paths. They
            are those of the current folder; workers elsewhere need whole ones.
        read: makes a recording of a path; by default ``Recording.from_file``.
        options: options of ``Recording.from_file``.

    Raises:
        ProblemError: if there is no file, or one is given twice.
    """

    def __init__(
        self,
        paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
        read: Callable[..., Recording] | None = None,
        **options: Any,
    ) -> None:
        self.place = declared_at()
        names = sorted(glob(os.fspath(paths))) if isinstance(paths, (str, os.PathLike)) else list(paths)
        self.paths = tuple(Path(name).absolute() for name in names)
        """Of the files."""
        if not self.paths:
            what = shown(os.fspath(paths)) if isinstance(paths, (str, os.PathLike)) else "in the list"
            raise ProblemError(f"{self.place}: RecordingFiles: there is no file {what}; check the path")
        if len(set(self.paths)) < len(self.paths):
            raise ProblemError(f"{self.place}: RecordingFiles: a file is named twice; name each once")
        self._read, self._options = read or Recording.from_file, options
        self._recent = lru_cache(maxsize=SAMPLE)(self.read)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the recordings, known before reading: file names without extension."""
        return tuple(path.stem for path in self.paths)

    @property
    def facts(self) -> list[tuple[str, int, int]]:
        """Path, size and modification time of each file, which identify its version."""
        return [(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in self.paths]

    def read(self, number: int) -> Recording:
        """One of them, read anew.

        Raises:
            ProblemError: naming the file.
        """
        with evaluating(f"{self.place}: RecordingFiles: read of {self.paths[number]}"):
            found = self._read(self.paths[number], **self._options)
        if not isinstance(found, Recording):
            raise ProblemError(
                f"{self.place}: RecordingFiles: read gives no Recording of {self.paths[number]}; return one"
            )
        return found

    def __len__(self) -> int:
        return len(self.paths)

    @overload
    def __getitem__(self, place: int) -> Recording: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Recording, ...]: ...
    def __getitem__(self, place: int | slice) -> Recording | tuple[Recording, ...]:
        if isinstance(place, slice):
            return tuple(self._recent(number) for number in range(len(self))[place])
        return self._recent(range(len(self))[place])

    def __repr__(self) -> str:
        return f"<RecordingFiles: {len(self)} files, the first {self.paths[0]}>"
