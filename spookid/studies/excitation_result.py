"""What a design has come to: the motion, what it takes, and the errors to expect.

What a design leaves behind: the trajectory as a CSV for a controller, and a picture of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from spookid.assembly.problem import Problem
from spookid.data.recording import Recording
from spookid.kernels.arrays import Array
from spookid.report import pictures
from spookid.report.pictures import BLUE, DARK, LIGHT
from spookid.results import folders
from spookid.studies.excitation_design import Basis, Criterion
from spookid.studies.excitation_rows import normal_and_across
from spookid.studies.expected import ExpectedErrors
from spookid.studies.motion_limits import Bounds, MotionLimits
from spookid.studies.planned_motion import planned_recording
from spookid.studies.simulation_start import Initial, Parameters, values_of
from spookid.studies.variants import estimator_line
from spookid.tables.table import Block, Table, Tabular, counted, number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class Excitation(Tabular):
    """A motion that was designed."""

    problem: str
    criterion: Criterion
    basis: Basis
    labels: tuple[str, ...]
    """Labels of the n coordinates."""
    planned: Array
    """Positions, velocities and accelerations of the planned coordinates, (3, N, m)."""
    motion: Array
    """Positions, velocities and accelerations of all joints, (3, N, n)."""
    efforts: Array
    """Efforts of motors along the coordinates, (N, n) [N m or N]."""
    forces: Mapping[str, Array]
    """Reactions of each holding contact on its body, (N, rows) [N, N m]."""
    limits: MotionLimits
    bounds: Bounds
    trajectory: Recording
    """Signals of the problem along it, with ``<label>_rate``: positions without noise, and commands of motors."""
    expected: ExpectedErrors
    random: Array
    """Criterion of the starts, random motions within the same limits."""
    found: float
    """Criterion of this one."""
    ends: tuple[str, ...]
    """End of each search, as IPOPT reports it."""
    directions: int
    """Number of directions that motions or priors identify, which −log det counts."""
    declared: Problem = field(repr=False)
    """The problem, at the initial values that the motion was designed for."""
    initial: Initial = field(repr=False)
    """Its home pose."""
    interrupted: bool = False
    notices: tuple[str, ...] = field(default=())

    def recording(self, parameters: Parameters = None) -> Recording:
        """Return ``trajectory`` with efforts for other parameter values and the same motion."""
        values = {**self.declared.initial, **values_of(self.declared, parameters)}
        t = self.trajectory.t
        return planned_recording(self.declared.with_(initial=values), t, self.planned, self.initial)

    @property
    def driven(self) -> list[int]:
        """Coordinates that have a motor."""
        labels = {motor.label for motor in self.declared.model.motors}
        return [i for i, label in enumerate(self.labels) if label in labels]

    def blocks(self) -> Sequence[Block]:
        """Verdict, remarks, expected standard errors, extreme values with their limits, and facts."""
        return self.page()

    def page(self, verbose: bool = False) -> list[Block]:
        """Return the text that the command prints; ``verbose`` adds all parameters and the estimator."""
        verdict, errors = f"{self.problem}: {self.expected.verdict}", self.expected
        more = estimator_line(errors.assumptions) if verbose else []
        return [verdict, *self.notices, *errors.tables(verbose), *self._limits(), self._gain, *more, self._facts]

    @property
    def _facts(self) -> str:
        kind = "Fourier series" if self.basis.name == "fourier" else "B-splines"
        rate = 1 / float(np.median(np.diff(self.trajectory.t)))
        fastest = f"{kind} up to {self.basis.harmonics / self.basis.duration:g} Hz"
        how = f"{counted(len(self.labels), 'joint')}, {fastest}, {counted(len(self.random), 'start')}"
        return f"{self.basis.duration:g} s at {rate:g} Hz, {how}"

    def _limits(self) -> Iterator[Table]:
        """Extremes of joints and contacts with their limits."""
        rows = []
        for i, label in enumerate(self.labels):
            (low, high), most = self.bounds.position[:, i], (self.bounds.rate[i], self.bounds.effort[i])
            at, *sizes = (part[:, i] for part in (self.motion[0], self.motion[1], self.efforts))
            where = f"{number(at.min(), 3)} .. {number(at.max(), 3)}"
            within = f"{number(low, 3)} .. {number(high, 3)}" if math.isfinite(low) or math.isfinite(high) else ""
            largest = [number(float(np.max(np.abs(part))), 3) for part in sizes]
            largest[1] = largest[1] if i in self.driven else ""
            limits = (number(one, 3) if math.isfinite(one) else "" for one in most)
            pairs = zip(largest, limits, strict=True)
            rows.append((label, where, within, *(text for pair in pairs for text in pair)))
        yield Table(("joint", "position", "limits", "rate", "limit", "effort", "limit"), rows, left=(0,))
        cones = []
        for name, (normal, share) in self.contacts.items():
            friction, least = self.limits.cone.get(name, (math.nan, math.nan))
            ends = [number(one, 3) if math.isfinite(one) else "" for one in (least, friction)]
            cones.append((name, number(float(normal.min()), 3), ends[0], number(float(share.max()), 3), ends[1]))
        if cones:
            yield Table(("contact", "least normal force [N]", "limit", "friction used", "limit"), cones, left=(0,))

    @property
    def contacts(self) -> dict[str, tuple[Array, Array]]:
        """Contact forces by name: normal force (N,) [N], and ratio of tangential to normal force (N,), infinite if the
        contact would pull."""
        found, contacts = {}, {contact.name: contact for contact in self.declared.model.holding.contacts}
        for name, force in self.forces.items():
            normal, across = normal_and_across(contacts[name], force)
            found[name] = normal, np.where(normal > 0, across / np.where(normal > 0, normal, 1.0), math.inf)
        return found

    @property
    def _gain(self) -> str:
        """Standard errors over those of the best random start."""
        what, over = f"of {', '.join(self.criterion)} (geometric mean)", len(self.criterion)
        if self.criterion == "determinant":
            what, over = "(geometric mean over all identifiable directions)", self.directions
        elif self.criterion == "largest":
            what, over = "of the parameter with the largest relative error", 1
        share = math.exp((self.found - float(np.min(self.random))) / (2 * max(over, 1)))
        best = (
            f"the best of {counted(len(self.random), 'random motion')}" if len(self.random) > 1 else "a random motion"
        )
        return f"Standard errors {what} are {share:.2g} times the errors of {best}."

    def records(self) -> Sequence[dict[str, Any]]:
        """One row per parameter; see ``ExpectedErrors``."""
        return self.expected.records()

    def __repr__(self) -> str:
        return f"<Excitation of {self.problem!r}: {self.basis.duration:g} s>"


def save(path: Path, found: Excitation) -> Path:
    """Write the trajectory to the CSV file ``path``, and its picture with the extension ``.png``, both or neither.

    Returns:
        where the picture is.

    Raises:
        ProblemError: if the disk refuses.
    """
    picture = path.with_suffix(".png")
    folders.write_all({picture: pictures.drawn(draw, found)}, partial(found.trajectory.to_csv, path))
    return picture


def draw(found: Excitation) -> Figure:
    """Draw motion, motor torques or forces, and contact forces with limits, and standard errors before and after."""
    from matplotlib.figure import Figure

    errors, bounds, labels, high = found.expected, found.bounds, found.labels, 2.3
    shown, joints = pictures.foremost(np.nan_to_num(errors.relative, nan=np.inf).tolist()), range(len(labels))
    bars = max(0.17 * len(shown) + 1.0, 2.0)
    parts: list[tuple[str, Array, Array, Sequence[int], Sequence[str]]] = [
        ("position [rad or m]", found.motion[0], bounds.position, joints, labels),
        ("rate [rad/s or m/s]", found.motion[1], np.stack([-bounds.rate, bounds.rate]), joints, labels),
        ("effort [N m or N]", found.efforts, np.stack([-bounds.effort, bounds.effort]), found.driven, labels),
    ]
    if found.contacts:
        names = list(found.contacts)
        normal, share = (np.stack(one, axis=1) for one in zip(*found.contacts.values(), strict=True))
        cones = np.array([found.limits.cone.get(name, (np.inf, -np.inf)) for name in names]).T
        places, none = range(len(names)), np.full(len(names), np.inf)
        parts.append(("force along normal [N]", normal, np.stack([cones[1], none]), places, names))
        parts.append(("friction used", share, np.stack([-none, cones[0]]), places, names))
    figure = Figure(figsize=(12.0, 1.2 + len(parts) * high + bars), layout="constrained")
    pictures.title(figure, f"Excitation of {found.problem}: {found.basis.duration:g} s")
    panels = figure.subplots(len(parts) + 1, 1, gridspec_kw={"height_ratios": [*(high for _ in parts), bars]})
    for i, (label, values, limits, drawn, called) in enumerate(parts):
        _curves(panels[i], found.trajectory.t, values, limits, drawn, called)
        panels[i].set_ylabel(label)
        if i in (0, 3):
            panels[i].legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8, frameon=False)
    panels[-2].set_xlabel("t [s]")
    _bars(panels[-1], errors, shown)
    return figure


def _curves(panel: Axes, t: Array, values: Array, limits: Array, drawn: Sequence[int], labels: Sequence[str]) -> None:
    """Of joints or contacts; their limits are dotted lines of the same colour, where they are near."""
    for i in drawn:
        label = labels[i] if len(labels[i]) <= 18 else f"{labels[i][:18]}…"
        panel.plot(t, values[:, i], **pictures.line(i), lw=1.0, label=label)
    low, high = float(values[:, drawn].min()), float(values[:, drawn].max())
    room = 0.4 * max(high - low, 1e-12)
    for i in drawn:
        for side in limits[:, i]:
            if low - room <= side <= high + room:
                panel.axhline(side, color=pictures.line(i)["color"], lw=0.8, ls=(0, (1, 3)), alpha=0.7)
    panel.grid(color="#e4e4e4", lw=0.5)
    panel.margins(x=0.0)
    panel.tick_params(labelsize=8)


def _bars(panel: Axes, errors: ExpectedErrors, shown: list[int]) -> None:
    """Errors before and after in shares of the parameters, logarithmic."""
    before, after = (100 * one[shown] / errors.sizes[shown] for one in (errors.before, errors.after))
    known = np.concatenate([before[np.isfinite(before)], after[np.isfinite(after)]])
    low, high = (float(np.min(known)) / 2, float(np.max(known)) * 2) if known.size else (0.1, 10.0)
    places = np.arange(len(shown))
    panel.barh(places, np.where(np.isfinite(before), before, high), color=LIGHT, height=0.8, label="before")
    panel.barh(places, np.where(np.isfinite(after), after, high), color=BLUE, height=0.4, label="expected after")
    for place, (one, other) in enumerate(zip(before, after, strict=True)):
        if not np.isfinite(one):
            panel.text(high, place, "unknown before ", ha="right", va="center", fontsize=6, color=DARK)
        if not np.isfinite(other):
            panel.text(low, place, " not identifiable", ha="left", va="center", fontsize=6, color="white")
    panel.set(xscale="log", xlim=(low, high), ylim=(len(shown) - 0.4, -0.6))
    pictures.round_ticks(panel.xaxis, 12)
    panel.set_yticks(places, [errors.names[i] for i in shown], fontsize=7)
    few = f"; the {len(shown)} largest of {len(errors.names)}" if len(shown) < len(errors.names) else ""
    panel.set_xlabel(f"standard error [% of the parameter; if it is zero, % of its typical magnitude]{few}", fontsize=8)
    panel.tick_params(axis="x", labelsize=8)
    panel.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8, frameon=False)
