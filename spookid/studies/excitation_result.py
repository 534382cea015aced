"""What a design has come to: the motion, what it takes, and the errors to expect."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from spookid.assembly.declaration import Declaration
from spookid.data.recording import Recording
from spookid.kernels.arrays import Array
from spookid.studies.excitation_design import Basis, Bounds, Criterion
from spookid.studies.excitation_rows import normal_and_across
from spookid.studies.expected import ExpectedErrors
from spookid.studies.motion_limits import MotionLimits
from spookid.studies.planned_motion import planned_recording
from spookid.studies.simulating import Initial, Parameters, values_of
from spookid.tables.table import Table, counted, number
from spookid.tables.tabular import Block, Tabular


@dataclass(frozen=True, eq=False)
class Excitation(Tabular):
    """A motion that was designed."""

    problem: str
    criterion: Criterion
    basis: Basis
    labels: tuple[str, ...]
    """Of the n coordinates."""
    planned: Array
    """Values, rates and accelerations of the planned coordinates, those that others follow, (3, N, m)."""
    motion: Array
    """Positions, rates and accelerations of all joints, (3, N, n)."""
    efforts: Array
    """Of motors along the coordinates, (N, n) [N m or N]."""
    forces: Mapping[str, Array]
    """Of each contact that stands, on its body along its rows, (N, rows) [N, N m]."""
    limits: MotionLimits
    bounds: Bounds
    trajectory: Recording
    """Signals of the problem along it, with ``<label>_rate``: positions without noise, and what motors are to do."""
    expected: ExpectedErrors
    random: Array
    """Criterion of the starts, random motions within the same limits."""
    found: float
    """Criterion of this one."""
    ends: tuple[str, ...]
    """How each search ended, in the words of IPOPT."""
    directions: int
    """That motions or what is known beforehand show, which is what −log det counts."""
    declared: Declaration = field(repr=False)
    """The problem, at the guesses that the motion was designed for."""
    initial: Initial = field(repr=False)
    """Its home pose."""
    interrupted: bool = False
    notices: tuple[str, ...] = field(default=())

    def recording(self, parameters: Parameters = None) -> Recording:
        """``trajectory`` of a mechanism with other parameters that makes the same motion."""
        values = {**self.declared.initial, **values_of(self.declared, parameters)}
        t = self.trajectory.t
        return planned_recording(self.declared.with_(initial=values), t, self.planned, self.initial)

    @property
    def driven(self) -> list[int]:
        """Coordinates that have a motor."""
        labels = {motor.label for motor in self.declared.model.motors}
        return [i for i, label in enumerate(self.labels) if label in labels]

    def blocks(self) -> Sequence[Block]:
        """What was designed, its extremes beside their limits, the errors to expect, and notices."""
        kind = "Fourier series" if self.basis.name == "fourier" else "B-splines"
        how = f"{counted(len(self.labels), 'joint')}, {kind} up to {self.basis.harmonics / self.basis.duration:g} Hz"
        title = f"Excitation of {self.problem}: {self.basis.duration:g} s at {self._rate:g} Hz, {how}"
        rows = []
        for i, label in enumerate(self.labels):
            (low, high), most = self.bounds.position[:, i], (self.bounds.rate[i], self.bounds.effort[i])
            at, rate, effort = (part[:, i] for part in (self.motion[0], self.motion[1], self.efforts))
            where = f"{number(at.min(), 3)} … {number(at.max(), 3)}"
            within = f"{number(low, 3)} … {number(high, 3)}" if math.isfinite(low) or math.isfinite(high) else ""
            largest = [number(float(np.max(np.abs(part))), 3) for part in (rate, effort)]
            largest[1] = largest[1] if i in self.driven else ""
            limits = (number(one, 3) if math.isfinite(one) else "" for one in most)
            pairs = zip(largest, limits, strict=True)
            rows.append((label, where, within, *(text for pair in pairs for text in pair)))
        heads = ("joint", "position", "limits", "rate", "limit", "effort", "limit")
        tables = [Table(heads, rows), *self._cones]
        return [title, *tables, self._gain, *self.expected.blocks(), *self.notices]

    @property
    def contacts(self) -> dict[str, tuple[Array, Array]]:
        """Of each contact, by its name: the force along the normal (N,) [N], and that across over that along it (N,),
        infinite where it would pull."""
        found, contacts = {}, {contact.name: contact for contact in self.declared.model.holding.contacts}
        for name, force in self.forces.items():
            normal, across = normal_and_across(contacts[name], force)
            found[name] = normal, np.where(normal > 0, across / np.where(normal > 0, normal, 1.0), math.inf)
        return found

    @property
    def _cones(self) -> list[Table]:
        """Forces of contacts beside their limits; none without contacts."""
        rows = []
        for name, (normal, share) in self.contacts.items():
            friction, least = self.limits.cone.get(name, (math.nan, math.nan))
            limits = (number(one, 3) if math.isfinite(one) else "" for one in (least, friction))
            pairs = zip((number(float(normal.min()), 3), number(float(share.max()), 3)), limits, strict=True)
            rows.append((name, *(text for pair in pairs for text in pair)))
        heads = ("contact", "least normal force [N]", "limit", "friction used", "limit")
        return [Table(heads, rows)] if rows else []

    @property
    def _rate(self) -> float:
        return 1 / float(np.median(np.diff(self.trajectory.t)))

    @property
    def _gain(self) -> str:
        """What the design has gained over its random starts."""
        best = float(np.min(self.random))
        if self.criterion == "determinant":
            share = math.exp((self.found - best) / 2 / max(self.directions, 1))
            what = "Errors are, in the geometric mean over all directions that motions show,"
        else:
            what = "The largest relative error is" if self.criterion == "largest" else "The errors named are"
            over = 2.0 if self.criterion == "largest" else 2.0 * max(len(self.criterion), 1)
            share = math.exp((self.found - best) / over)
        those = "that" if self.criterion == "largest" else "those"
        return f"{what} {share:.2g} times {those} of the best of {counted(len(self.random), 'random motion')}."

    def records(self) -> Sequence[dict[str, Any]]:
        """A row for each parameter: see ``ExpectedErrors``."""
        return self.expected.records()

    def __repr__(self) -> str:
        return f"<Excitation of {self.problem!r}: {self.basis.duration:g} s>"
