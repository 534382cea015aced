"""Findings on sensors and measured efforts that the estimated motion follows exactly, so that their errors count as
motion.

Whether the data show the sizes of noise that were given for sensors.

A sigma that is too small makes the motion follow the sensor's noise, and what disturbs the motion so large that forces
tell little; one that is too large hides what sensors show. The slope of the likelihood in a size tells at once that it
is off, and a fit in which it is estimated what it is. Where that fit tells doubts of its own, they are the cause.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from copy import copy

import numpy as np

from spookid.assembly.declaration import Declaration
from spookid.data.channels import Sensor
from spookid.results.findings import Finding
from spookid.results.motion import rms_of_samples
from spookid.results.result import Noise, Solution
from spookid.results.trajectory import Trajectory
from spookid.results.wording import is_seen
from spookid.solvers.status import Status
from spookid.statistics.whiteness import limit
from spookid.tables.table import quantity

_ROUNDING = 1e-10
"""Error of a signal that is rounding, as a share of how far its values spread."""


def followed_findings(noise: Sequence[Noise], motion: Sequence[Trajectory]) -> list[Finding]:
    """Of sensors whose noise was estimated and is not seen: those that differ from the motion by rounding, and measured
    efforts, which drive it as if they had none."""
    unseen = [name for one in noise if one.kind == "sensor" and not is_seen(one) for name in one.names]
    signals = motion[0].signals if motion else ()
    found = [name for name in unseen if name in signals and _is_followed(motion, signals.index(name))]
    efforts = [name for name in unseen if name not in signals]
    told = []
    if found:
        each = "its sensor" if len(found) == 1 else "each sensor"
        said = f"The estimated motion follows {', '.join(found)} exactly"
        effect = f"{said}: no noise was found there, and what the samples err by counts as motion."
        advice = f"Unless they are free of noise, give {each} the sigma that is known of it, or the fit a longer step."
        told.append(Finding("sensors.overfitted", tuple(found), {}, effect, advice=advice))
    if efforts:
        effect = (
            f"The estimated motion follows the measured {', '.join(efforts)} as if without noise: the data do not tell "
            "that noise, as where other efforts or disturbances can stand for it, and standard errors take it for none."
        )
        advice = "Declare JointTorque or JointForce with the sigma that is known of it."
        told.append(Finding("sensors.overfitted", tuple(efforts), {}, effect, advice=advice))
    return told


def _is_followed(motion: Sequence[Trajectory], column: int) -> bool:
    values = np.concatenate([trajectory.observed[:, column] for trajectory in motion])
    known = values[np.isfinite(values)]
    return bool(known.size and rms_of_samples(motion, column) <= _ROUNDING * np.std(known))


_WORTH = math.log(1.25)
"""Difference of the logarithms of two sizes from which on standard errors by one of them are of no use."""


def given_noise_findings(
    problem: Declaration, result: Solution, solve: Callable[[Declaration], Solution]
) -> Iterator[Finding]:
    """One that names the sensors whose sigma is not what the data show, if the model explains them with another.

    Args:
        result: of the problem.
        solve: a problem from its guesses.
    """
    off = refuted(problem, result)
    if not off or result.status is Status.INTERRUPTED:
        return
    freed = [_without_sigma(sensor) if off & set(sensor.signals) else sensor for sensor in problem.observations]
    found = solve(problem.with_(observations=freed, step=problem.step, step_correction=False))
    if found.status is not Status.CONVERGED or any(finding.doubts for finding in found.findings):
        return
    units = {channel.signal: channel.unit for channel in problem.channels}
    before = {one.names[0]: one.std for one in result.noise if one.kind == "sensor"}
    others = {
        name: one.std
        for one in found.noise
        if one.kind == "sensor" and (name := one.names[0]) in off and one.std > 0
        if abs(math.log(one.std / before[name])) > _WORTH
    }
    words = [f"{n} {quantity(std, units[n], 2)}, sigma={before[n]:g} was given" for n, std in others.items()]
    if others:
        evidence = {name: {"sigma": before[name], "estimate": std} for name, std in others.items()}
        said = "Noise that was given is not what the data show, which the model explains with"
        advice = "Leave sigma out, and it is estimated, or correct it."
        yield Finding("noise.given-refuted", tuple(others), evidence, f"{said} {'; '.join(words)}.", advice=advice)


def refuted(problem: Declaration, result: Solution) -> set[str]:
    """Signals whose sigma was given and is off, by the slope of the likelihood; of quaternions nothing can be told, for
    their components are not independent of one another."""
    bound = {channel.signal for channel in problem.channels if channel.sensor.either_sign}
    given = [one for one in result.noise if one.kind == "sensor" and one.given and one.names[0] not in bound]
    return {one.names[0] for one in given if abs(one.score) > limit(len(given))}


def _without_sigma(sensor: Sensor) -> Sensor:
    other = copy(sensor)
    object.__setattr__(other, "sigma", None)
    return other
