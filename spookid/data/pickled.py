"""What a pickle holds, without executing it.

A pickle is a program for a machine with a stack, and two of its instructions call whatever the file names. Here the
instructions are only read (``pickletools``): numbers, text, bytes, lists, tuples and dictionaries are taken as they
are; what would be a call, an object or a class becomes a ``Record`` of its name and what it would have been given.
Nothing is imported, nothing is called. Arrays of numbers are made from their records.

Pickles by joblib are read too: there the bytes of an array follow its record in the file.
"""

from __future__ import annotations

import io
import math
import pickletools
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spookid.errors import ProblemError

_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_EMPTY: dict[str, Callable[[], Any]] = {"EMPTY_LIST": list, "EMPTY_TUPLE": tuple, "EMPTY_DICT": dict, "EMPTY_SET": list}
_PUSHED = re.compile(r"(INT|LONG|FLOAT|STRING|BYTES|BYTEARRAY|UNICODE)\d?$")
"""How the names of instructions end that push their argument."""
_IGNORED = {"PROTO", "FRAME", "STOP"}
_NUMBERS = re.compile("[fiu][1248]|b1")
"""Types of arrays that are made."""
_WRAPPED = "joblib.numpy_pickle NumpyArrayWrapper"


@dataclass(eq=False)
class Record:
    """A class, a call or an object that was not made."""

    name: str
    """Module and name, with a space between."""
    arguments: tuple[Any, ...] = ()
    """What it would have been called with."""
    state: Any = None
    """What the object would have been given then."""
    items: list[Any] = field(default_factory=list)
    """What would have been appended to it."""
    data: bytes = b""
    """Bytes that follow an array's record in joblib's pickles."""


def read(content: bytes, what: str) -> Any:
    """The value that a pickle holds.

    Args:
        what: name of the file for messages.

    Raises:
        ProblemError: if it is no pickle, or holds an instruction that refers to something outside of it.
    """
    machine = _Machine(io.BytesIO(content))
    try:
        for opcode, argument, _ in pickletools.genops(machine.file):
            machine.take(opcode.name, argument)
        return machine.stack.pop()
    except ProblemError as error:
        raise ProblemError(f"{what} {error}") from None
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RecursionError) as error:
        raise ProblemError(f"{what} is no pickle that can be read ({error or type(error).__name__})") from error


def array(value: Any) -> NDArray[Any]:
    """The array of numbers that a record describes; raises ValueError if it describes none."""
    if isinstance(value, Record) and value.name == _WRAPPED:
        state = value.state
        return _shaped(value.data, state["dtype"], state["shape"], state["order"] == "F")
    if isinstance(value, Record) and value.name.endswith("multiarray _reconstruct"):
        _, shape, dtype, fortran, data = value.state
        return _shaped(_bytes(data), dtype, shape, fortran)
    if isinstance(value, Record) and value.name.endswith("numeric _frombuffer"):
        data, dtype, shape, order = value.arguments
        return _shaped(_bytes(data), dtype, shape, order == "F")
    raise ValueError("it is no array of numbers")


def _shaped(data: bytes, dtype: Any, shape: Any, fortran: bool) -> NDArray[Any]:
    return np.frombuffer(data, _dtype(dtype)).reshape(shape, order="F" if fortran else "C")


def _dtype(record: Any) -> np.dtype[Any]:
    kind = record.arguments[0] if isinstance(record, Record) and record.name == "numpy dtype" else ""
    if not (isinstance(kind, str) and _NUMBERS.fullmatch(kind)):
        raise ValueError("it is an array of something else than numbers")
    return np.dtype(kind).newbyteorder(">" if record.state and record.state[1] == ">" else "<")


def _bytes(value: Any) -> bytes:
    """Bytes, also as old protocols write them: as text that would be encoded."""
    if isinstance(value, Record) and value.name == "_codecs encode":
        return str(value.arguments[0]).encode("latin1")
    if not isinstance(value, bytes | bytearray):
        raise ValueError("it is an array of something else than numbers")
    return bytes(value)


class _Machine:
    """Stack and memory of a pickle that is read."""

    def __init__(self, file: io.BytesIO) -> None:
        self.file = file
        self.stack: list[Any] = []
        self._marks: list[list[Any]] = []
        self._memory: dict[int, Any] = {}

    def take(self, name: str, argument: Any) -> None:
        """One instruction."""
        if name in _CONSTANTS:
            self.stack.append(_CONSTANTS[name])
        elif name in _EMPTY:
            self.stack.append(_EMPTY[name]())
        elif "PUT" in name or "GET" in name or name == "MEMOIZE":
            self._remember(name, argument)
        elif _PUSHED.search(name):
            self.stack.append(argument)
        elif name not in _IGNORED:
            act = getattr(self, f"_{name.lower()}", None)
            if act is None:
                raise ProblemError(f"holds the instruction {name}, which is not read; convert it by other means")
            act(argument)

    def _remember(self, name: str, argument: Any) -> None:
        if "GET" in name:
            self.stack.append(self._memory[int(argument)])
        else:
            self._memory[len(self._memory) if argument is None else int(argument)] = self.stack[-1]

    def _since_mark(self) -> list[Any]:
        found, self.stack = self.stack, self._marks.pop()
        return found

    def _mark(self, _: Any) -> None:
        self._marks.append(self.stack)
        self.stack = []

    def _pop(self, _: Any) -> None:
        if self.stack:
            self.stack.pop()
        else:
            self._since_mark()

    def _pop_mark(self, _: Any) -> None:
        self._since_mark()

    def _dup(self, _: Any) -> None:
        self.stack.append(self.stack[-1])

    # --- lists, tuples, dictionaries ---

    def _tuple(self, _: Any) -> None:
        found = self._since_mark()
        self.stack.append(tuple(found))

    def _tuple1(self, _: Any) -> None:
        self._last(1)

    def _tuple2(self, _: Any) -> None:
        self._last(2)

    def _tuple3(self, _: Any) -> None:
        self._last(3)

    def _last(self, count: int) -> None:
        self.stack[-count:] = [tuple(self.stack[-count:])]

    def _list(self, _: Any) -> None:
        found = self._since_mark()
        self.stack.append(found)

    _frozenset = _list

    def _dict(self, _: Any) -> None:
        found = self._since_mark()
        self.stack.append(dict(zip(found[::2], found[1::2], strict=True)))

    def _append(self, _: Any) -> None:
        self._extend([self.stack.pop()])

    def _appends(self, _: Any) -> None:
        found = self._since_mark()
        self._extend(found)

    _additems = _appends

    def _extend(self, found: list[Any]) -> None:
        to = self.stack[-1]
        (to.items if isinstance(to, Record) else to).extend(found)

    def _setitem(self, _: Any) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        self._set([key, value])

    def _setitems(self, _: Any) -> None:
        found = self._since_mark()
        self._set(found)

    def _set(self, found: list[Any]) -> None:
        to = self.stack[-1]
        pairs = list(zip(found[::2], found[1::2], strict=True))
        if isinstance(to, Record):
            to.items.extend(pairs)
        else:
            to.update(pairs)

    # --- what would be imported, called, made ---

    def _global(self, name: str) -> None:
        self.stack.append(Record(name))

    def _stack_global(self, _: Any) -> None:
        name, module = self.stack.pop(), self.stack.pop()
        self.stack.append(Record(f"{module} {name}"))

    def _reduce(self, _: Any) -> None:
        arguments, called = self.stack.pop(), self.stack.pop()
        self._call(called, arguments)

    _newobj = _reduce

    def _newobj_ex(self, _: Any) -> None:
        named, arguments, called = self.stack.pop(), self.stack.pop(), self.stack.pop()
        self._call(called, (*arguments, named))

    def _obj(self, _: Any) -> None:
        called, *arguments = self._since_mark()
        self._call(called, arguments)

    def _inst(self, name: str) -> None:
        self._call(Record(name), self._since_mark())

    def _call(self, called: Any, arguments: Any) -> None:
        """The record of an object: that of its class where the class makes it, with what it is made from."""
        maker = arguments[0] if called.name in ("copyreg _reconstructor", "copy_reg _reconstructor") else called
        self.stack.append(Record(maker.name, tuple(arguments)))

    def _build(self, _: Any) -> None:
        state = self.stack.pop()
        record = self.stack[-1]
        record.state = state
        if record.name == _WRAPPED:
            record.data = self._following(state)

    def _following(self, state: Any) -> bytes:
        """Bytes of an array that joblib puts behind its record, aligned by newer versions."""
        if state.get("numpy_array_alignment_bytes"):
            self.file.read(self.file.read(1)[0])
        return self.file.read(math.prod(state["shape"]) * _dtype(state["dtype"]).itemsize)
