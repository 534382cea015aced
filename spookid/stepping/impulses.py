"""Impulses along the joints' coordinates, and the settings that every stepper shares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import casadi as ca

from spookid.data.state import Motion
from spookid.errors import ProblemError
from spookid.mechanics.coefficients import acts
from spookid.mechanics.joint_coordinates import disturbance_names
from spookid.mechanics.model import Mechanics, Model
from spookid.parameter import stacked
from spookid.records import dataclass
from spookid.transcription.factor import Factor, Group, measured_noise

VELOCITY_ROWS = "velocity constraints"
"""Name of a factor whose data are the means of the inputs over each step, whatever those of the impulses are."""


@dataclass(frozen=True, eq=False)
class Settings:
    """Symbols of the settings that stand in a step."""

    step: ca.SX
    """h [s]."""
    weight: ca.SX
    """κ, the state weight."""
    slip_width: ca.SX
    """Width of the smooth stick/slip transition of each coordinate, (n_s,) [rad/s or m/s]."""
    turn_width: ca.SX
    """Slip rate of each coordinate below which friction that sticks stops it at once, (n_s,) [rad/s or m/s]."""
    impulse_width: ca.SX
    """Width δ of √(λ² + δ²) in the load-dependent friction bound [N s]."""
    disturbance: ca.SX
    """Standard deviations of the random impulses of a step: along each joint's coordinates [N s or N m s], then force
    (3) and torque (3) on each free body [N s, N m s]."""
    torques: Mapping[str, ca.SX]
    """Standard deviations of measured efforts of motors at the guesses of their gains [N m or N], by signal."""
    slips: ca.SX
    """Standard deviations of how far each contact that holds moves in a step, (n_c,) [m, rad]."""
    sensors: ca.SX
    """Standard deviations of the observations, each in its signal's unit, (n_o,)."""
    touch_speed: ca.SX
    """Speed of contacts that counts [m/s]."""
    touch_impulse: ca.SX
    """Impulse that gives the whole mechanism that speed [N s]."""

    @classmethod
    def of(cls, model: Model, sensors: int = 0) -> Settings:
        """Fresh symbols for a model and so many sensors."""
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
            ca.SX.sym("touch_speed"),
            ca.SX.sym("touch_impulse"),
        )


@dataclass(frozen=True)
class StepFunction:
    """An expression of the variables at neighbouring steps and of the step's data."""

    variables: Mapping[int, ca.SX]
    data: ca.SX
    value: ca.SX


@dataclass(frozen=True)
class Window:
    """The unknowns that a state at one step is made of, and the state."""

    variables: Mapping[int, ca.SX]
    """Their symbols by offset; over several steps the state is that of the middle one, the earlier of two."""
    motion: Motion
    """Of v and a what was asked for, else zeros."""


@dataclass(frozen=True, eq=False)
class Laws:
    """What m reactions u of a step obey: friction that sticks, limits and contacts."""

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
    """One step as equations to solve: F(x, u, y) = 0, then x_next(x, y); x = (q, v)."""

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
    """Slip rates of all joints in one step, (n_s,) [rad/s or m/s], and where they are."""

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


def random_symbol(model: Model, wanted: bool) -> ca.SX:
    """Random impulses of a forward step, behind its other inputs; none if they are not wanted.

    Along each joint's coordinates, then force and torque on each free body, (n_s + 6 n_free,).
    """
    return ca.SX.sym("random", len(disturbance_names(model)) * wanted)


def disturbance(model: Model, at: Mechanics, random: ca.SX) -> ca.SX:
    """What random impulses do to all bodies, (6 n_b,)."""
    if not random.numel():
        return ca.SX(model.configuration.tangent, 1)
    n = len(model.freedoms)
    free = [i for i, body in enumerate(model.bodies) if body.free]
    parts = [ca.SX(6, 1) for _ in model.bodies]
    for place, i in enumerate(free):
        parts[i] = random[n + 6 * place : n + 6 * place + 6]
    return at.slip.T @ random[:n] + ca.vertcat(*parts)


def along_coordinates(model: Model, settings: Settings, slips: Slips, friction: ca.SX, u: ca.SX) -> ca.SX:
    """Impulse along each coordinate of the joints: loads, friction, armatures, motors, (n_s,) [N s or N m s].

    Args:
        friction: impulses of dry friction, (n_s,).
        u: inputs, (n_u,).
    """
    h, inputs = settings.step, {signal: u[i] for i, signal in enumerate(model.signals)}
    impulses: list[ca.SX] = []
    for joint in model.joints:
        own = model.freedoms_of(joint)
        effort = joint.effort(slips.position[own, 0], slips.now[own, 0], inputs, settings.slip_width[own, 0])
        along = h * effort + friction[own, 0]
        if acts(joint.armature):
            along -= joint.armature * slips.change[own, 0]
        impulses += [along[i] for i in range(len(joint.coordinates))]
    for motor in model.motors:
        place = model.freedoms_of(motor.joint).start + motor.coordinate
        impulses[place] += motor.impulse(h, inputs[motor.signal], slips.now[place], slips.change[place])
    return stacked(impulses)


HATS = 1 / 6
"""``Factor.overlap`` of inputs weighted by a hat over [t_{k−1}, t_{k+1}]: ∫ of a hat times the next one, over h."""


def random_factor(
    model: Model,
    settings: Settings,
    places: Sequence[int],
    impulses: ca.SX,
    variables: Mapping[int, ca.SX],
    data: ca.SX,
    private: tuple[int, range] | None = None,
    known: int | None = None,
    overlap: float = 0.0,
) -> Factor:
    """Random impulses over their standard deviations: where an effort is measured the noise is that measurement's.

    Args:
        places: of each impulse among ``Settings.disturbance``.
        known: how many, the first, may be measured; by default all.
        overlap: ``Factor.overlap`` of the inputs.

    Raises:
        ProblemError: for another that is measured.
    """
    names = disturbance_names(model)
    measured = {motor.label: motor for motor in model.motors if motor.measured}
    rows, noise, density = [], [], []
    for row, place in enumerate(places):
        motor = measured.get(names[place])
        if motor is not None and known is not None and row >= known:
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
    return Factor(
        "impulse",
        Group.STATE,
        stacked(rows),
        variables,
        data,
        tuple(f"Δp {name}" for name in noise),
        motion=True,
        private=private,
        noise=tuple(noise),
        density=tuple(density),
        overlap=overlap,
    )
