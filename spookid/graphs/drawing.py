"""Pictures of factor graphs: which factor is of which variables, and what factors cost over time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from spookid.kernels.kernel import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_BLUE, _ORANGE, _GREEN, _RED, _PINK, _SKY, _BLACK = (
    "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#1a1a1a"
)  # fmt: skip
_COLOURS = (_BLUE, _RED, _GREEN, _PINK, _ORANGE, _SKY, _BLACK)
"""Of Okabe and Ito: colour-blind people tell them apart."""


def draw_costs(axes: Axes, t: Array, costs: Mapping[str, Array]) -> None:
    """Cost of each factor at each step, on a logarithmic scale; 0 leaves a gap."""
    for i, (name, values) in enumerate(costs.items()):
        shown = np.where(values > 0, values, np.nan)
        style = {"marker": "o"} if len(values) == 1 else {"linewidth": 1.2}
        axes.plot(t[: len(values)], shown, label=name, color=_COLOURS[i % len(_COLOURS)], **style)
    axes.set_yscale("log")
    axes.set_xlabel("time [s]")
    axes.set_ylabel("cost at each step")
    axes.legend(fontsize=8, frameon=False)
