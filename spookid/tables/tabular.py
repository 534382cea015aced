"""Results that are shown as tables: printed, in notebooks, in LaTeX and as data frames."""

from __future__ import annotations

import html
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from spookid.tables.table import Table, frame

if TYPE_CHECKING:  # an extra, loaded when it is first asked for
    from pandas import DataFrame

Block: TypeAlias = str | Table
"""A sentence or a table."""


class Tabular(ABC):
    """A result with tables. Printing it prints them; its ``repr`` is one line."""

    @abstractmethod
    def blocks(self) -> Sequence[Block]:
        """Title, tables and sentences in the order in which they are read."""

    @abstractmethod
    def records(self) -> Sequence[Mapping[str, Any]]:
        """A row of values in full for each row of the data frame, by the names of its columns."""

    def to_dataframe(self) -> DataFrame:
        """Numbers in full, as a pandas data frame.

        Raises:
            ProblemError: if pandas, the extra ``spookid[pandas]``, is not installed.
        """
        return frame(self.records())

    def to_latex(self) -> str:
        """Its tables as they are printed, for LaTeX with the package booktabs."""
        return "\n\n".join(block.to_latex() for block in self.blocks() if isinstance(block, Table))

    def __str__(self) -> str:
        return as_text(self.blocks())

    def _repr_html_(self) -> str:
        """For notebooks."""
        return as_html(self.blocks())


def as_text(blocks: Iterable[Block]) -> str:
    """For terminals, an empty line between blocks."""
    return "\n\n".join(map(str, blocks))


def as_html(blocks: Iterable[Block]) -> str:
    """For notebooks; the first sentence is the title."""
    title, *others = blocks
    return "\n".join([f"<p><strong>{_escaped(title)}</strong></p>", *map(_block, others)])


def _block(block: Block) -> str:
    return block._repr_html_() if isinstance(block, Table) else f"<p>{_escaped(block)}</p>"


def _escaped(text: Block) -> str:
    return html.escape(str(text)).replace("\n", "<br>")
