"""What motion says of contacts: heights and planes that do not fit together, schedules that it contradicts, friction
whose direction it does not show.

A fit puts what a schedule leaves out into the process noise, at the steps where it is, and what a schedule holds
against the data into errors of sensors while it does. Both stand out of the rest, whose size the median gives.

States are integrated out by Laplace's method, around the most probable ones. Where a rate is known less well than the
width over which friction turns, and is within two of its errors of rest, the law is no straight line over what is
likely, and most probable states choose the direction that suits the noise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import casadi as ca
import numpy as np

from spookid.assembly.assembly import Assembly
from spookid.assembly.contact_start import noise_of, places_of
from spookid.assembly.impact_estimates import encounters
from spookid.assembly.schedules import FAR
from spookid.assembly.trajectories import along, noise_of_impulses
from spookid.data.sampling import wrap
from spookid.estimation.suspects import runs, spread
from spookid.kernels.arrays import Array, Mask, contiguous
from spookid.mechanics.contacts import Impact
from spookid.mechanics.friction_loads import ContinuousFriction
from spookid.mechanics.holding import Touch
from spookid.mechanics.joint_coordinates import JointCoordinates
from spookid.mechanics.kinematics import Recursion
from spookid.parameter import number
from spookid.results.findings import Finding
from spookid.results.trajectory import Trajectory
from spookid.statistics.condensing import Condensed, linearize_beside
from spookid.statistics.whiteness import OFF, SURE
from spookid.stepping.base import SWITCHED
from spookid.tables.table import quantity
from spookid.transcription.factor import Factor, Group
from spookid.transcription.transcription import Point

_OPEN = 8.0
"""Standard deviations from which something is no noise, whatever its distribution and however many there are."""
_NEAR = 3
"""Steps between those that stand out up to which they are one, and over which an impulse is that of an impact."""
FEW = 0.05
"""Share of the steps, or the samples, up to which what is off is an exception."""


def contact_findings(assembly: Assembly, point: Point) -> list[Finding]:
    """Warnings from measured poses about the planes of contacts; none for models without contacts."""
    problem, found = assembly.problem, list[Finding]()
    contacts, values = problem.model.contacts, assembly.values(point)
    pairs = [(contact.point.body.name, contact.plane.body.name) for contact in contacts]
    for pair in dict.fromkeys(pairs):
        own = [i for i, other in enumerate(pairs) if other == pair]
        gaps, noise, reach = list[Array](), 0.0, 0.0
        for sampled in assembly.sampled:
            poses = sampled.guess.states[:, : problem.model.configuration.ambient]
            heights = places_of(problem, sampled, poses, values)[:, own, 0]
            gaps.append(heights.min(axis=1))
            noise = max(noise, max(noise_of(column) for column in heights.T))
            reach = max(reach, float(np.max(np.abs(np.diff(gaps[-1])), initial=0.0)))
        every, far = np.concatenate(gaps), OFF * noise
        below = every[every < -far]
        if len(below) > FEW * len(every):  # impacts alone are fewer
            share, depth = len(below) / len(every), -float(np.median(below))
            where = (
                f"{100 * share:.0f} % of the samples are below the plane, in the median by {quantity(depth, 'm', 2)}"
            )
            evidence = {"share_below": share, "median_depth": depth}
        elif every.min() > far + reach:
            where = f"in all samples the distance to the plane is at least {quantity(float(every.min()), 'm', 2)}"
            evidence = {"nearest": float(every.min())}
        else:
            continue
        subject = tuple(contacts[i].name for i in own)
        effect = f"The points of contacts {', '.join(subject)} do not reach the contact plane: {where}."
        asked = "Is its height right?", "The height may be declared as a parameter."
        found.append(Finding("contacts.plane", subject, evidence, effect, *asked))
    return found


def schedule_findings(assembly: Assembly, point: Point, motion: Sequence[Trajectory], most: int = 3) -> list[Finding]:
    """Warnings from the motion of each recording about schedules, the first few of each kind."""
    if not assembly.problem.model.holding.contacts or SWITCHED in assembly.problem.scheme.refuses:
        return []
    told = list[Finding]()
    for chain, trajectory in enumerate(motion):
        told += _impacts(assembly, point, chain)
        told += _missing(assembly, point, chain, trajectory)[:most]
        told += _moving(assembly, chain, trajectory)[:most]
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
            says = "the point does not move towards the plane at this time; are the time and the z axis of on correct?"
        elif abs(at - scheduled) >= FAR:
            says = f"the velocity jumps more than {FAR:g} steps of {grid.step:g} s away from the scheduled time."
        elif impact.rubs and before[:2] @ after[:2] < 0:
            slips = " to ".join(f"{np.linalg.norm(v[:2]):.2g}" for v in (before, after))
            says = (
                f"friction cannot reverse the slip velocity, as here from {slips} m/s: either the point sticks "
                "or rolls (friction=math.inf), or joints guide the point (friction=0)."
            )
        if says:
            told.append(_finding(impact.name, f"{what}: {says}", {"time": float(time)}))
    return told


def _missing(assembly: Assembly, point: Point, chain: int, trajectory: Trajectory) -> list[Finding]:
    """Impulses that stand out of what disturbs the motion, with the contact that explains them."""
    joints = JointCoordinates(assembly.problem.model)
    n, names = len(joints.places), joints.names
    impulses = np.nan_to_num(trajectory.impulse_residual[:, :n])
    # What stands out has made larger what the fit has found.
    scale, told = np.maximum(_OPEN * _scale(impulses), SURE * noise_of_impulses(assembly)[:n]), []
    for first, last in _runs(np.any(np.abs(impulses) > scale, axis=1)):
        whole = impulses[max(first - 1, 0) : last + 2].sum(axis=0)
        contact, force, share = _borne(assembly, point, chain, round((first + last) / 2), whole / scale, scale)
        subject, where, size = contact.name, f"{contact.kind} {contact.name!r}", float(np.linalg.norm(force))
        if share < 1 - 1 / 5:  # no contact explains it
            subject = where = names[int(np.argmax(np.abs(whole / scale)))]
            size = np.nan
        what = _words(assembly, chain, trajectory, (first, last), where, size)
        evidence = {"from": float(trajectory.t[first]), "to": float(trajectory.t[last]), "impulse": size}
        told.append(_finding(subject, what, evidence))
    return told


def _words(
    assembly: Assembly, chain: int, trajectory: Trajectory, steps: tuple[int, int], where: str, size: float
) -> str:
    """That an impulse of some size [N s], NaN if that is not known, is missing where it acts."""
    (first, last), t, name = steps, trajectory.t, trajectory.name
    held = np.any(assembly.sampled[chain].held[max(first - 1, 0) : last + 1], axis=0)
    contacts = assembly.problem.model.holding.contacts
    holding = ", ".join(f"{c.kind} {c.name!r}" for c, holds in zip(contacts, held, strict=True) if holds)
    if last - first <= _NEAR:
        when, kind, amount = f"around {(t[first] + t[last]) / 2:.4g} s", "an impulse", quantity(size, "N s", 2)
        ask = "is an impact missing in the schedule there, or is a time wrong?"
    else:
        when, kind = f"from {t[first]:.4g} to {t[last]:.4g} s", "a force"
        amount, ask = quantity(size / (t[last] - t[first]), "N", 2), "does a contact hold longer than in the schedule?"
    if holding and not np.isfinite(size):
        return f"{when} of {name} {where} needs a further impulse while {holding} holds: does it hold then?"
    return f"{when} of {name} {kind}{f' of {amount}' if np.isfinite(size) else ''} on {where} is missing: {ask}"


def _borne(
    assembly: Assembly, point: Point, chain: int, step: int, whole: Array, scale: Array
) -> tuple[Touch, Array, float]:
    """The contact that bears most of an impulse (n,) along the tree, over ``scale``, the impulse there (3,) [N s], and
    the share that it explains."""
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
    relative = np.abs(off) / np.maximum(_scale(off), assembly.sigmas / _OPEN)
    held = assembly.sampled[chain].held
    told = []
    for i, contact in enumerate(assembly.problem.model.holding.contacts):
        holds = np.zeros(len(off), dtype=bool)
        holds[:-1] |= held[:, i] > 0
        for first, last in _runs(np.any(relative > _OPEN, axis=1) & holds):
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
    return np.maximum(spread(values), np.finfo(float).tiny)


def _runs(out: Mask) -> list[tuple[int, int]]:
    """First and last of those that stand out together."""
    return runs(np.flatnonzero(out), _NEAR)


def sliding_findings(
    assembly: Assembly, point: Point, condensed: Condensed | None, values: Mapping[str, float]
) -> list[Finding]:
    """Warning about coordinates whose direction of sliding is uncertain."""
    problem = assembly.problem
    widths = _widths(assembly, values)
    if not widths or condensed is None or not problem.estimates_noise or problem.is_hard:
        return []
    rates, errors = known_rates(assembly, point, condensed)
    told, evidence = [], {}
    for i, width in widths.items():
        unknown = (errors[:, i] > width) & (np.abs(rates[:, i]) < 2 * errors[:, i])
        if np.mean(unknown) > 2 * FEW:
            freedom = problem.model.freedoms[i]
            unit = f"{freedom.coordinate.unit}/s"
            share, error = float(np.mean(unknown)), float(np.median(errors[unknown, i]))
            evidence[freedom.label] = {"share": share, "std_err": error, "width": width}
            told.append(
                f"{freedom.label} at {100 * share:.0f} % of the steps, where its rate is known to "
                f"{quantity(error, unit, 2)} and friction turns over {quantity(width, unit, 2)}"
            )
    if not told:
        return []
    effect = (
        f"The sliding direction of these joints is uncertain: {'; '.join(told)}. The estimate of dry friction is then "
        "too large and of viscous friction too small, by up to about one standard error on average."
    )
    advice = "Sensors that measure rates more accurately help most; a longer step also reduces the error."
    return [Finding("friction.direction-unknown", tuple(evidence), evidence, effect, advice=advice)]


def _widths(assembly: Assembly, values: Mapping[str, float]) -> dict[int, float]:
    """Of coordinates with smooth dry friction, by their number [rad/s or m/s]."""
    problem, found = assembly.problem, dict[int, float]()
    known = problem.parameter_set.on(dict(values))
    for i, freedom in enumerate(problem.model.freedoms):
        laws = [load for load in freedom.joint.loads if isinstance(load, ContinuousFriction)]
        each = [number(velocity, known) for law in laws for velocity in law.velocities]
        each += [float(assembly.widths[i])] if freedom.rubs and problem.rubs_smoothly else []
        if each:
            found[i] = min(each)
    return found


def known_rates(assembly: Assembly, point: Point, condensed: Condensed) -> tuple[Array, Array]:
    """Rates of all coordinates at the ends of all steps, and their standard errors for given parameters, (N, n_s)
    both."""
    problem = assembly.problem
    n, law = len(problem.model.freedoms), problem.scheme.friction_along(problem.model, assembly.settings)
    ends = law.value[3 * n : 4 * n] * assembly.settings.slip_width
    labels = tuple(freedom.label for freedom in problem.model.freedoms)
    factor = Factor("rates", Group.OBSERVATION, ca.densify(ends), law.variables, ca.SX.sym("none", 0), labels)
    terms = linearize_beside(condensed.linearized.problem, factor, point)
    spread = [condensed.state_covariances(c, term) for c, term in enumerate(terms)]
    errors = np.sqrt(np.concatenate([np.einsum("kii->ki", one) for one in spread]))
    return np.concatenate([term.residual for term in terms]), errors
