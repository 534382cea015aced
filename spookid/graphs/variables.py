"""The variables of one step of a graph: a product of spaces with names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import casadi as ca
import numpy as np

from spookid.kernels.kernel import Array
from spookid.mechanics.manifold import Manifold, split
from spookid.mechanics.system import System

MEANING = {
    "q": "coordinates",
    "v": "rates of q",
    "a": "accelerations, rates of v",
    "z": "independent coordinates",
    "dz": "rates of z",
    "ddz": "accelerations, rates of dz",
    "Q": "unknown efforts",
}
"""All variables that a graph may have, in the order in which they stand in a step."""


@dataclass(frozen=True, eq=False)
class Variables:
    """Those that a graph of a system has."""

    system: System
    names: tuple[str, ...]
    """In the order of ``MEANING``."""

    @cached_property
    def manifold(self) -> Manifold:
        """Where the variables of one step live."""
        return Manifold(tuple(part for name in self.names for part in self.space(name).parts)).joined

    def space(self, name: str) -> Manifold:
        """Where one of them lives."""
        return self.system.manifold if name == "q" else Manifold((("flat", len(self.labels(name))),))

    def labels(self, name: str) -> tuple[str, ...]:
        """What each tangent direction of a variable belongs to."""
        if name == "Q":
            return self.system.actuated
        own = self.system.names
        return own if name in ("q", "v", "a") else tuple(own[i] for i in self.system.independent)

    def coordinates(self, name: str) -> slice:
        """Its coordinates among those of a step."""
        start = sum(self.space(other).ambient for other in self._before(name))
        return slice(start, start + self.space(name).ambient)

    def columns(self, name: str) -> slice:
        """Its tangent directions among those of a step."""
        start = sum(self.space(other).tangent for other in self._before(name))
        return slice(start, start + self.space(name).tangent)

    def _before(self, name: str) -> tuple[str, ...]:
        return self.names[: self.names.index(name)]

    def of(self, x: ca.SX) -> dict[str, ca.SX]:
        """The variables of one step (ambient,) by name."""
        return dict(zip(self.names, split(x, [self.space(name).ambient for name in self.names]), strict=True))

    def read(self, states: Array) -> dict[str, Array]:
        """The variables of all steps, (N, ambient) to (N, its coordinates) each."""
        return {name: states[:, self.coordinates(name)] for name in self.names}

    def written(self, values: Mapping[str, Array]) -> Array:
        """The same the other way."""
        return np.ascontiguousarray(np.hstack([values[name] for name in self.names]))


def independent(system: System, q: ca.SX) -> ca.SX:
    """The independent ones of the coordinates, (f,)."""
    chosen: ca.SX = q[[system.manifold.coordinate(column) for column in system.independent]]
    return chosen
