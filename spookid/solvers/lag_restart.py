"""What a fixed-lag smoother remembers, as if its parameters had changed at the beginning of its window."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from spookid.kernels.kernel import Array
from spookid.solvers.fronts import Front, eliminate

_LOST = 1e-13
"""Share of the largest below which a direction is not known."""


def restarted(arrays: Mapping[str, Array], parameters: Array, gradient: Array, information: Array) -> dict[str, Array]:
    """``FixedLag.arrays()`` with other parameters from the oldest step of the window on.

    What has left the window tells nothing of the parameters from here on but what is given, and nothing of the states,
    hard rows excepted: if the parameters were others a little earlier already, what it told would be wrong.

    Args:
        arrays: of the smoother.
        parameters: where the new ones begin, (n_p,).
        gradient: Eᵀe of rows [E | e] that are known of the new ones beforehand, there, (n_p,).
        information: EᵀE, (n_p, n_p).
    """
    n = len(parameters)
    hard = _without_parameters(arrays, n)
    return {
        **arrays,
        "parameters": parameters.copy(),
        "first estimates": parameters[None].copy() if n else arrays["first estimates"],
        "waits": np.zeros_like(arrays["waits"]),
        "slopes": np.zeros((0, 0)),
        "carried soft": arrays["carried soft"][:0],
        "carried hard": hard,
        "carried linear": np.zeros_like(arrays["carried linear"]),
        "border soft": _rows(gradient, information),
        "border hard": arrays["border hard"][:0],
        "border linear": np.zeros(n),
        "score": np.zeros(n),
        "information": np.zeros((n, n)),
    }


def _without_parameters(arrays: Mapping[str, Array], n: int) -> Array:
    """Hard rows that are carried, of the states alone."""
    hard, states = arrays["carried hard"], len(arrays["carried linear"]) - n
    order = np.r_[states : states + n, :states, states + n]
    front = Front(np.zeros((0, states + n + 1)), hard[:, order], np.zeros(states + n))
    left = eliminate(front, n, n + states)[1].hard
    return np.insert(left, [states] * n, 0.0, axis=1)


def _rows(gradient: Array, information: Array) -> Array:
    """[E | e] with these products, (r, n_p + 1)."""
    scale = np.sqrt(np.maximum(information.diagonal(), np.finfo(float).tiny))
    sizes, along = np.linalg.eigh(information / np.outer(scale, scale))
    kept = sizes > _LOST * np.max(sizes, initial=0.0)
    roots = np.sqrt(sizes[kept])
    return np.column_stack([roots[:, None] * along[:, kept].T * scale, along[:, kept].T @ (gradient / scale) / roots])
