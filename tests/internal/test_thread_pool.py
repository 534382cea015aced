"""Several recordings at once: the same answer for any number of threads, and work that is really shared out."""

import threading
from dataclasses import replace

import numpy as np
import pytest
from mechanisms import paper_twin, pendulum

from spookid import Parameter, Problem, ProblemError, Spook, Status, Variational
from spookid.kernels.thread_pool import SERIAL, ThreadPool


def test_two_threads_work_at_the_same_time() -> None:
    met = threading.Barrier(2, timeout=20)
    with ThreadPool(2) as pool:
        assert sorted(pool.map(lambda _: met.wait(), range(2))) == [0, 1]


def test_work_within_work_is_done_and_not_waited_for() -> None:
    with ThreadPool(2) as pool:
        assert pool.map(lambda k: pool.map(lambda i: i + k, range(3)), range(4)) == [
            [k, k + 1, k + 2] for k in range(4)
        ]


def test_results_come_in_order_and_errors_come_through() -> None:
    with ThreadPool(3) as pool:
        assert pool.map(lambda k: k * k, range(20)) == [k * k for k in range(20)]
        with pytest.raises(ZeroDivisionError):
            pool.map(lambda k: 1 / k, range(3))
    assert SERIAL.map(str, range(3)) == ["0", "1", "2"]


STEPPERS = {"spook": Spook(), "lifted": Spook(multipliers="lifted"), "rigid": Variational()}


def swings(stepper: Spook | Variational) -> Problem:
    """Three recordings of different lengths."""
    J, b = Parameter("J", 0.003, lower=0), Parameter("b", 1e-3, lower=0)
    model = pendulum(inertia=J, viscous=b, compliance=1e-4, damping=0.02)
    made = [
        paper_twin(
            model,
            {"J": 0.005, "b": 2e-3},
            initial={"hinge": 1.0 + k},
            duration=1.0 + 0.2 * k,
            noise=1e-3,
            seed=k,
            step=0.01,
            stepper=stepper,
            state_weight=100.0,
        )
        for k in range(3)
    ]
    recordings = [replace(problem.recordings[0], name=f"swing {k}") for k, problem in enumerate(made)]
    return made[0].with_(recordings=recordings)


@pytest.mark.parametrize(("stepper", "setting"), [("spook", "by_c"), ("lifted", "by_numpy"), ("rigid", "by_c")])
def test_the_answer_is_the_same_for_any_number_of_threads(stepper, setting, request) -> None:
    request.getfixturevalue(setting)
    problem = swings(STEPPERS[stepper])
    one, three = problem.solve(threads=1), problem.solve(threads=3)
    assert one.status is Status.CONVERGED
    assert three.iterations == one.iterations
    assert three.cost == one.cost
    assert np.array_equal(three.sensitivities.covariance, one.sensitivities.covariance)
    for name in ("J", "b"):
        assert three[name].estimate == one[name].estimate
        assert three[name].std_err == one[name].std_err


@pytest.mark.parametrize("threads", [0, -1])
def test_threads_that_are_no_number_are_refused(threads) -> None:
    with pytest.raises(ProblemError, match=r"threads is .*; give a whole number from 1 on"):
        swings(Variational()).solve(threads=threads)
