"""The content of a result folder's files, as ``schema`` describes it, back to a Result.

All of it raises KeyError for what is missing, and TypeError or ValueError for what is wrong.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from types import EllipsisType
from typing import Any, TypeAlias, TypeVar, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from spookid.kernels.kernel import Array
from spookid.results.result import Choice, Cost, Estimate, Noise, Result, Size, Step, Times, Trajectory
from spookid.results.schema import ALONG, Tree
from spookid.results.sketch import Mechanism
from spookid.solvers.status import Status
from spookid.statistics.covariance import Sensitivities, WeakDirection
from spookid.statistics.influence import Influence

T = TypeVar("T")

Arrays: TypeAlias = Mapping[str, NDArray[Any]]

Heading = tuple[str, tuple[str, ...], tuple[str, ...], tuple[float | None, ...]]
"""Name, observed signals, units and periods of a trajectory."""


def solution_of(
    tree: Tree,
    knowledge: Sensitivities,
    influence: Influence,
    trajectories: tuple[Trajectory, ...],
    normaliser: Array | None = None,
) -> Result:
    """The Result that ``document`` described; ``tree`` is ``restored``."""
    return Result(
        problem=_text(tree["problem"]),
        backend=_text(tree["backend"]),
        stepper=_text(tree["stepper"]),
        friction=_text(tree["friction"]),
        detail=_text(tree["detail"]),
        step=_number(tree["step"]),
        state_weight=_number(tree["state_weight"]),
        status=Status(tree["status"]),
        cost=_read(Cost, tree["cost"]),
        history=tuple(_read(Step, {**node, "cost": node}) for node in tree["history"]),
        parameters={name: _read(Estimate, {**node, "name": name}) for name, node in tree["parameters"].items()},
        dynamics=_text(tree["dynamics"]),
        log_likelihood=_number(tree["log_likelihood"]),
        noise=_noise(tree["noise"]),
        choice=_perhaps(Choice, tree.get("choice")),
        sensitivities=knowledge,
        influence=influence,
        complementarity_residual=_number(tree["complementarity"]["max_residual"]),
        sticking={name: _number(share) for name, share in tree["complementarity"]["sticking"].items()},
        size=_read(Size, tree["size"]),
        times=_read(Times, tree["timing_s"]),
        versions=_texts(tree["versions"]),
        trajectories=trajectories,
        notices=tuple(_text(notice) for notice in tree["notices"]),
        mechanism=_perhaps(Mechanism, tree.get("mechanism")),
        normaliser=normaliser,
    )


def _noise(tree: Tree) -> tuple[Noise, ...]:
    """Each size once, though it stands under every name that it belongs to."""
    kinds = (("disturbance", tree["disturbance"]), ("sensor", tree["sensors"]))
    found = [_read(Noise, {**node, "kind": kind}) for kind, nodes in kinds for node in nodes.values()]
    return tuple({(noise.kind, noise.names): noise for noise in found}.values())


def restored(tree: Tree) -> Tree:
    """``tree`` with the infinite numbers back in their places, put there in place."""
    for path, sign in tree["infinities"].items():
        *way, last = path.split("/")
        node: Any = tree
        for key in way:
            node = node[int(key) if isinstance(node, list) else key]
        node[int(last) if isinstance(node, list) else last] = math.copysign(math.inf, sign)
    return tree


def identifiability_of(tree: Tree) -> Tree:
    """Fields of Sensitivities that stand in the restored ``tree``."""
    node = tree["identifiability"]
    return {
        "reasons": _texts(node["reasons"]),
        "singular_values": np.array([_number(value) for value in node["singular_values"]], dtype=np.float64),
        "weak": tuple(_read(WeakDirection, weak) for weak in node["weak_directions"]),
        "noise": _numbers(node["noise"]),
    }


def sensitivities_of(identifiability: Tree, arrays: Arrays) -> Sensitivities:
    """The Sensitivities, from `identifiability_of` and the content of ``sensitivities.npz``."""
    names = tuple(_text(name) for name in arrays["names"].tolist())
    square = (len(names), len(names))
    return Sensitivities(
        names=names,
        covariance=_shaped(arrays, "covariance", square),
        covariance_sandwich=_shaped(arrays, "covariance_sandwich", square),
        factor=_shaped(arrays, "T", square),
        dispersion=_shaped(arrays, "dispersion", (len(names),)),
        inflation=_shaped(arrays, "inflation", (None,)),
        **identifiability,
    )


def normaliser_of(arrays: Arrays) -> Array | None:
    """What a fit that goes on at the noise found needs, from the content of ``sensitivities.npz``; None without it."""
    return _shaped(arrays, "normaliser", (None,)) if "normaliser" in arrays else None


def influence_of(recordings: list[Heading], arrays: Arrays) -> Influence:
    """The Influence, from `recordings_of` and the content of ``sensitivities.npz``."""
    n, fixed = len(arrays["names"]), tuple(_text(name) for name in arrays["fixed_names"].tolist())
    places = range(len(recordings))
    return Influence(
        tuple(_shaped(arrays, f"d_observed_{i}", (None, len(recordings[i][1]), n)) for i in places),
        _shaped(arrays, "d_state_weight", (n,)),
        _shaped(arrays, "d_step", (n,)),
        _shaped(arrays, "step_error", (n,)),
        fixed,
        _shaped(arrays, "d_fixed", (len(fixed), n)),
        tuple(_shaped(arrays, f"stretch_edges_{i}", (None,)) for i in places),
        tuple(_shaped(arrays, f"d_stretch_{i}", (None, n)) for i in places),
    )


def recordings_of(tree: Tree) -> list[Heading]:
    """Name, observed signals, their units and their periods of each recording."""
    return [
        (
            _text(node["name"]),
            tuple(_text(signal) for signal in node["signals"]),
            tuple(_text(unit) for unit in node["units"]),
            tuple(None if period is None else _number(period) for period in node["periods"]),
        )
        for node in tree["recordings"]
    ]


def trajectories_of(recordings: list[Heading], arrays: Arrays) -> tuple[Trajectory, ...]:
    """The trajectories, from `recordings_of` and the content of ``trajectory.npz``."""
    return tuple(
        _trajectory_of(heading, {key: arrays[f"{key}_{i}"] for key in ALONG}) for i, heading in enumerate(recordings)
    )


def _trajectory_of(heading: Heading, arrays: Arrays) -> Trajectory:
    n, signals = len(arrays["t"]), heading[1]
    shapes: dict[str, tuple[int | None, ...]] = {
        "t": (n,),
        "q": (n, None, 7),
        "v": (n, None, 6),
        "observed": (n, len(signals)),
        "predicted": (n, len(signals)),
        "impulse_residual": (n, None),
        "multipliers": (n, None),
        "friction": (n, None),
        "sticks": (n, None),
    }
    return Trajectory(*heading, *(_shaped(arrays, key, shapes[key]) for key in ALONG))


def _shaped(arrays: Arrays, name: str, shape: tuple[int | None, ...]) -> Array:
    """An array of numbers of the given shape, None where any length will do."""
    array = arrays[name]
    if array.dtype.kind != "f" or array.ndim != len(shape):
        raise ValueError(f"{name!r} is an array of {array.dtype} of shape {array.shape}")
    if any(wanted not in (None, length) for wanted, length in zip(shape, array.shape, strict=True)):
        raise ValueError(f"{name!r} has shape {array.shape}")
    return array.astype(np.float64, copy=False)


def _read(kind: type[T], node: Mapping[str, Any]) -> T:
    """A dataclass from what stands under the names of its fields."""
    return kind(**{name: _value(hint, node[name]) for name, hint in get_type_hints(kind).items()})


def _perhaps(kind: type[T], node: Mapping[str, Any] | None) -> T | None:
    return None if node is None else _read(kind, node)


def _value(hint: Any, node: Any) -> Any:
    """What stands at a node, for a field of that type: a dataclass, a tuple, or what ``_READERS`` know."""
    if isinstance(hint, type) and is_dataclass(hint):
        return _read(hint, node)
    if get_origin(hint) is not tuple:
        return _READERS[hint](node)
    kinds = get_args(hint)
    if isinstance(kinds[-1], EllipsisType):
        return tuple(_value(kinds[0], n) for n in node)
    return tuple(_value(kind, n) for kind, n in zip(kinds, node, strict=True))


def _numbers(node: Mapping[str, Any]) -> dict[str, float]:
    return {name: _number(value) for name, value in node.items()}


def _texts(node: Mapping[str, Any]) -> dict[str, str]:
    return {name: _text(value) for name, value in node.items()}


def _number(value: Any) -> float:
    if value is None:
        return math.nan
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{value!r} is no number")
    return float(value)


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{value!r} is no whole number")
    return value


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{value!r} is neither true nor false")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


_READERS: Mapping[Any, Callable[[Any], Any]] = {
    str: _text,
    float: _number,
    int: _whole,
    bool: _truth,
    Status: Status,
    Mapping[str, float]: _numbers,
}
"""Of the types that fields have."""
