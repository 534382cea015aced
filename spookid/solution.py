"""The solution that users hold: the result of a fit that can be summarized, saved and read back."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from typing import Self

from spookid.results.result import Result


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Solution(Result):
    """What ``problem.solve`` returns and ``spookid.load`` reads back. Its data are those of ``Result``."""

    @classmethod
    def of(cls, result: Result) -> Self:
        """The same result."""
        return cls(**result.fields)

    def summary(self) -> str:
        """A report of one page, as in ``summary.txt``."""
        from spookid.report.summary import summarize

        return summarize(self)

    def save(self, directory: str | PathLike[str]) -> None:
        """Write the result folder; see ``spookid.report.export.save``."""
        from spookid.report.export import save

        save(self, directory)


def load(directory: str | PathLike[str]) -> Solution:
    """Read the solution that ``Solution.save`` wrote into ``directory``.

    Raises:
        ProblemError: naming the file that is missing, damaged or of another schema.
    """
    from spookid.report.export import load

    return Solution.of(load(directory))
