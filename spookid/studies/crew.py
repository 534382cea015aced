"""Work shared out to whoever there is: this process, worker processes, or any executor; a worker that dies costs what
it was at."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future, as_completed
from dataclasses import dataclass, field
from typing import Any, TypeVar

from spookid.errors import ProblemError
from spookid.studies.workers import cut_off, processes

R = TypeVar("R")

_TRIES = 3
"""Of one piece of work whose workers die."""


@dataclass(eq=False)
class Crew:
    """Whoever works."""

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
        if self.alone:
            yield from (work(*task) for task in tasks)
            return
        found: dict[int, R] = {}
        left, tries, told = dict(enumerate(tasks)), 0, 0
        while left:
            lost = None
            for number, result in self._round(work, left):
                if isinstance(result, BaseException):
                    lost = result
                    continue
                found[number] = result
                del left[number]
                while told in found:
                    yield found.pop(told)
                    told, tries = told + 1, 0
            if lost is not None:
                self.lost, tries = self.lost + 1, tries + 1
                if tries == _TRIES:
                    raise ProblemError(
                        f"workers die at it, {_TRIES} times now ({type(lost).__name__}: {lost})"
                        "; run it with one worker to see why"
                    )

    def _round(self, work: Callable[..., R], left: dict[int, tuple[Any, ...]]) -> Iterator[tuple[int, R | Exception]]:
        """Numbers and results as they come; in the place of one what became of its worker."""
        pool = processes(self.jobs) if self.executor is None else self.executor
        futures = dict[Future[R], int]()
        try:
            for number, task in left.items():
                futures[_submitted(pool, work, task)] = number
            for future in as_completed(futures):
                yield futures[future], self._answer(future.result)
        except BaseException:
            if self.executor is None:
                cut_off(pool)
            for future in futures if self.executor is not None else ():
                future.cancel()
            raise

    def _answer(self, result: Callable[[], R]) -> R | Exception:
        """The result, or what became of the worker."""
        try:
            return result()
        except ProblemError:
            raise
        except Exception as error:  # a cluster loses workers, and tells so in its own types
            if not isinstance(error, (BrokenExecutor, MemoryError)) and self.executor is None:
                raise
            return error


def _submitted(pool: Executor, work: Callable[..., R], task: tuple[Any, ...]) -> Future[R]:
    try:
        return pool.submit(work, *task)
    except BrokenExecutor as error:  # a worker died meanwhile
        failed: Future[R] = Future()
        failed.set_exception(error)
        return failed
