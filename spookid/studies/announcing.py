"""How long a simulation takes, told as soon as it can be foreseen."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Iterator, Sequence

from spookid.stepping.simulation import Progress
from spookid.tables.table import minutes

_SEEN = 1.0
"""Time of processors after which the rest is foreseen [s], which others on the machine do not change."""
_LONG = 10.0
"""A simulation that takes longer is told about [s]."""


def announced(label: str, step: float, progress: Progress | None) -> Progress:
    """A progress that tells, by a RuntimeWarning, of steps [s] that are going to take long."""

    def along(steps: Iterable[int]) -> Iterator[int]:
        assert isinstance(steps, Sequence)
        began, clock, told = time.process_time(), time.perf_counter(), False
        for k in steps if progress is None else progress(steps):
            yield k
            # Asking for the time of processors may take longer than a step.
            if told or time.perf_counter() - clock < _SEEN or (spent := time.process_time() - began) < _SEEN:
                continue
            told, whole = True, spent * len(steps) / (k + 1)
            if whole > _LONG:
                warnings.warn(
                    f"simulation of {label!r}: {len(steps):,} steps of {step:g} s are going to take some "
                    f"{minutes(whole)}; if that is not meant, take a larger step or less time, and see that times are "
                    "in seconds",
                    RuntimeWarning,
                    stacklevel=2,
                )

    return along
