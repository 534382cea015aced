"""What disturbs a motion beside all that a model has: forces and torques along its coordinates, with their errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from spookid.kernels.arrays import Array
from spookid.records import dataclass
from spookid.results.motion import rms
from spookid.tables.numbers import counted, quantity, superscripts
from spookid.tables.table import Table
from spookid.tables.tabular import Block, Tabular, by_rows


@dataclass(frozen=True, eq=False)
class Disturbance(Tabular):
    """Force or torque along each coordinate of one recording in mean over a step, as the data tell it.

    It is the mean, and the standard deviation, of what is random in the motion if all data are given, for noise of the
    sizes that were found. Where loops close or constraints hold it is projected as (36) of Martinez, Tonneau and
    Mastalli has it: the force Nᵀf along the tree's coordinates, N = I − M⁻¹Jᵀ(J M⁻¹Jᵀ)⁻¹J, which accelerates the
    mechanism as f does and leaves nothing for what holds to bear.

    N steps, n coordinates.
    """

    name: str
    """The recording's."""
    labels: tuple[str, ...]
    """Coordinates of joints, and directions of the force (in the world) and torque (in the body) on free bodies; those
    of joints whose effort is measured are left out, for there what is random is the measurement."""
    units: tuple[str, ...]
    """N or N m."""
    reason: str
    """Why ``std_err`` is NaN; empty if it is a number wherever a step has one."""
    t: Array
    """(N,) [s]: of the steps of the fit; where estimates are those of continuous time, of the finer one."""
    value: Array
    """(N, n): of the step around t, or, with ``Spook()``, of the one that ends there; NaN where there is none."""
    std_err: Array
    """(N, n)."""

    def __repr__(self) -> str:
        return f"<Disturbance of {self.name!r}: {counted(len(self.t), 'step')}, {', '.join(self.labels) or 'nothing'}>"

    def blocks(self) -> Sequence[Block]:
        """Title, and a row for each coordinate."""
        rows = []
        for i, (label, unit) in enumerate(zip(self.labels, map(superscripts, self.units), strict=True)):
            error = self.std_err[:, i][np.isfinite(self.std_err[:, i])]
            typical = quantity(float(np.median(error)), unit) if error.size else "not known"
            rows.append((label, quantity(rms(self.value[:, i]), unit), typical))
        title = f"{self.name}: what disturbs the motion" + (f"; {self.reason}" if self.reason else "")
        return [title, Table(("coordinate", "rms", "standard error (median)"), rows)]

    def records(self) -> Sequence[dict[str, Any]]:
        """A row for each step."""
        columns = {"t": self.t}
        for i, label in enumerate(self.labels):
            columns |= {label: self.value[:, i], f"{label} std_err": self.std_err[:, i]}
        return by_rows(columns)
