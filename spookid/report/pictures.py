"""Figures as the package draws them: one set of colours, one way to lay them out, PNG files of one resolution.

Figures are made with Matplotlib's objects, never through pyplot: nothing global is touched and no display is needed.
Matplotlib is loaded on first use, because it takes a while.
"""

from __future__ import annotations

import io
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D


P = ParamSpec("P")

BLUE, ORANGE, GREEN, RED, PINK, SKY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9"
"""Of Okabe and Ito: colour-blind people can distinguish them."""
BLACK, DARK, GREY, LIGHT, PALE = "#000000", "#1a1a1a", "#707070", "#a8a8a8", "#e4e4e4"
COLOURS = (BLUE, RED, GREEN, PINK, ORANGE, SKY, BLACK)
"""For several of one kind."""
_DASHES = ("-", "--", ":", "-.")
"""For more of them than there are colours."""
DPI = 110
"""Dots per inch."""
WIDTH = 5.6
"""Of every figure of the report [in]; a phone shows it at two thirds of its size."""
MOST_PANELS = 8
"""Signals, coordinates or recordings that have a panel each; others are counted."""
_MOST_LETTERS = 40
"""Of a name or a formula."""
MOST_ROWS = 30
"""Of a figure that has one a parameter: more are never read, and every one takes as long as a figure."""


def png(figure: Figure, dpi: float = DPI) -> bytes:
    """``figure`` as PNG, drawn once, its layout included (``Figure.savefig`` draws it twice), and without the opacity
    that all of its pixels have: a third of the time of encoding, and a smaller file."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from PIL import Image

    figure.set_dpi(dpi)
    canvas: Any = FigureCanvasAgg(figure)
    file = io.BytesIO()
    canvas.draw()
    picture = Image.frombuffer("RGBA", canvas.get_width_height(), canvas.buffer_rgba(), "raw", "RGBA", 0, 1)
    picture = picture.convert("RGB")
    picture.save(file, "png", compress_level=2, dpi=(dpi, dpi))
    return file.getvalue()


def save(figure: Figure, path: Path) -> None:
    """Write ``figure`` as PNG."""
    path.write_bytes(png(figure))


def drawn(draw: Callable[P, Figure], *what: P.args, **how: P.kwargs) -> Callable[[Path], None]:
    """Function that draws a figure and writes it to a path."""
    return lambda path: save(draw(*what, **how), path)


def title(figure: Figure, text: str, size: float = 12) -> None:
    """Title above all panels, wrapped to the width of the figure."""
    figure.suptitle(textwrap.fill(text, int(10 * figure.get_figwidth())), fontsize=size, parse_math=False)


def panels(count: int, most: int, size: tuple[float, float], text: str) -> tuple[Figure, list[Axes]]:
    """A figure with ``count`` panels in rows of ``most`` at the most, each of about that size [in]."""
    from matplotlib.figure import Figure

    columns = max(min(count, most), 1)
    rows = max(-(-count // columns), 1)
    figure = Figure(figsize=(max(size[0] * columns, 6.0), 1.3 + size[1] * rows), layout="constrained")
    title(figure, text)
    grid = list(figure.subplots(rows, columns, squeeze=False).ravel())
    for panel in grid[count:]:
        panel.set_axis_off()
    for panel in grid[:count]:
        panel.tick_params(labelsize=8)
    return figure, grid


def foremost(sizes: Sequence[float], most: int | None = None) -> list[int]:
    """Indices of the rows or curves to draw if there are too many: those of the largest sizes, in their order, at most
    MOST_ROWS or ``most``."""
    largest = sorted(range(len(sizes)), key=lambda i: -sizes[i])
    return sorted(largest[: MOST_ROWS if most is None else most])


def short(text: str) -> str:
    """A name or a formula, of a long one both ends."""
    half = (_MOST_LETTERS - 1) // 2
    return text if len(text) <= _MOST_LETTERS else f"{text[:half]}…{text[-half:]}"


def plain(axes: Axes, size: float = 9, grid: bool = True) -> None:
    """Axes without a frame, and with a pale grid behind the curves."""
    axes.spines[["right", "top"]].set_visible(False)
    axes.tick_params(labelsize=size)
    if grid:
        axes.grid(color=PALE, linewidth=0.6)
        axes.set_axisbelow(True)


def entry(label: str, color: str, marker: str = "", linestyle: Any = "", **style: Any) -> Line2D:
    """An entry of a legend."""
    from matplotlib.lines import Line2D

    return Line2D([], [], color=color, marker=marker, linestyle=linestyle, label=label, **style)


def legend(figure: Figure, handles: Sequence[Artist], columns: int | None = None, size: float = 8) -> None:
    """Below all panels."""
    figure.legend(
        handles=handles, loc="outside lower center", ncols=columns or len(handles), frameon=False, fontsize=size
    )


def line(i: int) -> dict[str, Any]:
    """Line style of the i-th curve of a kind, different from all others."""
    return {"color": COLOURS[i % len(COLOURS)], "linestyle": _DASHES[i // len(COLOURS) % len(_DASHES)]}


def round_ticks(axis: Any, count: int, digits: int = 6) -> None:
    """Limit the number of ticks, with the package's number format; on logarithmic axes at 1, 2 and 5."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

    from spookid.tables.table import number

    logarithmic = axis.get_scale() == "log"
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=count) if logarithmic else MaxNLocator(count))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: number(value, digits)))


def apart(axes: Axes, text: str) -> None:
    """Write a text instead of a curve."""
    axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", va="center", color=GREY)
