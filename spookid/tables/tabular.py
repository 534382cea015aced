"""Results that are shown as tables: printed, in notebooks, in LaTeX and as data frames."""

from __future__ import annotations

import html
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeAlias

from spookid.tables.table import Table, frame, number

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


class Listed(Tabular):
    """A dataclass that is shown as a list of its fields."""

    also: tuple[str, ...] = ()
    """Properties that are listed after the fields."""

    @property
    def title(self) -> str:
        """Above the list."""
        return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(self).__name__).capitalize()

    @property
    def brief(self) -> str:
        """In a cell of another's list."""
        return _cell(self.records()[0])

    def blocks(self) -> Sequence[Block]:
        """Title and list; what is empty is left out."""
        rows = [(name.replace("_", " "), _cell(value)) for name, value in self.records()[0].items()]
        return [self.title, Table(("", "value"), [row for row in rows if row[1]], left=(0, 1))]

    def records(self) -> Sequence[dict[str, Any]]:
        """One row."""
        names = [field.name for field in fields(self)] + list(self.also)  # type: ignore[arg-type]
        return [{name: getattr(self, name) for name in names}]


def by_rows(columns: Mapping[str, Iterable[Any]]) -> list[dict[str, Any]]:
    """Columns of one length as records."""
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _cell(value: object) -> str:
    if isinstance(value, float):
        return number(value, 6)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, Listed):
        return value.brief
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_cell(one)}" for key, one in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_cell, value))
    return "" if value is None else str(value)


def as_text(blocks: Iterable[Block]) -> str:
    """For terminals, an empty line between blocks."""
    return "\n\n".join(map(str, blocks))


def as_markdown(blocks: Iterable[Block]) -> str:
    """The first sentence is the title."""
    title, *others = blocks
    return "\n\n".join([f"# {title}", *(b.markdown() if isinstance(b, Table) else b for b in others)]) + "\n"


def as_html(blocks: Iterable[Block]) -> str:
    """For notebooks; the first sentence is the title."""
    title, *others = blocks
    shown = (block._repr_html_() if isinstance(block, Table) else f"<p>{_escaped(block)}</p>" for block in others)
    return "\n".join([f"<p><strong>{_escaped(title)}</strong></p>", *shown])


def _escaped(text: Block) -> str:
    return html.escape(str(text)).replace("\n", "<br>")
