"""Findings on sensors and measured efforts that the estimated motion follows exactly, so that their errors count as
motion."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from spookid.results.findings import Finding
from spookid.results.motion import rms_of_samples
from spookid.results.result import Noise, Trajectory
from spookid.results.wording import is_seen

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
