"""Parameters of one recording: payloads, offsets and angles of release, beside those that all recordings share."""

from __future__ import annotations

import math
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from spookid import (
    GROUND,
    Body,
    Hinge,
    HingeAngle,
    Model,
    Motor,
    Observation,
    Parameter,
    Problem,
    ProblemError,
    Recording,
    Residual,
    Spook,
    Status,
    Variational,
    gravity,
    load,
    load_problem,
)
from spookid.__main__ import main

J, VISCOUS, REACH, G, MASS, CENTRE = 0.02, 0.03, 0.5, 9.81, 1.0, 0.25
TOOLS = {"empty": 0.3, "loaded": 0.8}
STEP, STRETCH, NOISE = 0.01, 20, 1e-3
QUICK: dict[str, Any] = {"estimator": "noise", "step_correction": False}
DOWN: dict[str, Any] = {"x": (0, 1, 0), "y": (0, 0, -1)}
ALONG: dict[str, Any] = {"x": (0, 1, 0), "y": (1, 0, 0)}


def swing(tool: float, start: float, inputs: np.ndarray) -> np.ndarray:
    """The angle of an arm with a tool at its tip, by its own equation; inputs are held over stretches of samples."""
    inertia, torque = J + MASS * CENTRE**2 + tool * REACH**2, (MASS * CENTRE + tool * REACH) * G
    state, angles = np.array([start, 0.0]), [start]
    for u in inputs:
        times = STEP * np.arange(1, STRETCH + 1)
        motion = solve_ivp(
            lambda t, x, u=u: [x[1], (u - VISCOUS * x[1] - torque * math.sin(x[0])) / inertia],
            (0, times[-1]),
            state,
            t_eval=times,
            rtol=1e-10,
            atol=1e-12,
        )
        state = motion.y[:, -1]
        angles += motion.y[0].tolist()
    return np.array(angles)


@cache
def recordings(offset: bool = False) -> tuple[Recording, ...]:
    """One with each tool, 2.4 s; with offsets of the sensor of 0.05 and 0.1 rad if asked for."""
    found = []
    for i, (name, tool) in enumerate(TOOLS.items()):
        rng = np.random.default_rng(i)
        inputs = rng.uniform(-2, 2, 12)
        angles = swing(tool, 1.0 - 0.3 * i, inputs)
        held = np.append(np.repeat(inputs, STRETCH), inputs[-1])
        measured = angles + NOISE * rng.standard_normal(len(angles)) + offset * 0.05 * (i + 1)
        t = STEP * np.arange(len(angles))
        found.append(Recording(t=t, signals={"theta": measured, "u": held}, name=name))
    return tuple(found)


def arm(tool: Any, inertia: Any, viscous: Any, name: str = "arm", signal: str = "u") -> tuple[Body, Hinge, Motor]:
    """A rod with a point mass at its tip as one body about their common centre of mass."""
    mass = MASS + tool
    centre = (MASS * CENTRE + tool * REACH) / mass
    moment = inertia + MASS * (CENTRE - centre) ** 2 + tool * (REACH - centre) ** 2
    body = Body(name, mass=mass, inertia=(1e-3, moment, moment))
    hinge = Hinge(f"{name} axle", GROUND.frame(**DOWN), body.frame(at=(-centre, 0, 0), **ALONG), viscous=viscous)
    return body, hinge, Motor(hinge, signal=signal, gain=1.0)


def declared(per: Any = "recording", prior: Any = None, **changes: Any) -> SimpleNamespace:
    """The problem, its parameters and its hinge."""
    tool = Parameter("m_tool", 0.5, lower=0, unit="kg", per=per, prior=prior)
    inertia, viscous = Parameter("J", 0.03, lower=1e-4), Parameter("b", 0.02, lower=0)
    body, hinge, motor = arm(tool, inertia, viscous)
    model = Model([body], [hinge], [motor], gravity=gravity(G))
    settings = {"recordings": recordings(), "observations": [HingeAngle(hinge, signal="theta")], **changes}
    return SimpleNamespace(problem=Problem("arm", model=model, **settings), tool=tool, hinge=hinge, model=model)


@cache
def fitted() -> SimpleNamespace:
    """The arm, noise estimated."""
    there = declared()
    return SimpleNamespace(**vars(there), solution=there.problem.solve())


# --- estimates ---


def test_payload_of_each_recording_is_found():
    solution = fitted().solution
    assert solution.status is Status.CONVERGED
    assert list(solution.parameters) == ["m_tool[empty]", "m_tool[loaded]", "J", "b"]
    truth = {"m_tool[empty]": 0.3, "m_tool[loaded]": 0.8, "J": J, "b": VISCOUS}
    for name, value in truth.items():
        estimate = solution[name]
        assert abs(estimate.estimate - value) < 3 * estimate.std_err, name
        assert estimate.std_err < 0.15 * value
    assert "m_tool[loaded]" in solution.summary()
    assert not any("disagree" in notice for notice in solution.notices)


def test_ipopt_agrees():
    problem = declared(state_weight=1e4).problem
    one, other = problem.solve(), problem.solve(backend="ipopt")
    for name in one.parameters:
        assert other[name].estimate == pytest.approx(one[name].estimate, rel=1e-5)
        assert other[name].std_err == pytest.approx(one[name].std_err, rel=1e-3)


def test_with_one_recording_they_are_plain_parameters():
    one = recordings()[:1]
    own, plain = (declared(per, recordings=one, **QUICK).problem.solve() for per in ("recording", None))
    for name, estimate in plain.parameters.items():
        same = own["m_tool[empty]" if name == "m_tool" else name]
        assert same.estimate == pytest.approx(estimate.estimate, rel=1e-9)
        assert same.std_err == pytest.approx(estimate.std_err, rel=1e-6)
    assert own.log_likelihood == pytest.approx(plain.log_likelihood, abs=1e-8)


def test_offset_of_a_sensor():
    there = declared()
    offset = Parameter("offset", 0.0, per="recording", unit="rad")
    sensor = Observation(lambda s: s.angle(there.hinge) + offset, "theta", period=2 * math.pi)
    solution = there.problem.with_(recordings=recordings(True), observations=[sensor], **QUICK).solve()
    for name, value in {"offset[empty]": 0.05, "offset[loaded]": 0.1}.items():
        assert abs(solution[name].estimate - value) < 3 * solution[name].std_err
        assert solution[name].std_err < 0.01


def test_each_has_its_own_prior():
    problem = declared(prior=(0.5, 0.01), state_weight=1e4).problem
    sensor = HingeAngle(problem.model.joints[0], signal="theta", sigma=NOISE)
    solution = problem.with_(observations=[sensor], state_weight=1e10).solve()
    tools = [solution[f"m_tool[{name}]"].estimate for name in TOOLS]
    assert tools[0] < 0.5 < tools[1]
    expected = sum(((tool - 0.5) / 0.01) ** 2 for tool in tools)
    assert solution.cost.prior == pytest.approx(expected, rel=1e-6)


# --- names ---


def test_guesses_and_fixed_of_one_and_of_all():
    problem = declared(initial={"m_tool": 0.4, "m_tool[loaded]": 0.7}, fixed=["m_tool[empty]"]).problem
    assert problem.guess == {"m_tool[empty]": 0.4, "m_tool[loaded]": 0.7, "J": 0.03, "b": 0.02}
    assert [p.name for p in problem.free] == ["m_tool[loaded]", "J", "b"]
    assert [p.name for p in problem.with_(fixed=["m_tool"]).free] == ["J", "b"]
    alone = problem.with_(recordings=recordings()[1:])
    assert alone.guess == {"m_tool[loaded]": 0.7, "J": 0.03, "b": 0.02}
    assert not alone.fixed
    assert list(declared(recordings=()).problem.guess) == ["m_tool", "J", "b"]


def test_some_are_fixed():
    problem = declared(initial={"m_tool[empty]": 0.3}, fixed=["m_tool[empty]"], state_weight=1e4).problem
    solution = problem.solve()
    assert solution["m_tool[empty]"].fixed
    assert solution["m_tool[empty]"].estimate == 0.3
    assert solution["m_tool[loaded]"].estimate == pytest.approx(0.8, abs=0.02)
    assert solution.influence.fixed.shape == (1, 3)
    more = problem.with_(initial={"m_tool[empty]": 0.302}).solve()
    changes = [more[name].estimate - solution[name].estimate for name in ("m_tool[loaded]", "J", "b")]
    np.testing.assert_allclose(0.002 * solution.influence.fixed[0], changes, rtol=0.1, atol=1e-5)


def test_values_of_expressions():
    there = fitted()
    solution, tool = there.solution, there.tool
    assert solution(tool, recording="loaded").estimate == solution["m_tool[loaded]"].estimate
    assert solution(2 * tool, recording="empty").std_err == pytest.approx(
        2 * solution["m_tool[empty]"].std_err, rel=1e-6
    )
    more = solution(tool.of("loaded") - tool.of("empty"))
    assert abs(more.estimate - 0.5) < 3 * more.std_err
    with pytest.raises(ProblemError, match=r"'m_tool', which has a value per recording; give recording="):
        solution(tool)
    with pytest.raises(ProblemError, match=r"contains 'm_tool\[full\]', which is no parameter"):
        solution(tool, recording="full")


def test_refusals():
    twice = [recordings()[0], recordings()[0]]
    with pytest.raises(ProblemError, match=r"several recordings named 'empty', each with its own 'm_tool'; give each"):
        declared(recordings=twice)
    declared(None, recordings=twice)
    with pytest.raises(
        ProblemError, match=r"no parameter 'm_tool\[full\]'; its parameters are m_tool\[empty\], m_tool\["
    ):
        declared(initial={"m_tool[full]": 1.0})
    with pytest.raises(ProblemError, match=r"Parameter 'm' has per='run'; give \"recording\" or leave it out"):
        Parameter("m", 1.0, per="run")  # type: ignore[arg-type]
    with pytest.raises(ProblemError, match=r"'m' is shared by all recordings; declare it with per=\"recording\""):
        Parameter("m", 1.0).of("empty")
    with pytest.raises(ProblemError, match=r"initial value -1.0 of parameter 'm_tool\[empty\]' is outside its bounds"):
        declared(initial={"m_tool[empty]": -1.0})


# --- studies ---


def test_simulation_takes_those_of_its_recording():
    problem = declared().problem
    known = {"m_tool[empty]": 0.3, "m_tool[loaded]": 0.8, "J": J, "b": VISCOUS}
    for i, measured in enumerate(recordings()):
        motion = problem.simulate(known, recording=i, initial={"arm axle": 1.0 - 0.3 * i})
        assert np.max(np.abs(motion.signals["theta"] - measured.signals["theta"])) < 6 * NOISE


def test_crossvalidation_estimates_them_anew():
    """What one recording tells of its tool says nothing of the other's."""
    study = declared(state_weight=1e4).problem.crossvalidate()
    assert study.converged
    assert [p.name for p in study.agreement.parameters] == ["J", "b"]
    assert study.score < 1.2 * study.cost


@pytest.fixture
def file(tmp_path):
    """A problem file beside its recordings."""
    for recording in recordings():
        rows = np.column_stack([recording.t, recording.signals["theta"], recording.signals["u"]])
        np.savetxt(tmp_path / f"{recording.name}.csv", rows, delimiter=",", header="t,theta,u", comments="")
    path = tmp_path / "arm.py"
    path.write_text(FILE)
    return path


FILE = '''"""An arm with one tool or another."""
from pathlib import Path
from spookid import GROUND, Body, Hinge, HingeAngle, Model, Motor, Parameter, Problem, Recording, gravity

m_tool = Parameter("m_tool", 0.5, lower=0, per="recording")
J, b = Parameter("J", 0.03, lower=1e-4), Parameter("b", 0.02, lower=0)
centre = (0.25 + m_tool * 0.5) / (1 + m_tool)
moment = J + (0.25 - centre) ** 2 + m_tool * (0.5 - centre) ** 2
rod = Body("arm", mass=1 + m_tool, inertia=(1e-3, moment, moment))
child = rod.frame(at=(-centre, 0, 0), x=(0, 1, 0), y=(1, 0, 0))
axle = Hinge("axle", GROUND.frame(x=(0, 1, 0), y=(0, 0, -1)), child, viscous=b)
problem = Problem(
    "arm", model=Model([rod], [axle], [Motor(axle, signal="u", gain=1.0)], gravity=gravity(9.81)),
    recordings=[Recording.from_csv(Path(__file__).parent / f"{name}.csv") for name in ("empty", "loaded")],
    observations=[HingeAngle(axle, signal="theta")], state_weight=1e4,
)
'''


@pytest.mark.study
def test_command_line(file, tmp_path, capsys):
    out = tmp_path / "out"
    given = ["--set", "m_tool=0.4", "m_tool[empty]=0.3", "--fix", "m_tool[empty]", "--out", str(out), "--quiet"]
    assert main(["solve", str(file), *given]) == 0
    parameters = load(out).parameters
    assert list(parameters) == ["m_tool[empty]", "m_tool[loaded]", "J", "b"]
    assert parameters["m_tool[empty]"].fixed
    assert parameters["m_tool[empty]"].estimate == 0.3
    assert parameters["m_tool[loaded]"].initial == 0.4
    tool = load_problem(file).parameter_set.declared[0]
    assert load(out)(tool, recording="loaded").std_err == pytest.approx(parameters["m_tool[loaded]"].std_err)
    assert (
        main(["simulate", str(file), "--from", str(out), "--set", "m_tool[loaded]=0.8", "--out", str(tmp_path / "s")])
        == 0
    )
    assert main(["check", str(file), "--fix", "m_tool[loaded]"]) == 0
    shown = capsys.readouterr().out
    assert "m_tool[loaded]  0.5" in shown
    assert main(["solve", str(file), "--set", "m_tool[full]=1"]) == 2
    assert "m_tool[full]" in capsys.readouterr().err


# --- known starts ---


def test_rest_at_the_start_is_met():
    there = declared(**QUICK)
    rest = Residual("rest", lambda s: s.rate(there.hinge), sigma=1e-5, at="start")
    free, held = there.problem.solve(), there.problem.with_(residuals=[rest]).solve()
    rates = {key: [motion.v[0, 0, 4] for motion in s.trajectories] for key, s in (("free", free), ("held", held))}
    assert np.max(np.abs(rates["free"])) > 1e-4
    np.testing.assert_allclose(rates["held"], 0, atol=3e-5)
    assert held["J"].std_err < free["J"].std_err
    assert held.cost.residual < 10


def test_angle_of_release():
    there = declared(**QUICK)
    start = Parameter("start", 0.9, per="recording", unit="rad")
    released = Residual("release", lambda s: s.angle(there.hinge) - start, sigma=1e-4, at="start")
    solution = there.problem.with_(residuals=[released]).solve()
    for name, angle in {"start[empty]": 1.0, "start[loaded]": 0.7}.items():
        assert abs(solution[name].estimate - angle) < 3 * solution[name].std_err
        assert solution[name].std_err < NOISE


@pytest.mark.parametrize("settings", [{"stepper": Variational()}, {"stepper": Spook()}, {"backend": "ipopt"}])
def test_hard_start(settings):
    there = declared(state_weight=1e6, recordings=recordings()[:1])
    rows = Residual("start", lambda s: [s.angle(there.hinge) - 0.99, s.rate(there.hinge)], kind="hard", at="start")
    problem = there.problem.with_(residuals=[rows])
    solution = problem.solve(**settings)
    assert solution.status is Status.CONVERGED
    motion = solution.trajectories[0]
    assert motion.predicted[0, 0] == pytest.approx(0.99, abs=1e-6)
    assert motion.v[0, 0, 4] == pytest.approx(0, abs=1e-5)


def test_refusals_at_the_start():
    there = declared()
    sigma = {"sigma": 1e-3, "at": "start"}
    with pytest.raises(ProblemError, match=r"Residual 'rest': at is 'end'; give 'start', or leave it out"):
        Residual("rest", lambda s: s.rate(there.hinge), sigma=1e-3, at="end")  # type: ignore[arg-type]
    with pytest.raises(ProblemError, match=r"holds at the start only; make it a function of one state"):
        Residual("rest", lambda s, n: s.rate(there.hinge), **sigma)
    with pytest.raises(
        ProblemError, match=r"'rest' is hard at the start, which fits that estimate the noise cannot hold"
    ):
        there.problem.with_(residuals=[Residual("rest", lambda s: s.rate(there.hinge), kind="hard", at="start")])
    frame = there.model.bodies[0].frame(at=(0.1, 0, 0))
    falling = Residual("falling", lambda s: s.acceleration(frame), **sigma)
    with pytest.raises(ProblemError, match=r"Residual 'falling' sees accelerations, which are not known at the start"):
        there.problem.with_(residuals=[falling]).solve()
