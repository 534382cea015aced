"""What stands in the files of a result folder: a Solution as a tree that JSON can hold and named arrays.

JSON knows no NaN and no infinity: both are null. A null is read as NaN unless its path stands under the key
``infinities``, whose value there is the sign; so nothing is lost, and under a number's key stands a number or null.

Reading raises KeyError for an array that is missing, and TypeError or ValueError for what is wrong.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any, TypeAlias, get_args, get_type_hints

import msgspec
import numpy as np
from numpy.typing import NDArray

from spookid.kernels.arrays import Array
from spookid.records import dataclass
from spookid.results.folders import SCHEMA, Tree, plain_tree, with_nan
from spookid.results.result import Derived, Disturbance, Estimate, IterationRecord, Noise, Solution
from spookid.results.trajectory import MeasuredPoses, Trajectory
from spookid.statistics.sensitivities import Influence, Seen, Sensitivities
from spookid.statistics.weak_directions import WeakDirection

Arrays: TypeAlias = Mapping[str, NDArray[Any]]

# Shapes by letters: N steps, o signals, F frames, n free parameters, f fixed ones, digits as they are, any length under
# "*".
_ALONG = {"t": "N", "q": "N*7", "v": "N*6", "observed": "No", "samples": "No", "predicted": "No"} | dict.fromkeys(
    ("impulse_residual", "multipliers", "friction", "sticks"), "N*"
)
"""Arrays of a Trajectory; the file has ``t_0`` for the first."""
_BETWEEN = {"squares": "No", "largest": "No", "drive": "N*", "touches": "N*3", "ratios": "N*"}
"""Those that older folders do not have."""
_MEASURED = {"frames": ("frames", "F"), "poses": ("measured", "F*7")}
"""Those of MeasuredPoses."""
_DISTURBANCE = {
    "t": ("disturbance_t", "N"),
    "value": ("disturbance", "Nn"),
    "std_err": ("disturbance_std_err", "Nn"),
}
"""Arrays of a `Disturbance`; older folders have none."""
_SENSITIVITIES = {
    "covariance": ("covariance", "nn"),
    "covariance_sandwich": ("covariance_sandwich", "nn"),
    "factor": ("T", "nn"),
    "dispersion": ("dispersion", "n"),
    "inflation": ("inflation", "*"),
}
"""Arrays of Sensitivities, and their names in the file."""
_SEEN = {
    "covariance": ("seen_covariance", "nn"),
    "scatter": ("seen_scatter", "nn"),
    "hidden": ("unseen_directions", "*n"),
    "magnitudes": ("magnitudes", "n"),
    "priors": ("seen_priors", "nn"),
}
"""Arrays of what is seen of combinations; folders that are older have none, or not all."""
_INFLUENCE = {
    "state_weight": ("d_state_weight", "n"),
    "step": ("d_step", "n"),
    "step_error": ("step_error", "n"),
    "fixed": ("d_fixed", "fn"),
}
"""Arrays of an Influence."""
_STRETCHES = {"observations": ("d_observed", "*on"), "edges": ("stretch_edges", "*"), "stretches": ("d_stretch", "*n")}
"""Those of each recording."""
_LATER = ("physical", "joints", "base_parameters", "constraints", "friction_widths")
"""Mappings that older folders do not have."""
_OPTIONAL = ("choice", "efforts", "mechanism", "periods", "point", "robot", "turn")
"""Keys whose null is no number that is not known."""


def _fields(kind: type, names: Mapping[str, str] | None, without: tuple[str, ...] = ()) -> Any:
    """A type that demands those fields of a dataclass, some by other keys in the file, but for those that may be
    None."""
    hints = [(name, hint) for name, hint in get_type_hints(kind).items() if name not in without]
    fields = [(name, hint, None) if type(None) in get_args(hint) else (name, hint) for name, hint in hints]
    return msgspec.defstruct(kind.__name__, fields, rename=names, kw_only=True)


_Answer = _fields(
    Solution,
    {"times": "timing_s"},
    ("sensitivities", "influence", "trajectories", "disturbance", "measured", "normaliser", "clocks"),
)
_Heading = _fields(Trajectory, None, (*_ALONG, *_BETWEEN))
_Disturbed = _fields(Disturbance, None, tuple(_DISTURBANCE))


class _Known(msgspec.Struct):
    """Fields of Sensitivities."""

    reasons: dict[str, str]
    singular_values: list[float]
    weak: tuple[WeakDirection, ...] = msgspec.field(name="weak_directions")
    noise: dict[str, float]
    at: dict[str, float] = {}


# --- writing ---


def document(solution: Solution) -> Tree:
    """Content of ``solution.json``: all fields except arrays; every number is finite or None."""
    s, sensitivities = solution, solution.sensitivities
    tree = {
        "schema": SCHEMA,
        **{name: getattr(s, name) for name in ("problem", "backend", "stepper", "friction", "step", "state_weight")},
        **{name: getattr(s, name) for name in ("dynamics", "log_likelihood", "choice", "status", "message", "detail")},
        "contradicted": s.contradicted,
        "noise": _noise(s.noise),
        "friction_widths": s.friction_widths,
        "iterations": s.iterations,
        "cost": {"total": s.cost.total, **asdict(s.cost)},
        "history": [_step(step) for step in s.history],
        "parameters": {n: {k: x for k, x in one.items() if k != "name"} for n, one in _derived(s.parameters).items()},
        "physical": _derived(s.physical),
        "joints": _derived(s.joints),
        "base_parameters": _derived(s.base_parameters),
        "constraints": s.constraints,
        "identifiability": {
            "singular_values": sensitivities.singular_values,
            "weak_directions": sensitivities.weak,
            "reasons": sensitivities.reasons,
            "noise": sensitivities.noise,
            "at": sensitivities.at,
        },
        "complementarity": {"max_residual": s.complementarity_residual, "sticking": s.sticking},
        "size": s.size,
        "timing_s": s.timing,
        "versions": s.versions,
        "recordings": [{name: getattr(t, name) for name in _Heading.__struct_fields__} for t in s.trajectories],
        "disturbance": [{name: getattr(d, name) for name in _Disturbed.__struct_fields__} for d in s.disturbance],
        "findings": [{**asdict(f), "severity": f.severity, "text": f.text} for f in s.findings],
        "notices": s.notices,
        "outliers": s.outliers,
        "stages": s.stages,
        "basins": s.basins,
        "mechanism": s.mechanism,
        "source": s.source,
    }
    bare = plain_tree(tree)
    infinities = {path: 1 if x > 0 else -1 for path, x in _leaves(bare) if isinstance(x, float) and math.isinf(x)}
    return {**bare, "infinities": infinities}


def trajectory_arrays(solution: Solution) -> dict[str, Any]:
    """Content of ``trajectory.npz``."""
    every = (*_ALONG, *_BETWEEN)
    along = {f"{name}_{i}": getattr(t, name) for i, t in enumerate(solution.trajectories) for name in every}
    along = {key: array for key, array in along.items() if array is not None}
    others = [(_DISTURBANCE, solution.disturbance), (_MEASURED, solution.measured)]
    return along | {
        f"{key}_{i}": getattr(one, name)
        for names, several in others
        for i, one in enumerate(several)
        for name, (key, _) in names.items()
    }


def sensitivity_arrays(solution: Solution) -> dict[str, Any]:
    """Content of ``sensitivities.npz``: ``T`` is the triangular factor of the contracted Jacobian; names that begin
    with d are derivatives of the estimates along their last axis."""
    sensitivities, influence, seen = solution.sensitivities, solution.influence, solution.sensitivities.seen
    along = {key: getattr(influence, name) for name, (key, _) in _STRETCHES.items()}
    return {
        "names": np.array(sensitivities.names, dtype=np.str_),
        "correlation": sensitivities.correlation,
        **{key: getattr(sensitivities, name) for name, (key, _) in _SENSITIVITIES.items()},
        **({} if seen is None else {key: getattr(seen, name) for name, (key, _) in _SEEN.items()}),
        **({} if seen is None else {"raised_from": np.array([seen.raised_from])}),
        "fixed_names": np.array(influence.fixed_names, dtype=np.str_),
        **{key: getattr(influence, name) for name, (key, _) in _INFLUENCE.items()},
        **{f"{key}_{i}": array for key, arrays in along.items() for i, array in enumerate(arrays)},
        **({} if solution.normaliser is None else {"normaliser": solution.normaliser}),
    }


def _noise(noise: tuple[Noise, ...]) -> Tree:
    """By hinge, free body or signal."""
    tree: Tree = {"disturbance": {}, "sensors": {}}
    for size in noise:
        node = asdict(size)
        place = tree["disturbance" if node.pop("kind") == "disturbance" else "sensors"]
        place |= dict.fromkeys(size.names, node)
    return tree


def _derived(values: Mapping[str, Derived | Estimate]) -> Tree:
    return {name: {**asdict(one), "known_from": one.known_from} for name, one in values.items()}


def _step(step: IterationRecord) -> Tree:
    node = asdict(step)
    return {"total": step.cost.total, **node.pop("cost"), **node}


def _leaves(node: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """What a tree of Python's own types holds, by path, as JSON pointers spell it (RFC 6901)."""
    if isinstance(node, (dict, list, tuple)):
        for key, value in node.items() if isinstance(node, dict) else enumerate(node):
            escaped = str(key).replace("~", "~0").replace("/", "~1")
            yield from _leaves(value, f"{path}/{escaped}" if path else escaped)
    else:
        yield path, node


# --- reading ---


def _restored(tree: Tree) -> Tree:
    """``tree`` with NaN and infinite numbers back in their places."""
    for path, sign in tree["infinities"].items():
        *way, last = (key.replace("~1", "/").replace("~0", "~") for key in path.split("/"))
        node: Any = tree
        for key in way:
            node = node[int(key) if isinstance(node, list) else key]
        node[int(last) if isinstance(node, list) else last] = math.copysign(math.inf, sign)
    return dict(with_nan(tree, but=_OPTIONAL))


@dataclass(frozen=True, eq=False)
class Head:
    """Part of a Solution that ``solution.json`` contains."""

    schema: int
    answer: Any
    recordings: list[Any]
    disturbances: list[Any]
    known: _Known


def head_of(tree: Tree) -> Head:
    """Read a Head from the content of ``solution.json``; this content is modified."""
    whole = _restored(tree)
    if whole["dynamics"] not in ("estimated", "hard", "weight"):
        raise ValueError(f"its dynamics are {whole['dynamics']!r}")
    if len({len(one["signals"]) for one in whole["recordings"]}) > 1:
        raise ValueError("its recordings have other numbers of signals")
    moved = {frozenset(step["parameters"]) for step in whole["history"]}
    if len(moved) > 1 or any(names - whole["parameters"].keys() for names in moved):
        raise ValueError("its history has other parameters")
    return Head(
        tree["schema"],
        msgspec.convert(_regrouped(whole), _Answer),
        msgspec.convert(whole["recordings"], list[_Heading]),  # type: ignore[valid-type]
        msgspec.convert(whole.get("disturbance", []), list[_Disturbed]),  # type: ignore[valid-type]
        msgspec.convert(whole["identifiability"], _Known),
    )


def motions_of(head: Head, arrays: Arrays) -> Tree:
    """Read trajectories, process noise and measured poses from the content of ``trajectory.npz``."""
    count = range(len(head.recordings))
    if head.schema == 1:  # at first only samples at the steps counted
        arrays = {**{f"samples_{i}": np.isfinite(arrays[f"observed_{i}"]).astype(float) for i in count}, **arrays}
    found = []
    for i, heading in enumerate(head.disturbances):
        sizes = {"N": len(arrays[f"disturbance_t_{i}"]), "n": len(heading.labels)}
        parts = _parts(_DISTURBANCE, arrays, sizes, f"_{i}")
        found.append(Disturbance(**msgspec.structs.asdict(heading), **parts))
    has_poses = any(key.startswith("frames_") for key in arrays)  # schema 1 had none
    return {
        "trajectories": tuple(_trajectory(heading, i, arrays) for i, heading in enumerate(head.recordings)),
        "disturbance": tuple(found),
        "measured": tuple(MeasuredPoses(**_parts(_MEASURED, arrays, {}, f"_{i}")) for i in count if has_poses),
    }


def solution_of(head: Head, motions: Tree, arrays: Arrays) -> Solution:
    """Build the Solution from the tree that `document` returned and the arrays of ``sensitivities.npz``."""
    return Solution(
        **msgspec.structs.asdict(head.answer),
        **motions,
        sensitivities=_sensitivities(head.known, arrays),
        influence=_influence([len(heading.signals) for heading in head.recordings], arrays),
        normaliser=_shaped(arrays, "normaliser", "*", {}) if "normaliser" in arrays else None,
    )


def _regrouped(tree: Tree) -> Tree:
    """What the file has by name or side by side, as the fields of a Solution have it."""
    kinds = (("disturbance", tree["noise"]["disturbance"]), ("sensor", tree["noise"]["sensors"]))
    sizes = [{**node, "kind": kind} for kind, nodes in kinds for node in nodes.values()]
    once = {(size["kind"], *size["names"]): size for size in sizes}  # each stands under every name it belongs to
    return {
        **tree,
        "noise": list(once.values()),
        "history": [{**node, "cost": node} for node in tree["history"]],
        "parameters": {name: {**node, "name": name} for name, node in tree["parameters"].items()},
        # folders that are older have none
        **{name: tree.get(name, {}) for name in _LATER},
        "source": tree.get("source", ""),
        **{name: tree.get(name, []) for name in ("outliers", "stages", "basins")},
        "findings": tree.get("findings") or [{"code": "result.earlier", "effect": text} for text in tree["notices"]],
        "complementarity_residual": tree["complementarity"]["max_residual"],
        "sticking": tree["complementarity"]["sticking"],
    }


def _trajectory(heading: Any, place: int, arrays: Arrays) -> Trajectory:
    sizes = {"N": len(arrays[f"t_{place}"]), "o": len(heading.signals)}
    shapes = {**_ALONG, **{name: shape for name, shape in _BETWEEN.items() if f"{name}_{place}" in arrays}}
    parts: dict[str, Any] = {name: _shaped(arrays, f"{name}_{place}", shape, sizes) for name, shape in shapes.items()}
    if len(heading.units) != len(heading.signals):
        raise ValueError(f"recording {place} has {len(heading.units)} units for {len(heading.signals)} signals")
    if any(np.any(parts[name] < 0) for name in ("samples", "squares") if name in parts):
        raise ValueError(f"recording {place}: the sample count or the sum of squares of a sensor is negative")
    if not np.all(np.isfinite(parts["samples"])):
        raise ValueError(f"recording {place}: the sample count of a sensor is NaN or infinite")
    return Trajectory(**msgspec.structs.asdict(heading), **parts)


def _sensitivities(known: _Known, arrays: Arrays) -> Sensitivities:
    names = _names(arrays, "names")
    values = np.array(known.singular_values, dtype=np.float64)
    facts = {**msgspec.structs.asdict(known), **_parts(_SENSITIVITIES, arrays, {"n": len(names)})}
    return Sensitivities(**{**facts, "names": names, "singular_values": values, "seen": _seen(arrays, len(names))})


def _seen(arrays: Arrays, count: int) -> Seen | None:
    if "seen_covariance" not in arrays:
        return None
    raised_from = float(_shaped(arrays, "raised_from", "1", {})[0])
    whole = {"seen_priors": np.full((count, count), np.nan), **arrays}
    return Seen(**_parts(_SEEN, whole, {"n": count}), raised_from=raised_from)


def _influence(signals: list[int], arrays: Arrays) -> Influence:
    fixed = _names(arrays, "fixed_names")
    sizes = {"n": len(arrays["names"]), "f": len(fixed)}
    along: dict[str, Any] = {
        name: tuple(_shaped(arrays, f"{key}_{i}", shape, {**sizes, "o": o}) for i, o in enumerate(signals))
        for name, (key, shape) in _STRETCHES.items()
    }
    return Influence(fixed_names=fixed, **along, **_parts(_INFLUENCE, arrays, sizes))


def _parts(
    names: Mapping[str, tuple[str, str]], arrays: Arrays, sizes: Mapping[str, int], end: str = ""
) -> dict[str, Any]:
    return {name: _shaped(arrays, key + end, shape, sizes) for name, (key, shape) in names.items()}


def _names(arrays: Arrays, name: str) -> tuple[str, ...]:
    return msgspec.convert(arrays[name].tolist(), tuple[str, ...])


def _shaped(arrays: Arrays, name: str, shape: str, sizes: Mapping[str, int]) -> Array:
    """An array of numbers of that shape."""
    array = arrays[name]
    if array.dtype.kind != "f" or array.ndim != len(shape):
        raise ValueError(f"{name!r} is an array of {array.dtype} of shape {array.shape}")
    wanted = [int(letter) if letter.isdigit() else sizes.get(letter) for letter in shape]
    if any(size not in (None, length) for size, length in zip(wanted, array.shape, strict=True)):
        raise ValueError(f"{name!r} has shape {array.shape}")
    return array.astype(np.float64, copy=False)
