"""First-order changes of the estimates with data, settings and fixed parameters: δθ = −(TᵀT)⁻¹ Tᵀ δr."""

from __future__ import annotations

from collections.abc import Sequence

import casadi as ca
import numpy as np

from spookid.assembly.assembly import Assembly
from spookid.estimation.identifiability import OBSERVATION, Identifiability
from spookid.estimation.step_errors import step_errors
from spookid.kernels.arrays import Array, contiguous
from spookid.kernels.kernel import Kernel
from spookid.results.result import Trajectory
from spookid.statistics.condensing import Condensed
from spookid.statistics.influence import Influence
from spookid.transcription.factor import Group
from spookid.transcription.transcription import Point


def influence(
    assembly: Assembly, point: Point, identifiability: Identifiability, motion: Sequence[Trajectory]
) -> Influence:
    """Of the solution at ``point``."""
    problem = assembly.problem
    fixed = [p for p in problem.parameters if p.name not in assembly.transcription.names]
    names = tuple(p.name for p in fixed)
    if identifiability.condensed is None:
        return _unknown(assembly, names)
    gain = identifiability.analysis.gain.T
    observations = tuple(
        _observations(assembly, identifiability.condensed, i, len(t.t)) @ gain for i, t in enumerate(motion)
    )
    settings = _settings(assembly, point, identifiability.condensed, [assembly.settings.step, *fixed]) @ -gain
    times = [t.t[0] + problem.step * edges for t, edges in zip(motion, identifiability.edges, strict=True)]
    cuts = np.cumsum([len(edges) - 1 for edges in identifiability.edges])[:-1]
    return Influence(
        observations,
        _state_weight(assembly, identifiability.condensed) @ -gain,
        settings[0],
        step_errors(assembly, point, identifiability.condensed, identifiability.analysis.gain),
        names,
        settings[1:],
        tuple(times),
        tuple(np.split(identifiability.analysis.blocks, cuts)),
    )


def _unknown(assembly: Assembly, names: tuple[str, ...]) -> Influence:
    n, sensors = len(assembly.transcription.names), len(assembly.problem.channels)
    count = len(assembly.sampled)
    return Influence(
        tuple(np.full((e.grid.count, sensors, n), np.nan) for e in assembly.sampled),
        np.full(n, np.nan),
        np.full(n, np.nan),
        np.full(n, np.nan),
        names,
        np.full((len(names), n), np.nan),
        (np.zeros(0),) * count,
        (np.zeros((0, n)),) * count,
    )


def _observations(assembly: Assembly, condensed: Condensed, chain: int, steps: int) -> Array:
    """−Tᵀ ∂r/∂y, (N, n_o, n_p): r = (predicted − y)/σ, of all samples of a step together."""
    sensors = assembly.problem.channels
    labels = [OBSERVATION + sensor.signal for sensor in sensors]
    slopes = np.zeros((steps, len(sensors), len(assembly.transcription.names)))
    for term, T in zip(condensed.linearized.chains[chain], condensed.T[chain], strict=True):
        if term.factor.group is not Group.OBSERVATION:
            continue
        first = term.factor.reach // 2  # a factor over several steps observes the middle one
        for row, label in enumerate(term.factor.rows):
            i = labels.index(label)
            slopes[first : first + len(T), i] += T[:, :, row] * term.alive[:, [row]] / assembly.sigmas[i]
    return slopes


def _state_weight(assembly: Assembly, condensed: Condensed) -> Array:
    """∂(Tᵀ r)/∂κ, (n_p,): impulse residuals are √κ Δp, and so are their rows of T."""
    total = np.zeros(len(assembly.transcription.names))
    for terms, parts in zip(condensed.linearized.chains, condensed.T, strict=True):
        for term, T in zip(terms, parts, strict=True):
            if term.factor.group is Group.STATE and not term.factor.hard:
                total += np.einsum("kir,kr->i", T, term.residual)
    return total / assembly.problem.weight


def _settings(assembly: Assembly, point: Point, condensed: Condensed, symbols: Sequence[ca.SX]) -> Array:
    """Tᵀ ∂r/∂c for symbols c of the factors, (n_c, n_p)."""
    c = ca.vertcat(*symbols)
    total = np.zeros((len(symbols), len(assembly.transcription.names)))
    kept = [term.factor for term in condensed.linearized.chains[0]]
    for place, factor in enumerate(kept):
        derivative = ca.jacobian(factor.residual, c)
        if derivative.nnz():
            total += _pulled(assembly, point, condensed, place, derivative)
    for factor in condensed.linearized.problem.factors:
        if factor not in kept:  # eliminated step by step: how its surface moves is not known here
            total[np.flatnonzero(ca.which_depends(factor.residual, c, 1, False))] = np.nan
    return total


def _pulled(assembly: Assembly, point: Point, condensed: Condensed, place: int, derivative: ca.SX) -> Array:
    """Tᵀ ∂r/∂c of one factor, the ``place``-th that is kept, along all chains, (n_c, n_p)."""
    factor = condensed.linearized.chains[0][place].factor
    constants = [assembly.numbers(point, c) for c in range(len(point.states))]
    codes = [] if factor.box is None else [factor.box.codes]
    stepwise, shared = [*factor.variables.values(), factor.data, *codes], ca.vertcat(*(c.symbol for c in constants[0]))
    kernel = Kernel(ca.Function("response", [*stepwise, shared], [ca.densify(derivative)]), len(stepwise))
    total = 0.0
    for c, (states, chain) in enumerate(zip(point.states, assembly.transcription.chains, strict=True)):
        term, T = condensed.linearized.chains[c][place], condensed.T[c][place]
        count = factor.count(chain.steps)
        arguments = [states[offset : offset + count] for offset in factor.variables]
        data = chain.data.get(factor.name, np.zeros((count, 0)))
        given = [point.codes[c][factor.name]] if codes else []
        numbers = contiguous([number.value for number in constants[c]])
        change = kernel([*arguments, data, *given], [numbers], np.empty((count, derivative.shape[1], len(factor.rows))))
        if term.complement is not None:
            change = np.matmul(change, term.complement)
        total = total + term.scale * np.einsum("kcr,kir->ci", change, T)
    return np.asarray(total)
