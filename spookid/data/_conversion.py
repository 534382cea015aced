"""Sources of data sets in other formats, as arrays."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from spookid.data import pickled
from spookid.errors import ProblemError

Arrays = dict[str, NDArray[np.float64]]


def rollout(content: bytes, what: str) -> Arrays:
    """Arrays of a pickled rollout of the Quanser Qube, as Pyrado's class StepSequence keeps them.

    ``states`` (N + 1, 4) holds the angles of arm and pendulum and their rates, ``time`` (N + 1,), ``actions`` and
    ``actions_applied`` (N, 1) the voltage before and after clipping.

    Raises:
        ProblemError: if it is no such pickle.
    """
    record = pickled.read(content, what)
    state = record.state if isinstance(record, pickled.Record) and isinstance(record.state, dict) else {}
    try:
        found = {name: pickled.array(state[name]) for name in ("time", "states", "actions", "actions_applied")}
        columns = [found["time"], *found["states"].T, *found["actions"].T, *found["actions_applied"].T]
        names = ("t", "theta", "alpha", "theta_dot", "alpha_dot", "u_cmd", "u_applied")
        pairs = zip(names, columns, strict=True)
        return {name: np.ascontiguousarray(column, dtype=np.float64).reshape(-1) for name, column in pairs}
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise ProblemError(f"{what} holds no rollout that can be read ({type(error).__name__}: {error})") from error


def digest(arrays: Mapping[str, NDArray[np.float64]]) -> str:
    """SHA-256 of names, shapes and values, in their order; that of an npz also depends on the library that packs it."""
    found = hashlib.sha256()
    for name, values in arrays.items():
        found.update(f"{name}\0{values.shape!r}".encode())
        found.update(np.ascontiguousarray(values, dtype="<f8").tobytes())
    return found.hexdigest()
