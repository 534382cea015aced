"""Variations of a model: first-order effects of possible model errors on its residuals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import casadi as ca
import numpy as np

from spookid.assembly.assembly import Assembly, factors
from spookid.data.sensors import JointPosition
from spookid.kernels.arrays import Array, contiguous
from spookid.kernels.kernel import Kernel
from spookid.mechanics.body import GROUND, Body, Frame
from spookid.mechanics.coefficients import Fourier
from spookid.mechanics.joints import Joint
from spookid.mechanics.loads import Effort
from spookid.mechanics.model import Model
from spookid.parameter import is_zero, substitute
from spookid.records import dataclass
from spookid.solvers.rows import LinearizedFactor
from spookid.statistics.causes import ONCE, Alternative
from spookid.statistics.condensing import Condensed
from spookid.statistics.likelihood import States
from spookid.statistics.whiteness import MISSING
from spookid.transcription.factor import Factor
from spookid.transcription.transcription import Point

_SLOW = (0.03, 0.1, 0.3)
"""Rates up to which friction may be higher at low ones, as shares of the root mean square."""


_MISDECLARED = 0.3
"""Share by which a length or a mass that someone has measured may be off; more of it would not be linear either."""


@dataclass(frozen=True)
class Speed:
    """Typical speed of a joint coordinate: rms of the velocity and of its changes, and span of the positions."""

    rate: float
    """[rad/s or m/s]."""
    change: float
    """Velocity change between samples: friction at smaller velocities does not affect samples [rad/s or m/s]."""
    span: float
    """Of the displacement, largest less least [rad or m]."""


@dataclass(frozen=True, eq=False)
class _Amount:
    """By how much a model differs from what is declared."""

    words: str
    unit: str
    place: int
    """Of its symbol."""
    share: float = 1.0
    """Share of a coordinate's typical velocity up to which friction is higher."""
    sizes: tuple[float, float] = (-_MISDECLARED, _MISDECLARED)
    """Between which it is plausible."""


@dataclass(frozen=True, eq=False)
class _Variation:
    """What amounts do to one factor."""

    factor: Factor
    shared: Sequence[ca.SX]
    slopes: ca.SX
    """Derivatives of its residuals, (rows, count)."""

    @property
    def _stepwise(self) -> list[ca.SX]:
        return [*self.factor.variables.values(), self.factor.data]

    @cached_property
    def columns(self) -> Kernel:
        """The derivatives, (count, rows)."""
        arguments = [*self._stepwise, *self.shared]
        return Kernel(ca.Function("variation", arguments, [self.slopes]), len(self._stepwise))

    @cached_property
    def volumes(self) -> Kernel:
        """Σ ⟨A, dJ⟩ for the changes dJ of its Jacobian in its variables, whose tangents are they themselves, (count,);
        weights A (columns, rows) follow the other stepwise arguments."""
        x, (rows, count) = ca.vertcat(*self.factor.variables.values()), self.slopes.shape
        weights = ca.SX.sym("weights", x.numel() * rows)
        along = (ca.jtimes(self.slopes[row, :].T, x, weights[row::rows]) for row in range(rows))
        arguments = [*self._stepwise, weights, *self.shared]
        result = ca.densify(ca.cse(sum(along, ca.SX.zeros(count))))
        return Kernel(ca.Function("volumes", arguments, [result]), len(self._stepwise) + 1)


def alternatives(
    assembly: Assembly,
    condensed: Condensed,
    point: Point,
    speeds: Mapping[str, Speed],
    states: States | None,
    efforts: Mapping[str, float],
) -> tuple[Alternative, ...]:
    """Change of the whitened residuals by each variation of the model, for typical velocities and efforts."""
    problem = assembly.problem
    # Where joints are rows, and not coordinates, a length moves what they leave free as well.
    plain = states if states is not None and states.plain else None
    if any(motor.measured for motor in problem.model.motors):
        plain = None  # springs and bodies are not asked for: they raise false alarms there, why is not known
    known = problem.parameter_set.on(assembly.values(point))
    varied = _Varied(problem.model, speeds, efforts, known, plain is not None, not problem.rubs_smoothly)
    if not varied.amounts:
        return ()
    # A joint's coordinate depends on nothing that is varied, and to write down its factor takes time.
    angles = all(isinstance(channel.sensor, JointPosition) for channel in problem.channels)
    seen = None if angles else assembly.observed
    # Contacts that push add unknowns to each step, which the varied motion does not have.
    fitted = {f.name: _sizes(f) for f in assembly.transcription.factors if f.box is None and not f.pairs}
    variations = {
        factor.name: variation
        for factor in factors(problem, varied.model, assembly.settings, seen)
        if fitted.get(factor.name) == _sizes(factor) and (variation := varied.of_factor(factor, assembly))
    }
    count = len(varied.amounts)
    chains = [
        [_columns(variations.get(s.factor.name), s, condensed, point, c, count) for s in terms]
        for c, terms in enumerate(condensed.linearized.chains)
    ]
    volumes = [None] * count if plain is None else _volumes(plain, variations, condensed, count).tolist()
    return tuple(
        Alternative(
            amount.words,
            amount.unit,
            tuple([p[:, i : i + 1] for p in parts] for parts in chains),
            amount.sizes,
            v,
            amount.share,
        )
        for i, (amount, v) in enumerate(zip(varied.amounts, volumes, strict=True))
    )


def _sizes(factor: Factor) -> list[int]:
    """Of its variables and its data."""
    return [symbol.numel() for symbol in (*factor.variables.values(), factor.data)]


def _columns(
    variation: _Variation | None, term: LinearizedFactor, condensed: Condensed, point: Point, chain: int, count: int
) -> Array:
    """Columns in the rows that are left of one factor, (steps, count, rows)."""
    steps, rows = term.residual.shape
    if variation is None:
        return np.zeros((steps, count, rows))
    columns = condensed.linearized.problem.call(variation.columns, term.factor, point, chain, count)(slice(None))
    if term.complement is not None:
        columns = np.matmul(columns, term.complement)
    return np.asarray(term.scale * columns * term.alive[:, None])


def _volumes(states: States, variations: Mapping[str, _Variation], condensed: Condensed, count: int) -> Array:
    """What each variation does to the logarithms of the likelihood, halved, at the same states, (count,)."""
    total, problem = np.zeros(count), condensed.linearized.problem
    for c, chain in enumerate(states.recordings):
        for factor, weights in chain.weights:
            if (variation := variations.get(factor.name)) is not None:
                stepwise, shared = problem.arguments(factor, c, states.point)
                given = [*stepwise, contiguous(weights.reshape(len(weights), -1))]
                total += variation.volumes(given, shared, np.empty((len(weights), len(total)))).sum(axis=0)
    return total


_ALONG = {
    "viscous friction": "N s/m",
    "drag": "N s^2/m^2",
    "stiffness": "N/m",
    "dry friction": "N",
    "friction at low rates": "N",
}
"""Units of coefficients along a displacement."""


def _stretched(frame: Frame, bodies: Mapping[Body, tuple[Body, ca.SX]]) -> Frame:
    """A frame on another body that is longer."""
    body, stretch = bodies[frame.body]
    return Frame(body, frame.at * (1 + stretch), frame.axes)


class _Varied:
    """A model with amounts in it: of friction for coordinates with typical rates, where ``forces`` of lengths, masses,
    inertias and springs, too; coordinates without dry friction get none if that ``sticks``. No amount is plausible
    whose effort exceeds all along the coordinate, or that makes a coefficient with the ``known`` values negative."""

    def __init__(
        self,
        model: Model,
        speeds: Mapping[str, Speed],
        efforts: Mapping[str, float],
        known: Mapping[str, float],
        forces: bool,
        sticks: bool,
    ) -> None:
        self._efforts, self._known, self._forces, self._sticks = efforts, known, forces, sticks
        self.amounts: list[_Amount] = []
        self._symbols: list[ca.SX] = []
        self._sharpness = ca.SX.sym("sharpness")
        """One over the square of the share of the typical rate up to which friction is higher."""
        bodies: dict[Body, tuple[Body, ca.SX]] = {GROUND: (GROUND, ca.SX(0))}
        for body in model.bodies:
            bodies[body] = self._measured(body) if forces else (body, ca.SX(0))
        moved = {
            joint: replace(joint, parent=_stretched(joint.parent, bodies), child=_stretched(joint.child, bodies))
            for joint in model.joints
        }
        joints = {joint: self._rubbing(other, speeds) for joint, other in moved.items()}
        motors = [replace(motor, joint=joints[motor.joint]) for motor in model.motors]
        self.model = Model(
            [bodies[body][0] for body in model.bodies],
            list(joints.values()),
            motors,
            gravity=model.gravity,
            loads=[load.on(_stretched(frame, bodies) for frame in load.frames) for load in model.loads],
            constraints=model.constraints,
            coordinates=model.coordinates,
            original=model.original or model,
        )

    def of_factor(self, factor: Factor, assembly: Assembly) -> _Variation | None:
        """Derivatives of a factor by the variations' amounts at zero; None if it contains none of them."""
        symbols = ca.vertcat(*self._symbols)
        slopes = ca.jacobian(assembly.problem.parameter_set.written(factor).residual, symbols)
        if not slopes.nnz():
            return None
        slopes = ca.substitute(slopes, symbols, ca.SX.zeros(symbols.shape))
        columns = [ca.substitute(slopes[:, amount.place], self._sharpness, amount.share**-2) for amount in self.amounts]
        return _Variation(factor, assembly.transcription.shared, ca.cse(ca.densify(ca.horzcat(*columns))))

    def _amount(
        self,
        words: str,
        unit: str = "%",
        shares: Sequence[float] = (1.0,),
        sizes: tuple[float, float] = _Amount.sizes,
    ) -> ca.SX:
        self.amounts += [_Amount(words, unit, len(self._symbols), share, sizes) for share in shares]
        self._symbols.append(ca.SX.sym("amount"))
        return self._symbols[-1]

    def _measured(self, body: Body) -> tuple[Body, ca.SX]:
        """A body that is heavier and more inert, and by how much its joints are farther from its centre of mass."""
        stretch = self._amount(f"the length of body {body.name} is off by about {{}}?")
        mass = body.mass * (1 + self._amount(f"the mass of body {body.name} is off by about {{}}?"))
        inertia = body.inertia * (1 + self._amount(f"the inertia of body {body.name} is off by about {{}}?"))
        return replace(body, mass=mass, inertia=inertia), stretch

    def _rubbing(self, joint: Joint, speeds: Mapping[str, Speed]) -> Joint:
        """A joint with more friction along its coordinates that move."""
        typical = [speeds.get(label) for label in joint.labels]
        if not any(typical):
            return joint

        def amounts(
            law: str,
            what: str,
            unit: str,
            size: Callable[[Speed], float],
            cause: str = "",
            where: Sequence[Speed | None] = typical,
        ) -> ca.SX:
            """Amounts of the variation; ``size``: typical factor of the coefficient in the effort."""
            more = (self._lacks(joint, i, law, what, unit, size(s), cause) if s else 0 for i, s in enumerate(where))
            return getattr(joint, law) + ca.vertcat(*more)

        changes: dict[str, Any] = {
            "viscous": amounts("viscous", "viscous friction", " s", lambda s: s.rate),
            "drag": amounts("drag", "drag", " s^2", lambda s: s.rate**2),
        }
        if self._forces:  # no spring acts alike in every turn, and cogging does
            turns = [
                s is not None and c.unit == "rad" and s.span >= 2 * np.pi
                for s, c in zip(typical, joint.coordinates, strict=True)
            ]
            within = [None if turn else s for turn, s in zip(turns, typical, strict=True)]
            spring = ": a spring, a cable"
            changes["stiffness"] = amounts("stiffness", "stiffness", "/rad", lambda s: s.span / 2, spring, within)
            if any(turns):
                ripples = [self._ripple(label) if turn else 0 for turn, label in zip(turns, joint.labels, strict=True)]
                changes["loads"] = (*joint.loads, Effort(ripples[0] if len(ripples) == 1 else ripples))
        if all(map(is_zero, ca.vertsplit(joint.load_friction))):  # else the law of low rates is that of the load
            dry = [s if rubs or not self._sticks else None for s, rubs in zip(typical, joint.rubbing, strict=True)]
            changes["coulomb"] = amounts("coulomb", "dry friction", "", lambda s: 1.0, ": Coulomb friction", dry)
            if joint.stribeck is None and len(dry) == 1 and (speed := dry[0]) is not None:
                shares = [share for share in _SLOW if share * speed.rate > speed.change]
                smoothed = joint.rubbing[0] and not self._sticks
                cause = ": a Stribeck law" + ", or sticking (friction='exact')" * smoothed
                extra = self._lacks(joint, 0, "coulomb", "friction at low rates", "", 1.0, cause, shares)
                changes["stribeck"] = ca.vertcat(extra, self._sharpness / speed.rate**2)
        return replace(joint, **changes)

    def _ripple(self, label: str) -> Fourier:
        """A torque that depends on an angle, by its cosine and sine."""
        most = self._efforts.get(label, np.inf)
        words = f"{{}} of torque that varies {ONCE} of {label}: cogging, an eccentric mass?"
        cosine, sine = (self._amount(words, "N m", sizes=(-most, most)) for _ in range(2))
        return Fourier({1: (cosine, sine)})

    def _lacks(
        self,
        joint: Joint,
        i: int,
        law: str,
        what: str,
        unit: str,
        size: float,
        cause: str = "",
        shares: Sequence[float] = (1.0,),
    ) -> ca.SX:
        """An amount of a coefficient along a coordinate; ``unit`` follows that of what acts along an angle."""
        coordinate, label = joint.coordinates[i], joint.labels[i]
        whole = f"{coordinate.effort}{unit}" if coordinate.unit == "rad" else _ALONG[what]
        there = substitute(getattr(joint, law), self._known).ravel()
        sizes = -float(there[min(i, len(there) - 1)]), self._efforts.get(label, np.inf) / size
        return self._amount(f"{{}} of {what} in {label} are {MISSING}{cause}?", whole, shares, sizes)
