"""HDF5 files, through h5py: named arrays in groups, which of them are stamps, and which are signals of which clock."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spookid.data.arrays import NUMERIC_KINDS
from spookid.data.logs.columns import Clock, Options, file_at, library, reading, short_listing, whole
from spookid.errors import ProblemError
from spookid.records import dataclass


@dataclass(frozen=True, eq=False)
class Leaf:
    """An array that is read when it is needed."""

    shape: tuple[int, ...]
    """With axes of length one left out."""
    kind: str
    """``dtype.kind``."""
    load: Callable[[], NDArray[Any]]
    """The array, of that shape."""
    unit: str | None = None
    """As the file says it."""


def clocks(
    leaves: Mapping[str, Leaf], options: Options, time: str, own: Mapping[str, str], separator: str, hint: str = ""
) -> list[Clock]:
    """Each array of numbers that is as long as the stamps called ``time`` in its group or in one around it.

    A matrix with as many rows, or columns, as there are stamps is a signal for each of the others: ``q[0]``, ``q[1]``.

    Args:
        leaves: arrays by path.
        own: path of the stamps of signals that have others, by the signals' paths.
        separator: between the names of groups.
        hint: what a message adds where there are no stamps.

    Raises:
        ProblemError: without stamps, and for a chosen array that is none of numbers or not as long.
    """
    place = str(options.path)
    for name in (*own, *own.values()):
        if name not in leaves:
            raise ProblemError(f"{place} has no array {name!r}, which times= names; it has {short_listing([*leaves])}")
    of = {name: own.get(name) or _stamps(name, leaves, time, separator) for name in leaves}
    stamps = {found for found in of.values() if found is not None}
    if not stamps:
        raise ProblemError(
            f"{place} has no array {time!r} of times; it has {short_listing([*leaves])}: name one with time={hint}"
        )
    lengths = {name: _length(leaves[name], name, place) for name in sorted(stamps)}
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
    units = {name: leaf.unit for name, leaf in leaves.items() if leaf.unit is not None}
    return [_clock(leaves, place, clock, found.get(clock, {}), units, own) for clock in _order(stamps, found, leaves)]


def _order(stamps: set[str], found: Mapping[str, Any], leaves: Mapping[str, Leaf]) -> list[str]:
    """Clocks with signals as they stand in the file; one at least, so that a recording can say that it has none."""
    return [name for name in leaves if name in found] or sorted(stamps)[:1]


def _clock(
    leaves: Mapping[str, Leaf],
    place: str,
    name: str,
    columns: dict[str, Any],
    units: Mapping[str, str],
    own: Mapping[str, str],
) -> Clock:
    said = {column: units.get(column, units.get(whole(column), "")) for column in (name, *columns)}
    said = {column: unit for column, unit in said.items() if unit}
    return Clock(place, name, leaves[name].load(), columns, said, "array", "sample", ordered=name not in own.values())


def _stamps(name: str, leaves: Mapping[str, Leaf], time: str, separator: str) -> str | None:
    """Path of the stamps in the group of an array, or in the nearest group around it that has some."""
    group = name
    while True:
        group, _, _ = group.rpartition(separator)
        path = f"{group}{separator}{time}" if group else time
        if path in leaves:
            return path
        if not group:
            return None


def _length(leaf: Leaf, name: str, place: str) -> int:
    if len(leaf.shape) != 1 or leaf.kind not in NUMERIC_KINDS:
        what = f"has shape {leaf.shape or 1}" if leaf.kind in NUMERIC_KINDS else "holds no numbers"
        raise ProblemError(f"{place}: array {name!r} of times {what}; name one of numbers in a row with time=")
    return leaf.shape[0]


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


def read_hdf5(options: Options, time: str, own: Mapping[str, str]) -> list[Clock]:
    """Clocks of the datasets and of the fields of compound ones, by their paths in the file.

    Raises:
        ProblemError: for what is no HDF5 file, and as for arrays in groups.
    """
    path = options.path
    h5py = library("h5py", "h5py", f"{path}: an HDF5 file")
    file_at(path)
    with reading(path, "HDF5 file", "write it anew"), h5py.File(path, "r") as file:
        return clocks(_leaves(file), options, time, own, "/")


def read_matlab73(options: Options, time: str, own: Mapping[str, str]) -> list[Clock]:
    """Those of a MATLAB file of version 7.3, which is one of HDF5 with all matrices transposed."""
    path = options.path
    h5py = library("h5py", "h5py", f"{path}: a MATLAB file of version 7.3")
    with reading(path, "MATLAB file", "save it anew in MATLAB"), h5py.File(path, "r") as file:
        leaves = {
            name.replace("/", "."): leaf
            for name, leaf in _leaves(file).items()
            if not name.startswith("#") and file[name].attrs.get("MATLAB_class", b"double") not in (b"char", b"cell")
        }
        return clocks(leaves, options, time, own, ".")


def _leaves(file: Any) -> dict[str, Leaf]:
    found: dict[str, Leaf] = {}

    def visit(name: str, node: Any) -> None:
        if not hasattr(node, "dtype") or node.shape is None:  # a group, or a dataset without space
            return
        for field in node.dtype.names or (None,):
            path = name if field is None else f"{name}/{field}"
            kind = (node.dtype if field is None else node.dtype[field]).kind
            found[path] = Leaf(_squeezed(node, field), kind, partial(_load, node, field), _unit(node))

    file.visititems(visit)
    return found


def _squeezed(node: Any, field: str | None) -> tuple[int, ...]:
    inner = () if field is None else node.dtype[field].shape
    return tuple(n for n in (*node.shape, *inner) if n != 1)


def _load(node: Any, field: str | None) -> Any:
    array = node[()] if field is None else node[()][field]
    return np.squeeze(np.asarray(array))


def _unit(node: Any) -> str | None:
    """What an attribute of the dataset says."""
    for key in ("units", "unit"):
        said = node.attrs.get(key)
        if isinstance(said, bytes):
            return said.decode("utf-8", "replace")
        if isinstance(said, str):
            return said
    return None
