"""Memory that is used again.

Arrays of some megabytes come from the system as fresh pages, and touching a page for the first time costs more than
what is computed in it. Iterations that need the same arrays over and over keep them here.

Threads that share out work on several recordings. Compiled kernels and factorizations run side by side.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from spookid.kernels.arrays import Array, location

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor


_BOUNDARY = 64
"""Bytes of the vectors that compiled code works with."""


class Workspace:
    """Arrays by name; taking one again overwrites its content."""

    def __init__(self) -> None:
        self._held: dict[str, Array] = {}

    def zeros(self, name: str, shape: tuple[int, ...]) -> Array:
        """An array that is zero when it is first taken, and later is as it was left."""
        if name not in self._held or self._held[name].shape != shape:
            self._held[name] = np.zeros(shape)
        return self._held[name]

    def aligned(self, name: str, shape: tuple[int, ...]) -> Array:
        """One that begins where a vector may, of no particular contents."""
        count = math.prod(shape)
        whole = self.zeros(name, (count + _BOUNDARY // 8,))
        start = -location(whole) % _BOUNDARY // whole.itemsize
        return whole[start : start + count].reshape(shape)


A = TypeVar("A")
B = TypeVar("B")


def processors() -> int:
    """Processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class ThreadPool:
    """So many threads that share out the items of a loop, or the caller's alone for one; a context manager.

    What is done, and the order in which results are put together, does not depend on the number of threads.
    """

    def __init__(self, threads: int = 1) -> None:
        self._inside, self._errors = threading.local(), np.geterr()
        self._pool: ThreadPoolExecutor | None = None
        if threads > 1:
            from concurrent.futures import ThreadPoolExecutor  # slow to load, and few ask for it

            self._pool = ThreadPoolExecutor(threads, "spookid", self._enter)

    def _enter(self) -> None:
        self._inside.here = True
        np.seterr(**self._errors)  # what is said of numbers that overflow is what the caller has said

    def map(self, work: Callable[[A], B], items: Iterable[A]) -> list[B]:
        """The results of work on each item, in their order; raises what the first of them in order raised.

        Work that shares out work itself does it alone: it would wait for threads that wait for it.
        """
        alone = self._pool is None or getattr(self._inside, "here", False)
        return list(map(work, items) if self._pool is None or alone else self._pool.map(work, items))

    def __enter__(self) -> ThreadPool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)


SERIAL = ThreadPool()
"""The caller's own thread."""
