"""Loads along coordinates, friction that differs by direction or varies with the position: against their equations."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import casadi as ca
import numpy as np
import pytest
from mechanisms import DOWN, function
from scipy.integrate import quad, solve_ivp
from scipy.optimize import brentq

from spookid import (
    GROUND,
    Asymmetric,
    Body,
    Bound,
    Cylindrical,
    Drag,
    Effort,
    Fourier,
    Friction,
    Hinge,
    HingeAngle,
    Load,
    Model,
    Parameter,
    Problem,
    ProblemError,
    Recording,
    Spook,
    Spring,
    Variational,
    Viscous,
    gravity,
    load_problem,
)
from spookid.__main__ import main

J, MASS, G, START = 0.01, 0.8, 9.82, (0.3, 4.0)
STEPPERS = [Spook(), Variational()]


def wheel(g: float = 0.0, inertia: Any = J, **loads: Any) -> Model:
    """A balanced wheel on a horizontal axle."""
    body = Body("wheel", mass=MASS, inertia=(0.003, inertia, 0.004))
    pin = Hinge("pin", GROUND.frame(**DOWN), body.frame(**DOWN), **{"compliance": 1e-9, **loads})
    return Model([body], [pin], gravity=gravity(g))


def turning(model: Model, **settings: Any) -> Problem:
    return Problem("turning", model, observations=[HingeAngle(model.joints[0], "theta")], **{"step": 0.01, **settings})


def driven(t: np.ndarray) -> np.ndarray:
    return np.sign(np.sin(2.3 * t * (1 + 0.2 * t)))


# --- efforts ---


a, b, c, d = 0.05, -0.03, 0.02, 0.01
CASES: dict[str, tuple[dict[str, Any], Callable[[float, float, float], float]]] = {
    "viscous": (dict(viscous=Asymmetric(0.02, 0.05)), lambda x, s, u: -(0.02 if s > 0 else 0.05) * s),
    "viscous load": (dict(loads=[Viscous(Asymmetric(0.05, 0))]), lambda x, s, u: -0.05 * max(s, 0)),
    "drag": (dict(drag=Asymmetric(0.02, 0.005)), lambda x, s, u: -(0.02 if s > 0 else 0.005) * s * abs(s)),
    "drag load": (dict(loads=[Drag(0.01)]), lambda x, s, u: -0.01 * s * abs(s)),
    "rough": (dict(viscous=Fourier({1: (0.01, 0)}, mean=0.03)), lambda x, s, u: -(0.03 + 0.01 * math.cos(x)) * s),
    "spring": (dict(loads=[Spring(0.3, rest=-0.5)]), lambda x, s, u: -0.3 * (x + 0.5)),
    "offset": (dict(loads=[Effort(-0.04)]), lambda x, s, u: -0.04),
    "cogging": (
        dict(loads=[Effort(Fourier({2: (a, b), 5: (c, d)}))], viscous=0.02),
        lambda x, s, u: (
            a * math.cos(2 * x) + b * math.sin(2 * x) + c * math.cos(5 * x) + d * math.sin(5 * x) - 0.02 * s
        ),
    ),
    "signal": (dict(loads=[Effort(0.3, signal="u")]), lambda x, s, u: 0.3 * u),
    "ripple": (
        dict(loads=[Effort(Fourier({3: (0.0, 0.1)}, mean=0.3, period=math.pi), signal="u")], viscous=0.05),
        lambda x, s, u: (0.3 + 0.1 * math.sin(6 * x)) * u - 0.05 * s,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_wheel_turns_as_by_hand(case):
    """J s' = effort(x, s, u), its input held from sample to sample; turns are rounded off over a narrow width."""
    loads, effort = CASES[case]
    t = np.arange(101) * 0.01
    u, states = driven(t), [np.array([0.3, 1.5])]
    backward = [Effort(-0.03)]
    loads = {**loads, "loads": [*loads.get("loads", []), *backward]}  # so that it turns back

    def rate(_: float, state: np.ndarray, push: float) -> list[float]:
        x, s = state
        return [s, (effort((x + math.pi) % (2 * math.pi) - math.pi, s, push) - 0.03) / J]

    for push in u[:-1]:
        states.append(solve_ivp(rate, (0, 0.01), states[-1], "DOP853", args=(push,), rtol=1e-9, atol=1e-11).y[:, -1])
    inputs = Recording(t, {"u": u})
    problem = turning(wheel(**loads), friction_width=1e-3)
    run = problem.simulate({}, 1.0, {"pin": (0.3, 1.5)}, inputs=inputs)
    np.testing.assert_allclose(np.unwrap(run.signals["theta"]), np.array(states)[:, 0], atol=2e-5)


def test_efforts_have_slopes_at_rest_too():
    """What differs by direction turns over the width: no slope jumps, and far from rest it is the law."""
    x, s = ca.SX.sym("x"), ca.SX.sym("s")
    pin = wheel(viscous=Asymmetric(0.02, 0.05), drag=Asymmetric(0.01, 0.03)).joints[0]
    effort = pin.effort(x, s, {}, ca.SX(0.1))
    slope = function([effort, ca.jacobian(effort, s)], [x, s])
    for at in (-2.0, -0.07, 0.0, 0.03, 2.0):
        up, down = (slope(0.2, at + step)[0][0] for step in (1e-6, -1e-6))
        assert slope(0.2, at)[1][0] == pytest.approx((up - down) / 2e-6, abs=1e-6)
    before, after = (slope(0.2, at)[1][0] for at in (-1e-6, 1e-6))
    assert before == pytest.approx(after, abs=1e-5)
    assert slope(0.2, 3.0)[0][0] == pytest.approx(-0.02 * 3 - 0.01 * 9)
    assert slope(0.2, -3.0)[0][0] == pytest.approx(0.05 * 3 + 0.03 * 9)
    assert all(slope(0.2, s)[0][0] * s <= 0 for s in np.linspace(-0.5, 0.5, 41))


# --- dry friction ---


@pytest.mark.parametrize("stepper", STEPPERS, ids=lambda s: s.name)
@pytest.mark.parametrize("friction", ["smooth", "exact"])
def test_coulomb_friction_by_direction_is_its_mean_and_an_offset(stepper, friction):
    """The same motion to rounding, through turns and rests."""
    t, runs = np.arange(151) * 0.01, []
    inputs = Recording(t, {"u": 0.3 * np.sin(5 * t)})
    drive = Effort(1.0, signal="u")
    for loads in (
        dict(coulomb=Asymmetric(0.1, 0.2), loads=[drive]),
        dict(coulomb=0.15, loads=[drive, Effort(0.05)]),
        dict(loads=[drive, Friction(Asymmetric(0.1, 0.2))]),
    ):
        problem = turning(wheel(**loads), stepper=stepper, friction=friction)
        runs.append(problem.simulate({}, 1.5, {"pin": (0.0, 2.0)}, inputs=inputs, substeps=1).signals["theta"])
    np.testing.assert_allclose(runs[0], runs[1], atol=1e-9)
    np.testing.assert_allclose(runs[2], runs[1], atol=1e-9)


@pytest.mark.parametrize("stepper", STEPPERS, ids=lambda s: s.name)
@pytest.mark.parametrize(
    ("law", "start"),
    [
        *((law, 3.0) for law in ("coulomb", "load", "stribeck", "rough")),
        ("coulomb", -3.0),
        *(pytest.param(law, -3.0, marks=pytest.mark.study) for law in ("load", "stribeck", "rough")),
    ],
)
def test_a_wheel_stops_where_its_energy_is_spent(stepper, start, law):
    """½ J s² = ∫ c dx: of the bound in either direction, of what the axle bears, and of one that varies."""
    ahead, behind = 0.06, 0.11
    forward, g = start > 0, 0.0
    bound: Callable[[float, float], float] = lambda x, s: ahead if forward else behind  # noqa: E731
    loads: dict[str, Any] = {"coulomb": Asymmetric(ahead, behind)}
    if law == "load":
        g = G
        loads = {"load_friction": Asymmetric(ahead / (MASS * G), behind / (MASS * G))}
    if law == "stribeck":
        loads["stribeck"] = (Asymmetric(0.05, 0.02), 0.5)
        plain = bound
        bound = lambda x, s: plain(x, s) + (0.05 if forward else 0.02) * math.exp(-0.5 * s**2)  # noqa: E731
    if law == "rough":
        loads = {"coulomb": Fourier({1: (0.03, 0.02)}, mean=ahead)}
        bound = lambda x, s: ahead + 0.03 * math.cos(x) + 0.02 * math.sin(x)  # noqa: E731
    problem = turning(wheel(g, **loads), step=0.002, stepper=stepper, friction="exact")
    theta = np.unwrap(problem.simulate({}, 0.7, {"pin": (0.2, start)}).signals["theta"])

    def rate(_: float, state: np.ndarray) -> list[float]:
        return [state[1], -math.copysign(bound(*state), start) / J]

    def rest(_: float, state: np.ndarray) -> float:
        return float(state[1])

    rest.terminal = True  # type: ignore[attr-defined]
    stopped = solve_ivp(rate, (0, 1), [0.2, start], events=rest, rtol=1e-10, atol=1e-12)
    assert stopped.t[-1] < 0.65
    if law == "rough":
        spent = lambda x: abs(quad(lambda y: bound(y, 0), 0.2, x)[0]) - J * start**2 / 2  # noqa: E731
        assert stopped.y[0, -1] == pytest.approx(brentq(spent, 0.2, 0.2 + math.copysign(4, start)), abs=1e-6)
    assert np.ptp(theta[-15:]) < 1e-9
    assert theta[-1] == pytest.approx(stopped.y[0, -1], abs=4e-3)


@pytest.mark.parametrize("stepper", STEPPERS, ids=lambda s: s.name)
def test_what_holds_one_way_yields_the_other(stepper):
    for push, moves in ((0.15, True), (-0.15, False), (-0.25, True)):
        model = wheel(coulomb=Asymmetric(0.1, 0.2), loads=[Effort(push)])
        theta = turning(model, stepper=stepper, friction="exact").simulate({}, 0.3, {"pin": 0.0}).signals["theta"]
        slope = (0.15 - 0.1) / J if push > 0 else -0.05 / J
        assert theta[-1] == pytest.approx(slope * 0.3**2 / 2 if moves else 0.0, abs=0.05 if moves else 1e-9)


# --- fits ---


def ripples() -> tuple[dict[str, Any], dict[str, float]]:
    """Everything at once, and the truth."""
    truth = {"b_f": 0.02, "b_b": 0.05, "c_f": 0.04, "c_b": 0.07, "a_3": 0.03, "b_3": -0.02}
    P = {name: Parameter(name, 0.0 if "3" in name else 0.03, lower=-1.0 if "3" in name else 0.0) for name in truth}
    drive, cogging = Effort(0.4, signal="u"), Effort(Fourier({3: (P["a_3"], P["b_3"])}))
    loads = dict(viscous=Asymmetric(P["b_f"], P["b_b"]), coulomb=Asymmetric(P["c_f"], P["c_b"]), loads=[drive, cogging])
    return loads, truth


@pytest.mark.parametrize(
    "settings", [{"friction_width": 0.02}, {"friction": "exact", "state_weight": 1e6}], ids=["smooth", "exact"]
)
def test_friction_by_direction_and_cogging_are_identified(settings):
    loads, truth = ripples()
    model, t = wheel(**loads), np.arange(401) * 0.01
    inputs = Recording(t, {"u": np.sin(2 * t * (1 + 0.3 * t)) + 0.2})
    problem = turning(model, **settings)
    made = turning(model, friction_width=0.02).simulate(truth, 4.0, {"pin": START}, inputs=inputs)
    seen = made.with_signals(theta=made.signals["theta"] + 1e-4 * np.random.default_rng(0).normal(size=401))
    solution = problem.solve(recordings=[seen])
    assert solution.status.value == "converged"
    smooth = "friction_width" in settings
    share = 0.005 if smooth else 0.02
    for name, value in truth.items():
        found = solution[name]
        assert abs(found.estimate - value) < 4 * found.std_err + share * abs(value), (name, found)
    quantities = {q.name: (q.value, q.unit) for q in solution.mechanism.hinges[0].quantities}
    assert quantities["viscous backward"] == (pytest.approx(truth["b_b"], rel=0.1), "N m s")
    assert quantities["coulomb forward"] == (pytest.approx(truth["c_f"], rel=0.1), "N m")
    assert quantities["effort"] == (0.4, "N m per unit of u")
    assert quantities["effort sin 3"] == (pytest.approx(truth["b_3"], rel=0.1), "N m")
    if smooth:
        assert not any("missing" in notice for notice in solution.notices)


@pytest.mark.study
@pytest.mark.parametrize(
    "settings",
    [{}, {"stepper": Spook()}, {"stepper": Spook(), "state_weight": 1e8}, {"friction": "exact", "state_weight": 1e8}],
    ids=["variational", "spook", "eliminated", "exact"],
)
def test_friction_that_the_load_sets_is_identified_by_direction(settings):
    """What the axle bears makes μ₊ m g forwards and μ₋ m g back, in steps of each stepper."""
    truth = {"mu_f": 0.005, "mu_b": 0.009}
    ahead, behind = (Parameter(name, 0.002, lower=0) for name in truth)
    model, t = wheel(G, load_friction=Asymmetric(ahead, behind), loads=[Effort(0.3, signal="u")]), np.arange(201) * 0.01
    inputs, own = Recording(t, {"u": np.sin(4 * t)}), {"step_correction": False, "friction_width": 0.02, **settings}
    problem = turning(model, **own)
    made = problem.simulate(truth, 2.0, {"pin": (0.3, 1.0)}, inputs=inputs, substeps=1)
    seen = made.with_signals(theta=made.signals["theta"] + 1e-5 * np.random.default_rng(0).normal(size=201))
    solution = problem.solve(recordings=[seen])
    assert solution.status.value == "converged"
    rel = 0.05 if "friction" in settings else 0.02  # a simulation that sticks is of first order in the step
    for name, value in truth.items():
        assert solution[name].estimate == pytest.approx(value, rel=rel), name


def test_each_coordinate_has_its_own():
    """A cylinder joint that rubs by direction along its axis alone."""
    body = Body("rod", mass=1.0, inertia=(0.01, 0.01, 0.01))
    joint = Cylindrical("sleeve", GROUND.frame(), body.frame(), viscous=(Asymmetric(2.0, 5.0), 0.03), coulomb=(0, 0.1))
    x, s = ca.SX.sym("x", 2), ca.SX.sym("s", 2)
    evaluate = function([joint.effort(x, s, {}, ca.SX([1e-3, 1e-3]))], [x, s])
    np.testing.assert_allclose(evaluate([0, 0], [0.5, -4])[0], [-1.0, 0.12])
    np.testing.assert_allclose(evaluate([0, 0], [-0.5, 4])[0], [2.5, -0.12])
    assert joint.rubbing == (False, True)


def test_check_tells_the_width_of_each_coordinate(tmp_path, capsys):
    file = tmp_path / "sleeve.py"
    file.write_text(
        "import numpy as np\n"
        "from spookid import *\n"
        "t = np.arange(60) * 0.01\n"
        "m = Parameter('m', 1.0, lower=0.1)\n"
        "body = Body('rod', mass=m, inertia=(0.01, 0.01, 0.01))\n"
        "sleeve = Cylindrical('sleeve', GROUND.frame(), body.frame(), coulomb=(Asymmetric(1.0, 2.0), 0.1))\n"
        "x = JointPosition(sleeve, 'x', coordinate=0)\n"
        "turn = JointPosition(sleeve, 'turn', coordinate=1)\n"
        "recording = Recording(t, {'x': np.sin(5 * t), 'turn': np.cos(3 * t)})\n"
        "problem = Problem('sleeve', Model([body], [sleeve], gravity=gravity(0)), [recording], [x, turn], step=0.01)\n"
    )
    assert main(["check", str(file), "--verbose"]) == 0
    words = " ".join(capsys.readouterr().out.split())
    labels = [freedom.label for freedom in load_problem(file).model.freedoms]
    assert re.search(rf"friction width {labels[0]} [\d.]+ m/s, {labels[1]} [\d.]+ rad/s", words), words


class Rough(Load):
    """A load of one's own whose dry friction hangs on the position."""

    def bound_at(self, position, rate):
        return Bound(0 * rate, 0.06 + 0.03 * ca.cos(position))


def test_a_bound_of_ones_own_sees_the_position():
    runs = []
    for loads in ([Rough()], [Friction(Fourier({1: (0.03, 0)}, mean=0.06))]):
        problem = turning(wheel(loads=loads), friction="exact")
        runs.append(problem.simulate({}, 0.6, {"pin": (0.2, 3.0)}).signals["theta"])
    np.testing.assert_allclose(*runs, atol=1e-12)
    assert np.ptp(runs[0][-10:]) < 1e-9


# --- declaration ---


def test_mistakes_are_told():
    def pin(**loads: Any) -> Model:
        return wheel(**loads)

    here = r"test_loads\.py:\d+: "
    for declare, complaint in (
        (lambda: pin(viscous=Asymmetric(-1, 1)), "Viscous is -1; it must not be negative"),
        (lambda: pin(coulomb=Asymmetric(1, -2)), "Friction: coulomb is -2; it must not be negative"),
        (lambda: pin(coulomb=Fourier({1: (0.3, 0.4)}, mean=0.4)), r"Fourier falls to -0\.1; give it a mean above"),
        (lambda: pin(stiffness=Asymmetric(1, 2)), "stiffness must be a number or an expression"),
        (lambda: pin(loads=[Spring(Asymmetric(1, 2))]), "Spring: stiffness does not depend on the direction"),
        (lambda: pin(loads=[Spring(Fourier({1: (1, 1)}))]), "Spring: stiffness does not vary with the position"),
        (lambda: pin(loads=[Effort(Asymmetric(1, 2))]), "Effort: value does not depend on the direction"),
        (lambda: pin(loads=[Effort("much")]), "Effort: value must be a number or an expression of Parameters"),
        (lambda: pin(loads=[Effort((1, 2))]), "effort of load Effort has 2 values; give one for each of 1 coordinates"),
        (lambda: pin(coulomb=Asymmetric(1, 2), load_friction=1, stribeck=(1, 1)), "Friction has stribeck, which adds"),
        (lambda: pin(stribeck=(Asymmetric(1, 2), 1)), "Friction has stribeck, which adds to load_friction or to coul"),
        (lambda: Friction(coulomb=1, stribeck=0.3), "Friction: stribeck is 0.3; give a pair"),
        (lambda: Fourier({}), "Fourier: harmonics is {}; give"),
        (lambda: Fourier({0: (1, 1)}), "Fourier: harmonic 0 is no whole number from 1 on"),
        (lambda: Fourier({1: 2}), "Fourier: harmonics holds 2 as 1"),
        (lambda: Fourier({1: (1, 2)}, period=0), "Fourier: period is 0; it must be positive"),
    ):
        with pytest.raises(ProblemError, match=here + ".*" + complaint):
            declare()
