"""What the page shows of robots, logs and answers, as JSON holds it; long series are thinned without losing peaks."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from spookid.assembly.assembly import assemble
from spookid.assembly.problem import Problem
from spookid.data.recording import Recording
from spookid.data.sampling import finite_samples
from spookid.estimation.identifiability import a_priori
from spookid.kernels.arrays import Array
from spookid.report.conclusion import inertia_coordinates, sizes
from spookid.results.findings import Finding, ranked
from spookid.results.result import Solution
from spookid.results.trajectory import Trajectory, moments
from spookid.results.values import Mechanism
from spookid.robots import Robot
from spookid.robots.description import Placement
from spookid.statistics.sensitivities import LEADS
from spookid.studies.motor_efforts import MotorEfforts
from spookid.tables.table import number

Facts = dict[str, Any]
_POINTS = 1500
"""Of a plotted series: about the pixels of its width, twice."""


def thinned(t: Array, values: Array, most: int = _POINTS) -> list[list[float | None]]:
    """Pairs (t, value) for a plot: of each interval the least and the largest value, in the order of time."""
    if len(t) > most:
        edges = np.linspace(0, len(t), most // 2 + 1).astype(int)
        chosen = set[int]()
        for begin, end in pairwise(edges.tolist()):
            own = values[begin:end]
            known = np.flatnonzero(np.isfinite(own))
            if known.size:
                chosen |= {begin + int(known[np.argmin(own[known])]), begin + int(known[np.argmax(own[known])])}
        keep = np.array(sorted(chosen), dtype=int)
        t, values = t[keep], values[keep]
    return [[_plain(a), _plain(b)] for a, b in zip(t.tolist(), values.tolist(), strict=True)]


def _plain(value: float) -> float | None:
    return float(f"{value:.7g}") if math.isfinite(value) else None


def of_recording(recording: Recording, notes: Sequence[str] = ()) -> Facts:
    """Every signal as a series, and how often it was sampled."""
    series = {name: thinned(*finite_samples(recording, name)) for name in recording.signals}
    apart = float(np.median(np.diff(recording.t)))
    duration = float(recording.t[-1] - recording.t[0])
    said = f"{len(recording.t):,} samples in {number(duration, 4)} s, {number(1 / apart, 3)} Hz"
    told = list(dict.fromkeys([*notes, *recording.notes]))
    return {"name": recording.name, "said": said, "series": series, "notes": told}


# --- robots ---


def _frame(own: Placement) -> Facts:
    return {"at": own.at.tolist(), "axes": own.axes.tolist()}


def of_robot(robot: Robot) -> Facts:
    """Bodies, joints and what closes loops, with numbers enough to draw and move it."""
    groups, described = robot.grouped, robot.description
    ends: dict[str, list[list[float]]] = {group.name: [] for group in groups.groups.values()}
    joints = list[Facts]()
    for one in groups.connections:
        (parent, inner), (child, outer) = groups.frame(one.parent, one.inner), groups.frame(one.child, one.outer)
        ends[parent.name].append(inner.at.tolist())
        ends[child.name].append(outer.at.tolist())
        labels = robot.joints[one.name].labels if one.name in robot.joints else ()
        limits = robot.limits[labels[0]] if len(labels) == 1 and labels[0] in robot.limits else None
        wide = math.pi if one.kind == "hinge" else 0.5
        lower, upper = (limits.lower, limits.upper) if limits else (-wide, wide)
        lower, upper = (lower, upper) if math.isfinite(lower) and math.isfinite(upper) else (-wide, wide)
        joints.append(
            {
                **{"name": one.name, "kind": one.kind, "parent": parent.name, "child": child.name},
                **{"labels": list(labels), "lower": lower, "upper": upper},
                **{"inner": _frame(inner), "outer": _frame(outer)},
            }
        )
    loops = []
    for loop in described.loops:
        sides = [groups.frame(link, own) for link, own in zip(loop.links, loop.frames, strict=True)]
        loops.append({"bodies": [group.name for group, _ in sides], "at": [own.at.tolist() for _, own in sides]})
        for group, own in sides:
            ends[group.name].append(own.at.tolist())
    centers = {group.name: group.inertial(described).center.tolist() for group in groups.bodies}
    bodies = [{"name": name, "center": center, "ends": ends[name]} for name, center in centers.items()]
    ties = [{"leader": t.leader, "follower": t.follower, "ratio": t.ratio, "offset": t.offset} for t in described.ties]
    units = {label: coordinate.unit for label, coordinate in robot.coordinates.items()}
    ground = next((group.name for group in groups.groups.values() if group.ground), "")
    return {
        **{"name": robot.name, "bodies": bodies, "joints": joints, "loops": loops, "ties": ties, "labels": units},
        **{"ground": ground, "ground_ends": ends.get(ground, []), "notices": list(robot.notices)},
        "gravity": list(described.gravity),
    }


# --- before a fit ---


def of_problem(problem: Problem) -> Facts:
    """What a fit will be able to tell of each parameter, linearized at the initial values."""
    assembly = assemble(problem)
    told = a_priori(assembly)
    known, last, rows = told.sensitivities, inertia_coordinates(problem), []
    # Known from priors alone, or most of a combination that is hardly determined.
    weak = {name for one in told.findings if one.code == "parameters.undetermined" for name in one.subject}
    weak |= {name for one in known.weak for name, share in one.direction.items() if abs(share) > LEADS}
    errors = dict(zip(known.names, np.sqrt(np.abs(np.diag(known.covariance))).tolist(), strict=True))
    for parameter in sorted(problem.parameters, key=lambda one: one.name in last):
        name, error = parameter.name, errors.get(parameter.name, math.nan)
        state = "weak" if name in weak else "identified" if math.isfinite(error) else "not"
        rows.append(
            {
                **{"name": name, "guess": problem.guess[name], "unit": parameter.unit, "note": parameter.note},
                **{"prior": list(parameter.prior) if parameter.prior else None, "fixed": name not in errors},
                **{"error": _plain(error), "known": error < abs(problem.guess[name])},
                **{"state": state if name in errors else "fixed", "reason": known.reasons.get(name, "")},
            }
        )
    sentences = [f"{', '.join(one.direction)}: {one.advice}" for one in known.weak]
    findings = [of_finding(one) for one in ranked(assembly.findings)]
    return {"name": problem.name, "sizes": sizes(problem), "rows": rows, "weak": sentences, "findings": findings}


def of_finding(finding: Finding) -> Facts:
    """A warning or question, and what it is about."""
    evidence = {name: value for name, value in finding.evidence.items() if isinstance(value, (str, float, list))}
    return {
        **{"code": finding.code, "severity": finding.severity, "subject": list(finding.subject)},
        **{"text": finding.text, "evidence": evidence},
    }


# --- answers ---


def of_solution(solution: Solution, coordinates: Collection[str] = ()) -> Facts:
    """Verdict, warnings, estimates, residuals and motion; ``coordinates`` of inertias are the last of the table."""
    summary = solution.summary()
    own = sorted(solution.parameters.values(), key=lambda one: one.name in coordinates)
    rows = [_row(one.name, one.brief, one) for one in own]
    derived = [
        _row(name, f"{number(one.estimate, 4)} ± {number(one.std_err, 2)} {one.unit}".replace(" ± nan", ""), one)
        for name, one in {**solution.physical, **solution.joints}.items()
    ]
    return {
        **{"verdict": summary.partition("\n")[0], "summary": summary, "answer": not solution.no_answer},
        **{"status": solution.status.value, "rows": rows, "derived": derived},
        "findings": [of_finding(one) for one in solution.findings],
        "signals": [one for motion in solution.trajectories for one in _signals(motion)],
        "motions": [_motion(solution, k) for k in range(len(solution.trajectories))] if solution.mechanism else [],
        "drawing": of_mechanism(solution.mechanism) if solution.mechanism else None,
    }


def _row(name: str, value: str, one: Any) -> Facts:
    share = f"{number(100 * one.std_err / abs(one.estimate), 2)} %" if one.std_err < abs(one.estimate) else ""
    return {"name": name, "value": value, "relative": share, "from": one.known_from}


def _signals(motion: Trajectory) -> list[Facts]:
    pairs = zip(motion.signals, motion.units, motion.observed.T, motion.predicted.T, strict=True)
    return [
        _pair(f"{motion.name}: {name}", unit, (motion.t, seen), (motion.t, predicted))
        | {"residual": thinned(motion.t, seen - predicted)}
        for name, unit, seen, predicted in pairs
    ]


def of_mechanism(parts: Mechanism) -> Facts:
    """Bodies with the ends of their joints in their frames."""
    ends: dict[str, list[list[float]]] = {body.name: [] for body in parts.bodies}
    axes = []
    for joint in parts.hinges:
        for body, at in ((joint.parent, joint.parent_at), (joint.child, joint.child_at)):
            if body in ends:
                ends[body].append(list(at))
        axes.append({"name": joint.name, "body": joint.parent, "at": list(joint.parent_at), "axis": list(joint.axis)})
    for tie in parts.constraints:
        for body, at in zip(tie.ties, tie.at, strict=False):
            if body in ends:
                ends[body].append(list(at))
    bodies = [{"name": body.name, "center": [0.0, 0.0, 0.0], "ends": ends[body.name]} for body in parts.bodies]
    return {"bodies": bodies, "axes": axes, "gravity": list(parts.gravity)}


def _motion(solution: Solution, number: int) -> Facts:
    """Poses at the moments of an animation, estimated and where the signals determine them measured."""
    motion = solution.trajectories[number]
    own = solution.measured[number] if number < len(solution.measured) else None
    frames = np.asarray(own.frames, dtype=int) if own is not None and len(own.frames) else moments(motion.t)
    frames = frames[:: max(len(frames) // 200, 1)]
    measured: Sequence[Any] = []
    if own is not None and len(own.frames):
        poses = own.poses[:: max(len(own.frames) // 200, 1)]
        measured = [row.tolist() if np.isfinite(row).all() else None for row in poses]
    return {
        **{"name": motion.name, "t": [float(f"{t:.4g}") for t in motion.t[frames].tolist()]},
        **{"estimated": np.round(motion.q[frames], 6).tolist(), "measured": measured},
    }


def of_efforts(found: MotorEfforts) -> list[Facts]:
    """Predicted and measured efforts of motors along a recording."""
    return [
        _pair(name, found.units[i], (found.t, found.measured_efforts[:, i]), (found.t, found.efforts[:, i]))
        for i, name in enumerate(found.motors)
    ]


def of_simulation(problem: Problem, measured: Recording, simulated: Recording) -> list[Facts]:
    """Simulated and measured signals of sensors."""
    series = [(one.t - one.t[0], one) for one in (measured, simulated)]
    return [_pair(c.signal, c.unit, *((t, one.signal(c.signal)) for t, one in series)) for c in problem.channels]


def _pair(name: str, unit: str, measured: tuple[Array, Array], estimated: tuple[Array, Array]) -> Facts:
    return {"signal": name, "unit": unit, "measured": thinned(*measured), "estimated": thinned(*estimated)}
