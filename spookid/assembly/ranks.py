"""Constraints must take the same number of freedoms all along a recording, and inertias be those of bodies; turns of
angles that a stepper must tell and cannot are refused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import casadi as ca
import numpy as np

from spookid.errors import ProblemError
from spookid.kernels.arrays import Array
from spookid.mechanics.constraints import LinearConstraint
from spookid.mechanics.contacts import Impact
from spookid.mechanics.holding import Touch
from spookid.mechanics.inertia import impossible
from spookid.mechanics.kinematics import Values, displacements
from spookid.mechanics.model import Model
from spookid.parameter import is_constant, parameters_in
from spookid.results.findings import Finding

_DEPENDENT = 3e-3
"""A row with so small a share of it left beside the others, against where most is left, depends on them; recordings
come no nearer to a pose where nothing is left than their samples do."""
_NOTHING = 1e-7
"""Where no more is ever left, a row follows from the others for good."""
_ROUNDING = 1e-9


def check_ranks(model: Model, poses: Array, times: Array, values: Values) -> None:
    """Refuse a constraint whose rows depend on the others in some poses and not in others.

    Its multipliers would have nothing to tell them there, and the motion a freedom that it has nowhere else.

    Args:
        poses: along a recording, (N, 7 n_b).
        times: of them, (N,) [s].

    Raises:
        ProblemError: naming the constraint, its row and a time.
    """
    if not model.ties:
        return
    matrices = _constraint_rows(model, poses, values)
    hits = [tie for tie in model.ties if isinstance(tie, Impact)]
    for tie in model.ties:
        own = model.rows_of(tie)
        # Impacts of different points happen at different times, and other rows hold without them.
        apart = {i for hit in hits if hit is not tie for i in _range(model.rows_of(hit))}
        for name, row in zip(model.holding.names[tie], range(own.start, own.stop), strict=True):
            left = _left(matrices[:, [other for other in range(row) if other not in apart]], matrices[:, row])
            k = int(np.argmin(left))
            if not np.isfinite(left).all():
                k = int(np.flatnonzero(~np.isfinite(left))[0])
                raise ProblemError(f"{tie.what}: row {name!r} has no finite derivative at {times[k]:g} s; write it so")
            if isinstance(tie, Touch) and np.max(left) <= _NOTHING:
                raise ProblemError(
                    f"{tie.what}: row {name!r} follows from joints and other contacts, so that its force is not known; "
                    "leave it out with axes=, or make one Weld of contacts on one body"
                )
            if not isinstance(tie, Impact) and np.max(left) > _NOTHING and left[k] < _DEPENDENT * np.max(left):
                raise ProblemError(
                    f"{tie.what}: row {name!r} takes no freedom at {times[k]:g} s, as it does elsewhere; leave that "
                    "part of the recording out, or write the constraint in another way"
                )


def _range(rows: slice) -> range:
    return range(rows.start, rows.stop)


def _constraint_rows(model: Model, poses: Array, values: Values) -> Array:
    """G, (N, n_g, 6 n_b), with rows of about length one."""
    q = ca.SX.sym("q", model.configuration.ambient)
    G = ca.densify(model.mechanics(q).constraint)
    parameters = parameters_in([G], "the model", ignore=[q])
    function = ca.Function("rows", [q, ca.vertcat(*parameters)], [ca.vec(G.T)])
    flat = np.asarray(function(poses.T, ca.DM([values[p.name] for p in parameters])).full()).T
    rows = flat.reshape(len(poses), *G.shape)
    typical = np.median(np.linalg.norm(rows, axis=2, keepdims=True), axis=0, keepdims=True)
    return np.asarray(rows / np.where(typical > 0, typical, 1.0))


def _left(others: Array, row: Array) -> Array:
    """Length of what others (N, n, m) leave of a row (N, m), (N,)."""
    if not others.shape[1] or not np.isfinite(others).all():
        return np.asarray(np.linalg.norm(row, axis=1))
    _, sizes, directions = np.linalg.svd(others, full_matrices=False)
    spanned = directions * (sizes > _ROUNDING * sizes[:, :1])[:, :, None]
    inside = np.einsum("knm,km->kn", spanned, row)
    return np.asarray(np.linalg.norm(row - np.einsum("knm,kn->km", spanned, inside), axis=1))


def given_inertias(model: Model) -> Iterator[Finding]:
    """One for each body.

    They are no error: of a body that turns about one axis the other moments are nobody's business, and are often made
    up.
    """
    for body in model.bodies:
        if is_constant(body.inertia) and (wrong := impossible(ca.DM(body.inertia).full())):
            effect = f"No mass distribution has the inertia given for body {body.name!r} ({body.place}), which {wrong}."
            advice = "Correct it if the body turns about that axis."
            yield Finding("inertia.unphysical", (body.name,), effect=effect, advice=advice)


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
