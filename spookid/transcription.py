"""Factors over the horizon: variables, tangent spaces, bounds, and where each residual row comes from.

This is the narrow waist of the package. It knows no mechanics; solvers see nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from spookid.compiled import Kernels, Signature, prepare
from spookid.factor import Constant, Factor, Group
from spookid.kernels import Array, Kernel, contiguous
from spookid.manifold import Manifold, gradient, jacobian

_RESIDUAL, _JACOBIAN, _PRIVATE, _RETRACT = "residual_{}", "jacobian_{}", "private_{}", "retract"
"""Names of the kernels; the first three by the number of the factor."""
_ALL = slice(None)


@dataclass(frozen=True, eq=False)
class Chain:
    """One recording's horizon."""

    name: str
    steps: int
    """Number of steps N, each with its own variables."""
    data: Mapping[str, Array]
    """Factor name to that factor's data, (count, n_d)."""
    missing: Mapping[str, Array]
    """Factor name to a mask (count, rows), True where a row has no data and is identically zero; absent: none."""


@dataclass(frozen=True, eq=False)
class Point:
    """A value of all unknowns."""

    states: tuple[Array, ...]
    """Per chain the variables of each step, (N, ambient)."""
    parameters: Array
    """Free parameters, (n_p,)."""
    codes: tuple[Mapping[str, Array], ...] = ()
    """Per chain the codes of each factor with a box law, by its name, (count, m); absent: all 0."""


@dataclass(frozen=True, eq=False)
class Block:
    """One factor, linearized along one chain."""

    factor: Factor
    chain: int
    matrix: Array
    """(count, columns + 1, rows): per step the transposed Jacobian, steps in order of offset and parameters last, and
    below it the residual."""

    @property
    def residual(self) -> Array:
        """(count, rows)."""
        return self.matrix[:, -1, :]


class Transcription:
    """A sparse nonlinear least-squares problem: factors repeated along chains that share the parameters.

    Args:
        manifold: where the variables of one step live.
        factors: the one-step functions, each of the manifold's variables at a few neighbouring steps.
        parameters: symbols of the free parameters, (n_p,).
        constants: all other symbols of the factors, with their numbers.
        names, lower, upper: of the free parameters.
        magnitudes: typical size of each free parameter, positive; it sets the scale of a step that the data do not.
        chains: the horizons.
    """

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
    ) -> None:
        self.manifold = manifold
        self.factors = tuple(factors)
        self.names = tuple(names)
        self.lower, self.upper, self.magnitudes = lower, upper, magnitudes
        self.chains = tuple(chains)
        self._parameters = parameters
        self._given = tuple(constants)
        self._symbols = ca.vertcat(*(constant.symbol for constant in constants))
        self._constants = contiguous([constant.value for constant in constants])
        self._derived: dict[str, ca.SX] = {}
        self._curvatures: dict[str, Kernel] = {}

    @cached_property
    def kernels(self) -> Kernels:
        """Compiled or loaded when they are first needed; factors that stand at one step are not worth a compiler."""
        often = [i for i, f in enumerate(self.factors) if not f.first_only]
        steps = sum(chain.steps for chain in self.chains)
        prepared = prepare(self._signatures(often), self._seed(often), lambda: self._definitions(often), steps)
        once = {}
        for i, factor in enumerate(self.factors):
            if factor.first_only:
                for name, result in ((_RESIDUAL, factor.residual), (_JACOBIAN, self._augmented(factor))):
                    function = ca.Function(name.format(i), self._inputs(factor), [ca.densify(result)])
                    once[name.format(i)] = Kernel(function, len(self._stepwise(factor)))
        return replace(prepared, functions={**prepared.functions, **once})

    def _augmented(self, factor: Factor) -> ca.SX:
        """[∂r/∂δ of each step, ∂r/∂parameters, r], sparse (rows, columns + 1)."""
        if factor.name not in self._derived:
            steps = [jacobian(factor.residual, x, self.manifold) for x in factor.variables.values()]
            parameters = ca.jacobian(factor.residual, self._parameters)
            self._derived[factor.name] = ca.horzcat(*steps, parameters, factor.residual)
        return self._derived[factor.name]

    def _signatures(self, numbers: Sequence[int]) -> list[Signature]:
        signatures = []
        for name in (_RESIDUAL, _JACOBIAN):
            for i in numbers:
                sizes = tuple(symbol.numel() for symbol in self._inputs(self.factors[i]))
                signatures.append(Signature(name.format(i), sizes, len(self._stepwise(self.factors[i]))))
        signatures += [
            replace(s, name=_PRIVATE.format(i))
            for i, s in zip(numbers, signatures, strict=False)
            if self.factors[i].private
        ]
        return [*signatures, Signature(_RETRACT, (self.manifold.ambient, self.manifold.tangent), 2)]

    def _definitions(self, numbers: Sequence[int]) -> list[ca.Function]:
        """What ``_signatures`` announces."""
        functions = []
        for name in (_RESIDUAL, _JACOBIAN):
            for i in numbers:
                factor = self.factors[i]
                result = factor.residual if name is _RESIDUAL else self._augmented(factor)
                functions.append(ca.Function(name.format(i), self._inputs(factor), [ca.cse(ca.densify(result))]))
        for i in numbers:
            if (private := self._private(self.factors[i])) is not None:
                functions.append(ca.Function(_PRIVATE.format(i), self._inputs(self.factors[i]), [ca.cse(private)]))
        return [*functions, self._move()]

    def _private(self, factor: Factor) -> ca.SX | None:
        """[∂r/∂(private unknowns), r], (rows, columns + 1)."""
        if factor.private is None:
            return None
        offset, columns = factor.private
        first = list(factor.variables).index(offset) * self.manifold.tangent
        whole = self._augmented(factor)
        return ca.densify(ca.horzcat(whole[:, first + columns.start : first + columns.stop], factor.residual))

    def _seed(self, numbers: Sequence[int]) -> bytes:
        """All that the definitions follow from, far quicker to have than the definitions themselves."""
        factors = [(i, self.factors[i]) for i in numbers]
        undifferentiated = [ca.Function(f"factor_{i}", self._inputs(f), [f.residual]) for i, f in factors]
        x = ca.SX.sym("x", self.manifold.ambient)
        basis = ca.Function("basis", [x], [self.manifold.basis(x)])
        expressions = [f.serialize().encode() for f in (*undifferentiated, self._move(), basis)]
        derivation = [Path(file).read_bytes() for file in (__file__, jacobian.__code__.co_filename)]
        return b"\0".join([*expressions, *derivation])

    def _move(self) -> ca.Function:
        x, delta = ca.SX.sym("x", self.manifold.ambient), ca.SX.sym("delta", self.manifold.tangent)
        return ca.Function(_RETRACT, [x, delta], [self.manifold.retract(x, delta)])

    def _inputs(self, factor: Factor) -> list[ca.SX]:
        return [*self._stepwise(factor), self._parameters, self._symbols]

    @staticmethod
    def _stepwise(factor: Factor) -> list[ca.SX]:
        codes = [] if factor.box is None else [factor.box.codes]
        return [*factor.variables.values(), factor.data, *codes]

    def with_factors(self, factors: Sequence[Factor]) -> Transcription:
        """The same with other factors; itself if they are the same."""
        if all(a is b for a, b in zip(self.factors, factors, strict=True)):
            return self
        bounds = self.lower, self.upper, self.magnitudes
        return Transcription(self.manifold, factors, self._parameters, self._given, self.names, *bounds, self.chains)

    def without_pairs(self) -> Transcription:
        """The same with the smaller member of each complementarity pair held at zero."""
        return self.with_factors([factor.without_pairs() for factor in self.factors])

    @property
    def shared(self) -> tuple[ca.SX, ca.SX]:
        """Symbols that stand in the factors of all steps: free parameters (n_p,), and constants."""
        return self._parameters, self._symbols

    @property
    def constants(self) -> Array:
        """Numbers of the constants among the ``shared`` symbols."""
        return self._constants

    def pattern(self, factor: Factor) -> NDArray[np.bool_]:
        """True where ∂residual/∂(tangent of each step, parameters) can differ from zero, (rows, columns)."""
        x = ca.SX.sym("x", self.manifold.ambient)
        basis = _ones(self.manifold.basis(x).sparsity())
        steps = [_ones(ca.jacobian_sparsity(factor.residual, x)) @ basis for x in factor.variables.values()]
        parameters = _ones(ca.jacobian_sparsity(factor.residual, self._parameters))
        return np.asarray(np.hstack([*steps, parameters]) > 0)

    def residuals(self, point: Point) -> list[list[Array]]:
        """Whitened residuals, per chain and factor, each (count, rows)."""
        return [
            [
                self.kernels.functions[_RESIDUAL.format(i)](
                    *self._arguments(f, c, point), np.empty((f.count(chain.steps), len(f.rows)))
                )
                for i, f in enumerate(self.factors)
            ]
            for c, chain in enumerate(self.chains)
        ]

    def boxed(self, factor: Factor, point: Point, chain: int) -> tuple[Array, Array]:
        """Slacks and values of a factor with a box law, each (count, m)."""
        stepwise, shared = self._arguments(factor, chain, point)
        both = self._boxes[factor.name](stepwise, shared, np.empty((len(stepwise[0]), len(factor.rows))))
        slack, value = np.hsplit(both, 2)
        return slack, value

    @cached_property
    def _boxes(self) -> dict[str, Kernel]:
        return {
            f.name: self._kernel(f, ca.vertcat(f.box.slack, f.box.value)) for f in self.factors if f.box is not None
        }

    def _kernel(self, factor: Factor, result: ca.SX, *extra: ca.SX) -> Kernel:
        """On CasADi's virtual machine."""
        stepwise = [*self._stepwise(factor), *extra]
        function = ca.Function("kernel", [*stepwise, self._parameters, self._symbols], [ca.cse(ca.densify(result))])
        return Kernel(function, len(stepwise))

    def linearize(self, point: Point, chain: int) -> list[Block]:
        """Residuals and exact tangent-space Jacobians of one chain, one block a factor."""
        return [self.linearize_factor(f, point, chain) for f in self.factors]

    def linearize_factor(
        self, factor: Factor, point: Point, chain: int, steps: slice = _ALL, room: Array | None = None
    ) -> Block:
        """One factor's residuals and exact tangent-space Jacobians along one chain, or at some of its steps.

        ``room`` is what an earlier block was written to and may be written to again.
        """
        kernel = self.kernels.functions[_JACOBIAN.format(self.factors.index(factor))]
        start, stop, _ = steps.indices(factor.count(self.chains[chain].steps))
        stepwise, shared = self._arguments(factor, chain, point)
        if room is None or len(room) < stop - start:
            room = self._room(factor, stop - start)
        return Block(factor, chain, kernel([a[start:stop] for a in stepwise], shared, room[: stop - start]))

    def linearize_private(self, factor: Factor, point: Point, chain: int) -> Array:
        """Transposed Jacobians in the private unknowns of one factor along one chain, and below them the residual,
        (count, columns + 1, rows)."""
        kernel = self.kernels.functions[_PRIVATE.format(self.factors.index(factor))]
        stepwise, shared = self._arguments(factor, chain, point)
        columns = 0 if factor.private is None else len(factor.private[1])
        return kernel(stepwise, shared, np.empty((len(stepwise[0]), columns + 1, len(factor.rows))))

    def curvature(self, factor: Factor, point: Point, chain: int, weights: Array) -> Array:
        """Exact second derivatives of wᵀr along x ⊞ δ, (count, columns, columns), for weights w (count, rows).

        Columns as in ``Block.matrix``. The kernel is built when first asked for.
        """
        if factor.name not in self._curvatures:
            self._curvatures[factor.name] = self._curvature_kernel(factor)
        stepwise, shared = self._arguments(factor, chain, point)
        columns = len(factor.variables) * self.manifold.tangent + len(self.names)
        room = np.empty((len(weights), columns, columns))
        return self._curvatures[factor.name]([*stepwise, contiguous(weights)], shared, room)

    def _curvature_kernel(self, factor: Factor) -> Kernel:
        w = ca.SX.sym("w", len(factor.rows))
        total = ca.dot(w, factor.residual)
        steps = factor.variables.values()
        slope = ca.vertcat(*(gradient(total, x, self.manifold) for x in steps), ca.gradient(total, self._parameters))
        hessian = ca.horzcat(*(jacobian(slope, x, self.manifold) for x in steps), ca.jacobian(slope, self._parameters))
        # Moving a basis of rotations along another leaves a commutator, which is antisymmetric.
        return self._kernel(factor, (hessian + hessian.T) / 2, w)

    def _room(self, factor: Factor, count: int) -> Array:
        columns = len(factor.variables) * self.manifold.tangent + len(self.names) + 1
        return np.empty((count, columns, len(factor.rows)))

    def _arguments(self, factor: Factor, chain: int, point: Point) -> tuple[list[Array], list[Array]]:
        count = factor.count(self.chains[chain].steps)
        states = [point.states[chain][offset : offset + count] for offset in factor.variables]
        data = self.chains[chain].data.get(factor.name)
        stepwise = [*states, np.zeros((count, 0)) if data is None else data]
        if factor.box is not None:
            zero = np.zeros((count, factor.box.codes.numel()))
            stepwise.append(point.codes[chain][factor.name] if point.codes else zero)
        return stepwise, [point.parameters, self._constants]

    def costs(self, residuals: list[list[Array]]) -> dict[Group, float]:
        """Sum of squares of each group of soft factors."""
        totals = dict.fromkeys(Group, 0.0)
        for chain in residuals:
            for factor, values in zip(self.factors, chain, strict=True):
                if not (factor.hard or factor.pairs):
                    totals[factor.group] += float(np.vdot(values, values))
        return totals

    def retract(self, point: Point, steps: Sequence[Array], parameters: Array) -> Point:
        """The point moved by tangent steps (N, tangent) and a step (n_p,) of the parameters, kept in their bounds."""
        states = tuple(
            self.kernels.functions[_RETRACT]([x, contiguous(delta)], [], np.empty_like(x))
            for x, delta in zip(point.states, steps, strict=True)
        )
        moved = np.clip(point.parameters + parameters, self.lower, self.upper)
        return Point(states, moved, point.codes)

    @property
    def unknowns(self) -> int:
        """Tangent dimension of all states and parameters together."""
        return sum(chain.steps for chain in self.chains) * self.manifold.tangent + len(self.names)

    @property
    def rows(self) -> int:
        """Number of residual rows that have data."""
        return sum(
            factor.count(chain.steps) * len(factor.rows) - int(np.sum(chain.missing.get(factor.name, 0)))
            for chain in self.chains
            for factor in self.factors
        )

    @property
    def nonzeros(self) -> int:
        """Structural nonzeros of the whole Jacobian."""
        per_step = {f.name: int(np.sum(self.pattern(f))) for f in self.factors}
        return sum(f.count(chain.steps) * per_step[f.name] for chain in self.chains for f in self.factors)

    def provenance(self, chain: int, factor: Factor, index: int) -> str:
        """Where row ``index`` of a factor's raveled residual comes from: recording, step and constraint."""
        step, row = divmod(index, len(factor.rows))
        # A factor of two steps speaks of the one it ends at, one of three of the middle one.
        return f"{self.chains[chain].name}, step {step + (factor.reach + 1) // 2}: {factor.rows[row]}"


def _ones(sparsity: ca.Sparsity) -> Array:
    return np.asarray(ca.DM(sparsity, 1.0).full())
