"""Figures as PNG files, all at one resolution."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # Matplotlib takes a while to load
    from matplotlib.figure import Figure

DPI = 110
"""Dots per inch."""


def save(figure: Figure, path: Path) -> None:
    """Draw ``figure`` once, its layout included (``Figure.savefig`` draws it twice), and write it as PNG.

    Raises:
        OSError: if ``path`` cannot be written.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    figure.set_dpi(DPI)
    FigureCanvasAgg(figure).print_png(path)  # type: ignore[no-untyped-call]
