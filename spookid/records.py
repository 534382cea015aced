"""Frozen dataclasses that are declared faster than by the standard library, which compiles six methods for each class.

Here one is compiled, ``__init__``; the others are shared by all classes. A command declares 250 classes before it
begins, in 0.04 s instead of 0.09 s. For type checkers, ``fields`` and ``replace`` these are dataclasses like any other.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from functools import cache, lru_cache, partial
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls=None, /, *, frozen=False, eq=True, repr=True, slots=False, **options):
        """Declare a dataclass; for frozen ones, construction is faster than in the standard library."""
        if cls is None:
            return partial(dataclass, frozen=frozen, eq=eq, repr=repr, slots=slots, **options)
        if not frozen or slots:
            return dataclasses.dataclass(frozen=frozen, eq=eq, repr=repr, slots=slots, **options)(cls)
        bases = [vars(base)["__dataclass_params__"] for base in cls.__mro__ if "__dataclass_params__" in vars(base)]
        for base in bases:
            base.frozen = False  # else the standard library compiles what protects an instance
        made = dataclasses.dataclass(repr=False, eq=False, **options)(cls)
        for one in (made.__dataclass_params__, *bases):
            one.frozen = True
        shared = {"__setattr__": _assign, "__delattr__": _delete}
        shared |= {"__repr__": _repr} if repr else {}
        shared |= {"__eq__": _equal, "__hash__": _hash} if eq else {}
        for name in shared.keys() - vars(cls).keys():
            setattr(made, name, shared[name])
        return made


@recursive_repr()
def _repr(self: Any) -> str:
    shown = (f"{f.name}={getattr(self, f.name)!r}" for f in dataclasses.fields(self) if f.repr)
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _assign(self: Any, name: str, value: Any) -> None:
    """Set a field that has no value yet, as ``__init__`` does; a subclass that is none has attributes of its own."""
    record, field = "__dataclass_fields__" in vars(type(self)), name in self.__dataclass_fields__
    if (field and name in self.__dict__) or (record and not field):
        raise FrozenInstanceError(f"cannot assign to field {name!r}")
    object.__setattr__(self, name, value)


def _delete(self: Any, name: str) -> None:
    if "__dataclass_fields__" in vars(type(self)) or name in self.__dataclass_fields__:
        raise FrozenInstanceError(f"cannot delete field {name!r}")
    object.__delattr__(self, name)


@cache
def _values(cls: Any) -> Any:
    """What gives the values of an instance that count for equality."""
    names = [f.name for f in dataclasses.fields(cls) if f.compare]
    return (lambda self: ()) if not names else attrgetter(*names)


def _equal(self: Any, other: Any) -> bool:
    same = other.__class__ is self.__class__
    return bool(_values(self.__class__)(self) == _values(self.__class__)(other)) if same else NotImplemented


def _hash(self: Any) -> int:
    return hash(_values(self.__class__)(self))


T = TypeVar("T")


def kept(make: Callable[..., T], *declared: object) -> T:
    """Cache of a function of declarations, which do not change. Without a cache if an argument is not hashable: a
    user's stepper may have a list as a field."""
    try:
        hash(declared)
    except TypeError:
        return make(*declared)
    return cast(T, _recent(make, *declared))


@lru_cache(maxsize=32)
def _recent(make: Callable[..., Any], *declared: object) -> Any:
    return make(*declared)
