"""The solution that users hold: the result of a fit that can be summarized, saved and read back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Self

from spookid.records import dataclass
from spookid.results.result import Result
from spookid.tables.tabular import Block, Tabular

if TYPE_CHECKING:  # for solving, which not all who hold a solution do
    from concurrent.futures import Executor

    from spookid.assembly.declaration import Declaration
    from spookid.solvers.status import Callback
    from spookid.studies.variants import AxisValue


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
        from spookid.tables.table import counted

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


def solve_jointly(
    problem: Declaration | str | PathLike[str],
    *,
    folder: str | PathLike[str] | None = None,
    jobs: int = 1,
    executor: Executor | None = None,
    callback: Callback | None = None,
    initial: Mapping[str, float] | None = None,
    fixed: Iterable[str] = (),
    **settings: AxisValue,
) -> Solution:
    """Fit more recordings together than one process holds; see ``spookid.studies.joint_fit``.

    Args:
        problem: the path of a problem file, ``PROBLEM.py`` or ``PROBLEM.py::key``, which workers load themselves; a
            Declaration is fitted in this process. Its recordings may be ``RecordingFiles``.
        folder: where states lie while the fit runs, for all workers, and what a fit that was ended goes on from; it is
            not removed. It may be new, empty, or that of an earlier joint fit. None: a folder of its own, which is
            removed; an executor needs one that its workers see.
        jobs: worker processes, each of which holds one recording at a time. The digits are the same for any number.
        executor: works instead of them, such as one of a cluster.
        callback: called with every accepted iterate.
        initial, fixed: guesses and parameters to hold, as in ``Problem``.
        settings: of the problem and the solver, texts and numbers as in ``sweep``.

    Returns:
        the solution with the motion of the first few recordings only.

    Raises:
        ProblemError: for what a joint fit does not know, a recording that does not fit the problem, or a folder that
            holds something else.
    """
    from spookid.studies import joint_fit

    found = joint_fit.solve_jointly(problem, folder, jobs, executor, callback, initial, fixed, **settings)
    return Solution.of(found)
