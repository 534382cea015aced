"""Who solves the points of a sweep: worker processes of this machine, or those of a Dask cluster."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
import weakref
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, InvalidStateError
from contextlib import contextmanager, suppress
from functools import partial
from importlib import import_module
from multiprocessing import resource_tracker
from typing import Any

from loky import get_reusable_executor

from spookid.errors import ProblemError
from spookid.kernels import compiler
from spookid.kernels.single_thread import ONE_THREAD

_PATIENCE = "10s"
_GLANCE = 0.2
"""How often is seen whether a scheduler is there [s]."""


def processes(jobs: int) -> Executor:
    """An executor of so many processes of one thread each: at every call the same, or another if one of them died.

    Processes that have nothing to do end by themselves.
    """
    with _quiet():
        resource_tracker.ensure_running()  # where Python begins it, signals are unblocked
    with _blocked(), _quiet():
        executor: Executor = get_reusable_executor(jobs, initializer=_begin, initargs=(os.getpid(),), env=ONE_THREAD)
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
    compiler.end_all()
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
    logging.getLogger("distributed.client").setLevel(logging.CRITICAL)  # what it loses is done again, or told below
    try:
        client = distributed.Client(address, timeout=_PATIENCE)
    except (OSError, ValueError) as error:
        raise ProblemError(f"no Dask scheduler answers at {address} ({error}); check the address") from None
    with client:
        executor = Cluster(client, address)
        try:
            yield executor
        finally:
            executor.shutdown(wait=False)  # what is still running is of no use: closing the client cancels it


class Cluster(Executor):
    """Work of a cluster, which fails once its scheduler is gone: Dask would let it wait for ever."""

    def __init__(self, client: Any, address: str) -> None:
        self._client, self._executor = client, client.get_executor(pure=False)
        self._gone = ProblemError(
            f"the Dask scheduler at {address} is gone; once there is one, the same command goes on with what is kept"
        )
        self._running = weakref.WeakSet[Future[Any]]()
        threading.Thread(target=self._watch, daemon=True).start()

    def submit(self, work: Any, /, *given: Any, **named: Any) -> Future[Any]:
        """Raises ProblemError if the scheduler is gone."""
        if self._client.status != "running":
            raise self._gone
        future, remote = Future[Any](), self._executor.submit(work, *given, **named)
        self._running.add(future)
        remote.add_done_callback(partial(_passed_on, future))
        future.add_done_callback(lambda ended: remote.cancel() if ended.cancelled() else None)
        return future

    def _watch(self) -> None:
        while self._client.status == "running":
            time.sleep(_GLANCE)
        time.sleep(_GLANCE)  # for what was submitted meanwhile
        for future in list(self._running):
            with suppress(InvalidStateError):
                future.set_exception(self._gone)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """As that of any executor."""
        self._executor.shutdown(wait=wait)


def _passed_on(future: Future[Any], remote: Future[Any]) -> None:
    """What became of work, unless its scheduler is gone."""
    with suppress(InvalidStateError):
        if remote.cancelled():
            future.set_exception(BrokenExecutor("cancelled by its scheduler"))
        elif (error := remote.exception()) is not None:
            future.set_exception(error)
        else:
            future.set_result(remote.result())
