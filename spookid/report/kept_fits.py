"""Fits that a command of several has finished, kept until its folder is written: interrupted, it goes on from them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

from spookid.assembly.declaration import Declaration
from spookid.errors import ProblemError
from spookid.files import remove
from spookid.report import export
from spookid.results.documents import versions
from spookid.results.result import Result
from spookid.solvers.status import Status
from spookid.studies.settings import digest


class KeptFits:
    """In a hidden folder beside that of the command; nothing is kept of a command that writes none.

    A fit follows from its problem, from how it is solved, and from the fits before it: it is known by all of these.
    """

    def __init__(self) -> None:
        self.count = 0
        """Fits that are finished."""
        self._folder: Path | None = None
        self._chain = hashlib.sha256()

    def begin(self, directory: str | os.PathLike[str] | None, how: object) -> None:
        """For the fits of another folder.

        Args:
            how: all that the fits follow from beside their problems.
        """
        self.count, place = 0, None if directory is None else Path(directory).resolve()
        self._folder = None if place is None else place.with_name(f".{place.name}.fits")
        self._chain = hashlib.sha256(repr((how, sorted(versions().items()))).encode())

    def fit(self, problem: Declaration, solve: Callable[[], Result]) -> Result:
        """The next fit, from the folder or by ``solve``.

        Raises:
            KeyboardInterrupt: if it was interrupted.
        """
        if self._folder is None:
            return _finished(solve())
        self._chain.update(digest(problem).encode())
        place = self._folder / self._chain.hexdigest()[:32]
        try:
            found = export.load(place)
        except ProblemError:  # there is none, or a damaged one
            found = _finished(solve())
            export.keep(found, place)
        self.count += 1
        return found

    def end(self) -> None:
        """They have served."""
        if self._folder is not None:
            remove(self._folder)


def _finished(solution: Result) -> Result:
    """One that is not interrupted."""
    if solution.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    return solution
