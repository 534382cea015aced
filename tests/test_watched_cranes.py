"""One change of a crane's friction is reported as one, and its parameter is named."""

from __future__ import annotations

import pytest
from cranes import crane, record

from spookid import FixedLagSmoother, Monitor

ONSET, FIRST, END = 12.0, 5.0, 14.5
"""Of the change, and ends of what is fitted and of the log [s]."""


@pytest.mark.parametrize("seed", [2, 5])
def test_one_change_of_friction_is_reported_once_and_named(seed: int) -> None:
    """In five seconds the friction width of seed 2 is found five times too large, and its motion turns early; that of
    seed 5 turns late, so that until then masses and frictions explain the change alike."""
    recording = record(seed, END, changes=ONSET)
    first = crane(recording.between(0, FIRST))
    monitor = Monitor(FixedLagSmoother(first, window=20, start=first.solve()))
    for k, t in enumerate(recording.t):
        if t > FIRST:
            monitor.update(t, {name: values[k] for name, values in recording.signals.items()})
    (change,) = monitor.changes
    assert change.parameter == "c"
    assert abs(change.since - ONSET) < 0.3
    assert abs(change.share - 0.4) < 3 * change.share_error
    assert change.told - ONSET < 2
