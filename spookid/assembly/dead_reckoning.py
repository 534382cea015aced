"""Coordinates of joints that no sensor of positions shows, from those of rates and accelerations, for an initial guess.

Rates come first and accelerations after, for these are far from linear in the coordinates (``kinematic_fit``). Where
rates alone are known the place of a hinge in its turn is that at which gravity explains best how it speeds up.
"""

from __future__ import annotations

from collections.abc import Sequence

import casadi as ca
import numpy as np

from spookid.assembly.kinematic_fit import BETTER, KinematicFit, Motion, derivatives, state_at
from spookid.data.channels import Channel, all_predicted, order
from spookid.kernels.arrays import Array
from spookid.mechanics.joint_coordinates import JointCoordinates
from spookid.mechanics.kinematics import Values
from spookid.mechanics.model import Mechanics, Model
from spookid.parameter import parameters_in

_TURNS = 8
"""Angles at which a hinge is tried whose place in its turn nothing has told."""

_WIDTH = 0.01
"""Of what turns from one sign to the other with a rate [rad/s or m/s]."""


def reckoned(
    model: Model, channels: Sequence[Channel], measured: Array, motion: Motion, values: Values
) -> tuple[Array, list[int]]:
    """Coordinates of all joints, (N, n_s), and the numbers of those that could be told from no sensor.

    Args:
        channels: all that there are.
        measured: what they have shown at the steps, smooth and without gaps, (N, n_o).
        values: of every parameter.
    """
    orders, found, seen = [order(channel, model) for channel in channels], None, set[int]()
    for most in (1, 2):
        if most not in orders:
            continue
        chosen = [i for i, n in enumerate(orders) if 0 < n <= most]
        fit = KinematicFit(model, [channels[i] for i in chosen], measured[:, chosen], motion, values)
        if fit.seen:
            found = fit.solved(found)
            seen |= fit.seen
    moved = motion.moved.copy()
    if found is not None:
        moved[:, list(motion.hidden)] = found
    told = [number for i, number in enumerate(motion.hidden) if i in seen]
    if told and 2 not in orders:
        moved = _hung(model, moved, told, values, motion.step)
    return moved, [number for number in motion.hidden if number not in told]


def _hung(model: Model, moved: Array, told: Sequence[int], values: Values, step: float) -> Array:
    """Coordinates (N, n_s) with hinges whose rate alone is known at the angle in their turn, of some, at which gravity
    and springs explain plainly best how they speed up; those of motors stay where they are."""
    driven = {model.freedoms_of(motor.joint).start + motor.coordinate for motor in model.motors}
    left = lacking(model, values)

    def turned(number: int, turn: float) -> Array:
        result = moved.copy()
        result[:, number] += turn
        return result

    def cost(number: int, coordinates: Array) -> float:
        rows = left(*(part.T for part in derivatives(coordinates, step))).full()
        return float(np.sum(rows[number] ** 2))

    for number in told:
        period = model.freedoms[number].coordinate.period
        if period is not None and number not in driven:
            tried = [turned(number, period * i / _TURNS) for i in range(_TURNS)]
            costs = [cost(number, coordinates) for coordinates in tried]
            if min(costs) < BETTER * costs[0]:
                moved = tried[int(np.argmin(costs))]
    return moved


def lacking(model: Model, values: Values) -> ca.Function:
    """Of coordinates and their derivatives, (n_s,) each: what the motion takes along each coordinate besides gravity
    and the loads, without inputs and dry friction, (n_s,)."""
    symbols = [ca.SX.sym(name, len(model.freedoms)) for name in ("d", "rate", "acceleration")]
    state, joints = state_at(model, *symbols), JointCoordinates(model)
    mass, none = model.inertia(), ca.SX(len(model.signals), 1)
    force = model.weight() + Mechanics.gyroscopic_of(mass, state.v) + model.pushed(state.q, state.v, none)
    net = joints.transmitted(state.q, ca.densify(mass @ state.a - force)).along
    rows = [ca.SX(0)] * len(model.freedoms)
    for i, number in enumerate(joints.places[: len(rows)]):
        freedom = model.freedoms[number]
        inputs = {signal: ca.SX(0) for signal in freedom.joint.signals}
        width = ca.SX([_WIDTH] * len(freedom.joint.coordinates))
        effort = freedom.joint.effort(state.angle(freedom.joint), state.rate(freedom.joint), inputs, width)
        rows[number] = net[i] - effort[freedom.index]
    parameters = parameters_in(rows, "the model", ignore=symbols)
    numbers = [ca.SX(values[p.name]) for p in parameters]
    return ca.Function("lacking", symbols, ca.substitute([ca.vertcat(*rows)], list(parameters), numbers))


def seen_by(model: Model, channels: Sequence[Channel]) -> set[int]:
    """Numbers of the coordinates of a tree of joints that channels of positions see."""
    d = ca.SX.sym("d", len(model.freedoms))
    state = state_at(model, d, ca.SX(d.numel(), 1), ca.SX(d.numel(), 1))
    shown = all_predicted(channels, state)
    slope = ca.jacobian(shown, d)
    return {j for j in range(d.numel()) if slope[:, j].nnz()}
