"""Loops that cannot close are refused before a fit; those that leave bodies no freedom are told."""

from __future__ import annotations

import casadi as ca
import numpy as np

from spookid.assembly.declaration import Declaration
from spookid.assembly.tracking import Tracking
from spookid.errors import ProblemError
from spookid.kernels.arrays import Array
from spookid.mechanics.joint_coordinates import JointCoordinates
from spookid.mechanics.kinematics import Values, evaluated, rest_positions
from spookid.mechanics.manifold import jacobian
from spookid.mechanics.model import Model
from spookid.parameter import parameters_in
from spookid.results.findings import Finding

_OPEN = 1e-2
"""Violation of joints, as a share of how far the bodies are apart, or in rad, that is no rounding of lengths."""
_TRIALS = 20
"""Poses near that at rest from which a loop is closed."""
_HELD = 1e-8
"""Share of the largest singular value of the joints' rows up to which they leave a direction free."""
_LOOKED = 5
"""Poses along a recording at which freedoms are counted."""


def check_closure(problem: Declaration) -> None:
    """Refuse loops that close in no pose that is found, before they are followed along recordings.

    Loops whose lengths are sought are left to the fit.

    Raises:
        ProblemError: naming the joint that closes the loop and how far it stays open.
    """
    model = problem.model
    if not (model.has_loops and JointCoordinates(model).cut):
        return
    q = ca.SX.sym("q", model.configuration.ambient)
    held = model.holding.told_by_poses(q, tied=False)
    free = {p.name for p in problem.free} | {p.name for p in problem.parameter_set.own}
    if not free & {p.name for p in parameters_in([held], "the model", ignore=[q])}:
        _check_closes(model, q, problem.guess_on(None))


def _check_closes(model: Model, q: ca.SX, values: Values) -> None:
    parts = {joint: model.joint(joint, q).violation for joint in model.joints}
    sizes = [_size(g[: len(joint.linear)]) + _size(g[len(joint.linear) :]) for joint, g in parts.items()]
    positions = ca.vertcat(*(q[i : i + 3] for i in range(0, q.numel(), 7)))
    tracking = Tracking(model, [], values, tied=False)
    rest = tracking.at(rest_positions(model, values)[None])
    extent = max(
        float(np.ptp(evaluated(positions, q, tracking.poses(rest), values).reshape(-1, 3), axis=0).max()), 1e-9
    )
    rng, least = np.random.default_rng(0), np.full(1, np.inf)
    for count in (1, _TRIALS - 1):  # others than the pose at rest only if need be
        away = (count > 1) * rng.normal(size=(count, tracking.space.tangent))
        ended = tracking.settled(tracking.moved(np.repeat(rest, count, axis=0), away), np.zeros((count, 0)))
        gaps = evaluated(ca.vertcat(*sizes), q, tracking.poses(ended), values)
        best = gaps[np.argmin(gaps.max(axis=1))]
        if best.max() <= _OPEN * min(extent, 1.0):
            return
        least = best if best.max() < least.max() else least
    joint = JointCoordinates(model).cut[0]
    widest = model.joints[int(np.argmax(least))]
    raise ProblemError(
        f"{joint.place}: {joint.kind} {joint.name!r} closes a loop that cannot close: {_TRIALS} poses were tried, and "
        f"its joints stay {float(np.sum(least)):.3g} m or rad apart together, most of all {widest.kind} "
        f"{widest.name!r} with {float(np.max(least)):.3g}; correct the lengths of its links, or make one a Parameter"
    )


def _size(rows: ca.SX) -> ca.SX:
    return ca.norm_2(rows) if rows.numel() else ca.SX(0)


def welded_findings(problem: Declaration, states: Array) -> list[Finding]:
    """That joints hold all bodies in every pose, if they do: what moves is their give.

    Args:
        states: along a recording, (N, 13 n_b).
    """
    model, values = problem.model, problem.guess_on(None)
    poses = states[:, : model.configuration.ambient]
    if not (model.has_loops and JointCoordinates(model).cut):
        return []
    q = ca.SX.sym("q", model.configuration.ambient)
    held = model.holding.told_by_poses(q, tied=False)
    some = poses[np.linspace(0, len(poses) - 1, _LOOKED).astype(int)]
    G = ca.densify(jacobian(held, q, model.configuration))
    rows = evaluated(ca.vec(G.T), q, some, values).reshape(len(some), *G.shape)
    singular = np.linalg.svd(rows, compute_uv=False)
    if G.shape[0] < G.shape[1] or np.any(singular[:, G.shape[1] - 1] <= _HELD * singular[:, 0]):
        return []
    names = tuple(joint.name for joint in JointCoordinates(model).cut)
    effect = (
        f"The joints leave no freedom: the loops that {', '.join(map(repr, names))} close hold all bodies; what moves "
        "is the give of the joints, by their compliance."
    )
    return [Finding("mechanism.immobile", names, effect=effect, advice="Leave a joint out, or correct its axes.")]
