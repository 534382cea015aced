"""Motion along a recording: states, impulses and what the sensors would show, from a solver's unknowns."""

from __future__ import annotations

from collections.abc import Sequence

import casadi as ca
import numpy as np

from spookid.assembly import Assembly, Evidence
from spookid.factor import Constant
from spookid.kernels import Array, Kernel, contiguous
from spookid.observations import State
from spookid.problem import Problem
from spookid.sampling import wrap
from spookid.solution import Trajectory
from spookid.transcription import Point


def trajectories(assembly: Assembly, point: Point) -> tuple[Trajectory, ...]:
    """Estimated motion on each recording, with the impulses along it."""
    free = zip(assembly.problem.free, point.parameters.tolist(), strict=True)
    constants = (*assembly.constants, *(Constant(p, value) for p, value in free))
    residuals = assembly.transcription.residuals(point)
    names = [factor.name for factor in assembly.transcription.factors]
    return tuple(
        _trajectory(assembly, e, unknowns, dict(zip(names, values, strict=True)), constants)
        for e, unknowns, values in zip(assembly.evidence, point.states, residuals, strict=True)
    )


def _trajectory(
    assembly: Assembly,
    evidence: Evidence,
    unknowns: Array,
    residuals: dict[str, Array],
    constants: tuple[Constant, ...],
) -> Trajectory:
    problem, steps = assembly.problem, evidence.grid.count
    bodies = len(problem.model.bodies)
    states = problem.scheme.states(problem.model, unknowns, problem.step)
    predicted = predict(problem, states, constants)
    return Trajectory(
        name=evidence.recording.name,
        signals=tuple(o.signal for o in problem.observations),
        units=tuple(o.unit for o in problem.observations),
        periods=tuple(o.period for o in problem.observations),
        t=evidence.grid.times(),
        q=states[:, : 7 * bodies].reshape(steps, bodies, 7),
        v=states[:, 7 * bodies :].reshape(steps, bodies, 6),
        observed=evidence.observed,
        predicted=beside(predicted, evidence.observed, [o.period for o in problem.observations]),
        impulse_residual=_impulses(problem, residuals, steps),
        multipliers=_multipliers(assembly, evidence, unknowns, constants),
    )


def _impulses(problem: Problem, residuals: dict[str, Array], steps: int) -> Array:
    """Δp of each step, NaN where a step has none, (N, rows)."""
    weight = np.sqrt(problem.state_weight) if np.isfinite(problem.state_weight) else 1.0
    impulse = residuals["impulse"]
    rows = np.full((steps, impulse.shape[1]), np.nan)
    rows[1 : len(impulse) + 1] = impulse / weight
    if "initial state" in residuals:
        rows[0] = residuals["initial state"] / weight
    return rows


def beside(predicted: Array, observed: Array, periods: Sequence[float | None]) -> Array:
    """Periodic signals (N, n_o) on the branch nearest to what was observed; unwrapped over time where nothing was."""
    result = predicted.copy()
    for i, period in enumerate(periods):
        if period is not None:
            near = observed[:, i] + wrap(predicted[:, i] - observed[:, i], period)
            result[:, i] = np.where(np.isnan(observed[:, i]), np.unwrap(predicted[:, i], period=period), near)
    return result


def unwrapped(predicted: Array, periods: Sequence[float | None]) -> Array:
    """Periodic signals (N, n_o) made continuous in time."""
    columns = [
        predicted[:, i] if period is None else np.unwrap(predicted[:, i], period=period)
        for i, period in enumerate(periods)
    ]
    return np.column_stack(columns) if columns else predicted


def predict(problem: Problem, states: Array, constants: tuple[Constant, ...]) -> Array:
    """What the sensors would show at states (N, 13 n_b): (N, n_o), angles in (−π, π]."""
    symbol = ca.SX.sym("x", problem.model.state.ambient)
    n = problem.model.configuration.ambient
    state = State(problem.model, symbol[:n], symbol[n:])
    rows = ca.vertcat(ca.SX(0, 1), *(o.predicted(state) for o in problem.observations))
    return _map([symbol], rows, [contiguous(states)], constants)


def _multipliers(assembly: Assembly, evidence: Evidence, unknowns: Array, constants: tuple[Constant, ...]) -> Array:
    """λ of each step, NaN where a step has none, (N, rows)."""
    function = assembly.problem.scheme.multipliers_along(assembly.problem.model, assembly.settings)
    count = len(unknowns) - max(function.variables)
    states = [unknowns[offset : offset + count] for offset in function.variables]
    inputs = contiguous(evidence.inputs[:count]) if function.data.numel() else np.zeros((count, 0))
    values = _map([*function.variables.values(), function.data], function.value, [*states, inputs], constants)
    return np.vstack([values, np.full((len(unknowns) - count, values.shape[1]), np.nan)])


def _map(symbols: list[ca.SX], expression: ca.SX, arrays: list[Array], constants: tuple[Constant, ...]) -> Array:
    """An expression of stepwise symbols along arrays, (N, rows)."""
    shared = ca.vertcat(*(c.symbol for c in constants))
    kernel = Kernel(ca.Function("along", [*symbols, shared], [ca.densify(expression)]), len(symbols))
    out = np.empty((len(arrays[0]), expression.numel()))
    return kernel(arrays, [contiguous([c.value for c in constants])], out)
