"""Turns at CasADi: its expressions count who refers to them, and not safely for threads."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()
_own = threading.local()


@contextmanager
def turn() -> Iterator[None]:
    """Work with expressions that other threads share: one thread at a time does, and the others wait."""
    with _lock:
        _own.has = True
        try:
            yield
        finally:
            _own.has = False


@contextmanager
def let_others() -> Iterator[None]:
    """Wait for something else, such as a compiler, while another thread has its turn."""
    if not getattr(_own, "has", False):
        yield
        return
    _lock.release()
    try:
        yield
    finally:
        _lock.acquire()
