"""The contract of a stepper: what a fit and a simulation take of a time step.

A fit takes a ``Scheme``. It says which unknowns each step has and how a state follows from them (``window``,
``states``), and of one step, as a ``StepRows``, its weighted residuals w, the rows that hold exactly, and its private
unknowns. Dry friction and contacts that push are attached to any scheme by what the step says of slips and reactions.

One setting, ``dynamics``, is the standard deviation of the weighted residuals: unknown ("estimated"), given by the
state weight ("weight"), or zero ("hard"), which makes them equality constraints.

A problem declares a ``Stepper``: it names the scheme of a fit, and has a forward step for simulations. To write one of
your own, begin with ``OneStep`` (``stepping.one_step``), which leaves one method to you.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Generic, Literal, TypeVar, cast

import casadi as ca
import numpy as np

from spookid.argument_checks import Checked
from spookid.data.state import Motion
from spookid.errors import ProblemError
from spookid.kernels.arrays import Array
from spookid.mechanics.coefficients import COMPLIANCE
from spookid.mechanics.joint_coordinates import JointCoordinates
from spookid.mechanics.kinematics import Values
from spookid.mechanics.manifold import Manifold, halved
from spookid.mechanics.model import Model
from spookid.parameter import is_constant
from spookid.stepping import contact_law
from spookid.stepping.contact_law import ContactStep
from spookid.stepping.impulses import DryFriction, ForwardStep, Settings, Slips, StepFunction, Window, random_factor
from spookid.transcription.factor import Factor, Group, Kind

Dynamics = Literal["estimated", "hard", "weight"]
"""The standard deviation of the weighted residuals: unknown, zero, or given by the weight κ."""
CONTACTS = "contacts that push"
HELD = "contacts that hold"
SWITCHED = "contacts that hold at times, impacts"
EXTRAPOLATED = "estimates extrapolated to continuous time"
DETERMINISTIC = "deterministic dynamics as a second estimator"
TURNS = "gears through whole turns, simulated"

NEEDS_JOINTS = (
    "their rows need Variational() and the coordinates of joints at three steps; leave stepper, coordinates and "
    "constraints on velocities out"
)

W = TypeVar("W", bound="StepRows", covariant=True)


class StepRows(ABC):
    """Equations of one step as symbols and expressions."""

    model: Model
    settings: Settings
    law: DryFriction
    joints: JointCoordinates
    variables: dict[int, ca.SX]
    """Unknowns at the steps that it is between."""
    u: ca.SX
    """Inputs of the step."""
    slips: Slips
    extra: ca.SX
    """Unknowns of the law of dry friction."""
    random: ca.SX
    """Random impulses along coordinates of cut joints, private unknowns; empty where there are none."""
    private: tuple[int, range] | None = None
    """``Factor.private`` of the weighted residuals."""
    overlap: float = 0.0
    """``Factor.overlap`` of the weighted residuals."""

    @property
    @abstractmethod
    def residual(self) -> ca.SX:
        """Impulse residual w = Sᵀp along unit rates of the tree's coordinates and free bodies, (n,)."""

    @property
    @abstractmethod
    def rates(self) -> ca.SX:
        """Matrix S, (6 n_b, n): velocities of the bodies for unit rates."""

    @property
    @abstractmethod
    def multipliers(self) -> ca.SX:
        """Multipliers λ of all joints and constraints, (n_g,)."""

    @cached_property
    def contacts(self) -> ContactStep | None:
        """Unilateral contacts in the step; None for schemes without contacts."""
        return None

    def settled(self, expression: ca.SX) -> ca.SX:
        """Expression with its own symbols replaced by the ``variables``."""
        return expression

    def law_factors(self) -> list[Factor]:
        """Factors of the laws of contacts and dry friction."""
        touching = self.contacts.factors(self.variables) if self.contacts is not None else []
        return [*touching, *self.law.factors(self.model, self.settings, self.slips, self.extra, self.variables)]

    def impulse(self, scheme: Scheme[Any]) -> Factor:
        """Weighted impulse residuals divided by their standard deviations; equality constraints where these are zero.

        A weight is one of the impulses p of all bodies: the rows are √κ L⁻¹w with L Lᵀ = SᵀS, whose square is that of
        the least p with Sᵀp = w.
        """
        if scheme.estimated:
            impulses = ca.vertcat(self.residual, self.random)
            known = self.variables, self.u, self.private, self.overlap
            return random_factor(self.joints, self.settings, impulses, *known)
        rows, labels = self.residual, tuple(f"Δp {name}" for name in self.joints.names)
        if scheme.weighted:
            rows = ca.sqrt(self.settings.weight) * halved(self.rates.T @ self.rates, rows)
        kind = Kind.SOFT if scheme.weighted else Kind.HARD
        given = "impulse", Group.STATE, rows, self.variables, self.u, labels
        return Factor(*given, motion=True, kind=kind, private=self.private)

    def function(self, value: ca.SX) -> StepFunction:
        """Step function of the unknowns at neighbouring steps."""
        return StepFunction(self.variables, self.u, self.settled(value))


class Scheme(ABC, Generic[W]):
    """Unknowns of a fit at each step, and the factors that connect neighbouring steps."""

    order: int
    """Errors of a motion fall with this power of h."""
    law: DryFriction = DryFriction()
    """Form of dry friction."""
    dynamics: Dynamics = "weight"
    """The standard deviation of its weighted residuals."""

    @property
    def estimated(self) -> bool:
        """True if that is unknown."""
        return self.dynamics == "estimated"

    @property
    def weighted(self) -> bool:
        """True if the equations of motion have a given weight κ."""
        return self.dynamics == "weight"

    coordinates: ClassVar[Literal["joint", "maximal"]] = "maximal"
    """Those of its unknowns; poses of all bodies do not distinguish one turn of an angle from the next."""
    refuses: ClassVar[Mapping[str, str]] = {}
    """As of ``Stepper``."""

    def check_model(self, model: Model) -> None:
        """Raise ProblemError for a model that the stepper does not support; by default, all are supported."""

    def motion(self, model: Model) -> Manifold:
        """Manifold of the motion, whose coordinates are the first unknowns of a step; by default, of all poses."""
        return model.configuration

    @abstractmethod
    def reactions(self, model: Model) -> int:
        """Number of unknown reactions of a step: multipliers, and random impulses in loops."""

    def closing_unknowns(self, model: Model) -> int:
        """Multipliers of loop constraints and, if estimated, random impulses along joints that close loops."""
        joints = JointCoordinates(model)
        return joints.private if self.estimated else joints.closing_rows

    def touching(self, model: Model) -> int:
        """Number of contact unknowns in a step, which describe the contacts in the preceding step."""
        return 0 if CONTACTS in self.refuses else contact_law.unknowns(model, self.law.form)

    def manifold(self, model: Model) -> Manifold:
        """Manifold of all unknowns of a step: motion, reactions, contacts, and dry friction."""
        flat = self.reactions(model) + self.touching(model) + self.law.unknowns(model)
        return Manifold((*self.motion(model).parts, *((("flat", flat),) if flat else ())))

    def configuration(self, model: Model, x: ca.SX) -> ca.SX:
        """Configuration q (7 n_b,) from the unknowns of one step."""
        return x[: model.configuration.ambient]

    @abstractmethod
    def window(self, model: Model, settings: Settings, order: int) -> Window:
        """State at one step as a function of the unknowns.

        Args:
            order: of the time derivatives that it needs: 0, 1 with velocities, 2 with accelerations.
        """

    def first_window(self, model: Model, settings: Settings, order: int) -> Window | None:
        """State at the first step as a function of the unknowns; None if these do not determine it."""
        window = self.window(model, settings, order)
        return window if max(window.variables) <= 1 else None  # of two steps it is that of the earlier

    def through(
        self, model: Model, settings: Settings, order: int, states: int
    ) -> tuple[dict[int, ca.SX], list[Motion]] | None:
        """Unknowns of several neighbouring steps, by offset, and the states there, with velocities and accelerations of
        the interpolating polynomial; None if velocities are unknowns, or positions include rotations in space."""
        return None

    def around(
        self, model: Model, settings: Settings, order: int
    ) -> tuple[dict[int, ca.SX], tuple[Motion, Motion, Motion]] | None:
        """Unknowns of a step and the next, by offset, and the motion before, at and after the first; None except for
        schemes whose unknowns lead back to the preceding step."""
        return None

    def start(self, model: Model, states: Array, displacements: Array, friction: Array, step: float) -> Array:
        """Initial unknowns (N, ambient) from states x = (q, v), (N, 13 n_b), with step [s], continuous coordinates of
        all joints, (N, n_s), and unknowns of contacts and dry friction, (N, n); reactions are zero."""
        none = np.zeros((len(states), self.reactions(model)))
        return np.hstack([states[:, : self.motion(model).ambient], none, friction])

    @abstractmethod
    def states(self, model: Model, poses: Array, unknowns: Array, step: float) -> Array:
        """States x = (q, v), (N, 13 n_b), from poses q and the unknowns of a fit."""

    def doubled(self, model: Model, unknowns: Array, step: float) -> Array | None:
        """Unknowns (N, ambient) of the same motion with steps 2h at every other step; None if unknown, and with them
        the discretization error."""
        return None

    @abstractmethod
    def inputs(self, held: Array, mean: Array, late: Array) -> Array:
        """Data of the impulse factor, one row per step, (n, n_u).

        Args:
            held: inputs at each step, (N, n_u).
            mean, late: means over each step, and means with a weight that rises from 0 to 1 over it, (N − 1, n_u).
        """

    @abstractmethod
    def symbols(self, model: Model, settings: Settings) -> W:
        """One step."""

    def step(self, model: Model, settings: Settings) -> W:
        """Step equations from a cache, because building expressions takes longer than an iteration of a fit."""
        return cast(W, _kept(self, self.law, self.dynamics, model, settings))

    @abstractmethod
    def factors(self, model: Model, settings: Settings) -> list[Factor]:
        """Factors of a step, one of which is the factor of the motion."""

    def multipliers_along(self, model: Model, settings: Settings) -> StepFunction:
        """λ of a step, (n_g,)."""
        step = self.step(model, settings)
        return step.function(step.multipliers)

    def friction_along(self, model: Model, settings: Settings) -> StepFunction:
        """Result of ``DryFriction.along`` for each coordinate in a step, (5 n_s,)."""
        step = self.step(model, settings)
        return step.function(self.law.along(model, settings, step.slips, step.multipliers, step.extra))

    def contacts_along(self, model: Model, settings: Settings) -> StepFunction:
        """Result of ``ContactStep.along`` for each contact in a step, (4 n_c,)."""
        step = self.step(model, settings)
        return step.function(step.contacts.along if step.contacts is not None else ca.SX(0, 1))


@lru_cache(maxsize=8)
def _kept(scheme: Scheme[Any], law: DryFriction, dynamics: Dynamics, model: Model, settings: Settings) -> StepRows:
    return cast(StepRows, scheme.symbols(model, settings))


class Stepper(ABC, metaclass=Checked):
    """Base class of time steppers: scheme of a fit, and forward step of a simulation.

    ``Spook()`` and ``Variational()`` are two; ``OneStep`` is the base of your own.

    >>> [stepper.order for stepper in (Spook(), Variational())]
    [1, 2]
    """

    name: str
    """Name in results and messages."""
    order: int
    """Errors of a motion fall with this power of h."""
    staggered: ClassVar[bool] = False
    """True if velocities of the march are those of the interval before, and inputs those around each t_k: then
    simulations with smooth friction are refined to continuous time (``stepping.exact``)."""
    refuses: ClassVar[Mapping[str, str]] = {}
    """Unsupported features, of the names above, with reason and remedy."""

    def __repr__(self) -> str:
        settings = ", ".join(f"{name}={value!r}" for name, value in sorted(vars(self).items()))
        return f"{type(self).__name__}({settings})"

    @abstractmethod
    def fitting(self, model: Model, law: DryFriction, dynamics: Dynamics) -> Scheme[StepRows]:
        """The scheme of a fit.

        Raises:
            ProblemError: for coordinates that it does not have.
        """

    def conditioned(self, model: Model, step: float, values: Values) -> Stepper:
        """Stepper whose equations are well-conditioned for joints of this stiffness."""
        return self

    @property
    def leader(self) -> Stepper:
        """Stepper for a preliminary fit, for given weights."""
        return self

    rigid: ClassVar[bool] = True
    """False if joints have the compliance that is declared."""

    def stiffened(self, model: Model) -> list[str]:
        """Names of joints and constraints with a declared compliance that this stepper treats as rigid."""
        return []

    @abstractmethod
    def forward(self, model: Model, settings: Settings, random: bool = False, exact: bool = False) -> ForwardStep:
        """Step as equations, with smooth friction or, if ``exact``, with reactions: sticking friction, limits and
        contacts. ``random`` impulses are appended to its inputs on request."""

    @abstractmethod
    def forward_inputs(self, held: Array, mean: Array, late: Array) -> Array:
        """Inputs of the steps of a simulation, (N − 1, n); arguments as for ``Scheme.inputs``."""

    def recorded(self, model: Model, marched: Array, step: float) -> Array:
        """States at t_k from simulated states, (N, 13 n_b)."""
        return marched


def refuse_joint_coordinates(model: Model) -> None:
    """Raise ProblemError if a model needs joint coordinates, but the stepper uses poses of all bodies."""
    if model.coordinates == "joint":
        raise ProblemError(
            f"{model.place}: Model has coordinates 'joint', in which joints are rigid; use the stepper "
            "Variational(), or leave coordinates out"
        )


def _declared(compliance: ca.SX) -> bool:
    """True for one that somebody gave: neither nothing nor what joints have by default."""
    return not (is_constant(compliance) and float(compliance) in (0.0, COMPLIANCE))


def compliant(model: Model) -> list[str]:
    """Names of joints and constraints with a declared compliance."""
    return [thing.name for thing in model.holding.names if any(map(_declared, ca.vertsplit(thing.compliance)))]
