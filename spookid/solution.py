"""The solution that users hold: the result of a fit that can be summarized, saved and read back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from os import PathLike
from typing import TYPE_CHECKING

from spookid.results.result import Solution

if TYPE_CHECKING:  # for solving, which not all who hold a solution do
    from concurrent.futures import Executor

    from spookid.assembly.problem import Problem
    from spookid.solvers.status import Callback
    from spookid.studies.variants import AxisValue


def load(directory: str | PathLike[str]) -> Solution:
    """Read the solution that ``Solution.save`` wrote into ``directory``.

    Raises:
        ProblemError: naming the file that is missing, damaged or of another schema.
    """
    from spookid.report.export import load

    return load(directory)


def solve_jointly(
    problem: Problem | str | PathLike[str],
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
            Problem is fitted in this process. Its recordings may be ``RecordingFiles``.
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
    return found
