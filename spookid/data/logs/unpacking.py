"""Compressed parts of logs, unpacked no further than measurements compress.

The libraries that read bags and MCAP files unpack whatever a part makes, be it ten thousand times its size. While a
file is read, they take the functions of this module instead of their own.
"""

from __future__ import annotations

import bz2
import math
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from spookid.data.logs.columns import bytes_of, most_bytes, most_unpacked
from spookid.errors import ProblemError


@contextmanager
def bounded(path: Path) -> Iterator[None]:
    """Refuse to unpack files beyond available memory, or beyond the size to which measurements can compress."""
    unpacking, own = _Unpacking(path), dict[tuple[Any, str], Any]()
    likes: dict[tuple[str, str], Callable[[Any], Any]] = {
        ("mcap.stream_reader", "lz4"): unpacking.as_lz4,
        ("mcap.stream_reader", "zstandard"): unpacking.as_zstandard,
        ("rosbags.rosbag1.reader", "decompressors"): unpacking.by_name,
        ("rosbags.rosbag2.storage_mcap", "lz4_decompress"): lambda _: unpacking.as_lz4(_).decompress,
        ("rosbags.rosbag2.storage_mcap", "zstd"): unpacking.as_zstd,
        ("rosbags.rosbag2.reader", "zstd"): unpacking.as_zstd,
    }
    for (name, what), like in likes.items():
        module = sys.modules.get(name)
        if (theirs := getattr(module, what, None)) is not None:
            own[module, what] = theirs
            setattr(module, what, like(theirs))
    try:
        yield
    finally:
        for (module, what), theirs in own.items():
            setattr(module, what, theirs)


class _Unpacking:
    """Functions that unpack one file as those of libraries do."""

    def __init__(self, path: Path) -> None:
        self._path, self._left = path, most_unpacked(path)

    def as_lz4(self, own: object) -> Any:
        """As the module lz4.frame."""
        return SimpleNamespace(decompress=partial(self._whole, import_module("lz4.frame").LZ4FrameDecompressor))

    def as_zstandard(self, own: Any) -> Any:
        """As the package zstandard."""

        def decompress(data: bytes, declared: int = 0) -> bytes:
            most = int(min(self._most(), declared or math.inf))
            return self._spent(own.ZstdDecompressor().stream_reader(data).read(most + 1))

        return SimpleNamespace(decompress=decompress)

    def as_zstd(self, own: Any) -> Any:
        """Make the module for Zstandard compression look like that of Python 3.14."""

        @contextmanager
        def opened(*arguments: Any) -> Iterator[Any]:
            with own.open(*arguments) as file:
                yield SimpleNamespace(read=lambda size: self._spent(file.read(size)))

        return SimpleNamespace(decompress=partial(self._whole, own.ZstdDecompressor), open=opened)

    def by_name(self, own: Mapping[str, Callable[[bytes], bytes]]) -> dict[str, Callable[[bytes], bytes]]:
        """Make a dict from name to decompression function, for readers of ROS 1 bags."""
        return {**own, "bz2": partial(self._whole, bz2.BZ2Decompressor), "lz4": self.as_lz4(None).decompress}

    def _most(self) -> int:
        """Bytes of the next part."""
        return int(min(self._left, most_bytes(self._path)))

    def _spent(self, piece: bytes) -> bytes:
        """A piece that has been unpacked; raises ProblemError if it is too much."""
        if len(piece) > self._most():
            raise ProblemError(
                f"{self._path} unpacks to more than memory holds or than measurements compress to in its "
                f"{bytes_of(self._path):,} bytes; write it without compression"
            )
        self._left -= len(piece)
        return piece

    def _whole(self, begin: Callable[[], Any], data: bytes, *_: object) -> bytes:
        """All that is packed in data, frame by frame."""
        parts = list[bytes]()
        while data:
            one = begin()
            parts.append(self._spent(one.decompress(data, max_length=self._most() + 1)))
            if not one.eof:
                raise EOFError("a compressed part is incomplete")
            data = one.unused_data or b""
        return b"".join(parts)
