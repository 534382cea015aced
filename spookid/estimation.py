"""Solve a declared problem and put the answer together."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import casadi as ca
import numpy as np

import spookid
from spookid.assembly import Assembly, Evidence, assemble
from spookid.errors import ProblemError
from spookid.factor import Constant, Group
from spookid.kernels import Array, Kernel, contiguous
from spookid.observations import HingeAngle
from spookid.parameter import Parameter, substitute
from spookid.problem import BACKENDS, Problem
from spookid.sampling import wrap
from spookid.solution import Cost, Estimate, Size, Solution, Step, Times, Trajectory
from spookid.solvers.levenberg_marquardt import Callback, LevenbergMarquardt
from spookid.solvers.status import Outcome
from spookid.transcription import Point, Transcription
from spookid.uncertainty import Sensitivities, sensitivities


def solve(problem: Problem, backend: str, options: Mapping[str, Any], callback: Callback | None) -> Solution:
    """Estimate states and parameters of ``problem``; see ``Problem.solve``."""
    solver = _solver(problem, backend, options)
    began = time.perf_counter()
    assembly = assemble(problem)
    build = time.perf_counter() - began
    outcome = solver.solve(assembly.transcription, assembly.start, callback)
    return _answer(assembly, outcome, build, backend)


def _solver(problem: Problem, backend: str, options: Mapping[str, Any]) -> LevenbergMarquardt:
    if backend not in BACKENDS:
        raise ProblemError(f"{problem.place}: backend {backend!r} is not known; choose from {', '.join(BACKENDS)}")
    known = {f.name for f in fields(LevenbergMarquardt)}
    for name in options:
        if name not in known:
            raise ProblemError(
                f"{problem.place}: {name!r} is no option of backend {backend!r}; it has {', '.join(sorted(known))}"
            )
    return LevenbergMarquardt(**options)


def _answer(assembly: Assembly, outcome: Outcome, build: float, backend: str) -> Solution:
    problem, transcription = assembly.problem, assembly.transcription
    knowledge = _sensitivities(assembly, outcome)
    values = problem.guess | dict(zip(transcription.names, outcome.point.parameters.tolist(), strict=True))
    notices = [notice for e in assembly.evidence for notice in e.guess.notices] + _unphysical(problem, values)
    return Solution(
        problem=problem.name,
        backend=backend,
        stepper=problem.stepper.name,
        friction=problem.friction,
        step=problem.step,
        state_weight=problem.state_weight,
        status=outcome.status,
        detail=outcome.detail,
        cost=_cost(outcome.history[-1].costs),
        history=tuple(
            Step(
                i.iteration,
                _cost(i.costs),
                i.damping,
                i.step_norm,
                dict(zip(transcription.names, i.parameters.tolist(), strict=True)),
            )
            for i in outcome.history
        ),
        parameters={p.name: _estimate(p, problem, values[p.name], knowledge) for p in problem.parameters},
        sensitivities=knowledge,
        complementarity_residual=float("nan"),
        size=_size(transcription),
        times=Times.of(outcome.timing, build),
        versions={"spookid": spookid.__version__, "casadi": ca.__version__, "numpy": np.__version__},
        trajectories=_trajectories(assembly, outcome.point),
        notices=tuple(dict.fromkeys(notices)),
    )


def _cost(costs: Mapping[Group, float]) -> Cost:
    return Cost(state=costs[Group.STATE], observation=costs[Group.OBSERVATION])


def _estimate(parameter: Parameter, problem: Problem, value: float, knowledge: Sensitivities) -> Estimate:
    fixed = parameter.name in problem.fixed
    i = None if fixed else knowledge.names.index(parameter.name)
    return Estimate(
        name=parameter.name,
        estimate=value,
        std_err=float("nan") if i is None else float(knowledge.standard_errors[i]),
        reason="fixed by the user" if i is None else knowledge.reasons.get(parameter.name, ""),
        initial=problem.guess[parameter.name],
        lower=parameter.lower,
        upper=parameter.upper,
        unit=parameter.unit,
        at_bound=i is not None and not parameter.lower < value < parameter.upper,
        fixed=fixed,
    )


def _sensitivities(assembly: Assembly, outcome: Outcome) -> Sensitivities:
    transcription, estimates = assembly.transcription, outcome.point.parameters
    freedom = transcription.rows - transcription.unknowns
    noise = outcome.history[-1].total / freedom if freedom > 0 else float("nan")
    magnitudes = np.maximum(np.abs(estimates), transcription.magnitudes)
    held = (estimates <= transcription.lower) | (estimates >= transcription.upper)
    return sensitivities(transcription.names, outcome.information, noise, magnitudes, held)


def _size(transcription: Transcription) -> Size:
    steps = sum(chain.steps for chain in transcription.chains)
    return Size(
        recordings=len(transcription.chains),
        steps=steps,
        states=steps * transcription.manifold.tangent,
        parameters=len(transcription.names),
        residuals=transcription.rows,
        jacobian_nonzeros=transcription.nonzeros,
    )


def _unphysical(problem: Problem, values: Mapping[str, float]) -> list[str]:
    """Notices of bodies whose principal moments no mass distribution has."""
    notices = []
    for body in problem.model.bodies:
        if not ca.symvar(body.inertia):
            continue
        moments = np.linalg.eigvalsh(substitute(body.inertia, values))
        if moments[0] <= 0 or moments[2] > (moments[0] + moments[1]) * (1 + 1e-9):
            notices.append(
                f"Body {body.name!r}: the principal moments {', '.join(f'{m:.4g}' for m in moments)} kg m² violate the "
                "triangle inequality; no mass distribution has them."
            )
    return notices


def _trajectories(assembly: Assembly, point: Point) -> tuple[Trajectory, ...]:
    """Estimated motion on each recording, with the impulses along it."""
    residuals = assembly.transcription.residuals(point)
    everything = (
        *assembly.constants,
        *(Constant(p, float(v)) for p, v in zip(assembly.problem.free, point.parameters, strict=True)),
    )
    return tuple(
        _trajectory(
            assembly.problem,
            e,
            x,
            r,
            _multipliers(assembly, e, x, everything),
            predict(assembly.problem, x, everything),
        )
        for e, x, r in zip(assembly.evidence, point.states, residuals, strict=True)
    )


def _trajectory(
    problem: Problem, evidence: Evidence, x: Array, residuals: list[Array], multipliers: Array, predicted: Array
) -> Trajectory:
    bodies, steps = len(problem.model.bodies), evidence.grid.count
    initial, impulse, _ = residuals
    return Trajectory(
        name=evidence.recording.name,
        signals=tuple(o.signal for o in problem.observations),
        t=evidence.grid.times(),
        q=x[:, : 7 * bodies].reshape(steps, bodies, 7),
        v=x[:, 7 * bodies :].reshape(steps, bodies, 6),
        observed=evidence.observed,
        predicted=beside(predicted, evidence.observed),
        impulse_residual=np.vstack([initial, impulse]) / np.sqrt(problem.state_weight),
        multipliers=multipliers,
    )


def beside(angles: Array, observed: Array) -> Array:
    """Angles (N, n_o) on the branch nearest to what was observed; unwrapped over time where nothing was."""
    unwrapped = np.unwrap(angles, axis=0)
    near = observed + wrap(angles - observed, HingeAngle.period)
    return np.where(np.isnan(observed), unwrapped, near)


def predict(problem: Problem, x: Array, constants: tuple[Constant, ...]) -> Array:
    """What the sensors would show at states (N, 13 n_b): (N, n_o), angles in (−π, π]."""
    symbol = ca.SX.sym("x", problem.model.state.ambient)
    rows = ca.vertcat(ca.SX(0, 1), *(o.predicted(problem.model, symbol) for o in problem.observations))
    return _map([symbol], rows, [x], constants)


def _multipliers(assembly: Assembly, evidence: Evidence, x: Array, constants: tuple[Constant, ...]) -> Array:
    function = assembly.problem.stepper.multipliers(assembly.problem.model, assembly.settings)
    states = [x[offset : len(x) - 1 + offset] for offset in function.variables]
    inputs = contiguous(evidence.inputs[:-1])
    values = _map([*function.variables.values(), function.data], function.value, [*states, inputs], constants)
    return np.vstack([values, np.full((1, values.shape[1]), np.nan)])


def _map(symbols: list[ca.SX], expression: ca.SX, arrays: list[Array], constants: tuple[Constant, ...]) -> Array:
    """An expression of stepwise symbols along arrays, (N, rows)."""
    shared = ca.vertcat(*(c.symbol for c in constants))
    kernel = Kernel(ca.Function("along", [*symbols, shared], [ca.densify(expression)]), len(symbols))
    out = np.empty((len(arrays[0]), expression.numel()))
    return kernel(arrays, [contiguous([c.value for c in constants])], out)
