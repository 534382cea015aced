"""Work shared out to whoever there is: this process, worker processes, or any executor; a worker that dies costs what
it was at."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future, as_completed
from typing import Any, TypeAlias, TypeVar

from spookid.errors import ProblemError
from spookid.records import dataclass, field
from spookid.studies.workers import cut_off, processes

R = TypeVar("R")

_TRIES = 3
"""Rounds in which workers die and nothing is done, before each piece of work is tried by itself."""


@dataclass(frozen=True)
class Lost:
    """In the place of a result: workers die at it."""

    reason: str


Answers: TypeAlias = Generator[tuple[int, R | Lost], None, None]
"""Numbers of tasks and what became of them, as they come."""


@dataclass(eq=False)
class WorkerPool:
    """Whoever works: this process, workers, or an executor."""

    jobs: int = 1
    """Worker processes, if there is no executor; 1: this process."""
    executor: Executor | None = None
    lost: int = field(default=0, init=False)
    """How often a worker was lost."""

    @property
    def alone(self) -> bool:
        """True if this process does the work."""
        return self.executor is None and self.jobs == 1

    def map(self, work: Callable[..., R], tasks: Sequence[tuple[Any, ...]]) -> Iterator[R]:
        """Results in the order of the tasks, whose arguments and results can be sent.

        Raises:
            ProblemError: that of a task, or if workers die at one again and again.
        """
        found, told = dict[int, R](), 0
        for number, result in self.answers(work, dict(enumerate(tasks))):
            if isinstance(result, Lost):
                raise ProblemError(
                    f"workers die at it, {_TRIES + 1} times now ({result.reason}); run it with one worker to see why"
                )
            found[number] = result
            while told in found:
                yield found.pop(told)
                told += 1

    def answers(self, work: Callable[..., R], tasks: Mapping[int, tuple[Any, ...]]) -> Answers[R]:
        """Numbers of tasks and their results as they come; a worker that dies costs what it was at, which others do.

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
                futures[_submitted(workers, work, task)] = number
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
        except Exception as error:  # a cluster loses workers, and tells so in its own types
            if not isinstance(error, (BrokenExecutor, MemoryError)) and self.executor is None:
                raise
            return Lost(f"{type(error).__name__}: {error}")


def _submitted(workers: Executor, work: Callable[..., R], task: tuple[Any, ...]) -> Future[R]:
    try:
        return workers.submit(work, *task)
    except BrokenExecutor as error:  # a worker died meanwhile
        failed: Future[R] = Future()
        failed.set_exception(error)
        return failed
