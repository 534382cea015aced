"""Tables in columns: data frames of pandas, and Parquet files through pyarrow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spookid.data.logs.columns import Clock, Options, file_at, library, reading, short_listing, whole
from spookid.errors import ProblemError


def read_frame(frame: Any, options: Options, time: str, own: Mapping[str, str], from_zero: bool) -> list[Clock]:
    """Clocks of the columns of numbers of a data frame; its index is the time if no column is called so.

    Raises:
        ProblemError: for what is no data frame, a missing column, and one whose name is no text.
    """
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
    columns = {
        name: _frame_values(series[name], numeric[name], from_zero) for name in _chosen(options, numeric, time, own)
    }
    return _split(str(place), columns, time, own)


def read_parquet(options: Options, time: str, own: Mapping[str, str], from_zero: bool) -> list[Clock]:
    """Clocks of the columns of numbers of a Parquet file, and of lists that are all of one length: ``q[0]``, ``q[1]``.

    Raises:
        ProblemError: for what is no Parquet file, a missing column, and lists of several lengths.
    """
    path = options.path
    arrow = library("pyarrow", "pyarrow", f"{path}: a Parquet file")
    parquet = library("pyarrow.parquet", "pyarrow", f"{path}: a Parquet file")
    file_at(path)
    with reading(path, "Parquet file", "write it anew"), parquet.ParquetFile(path) as file:
        numeric = {field.name: _is_numeric(arrow.types, field.type) for field in file.schema_arrow}
        table = file.read(columns=_chosen(options, numeric, time, own))
        columns: dict[str, Any] = {}
        for name in table.column_names:
            columns.update(_arrow_values(arrow.types, name, table.column(name), options, from_zero))
    return _split(str(path), columns, time, own)


def _chosen(options: Options, numeric: Mapping[str, bool], time: str, own: Mapping[str, str]) -> list[str]:
    """Columns to read: those of stamps, and what was chosen or else all of numbers."""
    for name in (time, *own, *own.values(), *(options.signals or ())):
        if name not in numeric and (name == time or whole(name) not in numeric):
            remedy = ": name one of them with time=" if name == time else ""
            raise ProblemError(f"{options.path} has no column {name!r}; it has {short_listing([*numeric])}{remedy}")
    needed = {time, *own, *own.values(), *(options.signals or ()), *map(whole, options.signals or ())}
    return [name for name, is_number in numeric.items() if name in needed or (options.signals is None and is_number)]


def _split(place: str, columns: Mapping[str, Any], time: str, own: Mapping[str, str]) -> list[Clock]:
    """The columns of a table by their clocks."""
    others = {*own, *own.values()}
    found = [Clock(place, time, columns[time], {n: v for n, v in columns.items() if n != time and n not in others})]
    for stamps in dict.fromkeys(own.values()):
        signals = {name: columns[name] for name, column in own.items() if column == stamps}
        found.append(Clock(place, stamps, columns[stamps], signals, ordered=False))
    return found


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


def _is_numeric(types: Any, kind: Any) -> bool:
    """True for numbers, and for lists of them."""
    one = kind.value_type if _is_list(types, kind) else kind
    return bool(types.is_integer(one) or types.is_floating(one) or types.is_boolean(one))


def _seconds(values: NDArray[Any], from_zero: bool) -> NDArray[Any]:
    """Dates as seconds since the first one, or since 1970; durations in seconds; anything else as it is."""
    if values.dtype.kind not in "mM" or not values.size:
        return values
    missing = np.isnat(values)
    ticks = values.astype(f"{values.dtype.kind}8[ns]").astype(np.int64)
    if values.dtype.kind == "M" and from_zero and not missing.all():
        ticks = ticks - ticks[~missing].min()
    return np.where(missing, np.nan, ticks / 1e9)
