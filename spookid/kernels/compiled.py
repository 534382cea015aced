"""One-step functions as compiled C: one library for all functions of a problem, with the loop over steps inside."""

from __future__ import annotations

import ctypes
import hashlib
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import casadi as ca
import numpy as np

from spookid.errors import ProblemError
from spookid.kernels import compiler
from spookid.kernels.compiler import CompilationError, Compiler
from spookid.kernels.generated import source
from spookid.kernels.kernel import Array, Evaluate, Integers, Kernel, location
from spookid.kernels.libraries import library, refusal
from spookid.kernels.turns import let_others

FEWEST_STEPS = 500
"""On shorter horizons CasADi's virtual machine is done before a compiler would be."""
_FLOAT = np.dtype(np.float64)
_CHUNK = 65536
"""Steps of one call, so that an interruption is not held up for long."""
_LAYOUT = "5"
"""Of the generated code; part of the key."""

_POINTER, _SIZE = ctypes.c_void_p, ctypes.c_longlong
_ALONG: list[Any] = [_POINTER, _SIZE, _SIZE, _POINTER, _POINTER, _SIZE, _POINTER, _POINTER, _SIZE]
"""What ``evaluate_along`` takes."""

Arguments = tuple[int, "ctypes.Array[ctypes.c_void_p]", "ctypes.Array[ctypes.c_longlong]"]
"""How many a compiled function has, where each is at the first step, and how much further on at the next."""


@dataclass(frozen=True)
class Signature:
    """What a compiled function takes from Python."""

    name: str
    sizes: tuple[int, ...]
    """Length of each argument."""
    repeated: int
    """How many of the arguments change from step to step."""
    places: Integers | None = field(default=None, compare=False)
    """Where its numbers stand in a step's result, ascending, all others being zero; None: everywhere."""


@dataclass(frozen=True, eq=False)
class Kernels:
    """The functions of a problem, ready to be evaluated."""

    functions: Mapping[str, Evaluate]
    how: str
    """What evaluates them, in words."""
    seconds: float
    """Spent on compiling or loading [s]."""
    ended: float
    """When that was, by ``time.perf_counter``."""
    notice: str = ""
    """Why they are not compiled although that was wanted, or why that is done anew each time; else empty."""


class CompiledKernel:
    """Like ``Kernel``, by a function of a loaded library."""

    def __init__(self, loaded: ctypes.CDLL, signature: Signature) -> None:
        self._signature = signature
        self.places = signature.places
        self._evaluate, self._own = loaded.evaluate_along, getattr(loaded, signature.name)
        self._evaluate.argtypes = _ALONG
        sizes, repeated = signature.sizes, signature.repeated
        strides = [size if i < repeated else 0 for i, size in enumerate(sizes)]
        self._strides = (ctypes.c_longlong * len(sizes))(*strides)
        self._pointers = ctypes.c_void_p * len(sizes)

    @property
    def function(self) -> ctypes.c_void_p:
        """Its address, for other compiled code (``kernels.h``)."""
        return ctypes.cast(self._own, ctypes.c_void_p)

    @property
    def count(self) -> int:
        """How many numbers it gives a step."""
        assert self.places is not None
        return len(self.places)

    def numbers(self, shape: tuple[int, int]) -> Integers:
        """Which of its numbers stand where in a step's result of this shape, −1 where there is none."""
        assert self.places is not None
        which = np.full(shape, -1, dtype=np.int64)
        which.ravel()[self.places] = np.arange(len(self.places))
        return which

    def arguments(self, stepwise: Sequence[Array], shared: Sequence[Array]) -> Arguments:
        """The function's first arguments, for other compiled code."""
        pointers = self._addresses([*stepwise, *shared], len(stepwise[-1]))
        return len(pointers), pointers, self._strides

    def __call__(self, stepwise: Sequence[Array], shared: Sequence[Array], out: Array) -> Array:
        """Evaluate into ``out`` and return it; see ``Kernel``. Several threads may do so at once."""
        n = len(out)
        if not (out.flags.c_contiguous and out.dtype == _FLOAT):
            raise ValueError(f"{self._signature.name} gives C-contiguous float64")
        for start in range(0, n, _CHUNK):
            part = slice(start, min(start + _CHUNK, n))
            pointers = self._addresses([*(a[part] for a in stepwise), *shared], part.stop - start)
            if self._run(part.stop - start, pointers, out[part]):
                raise FloatingPointError(f"evaluating {self._signature.name} failed")
        return out

    def _run(self, n: int, pointers: ctypes.Array[ctypes.c_void_p], out: Array) -> int:
        """0 if some steps have been evaluated."""
        apart = out[0].size
        count, places = (apart, None) if self.places is None else (self.count, location(self.places))
        given = n, len(pointers), pointers, self._strides, count, places, location(out), apart
        return int(self._evaluate(self._own, *given))

    def _addresses(self, arguments: Sequence[Array], steps: int) -> ctypes.Array[ctypes.c_void_p]:
        """Of the arguments along so many steps; compiled code believes everything it is told."""
        sizes, repeated = self._signature.sizes, self._signature.repeated
        shapes = [(steps, size) for size in sizes[:repeated]] + [(size,) for size in sizes[repeated:]]
        if [a.shape for a in arguments] != shapes:
            raise ValueError(f"{self._signature.name} takes arrays of shapes {shapes}")
        for array in arguments:
            if not (array.flags.c_contiguous and array.dtype == _FLOAT):
                raise ValueError(f"{self._signature.name} takes C-contiguous arrays of float64")
        return self._pointers(*[location(a) if a.size else None for a in arguments])


def prepare_kernels(
    signatures: Sequence[Signature], seed: bytes, define: Callable[[], Sequence[ca.Function]], steps: int
) -> Kernels:
    """Functions to evaluate along a horizon, compiled if that pays or is asked for.

    ``SPOOKID_COMPILE`` is "auto" (from ``FEWEST_STEPS`` steps on), "on" or "off".

    Args:
        signatures: of the functions.
        seed: all that the functions follow from; a library compiled from the same seed serves again.
        define: makes the functions, one dense result each, in the same order; not called if a library is there.
        steps: of all horizons together.
    """
    notice, began = "", time.perf_counter()
    if compiles(steps):
        try:
            return _compiled(signatures, seed, define, steps)
        except (CompilationError, OSError) as error:
            notice = f"Not compiled, so several times slower: {error}. CasADi's virtual machine evaluates the model."
    seconds = time.perf_counter() - began if notice else 0.0
    functions = {s.name: Kernel(f, s.repeated, s.places) for s, f in zip(signatures, define(), strict=True)}
    return Kernels(functions, "CasADi's virtual machine", seconds, time.perf_counter(), notice)


def compiles(steps: int) -> bool:
    """True if functions of so many steps are to be compiled.

    Raises:
        ProblemError: if ``SPOOKID_COMPILE`` says nothing that is known.
    """
    setting = os.environ.get("SPOOKID_COMPILE", "").lower() or "auto"
    choices = {"auto": steps >= FEWEST_STEPS, "on": True, "1": True, "off": False, "0": False}
    if setting not in choices:
        raise ProblemError(f"the environment variable SPOOKID_COMPILE is {setting!r}; it must be auto, on or off")
    return choices[setting]


def _compiled(
    signatures: Sequence[Signature], seed: bytes, define: Callable[[], Sequence[ca.Function]], steps: int
) -> Kernels:
    began, defining = time.perf_counter(), 0.0
    tool = compiler.find()

    def build(folder: Path) -> Path:
        nonlocal defining
        start = time.perf_counter()
        functions = define()
        defining = time.perf_counter() - start
        code = source(functions)
        with let_others():
            return tool.build(code, folder, steps)

    loaded, _ = library(_key(seed, tool, steps), build)
    functions = {s.name: CompiledKernel(loaded, s) for s in signatures}
    ended = time.perf_counter()
    return Kernels(functions, f"C by {tool.version}", ended - began - defining, ended, refusal())


def code_library(code: str) -> ctypes.CDLL:
    """The library of C code that no problem's functions are in.

    Raises:
        CompilationError, OSError: if it cannot be had.
    """
    tool = compiler.find()

    def build(folder: Path) -> Path:
        with let_others():
            return tool.build(code, folder)

    return library(_key(code.encode(), tool), build)[0]


def _key(seed: bytes, tool: Compiler, steps: float = math.inf) -> str:
    digest = hashlib.sha256(seed)
    for word in (_LAYOUT, ca.__version__, *tool.command, tool.version, *tool.flags(steps), compiler.processor()):
        digest.update(b"\0" + word.encode())
    return digest.hexdigest()[:32]
