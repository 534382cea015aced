"""Numbers, units and tables as terminals, notebooks, Markdown, LaTeX, spreadsheets and data frames show them."""

from __future__ import annotations

import csv
import html
import io
import math
import re
import textwrap
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import fields
from enum import Enum
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias

from spookid.errors import ProblemError
from spookid.records import dataclass

if TYPE_CHECKING:
    from pandas import DataFrame


COLUMNS, ROWS = 80, 24
"""Of a page: those of a terminal."""
LONG = 10.0
"""Work that takes longer than this says so in advance [s]."""
HALF_WIDTH = 1.96
"""Of a 95 % interval of the normal distribution, in standard errors."""
_MOST_DECIMALS, _MOST_DIGITS = 7, 9


def number(value: float, digits: int = 4) -> str:
    """Format ``value`` with the given number of significant digits; a zero has no sign."""
    return f"{value + 0.0:.{digits}g}"


def quantity(value: float, unit: str, digits: int = 3) -> str:
    """Format ``value`` with its unit, which may be empty."""
    return f"{number(value, digits)} {unit}".rstrip()


def superscripts(unit: str) -> str:
    """``kg m^2`` as kg m²."""
    raised = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
    return re.sub(r"(?:\^|\*\*)(-?\d+)", lambda match: match[1].translate(raised), unit)


def labelled(name: str, unit: str) -> str:
    """A name with its unit in brackets, if it has one."""
    return f"{name} [{superscripts(unit)}]" if unit else name


def uncertain(value: float, error: float) -> str:
    """Format ``value ± error``, rounded to two significant digits of the error; ``value`` alone without one."""
    if not (math.isfinite(value) and math.isfinite(error)):
        return number(value)
    if error == 0:
        return f"{number(value, 6)} ± 0"
    first, last = _digits(value, error)
    if first - last >= _MOST_DIGITS:
        return f"{number(value, _MOST_DIGITS)} ± {error:.1e}"
    if last >= -_MOST_DECIMALS and first < _MOST_DECIMALS:
        return f"{_rounded(value, -last)} ± {_rounded(error, -last)}"
    scale = 10.0**first
    return f"({_rounded(value / scale, first - last)} ± {_rounded(error / scale, first - last)})e{first}"


def concise(value: float, error: float) -> str:
    """Format ``value(error)`` with the error in units of the last digits: 0.189(69) is 0.189 ± 0.069."""
    text, _, deviation = uncertain(value, error).partition(" ± ")
    if not deviation or error == 0 or "e" in deviation.partition(")")[0]:
        return text
    digits, _, power = deviation.partition(")")
    return f"{text.strip('(')}({digits.removeprefix('0.').lstrip('0')}){power}"


ESTIMATED = ("estimate", "std. error", "rel.", "95 % interval", "unit")
"""Head of the cells of an estimate."""


def estimated(name: str, value: float, error: float, unit: str, *bounds: float) -> tuple[str, ...]:
    """Name with the power of ten of its estimate, and table cells ``ESTIMATED``; ``bounds`` limit the interval."""
    if not (math.isfinite(value) and math.isfinite(error) and error > 0):
        return name, number(value), "", "", "", unit
    first, last = _digits(value, error)
    power = 0 if -3 <= first < _MOST_DECIMALS - 1 else first
    places, scale = min(power - last, _MOST_DIGITS + power - first), 10.0**power
    half = HALF_WIDTH * error
    ends = max(value - half, *bounds[:1], -math.inf), min(value + half, *bounds[1:], math.inf)
    share = 100 * error / abs(value) if value else math.inf
    relative = number(share, 1) if share < 0.1 else f"{share:.1f}" if share < 9.95 else f"{min(share, 100):.0f}"
    return (
        name + (f" x1e{power}" if power else ""),
        _rounded(value / scale, places),
        _rounded(error / scale, power - last),
        f"{'> ' * (share > 100)}{relative} %",
        " .. ".join(_rounded(end / scale, places - 1) for end in ends),
        unit,
    )


def _digits(value: float, error: float) -> tuple[int, int]:
    """Powers of ten of the first digit and of the last one, which is the second of the error."""
    last = _exponent(error, 1) - 1
    return (max(_exponent(value, 15), last + 1) if value else last + 1), last


def _exponent(value: float, digits: int) -> int:
    """Power of ten of the first digit, once rounded."""
    return int(f"{abs(value):.{digits}e}".partition("e")[2])


def _rounded(value: float, decimals: int) -> str:
    return f"{round(value, decimals) + 0.0:.{max(decimals, 0)}f}"


def bounds(lower: float, upper: float) -> str:
    """Text of an interval; empty if it is infinite."""
    if math.isinf(upper):
        return "" if math.isinf(lower) else f"≥ {number(lower, 6)}"
    return f"≤ {number(upper, 6)}" if math.isinf(lower) else f"[{number(lower, 6)}, {number(upper, 6)}]"


def seconds(time: float) -> str:
    """Format a duration [s] with two significant digits, or in whole seconds if it is long."""
    if 0 < time < 0.0995:
        return f"{number(1000 * time, 2)} ms"
    return f"{number(time, 2)} s" if time < 9.95 else f"{time:.0f} s"


def minutes(time: float) -> str:
    """Format the forecast of a duration [s] with one significant digit."""
    return f"{float(f'{time:.0e}'):g} s" if time < 100 else f"{float(f'{time / 60:.0e}'):,g} min"


def counted(n: int, noun: str) -> str:
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def deviation(value: float, unit: str) -> str:
    """Format a standard deviation with its unit; small angles in mrad."""
    return quantity(1000 * value, "mrad") if unit == "rad" and value < 0.1 else quantity(value, unit)


_GAP = "  "

TableRow = Sequence[str]


@dataclass(frozen=True)
class Table:
    """Rows of cells below a heading; the first column names the rows."""

    head: TableRow
    """Empty if there is no heading."""
    rows: Sequence[TableRow]
    left: Collection[int] | None = None
    """Columns that are aligned to the left, the others to the right; None: all to the right."""

    def text(self, width: int | None = None, indent: str = "") -> str:
        """Table as text with aligned columns; columns that are empty below their heading are omitted.

        Args:
            width: largest width of a line; longer rows are wrapped in the last column, or continue in the next line.
        """
        rows = [self.head, *self.rows] if self.head else list(self.rows)
        used = [i for i in range(len(rows[0])) if any(row[i] for row in self.rows or rows)]
        widths = {i: max(len(row[i]) for row in rows) for i in used}
        left = self.left or ()
        cells = [[row[i].ljust(widths[i]) if i in left else row[i].rjust(widths[i]) for i in used] for row in rows]
        return "\n".join(line for row in cells for line in _fitted(row, width, indent))

    def markdown(self) -> str:
        """With pipes."""
        lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in (self.head, *self.rows)]
        return "\n".join([lines[0], "|" + "---|" * len(self.head), *lines[1:]])

    def csv(self) -> str:
        """Comma-separated, a line a row."""
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([self.head, *self.rows])
        return text.getvalue()

    def to_latex(self) -> str:
        """Table as LaTeX ``tabular`` with rules of the package booktabs."""
        head, *rows = [" & ".join(map(latex, row)) + r" \\" for row in (self.head, *self.rows)]
        columns = "".join("l" if i in self._lefts else "r" for i in range(len(self.head)))
        top = [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", head, r"\midrule"]
        return "\n".join([*top, *rows, r"\bottomrule", r"\end{tabular}"])

    def to_dataframe(self) -> DataFrame:
        """Cells of the table as shown, as texts in a data frame; raises as ``frame``."""
        return frame([dict(zip(self.head, row, strict=True)) for row in self.rows], self.head)

    def __str__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        """For notebooks."""
        sides = ["left" if i in self._lefts else "right" for i in range(len(self.head))]
        head, *rows = [
            "".join(
                f'<{tag} style="text-align: {side}">{html.escape(cell)}</{tag}>'
                for side, cell in zip(sides, cells, strict=True)
            )
            for tag, cells in (("th", self.head), *(("td", row) for row in self.rows))
        ]
        body = "\n".join(f"<tr>{row}</tr>" for row in rows)
        return f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>"

    @property
    def _lefts(self) -> Collection[int]:
        """Columns that are aligned to the left where the first one always is."""
        return {0, *(self.left or ())}


def frame(records: Sequence[Mapping[str, Any]], columns: Sequence[str] | None = None) -> DataFrame:
    """Pandas data frame with a row for each record.

    Raises:
        ProblemError: if pandas, the extra ``spookid[pandas]``, is not installed.
    """
    try:
        pandas: Any = import_module("pandas")
    except ImportError:
        raise ProblemError("a data frame needs pandas; install it with: pip install 'spookid[pandas]'") from None
    result: DataFrame = pandas.DataFrame(list(records), columns=columns)
    return result


def _fitted(cells: TableRow, width: int | None, indent: str) -> list[str]:
    """A row as one line, or as several if it does not fit."""
    start, last = indent + "".join(cell + _GAP for cell in cells[:-1]), cells[-1].rstrip()
    if width is None or len(start + last) <= width:
        return [(start + last).rstrip()]
    if width - len(start) >= 16:  # wide enough to wrap the last cell; else cells go to the next line
        return textwrap.wrap(last, width, initial_indent=start, subsequent_indent=" " * len(start))
    lines, line = [], indent
    for cell in cells:
        if len(line + cell.rstrip()) > width:
            lines.append(line)
            line = indent + " " * 4
        line += cell + _GAP
    whole = [text.rstrip() for text in (*lines, line) if text.strip()]
    return [text[i : i + width].rstrip() for text in whole for i in range(0, len(text), width)]


def wrapped(text: str, width: int, label: str = "") -> list[str]:
    """Wrap a text, indented after ``label``, so that no line breaks between a number and its percent sign."""
    kept, indent = text.replace(" %", "\N{NO-BREAK SPACE}%"), " " * len(label)
    lines = textwrap.wrap(kept, width, initial_indent=label, subsequent_indent=indent, break_on_hyphens=False)
    return [line.replace("\N{NO-BREAK SPACE}", " ") for line in lines] or [label.rstrip()]


def side_by_side(axes: Sequence[TableRow], columns: Iterable[TableRow], width: int) -> list[Table]:
    """Split columns, headings first, over tables that fit the width. Each table repeats the columns ``axes``."""
    groups: list[list[TableRow]] = [[]]
    room = width - sum(max(map(len, column)) + len(_GAP) for column in axes)
    for column in columns:
        if groups[-1] and sum(max(map(len, one)) + len(_GAP) for one in (*groups[-1], column)) > room:
            groups.append([])
        groups[-1].append(column)
    tables = [list(zip(*axes, *group, strict=True)) for group in groups]
    return [Table(rows[0], rows[1:]) for rows in tables]


_RAISED = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")
_SIGNS = r"< > | - \pm \leq \geq \surd ^{\circ}"
_GREEK = r"\kappa \zeta \sigma \mu \lambda \theta \tau \varphi \omega \Sigma \Delta"
_SPECIAL = {
    **{c: rf"\{c}" for c in "&%$#_{}"},
    **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"},
    **{c: f"${name}$" for c, name in zip("<>|−±≤≥√°κζσμλθτφωΣΔ", f"{_SIGNS} {_GREEK}".split(), strict=True)},
}
_TOKENS = re.compile(
    r"(?P<mantissa>(?<![\w.])\d+(?:\.\d*)?|\))e(?P<exponent>[+-]?\d+)(?!\w)"
    r"|(?P<minus>(?<![\w.)\]])-(?=\d))"
    r"|\^(?P<power>-?\d+)"
    r"|(?P<raised>[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)"
    "|(?P<special>[" + re.escape("".join(_SPECIAL)) + "])"
)


def latex(text: str) -> str:
    """Return ``text`` for LaTeX's text mode, without packages: characters escaped, powers raised, signs in maths."""
    return _TOKENS.sub(_token, text)


def _token(match: re.Match[str]) -> str:
    if match["exponent"]:
        return rf"{match['mantissa']}$\times10^{{{int(match['exponent'])}}}$"
    if match["minus"]:
        return "$-$"
    if match["power"] or match["raised"]:
        return f"$^{{{match['power'] or match['raised'].translate(_RAISED)}}}$"
    return _SPECIAL[match["special"]]


Block: TypeAlias = str | Table
"""A sentence or a table."""


class Tabular(ABC):
    """Base class of results with tables. Printing a result prints the tables; its ``repr`` is one line."""

    @abstractmethod
    def blocks(self) -> Sequence[Block]:
        """Title, tables and sentences in reading order."""

    @abstractmethod
    def records(self) -> Sequence[Mapping[str, Any]]:
        """Rows of the data frame in full precision, by column names."""

    def to_dataframe(self) -> DataFrame:
        """Result as a pandas data frame in full precision; raises as ``frame``."""
        return frame(self.records())

    def to_latex(self) -> str:
        """Tables as printed, for LaTeX with the package booktabs."""
        return "\n\n".join(block.to_latex() for block in self.blocks() if isinstance(block, Table))

    def __str__(self) -> str:
        return as_text(self.blocks())

    def _repr_html_(self) -> str:
        """For notebooks."""
        return as_html(self.blocks())


class Listed(Tabular):
    """Base class of dataclasses that are shown as a list of their fields."""

    also: tuple[str, ...] = ()
    """Properties that are listed after the fields."""

    @property
    def title(self) -> str:
        """Above the list."""
        return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(self).__name__).capitalize()

    @property
    def brief(self) -> str:
        """Short text for a cell of another object's list."""
        return _cell(self.records()[0])

    def blocks(self) -> Sequence[Block]:
        """Title, and list of fields without empty values."""
        rows = [(name.replace("_", " "), _cell(value)) for name, value in self.records()[0].items()]
        return [self.title, Table(("", "value"), [row for row in rows if row[1]], left=(0, 1))]

    def records(self) -> Sequence[dict[str, Any]]:
        """One row."""
        names = [field.name for field in fields(self)] + list(self.also)  # type: ignore[arg-type]
        return [{name: getattr(self, name) for name in names}]


def by_rows(columns: Mapping[str, Iterable[Any]]) -> list[dict[str, Any]]:
    """Convert columns of equal length to records."""
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


def as_text(blocks: Iterable[Block], width: int | None = None) -> str:
    """Text of blocks for terminals, with an empty line between blocks; line breaks within blocks are kept."""
    texts = [block.text(width) if isinstance(block, Table) else block for block in blocks]
    return "\n\n".join(one if width is None or "\n" in one else "\n".join(wrapped(one, width)) for one in texts)


def as_markdown(blocks: Iterable[Block]) -> str:
    """Markdown text of blocks; the first sentence is the title."""
    title, *others = blocks
    return "\n\n".join([f"# {title}", *(b.markdown() if isinstance(b, Table) else b for b in others)]) + "\n"


def as_html(blocks: Iterable[Block]) -> str:
    """HTML text of blocks for notebooks; the first sentence is the title. Texts of several lines are aligned."""
    title, *others = (b if isinstance(b, Table) else html.escape(b) for b in blocks)
    texts = "<p>{}</p>", "<pre>{}</pre>"
    shown = (b._repr_html_() if isinstance(b, Table) else texts["\n" in b].format(b) for b in others)
    return "\n".join([f"<p><strong>{title}</strong></p>", *shown])
