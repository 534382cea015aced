"""Who solves the points of a sweep: worker processes of this machine, or those of a Dask cluster."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from loky import get_reusable_executor

from spookid.errors import ProblemError

_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
_PATIENCE = "10s"


def processes(jobs: int) -> Executor:
    """An executor of so many processes of one thread each: at every call the same, or another if one of them died.

    Processes that have nothing to do end by themselves.
    """
    one_each = dict.fromkeys(_THREADS, "1")
    with _blocked(), _quiet():
        executor: Executor = get_reusable_executor(jobs, initializer=_begin, initargs=(os.getpid(),), env=one_each)
        executor.submit(int)  # which starts them
    return executor


@contextmanager
def _quiet() -> Iterator[None]:
    """The process that clears up after workers, which begins here, does not warn the user of what it clears up."""
    before = os.environ.get("PYTHONWARNINGS")
    os.environ["PYTHONWARNINGS"] = ",".join(filter(None, [before, "ignore:resource_tracker"]))
    try:
        yield
    finally:
        os.environ.pop("PYTHONWARNINGS")
        if before is not None:
            os.environ["PYTHONWARNINGS"] = before


@contextmanager
def _blocked() -> Iterator[None]:
    """Processes that are started meanwhile never hear Ctrl-C and SIGTERM, not even before `_begin`; this one hears them
    after it."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def cut_off(executor: Executor) -> None:
    """End the `processes` and what they are at."""
    executor.shutdown(wait=False, kill_workers=True)  # type: ignore[call-arg]


def _begin(parent: int) -> None:
    """First act of a worker: Ctrl-C is for the parent to handle, and a worker does not outlive it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_follow, args=(parent,), daemon=True).start()


def _follow(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.2)
    os._exit(1)


@contextmanager
def cluster(address: str) -> Iterator[Executor]:
    """An executor over the workers of the Dask scheduler at ``address``, such as ``tcp://10.0.0.1:8786``.

    Workers need this version of spookid and the problem file with its data at the same path.

    Raises:
        ProblemError: if Dask, the extra ``spookid[dask]``, is not installed or nobody answers.
    """
    try:
        distributed: Any = import_module("distributed")
    except ImportError:
        raise ProblemError("a scheduler needs Dask; install it with: pip install 'spookid[dask]'") from None
    try:
        client = distributed.Client(address, timeout=_PATIENCE)
    except (OSError, ValueError) as error:
        raise ProblemError(f"no Dask scheduler answers at {address} ({error}); check the address") from None
    with client:
        executor: Executor = client.get_executor(pure=False)
        try:
            yield executor
        finally:
            executor.shutdown(wait=False)  # what is still running is of no use: closing the client cancels it
