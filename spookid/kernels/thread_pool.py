"""Threads that share out work on several recordings, or on both ends of one; compiled code runs side by side."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

import numpy as np

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    from spookid.kernels.kernel import Array, Evaluate

A = TypeVar("A")
B = TypeVar("B")


_FEWEST_NUMBERS, _LANES = 10_000, 8
"""Numbers of a kernel for two threads to gain, and steps that compiled code works on at once."""


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

        Work that shares out work itself does it alone, unless it is on the only item: it would wait for threads that
        wait for it.
        """
        given = list(items)
        return list(
            map(work, given) if self._pool is None or len(given) < 2 or self._busy else self._pool.map(work, given)
        )

    @property
    def _busy(self) -> bool:
        """True in a thread of this pool."""
        return getattr(self._inside, "here", False)

    def before_last(self, work: Callable[[Sequence[A]], B], items: Sequence[A]) -> list[B]:
        """Work on items that may go side by side but for the last, which comes after them; where there is no more than
        one thread, it is on all of them in their order."""
        if self._pool is None or self._busy or len(items) < 3:
            return [work(items)]
        return [*self.map(lambda item: work([item]), items[:-1]), work(items[-1:])]

    def after_first(self, work: Callable[[Sequence[A]], B], items: Sequence[A]) -> list[B]:
        """The same of items that may go side by side after the first."""
        if self._pool is None or self._busy or len(items) < 3:
            return [work(items)]
        return [work(items[:1]), *self.map(lambda item: work([item]), items[1:])]

    def evaluate(self, kernel: Evaluate, stepwise: Sequence[Array], shared: Sequence[Array], out: Array) -> Array:
        """What a kernel gives along a horizon, which it is given in two parts if they gain by it."""
        middle = len(out) // (2 * _LANES) * _LANES if out.size >= _FEWEST_NUMBERS and self._pool is not None else 0
        parts = [slice(middle, None), slice(0, middle)] if middle else [slice(None)]
        self.map(lambda some: kernel([a[some] for a in stepwise], shared, out[some]), parts)
        return out

    def __enter__(self) -> ThreadPool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)


SERIAL = ThreadPool()
"""The caller's own thread."""
