"""Residuals of the user's own as factors, and states at neighbouring steps."""

from __future__ import annotations

import casadi as ca
import numpy as np

from spookid.assembly.declaration import Declaration
from spookid.assembly.evidence import Evidence
from spookid.data.residual import Residual
from spookid.data.state import Motion, State
from spookid.errors import ProblemError
from spookid.kernels.kernel import Array, contiguous
from spookid.mechanics.model import Model
from spookid.stepping.impulses import Settings
from spookid.transcription.factor import Factor, Group, Kind


def residual_factors(problem: Declaration, settings: Settings, model: Model) -> list[Factor]:
    """The user's own."""
    return [_residual(problem, settings, residual, model) for residual in problem.residuals]


def _residual(problem: Declaration, settings: Settings, residual: Residual, model: Model) -> Factor:
    signals = problem.model.signals
    data = [ca.SX.sym("u", len(signals)) for _ in range(residual.states)]
    inputs = [dict(zip(signals, ca.vertsplit(u), strict=True)) if signals else {} for u in data]
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
    problem: Declaration, settings: Settings, model: Model, residual: Residual
) -> tuple[dict[int, ca.SX], list[Motion]]:
    """As of ``windows``, for the states that a residual sees."""
    order = residual.order(problem.model)
    if residual.at is None:
        return windows(problem, settings, model, residual.states, order)
    window = problem.scheme.first_window(model, settings, order)
    if window is None:
        raise ProblemError(
            f"{residual.place}: Residual {residual.name!r} sees accelerations, which are not known at the start; leave "
            "at out, or ask for angles and rates"
        )
    return dict(window.variables), [window.motion]


def residual_data(residual: Residual, factor: Factor, inputs: Array) -> Array:
    """Of its factor: the inputs at each of its states, (count, n)."""
    count, first = factor.count(len(inputs)), _first(residual, factor)
    return contiguous(np.hstack([inputs[first + i : first + i + count] for i in range(residual.states)]))


def with_measured(problem: Declaration, residual: Residual, inputs: Array, factor: Factor, evidence: Evidence) -> Array:
    """These with what else of a recording its rows take."""
    if not residual.data(problem.model):
        return inputs
    values, recording = problem.guess_on(evidence.recording.name), evidence.recording
    given = recording, problem.model, problem.channels, evidence.grid, values, evidence.guess.states
    own = residual.measured(*given)
    first = _first(residual, factor)
    return contiguous(np.hstack([inputs, own[first : first + len(inputs)]]))


def _first(residual: Residual, factor: Factor) -> int:
    """Number of its first state at the first of its steps."""
    return 0 if factor.first_only else (factor.reach - residual.states + 1) // 2


def windows(
    problem: Declaration, settings: Settings, model: Model, count: int, order: int
) -> tuple[dict[int, ca.SX], list[Motion]]:
    """The unknowns, by offset, that states at neighbouring steps are made of, and how each moves."""
    variables: dict[int, ca.SX] = {}
    motions = []
    for i in range(count):
        window = problem.scheme.window(model, settings, order)
        motion = window.motion
        for offset, symbol in window.variables.items():
            motion = motion.inserted(symbol, variables.setdefault(offset + i, symbol))
        motions.append(motion)
    return dict(sorted(variables.items())), motions
