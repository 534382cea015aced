"""Unmodelled effects of an actuator on its input, for score tests: delay, first-order lag, power law, saturation.

Each effect is a first-order change of the input per unit of its magnitude, at magnitude zero. A first-order lag is
tested at a few time constants, because a small lag is equivalent to a delay.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from spookid.kernels.arrays import Array
from spookid.records import dataclass

DELAY, LAG = "a delay?", "a first-order lag"
"""In words of causes: the first is listed if both say the same."""
_LARGE = 0.8
"""Share of the largest input from which it may saturate."""


@dataclass(frozen=True, eq=False)
class Cause:
    """One change of an input."""

    words: str
    """The size replaces {}."""
    unit: str
    changes: tuple[Array, ...]
    """Of the input at each step of each recording per unit of the size, (N,)."""
    sizes: tuple[float, float]
    """Least and largest plausible size."""


def causes_of_input(signal: str, driven: str, inputs: Sequence[Array], step: float, held: float) -> Iterator[Cause]:
    """Possible errors of a signal that acts on a coordinate. ``inputs``: at each step of each recording; ``held``: as
    for ``causes_of_lag``."""
    slopes, late = [np.gradient(one, step) for one in inputs], delays(inputs, step)
    acts = f"{signal} acts on {driven}"
    # An input that moves between its samples is taken as held, half an interval late.
    for cause, sizes in causes_of_lag(inputs, step, held):
        yield Cause(f"{acts} late by about {{}}: {cause}", "s", tuple(-s for s in slopes), sizes)
    early = f"{acts} early by about {{}}: does it move between its samples?"
    yield Cause(early, "s", tuple(slopes), late)
    largest = max(float(np.max(np.abs(one), initial=0.0)) for one in inputs)
    if not any(np.ptp(one) for one in inputs):
        return
    for steps in (3, 10, 30):
        tau = steps * step
        lagging = tuple((_lagged(one, steps) - one) / tau for one in inputs)
        yield Cause(f"{acts} with {LAG} of about {{}}: the drive, its filter?", "s", lagging, (0.0, 2 * tau))
    powers = tuple(one * np.log(np.where(one == 0, 1.0, np.abs(one) / largest)) for one in inputs)
    curved = f"{acts} with an exponent that is off by about {{}}: is its effect proportional?"
    yield Cause(curved, "", powers, (-1.0, np.inf))
    beyond = tuple(-np.sign(one) * np.maximum(np.abs(one) - _LARGE * largest, 0.0) for one in inputs)
    yield Cause(f"{acts} {{}} less than proportionally where it is large: does it saturate?", "%", beyond, (0.0, 1.0))


def causes_of_lag(signals: Sequence[Array], step: float, held: float) -> list[tuple[str, tuple[float, float]]]:
    """Possible causes of a sensor's delay, with plausible amounts. ``held``: longest interval between samples of inputs
    that are interpolated linearly: held inputs act half an interval later, so that all sensors lag."""
    least, most = delays(signals, step)
    by_input = (f"inputs that are constant between samples (hold='previous'), or {DELAY}", (least, held))
    return [(DELAY, (max(least, held), most)), *[by_input] * bool(held)]


def delays(signals: Sequence[Array], step: float) -> tuple[float, float]:
    """Plausible delays of a signal [s]: not negative, and not longer than the time in which the signal changes."""
    changes = np.concatenate([np.gradient(one, step) for one in signals])
    apart = np.concatenate([one - one.mean() for one in signals])
    return 0.0, float(np.sqrt(np.mean(apart**2) / (np.mean(changes**2) or 1.0)))


def _lagged(values: Array, steps: float) -> Array:
    """What a first-order lag of so many steps makes of values that are held, from rest at the first, (N,)."""
    share, found = -np.expm1(-1 / steps), np.empty_like(values, dtype=np.float64)
    state = float(values[0])
    for k, value in enumerate(values.tolist()):
        found[k] = state
        state += share * (value - state)
    return found
