"""Which problems belong together: one model with all recordings it is declared for, beside other models of the same."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from spookid.assembly.declaration import Declaration
from spookid.data.recording import Recording
from spookid.studies.settings import digest


@dataclass(frozen=True, eq=False)
class Case:
    """One model with all its recordings, each of another name."""

    name: str
    problem: Declaration


def cases(problems: Mapping[str, Declaration]) -> list[Case]:
    """Merge problems that differ in nothing but their name and their recordings.

    So ``{"01_dry": ..., "01_viscous": ..., "02_dry": ..., "02_viscous": ...}`` are two models, dry and viscous, on two
    recordings. A case has the name of what its keys have in common.
    """
    groups: dict[str, dict[str, Declaration]] = {}
    for key, problem in problems.items():
        groups.setdefault(digest(problem.with_(name="", recordings=(), step=problem.step)), {})[key] = problem
    return [_merged(group) for group in groups.values()]


def same_recordings(a: Declaration, b: Declaration) -> bool:
    """True if both are declared for the same measurements."""
    if len(a.recordings) != len(b.recordings):
        return False
    return all(_same(r, s) for r, s in zip(a.recordings, b.recordings, strict=True))


def _merged(group: Mapping[str, Declaration]) -> Case:
    distinct: list[Recording] = []
    for recording in (r for problem in group.values() for r in problem.recordings):
        if not any(_same(recording, other) for other in distinct):
            distinct.append(recording)
    first = next(iter(group.values()))
    name = _common(list(group)) if len(group) > 1 else next(iter(group))
    return Case(name, first.with_(recordings=_named(distinct), step=first.step))


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
