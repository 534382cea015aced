"""Result folders: a Result written whole or not at all, and read back without loss."""

from __future__ import annotations

import json
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from spookid.errors import ProblemError
from spookid.report import pictures
from spookid.report.summary import summarize
from spookid.results import folders, schema, schema_reading
from spookid.results.result import Result

FilePath: TypeAlias = str | PathLike[str]

MARKER = "solution.json"
"""The file that makes a folder a result folder."""
_TRAJECTORY = "trajectory.npz"
_SENSITIVITIES = "sensitivities.npz"


def check_target(directory: FilePath) -> None:
    """Refuse a folder that `save` would refuse, so that a command can do so before it works.

    Raises:
        ProblemError: if ``directory`` is neither missing, empty, nor an earlier result folder.
    """
    folders.check_target(Path(directory), MARKER)


def save(solution: Result, directory: FilePath) -> None:
    """Write the result folder: numbers, summary and figures.

    It is built beside ``directory`` and renamed, so that it appears whole or not at all; missing parents are made. An
    empty folder or an earlier result folder is replaced.

    Raises:
        ProblemError: if ``directory`` is something else, which is left as it is, or cannot be written.
    """
    solution.settled()  # so that the times tell all of it
    with folders.replacing(Path(directory), MARKER) as folder:
        _write(solution, folder)


def load(directory: FilePath) -> Result:
    """Read the Result that `save` wrote into ``directory``.

    Raises:
        ProblemError: naming the file that is missing, damaged or of another schema.
    """
    folder = Path(directory)
    tree = _tree(folder / MARKER)
    with _reading(folder / MARKER):
        recordings, identifiability = schema_reading.recordings_of(tree), schema_reading.identifiability_of(tree)
    with _reading(folder / _TRAJECTORY) as path:
        trajectories = schema_reading.trajectories_of(recordings, _arrays(path))
    with _reading(folder / _SENSITIVITIES) as path:
        arrays = _arrays(path)
        knowledge = schema_reading.sensitivities_of(identifiability, arrays)
        influence = schema_reading.influence_of(recordings, arrays)
    with _reading(folder / MARKER):
        normaliser = schema_reading.normaliser_of(arrays)
        return schema_reading.solution_of(tree, knowledge, influence, trajectories, normaliser)


def _write(solution: Result, folder: Path) -> None:
    from spookid.report import (
        influence_plot,  # Matplotlib takes a while to load, and reading needs none
        plots,  # Matplotlib takes a while to load, and reading needs none
    )

    text = json.dumps(schema.document(solution), indent=1, ensure_ascii=False, allow_nan=False)
    (folder / MARKER).write_text(text + "\n", encoding="utf-8")
    (folder / "summary.txt").write_text(summarize(solution) + "\n", encoding="utf-8")
    np.savez(folder / _TRAJECTORY, **schema.trajectory_arrays(solution))
    np.savez(folder / _SENSITIVITIES, **schema.sensitivity_arrays(solution))
    for name, figure in (
        ("fit", plots.fit(solution)),
        ("convergence", plots.convergence(solution)),
        ("parameters", plots.parameters(solution)),
        ("influence", influence_plot.figure(solution)),
    ):
        pictures.save(figure, folder / f"{name}.png")


def _tree(path: Path) -> schema.Tree:
    with _reading(path):
        tree = json.loads(path.read_text(encoding="utf-8"), parse_constant=_refuse)
        if not isinstance(tree, dict):
            raise TypeError("it holds no object")
        number = tree["schema"]
        if number == schema.SCHEMA:
            return schema_reading.restored(tree)
    raise ProblemError(
        f"{path} has schema {number!r} and this version of spookid reads {schema.SCHEMA}; solve the problem again"
    )


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is no JSON")


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
    except OSError as error:
        raise ProblemError(f"{path} cannot be read ({error.strerror or error}); {remedy}") from None
    except KeyError as error:
        raise ProblemError(f"{path} lacks {error.args[0]!r}; {remedy}") from None
    except (TypeError, ValueError, AttributeError, IndexError, ArithmeticError, EOFError) as error:
        raise ProblemError(f"{path} is damaged ({error}); {remedy}") from None
    except (zipfile.BadZipFile, zlib.error) as error:
        raise ProblemError(f"{path} is damaged ({error}); {remedy}") from None
