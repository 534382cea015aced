"""Motion along a recording, as it was estimated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from spookid.kernels.arrays import Array
from spookid.records import dataclass
from spookid.results.motion import MeasuredPoses as MeasuredPoses
from spookid.results.motion import rms_of_samples
from spookid.results.values import Choice as Choice
from spookid.results.values import Derived as Derived
from spookid.results.values import Disturbance as Disturbance
from spookid.results.values import (
    EffortFit,
)
from spookid.results.values import Noise as Noise
from spookid.results.values import Value as Value
from spookid.tables.table import Block, Table, Tabular, by_rows, counted, number, quantity, superscripts


@dataclass(frozen=True, eq=False)
class Trajectory(Tabular):
    """Estimated motion on one recording; N steps, n_b bodies, n_o observed signals."""

    name: str
    """The recording's."""
    signals: tuple[str, ...]
    """Observed signals."""
    units: tuple[str, ...]
    """Their units."""
    periods: tuple[float | None, ...]
    """Their periods, None where there is none."""
    t: Array
    """(N,) [s]."""
    q: Array
    """(N, n_b, 7)."""
    v: Array
    """(N, n_b, 6)."""
    observed: Array
    """(N, n_o), at the steps: between two samples on a line from one to the other, NaN where a sample is missing."""
    samples: Array
    """(N, n_o): how many samples of each signal count, from half a step before t to half a step behind it."""
    predicted: Array
    """(N, n_o), on the branch of the angle that is nearest to the observation."""
    impulse_residual: Array
    """(N, 12 n_b): (Δp_q, Δp_u) [N s, N m s] of the step that ends at t; the first row belongs to the initial state.
    Where the noise is estimated (N, n): random impulses about the hinges and on the free bodies."""
    multipliers: Array
    """(N, rows): constraint impulses λ of the step that begins at t [N s, N m s]; the last row is NaN."""
    friction: Array
    """(N, n_j): impulse of dry friction about each hinge's axis [N m s] in that step; NaN where a step has none."""
    sticks: Array
    """(N, n_j): 1 where dry friction holds a hinge, 0 where it slips or has none; NaN where a step has none."""
    squares: Array | None = None
    """(N, n_o): sum of the squares of their errors, each at its own time; None if the folder read has none."""
    largest: Array | None = None
    """(N, n_o): the largest of these errors; None likewise."""
    drive: Array | None = None
    """(N, n_m): mean effort of each motor in that step [N m or N], by its signal and the estimates; None likewise."""
    efforts: tuple[EffortFit, ...] | None = None
    """One of each measured torque whose noise is estimated; None likewise."""
    touches: Array | None = None
    """(N, n_c, 3): impulse of each ``Contact`` in that step along z, x and y of its plane [N s]. None likewise."""

    def __repr__(self) -> str:
        return f"<Trajectory of {self.name!r}: {len(self.t):,} steps, {', '.join(self.signals) or 'no signals'}>"

    def blocks(self) -> Sequence[Block]:
        """Title and a row for each signal: how far what was measured is from what was estimated."""
        rows = []
        for i, (signal, unit) in enumerate(zip(self.signals, self.units, strict=True)):
            size = rms_of_samples([self], i)
            rows.append((signal, f"{self.samples[:, i].sum():,.0f}", quantity(size, superscripts(unit))))
        rows += [(e.signal, f"{e.steps:,} steps", quantity(e.rms, superscripts(e.unit))) for e in self.efforts or ()]
        title = f"{self.name}: {counted(len(self.t), 'step')} from {number(self.t[0])} to {number(self.t[-1])} s"
        return [title, Table(("signal", "samples", "rms of residuals"), rows)]

    def records(self) -> Sequence[dict[str, Any]]:
        """A row for each step: its time, and of each signal what was observed and predicted."""
        columns = {"t": self.t}
        for i, signal in enumerate(self.signals):
            columns |= {f"{signal} observed": self.observed[:, i], f"{signal} predicted": self.predicted[:, i]}
        return by_rows(columns)
