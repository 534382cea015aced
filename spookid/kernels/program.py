"""Programs: CasADi's one-step functions, whose instructions C code executes on many steps at once.

A function of scalars is a list of instructions, which CasADi lets be read. ``program.c`` improves the list,
``interpreter.c`` executes each instruction on up to 128 steps, so that finding out what it is costs next to nothing.

Why an expression is not finite: the first of its operations that makes NaN or infinity of finite numbers.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Iterable, Mapping, Sequence
from functools import cache

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from spookid.kernels.arrays import Array, Integers, location
from spookid.kernels.library import library
from spookid.kernels.native import declared
from spookid.kernels.precision import STEPS_OF_A_CALL

# fmt: off
_OPERATIONS = (
    "ASSIGN", "ADD", "SUB", "MUL", "DIV", "NEG", "EXP", "LOG", "POW", "SQRT", "SQ", "TWICE", "SIN", "COS", "TAN",
    "ASIN", "ACOS", "ATAN", "LT", "LE", "EQ", "NE", "NOT", "AND", "OR", "FLOOR", "CEIL", "FMOD", "FABS", "SIGN",
    "COPYSIGN", "IF_ELSE_ZERO", "ERF", "FMIN", "FMAX", "INV", "SINH", "COSH", "TANH", "ASINH", "ACOSH", "ATANH",
    "ATAN2", "LOG1P", "EXPM1", "HYPOT", "REMAINDER", "CONST", "INPUT", "OUTPUT",
)
# fmt: on
"""In the order of ``operations.h``."""
_FLOAT = np.dtype(np.float64)
_Size, _Address = ctypes.c_longlong, ctypes.c_void_p

Arguments = tuple["ctypes.Array[ctypes.c_void_p]", "ctypes.Array[ctypes.c_longlong]"]
"""Where each argument is at the first step, and how much further on at the next."""


class Program:
    """A function as the interpreter takes it.

    Args:
        loaded: the C code.
        instructions: of the function, (n, 4), and its constants, as ``instructions`` reads them.
        places: that the results of instructions are put in.
        sizes: length of each argument.
        repeated: how many of the arguments, the first ones, change from step to step.
        count: how many numbers a step has.
        exact: True for the very digits of CasADi.
    """

    def __init__(
        self,
        loaded: ctypes.CDLL,
        instructions: tuple[NDArray[np.int32], Array],
        places: int,
        sizes: Sequence[int],
        repeated: int,
        count: int,
        exact: bool = False,
    ) -> None:
        raw, constants = instructions
        make, free = loaded.make_program, loaded.free_program
        make.restype, free.argtypes = _Address, [_Address]
        given = _Size(len(raw)), _Address(location(raw)), _Size(places), _Address(location(constants))
        found = make(*given, _Size(len(sizes)), _Size(repeated), _Size(count), _Size(exact))
        if found is None:
            raise MemoryError("make_program")
        weakref.finalize(self, free, found)
        self.address = _Address(found)
        """For C code that calls it."""
        self.count = count
        self._shapes, self._repeated = tuple(sizes), repeated
        strides = [size if i < repeated else 0 for i, size in enumerate(sizes)]
        self._strides = (_Size * len(sizes))(*strides)
        self._pointers = _Address * len(sizes)
        self._evaluate = declared(loaded, "evaluate_along", 7)

    def arguments(self, stepwise: Sequence[Array], shared: Sequence[Array]) -> Arguments:
        """Address for C code that calls it along the stepwise arrays, which it does not check."""
        steps, sizes, repeated = len(stepwise[-1]), self._shapes, self._repeated
        arguments = [*stepwise, *shared]
        shapes = [(steps, size) for size in sizes[:repeated]] + [(size,) for size in sizes[repeated:]]
        if [a.shape for a in arguments] != shapes:
            raise ValueError(f"arguments must be arrays of shapes {shapes}, not {[a.shape for a in arguments]}")
        for array in arguments:
            if not (array.flags.c_contiguous and array.dtype == _FLOAT):
                raise ValueError("arguments must be C-contiguous arrays of float64")
        return self._pointers(*[location(a) if a.size else None for a in arguments]), self._strides

    def run(self, stepwise: Sequence[Array], shared: Sequence[Array], out: Array, places: Integers | None) -> None:
        """The numbers of each step into ``out`` (n, ...), one after another or at their places."""
        if not (out.flags.c_contiguous and out.dtype == _FLOAT):
            raise ValueError("the result is C-contiguous float64")
        at = location(places)
        for start in range(0, len(out), STEPS_OF_A_CALL):
            part = slice(start, min(start + STEPS_OF_A_CALL, len(out)))
            arguments = self.arguments([a[part] for a in stepwise], shared)
            self._evaluate(self.address, part.stop - start, *arguments, at, location(out[part]), out[0].size)


def program_of(function: ca.Function, repeated: int, exact: bool = False) -> Program | None:
    """The program of a function with one dense result; None without the C code, or if the function is more than a list
    of operations on scalars."""
    loaded = library()
    found = None if loaded is None else instructions(function)
    if loaded is None or found is None:
        return None
    sizes = [function.numel_in(i) for i in range(function.n_in())]
    return Program(loaded, found, function.sz_w(), sizes, repeated, function.numel_out(0), exact)


def instructions(function: ca.Function) -> tuple[NDArray[np.int32], Array] | None:
    """What a function does, (n, 4): the operation, the place of its result, and those of two operands, with constants
    apart; None if that cannot be said so."""
    if function.class_name() != "SXFunction":
        return None
    codes, rows, constants = _codes(), list[tuple[int, int, int, int]](), list[float]()
    constant, output = codes[ca.OP_CONST], codes[ca.OP_OUTPUT]
    kind, read, write = function.instruction_id, function.instruction_input, function.instruction_output
    for k in range(function.n_instructions()):
        code = codes.get(kind(k))
        if code is None:
            return None
        if code == constant:
            rows.append((code, write(k)[0], len(constants), 0))
            constants.append(function.instruction_constant(k))
        elif code == output:
            rows.append((code, write(k)[1], read(k)[0], 0))
        else:
            operands = read(k)
            rows.append((code, write(k)[0], operands[0], operands[-1]))
    return np.array(rows, dtype=np.int32).reshape(-1, 4), np.array([*constants, 0.0])


@cache
def _codes() -> dict[int, int]:
    """Our numbers of CasADi's operations."""
    found = {getattr(ca, f"OP_{name}"): number for number, name in enumerate(_OPERATIONS)}
    return found | {ca.OP_CONSTPOW: found[ca.OP_POW]}


_SHORT = 40
"""Characters up to which an operand is written out; of longer ones, and of those in which the motion stands, the number
is written."""
_FEW = 12
"""Operations up to which it may be that short."""

_MOST = 6
"""Parameters with a value."""


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
        symbols, values: all symbols in it, each (n,), with their numbers.
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
