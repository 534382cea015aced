"""Impulses along the joints' coordinates, and the settings that every stepper shares.

Dry friction in three forms of one law, for the inverse dynamics of any stepper.

A coordinate of a joint with bound L = μ Σ|λ_i| + h c feels the impulse Z L along it, |Z| ≤ 1. At the end of a step,
with slip rate s₊, its ratio is z:

    sticks, s₊ = 0, or slips, z = −sign s₊.

With a width w that only sets the scale of slip, the law is the equation z = clip(z − s₊/w, −1, 1), or the two pairs
0 ≤ σ ⟂ 1 + z ≥ 0 and 0 ≤ σ − s₊/w ⟂ 1 − z ≥ 0 with σ the slip's positive part over w (2.24, without regularization).

In steps that also know the slip s at their beginning, Z is the mean over the step, of second order through every
reversal (``_over_step``). In others Z = z.

With different bounds L₊ forward and L₋ backward, L is their mean and K = (L₊ − L₋)/2: the impulse is Z L − K.

- ``smooth``: Z is the mean of −tanh(s/w) from s to s₊ where both are known, and |λ| = √(λ² + δ²). A joint that should
  stick creeps at a fraction of w.
- ``exact``: z is unknown at every step, and the law is an equality constraint: s = 0 or z = ∓1, whichever a solver
  finds to hold. (Eliminated instead, the clip stalls every descent method.)
- ``mpcc``: z and σ are unknown at every step, and the pairs are left to a solver for complementarity.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import casadi as ca
import numpy as np

from spookid.data.state import Motion
from spookid.errors import ProblemError
from spookid.kernels.arrays import Array
from spookid.mechanics.friction_loads import mean_sign, smooth_absolute, smooth_sign
from spookid.mechanics.joint_coordinates import JointCoordinates, bound_of, disturbance_names, impulses_along
from spookid.mechanics.joints import Joint
from spookid.mechanics.loads import Efforts
from spookid.mechanics.model import Mechanics, Model
from spookid.parameter import stacked
from spookid.records import dataclass
from spookid.transcription.factor import Box, Factor, Group, Kind, measured_noise

VELOCITY_ROWS = "velocity constraints"
"""Name of a factor whose data are the means of the inputs over each step, whatever those of the impulses are."""


@dataclass(frozen=True, eq=False)
class Settings:
    """Symbols of the settings that occur in a step."""

    step: ca.SX
    """h [s]."""
    weight: ca.SX
    """Weight κ, the problem's ``state_weight``."""
    slip_width: ca.SX
    """Width of the smooth stick/slip transition of each coordinate, (n_s,) [rad/s or m/s]."""
    turn_width: ca.SX
    """Slip rate of each coordinate below which friction that sticks stops it at once, (n_s,) [rad/s or m/s]."""
    impulse_width: ca.SX
    """Width δ of √(λ² + δ²) in the load-dependent friction bound [N s]."""
    disturbance: ca.SX
    """Standard deviations of random impulses of a step along coordinates, then on each free body, (6,) [N s, N m s]."""
    torques: Mapping[str, ca.SX]
    """Standard deviations of measured efforts of motors at the initial values of their gains [N m or N], by signal."""
    slips: ca.SX
    """Standard deviations of how far each contact that holds moves in a step, (n_c,) [m, rad]."""
    sensors: ca.SX
    """Standard deviations of the observations, each in its signal's unit, (n_o,)."""
    touch_speed: ca.SX
    """Speed of contacts that counts [m/s]."""
    touch_impulse: ca.SX
    """Impulse that gives the whole mechanism that speed [N s]."""
    touch_rounding: ca.SX
    """By how much the law of contacts is rounded, in units of these; 0: not at all."""

    @classmethod
    def of(cls, model: Model, sensors: int = 0) -> Settings:
        """Make symbols for a model and a number of sensors."""
        n = len(model.freedoms)
        torques = {m.signal: ca.SX.sym(f"sigma_{m.signal}") for m in model.motors if m.measured}
        return cls(
            ca.SX.sym("h"),
            ca.SX.sym("kappa"),
            ca.SX.sym("slip_width", n),
            ca.SX.sym("turn_width", n),
            ca.SX.sym("impulse_width"),
            ca.SX.sym("disturbance", len(disturbance_names(model))),
            torques,
            ca.SX.sym("slip", len(model.holding.contacts)),
            ca.SX.sym("sigma", sensors),
            *(ca.SX.sym(f"touch_{name}") for name in ("speed", "impulse", "rounding")),
        )


@dataclass(frozen=True)
class StepFunction:
    """Expression of the variables at neighbouring steps and of the step's data."""

    variables: Mapping[int, ca.SX]
    data: ca.SX
    value: ca.SX


@dataclass(frozen=True)
class Window:
    """State at one step, with the unknowns from which it is computed."""

    variables: Mapping[int, ca.SX]
    """Their symbols by offset; over several steps the state is that of the middle one, the earlier of two."""
    motion: Motion
    """Of v and a what was asked for, else zeros."""


@dataclass(frozen=True, eq=False)
class Laws:
    """Laws of the m reactions u of a step: sticking friction, limits and contacts."""

    reactions: ca.SX
    """u, (m,)."""
    rates: ca.SX
    """r, (m,): slip rates of friction, and the rows that are not negative of what pushes."""
    constant: ca.SX
    """c, (m,) [N m s or N s]; 0 for what pushes."""
    weights: ca.SX
    """W, (m, l)."""
    loads: ca.SX
    """λ of joints whose dry friction depends on it, (l,)."""
    unilateral: tuple[bool, ...]
    """True for each reaction that only pushes."""
    discs: tuple[tuple[int, int], ...]
    """Pairs of reactions whose bound is that of both together."""
    symmetric: bool
    """True if ∂F/∂y, the matrix of the bilateral part, is symmetric (and indefinite)."""


@dataclass(frozen=True, eq=False)
class ForwardStep:
    """One simulation step as equations F(x, u, y) = 0, then x_next(x, y); state x = (q, v)."""

    x: ca.SX
    u: ca.SX
    """Inputs of the step, as ``Stepper.inputs`` makes them."""
    unknowns: ca.SX
    """y = (v₊, λ), (n,)."""
    equations: ca.SX
    """F, (n,)."""
    x_next: ca.SX
    guess: ca.SX
    """Of the unknowns, from x."""
    velocities: int
    """How many of the unknowns, the first, are velocities."""
    laws: Laws | None = None
    """Of the reactions that F holds too; None with smooth friction."""


@dataclass(frozen=True)
class Slips:
    """Slip rates of all joints in one step, (n_s,) [rad/s or m/s], with their positions."""

    now: ca.SX
    """At which viscous friction and drag act."""
    end: ca.SX
    """At the end of the step, s₊: what sticks does not move on."""
    before: ca.SX
    """That sets the Stribeck term."""
    change: ca.SX
    """Over the step, s₊ − s; a motor's shaft resists it."""
    rubbing: tuple[ca.SX, ...]
    """Between which smooth dry friction is averaged: s and s₊ where the step is to be of second order, else s₊."""
    position: ca.SX
    """Coordinates of all joints where loads act, angles of hinges in (−π, π], (n_s,) [rad or m]."""
    efforts: Efforts
    """Of motors and of the weight, on which bounds of gears depend, (n_s,)."""

    @classmethod
    def between(cls, now: ca.SX, sides: tuple[ca.SX, ca.SX], change: ca.SX, place: ca.SX, efforts: Efforts) -> Slips:
        """Slips of a second-order step, from s before to s₊ after it."""
        return cls(now, sides[1], now, change, rubbing=sides, position=place, efforts=efforts)


def random_symbol(model: Model, wanted: bool) -> ca.SX:
    """Symbol of the random impulses of a forward step, appended to its inputs; empty if not wanted.

    Along each joint's coordinates, then force and torque on each free body, (n_s + 6 n_free,).
    """
    return ca.SX.sym("random", len(disturbance_names(model)) * wanted)


def disturbance(model: Model, at: Mechanics, random: ca.SX) -> ca.SX:
    """Effect of random impulses on all bodies, (6 n_b,)."""
    if not random.numel():
        return ca.SX(model.configuration.tangent, 1)
    n = len(model.freedoms)
    parts = [ca.SX(6, 1) for _ in model.bodies]
    for place, i in enumerate(i for i, body in enumerate(model.bodies) if body.free):
        parts[i] = random[n + 6 * place : n + 6 * place + 6]
    return at.slip.T @ random[:n] + ca.vertcat(*parts)


def along_coordinates(model: Model, settings: Settings, slips: Slips, friction: ca.SX, u: ca.SX) -> ca.SX:
    """Impulse along each joint coordinate by loads, friction, armatures and motors, (n_s,) [N s or N m s].

    Args:
        friction: impulses of dry friction, (n_s,).
        u: inputs, (n_u,).
    """
    h, inputs, motion = settings.step, model.by_signal(u), (slips.position, slips.now)

    def acting(joint: Joint, own: slice) -> ca.SX:
        at = slips.position[own, 0], slips.now[own, 0]
        return h * model.effort(joint, *at, inputs, settings.slip_width[own, 0], motion) + friction[own, 0]

    return impulses_along(model, u, acting, slips.now, slips.change, h)


HATS = 1 / 6
"""``Factor.overlap`` of inputs weighted by a hat over [t_{k−1}, t_{k+1}]: ∫ of a hat times the next one, over h."""


def random_factor(
    joints: JointCoordinates,
    settings: Settings,
    impulses: ca.SX,
    variables: Mapping[int, ca.SX],
    data: ca.SX,
    private: tuple[int, range] | None = None,
    overlap: float = 0.0,
) -> Factor:
    """Random impulses divided by their standard deviations; for measured efforts, the measurement noise.

    Args:
        impulses: along the coordinates of the tree and of free bodies, then of cut joints.
        overlap: ``Factor.overlap`` of the inputs.

    Raises:
        ProblemError: for a cut joint whose effort is measured.
    """
    names = disturbance_names(joints.model)
    measured = {motor.label: motor for motor in joints.model.motors if motor.measured}
    rows, noise, density = [], [], []
    for row, place in enumerate([*joints.places, *joints.cut_places]):
        motor = measured.get(names[place])
        if motor is not None and row >= len(joints.places):
            raise ProblemError(
                f"{motor.place}: the effort of {motor.label} is measured, as that of every joint of a loop; "
                "leave one of them without a motor that is measured"
            )
        if motor is None:
            scale = settings.disturbance[place]
            density.append(row)
        else:  # a density of the signal, or all gains would tend to zero
            scale = settings.step * settings.torques[motor.signal] * motor.sensitivity
        rows.append(impulses[row] / scale)
        noise.append(names[place] if motor is None else measured_noise(motor.signal))
    given = "impulse", Group.STATE, stacked(rows), variables, data, tuple(f"Δp {name}" for name in noise)
    whitened: dict[str, Any] = {"noise": tuple(noise), "density": tuple(density), "overlap": overlap}
    return Factor(*given, motion=True, private=private, **whitened)


_SWITCHING = 10.0
"""Widths that weigh slips against ratios where a solver switches between sticking and slipping: too few take the noise
of a slip that sticks for a slip."""

Form = Literal["smooth", "exact", "mpcc"]


@dataclass(frozen=True)
class DryFriction:
    """Base class of the forms of dry friction; n_r joint coordinates have dry friction."""

    form: Form = "smooth"

    @property
    def is_smooth(self) -> bool:
        """True if what sticks creeps."""
        return self.form == "smooth"

    @property
    def is_exact(self) -> bool:
        """Sticking condition as equality constraints with an active set."""
        return self.form == "exact"

    def unknowns(self, model: Model) -> int:
        """Unknowns of dry friction in each step: none, z, or (z, σ)."""
        return {"smooth": 0, "exact": 1, "mpcc": 2}[self.form] * len(rubbing(model))

    def start(self, model: Model, slips: Array, sharpness: float) -> Array:
        """Initial unknowns (N, n) from normalized slips s/w of all coordinates, (N, n_s); slow slips stick."""
        relative = slips[:, rubbing(model)]
        parts = [-np.clip(relative / sharpness, -1.0, 1.0), np.maximum(relative, 0.0)]
        return np.hstack(parts)[:, : self.unknowns(model)]

    def bounds(self, model: Model, settings: Settings, slips: Slips, multipliers: ca.SX) -> ca.SX:
        """Friction bound L = μ Σ|λ_i| + h c of each coordinate, 0 without dry friction, (n_s,) [N s or N m s]."""
        limits = ca.SX(len(model.freedoms), 1)
        for joint in (joint for joint in model.joints if joint.rubs):
            own, load = model.freedoms_of(joint), multipliers[model.rows_of(joint), 0]
            bound = bound_of(model, joint, slips.position, slips.before, slips.now, slips.efforts)
            borne = self._borne(settings, load)
            for i in (i for i, rubs in enumerate(joint.rubbing) if rubs):
                limits[own.start + i] = bound.load[i] * ca.sum1(borne) + settings.step * bound.constant[i]
        return ca.densify(limits)

    def leans(self, model: Model, settings: Settings, slips: Slips, multipliers: ca.SX) -> ca.SX:
        """Direction-dependent part K of each coordinate's bound, structurally zero for symmetric friction, (n_s,)."""
        borne = self._borne(settings, multipliers)
        return stacked(lean(joint, model, settings, slips, borne) for joint in model.joints)

    def _borne(self, settings: Settings, multipliers: ca.SX) -> ca.SX:
        # |λ| itself only where a solver can do with its edge.
        return ca.fabs(multipliers) if self.is_exact else smooth_absolute(multipliers, settings.impulse_width)

    def ratios(self, model: Model, settings: Settings, slips: Slips, unknowns: ca.SX) -> ca.SX:
        """Ratio Z of friction to its bound for each coordinate, 0 without dry friction, (n_s,)."""
        ratios = ca.SX(len(model.freedoms), 1)
        for i, j in enumerate(rubbing(model)):
            sides = [slip[j] for slip in slips.rubbing]
            if self.is_smooth:
                width = settings.slip_width[j]
                ratios[j] = -(smooth_sign(sides[0], width) if len(sides) == 1 else mean_sign(sides[0], sides[1], width))
            else:
                ratios[j] = _over_step(unknowns[i], sides, settings.turn_width[j])
        return ca.densify(ratios)

    def impulses(self, model: Model, settings: Settings, slips: Slips, multipliers: ca.SX, unknowns: ca.SX) -> ca.SX:
        """Friction impulse Z L − K of each coordinate, (n_s,) [N s or N m s], for constraint impulses λ, (n_g,)."""
        free = self.ratios(model, settings, slips, unknowns) * self.bounds(model, settings, slips, multipliers)
        leans = self.leans(model, settings, slips, multipliers)
        return free - leans if leans.nnz() else free

    def along(self, model: Model, settings: Settings, slips: Slips, multipliers: ca.SX, unknowns: ca.SX) -> ca.SX:
        """Ratio over the step and at its end, L, s₊/w and K of each coordinate, (5 n_s,)."""
        over = end = self.ratios(model, settings, slips, unknowns)
        if not self.is_smooth:
            end = ca.SX(len(model.freedoms), 1)
            for i, j in enumerate(rubbing(model)):
                end[j] = unknowns[i]
        bounds = self.bounds(model, settings, slips, multipliers)
        leans = ca.densify(self.leans(model, settings, slips, multipliers))
        return ca.vertcat(over, ca.densify(end), bounds, slips.end / settings.slip_width, leans)

    def factors(
        self, model: Model, settings: Settings, slips: Slips, unknowns: ca.SX, variables: dict[int, ca.SX]
    ) -> list[Factor]:
        """Friction law as equality constraints or pairs, between the slips and unknowns of a step."""
        which = rubbing(model)
        if self.is_smooth or not which:
            return []
        names = tuple(model.freedoms[j].label for j in which)
        scale = _SWITCHING if self.is_exact else 1.0
        relative = ca.vertcat(*(slips.end[j] / (scale * settings.slip_width[j]) for j in which))
        z, sigma = ca.vertsplit(unknowns, [0, len(which), unknowns.numel()])
        data = ca.SX.sym("none", 0)
        if self.is_exact:
            corners = not model.contacts  # beside these one row for each ratio: the likelihood is that of all together
            box = replace(Box.unit(ca.SX.sym("codes", len(which)), slack=-relative, value=z), corners=corners)
            rows = tuple(f"{part} {name}" for part in ("stick", "slip") for name in names) if corners else names
            return [Factor("dry friction", Group.STATE, box.rows(), variables, data, rows, kind=Kind.HARD, box=box)]
        pairs = ca.vertcat(sigma, sigma - relative, 1 + z, 1 - z)
        parts = ("slip forwards", "slip backwards", "room below", "room above")
        rows = tuple(f"{part} {name}" for part in parts for name in names)
        return [Factor("dry friction", Group.STATE, pairs, variables, data, rows, kind=Kind.PAIRS)]


def rubbing(model: Model) -> list[int]:
    """Joint coordinates that have dry friction."""
    return [j for j, freedom in enumerate(model.freedoms) if freedom.rubs]


def lean(joint: Joint, model: Model, settings: Settings, slips: Slips, borne: ca.SX) -> ca.SX:
    """Direction-dependent part K of the friction bound of a joint, structurally zero for symmetric friction, (n,).

    Args:
        borne: |λ| of all joints, (n_g,).
    """
    still = ca.SX.zeros(len(joint.coordinates))
    bound = bound_of(model, joint, slips.position, slips.before, slips.now, slips.efforts)
    if not bound.leans:
        return ca.SX(len(joint.coordinates), 1)
    of_load, of_time = (still if part is None else part for part in (bound.load_lean, bound.constant_lean))
    return of_load * ca.sum1(borne[model.rows_of(joint), 0]) + settings.step * of_time


def _over_step(end: ca.SX, slips: Sequence[ca.SX], width: ca.SX) -> ca.SX:
    """Z of a step that ends with the ratio z: Z = z − (z + sign s) τ.

    What turns from s to s₊ rubs the other way for the share τ = |s|/(|s| + |s₊|) of the step, which makes Z
    the mean sign. What is slower than the width w stops where it is, Z = z: τ = s²/(s² + |s s₊| + w²), which is smooth
    where s is zero. For any s the graph of Z over s₊ stays monotone, with its step at s₊ = 0.
    """
    if len(slips) == 1:
        return end
    (before, after), square = slips, width**2
    forth, back = ca.fmax(before, 0), ca.fmax(-before, 0)
    turned = forth**2 / (forth**2 + forth * ca.fmax(-after, 0) + square)
    returned = back**2 / (back**2 + back * ca.fmax(after, 0) + square)
    return end - (1 + end) * turned + (1 - end) * returned
