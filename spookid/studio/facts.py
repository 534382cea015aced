"""What the page shows of robots, logs and answers, as JSON holds it; long series are thinned without losing peaks."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from spookid.assembly.assembly import assemble
from spookid.assembly.problem import Problem
from spookid.data.recording import Recording
from spookid.data.sampling import finite_samples
from spookid.estimation.identifiability import a_priori
from spookid.report import interactive, plots
from spookid.report.conclusion import inertia_coordinates, sizes
from spookid.report.interactive import Panel, curve
from spookid.report.motion import films, scene
from spookid.report.pictures import BLUE, ORANGE
from spookid.report.skeleton import upright
from spookid.report.summary import brief
from spookid.results.findings import Finding, ranked
from spookid.results.result import Solution
from spookid.robots import Robot
from spookid.robots.description import Placement
from spookid.statistics.sensitivities import LEADS
from spookid.studies.motor_efforts import MotorEfforts
from spookid.tables.table import labelled, number

Facts = dict[str, Any]


def _plain(value: float) -> float | None:
    return float(f"{value:.7g}") if math.isfinite(value) else None


def of_recording(recording: Recording, notes: Sequence[str] = ()) -> Facts:
    """Time series of every signal, and its sampling rate."""
    thinned = {name: plots.thinned(*finite_samples(recording, name)) for name in recording.signals}
    panels = [Panel([curve(*pair, name, BLUE)], name) for name, pair in thinned.items()]
    drawn = interactive.figure(panels, "Signals of the log", legend=False)
    series = {name: np.column_stack(pair).tolist() for name, pair in thinned.items()}
    apart, duration = float(np.median(np.diff(recording.t))), float(recording.t[-1] - recording.t[0])
    said = f"{len(recording.t):,} samples in {number(duration, 4)} s, {number(1 / apart, 3)} Hz"
    told = list(dict.fromkeys([*notes, *recording.notes]))
    return {"name": recording.name, "said": said, "series": series, "figure": drawn, "notes": told}


# --- robots ---


def _frame(own: Placement) -> Facts:
    return {"at": own.at.tolist(), "axes": own.axes.tolist()}


def of_robot(robot: Robot) -> Facts:
    """Bodies, joints and loops of a robot, with the numbers to draw and move it."""
    groups, described = robot.grouped, robot.description
    ends: dict[str, list[list[float]]] = {group.name: [] for group in groups.groups.values()}
    joints = list[Facts]()
    for one in groups.connections:
        (parent, inner), (child, outer) = groups.frame(one.parent, one.inner), groups.frame(one.child, one.outer)
        ends[parent.name].append(inner.at.tolist())
        ends[child.name].append(outer.at.tolist())
        labels = robot.joints[one.name].labels if one.name in robot.joints else ()
        limits = robot.limits.get(labels[0]) if len(labels) == 1 else None
        lower, upper = (limits.lower, limits.upper) if limits else (-math.inf, math.inf)
        if not (math.isfinite(lower) and math.isfinite(upper)):
            lower, upper = (-math.pi, math.pi) if one.kind == "hinge" else (-0.5, 0.5)
        named = {"name": one.name, "kind": one.kind, "parent": parent.name, "child": child.name, "labels": list(labels)}
        joints.append(named | {"lower": lower, "upper": upper, "inner": _frame(inner), "outer": _frame(outer)})
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
        "upright": upright(np.array(described.gravity)).as_matrix().tolist(),
    }


def of_problem(problem: Problem) -> Facts:
    """Identifiability of each parameter before the fit, linearized at the initial values."""
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
    """Warning or question, with its subject."""
    evidence = {name: value for name, value in finding.evidence.items() if isinstance(value, (str, float, list))}
    return {"code": finding.code, "severity": finding.severity, "text": brief(finding.text), "evidence": evidence}


# --- answers ---


def of_solution(solution: Solution, coordinates: Collection[str] = ()) -> Facts:
    """Verdict, warnings, estimates, residuals and motion; ``coordinates`` of inertias are last in the table."""
    summary = solution.summary()
    own = sorted(solution.parameters.values(), key=lambda one: one.name in coordinates)
    rows = [_row(one.name, one.brief, one) for one in own]
    derived = [
        _row(name, f"{number(one.estimate, 4)} ± {number(one.std_err, 2)} {one.unit}".replace(" ± nan", ""), one)
        for name, one in {**solution.physical, **solution.joints}.items()
    ]
    return {
        **{"verdict": summary.partition("\n")[0], "summary": summary},
        **{"status": solution.status.value, "rows": rows, "derived": derived},
        "findings": [of_finding(one) for one in solution.findings],
        "fits": [interactive.fit(one) for one in solution.trajectories],
        "scene": next(map(scene, films(solution)), None),
    }


def _row(name: str, value: str, one: Any) -> Facts:
    share = f"{number(100 * one.std_err / abs(one.estimate), 2)} %" if one.std_err < abs(one.estimate) else ""
    return {"name": name, "value": value, "relative": share, "from": one.known_from}


def of_efforts(found: MotorEfforts) -> Facts:
    """Predicted and measured efforts of motors along a recording."""
    names = [labelled(*one) for one in zip(found.motors, found.units, strict=True)]
    lines = {"measured": (found.measured_efforts, ORANGE), "predicted": (found.efforts, BLUE)}
    return interactive.compared(names, found.t, lines, "Efforts, measured and predicted")


def of_simulation(problem: Problem, measured: Recording, simulated: Recording) -> Facts:
    """Simulated and measured signals of sensors."""
    kinds = {"measured": (measured, ORANGE), "simulated": (simulated, BLUE)}
    panels = [
        Panel(
            [curve(r.t - r.t[0], r.signal(c.signal), name, colour) for name, (r, colour) in kinds.items()],
            labelled(c.signal, c.unit),
        )
        for c in problem.channels
    ]
    return interactive.figure(panels, "Signals, measured and simulated")
