"""Every sample at its own time: several clocks, jitter, gaps, and delays of sensors and of inputs."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.integrate import solve_ivp

from spookid import (
    GROUND,
    Accelerometer,
    Body,
    Hinge,
    HingeAngle,
    JointPosition,
    JointTorque,
    Model,
    Motor,
    Observation,
    Orientation,
    Parameter,
    PointPosition,
    Problem,
    ProblemError,
    Recording,
    Solution,
    Spherical,
    Spook,
    Status,
    gravity,
)

Array = NDArray[np.float64]
J, M, L, G, B, K = 0.004, 0.4, 0.15, 9.81, 0.01, 0.05
TRUTH = {"J": J, "b": B, "K": K}
LATE, OFF = 0.006, 0.02
"""Delay of the motor's signal [s], and offset of the angle's [rad]."""
COMMANDS = 0.002
"""Between samples of the motor's signal [s]."""


def command(t: Array) -> Array:
    return np.asarray(2 * np.sin(2 * np.pi * (0.3 + 0.4 * t) * t) + np.sign(np.sin(2 * np.pi * 0.7 * t)))


@cache
def motion(delay: float, duration: float = 4.0) -> Callable[[Array], Array]:
    """Angle and rate of a driven pendulum, (2, n) at any times: integrated from command to command."""
    inertia, began, x = J + M * L**2, [0.0], [np.array([0.5, 0.0])]
    stamps = np.arange(0.0, duration, COMMANDS)
    u, pieces = command(stamps), []
    edges = np.append(np.unique(np.concatenate([[0.0], stamps + delay])), duration + COMMANDS)
    for start, stop in pairwise(edges):
        held = u[max(int(np.floor((start - delay) / COMMANDS + 1e-6)), 0)]

        def rates(_: float, y: Array, held: float = held) -> list[float]:
            return [y[1], (K * held - M * G * L * np.sin(y[0]) - B * y[1]) / inertia]

        piece = solve_ivp(rates, (start, stop), x[-1], rtol=1e-9, atol=1e-11, dense_output=True)
        pieces.append(piece.sol)
        began.append(stop)
        x.append(piece.y[:, -1])

    def at(t: Array) -> Array:
        places = np.clip(np.searchsorted(began, t, side="right") - 1, 0, len(pieces) - 1)
        return np.array([pieces[i](s) for i, s in zip(places, t, strict=True)]).T

    return at


def pendulum(recording: Recording, sensors: Callable[[Body, Hinge], list[Any]], **settings: Any) -> Problem:
    """Inertia, friction and gain from the pendulum's recording; a ``delay`` is that of the motor."""
    inertia = Parameter("J", 0.01, lower=1e-6)
    rod = Body("rod", mass=M, inertia=(1e-4, 1e-4, inertia))
    pin = Hinge(
        "pin",
        GROUND.frame(x=(0, -1, 0), y=(0, 0, -1)),
        rod.frame(at=(-L, 0, 0), x=(0, 0, 1), y=(1, 0, 0)),
        viscous=Parameter("b", 1e-3, lower=0),
    )
    motor = Motor(pin, "u", gain=Parameter("K", 0.02), delay=settings.pop("delay", 0))
    model = Model([rod], [pin], [motor], gravity=gravity(G))
    return Problem("driven", model, [recording], sensors(rod, pin), **{"step": 0.01, **settings})


def encoder(rod: Body, pin: Hinge) -> list[Any]:
    return [HingeAngle(pin, "theta")]


def within(solution: Solution, errors: float = 3.5, **others: float) -> None:
    """Estimates are the truth within so many standard errors."""
    assert solution.status is Status.CONVERGED
    for name, value in {**TRUTH, **others}.items():
        found = solution[name]
        assert found.std_err > 0, found.reason
        assert abs(found.estimate - value) < errors * found.std_err, name


def recorded(t: Array, theta: Array, delay: float = 0.0, **others: Any) -> Recording:
    """Angles at their own times, and the motor's command by its own clock."""
    commands = np.arange(0.0, 4.0, COMMANDS)
    return Recording(commands, {"u": command(commands), "theta": theta, **others}, times={"theta": t})


NOISE = 1e-3


@pytest.mark.study
def test_samples_at_any_times_tell_as_much_as_at_the_steps() -> None:
    rng, t = np.random.default_rng(1), np.arange(0.0, 4.0, 0.002)
    jittered = np.sort(t + rng.uniform(-8e-4, 8e-4, len(t)))
    noise = NOISE * rng.standard_normal(len(t))
    solutions = [pendulum(recorded(s, motion(0.0)(s)[0] + noise), encoder).solve() for s in (t, jittered)]
    for solution in solutions:
        within(solution)
        assert sum(trajectory.samples.sum() for trajectory in solution.trajectories) >= len(t) - 6
    some = pendulum(recorded(t, motion(0.0)(t)[0] + noise), encoder, every=1).solve()
    assert some["J"].std_err / solutions[0]["J"].std_err == pytest.approx(math.sqrt(5), rel=0.15)


@pytest.mark.parametrize(
    "settings",
    [{"state_weight": math.inf}, pytest.param({"state_weight": 1e8, "stepper": Spook()}, marks=pytest.mark.study)],
    ids=["hard", "spook"],
)
def test_other_schemes_predict_between_their_steps_too(settings: dict[str, Any]) -> None:
    t = np.arange(0.0, 4.0, 2e-3)
    run = recorded(t, motion(0.0)(t)[0])
    between, at_steps = (pendulum(run, encoder, step=0.008, every=every, **settings).solve() for every in (None, 1))
    assert between.size.residuals > at_steps.size.residuals + 1250
    for name, value in TRUTH.items():
        off = abs(between[name].estimate / value - 1), abs(at_steps[name].estimate / value - 1)
        assert off[0] < 1.3 * off[1] + 2e-5  # what a sample between the steps adds is of a higher order
    for name in ("J", "K"):  # straight lines between the states would move them by at least twice as much
        assert between[name].estimate == pytest.approx(at_steps[name].estimate, rel=3e-5)


@pytest.mark.study
def test_an_encoder_and_a_camera_have_clocks_of_their_own() -> None:
    rng = np.random.default_rng(2)
    fast, slow = np.arange(0.0, 3.99, 0.002), np.arange(0.0113, 3.99, 0.02)
    angle, seen = motion(0.0)(fast)[0], motion(0.0)(slow)[0]
    shuffled = rng.permutation(len(slow))  # a network may mix up the order
    x = (L * np.sin(seen) + NOISE * rng.standard_normal(len(slow)))[shuffled]
    commands = np.arange(0.0, 4.0, COMMANDS)
    run = Recording(
        commands,
        {"u": command(commands), "theta": angle + NOISE * rng.standard_normal(len(fast)), "x": x},
        times={"theta": fast, "x": slow[shuffled]},
    )

    def both(rod: Body, pin: Hinge) -> list[Any]:
        return [HingeAngle(pin, "theta"), PointPosition(rod.frame(), "x", "x")]

    together, alone = pendulum(run, both).solve(), pendulum(run, encoder).solve()
    within(together)
    for name in TRUTH:
        assert together[name].std_err < 1.05 * alone[name].std_err
    sizes = {size.names[0]: size.std for size in together.noise if size.kind == "sensor"}
    assert sizes == pytest.approx({"theta": NOISE, "x": NOISE}, rel=0.15)


def test_gaps_leave_the_estimates_where_they_are() -> None:
    rng, t = np.random.default_rng(3), np.arange(0.0, 4.0, 0.002)
    theta = motion(0.0)(t)[0] + NOISE * rng.standard_normal(len(t))
    whole = pendulum(recorded(t, theta), encoder).solve()
    gone = np.zeros(len(t), dtype=bool)
    while gone.mean() < 0.4:
        start = rng.integers(len(t))
        gone[start : start + rng.integers(10, 100)] = True
    holes = pendulum(recorded(t[~gone], theta[~gone]), encoder).solve()
    within(holes)
    for name in TRUTH:
        assert abs(holes[name].estimate - whole[name].estimate) < 2 * holes[name].std_err


def test_the_delay_of_a_motor_and_the_offset_of_a_sensor_are_found() -> None:
    rng, t = np.random.default_rng(4), np.arange(0.0, 4.0, 0.004)
    theta = motion(LATE)(t)[0] + OFF + NOISE * rng.standard_normal(len(t))
    late, off = Parameter("late", 0.0, lower=-0.05, upper=0.05), Parameter("off", 0.0)

    def shifted(rod: Body, pin: Hinge) -> list[Any]:
        return [Observation(lambda s: s.angle(pin) + off, "theta", period=2 * math.pi)]

    problem = pendulum(recorded(t, theta), shifted, delay=late, step=0.008)
    solution = problem.solve()
    within(solution, late=LATE, off=OFF)
    assert abs(solution["late"].estimate - LATE) < 1e-4
    assert solution["late"].initial == 0.0
    shown = problem.simulate(solution)
    assert np.max(np.abs(shown.signal("theta") - np.interp(shown.t, t, theta))) < 0.01


def test_the_delay_of_a_sensor_is_found() -> None:
    rng, t = np.random.default_rng(5), np.arange(0.0, 4.0, 0.004)
    before = np.maximum(t - 0.0073, 0.0)
    theta = motion(0.0)(before)[0] + NOISE * rng.standard_normal(len(t))
    late = Parameter("late", 0.0, lower=-0.05, upper=0.05)

    def sensors(rod: Body, pin: Hinge) -> list[Any]:
        return [JointPosition(pin, "theta", delay=late)]

    solution = pendulum(recorded(t[2:], theta[2:]), sensors, step=0.008).solve()
    within(solution, late=0.0073)


@pytest.mark.parametrize(("frequency", "told"), [(0.2, True), (0.9, False)])
def test_a_delay_that_damping_could_be_is_told(frequency: float, told: bool) -> None:
    """Far below resonance a pendulum lags by the delay, and by what damping makes of it; inputs stand at the steps."""
    t, truth = np.arange(0.0, 8.0, 0.01), {"b": 0.05, "late": 0.02}
    blank = Recording(t, {"u": np.sin(2 * np.pi * frequency * t), "theta": 0 * t})
    late = Parameter("late", 0.01, lower=-0.2, upper=0.2)
    known = pendulum(blank, encoder, delay=late).with_(fixed=["J", "K"], initial={"J": J, "K": 4 * K})
    run = known.simulate(truth, initial={"pin": (0.0, 0.0)}, noise={"theta": NOISE}, seed=1, substeps=4)
    solution = known.with_(recordings=[blank.with_signals(theta=run.signal("theta"))]).solve()
    assert solution.status is Status.CONVERGED
    for name, value in truth.items():
        assert abs(solution[name].estimate - value) < 3.5 * solution[name].std_err
    assert any((f.code, f.subject) == ("delay.correlated", ("late", "b")) for f in solution.findings) == told


@pytest.mark.study
def test_a_delay_is_found_where_nothing_disturbs_the_motion() -> None:
    J, late = Parameter("J", 0.01, lower=1e-6), Parameter("late", 0.0, lower=-0.02, upper=0.02)
    body = Body("body", mass=1.0, inertia=(0.01, J, 0.02))
    ball = Spherical("ball", GROUND.frame(), body.frame(at=(0, 0, 0.3)))
    seen = Orientation(body.frame(), ("w", "x", "y", "z"), sigma=0.002, delay=late)
    felt = Accelerometer(body.frame(at=(0, 0, -0.1)), ("ax", "ay", "az"), loss="huber", sigma=0.05)
    still = Problem("still", Model([body], [ball], gravity=gravity(G)), [], [seen, felt], step=0.01)
    noise = dict.fromkeys(seen.signals, 1e-3) | dict.fromkeys(felt.signals, 0.05)
    run = still.simulate({"J": 0.02, "late": 0.004}, 1.0, {"ball x": 0.5, "ball y": 0.3}, noise=noise, seed=1)
    solution = still.with_(recordings=[Recording(run.t, run.signals)]).solve()
    assert solution.status is Status.CONVERGED
    assert abs(solution["late"].estimate - 0.004) < 3 * solution["late"].std_err < 1e-3


def test_clocks_of_their_own_are_refused_if_they_do_not_fit() -> None:
    t = [0.0, 0.1, 0.2]
    for times, signals, words in (
        ({"y": [0.0, 0.1]}, {"u": t, "y": t}, "samples of shape"),
        ({"z": [0.0, 0.1, 0.2]}, {"u": t, "y": t}, "no signal"),
        ({"y": [0.0, 0.1, 0.1]}, {"u": t, "y": t}, "two samples at 0.1"),
        ([0.0, 0.1], {"u": t, "y": t}, "give a dict of names"),
    ):
        with pytest.raises(ProblemError, match=words):
            Recording(t, signals, times=times)
    with pytest.raises(ProblemError, match="hold"):
        pendulum_motor("sometimes")


def pendulum_motor(hold: Any) -> Motor:
    rod = Body("rod", 1.0, (1, 1, 1))
    return Motor(Hinge("pin", GROUND.frame(), rod.frame()), "u", hold=hold)


def test_commands_are_held_and_what_was_measured_is_linear_between_its_samples() -> None:
    rod = Body("rod", 1.0, (1, 1, 1))
    pin = Hinge("pin", GROUND.frame(), rod.frame())
    assert Motor(pin, "u").hold == "previous"
    assert Motor(pin, "u", measured=True).hold == "linear"
    assert Motor(pin, "u", measured=True, hold="previous").hold == "previous"
    problem = Problem("pin", Model([rod], [pin], gravity=gravity(9.81)), [], [JointTorque(pin, "u")])
    assert [one.hold for one in problem.model.inputs] == ["linear"]


def test_columns_of_a_file_have_clocks_of_their_own(tmp_path: Any) -> None:
    path = tmp_path / "two.csv"
    path.write_text("t,u,t_cam,cam\n0,1,0.05,5\n0.1,2,0.15,6\n0.2,3,,\n")
    run = Recording.from_csv(path, times={"cam": "t_cam"})
    np.testing.assert_allclose(run.t, [0, 0.05, 0.1, 0.15, 0.2])
    np.testing.assert_array_equal(run.signal("cam"), [math.nan, 5, math.nan, 6, math.nan])
    assert set(run.signals) == {"u", "cam"}
