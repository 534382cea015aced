"""Turns of angles that a stepper must tell and cannot: what a gear with a ratio of its own holds is refused there."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from spookid.errors import ProblemError
from spookid.kernels.kernel import Array
from spookid.mechanics.constraints import LinearConstraint
from spookid.mechanics.kinematics import displacements
from spookid.mechanics.model import Model


def check_turns(model: Model, poses: Array, times: Array, values: Mapping[str, float]) -> None:
    """Refuse a motion in which an angle passes ±π that a constraint takes which poses do not tell.

    Args:
        poses: q at each step, (N, 7 n_b).
        times: of the steps, (N,) [s].
        values: number of every parameter.

    Raises:
        ProblemError: naming the constraint, the joint and the time.
    """
    ties = [tie for tie in model.ties if isinstance(tie, LinearConstraint) and not tie.told_by_poses]
    if not ties:
        return
    shown = displacements(model, poses, values)
    for tie, term in ((one, term) for one in ties for term in one.terms if term.turns_over):
        column = shown[:, model.freedoms_of(term.joint).start + term.coordinate]
        passed = np.flatnonzero(np.abs(np.diff(column)) > np.pi)
        if passed.size:
            raise ProblemError(
                f"{tie.what}: {term.label} passes half a turn at {times[passed[0] + 1]:g} s, and with this stepper a "
                "ratio that is a Parameter, or none of whole numbers, holds within half a turn to either side only; "
                "take Variational(), coordinates of joints, and leave constraints on velocities out"
            )
