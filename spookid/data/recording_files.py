"""Recordings in files that are read when they are asked for, for problems of more of them than memory holds."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from glob import glob
from pathlib import Path
from typing import Any, overload

from spookid.argument_checks import Checked
from spookid.data.recording import Recording
from spookid.errors import ProblemError, declared_at, evaluating, shown

SAMPLE = 4
"""Recordings that tell what a problem of many is made of."""


class RecordingFiles(Sequence[Recording], metaclass=Checked):
    """Recordings of a problem, each read from its file when it is asked for.

    ``solve_jointly`` and ``spookid solve --jobs`` or ``--scheduler`` hold one at a time in each worker; all else reads
    them all.

    Args:
        paths: a pattern such as ``"logs/*.npz"``, whose files are taken in the order of their names, or paths. They
            are those of the current folder; workers elsewhere need whole ones.
        read: makes a recording of a path; by default ``Recording.from_file``.
        options: of ``Recording.from_file``.

    Raises:
        ProblemError: if there is no file, or one is given twice.
    """

    def __init__(
        self,
        paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
        read: Callable[..., Recording] | None = None,
        **options: Any,
    ) -> None:
        self.place = declared_at()
        names = sorted(glob(os.fspath(paths))) if isinstance(paths, (str, os.PathLike)) else list(paths)
        self.paths = tuple(Path(name).absolute() for name in names)
        """Of the files."""
        if not self.paths:
            what = shown(os.fspath(paths)) if isinstance(paths, (str, os.PathLike)) else "in the list"
            raise ProblemError(f"{self.place}: RecordingFiles: no file is {what}; check the path")
        if len(set(self.paths)) < len(self.paths):
            raise ProblemError(f"{self.place}: RecordingFiles: a file is there twice; name each once")
        self._read, self._options = read or Recording.from_file, options
        self._recent = lru_cache(maxsize=SAMPLE)(self.read)

    @property
    def names(self) -> tuple[str, ...]:
        """What the recordings are called before they are read: the stems of the files."""
        return tuple(path.stem for path in self.paths)

    @property
    def facts(self) -> list[tuple[str, int, int]]:
        """Path, size and time of the last change of each file: what tells that it is another one."""
        return [(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in self.paths]

    def read(self, number: int) -> Recording:
        """One of them, read anew.

        Raises:
            ProblemError: naming the file.
        """
        with evaluating(f"{self.place}: RecordingFiles: read of {self.paths[number]}"):
            found = self._read(self.paths[number], **self._options)
        if not isinstance(found, Recording):
            raise ProblemError(
                f"{self.place}: RecordingFiles: read gives no Recording of {self.paths[number]}; return one"
            )
        return found

    def __len__(self) -> int:
        return len(self.paths)

    @overload
    def __getitem__(self, place: int) -> Recording: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Recording, ...]: ...
    def __getitem__(self, place: int | slice) -> Recording | tuple[Recording, ...]:
        if isinstance(place, slice):
            return tuple(self._recent(number) for number in range(len(self))[place])
        return self._recent(range(len(self))[place])

    def __iter__(self) -> Iterator[Recording]:
        return (self._recent(number) for number in range(len(self)))

    def __repr__(self) -> str:
        return f"<RecordingFiles: {len(self)} files, the first {self.paths[0]}>"
