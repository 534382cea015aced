"""What a user has chosen, apart from the page that shows it and the processes that act on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

ROLES = ("", "position", "torque", "current", "voltage", "control", "command")
"""What a column can be; empty: not used."""
FRICTION = ("viscous and Coulomb", "viscous", "Coulomb", "viscous, Coulomb and Stribeck")
"""Laws of friction of a joint, the usual one first."""


@dataclass(frozen=True)
class Column:
    """Meaning of a column in a log."""

    role: str = ""
    joint: str = ""
    unit: str = ""
    """Empty if SI, or as the log itself says; a minus in front turns the sign round."""
    reason: str = ""
    """Why it is not used."""


@dataclass(frozen=True)
class Choice:
    """User's choice for a parameter; None keeps the value of the file."""

    guess: float | None = None
    prior: tuple[float, float] | None = None
    """Mean and standard deviation."""
    free_of_prior: bool = False
    """True if the file's prior is taken out."""
    fixed: bool = False


@dataclass(frozen=True)
class Choices:
    """All choices that are written to a problem file, besides the robot and its logs."""

    free: bool = False
    """True if the root of a robot moves freely."""
    mend: bool = False
    """True to replace inertias that no body has."""
    columns: Mapping[str, Column] = field(default_factory=dict)
    gains: Mapping[str, float] = field(default_factory=dict)
    """Of drives by joint, from data sheets."""
    known: tuple[str, ...] = ()
    """Bodies whose masses, centres and inertias are those of the robot's file."""
    friction: Mapping[str, str] = field(default_factory=dict)
    """Law of each joint that has another one than the usual."""
    parameters: Mapping[str, Choice] = field(default_factory=dict)
    within: float | None = None
    """Share within which masses, centres and inertias of the robot's file are known."""
    step: float | None = None
    key: str = ""
    """Of the problem, in a file that holds several."""

    @property
    def units(self) -> dict[str, str]:
        """Units of columns that differ from those of the log."""
        return {name: one.unit for name, one in self.columns.items() if one.unit}
