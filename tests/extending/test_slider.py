"""A joint of one's own, along a line: a cart on a track, a pendulum on a cart, and friction along the track."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import casadi as ca
import numpy as np
import pytest
from scipy.integrate import solve_ivp

from spookid import (
    GROUND,
    Body,
    Coordinate,
    Hinge,
    HingeAngle,
    Joint,
    JointPosition,
    Load,
    Model,
    Motor,
    Parameter,
    Problem,
    ProblemError,
    Recording,
    Spook,
    Variational,
    gravity,
    load,
)
from spookid.__main__ import main

G = 9.82


class Slider(Joint):
    """Along the x axes of both frames."""

    coordinates = (Coordinate("x", "m"),)
    linear, angular = ("y", "z"), ("xy", "xz", "yz")

    def violation(self, a, b):
        turned = (ca.dot(a.x, b.y), ca.dot(a.x, b.z), ca.dot(a.y, b.z))
        return ca.vertcat((a.axes.T @ (b.origin - a.origin))[1:], *turned)

    def position(self, a, b):
        return ca.dot(a.x, b.origin - a.origin)

    def transform(self, position):
        return ca.vertcat(position, 0, 0), ca.SX([1, 0, 0, 0])


class Magnet(Load):
    """A force that an input scales."""

    signals = ("field",)

    def __init__(self, strength: Any) -> None:
        self.strength = strength

    def effort(self, position, rate, inputs):
        return self.strength * inputs[0] * ca.sin(5 * position)


def cart(**track: Any) -> tuple[Body, Slider]:
    body = Body("cart", mass=Parameter("m", 1.5, lower=0.1, unit="kg"), inertia=(0.01, 0.02, 0.03))
    return body, Slider("track", GROUND.frame(at=(0, 0.2, 0)), body.frame(at=(0.1, 0, 0.05)), **track)


def on_a_track(**settings: Any) -> Problem:
    """A cart of 2 kg with a spring and friction, driven: m x'' = -k x - b x' + 3 u."""
    b, k = Parameter("b", 1.0, lower=0, unit="N s/m"), Parameter("k", 20.0, lower=0, unit="N/m")
    body, track = cart(viscous=b, stiffness=k, **settings.pop("track", {}))
    t = np.arange(401) * 0.01
    u = np.sign(np.sin(1.3 * t * (1 + 0.2 * t)))
    states = [np.array([0.3, 0.0])]
    for force in 3 * u[:-1]:
        rate = partial(_track, force=force)
        states.append(solve_ivp(rate, (0, 0.01), states[-1], rtol=1e-10, atol=1e-12).y[:, -1])
    x = np.array(states)[:, 0] + 1e-4 * np.random.default_rng(1).normal(size=len(t))
    model = Model([body], [track], motors=[Motor(track, signal="u", gain=3.0)], gravity=gravity(G))
    given = {"recordings": [Recording(t, {"x": x, "u": u})], "observations": [JointPosition(track, signal="x")]}
    return Problem("track", model=model, step=0.01, **{**given, **settings})


def _track(_: float, state: np.ndarray, force: float) -> list[float]:
    x, v = state
    return [v, (-40 * x - 0.8 * v + force) / 2]


def near(solution: Any, truth: dict[str, float], errors: float = 4.0, share: float = 0.0) -> None:
    """Each estimate within so many standard errors, or within a share, of the truth."""
    for name, value in truth.items():
        found = solution[name]
        assert 0 < found.std_err < 0.2 * value
        assert abs(found.estimate - value) < errors * found.std_err + share * value, (name, found)


@pytest.mark.parametrize(
    "settings",
    [
        {"stepper": Variational()},
        pytest.param({"stepper": Spook(), "step_correction": False}, marks=pytest.mark.study),
        pytest.param({"stepper": Spook(multipliers="lifted"), "state_weight": 1e4}, marks=pytest.mark.study),
    ],
    ids=["variational", "spook", "lifted"],
)
def test_a_cart_is_identified(settings, tmp_path):
    solution = on_a_track(**settings).solve()
    assert solution.status.value == "converged"
    # SPOOK's step is of first order: it adds h k/2 of damping.
    truth = {"m": 2.0, "b": 0.8, "k": 40.0} if not isinstance(settings["stepper"], Spook) else {"m": 2.0, "k": 40.0}
    near(solution, truth, share=0.0 if "state_weight" not in settings else 0.01)
    text = solution.summary()
    assert "mm" in text or " m" in text
    solution.save(tmp_path / "out")
    assert load(tmp_path / "out")["m"].estimate == pytest.approx(solution["m"].estimate)
    if isinstance(settings["stepper"], Variational):
        assert main(["report", str(tmp_path / "out")]) == 0
        page = (tmp_path / "out/report.html").read_text()
        assert "track" in page
        assert "N s/m" in page
    outline = solution.mechanism.hinges[0]
    assert {q.name: q.unit for q in outline.quantities}["viscous"] == "N s/m"
    assert solution.mechanism.motors[0].quantities[0].unit == "N per unit of the input"
    if solution.noise:
        assert [n.unit for n in solution.noise] == ["N", "m"]


def test_a_pendulum_on_a_cart_swings_as_by_hand():
    """The equations of the cart-pole, by Lagrange: an oracle that knows no joints."""
    m, M, l = 0.4, 2.0, 0.3
    body, track = cart()
    rod = Body("rod", mass=m, inertia=(1e-9, 1e-9, 1e-9))
    pin = Hinge(
        "pin",
        body.frame(at=(0.1, 0, 0.05), x=(0, 1, 0), y=(0, 0, -1)),
        rod.frame(at=(0, 0, l), x=(0, 1, 0), y=(0, 0, -1)),
    )
    model = Model([body, rod], [track, pin], gravity=gravity(G))
    sensors = [JointPosition(track, signal="x"), HingeAngle(pin, signal="theta")]
    problem = Problem("cart-pole", model=model, observations=sensors, step=0.01)
    run = problem.simulate({"m": M}, 1.5, {"track": (0.1, -0.5), "pin": (1.0, 0.3)})

    def rate(_, s):
        _, a, v, w = s
        # x of the mass is x − l sin a, as a turns x towards −z about y.
        matrix = np.array([[M + m, -m * l * np.cos(a)], [-m * l * np.cos(a), m * l**2]])
        return [v, w, *np.linalg.solve(matrix, [-m * l * np.sin(a) * w**2, -m * G * l * np.sin(a)])]

    exact = solve_ivp(rate, (0, 1.5), [0.1, 1.0, -0.5, 0.3], t_eval=run.t, rtol=1e-10, atol=1e-12).y
    np.testing.assert_allclose(run.signals["x"], exact[0], atol=1e-5)
    np.testing.assert_allclose(run.signals["theta"], exact[1], atol=1e-5)


@pytest.mark.parametrize("stepper", [Spook(), Variational()], ids=["spook", "variational"])
def test_a_sliding_cart_stops_where_coulomb_says(stepper):
    """v²/(2 a) with a = c/m, and limits that hold it back."""
    body, track = cart(coulomb=4.0)
    sensors = [JointPosition(track, signal="x")]
    problem = Problem(
        "brake",
        model=Model([body], [track], gravity=gravity(G)),
        observations=sensors,
        step=0.002,
        stepper=stepper,
        friction="exact",
    )
    x = problem.simulate({"m": 2.0}, 1.0, {"track": (0.0, 1.0)}).signals["x"]
    assert x[-1] == pytest.approx(0.25, abs=2e-3)
    assert np.ptp(x[-100:]) < 1e-9
    body, track = cart(limits=(-1, 0.2), compliance=1e-6)
    model = Model([body], [track], gravity=gravity(G))
    x = (
        problem.with_(model=model, observations=[JointPosition(track, signal="x")])
        .simulate({"m": 2.0}, 1.0, {"track": (0.0, 1.0)})
        .signals["x"]
    )
    assert x.max() < 0.21


def test_friction_that_sticks_is_identified_along_a_track():
    body, track = cart(coulomb=Parameter("c", 1.0, lower=0, unit="N"))
    t = np.arange(201) * 0.01
    push = Recording(t, {"u": 6 * np.sin(4 * t)})
    model = Model([body], [track], motors=[Motor(track, signal="u")], gravity=gravity(G))
    problem = Problem(
        "rub",
        model=model,
        observations=[JointPosition(track, signal="x", sigma=1e-4)],
        step=0.01,
        fixed=["m"],
        initial={"m": 2.0},
        state_weight=1e6,
    )
    made = problem.simulate({"c": 3.0, "m": 2.0}, initial={"track": 0.1}, inputs=push, duration=2.0, friction="exact")
    for friction in ("smooth", "exact"):
        assert problem.solve(recordings=[made], friction=friction)["c"].estimate == pytest.approx(3.0, rel=0.05)


def test_a_load_of_ones_own_takes_an_input():
    strength = Parameter("F", 1.0, unit="N")
    body, track = cart(viscous=0.5, loads=[Magnet(strength)])
    sensors = [JointPosition(track, signal="x")]
    problem = Problem(
        "magnet",
        model=Model([body], [track], gravity=gravity(G)),
        observations=sensors,
        step=0.01,
        fixed=["m"],
        initial={"m": 2.0},
    )
    assert [p.name for p in problem.parameters] == ["F", "m"]
    assert problem.model.signals == ("field",)
    t = np.arange(201) * 0.01
    field = Recording(t, {"field": np.cos(3 * t)})
    made = problem.simulate({"F": 4.0}, 2.0, {"track": 0.2}, inputs=field)
    noisy = made.with_signals(x=made.signals["x"] + 1e-4 * np.random.default_rng(2).normal(size=201))
    near(problem.solve(recordings=[noisy]), {"F": 4.0}, share=0.005)


def test_a_slider_crank_closes_its_loop():
    """Against x = r cos θ + √(l² − r² sin² θ), and its friction is identified through the loop."""
    r, l = 0.1, 0.3
    axle = {"x": (0, 1, 0), "y": (1, 0, 0)}
    crank, rod = Body("crank", mass=0.5, inertia=(1e-3, 2e-3, 1e-3)), Body("rod", mass=0.4, inertia=(1e-3, 3e-3, 3e-3))
    piston = Body("piston", mass=1, inertia=(1e-3, 1e-3, 1e-3))
    b = Parameter("b", 1.0, lower=0, unit="N s/m")
    joints = [
        Hinge("drive", GROUND.frame(**axle), crank.frame(**axle)),
        Hinge("pin", crank.frame(at=(r, 0, 0), **axle), rod.frame(at=(-l / 2, 0, 0), **axle)),
        Hinge("wrist", rod.frame(at=(l / 2, 0, 0), **axle), piston.frame(**axle)),
        Slider("bore", GROUND.frame(), piston.frame(), viscous=b),
    ]
    sensors = [HingeAngle(joints[0], signal="theta"), JointPosition(joints[3], signal="x")]
    problem = Problem("engine", model=Model([crank, rod, piston], joints, gravity=gravity(0)), observations=sensors)
    run = problem.simulate({"b": 2.0}, 0.6, {"drive": (0.7, 12.0)})
    theta = run.signals["theta"]
    np.testing.assert_allclose(
        run.signals["x"], r * np.cos(theta) + np.sqrt(l**2 - (r * np.sin(theta)) ** 2), atol=1e-6
    )
    rng = np.random.default_rng(0)
    noisy = run.with_signals(
        theta=theta + 1e-3 * rng.normal(size=len(theta)), x=run.signals["x"] + 1e-4 * rng.normal(size=len(theta))
    )
    near(problem.solve(recordings=[noisy]), {"b": 2.0}, share=0.005)


def test_a_joint_may_leave_nothing():
    """A weld: the mass that it holds is part of the cart."""

    class Weld(Joint):
        coordinates = ()
        linear, angular = ("x", "y", "z"), ("yz", "zx", "xy")

        def violation(self, a, b):
            turned = (ca.dot(a.y, b.z), ca.dot(a.z, b.x), ca.dot(a.x, b.y))
            return ca.vertcat(b.origin - a.origin, *turned)

        def position(self, a, b):
            return ca.SX(0, 1)

        def transform(self, position):
            return ca.SX(3, 1), ca.SX([1, 0, 0, 0])

    body, track = cart(stiffness=40.0)
    load = Body("load", mass=0.5, inertia=(0.01, 0.01, 0.01))
    joints = [track, Weld("weld", body.frame(at=(0, 0, 0.2)), load.frame())]
    sensors = [JointPosition(track, signal="x")]
    problem = Problem("welded", model=Model([body, load], joints, gravity=gravity(G)), observations=sensors, step=0.01)
    run = problem.simulate({"m": 1.5}, 2.0, {"track": 0.1})
    np.testing.assert_allclose(run.signals["x"], 0.1 * np.cos(np.sqrt(40 / 2.0) * run.t), atol=1e-5)
    noisy = run.with_signals(x=run.signals["x"] + 1e-4 * np.random.default_rng(0).normal(size=len(run.t)))
    for stepper in (Variational(), Spook(multipliers="lifted")):
        fixed = {} if isinstance(stepper, Variational) else {"state_weight": 1e6}
        near(problem.solve(recordings=[noisy], stepper=stepper, **fixed), {"m": 1.5}, share=0.005)


def test_mistakes_are_told():
    class Half(Slider):
        angular = ("xy",)

    body = Body("b", mass=1, inertia=(1, 1, 1))
    with pytest.raises(ProblemError, match=r"test_slider.py:\d+: Half 'h' has 3 rows and 1 coordinates; .* make 6"):
        Half("h", GROUND.frame(), body.frame())
    with pytest.raises(ProblemError, match=r"Slider 's' has dry and load_friction, which are one"):
        Slider("s", GROUND.frame(), body.frame(), dry=1, load_friction=2)
    with pytest.raises(ProblemError, match=r"Motor drives coordinate 1 of 's', which has 1, from 0 on"):
        Motor(Slider("s", GROUND.frame(), body.frame()), signal="u", coordinate=1)
    with pytest.raises(ProblemError, match=r"HingeAngle observes .*, which is no Hinge"):
        HingeAngle(Slider("s", GROUND.frame(), body.frame()), signal="x")
    assert float(Slider("s", GROUND.frame(), body.frame(), dry=0.2).load_friction) == 0.2


def test_a_load_of_another_shape_is_refused():
    class Pair(Load):
        def effort(self, position, rate, inputs):
            return ca.vertcat(rate, rate)

    class Broken(Load):
        def effort(self, position, rate, inputs):
            return self.nothing

    cart = Body("cart", mass=1.0, inertia=(1, 1, 1))
    for own, complaint in (
        (Pair(), "effort of load Pair has 2 values; give one for each of 1 coordinates"),
        (Broken(), "load Broken cannot be evaluated .*nothing"),
    ):
        with pytest.raises(ProblemError, match=rf"test_slider\.py:\d+: Slider 'track'.*{complaint}"):
            Slider("track", GROUND.frame(), cart.frame(), loads=[own])


def test_a_transform_that_contradicts_the_position_is_refused():
    class Backwards(Slider):
        def transform(self, position):
            return ca.vertcat(-position, 0, 0), ca.SX([1, 0, 0, 0])

    class Turned(Slider):
        def transform(self, position):
            return ca.vertcat(position, 0, 0), ca.SX([math.cos(0.1), 0, 0, math.sin(0.1)])

    class Short(Slider):
        def violation(self, a, b):
            return (b.origin - a.origin)[1:]

    cart = Body("cart", mass=1.0, inertia=(1, 1, 1))
    for kind, complaint in (
        (Backwards, "its transform of the position .* leads to the position"),
        (Turned, "where its transform leads, its violation is"),
        (Short, "violation has 2 values; it needs 5"),
    ):
        with pytest.raises(ProblemError, match=rf"test_slider\.py:\d+: {kind.__name__} 'track'.*{complaint}"):
            kind("track", GROUND.frame(), cart.frame())


class Bent(Slider):
    """A slider whose axis ends in Parameters that no ``expressions`` lists."""

    def __init__(self, name, parent, child, height):
        object.__setattr__(self, "height", height)
        super().__init__(name, parent, child)

    def violation(self, a, b):
        return super().violation(a, b) - ca.vertcat(0, self.height, 0, 0, 0)

    def transform(self, position):
        return ca.vertcat(position, 0, self.height), ca.SX([1, 0, 0, 0])


def test_a_parameter_of_a_joint_is_found_where_its_methods_use_it():
    body = Body("cart", mass=1.0, inertia=(1, 1, 1))
    height = Parameter("height", 0.2, unit="m")
    bent = Bent("bent", GROUND.frame(), body.frame(), height)
    problem = Problem("bent", Model([body], [bent], gravity=gravity(0)), observations=[JointPosition(bent, "x")])
    assert problem.parameters == (height,)
    run = problem.simulate({"height": 0.3}, 0.1, {"bent": 0.1})
    np.testing.assert_allclose(run.q[:, 0, :3], np.tile([0.1, 0, 0.3], (len(run.t), 1)), atol=1e-9)


def test_a_parameter_in_a_kind_of_the_package_that_is_overridden_is_found():
    class Geared(Hinge):
        def position(self, a, b):
            return ratio * super().position(a, b)

        def rates(self, a, b):
            return ratio * super().rates(a, b)

        def transform(self, position):
            return super().transform(position / ratio)

    ratio = Parameter("ratio", 2.0)
    body = Body("wheel", mass=1.0, inertia=(1, 1, 1))
    geared = Geared("geared", GROUND.frame(), body.frame())
    assert Problem("geared", Model([body], [geared], gravity=gravity(0))).parameters == (ratio,)


def test_rows_that_say_the_same_are_refused_where_they_are_declared():
    class Twice(Slider):
        def violation(self, a, b):
            rows = ca.vertsplit(super().violation(a, b))
            return ca.vertcat(rows[0], 2 * rows[0], *rows[2:])

    class Still(Slider):
        def violation(self, a, b):
            return super().violation(a, b) * ca.SX([1, 1, 1, 1, 0])

    class Along(Slider):
        """Its coordinate is what its first row holds."""

        coordinates = (Coordinate("x", "m"),)

        def violation(self, a, b):
            rows = ca.vertsplit(super().violation(a, b))
            return ca.vertcat(super().position(a, b) - 0.4, *rows[1:])

    cart = Body("cart", mass=1.0, inertia=(1, 1, 1))
    for kind, complaint in (
        (Twice, "row 'y' and row 'z' change with the same motions"),
        (Still, "row 'yz' changes with no motion"),
        (Along, "row 'y' and coordinate 'x' change with the same motions"),
    ):
        with pytest.raises(ProblemError, match=rf"test_slider\.py:\d+: {kind.__name__} 'track': {complaint}; rows and"):
            kind("track", GROUND.frame(), cart.frame())


def test_a_transform_that_is_no_origin_and_quaternion_is_refused():
    class Lone(Slider):
        def transform(self, position):
            return ca.vertcat(position, 0, 0)

    class Long(Slider):
        def transform(self, position):
            return ca.vertcat(position, 0, 0), ca.SX([2, 0, 0, 0])

    cart = Body("cart", mass=1.0, inertia=(1, 1, 1))
    for kind, complaint in (
        (Lone, r"transform must return a pair, an origin \(3,\) and a unit quaternion \(4,\)"),
        (Long, "transform returns a quaternion of length 2; its length must be 1"),
    ):
        with pytest.raises(ProblemError, match=rf"test_slider\.py:\d+: {kind.__name__} 'track': {complaint}"):
            kind("track", GROUND.frame(), cart.frame())
