"""Tables of columns: NumPy archives (.npz), data frames of pandas, and Parquet files through pyarrow."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spookid.data.arrays import NUMERIC_KINDS
from spookid.data.logs.columns import Clock, Options, by_clocks, library, reading, short_listing, whole
from spookid.errors import ProblemError, listing
from spookid.files import unreadable


def read_npz(path: Path, wanted: Callable[[str], bool] = lambda _: True) -> dict[str, NDArray[Any]]:
    """Every array of an archive by its name; those not wanted are left unread, as empty arrays."""
    with path.open("rb") as file:
        try:
            archive: Any = np.load(file)
            names = list(archive.files)
        except Exception as error:  # of a library, at bytes that may be anything
            raise ValueError("it is no NumPy archive") from error
        found: dict[str, NDArray[Any]] = {}
        for name in names:
            if name in found:
                raise ValueError(f"array {name!r} stands in it twice")
            try:
                found[name] = np.asarray(archive[name]) if wanted(name) else np.empty(0)
            except Exception as error:
                why = "holds Python objects" if "allow_pickle" in str(error) else "is damaged"
                raise ValueError(f"array {name!r} {why}") from error
        return found


def read_archive(options: Options, time: str) -> list[Clock]:
    """The clock of the array ``time``, and those of the signals that have an array of stamps of their own.

    Without a choice every numeric array that is as long as its time is a signal. Raises `ProblemError` naming the
    array; those of Python objects are refused.
    """
    path, needed = options.path, {time, *options.of_own}
    try:
        arrays = read_npz(path, lambda name: name in needed or options.wants(name))
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
    """Clocks of the columns of numbers of a data frame; its index is the time if no column is called so."""
    place = options.path
    pandas = library("pandas", "pandas", f"{place}: a data frame")
    if not isinstance(frame, pandas.DataFrame):
        raise ProblemError(f"{place} is a {type(frame).__name__}; give a pandas.DataFrame")
    series: dict[str, Any] = {}
    for i, name in enumerate(frame.columns):
        if not isinstance(name, str) or name in series:
            wrong = f"two columns named {name!r}" if name in series else f"a column named {name!r}, which is no text"
            raise ProblemError(f"{place} has {wrong}; rename it")
        series[name] = frame.iloc[:, i]
    dates = isinstance(frame.index, (pandas.DatetimeIndex, pandas.TimedeltaIndex))
    if time not in series and (frame.index.name == time or dates):
        series[time] = frame.index.to_series()
    numeric = {name: pandas.api.types.is_numeric_dtype(values.dtype) for name, values in series.items()}
    columns = {name: _frame_values(series[name], numeric[name], from_zero) for name in _chosen(options, numeric, time)}
    return by_clocks(str(place), columns, time, options.own)


def read_parquet(options: Options, time: str, from_zero: bool) -> list[Clock]:
    """Clocks of the columns of numbers of a Parquet file, and of lists of one length: ``q[0]``, ``q[1]``."""
    path = options.path
    arrow = library("pyarrow", "pyarrow", f"{path}: a Parquet file")
    parquet = library("pyarrow.parquet", "pyarrow", f"{path}: a Parquet file")
    with reading(path, "Parquet file", "write it anew"), parquet.ParquetFile(path) as file:
        types, numeric = arrow.types, dict[str, bool]()
        for field in file.schema_arrow:  # numbers, and lists of them
            one = field.type.value_type if _is_list(types, field.type) else field.type
            numeric[field.name] = types.is_integer(one) or types.is_floating(one) or types.is_boolean(one)
        table = file.read(columns=_chosen(options, numeric, time))
        columns: dict[str, Any] = {}
        for name in table.column_names:
            columns.update(_arrow_values(types, name, table.column(name), options, from_zero))
    return by_clocks(str(path), columns, time, options.own)


def _chosen(options: Options, numeric: Mapping[str, bool], time: str) -> list[str]:
    """Columns to read: those of stamps, and what was chosen or else all of numbers."""
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
