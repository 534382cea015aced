"""Simulation with friction that sticks: dead bands, events, energy, both steppers, and how it fails."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest
from mechanisms import Array, G, furuta, hub, pendulum
from scipy.integrate import solve_ivp
from test_loops import BASE, LENGTHS, MASSES, closed, linkage

from spookid import (
    GROUND,
    Body,
    Contact,
    HingeAngle,
    Model,
    Parameter,
    PointPosition,
    Problem,
    ProblemError,
    Recording,
    Spook,
    StepFailedError,
    Variational,
    gravity,
    load_problem,
)

J, M, L = 0.005, 0.5, 0.2
"""The pendulum's inertia [kg m²], mass [kg] and distance to its hinge [m]."""
STEPPERS = [Spook(), Variational()]
NAMES = ["spook", "variational"]


def problem(model: Model, step: float = 0.01, friction: str = "exact", **settings: object) -> Problem:
    """Every hinge's angle observed, or where there is none the height of the first body."""
    observations: list = [HingeAngle(joint, signal=joint.name) for joint in model.joints]
    observations = observations or [PointPosition(model.bodies[0].frame(), "z", signal="z")]
    return Problem("run", model=model, observations=observations, step=step, friction=friction, **settings)


def per_stepper(test: Callable) -> Callable:
    return pytest.mark.parametrize("stepper", STEPPERS, ids=NAMES)(test)


# --- sticking ---


@per_stepper
@pytest.mark.parametrize("law", [{"coulomb": 0.1}, {"dry": 0.02}], ids=["coulomb", "dry"])
def test_a_pendulum_inside_its_dead_band_stays_there(stepper, law):
    # Gravity pulls with m g l sin 0.05 = 0.049 N m; both laws hold 0.1 N m.
    run = problem(pendulum(**law), stepper=stepper).simulate(duration=4, initial={"hinge": 0.05})
    assert np.abs(run.signals["hinge"] - 0.05).max() < 1e-12


@per_stepper
def test_a_pendulum_outside_its_dead_band_moves(stepper):
    run = problem(pendulum(coulomb=0.04), stepper=stepper).simulate(duration=0.2, initial={"hinge": 0.05})
    assert run.signals["hinge"][-1] < 0.045


def test_smooth_friction_creeps_in_proportion_to_its_width():
    rates = []
    for width in (1e-3, 3e-4):  # much more than what a simulation may be off by
        smooth = problem(pendulum(coulomb=0.1), friction="smooth", friction_width=width)
        angle = smooth.simulate(duration=1, initial={"hinge": 0.05}).signals["hinge"]
        rates.append((angle[50] - angle[-1]) / 0.5)
    # tanh(s/δ) = m g l sin θ / c at a steady creep.
    expected = 1e-3 * np.arctanh(M * G * L * np.sin(0.05) / 0.1)
    assert rates[0] == pytest.approx(expected, rel=0.05)
    assert rates[0] / rates[1] == pytest.approx(10 / 3, rel=0.05)


@per_stepper
def test_a_joint_that_stops_stands_still_from_then_on(stepper):
    run = problem(hub(coulomb=0.01), stepper=stepper).simulate(duration=1, initial={"hinge": (0, 2)})
    angle = run.signals["hinge"]
    # Rate falls by c/J = 5 rad/s², so it stops after 0.4 s at s²/(2 c/J).
    assert np.ptp(angle[42:]) < 1e-12
    assert angle[-1] == pytest.approx(0.4, abs=0.021)


def test_stribeck_holds_more_than_it_rubs():
    # Static 0.1 + 0.1, kinetic 0.1 N m; gravity pulls with 0.15 N m at angle asin(0.15/(m g l)).
    angle = float(np.arcsin(0.15 / (M * G * L)))
    still = problem(pendulum(coulomb=0.1, stribeck=(0.1, 50.0)), stepper=Variational())
    assert np.ptp(still.simulate(duration=1, initial={"hinge": angle}).signals["hinge"]) < 1e-12
    pushed = still.simulate(duration=1, initial={"hinge": (angle, -1.0)}).signals["hinge"]
    plain = problem(pendulum(coulomb=0.2)).simulate(duration=1, initial={"hinge": (angle, -1.0)}).signals["hinge"]
    assert pushed[-1] < plain[-1] - 0.02


@per_stepper
def test_sticking_joints_of_a_chain_carry_the_others(stepper):
    # The shoulder holds while the elbow swings; then a push makes it slip.
    model = furuta(shoulder={"coulomb": 1.0}, elbow={"dry": 1e-4}, motor={"gain": 1.0})
    run = problem(model, stepper=stepper)
    inputs = Recording(t=[0, 0.5, 1.0], signals={"u": [0.0, 2.0, 2.0]})
    found = run.simulate(duration=1, initial={"elbow": 1.0}, inputs=inputs)
    assert np.abs(found.signals["shoulder"][:49]).max() < 1e-9
    assert np.ptp(found.signals["elbow"][:49]) > 0.5
    assert found.signals["shoulder"][-1] > 0.5


@per_stepper
def test_a_closed_loop_in_which_more_joints_rub_than_can_move(stepper):
    soft = {"compliance": 1e-8} if isinstance(stepper, Spook) else {"compliance": 0}
    start = closed(LENGTHS, BASE, 1.0)
    for friction, holds in ((0.5, True), (0.002, False)):
        model = linkage(LENGTHS, BASE, MASSES, [2e-4, 2.5e-3, 4e-3], coulomb=friction, **soft)
        run = problem(model, 5e-3, stepper=stepper).simulate(duration=1, initial=start)
        moved = np.ptp(run.signals["drive"])
        assert moved < 1e-6 if holds else moved > 0.5


# --- against an independent integration of the events ---


def swing(c: float, angle: float, until: float) -> tuple[float, float]:
    """Time and angle at which a pendulum with Coulomb friction comes to rest for good."""
    inertia, weight = J + M * L**2, M * G * L
    t, x = 0.0, np.array([angle, 0.0])
    while not (x[1] == 0 and abs(weight * np.sin(x[0])) <= c):
        way = np.sign(x[1]) or -np.sign(np.sin(x[0]))

        def rate(_: float, y: Array, way: float = way) -> Array:
            return np.array([y[1], (-weight * np.sin(y[0]) - way * c) / inertia])

        def stop(_: float, y: Array, way: float = way) -> float:
            return way * y[1]

        stop.terminal, stop.direction = True, -1
        leg = solve_ivp(rate, (t, until), x, events=stop, rtol=1e-11, atol=1e-13, max_step=0.05)
        assert leg.status == 1
        t, x = leg.t[-1], np.array([leg.y[0, -1], 0.0])
    return float(t), float(x[0])


def errors(stepper: Spook | Variational, c: float, start: float, steps: tuple[float, ...]) -> Array:
    """Of the step from which on it rests, and of the angle [rad], for each step's length.

    A recording tells only at its samples that nothing moves any more, and the exact motion is read in the same way: it
    is at rest from the first sample after the event on.
    """
    rest, angle = swing(c, start, 20.0)
    found = []
    for step in steps:
        run = problem(pendulum(coulomb=c, compliance=0), step, stepper=stepper)
        run = run.simulate(duration=rest + 0.2, initial={"hinge": start})
        last = np.flatnonzero(np.abs(np.diff(run.signals["hinge"])) > 1e-12)[-1] + 1
        found.append([last - np.ceil(rest / step), run.signals["hinge"][-1] - angle])
    return np.array(found)


@per_stepper
@pytest.mark.parametrize(("c", "start"), [(0.05, 1.0), pytest.param(0.2, 1.3, marks=pytest.mark.study)])
def test_it_stops_when_and_where_the_events_say(stepper, c, start):
    steps = (8e-3, 5e-3)
    late, off = errors(stepper, c, start, steps).T
    assert np.abs(late).max() <= 1
    assert np.all(np.abs(off) <= 0.5 * np.array(steps))


def test_spook_stops_where_the_events_say_to_first_order():
    late, off = errors(Spook(), 0.05, 1.0, (8e-3, 4e-3, 2e-3)).T
    assert np.abs(late).max() <= 1
    np.testing.assert_allclose(np.diff(np.log(np.abs(off))) / np.log(0.5), 1, atol=0.1)


@pytest.mark.study
def test_the_variational_step_stops_there_to_more_than_first_order():
    late, off = errors(Variational(), 0.05, 1.0, (4e-3, 2e-3, 1e-3)).T
    assert np.abs(late).max() <= 1
    assert np.min(np.diff(np.log(np.abs(off))) / np.log(0.5)) > 1.5


@pytest.mark.study
@per_stepper
def test_smooth_friction_tends_to_the_exact_one(stepper):
    model = furuta(shoulder={"dry": 1e-3}, elbow={"coulomb": 2e-3})
    exact = problem(model, 2e-3, stepper=stepper).simulate(duration=1, initial={"elbow": 1.5})
    gaps = []
    for width in (0.1, 0.01):
        smooth = problem(model, 2e-3, "smooth", stepper=stepper, friction_width=width)
        run = smooth.simulate(duration=1, initial={"elbow": 1.5})
        gaps.append(np.abs(run.signals["elbow"] - exact.signals["elbow"]).max())
    assert (
        gaps[1] < gaps[0] / 2
    )  # where a hinge turns, the exact step errs by a share of h, the smooth one by one of h²
    assert gaps[1] < 1e-3


# --- energy ---


@per_stepper
def test_a_free_hub_only_slows_down(stepper):
    rng = np.random.default_rng(0)
    for rate in rng.uniform(-3, 3, 5):
        run = problem(hub(dry=0.02, coulomb=0.005, g=G), stepper=stepper).simulate(
            duration=1, initial={"hinge": (0, rate)}
        )
        speed = np.abs(run.v[:, 0, 4])
        assert np.all(np.diff(speed) < 1e-9)


# --- limits and contacts ---


@per_stepper
def test_a_pendulum_rests_on_its_limit(stepper):
    compliance = 1e-3
    run = problem(pendulum(limits=(0.1, 0.9), compliance=compliance), stepper=stepper)
    angle = run.simulate(duration=5, initial={"hinge": 0.3}).signals["hinge"]
    sunk = compliance * M * G * L * np.sin(angle[-1]) if isinstance(stepper, Spook) else 0.0
    assert 0.1 - angle[-1] == pytest.approx(sunk, rel=1e-6, abs=1e-12)
    assert np.ptp(angle[-50:]) < 1e-9


@per_stepper
def test_limits_hold_on_both_sides_and_across_the_half_turn(stepper):
    run = problem(hub(limits=(2.9, 3.5)), stepper=stepper)
    ends = [run.simulate(duration=1, initial={"hinge": (3.2, rate)}).signals["hinge"] for rate in (2.0, -2.0)]
    ends = [angle % (2 * np.pi) for angle in ends]
    assert ends[0].max() == pytest.approx(3.5, abs=0.02)
    assert ends[1].min() == pytest.approx(2.9, abs=0.02)
    free = run.simulate(duration=0.1, initial={"hinge": (3.2, 0.0)}).signals["hinge"]
    np.testing.assert_allclose(free % (2 * np.pi), 3.2, atol=1e-14)


def test_limits_may_be_parameters():
    lower = Parameter("lower", -1.0)
    run = problem(pendulum(limits=(lower, 2.0), compliance=1e-8))
    angle = run.simulate({"lower": 0.4}, duration=3, initial={"hinge": 0.6}).signals["hinge"]
    assert angle[-1] == pytest.approx(0.4, abs=1e-6)


def block(slope: float, friction: float, points: int = 4) -> tuple[Model, tuple[Array, Array]]:
    """A block on the corners of its base, on an incline that falls towards +x by ``slope`` [rad], and its pose."""
    s, c = np.sin(slope), np.cos(slope)
    body = Body("block", mass=2.0, inertia=(0.01, 0.02, 0.02), free=True)
    plane = GROUND.frame(x=(c, 0, -s), y=(0, 1, 0))
    corners = [(0.1, 0.1), (0.1, -0.1), (-0.1, 0.1), (-0.1, -0.1)][:points]
    contacts = [
        Contact(f"corner {i}", body.frame(at=(x, y, -0.02)), plane, friction=friction, compliance=1e-6)
        for i, (x, y) in enumerate(corners)
    ]
    pose = np.array([[0.02 * s, 0, 0.02 * c, np.cos(slope / 2), 0, np.sin(slope / 2), 0]])
    return Model([body], contacts=contacts, gravity=gravity(G)), (pose, np.zeros((1, 6)))


@per_stepper
def test_a_block_sticks_below_the_friction_angle(stepper):
    model, rest = block(0.25, 0.3)
    run = problem(model, 2e-3, stepper=stepper).simulate(duration=1, initial=rest)
    assert np.abs(run.q[-1, 0, :3] - run.q[0, 0, :3]).max() < 1e-5
    assert np.abs(run.v[-1]).max() < 1e-9


@per_stepper
def test_a_block_slides_above_the_friction_angle(stepper):
    model, rest = block(0.4, 0.3)
    run = problem(model, 2e-3, stepper=stepper).simulate(duration=1, initial=rest)
    down = np.array([np.cos(0.4), 0, -np.sin(0.4)])
    acceleration = (run.v[-2, 0, :3] - run.v[250, 0, :3]) @ down / (run.t[-2] - run.t[250])
    assert acceleration == pytest.approx(G * (np.sin(0.4) - 0.3 * np.cos(0.4)), rel=1e-6)


@per_stepper
def test_a_ball_rests_as_deep_as_its_compliance_says(stepper):
    ball = Body("ball", mass=0.7, inertia=(1e-3, 1e-3, 1e-3), free=True)
    floor = Contact("floor", ball.frame(), GROUND.frame(), compliance=1e-3)
    run = problem(Model([ball], contacts=[floor], gravity=gravity(G)), stepper=stepper)
    start = (np.array([[0, 0, 0.05, 1, 0, 0, 0]]), np.zeros((1, 6)))
    height = run.simulate(duration=3, initial=start).signals["z"]
    assert height[-1] == pytest.approx(-1e-3 * 0.7 * G if isinstance(stepper, Spook) else 0.0, rel=1e-6, abs=1e-9)
    assert height[5] == pytest.approx(0.05 - G * 0.05**2 / 2, abs=0.005)


def test_a_contact_lets_go():
    ball = Body("ball", mass=0.7, inertia=(1e-3, 1e-3, 1e-3), free=True)
    floor = Contact("floor", ball.frame(), GROUND.frame(), friction=0.5)
    run = problem(Model([ball], contacts=[floor], gravity=gravity(G)))
    thrown = run.simulate(duration=0.1, initial=(np.array([[0, 0, 0, 1, 0, 0, 0]]), np.array([[1.0, 0, 3, 0, 0, 0]])))
    np.testing.assert_allclose(thrown.v[:, 0, 0], 1.0, atol=1e-14)
    np.testing.assert_allclose(thrown.v[:, 0, 2], 3 - G * thrown.t, atol=1e-13)


# --- how it fails, and how fast it is ---


@pytest.mark.parametrize("model", [pendulum(limits=(-1, 1)), block(0.1, 0.3)[0]], ids=["limits", "contacts"])
def test_what_pushes_needs_the_exact_step(model):
    smooth = problem(model, friction="smooth")
    with pytest.raises(ProblemError, match="exact"):
        smooth.simulate(duration=0.1, initial={} if model.joints else block(0.1, 0.3)[1])
    if model.joints:  # fits take contacts exactly
        recording = Recording(t=np.arange(5) * 0.01, signals={o.signal: np.zeros(5) for o in smooth.observations})
        with pytest.raises(ProblemError, match="limits of joints"):
            smooth.with_(recordings=[recording]).solve()


@pytest.mark.parametrize("limits", [(1, 0), (0, 7), (0, 0), 3, (0, np.nan), "ab"])
def test_limits_that_make_no_sense_are_refused(limits):
    with pytest.raises(ProblemError, match=r"test_exact.py:\d+: .*hinge.*limits|mechanisms.py:\d+: .*limits"):
        pendulum(limits=limits)


def test_contacts_that_make_no_sense_are_refused():
    ball = Body("ball", mass=1, inertia=(1, 1, 1), free=True)
    for fault, words in (
        ({"friction": -1}, "friction"),
        ({"compliance": -1}, "compliance"),
        ({"plane": ball.frame()}, "itself"),
        ({"plane": "floor"}, "frame"),
        ({"restitution": 1.5}, "restitution"),
        ({"cone": "square"}, "cone"),
        ({"threshold": 0}, "threshold"),
    ):
        with pytest.raises(ProblemError, match=words):
            Contact("floor", **{"point": ball.frame(), "plane": GROUND.frame(), **fault})
    other = Contact("floor", Body("other", mass=1, inertia=(1, 1, 1)).frame(), GROUND.frame())
    with pytest.raises(ProblemError, match="other"):
        Model([ball], contacts=[other], gravity=gravity(G))
    mine = Contact("floor", ball.frame(), GROUND.frame())
    with pytest.raises(ProblemError, match="rename"):
        Model([ball], contacts=[mine, Contact("floor", ball.frame(), GROUND.frame())], gravity=gravity(G))


@per_stepper
def test_a_step_without_solution_is_a_failure(stepper):
    c = Parameter("c", 0.1)
    run = problem(pendulum(coulomb=c), stepper=stepper)
    with pytest.raises(StepFailedError, match="step 1"):
        run.simulate({"c": 1e140}, duration=0.1, initial={"hinge": (0.3, 1e200)})


@pytest.mark.study
def test_ten_thousand_steps_of_the_furuta_pendulum():
    furuta_release = load_problem("problems/furuta_release.py").with_(friction="exact", step=1e-3, recordings=())
    for stepper in STEPPERS:
        began = time.process_time()
        run = furuta_release.simulate(
            {"mu_1": 1e-3, "mu_2": 1e-3}, duration=10, initial={"elbow": 3.0}, stepper=stepper
        )
        assert len(run.t) == 10_001
        assert time.process_time() - began < 10
