"""What is known of parameters beforehand, as a factor that stands once per problem."""

from __future__ import annotations

from collections.abc import Sequence

import casadi as ca

from spookid.mechanics.manifold import Manifold
from spookid.parameter import Parameter
from spookid.transcription.factor import Factor, Group

NAME = "prior"
NORMALISER = "normaliser"


def normaliser_factor(parameters: Sequence[Parameter], manifold: Manifold) -> tuple[Factor, ca.SX]:
    """What a likelihood's normaliser does to parameters θ near θ₀, as a square.

        (c + vᵀ(θ − θ₀))²/c = c + 2 vᵀ(θ − θ₀) + …

    Without it a fit at given noise would scale all inertias and forces down. It stands like a prior; its symbols are
    θ₀, v and c, one below the other.
    """
    n, present = len(parameters), ca.SX.sym("present")
    numbers = ca.SX.sym("normaliser", 2 * n + 1)
    at, slope, weight = ca.vertsplit(numbers, [0, n, 2 * n, 2 * n + 1])
    row = present * (weight + ca.dot(slope, ca.vertcat(*parameters) - at)) / ca.sqrt(weight)
    variables = {0: ca.SX.sym("x", manifold.ambient)}
    factor = Factor(NORMALISER, Group.PRIOR, row, variables, present, (NORMALISER,), first_only=True)
    return factor, numbers


def prior_factor(parameters: Sequence[Parameter], manifold: Manifold) -> Factor:
    """(value − mean)/sigma of those parameters that have a prior.

    It stands at the first step of each recording, without its unknowns in it. Its one datum is 1 in the recording that
    carries it and 0 in the others, where its rows are missing.
    """
    present = ca.SX.sym("present")
    believed = [(p, *p.prior) for p in parameters if p.prior is not None]
    rows = [present * (p - mean) / sigma for p, mean, sigma in believed]
    return Factor(
        NAME,
        Group.PRIOR,
        ca.vertcat(*rows),
        {0: ca.SX.sym("x", manifold.ambient)},
        present,
        tuple(f"prior of {p.name}" for p, _, _ in believed),
        first_only=True,
    )
