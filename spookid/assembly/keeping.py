"""Expressions that fits of one model share: those with steps of h and h/2, and one fit after another."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeVar, cast

T = TypeVar("T")


def kept(make: Callable[..., T], *declared: object) -> T:
    """What a function makes of declarations, which do not change. It is made anew if one of them cannot be a key: a
    stepper of the user's own may have a field that is a list."""
    try:
        hash(declared)
    except TypeError:
        return make(*declared)
    return cast(T, _recent(make, *declared))


@lru_cache(maxsize=32)
def _recent(make: Callable[..., Any], *declared: object) -> Any:
    return make(*declared)
