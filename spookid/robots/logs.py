"""What a scaffold needs to know of a log before it is read: its columns, and how the problem file reads it."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from spookid.data.reading import method_for
from spookid.data.recording import Recording
from spookid.errors import ProblemError
from spookid.robots.columns import Matched, match

_DELIMITERS = ",;\t|"


@dataclass(frozen=True)
class Log:
    """A file of signals."""

    path: Path
    columns: tuple[str, ...]
    has_times: bool
    """True if one of the columns has the times; False if the format itself knows them."""

    def matched(self, labels: list[str], actuators: Mapping[str, str]) -> Matched:
        """Its columns by the coordinates of a robot, and by its actuators; see ``match``."""
        return match(self.columns if self.has_times else ["time", *self.columns], labels, actuators)

    def recording(self, matched: Matched) -> Recording:
        """What was matched."""
        time = {"time": matched.time} if self.has_times else {}
        return Recording.from_file(self.path, signals=matched.signals, **time)

    def call(self, matched: Matched) -> str:
        """How the problem file reads it, as ``LOG`` and ``signals``."""
        time = f"time={json.dumps(matched.time)}, " if self.has_times else ""
        return f"Recording.{method_for(self.path) or 'from_file'}(LOG, {time}signals=signals)"


def opened(path: Path) -> Log:
    """A log whose columns are known.

    Raises:
        ProblemError: if it cannot be read.
    """
    method = method_for(path)
    if method == "from_csv":
        return Log(path, tuple(_header(path)), True)
    if method == "from_npz":
        return Log(path, tuple(_arrays(path)), True)
    return Log(path, tuple(Recording.from_file(path).signals), False)


def _header(path: Path) -> list[str]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            line = file.readline()
    except OSError as error:
        raise ProblemError(f"{path} cannot be read ({error.strerror or error}); check the path") from None
    except UnicodeDecodeError:
        raise ProblemError(f"{path} is no UTF-8 text; save it as comma-separated text in UTF-8") from None
    names = [name.strip() for name in next(csv.reader([line], delimiter=max(_DELIMITERS, key=line.count)), [])]
    if len(names) < 2:
        raise ProblemError(f"{path} line 1 has no names of columns; write them there, with commas between")
    return names


def _arrays(path: Path) -> list[str]:
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            return list(archive)
    except OSError as error:
        raise ProblemError(f"{path} cannot be read ({error.strerror or error}); check the path") from None
    except (ValueError, EOFError, TypeError, AttributeError):
        raise ProblemError(f"{path} is no NumPy archive (.npz); write it with numpy.savez") from None
