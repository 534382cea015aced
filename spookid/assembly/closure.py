"""Loops that cannot close are refused before a fit; those that leave bodies no freedom are told."""

from __future__ import annotations

import casadi as ca
import numpy as np

from spookid.assembly.declaration import Declaration
from spookid.assembly.initialization import closing_rows
from spookid.errors import ProblemError
from spookid.kernels.kernel import Array
from spookid.mechanics.joint_coordinates import JointCoordinates
from spookid.mechanics.kinematics import Values, evaluated, place, rest_positions, tracked
from spookid.mechanics.manifold import jacobian
from spookid.mechanics.model import Model
from spookid.parameter import parameters_in
from spookid.results.notices import WELDED

_OPEN = 1e-2
"""Violation of joints, as a share of how far the bodies are apart, or in rad, that is no rounding of lengths."""
_TRIALS = 20
"""Poses near that at rest from which a loop is closed, by so many runs of corrections each at the most."""
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
    best = place(model, rest_positions(model, values)[None], values)
    parts = {joint: model.joint(joint, q).violation for joint in model.joints}
    sizes = [_size(g[: len(joint.linear)]) + _size(g[len(joint.linear) :]) for joint, g in parts.items()]
    positions = ca.vertcat(*(q[i : i + 3] for i in range(0, q.numel(), 7)))
    extent = max(float(np.ptp(evaluated(positions, q, best, values).reshape(-1, 3), axis=0).max()), 1e-9)

    def gaps(at: Array) -> Array:
        return evaluated(ca.vertcat(*sizes), q, at, values)

    rows, nothing = closing_rows(model, [], values, tied=False), np.zeros((_TRIALS, 0))
    rng = np.random.default_rng(0)
    space = model.configuration
    step = ca.SX.sym("step", space.tangent)
    moved = ca.Function("moved", [q, step], [space.retract(q, step)])
    for trial in range(_TRIALS):
        away = (trial > 0) * rng.normal(size=space.tangent)
        ended = tracked(rows, moved(best[0], away).full()[:, 0], nothing[: 1 + trial // 10])[-1:]
        if gaps(ended).max() <= _OPEN * min(extent, 1.0):
            return
        best = ended if gaps(ended).max() < gaps(best).max() else best
    joint = JointCoordinates(model).cut[0]
    open_, widest = gaps(best)[0], model.joints[int(np.argmax(gaps(best)[0]))]
    raise ProblemError(
        f"{joint.place}: {joint.kind} {joint.name!r} closes a loop that cannot close: {_TRIALS} poses were tried, and "
        f"its joints stay {float(np.sum(open_)):.3g} m or rad apart together, most of all {widest.kind} "
        f"{widest.name!r} with {float(np.max(open_)):.3g}; correct the lengths of its links, or make one a Parameter"
    )


def _size(rows: ca.SX) -> ca.SX:
    return ca.norm_2(rows) if rows.numel() else ca.SX(0)


def welded_notices(problem: Declaration, states: Array) -> list[str]:
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
    cut = ", ".join(repr(joint.name) for joint in JointCoordinates(model).cut)
    return [
        f"{WELDED} the loops that {cut} close hold all bodies; what moves is the give of the joints, by their "
        "compliance. Leave a joint out, or correct its axes."
    ]
