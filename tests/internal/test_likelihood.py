"""The marginal likelihood: its score against differences, its value against a dense computation, and its invariance."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from mechanisms import DOWN, Array, furuta, hub, pendulum
from test_loops import BASE, LENGTHS, MASSES, closed, linkage

from spookid import (
    GROUND,
    Body,
    Hinge,
    HingeAngle,
    LevenbergMarquardt,
    Model,
    Motor,
    Observation,
    Parameter,
    Problem,
    Recording,
    Spook,
    gravity,
)
from spookid.assembly.assembly import assemble
from spookid.statistics.search import Search
from spookid.statistics.trial import Trial

PRECISE = LevenbergMarquardt(
    gradient_tolerance=1e-12, step_tolerance=1e-12, decrease_tolerance=1e-16, newton=False, max_iterations=100
)
"""How well states are fitted here, so that differences are smooth."""


@pytest.fixture(autouse=True)
def _to_the_last_digit(monkeypatch: pytest.MonkeyPatch) -> None:
    """States are best to round-off, as differences need them."""
    monkeypatch.setattr("spookid.statistics.trial.GAP", 1e-14)


def search(problem: Problem) -> Search:
    """What evaluates the likelihood of a problem."""
    ready = assemble(problem)
    return Search(ready.transcription, ready.noise, PRECISE, 1, lambda _: None)


def trial(problem: Problem, sizes: Mapping[str, float], values: Mapping[str, float] | None = None) -> Trial:
    """The likelihood with impulses and sensors of these sizes, by name or kind, at some values of the parameters."""
    start = assemble(problem).start
    if values is not None:
        start = replace(start, parameters=np.array([values[p.name] for p in problem.free]))
    known = search(problem)
    given = [sizes.get(size.names[0], sizes.get(size.kind, np.nan)) for size in known.sizes]
    return known.trial(start, np.log(given))


# --- the score ---


def swinging(dry: float = 0.0, **motor: Any) -> Problem:
    """A Furuta pendulum with viscous and dry friction, seen for half a second."""
    p = {name: Parameter(name, value) for name, value in {"J_A": 0.003, "J_B": 0.004, "b": 1e-3, "mu": 2e-3}.items()}
    shoulder = {"viscous": p["b"], "dry": p["mu"]} if dry else {"viscous": p["b"]}
    model = furuta(
        inertias=(p["J_A"], p["J_B"], 0.004), shoulder=shoulder, elbow={"coulomb": 1e-3}, motor=motor or None
    )
    sensors = [HingeAngle(joint, f"angle of {joint.name}") for joint in model.joints]
    return Problem("furuta", model, observations=sensors, step=0.01, friction_width=0.3, step_correction=False)


def seen(problem: Problem, *seeds: int, inputs: Recording | None = None, **initial: float) -> Problem:
    """With a disturbed and noisy recording of each seed."""
    noise = dict.fromkeys([o.signal for o in problem.observations], 1e-3)
    noise |= {joint.name: 2e-3 for joint in problem.model.joints if joint.name not in noise}
    runs = [problem.simulate({}, 0.5, initial, inputs=inputs, noise=noise, seed=seed, substeps=1) for seed in seeds]
    named = [replace(run, name=f"run {i}") for i, run in enumerate(runs)]
    return problem.with_(recordings=named)


def viscous() -> Problem:
    return seen(swinging(), 1, shoulder=0.3, elbow=2.0)


def dry() -> Problem:
    return seen(swinging(dry=2e-3), 2, shoulder=0.3, elbow=2.0)


def several() -> Problem:
    return seen(swinging(), 3, 4, shoulder=0.3, elbow=2.0)


def gaps() -> Problem:
    """A recording some of whose samples are missing, one after another too."""
    problem = seen(swinging(), 5, shoulder=0.3, elbow=2.0)
    (run,) = problem.recordings
    signals = {name: values.copy() for name, values in run.signals.items()}
    signals["angle of shoulder"][[3, 10, 11, 12, 40]] = np.nan
    signals["angle of elbow"][20:28] = np.nan
    return problem.with_(recordings=[run.with_signals(**signals)])


def measured() -> Problem:
    """A motor whose torque is measured, with noise."""
    t = 0.01 * np.arange(51)
    rng = np.random.default_rng(6)
    inputs = Recording(t, {"u": 0.1 * np.sin(9 * t) + 0.01 * rng.normal(size=len(t))})
    gain = Parameter("K", 0.5)
    return seen(swinging(gain=gain, measured=True), 6, inputs=inputs, shoulder=0.3, elbow=2.0)


def same_names() -> Problem:
    """Signals that are called as the hinges are."""
    problem = swinging()
    sensors = [HingeAngle(joint, joint.name) for joint in problem.model.joints]
    return seen(problem.with_(observations=sensors), 7, shoulder=0.3, elbow=2.0)


def rates() -> Problem:
    """A gyroscope beside the encoder, which sees three steps."""
    rod = pendulum(inertia=Parameter("J", 0.005), viscous=Parameter("b", 0.01))
    joint = rod.joints[0]
    sensors = [HingeAngle(joint, "angle"), Observation(lambda s: s.rate(joint), "rate", unit="rad/s")]
    return seen(Problem("gyroscope", rod, observations=sensors, step=0.01), 8, hinge=1.0)


def four_bar() -> Problem:
    """A closed loop: its cut hinge has unknowns that are private to a step."""
    p = {name: Parameter(name, value) for name, value in {"I": 2.5e-3, "b": 0.01}.items()}
    model = linkage(LENGTHS, BASE, MASSES, [2e-4, p["I"], 4e-3], viscous=p["b"], compliance=0)
    sensors = [HingeAngle(model.joints[0], "angle of crank"), HingeAngle(model.joints[-1], "angle of rocker")]
    problem = Problem("loop", model, observations=sensors, step=0.01)
    return seen(problem, 9, **closed(LENGTHS, BASE, 0.5))


def measured_loop() -> Problem:
    """A closed loop whose crank is driven by a torque that is measured."""
    loop = four_bar()
    model = loop.model
    driven = Model(model.bodies, model.joints, [Motor(model.joints[0], "u", measured=True)], gravity=model.gravity)
    t = 0.01 * np.arange(51)
    inputs = Recording(t, {"u": 0.02 * np.sin(9 * t)})
    return seen(loop.with_(model=driven, recordings=[]), 9, inputs=inputs, **closed(LENGTHS, BASE, 0.5))


CASES: list[Any] = [dry, gaps, measured, same_names, rates, four_bar, measured_loop]


def differences(function: Callable[[Array], float], at: Array, steps: Array) -> Array:
    """Gradient by central differences of fourth order."""
    found = []
    for d in np.diag(steps):
        near, far = function(at + d) - function(at - d), function(at + 2 * d) - function(at - 2 * d)
        found.append((8 * near - far) / (12 * d.sum()))
    return np.array(found)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_score_is_the_slope_of_the_likelihood(case):
    problem = case()
    known, values = search(problem), problem.guess
    here = trial(problem, {"disturbance": 3e-4, "sensor": 2e-3}, {name: 1.1 * v for name, v in values.items()})
    n = len(problem.free)

    def value(unknowns: Array) -> float:
        return known.trial(replace(here.point, parameters=unknowns[:n]), unknowns[n:]).value

    steps = np.concatenate([1e-3 * here.point.parameters, np.full(len(known.sizes), 1e-3)])
    wanted = differences(value, here.unknowns, steps)
    # What is left shifts no estimate by more than a thousandth of its standard error.
    tolerance = 1e-4 * np.abs(wanted) + 1e-3 * np.sqrt(np.diag(here.matrix))
    assert np.all(np.abs(here.score - wanted) <= tolerance), (here.score, wanted)
    assert np.mean(np.abs(here.score) > 10 * tolerance) > 0.8


def test_a_joint_of_a_loop_may_be_as_good_as_undisturbed():
    problem = four_bar()
    whole = search(problem)
    sizes = (*whole.sizes[0].singles, *whole.sizes[1:])
    known, values = replace(whole, sizes=sizes), []
    for least in (1e-7, 1e-11, 1e-20):
        logs = np.log([3e-4, least, least * 1e-2, 3e-4, *(2e-3 for _ in sizes[4:])])
        values.append(known.trial(assemble(problem).start, logs).value)
    np.testing.assert_allclose(values, values[0], rtol=1e-6)


def test_recordings_add_their_likelihoods():
    problem, sizes = several(), {"disturbance": 3e-4, "sensor": 2e-3}
    apart = [trial(problem.with_(recordings=[run]), sizes).value for run in problem.recordings]
    assert trial(problem, sizes).value == pytest.approx(sum(apart), rel=1e-9)


# --- the value ---


def rotor(samples: int, inertia: Any = 0.002, viscous: Any = 0.01) -> Problem:
    """A wheel that coasts, seen at each step with noise."""
    model = hub(inertia=inertia, viscous=viscous)
    rng = np.random.default_rng(10)
    t = 0.02 * np.arange(samples)
    angle = 0.3 * (1 - np.exp(-5 * t)) + 0.02 * np.cumsum(rng.normal(size=samples)) + 1e-2 * rng.normal(size=samples)
    sensors = [HingeAngle(model.joints[0], "angle")]
    return Problem("rotor", model, [Recording(t, {"angle": angle})], sensors, step=0.02, step_correction=False)


def gaussian(y: Array, h: float, inertia: float, viscous: float, impulse: float, sigma: float) -> float:
    """−2 log p(y) of J (v₊ − v) + h b (v₊ + v)/2 = w with w ~ N(0, impulse²), flat in the first two angles.

    y = F β + K w + e, so that with V = σ² + impulse² K Kᵀ and β integrated out
    −2 log p = log det V + log det FᵀV⁻¹F + yᵀ(V⁻¹ − V⁻¹F (FᵀV⁻¹F)⁻¹ FᵀV⁻¹)y + (n − 2) log 2π.
    """
    n = len(y)
    rows = np.zeros((n, n))
    rows[0, 0] = rows[1, 1] = 1
    for k in range(2, n):
        rows[k, k - 2 : k + 1] = inertia / h - viscous / 2, -2 * inertia / h, inertia / h + viscous / 2
    inverse = np.linalg.inv(rows)
    F, K = inverse[:, :2], inverse[:, 2:]
    V = sigma**2 * np.eye(n) + impulse**2 * K @ K.T
    weighted = np.linalg.solve(V, F)
    middle = F.T @ weighted
    squares = y @ np.linalg.solve(V, y) - y @ weighted @ np.linalg.solve(middle, weighted.T @ y)
    logarithms = np.linalg.slogdet(V)[1] + np.linalg.slogdet(middle)[1]
    return float(logarithms + squares + (n - 2) * math.log(2 * math.pi))


@pytest.mark.parametrize("impulse", [1e-4, 1e-3, 1e-1])
@pytest.mark.parametrize("sigma", [1e-3, 3e-2])
def test_value_is_that_of_the_dense_gaussian(impulse, sigma):
    problem, n = rotor(30), 30
    found = trial(problem, {"disturbance": impulse, "sensor": sigma})
    wanted = gaussian(problem.recordings[0].signals["angle"], 0.02, 0.002, 0.01, impulse, sigma)
    assert 2 * found.value + (n - 2) * math.log(2 * math.pi) == pytest.approx(wanted, rel=1e-9, abs=1e-6)


def test_a_measured_torque_is_an_error_of_its_sensor():
    problem, sigma, seen_with = rotor(30), 0.03, 1e-2
    wheel, h = problem.model, problem.step
    model = Model(wheel.bodies, wheel.joints, [Motor(wheel.joints[0], "u", measured=True)], gravity=gravity(0.0))
    (run,) = problem.recordings
    driven = problem.with_(model=model, recordings=[Recording(run.t, {**run.signals, "u": np.zeros(30)})])
    found = trial(driven, {"u": sigma, "angle": seen_with})
    # All motions are as likely: of the density of the disturbance there remains 1/(h σ), and h is none of the sensor's.
    dense = gaussian(run.signals["angle"], h, 0.002, 0.01, h * sigma, seen_with)
    density = 2 * 28 * math.log((0.002 / h + 0.01 / 2) / h)
    assert 2 * found.value + 28 * math.log(2 * math.pi) == pytest.approx(dense + density, rel=1e-9, abs=1e-6)


def test_a_measured_current_is_an_error_of_its_sensor_whatever_its_gain():
    problem, sigma, guess, gain = rotor(30), 0.03, 0.4, 0.7
    wheel, h = problem.model, problem.step
    motor = Motor(wheel.joints[0], "i", gain=Parameter("K", guess), measured=True)
    model = Model(wheel.bodies, wheel.joints, [motor], gravity=gravity(0.0))
    (run,) = problem.recordings
    driven = problem.with_(model=model, recordings=[Recording(run.t, {**run.signals, "i": np.zeros(30)})])
    found = trial(driven, {"i": sigma, "angle": 1e-2}, {"K": gain})
    # Sizes are efforts at the guess: the current errs by sigma/guess, and its density is that of the torque times K.
    torque = sigma * gain / guess
    dense = gaussian(run.signals["angle"], h, 0.002, 0.01, h * torque, 1e-2)
    density = 2 * 28 * math.log((0.002 / h + 0.01 / 2) / h * guess / gain)
    assert 2 * found.value + 28 * math.log(2 * math.pi) == pytest.approx(dense + density, rel=1e-9, abs=1e-6)


def test_solutions_state_the_whole_likelihood():
    problem = rotor(30, viscous=Parameter("b", 0.005))
    solution = problem.solve()
    (disturbance, sensor) = solution.noise
    impulse = disturbance.density * math.sqrt(problem.step)
    assert disturbance.std == pytest.approx(impulse / problem.step)
    y = problem.recordings[0].signals["angle"]
    wanted = gaussian(y, 0.02, 0.002, solution["b"].estimate, impulse, sensor.std)
    assert -2 * solution.log_likelihood == pytest.approx(wanted, abs=1e-4)


def test_solutions_are_at_the_top_of_the_dense_likelihood():
    problem = rotor(30, viscous=Parameter("b", 0.005, lower=0))
    solution = problem.solve()
    y, (disturbance, sensor) = problem.recordings[0].signals["angle"], solution.noise
    best = np.array([solution["b"].estimate, disturbance.density * math.sqrt(problem.step), sensor.std])

    def value(factors: Array) -> float:
        b, impulse, sigma = best * factors
        return gaussian(y, 0.02, 0.002, b, impulse, sigma)

    ones = np.ones(3)
    for i in range(3):
        for change in (0.8, 1.25):
            moved = np.where(np.arange(3) == i, change, 1.0)
            assert value(moved) > value(ones) - 1e-4


def test_gaps_are_left_out_of_the_dense_likelihood_too():
    problem = rotor(30)
    (run,) = problem.recordings
    short = {name: np.append(values[:-6], [np.nan] * 6) for name, values in run.signals.items()}
    sizes = {"disturbance": 1e-3, "sensor": 1e-2}
    # What is never seen again makes no difference to what was seen.
    whole = trial(problem.with_(recordings=[run.with_signals(**short)]), sizes).value
    cut = trial(problem.with_(recordings=[Recording(run.t[:-6], {"angle": run.signals["angle"][:-6]})]), sizes).value
    assert whole == pytest.approx(cut, rel=1e-9)


# --- invariance ---


def arms(scale: float) -> Problem:
    """A driven double pendulum, all of whose masses, inertias, frictions and gains have a factor."""
    upper = Body("upper", mass=0.6 * scale, inertia=tuple(scale * value for value in (1e-4, 0.006, 0.006)))
    lower = Body("lower", mass=0.3 * scale, inertia=tuple(scale * value for value in (1e-4, 0.002, 0.002)))
    axle = {"x": (0, 1, 0), "y": (1, 0, 0)}
    first = Hinge("hip", GROUND.frame(**DOWN), upper.frame(at=(-0.2, 0, 0), **axle), viscous=0.01 * scale)
    second = Hinge(
        "knee", upper.frame(at=(0.2, 0, 0), **axle), lower.frame(at=(-0.15, 0, 0), **axle), coulomb=0.005 * scale
    )
    motors = [Motor(first, "u", gain=0.4 * scale)]
    model = Model([upper, lower], [first, second], motors, gravity=gravity(9.82))
    sensors = [HingeAngle(first, "angle of hip"), HingeAngle(second, "angle of knee")]
    return Problem("arms", model, observations=sensors, step=0.01, friction_width=0.2, step_correction=False)


def test_the_unit_of_mass_is_of_no_consequence():
    t = 0.01 * np.arange(61)
    inputs = Recording(t, {"u": np.sin(7 * t)})
    noise = {"hip": 5e-3, "knee": 5e-3, "angle of hip": 1e-3, "angle of knee": 1e-3}
    run = arms(1.0).simulate({}, 0.6, {"hip": 0.5, "knee": 1.0}, inputs=inputs, noise=noise, seed=11, substeps=1)
    one, three = (
        trial(arms(scale).with_(recordings=[run]), {"disturbance": 5e-4 * scale, "sensor": 1e-3})
        for scale in (1.0, 3.0)
    )
    assert three.value == pytest.approx(one.value, rel=1e-9)
    np.testing.assert_allclose(three.slopes, one.slopes, rtol=1e-6)
    other = trial(arms(3.0).with_(recordings=[run]), {"disturbance": 5e-4, "sensor": 1e-3})
    assert abs(other.value - one.value) > 1


# --- what is refused ---


def test_a_given_weight_has_no_likelihood():
    problem = rotor(30, viscous=Parameter("b", 0.005)).with_(state_weight=100.0, stepper=Spook())
    solution = problem.solve()
    assert math.isnan(solution.log_likelihood)
    assert solution.noise == ()
