"""Why an expression is not finite: the first of its operations that makes NaN or infinity of finite numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import casadi as ca
import numpy as np

from spookid.kernels.arrays import Array

_SHORT = 40
"""Characters up to which an operand is written out; of longer ones, and of those in which the motion stands, the number
is written."""
_FEW = 12
"""Operations up to which it may be that short."""

_MOST = 6
"""Parameters that are told."""


def first_cause(
    expressions: ca.SX, symbols: Sequence[ca.SX], values: Sequence[Array], named: Mapping[str, ca.SX]
) -> str:
    """``cause`` of the first entry of a column or a matrix that is not finite; empty if all are."""
    entries = ca.vec(ca.densify(expressions))
    numbers = _evaluated(entries, symbols, values)
    bad = np.flatnonzero(~np.isfinite(numbers)).tolist()
    return cause(entries[bad[0]], symbols, values, named) if bad else ""


def cause(expression: ca.SX, symbols: Sequence[ca.SX], values: Sequence[Array], named: Mapping[str, ca.SX]) -> str:
    """What is not finite in an expression, as ``sqrt(c) is not a number (c = -0.2)``; empty if it is finite.

    Args:
        expression: (1,).
        symbols, values: all that stand in it, each (n,), with their numbers.
        named: symbols that a user knows, by what to call them; others are written as numbers.
    """
    nodes = _beneath(expression)
    known = _evaluated(ca.vertcat(*nodes.values()), symbols, values)
    numbers = dict(zip(nodes, known.tolist(), strict=True))
    titles = {symbol.element_hash(): name for name, symbol in named.items()}
    here = expression
    if np.isfinite(numbers[here.element_hash()]):
        return ""
    while bad := [d for d in _operands(here) if not np.isfinite(numbers[d.element_hash()])]:
        here = bad[0]
    kind = "not a number" if np.isnan(numbers[here.element_hash()]) else "infinite"
    below = _beneath(here)
    at = [f"{name} = {numbers[key]:.4g}" for key, name in titles.items() if key in below]
    more = [f"and {len(at) - _MOST} more"] if len(at) > _MOST else []
    told = f" ({', '.join([*at[:_MOST], *more])})" if at else ""
    return f"{_written(here, numbers, titles)} is {kind}{told}"


def _evaluated(column: ca.SX, symbols: Sequence[ca.SX], values: Sequence[Array]) -> Array:
    """Numbers of a column."""
    function = ca.Function("numbers", list(symbols), [column])
    return np.asarray(function.call([ca.DM(value) for value in values])[0].full().ravel())


def _operands(node: ca.SX) -> list[ca.SX]:
    return [node.dep(i) for i in range(node.n_dep())]


def _beneath(expression: ca.SX) -> dict[int, ca.SX]:
    """All nodes of an expression's graph by their hashes, itself first."""
    found: dict[int, ca.SX] = {}
    stack = [expression]
    while stack:
        node = stack.pop()
        if (key := node.element_hash()) not in found:
            found[key] = node
            stack += _operands(node)
    return found


def _written(node: ca.SX, numbers: Mapping[int, float], titles: Iterable[int]) -> str:
    """An operation with its operands."""
    if not node.n_dep():
        return str(node)
    operands = [ca.SX.sym(_operand(d, numbers, titles)) for d in _operands(node)]
    return str(ca.SX.unary(node.op(), *operands) if len(operands) == 1 else ca.SX.binary(node.op(), *operands))


def _operand(node: ca.SX, numbers: Mapping[int, float], titles: Iterable[int]) -> str:
    """Written out if it is short and all its symbols are known to the user, else its number."""
    below = _beneath(node)
    strangers = any(one.is_symbolic() and key not in titles for key, one in below.items())
    text = "" if strangers or len(below) > _FEW else str(node)
    return text if 0 < len(text) <= _SHORT else f"{numbers[node.element_hash()]:.4g}"
