"""NumPy code with a Jacobian of its own as a function that CasADi can call and differentiate."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import casadi as ca

from spookid.kernels.kernel import Array, contiguous

Evaluate = Callable[[Sequence[Array]], Sequence[Array]]
"""Arguments (n_i,), one each, to results."""


class NumericFunction(ca.Callback):  # type: ignore[misc]
    """A function of column vectors with one result. CasADi keeps no reference to it: its owner must.

    Args:
        inputs: name to size of each argument.
        output: shape of the result.
        evaluate: arguments (n_i,) to [result].
        blocks: arguments to [∂vec(result)/∂argument of each argument], vec by columns.
    """

    def __init__(
        self, name: str, inputs: Mapping[str, int], output: tuple[int, int], evaluate: Evaluate, blocks: Evaluate
    ) -> None:
        ca.Callback.__init__(self)
        self._names, self._evaluate, self._blocks = list(inputs), evaluate, blocks
        self._shapes, self._output = [(size, 1) for size in inputs.values()], output
        self.construct(name, {})

    def get_n_in(self) -> int:
        """CasADi asks."""
        return len(self._shapes)

    def get_n_out(self) -> int:
        """CasADi asks."""
        return 1

    def get_name_in(self, i: int) -> str:
        """CasADi asks."""
        return self._names[i]

    def get_sparsity_in(self, i: int) -> ca.Sparsity:
        """CasADi asks."""
        return ca.Sparsity.dense(*self._shapes[i])

    def get_sparsity_out(self, i: int) -> ca.Sparsity:
        """CasADi asks."""
        return ca.Sparsity.dense(*self._output)

    def eval(self, arguments: list[ca.DM]) -> list[ca.DM]:
        """CasADi calls."""
        return [ca.DM(result) for result in self._evaluate([_vector(a) for a in arguments])]

    def has_jacobian(self, *_: Any) -> bool:
        """CasADi asks."""
        return True

    def get_jacobian(self, name: str, inames: list[str], onames: list[str], opts: dict[str, Any]) -> ca.Function:
        """CasADi asks."""
        rows = self._output[0] * self._output[1]
        shapes = [(rows, size) for size, _ in self._shapes]
        self._jacobian = _Jacobian(name, inames, onames, [*self._shapes, self._output], shapes, self._blocks)
        return self._jacobian


class _Jacobian(ca.Callback):  # type: ignore[misc]
    """The Jacobian blocks of a function, as CasADi calls them: arguments and result to one block an argument."""

    def __init__(
        self,
        name: str,
        inputs: list[str],
        outputs: list[str],
        arguments: list[tuple[int, int]],
        shapes: list[tuple[int, int]],
        blocks: Evaluate,
    ) -> None:
        ca.Callback.__init__(self)
        self._inputs, self._outputs = inputs, outputs
        self._arguments, self._shapes, self._blocks = arguments, shapes, blocks
        self.construct(name, {})

    def get_n_in(self) -> int:
        return len(self._arguments)

    def get_n_out(self) -> int:
        return len(self._shapes)

    def get_name_in(self, i: int) -> str:
        return self._inputs[i]

    def get_name_out(self, i: int) -> str:
        return self._outputs[i]

    def get_sparsity_in(self, i: int) -> ca.Sparsity:
        return ca.Sparsity.dense(*self._arguments[i])

    def get_sparsity_out(self, i: int) -> ca.Sparsity:
        return ca.Sparsity.dense(*self._shapes[i])

    def eval(self, arguments: list[ca.DM]) -> list[ca.DM]:
        blocks = self._blocks([_vector(a) for a in arguments[: len(self._shapes)]])
        return [ca.DM(block.reshape(shape)) for block, shape in zip(blocks, self._shapes, strict=True)]


def _vector(argument: ca.DM) -> Array:
    return contiguous(argument.full()[:, 0]) if argument.numel() else contiguous([])
