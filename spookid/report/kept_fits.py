"""What a command has done by the time it is interrupted, kept beside its folder until this is written: the same command
goes on from there, to the same digits."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from spookid.assembly.declaration import Declaration
from spookid.errors import ProblemError
from spookid.files import remove
from spookid.report import export
from spookid.results.documents import versions
from spookid.results.result import Result
from spookid.solvers import resuming
from spookid.solvers.resuming import Journal, kept_in
from spookid.solvers.status import Status
from spookid.studies.settings import digest


def unfinished(target: str | os.PathLike[str]) -> Path:
    """The hidden folder beside a target, for all that goes into it."""
    place = Path(target).resolve()
    return place.with_name(f".{place.name}.unfinished")


class KeptFits:
    """Fits of a command in a folder of its own: those that are finished, and searches of the one that is not.

    Args:
        folder: None keeps nothing.
        how: all that the fits follow from beside their problems.
    """

    def __init__(self, folder: Path | None = None, how: object = None) -> None:
        self.count = 0
        """Fits that are finished."""
        self._folder = folder
        identity = repr((how, sorted(versions().items())))
        self._journal = None if folder is None else Journal(folder, hashlib.sha256(identity.encode()).hexdigest())

    @contextmanager
    def searching(self, problem: Declaration) -> Iterator[None]:
        """Searches in this block, which follow from a problem, are kept."""
        journal = self._journal
        with kept_in(None if journal is None else Journal(journal.folder, journal.name(digest(problem)))):
            yield

    def fit(self, problem: Declaration, solve: Callable[[], Result]) -> Result:
        """The next fit, from the folder or by ``solve``.

        Raises:
            KeyboardInterrupt: if it was interrupted.
        """
        if self._journal is None:
            return _finished(solve())
        name = self._journal.name(digest(problem))
        place = self._journal.folder / name
        try:
            found = export.load(place)
        except ProblemError:  # there is none, or a damaged one
            with kept_in(Journal(self._journal.folder, name)):
                found = _finished(solve())
            export.keep(found, place)
            resuming.forget(self._journal.folder)  # searches that have served
        self.count += 1
        return found

    def end(self) -> None:
        """All has served."""
        if self._folder is not None:
            remove(self._folder)


def _finished(solution: Result) -> Result:
    """One that is not interrupted."""
    if solution.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    return solution
