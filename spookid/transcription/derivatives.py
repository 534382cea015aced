"""What a factor's residual is differentiated to: expressions of one step, and what becomes a kernel of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import casadi as ca

from spookid.kernels.compiled import Signature
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

    @property
    def signature(self) -> Signature:
        """What the kernel takes."""
        sizes = tuple(symbol.numel() for symbol in (*self.stepwise, *self.shared))
        return Signature(self.name, sizes, len(self.stepwise))

    def function(self) -> ca.Function:
        """The kernel as a CasADi function. Finding common subexpressions takes longer than one evaluation without."""
        result = ca.densify(self.result())
        return ca.Function(self.name, [*self.stepwise, *self.shared], [result if self.once else ca.cse(result)])


@dataclass(frozen=True)
class Directions:
    """Unknowns that are left of each step, and how its tangent columns follow them: Z δ + D dθ.

    Z and D change from step to step and are arguments of the kernels.
    """

    columns: tuple[int, ...]
    """Tangent columns that move; the others stay."""
    tangent: int
    """Number of unknowns."""
    based: bool
    """False if the columns are themselves the unknowns, Z = I."""
    dragged: bool
    """True if they follow the parameters θ, D ≠ 0."""
    kept: tuple[tuple[str, int], ...]
    """Names of the factors whose rows are multiplied by Cᵀ, and how many are left of them; C is an argument too."""


def augmented(factor: Factor, manifold: Manifold, parameters: ca.SX) -> ca.SX:
    """[∂r/∂δ of each step, ∂r/∂parameters, r], sparse (rows, columns + 1)."""
    steps = [(x, manifold.basis(x)) for x in factor.variables.values()]
    return _settled(factor, [*_along(factor, steps), ca.jacobian(_written(factor), parameters)])


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


class Seeds:
    """Symbols of Z and D at each offset of a factor, and of C; matrices row by row, as arrays hold them."""

    def __init__(self, factor: Factor, directions: Directions, parameters: int) -> None:
        wide, offsets, kept = len(directions.columns), list(factor.variables), dict(directions.kept).get(factor.name)
        self.bases = [_matrix(f"Z_{o}", wide, directions.tangent) for o in offsets] if directions.based else []
        self.drags = [_matrix(f"D_{o}", wide, parameters) for o in offsets] if directions.dragged else []
        self.complement = None if kept is None else _matrix("C", len(factor.rows), kept)

    @property
    def symbols(self) -> list[ca.SX]:
        """In the order in which a kernel takes them."""
        last = [] if self.complement is None else [self.complement]
        return [ca.vec(matrix.T) for matrix in (*self.bases, *self.drags, *last)]


def _matrix(name: str, rows: int, columns: int) -> ca.SX:
    return ca.SX.sym(name, columns, rows).T


def projected(
    factor: Factor,
    manifold: Manifold,
    parameters: ca.SX,
    directions: Directions,
    seeds: Seeds,
    selection: ca.SX | None = None,
) -> ca.SX:
    """Cᵀ [J_o Z_o of each step, Σ J_o D_o S + ∂r/∂parameters, r], by forward mode along Z and D; S is the selection, or
    the unit matrix."""
    spaces = [(x, manifold.basis(x)[:, list(directions.columns)]) for x in factor.variables.values()]
    bases = seeds.bases or [ca.SX.eye(directions.tangent) for _ in spaces]
    steps = _along(factor, [(x, space @ Z) for (x, space), Z in zip(spaces, bases, strict=True)])
    border = ca.jacobian(_written(factor), parameters)
    for drag in _along(factor, [(x, space @ D) for (x, space), D in zip(spaces, seeds.drags, strict=False)]):
        border += drag if selection is None else drag @ selection
    whole = _settled(factor, [*steps, border])
    return whole if seeds.complement is None else seeds.complement.T @ whole


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
