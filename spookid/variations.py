"""What a declaration may have wrong, as variations of the model: how residuals would change with each, exactly.

Bodies are made longer, heavier or more inert, and hinges get friction, by an amount that is a symbol; the factors of
that model, differentiated at nothing, are what these would do to the residuals, in the stepper's own words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import casadi as ca
import numpy as np

from spookid.assembly import Assembly, factors
from spookid.body import GROUND, Body, Frame
from spookid.factor import Factor
from spookid.joints import Hinge
from spookid.kernels import Array, Kernel
from spookid.model import Model
from spookid.parameter import is_constant
from spookid.solvers.contraction import Contraction, Strip
from spookid.statistics.misfit import Cause
from spookid.transcription import Point

_SLOW = (0.03, 0.1, 0.3)
"""Rates up to which friction may be higher at low ones, as shares of the root mean square."""

_MISDECLARED = 0.3
"""Share by which a length or a mass that someone has measured may be off; more of it would not be linear either."""


@dataclass(frozen=True, eq=False)
class _Amount:
    """By how much a model differs from what is declared."""

    words: str
    unit: str
    place: int
    """Of its symbol."""
    share: float = 1.0
    """Of a hinge's typical rate, up to which friction is higher."""

    @property
    def sizes(self) -> tuple[float, float]:
        """Between which it is believed."""
        return (-_MISDECLARED, _MISDECLARED) if self.unit == "%" else (-np.inf, np.inf)


def causes(
    assembly: Assembly, contraction: Contraction, point: Point, speeds: Mapping[str, float]
) -> tuple[Cause, ...]:
    """What each variation would do to the whitened residuals.

    Args:
        point: the estimates.
        speeds: root mean square of the rates of hinges by their names [rad/s].
    """
    problem = assembly.problem
    # Where joints are rows of each step, and not coordinates, a length moves what they leave free as well.
    varied = _Varied(problem.model, speeds, () if assembly.transcription.local else problem.model.bodies)
    kernels = {
        factor.name: varied.kernel(factor, assembly)
        for factor in factors(problem, assembly.settings, varied.model)
        if factor.box is None and not factor.pairs
    }
    count = len(varied.amounts)
    chains = [
        [_columns(kernels.get(s.factor.name), s, contraction, point, c, count) for s in strips]
        for c, strips in enumerate(contraction.linear.chains)
    ]
    return tuple(
        Cause(
            amount.words, amount.unit, tuple([part[:, i : i + 1] for part in parts] for parts in chains), amount.sizes
        )
        for i, amount in enumerate(varied.amounts)
    )


def _columns(
    kernel: Kernel | None, strip: Strip, contraction: Contraction, point: Point, chain: int, count: int
) -> Array:
    """Columns in the rows that are left of one factor, (steps, count, rows)."""
    steps, _, rows = strip.rows.shape
    if kernel is None:
        return np.zeros((steps, count, rows))
    columns = contraction.linear.problem.call(kernel, strip.factor, point, chain, count)(slice(None))
    if strip.rows.complement is not None:
        columns = np.matmul(columns, strip.rows.complement)
    return np.asarray(strip.scale * columns * strip.alive[:, None])


class _Varied:
    """A model with amounts in it.

    Args:
        speeds: hinges that get friction, with their typical rates.
        measures: bodies that get longer, heavier and more inert.
    """

    def __init__(self, model: Model, speeds: Mapping[str, float], measures: Sequence[Body]) -> None:
        self.amounts: list[_Amount] = []
        self._symbols: list[ca.SX] = []
        self._sharpness = ca.SX.sym("sharpness")
        """One over the square of the share of the typical rate up to which friction is higher."""
        bodies: dict[Body, tuple[Body, ca.SX]] = {GROUND: (GROUND, ca.SX(0))}
        for body in model.bodies:
            bodies[body] = self._measured(body) if body in measures else (body, ca.SX(0))
        joints = {joint: self._rubbing(self._moved(joint, bodies), speeds) for joint in model.joints}
        motors = [replace(motor, hinge=joints[motor.hinge]) for motor in model.motors]
        self.model = Model(
            [bodies[body][0] for body in model.bodies], list(joints.values()), motors, gravity=model.gravity
        )

    def kernel(self, factor: Factor, assembly: Assembly) -> Kernel | None:
        """The derivatives of a factor where all amounts are nothing; None if it has none of them."""
        symbols = ca.vertcat(*self._symbols)
        slopes = ca.jacobian(factor.residual, symbols)
        if not slopes.nnz():
            return None
        slopes = ca.substitute(slopes, symbols, ca.SX.zeros(symbols.shape))
        columns = [ca.substitute(slopes[:, amount.place], self._sharpness, amount.share**-2) for amount in self.amounts]
        arguments = [*factor.variables.values(), factor.data, *assembly.transcription.shared]
        result = ca.cse(ca.densify(ca.horzcat(*columns)))
        return Kernel(ca.Function("variation", arguments, [result]), len(arguments) - 2)

    def _amount(self, words: str, unit: str = "%", shares: Sequence[float] = (1.0,)) -> ca.SX:
        self.amounts += [_Amount(words, unit, len(self._symbols), share) for share in shares]
        self._symbols.append(ca.SX.sym("amount"))
        return self._symbols[-1]

    def _measured(self, body: Body) -> tuple[Body, ca.SX]:
        """A body that is heavier and more inert, and by how much its joints are farther from its centre of mass."""
        stretch = self._amount(f"the length of {body.name} is off by about {{}}?")
        mass = body.mass * (1 + self._amount(f"the mass of {body.name} is off by about {{}}?"))
        inertia = body.inertia * (1 + self._amount(f"the inertia of {body.name} is off by about {{}}?"))
        return replace(body, mass=mass, inertia=inertia), stretch

    @staticmethod
    def _moved(joint: Hinge, bodies: Mapping[Body, tuple[Body, ca.SX]]) -> Hinge:
        """A hinge between other bodies."""
        sides = ((*bodies[side.body], side) for side in (joint.parent, joint.child))
        parent, child = (Frame(body, side.at * (1 + stretch), side.axes) for body, stretch, side in sides)
        return replace(joint, parent=parent, child=child)

    def _rubbing(self, joint: Hinge, speeds: Mapping[str, float]) -> Hinge:
        """A hinge with more friction."""
        if joint.name not in speeds:
            return joint
        told = "of {} in " + joint.name + " are missing or too much{}?"
        coulomb = joint.coulomb + self._amount("{} " + told.format("dry friction", ": Coulomb friction"), "N m")
        viscous = joint.viscous + self._amount("{} " + told.format("viscous friction", ""), "N m s")
        drag = joint.drag + self._amount("{} " + told.format("drag", ""), "N m s^2")
        words = "{} of stiffness in " + joint.name + " are missing or too much: a spring, a cable?"
        stiffness, stribeck = joint.stiffness + self._amount(words, "N m"), joint.stribeck
        if stribeck is None and is_constant(joint.dry) and float(joint.dry) == 0:
            words = "{} " + told.format("friction", " at low rates: a Stribeck law")
            extra = self._amount(words, "N m", _SLOW)
            stribeck = ca.vertcat(extra, self._sharpness / speeds[joint.name] ** 2)
        return replace(joint, coulomb=coulomb, viscous=viscous, drag=drag, stiffness=stiffness, stribeck=stribeck)
