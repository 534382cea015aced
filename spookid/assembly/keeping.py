"""Expressions that fits of one model share: those with steps of h and h/2, and one fit after another."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeVar, cast

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
