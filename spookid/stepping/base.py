"""What a time stepper is: a model and a step h become one-step factors, a forward step, and states from unknowns.

``Scheme`` is what a fit takes: which unknowns stand at each step, and the factors between them. ``Stepper`` is what a
problem declares: a scheme for given weights, one that fits take where the noise is estimated, and a forward step. To
write one of your own, begin with ``OneStep`` (``stepping.one_step``), which leaves one method to you.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from copy import copy
from typing import ClassVar, TypeVar

import casadi as ca
import numpy as np

from spookid.argument_checks import Checked
from spookid.data.state import Motion
from spookid.errors import ProblemError
from spookid.kernels.arrays import Array
from spookid.mechanics.coefficients import COMPLIANCE
from spookid.mechanics.manifold import Manifold
from spookid.mechanics.model import Model
from spookid.parameter import is_constant
from spookid.stepping.impulses import DryFriction, ForwardStep, Settings, StepFunction, Window
from spookid.transcription.factor import Factor

S = TypeVar("S", bound="Scheme")


class Scheme(ABC):
    """The unknowns of a fit at each step, and the factors between those of neighbouring steps."""

    order: ClassVar[int]
    """Errors of a motion fall with this power of h."""
    offers_hard: ClassVar[bool] = False
    """True if the same scheme, its disturbances at nothing, fits hard dynamics as a second estimator."""
    turns: ClassVar[bool] = False
    """True if the unknowns of its fits tell one turn of an angle from the next."""
    switches: ClassVar[bool] = False
    """True if contacts may hold at times (``HeldContact.holds``, ``Impact.times``)."""
    holds_contacts: ClassVar[bool] = True
    """True if contacts may hold at all."""
    lags: ClassVar[bool] = False
    """True if rates of the interval before are among its unknowns."""
    touches: ClassVar[bool] = False
    """True if it has contacts that only push (``Contact``)."""
    law: DryFriction = DryFriction()
    """Form of dry friction."""

    def with_law(self: S, law: DryFriction) -> S:
        """The same with another form of dry friction."""
        other = copy(self)
        object.__setattr__(other, "law", law)
        return other

    def check_model(self, model: Model) -> None:  # noqa: B027
        """Raise ProblemError for a model that it cannot do; by default it can do any."""

    def fitting(self, model: Model) -> Scheme:
        """The scheme for a model: itself, if it does for all.

        Raises:
            ProblemError: for coordinates that it does not have; by default it has maximal ones.
        """
        if model.coordinates == "joint":
            raise ProblemError(
                f"{model.place}: Model has coordinates 'joint', in which joints are rigid; use the stepper "
                "Variational(), or leave coordinates out"
            )
        return self

    def motion(self, model: Model) -> Manifold:
        """Where the motion of a step is; its coordinates are the first unknowns. By default those of all poses."""
        return model.configuration

    @abstractmethod
    def reactions(self, model: Model) -> int:
        """How many unknowns a step has for what is transmitted in it: multipliers, and random impulses in loops."""

    def manifold(self, model: Model) -> Manifold:
        """The unknowns of a step: the motion, reactions, and those of the friction law (``law.unknowns``)."""
        flat = self.reactions(model) + self.law.unknowns(model)
        return Manifold((*self.motion(model).parts, *((("flat", flat),) if flat else ())))

    def configuration(self, model: Model, x: ca.SX) -> ca.SX:
        """q (7 n_b,) of the unknowns of one step."""
        return x[: model.configuration.ambient]

    @abstractmethod
    def window(self, model: Model, settings: Settings, order: int) -> Window:
        """A state at one step from the unknowns.

        Args:
            order: of the time derivatives that it needs: 0, 1 with velocities, 2 with accelerations.
        """

    def first_window(self, model: Model, settings: Settings, order: int) -> Window | None:
        """The state at the first step, likewise; None if that cannot be told."""
        window = self.window(model, settings, order)
        return window if max(window.variables) <= 1 else None  # of two steps it is that of the earlier

    def through(
        self, model: Model, settings: Settings, order: int, states: int
    ) -> tuple[dict[int, ca.SX], list[Motion]] | None:
        """The unknowns of so many neighbouring steps, by offset, and the states there, whose velocities and
        accelerations are those of the polynomial through all of them; None where velocities are unknowns, or
        positions turn in space."""
        return None

    def around(
        self, model: Model, settings: Settings, order: int
    ) -> tuple[dict[int, ca.SX], tuple[Motion, Motion, Motion]]:
        """The unknowns of a step and the next, by offset, and the motion before, at and behind the first of them; of
        schemes whose ``lags`` is true."""
        raise NotImplementedError

    def start(self, model: Model, states: Array, displacements: Array, friction: Array, step: float) -> Array:
        """Unknowns (N, ambient) from states x = (q, v), (N, 13 n_b), a step [s] apart, coordinates of all joints,
        continuous in time, (N, n_s), and the unknowns of the friction law, (N, n); nothing is transmitted."""
        none = np.zeros((len(states), self.reactions(model)))
        return np.hstack([states[:, : self.motion(model).ambient], none, friction])

    @abstractmethod
    def states(self, model: Model, poses: Array, unknowns: Array, step: float) -> Array:
        """States x = (q, v), (N, 13 n_b), from poses q and the unknowns."""

    def doubled(self, model: Model, unknowns: Array, step: float) -> Array | None:
        """Unknowns (N, ambient) of which every other one belongs to the same motion in steps of 2h; None if that
        cannot be told, and with it what the step adds to the estimates."""
        return None

    @abstractmethod
    def inputs(self, held: Array, mean: Array, late: Array) -> Array:
        """Data of the impulse factor, a row a step, (n, n_u).

        Args:
            held: inputs at each step, (N, n_u).
            mean, late: means over each step, and means with a weight that rises from 0 to 1 over it, (N − 1, n_u).
        """

    @abstractmethod
    def factors(self, model: Model, settings: Settings, hard: bool = False) -> list[Factor]:
        """One of them is that of the motion; its rows are weighted by √κ, or hard if ``hard``."""

    @abstractmethod
    def multipliers_along(self, model: Model, settings: Settings) -> StepFunction:
        """λ of a step, (n_g,)."""

    @abstractmethod
    def friction_along(self, model: Model, settings: Settings) -> StepFunction:
        """What ``DryFriction.along`` gives of every coordinate in a step, (5 n_s,)."""

    def contacts_along(self, model: Model, settings: Settings) -> StepFunction:
        """What ``ContactStep.along`` gives of every contact in a step, (4 n_c,); of schemes whose ``touches`` is
        true."""
        raise NotImplementedError


class Stepper(Scheme, metaclass=Checked):
    """A scheme that a problem can declare, and the forward step that goes with it.

    ``Spook()`` and ``Variational()`` are two; ``OneStep`` is the base of your own.
    """

    name: str
    """In results and messages."""
    corrects: ClassVar[bool] = False
    """True if estimates from steps of h and h/2 can be extrapolated to continuous time, the noise being estimated."""
    staggered: ClassVar[bool] = False
    """True if velocities of the march are those of the interval before, and inputs those around each t_k: then
    simulations with smooth friction are refined to continuous time (``stepping.exact``)."""
    two_sided: ClassVar[bool] = False
    """True if friction that sticks knows the slip at both ends of a step, so that a fit may begin without."""
    forward_turns: ClassVar[bool] = False
    """True if its forward step holds constraints that poses do not tell through turns of angles."""
    rigid: ClassVar[bool] = True
    """False if joints have the compliance that is declared."""
    infinite_weight: ClassVar[bool] = True
    """True if its dynamics can be hard."""

    def __repr__(self) -> str:
        settings = ", ".join(f"{name}={value!r}" for name, value in sorted(vars(self).items()))
        return f"{type(self).__name__}({settings})"

    @abstractmethod
    def likelihood(self, law: DryFriction) -> Scheme:
        """What fits take where the noise is estimated.

        Raises:
            ProblemError: if there is none.
        """

    @property
    def leader(self) -> Stepper:
        """With which a fit with given weights begins, if its own would be hard to begin with."""
        return self

    def check_weight(self, state_weight: float, what: str) -> None:
        """Raise ProblemError for an infinite state weight, if it cannot do with one."""
        if not (self.infinite_weight or np.isfinite(state_weight)):
            raise ProblemError(f"{what}: an infinite state_weight needs the stepper Variational()")

    def stiffened(self, model: Model) -> list[str]:
        """Names of joints and constraints that are rigid here although a compliance was declared for them."""
        return []

    @abstractmethod
    def forward(self, model: Model, settings: Settings, random: bool = False, exact: bool = False) -> ForwardStep:
        """The step as equations, with smooth friction or, ``exact``, with reactions: friction that sticks, limits and
        contacts. ``random`` impulses stand behind its inputs if they are asked for."""

    @abstractmethod
    def forward_inputs(self, held: Array, mean: Array, late: Array) -> Array:
        """Inputs of the forward steps, (N − 1, n); arguments as of ``inputs``."""

    def recorded(self, model: Model, marched: Array, step: float) -> Array:
        """States at t_k from those of the march, (N, 13 n_b)."""
        return marched


def _declared(compliance: ca.SX) -> bool:
    """True for one that somebody gave: neither nothing nor what joints have by default."""
    return not (is_constant(compliance) and float(compliance) in (0.0, COMPLIANCE))


def compliant(model: Model) -> list[str]:
    """Names of joints and constraints with a compliance that was declared."""
    return [thing.name for thing in model.holding.names if any(map(_declared, ca.vertsplit(thing.compliance)))]
