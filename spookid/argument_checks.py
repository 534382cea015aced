"""Checks of what public classes and functions are given: each argument must be of the kind that its annotation says.

What an annotation cannot say, such as bounds, shapes and what goes together, each class checks for itself; an argument
of kind ``Any`` is a number or an expression, which ``symbolic`` takes.
"""

from __future__ import annotations

import dataclasses
import inspect
import os
import sys
from abc import ABCMeta
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, wraps
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, Literal, ParamSpec, TypeGuard, TypeVar, Union, get_args, get_origin

import casadi as ca
import numpy as np

from spookid.errors import ProblemError, declared_at, is_text, shown

P = ParamSpec("P")
R = TypeVar("R")
_LISTS = (list, tuple, set, frozenset, range, np.ndarray)
"""What can be looked through more than once."""
LARGEST = 1e150
"""Numbers beyond have squares that are infinite."""


class Checked(ABCMeta):
    """Base class of user-facing classes that refuses arguments of other types than their annotations."""

    def __call__(cls, *given: Any, **named: Any) -> Any:
        """Raises ProblemError naming the argument and what to give."""
        _check(cls.__name__, cls.__signature__, _hints(cls), given, named)
        return super().__call__(*given, **named)

    def admits(cls, **named: Any) -> None:
        """Raise ProblemError for an argument that the class does not accept."""
        _check(cls.__name__, cls.__signature__, _hints(cls), (), named, partial=True)

    @property
    def __signature__(cls) -> inspect.Signature:
        """That of ``__init__``, as of a class without checks."""
        return _signature(cls)


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """Decorator that refuses arguments of other types than the annotations of a function or method."""

    @wraps(function)
    def behind(*given: P.args, **named: P.kwargs) -> R:
        _check(function.__name__, _signature(function), _hints(function), given, named)
        return function(*given, **named)

    return behind


def _check(
    name: str,
    signature: inspect.Signature,
    hints: Mapping[str, Any],
    given: tuple[Any, ...],
    named: Mapping[str, Any],
    *,
    partial: bool = False,
) -> None:
    try:
        bound = (signature.bind_partial if partial else signature.bind)(*given, **named).arguments
    except TypeError as error:
        raise TypeError(f"{name}: {error}; it takes {', '.join(signature.parameters)}") from None
    for argument, value in _single(bound, signature):
        hint = hints.get(argument, Any)
        if (argument in signature.parameters and value is signature.parameters[argument].default) or _fits(value, hint):
            continue
        own = f" {bound['name']!r}" if argument != "name" and is_text(bound.get("name")) else ""
        own += f" of {bound['signal']!r}" if argument != "signal" and is_text(bound.get("signal")) else ""
        own += f" of {bound['path']}" if argument != "path" and "path" in bound else ""
        raise ProblemError(f"{declared_at()}: {name}{own}: {argument} {_wrong(argument, value, hint)}")


def _single(bound: Mapping[str, Any], signature: inspect.Signature) -> Iterator[tuple[str, Any]]:
    """Arguments one by one, those behind a star too."""
    for argument, value in bound.items():
        kind = signature.parameters[argument].kind
        starred = kind in (kind.VAR_POSITIONAL, kind.VAR_KEYWORD)
        values = value.values() if kind is kind.VAR_KEYWORD else value
        yield from ((argument, one) for one in (values if starred else [value]))


@cache
def _signature(of: Any) -> inspect.Signature:
    if not isinstance(of, type):
        return inspect.signature(of)
    made: Any = of.__init__  # type: ignore[misc]
    found = inspect.signature(made if made is not object.__init__ else of.__new__)
    return found.replace(parameters=list(found.parameters.values())[1:])


@cache
def _hints(of: Any) -> dict[str, Any]:
    """What is demanded of each argument; nothing of one whose annotation is known to type checkers alone."""
    found: dict[str, Any] = {}
    made: Any = vars(of).get("__init__", getattr(of, "__init__", None)) if isinstance(of, type) else of
    fields = hasattr(made, "__code__") and made.__code__.co_filename == "<string>"
    for place in reversed(of.__mro__) if fields else [made]:
        names = vars(sys.modules.get(getattr(place, "__module__", ""), dataclasses))
        for name, hint in getattr(place, "__annotations__", {}).items():
            try:
                found[name] = eval(hint, dict(names)) if isinstance(hint, str) else hint
            except (NameError, AttributeError, TypeError):
                found[name] = Any
    return found


def is_whole(value: object) -> bool:
    """True for a whole number that is not a bool and that fits into an array."""
    return (
        isinstance(value, Integral)
        and not isinstance(value, (bool, np.bool_))
        and abs(int(value)) <= np.iinfo(np.int64).max
    )


def is_number(value: object) -> TypeGuard[float]:
    """True for a real number that is not a bool and whose square fits into an array."""
    if isinstance(value, (Integral, np.bool_)) or not isinstance(value, Real):
        return is_whole(value)
    return not LARGEST < abs(float(value)) < np.inf


_PLAIN: dict[Any, tuple[Callable[[Any], bool], str]] = {
    str: (is_text, "a text"),
    bool: (lambda value: isinstance(value, (bool, np.bool_)), "True or False"),
    int: (is_whole, "a whole number"),
    float: (is_number, "a number"),
    NoneType: (lambda value: value is None, "None"),
    os.PathLike: (lambda value: isinstance(value, os.PathLike) and is_text(os.fspath(value)), "a path"),
}


_KNOWN_AS = {
    "Callable": "a function",
    "Frame": "a frame, body.frame(...) or GROUND.frame(...)",
    "Hinge": "a Hinge",
    "Joint": "a Hinge or another Joint",
    "Sigmas": "graphs.Sigmas(...)",
    "Stepper": "Spook(), Variational() or another Stepper",
}
"""What classes are called in remedies, if that is not their name."""


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value is of a kind; of kinds that are not known here, everything is."""
    if len(kinds := _kinds(hint)) > 1:
        return any(_fits(value, one) for one in kinds)
    hint = kinds[0]
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Literal:
        return isinstance(value, (str, int)) and value in inner
    if (origin or hint) in _PLAIN:
        return _PLAIN[origin or hint][0](value)
    if origin is type:
        return isinstance(value, type) and issubclass(value, inner)
    if origin is tuple or (isinstance(origin, type) and issubclass(origin, Iterable)):
        return _fits_all(value, origin, inner)
    if origin is Callable or origin is type(Callable) or getattr(origin, "__name__", "") == "Callable":
        return callable(value)
    if hint is Any or not isinstance(hint, type) or getattr(hint, "_is_protocol", False) or hint is np.ndarray:
        return True
    return isinstance(value, hint)


def _fits_all(value: Any, origin: type, inner: tuple[Any, ...]) -> bool:
    """Whether a collection is one, and all in it are of their kinds."""
    if issubclass(origin, np.ndarray):
        return True
    if issubclass(origin, Mapping):
        pairs = isinstance(value, Mapping) and len(inner) == 2
        return pairs and all(_fits(k, inner[0]) and _fits(v, inner[1]) for k, v in value.items())
    if isinstance(value, (str, type)):  # a lone name or class, where a list of them may stand
        lone = [one for one in _kinds(inner[0]) if one is str or get_origin(one) is type]
        return origin is not tuple and any(_fits(value, one) for one in lone)
    if isinstance(value, (bytes, bytearray, ca.SX, ca.DM, ca.MX)) or not isinstance(value, Iterable):
        return False
    masked = (np.ma.MaskedArray,) if "numpy.ma" in sys.modules else ()  # before that module is loaded there are none
    if isinstance(value, (Mapping, *masked)) or (isinstance(value, np.ndarray) and value.ndim != 1):
        return False
    several = issubclass(origin, tuple) and Ellipsis not in inner
    if several and not (isinstance(value, _LISTS) and len(value) == len(inner)):
        return False
    if not isinstance(value, _LISTS):
        return True
    kinds = inner if several else inner[:1] * len(value)
    return all(_fits(one, kind) for one, kind in zip(value, kinds, strict=True))


def _wrong(argument: str, value: Any, hint: Any) -> str:
    """What is wrong with a value that does not fit, and the remedy."""
    for kind in _kinds(hint):
        origin, inner = get_origin(kind), get_args(kind)
        if isinstance(origin, type) and issubclass(origin, Iterable) and not issubclass(origin, (Mapping, np.ndarray)):
            if (Any not in inner and _fits(value, inner[0])) or isinstance(value, ca.SX):
                return f"is {shown(value)}, but must be a list: {argument}=[...]"
            if isinstance(value, (list, tuple)) and not (origin is tuple and Ellipsis not in inner):
                stray = next((one for one in value if not _fits(one, inner[0])), value)
                return f"holds {shown(stray)}; give {_wanted(hint)}"
        if isinstance(value, Mapping) and isinstance(origin, type) and issubclass(origin, Mapping) and inner:
            stray = next(((k, v) for k, v in value.items() if not (_fits(k, inner[0]) and _fits(v, inner[1]))), None)
            if stray is not None:
                return f"holds {shown(stray[1])} as {shown(stray[0])}; give {_wanted(hint)}"
    return f"is {shown(value)}; give {_wanted(hint)}"


def _kinds(hint: Any) -> tuple[Any, ...]:
    """The parts of a union, or the one kind."""
    hint = hint.type if isinstance(hint, dataclasses.InitVar) else hint
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def _wanted(hint: Any) -> str:
    """What to give, in words."""
    words = [_word(one) for one in _kinds(hint) if one not in (NoneType, Any)]
    return ", or ".join([*dict.fromkeys(words), *(["leave it out"] if NoneType in _kinds(hint) else [])])


def _word(hint: Any) -> str:
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Literal:
        return f"{', '.join(map(repr, inner[:-1]))} or {inner[-1]!r}" if inner[1:] else repr(inner[0])
    if (origin or hint) in _PLAIN:
        return _PLAIN[origin or hint][1]
    if isinstance(origin, type) and issubclass(origin, np.ndarray):
        return "an array of numbers"
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return f"a dict of {_several(inner[0])} to {_several(inner[1])}"
    if isinstance(origin, type) and issubclass(origin, Iterable):
        count = len(inner) if origin is tuple and Ellipsis not in inner else 0
        return f"{count or 'a list of'} {_several(inner[0])}"
    name = getattr(hint, "__name__", str(hint))
    return _KNOWN_AS.get(name, f"{'an' if name[0] in 'AEIOU' else 'a'} {name}")


def _several(hint: Any) -> str:
    """What to give several of."""
    names = {str: "names", int: "whole numbers", float: "numbers", Any: "values"}
    words = (names.get(one) or _word(one).removeprefix("a ").removeprefix("an ") for one in _kinds(hint))
    return " or ".join(dict.fromkeys(words))
