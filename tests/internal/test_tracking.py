"""Poses along a recording: branches of loops, what rows leave free, and rows that contradict each other."""

from __future__ import annotations

import math

import numpy as np
import pytest
from mechanisms import Array
from scipy.integrate import solve_ivp

from spookid import GROUND, Body, Hinge, HingeAngle, Model, Observation, PointPosition, gravity
from spookid.assembly.tracking import Tracking
from spookid.mechanics.kinematics import displacements

AXLE = {"x": (0, 0, 1), "y": (1, 0, 0)}
CRANK, COUPLER, ROCKER, GAP = 1.0, 3.0, math.sqrt(5), 4.0


def bars(lengths: list[float], pins: int, far: float = 0.0) -> Model:
    """Bars one after the other from the origin about axles along z, the last one with a pin at (far, 0) if there are as
    many pins as bars and one."""
    bodies = [Body(f"bar{i}", mass=1, inertia=(1, 1, 1)) for i in range(len(lengths))]
    ends = [body.frame(at=(length / 2, 0, 0), **AXLE) for body, length in zip(bodies, lengths, strict=True)]
    starts = [body.frame(at=(-length / 2, 0, 0), **AXLE) for body, length in zip(bodies, lengths, strict=True)]
    sides = [GROUND.frame(**AXLE), *ends], [*starts, GROUND.frame(at=(far, 0, 0), **AXLE)]
    joints = [Hinge(f"pin{i}", sides[0][i], sides[1][i]) for i in range(pins)]
    return Model(bodies, joints, gravity=gravity(9.81))


def channels(model: Model, *sensors):
    return [channel for sensor in sensors for channel in sensor.channels(model)]


def closed(crank: Array, mode: int) -> Array:
    """Angles of a four-bar's pins but for the last, (N, 3), from its crank's: two circles that meet, on either side."""
    elbow = CRANK * np.column_stack([np.cos(crank), np.sin(crank)])
    across = np.array([GAP, 0.0]) - elbow
    reach = np.linalg.norm(across, axis=1)
    bend = np.arccos((COUPLER**2 + reach**2 - ROCKER**2) / (2 * COUPLER * reach))
    coupler = np.arctan2(across[:, 1], across[:, 0]) + mode * bend
    pin = elbow + COUPLER * np.column_stack([np.cos(coupler), np.sin(coupler)])
    rocker = np.arctan2(-pin[:, 1], GAP - pin[:, 0])
    return np.column_stack([crank, coupler - crank, rocker - coupler])


def turned(angles: Array, others: Array) -> Array:
    """One less the other, but for whole turns."""
    return (angles - others + np.pi) % (2 * np.pi) - np.pi


@pytest.mark.parametrize("mode", [1, -1])
@pytest.mark.parametrize("turn", [0.005, 0.05, 0.3])
def test_a_loop_stays_in_its_mode_while_its_crank_turns_over(mode: int, turn: float) -> None:
    model = bars([CRANK, COUPLER, ROCKER], 4, far=GAP)
    crank = 0.4 + turn * np.arange(round(4 * np.pi / turn))
    truth = closed(crank, mode)
    tracking = Tracking(model, channels(model, HingeAngle(model.joints[0], "crank")), {})
    start = tracking.at(np.column_stack([truth[:1], np.zeros(1)]))
    found = displacements(model, tracking.poses(tracking.along(start[0], crank[:, None])), {})
    np.testing.assert_allclose(turned(found[:, :3], truth), 0, atol=1e-9)


def test_what_no_row_tells_moves_as_little_as_it_can() -> None:
    lengths = [0.4, 0.3, 0.2]
    model = bars(lengths, 3)
    t = np.linspace(0, 1, 3201)

    def tip(angles: Array) -> Array:
        heads = np.cumsum(angles, axis=-1)
        return np.stack([np.cos(heads) @ lengths, np.sin(heads) @ lengths], axis=-1)

    def slope(angles: Array) -> Array:
        heads = np.cumsum(angles)
        along = np.array([-np.sin(heads) * lengths, np.cos(heads) * lengths])
        return np.cumsum(along[:, ::-1], axis=1)[:, ::-1]

    first = np.array([0.5, 0.9, -0.6])
    centre = tip(first) - [0.15, 0.0]
    rate = 2 * np.pi * 2
    target = centre + 0.15 * np.column_stack([np.cos(rate * t), np.sin(rate * t)])

    def flow(at: float, angles: Array) -> Array:
        wanted = 0.15 * rate * np.array([-np.sin(rate * at), np.cos(rate * at)])
        return np.linalg.pinv(slope(angles)) @ wanted

    truth = solve_ivp(flow, (0, 1), first, t_eval=t, rtol=1e-9, atol=1e-10).y.T
    end = model.bodies[-1].frame(at=(lengths[-1] / 2, 0, 0))
    tracking = Tracking(model, channels(model, PointPosition(end, "xy", ("x", "y"))), {})
    found = tracking.along(first, target)
    np.testing.assert_allclose(tip(found), target, atol=1e-9)
    assert np.abs(truth[-1] - first).max() > 0.05  # the circle is closed, the arm is not where it was
    np.testing.assert_allclose(found, truth, atol=0.01)  # to first order in steps of 0.004 of a radian


def test_sensors_that_contradict_each_other_are_met_in_between() -> None:
    model = bars([0.5], 1)
    joint = model.joints[0]
    sensors = [Observation(lambda state: state.angle(joint)[0], name) for name in ("one", "other")]
    tracking = Tracking(model, channels(model, *sensors), {})
    angle = np.linspace(0, 7, 500)
    found = tracking.along(np.zeros(1), np.column_stack([angle - 0.4, angle + 0.2]))
    np.testing.assert_allclose(turned(found[:, 0], angle - 0.1), 0, atol=1e-9)


def test_points_out_of_reach_are_pointed_at() -> None:
    model = bars([0.5], 1)
    end = model.bodies[0].frame(at=(0.25, 0, 0))
    tracking = Tracking(model, channels(model, PointPosition(end, "xy", ("x", "y"))), {})
    angle = np.linspace(0.1, 9, 700)
    radius = 0.5 + 0.4 * np.sin(angle)  # within reach and beyond it
    found = tracking.along(np.zeros(1), radius[:, None] * np.column_stack([np.cos(angle), np.sin(angle)]))
    np.testing.assert_allclose(turned(found[:, 0], angle), 0, atol=5e-3)  # 1 % of what is out of reach
    assert np.abs(np.diff(found[:, 0])).max() < 0.1
