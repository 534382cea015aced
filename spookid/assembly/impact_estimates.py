"""Impacts as a motion shows them: when they are, how fast the point is before and after, and with which impulse."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import casadi as ca
import numpy as np

from spookid.assembly.assembly import Assembly
from spookid.assembly.observations import chain_of
from spookid.assembly.schedules import FAR, strikes_at
from spookid.assembly.trajectories import along
from spookid.kernels.arrays import Array, contiguous
from spookid.mechanics.contacts import Impact
from spookid.mechanics.joint_coordinates import JointCoordinates
from spookid.records import dataclass
from spookid.stepping.contact_rows import AROUND, Encounter, flights
from spookid.transcription.transcription import Point

_PASSES = 5
"""Of Newton's method for the time of an impact."""


@dataclass(frozen=True)
class Strike:
    """One impact as estimated by a fit."""

    impact: str
    """Name of the ``Impact``."""
    scheduled: float
    """When it should be [s]."""
    time: float
    """When the motions before and after it meet [s]."""
    before: tuple[float, ...]
    """Velocity of the point over the plane just before, along the axes of ``on``, (3,) [m/s]."""
    after: tuple[float, ...]
    """And just after."""
    impulse: tuple[float, ...]
    """On the body of ``frame``, along ``Impact.rows_along`` [N s]."""


def encounters(assembly: Assembly, point: Point, chain: int) -> list[tuple[int, float, float, Array]]:
    """For each impact in a recording: contact number, scheduled and estimated time in steps, and velocities before and
    after, (6,)."""
    problem, sampled = assembly.problem, assembly.sampled[chain]
    model, states, found = problem.model, point.states[chain], []
    for i, impact in enumerate(model.holding.contacts):
        told = sampled.strikes.scheduled[i]
        if not (isinstance(impact, Impact) and told):
            continue
        symbols = [ca.SX.sym(f"x_{o}", states.shape[1]) for o in range(2 * AROUND + 1)]
        late, step = ca.SX.sym("late"), assembly.settings.step
        around, own, values = flights(JointCoordinates(model), symbols, step)
        encounter = Encounter(impact, JointCoordinates(model), around, late, step)
        shown = ca.substitute(ca.vertcat(encounter.late, *encounter.velocities), own, values)
        at = np.array(sampled.strikes.times[i])
        k = np.rint(at).astype(int)
        arrays = [contiguous(states[k + o]) for o in range(-AROUND, AROUND + 1)]
        for _ in range(_PASSES):
            rows = along(
                [*symbols, late], shown, [*arrays, contiguous((at - k)[:, None])], assembly.numbers(point, chain)
            )
            at = np.clip(k + rows[:, 0], np.array(told) - FAR, np.array(told) + FAR)
        found += [(i, *pair, row[1:]) for *pair, row in zip(told, at.tolist(), rows, strict=True)]
    return found


def retimed(assembly: Assembly, point: Point) -> tuple[Assembly, float]:
    """Same problem with impacts at the times of an estimated motion, and the largest change of a time in steps."""
    sampled, moved = [], 0.0
    for c, one in enumerate(assembly.sampled):
        times: list[list[float]] = [[] for _ in one.strikes.times]
        for i, _, at, _ in encounters(assembly, point, c):
            times[i].append(at)
        pairs = zip(times, one.strikes.times, strict=True)
        moved = max([moved, *(abs(a - b) for new, old in pairs for a, b in zip(new, old, strict=True))])
        strikes = strikes_at(assembly.problem.model, times, one.grid, one.strikes.scheduled)
        sampled.append(replace(one, strikes=strikes))
    written = assembly.transcription.factors
    chains = [chain_of(assembly.problem, e, list(written), assembly.observed, i) for i, e in enumerate(sampled)]
    transcription = assembly.transcription.with_chains(chains)
    return replace(assembly, sampled=tuple(sampled), transcription=transcription), moved


def around(assembly: Assembly, point: Point, multipliers: Sequence[Array]) -> Assembly:
    """Same problem with impacts at the times of the motion of another fit; unchanged without impacts.

    Args:
        multipliers: λ of each step that the other fit has found on each recording, (N, n_g).
    """
    if not any(np.any(one.strikes.struck) for one in assembly.sampled):
        return assembly
    for chain, found in enumerate(multipliers):
        if len(found) == assembly.sampled[chain].grid.count and found.shape[1] == assembly.problem.model.rows:
            assembly = _as_fitted(assembly, chain, found)
    return retimed(assembly, point)[0]


def strikes_of(assembly: Assembly, point: Point, chain: int, multipliers: Array) -> tuple[Strike, ...]:
    """Impacts of a recording in the order of time.

    Args:
        multipliers: λ of each step, (N, n_g); they show around which steps a fit took impacts.
    """
    holding, grid = assembly.problem.model.holding, assembly.sampled[chain].grid
    known = _as_fitted(assembly, chain, multipliers)
    found = []
    for i, told, at, velocities in encounters(known, point, chain):
        k, contact = round(at), holding.contacts[i]
        impulse = np.sum(multipliers[k - 2 : k + 3, holding.rows_of(contact)], axis=0)
        when = (grid.start + x * grid.step for x in (told, at))
        parts: Sequence[Array] = (velocities[:3], velocities[3:], impulse)
        found.append(Strike(contact.name, *when, *(tuple(part.tolist()) for part in parts)))  # type: ignore[arg-type]
    return tuple(sorted(found, key=lambda strike: strike.time))


def _as_fitted(assembly: Assembly, chain: int, multipliers: Array) -> Assembly:
    """With each impact at the middle one of the three steps in which it has an impulse."""
    model, sampled, times = assembly.problem.model, list(assembly.sampled), []
    for contact, told in zip(model.holding.contacts, sampled[chain].strikes.scheduled, strict=True):
        acting = np.flatnonzero(np.any(np.nan_to_num(multipliers[:, model.rows_of(contact)]) != 0, axis=1))
        near = [acting[np.abs(acting - x) <= AROUND] for x in told]
        times.append([float(np.mean(own)) if len(own) else x for own, x in zip(near, told, strict=True)])
    strikes = strikes_at(model, times, sampled[chain].grid, sampled[chain].strikes.scheduled)
    sampled[chain] = replace(sampled[chain], strikes=strikes)
    return replace(assembly, sampled=tuple(sampled))
