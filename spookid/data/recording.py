"""Measured signals over time: checked once where they enter, immutable afterwards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import InitVar, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self, cast

import numpy as np

from spookid.argument_checks import Checked, checked
from spookid.data.arrays import FloatArray, checked_signals, checked_states, checked_time, merged
from spookid.data.files import FilePath, listing, write_csv
from spookid.data.logs.columns import Parts
from spookid.data.reading import Readable
from spookid.errors import ProblemError, declared_at
from spookid.records import dataclass
from spookid.tables.table import Table, counted, number, quantity
from spookid.tables.tabular import Block, Tabular, by_rows


@dataclass(frozen=True, eq=False)
class Recording(Tabular, Readable, metaclass=Checked):
    """One measurement run: time stamps and the signals sampled there.

    Any sequence of numbers is accepted and copied to a read-only float64 array; a masked or ``None`` entry of a
    signal becomes NaN.

    Args:
        t: time stamps [s], shape (N,), finite and strictly increasing; they may be irregular.
        signals: signal name to its samples, each shape (N,), in the signal's own unit; NaN is a missing sample.
        name: what messages and results call this run.
        q: positions and quaternions of the bodies, shape (N, bodies, 7), of a simulated recording; None if measured.
        v: linear and angular velocities of the bodies, shape (N, bodies, 6), likewise.
        closed_loop: True if inputs answer to the measured motion, as a controller's do, False if they do not; None:
            found out.
        several_clocks: True if NaN is no sample that is missing but the time of another clock; ``times`` sets it.
        before: time [s] and value of the last sample of each signal before the first stamp, which an input keeps until
            it has another; ``between`` sets it.
        times: time stamps [s] of signals that have a clock of their own, by their names, in any order; their samples
            are as many. ``t`` is then of all clocks together, with NaN where one has no sample.
        notes: what reading did to the samples, such as stamps that repeat; notices of problems and results tell it.

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

    def __post_init__(self, times: Mapping[str, Any] | None) -> None:
        name = self.name or "recording"
        place = f"{declared_at()}: recording {name!r}"
        t, signals = checked_time(self.t, place), cast(Mapping[str, object], self.signals)
        if times:
            t, signals = merged(t, signals, times, place)
            _set_fields(self, several_clocks=True)
        _set_fields(
            self,
            name=name,
            t=t,
            signals=MappingProxyType(checked_signals(signals, len(t), place)),
            q=checked_states(self.q, "q", (len(t), None, 7), place),
            v=checked_states(self.v, "v", (len(t), None, 6), place),
            before=MappingProxyType(dict(self.before)),
        )
        if self.q is not None and self.v is not None and self.q.shape[1] != self.v.shape[1]:
            bodies = f"q has {self.q.shape[1]} bodies and v has {self.v.shape[1]}"
            raise ProblemError(f"{place}: {bodies}; give both the same")

    def __repr__(self) -> str:
        return f"<Recording {self.name!r}: {len(self.t):,} samples of {listing(self.signals)} in {self._duration}>"

    @property
    def _duration(self) -> str:
        return quantity(float(self.t[-1] - self.t[0]), "s", 6)

    def blocks(self) -> Sequence[Block]:
        """Title and a row for each signal: samples, and least and largest value."""
        rows = []
        for name, values in self.signals.items():
            known = values[np.isfinite(values)]
            rows.append((name, f"{known.size:,}", number(known.min()), number(known.max())))
        title = f"{self.name}: {self._duration}, {counted(len(self.t), 'time stamp')}"
        return [title, Table(("signal", "samples", "least", "largest"), rows), *self.notes]

    def records(self) -> Sequence[dict[str, Any]]:
        """A row for each time stamp: ``t`` [s] and all signals, NaN where a sample is missing."""
        columns = {"t": self.t, **{name: values for name, values in self.signals.items() if name != "t"}}
        return by_rows(columns)

    @classmethod
    def _made(cls, parts: Parts, name: str, closed_loop: bool | None) -> Self:
        signals, times, notes = parts.signals, parts.times, parts.notes
        return cls(parts.t, signals, name, closed_loop=closed_loop, times=times, notes=notes)

    @checked
    def to_csv(self, path: FilePath, decimals: int | None = None, *, time: str = "t") -> None:
        """Write times (column `time`) and all signals, NaN as an empty field; the file appears whole or not at all.

        `from_csv` reads back the very same numbers, or all of them rounded to `decimals` digits after the point.
        Raises `ProblemError` if a signal is itself called `time`, if rounding makes two times equal, or if the
        file cannot be written.
        """
        write_csv(self.name, self.t, self.signals, Path(path), decimals, time)

    @checked
    def signal(self, name: str) -> FloatArray:
        """Samples of one signal, shape (N,); raises `ProblemError` listing the signals there are if it is unknown."""
        try:
            return self.signals[name]
        except KeyError:
            raise ProblemError(
                f"recording {self.name!r} has no signal {name!r}; it has {listing(self.signals)}"
            ) from None

    def with_signals(self, **arrays: Any) -> Recording:
        """Copy with the given signals, each shape (N,), replaced or added."""
        before = {name: sample for name, sample in self.before.items() if name not in arrays}
        return replace(self, signals={**self.signals, **arrays}, before=before)

    @checked
    def between(self, start: float, stop: float) -> Recording:
        """Copy of the samples with start <= t < stop [s]; raises `ProblemError` if fewer than two remain.

        The last sample before them is kept in `before`: a command that was given earlier still acts.
        """
        keep = (self.t >= start) & (self.t < stop)
        count = np.count_nonzero(keep)
        if count < 2:
            raise ProblemError(
                f"recording {self.name!r} has {count} samples with {start:.12g} s <= t < {stop:.12g} s "
                f"and needs 2; it lasts from {self.t[0]:.12g} s to {self.t[-1]:.12g} s"
            )
        return replace(
            self,
            t=self.t[keep],
            signals={name: values[keep] for name, values in self.signals.items()},
            q=None if self.q is None else self.q[keep],
            v=None if self.v is None else self.v[keep],
            before={**self.before, **self._last_before(start)},
        )

    def _last_before(self, start: float) -> dict[str, tuple[float, float]]:
        """Time and value of the last sample of each signal that has one before ``start``."""
        places = {name: np.flatnonzero(np.isfinite(values) & (self.t < start)) for name, values in self.signals.items()}
        return {
            name: (float(self.t[known[-1]]), float(self.signals[name][known[-1]]))
            for name, known in places.items()
            if known.size
        }


def _set_fields(recording: Recording, **values: object) -> None:
    """Set fields of the frozen recording while it is being made."""
    for name, value in values.items():
        object.__setattr__(recording, name, value)
