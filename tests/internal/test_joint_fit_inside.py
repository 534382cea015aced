"""The inside of what ``test_joint_fit`` tests."""

from __future__ import annotations

from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from test_joint_fit import Losing

from spookid import ProblemError
from spookid.studies.joint_fit_worker import forget
from spookid.studies.worker_pool import Cluster, Lost, WorkerPool


def test_workers_that_die_at_it_end_it_with_a_sentence() -> None:
    with Losing(1) as executor:
        executor.left = 7
        assert list(WorkerPool(executor=executor).map(pow, [(i, 2) for i in range(5)])) == [0, 1, 4, 9, 16]
        executor.left = 1000
        with pytest.raises(ProblemError, match="a task made its worker process end 4 times"):
            list(WorkerPool(executor=executor).map(pow, [(2, 2)]))


def test_a_worker_that_dies_costs_what_it_was_at() -> None:
    """Of five pieces of work one kills whoever does it."""

    class Deadly(ThreadPoolExecutor):
        def submit(self, work: Any, /, *given: Any, **named: Any) -> Future[Any]:
            future: Future[Any] = Future()
            if given == (3, 2):
                future.set_exception(BrokenExecutor("gone"))
                return future
            return super().submit(work, *given, **named)

    with Deadly(1) as executor:
        pool = WorkerPool(executor=executor)
        found = dict(pool.answers(pow, {i: (i, 2) for i in range(5)}))
    assert found == {0: 0, 1: 1, 2: 4, 3: Lost("BrokenExecutor: gone"), 4: 16}
    assert pool.lost > 0


def test_work_of_a_scheduler_that_is_gone_ends() -> None:
    class Client:
        status = "running"

        def get_executor(self, pure: bool) -> Executor:
            return Waiting(1)

    class Waiting(ThreadPoolExecutor):
        def submit(self, *_: Any, **__: Any) -> Future[Any]:
            return Future()

    client = Client()
    executor = Cluster(client, "tcp://here:1")
    future = executor.submit(abs, 1)
    client.status = "connecting"
    with pytest.raises(ProblemError, match="scheduler at tcp://here:1 has stopped"):
        future.result(timeout=60)
    with pytest.raises(ProblemError, match="has stopped"):
        executor.submit(abs, 1)


def test_another_fit_forgets_the_earlier_one_and_nothing_else(tmp_path: Path) -> None:
    ours = ["ab12.place.npz", "0000000/0000000.chain", "0000000/0000000.12.npy", "coarse/0000000/0000000.chain"]
    mine = ["thesis.tex", "fit.npz", "0000000/notes.txt", "2024/0000000.npz"]
    for name in ours + mine:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    forget(tmp_path)
    left = {str(one.relative_to(tmp_path)) for one in tmp_path.rglob("*") if one.is_file()}
    assert left == set(mine)
