"""Constraints between what joints leave: rods, and the base of those that users write.

A constraint is rows that hold along the motion, each with a multiplier λ [N s or N m s] that acts along its derivative
and does no work; nothing in it is random. Those on positions, g(q) = 0, hold as joints do: with compliance and damping
in ``Spook()``, rigid in ``Variational()``. Those on velocities, A(q) v = γ, are the nonholonomic ones: in ``Spook()``
they creep with a compliance, and in other steppers they hold over each step h at its middle,

    A(q_k ⊞ h v/2) v = γ,     v = (q_{k+1} ⊟ q_k)/h,     γ the mean over the step,

which is symmetric in time and so of second order; λ_k acts along A(q_k) in the step around t_k.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import casadi as ca

from spookid.doors import Door
from spookid.errors import ProblemError, declared_at
from spookid.mechanics.body import GROUND, Body, Frame
from spookid.mechanics.coefficients import COMPLIANCE, refuse_negative
from spookid.mechanics.joints import Joint
from spookid.mechanics.manifold import Manifold
from spookid.mechanics.moving import MovingFrame
from spookid.parameter import is_constant, symbolic

Positions = Callable[[Joint], ca.SX]
"""Coordinates of a joint, (n,)."""


class Mechanism(Protocol):
    """What a constraint needs of a model."""

    @property
    def bodies(self) -> Sequence[Body]:
        """Its bodies."""

    @property
    def joints(self) -> Sequence[Joint]:
        """Its joints."""

    def moving(self, frame: Frame, q: ca.SX, v: ca.SX | None = None) -> MovingFrame:
        """A frame in the world."""


@dataclass(frozen=True, eq=False)
class Constraint(metaclass=Door):
    """Rows that hold between bodies; the base of every kind.

    A kind has either ``violation``, or ``rates`` and ``speeds`` and says so with ``on_velocities``.

    Raises:
        ProblemError: for a negative compliance or damping.
    """

    on_velocities: ClassVar[bool] = False
    """True if its rows are A(q) v = γ."""

    name: str
    compliance: Any = field(default=COMPLIANCE, kw_only=True)
    """ε of a row in ``Spook()``: [m/N or rad/(N m)] of positions, [m/s/N or rad/s/(N m)] of velocities."""
    damping: Any = field(default=0.02, kw_only=True)
    """τ of rows on positions in ``Spook()``, their relaxation time [s]."""
    place: str = field(default_factory=declared_at, repr=False, kw_only=True)

    def __post_init__(self) -> None:
        for name in ("compliance", "damping"):
            value = symbolic(getattr(self, name), f"{self.what}: {name}")
            refuse_negative(value, name, self.what)
            object.__setattr__(self, name, value)

    @abstractmethod
    def labels(self, model: Mechanism) -> tuple[str, ...]:
        """Names of its rows."""

    @abstractmethod
    def check(self, model: Mechanism) -> None:
        """Raise ProblemError if it does not fit the model."""

    @abstractmethod
    def expressions(self, model: Mechanism) -> list[ca.SX]:
        """All that may hold a Parameter."""

    def violation(self, model: Mechanism, q: ca.SX, positions: Positions) -> ca.SX:
        """g(q), (rows,).

        Args:
            positions: of each joint, continuous in time where the unknowns tell them.
        """
        raise NotImplementedError

    def rates(self, model: Mechanism, q: ca.SX, v: ca.SX) -> ca.SX:
        """A(q) v, (rows,)."""
        raise NotImplementedError

    def speeds(self, inputs: Mapping[str, ca.SX]) -> ca.SX:
        """γ, one or one a row."""
        raise NotImplementedError

    def over_step(
        self, model: Mechanism, space: Manifold, q: ca.SX, q_next: ca.SX, h: ca.SX, inputs: Mapping[str, ca.SX]
    ) -> ca.SX:
        """A v − γ at the middle of a step of length h from q to q_next, (rows,).

        Args:
            space: of q.
            inputs: their means over the step.
        """
        moved = space.difference(q_next, q)
        rows = self.rates(model, space.retract(q, moved / 2), moved / h)
        speeds = self.speeds(inputs)
        return rows - (speeds if speeds.numel() == rows.numel() else ca.repmat(speeds, rows.numel()))

    @property
    def told_by_poses(self) -> bool:
        """True if poses tell whether it holds; False if it takes the turns of angles, too."""
        return True

    @property
    def signals(self) -> tuple[str, ...]:
        """Names of the inputs that γ takes."""
        return ()

    @property
    def kind(self) -> str:
        """What it is, for messages."""
        return type(self).__name__

    @property
    def what(self) -> str:
        """With which messages about it begin."""
        return f"{self.place}: {self.kind} {self.name!r}"


@dataclass(frozen=True, eq=False)
class Distance(Constraint):
    """A massless rod with a ball at each end, between the origins of two frames.

    Its multiplier is what the rod pushes them apart with.

    Raises:
        ProblemError: for what is no frame of the model, both on one body, or a length that is not positive.
    """

    frame_a: Frame
    frame_b: Frame
    length: Any
    """l [m]."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.frame_a.body is self.frame_b.body:
            raise ProblemError(f"{self.what} joins {self.frame_a.body.name!r} to itself")
        object.__setattr__(self, "length", symbolic(self.length, f"{self.what}: length"))
        if is_constant(self.length) and float(self.length) <= 0:
            raise ProblemError(f"{self.what} has length {float(self.length):g}; it must be positive")

    def labels(self, model: Mechanism) -> tuple[str, ...]:
        """One row."""
        return ("length",)

    def check(self, model: Mechanism) -> None:
        """Both bodies must be in the model."""
        for body in (self.frame_a.body, self.frame_b.body):
            if body is not GROUND and body not in model.bodies:
                raise ProblemError(f"{self.what} ends at Body {body.name!r}, which is not in the bodies")

    def expressions(self, model: Mechanism) -> list[ca.SX]:
        """All that may hold a Parameter."""
        ends = self.frame_a.expressions() + self.frame_b.expressions()
        return [self.compliance, self.damping, self.length, *ends]

    def violation(self, model: Mechanism, q: ca.SX, positions: Positions) -> ca.SX:
        """(|r_b − r_a|² − l²)/(2 l) [m]: to first order how much too long it is."""
        a, b = (model.moving(frame, q).origin for frame in (self.frame_a, self.frame_b))
        return (ca.dot(b - a, b - a) / self.length - self.length) / 2
