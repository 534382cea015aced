"""Result folders: a Result written whole or not at all, and read back without loss."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from spookid.errors import ProblemError
from spookid.report import pictures
from spookid.report.summary import summarize
from spookid.results import folders, schema
from spookid.results.documents import SCHEMA
from spookid.results.result import Result

MARKER = "solution.json"
"""The file that makes a folder a result folder."""
_TRAJECTORY = "trajectory.npz"
_SENSITIVITIES = "sensitivities.npz"


def save(solution: Result, directory: folders.AnyPath) -> None:
    """Write the result folder: numbers, summary and figures.

    It appears whole or not at all; missing parents are made. An empty folder or an earlier result folder is replaced.

    Raises:
        ProblemError: if ``directory`` is something else, which is left as it is, or cannot be written.
    """
    folders.check_target(directory, MARKER)  # before Matplotlib is loaded, which takes a while
    from spookid.report import influence_plot, plots

    drawn = {
        "fit": plots.fit,
        "convergence": plots.convergence,
        "parameters": plots.parameters,
        "influence": influence_plot.figure,
    }
    solution.settled()  # so that the times tell all of it
    folders.save(
        directory,
        {
            MARKER: schema.document(solution),
            "summary.txt": summarize(solution),
            _TRAJECTORY: partial(np.savez, **schema.trajectory_arrays(solution)),
            _SENSITIVITIES: partial(np.savez, **schema.sensitivity_arrays(solution)),
            **{f"{name}.png": pictures.drawn(figure, solution) for name, figure in drawn.items()},
        },
    )


def load(directory: folders.AnyPath) -> Result:
    """Read the Result that `save` wrote into ``directory``.

    Raises:
        ProblemError: naming the file that is missing, damaged or of another schema.
    """
    folder = Path(directory)
    with _reading(folder / MARKER) as path:
        tree = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
        number = tree["schema"]
        if number != SCHEMA:
            raise ProblemError(
                f"{path} has schema {number!r} and this version of spookid reads {SCHEMA}; solve the problem again"
            )
        head = schema.head_of(tree)
    with _reading(folder / _TRAJECTORY) as path:
        trajectories = schema.trajectories_of(head, _arrays(path))
    with _reading(folder / _SENSITIVITIES) as path:
        return schema.solution_of(head, trajectories, _arrays(path))


def _arrays(path: Path) -> dict[str, NDArray[Any]]:
    # NumPy would leave the file of a damaged archive open.
    with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
        return dict(archive)


@contextmanager
def _reading(path: Path) -> Iterator[Path]:
    """Turn what goes wrong while ``path`` is read and understood into one sentence."""
    remedy = "give a result folder of spookid as it was written, or solve the problem again"
    try:
        yield path
    except ProblemError:
        raise
    except OSError as error:
        raise ProblemError(f"{path} cannot be read ({error.strerror or error}); {remedy}") from None
    except KeyError as error:
        raise ProblemError(f"{path} lacks {error.args[0]!r}; {remedy}") from None
    except (TypeError, ValueError, AttributeError, IndexError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise ProblemError(f"{path} is damaged ({error}); {remedy}") from None
