"""What a factor's residual is differentiated to, and its kernels, which are made when they are first needed."""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from threading import RLock

import casadi as ca
import numpy as np

from spookid.kernels.kernel import Kernel
from spookid.kernels.library import level, library
from spookid.mechanics.manifold import Manifold, gradient, jacobian
from spookid.parameter import stacked
from spookid.transcription.factor import Factor, Group

Columns = tuple[int, Sequence[int]]  # offset of a step, and some of its tangent columns


def augmented(
    factor: Factor, manifold: Manifold, parameters: ca.SX | None = None, only: Columns | None = None
) -> ca.SX:
    """[∂r/∂δ of each step, or of some columns ``only``, ∂r/∂parameters if they are given, r], sparse."""
    through, residual, rows = factor.through, factor.residual, len(factor.rows)
    written = residual if through is None else through.residual
    slopes = None if through is None else ca.jacobian(written, through.symbols)
    parts = []
    for x, basis in _directions(factor, manifold, only):
        if not basis.shape[1]:
            parts.append(ca.SX(rows, 0))
        elif through is None:
            parts.append(ca.jtimes(residual, x, ca.densify(basis)))
        else:
            parts.append(slopes @ (ca.jacobian(through.values, x) @ basis))
    border = [] if parameters is None else [ca.jacobian(written, parameters)]
    whole = ca.horzcat(*parts, *border, written)
    return whole if through is None else through.settled(whole)


def augmented_pattern(
    factor: Factor, manifold: Manifold, parameters: ca.SX | None = None, only: Columns | None = None
) -> ca.Sparsity:
    """Where ``augmented`` can differ from zero."""
    parts = [
        (ca.DM(ca.jacobian_sparsity(factor.residual, x), 1.0) @ ca.DM(basis.sparsity(), 1.0)).sparsity()
        for x, basis in _directions(factor, manifold, only)
    ]
    border = [] if parameters is None else [ca.jacobian_sparsity(factor.residual, parameters)]
    return ca.horzcat(*parts, *border, ca.Sparsity.dense(len(factor.rows), 1))


def _directions(factor: Factor, manifold: Manifold, only: Columns | None) -> list[tuple[ca.SX, ca.SX]]:
    """Variables with their tangent bases."""
    if only is None:
        return [(x, manifold.basis(x)) for x in factor.variables.values()]
    x = factor.variables[only[0]]
    return [(x, manifold.basis(x)[:, list(only[1])])]


def pulled_back(factor: Factor, manifold: Manifold, parameters: ca.SX, weights: ca.SX) -> ca.SX:
    """The gradient of wᵀr in δ of each step and the parameters, (columns,), by reverse mode."""
    sum_of_rows = ca.dot(weights, factor.residual)
    steps = [gradient(sum_of_rows, x, manifold) for x in factor.variables.values()]
    return ca.vertcat(*steps, ca.gradient(sum_of_rows, parameters))


def contracted(factor: Factor, manifold: Manifold, parameters: ca.SX, weights: ca.SX) -> ca.SX:
    """The gradient of Σ A_cr J_rc in δ of each step and the parameters, (columns + n_p,), J the Jacobian in δ."""
    steps = [jacobian(factor.residual, x, manifold) for x in factor.variables.values()]
    whole = ca.cse(ca.dot(ca.horzcat(*steps), weights.T))
    slopes = [gradient(whole, x, manifold) for x in factor.variables.values()]
    return ca.vertcat(*slopes, ca.gradient(whole, parameters))


def is_linear(factor: Factor, manifold: Manifold, constants: ca.SX, numbers: Sequence[float]) -> bool:
    """True if the factor is linear in its private unknowns, flat ones, for these numbers of the constants."""
    if factor.private is None:
        return True
    offset, columns = factor.private
    unknowns = factor.variables[offset][[manifold.coordinate(column) for column in columns]]
    return bool(ca.is_linear(ca.substitute(factor.residual, constants, ca.DM(numbers)), unknowns))


_KEPT = 512  # kernels that are kept for other problems with the same factors, such as that of half the step
_made: OrderedDict[bytes, Kernel] = OrderedDict()
_lock = RLock()  # of CasADi's expressions, which count who refers to them, and not safely for threads


@dataclass(frozen=True, eq=False)
class FactorKernels:
    """Kernels of factors, made when they are first needed. Arguments are those of the factors, then ``shared``."""

    manifold: Manifold
    factors: tuple[Factor, ...]
    shared: tuple[ca.SX, ca.SX]  # symbols that are in the factors of all steps: free parameters (n_p,), and constants
    local: tuple[Factor, ...]  # those whose rows hold one step alone
    visible: tuple[int, ...]  # tangent columns of a step that are no factor's private unknowns
    drags: bool  # True if the parameters move the surface of the local factors
    _own: dict[tuple[str, str], Kernel] = field(default_factory=dict)
    _spent: list[float] = field(default_factory=lambda: [0.0])

    def prepare(self, contractions: bool = False) -> None:
        """Make all kernels that linearizing takes, and contractions if they are wanted."""
        for factor in self.factors:
            _ = self.residual(factor), self.jacobian(factor)
            if factor in self.local:
                self.local_rows(factor)
            if factor.private is not None:
                self.private_rows(factor)
            if contractions and factor.group is not Group.PRIOR and not factor.pairs:
                self.contraction(factor)
        _ = self.mover

    @property
    def seconds(self) -> float:
        """Time spent on making kernels [s]."""
        return self._spent[0]

    @property
    def mover(self) -> Kernel:
        """States (ambient,) moved by tangent steps."""
        return self._kernel("retract", None, self.manifold.retract, (self.manifold.ambient, self.manifold.tangent))

    @property
    def continued(self) -> Kernel:
        """The state that follows two, the later of them given first, if the next difference is as the last."""

        def after(last: ca.SX, before: ca.SX) -> ca.SX:
            return self.manifold.retract(last, self.manifold.difference(last, before))

        return self._kernel("continued", None, after, (self.manifold.ambient, self.manifold.ambient))

    def residual(self, factor: Factor) -> Kernel:
        """Whitened residuals."""
        return self._kernel("residual", factor, lambda: factor.residual)

    def local_rows(self, factor: Factor) -> Kernel:
        """Transposed Jacobians of a local factor in the visible columns (and parameters that move it); the residual."""
        border = self.shared[0] if self.drags else None
        return self._sparse("local", factor, border, (0, self.visible))

    def private_rows(self, factor: Factor) -> Kernel:
        """Transposed Jacobians of a factor in its private unknowns, then the residual."""
        return self._sparse("private", factor, None, factor.private or (0, ()))

    def jacobian(self, factor: Factor) -> Kernel:
        """Transposed Jacobians in the tangents of all its steps and the parameters, then the residual."""
        return self._sparse("jacobian", factor, self.shared[0], None)

    def adjoint(self, factor: Factor) -> Kernel:
        """Jᵀw of a soft factor; behind its own stepwise arguments the weights w."""
        make = partial(pulled_back, factor, self.manifold, self.shared[0])
        return self._kernel("adjoint", factor, make, (len(factor.rows),))

    def contraction(self, factor: Factor) -> Kernel:
        """Gradient of Σ A_cr J_rc in all tangents and parameters; behind the stepwise arguments A, (columns, rows)."""
        rows, columns = len(factor.rows), len(factor.variables) * self.manifold.tangent
        make = partial(contracted, factor, self.manifold, self.shared[0])
        return self._kernel("contracted", factor, lambda A: make(ca.reshape(A, rows, columns).T), (rows * columns,))

    def box(self, factor: Factor) -> Kernel:
        """What is wanted, and between which ends, of a factor with a box law."""
        box = factor.box
        assert box is not None
        return self._kernel("box", factor, lambda: ca.vertcat(box.wanted, box.lower, box.upper))

    def curvature(self, factor: Factor) -> Kernel:
        """Second derivatives of wᵀr along x ⊞ δ; behind its own stepwise arguments the weights w."""

        def hessian(weights: ca.SX) -> ca.SX:
            slope = pulled_back(factor, self.manifold, self.shared[0], weights)
            steps = [jacobian(slope, x, self.manifold) for x in factor.variables.values()]
            whole = ca.horzcat(*steps, ca.jacobian(slope, self.shared[0]))
            # Moving a basis of rotations along another leaves a commutator, which is antisymmetric.
            return (whole + whole.T) / 2

        return self._kernel("curvature", factor, hessian, (len(factor.rows),))

    def _sparse(self, kind: str, factor: Factor, parameters: ca.SX | None, only: Columns | None) -> Kernel:
        """A factor's derivatives, of which only entries that can differ from zero are evaluated."""
        of = factor, self.manifold, parameters, only
        return self._kernel(kind, factor, partial(augmented, *of), (), partial(augmented_pattern, *of))

    def _kernel(
        self,
        kind: str,
        factor: Factor | None,
        make: Callable[..., ca.SX],
        beside: Sequence[int] = (),
        pattern: Callable[[], ca.Sparsity] | None = None,
    ) -> Kernel:
        """The kernel of a kind, of a factor or of the manifold. ``make`` is given symbols of more stepwise arguments,
        which have the sizes ``beside``."""
        place = kind, "" if factor is None else factor.name
        if (known := self._own.get(place)) is not None:
            return known
        with _lock:
            began = time.perf_counter()
            seed = self._seed(kind, factor)
            if seed not in _made:
                more = [ca.SX.sym("w", size) for size in beside]
                result, numbers, once = make(*more), None, factor is not None and factor.first_only
                if pattern is not None:
                    entries = pattern()
                    numbers = np.array(entries.find(), dtype=np.int64)
                    result = stacked(ca.project(result, entries).nonzeros())
                stepwise = [*(() if factor is None else _stepwise(factor)), *more]
                shared = () if factor is None else self.shared
                result = ca.densify(result)
                # Programs compute what is common once; CasADi takes its time to find it.
                plain = result if once or library() is not None else ca.cse(result)
                function = ca.Function(kind, [*stepwise, *shared], [plain])
                _made[seed] = Kernel(function, len(stepwise), numbers, once)
                _ = _made[seed].program
                if len(_made) > _KEPT:
                    _made.popitem(last=False)
            _made.move_to_end(seed)
            self._spent[0] += time.perf_counter() - began
            return self._own.setdefault(place, _made[seed])

    def _seed(self, kind: str, factor: Factor | None) -> bytes:
        """All that a kernel follows from, far quicker to have than the kernel itself."""
        own = b"" if factor is None else self._expressions[factor.name] + repr(factor.private).encode()
        rest = repr((kind, self.visible, self.drags, level(), [s.numel() for s in self.shared])).encode()
        return hashlib.sha256(b"\0".join([own, self._space, rest])).digest()

    @cached_property
    def _expressions(self) -> dict[str, bytes]:
        """The factors as they are written down, by name, also as they are differentiated."""
        found = dict[str, bytes]()
        for f in self.factors:
            parts = [f.residual]
            if f.box is not None:
                parts += [f.box.wanted, f.box.lower, f.box.upper]
            inner = [] if f.through is None else [f.through.symbols]
            if f.through is not None:
                parts += [f.through.residual, f.through.values]
            function = ca.Function("factor", [*_stepwise(f), *self.shared, *inner], parts)
            found[f.name] = function.serialize().encode()
        return found

    @cached_property
    def expressions(self) -> list[bytes]:
        """The factors and the space of their variables, as they are written down."""
        roles = repr([(f.kind.value, f.first_only, f.private) for f in self.factors]).encode()
        return [*self._expressions.values(), self._space, roles]

    @cached_property
    def _space(self) -> bytes:
        x, delta = ca.SX.sym("x", self.manifold.ambient), ca.SX.sym("delta", self.manifold.tangent)
        space = ca.Function("space", [x, delta], [self.manifold.retract(x, delta), self.manifold.basis(x)])
        return bytes(space.serialize().encode())


def _stepwise(factor: Factor) -> list[ca.SX]:
    codes = [] if factor.box is None else [factor.box.codes]
    return [*factor.variables.values(), factor.data, *codes]
