"""Trees that JSON can hold: null stands for numbers that are not finite, and NumPy's numbers become Python's."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any, TypeAlias

import casadi as ca
import msgspec
import numpy as np

from spookid.version import __version__

Tree: TypeAlias = dict[str, Any]

SCHEMA = 2
"""Version of the layout of all folders that are written."""
OLDEST = 1
"""That of the oldest folders that can be read."""


def marker_document(problem: str, **facts: Any) -> Tree:
    """What the marker of every folder holds: its schema, the problem, its own facts, and versions."""
    return {"schema": SCHEMA, "problem": problem, **facts, "versions": versions()}


def versions() -> dict[str, str]:
    """Of what numbers come from."""
    return {"spookid": __version__, "casadi": ca.__version__, "numpy": np.__version__}


def plain_tree(tree: Mapping[str, Any]) -> Tree:
    """A tree of dataclasses, arrays and others in Python's own types; numbers that are not finite stay as they are."""
    return dict(msgspec.to_builtins(tree, enc_hook=_numbers))


def json(tree: Mapping[str, Any]) -> bytes:
    """Indented, with null for numbers that are not finite."""
    return msgspec.json.format(msgspec.json.encode(tree, enc_hook=_numbers), indent=1) + b"\n"


def with_nan(node: Any, but: Collection[str] = ()) -> Any:
    """What JSON says with NaN in the place of null, but for what is no tree under the keys ``but``."""
    if isinstance(node, Mapping):
        return {
            key: value if key in but and not isinstance(value, Mapping) else with_nan(value, but)
            for key, value in node.items()
        }
    if isinstance(node, list):
        return [with_nan(value, but) for value in node]
    return math.nan if node is None else node


def _numbers(value: Any) -> Any:
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    raise NotImplementedError(f"a {type(value).__name__} in a document")
