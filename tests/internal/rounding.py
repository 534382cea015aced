"""Functions of scalars evaluated with more digits than a computer's numbers have, and what roundings may do to them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import casadi as ca
import numpy as np
from numpy.typing import NDArray

Long = NDArray[np.longdouble]
Errors = tuple[Long, Long, Long]

EPSILON = float(np.finfo(np.float64).eps)


def _slopes(*slopes: Callable[[Long, Long, Long], Long]) -> Callable[..., Long]:
    """How an error of each operand, a and b, changes a result v: by the derivative there."""

    def moved(a: Long, b: Long, v: Long, of_a: Long, of_b: Long) -> Long:
        errors = (of_a, of_b)
        return sum(np.abs(slope(a, b, v)) * error for slope, error in zip(slopes, errors, strict=False)) + 0 * v

    return moved


_ONE = _slopes(lambda a, b, v: 1 + 0 * a, lambda a, b, v: 1 + 0 * b)
_NOTHING = _slopes()
_LARGER = lambda a, b, v, of_a, of_b: np.maximum(of_a, of_b)  # noqa: E731
_OF: dict[str, tuple[Callable[[Long, Long], Long], Callable[..., Long]]] = {
    "ASSIGN": (lambda a, b: a, _ONE),
    "ADD": (lambda a, b: a + b, _ONE),
    "SUB": (lambda a, b: a - b, _ONE),
    "MUL": (lambda a, b: a * b, _slopes(lambda a, b, v: b, lambda a, b, v: a)),
    "DIV": (lambda a, b: a / b, _slopes(lambda a, b, v: 1 / b, lambda a, b, v: v / b)),
    "NEG": (lambda a, b: -a, _slopes(lambda a, b, v: 1 + 0 * a)),
    "TWICE": (lambda a, b: 2 * a, _slopes(lambda a, b, v: 2 + 0 * a)),
    "SQ": (lambda a, b: a * a, _slopes(lambda a, b, v: 2 * a)),
    "SQRT": (lambda a, b: np.sqrt(a), _slopes(lambda a, b, v: 0.5 / v)),
    "INV": (lambda a, b: 1 / a, _slopes(lambda a, b, v: v * v)),
    "SIN": (lambda a, b: np.sin(a), _slopes(lambda a, b, v: np.cos(a))),
    "COS": (lambda a, b: np.cos(a), _slopes(lambda a, b, v: np.sin(a))),
    "TAN": (lambda a, b: np.tan(a), _slopes(lambda a, b, v: 1 + v * v)),
    "ATAN": (lambda a, b: np.arctan(a), _slopes(lambda a, b, v: 1 / (1 + a * a))),
    "ATAN2": (
        lambda a, b: np.arctan2(a, b),
        _slopes(lambda a, b, v: b / (a * a + b * b), lambda a, b, v: a / (a * a + b * b)),
    ),
    "EXP": (lambda a, b: np.exp(a), _slopes(lambda a, b, v: v)),
    "LOG": (lambda a, b: np.log(a), _slopes(lambda a, b, v: 1 / a)),
    "LOG1P": (lambda a, b: np.log1p(a), _slopes(lambda a, b, v: 1 / (1 + a))),
    "TANH": (lambda a, b: np.tanh(a), _slopes(lambda a, b, v: 1 - v * v)),
    "FABS": (lambda a, b: np.abs(a), _slopes(lambda a, b, v: 1 + 0 * a)),
    "FMIN": (np.fmin, _LARGER),
    "FMAX": (np.fmax, _LARGER),
    "FLOOR": (lambda a, b: np.floor(a), _NOTHING),
    "CEIL": (lambda a, b: np.ceil(a), _NOTHING),
    "SIGN": (lambda a, b: np.sign(a), _NOTHING),
    "LT": (lambda a, b: 1.0 * (a < b), _NOTHING),
    "LE": (lambda a, b: 1.0 * (a <= b), _NOTHING),
    "EQ": (lambda a, b: 1.0 * (a == b), _NOTHING),
    "NE": (lambda a, b: 1.0 * (a != b), _NOTHING),
    "NOT": (lambda a, b: 1.0 * (a == 0), _NOTHING),
    "AND": (lambda a, b: 1.0 * ((a != 0) & (b != 0)), _NOTHING),
    "OR": (lambda a, b: 1.0 * ((a != 0) | (b != 0)), _NOTHING),
    "IF_ELSE_ZERO": (lambda a, b: np.where(a != 0, b, 0), lambda a, b, v, of_a, of_b: np.where(a != 0, of_b, 0)),
    "POW": (lambda a, b: a**b, _slopes(lambda a, b, v: b * a ** (b - 1), lambda a, b, v: v * np.log(np.abs(a)))),
}
_CODES = {getattr(ca, f"OP_{name}"): name for name in _OF} | {ca.OP_CONSTPOW: "POW"}


def watched(function: ca.Function, arguments: Sequence[NDArray[np.float64]]) -> tuple[Long, Long]:
    """The results (n, count) of a function at n rows of its arguments, and how large an error can be to which each
    operation adds one of as many digits as its result has."""
    n = max(len(a) for a in arguments)
    rows = [np.broadcast_to(a, (n, a.shape[1])).astype(np.longdouble) for a in arguments]
    place: dict[int, tuple[Long, Long]] = {}
    results, errors = np.zeros((2, n, function.numel_out(0)), dtype=np.longdouble)
    for k in range(function.n_instructions()):
        code, read, write = function.instruction_id(k), function.instruction_input(k), function.instruction_output(k)
        if code == ca.OP_OUTPUT:
            results[:, write[1]], errors[:, write[1]] = place[read[0]]
        elif code == ca.OP_INPUT:
            place[write[0]] = rows[read[0]][:, read[1]], np.zeros(n, dtype=np.longdouble)
        elif code == ca.OP_CONST:
            place[write[0]] = np.full(n, function.instruction_constant(k), np.longdouble), np.zeros(n, np.longdouble)
        else:
            evaluate, moved = _OF[_CODES[code]]
            (a, of_a), (b, of_b) = place[read[0]], place[read[-1]]
            value = np.asarray(evaluate(a, b), dtype=np.longdouble)
            place[write[0]] = value, moved(a, b, value, of_a, of_b) + np.abs(value)
    return results, errors
