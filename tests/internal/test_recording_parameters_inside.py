"""The inside of what ``test_recording_parameters`` tests."""

from __future__ import annotations

import math

import casadi as ca
import numpy as np
import pytest
from test_recording_parameters import TOOLS, G, arm, declared, recordings

from spookid import (
    Body,
    HingeAngle,
    LevenbergMarquardt,
    Model,
    Parameter,
    Problem,
    ProblemError,
    Recording,
    gravity,
)
from spookid.assembly.assembly import assemble
from spookid.estimation.fitting import fit
from spookid.stepping.impulses import Settings
from spookid.stepping.joint_space import PoseSpace
from spookid.studies.sweep_points import axis
from spookid.studies.variants import Variant

# --- estimates ---


def side_by_side() -> Problem:
    """Both recordings as one of two arms that have nothing to do with each other, each with a tool of its own."""
    inertia, viscous = Parameter("J", 0.03, lower=1e-4), Parameter("b", 0.02, lower=0)
    parts = []
    for i, name in enumerate(TOOLS):
        parts.append(arm(Parameter(f"m_{name}", 0.5, lower=0), inertia, viscous, name, f"u_{i}"))
    bodies, hinges, motors = (list(column) for column in zip(*parts, strict=True))
    signals = {f"{key}_{i}": r.signals[key] for i, r in enumerate(recordings()) for key in ("theta", "u")}
    return Problem(
        "two arms",
        model=Model(bodies, hinges, motors, gravity=gravity(G)),
        recordings=[Recording(t=recordings()[0].t, signals=signals)],
        observations=[HingeAngle(hinge, signal=f"theta_{i}") for i, hinge in enumerate(hinges)],
    )


@pytest.mark.parametrize("weight", [1e4, math.inf])
def test_optimum_and_covariance_are_those_of_plain_parameters_by_hand(weight):
    own, plain = declared(state_weight=weight).problem, side_by_side().with_(state_weight=weight)
    solution, by_hand = own.solve(), plain.solve()
    assert solution.cost.total == pytest.approx(by_hand.cost.total, rel=1e-7)
    pairs = {"m_tool[empty]": "m_empty", "m_tool[loaded]": "m_loaded", "J": "J", "b": "b"}
    for name, other in pairs.items():
        assert solution[name].estimate == pytest.approx(by_hand[other].estimate, rel=1e-5)
    found, expected = (_inverse(problem, list(names)) for problem, names in ((own, pairs), (plain, pairs.values())))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def _inverse(problem: Problem, names: list[str]) -> np.ndarray:
    """That of the information in the parameters at the solution, scaled to shares of the first one's errors."""
    done = fit(problem, LevenbergMarquardt(), None)
    gain, places = done.identifiability.analysis.gain, [p.name for p in problem.free]
    order = [places.index(name) for name in names]
    scale = np.sqrt(np.diag(gain))[order]
    return np.vstack([gain[np.ix_(order, order)] / np.outer(scale, scale), scale])


def test_jacobians_and_gradients_by_any_kernel(engine):
    """Columns against differences; that of another recording's parameter is zero."""
    problem = declared(state_weight=1e4).problem
    assembly = assemble(problem)
    transcription, point = assembly.transcription, assembly.start
    for c in range(2):
        for factor in transcription.factors:
            block = transcription.linearize_factor(factor, point, c).matrix
            columns = block[:, -5:-1]
            assert not np.any(columns[:, 1 - c])
            for p in range(4):
                sides = []
                for side in (1e-6, -1e-6):
                    moved = point.parameters.copy()
                    moved[p] += side
                    sides.append(transcription.residuals(type(point)(point.states, moved))[c])
                i = transcription.factors.index(factor)
                np.testing.assert_allclose(columns[:, p], (sides[0][i] - sides[1][i]) / 2e-6, rtol=1e-5, atol=1e-6)


def test_those_of_other_recordings_are_no_nonzeros():
    per_recording = assemble(declared(state_weight=1e4).problem).transcription
    shared = assemble(declared(None, state_weight=1e4).problem).transcription
    assert per_recording.nonzeros == shared.nonzeros


def test_models_without_them_are_what_they_were():
    problem = declared(None).problem
    transcription = assemble(problem).transcription
    assert not problem.parameter_set.own
    assert all(problem.parameter_set.written(factor) is factor for factor in transcription.factors)
    assert transcription.numbers(0) is transcription.constants
    assert transcription.shared[1].numel() == len(transcription.constants)


# --- studies ---


def test_sweeps_know_their_names():
    assert axis("m_tool[run 1]=0.1,0.2").name == "m_tool[run 1]"
    with pytest.raises(ProblemError, match="is no axis"):
        axis("m_tool[=0.1,0.2")
    variant = Variant(initial={"m_tool": 0.4}).at({"m_tool[empty]": 0.3}, declared().problem)
    problem, _, _ = variant.posed(declared(initial={"m_tool[loaded]": 0.9}).problem)
    assert problem.guess == {"m_tool[empty]": 0.3, "m_tool[loaded]": 0.4, "J": 0.03, "b": 0.02}
    assert [p.name for p in problem.free] == ["m_tool[loaded]", "J", "b"]


# --- known starts ---


def test_velocity_at_the_start_is_of_second_order():
    """Of a turn with constant angular acceleration about a fixed axis, and of free fall."""
    model = Model([Body("stone", mass=1.0, inertia=(1, 1, 1), free=True)], [], gravity=gravity(0.0))
    errors = []
    for h in (0.02, 0.01):
        settings = Settings.of(model)
        window = PoseSpace().first_window(model, settings, 1)
        t = h * np.arange(3)
        angle, height = 0.3 + 0.5 * t + 0.8 * t**2 + 0.9 * t**3, 0.4 * t - 4.9 * t**2 + 2 * t**3
        zero = np.zeros(3)
        poses = np.column_stack([zero, zero, height, np.cos(angle / 2), np.sin(angle / 2), zero, zero])
        value = ca.Function("v", [*window.variables.values(), settings.step], [window.motion.v])
        errors.append(np.ravel(value(*poses, h).full()) - [0, 0, 0.4, 0.5, 0, 0])
    fine = np.abs(errors[1])
    assert np.all(fine[[2, 3]] > 1e-5)
    np.testing.assert_allclose(np.abs(errors[0])[[2, 3]] / fine[[2, 3]], 4, rtol=0.05)
    np.testing.assert_allclose(fine[[0, 1, 4, 5]], 0, atol=1e-12)
