"""Pickles that are read and not executed."""

from __future__ import annotations

import collections
import io
import os
import pickle
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from spookid.data.pickled import Record, array, read
from spookid.errors import ProblemError

PROTOCOLS = range(pickle.HIGHEST_PROTOCOL + 1)


class Call:
    """Pickled as a call."""

    def __init__(self, called: Any, *arguments: Any) -> None:
        self.call = called, arguments

    def __reduce__(self) -> tuple[Any, ...]:
        return self.call


class Point:
    def __init__(self) -> None:
        self.x, self.twice = 1.5, [1, 2]
        self.same = self.twice


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_plain_values_are_themselves(protocol: int) -> None:
    values = [
        None, True, False, 0, -1, 255, 65_536, 2**40, -(2**80), 1.5, "text", "Grüße\n", b"bytes", (), (1,), (1, 2),
        (1, 2, 3), (1, 2, 3, 4), [], [[1], {}], {"a": {"b": 2}, 3: 4}, "x" * 300, b"y" * 300,
    ]  # fmt: skip
    found = read(pickle.dumps(values, protocol), "a file")
    plain = [f.arguments[0].encode("latin1") if isinstance(f, Record) and f.arguments else f for f in found]
    assert plain == values


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_objects_are_records(protocol: int) -> None:
    found = read(pickle.dumps([Point(), collections.OrderedDict(a=1), {1, 2}], protocol), "a file")
    assert found[0].name == f"{__name__} Point"
    assert found[0].state == {"x": 1.5, "twice": [1, 2], "same": [1, 2]}
    assert found[0].state["twice"] is found[0].state["same"]
    assert found[1].name == "collections OrderedDict"


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("dtype", ["f8", "f4", ">f8", "i4", "u2", "?"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays_are_made_of_their_bytes(protocol: int, dtype: str, order: Any) -> None:
    values = np.arange(12).reshape(3, 4).astype(dtype, order=order)
    found = array(read(pickle.dumps(values, protocol), "a file"))
    assert np.array_equal(found, values)
    assert found.dtype == values.dtype


class NumpyArrayWrapper:
    """The record that joblib writes in front of an array's bytes."""

    __module__ = "joblib.numpy_pickle"

    def __init__(self, values: np.ndarray, alignment: int | None) -> None:
        self.subclass, self.shape, self.dtype, self.allow_mmap = np.ndarray, values.shape, values.dtype, True
        self.order = "C"
        if alignment is not None:
            self.numpy_array_alignment_bytes = alignment


class Joblib(pickle._Pickler):  # type: ignore[name-defined, misc]
    """Pickles arrays as joblib does: their record, padding of the newer versions, their bytes."""

    alignment: int | None = None

    def save(self, obj: Any, *rest: Any) -> None:
        if not isinstance(obj, np.ndarray):
            return super().save(obj, *rest)
        super().save(NumpyArrayWrapper(obj, self.alignment))
        self.framer.commit_frame(force=True)
        padding = b"" if self.alignment is None else bytes([3]) + b"\xff" * 3
        self._file_write(padding + obj.tobytes())
        return None


@pytest.mark.parametrize("alignment", [None, 16])
@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_arrays_behind_their_records_are_read(
    protocol: int, alignment: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = ModuleType("joblib.numpy_pickle")
    module.NumpyArrayWrapper = NumpyArrayWrapper  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "joblib", module)
    monkeypatch.setitem(sys.modules, "joblib.numpy_pickle", module)
    file = io.BytesIO()
    pickler = Joblib(file, protocol)
    pickler.alignment, pickler._file_write = alignment, file.write
    values = [np.arange(6.0).reshape(2, 3), np.arange(4, dtype="f4"), "after"]
    pickler.dump(values)
    first, second, third = read(file.getvalue(), "a file")
    assert np.array_equal(array(first), values[0])
    assert np.array_equal(array(second), values[1])
    assert third == "after"


@pytest.mark.parametrize("values", [np.array([None, 1]), np.array(["text"]), np.zeros(2, dtype=[("a", "f8")])])
def test_arrays_of_anything_but_numbers_are_refused(values: np.ndarray) -> None:
    with pytest.raises(ValueError, match="something else than numbers"):
        array(read(pickle.dumps(values), "a file"))
    with pytest.raises(ValueError, match="no array of numbers"):
        array([1.0, 2.0])


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_malicious_pickle_executes_nothing(protocol: int, tmp_path: Path) -> None:
    trace = tmp_path / "executed"
    evil = pickle.dumps([Call(os.mkdir, str(trace)), Call(eval, f"open({str(trace)!r}, 'w')")], protocol)
    first, second = read(evil, "a file")
    assert (first.name.split()[1], first.arguments) == ("mkdir", (str(trace),))
    assert second.name.endswith(" eval")
    assert not trace.exists()
    pickle.loads(pickle.dumps(Call(os.mkdir, str(trace)), protocol))
    assert trace.exists()  # it would have been


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "is no pickle"),
        (b"<html>", "is no pickle"),
        (b"\x80\x04R.", "is no pickle"),
        (b"0.", "is no pickle"),
        (b"h\x07.", "is no pickle"),
        (b"}]K\x01s.", "is no pickle"),
        (pickle.dumps(list(range(9)))[:-5], "is no pickle"),
        (b"Pname\n.", "holds the instruction PERSID"),
        (b"\x80\x02\x82\x01.", "holds the instruction EXT1"),
    ],
)
def test_what_cannot_be_read_is_refused(content: bytes, why: str) -> None:
    with pytest.raises(ProblemError, match=f"^a file {why}"):
        read(content, "a file")
