"""What has come of a problem before there are first states."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from spookid.assembly.declaration import Declaration
from spookid.data.recording import Recording
from spookid.errors import ProblemError
from spookid.smoothing.estimate import OnlineEstimate
from spookid.smoothing.intake import checked, signals
from spookid.smoothing.known import FEW
from spookid.smoothing.opening import Opening, from_guess

_FIRST = 20
"""Steps from which the first states are guessed, at the most."""


class Waiting:
    """Samples from which first states will be guessed.

    Args:
        problem: as it is smoothed, with all noise declared.
        window: steps of the window, in which the first states have to fit.
    """

    def __init__(self, problem: Declaration, window: int) -> None:
        self._problem, self._steps = problem, min(_FIRST, window - 1)
        self._signals = signals(problem)
        self._come: list[tuple[float, dict[str, float]]] = []

    def take(self, t: float, values: Mapping[str, Any]) -> Opening | None:
        """First states, once there are samples enough."""
        what = f"{self._problem.place}: Problem {self._problem.name!r}"
        time, finite = checked(what, self._signals, t, values)
        for before, others in self._come:
            if before == time and (twice := finite.keys() & others.keys()):
                raise ProblemError(
                    f"{what}: {min(twice)!r} has a second sample at {time:.12g} s; give each sample once"
                )
        self._come.append((time, finite))
        recording = _together(self._come, self._signals)
        if recording is None or recording.t[-1] - recording.t[0] < self._problem.step * self._steps:
            return None
        return from_guess(self._problem, recording)

    def estimate(self) -> OnlineEstimate:
        """What is known: nothing."""
        problem, bodies = self._problem, len(self._problem.model.bodies)
        free, labels = problem.free, [freedom.label for freedom in problem.model.freedoms]
        none, n, m = dict.fromkeys(labels, math.nan), len(free), 2 * len(labels)
        return OnlineEstimate(
            t=math.nan,
            step=-1,
            values={p.name: problem.guess[p.name] for p in free},
            std_errs={p.name: math.nan for p in free},
            reasons={p.name: FEW for p in free},
            units={p.name: p.unit for p in free},
            covariance=np.full((n, n), math.nan),
            positions=none,
            rates=none,
            position_errors=none,
            rate_errors=none,
            state_covariance=np.full((m, m), math.nan),
            q=np.full((bodies, 7), math.nan),
            v=np.full((bodies, 6), math.nan),
            iterations=0,
            converged=False,
            reason=FEW,
        )


def _together(waiting: list[tuple[float, dict[str, float]]], names: frozenset[str]) -> Recording | None:
    """What has come as a recording; None if a signal has not, or all has at one time."""
    times = sorted({t for t, values in waiting if values})
    columns = {name: np.full(len(times), np.nan) for name in sorted(names)}
    for t, values in waiting:
        for name, value in values.items():
            columns[name][times.index(t)] = value
    if len(times) < 2 or not all(np.any(np.isfinite(column)) for column in columns.values()):
        return None
    return Recording(np.array(times), columns, "stream", several_clocks=True)
