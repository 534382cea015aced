"""Open-loop prediction of a linearized problem, for its own state weight and for others, without fitting again.

A linear step from the solution gives the states and parameters for κ times a factor. From the first states of a window
on, the rows of the dynamics with residual zero tell what follows without correction: J₊ δ₊ = −(J δ + J_θ δθ + r). What
the measurements are missed by is judged as in ``horizons``. All of it is linear in the number of steps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spookid import horizons
from spookid.factor import Group
from spookid.kernels import Array
from spookid.solvers.contraction import Columns, Contraction, Linear, Strip
from spookid.solvers.reduction import Rows
from spookid.solvers.structured import NotPositiveDefiniteError
from spookid.transcription import Point


@dataclass(frozen=True, eq=False)
class _Flow:
    """The dynamics of one chain, solved for what its rows determine."""

    matrix: Array
    """−J₊⁻¹ [J, J_θ, r], (count, tangent, reach tangent + n_p + 1)."""
    offsets: NDArray[np.intp]
    """Which of the steps that the rows link each unknown belongs to, (tangent,): mostly the last, multipliers to the
    one before."""
    reach: int
    """The largest."""


def scores(
    here: Linear,
    held: NDArray[np.bool_],
    point: Point,
    factors: Sequence[float],
    edges: tuple[int, ...],
    apart: int,
    most: int,
) -> Array:
    """Scores of the predictions for κ times each factor, (m,); NaN where there is none.

    Args:
        here: the problem linearized at its solution.
        held: True for parameters that do not move, (n_p,); the others stay within their bounds.
        point: the solution.
        factors: m numbers.
        edges: of the octaves of a window, its length last.
        apart: steps from the beginning of one window to that of the next.
        most: steps that the windows of all chains cover together.
    """
    flows = [flow for strips in here.chains if (flow := _flow(strips, here.parameters)) is not None]
    if len(flows) < len(here.chains):
        return np.full(len(factors), np.nan)
    moves = [_move(here, held, point, factor) for factor in factors]
    parameters = np.column_stack([move for _, move in moves])
    squares = []
    for c, (strips, flow) in enumerate(zip(here.chains, flows, strict=True)):
        states = np.stack([states[c] for states, _ in moves], axis=2)
        first = horizons.starts(len(states), min(edges[-1], len(states)), most // len(flows), apart)
        squares.append(_squares(strips, flow, states, parameters, edges[-1], first))
    together = np.concatenate(squares)
    return np.array([horizons.score(together[..., i], edges) for i in range(len(factors))])


def _flow(strips: Sequence[Strip], parameters: int) -> _Flow | None:
    """None if the rows of the dynamics do not determine each step from those before."""
    rows = [s.rows for s in strips if s.factor.group is Group.STATE and not s.factor.first_only]
    tangent, reach = strips[0].tangent, max(max(r.offsets) for r in rows)
    stacked = _stacked(rows, tangent, reach, parameters)
    blocks = stacked[:, : (reach + 1) * tangent].reshape(len(stacked), reach + 1, tangent, -1)
    offsets = reach - np.argmax(np.any(blocks != 0, axis=(0, 3))[::-1], axis=0)
    columns = np.arange(tangent)
    solved = blocks[:, offsets, columns].copy()
    blocks[:, offsets, columns] = 0.0  # a view: what is solved for is not known
    known = np.delete(stacked, slice(reach * tangent, (reach + 1) * tangent), axis=1).transpose(0, 2, 1)
    try:
        matrix = -np.linalg.solve(solved.transpose(0, 2, 1), known)
    except (ValueError, np.linalg.LinAlgError):  # too few rows, or dependent ones
        return None
    return _Flow(np.asarray(matrix), offsets, reach)


def _stacked(rows: Sequence[Rows], tangent: int, reach: int, parameters: int) -> Array:
    """All rows of each step that are not zero (a law with cases has more), transposed, (count, columns + 1, rows)."""
    count, states = min(len(r.matrix) for r in rows), (reach + 1) * tangent
    stacked = np.zeros((count, states + parameters + 1, sum(r.matrix.shape[2] for r in rows)))
    done = 0
    for r in rows:
        here, own = slice(done, done := done + r.matrix.shape[2]), len(r.offsets) * tangent
        for i, offset in enumerate(r.offsets):
            place = slice(offset * tangent, (offset + 1) * tangent)
            stacked[:, place, here] = r.matrix[:count, i * tangent : (i + 1) * tangent]
        stacked[:, states:, here] = r.matrix[:count, own:]
    alive = np.any(stacked != 0, axis=1)
    first = np.argsort(~alive, axis=1, kind="stable")[:, : max(int(alive.sum(axis=1).max()), 1)]
    return np.take_along_axis(stacked, first[:, None], axis=2)


def _move(here: Linear, held: NDArray[np.bool_], point: Point, factor: float) -> tuple[list[Array], Array]:
    """The linear step to the solution for κ times ``factor``: per chain (N, tangent), and (n_p,); NaN if none."""
    n = here.parameters
    if factor == 1:
        return [np.zeros((strips[0].steps, strips[0].tangent)) for strips in here.chains], np.zeros(n)
    soft = {
        s.factor.name: np.full(s.rows.matrix.shape[2], math.sqrt(factor))
        for strips in here.chains
        for s in strips
        if s.factor.group is Group.STATE and not s.factor.hard
    }
    try:
        there = Contraction(here.scaled(soft), held, refined=False)
    except NotPositiveDefiniteError:
        return [np.full((strips[0].steps, strips[0].tangent), np.nan) for strips in here.chains], np.full(n, np.nan)
    residuals = [[s.rows.matrix[:, -1:] for s in strips] for strips in there.linear.chains]
    step = -(there.inverse @ there.inner(there.T, residuals))[:, 0]
    step = np.clip(point.parameters + step, here.problem.lower, here.problem.upper) - point.parameters
    states = []
    for c, strips in enumerate(there.linear.chains):
        changed: Columns = [
            np.tensordot(np.append(step, 1.0), s.rows.matrix[:, -(n + 1) :], (0, 1))[:, None] for s in strips
        ]
        states.append(-there.fitted(c, changed)[..., 0])
    return states, step


def _squares(
    strips: Sequence[Strip], flow: _Flow, states: Array, parameters: Array, length: int, first: NDArray[np.intp]
) -> Array:
    """Squared errors over σ of one chain's windows, (windows, length, rows, m); NaN where there is no sample.

    Args:
        states: changes, (N, tangent, m).
        parameters: changes, (n_p, m).
        length: steps of a window.
        first: where windows begin, (windows,).
    """
    count, tangent, _ = states.shape
    steps = min(length, count)
    before, columns = flow.reach * tangent, np.arange(tangent)
    pushed = flow.matrix[:, :, before:-1] @ parameters + flow.matrix[:, :, -1:]
    path = np.zeros((len(first), steps, *states.shape[1:]))
    path[:, : flow.reach] = states[first[:, None] + np.arange(flow.reach)]
    for i in range(steps - flow.reach):
        known = path[:, i : i + flow.reach].reshape(len(first), before, -1)
        path[:, i + flow.offsets, columns] = flow.matrix[first + i, :, :before] @ known + pushed[first + i]
    changes = np.broadcast_to(parameters, (len(first), steps, *parameters.shape))
    found = []
    for s in (s for s in strips if s.factor.group is Group.OBSERVATION):
        seen = max(steps - s.factor.reach, 0)
        here = first[:, None] + np.arange(seen)
        moved = np.concatenate([*(path[:, o : o + seen] for o in s.rows.offsets), changes[:, :seen]], axis=2)
        matrix = s.rows.matrix[here]
        misses = np.matmul(matrix[:, :, :-1].swapaxes(2, 3), moved) + matrix[:, :, -1][..., None]
        squares = np.full((len(first), length, *misses.shape[2:]), np.nan)
        squares[:, :seen] = np.where(s.alive[here][..., None] > 0, misses**2, np.nan)
        found.append(squares)
    return np.concatenate(found, axis=2)
