"""What the time step adds to the estimates, to leading order and without another fit.

The fitted motion is nearly one in steps of 2h, too: every other state of it, with 2h in the place of h. Where the exact
motion misses the equations of a step of order p by d = O(h^(p+1)), it misses those of the double step by 2^(p+1) d and
both of its halves together by 2 d; the difference tells d, as in deferred correction (Pereyra, Numerische Mathematik
10, 1967). What a sensor makes of the velocities has an error of O(h^p), found in the same way. Inputs that are recorded
between the steps, where the step holds them, add the impulses by which they differ.

To the fit d is a disturbance like any other, which moves the estimates by −(TᵀT)⁻¹ Tᵀ d, T as in (3.32).
"""

from __future__ import annotations

import math

import casadi as ca
import numpy as np

from spookid.assembly import Assembly, Evidence
from spookid.factor import Constant, Factor, Group
from spookid.kernels import Array, Kernel, contiguous
from spookid.sampling import Grid, held
from spookid.solvers.contraction import Contraction
from spookid.transcription import Chain, Point
from spookid.uncertainty import Sensitivities

_LEAST_STEPS = 6
"""That a recording needs to have two double steps."""
_ROUGH = 0.1
"""Of errors that are a larger share of an estimate their leading order does not say enough."""
_MOST_INPUTS = 2**20
"""Finer steps at which the inputs of a recording are looked at."""


def step_errors(assembly: Assembly, point: Point, contraction: Contraction, gain: Array) -> Array:
    """How much larger the estimates are than those of a step of length zero, (n_p,).

    NaN with lifted multipliers, which belong to the step, with dry friction, whose jumps have no order, and if a
    recording has fewer than six steps.

    Args:
        gain: (TᵀT)⁻¹, (n_p, n_p).
    """
    problem, chains = assembly.problem, assembly.transcription.chains
    doubled = [problem.scheme.doubled(problem.model, states, problem.step) for states in point.states]
    rubs = any(joint.rubs for joint in problem.model.joints)
    if rubs or any(s is None for s in doubled) or min(chain.steps for chain in chains) < _LEAST_STEPS:
        return np.full(len(gain), np.nan)
    total = np.zeros(len(gain))
    for place, factor in enumerate(strip.factor for strip in contraction.linear.chains[0]):
        if factor.first_only or factor.group is Group.PRIOR:
            continue
        residuals = _Residuals(assembly, point, factor)
        for c, (fine, coarse) in enumerate(zip(point.states, doubled, strict=True)):
            strip, T = contraction.linear.chains[c][place], contraction.T[c][place]
            missed = residuals.missed(chains[c], assembly.evidence[c], fine, contiguous(coarse))[:, None]
            if strip.rows.complement is not None:
                missed = np.matmul(missed, strip.rows.complement)
            total += strip.scale * np.einsum("kr,kir->i", strip.alive * missed[:, 0], T)
    return np.asarray(-gain @ total)


def notices(assembly: Assembly, point: Point, known: Sensitivities, errors: Array) -> list[str]:
    """A sentence on estimates that the time step puts farther off than their standard errors say.

    Args:
        errors: as of ``step_errors``, (n_p,).
    """
    times = np.abs(errors) / known.standard_errors
    rough = np.nanmax(np.abs(errors[times > 1]) / np.abs(point.parameters[times > 1]), initial=0.0) > _ROUGH
    units = {p.name: p.unit for p in assembly.problem.free}
    sides = []
    for word, some in (("small", (times > 1) & (errors < 0)), ("large", (times > 1) & (errors > 0))):
        pairs = [(known.names[i], abs(float(errors[i])), float(times[i])) for i in np.flatnonzero(some)]
        amounts = [f"{name} {off:.2g} {units[name]}".rstrip() + f" ({ratio:.2g})" for name, off, ratio in pairs]
        if amounts:
            sides.append(f"{', '.join(amounts)} too {word}")
    if not sides:
        return []
    finer = "a smaller one" if assembly.problem.scheme.order > 1 else "a smaller one or the stepper Variational()"
    return [
        f"The time step of {assembly.problem.step:g} s makes {' and '.join(sides)}, to leading order"
        f"{', a rough guide where it is so much' if rough else ''} (in brackets how many standard errors, which do not "
        f"include it). Take {finer}; `spookid audit` compares three."
    ]


class _Residuals:
    """Those of one factor at the solution, with steps of h and of 2h."""

    def __init__(self, assembly: Assembly, point: Point, factor: Factor) -> None:
        free = zip(assembly.problem.free, point.parameters.tolist(), strict=True)
        constants = (*assembly.constants, *(Constant(p, value) for p, value in free))
        self._single = contiguous([c.value for c in constants])
        is_step = [ca.is_equal(ca.SX(c.symbol), assembly.settings.step) for c in constants]
        self._double = contiguous(np.where(is_step, 2, 1) * self._single)
        self._factor, self._problem = factor, assembly.problem
        symbols = [*factor.variables.values(), factor.data]
        every = ca.vertcat(*(c.symbol for c in constants))
        function = ca.Function("residual", [*symbols, every], [ca.densify(factor.residual)])
        self._kernel = Kernel(function, len(symbols))

    def missed(self, chain: Chain, evidence: Evidence, fine: Array, coarse: Array) -> Array:
        """d at every step, (count, rows)."""
        count, reach = self._factor.count(chain.steps), self._factor.reach
        data = chain.data.get(self._factor.name, np.zeros((count, 0)))
        states = [fine[o : o + count] for o in self._factor.variables]
        nodes = [coarse[2 * o :][: count - reach] for o in self._factor.variables]
        single, order = self._at(states, data, self._single), self._problem.scheme.order
        if self._factor.group is Group.OBSERVATION:
            middle = slice(reach // 2, count - reach // 2)
            differences = self._at(nodes, data[middle], self._double) - single[middle]
            return _extended(differences / (2**order - 1), reach // 2)
        halves = _averaged(single, reach, 2)
        differences = self._at(nodes, _averaged(data, reach, 2), self._double) / 2 - halves
        # Zero at the ends, which have no double step: a neighbour's d would not point along the joints there.
        missed = np.zeros_like(single)
        missed[reach // 2 :][: len(halves)] = differences / (2**order - 1)
        if data.shape[1]:
            missed += single - self._at(states, self._between(evidence), self._single)
        return missed

    def _between(self, evidence: Evidence) -> Array:
        """Data of the impulses with the inputs as they are between the steps, (count, n_u)."""
        grid, sampled = evidence.grid, float(np.median(np.diff(evidence.recording.t)))
        parts = min(math.ceil(grid.step / sampled * (1 - 1e-6)), max(_MOST_INPUTS // grid.count, 1))
        finer = Grid(grid.start, grid.step / parts, (grid.count - 1) * parts + 1)
        inputs = [held(evidence.recording, signal, finer) for signal in self._problem.model.signals]
        rows = self._problem.scheme.inputs(np.column_stack(inputs))
        return _averaged(rows, self._factor.reach, parts)[::parts]

    def _at(self, states: list[Array], data: Array, numbers: Array) -> Array:
        arguments = [contiguous(a) for a in (*states, data)]
        return self._kernel(arguments, [numbers], np.empty((len(arguments[0]), 1, self._factor.residual.numel())))[:, 0]


def _averaged(rows: Array, reach: int, parts: int) -> Array:
    """Means over the steps within one that is ``parts`` times as long, weighted as an impulse of that reach weights
    what acts: alike over one interval, like a hat over two, (steps, columns)."""
    shares = np.ones(1)
    for _ in range(reach):
        shares = np.convolve(shares, np.full(parts, 1 / parts))
    count = len(rows) - len(shares) + 1
    return np.asarray(sum((share * rows[i : i + count] for i, share in enumerate(shares)), np.zeros(1)))


def _extended(rows: Array, more: int) -> Array:
    """With so many ``more`` rows at each end, on the line through the two next to them."""
    for _ in range(more):
        rows = np.vstack([2 * rows[:1] - rows[1:2], rows, 2 * rows[-1:] - rows[-2:-1]])
    return rows
