"""Impulses along the hinges' axes, and the settings that every stepper shares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import casadi as ca

from spookid.mechanics.friction import smooth_torque
from spookid.mechanics.model import Mechanics, Model


@dataclass(frozen=True, eq=False)
class Settings:
    """Symbols of the settings that stand in a step."""

    step: ca.SX
    """h [s]."""
    weight: ca.SX
    """κ, the state weight."""
    slip_width: ca.SX
    """Width of the smooth stick/slip transition of each hinge, (n_j,) [rad/s]."""
    turn_width: ca.SX
    """Slip rate of each hinge below which friction that sticks stops it at once, (n_j,) [rad/s]."""
    impulse_width: ca.SX
    """Width δ of √(λ² + δ²) in the load-dependent friction bound [N s]."""
    disturbance: ca.SX
    """Standard deviations of the random impulses of a step: about the axis of each hinge [N m s], then force (3) and
    torque (3) on each free body [N s, N m s]."""
    torques: Mapping[str, ca.SX]
    """Standard deviations of measured joint torques [N m], by signal."""
    sensors: ca.SX
    """Standard deviations of the observations, each in its signal's unit, (n_o,)."""

    @classmethod
    def of(cls, model: Model, sensors: int = 0) -> Settings:
        """Fresh symbols for a model and so many sensors."""
        n = len(model.joints)
        random = n + 6 * sum(body.free for body in model.bodies)
        torques = {m.signal: ca.SX.sym(f"sigma_{m.signal}") for m in model.motors if m.measured}
        return cls(
            ca.SX.sym("h"),
            ca.SX.sym("kappa"),
            ca.SX.sym("slip_width", n),
            ca.SX.sym("turn_width", n),
            ca.SX.sym("impulse_width"),
            ca.SX.sym("disturbance", random),
            torques,
            ca.SX.sym("sigma", sensors),
        )


@dataclass(frozen=True)
class StepFunction:
    """An expression of the variables at neighbouring steps and of the step's data."""

    variables: Mapping[int, ca.SX]
    data: ca.SX
    value: ca.SX


@dataclass(frozen=True)
class ForwardStep:
    """One step as equations to solve: equations(x, u, unknowns) = 0, then x_next(x, unknowns); x = (q, v)."""

    x: ca.SX
    u: ca.SX
    """Inputs of the step, as ``Stepper.inputs`` makes them."""
    unknowns: ca.SX
    """(v₊, λ)."""
    equations: ca.SX
    x_next: ca.SX


@dataclass(frozen=True)
class Slips:
    """Slip rates of all hinges in one step, (n_j,) [rad/s]."""

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


def random_symbol(model: Model, wanted: bool) -> ca.SX:
    """Random impulses of a forward step, behind its other inputs; none if they are not wanted.

    About the axis of each hinge, then force and torque on each free body, (n_j + 6 n_free,).
    """
    return ca.SX.sym("random", (len(model.joints) + 6 * sum(body.free for body in model.bodies)) * wanted)


def disturbance(model: Model, at: Mechanics, random: ca.SX) -> ca.SX:
    """What random impulses do to all bodies, (6 n_b,)."""
    if not random.numel():
        return ca.SX(6 * len(model.bodies), 1)
    n = len(model.joints)
    free = [i for i, body in enumerate(model.bodies) if body.free]
    parts = [ca.SX(6, 1) for _ in model.bodies]
    for place, i in enumerate(free):
        parts[i] = random[n + 6 * place : n + 6 * place + 6]
    return at.slip.T @ random[:n] + ca.vertcat(*parts)


def along_axes(model: Model, settings: Settings, angles: ca.SX, slips: Slips, friction: ca.SX, u: ca.SX) -> ca.SX:
    """Impulse about the axis of each hinge: springs, friction, motors, (n_j,) [N m s].

    Args:
        angles: of all hinges where they act, in (−π, π], (n_j,).
        friction: impulses of dry friction, (n_j,).
        u: inputs, (n_u,).
    """
    h, impulses = settings.step, []
    for j, joint in enumerate(model.joints):
        impulses.append(h * smooth_torque(joint, angles[j], slips.now[j]) + friction[j])
    for motor in model.motors:
        j = model.joints.index(motor.hinge)
        drive = motor.gain * u[model.signals.index(motor.signal)]
        impulses[j] += h * drive - motor.shaft_inertia * slips.change[j]
    return ca.vertcat(ca.SX(0, 1), *impulses)
