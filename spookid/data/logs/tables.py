"""Tables of columns and named arrays in groups.

NumPy archives (.npz), data frames of pandas, Parquet files through pyarrow; HDF5 files through h5py, and MATLAB files
through SciPy, of version 7.3 through h5py. In groups it is the same which arrays are timestamps, and which are signals
of which clock.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spookid.data.arrays import NUMERIC_KINDS
from spookid.data.logs.columns import (
    COPIES,
    Clock,
    Options,
    by_clocks,
    check_amount,
    library,
    most_bytes,
    reading,
    short_listing,
    whole,
)
from spookid.data.logs.lines import time_in, time_of
from spookid.errors import ProblemError, listing
from spookid.files import regular, unreadable
from spookid.records import dataclass

EPISODES = "episode_index"
"""Column of LeRobot datasets."""


def read_npz(
    path: Path, wanted: Callable[[str], bool] = lambda _: True, like: str | None = None
) -> dict[str, NDArray[Any]]:
    """Read a dict of named arrays; unwanted arrays, or arrays of another shape than ``like``, are empty."""
    with regular(path).open("rb") as file:
        try:
            archive: Any = np.load(file)
            names = list(archive.files)
            sizes = {one.filename.removesuffix(".npy"): one.file_size for one in archive.zip.infolist()}
        except Exception as error:  # of a library, at bytes that may be anything
            raise ValueError("the file is no NumPy archive") from error
        found: dict[str, NDArray[Any]] = {}
        shape = None if like is None else _shape(archive, like)
        read = {name for name in names if wanted(name) and (not shape or _shape(archive, name) in (shape, None))}
        check_amount(path, sum(sizes[name] for name in read) / 8)
        for name in names:
            if name in found:
                raise ValueError(f"it has the array {name!r} twice")
            try:
                found[name] = np.asarray(archive[name]) if name in read else np.empty(0)
            except Exception as error:
                why = "holds Python objects" if "allow_pickle" in str(error) else "is damaged"
                raise ValueError(f"array {name!r} {why}") from error
        return found


def _shape(archive: Any, name: str) -> tuple[int, ...] | None:
    """That an array of an archive declares; None if it does so in no way that is known."""
    with suppress(Exception), archive.zip.open(f"{name}.npy") as member:
        header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
        shape, _, kind = header[np.lib.format.read_magic(member)](member)
        return None if kind.hasobject else shape
    return None


def read_archive(options: Options, time: str) -> list[Clock]:
    """Read an archive: signals sampled at the array ``time``, and signals with their own timestamps.

    Without a choice every numeric array that is as long as its time is a signal. Raises `ProblemError` naming the
    array; those of Python objects are refused.
    """
    path = options.path
    try:
        time = time_of(time, read_npz(path, lambda _: False))
        needed = {time, *options.of_own}
        like = time if options.signals is None and not options.own else None
        arrays = read_npz(path, lambda name: name in needed or options.wants(name), like)
    except ProblemError:
        raise
    except OSError as error:
        raise unreadable(path, error) from None
    except ValueError as error:
        raise ProblemError(f"{path}: {error}; write it with numpy.savez, of plain numbers") from None
    needed |= set(options.chosen(arrays))
    for name in [time, *needed]:
        if name not in arrays:
            remedy = ": name one of them with time=" if name == time else ""
            raise ProblemError(f"{path} has no array {name!r}; it has {listing(arrays)}{remedy}")
    if options.signals is None:
        shape = arrays[time].shape
        needed |= {n for n, one in arrays.items() if one.shape == shape and one.dtype.kind in NUMERIC_KINDS}
    columns = {name: array for name, array in arrays.items() if name in needed}
    return by_clocks(str(path), columns, time, options.own, kind="array", row="sample")


def read_frame(frame: Any, options: Options, time: str, from_zero: bool) -> list[Clock]:
    """Read the numerical columns of a data frame; its index is the time if no column has that name."""
    place = options.path
    pandas = library("pandas", "pandas", f"{place}: a data frame")
    if not isinstance(frame, pandas.DataFrame):
        raise ProblemError(f"{place} is a {type(frame).__name__}; give a pandas.DataFrame")
    series: dict[str, Any] = {}
    for i, name in enumerate(frame.columns):
        if not isinstance(name, str) or name in series:
            wrong = f"two columns are named {name!r}" if name in series else f"the column name {name!r} is not text"
            raise ProblemError(f"{place}: {wrong}; rename the column")
        series[name] = frame.iloc[:, i]
    dates = isinstance(frame.index, (pandas.DatetimeIndex, pandas.TimedeltaIndex))
    if time not in series and (frame.index.name == time or dates):
        series[time] = frame.index.to_series()
    time = time_of(time, series)
    numeric = {name: pandas.api.types.is_numeric_dtype(values.dtype) for name, values in series.items()}
    columns = {name: _frame_values(series[name], numeric[name], from_zero) for name in _chosen(options, numeric, time)}
    return by_clocks(str(place), columns, time, options.own)


def read_parquet(options: Options, time: str, from_zero: bool, rows: tuple[str, int] | None = None) -> list[Clock]:
    """Read the numerical columns of a Parquet file, and lists of equal length: ``q[0]``, ``q[1]``; with ``rows`` only
    where a column has a number."""
    path = options.path
    arrow = library("pyarrow", "pyarrow", f"{path}: a Parquet file")
    parquet = library("pyarrow.parquet", "pyarrow", f"{path}: a Parquet file")
    with reading(path, "Parquet file", "write it anew"), parquet.ParquetFile(path) as file:
        types, numeric = arrow.types, dict[str, bool]()
        for field in file.schema_arrow:  # numbers, and lists of them
            one = field.type.value_type if _is_list(types, field.type) else field.type
            numeric[field.name] = types.is_integer(one) or types.is_floating(one) or types.is_boolean(one)
        time = time_of(time, numeric) if time else time_in(numeric)
        chosen = _chosen(options, numeric, time)
        check_amount(path, file.metadata.num_rows * len(chosen))  # and of lists as they come, in parts
        if rows is None and EPISODES in numeric and len(file.read(columns=[EPISODES]).column(0).unique()) > 1:
            raise ProblemError(f"{path} has several episodes of a LeRobot dataset; give the dataset's folder instead")
        batches, size = [file.schema_arrow.empty_table().select(chosen)], 0
        for batch in file.iter_batches(columns=[*dict.fromkeys([*chosen, *(rows or ())[:1]])]):
            part = arrow.Table.from_batches([batch])
            if rows is not None:
                part = part.filter(library("pyarrow.compute", "pyarrow", "it").equal(part.column(rows[0]), rows[1]))
            check_amount(path, (size := size + part.nbytes) / 8)
            batches.append(part.select(chosen))
        table = arrow.concat_tables(batches)
        columns: dict[str, Any] = {}
        for name in table.column_names:
            columns.update(_arrow_values(types, name, table.column(name), options, from_zero))
    return by_clocks(str(path), columns, time, options.own)


def _chosen(options: Options, numeric: Mapping[str, bool], time: str) -> list[str]:
    """Columns to read: those of timestamps, and what was chosen or else all of numbers."""
    needed = {time: None, **dict.fromkeys([*options.own, *options.own.values(), *(options.signals or ())])}
    for name in needed:
        if name not in numeric and (name == time or whole(name) not in numeric):
            remedy = ": name one of them with time=" if name == time else ""
            raise ProblemError(f"{options.path} has no column {name!r}; it has {short_listing([*numeric])}{remedy}")
    needed |= dict.fromkeys(map(whole, options.signals or ()))
    return [name for name, is_number in numeric.items() if name in needed or (options.signals is None and is_number)]


def _frame_values(series: Any, numeric: bool, from_zero: bool) -> NDArray[Any]:
    if numeric:
        return np.asarray(series.to_numpy(dtype=np.float64, na_value=np.nan))
    zone = getattr(series.dtype, "tz", None)
    return _seconds(np.asarray((series if zone is None else series.dt.tz_convert(None)).to_numpy()), from_zero)


def _arrow_values(types: Any, name: str, column: Any, options: Options, from_zero: bool) -> dict[str, NDArray[Any]]:
    if not _is_list(types, column.type):
        return {name: _seconds(np.asarray(column.to_numpy(zero_copy_only=False)), from_zero)}
    lists = column.to_pylist()
    lengths = {None if one is None else len(one) for one in lists}
    if len(lengths) > 1 or lengths == {None}:
        if options.signals is None:
            return {}
        raise ProblemError(f"{options.path}, column {name!r} has lists of several lengths; choose others with signals=")
    values = np.array(lists, dtype=np.float64)
    names = [f"{name}[{i}]" for i in range(values.shape[1] if lists else 0)]
    return {one: values[:, i] for i, one in enumerate(names) if options.wants(one)}


def _is_list(types: Any, kind: Any) -> bool:
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _seconds(values: NDArray[Any], from_zero: bool) -> NDArray[Any]:
    """Dates as seconds since the first one, or since 1970; durations in seconds; anything else as it is."""
    if values.dtype.kind not in "mM" or not values.size:
        return values
    missing = np.isnat(values)
    ticks = values.astype(f"{values.dtype.kind}8[ns]").astype(np.int64)
    if values.dtype.kind == "M" and from_zero and not missing.all():
        ticks = ticks - ticks[~missing].min()
    return np.where(missing, np.nan, ticks / 1e9)


@dataclass(frozen=True, eq=False)
class Leaf:
    """An array in a file that is read at its first use."""

    shape: tuple[int, ...]  # with axes of length one left out
    kind: str  # ``dtype.kind``
    load: Callable[[], NDArray[Any]]  # the array, of that shape
    unit: str | None = None  # as the file says it


def clocks(leaves: Mapping[str, Leaf], options: Options, time: str, separator: str, hint: str = "") -> list[Clock]:
    """Numerical arrays as long as the array ``time`` in the same group of the file, or in an enclosing group.

    A matrix with a row, or column, for each timestamp is a signal for each of the others: ``q[0]``, ``q[1]``.
    """
    place, own = str(options.path), options.own
    names = [name.rpartition(separator)[2] for name in leaves]
    time = time_of(time, names) if time else time_in(names)
    for name in (*own, *own.values()):
        if name not in leaves:
            raise ProblemError(f"{place} has no array {name!r}, which times= names; it has {short_listing([*leaves])}")
    of = {name: own.get(name) or stamps_of(name, leaves, time, separator) for name in leaves}
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
    asked = leaves.keys() if options.signals is None else {*options.signals, *map(whole, options.signals), *stamps}
    shapes = [
        leaves[name].shape for name, on in of.items() if name in asked and on and lengths[on] in leaves[name].shape
    ]
    check_amount(options.path, sum(math.prod(shape) for shape in shapes if len(shape) < 3))
    found: dict[str, dict[str, Any]] = {}
    known: list[str] = []
    for name, leaf in leaves.items():
        clock = of[name]
        columns = [] if name in stamps or clock is None or name not in asked else _columns(name, leaf, lengths[clock])
        known += columns or [name] * (name not in asked or name in (options.signals or ()))
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


def stamps_of(name: str, leaves: Mapping[str, Leaf], time: str, separator: str) -> str | None:
    """Path of the timestamps in the group of an array, or in the nearest enclosing group that has some."""
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
    """Read an HDF5 file: datasets and fields of compound datasets, named by their paths, grouped by timestamps."""
    path = options.path
    h5py = library("h5py", "h5py", f"{path}: an HDF5 file")
    with reading(path, "HDF5 file", "write it anew"), h5py.File(path, "r") as file:
        return clocks(_leaves(file, path), options, time, "/")


def _read_matlab73(options: Options, time: str) -> list[Clock]:
    """Those of a MATLAB file of version 7.3, which is one of HDF5 with all matrices transposed."""
    path = options.path
    h5py = library("h5py", "h5py", f"{path}: a MATLAB file of version 7.3")
    with reading(path, "MATLAB file", "save it anew in MATLAB"), h5py.File(path, "r") as file:
        leaves = {
            name.replace("/", "."): leaf
            for name, leaf in _leaves(file, path).items()
            if not name.startswith("#") and file[name].attrs.get("MATLAB_class", b"double") not in (b"char", b"cell")
        }
        return clocks(leaves, options, time, ".")


def _leaves(file: Any, place: Path) -> dict[str, Leaf]:
    found: dict[str, Leaf] = {}

    def visit(name: str, node: Any) -> None:
        if not hasattr(node, "dtype") or node.shape is None:  # a group, or a dataset without space
            return
        if node.external or node.is_virtual:
            raise ProblemError(f"{place}: {name!r} takes its numbers from other files; copy them into this one")
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
    return np.squeeze(np.asarray(node[() if field is None else field]))


_OBJECTS = "; objects such as a timeseries are read by MATLAB alone: save ts.Time and ts.Data"


def read_matlab(options: Options, time: str) -> list[Clock]:
    """Read a MATLAB file: arrays, also in structs, named ``struct.field``, grouped by timestamps."""
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
    import subprocess  # slow to load, and few ask for it

    code = """
import sys
from contextlib import suppress
from scipy import io
with suppress(ImportError):
    import resource
    resource.setrlimit(resource.RLIMIT_DATA, 2 * (int(sys.argv[2]),))
try:
    io.loadmat(sys.argv[1], appendmat=False)
except MemoryError:
    sys.exit(3)
"""
    with suppress(OSError):  # of a system without processes
        words = [sys.executable, "-c", code, str(path), f"{COPIES * most_bytes(path):.0f}"]
        ended = subprocess.run(words, capture_output=True, check=False).returncode
        if ended == 3:
            raise ValueError("the file declares more numbers than measurements can compress to")
        if not 0 <= ended < 256:  # by a signal; what ends by an exception raises it here, too
            raise ValueError("lengths in the file are wrong")


def _variables(variables: Mapping[str, Any], group: str) -> Iterator[tuple[str, Leaf]]:
    for name, value in variables.items():
        if type(value).__name__ == "mat_struct":
            yield from _variables(vars(value), f"{group}{name}.")
        else:
            array = np.asarray(value)
            yield f"{group}{name}", Leaf(array.shape, array.dtype.kind, array.copy)
