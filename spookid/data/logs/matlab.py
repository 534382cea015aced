"""MATLAB files, through SciPy, and h5py where they are of version 7.3.

Lengths in a MATLAB file of version 5, which SciPy takes at their word: a damaged one may end the process.

The layout stands in "MAT-File Format", MathWorks, level 5.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy import io

from spookid.data.logs.columns import Clock, Options, file_at, reading
from spookid.data.logs.hdf5 import Leaf, clocks, read_matlab73

_OBJECTS = "; objects such as a timeseries are read by MATLAB alone: save ts.Time and ts.Data"


def read_matlab(options: Options, time: str, own: Mapping[str, str]) -> list[Clock]:
    """Clocks of the arrays of a file and of its structs, named ``struct.field``.

    Raises:
        ProblemError: for what is no MATLAB file, and as for arrays in groups.
    """
    path = options.path
    file_at(path)
    with reading(path, "MATLAB file", "save it anew in MATLAB, or with scipy.io.savemat"):
        check_lengths(path.read_bytes())
        try:
            variables = io.loadmat(path, squeeze_me=True, struct_as_record=False, appendmat=False)
        except NotImplementedError:  # SciPy's way to say version 7.3
            return read_matlab73(options, time, own)
    hint = _OBJECTS if "__function_workspace__" in variables else ""
    own_names = {name: value for name, value in variables.items() if not name.startswith("__")}
    return clocks(dict(_leaves(own_names, "")), options, time, own, ".", hint)


def _leaves(variables: Mapping[str, Any], group: str) -> Iterator[tuple[str, Leaf]]:
    for name, value in variables.items():
        if isinstance(value, io.matlab.mat_struct):
            yield from _leaves(vars(value), f"{group}{name}.")
        else:
            array = np.asarray(value)
            yield f"{group}{name}", Leaf(array.shape, array.dtype.kind, array.copy)


_HEADER, _VERSION = 128, 0x0100
_MATRIX, _COMPRESSED = 14, 15
_SIZES = {1: 1, 2: 1, 3: 2, 4: 2, 5: 4, 6: 4, 7: 4, 9: 8, 12: 8, 13: 8, 16: 1, 17: 2, 18: 4}
"""Bytes of a value of each type."""
_CELL, _STRUCT, _OBJECT, _CHAR, _SPARSE, _NUMBERS = 1, 2, 3, 4, 5, range(6, 16)
_DEEPEST = 50


class _Element(NamedTuple):
    kind: int
    start: int
    """Of its data."""
    size: int
    following: int
    """Where the next one begins."""


def check_lengths(content: bytes) -> None:
    """Refuse a file in which an element is longer than what holds it, or holds another number of values than it says.

    Raises:
        ValueError: for such a file; others of no version 5 are left to the reader.
    """
    order = {b"IM": "<", b"MI": ">"}.get(content[126:128])
    if order is None or len(content) < _HEADER or struct.unpack(f"{order}H", content[124:126]) != (_VERSION,):
        return
    _File(content, order).variables(_HEADER)


class _File:
    """Bytes of one order."""

    def __init__(self, content: bytes, order: str) -> None:
        self._content, self._order = content, order

    def variables(self, at: int) -> None:
        """Those that stand one after another to the end."""
        while at < len(self._content):
            one = self._element(at, len(self._content), padded=False)
            if one.kind == _COMPRESSED:
                try:
                    inside = zlib.decompress(self._content[one.start : one.start + one.size])
                except zlib.error as error:
                    raise ValueError(f"compressed data are damaged ({error})") from None
                _File(inside, self._order).variables(0)
            elif one.kind == _MATRIX:
                self._matrix(one, 0)
            else:
                raise ValueError(f"a variable of type {one.kind}")
            at = one.following

    def _numbers(self, letter: str, one: _Element) -> list[int]:
        count = one.size // struct.calcsize(letter)
        return list(struct.unpack_from(f"{self._order}{count}{letter}", self._content, one.start))

    def _element(self, at: int, end: int, padded: bool = True) -> _Element:
        """The one that begins there, with its tag."""
        if at + 8 > end:
            raise ValueError("an element is cut off")
        kind, size = struct.unpack_from(f"{self._order}II", self._content, at)
        if kind >> 16:  # of four bytes at the most, in the tag
            kind, size = kind & 0xFFFF, kind >> 16
            if size > 4 or kind not in _SIZES:
                raise ValueError("a short element is damaged")
            return _Element(kind, at + 4, size, at + 8)
        following = at + 8 + (-(-size // 8) * 8 if padded and kind != _COMPRESSED else size)
        if at + 8 + size > end:
            raise ValueError("an element is longer than what holds it")
        return _Element(kind, at + 8, size, following)

    def _matrix(self, one: _Element, depth: int) -> None:
        """An array, whatever is in it."""
        if one.size == 0:
            return  # an empty one has no more
        end = one.start + one.size
        flags = self._element(one.start, end)
        if flags.kind != 6 or flags.size != 8 or depth > _DEEPEST:
            raise ValueError("flags of an array are damaged")
        word = self._numbers("I", flags)[0]
        kind, is_complex = word & 0xFF, bool(word & 0x800)
        if kind not in (_CELL, _STRUCT, _OBJECT, _CHAR, _SPARSE, *_NUMBERS):
            return  # functions and the like are left out, or refused, by the reader
        shape = self._element(flags.following, end)
        sizes = self._numbers("i", shape) if shape.kind in (5, 6) else []
        if len(sizes) < 2 or min(sizes) < 0:
            raise ValueError("the shape of an array is damaged")
        name = self._element(shape.following, end)
        at, count = name.following, math.prod(sizes)
        if name.kind not in (1, 2, 16):
            raise ValueError("the name of an array is damaged")
        if kind == _SPARSE:
            self._sparse(at, end, sizes)
            return
        if kind in (_CELL, _STRUCT, _OBJECT):
            self._parts(kind, at, end, count, depth)
            return
        for _ in range(1 + is_complex):
            values = self._element(at, end)
            width = _SIZES.get(values.kind)
            known = width is not None and values.size % width == 0
            if not known or (kind != _CHAR and values.size // (width or 1) != count):
                raise ValueError("an array has not as many values as its shape says")
            at = values.following

    def _sparse(self, at: int, end: int, sizes: list[int]) -> None:
        """Rows of the values, where columns begin among them, and the values."""
        rows = self._element(at, end)
        begins = self._element(rows.following, end)
        values = self._element(begins.following, end)
        if rows.kind not in (5, 6) or begins.kind not in (5, 6) or values.kind not in _SIZES:
            raise ValueError("a sparse array is damaged")
        of, edges = self._numbers("i", rows), self._numbers("i", begins)
        fits = len(edges) == sizes[1] + 1 and edges == sorted(edges) and edges[0] == 0 and edges[-1] <= len(of)
        if not fits or not all(0 <= row < sizes[0] for row in of[: edges[-1]]):
            raise ValueError("a sparse array is damaged")
        if values.size < edges[-1]:  # of logical ones a byte each
            raise ValueError("a sparse array has not as many values as it says")

    def _parts(self, kind: int, at: int, end: int, count: int, depth: int) -> None:
        """Cells, or fields of structs."""
        if kind == _OBJECT:
            at = self._element(at, end).following
        if kind != _CELL:
            width = self._element(at, end)
            if width.kind != 5 or width.size != 4:
                raise ValueError("names of fields are damaged")
            names = self._element(width.following, end)
            (length,) = self._numbers("i", width)
            if names.kind != 1 or length <= 0 or names.size % length:
                raise ValueError("names of fields are damaged")
            at, count = names.following, count * (names.size // length)
        for _ in range(count):
            part = self._element(at, end)
            if part.kind != _MATRIX:
                raise ValueError("a part of an array is none")
            self._matrix(part, depth + 1)
            at = part.following
