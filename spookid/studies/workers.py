"""Worker processes: one thread each, deaf to Ctrl-C, and gone when the process that started them is.

It imports nothing that is slow or reads the environment: a worker runs it before all else.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Executor, ProcessPoolExecutor
from contextlib import ExitStack, contextmanager

_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


@contextmanager
def processes(jobs: int) -> Iterator[Executor]:
    """An executor of ``jobs`` fresh processes. If the block is left by an exception, what they do is cut off."""
    before = set(multiprocessing.active_children())
    with _one_thread_each():
        pool = ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), begin)
        try:
            yield pool
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for child in set(multiprocessing.active_children()) - before:
                child.terminate()
            raise
        pool.shutdown()


@contextmanager
def lasting(jobs: int) -> Iterator[Callable[[], Executor]]:
    """What gives an executor of ``jobs`` processes: at every call the same, or another once one of them has died."""
    with ExitStack() as stack:
        made: list[Executor] = []

        def current() -> Executor:
            if not (made and _whole(made[-1])):
                made.append(stack.enter_context(processes(jobs)))
            return made[-1]

        yield current


def _whole(pool: Executor) -> bool:
    try:
        pool.submit(int)
    except BrokenExecutor:
        return False
    return True


def begin() -> None:
    """First act of a worker: Ctrl-C is for the parent to handle, and a worker does not outlive it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_follow, args=(parent,), daemon=True).start()


def _follow(parent: multiprocessing.process.BaseProcess) -> None:
    parent.join()
    os._exit(1)


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Processes started meanwhile use one thread: as many processes as processors are enough."""
    before = {name: os.environ.get(name) for name in _THREADS}
    os.environ.update(dict.fromkeys(_THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
