"""The content of a result folder's files, as ``schema`` describes it, back to a Solution.

All of it raises KeyError for what is missing, and TypeError or ValueError for what is wrong.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from spookid.influence import Influence
from spookid.kernels import Array
from spookid.mechanism import (
    BodyOutline,
    HingeOutline,
    Mechanism,
    MotorOutline,
    Quantity,
    SensorOutline,
    Vector,
)
from spookid.schema import ALONG, Tree
from spookid.solution import Cost, Estimate, Size, Solution, Step, Times, Trajectory
from spookid.solvers.status import Status
from spookid.uncertainty import Sensitivities, WeakDirection
from spookid.weight_choice import WeightChoice, WeightTrial

Arrays: TypeAlias = Mapping[str, NDArray[Any]]

Heading = tuple[str, tuple[str, ...], tuple[str, ...], tuple[float | None, ...]]
"""Name, observed signals, units and periods of a trajectory."""


def solution_of(
    tree: Tree, knowledge: Sensitivities, influence: Influence, trajectories: tuple[Trajectory, ...]
) -> Solution:
    """The Solution that ``document`` described; ``tree`` is ``restored``."""
    return Solution(
        **{name: _text(tree[name]) for name in ("problem", "backend", "stepper", "friction", "detail")},
        step=_number(tree["step"]),
        state_weight=_number(tree["state_weight"]),
        status=Status(tree["status"]),
        cost=_cost_of(tree["cost"]),
        history=tuple(_step_of(node) for node in tree["history"]),
        parameters={name: _estimate_of(name, node) for name, node in tree["parameters"].items()},
        sensitivities=knowledge,
        influence=influence,
        complementarity_residual=_number(tree["complementarity"]["max_residual"]),
        sticking={name: _number(share) for name, share in tree["complementarity"]["sticking"].items()},
        size=Size(**{f.name: _whole(tree["size"][f.name]) for f in fields(Size)}),
        times=Times(**{f.name: _number(tree["timing_s"][f.name]) for f in fields(Times)}),
        versions=_texts(tree["versions"]),
        trajectories=trajectories,
        notices=tuple(_text(notice) for notice in tree["notices"]),
        state_weight_choice=_choice_of(tree.get("state_weight_choice")),
        mechanism=_mechanism_of(tree.get("mechanism")),
    )


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
        "weak": tuple(
            WeakDirection(_number(w["singular_value"]), _numbers(w["direction"]), _text(w["advice"]))
            for w in node["weak_directions"]
        ),
        "noise": _numbers(node["noise"]),
    }


def sensitivities_of(identifiability: Tree, arrays: Arrays) -> Sensitivities:
    """The Sensitivities, from `identifiability_of` and the content of ``sensitivities.npz``."""
    names = tuple(_text(name) for name in arrays["names"].tolist())
    square = (len(names), len(names))
    return Sensitivities(
        names=names,
        covariance=_shaped(arrays, "covariance", square),
        bias=_shaped(arrays, "bias", (len(names),)),
        covariance_sandwich=_shaped(arrays, "covariance_sandwich", square),
        factor=_shaped(arrays, "T", square),
        dispersion=_shaped(arrays, "dispersion", (len(names),)),
        **identifiability,
    )


def influence_of(recordings: list[Heading], arrays: Arrays) -> Influence:
    """The Influence, from `recordings_of` and the content of ``sensitivities.npz``."""
    n, fixed = len(arrays["names"]), tuple(_text(name) for name in arrays["fixed_names"].tolist())
    places = range(len(recordings))
    return Influence(
        tuple(_shaped(arrays, f"d_observed_{i}", (None, len(recordings[i][1]), n)) for i in places),
        _shaped(arrays, "d_state_weight", (n,)),
        _shaped(arrays, "d_step", (n,)),
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


def _cost_of(node: Mapping[str, Any]) -> Cost:
    return Cost(**{f.name: _number(node[f.name]) for f in fields(Cost)})


def _choice_of(node: Mapping[str, Any] | None) -> WeightChoice | None:
    if node is None:
        return None
    curve = tuple(
        WeightTrial(**{n: _number(t[n]) for n in ("weight", "error", "state_share")}, status=Status(t["status"]))
        for t in node["curve"]
    )
    return WeightChoice(_text(node["criterion"]), _number(node["window"]), curve)


def _step_of(node: Mapping[str, Any]) -> Step:
    return Step(
        iteration=_whole(node["iteration"]),
        cost=_cost_of(node),
        damping=_number(node["damping"]),
        step_norm=_number(node["step_norm"]),
        parameters=_numbers(node["parameters"]),
    )


def _estimate_of(name: str, node: Mapping[str, Any]) -> Estimate:
    return Estimate(
        name=name,
        estimate=_number(node["estimate"]),
        std_err=_number(node["std_err"]),
        reason=_text(node["reason"]),
        initial=_number(node["initial"]),
        lower=_number(node["lower"]),
        upper=_number(node["upper"]),
        unit=_text(node["unit"]),
        at_bound=_truth(node["at_bound"]),
        fixed=_truth(node["fixed"]),
        bias=_number(node["bias"]),
        bias_reason=_text(node["bias_reason"]),
    )


def _mechanism_of(node: Mapping[str, Any] | None) -> Mechanism | None:
    if node is None:
        return None
    return Mechanism(
        bodies=tuple(
            BodyOutline(_text(n["name"]), _truth(n["free"]), _quantities_of(n["quantities"])) for n in node["bodies"]
        ),
        hinges=tuple(_hinge_of(n) for n in node["hinges"]),
        motors=tuple(
            MotorOutline(_text(n["hinge"]), _text(n["signal"]), _quantities_of(n["quantities"])) for n in node["motors"]
        ),
        sensors=tuple(
            SensorOutline(_text(n["signal"]), _text(n["title"]), _number(n["sigma"]), _text(n["unit"]))
            for n in node["sensors"]
        ),
        gravity=_vector_of(node["gravity"]),
    )


def _hinge_of(node: Mapping[str, Any]) -> HingeOutline:
    return HingeOutline(
        name=_text(node["name"]),
        parent=_text(node["parent"]),
        child=_text(node["child"]),
        parent_at=_vector_of(node["parent_at"]),
        child_at=_vector_of(node["child_at"]),
        axis=_vector_of(node["axis"]),
        quantities=_quantities_of(node["quantities"]),
    )


def _quantities_of(nodes: list[Mapping[str, Any]]) -> tuple[Quantity, ...]:
    return tuple(Quantity(_text(n["name"]), _text(n["formula"]), _number(n["value"]), _text(n["unit"])) for n in nodes)


def _vector_of(node: list[Any]) -> Vector:
    x, y, z = map(_number, node)
    return x, y, z


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
