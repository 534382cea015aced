"""Data of the factors of the motion: inputs, when contacts hold, and residuals of the user's own, as factors
and with what they take.

Inputs whose delay or lag is a parameter: in a step they are u + (d − d₀) ∂u/∂d around the d₀ where a fit begins.

A fit that starts where another one ended has no error from that line (``estimation.starts.with_delays_at_rest``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import casadi as ca
import numpy as np

from spookid.assembly.initialization import SampledRecording
from spookid.assembly.problem import Problem
from spookid.assembly.schedules import Strikes, contact_data
from spookid.data.inputs import Acting
from spookid.data.residual import Residual
from spookid.data.state import Motion, State
from spookid.errors import ProblemError
from spookid.kernels.arrays import Array, contiguous
from spookid.mechanics.model import Model
from spookid.parameter import is_constant, number
from spookid.stepping.base import SWITCHED, Scheme
from spookid.stepping.contact_rows import CONTACT_ROWS
from spookid.stepping.impulses import VELOCITY_ROWS, Settings
from spookid.transcription.factor import Factor, Group, Kind


def residual_factor(problem: Problem, settings: Settings, residual: Residual, model: Model) -> Factor:
    """One of the user's own."""
    data = [ca.SX.sym("u", len(problem.model.inputs)) for _ in range(residual.states)]
    inputs = [problem.model.by_signal(u) for u in data]
    variables, motions = _motions(problem, settings, model, residual)
    pairs, own = zip(motions, inputs, strict=True), ca.SX.sym("measured", residual.data(problem.model))
    known = {"step": settings.step, "widths": settings.slip_width}
    rows = residual.rows(*(State.of(problem.model, at, inputs=u, **known) for at, u in pairs), data=own)
    labels = tuple(f"{residual.name}.{i}" for i in range(rows.numel())) if rows.numel() > 1 else (residual.name,)
    whitened = residual.whitening(rows.numel()) @ rows
    kind = Kind(residual.kind)
    first = residual.at == "start"
    name, inputs_then = f"residual {residual.name}", ca.vertcat(*data, own)
    return Factor(name, Group.RESIDUAL, whitened, variables, inputs_then, labels, first_only=first, kind=kind)


def _motions(
    problem: Problem, settings: Settings, model: Model, residual: Residual
) -> tuple[dict[int, ca.SX], list[Motion]]:
    """As of ``windows``, for the states that a residual sees."""
    order = residual.order(problem.model)
    if residual.at is None:
        return windows(problem.scheme, settings, model, residual.states, order)
    window = problem.scheme.first_window(model, settings, order)
    if window is None:
        raise ProblemError(
            f"{residual.place}: Residual {residual.name!r} sees accelerations, which are not known at the start; leave "
            "at out, or ask for angles and rates"
        )
    return dict(window.variables), [window.motion]


def residual_data(residual: Residual, factor: Factor, inputs: Array) -> Array:
    """Data of a residual's factor: inputs at each of its states, (count, n)."""
    count, first = factor.count(len(inputs)), _first(residual, factor)
    return contiguous(np.hstack([inputs[first + i : first + i + count] for i in range(residual.states)]))


def with_measured(
    problem: Problem, residual: Residual, inputs: Array, factor: Factor, sampled: SampledRecording
) -> Array:
    """Data with the other measured signals that the residual uses."""
    if not residual.data(problem.model):
        return inputs
    values, recording = problem.guess_on(sampled.recording.name), sampled.recording
    given = recording, problem.model, problem.channels, sampled.grid, values, sampled.guess.states
    own = residual.measured(*given)
    first = _first(residual, factor)
    return contiguous(np.hstack([inputs, own[first : first + len(inputs)]]))


def _first(residual: Residual, factor: Factor) -> int:
    """Number of its first state at the first of its steps."""
    return 0 if factor.first_only else (factor.reach - residual.states + 1) // 2


def windows(
    scheme: Scheme[Any], settings: Settings, model: Model, count: int, order: int
) -> tuple[dict[int, ca.SX], list[Motion]]:
    """Unknowns at neighbouring steps, by offset, from which a window of states is computed, with their derivatives."""
    window = scheme.window(model, settings, order)
    variables: dict[int, ca.SX] = {}
    motions = []
    for i in range(count):
        own = [
            variables.setdefault(offset + i, ca.SX.sym(f"x_{offset + i}", symbol.numel()))
            for offset, symbol in window.variables.items()
        ]
        motions.append(window.motion.inserted(ca.vertcat(*window.variables.values()), ca.vertcat(*own)))
    return dict(sorted(variables.items())), motions


def input_data(
    problem: Problem,
    factors: Sequence[Factor],
    values: Mapping[str, float],
    now: Acting,
    slopes: Acting,
    held: Array | None = None,
    strikes: Strikes | None = None,
) -> dict[str, Array]:
    """Data of the factors with inputs, by their names, (count, n_d).

    Args:
        values: of the parameters, by name.
        now, slopes: inputs along a grid, and how they change with their delays.
        held, strikes: contacts as in ``SampledRecording``; None: all hold, and none hits.
    """
    pair = [problem.scheme.inputs(one.held, one.mean, one.late) for one in (now, slopes)]
    contacts = np.zeros((len(pair[0]), 0))
    if (count := len(problem.model.holding.contacts)) and SWITCHED not in problem.scheme.refuses:
        contacts = contact_data(np.ones((len(now.held) - 1, count)) if held is None else held, strikes)
    inputs = late_inputs(problem.model, values, *(np.hstack([one, contacts]) for one in pair))
    told = [f for f in factors if f.group is Group.STATE and (f.motion or f.data.numel())]
    data = {f.name: inputs[: f.count(len(now.held))] for f in told}
    if CONTACT_ROWS in data:
        data[CONTACT_ROWS] = contacts
    if VELOCITY_ROWS in data:
        data[VELOCITY_ROWS] = late_inputs(problem.model, values, now.mean, slopes.mean)
    own = [factor for factor in factors if factor.group is Group.RESIDUAL]
    for factor, residual in zip(own, problem.residuals, strict=True):
        data[factor.name] = residual_data(residual, factor, now.held)
    return data


def with_late_inputs(model: Model, factors: Sequence[Factor]) -> list[Factor]:
    """Factors of the motion with data A and B of delayed inputs A + B d; the same if no delay is free."""
    moving = _moving(model)
    if not moving:
        return list(factors)
    return [_late(factor, moving) if factor.data.numel() else factor for factor in factors]


def late_inputs(model: Model, values: Mapping[str, float], inputs: Array, slopes: Array) -> Array:
    """Inputs A (n, n_u), followed by their derivatives B with respect to free delays and lags.

    Args:
        values: of the parameters, by name.
        slopes: how inputs change with their delays, then with lags, (n, n_u + n_l).
    """
    moving = _moving(model)
    if not moving:
        return contiguous(inputs)
    rates, start = slopes[:, [one.column for one in moving]], np.array(inputs)
    for one, rate in zip(moving, rates.T, strict=True):
        start[:, one.place] -= rate * number(one.by, values)
    return contiguous(np.hstack([start, rates]))


class _Moving(NamedTuple):
    """A delay or a lag that holds a Parameter."""

    place: int  # of the input
    column: int  # of its slopes
    by: ca.SX


def _moving(model: Model) -> list[_Moving]:
    """Delays, then lags."""
    late = [_Moving(i, i, one.delay) for i, one in enumerate(model.inputs) if not is_constant(one.delay)]
    lagging = [(i, one.lag) for i, one in enumerate(model.inputs) if not is_constant(one.lag)]
    return late + [_Moving(i, len(model.inputs) + j, lag) for j, (i, lag) in enumerate(lagging)]


def _late(factor: Factor, moving: Sequence[_Moving]) -> Factor:
    n = factor.data.numel()
    data = ca.SX.sym("u", n + len(moving))
    acting = [data[i] for i in range(n)]
    for j, one in enumerate(moving):
        acting[one.place] += data[n + j] * one.by
    return replace(factor.substituted(factor.data, ca.vertcat(*acting)), data=data)
