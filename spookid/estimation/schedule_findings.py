"""Findings on schedules of contacts that the motion contradicts: where impulses are missing, and what holds that moves.

A fit puts what a schedule leaves out into what disturbs the motion, at the steps where it is, and what a schedule holds
against the data into errors of sensors while it does. Both stand out of the rest, whose size is told by the median.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import casadi as ca
import numpy as np

from spookid.assembly.assembly import Assembly
from spookid.assembly.impact_estimates import encounters
from spookid.assembly.schedules import FAR
from spookid.assembly.trajectories import along, noise_of_impulses
from spookid.data.sampling import wrap
from spookid.kernels.arrays import Array, Mask, contiguous
from spookid.mechanics.contacts import Impact
from spookid.mechanics.holding import Touch
from spookid.mechanics.joint_coordinates import JointCoordinates
from spookid.mechanics.kinematics import Recursion
from spookid.results.findings import Finding
from spookid.results.result import Trajectory
from spookid.tables.table import quantity
from spookid.transcription.transcription import Point

_OUT = 8.0
"""Standard deviations from which on something is no noise, whatever its distribution and however many there are."""
_SEEN = 3.0
"""Standard deviations that the fit has found, which what stands out has made larger."""
_EXPLAINED = 0.8
"""Share of the squares of an impulse that one at a contact explains, for that to be named."""
_SHORT = 4
"""Steps over which an impulse is one of an impact."""
_GAP = 3
"""Steps between those that stand out up to which they belong together."""
_MOST = 3
"""Findings of one kind."""


def schedule_findings(assembly: Assembly, point: Point, motion: Sequence[Trajectory]) -> list[Finding]:
    """What the motion of each recording says of the schedules; none of models without contacts."""
    if not assembly.problem.model.holding.contacts or not assembly.problem.scheme.switches:
        return []
    told = list[Finding]()
    for chain, trajectory in enumerate(motion):
        told += _impacts(assembly, point, chain)
        told += _missing(assembly, point, chain, trajectory)[:_MOST]
        told += _moving(assembly, chain, trajectory)[:_MOST]
    return told


def _finding(subject: str, what: str, evidence: Mapping[str, float]) -> Finding:
    """What the motion says of one contact."""
    return Finding("contacts.schedule", (subject,), evidence, f"The motion contradicts a schedule: {what}")


def _impacts(assembly: Assembly, point: Point, chain: int) -> list[Finding]:
    """Impacts that are none, are at another time, or stick where they should slide."""
    grid, contacts, told = assembly.sampled[chain].grid, assembly.problem.model.holding.contacts, list[Finding]()
    for i, scheduled, at, velocities in encounters(assembly, point, chain):
        impact, before, after = contacts[i], velocities[:3], velocities[3:]
        assert isinstance(impact, Impact)
        time, says = grid.start + scheduled * grid.step, ""
        what = f"{impact.kind} {impact.name!r} at {time:.4g} s"
        if before[2] >= 0 or after[2] - before[2] <= 0:
            says = "the motion does not run into the plane there; is the time right, and z of on?"
        elif abs(at - scheduled) >= FAR:
            says = f"the motion has its jump more than {FAR:g} steps of {grid.step:g} s away from there."
        elif impact.rubs and before[:2] @ after[:2] < 0:
            slips = " to ".join(f"{np.linalg.norm(v[:2]):.2g}" for v in (before, after))
            says = (
                f"the slip turns around, from {slips} m/s back, which friction cannot do: either the point "
                "sticks or rolls (friction=math.inf), or joints set where it goes (friction=0)."
            )
        if says:
            told.append(_finding(impact.name, f"{what}: {says}", {"time": float(time)}))
    return told


def _missing(assembly: Assembly, point: Point, chain: int, trajectory: Trajectory) -> list[Finding]:
    """Impulses that stand out of what disturbs the motion, with the contact that explains them."""
    joints = JointCoordinates(assembly.problem.model)
    n, names = len(joints.places), joints.names
    impulses = np.nan_to_num(trajectory.impulse_residual[:, :n])
    scale, told = np.maximum(_OUT * _scale(impulses), _SEEN * noise_of_impulses(assembly)[:n]), []
    for first, last in _runs(np.any(np.abs(impulses) > scale, axis=1)):
        whole = impulses[max(first - 1, 0) : last + 2].sum(axis=0)
        middle = round((first + last) / 2)
        contact, force, share = _borne(assembly, point, chain, middle, whole / scale, scale)
        subject, where, size = contact.name, f"{contact.kind} {contact.name!r}", float(np.linalg.norm(force))
        if share <= _EXPLAINED:
            subject = where = names[int(np.argmax(np.abs(whole / scale)))]
            size = np.nan
        what = _words(assembly, chain, trajectory, (first, last), where, size)
        evidence = {"from": float(trajectory.t[first]), "to": float(trajectory.t[last]), "impulse": size}
        told.append(_finding(subject, what, evidence))
    return told


def _words(
    assembly: Assembly, chain: int, trajectory: Trajectory, steps: tuple[int, int], where: str, size: float
) -> str:
    """That an impulse is missing.

    Args:
        where: what it acts on.
        size: of it [N s]; NaN if that is not known.
    """
    (first, last), t, name = steps, trajectory.t, trajectory.name
    held = np.any(assembly.sampled[chain].held[max(first - 1, 0) : last + 1], axis=0)
    contacts = assembly.problem.model.holding.contacts
    holding = ", ".join(f"{c.kind} {c.name!r}" for c, holds in zip(contacts, held, strict=True) if holds)
    brief = last - first < _SHORT
    when = f"around {(t[first] + t[last]) / 2:.4g} s" if brief else f"from {t[first]:.4g} to {t[last]:.4g} s"
    amount = quantity(size, "N s", 2) if brief else quantity(size / (t[last] - t[first]), "N", 2)
    of = f" of {amount}" if np.isfinite(size) else ""
    if holding and not np.isfinite(size):
        return f"{when} of {name} {where} lacks an impulse while {holding} holds: does it hold then?"
    ask = (
        "does a schedule lack an impact there, or is a time wrong?"
        if brief
        else "does a contact hold longer than told?"
    )
    return (
        f"{when} of {name} an impulse{of} on {where} is missing: {ask}"
        if brief
        else (f"{when} of {name} a force{of} on {where} is missing: {ask}")
    )


def _borne(
    assembly: Assembly, point: Point, chain: int, step: int, whole: Array, scale: Array
) -> tuple[Touch, Array, float]:
    """The contact that bears most of an impulse, the impulse there (3,) [N s], and the share that it explains.

    Args:
        whole: along the coordinates of the tree, over ``scale``, (n,).
    """
    model, joints = assembly.problem.model, JointCoordinates(assembly.problem.model)
    states = point.states[chain][[step]]
    x, s = ca.SX.sym("x", states.shape[1]), ca.SX.sym("s", joints.manifold.tangent)
    motion = Recursion(joints, x[: joints.manifold.ambient], s, ca.SX(s.numel(), 1))
    best: tuple[Touch, Array, float] | None = None
    for contact in model.holding.contacts:
        J = ca.jacobian(contact.velocity(model.original or model, motion.q, motion.v), s)
        rows = along(
            [x, s], ca.vec(J.T), [contiguous(states), np.zeros((1, s.numel()))], assembly.numbers(point, chain)
        )
        columns = rows.reshape(3, -1).T / scale[:, None]
        force = np.asarray(np.linalg.lstsq(columns, whole, rcond=1e-9)[0], dtype=np.float64)
        share = 1 - float(np.sum((whole - columns @ force) ** 2) / np.sum(whole**2))
        if best is None or share > best[2]:
            best = contact, force, share
    assert best is not None
    return best


def _moving(assembly: Assembly, chain: int, trajectory: Trajectory) -> list[Finding]:
    """Contacts that hold while sensors are off by more than otherwise."""
    periods = [np.inf if period is None else period for period in trajectory.periods]
    off = np.nan_to_num(trajectory.observed - trajectory.predicted)
    for i, period in enumerate(periods):
        if np.isfinite(period):
            off[:, i] = wrap(off[:, i], period)
    relative = np.abs(off) / np.maximum(_scale(off), assembly.sigmas / _OUT)
    held = assembly.sampled[chain].held
    told = []
    for i, contact in enumerate(assembly.problem.model.holding.contacts):
        holds = np.zeros(len(off), dtype=bool)
        holds[:-1] |= held[:, i] > 0
        for first, last in _runs(np.any(relative > _OUT, axis=1) & holds):
            if last == first:
                continue
            worst = int(np.argmax(relative[first : last + 1].max(axis=0)))
            most = float(np.abs(off[first : last + 1, worst]).max())
            begin, end = float(trajectory.t[first]), float(trajectory.t[last])
            what = f"{contact.kind} {contact.name!r} holds from {begin:.4g} to {end:.4g} s of {trajectory.name}"
            size = quantity(most, trajectory.units[worst], 2)
            says = f"{what}, while {trajectory.signals[worst]} is off by up to {size}: does it move then?"
            told.append(_finding(contact.name, says, {"from": begin, "to": end, "off": most}))
    return told


def _scale(values: Array) -> Array:
    """Standard deviation of each column that its median tells."""
    return np.asarray(np.maximum(1.4826 * np.median(np.abs(values), axis=0), np.finfo(float).tiny))


def _runs(out: Mask) -> list[tuple[int, int]]:
    """First and last of those that stand out together."""
    places = np.flatnonzero(out)
    if not len(places):
        return []
    cuts = [0, *(i + 1 for i, (a, b) in enumerate(pairwise(places)) if b - a > _GAP), len(places)]
    return [(int(places[a]), int(places[b - 1])) for a, b in pairwise(cuts)]
