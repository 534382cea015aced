"""Loads on points of bodies, for mechanisms with springs, dampers or thrusters that stand at no joint."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Self

import casadi as ca
import numpy as np

from spookid.doors import Door
from spookid.errors import ProblemError, collected, declared_at, evaluating
from spookid.mechanics.body import GROUND, Body, Frame
from spookid.mechanics.moving import MovingFrame, anywhere
from spookid.parameter import symbolic


class PointLoad(metaclass=Door):
    """Forces and torques at frames of bodies, in the axes of the world; the base of those that you write. A spring::

        class Spring(PointLoad):
            def __init__(self, a, b, stiffness):
                self.frames, self.stiffness = (a, b), stiffness

            def forces(self, at, inputs):
                pull = self.stiffness * (at[1].origin - at[0].origin)
                return pull, -pull

        Model(..., loads=[Spring(GROUND.frame(), arm.frame(at=(0.1, 0, 0)), k)])

    A subclass sets ``frames`` and says ``forces``, ``torques`` or both, of Parameters as it likes. What it is given of
    each frame is its ``origin``, ``axes`` and ``velocity`` in the world, and ``omega`` in the axes of its body.
    """

    frames: Sequence[Frame]
    """Where it acts; a frame of ``GROUND`` bears what acts on it."""
    signals: Sequence[str] = ()
    """Names of input signals in the recordings, which the methods receive."""
    place: str
    """``file.py:line`` of its declaration."""

    def __new__(cls, *_: Any, **__: Any) -> Self:
        made = super().__new__(cls)
        object.__setattr__(made, "place", declared_at())
        return made

    @property
    def title(self) -> str:
        """What it is, for people."""
        return type(self).__name__

    def forces(self, at: Sequence[MovingFrame], inputs: ca.SX) -> Sequence[Any]:
        """Force at the origin of each frame, (3,) each [N].

        Args:
            at: the frames in the world, in the order of ``frames``.
            inputs: as many as ``signals``.
        """
        return [ca.SX(3, 1) for _ in at]

    def torques(self, at: Sequence[MovingFrame], inputs: ca.SX) -> Sequence[Any]:
        """Torque on the body of each frame, (3,) each [N m]; arguments as of ``forces``."""
        return [ca.SX(3, 1) for _ in at]

    def wrenches(self, at: Sequence[MovingFrame], inputs: ca.SX) -> list[tuple[ca.SX, ca.SX]]:
        """Force and torque at each frame.

        Raises:
            ProblemError: if they cannot be evaluated, or are of other numbers or shapes.
        """
        return list(zip(*(self._evaluated(name, at, inputs) for name in ("forces", "torques")), strict=True))

    def _evaluated(self, name: str, at: Sequence[MovingFrame], inputs: ca.SX) -> list[ca.SX]:
        what = f"{self._what}: {name}"
        with evaluating(what):
            found = list(getattr(self, name)(at, inputs))
        if len(found) != len(at):
            raise ProblemError(f"{what} gives {len(found)} vectors for {len(at)} frames; give one for each frame")
        return [symbolic(vector, what, (3,)) for vector in found]

    @property
    def _what(self) -> str:
        return f"{self.place}: {self.title}"

    def check(self, bodies: Iterable[Body]) -> None:
        """Raise ProblemError if its frames are not on these bodies, or what it gives has another shape."""
        frames = collected(getattr(self, "frames", None), Frame, f"{self._what}: frames")
        known = {id(body) for body in (*bodies, GROUND)}
        for frame in frames:
            if id(frame.body) not in known:
                raise ProblemError(
                    f"{self._what} acts on Body {frame.body.name!r}, which is not in the bodies; add it to the model"
                )
        if all(frame.body is GROUND for frame in frames):
            raise ProblemError(f"{self._what} acts on no body that moves; give it a frame of one")
        collected(self.signals, str, f"{self._what}: signals")
        self.expressions()

    def expressions(self) -> list[ca.SX]:
        """All that may hold a Parameter: its frames, and what it does in a state of numbers."""
        at = [anywhere(frame, i) for i, frame in enumerate(self.frames)]
        inputs = ca.SX(ca.DM(np.linspace(0.4, 0.6, len(self.signals))))
        of_frames = [part for frame in self.frames for part in frame.expressions()]
        return of_frames + [part for wrench in self.wrenches(at, inputs) for part in wrench]

    def on(self, frames: Iterable[Frame]) -> PointLoad:
        """The same load on other frames."""
        return _Moved(self, tuple(frames))


class _Moved(PointLoad):
    """A load on other frames than its own."""

    def __init__(self, load: PointLoad, frames: tuple[Frame, ...]) -> None:
        self._load, self.frames, self.signals, self.place = load, frames, load.signals, load.place

    @property
    def title(self) -> str:
        return self._load.title

    def forces(self, at: Sequence[MovingFrame], inputs: ca.SX) -> Sequence[Any]:
        return self._load.forces(at, inputs)

    def torques(self, at: Sequence[MovingFrame], inputs: ca.SX) -> Sequence[Any]:
        return self._load.torques(at, inputs)
