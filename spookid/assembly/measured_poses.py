"""Poses that follow from what was measured at a step and from the joints alone, where these determine them.

Where signals of positions y were measured, Gauss and Newton find the poses q of least Σ|Δy/σ|² on which the joints are
as far from closed as they were estimated, g(q) = g(q̂), beginning at the estimate q̂. Offsets and scales of sensors and
lengths are those of the estimates. Nothing but the sensors and the joints speaks: no motion, no other step.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import casadi as ca
import numpy as np

from spookid.assembly.assembly import Assembly
from spookid.data.channels import Channel, apart, order
from spookid.data.state import State
from spookid.kernels.arrays import Array, Integers, Mask, contiguous
from spookid.kernels.kernel import Kernel
from spookid.mechanics.manifold import jacobian
from spookid.parameter import stacked
from spookid.records import dataclass
from spookid.results.motion import moments
from spookid.results.result import MeasuredPoses, Trajectory
from spookid.transcription.factor import Constant
from spookid.transcription.transcription import Point

MOST_RECORDINGS = 4
"""Those that are animated; of others no poses are sought."""
_ITERATIONS = 20
_SETTLED = 1e-6
"""Step [m, rad] at the end of an iteration that converged."""
_IMPLIED = 1e-9
"""Share of the largest singular value below which a row of the constraints follows from others."""
_DETERMINED = 1e-3
"""The same of what sensors see of the freedoms that joints leave, from which on they determine them."""


def measured_poses(assembly: Assembly, point: Point, motion: Sequence[Trajectory]) -> tuple[MeasuredPoses, ...]:
    """On each recording, at the steps that an animation shows.

    Args:
        point: with the estimates.
        motion: estimated, on each recording.
    """
    channels = assembly.problem.channels
    seen = [i for i, channel in enumerate(channels) if order(channel, assembly.problem.model) == 0]
    sigmas, found = assembly.sigmas[seen], list[MeasuredPoses]()
    equations = _equations(assembly, [channels[i] for i in seen], assembly.numbers(point, 0))
    for i, trajectory in enumerate(motion):
        frames = moments(trajectory.t)[: None if i < MOST_RECORDINGS else 0]
        values = [constant.value for constant in assembly.numbers(point, i)]
        estimated, observed = trajectory.q[frames], trajectory.observed[frames][:, seen]
        flat = estimated.reshape(len(frames), assembly.problem.model.configuration.ambient)
        poses = _solved(equations, flat, observed, sigmas, contiguous(values))
        found.append(MeasuredPoses(frames.astype(np.float64), poses.reshape(estimated.shape)))
    return tuple(found)


@dataclass(frozen=True, eq=False)
class _Equations:
    """Of (q, y, δ, numbers): g, G, what sensors show beyond y, its slopes, and q ⊞ δ."""

    kernel: Kernel
    shapes: Sequence[tuple[int, int]]

    def __call__(self, q: Array, targets: Array, values: Array, steps: Array) -> list[Array]:
        """At all frames, (F, rows, columns) each."""
        sizes = [rows * columns for rows, columns in self.shapes]
        given, out = [contiguous(one) for one in (q, targets, steps)], np.empty((len(q), sum(sizes)))
        parts = np.split(self.kernel(given, [values], out), np.cumsum(sizes)[:-1], axis=1)
        whole = zip(parts, self.shapes, strict=True)
        return [part.reshape(len(q), *shape[::-1]).swapaxes(1, 2) for part, shape in whole]


def _equations(assembly: Assembly, channels: Sequence[Channel], constants: Sequence[Constant]) -> _Equations:
    model, space = assembly.problem.model, assembly.problem.model.configuration
    q, y = ca.SX.sym("q", space.ambient), ca.SX.sym("y", len(channels))
    step = ca.SX.sym("step", space.tangent)
    state = State(model, q, ca.SX(space.tangent, 1))
    beyond = stacked(apart(c, c.predicted(state), y[i]) for i, c in enumerate(channels))
    g = model.violation(q)
    parts = [g, _slopes(g, q, assembly), beyond, _slopes(beyond, q, assembly), space.retract(q, step)]
    numbers = ca.vertcat(*(constant.symbol for constant in constants))
    whole = ca.densify(ca.vertcat(*map(ca.vec, parts)))
    return _Equations(Kernel(ca.Function("poses", [q, y, step, numbers], [whole]), 3), [part.shape for part in parts])


def _slopes(rows: ca.SX, q: ca.SX, assembly: Assembly) -> ca.SX:
    space = assembly.problem.model.configuration
    return jacobian(rows, q, space) if rows.numel() else ca.SX(0, space.tangent)


def _solved(equations: _Equations, estimated: Array, observed: Array, sigmas: Array, values: Array) -> Array:
    """Poses (F, 7 n_b), NaN where they are not determined or not found.

    Args:
        observed: (F, n), NaN where missing.
    """
    q = estimated.copy()
    known = np.isfinite(observed)
    open_: Mask = np.asarray(known.any(axis=1) & np.isfinite(estimated).all(axis=1))
    settled = np.zeros(len(q), dtype=bool)
    targets = np.where(known, observed, 0.0)
    still = np.zeros((len(q), equations.shapes[1][1]))
    first = equations(q, targets, values, still)[0] if open_.any() else None
    for _ in range(_ITERATIONS):
        if first is None or not (open_ & ~settled).any():
            break
        g, G, beyond, slopes, _ = equations(q, targets, values, still)
        steps = still.copy()
        for rows, here in _alike(known, open_ & ~settled):
            parts = G[here], (g - first)[here], slopes[here][:, rows], beyond[here][:, rows]
            steps[here], open_[here] = _steps(*parts, sigmas[rows])
            settled[here] = np.max(np.abs(steps[here]), axis=1) < _SETTLED
        q = equations(q, targets, values, steps)[4][:, :, 0]
    return np.where((open_ & settled)[:, None], q, np.nan)


def _alike(known: Mask, wanted: Mask) -> Iterator[tuple[Mask, Integers]]:
    """What is known of frames, and the frames among those wanted of which that is so."""
    places = np.flatnonzero(wanted)
    patterns, which = np.unique(known[places], axis=0, return_inverse=True)
    for i, pattern in enumerate(patterns):
        yield pattern, places[which.ravel() == i]


def _steps(G: Array, g: Array, slopes: Array, beyond: Array, sigmas: Array) -> tuple[Array, Mask]:
    """Of Gauss and Newton, (F, 6 n_b), and where there is one: elsewhere the sensors leave something open that the
    joints do, and it is zero."""
    steps, found = np.zeros((len(G), G.shape[2])), np.zeros(len(G), dtype=bool)
    left, sizes, directions = np.linalg.svd(G, full_matrices=True)
    ranks = np.sum(sizes > _IMPLIED * sizes[:, :1], axis=1)
    for rank in np.unique(ranks).tolist():
        at = np.flatnonzero(ranks == rank)
        held, free = directions[at, :rank], directions[at, rank:].transpose(0, 2, 1)
        missing = left[at, :, :rank].transpose(0, 2, 1) @ g[at] / sizes[at, :rank, None]
        back = -held.transpose(0, 2, 1) @ missing
        seen = slopes[at] @ free
        known = np.flatnonzero(_determined(seen))
        weighted = (beyond[at] + slopes[at] @ back)[known] / sigmas[:, None]
        along = np.linalg.pinv(seen[known] / sigmas[:, None]) @ weighted
        steps[at[known]] = (back[known] - free[known] @ along)[:, :, 0]
        found[at[known]] = True
    return steps, found


def _determined(seen: Array) -> Mask:
    """Where sensors see all that is free, by their slopes (F, rows, free), (F,)."""
    if seen.shape[1] < seen.shape[2] or not seen.size:
        return np.zeros(len(seen), dtype=bool)
    lengths = np.linalg.norm(seen, axis=2, keepdims=True)
    alive = np.isfinite(seen).all(axis=(1, 2)) & (lengths > 0).any(axis=(1, 2))
    safe = np.where(alive[:, None, None], seen / np.where(lengths > 0, lengths, 1.0), 0.0)
    spectrum = np.linalg.svd(safe, compute_uv=False)
    return np.asarray(alive & (spectrum[:, -1] >= _DETERMINED * spectrum[:, 0]))
