"""A Dask cluster as an executor; needs the extra ``spookid[dask]``."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from spookid.errors import ProblemError

_PATIENCE = "10s"


@contextmanager
def connected(address: str) -> Iterator[Executor]:
    """An executor over the workers of the Dask scheduler at ``address``, such as ``tcp://10.0.0.1:8786``.

    Workers need this version of spookid and the problem file with its data at the same path.

    Raises:
        ProblemError: if Dask is not installed or nobody answers.
    """
    try:
        distributed: Any = import_module("distributed")
    except ImportError:
        raise ProblemError("a scheduler needs Dask; install it with: pip install 'spookid[dask]'") from None
    try:
        client = distributed.Client(address, timeout=_PATIENCE)
    except (OSError, ValueError) as error:
        raise ProblemError(f"no Dask scheduler answers at {address} ({error}); check the address") from None
    with client:
        executor: Executor = client.get_executor(pure=False)
        try:
            yield executor
        finally:
            executor.shutdown(wait=False)  # what is still running is of no use: closing the client cancels it
