"""Which problems belong together: one model with all recordings it is declared for, beside other models of the same."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import casadi as ca
import numpy as np

from spookid.observations import State
from spookid.problem import Problem
from spookid.recording import Recording


@dataclass(frozen=True, eq=False)
class Case:
    """One model with all its recordings, each of another name."""

    name: str
    problem: Problem


def cases(problems: Mapping[str, Problem]) -> list[Case]:
    """Merge problems that differ in nothing but their name and their recordings.

    So ``{"01_dry": ..., "01_viscous": ..., "02_dry": ..., "02_viscous": ...}`` are two models, dry and viscous, on two
    recordings. A case has the name of what its keys have in common.
    """
    groups: dict[Any, dict[str, Problem]] = {}
    for key, problem in problems.items():
        groups.setdefault(_signature(problem), {})[key] = problem
    return [_merged(group) for group in groups.values()]


def same_recordings(a: Problem, b: Problem) -> bool:
    """True if both are declared for the same measurements."""
    if len(a.recordings) != len(b.recordings):
        return False
    return all(_same(r, s) for r, s in zip(a.recordings, b.recordings, strict=True))


def _merged(group: Mapping[str, Problem]) -> Case:
    distinct: list[Recording] = []
    for recording in (r for problem in group.values() for r in problem.recordings):
        if not any(_same(recording, other) for other in distinct):
            distinct.append(recording)
    first = next(iter(group.values()))
    name = _common(list(group)) if len(group) > 1 else next(iter(group))
    return Case(name, first.with_(recordings=_named(distinct)))


def _named(recordings: Iterable[Recording]) -> list[Recording]:
    """The recordings with a number after a name that another has already."""
    result: list[Recording] = []
    for recording in recordings:
        name, again = recording.name, 2
        while name in (other.name for other in result):
            name, again = f"{recording.name} ({again})", again + 1
        result.append(replace(recording, name=name))
    return result


def _common(keys: list[str]) -> str:
    """The words that all keys have, in the order of the first; all keys if they have none."""
    words = [re.split(r"[\s_\-./]+", key) for key in keys]
    shared = [word for word in words[0] if all(word in other for other in words)]
    return "_".join(shared) or ", ".join(keys)


def _same(a: Recording, b: Recording) -> bool:
    return (
        a.name == b.name
        and np.array_equal(a.t, b.t)
        and a.signals.keys() == b.signals.keys()
        and all(np.array_equal(values, b.signals[name], equal_nan=True) for name, values in a.signals.items())
    )


def _signature(problem: Problem) -> tuple[Any, ...]:
    """Everything but name and recordings, as something that can be compared."""
    model = problem.model
    # At a state of numbers, what a model or a sensor computes tells it from others of the same declaration.
    q, v = (ca.SX(ca.DM(np.linspace(0.1, 0.9, part))) for part in (model.configuration.ambient, 6 * len(model.bodies)))
    shown = [o.predicted(State(model, q, v)) for o in problem.observations]
    expressions = [*model.expressions(), model.violation(q), *shown]
    sensors = [(type(o).__name__, o.signal, o.sigma, o.period) for o in problem.observations]
    settings = (problem.step, problem.state_weight, problem.stepper, problem.friction, problem.friction_width)
    start = (problem.cutoff, tuple(sorted(problem.initial.items())), tuple(sorted(problem.fixed)))
    return (settings, start, tuple(sensors), tuple(str(e) for e in expressions), tuple(map(str, model.signals)))
