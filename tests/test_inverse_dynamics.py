"""Inverse dynamics against Lagrange's equations, and fits where torques are measured and their gains are not known."""

from __future__ import annotations

import re
from typing import Any

import casadi as ca
import numpy as np
import pytest
from lagrange import Motion, Solid, turned
from mechanisms import Array

from spookid import (
    GROUND,
    Body,
    Distance,
    FullInertia,
    Hinge,
    HingeAngle,
    JointPosition,
    JointTorque,
    Model,
    Motor,
    Parameter,
    Problem,
    ProblemError,
    Recording,
    Status,
    gravity,
)

G, H = 9.81, 0.01
UP, ACROSS = {"x": (0, 0, 1), "y": (1, 0, 0)}, {"x": (0, 1, 0), "y": (0, 0, 1)}
LINK, ENTRIES = (1.4, (0.05, -0.02, 0.2)), (0.02, 0.024, 0.01, 0.002, -0.001, 0.003)
TRUTH = {"I": 0.02, "b": 0.05, "c": 0.3, "J_m": 0.03, "K": 0.8, "zero": -0.4}


def arm(**motor: Any) -> Model:
    """A link that turns about a horizontal axle on one that turns about a vertical one, both by motors."""
    p = {name: Parameter(name, value) for name, value in TRUTH.items()}
    base = Body("base", inertia=FullInertia(1.0, (0, 0.02, 0.1), inertia=(0.01, 0.012, p["I"])))
    outer = Body("link", inertia=FullInertia(*LINK, inertia=ENTRIES))
    shoulder = Hinge("shoulder", GROUND.frame(**UP), base.frame(**UP), viscous=p["b"], coulomb=p["c"])
    elbow = Hinge("elbow", base.frame(at=(0, 0, 0.2), **ACROSS), outer.frame(**ACROSS), viscous=0.1, stiffness=0.7)
    motors = [
        Motor(shoulder, "i1", gain=p["K"], ratio=-2, rotor_inertia=p["J_m"], offset=p["zero"], **motor),
        Motor(elbow, "i2", torque_constant=0.5, resistance=2.0, **motor),
    ]
    return Model([base, outer], [shoulder, elbow], motors, gravity=gravity(G))


def problem_of(model: Model, recordings: Any = (), **settings: Any) -> Problem:
    sensors = [JointPosition(joint, f"q{i}") for i, joint in enumerate(model.joints, start=1)]
    return Problem("arm", model, recordings, sensors, **{"step": H, **settings})


def matrix(entries: Any) -> Array:
    xx, yy, zz, xy, xz, yz = entries
    return np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])


def lagrange() -> Motion:
    q = ca.SX.sym("q", 2)
    R1 = turned(2, q[0])
    R2 = R1 @ turned(1, q[1])
    base = Solid(1.0, (0.01, 0.012, TRUTH["I"]), R1 @ ca.DM([0, 0.02, 0.1]), R1)
    outer = Solid(LINK[0], matrix(ENTRIES), ca.DM([0, 0, 0.2]) + R2 @ ca.DM(LINK[1]), R2)
    return Motion(q, [base, outer], (0, 0, -G))


def test_what_motors_have_to_do_follows_from_lagranges_equations() -> None:
    rng, motion, width = np.random.default_rng(4), lagrange(), 0.03
    q, v, a = rng.normal(size=(3, 20, 2))
    bare = []
    for k in range(20):
        system = motion._system([*q[k], *v[k], 0.0]).full()
        bare.append(system @ [*a[k], -1.0])
    efforts = np.array(bare)
    efforts[:, 0] += TRUTH["b"] * v[:, 0] + TRUTH["c"] * np.tanh(v[:, 0] / width)
    efforts[:, 0] += 4 * TRUTH["J_m"] * a[:, 0] - TRUTH["zero"]
    efforts[:, 1] += 0.1 * v[:, 1] + 0.7 * q[:, 1] + 0.5**2 / 2.0 * v[:, 1]
    found = problem_of(arm(), friction_width=width).inverse_dynamics(motion=(q, v, a))
    assert (found.motors, found.signals, found.units) == (("shoulder", "elbow"), ("i1", "i2"), ("N m", "N m"))
    np.testing.assert_allclose(found.efforts, efforts, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.predicted, efforts / [-2 * TRUTH["K"], 0.5 / 2.0], rtol=1e-9, atol=1e-9)
    assert np.all(np.isnan(found.errors))
    assert not {"nan", "measured", "low-passed"} & set(re.findall(r"[\w-]+", str(found)))
    assert f"{np.sqrt(np.mean(efforts[:, 0] ** 2)):.3g} N m" in str(found)
    other = problem_of(arm(), friction_width=width).inverse_dynamics({"J_m": 0.05}, motion=(q, v, a))
    np.testing.assert_allclose((other.efforts - found.efforts)[:, 0], 4 * 0.02 * a[:, 0], atol=1e-9)


def driven(duration: float = 4.0) -> Recording:
    t = np.arange(round(duration / H) + 1) * H
    return Recording(
        t, {"i1": 2 * np.sin(3.1 * t) + np.sin(5.3 * t + 1), "i2": 5 * np.sin(4.3 * t) + 3 * np.cos(2.1 * t)}
    )


def test_signals_along_a_recording_are_those_that_drove_it() -> None:
    run = problem_of(arm()).simulate(inputs=driven(), initial={"shoulder": 0.0, "elbow": 0.3}, duration=4.0, substeps=1)
    problem = problem_of(arm(), [Recording(run.t, run.signals, "run")])
    found = problem.inverse_dynamics(cutoff=20.0)
    np.testing.assert_array_less(found.errors, [0.01, 0.03])  # of some 3 N m that gravity and inertia take
    np.testing.assert_allclose(found.measured_efforts, found.measured * [-2 * TRUTH["K"], 0.25])
    assert found.t[0] == pytest.approx(3 / 20.0, abs=2 * H)
    how = "measured (gain times signal) less inverse dynamics, both low-passed at 20 Hz"
    assert f"efforts along run: {how}, {len(found.t)} instants\n" in str(found)
    assert f"{found.errors[0]:.3g} N m" in str(found)
    assert len(found.records()) == 2 * len(found.t)
    wrong = problem.inverse_dynamics({"c": 0.0}, problem.recordings[0], cutoff=20.0)
    assert wrong.errors[0] > 0.8 * TRUTH["c"]


def test_of_what_a_recording_has_of_its_own_no_other_one_is_told() -> None:
    rod = Body("rod", mass=1.0, inertia=(0.1, 0.1, 0.1))
    hinge = Hinge("hinge", GROUND.frame(), rod.frame())
    zero = Parameter("zero", 0.0, per="recording")
    t = np.arange(200) * H
    one, new = (Recording(t, {"q": np.sin(t), "u": 0 * t}, name) for name in ("one", "new"))
    model = Model([rod], [hinge], [Motor(hinge, "u", offset=zero)], gravity=gravity(G))
    problem = Problem("arm", model, [one], [HingeAngle(hinge, "q")], step=H)
    at_rest = [np.zeros((1, 1))] * 3
    for where in ({"recording": new}, {"motion": at_rest}):
        words = r"test_inverse_dynamics\.py:\d+: 'zero\[one\]' does not apply to .*; give .* one for 'zero'"
        with pytest.raises(ProblemError, match=words):
            problem.inverse_dynamics({"zero[one]": 0.5}, cutoff=5.0, **where)
        with pytest.raises(ProblemError, match=words):
            problem.with_(initial={"zero[one]": 0.5}).inverse_dynamics(cutoff=5.0, **where)
        bare, told = (problem.inverse_dynamics(said, cutoff=5.0, **where) for said in (None, {"zero": 0.5}))
        np.testing.assert_allclose(told.efforts - bare.efforts, -0.5)
        both = problem.inverse_dynamics({"zero[one]": 0.1, "zero": 0.5}, cutoff=5.0, **where)
        np.testing.assert_allclose(both.efforts, told.efforts)
    own = problem.inverse_dynamics({"zero[one]": 0.5}, cutoff=5.0)
    np.testing.assert_allclose(own.efforts, problem.inverse_dynamics({"zero": 0.5}, cutoff=5.0).efforts)
    solution = problem.solve(max_iterations=1)
    for recordings, where in (([new], {}), ([], {"recording": new}), ([], {"motion": at_rest})):
        with pytest.raises(ProblemError, match="'zero\\[one\\]' does not apply to"):
            problem.with_(recordings=recordings).inverse_dynamics(solution, cutoff=5.0, **where)
    with pytest.raises(ProblemError, match="cutoff is 0"):
        problem.inverse_dynamics(cutoff=0)


def with_motors(*motors: Any) -> Problem:
    model = arm()
    return problem_of(Model(model.bodies, model.joints, motors, gravity=model.gravity))


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (lambda: problem_of(arm()).inverse_dynamics(), "no recording number 0"),
        (lambda: problem_of(arm()).inverse_dynamics(motion=([0.0], [0.0], [0.0])), r"\(1, 2\)"),
        (lambda: problem_of(arm()).inverse_dynamics(motion=np.zeros((3, 2, 2))[0, 0]), r"give 3 values"),
        (lambda: problem_of(arm()).inverse_dynamics(motion=("a", "b", "c")), r"three arrays of numbers \(N, 2\)"),
        (lambda: problem_of(arm()).inverse_dynamics({"no": 1.0}), "no parameter 'no'"),
        (lambda: with_motors().inverse_dynamics(), "has no motors"),
        (lambda: problem_of(tied()).inverse_dynamics(), "closes loops"),
        (lambda: twice().inverse_dynamics(), "determine the sum only"),
        (lambda: problem_of(arm(), [driven(0.5)]).inverse_dynamics(), "no signal"),
    ],
)
def test_what_inverse_dynamics_cannot_tell_is_refused(asked: Any, words: str) -> None:
    with pytest.raises(ProblemError, match=words):
        asked()


def tied() -> Model:
    model = arm()
    rope = Distance("rope", GROUND.frame(at=(1, 0, 0)), model.bodies[1].frame(at=(0, 0, 0.3)), 1.0)
    return Model(model.bodies, model.joints, model.motors, gravity=model.gravity, constraints=[rope])


def twice() -> Problem:
    model = arm()
    more = Motor(model.joints[0], "i3", gain=1)
    return problem_of(Model(model.bodies, model.joints, [*model.motors, more], gravity=model.gravity))


# --- gains of measured currents ---


def swinging() -> Recording:
    """A pendulum driven by a motor of 0.8 N m/A, its current measured with an error of 0.05 A."""
    t = np.arange(401) * H
    inputs = Recording(t, {"i": 1.5 * np.sin(3.0 * t) + np.sin(7.3 * t)})
    known = pendulum(Motor, [], {}, hold="linear")
    run = known.simulate(inputs=inputs, initial={"hinge": 0.3}, duration=4.0, substeps=4)
    rng = np.random.default_rng(3)
    signals = {"q": run.signals["q"] + 1e-4 * rng.normal(size=len(t)), "i": inputs.signals["i"]}
    return Recording(t, {**signals, "i": signals["i"] + 0.05 * rng.normal(size=len(t))}, "run")


def pendulum(kind: Any, recordings: Any, prior: dict[str, tuple[float, float]], **more: Any) -> Problem:
    """All that sets the scale is what is known beforehand."""
    p = {
        name: Parameter(name, prior.get(name, (value, 1))[0], prior=prior.get(name))
        for name, value in {"m": 0.9, "J": 0.02, "b": 0.05, "K": 0.8}.items()
    }
    rod = Body("rod", inertia=FullInertia(p["m"], (0, 0, 0.2), inertia=(0.02, p["J"], 0.001)))
    hinge = Hinge("hinge", GROUND.frame(**ACROSS), rod.frame(**ACROSS), viscous=p["b"])
    sensors: list[Any] = [HingeAngle(hinge, "q")]
    motors = [Motor(hinge, "i", gain=p["K"], **more)] if kind is Motor else []
    sensors += [JointTorque(hinge, "i", scale=1 / p["K"], **more)] if kind is JointTorque else []
    return Problem("pendulum", Model([rod], [hinge], motors, gravity=gravity(G)), recordings, sensors, step=H)


@pytest.mark.parametrize("kind", [Motor, JointTorque])
def test_a_gain_with_a_prior_is_not_lost_to_the_noise_of_its_current(kind: Any) -> None:
    # The prior of the gain is off by 2 sigma, that of the mass is right: the likelihood tells their ratio alone.
    prior = {"K": (1.0, 0.1), "m": (0.9, 0.02)}
    more = {"measured": True} if kind is Motor else {"sigma": 0.05}
    solution = pendulum(kind, [swinging()], prior, **more).solve()
    assert solution.status is Status.CONVERGED
    gain, mass = solution["K"], solution["m"]
    assert mass.estimate / gain.estimate == pytest.approx(0.9 / 0.8, rel=0.01)
    shift = (1.0 / 0.8 - 1) / (0.02**2 / 0.9**2 + 0.1**2 / 0.8**2)  # of two priors of one scale, relative
    assert mass.estimate == pytest.approx(0.9 * (1 + shift * 0.02**2 / 0.9**2), rel=0.01)
    assert gain.std_err == pytest.approx(0.8 * 0.02 / 0.9, rel=0.1)
    noise = next(n for n in solution.noise if n.names == ("i",))
    assert noise.std == pytest.approx(0.05 * gain.estimate, rel=0.1 if kind is Motor else 1e-9)
    assert noise.unit == "N m"
