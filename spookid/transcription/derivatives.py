"""What a factor's residual is differentiated to: expressions of one step, and what becomes a kernel of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import casadi as ca
import numpy as np

from spookid.kernels.compiled import Signature
from spookid.kernels.kernel import Integers
from spookid.mechanics.manifold import Manifold, gradient, jacobian
from spookid.transcription.factor import Factor


@dataclass(frozen=True)
class Recipe:
    """A kernel in the making: its arguments are cheap to have, its result is not."""

    name: str
    stepwise: tuple[ca.SX, ...]
    shared: tuple[ca.SX, ...]
    result: Callable[[], ca.SX]
    once: bool = False
    """True if it is evaluated at one step alone."""
    pattern: ca.Sparsity | None = None
    """Where the result, then a matrix, can differ from zero: the kernel has these entries alone."""
    factor: int | None = None
    """Number of its factor; None if it is made of none."""

    @property
    def signature(self) -> Signature:
        """What the kernel takes."""
        sizes = tuple(symbol.numel() for symbol in (*self.stepwise, *self.shared))
        return Signature(self.name, sizes, len(self.stepwise), self.places)

    @property
    def places(self) -> Integers | None:
        """Of the entries in the dense result, column by column."""
        return None if self.pattern is None else np.array(self.pattern.find(), dtype=np.int64)

    def function(self) -> ca.Function:
        """The kernel as a CasADi function. Finding common subexpressions takes longer than one evaluation without."""
        result = self.result()
        if self.pattern is not None:
            result = ca.vertcat(ca.SX(0, 1), *ca.project(result, self.pattern).nonzeros())
        result = ca.densify(result)
        return ca.Function(self.name, [*self.stepwise, *self.shared], [result if self.once else ca.cse(result)])


def augmented(factor: Factor, manifold: Manifold, parameters: ca.SX) -> ca.SX:
    """[∂r/∂δ of each step, ∂r/∂parameters, r], sparse (rows, columns + 1)."""
    steps = [(x, manifold.basis(x)) for x in factor.variables.values()]
    return _settled(factor, [*_along(factor, steps), ca.jacobian(_written(factor), parameters)])


def augmented_pattern(factor: Factor, manifold: Manifold, parameters: ca.SX) -> ca.Sparsity:
    """Where ``augmented`` can differ from zero."""
    steps = [_dependence(factor, x, manifold.basis(x)) for x in factor.variables.values()]
    return ca.horzcat(*steps, *_last(factor, parameters))


def some_pattern(
    factor: Factor, manifold: Manifold, offset: int, columns: Sequence[int], parameters: ca.SX | None = None
) -> ca.Sparsity:
    """Where ``some`` can differ from zero."""
    x = factor.variables[offset]
    return ca.horzcat(_dependence(factor, x, manifold.basis(x)[:, list(columns)]), *_last(factor, parameters))


def _dependence(factor: Factor, x: ca.SX, basis: ca.SX) -> ca.Sparsity:
    """Of the residual on tangent columns."""
    seen: ca.SX = ca.DM(ca.jacobian_sparsity(factor.residual, x), 1.0) @ ca.DM(basis.sparsity(), 1.0)
    return seen.sparsity()


def _last(factor: Factor, parameters: ca.SX | None) -> list[ca.Sparsity]:
    """Of the parameters' columns, and of the residual."""
    border = [] if parameters is None else [ca.jacobian_sparsity(factor.residual, parameters)]
    return [*border, ca.Sparsity.dense(len(factor.rows), 1)]


def pulled_back(factor: Factor, manifold: Manifold, parameters: ca.SX, weights: ca.SX) -> ca.SX:
    """The gradient of wᵀr in δ of each step and the parameters, (columns,), by reverse mode."""
    sum_of_rows = ca.dot(weights, factor.residual)
    steps = [gradient(sum_of_rows, x, manifold) for x in factor.variables.values()]
    return ca.vertcat(*steps, ca.gradient(sum_of_rows, parameters))


def contraction_weights(factor: Factor, manifold: Manifold) -> ca.SX:
    """Symbol of a matrix A, (columns of all its steps, rows)."""
    return _matrix("A", len(factor.variables) * manifold.tangent, len(factor.rows))


def contracted(factor: Factor, manifold: Manifold, parameters: ca.SX, weights: ca.SX) -> ca.SX:
    """The gradient of Σ A_cr J_rc in δ of each step and the parameters, (columns + n_p,), J the Jacobian in δ."""
    steps = [jacobian(factor.residual, x, manifold) for x in factor.variables.values()]
    whole = ca.cse(ca.dot(ca.horzcat(*steps), weights.T))
    slopes = [gradient(whole, x, manifold) for x in factor.variables.values()]
    return ca.vertcat(*slopes, ca.gradient(whole, parameters))


def some(
    factor: Factor, manifold: Manifold, offset: int, columns: Sequence[int], parameters: ca.SX | None = None
) -> ca.SX:
    """[∂r/∂(some tangent columns of one step), ∂r/∂parameters if they are given, r], (rows, columns + n_p + 1)."""
    x = factor.variables[offset]
    border = [] if parameters is None else [ca.jacobian(_written(factor), parameters)]
    return _settled(factor, [*_along(factor, [(x, manifold.basis(x)[:, list(columns)])]), *border])


def is_linear(factor: Factor, manifold: Manifold, constants: ca.SX, numbers: Sequence[float]) -> bool:
    """True if the factor is linear in its private unknowns, flat ones, for these numbers of the constants."""
    if factor.private is None:
        return True
    offset, columns = factor.private
    unknowns = factor.variables[offset][[manifold.coordinate(column) for column in columns]]
    return bool(ca.is_linear(ca.substitute(factor.residual, constants, ca.DM(numbers)), unknowns))


def _matrix(name: str, rows: int, columns: int) -> ca.SX:
    return ca.SX.sym(name, columns, rows).T


def _written(factor: Factor) -> ca.SX:
    """The residual as it is differentiated."""
    return factor.residual if factor.through is None else factor.through.residual


def _along(factor: Factor, directions: Sequence[tuple[ca.SX, ca.SX]]) -> list[ca.SX]:
    """Derivatives of the written residual along directions of each of some variables."""
    rows, through = len(factor.rows), factor.through
    if through is None:
        return [ca.jtimes(factor.residual, x, ca.densify(D)) if D.shape[1] else ca.SX(rows, 0) for x, D in directions]
    slopes = ca.jacobian(through.residual, through.symbols)
    return [slopes @ (ca.jacobian(through.values, x) @ D) if D.shape[1] else ca.SX(rows, 0) for x, D in directions]


def _settled(factor: Factor, slopes: Sequence[ca.SX]) -> ca.SX:
    """The slopes side by side with the residual, in the variables."""
    whole = ca.horzcat(*slopes, _written(factor))
    return whole if factor.through is None else factor.through.settled(whole)
