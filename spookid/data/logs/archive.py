"""NumPy archives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from spookid.data.arrays import NUMERIC_KINDS
from spookid.data.files import listing
from spookid.data.logs.columns import Clock, Options, unreadable
from spookid.data.npz import read_npz
from spookid.errors import ProblemError


def read_archive(options: Options, time: str, own: Mapping[str, str]) -> list[Clock]:
    """The clock of the array ``time``, and those of the signals that have an array of stamps of their ``own``.

    Without a choice every numeric array that is as long as its time is a signal. Raises `ProblemError` naming the
    array; those of Python objects are refused.
    """
    path, others = options.path, {*own, *own.values()}
    arrays = _arrays(path, lambda name: name in (time, *others) or options.wants(name))
    chosen = None if options.signals is None else options.chosen(arrays)
    for name in [time, *(chosen or ()), *others]:
        if name not in arrays:
            remedy = ": name one of them with time=" if name == time else ""
            raise ProblemError(f"{path} has no array {name!r}; it has {listing(arrays)}{remedy}")
    t = arrays[time]
    signals = {
        name: array
        for name, array in arrays.items()
        if name != time and name not in others and (_is_signal(array, t) if chosen is None else name in chosen)
    }
    clocks = [Clock(str(path), time, t, signals, kind="array", row="sample")]
    for stamps in dict.fromkeys(own.values()):
        columns = {name: arrays[name] for name, column in own.items() if column == stamps}
        clocks.append(Clock(str(path), stamps, arrays[stamps], columns, kind="array", row="sample", ordered=False))
    return clocks


def _is_signal(array: NDArray[Any], t: NDArray[Any]) -> bool:
    return array.shape == t.shape and array.dtype.kind in NUMERIC_KINDS


def _arrays(path: Path, wanted: Callable[[str], bool]) -> dict[str, NDArray[Any]]:
    """Every array of the archive by name; those not wanted are left unread, as empty arrays."""
    try:
        return read_npz(path, wanted)
    except OSError as error:
        raise unreadable(path, error) from None
    except ValueError as error:
        raise ProblemError(f"{path}: {error}; write it with numpy.savez, of plain numbers") from None
