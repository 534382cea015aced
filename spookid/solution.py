"""The solution that users hold: the result of a fit that can be summarized, saved and read back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any, Self

from spookid.results.result import Result
from spookid.tables.tabular import Block, Tabular


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Solution(Result, Tabular):
    """What ``problem.solve`` returns and ``spookid.load`` reads back. Its data are those of ``Result``."""

    @classmethod
    def of(cls, result: Result) -> Self:
        """The same result."""
        return cls(**result.fields)

    def summary(self) -> str:
        """A report of one page, as in ``summary.txt``."""
        from spookid.report.summary import summarize

        return summarize(self)

    def blocks(self) -> Sequence[Block]:
        """Conclusion, tables of the parameters, of bodies and of where these are known from, and how many notices
        ``summary`` tells."""
        from spookid.report.conclusion import conclusion
        from spookid.report.summary import known, parameters, physical
        from spookid.tables.numbers import counted

        more = [f"{counted(len(self.notices), 'notice')}: see summary()."] if self.notices else []
        bodies = [physical(self), known(self)] if self.physical else []
        return [conclusion(self), *([parameters(self)] if self.parameters else []), *bodies, *more]

    def records(self) -> Sequence[dict[str, Any]]:
        """A row for each parameter."""
        values = ("estimate", "std_err", "unit", "initial", "lower", "upper", "at_bound", "fixed", "reason")
        names = (*values, "known_from", "from_prior")
        return [{"parameter": p.name, **{n: getattr(p, n) for n in names}} for p in self.parameters.values()]

    def save(self, directory: str | PathLike[str], *, animate: bool = False) -> None:
        """Write the result folder, with animations if they are asked for; see ``spookid.report.export.save``."""
        from spookid.report.export import save

        save(self, directory, animate=animate)


def load(directory: str | PathLike[str]) -> Solution:
    """Read the solution that ``Solution.save`` wrote into ``directory``.

    Raises:
        ProblemError: naming the file that is missing, damaged or of another schema.
    """
    from spookid.report.export import load

    return Solution.of(load(directory))
