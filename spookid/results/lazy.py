"""Values that are computed when they are first asked for, once, and timed."""

from __future__ import annotations

import inspect
import threading
import time
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Generic, Self, TypeVar

import numpy as np

from spookid.errors import ProblemError
from spookid.results.findings import Finding

T = TypeVar("T")


_timed = ContextVar("_timed", default=False)
"""True while some clock runs: what one lazy value needs of another, of whichever fit, counts once."""


class Clock:
    """Seconds spent on lazy values."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def time(self, make: Callable[[], T]) -> T:
        """What ``make`` returns."""
        if _timed.get():
            return make()
        began, token = time.perf_counter(), _timed.set(True)
        try:
            return make()
        finally:
            _timed.reset(token)
            self.seconds += time.perf_counter() - began


class Lazy(Generic[T]):
    """Value that the function ``make`` computes at its first use."""

    def __init__(self, make: Callable[[], T], clock: Clock) -> None:
        self._make: Callable[[], T] | None = make
        self._clock = clock
        self._value: T
        self._lock = threading.RLock()

    def get(self) -> T:
        """The value."""
        with self._lock:  # several threads compute it once
            if self._make is not None:
                with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # fields report NaN themselves
                    self._value = self._clock.time(self._make)
                self._make = None  # and what it holds on to
            return self._value

    def get_or(self, other: T) -> T:
        """Return the value, or a substitute if the computation fails; the field itself reports the failure."""
        try:
            return self.get()
        except Exception:
            return other


class _Field:
    """A field that holds a value or a ``Lazy`` one, and is always read as a value."""

    def __init__(self, *default: Any, **missing: Any) -> None:
        self._default = default
        self.missing = missing

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: object | None, owner: type) -> Any:
        if instance is not None:
            value = instance.__dict__[self._name]
            return value.get() if isinstance(value, Lazy) else value
        if not self._default:
            raise AttributeError(self._name)  # a dataclass takes it for a field without a default
        return self._default[0]

    def __set__(self, instance: object, value: Any) -> None:
        instance.__dict__[self._name] = value


def lazy(*default: Any, **missing: Any) -> Any:
    """Declare a field of a ``LazyRecord`` that is computed at first use, with an optional default, and with the value
    ``missing`` if the computation fails."""
    return _Field(*default, **missing)


def untold(name: str, error: Exception) -> Finding:
    """Warning that a field of a result could not be computed."""
    kind = "" if isinstance(error, ProblemError) else f"{type(error).__name__}: "
    reason = (str(error).strip().splitlines() or [""])[-1]  # CasADi's last line says what it is
    return Finding("result.incomplete", (name,), effect=f"Result field {name} could not be computed: {kind}{reason}")


class LazyRecord:
    """Base class of dataclasses whose fields can be computed at first use."""

    def changed(self, **changes: Any) -> Self:
        """Return a copy with other values of some fields. Each lazy field is computed only once for all copies."""
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__ | changes)
        return copy

    def settled(self) -> Self:
        """Compute all lazy fields and return the record. If a field cannot be computed, it gets its declared
        substitute, and ``findings`` report it. A field without a substitute, or used alone, raises the exception.
        """
        failed = []
        for name in self.__dict__:
            try:
                getattr(self, name)
            except Exception as error:
                missing = getattr(inspect.getattr_static(type(self), name, None), "missing", None)
                if not missing:
                    raise
                self.__dict__[name] = missing["missing"]
                failed.append(untold(name, error))
        if failed:
            self.__dict__["findings"] = (*getattr(self, "findings", ()), *failed)
        return self

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__dict__}  # other processes get values
