"""What is known of parameters beforehand, as a factor that stands once per problem."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import casadi as ca

from spookid.assembly.declaration import Declaration
from spookid.assembly.parameter_set import ParameterSet
from spookid.mechanics.inertia import Belief
from spookid.mechanics.manifold import Manifold
from spookid.parameter import Parameter, own_name, stacked
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


def priors(problem: Declaration) -> tuple[Belief, ...]:
    """What is known beforehand of the free parameters, and of inertias that hang on them; those of which each recording
    has its own for each."""
    own = [Belief(p.name, p, *p.prior) for p in problem.free if p.prior is not None]
    known, free = problem.parameter_set, stacked(problem.free)
    of_bodies = [belief for belief in problem.model.beliefs for belief in _of_recordings(belief, known)]
    return (*own, *(belief for belief in of_bodies if ca.depends_on(belief.formula, free)))


def _of_recordings(belief: Belief, known: ParameterSet) -> list[Belief]:
    """One for each recording if it is another in each."""
    declared = [p for p in known.own if ca.depends_on(belief.formula, p)]
    if not declared:
        return [belief]
    symbols = ca.vertcat(*declared)
    return [
        replace(
            belief,
            title=own_name(belief.title, name),
            formula=ca.substitute(belief.formula, symbols, ca.vertcat(*(p.of(name) for p in declared))),
        )
        for name in known.recordings
    ]


def prior_factor(beliefs: Sequence[Belief], manifold: Manifold) -> Factor:
    """(value − mean)/sigma of what is known beforehand.

    It stands at the first step of each recording, without its unknowns in it. Its one datum is 1 in the recording that
    carries it and 0 in the others, where its rows are missing.
    """
    present = ca.SX.sym("present")
    return Factor(
        NAME,
        Group.PRIOR,
        ca.vertcat(*(present * belief.row for belief in beliefs)),
        {0: ca.SX.sym("x", manifold.ambient)},
        present,
        tuple(f"prior of {belief.title}" for belief in beliefs),
        first_only=True,
    )
