"""Frozen dataclasses whose methods are functions that all classes share.

The standard library compiles five methods for each class, which takes 0.3 ms before Python 3.13; a command declares
some 200 classes before it begins. For type checkers, ``fields`` and ``replace`` these are dataclasses like any other.
"""

from __future__ import annotations

import dataclasses
from dataclasses import MISSING, Field, FrozenInstanceError
from functools import cache, partial
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
    from inspect import Signature
else:

    def dataclass(cls=None, /, *, frozen=False, eq=True, repr=True, slots=False, **options):
        """Declare a dataclass; the standard library makes those that are not frozen."""
        if cls is None:
            return partial(dataclass, frozen=frozen, eq=eq, repr=repr, slots=slots, **options)
        if not frozen or slots:
            return dataclasses.dataclass(frozen=frozen, eq=eq, repr=repr, slots=slots, **options)(cls)
        bases = [vars(base)["__dataclass_params__"] for base in cls.__mro__ if "__dataclass_params__" in vars(base)]
        for base in bases:
            base.frozen = False  # else the standard library compiles what protects an instance
        made = dataclasses.dataclass(init=False, repr=False, eq=False, **options)(cls)
        for one in (made.__dataclass_params__, *bases):
            one.frozen = True
        if not hasattr(type(cls), "__signature__"):
            made.__signature__ = _Signature()
        for name, method in {**_ALL, **(_SHOWN if repr else {}), **(_COMPARED if eq else {})}.items():
            if name not in vars(cls):
                setattr(made, name, method)
        return made


class _Arguments(NamedTuple):
    """What a class is made of."""

    positional: tuple[str, ...]
    all: frozenset[str]
    defaults: dict[str, Any]
    factories: dict[str, Any]
    compared: tuple[str, ...]
    passed: tuple[str, ...]
    """To ``__post_init__`` alone."""
    plain: int
    """Number of fields, if these are what is given; else -1."""
    finishes: bool
    """True if there is something to do once the values are set."""


@cache
def _arguments(cls: Any) -> _Arguments:
    fields, given = dataclasses.fields(cls), _given(cls)
    return _Arguments(
        tuple(f.name for f in given if not f.kw_only),
        frozenset(f.name for f in given),
        {f.name: f.default for f in (*fields, *given) if f.default is not MISSING},
        {f.name: f.default_factory for f in fields if f.default_factory is not MISSING},
        tuple(f.name for f in fields if f.compare),
        tuple(f.name for f in given if f not in fields),
        len(fields) if [f.name for f in fields] == [f.name for f in given] else -1,
        hasattr(cls, "__post_init__"),
    )


def _given(cls: Any) -> list[Field[Any]]:
    """What makes an instance: fields, and what ``__post_init__`` alone is given."""
    own = dataclasses.fields(cls)
    return [f for f in cls.__dataclass_fields__.values() if (f.init and f in own) or "InitVar" in str(f.type)]


class _Factory:
    """What stands in a signature for a value that is made when it is not given."""

    def __repr__(self) -> str:
        return "<factory>"


def signature(cls: Any) -> Signature:
    """That of a class, as the standard library makes it, with types as far as they are known."""
    from inspect import Parameter, Signature  # loads slowly
    from typing import get_type_hints

    try:
        types = get_type_hints(cls)
    except NameError:  # of what only type checkers import
        types = {}
    found = []
    for f in sorted(_given(cls), key=lambda f: f.kw_only is True):
        default = f.default if f.default_factory is MISSING else _Factory()
        kind = Parameter.KEYWORD_ONLY if f.kw_only else Parameter.POSITIONAL_OR_KEYWORD
        default = Parameter.empty if default is MISSING else default
        found.append(Parameter(f.name, kind, default=default, annotation=types.get(f.name, f.type)))
    return Signature(found)


class _Signature:
    """Of a class, for who asks for it."""

    def __get__(self, instance: object, cls: Any) -> Signature:
        return signature(cls)


def initialize(self: Any, /, *given: Any, **named: Any) -> None:
    takes = _arguments(self.__class__)
    values = dict(zip(takes.positional, given, strict=False)) if given else {}
    if named:
        values |= named
    passed: list[Any] = []
    if not (len(values) == len(given) + len(named) == takes.plain and values.keys() == takes.all):
        values = _completed(self.__class__, takes, given, named)
        passed = [values.pop(name) for name in takes.passed]
    self.__dict__.update(values)
    if takes.finishes:
        self.__post_init__(*passed)


def _completed(cls: Any, takes: _Arguments, given: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
    """All values by name, with defaults."""
    values = takes.defaults | dict(zip(takes.positional, given, strict=False)) | named
    for name, make in takes.factories.items():
        if name not in values:
            values[name] = make()
    once = len(given) <= len(takes.positional) and named.keys().isdisjoint(takes.positional[: len(given)])
    if not (once and takes.all.issuperset(named) and takes.all <= values.keys()):
        signature(cls).bind(*given, **named)  # which says what is wrong
    return values


@recursive_repr()
def _repr(self: Any) -> str:
    shown = (f"{f.name}={getattr(self, f.name)!r}" for f in dataclasses.fields(self) if f.repr)
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _assign(self: Any, name: str, value: Any) -> None:
    _refuse(self, name, "assign to")
    object.__setattr__(self, name, value)


def _delete(self: Any, name: str) -> None:
    _refuse(self, name, "delete")
    object.__delattr__(self, name)


def _refuse(self: Any, name: str, what: str) -> None:
    """Refuse what would change a record; a class that derives from one has attributes of its own."""
    if "__dataclass_fields__" in vars(type(self)) or name in self.__dataclass_fields__:
        raise FrozenInstanceError(f"cannot {what} field {name!r}")


def _compared(self: Any) -> tuple[Any, ...]:
    return tuple(getattr(self, name) for name in _arguments(self.__class__).compared)


def _equal(self: Any, other: Any) -> bool:
    return _compared(self) == _compared(other) if other.__class__ is self.__class__ else NotImplemented


def _hash(self: Any) -> int:
    return hash(_compared(self))


_ALL = {"__init__": initialize, "__setattr__": _assign, "__delattr__": _delete}
_SHOWN = {"__repr__": _repr}
_COMPARED = {"__eq__": _equal, "__hash__": _hash}
