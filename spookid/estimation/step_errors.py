"""First-order changes of the estimates with data, settings and fixed parameters: δθ = −(TᵀT)⁻¹ Tᵀ δr.

The same formula gives the discretization bias of the estimates, to leading order and without another fit.

Every other state of the fitted motion nearly satisfies the equations with the step 2h. If the exact motion violates the
equations of a step of order p by d = O(h^(p+1)), it violates those of the double step by 2^(p+1) d, and both half steps
together by 2 d. The difference gives d, as in deferred correction (Pereyra, Numerische Mathematik 10, 1967).
Predictions of sensors from velocities have an error of O(h^p), which is found in the same way. Inputs that change
within a step add the impulses by which they differ from the held value.

The local error d acts like a change of the residuals, and changes the estimates by −(TᵀT)⁻¹ Tᵀ d, T as in (3.32).
"""

from __future__ import annotations

from collections.abc import Sequence

import casadi as ca
import numpy as np

from spookid.assembly.assembly import Assembly
from spookid.assembly.initialization import SampledRecording
from spookid.assembly.problem import Problem
from spookid.data.channels import order
from spookid.estimation.identifiability import OBSERVATION, Identifiability
from spookid.kernels.arrays import Array, contiguous
from spookid.kernels.kernel import Kernel
from spookid.parameter import Parameter, is_constant
from spookid.results.findings import Finding
from spookid.results.trajectory import Trajectory
from spookid.statistics.condensing import Condensed
from spookid.statistics.sensitivities import Influence, Sensitivities
from spookid.stepping.impulses import VELOCITY_ROWS
from spookid.stepping.unknowns import hats
from spookid.stepping.variational import Leapfrog
from spookid.transcription.factor import Factor, Group
from spookid.transcription.transcription import Point, Transcription


def influence(
    assembly: Assembly, point: Point, identifiability: Identifiability, motion: Sequence[Trajectory]
) -> Influence:
    """Of the solution at ``point``."""
    problem = assembly.problem
    fixed = _fixed(assembly)
    if identifiability.condensed is None:
        return of_elsewhere(assembly, np.full(len(assembly.transcription.names), np.nan))
    gain = identifiability.analysis.gain.T
    observations = tuple(
        _observations(assembly, identifiability.condensed, i, len(t.t)) @ gain for i, t in enumerate(motion)
    )
    settings = _settings(identifiability.condensed, point, [assembly.settings.step, *fixed]) @ -gain
    times = [t.t[0] + problem.step * edges for t, edges in zip(motion, identifiability.edges, strict=True)]
    cuts = np.cumsum([len(edges) - 1 for edges in identifiability.edges])[:-1]
    return Influence(
        observations,
        _state_weight(assembly, identifiability.condensed) @ -gain,
        settings[0],
        -identifiability.analysis.gain @ step_slopes(assembly, point, identifiability.condensed),
        tuple(p.name for p in fixed),
        settings[1:],
        tuple(times),
        tuple(np.split(identifiability.analysis.blocks, cuts)),
    )


def of_elsewhere(assembly: Assembly, step_error: Array) -> Influence:
    """Estimates without a linearization, with NaN except for the discretization bias, (n_p,)."""
    n, sensors = len(assembly.transcription.names), len(assembly.problem.channels)
    count, names = len(assembly.sampled), _fixed(assembly)
    return Influence(
        tuple(np.full((e.grid.count, sensors, n), np.nan) for e in assembly.sampled),
        np.full(n, np.nan),
        np.full(n, np.nan),
        step_error,
        tuple(one.name for one in names),
        np.full((len(names), n), np.nan),
        (np.zeros(0),) * count,
        (np.zeros((0, n)),) * count,
    )


def _fixed(assembly: Assembly) -> list[Parameter]:
    return [p for p in assembly.problem.parameters if p.name not in assembly.transcription.names]


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


def _settings(condensed: Condensed, point: Point, symbols: Sequence[ca.SX]) -> Array:
    """Tᵀ ∂r/∂c for symbols c of the factors, (n_c, n_p)."""
    c, problem = ca.vertcat(*symbols), condensed.linearized.problem
    total = np.zeros((len(symbols), len(problem.names)))
    kept = [term.factor for term in condensed.linearized.chains[0]]
    for place, factor in enumerate(kept):
        derivative = ca.jacobian(factor.residual, c)
        if not derivative.nnz():
            continue
        kernel = _kernel(problem, factor, derivative)
        for chain, (terms, parts) in enumerate(zip(condensed.linearized.chains, condensed.T, strict=True)):
            term, change = terms[place], problem.call(kernel, factor, point, chain, len(symbols))(slice(None))
            if term.complement is not None:
                change = np.matmul(change, term.complement)
            total += term.scale * np.einsum("kcr,kir->ci", change, parts[place])
    for factor in problem.factors:
        if factor not in kept:  # eliminated step by step: how its surface moves is not known here
            total[np.flatnonzero(ca.which_depends(factor.residual, c, 1, False))] = np.nan
    return total


def _kernel(problem: Transcription, factor: Factor, expression: ca.SX) -> Kernel:
    """An expression of a factor's symbols along its chain."""
    symbols = problem.symbols(factor)
    return Kernel(ca.Function("along", symbols, [ca.densify(expression)]), len(symbols) - len(problem.shared))


SHORTEST = 20
"""Steps of a recording, or of a part of one, whose ends, which have no double step, count little."""
_HALVES = {1: (0.5, 0.5), 2: (0.25, 0.5, 0.25)}
"""Shares that the steps of h have in one of 2h, by the reach of its factor: weighted as an impulse weights what acts,
alike over one interval or like a hat over two."""


def step_slopes(assembly: Assembly, point: Point, condensed: Condensed, least: int = SHORTEST) -> Array:
    """Tᵀ times what the residuals miss of those of a step of length zero, (n_p,): −(TᵀT)⁻¹ times that is how much
    larger the estimates are, and over recordings it adds up. NaN where that has no order: multipliers of the step, dry
    friction, own residuals, contacts that switch, accelerations, late inputs or velocities between steps, and short
    recordings."""
    problem, steps = assembly.problem, [chain.steps for chain in assembly.transcription.chains]
    accelerated = any(order(channel, problem.model) == 2 for channel in problem.channels)
    # What is predicted between the steps is off by a higher order, unless it shows velocities.
    between = [one for one in assembly.observed if one.reach]
    late = any(not (is_constant(one.delay) and is_constant(one.lag)) for one in problem.model.inputs) or any(
        one.order for one in between
    )
    late |= any(contact.switches or contact.stabilized for contact in problem.model.holding.contacts)
    sticks = any(joint.rubs for joint in problem.model.joints) or bool(problem.model.contacts)
    disordered = sticks or problem.residuals or accelerated or late
    if disordered or sum(steps) < least * len(steps):
        return np.full(len(condensed.inverse), np.nan)
    total = np.zeros(len(condensed.inverse))
    skipped = {one.name for one in between}
    factors = [term.factor for term in condensed.linearized.chains[0]]
    residuals = [
        None if f.first_only or f.group is Group.PRIOR or f.name in skipped else _Residuals(assembly, point, f)
        for f in factors
    ]
    for c in (c for c, count in enumerate(steps) if count >= 2 * len(_HALVES[2])):
        coarse = problem.scheme.doubled(problem.model, point.states[c], problem.step)
        if coarse is None:
            return np.full_like(total, np.nan)
        for term, T, of_factor in zip(condensed.linearized.chains[c], condensed.T[c], residuals, strict=True):
            if of_factor is None:
                continue
            missed = of_factor.missed(c, contiguous(coarse))[:, None]
            if term.complement is not None:
                missed = np.matmul(missed, term.complement)
            total += term.scale * np.einsum("kr,kir->i", term.alive * missed[:, 0], T)
    return total


def step_error_findings(assembly: Assembly, point: Point, known: Sensitivities, errors: Array) -> list[Finding]:
    """Warning about estimates whose discretization bias, (n_p,), exceeds their standard errors."""
    if np.all(np.isnan(errors)) and any(p.name in assembly.problem.delays for p in assembly.problem.free):
        return [_of_delays(assembly.problem)]
    notable = np.flatnonzero(np.abs(errors) > known.standard_errors)
    units, order = {p.name: p.unit for p in assembly.problem.free}, assembly.problem.scheme.order
    off = {known.names[i]: (float(errors[i]), float(known.standard_errors[i])) for i in notable}
    sides = []
    for word, sign in (("small", -1), ("large", 1)):
        some = [(name, sign * size, error) for name, (size, error) in off.items() if sign * size > 0]
        amounts = [f"{name} {size:.2g} {units[name]}".rstrip() + f" ({size / error:.2g})" for name, size, error in some]
        if amounts:
            sides.append(f"{', '.join(amounts)} too {word}")
    if not sides:
        return []
    rough = order == 1 or bool(np.any(np.abs(errors[notable]) > 0.1 * np.abs(point.parameters[notable])))
    finer = "a smaller one" if order > 1 else "a smaller one or the stepper Variational()"
    evidence = {name: {"step_error": size, "std_err": error} for name, (size, error) in off.items()}
    effect = (
        f"The time step of {assembly.problem.step:g} s makes estimates {' and '.join(sides)}, to leading "
        f"order{', a rough guide here' if rough else ''}. Standard errors do not include this bias; the numbers in "
        "brackets are the bias in standard errors."
    )
    advice = f"Use {finer}; `spookid audit` compares three steps."
    return [Finding("step.error", tuple(off), evidence, effect, advice=advice)]


def _of_delays(problem: Problem) -> Finding:
    """Estimates of which it is not known by how much the step puts them off."""
    first = ": a delay by up to half a step" if problem.scheme.order == 1 else ""
    delays = tuple(p.name for p in problem.free if p.name in problem.delays)
    effect = f"If a delay is a parameter, the bias by the time step of {problem.step:g} s is unpredictable{first}."
    advice = "Use Variational() with estimated noise, which corrects this bias, or compare with half the step."
    return Finding("step.error", delays, {"step": problem.step}, effect, advice=advice)


class _Residuals:
    """Those of one factor at the solution, with steps of h and of 2h."""

    def __init__(self, assembly: Assembly, point: Point, factor: Factor) -> None:
        self._assembly, self._point, self._factor, self._problem = assembly, point, factor, assembly.problem
        self._kernel = _kernel(assembly.transcription, factor, factor.residual)
        shared, step = map(ca.vertsplit, assembly.transcription.shared), assembly.settings.step
        self._doubling = [np.array([1 + ca.is_equal(one, step) for one in symbols]) for symbols in shared]

    def missed(self, recording: int, coarse: Array) -> Array:
        """Correction d at each step of a recording, (count, rows), from unknowns of which every other belongs to steps
        of 2h."""
        (*states, data), numbers = self._assembly.transcription.arguments(self._factor, recording, self._point)
        double = [contiguous(twice * own) for twice, own in zip(self._doubling, numbers, strict=True)]
        single = self._at(states, data, numbers)
        length = len(data) - self._factor.reach - self._unknown
        nodes = [coarse[self._unknown + 2 * o :][:length] for o in self._factor.variables]
        share = 2**self._problem.scheme.order - 1
        if self._factor.group is Group.OBSERVATION:
            return np.asarray(self._mistaken(single, nodes, data, double) / share)
        missed = np.asarray(self._truncated(single, nodes, data, double) / share)
        if data.shape[1]:
            acting = self._acting(self._assembly.sampled[recording])
            missed += single - self._at(states, np.hstack([acting, data[:, acting.shape[1] :]]), numbers)
        return missed

    @property
    def _lags(self) -> bool:
        """True if its rows are those around the earlier of two steps, of which rates lead back to one before."""
        factor = self._factor
        around = factor.reach == 1 and (factor.motion or factor.group is Group.OBSERVATION)
        return around and isinstance(self._problem.scheme, Leapfrog)

    @property
    def _unknown(self) -> int:
        """Double steps at the start that rates lead back before."""
        return 2 if self._lags else 0

    def _mistaken(self, single: Array, nodes: list[Array], data: Array, double: list[Array]) -> Array:
        """By how much more an observation misses, on lines through the two rows next to them at the ends."""
        before = self._unknown or self._factor.reach // 2
        middle = slice(before, before + len(nodes[0]))
        rows = self._at(nodes, data[middle], double) - single[middle]
        for _ in range(before):
            rows = np.vstack([2 * rows[:1] - rows[1:2], rows])
        for _ in range(len(single) - middle.stop):
            rows = np.vstack([rows, 2 * rows[-1:] - rows[-2:-1]])
        return rows

    def _truncated(self, single: Array, nodes: list[Array], data: Array, double: list[Array]) -> Array:
        """By how much more a double step misses than its halves, over two if it is by an impulse, at the row of its
        middle with reach 2, of its first half with reach 1; zero at the ends."""
        halves = self._averaged(single)
        rows, twice = np.zeros_like(single), 1 if self._factor.name == VELOCITY_ROWS else 2
        first = self._unknown or self._factor.reach // 2
        rows[first : first + len(halves)] = self._at(nodes, self._averaged(data), double) / twice - halves
        return rows

    def _averaged(self, rows: Array) -> Array:
        """Over the halves of each double step, (count − reach, columns)."""
        shares = _HALVES[2 if self._lags else self._factor.reach]
        count = len(rows) + 1 - len(shares)
        means = np.asarray(sum((share * rows[i : i + count] for i, share in enumerate(shares)), np.zeros(1)))
        return means[1:] if self._lags else means

    def _acting(self, sampled: SampledRecording) -> Array:
        """Data of the impulses with the inputs as they are between the steps, (count, n_u)."""
        now = sampled.acting
        if self._lags:
            return hats(now.mean, now.late)
        return now.mean if self._factor.reach == 1 else hats(now.mean, now.late)[1:]

    def _at(self, states: list[Array], data: Array, numbers: list[Array]) -> Array:
        arguments = [contiguous(a) for a in (*states, data)]
        return self._kernel(arguments, numbers, np.empty((len(arguments[0]), self._factor.residual.numel())))
