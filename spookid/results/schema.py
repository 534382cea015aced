"""What stands in the files of a result folder: a Result as a tree that JSON can hold and named arrays.

JSON knows no NaN and no infinity: both are null. A null is read as NaN (``schema_reading``) unless its path stands
under the key ``infinities``, whose value there is the sign; so nothing is lost, and under a number's key stands a
number or null.
"""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any, TypeAlias

import numpy as np

from spookid.results.result import Cost, Estimate, Noise, Result, Step
from spookid.statistics.covariance import Sensitivities

SCHEMA = 1
"""Version of the layout."""

Tree: TypeAlias = dict[str, Any]

ALONG = ("t", "q", "v", "observed", "predicted", "impulse_residual", "multipliers", "friction", "sticks")
"""Arrays of a Trajectory; the file has them as ``t_0`` for the first recording, and so on."""


def document(solution: Result) -> Tree:
    """Content of ``solution.json``: all but the arrays; every number is finite or None."""
    tree = {
        "schema": SCHEMA,
        "problem": solution.problem,
        "backend": solution.backend,
        "stepper": solution.stepper,
        "friction": solution.friction,
        "step": solution.step,
        "state_weight": solution.state_weight,
        "dynamics": solution.dynamics,
        "log_likelihood": solution.log_likelihood,
        "noise": _noise(solution.noise),
        "choice": None if solution.choice is None else asdict(solution.choice),
        "status": solution.status.value,
        "message": solution.message,
        "detail": solution.detail,
        "iterations": solution.iterations,
        "cost": _cost(solution.cost),
        "history": [_step(step) for step in solution.history],
        "parameters": {name: _estimate(p) for name, p in solution.parameters.items()},
        "identifiability": _identifiability(solution.sensitivities),
        "complementarity": {"max_residual": solution.complementarity_residual, "sticking": dict(solution.sticking)},
        "size": asdict(solution.size),
        "timing_s": asdict(solution.timing),
        "versions": dict(solution.versions),
        "recordings": [
            {"name": t.name, "signals": list(t.signals), "units": list(t.units), "periods": list(t.periods)}
            for t in solution.trajectories
        ],
        "notices": list(solution.notices),
        "mechanism": None if solution.mechanism is None else asdict(solution.mechanism),
    }
    infinities: dict[str, int] = {}
    return {**_plain(tree, "", infinities), "infinities": infinities}


def trajectory_arrays(solution: Result) -> dict[str, Any]:
    """Content of ``trajectory.npz``."""
    return {f"{name}_{i}": getattr(t, name) for i, t in enumerate(solution.trajectories) for name in ALONG}


def sensitivity_arrays(solution: Result) -> dict[str, Any]:
    """Content of ``sensitivities.npz``; ``T`` is the triangular factor of the contracted Jacobian.

    Names that begin with d are derivatives of the estimates, their last axis that of ``names``; see `Influence`.
    """
    knowledge, influence = solution.sensitivities, solution.influence
    along = {"d_observed": influence.observations, "stretch_edges": influence.edges, "d_stretch": influence.stretches}
    return {
        "names": np.array(knowledge.names, dtype=np.str_),
        "covariance": knowledge.covariance,
        "covariance_sandwich": knowledge.covariance_sandwich,
        "correlation": knowledge.correlation,
        "T": knowledge.factor,
        "dispersion": knowledge.dispersion,
        "inflation": knowledge.inflation,
        "d_state_weight": influence.state_weight,
        "d_step": influence.step,
        "step_error": influence.step_error,
        "fixed_names": np.array(influence.fixed_names, dtype=np.str_),
        "d_fixed": influence.fixed,
        **{f"{name}_{i}": array for name, arrays in along.items() for i, array in enumerate(arrays)},
        **({} if solution.normaliser is None else {"normaliser": solution.normaliser}),
    }


def _cost(cost: Cost) -> Tree:
    return {
        "total": cost.total,
        "state": cost.state,
        "observation": cost.observation,
        "prior": cost.prior,
        "residual": cost.residual,
    }


def _noise(noise: tuple[Noise, ...]) -> Tree:
    """By hinge, free body or signal."""
    tree: Tree = {"disturbance": {}, "sensors": {}}
    for size in noise:
        place = tree["disturbance" if size.kind == "disturbance" else "sensors"]
        node = {key: value for key, value in asdict(size).items() if key != "kind"}
        place |= {name: node for name in size.names}
    return tree


def _step(step: Step) -> Tree:
    return {
        "iteration": step.iteration,
        **_cost(step.cost),
        "damping": step.damping,
        "step_norm": step.step_norm,
        "parameters": dict(step.parameters),
    }


def _estimate(estimate: Estimate) -> Tree:
    tree = asdict(estimate)
    del tree["name"]  # it is the key
    return tree


def _identifiability(knowledge: Sensitivities) -> Tree:
    return {
        "singular_values": knowledge.singular_values.tolist(),
        "weak_directions": [
            {"singular_value": w.singular_value, "direction": dict(w.direction), "advice": w.advice}
            for w in knowledge.weak
        ],
        "reasons": dict(knowledge.reasons),
        "noise": dict(knowledge.noise),
    }


def _plain(node: Any, path: str, infinities: dict[str, int]) -> Any:
    """The tree in Python's own types, None for numbers that are not finite; infinite ones are noted with their sign."""
    if isinstance(node, dict):
        return {key: _plain(value, _join(path, key), infinities) for key, value in node.items()}
    if isinstance(node, (list, tuple)):
        return [_plain(value, _join(path, i), infinities) for i, value in enumerate(node)]
    if isinstance(node, np.generic):
        node = node.item()
    if isinstance(node, float) and not math.isfinite(node):
        if math.isinf(node):
            infinities[path] = 1 if node > 0 else -1
        return None
    return node


def _join(path: str, key: object) -> str:
    """Keys on the way to a number are ours or identifiers: none holds a slash."""
    return f"{path}/{key}" if path else str(key)
