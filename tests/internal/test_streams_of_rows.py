"""Jacobians that are computed whenever they are asked for, against those that are kept."""

from __future__ import annotations

import numpy as np
from mechanisms import furuta, paper_twin

from spookid import Parameter, Problem, Spook
from spookid.assembly.assembly import assemble
from spookid.kernels import kernel as kernels
from spookid.solvers import rows as streaming
from spookid.solvers.reduced_problem import ReducedProblem
from spookid.solvers.rows import Rows, Stream
from spookid.solvers.structured import normal_equations, pull_back
from spookid.statistics.condensing import linearize


def motion() -> Problem:
    J, b, c = Parameter("J", 0.003, lower=0), Parameter("b", 1e-3, lower=0), Parameter("c", 2e-3, lower=0)
    soft = {"compliance": 1e-3, "damping": 0.02}
    model = furuta(inertias=(J, 0.004, 0.004), shoulder={"viscous": b, **soft}, elbow={"coulomb": c, **soft})
    start = {"shoulder": (0.3, 2.0), "elbow": (2.0, -3.0)}
    truth = {"J": 0.003, "b": 1e-3, "c": 2e-3}
    problem = paper_twin(model, truth, initial=start, duration=0.6, noise=1e-3, friction_width=0.5)
    return problem.with_(stepper=Spook(), state_weight=1e4, initial={"J": 0.004, "b": 2e-3, "c": 1e-3})


def test_their_normal_equations_and_parts_are_those_of_the_kept_ones(engine, monkeypatch):
    monkeypatch.setattr(kernels, "CHUNK", 8)
    monkeypatch.setattr(streaming, "CHUNK", 8)
    assembly = assemble(motion())
    transcription, start = assembly.transcription, assembly.start
    rng, steps, n_p = np.random.default_rng(0), len(start.states[0]), len(transcription.names)
    reduced = ReducedProblem(transcription, start)
    streams, kept = reduced.linearize(start, 0)[0], reduced.linearize(start, 0, kept=True)[0]
    assert all(isinstance(rows, Stream) for rows in streams)
    assert all(isinstance(rows, Rows) for rows in kept)
    found, expected = (normal_equations(rows, steps, reduced.tangent, n_p) for rows in (streams, kept))
    for name in ("band", "border", "corner"):
        one, two = getattr(found, name), getattr(expected, name)
        np.testing.assert_allclose(one, two, rtol=1e-12, atol=1e-13 * np.abs(two).max())
    others = [rng.normal(size=(len(rows.matrix), rows.matrix.shape[2])) for rows in kept]
    for one, two in zip(*(pull_back(rows, others, steps, reduced.tangent) for rows in (streams, kept)), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-10, atol=1e-12 * np.abs(two).max())
    longest = max(range(len(kept)), key=lambda i: kept[i].matrix.size)
    for begin in (0, 5, steps - 2):
        parts = [(first, part.copy()) for first, part in streams[longest].parts(begin)]
        assert parts[0][0] == begin
        np.testing.assert_array_equal(np.concatenate([part for _, part in parts]), kept[longest].matrix[begin:])


def test_scaled_ones_are_scaled_wherever_they_are_asked_for(engine, monkeypatch):
    monkeypatch.setattr(streaming, "NUMBERS", 4000)
    assembly = assemble(motion())
    for term in linearize(assembly.transcription, assembly.start).chains[0]:
        scales = np.random.default_rng(0).uniform(1, 9, size=term.source.shape[2])
        twice = term.scaled(scales).scaled(scales)
        whole = term.at(slice(None)).matrix * scales**2
        np.testing.assert_allclose(twice.at(slice(None)).matrix, whole, rtol=1e-14)
        for here, rows in twice.parts():
            np.testing.assert_allclose(rows.matrix, whole[here], rtol=1e-14)
