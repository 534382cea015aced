"""Named arrays in groups: HDF5 files, through h5py, and MATLAB files, through SciPy, of version 7.3 through h5py.

Which arrays are stamps, and which are signals of which clock, is the same for both.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spookid.data.arrays import NUMERIC_KINDS
from spookid.data.logs.columns import Clock, Options, library, reading, short_listing, whole
from spookid.errors import ProblemError
from spookid.records import dataclass


@dataclass(frozen=True, eq=False)
class Leaf:
    """An array that is read when it is needed."""

    shape: tuple[int, ...]  # with axes of length one left out
    kind: str  # ``dtype.kind``
    load: Callable[[], NDArray[Any]]  # the array, of that shape
    unit: str | None = None  # as the file says it


def clocks(leaves: Mapping[str, Leaf], options: Options, time: str, separator: str, hint: str = "") -> list[Clock]:
    """Each array of numbers that is as long as the stamps called ``time`` in its group or in one around it.

    A matrix with as many rows, or columns, as there are stamps is a signal for each of the others: ``q[0]``, ``q[1]``.
    """
    place, own = str(options.path), options.own
    for name in (*own, *own.values()):
        if name not in leaves:
            raise ProblemError(f"{place} has no array {name!r}, which times= names; it has {short_listing([*leaves])}")
    of = {name: own.get(name) or _stamps(name, leaves, time, separator) for name in leaves}
    stamps = {found for found in of.values() if found is not None}
    if not stamps:
        raise ProblemError(
            f"{place} has no array {time!r} of times; it has {short_listing([*leaves])}: name one with time={hint}"
        )
    lengths = {}
    for name in sorted(stamps):
        leaf = leaves[name]
        if len(leaf.shape) != 1 or leaf.kind not in NUMERIC_KINDS:
            what = f"has shape {leaf.shape or 1}" if leaf.kind in NUMERIC_KINDS else "holds no numbers"
            raise ProblemError(f"{place}: array {name!r} of times {what}; name one of numbers in a row with time=")
        lengths[name] = leaf.shape[0]
    found: dict[str, dict[str, Any]] = {}
    known: list[str] = []
    for name, leaf in leaves.items():
        clock = of[name]
        columns = [] if name in stamps or clock is None else _columns(name, leaf, lengths[clock])
        known += columns or ([name] if options.signals and name in options.signals else [])
        if clock is None or name in stamps:
            continue
        wanted = [column for column in columns if options.wants(column)]
        if wanted:
            found.setdefault(clock, {}).update(_loaded(leaf, columns, wanted, lengths[clock]))
        elif name in own or name in (options.signals or ()):
            held = f"of shape {leaf.shape} has" if leaf.kind in NUMERIC_KINDS else "holds words or objects,"
            raise ProblemError(
                f"{place}: array {name!r} {held} not one number for each of the {lengths[clock]:,} times of {clock!r}; "
                "choose others with signals="
            )
    options.check(known)
    made = []
    # As they stand in the file; one at least, so that a recording can say that it has no signals.
    for name in [name for name in leaves if name in found] or sorted(stamps)[:1]:
        signals = found.get(name, {})
        said = {column: leaves.get(column, leaves.get(whole(column))) for column in (name, *signals)}
        units = {column: leaf.unit for column, leaf in said.items() if leaf and leaf.unit}
        t, ordered = leaves[name].load(), name not in own.values()
        made.append(Clock(place, name, t, signals, units, "array", "sample", ordered=ordered))
    return made


def _stamps(name: str, leaves: Mapping[str, Leaf], time: str, separator: str) -> str | None:
    """Path of the stamps in the group of an array, or in the nearest group around it that has some."""
    *groups, _ = name.split(separator)
    paths = (separator.join([*groups[:depth], time]) for depth in range(len(groups), -1, -1))
    return next((path for path in paths if path in leaves), None)


def _columns(name: str, leaf: Leaf, count: int) -> list[str]:
    """Names of the signals of an array; none if it has not one number for each time."""
    if leaf.kind not in NUMERIC_KINDS or count not in leaf.shape or len(leaf.shape) > 2:
        return []
    if len(leaf.shape) == 1:
        return [name]
    others = leaf.shape[1] if leaf.shape[0] == count else leaf.shape[0]
    return [f"{name}[{i}]" for i in range(others)]


def _loaded(leaf: Leaf, columns: list[str], wanted: list[str], count: int) -> dict[str, Any]:
    array = leaf.load()
    if array.ndim == 1:
        return {columns[0]: array}
    table = array if array.shape[0] == count else array.T
    return {name: np.ascontiguousarray(table[:, columns.index(name)]) for name in wanted}


def read_hdf5(options: Options, time: str) -> list[Clock]:
    """Clocks of the datasets and of the fields of compound ones, by their paths in the file."""
    path = options.path
    h5py = library("h5py", "h5py", f"{path}: an HDF5 file")
    with reading(path, "HDF5 file", "write it anew"), h5py.File(path, "r") as file:
        return clocks(_leaves(file), options, time, "/")


def _read_matlab73(options: Options, time: str) -> list[Clock]:
    """Those of a MATLAB file of version 7.3, which is one of HDF5 with all matrices transposed."""
    path = options.path
    h5py = library("h5py", "h5py", f"{path}: a MATLAB file of version 7.3")
    with reading(path, "MATLAB file", "save it anew in MATLAB"), h5py.File(path, "r") as file:
        leaves = {
            name.replace("/", "."): leaf
            for name, leaf in _leaves(file).items()
            if not name.startswith("#") and file[name].attrs.get("MATLAB_class", b"double") not in (b"char", b"cell")
        }
        return clocks(leaves, options, time, ".")


def _leaves(file: Any) -> dict[str, Leaf]:
    found: dict[str, Leaf] = {}

    def visit(name: str, node: Any) -> None:
        if not hasattr(node, "dtype") or node.shape is None:  # a group, or a dataset without space
            return
        for field in node.dtype.names or (None,):
            path = name if field is None else f"{name}/{field}"
            kind = (node.dtype if field is None else node.dtype[field]).kind
            inner = () if field is None else node.dtype[field].shape
            shape = tuple(n for n in (*node.shape, *inner) if n != 1)
            said = (node.attrs.get(key) for key in ("units", "unit"))
            texts = (one.decode("utf-8", "replace") if isinstance(one, bytes) else one for one in said)
            unit = next((one for one in texts if isinstance(one, str)), None)
            found[path] = Leaf(shape, kind, partial(_load, node, field), unit)

    file.visititems(visit)
    return found


def _load(node: Any, field: str | None) -> Any:
    array = node[()] if field is None else node[()][field]
    return np.squeeze(np.asarray(array))


_OBJECTS = "; objects such as a timeseries are read by MATLAB alone: save ts.Time and ts.Data"


def read_matlab(options: Options, time: str) -> list[Clock]:
    """Clocks of the arrays of a file and of its structs, named ``struct.field``."""
    from scipy import io

    path = options.path
    with reading(path, "MATLAB file", "save it anew in MATLAB, or with scipy.io.savemat"):
        _tried(path)
        try:
            variables = io.loadmat(path, squeeze_me=True, struct_as_record=False, appendmat=False)
        except NotImplementedError:  # SciPy's way to say version 7.3
            return _read_matlab73(options, time)
    hint = _OBJECTS if "__function_workspace__" in variables else ""
    named = {name: value for name, value in variables.items() if not name.startswith("__")}
    return clocks(dict(_variables(named, "")), options, time, ".", hint)


def _tried(path: Path) -> None:
    """SciPy takes the lengths in a damaged file at their word, which may end the process: one apart reads it first."""
    code = "import sys; from scipy import io; io.loadmat(sys.argv[1], appendmat=False)"
    ended = subprocess.run([sys.executable, "-c", code, path], capture_output=True, check=False).returncode
    if ended not in (0, 1):  # 1: by an exception, which reading raises here, too
        raise ValueError("lengths in it are wrong")


def _variables(variables: Mapping[str, Any], group: str) -> Iterator[tuple[str, Leaf]]:
    for name, value in variables.items():
        if type(value).__name__ == "mat_struct":
            yield from _variables(vars(value), f"{group}{name}.")
        else:
            array = np.asarray(value)
            yield f"{group}{name}", Leaf(array.shape, array.dtype.kind, array.copy)
