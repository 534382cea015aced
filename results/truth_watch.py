"""False alarms and power of `spookid watch` for `truth.py`: logs with and without a change, read sample by sample.

The first five seconds are fitted, as the command does; the rest of the log is watched.
"""

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
from truth_driven import Posed, arm
from truth_models import crane, swing

from spookid import FixedLagSmoother, Monitor

FIRST, WINDOW = 5.0, 20
"""What is fitted [s], and steps of the window."""
ONSET, CHANGED = 12.0, "c"
"""Of the change [s], and the parameter that changes."""


WATCHED: Mapping[str, Callable[[int], Posed]] = {
    "crane": partial(crane, width=2e-3, duration=14.5),
    "crane, friction 40 % larger from 12 s": partial(crane, width=2e-3, duration=14.5, changes=ONSET),
    "arm with two links": arm,
    "released pendulum": partial(swing, disturbance=1e-4),
    "released pendulum, torque weakly determined": partial(swing, disturbance=1e-5),
}


def watched(kind: str, seed: int) -> dict[str, object]:
    """Reported changes, and errors over standard errors at the end of a log without a change."""
    problem, truth = WATCHED[kind](seed)
    (recording,) = problem.recordings
    assert isinstance(recording.t, np.ndarray)
    first = problem.with_(recordings=[recording.between(recording.t[0], recording.t[0] + FIRST)])
    monitor = Monitor(FixedLagSmoother(first, window=WINDOW, start=first.solve()))
    for k, t in enumerate(recording.t):
        if t > FIRST:
            monitor.update(float(t), {name: values[k] for name, values in recording.signals.items()})
    changes, estimate = monitor.changes, monitor.smoother.estimate
    right = [c for c in changes if c.parameter == CHANGED and abs(c.since - ONSET) < 1] if "larger" in kind else []
    found = {"changes": len(changes), "right": bool(right) and right[0].told - ONSET < 2}
    if "larger" in kind:
        return found
    return {**found, "z": {n: (estimate.values[n] - v) / estimate.std_errs[n] for n, v in truth.items()}}
