"""Where an evaluation yields NaN or infinity: the factor, the recording, the step, and the operation that makes it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import casadi as ca
import numpy as np

from spookid.kernels.arrays import Array
from spookid.kernels.kernel import Kernel
from spookid.kernels.program import cause
from spookid.transcription.factor import Factor
from spookid.transcription.factor_kernels import augmented
from spookid.transcription.transcription import Point, Transcription


def fault(problem: Transcription, point: Point, derivatives: bool = True) -> str:
    """First residual along a recording, or else first derivative, that is not finite, and why; empty if all are.

    Derivatives are made anew and evaluated without compiled code: they are for solves that cannot continue.
    """
    with np.errstate(all="ignore"):
        return next(_faults(problem, point, derivatives), "")


def because(said: str, problem: Transcription, here: Point, ahead: Point | None = None) -> str:
    """Message of a solver about its end, with the reason if something is not finite: here, or where its steps lead."""
    if ahead is not None and (found := fault(problem, ahead, derivatives=False)):
        return f"{said}, for steps lead to where something is not finite: {found}"
    return f"{said}: {found}" if (found := fault(problem, here)) else said


def _faults(problem: Transcription, point: Point, derivatives: bool) -> Iterator[str]:
    lost = [name for name, value in zip(problem.names, point.parameters, strict=True) if not np.isfinite(value)]
    if lost:
        yield f"{', '.join(lost)} has no finite value"
    if not point.states:
        return  # those of a joint fit lie elsewhere
    for chain, states in zip(problem.chains, point.states, strict=True):
        steps = np.flatnonzero(~np.isfinite(states).all(axis=1))
        if steps.size:
            yield f"{chain.at(int(steps[0]))}: the motion itself is not finite"
    for c, residuals in enumerate(problem.residuals(point)):
        yield from _first(problem, point, c, [factor.residual for factor in problem.factors], residuals)
    slopes = [augmented(f, problem.manifold, problem.shared[0]) for f in problem.factors if derivatives]
    for c in range(len(problem.chains) if derivatives else 0):
        pairs = zip(problem.factors, slopes, strict=True)
        yield from _first(problem, point, c, slopes, [_values(problem, f, slope, point, c) for f, slope in pairs])


def _first(
    problem: Transcription, point: Point, chain: int, quantities: Sequence[ca.SX], values: Sequence[Array]
) -> Iterator[str]:
    """The first step of a chain at which a quantity of the factors is not finite, (count, entries) each."""
    found = [(*np.argwhere(~np.isfinite(v))[0].tolist(), i) for i, v in enumerate(values) if not np.isfinite(v).all()]
    if not found:
        return
    step, entry, i = min(found)
    factor, quantity = problem.factors[i], ca.densify(quantities[i])
    stepwise, shared = problem.arguments(factor, chain, point)
    numbers = [*(values[step] for values in stepwise), *shared]
    parameters = dict(zip(problem.names, ca.vertsplit(problem.shared[0]), strict=True))
    column, row = divmod(entry, len(factor.rows))
    why = cause(ca.vec(quantity)[entry], problem.symbols(factor), numbers, parameters)
    place = f"{problem.provenance(chain, factor, step * len(factor.rows) + row)} ({factor.name})"
    if quantity.shape[1] > 1:
        after = column - (quantity.shape[1] - 1 - len(problem.names))
        place += f", its derivative by {problem.names[after] if after >= 0 else 'the motion'}"
    yield f"{place}: {why}"


def _values(problem: Transcription, factor: Factor, quantity: ca.SX, point: Point, chain: int) -> Array:
    stepwise, shared = problem.arguments(factor, chain, point)
    function = ca.Function("values", problem.symbols(factor), [ca.vec(ca.densify(quantity))])
    return Kernel(function, len(stepwise))(stepwise, shared, np.empty((len(stepwise[0]), 1, quantity.numel())))[:, 0]
