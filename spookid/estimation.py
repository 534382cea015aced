"""Solve a declared problem and put the answer together."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import casadi as ca
import numpy as np

import spookid
from spookid.assembly import Assembly, assemble
from spookid.errors import ProblemError
from spookid.factor import Group
from spookid.outlining import mechanism
from spookid.parameter import Parameter, substitute
from spookid.problem import BACKENDS, Problem
from spookid.solution import Cost, Estimate, Size, Solution, Step, Times
from spookid.solvers.levenberg_marquardt import Callback, LevenbergMarquardt
from spookid.solvers.status import Outcome
from spookid.trajectories import trajectories
from spookid.transcription import Transcription
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
    notices = [*assembly.notices, *_redundant(outcome), *_unphysical(problem, values)]
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
        trajectories=trajectories(assembly, outcome.point),
        notices=tuple(dict.fromkeys(notices)),
        mechanism=mechanism(problem, values),
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
    freedom = outcome.freedom
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


def _redundant(outcome: Outcome) -> list[str]:
    if not outcome.redundant:
        return []
    return [f"{outcome.redundant} constraint rows of each step follow from the others, as in a closed loop."]


def _unphysical(problem: Problem, values: Mapping[str, float]) -> list[str]:
    """Notices of bodies whose principal moments no mass distribution has."""
    notices = []
    for body in problem.model.bodies:
        if not ca.symvar(body.inertia):
            continue
        inertia = substitute(body.inertia, values)
        if not np.all(np.isfinite(inertia)):
            continue
        moments = np.linalg.eigvalsh(inertia)
        if moments[0] <= 0 or moments[2] > (moments[0] + moments[1]) * (1 + 1e-9):
            notices.append(
                f"Body {body.name!r}: the principal moments {', '.join(f'{m:.4g}' for m in moments)} kg m² violate the "
                "triangle inequality; no mass distribution has them."
            )
    return notices
