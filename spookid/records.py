"""Dataclasses that are made in a fifth of the time: Python before 3.13 compiles each of their methods by itself.

A command makes hundreds of them before it can begin, which took as long as to load NumPy and CasADi. Here one function
of a class is compiled, its ``__init__``; what prints, compares and protects an instance is shared by all.
"""

from __future__ import annotations

import abc
import copy
import dataclasses
import reprlib
import sys
from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError
from dataclasses import asdict as asdict
from dataclasses import field as field
from dataclasses import fields as fields
from dataclasses import replace as replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
elif sys.version_info >= (3, 13):
    dataclass = dataclasses.dataclass
else:

    def dataclass(cls=None, /, *, slots=False, **options):
        """As ``dataclasses.dataclass``."""

        def made(cls):
            return dataclasses.dataclass(cls, slots=True, **options) if slots else _made(cls, **options)

        return made if cls is None else made(cls)


class _Factory:
    def __repr__(self) -> str:
        return "<factory>"


_FACTORY = _Factory()
"""Stands in a signature for a value that is made when it is not given."""
_OF_CLASS, _FOR_INIT = "ClassVar", "InitVar"


def _made(cls: Any, *, frozen: bool = False, eq: bool = True, repr: bool = True, kw_only: bool = False) -> Any:
    """The class with fields and methods."""
    # The standard library reads the declarations; without methods it compiles nothing.
    hints = vars(cls).get("__annotations__", {})
    declared = {name: getattr(cls, name) for name in hints if hasattr(cls, name)}  # a base's default goes on
    own = {"__annotations__": hints, "__module__": cls.__module__, "__doc__": cls.__name__}
    plain: Any = type(cls.__name__, (), {**declared, **own})
    dataclasses.dataclass(init=False, repr=False, eq=False, match_args=False, kw_only=kw_only)(plain)
    fields: dict[str, Field[Any]] = {}
    for base in cls.__mro__[-1:0:-1]:
        fields.update(getattr(base, "__dataclass_fields__", {}))
    fields.update(plain.__dataclass_fields__)
    for name in declared:
        if isinstance(vars(cls).get(name), Field):
            delattr(cls, name)
            if (default := fields[name].default) is not MISSING:
                setattr(cls, name, default)
    facts = copy.copy(plain.__dataclass_params__)
    facts.frozen, facts.eq, facts.repr, facts.init = frozen, eq, repr, True
    methods = _methods(cls, fields, frozen, eq, repr)
    explicit = vars(cls).get("__hash__", MISSING)
    if eq and not (explicit is MISSING or (explicit is None and "__eq__" in vars(cls))):
        methods.pop("__hash__")
    for name, method in methods.items():
        if name == "__hash__" or name not in vars(cls):
            setattr(cls, name, method)
    cls.__dataclass_fields__, cls.__dataclass_params__ = fields, facts
    if cls.__doc__ is None:
        cls.__doc__ = cls.__name__
    return abc.update_abstractmethods(cls)


def _methods(cls: type[Any], fields: dict[str, Field[Any]], frozen: bool, eq: bool, repr: bool) -> dict[str, Any]:
    """By name, with what patterns match by position."""
    real = [f for f in fields.values() if _kind(f) not in (_OF_CLASS, _FOR_INIT)]
    given = [f for f in fields.values() if f.init and _kind(f) != _OF_CLASS]
    found: dict[str, Any] = {"__init__": _init(cls, fields, given, frozen)}
    found["__match_args__"] = tuple(f.name for f in given if not f.kw_only)
    if repr:
        found["__repr__"] = _printed(tuple(f.name for f in real if f.repr))
    if eq:
        compared = tuple(f.name for f in real if f.compare)
        hashed = tuple(f.name for f in real if (f.compare if f.hash is None else f.hash))
        found |= {"__eq__": _equal(compared), "__hash__": _hashed(hashed) if frozen else None}
    if frozen:
        found["__setattr__"], found["__delattr__"] = _protected(cls, {f.name for f in real})
    return found


def _kind(field: Field[Any]) -> str:
    """ "" of one that instances have."""
    kind = str(field._field_type)  # type: ignore[attr-defined]
    return {"_FIELD_CLASSVAR": _OF_CLASS, "_FIELD_INITVAR": _FOR_INIT}.get(kind, "")


def _init(cls: type[Any], fields: dict[str, Field[Any]], given: list[Field[Any]], frozen: bool) -> Callable[..., None]:
    names: dict[str, Any] = {"_set": object.__setattr__, "_factory": _FACTORY, "__name__": cls.__module__}
    by_name, parameters, body = False, ["self"], list[str]()
    for f in sorted(given, key=lambda f: bool(f.kw_only)):
        if f.kw_only and not by_name:
            by_name = True
            parameters.append("*")
        default = ""
        if f.default is not MISSING:
            names[f"_default_{f.name}"], default = f.default, f"=_default_{f.name}"
        elif f.default_factory is not MISSING:
            default = "=_factory"
        parameters.append(f.name + default)
    for f in fields.values():
        value = f.name
        if f.default_factory is not MISSING:
            names[f"_make_{f.name}"] = f.default_factory
            value = f"_make_{f.name}() if {f.name} is _factory else {f.name}" if f.init else f"_make_{f.name}()"
        elif not f.init:
            continue
        if not _kind(f):
            body.append(f"_set(self, {f.name!r}, {value})" if frozen else f"self.{f.name} = {value}")
    if hasattr(cls, "__post_init__"):
        body.append(f"self.__post_init__({', '.join(f.name for f in given if _kind(f) == _FOR_INIT)})")
    exec(f"def __init__({', '.join(parameters)}):\n  " + "\n  ".join(body or ["pass"]), names)
    made: Callable[..., None] = names["__init__"]
    made.__qualname__ = f"{cls.__qualname__}.__init__"
    made.__annotations__ = {**{f.name: f.type for f in given}, "return": None}
    return made


def _printed(names: tuple[str, ...]) -> Callable[[Any], str]:
    def text(self: Any) -> str:
        return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

    return reprlib.recursive_repr()(text)


def _equal(names: tuple[str, ...]) -> Callable[[Any, Any], Any]:
    def equal(self: Any, other: Any) -> Any:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return tuple(getattr(self, name) for name in names) == tuple(getattr(other, name) for name in names)

    return equal


def _hashed(names: tuple[str, ...]) -> Callable[[Any], int]:
    return lambda self: hash(tuple(getattr(self, name) for name in names))


def _protected(cls: type[Any], names: set[str]) -> tuple[Callable[[Any, str, Any], None], Callable[[Any, str], None]]:
    def assign(self: Any, name: str, value: Any) -> None:
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def delete(self: Any, name: str) -> None:
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    return assign, delete
