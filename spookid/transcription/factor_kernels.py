"""What a factor's residual is differentiated to, and its kernels: compiled or loaded when they are first needed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path

import casadi as ca
import numpy as np

from spookid.kernels.compiled import Kernels, Signature, prepare_kernels
from spookid.kernels.kernel import Evaluate, Integers, Kernel
from spookid.mechanics.manifold import Manifold, gradient, jacobian
from spookid.parameter import stacked
from spookid.transcription.factor import Factor, Group


@dataclass(frozen=True)
class Recipe:
    """A kernel in the making: its arguments are cheap to have, its result is not."""

    kind: str
    """What it is of its factor."""
    factor: int | None
    """Number of its factor; None if it is made of none."""
    stepwise: tuple[ca.SX, ...]
    shared: tuple[ca.SX, ...]
    result: Callable[[], ca.SX]
    once: bool = False
    """True if it is evaluated at one step alone."""
    pattern: ca.Sparsity | None = None
    """Where the result, then a matrix, can differ from zero: the kernel has these entries alone."""

    @property
    def signature(self) -> Signature:
        """What the kernel takes."""
        sizes = tuple(symbol.numel() for symbol in (*self.stepwise, *self.shared))
        return Signature(self.kind, sizes, len(self.stepwise), self.places)

    @property
    def places(self) -> Integers | None:
        """Of the entries in the dense result, column by column."""
        return None if self.pattern is None else np.array(self.pattern.find(), dtype=np.int64)

    def function(self) -> ca.Function:
        """The kernel as a CasADi function. Finding common subexpressions takes longer than one evaluation without."""
        result = self.result()
        if self.pattern is not None:
            result = stacked(ca.project(result, self.pattern).nonzeros())
        result = ca.densify(result)
        return ca.Function(self.kind, [*self.stepwise, *self.shared], [result if self.once else ca.cse(result)])


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
    return ca.SX.sym("A", len(factor.rows), len(factor.variables) * manifold.tangent).T


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


_RESIDUAL, _JACOBIAN, _ADJOINT = "residual", "jacobian", "adjoint"
_LOCAL, _PRIVATE, _CONTRACTED = "local", "private", "contracted"
_RETRACT = "retract"
_USUAL = 1000
"""Instructions of the factors of a mechanism with few joints."""


@dataclass(frozen=True, eq=False)
class FactorKernels:
    """Kernels in groups that are made together; their arguments are those of the factors, then ``shared``."""

    manifold: Manifold
    factors: tuple[Factor, ...]
    shared: tuple[ca.SX, ca.SX]
    """Symbols that stand in the factors of all steps: free parameters (n_p,), and constants."""
    local: tuple[Factor, ...]
    """Those whose rows hold one step alone."""
    visible: tuple[int, ...]
    """Tangent columns of a step that are no factor's private unknowns."""
    drags: bool
    """True if the parameters move the surface of the local factors."""
    steps: int
    """Of all horizons together."""
    _made: list[Kernels] = field(default_factory=list)
    _boxes: dict[str, Kernel] = field(default_factory=dict)
    _curvatures: dict[str, Kernel] = field(default_factory=dict)

    @cached_property
    def points(self) -> Kernels:
        """Residuals, and all that moves points."""
        recipes = [self._recipe(_RESIDUAL, i, partial(getattr, f, "residual")) for i, f in enumerate(self.factors)]
        for i, factor in enumerate(self.factors):
            if factor in self.local:
                border = self.shared[0] if self.drags else None
                recipes.append(self._sparse(_LOCAL, i, some, some_pattern, 0, self.visible, border))
            if factor.private is not None:
                recipes.append(self._sparse(_PRIVATE, i, some, some_pattern, *factor.private))
        x, delta = self._move
        move = Recipe(_RETRACT, None, (x, delta), (), partial(self.manifold.retract, x, delta))
        return self._prepared([*recipes, move], "points")

    @cached_property
    def jacobians(self) -> Kernels:
        """Residuals with their full Jacobians."""
        numbers = range(len(self.factors))
        recipes = [self._sparse(_JACOBIAN, i, augmented, augmented_pattern, self.shared[0]) for i in numbers]
        return self._prepared(recipes, "jacobians")

    @cached_property
    def adjoints(self) -> Kernels:
        """Gradients of weighted sums of soft residuals."""
        recipes = []
        for i, factor in enumerate(self.factors):
            if factor.soft:
                weights = ca.SX.sym("w", len(factor.rows))
                result = partial(pulled_back, factor, self.manifold, self.shared[0], weights)
                recipes.append(self._recipe(_ADJOINT, i, result, [weights]))
        return self._prepared(recipes, "adjoints")

    @cached_property
    def contractions(self) -> Kernels:
        """Gradients of weighted sums of the states' Jacobians."""
        recipes = []
        for i, factor in enumerate(self.factors):
            if factor.group is not Group.PRIOR and not factor.pairs:
                weights = contraction_weights(factor, self.manifold)
                result = partial(contracted, factor, self.manifold, self.shared[0], weights)
                recipes.append(self._recipe(_CONTRACTED, i, result, [ca.vec(weights.T)]))
        return self._prepared(recipes, "contractions")

    @property
    def seconds(self) -> float:
        """Time spent so far on compiling or loading [s]; of several at once it counts once."""
        total, last = 0.0, -math.inf
        for began, ended in sorted((made.ended - made.seconds, made.ended) for made in self._made):
            total, last = total + max(ended - max(began, last), 0.0), max(ended, last)
        return total

    @property
    def mover(self) -> Evaluate:
        """States (ambient,) moved by tangent steps."""
        return self.points.functions[_RETRACT]

    @cached_property
    def continued(self) -> Kernel:
        """The state that follows two, the later of them given first, if the next difference is as the last."""
        last, before = ca.SX.sym("last", self.manifold.ambient), ca.SX.sym("before", self.manifold.ambient)
        after = self.manifold.retract(last, self.manifold.difference(last, before))
        return Kernel(ca.Function("continued", [last, before], [ca.densify(after)]), 2)

    def residual(self, factor: Factor) -> Evaluate:
        """Whitened residuals."""
        return self.points.functions[self._named(_RESIDUAL, factor)]

    def local_rows(self, factor: Factor) -> Evaluate:
        """Transposed Jacobians of a local factor in the visible columns, and in the parameters if they move it; then
        the residual."""
        return self.points.functions[self._named(_LOCAL, factor)]

    def private_rows(self, factor: Factor) -> Evaluate:
        """Transposed Jacobians of a factor in its private unknowns, then the residual."""
        return self.points.functions[self._named(_PRIVATE, factor)]

    def jacobian(self, factor: Factor) -> Evaluate:
        """Transposed Jacobians in the tangents of all its steps and the parameters, then the residual."""
        return self.jacobians.functions[self._named(_JACOBIAN, factor)]

    def adjoint(self, factor: Factor) -> Evaluate:
        """Jᵀw of a soft factor; behind its own stepwise arguments the weights w."""
        return self.adjoints.functions[self._named(_ADJOINT, factor)]

    def contraction(self, factor: Factor) -> Evaluate:
        """The gradient of Σ A_cr J_rc in the tangents of all its steps and the parameters, J the Jacobian in these
        tangents; behind its own stepwise arguments A, (columns, rows)."""
        return self.contractions.functions[self._named(_CONTRACTED, factor)]

    def box(self, factor: Factor) -> Kernel:
        """What is wanted, and between which ends, of a factor with a box law."""
        assert factor.box is not None
        if factor.name not in self._boxes:
            box = factor.box
            self._boxes[factor.name] = self._interpreted(factor, ca.vertcat(box.wanted, box.lower, box.upper))
        return self._boxes[factor.name]

    def curvature(self, factor: Factor) -> Kernel:
        """Second derivatives of wᵀr along x ⊞ δ; behind its own stepwise arguments the weights w."""
        if factor.name not in self._curvatures:
            w = ca.SX.sym("w", len(factor.rows))
            slope = pulled_back(factor, self.manifold, self.shared[0], w)
            steps = [jacobian(slope, x, self.manifold) for x in factor.variables.values()]
            hessian = ca.horzcat(*steps, ca.jacobian(slope, self.shared[0]))
            # Moving a basis of rotations along another leaves a commutator, which is antisymmetric.
            self._curvatures[factor.name] = self._interpreted(factor, (hessian + hessian.T) / 2, w)
        return self._curvatures[factor.name]

    def _named(self, kind: str, factor: Factor) -> str:
        return _name(kind, self.factors.index(factor))

    def _interpreted(self, factor: Factor, result: ca.SX, *extra: ca.SX) -> Kernel:
        """On CasADi's virtual machine."""
        stepwise = [*_stepwise(factor), *extra]
        return Kernel(ca.Function("kernel", [*stepwise, *self.shared], [ca.cse(ca.densify(result))]), len(stepwise))

    def _prepared(self, recipes: Sequence[Recipe], purpose: str) -> Kernels:
        """Factors that stand at one step are not worth a compiler."""
        often, once = [r for r in recipes if not r.once], [r for r in recipes if r.once]
        numbers = dict.fromkeys(r.factor for r in often)
        made = [self._library([r for r in often if r.factor == number], number, purpose) for number in numbers]
        self._made.extend(made)
        functions: dict[str, Evaluate] = {
            _name(r.kind, r.factor): Kernel(r.function(), len(r.stepwise), r.places) for r in once
        }
        for number, library in zip(numbers, made, strict=True):
            functions |= {_name(kind, number): function for kind, function in library.functions.items()}
        notice = next((library.notice for library in made if library.notice), "")
        return replace(made[0], functions=functions, notice=notice)

    def _library(self, recipes: Sequence[Recipe], number: int | None, purpose: str) -> Kernels:
        """Kernels of one factor: other problems have it, too, such as the motion with half the step."""
        factor = [] if number is None else [self.expressions[number], repr(self.factors[number].private).encode()]
        rest = repr((purpose, [r.kind for r in recipes], self.visible, self.drags)).encode()
        seed = b"\0".join([*factor, *self._seed, rest])
        return prepare_kernels(
            [r.signature for r in recipes], seed, lambda: [r.function() for r in recipes], self._worth
        )

    def _recipe(self, kind: str, number: int, result: Callable[[], ca.SX], seeds: Sequence[ca.SX] = ()) -> Recipe:
        factor = self.factors[number]
        return Recipe(kind, number, (*_stepwise(factor), *seeds), self.shared, result, factor.first_only)

    def _sparse(
        self, kind: str, number: int, result: Callable[..., ca.SX], pattern: Callable[..., ca.Sparsity], *of: object
    ) -> Recipe:
        """A sparse matrix of a factor's derivatives, of which only entries that can differ from zero are evaluated."""
        factor = self.factors[number]
        recipe = self._recipe(kind, number, partial(result, factor, self.manifold, *of))
        return replace(recipe, pattern=pattern(factor, self.manifold, *of))

    @cached_property
    def _written(self) -> list[ca.Function]:
        """The factors as they are written down."""
        return [ca.Function("factor", [*_stepwise(f), *self.shared], [f.residual]) for f in self.factors]

    @cached_property
    def _worth(self) -> int:
        """Steps of a model of the usual size that are evaluated as long. Compilers take as much longer for a larger
        one as machines do, but its fits take more iterations, too: about as the root of its size."""
        size = sum(written.n_instructions() for written in self._written)
        return round(self.steps * max(1.0, math.sqrt(size / _USUAL)))

    @cached_property
    def expressions(self) -> list[bytes]:
        """The factors and the space of their variables, as they are written down."""
        roles = repr([(f.kind.value, f.first_only, f.private) for f in self.factors]).encode()
        return [*(f.serialize().encode() for f in self._written), self._space, roles]

    @cached_property
    def _space(self) -> bytes:
        x, delta = self._move
        space = ca.Function("space", [x, delta], [self.manifold.retract(x, delta), self.manifold.basis(x)])
        return bytes(space.serialize().encode())

    @cached_property
    def _seed(self) -> list[bytes]:
        """All that kernels follow from beside their factors, far quicker to have than the kernels themselves."""
        files = (__file__, jacobian.__code__.co_filename, augmented.__code__.co_filename)
        return [self._space, *(Path(file).read_bytes() for file in files)]

    @property
    def _move(self) -> tuple[ca.SX, ca.SX]:
        """Symbols of a state and of its tangent step."""
        return ca.SX.sym("x", self.manifold.ambient), ca.SX.sym("delta", self.manifold.tangent)


def _stepwise(factor: Factor) -> list[ca.SX]:
    codes = [] if factor.box is None else [factor.box.codes]
    return [*factor.variables.values(), factor.data, *codes]


def _name(kind: str, number: int | None) -> str:
    return kind if number is None else f"{kind}_{number}"
