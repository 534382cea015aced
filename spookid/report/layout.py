"""Where the panels of a figure stand: one grid, whose margins hold what is written beside its panels.

Each panel is measured once. Matplotlib's constrained layout, which serves any nesting of grids, measures all of them
twice, and takes as long as the drawing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import LayoutEngine
from matplotlib.transforms import Bbox
from numpy.typing import ArrayLike

from spookid.kernels.arrays import Array


class GridLayout(LayoutEngine):
    """Panels of one grid that fill a figure between its title and its legend.

    Args:
        across, along: air beside and above each panel and what belongs to it [in].
    """

    _adjust_compatible = False
    _colorbar_gridspec = False

    def __init__(self, across: float, along: float) -> None:
        super().__init__()
        self._pads = across, along

    def execute(self, fig: Figure) -> None:
        """Move the panels."""
        renderer, dpi = fig._get_renderer(), fig.dpi  # type: ignore[attr-defined]
        width, height = fig.bbox.width, fig.bbox.height
        across, along = (pad * dpi for pad in self._pads)
        specs = [(axes, spec) for axes in fig.axes if (spec := axes.get_subplotspec()) is not None]
        if not specs:
            return
        grid = specs[0][1].get_gridspec()
        sides, ends = np.zeros((2, grid.ncols)), np.zeros((2, grid.nrows))
        for axes, spec in specs:
            box, whole = axes.bbox, _measured(axes, renderer)
            columns, rows = spec.colspan, spec.rowspan
            _grow(sides, columns, box.x0 - whole.x0, whole.x1 - box.x1, across)
            _grow(ends, rows, whole.y1 - box.y1, box.y0 - whole.y0, along)
        top, bottom = _title(fig, renderer, along), sum(_height(one, renderer, along) for one in fig.legends)
        lefts, rights = _cells(sides, grid.get_width_ratios(), 0.0, width)
        tops, bottoms = _cells(ends, grid.get_height_ratios(), top, height - bottom)
        for axes, spec in specs:
            x, y = (
                (lefts[spec.colspan.start], rights[spec.colspan.stop - 1]),
                (
                    height - bottoms[spec.rowspan.stop - 1],
                    height - tops[spec.rowspan.start],
                ),
            )
            axes._set_position(  # type: ignore[attr-defined]  # ``set_position`` takes a panel out of the layout
                Bbox.from_extents(x[0] / width, y[0] / height, x[1] / width, y[1] / height), which="original"
            )


def _measured(axes: Axes, renderer: Any) -> Bbox:
    """The panel with all that is written beside it [px]."""
    beside = [axis for axis in (axes.xaxis, axes.yaxis) if axes.axison and axis.get_in_layout() and axis.get_visible()]
    parts = [*beside, *axes.texts, *filter(None, [axes.get_legend()])]
    titles = [axes.title, axes._left_title, axes._right_title]  # type: ignore[attr-defined]
    parts += [title for title in titles if title.get_text()]
    boxes = [part.get_tightbbox(renderer) for part in parts if part.get_in_layout()]
    return Bbox.union([axes.bbox, *(box for box in boxes if box is not None and box.width + box.height > 0)])


def _title(figure: Figure, renderer: Any, pad: float) -> float:
    """Put the title at the top; the height that it takes."""
    title = figure._suptitle  # type: ignore[attr-defined]
    if title is None:
        return 0.0
    title.set_y(1 - pad / figure.bbox.height)
    return _height(title, renderer, pad)


def _height(artist: Any, renderer: Any, pad: float) -> float:
    return float(artist.get_window_extent(renderer).height) + 2 * pad


def _grow(margins: Array, places: range, before: float, after: float, pad: float) -> None:
    """Give the margins of the first and the last cell of a panel the room that it takes."""
    for side, place, size in ((0, places.start, before), (1, places.stop - 1, after)):
        margins[side, place] = max(margins[side, place], size + pad)


def _cells(margins: Array, ratios: ArrayLike, start: float, stop: float) -> tuple[Array, Array]:
    """Where each cell's panel begins and ends, between start and stop."""
    shares = np.asarray(ratios, dtype=float)
    sizes = (stop - start - margins.sum()) * shares / shares.sum()
    sizes = np.maximum(sizes, 1.0)  # too much is written for the figure
    steps = np.stack([margins[0], sizes, margins[1]], axis=1)
    edges = start + np.append(0.0, np.cumsum(steps))
    return edges[1::3], edges[2::3]
