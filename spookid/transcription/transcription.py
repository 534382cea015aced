"""Factors over the horizon: variables, tangent spaces, bounds, and where each residual row comes from.

This is the narrow waist of the package. It knows no mechanics; solvers see nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import field
from functools import cached_property

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from spookid.kernels.arrays import Array, Mask, contiguous
from spookid.kernels.kernel import Call, Kernel
from spookid.kernels.thread_pool import SERIAL, ThreadPool
from spookid.mechanics.manifold import Manifold
from spookid.records import dataclass
from spookid.transcription.factor import Block, Constant, Factor, Group
from spookid.transcription.factor_kernels import FactorKernels, is_linear
from spookid.transcription.parameter_constraints import Chart, FreeDirections, LinearConstraints, ParameterConstraints


@dataclass(frozen=True, eq=False)
class Chain:
    """One recording's horizon."""

    name: str
    steps: int  # number of steps N, each with its own variables
    data: Mapping[str, Array]  # factor name to that factor's data, (count, n_d)
    missing: Mapping[str, Mask]
    """Factor name to a mask (count, rows), True where a row has no data and is identically zero; absent: none."""
    choice: Array = field(default_factory=lambda: np.zeros(0))  # numbers of the symbols that tell chains apart, (n_c,)
    times: Array = field(default_factory=lambda: np.zeros(0))
    """Of the steps [s], (N,), for messages; empty if there are none."""
    first: int = 0  # what messages call the first step

    def at(self, step: int) -> str:
        """What messages call a step."""
        time = f" (t = {self.times[step]:.6g} s)" if step < len(self.times) else ""
        return f"{self.name}, step {self.first + step}{time}"


@dataclass(frozen=True, eq=False)
class Point:
    """A value of all unknowns."""

    states: tuple[Array, ...]  # per chain the variables of each step, (N, ambient)
    parameters: Array  # free parameters, (n_p,)
    codes: tuple[Mapping[str, Array], ...] = ()
    """Per chain the codes of each factor with a box law, by its name, (count, m); absent: all 0."""


class Transcription:
    """Sparse nonlinear least-squares problem: factors along chains of steps that share the parameters."""

    def __init__(
        self,
        manifold: Manifold,
        factors: Sequence[Factor],
        parameters: ca.SX,
        constants: Sequence[Constant],
        names: Sequence[str],
        lower: Array,
        upper: Array,
        magnitudes: Array,
        chains: Sequence[Chain],
        choice: ca.SX | None = None,
        charts: Sequence[Chart] = (),
        constraints: ParameterConstraints | None = None,
    ) -> None:
        self.manifold = manifold
        self.factors = tuple(factors)
        self.names = tuple(names)
        self.lower, self.upper, self.magnitudes = lower, upper, magnitudes
        self.chains, self.charts, self.constraints = tuple(chains), tuple(charts), constraints
        self.local = tuple(f for f in factors if f.hard and f.reach == 0 and not f.first_only)
        """Hard factors of one step alone: a surface on which each step lies."""
        hidden = {c for f in factors if f.private for c in f.private[1]}
        self.visible = tuple(c for c in range(manifold.tangent) if c not in hidden)
        """Tangent columns of a step that are no factor's private unknowns."""
        self.drags = any(ca.jacobian_sparsity(f.residual, parameters).nnz() > 0 for f in self.local)
        """True if the local equality constraints depend on the parameters."""
        self.given = tuple(constants)
        """The constants with their numbers."""
        self.constants = contiguous([constant.value for constant in constants])
        """Numbers of the constants among the ``shared`` symbols."""
        self.choice = ca.SX(0, 1) if choice is None else choice
        """Symbols of the factors whose numbers are those of each chain, (n_c,)."""
        self.shared = parameters, ca.vertcat(*(constant.symbol for constant in constants), self.choice)
        """Symbols in the factors of all steps: free parameters (n_p,), and constants with the choice."""
        structure = self.local, self.visible, self.drags
        self.kernels = FactorKernels(manifold, self.factors, self.shared, *structure)
        self._patterns: dict[tuple[Factor, bytes], NDArray[np.bool_]] = {}

    @cached_property
    def linear(self) -> frozenset[str]:
        """Names of the factors that are linear in their private unknowns."""
        fixed = self.shared[1], self.numbers(0).tolist()
        return frozenset(f.name for f in self.factors if f.private and is_linear(f, self.manifold, *fixed))

    def with_factors(self, factors: Sequence[Factor]) -> Transcription:
        """Same problem with other factors; unchanged if these are the same."""
        if all(a is b for a, b in zip(self.factors, factors, strict=True)):
            return self
        other = self.shared[0], self.given, self.names, self.lower, self.upper, self.magnitudes, self.chains
        return Transcription(self.manifold, factors, *other, self.choice, self.charts, self.constraints)

    def with_chains(self, chains: Sequence[Chain]) -> Transcription:
        """Same problem with other data along its chains; no kernel is rebuilt."""
        other = self._with(chains=tuple(chains))
        vars(other).pop("rows", None)  # what was counted along other chains
        vars(other).pop("shared_by_chains", None)
        return other

    def with_sizes(
        self, magnitudes: Array, charts: Sequence[Chart], constraints: ParameterConstraints | None
    ) -> Transcription:
        """Same problem with other magnitudes of the parameters; no kernel is rebuilt."""
        return self._with(magnitudes=magnitudes, charts=tuple(charts), constraints=constraints)

    def with_numbers(self, constants: Array) -> Transcription:
        """Same problem with other numbers of the constants, in their order; no kernel is rebuilt."""
        pairs = zip(self.given, constants.tolist(), strict=True)
        given = tuple(Constant(given.symbol, value) for given, value in pairs)
        return self._with(constants=contiguous(constants), given=given)

    def _with(self, **changes: object) -> Transcription:
        other = copy(self)
        vars(other).update(changes)
        return other

    def numbers(self, chain: int) -> Array:
        """Numbers of the constants and of a chain's selector."""
        choice = self.chains[chain].choice
        return np.concatenate([self.constants, choice]) if choice.size else self.constants

    def held_at(self, parameters: Array, some: Sequence[int] | slice = slice(None)) -> Transcription:
        """Same problem with parameters fixed at these values (n_p,): all, or those at some indices."""
        lower, upper = self.lower.copy(), self.upper.copy()
        lower[some] = upper[some] = parameters[some]
        constraints = None if np.array_equal(lower, upper) else self.constraints
        return self._with(lower=lower, upper=upper, constraints=constraints)

    def linear_constraints(self, parameters: Array) -> LinearConstraints | None:
        """Linearized constraints between parameters on a step from here; None if there are none."""
        return None if self.constraints is None else self.constraints.linearized(parameters)

    def free_directions(self, parameters: Array, unequal: bool = True) -> FreeDirections:
        """Free directions of the parameters, at bounds and along active constraints."""
        held = (parameters <= self.lower) | (parameters >= self.upper)
        held = held if unequal else np.zeros_like(held)
        if self.constraints is None:
            return FreeDirections(held)
        active = self.constraints.active(parameters)
        active[self.constraints.equalities :] &= unequal
        return FreeDirections(held, self.constraints.values(parameters)[1][active])

    @property
    def motion(self) -> Factor:
        """Factor of the impulse residuals of the motion."""
        return next(factor for factor in self.factors if factor.motion)

    def at_solution(self) -> Transcription:
        """Return the problem with pairs and inequalities replaced by their equality constraints at a solution."""
        return self.with_factors([factor.at_solution() for factor in self.factors])

    def pattern(self, factor: Factor, chain: int) -> NDArray[np.bool_]:
        """Sparsity pattern of ∂residual/∂(tangent of each step, parameters), (rows, columns)."""
        place = factor, self.chains[chain].choice.tobytes()
        if place in self._patterns:
            return self._patterns[place]
        x = ca.SX.sym("x", self.manifold.ambient)
        basis = _ones(self.manifold.basis(x).sparsity())
        residual, choice = factor.residual, self.chains[chain].choice
        if choice.size:
            residual = ca.substitute(residual, self.choice, ca.DM(choice))
        steps = [_ones(ca.jacobian_sparsity(residual, x)) @ basis for x in factor.variables.values()]
        parameters = _ones(ca.jacobian_sparsity(residual, self.shared[0]))
        return self._patterns.setdefault(place, np.hstack([*steps, parameters]) > 0)

    def residuals(
        self, point: Point, known: Sequence[Mapping[str, Array]] = (), pool: ThreadPool = SERIAL
    ) -> list[list[Array]]:
        """Whitened residuals, per chain and factor, each (count, rows); ``known`` are given ones, by name."""

        def of(c: int) -> list[Array]:
            there, found = known[c] if known else {}, []
            for f in self.factors:
                buffer = there.get(f.name)
                if buffer is None:
                    buffer = np.empty((f.count(self.chains[c].steps), len(f.rows)))
                    buffer = self.kernels.residual(f)(*self.arguments(f, c, point), buffer)
                found.append(buffer)
            return found

        return pool.map(of, range(len(self.chains)))

    def boxed(self, factor: Factor, point: Point, chain: int) -> tuple[Array, Array, Array]:
        """Wanted value, and lower and upper bounds, of a factor with a box law, (count, m) each."""
        assert factor.box is not None
        stepwise, shared = self.arguments(factor, chain, point)
        out = np.empty((len(stepwise[0]), 3 * factor.box.codes.numel()))
        wanted, lower, upper = np.hsplit(self.kernels.box(factor)(stepwise, shared, out), 3)
        return wanted, lower, upper

    def linearize(self, point: Point, chain: int) -> list[Block]:
        """Residuals and exact tangent-space Jacobians of one chain, one block per factor."""
        return [self.linearize_factor(f, point, chain) for f in self.factors]

    def linearize_factor(self, factor: Factor, point: Point, chain: int) -> Block:
        """Residuals and exact tangent-space Jacobians of one factor along one chain."""
        return Block(factor, chain, self.jacobian(factor, point, chain)(slice(None)))

    def jacobian(self, factor: Factor, point: Point, chain: int) -> Call:
        """Function that computes ``Block.matrix`` at any steps."""
        return self.call(self.kernels.jacobian(factor), factor, point, chain, self._columns(factor) + 1)

    def pull_back(self, factor: Factor, point: Point, chain: int, weights: Array) -> Array:
        """Product Jᵀw of a soft factor at each step, (count, columns), for weights w (count, rows), without J."""
        stepwise, shared = self.arguments(factor, chain, point)
        buffer = np.empty((len(weights), self._columns(factor)))
        return self.kernels.adjoint(factor)([*stepwise, contiguous(weights)], shared, buffer)

    def contract(self, factor: Factor, point: Point, chain: int, weights: Array) -> Array:
        """Gradient of Σ A_cr J_rc at each step in the tangents of its variables and the parameters, (count, columns),
        for weights A (count, columns of the states, rows) of the Jacobian J in the states."""
        stepwise, shared = self.arguments(factor, chain, point)
        buffer = np.empty((len(weights), self._columns(factor)))
        flat = contiguous(weights).reshape(len(weights), -1)
        return self.kernels.contraction(factor)([*stepwise, flat], shared, buffer)

    def _columns(self, factor: Factor) -> int:
        """Tangent columns of all its steps, and the parameters."""
        return len(factor.variables) * self.manifold.tangent + len(self.names)

    def local_rows(self, factor: Factor, point: Point, chain: int) -> Call:
        """Transposed Jacobians of a local factor and its residual, (columns + 1, rows) at each step."""
        columns = len(self.visible) + self.drags * len(self.names) + 1
        return self.call(self.kernels.local_rows(factor), factor, point, chain, columns)

    def private_rows(self, factor: Factor, point: Point, chain: int) -> Call:
        """Transposed Jacobians of a factor in its private unknowns, and the residual, (columns + 1, rows) per step."""
        columns = 0 if factor.private is None else len(factor.private[1])
        return self.call(self.kernels.private_rows(factor), factor, point, chain, columns + 1)

    def call(self, kernel: Kernel, factor: Factor, point: Point, chain: int, columns: int) -> Call:
        """Result of a factor's kernel along a chain, with so many columns."""
        return Call(kernel, *self.arguments(factor, chain, point), (columns, len(factor.rows)))

    def curvature(self, factor: Factor, point: Point, chain: int, weights: Array, steps: slice = slice(None)) -> Array:
        """Exact second derivatives of wᵀr along x ⊞ δ, (count, columns, columns), for weights w (count, rows) at some
        steps.

        Columns as in ``Block.matrix``. The kernel is built when first asked for.
        """
        stepwise, shared = self.arguments(factor, chain, point)
        columns = self._columns(factor)
        buffer = np.empty((len(weights), columns, columns))
        here = [values[steps] for values in stepwise]
        return self.kernels.curvature(factor)([*here, contiguous(weights)], shared, buffer)

    def symbols(self, factor: Factor) -> list[ca.SX]:
        """Symbols of the values that ``arguments`` returns, (n,) each."""
        codes = [] if factor.box is None else [factor.box.codes]
        return [*factor.variables.values(), factor.data, *codes, *self.shared]

    def arguments(self, factor: Factor, chain: int, point: Point) -> tuple[list[Array], list[Array]]:
        """Arguments of a factor's kernels along a chain: per step, and for all steps."""
        count = factor.count(self.chains[chain].steps)
        states = [point.states[chain][offset : offset + count] for offset in factor.variables]
        data = self.chains[chain].data.get(factor.name)
        stepwise = [*states, np.zeros((count, 0)) if data is None else data]
        if factor.box is not None:
            zero = np.zeros((count, factor.box.codes.numel()))
            stepwise.append(point.codes[chain].get(factor.name, zero) if point.codes else zero)
        return stepwise, [point.parameters, self.numbers(chain)]

    def costs(self, residuals: list[list[Array]]) -> dict[Group, float]:
        """Sum of squares of each group of soft factors."""
        totals = dict.fromkeys(Group, 0.0)
        for chain in residuals:
            for factor, values in zip(self.factors, chain, strict=True):
                if factor.soft:
                    totals[factor.group] += float(np.vdot(values, values))
        return totals

    def retract(self, point: Point, steps: Sequence[Array], parameters: Array) -> Point:
        """Point after tangent steps (N, tangent) and a step (n_p,) of the parameters, kept in their bounds."""
        states = tuple(self.moved(x, delta) for x, delta in zip(point.states, steps, strict=True))
        return Point(states, self.stepped(point.parameters, parameters), point.codes)

    def stepped(self, parameters: Array, step: Array) -> Array:
        """Parameters after a step (n_p,), projected to their bounds and constraints; NaN if no near point satisfies
        these."""
        moved = np.clip(parameters + step, self.lower, self.upper)
        for chart in self.charts:
            moved = np.clip(chart.moved(parameters, moved), self.lower, self.upper)
        if self.constraints is None:
            return moved
        restored = self.constraints.restored(moved, self.lower, self.upper)
        return np.full_like(moved, np.nan) if restored is None else restored

    def moved(self, states: Array, steps: Array) -> Array:
        """States (n, ambient) after tangent steps (n, tangent)."""
        return self.kernels.mover([states, contiguous(steps)], [], np.empty_like(states))

    @cached_property
    def shared_by_chains(self) -> NDArray[np.bool_]:
        """True for parameters that occur in more than one chain, (n_p,)."""
        if not self.choice.numel():
            return np.ones(len(self.names), dtype=np.bool_)
        states, every = self.manifold.tangent, [f for f in self.factors if f.group is not Group.PRIOR]
        seen = [
            np.any([self.pattern(f, c)[:, len(f.variables) * states :].any(axis=0) for f in every], axis=0)
            for c in range(len(self.chains))
        ]
        return np.asarray(np.sum(seen, axis=0) != 1)

    @property
    def has_density(self) -> bool:
        """True if some equation is a probability density of the newest state; False if all efforts are measured."""
        return any(factor.density for factor in self.factors)

    @property
    def unknowns(self) -> int:
        """Total tangent dimension of all states and parameters."""
        return sum(chain.steps for chain in self.chains) * self.manifold.tangent + len(self.names)

    @cached_property
    def rows(self) -> int:
        """Number of residuals that have data."""
        return sum(
            factor.count(chain.steps) * len(factor.rows) - int(np.sum(chain.missing.get(factor.name, 0)))
            for chain in self.chains
            for factor in self.factors
        )

    @property
    def nonzeros(self) -> int:
        """Number of structural nonzeros in the whole Jacobian."""
        return sum(
            f.count(chain.steps) * int(np.sum(self.pattern(f, c if self.choice.numel() else 0)))
            for f in self.factors
            for c, chain in enumerate(self.chains)
        )

    def provenance(self, chain: int, factor: Factor, index: int) -> str:
        """Origin of the entry ``index`` of a factor's raveled residual: recording, step and constraint."""
        step, row = divmod(index, len(factor.rows))
        # A factor of two steps speaks of the one it ends at, one of three of the middle one.
        return f"{self.chains[chain].at(step + (factor.reach + 1) // 2)}: {factor.rows[row]}"


def _ones(sparsity: ca.Sparsity) -> Array:
    return np.asarray(ca.DM(sparsity, 1.0).full())
