"""One figure of a simulation: simulated signals against what was measured."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from spookid.kernels.kernel import Array
from spookid.report.wording import labelled, quantity, superscripts
from spookid.studies.comparison import Comparison

_MEASURED, _SIMULATED = "#56B4E9", "#D55E00"  # of Okabe and Ito: colour-blind people tell them apart
_MOST_COLUMNS = 4


def figure(comparisons: Sequence[Comparison], title: str) -> Figure:
    """Signals over time: a row a signal, a column a recording, at most the first four of them."""
    shown = comparisons[:_MOST_COLUMNS]
    rows, columns = len(shown[0].signals), len(shown)
    result = Figure(figsize=((9.0, 7.0, 5.5, 4.6)[columns - 1] * columns, 1.0 + 2.6 * rows), layout="constrained")
    more = f" (first {len(shown)} of {len(comparisons)} recordings)" if len(comparisons) > len(shown) else ""
    result.suptitle(f"{title}{more}", fontsize=12)
    panels = result.subplots(rows, columns, squeeze=False, sharex="col")
    for column, comparison in enumerate(shown):
        panels[0, column].set_title(comparison.name, fontsize=10, pad=20)  # above the legend
        panels[-1, column].set_xlabel("time [s]")
        for row, signal in enumerate(comparison.signals):
            _draw(panels[row, column], comparison, row)
            if column == 0:
                panels[row, column].set_ylabel(labelled(signal, comparison.units[row]), parse_math=False)
    return result


def _draw(panel: Axes, comparison: Comparison, i: int) -> None:
    simulated = comparison.predicted[:, i]
    measured = _continuous(comparison.observed[:, i], simulated, comparison.periods[i])
    rms = comparison.rms[comparison.signals[i]]
    if np.isfinite(rms):
        # Points, because a line would bridge what is missing.
        panel.plot(comparison.t, measured, ".", color=_MEASURED, markersize=4, label="measured")
        label = f"simulated, rms difference {quantity(rms, superscripts(comparison.units[i]))}"
    else:
        label = "simulated"
    panel.plot(comparison.t, simulated, "-", color=_SIMULATED, linewidth=1.2, label=label)
    if comparison.failure:
        panel.axvline(comparison.t[-1], color="#707070", linestyle=":", label="not solved further")
    panel.grid(alpha=0.3)
    panel.margins(x=0.01)
    # Above the panel, where it hides nothing.
    panel.legend(fontsize=8, ncols=3, frameon=False, loc="lower right", bbox_to_anchor=(1.0, 0.98), borderaxespad=0)


def _continuous(measured: Array, simulated: Array, period: float | None) -> Array:
    """A periodic signal without jumps, by whole periods as near to the simulated one as it is at its first sample."""
    finite = np.flatnonzero(np.isfinite(measured))
    result = measured.copy()
    if finite.size and period is not None:
        unwrapped = np.unwrap(measured[finite], period=period)
        periods = np.round((simulated[finite[0]] - unwrapped[0]) / period)
        result[finite] = unwrapped + period * periods
    return result
