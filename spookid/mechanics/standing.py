"""Contacts that hold: a point or a frame of a body that stays where it is on another one, always or at times.

What holds is that nothing moves over a step, y(q_{k+1}) = y(q_k) with y where the frame is on the other one, which is a
row on positions without the place of the contact among its unknowns: where a foot stands, the data say. The multipliers
act along A(q_k) = ∂y/∂ψ, as those of rigid joints do, and vanish while a contact does not hold.

The rows at acceleration level are those of multibody codes, ÿ = −k_d ẏ − k_p (y − y_0) (Baumgarte; Martinez et al.,
III-B and IV-A with equations 24 and 25). They hold a little less than what they stand for, and bias what damps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Literal

import numpy as np

from spookid.errors import ProblemError, shown
from spookid.mechanics.touching import Touch
from spookid.records import dataclass

Holds = bool | str | Sequence[tuple[float, float]] | Mapping[str, "Holds"]
"""When a contact holds: True, always; the name of a signal, while it is at least ``threshold``; or intervals of time
[s]; or one of these by the name of each recording."""
Level = Literal["position", "acceleration"]


@dataclass(frozen=True, eq=False)
class HeldContact(Touch):
    """What ``PointContact`` and ``Weld`` have in common.

    Raises:
        ProblemError: for a schedule of another form, a level that is not known, or a negative slip, threshold or gain,
            and as of ``Touch``.
    """

    holds: Holds = field(default=True, kw_only=True)
    """When; see ``Holds``. A step counts if the contact holds at both of its ends."""
    threshold: float = field(default=0.5, kw_only=True)
    """Of the signal, in its unit: 0.5 of one that is 0 or 1, some newtons of a force."""
    slip: float | None = field(default=0.0, kw_only=True)
    """How much it creeps, as a random velocity [m/s/√Hz, and rad/s/√Hz of a ``Weld``]: 0, it does not; None: estimated
    with the other noise."""
    level: Level = field(default="position", kw_only=True)
    """``"position"``, or ``"acceleration"`` with the gains of ``baumgarte`` (where the noise is estimated)."""
    baumgarte: tuple[float, float] = field(default=(0.0, 0.0), kw_only=True)
    """k_p [1/s²], which pulls to the origin of ``on``, and k_d [1/s]."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_numbers()
        _check_schedule(self.holds, self.what)

    def _check_numbers(self) -> None:
        numbers = {"threshold": self.threshold, "slip": 0.0 if self.slip is None else self.slip}
        numbers |= {"a gain of baumgarte": min(self.baumgarte)}
        for name, value in numbers.items():
            if not (np.isfinite(value) and (value >= 0 or name == "threshold")):
                raise ProblemError(f"{self.what}: {name} is {shown(value)}; give a number that is not negative")

    @property
    def switches(self) -> bool:
        """True if there are times at which it does not hold."""
        return self.holds is not True

    @property
    def creeps(self) -> float | None:
        """``slip``."""
        return self.slip

    @property
    def stabilized(self) -> bool:
        """True if its rows are at acceleration level."""
        return self.level != "position"

    def schedule(self, recording: str | None) -> bool | str | Sequence[tuple[float, float]]:
        """When it holds in a recording; as of no recording, always.

        Raises:
            ProblemError: if nothing is said of it.
        """
        if not isinstance(self.holds, Mapping):
            return self.holds
        if recording is None:
            return True
        return self.of_recording(self.holds, recording, "holds")  # type: ignore[return-value]


@dataclass(frozen=True, eq=False)
class PointContact(HeldContact):
    """A point of a body that stays where it is, as the foot of a leg that stands, and turns freely: three rows.

    Its multiplier is the impulse of the contact's force on the body of ``frame``, along the axes of ``on`` [N s].

    ``PointContact("foot", shank.frame(at=(0, 0, -0.2)), holds="foot_force", threshold=20)``
    """


@dataclass(frozen=True, eq=False)
class Weld(HeldContact):
    """A frame of a body that stays as it is, as the sole of a foot or a hand that holds something: six rows.

    Its multiplier is the impulse of the contact's force on the body of ``frame`` [N s] and that of its moment about the
    frame's origin [N m s], along the axes of ``on``.

    ``Weld("grip", hand.frame(), box.frame(), holds=[(1.0, 4.5)])``
    """

    turns = True


def _check_schedule(holds: Holds, what: str) -> None:
    if isinstance(holds, Mapping):
        for name, one in holds.items():
            if not isinstance(name, str) or isinstance(one, Mapping):
                raise ProblemError(f"{what}: holds has {shown(name)}; give schedules by the names of recordings")
            _check_schedule(one, what)
        return
    if holds is True or isinstance(holds, str):
        return
    try:
        spans = np.asarray(holds, dtype=float).reshape(-1, 2)
    except (TypeError, ValueError):
        spans = np.full((1, 2), np.nan)
    if holds is False or not np.all(spans[:, 0] < spans[:, 1]):
        raise ProblemError(
            f"{what}: holds is {shown(holds)}; give True, a signal's name, or intervals [(t_0, t_1), ...]"
        )
