"""The inside of what ``test_friction_forms`` tests."""

from __future__ import annotations

from typing import Any

import numpy as np
from test_friction_forms import twin

from spookid import Status
from spookid.assembly.assembly import assemble
from spookid.estimation.fitting import warm
from spookid.estimation.identifiability import a_posteriori
from spookid.solvers import ipopt
from spookid.solvers.neighbouring_pieces import ActiveSet
from spookid.solvers.reduced_problem import ReducedProblem
from spookid.transcription.parameter_constraints import FreeDirections


def test_pairs_leave_the_errors_that_exact_friction_leaves():
    """At one motion both laws hold the same rows: of a pair the smaller member, not both."""
    problem = twin()
    sticking = problem.solve(friction="exact")
    (scale,) = assemble(problem.with_(friction="exact")).widths
    errors = []
    for form in ("exact", "mpcc"):
        assembly = assemble(problem.with_(friction=form, friction_width=float(scale)))
        point = warm(assembly, sticking, {})
        if form == "exact":
            point = ActiveSet(ReducedProblem(assembly.transcription, point)).start(point)
        identifiability = a_posteriori(assembly, point, FreeDirections(np.zeros(2, dtype=bool)))
        assert identifiability.condensed is not None
        errors.append((identifiability.condensed.freedom, *identifiability.sensitivities.standard_errors))
    assert np.all(np.isfinite(errors))
    np.testing.assert_allclose(errors[1], errors[0], rtol=1e-3)


def test_exact_friction_has_the_default_width():
    exact, smooth = (assemble(twin(friction=form)).widths for form in ("exact", "smooth"))
    np.testing.assert_array_equal(exact, smooth)
    np.testing.assert_array_equal(assemble(twin(friction="exact", friction_width=1e-5)).widths, exact)


def test_the_iteration_limit_ends_all_pieces(monkeypatch):
    calls: list[Any] = []
    stage = ipopt._Run._stage
    monkeypatch.setattr(ipopt._Run, "_stage", lambda run, held: calls.append(held) or stage(run, held))
    start = twin().solve(friction="exact")
    solution = twin().solve(backend="ipopt", friction="mpcc", warm_start=start, initial={"c": 0.5}, max_iterations=2)
    assert (len(calls), solution.status) == (1, Status.MAX_ITERATIONS)
