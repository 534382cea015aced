"""Solution folders: a Solution written whole or not at all, and read back without loss."""

from __future__ import annotations

import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from importlib import import_module
from multiprocessing import Pipe, get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from spookid.argument_checks import checked
from spookid.data.logs.tables import read_npz
from spookid.errors import ProblemError, shown
from spookid.files import beside, remove
from spookid.kernels.thread_pool import processors
from spookid.report import pictures
from spookid.report.summary import summarize
from spookid.results import folders, schema
from spookid.results.result import Solution
from spookid.tables.table import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MARKER = "solution.json"
"""The file that makes a folder a result folder."""
_TRAJECTORY = "trajectory.npz"
_SENSITIVITIES = "sensitivities.npz"
_FIGURES = {
    "fit.png": ("plots", "fit"),
    "convergence.png": ("plots", "convergence"),
    "parameters.png": ("plots", "parameters"),
    "influence.png": ("diagnostic_plots", "influence_figure"),
    "starts.png": ("diagnostic_plots", "starts_figure"),
}
"""Files, and the modules and functions that draw them."""
_BESIDE: dict[str, Any] = {
    **{"findings": (), "measured": (), "disturbance": (), "mechanism": None},
    **{"physical": {}, "joints": {}, "base_parameters": {}},
}
"""Contents of a solution that no fit continues from; they may take as long as a fit."""
_AGAIN = "solve the problem again"


@contextmanager
def drawing() -> Iterator[Connection | None]:
    """Forked copy of this process that draws figures on another processor; None if forking is not possible."""
    if sys.platform != "linux" or processors() < 2:
        yield None
        return
    here, there = Pipe()
    copy = get_context("fork").Process(target=_draw, args=(here, there), daemon=True)
    with warnings.catch_warnings():  # Python's threads of this process wait, and hold nothing that drawing takes
        warnings.simplefilter("ignore", DeprecationWarning)
        copy.start()
    there.close()
    try:
        yield here
    finally:
        copy.kill()
        copy.join()


def _draw(here: Connection, there: Connection) -> None:
    """In the copy: draw figures until the process that wants them has ended; Ctrl-C is for that one."""
    here.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    with suppress(Exception):  # then the other process draws
        for module, _ in _FIGURES.values():
            import_module(f"spookid.report.{module}")
        while True:
            solution = load(there.recv())
            there.send({name: _drawn(name, solution) for name in _shown(solution)})


@checked
def save(
    solution: Solution,
    directory: folders.AnyPath,
    *,
    animate: bool = False,
    figures: bool = True,
    aside: Connection | None = None,
    show: Callable[[str], None] | None = None,
) -> None:
    """Write the result folder: numbers, summary and figures.

    It appears whole or not at all; missing parents are made. An empty folder or an earlier result folder is replaced.

    Args:
        animate: deprecated and without effect: the page of ``spookid report`` shows the motion.
        figures: False to leave out the figures.
        aside: what draws the figures (``drawing``); None: this process.
        show: takes the summary before figures are waited for.

    Raises:
        ProblemError: if ``directory`` is something else, which is left as it is, or cannot be written.
    """
    if animate:
        message = "animate=True has no effect: spookid report shows the motion"
        warnings.warn(message, DeprecationWarning, stacklevel=3)
    folders.check_target(directory, MARKER)  # before figures are drawn, which takes a while
    kept = beside(Path(directory).resolve(), "part")
    try:
        asked = aside is not None and figures and _asked(aside, solution, kept)
        solution.settled()  # so that the times are those of all of it
        summary = summarize(solution)
        if show is not None:
            show(summary)
        files: dict[str, folders.Content] = {**_numbers(solution, directory), "summary.txt": summary}
        drawn = _answered(aside) if aside is not None and asked else {}
        if figures:
            files |= {name: partial(_write, drawn, solution, name) for name in _shown(solution)}
        if solution.outliers:
            files["outliers.csv"] = outliers(solution).csv()
        folders.save(directory, files)
    finally:
        remove(kept)


def _asked(aside: Connection, solution: Solution, folder: Path) -> bool:
    """True if the other process draws the figures; what cannot be computed for it is reported by ``settled``."""
    with suppress(Exception):
        keep(solution, folder)
        aside.send(folder)
        return True
    return False


def _answered(aside: Connection) -> Mapping[str, bytes]:
    """Figures by name; those are missing that could not be drawn."""
    with suppress(EOFError, OSError):
        return dict(aside.recv())
    return {}


def _shown(solution: Solution) -> list[str]:
    """Names of its figures."""
    return [name for name in _FIGURES if name != "starts.png" or solution.basins]


def figure(solution: Solution, name: str) -> Figure:
    """One figure of a solution; notebooks show it, too, without pyplot.

    Raises:
        ProblemError: for a name that is none.
    """
    there = {file.removesuffix(".png"): _FIGURES[file] for file in _shown(solution)}
    there |= {"mechanism": ("skeleton", "of_solution")} if solution.trajectories else {}
    if name not in there:
        raise ProblemError(f"plot: figure {shown(name)} does not exist; figures are {', '.join(there)}")
    module, function = there[name]
    drawn = getattr(import_module(f"spookid.report.{module}"), function)(solution)
    drawn._repr_png_ = partial(pictures.png, drawn)
    return cast("Figure", drawn)


def _drawn(name: str, solution: Solution) -> bytes:
    """A figure as PNG."""
    return pictures.png(figure(solution, name.removesuffix(".png")))


def _write(drawn: Mapping[str, bytes], solution: Solution, name: str, path: Path) -> None:
    path.write_bytes(drawn.get(name) or _drawn(name, solution))


def keep(solution: Solution, directory: folders.AnyPath) -> None:
    """Write the data of a solution that other fits and studies need, as a folder that `load` reads."""
    folders.save(directory, _numbers(solution.changed(**_BESIDE), directory))


def _numbers(solution: Solution, directory: folders.AnyPath) -> dict[str, folders.Content]:
    return {
        MARKER: _moved(schema.document(solution), partial(_from, directory)),
        _TRAJECTORY: partial(np.savez, **schema.trajectory_arrays(solution)),
        _SENSITIVITIES: partial(np.savez, **schema.sensitivity_arrays(solution)),
    }


def _moved(tree: folders.Tree, change: Callable[[Path], str]) -> folders.Tree:
    """Content of the marker with other paths of the problem file and of the robot's: they are relative there, so that
    results can be moved with them, and name no folder around."""
    robot = (tree.get("mechanism") or {}).get("robot")
    for node, key in ((tree, "source"), (robot, "path")):
        if node and node.get(key):
            node[key] = change(Path(node[key]))
    return tree


def _from(directory: folders.AnyPath, path: Path) -> str:
    """A path as it is relative to a folder, if that can be."""
    with suppress(ValueError):  # on another drive
        return Path(os.path.relpath(path.parent.resolve() / path.name, Path(directory).resolve())).as_posix()
    return str(path)


def outliers(solution: Solution) -> Table:
    """Return a row for each sample that was excluded or had a small weight, with full precision."""
    head = ("recording", "signal", "t", "value", "predicted", "sigmas", "left_out")
    return Table(head, [tuple(str(getattr(one, name)) for name in head) for one in solution.outliers])


def load_answer(directory: folders.AnyPath, force: bool) -> Solution:
    """Read results on which others are based.

    Args:
        force: True to take estimates of a fit that has not converged, or that the data contradict.

    Raises:
        ProblemError: as ``load`` does, and for such results without force.
    """
    result = load(directory)
    if result.no_answer and not force:
        raise ProblemError(f"{directory} is {result.no_answer}: its estimates are no answer; take them with --force")
    return result


@checked
def load(directory: folders.AnyPath) -> Solution:
    """Read the Solution that `save` wrote to ``directory``.

    Raises:
        ProblemError: naming the file that is missing, damaged or of another schema.
    """
    folder = Path(directory)
    tree = folders.read_marker(folder / MARKER, _AGAIN)
    reading = partial(folders.reading, remedy=f"give an unchanged result folder of spookid, or {_AGAIN}")
    with reading(folder / MARKER):
        head = schema.head_of(_moved(tree, lambda path: os.path.normpath(folder.resolve() / path)))
    with reading(folder / _TRAJECTORY) as path:
        motions = schema.motions_of(head, read_npz(path))
    with reading(folder / _SENSITIVITIES) as path:
        return schema.solution_of(head, motions, read_npz(path))
