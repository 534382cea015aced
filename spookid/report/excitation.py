"""What a design leaves behind: the trajectory as a CSV for a controller, and a picture of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from spookid.report import pictures
from spookid.report.pictures import BLUE, DARK, LIGHT
from spookid.results import folders
from spookid.studies.excitation_result import Excitation
from spookid.studies.expected import ExpectedErrors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from spookid.kernels.arrays import Array

_WIDE, _HIGH = 12.0, 2.3
"""Of the picture and of a panel [in]."""
_NAMES = 18
"""Letters of the name of a joint in a legend."""


def save(path: Path, found: Excitation) -> Path:
    """Write ``path``, a CSV, and beside it the picture with the ending ``.png``, each whole or not at all.

    Returns:
        where the picture is.

    Raises:
        ProblemError: if the disk refuses.
    """
    found.trajectory.to_csv(path)
    picture = path.with_suffix(".png")
    folders.write(picture, pictures.drawn(draw, found))
    return picture


def draw(found: Excitation) -> Figure:
    """Positions, rates, efforts and forces of contacts with their limits over time, and the errors before and after."""
    from matplotlib.figure import Figure

    errors, bounds, labels = found.expected, found.bounds, found.labels
    shown, joints = _largest(errors), range(len(labels))
    bars = max(0.17 * len(shown) + 1.0, 2.0)
    parts: list[tuple[str, Array, Array, Sequence[int], Sequence[str]]] = [
        ("position [rad or m]", found.motion[0], bounds.position, joints, labels),
        ("rate [rad/s or m/s]", found.motion[1], np.stack([-bounds.rate, bounds.rate]), joints, labels),
        ("effort [N m or N]", found.efforts, np.stack([-bounds.effort, bounds.effort]), found.driven, labels),
    ]
    if found.contacts:
        names, (normal, share) = (
            list(found.contacts),
            (np.stack(one, axis=1) for one in zip(*found.contacts.values(), strict=True)),
        )
        cones = np.array([found.limits.cone.get(name, (np.inf, -np.inf)) for name in names]).T
        places, none = range(len(names)), np.full(len(names), np.inf)
        parts.append(("force along normal [N]", normal, np.stack([cones[1], none]), places, names))
        parts.append(("friction used", share, np.stack([-none, cones[0]]), places, names))
    figure = Figure(figsize=(_WIDE, 1.2 + len(parts) * _HIGH + bars), layout="constrained")
    pictures.title(figure, f"Excitation of {found.problem}: {found.basis.duration:g} s")
    panels = figure.subplots(len(parts) + 1, 1, gridspec_kw={"height_ratios": [*(_HIGH for _ in parts), bars]})
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
        label = labels[i] if len(labels[i]) <= _NAMES else f"{labels[i][:_NAMES]}…"
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


def _largest(errors: ExpectedErrors) -> list[int]:
    """Parameters that are drawn, those with the largest relative errors, in their order."""
    order = np.argsort(-np.nan_to_num(errors.relative, nan=np.inf))[: pictures.MOST_ROWS]
    return sorted(order.tolist())


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
            panel.text(low, place, " not seen", ha="left", va="center", fontsize=6, color="white")
    panel.set(xscale="log", xlim=(low, high), ylim=(len(shown) - 0.4, -0.6))
    pictures.round_ticks(panel.xaxis, 12)
    panel.set_yticks(places, [errors.names[i] for i in shown], fontsize=7)
    few = f"; the {len(shown)} largest of {len(errors.names)}" if len(shown) < len(errors.names) else ""
    panel.set_xlabel(f"standard error [% of the parameter, of its typical size where it is zero]{few}", fontsize=8)
    panel.tick_params(axis="x", labelsize=8)
    panel.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8, frameon=False)
