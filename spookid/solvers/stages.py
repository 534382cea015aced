"""A solve in stages: the first stage has some factors and some unknowns, each further stage more, from the last result.

Far from a solution a solver may fail on the whole problem, but succeed on parts of it: positions first, then
velocities, then forces. Any transcription can be solved in stages.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import casadi as ca
import numpy as np

from spookid.kernels.arrays import Array, contiguous
from spookid.records import dataclass
from spookid.solvers.status import Outcome
from spookid.transcription.factor import Constant, Factor
from spookid.transcription.transcription import Chain, Point, Transcription


@dataclass(frozen=True)
class Stage:
    """What counts and what moves."""

    factors: tuple[str, ...]
    """Names of the factors that count."""
    moving: tuple[int, ...] | None = None
    """Coordinates of a step that move, one or more, all four of a rotation or none; None: all."""
    parameters: bool = True
    """False if the parameters stay where they are."""


def solve_in_stages(
    problem: Transcription,
    stages: Sequence[Stage],
    start: Point,
    solve: Callable[[Transcription, Point], Outcome],
) -> list[Outcome]:
    """Results of several stages as points of the whole problem; each stage starts at the previous result. ``solve``:
    minimises a transcription from a point, such as ``LevenbergMarquardt().solve``."""
    found: list[Outcome] = []
    for stage in stages:
        part = restricted(problem, stage, start)
        outcome = solve(part, _inner(stage, start))
        start = _outer(stage, start, outcome.point)
        found.append(replace(outcome, point=start))
    return found


def restricted(problem: Transcription, stage: Stage, point: Point) -> Transcription:
    """Problem of a stage, in which fixed unknowns are data with their values at ``point``; raises ValueError if nothing
    or only part of a rotation is free, or a factor does not exist."""
    if stage.moving is not None and not stage.moving:
        raise ValueError("a stage moves no state; name coordinates that move")
    unknown = set(stage.factors) - {factor.name for factor in problem.factors}
    if unknown:
        raise ValueError(f"there is no factor {min(unknown)!r}")
    chosen = [factor for factor in problem.factors if factor.name in stage.factors]
    if stage.moving is None:
        pairs = [(factor, factor) for factor in chosen]
        manifold = problem.manifold
    else:
        manifold = problem.manifold.part(stage.moving)
        pairs = [(factor, _with_held(factor, stage.moving, manifold.ambient)) for factor in chosen]
    unknowns = problem.shared[0] if stage.parameters else ca.SX(0, 1)
    moving = [[x for x in (*new.variables.values(), unknowns) if x.numel()] for _, new in pairs]
    pairs = [p for p, xs in zip(pairs, moving, strict=True) if any(bool(ca.depends_on(p[1].residual, x)) for x in xs)]
    chains = [_chain(problem, stage, point, c, [old for old, _ in pairs]) for c in range(len(problem.chains))]
    constants, n = problem.given, len(problem.names)
    if not stage.parameters:
        symbols = ca.vertsplit(problem.shared[0]) if n else []
        values = point.parameters.tolist()
        constants, n = (*constants, *(Constant(s, v) for s, v in zip(symbols, values, strict=True))), 0
    bounds = problem.lower[:n], problem.upper[:n], problem.magnitudes[:n]
    charts = problem.charts if stage.parameters else ()
    factors = [new for _, new in pairs]
    given = unknowns, constants, problem.names[:n], *bounds, chains
    constraints = problem.constraints if stage.parameters else None
    return Transcription(manifold, factors, *given, problem.choice, charts, constraints=constraints)


def _with_held(factor: Factor, moving: Sequence[int], size: int) -> Factor:
    """A factor of what moves; the rest of each step it sees stands behind its data."""
    variables, data = {}, [factor.data]
    for offset, x in factor.variables.items():
        variables[offset] = ca.SX.sym("x", size)
        held = ca.SX.sym("held", x.numel() - size)
        whole = ca.SX(x.numel(), 1)
        whole[list(moving)] = variables[offset]
        whole[_others(x.numel(), moving)] = held
        factor = replace(factor, through=None).substituted(x, ca.densify(whole))
        data.append(held)
    return replace(factor, variables=variables, data=ca.vertcat(*data), private=None)


def _others(size: int, moving: Sequence[int]) -> list[int]:
    return sorted(set(range(size)) - set(moving))


def _chain(problem: Transcription, stage: Stage, point: Point, number: int, factors: Sequence[Factor]) -> Chain:
    chain, states = problem.chains[number], point.states[number]
    data = {name: values for name, values in chain.data.items() if any(f.name == name for f in factors)}
    if stage.moving is not None:
        others = _others(problem.manifold.ambient, stage.moving)
        for factor in factors:
            count = factor.count(chain.steps)
            held = [states[offset : offset + count, others] for offset in factor.variables]
            data[factor.name] = contiguous(np.hstack([data.get(factor.name, np.zeros((count, 0))), *held]))
    missing = {name: mask for name, mask in chain.missing.items() if any(f.name == name for f in factors)}
    return Chain(chain.name, chain.steps, data, missing, chain.choice, chain.times)


def _inner(stage: Stage, point: Point) -> Point:
    """A point of the stage's problem."""
    states = point.states
    if stage.moving is not None:
        states = tuple(contiguous(x[:, list(stage.moving)]) for x in states)
    return Point(states, point.parameters if stage.parameters else np.zeros(0), point.codes)


def _outer(stage: Stage, start: Point, found: Point) -> Point:
    """A point of the whole problem."""
    states: list[Array] = []
    for before, after in zip(start.states, found.states, strict=True):
        whole = before.copy()
        whole[:, slice(None) if stage.moving is None else list(stage.moving)] = after
        states.append(whole)
    return Point(tuple(states), found.parameters if stage.parameters else start.parameters, found.codes)
