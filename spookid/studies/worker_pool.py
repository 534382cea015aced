"""Work shared out to this process, to worker processes, or to any executor; a worker that dies costs what it was at."""

from __future__ import annotations

import atexit
import logging
import os
import signal
import threading
import time
import weakref
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future, InvalidStateError, as_completed
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from multiprocessing import resource_tracker
from typing import Any, TypeAlias, TypeVar

from loky import get_reusable_executor

from spookid.errors import ProblemError
from spookid.files import GLANCE
from spookid.kernels.single_thread import ONE_THREAD

R = TypeVar("R")

_TRIES = 3
"""Rounds in which workers die and nothing is done, before each piece of work is tried by itself."""


@dataclass(frozen=True)
class Lost:
    """Placeholder for the result of a task whose worker process ended unexpectedly."""

    reason: str


Answers: TypeAlias = Generator[tuple[int, R | Lost], None, None]
"""Numbers of tasks and what became of them, as they come."""


@dataclass(eq=False)
class WorkerPool:
    """Pool that runs tasks in this process, in worker processes, or in an executor."""

    jobs: int = 1
    """Worker processes, if there is no executor; 1: this process."""
    executor: Executor | None = None
    lost: int = field(default=0, init=False)
    """How often a worker was lost."""

    @property
    def alone(self) -> bool:
        """True if this process executes the tasks itself."""
        return self.executor is None and self.jobs == 1

    def map(self, work: Callable[..., R], tasks: Sequence[tuple[Any, ...]]) -> Iterator[R]:
        """Return results in the order of the tasks; arguments and results of tasks must be picklable.

        Raises:
            ProblemError: that of a task, or if workers die at one again and again.
        """
        found, told = dict[int, R](), 0
        for number, result in self.answers(work, dict(enumerate(tasks))):
            if isinstance(result, Lost):
                raise ProblemError(
                    f"a task made its worker process end {_TRIES + 1} times ({result.reason}); run one worker to "
                    "find the cause"
                )
            found[number] = result
            while told in found:
                yield found.pop(told)
                told += 1

    def answers(self, work: Callable[..., R], tasks: Mapping[int, tuple[Any, ...]]) -> Answers[R]:
        """Yield task numbers and results in the order of completion; if a worker dies, others repeat its task.

        Raises:
            ProblemError: that of a task.
        """
        if self.alone:
            yield from ((number, work(*task)) for number, task in tasks.items())
            return
        left, idle = dict(tasks), 0
        while left and idle < _TRIES:
            before = len(left)
            for number, result in self._round(work, left):
                if not isinstance(result, Lost):
                    del left[number]
                    yield number, result
            self.lost += bool(left)
            idle = idle + 1 if len(left) == before else 0
        for number, task in left.items():
            yield from self._round(work, {number: task})

    def _round(self, work: Callable[..., R], left: Mapping[int, tuple[Any, ...]]) -> Answers[R]:
        workers = processes(self.jobs) if self.executor is None else self.executor
        futures = dict[Future[R], int]()
        try:
            for number, task in left.items():
                try:
                    futures[workers.submit(work, *task)] = number
                except BrokenExecutor as error:  # a worker died meanwhile
                    failed: Future[R] = Future()
                    failed.set_exception(error)
                    futures[failed] = number
            for future in as_completed(futures):
                yield futures[future], self._answer(future.result)
        except BaseException:
            if self.executor is None:
                cut_off(workers)
            for future in futures if self.executor is not None else ():
                future.cancel()
            raise

    def _answer(self, result: Callable[[], R]) -> R | Lost:
        try:
            return result()
        except ProblemError:
            raise
        except Exception as error:  # a cluster loses workers, and says so in its own types
            if not isinstance(error, (BrokenExecutor, MemoryError)) and self.executor is None:
                raise
            return Lost(f"{type(error).__name__}: {error}")


def processes(jobs: int) -> Executor:
    """Return an executor of single-threaded processes; every call returns the same one, unless a process died.

    Processes that have nothing to do end by themselves, and at once with this one.
    """
    with _undisturbed():
        executor: Executor = get_reusable_executor(jobs, initializer=_begin, initargs=(os.getpid(),), env=ONE_THREAD)
        executor.submit(int)  # which starts them
    atexit.unregister(cut_off)
    atexit.register(cut_off, executor)  # multiprocessing would wait there until they have been idle for long
    return executor


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Processes that are started meanwhile never hear Ctrl-C and SIGTERM, not even before `_begin`; this one hears them
    after it. The one that clears up after workers does not warn the user of what it clears up."""
    before = os.environ.get("PYTHONWARNINGS")
    os.environ["PYTHONWARNINGS"] = ",".join(filter(None, [before, "ignore:resource_tracker"]))
    mask = getattr(signal, "pthread_sigmask", lambda how, signals: signals)
    try:
        resource_tracker.ensure_running()  # where Python begins it, signals are unblocked
        heard = mask(getattr(signal, "SIG_BLOCK", 0), (signal.SIGINT, signal.SIGTERM))
        try:
            yield
        finally:
            mask(getattr(signal, "SIG_SETMASK", 0), heard)
    finally:
        os.environ.pop("PYTHONWARNINGS")
        if before is not None:
            os.environ["PYTHONWARNINGS"] = before


def cut_off(executor: Executor) -> None:
    """Terminate the worker processes and their tasks."""
    executor.shutdown(wait=False, kill_workers=True)  # type: ignore[call-arg]


def _begin(parent: int) -> None:
    """First act of a worker: Ctrl-C is for the parent to handle, and a worker does not outlive it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_follow, args=(parent,), daemon=True).start()


def _follow(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(GLANCE)
    os._exit(1)


@contextmanager
def cluster(address: str) -> Iterator[Executor]:
    """Return an executor that uses the workers of the Dask scheduler at ``address``, such as ``tcp://10.0.0.1:8786``.

    Workers need this version of spookid and the problem file with its data at the same path.

    Raises:
        ProblemError: if Dask, the extra ``spookid[dask]``, is not installed or nobody answers.
    """
    try:
        distributed: Any = import_module("distributed")
    except ImportError:
        raise ProblemError("a scheduler needs Dask; install it with: pip install 'spookid[dask]'") from None
    logging.getLogger("distributed.client").setLevel(logging.CRITICAL)  # what it loses is done again, or reported below
    try:
        client = distributed.Client(address, timeout="10s")
    except (OSError, ValueError) as error:
        raise ProblemError(f"no Dask scheduler answers at address {address} ({error}); check it") from None
    with client:
        executor = Cluster(client, address)
        try:
            yield executor
        finally:
            executor.shutdown(wait=False)  # what is still running is of no use: closing the client cancels it


class Cluster(Executor):
    """Executor of a Dask cluster that raises an error if its scheduler stops, where Dask would wait forever."""

    def __init__(self, client: Any, address: str) -> None:
        self._client, self._executor = client, client.get_executor(pure=False)
        self._gone = ProblemError(
            f"the Dask scheduler at {address} has stopped; the same command with a new scheduler continues"
        )
        self._running = weakref.WeakSet[Future[Any]]()
        threading.Thread(target=self._watch, daemon=True).start()

    def submit(self, work: Any, /, *given: Any, **named: Any) -> Future[Any]:
        """Submit a task; raises ProblemError if the scheduler has stopped."""
        if self._client.status != "running":
            raise self._gone
        future, remote = Future[Any](), self._executor.submit(work, *given, **named)
        self._running.add(future)
        remote.add_done_callback(partial(_passed_on, future))
        future.add_done_callback(lambda ended: remote.cancel() if ended.cancelled() else None)
        return future

    def _watch(self) -> None:
        while self._client.status == "running":
            time.sleep(GLANCE)
        time.sleep(GLANCE)  # for what was submitted meanwhile
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
