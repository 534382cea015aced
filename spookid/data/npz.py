"""NumPy archives (.npz), read as what they say they are: nothing is allocated that the file does not hold."""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

_END = ".npy"
_LARGE, _DENSE = 2**31, 100
"""Bytes from which an array counts as large, and how many times smaller than itself it may then be compressed."""


def read_npz(path: Path, wanted: Callable[[str], bool] = lambda _: True) -> dict[str, NDArray[Any]]:
    """Every array of an archive by its name; those not wanted are left unread, as empty arrays.

    Raises:
        OSError: as the system says it.
        ValueError: for whatever else is wrong, with the array's name and what it is in words.
    """
    with path.open("rb") as file:
        try:
            archive = zipfile.ZipFile(file)
        except Exception as error:  # of a library, at bytes that may be anything
            raise ValueError("it is no NumPy archive") from error
        found: dict[str, NDArray[Any]] = {}
        for member in archive.infolist():
            name = member.filename.removesuffix(_END)
            if name in found:
                raise ValueError(f"array {name!r} stands in it twice")
            try:
                found[name] = _array(archive, member) if wanted(name) else np.empty(0)
            except Exception as error:
                why = error if isinstance(error, _Refused) else "is damaged"
                raise ValueError(f"array {name!r} {why}") from error
        return found


class _Refused(Exception):  # noqa: N818, what is wrong with an array, in words
    pass


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> NDArray[Any]:
    if member.file_size > _LARGE and member.file_size > _DENSE * member.compress_size:
        raise _Refused(f"would be {member.file_size:,} bytes of the {member.compress_size:,} in the file")
    content = archive.read(member)
    stream = io.BytesIO(content)
    version = npy.read_magic(stream)
    header = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}.get(version)
    if header is None:
        raise _Refused(f"is of version {version} of NumPy's format, not of 1.0 or 2.0")
    shape, by_column, dtype = header(stream)
    if dtype.hasobject:
        raise _Refused("holds Python objects")
    start, count = stream.tell(), math.prod(shape)  # of Python's whole numbers, which do not overflow
    if min(shape, default=0) < 0 or count * dtype.itemsize != len(content) - start or count > len(content):
        raise _Refused(f"says that its shape is {shape}, and has {len(content) - start:,} bytes")
    return np.ndarray(shape, dtype, content, start, order="F" if by_column else "C").copy()
