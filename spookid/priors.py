"""What is known of parameters beforehand, as a factor that stands once per problem."""

from __future__ import annotations

from collections.abc import Sequence

import casadi as ca

from spookid.factor import Factor, Group
from spookid.manifold import Manifold
from spookid.parameter import Parameter

NAME = "prior"


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
