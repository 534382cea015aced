"""Factor graphs: each factor's derivatives, motions and efforts that are known otherwise, states and parameters from
partial sensors, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import casadi as ca
import numpy as np
import pytest
from numpy.typing import NDArray

from spookid import (
    GROUND,
    Body,
    Hinge,
    Manifold,
    Model,
    Motor,
    Parameter,
    ProblemError,
    Spherical,
    load_problem,
    planar,
)
from spookid.graphs import (
    STAGES,
    AccelerationConstraint,
    Dynamics,
    Euler,
    Graph,
    GraphFactor,
    InverseDynamics,
    JointSystem,
    Observation,
    PositionConstraint,
    Prior,
    Sigmas,
    SoftEquality,
    Stage,
    System,
    Trapezoid,
    VelocityConstraint,
    forward_dynamics,
    inverse_dynamics,
    simulated,
)

Array = NDArray[np.float64]
ANGLES = (0.0, -3.748470894, -0.022607800)
"""Of the crank at 0, 1 and 2 s, by two integrators (design/equations.md)."""
DEPENDENT = [
    Prior("q", (0.1, -0.2, 0.3)),
    Prior("v", (0.0, 0.5), rows=("y", "theta"), sigma=(0.1, 0.2)),
    Euler("v", "a", sigma=0.1),
    Trapezoid("q", "v", sigma=0.1),
    PositionConstraint(sigma=0.5),
    VelocityConstraint(sigma=0.5),
    AccelerationConstraint(sigma=0.5),
    Dynamics(sigma=0.3),
    SoftEquality("q", sigma=10.0),
    SoftEquality("Q", 2, sigma=10.0),
    InverseDynamics(sigma=0.2, inputs=True),
    Observation("gyro", lambda v: 2 * v[2], sigma=0.1),
]


class Pendulum(System):
    """A point of a mass on a rod of 1 m in Cartesian coordinates, with the rod's angle from below as a third one, which
    has the inertia of the rod."""

    names = ("x", "y", "theta")
    manifold = Manifold((("flat", 3),))
    signals = ("torque",)
    independent: tuple[int, ...] = (2,)
    actuated = ("rod",)

    def __init__(self, mass: float | Parameter = 2.0) -> None:
        self._mass = ca.SX(mass)

    def mass(self, q: ca.SX) -> ca.SX:
        return ca.diagcat(self._mass, self._mass, 0.1)

    def force(self, q: ca.SX, v: ca.SX, u: ca.SX) -> ca.SX:
        return ca.vertcat(0, -9.8 * self._mass, u[0] - 0.2 * v[2])

    def constraint(self, q: ca.SX) -> ca.SX:
        return ca.vertcat(q[0] - ca.sin(q[2]), q[1] + ca.cos(q[2]))

    def actuation(self, q: ca.SX) -> ca.SX:
        return ca.SX([0, 0, 1])

    def expressions(self) -> list[ca.SX]:
        return [self._mass]

    @staticmethod
    def at(theta: float) -> Array:
        return np.array([np.sin(theta), -np.cos(theta), theta])


def fourbar(coupler: float | Parameter = 2.0, friction: float | Parameter = 0.0) -> planar.Mechanism:
    A, D = planar.Ground("A", (0, 0)), planar.Ground("D", (4, 0))
    P, R = planar.Point("P", (1, 0)), planar.Point("R", (1, 2))
    crank = planar.Link("crank", A, P, 1.0)
    bars = [crank, planar.Link("coupler", P, R, coupler), planar.Link("rocker", D, R, 4.0)]
    loads = [planar.Torque(crank, "torque"), planar.PinFriction(A, crank, viscous=friction)]
    return planar.Mechanism(bars, [planar.AbsoluteAngle("theta", crank)], loads, gravity=9.8)


def arm() -> Model:
    upper = Body("upper", mass=1.2, inertia=np.diag([0.02, 0.03, 0.04]))
    lower = Body("lower", mass=0.8, inertia=np.diag([0.01, 0.02, 0.02]))
    ball = Spherical("ball", GROUND.frame(), upper.frame(at=(0, 0, 0.3)), viscous=0.05)
    elbow = Hinge("elbow", upper.frame(at=(0, 0.05, -0.3)), lower.frame(at=(0, 0, 0.25)), viscous=0.02, coulomb=0.01)
    return Model(bodies=[upper, lower], joints=[ball, elbow], motors=[Motor(elbow, "u")], gravity=(0, 0, -9.81))


@pytest.mark.parametrize("coordinates", ["dependent", "independent"])
def test_forward_dynamics_of_the_four_bar(coordinates: str) -> None:
    system, h, steps = fourbar(), 1e-3, 2001
    q, data = system.assembled(), {"torque": np.zeros(2001)}
    graph = forward_dynamics(system, h, q, coordinates=coordinates)
    found = graph.solve(steps, data, start=simulated(system, h, steps, q, data=data))
    assert found.converged
    angle = found["q"][::1000, system.names.index("theta")]
    assert np.sqrt(np.mean((angle - ANGLES) ** 2)) < 1e-5
    closed = ca.Function("phi", [x := ca.SX.sym("q", 5)], [system.constraint(x)])
    assert max(np.abs(closed(one).full()).max() for one in found["q"][::100]) < 1e-12
    assert found.left_branch is None


def test_a_step_of_the_trapezoid_is_of_second_order() -> None:
    system, errors = Pendulum(), []
    for steps in (51, 101):
        h, data = 1 / (steps - 1), {"torque": np.ones(steps)}
        fine = simulated(system, h / 8, 8 * (steps - 1) + 1, Pendulum.at(1.0), data={"torque": np.ones(8 * steps - 7)})
        graph = forward_dynamics(system, h, Pendulum.at(1.0), coordinates="independent", noise=Sigmas(0))
        found = graph.solve(steps, data, start={"q": Pendulum.at(1.0)})
        errors.append(np.abs(found["q"] - fine["q"][::8]).max())
    assert 3.5 < errors[0] / errors[1] < 4.5


def test_inverse_dynamics_of_the_four_bar() -> None:
    system, h = fourbar(), 1e-3
    t = h * np.arange(2001)
    theta, rate, acceleration = 1.2 * (1 - np.cos(2 * t)), 2.4 * np.sin(2 * t), 4.8 * np.cos(2 * t)
    torque = crank_torque(theta, rate, acceleration)
    for coordinates, stages in (("dependent", STAGES), ("independent", ())):
        graph = inverse_dynamics(system, h, ["reference"], coordinates=coordinates)
        found = graph.solve(len(t), {"reference": theta}, start={"q": system.assembled()}, stages=stages)
        assert found.converged
        assert np.abs(found["q"][:, 4] - theta).max() < 1e-12
        assert np.abs(found["Q"][:, 0] - torque).max() < 1e-3


def crank_torque(theta: Array, rate: Array, acceleration: Array) -> Array:
    """Of the four-bar in its crank angle alone, (N,): where two circles meet, and Lagrange's equation with the reduced
    inertia J(θ), J θ'' + J'/2 θ'^2 + dV/dθ."""

    def points(angle: Any) -> tuple[Any, Any]:
        """P and R, each (2, N), also of complex angles."""
        P = np.array([np.cos(angle), np.sin(angle)])
        away = np.array([4 - P[0], -P[1]])
        distance = np.sqrt(away[0] ** 2 + away[1] ** 2)
        along = (4 - 13 + distance**2) / (2 * distance)
        across = np.sqrt(4 - along**2)
        return P, P + (along * away + across * np.array([-away[1], away[0]])) / distance

    def slopes(angle: Array) -> tuple[Array, Array]:
        P, R = points(angle + 1e-30j)
        return P.imag / 1e-30, R.imag / 1e-30

    def inertia(angle: Array) -> Array:
        P, R = slopes(angle)
        own = np.sum(P**2, axis=0), np.sum(R**2, axis=0)
        return own[0] / 3 + 2 / 3 * (own[0] + own[1] + np.sum(P * R, axis=0)) + 4 / 3 * own[1]

    P, R = slopes(theta)
    change = (inertia(theta + 1e-5) - inertia(theta - 1e-5)) / 2e-5
    weight = 9.8 * (P[1] / 2 + (P[1] + R[1]) + 2 * R[1])
    return inertia(theta) * acceleration + change / 2 * rate**2 + weight


def test_an_arm_in_space_moves_and_says_what_it_takes() -> None:
    system, h, steps = JointSystem(arm(), friction_width=0.1), 2e-3, 251
    q, v = np.array([1, 0, 0, 0, 0.3]), [0.1, 0.5, -0.3, 0.2]
    data = {"u": 0.5 * np.sin(3 * h * np.arange(steps))}
    exact = simulated(system, h, steps, q, v, data)
    found = forward_dynamics(system, h, q, v).solve(steps, data, start={"q": q})
    assert found.converged
    assert np.abs(found["q"] - exact["q"]).max() < 2e-4


def test_inverse_dynamics_of_an_arm_in_space() -> None:
    upper = Body("upper", mass=1.2, inertia=np.diag([0.02, 0.03, 0.04]))
    lower = Body("lower", mass=0.8, inertia=np.diag([0.01, 0.02, 0.02]))
    pan = Hinge("pan", GROUND.frame(x=(0, 0, 1), y=(1, 0, 0)), upper.frame(at=(0, 0, 0.3), x=(0, 0, 1), y=(1, 0, 0)))
    elbow = Hinge("elbow", upper.frame(at=(0.1, 0, -0.3)), lower.frame(at=(0, 0, 0.25)), viscous=0.02)
    system = JointSystem(Model(bodies=[upper, lower], joints=[pan, elbow], gravity=(0, 0, -9.81)))
    h = 5e-3
    t = h * np.arange(201)
    q = np.column_stack([0.5 * np.sin(3 * t), 0.8 * np.cos(2 * t)])
    v = np.column_stack([1.5 * np.cos(3 * t), -1.6 * np.sin(2 * t)])
    a = np.column_stack([-4.5 * np.sin(3 * t), -3.2 * np.cos(2 * t)])
    x, s = ca.SX.sym("q", 2), ca.SX.sym("v", 2)
    terms = ca.Function("terms", [x, s], [system.mass(x), system.force(x, s, ca.SX(0, 1))])
    wanted = [np.ravel(M.full() @ one) - np.ravel(Q) for one, (M, Q) in zip(a, map(terms, q, v), strict=True)]
    graph = inverse_dynamics(system, h, ["pan", "elbow"])
    found = graph.solve(len(t), {"pan": q[:, 0], "elbow": q[:, 1]}, start={"q": q})
    assert found.converged
    assert np.abs(found["Q"] - wanted).max() < 1e-3 * np.abs(wanted).max()


def test_a_gyroscope_on_the_coupler_alone_shows_the_motion_and_parameters() -> None:
    h, steps, rng = 5e-3, 301, np.random.default_rng(0)
    truth, data = fourbar(friction=0.8), {"torque": np.zeros(301)}
    q = truth.assembled()
    motion = simulated(truth, h / 4, 4 * steps - 3, q, data={"torque": np.zeros(4 * steps - 3)})
    true = {name: values[::4] for name, values in motion.items()}

    def rate(q: ca.SX, v: ca.SX) -> ca.SX:
        return ((q[2] - q[0]) * (v[3] - v[1]) - (q[3] - q[1]) * (v[2] - v[0])) / 4

    shown = np.array([float(rate(*pair)) for pair in zip(true["q"], true["v"], strict=True)])
    data["gyro"] = shown + 0.01 * rng.standard_normal(steps)
    data["gyro"][::5] = np.nan
    m, b = Parameter("m_coupler", 1.5, lower=0.1), Parameter("b", 0.5, lower=0.0)
    noise, start = Sigmas((1e-4, 1e-3), 0.1), truth.assembled({"theta": 0.1})
    gyro = Observation("gyro", rate, sigma=0.01)
    for system in (truth, fourbar(m, b)):
        guess = simulated(system, h, steps, start, data={"torque": np.zeros(steps)})
        factors = [f for f in forward_dynamics(system, h, q, noise=noise, more=[gyro]).sources if type(f) is not Prior]
        found = Graph(system, factors, step=h).solve(steps, data, start=guess)
        assert found.converged
        assert np.abs(found["q"] - true["q"]).max() < 5e-3
    for name, value in {"m_coupler": 2.0, "b": 0.8}.items():
        error = found.standard_errors[name]
        assert 0 < error < 0.05 * value
        assert abs(found.parameters[name] - value) < 3 * error
    assert found.cost == pytest.approx(sum(np.sum(c) for c in found.costs.values()))
    assert len(found.costs["observation gyro"]) == steps
    assert np.all(found.costs["observation gyro"][::5] == 0)


def test_errors_larger_than_their_sigmas_are_told() -> None:
    rng, t = np.random.default_rng(0), 0.01 * np.arange(101)
    data = {"x": np.sin(t) + 0.1 * rng.standard_normal(101)}
    for sigma, misfit in ((0.1, 1.0), (0.02, 5.0)):
        factors = [SoftEquality("q", 2, sigma=1e-4), Observation("x", lambda q: q[0], sigma=sigma)]
        found = Graph(JointSystem(slide()), factors, step=0.01).solve(101, data, start={"q": [0.0]})
        assert found.excess == 99
        assert found.misfit == pytest.approx(misfit, rel=0.15)
        assert ("times as large as their standard deviations sigma" in str(found)) == (misfit > 1)


def slide() -> Model:
    body = Body("body", mass=1.0, inertia=np.eye(3))
    return Model(bodies=[body], joints=[Hinge("x", GROUND.frame(), body.frame())], gravity=(0, 0, 0))


def test_a_parameter_that_nothing_shows_has_no_error_and_one_with_a_prior_has_that() -> None:
    known = Parameter("m", 2.0, prior=(2.5, 0.1))
    graph = forward_dynamics(Pendulum(known), 0.01, Pendulum.at(0.0))
    found = graph.solve(21, {"torque": np.zeros(21)}, start={"q": Pendulum.at(0.0)})
    assert found.parameters["m"] == pytest.approx(2.5)
    assert found.standard_errors["m"] == pytest.approx(0.1)
    free = forward_dynamics(Pendulum(Parameter("m", 2.0)), 0.01, Pendulum.at(0.0))
    unseen = free.solve(21, {"torque": np.zeros(21)}, start={"q": Pendulum.at(0.0)})
    assert np.isnan(unseen.standard_errors["m"])
    assert unseen.reasons["m"] == "the data do not determine it"


def test_a_motion_beyond_a_singular_position_has_left_its_branch() -> None:
    class Upright(Pendulum):
        independent = (0,)

    factors = [
        Prior("z", ("reference",), at="every", sigma=0.0),
        PositionConstraint("independent"),
        SoftEquality("q", sigma=1.0),
    ]
    theta = np.linspace(0.5, 2.5, 11)
    start = {"q": np.array([Pendulum.at(one) for one in theta])}
    found = Graph(Upright(), factors, step=0.1).solve(11, {"reference": np.sin(theta)}, start=start)
    assert found.left_branch == pytest.approx(0.6)
    assert "leaves its branch at t = 0.6 s" in str(found)


def test_independent_coordinates_keep_the_branch_of_their_start() -> None:
    system, h, steps = fourbar(), 2e-3, 251
    data, theta = {"torque": np.zeros(251)}, system.names.index("theta")
    here = system.branch(system.assembled())
    ends = []
    for branch, q in system.branches({"theta": 0.0}).items():
        graph = forward_dynamics(system, h, q, coordinates="independent")
        found = graph.solve(steps, data, start=simulated(system, h, steps, q, data=data))
        assert found.left_branch is None
        assert {system.branch(one) for one in found["q"][::50]} == {branch}
        ends.append(found["q"][-1, theta])
        assert (branch == here) == (abs(found["q"][0] - system.assembled()).max() < 1e-9)
    assert abs(ends[0] - ends[1]) > 0.01


def test_a_signal_at_one_step_is_that_of_the_horizon() -> None:
    graph = Graph(Pendulum(), [*DEPENDENT[1:8], DEPENDENT[-1]], step=0.1)
    data = {"torque": np.arange(4.0), "gyro": np.array([0.1, np.nan, 0.3, 0.4])}
    (chain,) = graph.transcription(4, data).chains
    for k in range(4):
        values = {name: float(own[k]) for name, own in data.items()}
        for name in ("dynamics", "observation gyro"):
            row, missing = graph.row(name, values)
            assert np.array_equal(row, chain.data[name][k])
            assert np.array_equal(missing, chain.missing[name][k])
    assert graph.row("observation gyro", {"torque": 0.0})[1].all()


def test_a_graph_prints_and_is_drawn() -> None:
    from matplotlib.figure import Figure

    graph = Graph(Pendulum(Parameter("m", 2.0)), [*DEPENDENT[2:6], *DEPENDENT[7:9]], step=0.1)
    assert "q, v, a, parameters" in str(graph)
    assert "factor graph: 9 unknowns a step, 1 parameter" in str(graph)
    axes = Figure().add_subplot()
    graph.draw(axes, steps=3)
    labels = [text.get_text() for text in axes.texts]
    assert len(labels) == 3 * 3 + 1
    assert axes.get_legend().get_texts()[0].get_text() == "euler v"
    squares = {c.get_label(): len(c.get_offsets()) for c in axes.collections}
    assert squares["euler v"] == 2
    assert squares["dynamics"] == 3


def test_a_problem_is_a_graph_too() -> None:
    from matplotlib.figure import Figure

    graph = load_problem(Path(__file__).parents[1] / "problems" / "pendulum.py").graph()
    assert "factor graph of pendulum: 1 unknown a step, 3 parameters; over 914 steps 917 unknowns" in str(graph)
    assert graph.records()[0]["of"] == "x, x+, x++, parameters"
    axes = Figure().add_subplot()
    graph.draw(axes, steps=4)
    squares = {c.get_label(): len(c.get_offsets()) for c in axes.collections}
    assert squares["impulse"] == 2
    assert squares["observation"] == 4


REFUSED = {
    "a sigma below 0": (lambda: Trapezoid("q", "v", sigma=-1.0), "sigma is -1.0; give numbers from 0 on"),
    "an unknown variable": (lambda: Prior("w", (0.0,)), "is of a variable 'w'; choose from q, v, a"),
    "too many sigmas": (lambda: graph_of(Trapezoid("q", "v", sigma=(1, 2))), "has 2 sigmas and 3 rows"),
    "an unknown row": (lambda: graph_of(Prior("q", (0.0,), rows=("w",))), "rows holds 'w'; q has x, y, theta"),
    "a value too short": (lambda: graph_of(Prior("q", (0.0,))), "value has 1 numbers or names; give 3"),
    "two of one name": (lambda: graph_of(Dynamics(), Dynamics()), "is the second one called 'dynamics'"),
    "more hard rows than unknowns": (
        lambda: graph_of(
            Trapezoid("q", "v"), Trapezoid("v", "a"), Dynamics(), PositionConstraint(), SoftEquality("q", sigma=1)
        ).solve(3, {"torque": np.zeros(3)}, start={"q": Pendulum.at(0.0)}),
        "has 11 constraints for 9 unknowns of a step; give some of its factors a sigma",
    ),
    "what a sensor cannot see": (lambda: Observation("y", lambda w: w), "is of a variable 'w'"),
    "a sensor of two numbers": (lambda: graph_of(Observation("y", lambda q: q)), "must have one number, not 3 x 1"),
    "a symbol that is no Parameter": (
        lambda: graph_of(Observation("y", lambda q: q[0] + ca.SX.sym("c"), sigma=1)),
        "holds the symbol 'c'",
    ),
    "other coordinates": (lambda: Dynamics("natural"), "coordinates is 'natural'; give 'dependent' or 'independent'"),
    "equality that holds still": (lambda: SoftEquality("q"), "has sigma 0, which holds q still; give a positive one"),
    "a step of 0": (lambda: Graph(Pendulum(), DEPENDENT[:2], step=0), "step is 0; give a positive number"),
    "hard rows alone": (lambda: graph_of(Trapezoid("q", "v")), "has constraints only; give one of its factors a sigma"),
    "no system": (lambda: Graph("pendulum", [], step=1), "system is 'pendulum'; give a System"),
    "no data of an input": (
        lambda: graph_of(Dynamics(sigma=1)).transcription(3),
        "takes the signal 'torque', which is missing",
    ),
    "data too short": (
        lambda: graph_of(Dynamics(sigma=1)).transcription(3, {"torque": np.zeros(2)}),
        "have the shape (2,); give one number for each of 3 steps",
    ),
    "too few steps": (lambda: graph_of(SoftEquality("q", 2, sigma=1)).transcription(2), "steps is 2; give 3 or more"),
    "data of nothing": (
        lambda: graph_of(Dynamics(sigma=1)).transcription(3, {"force": np.zeros(3)}),
        "takes no signal 'force'; its factors take torque",
    ),
    "a start without q": (
        lambda: graph_of(Dynamics(sigma=1)).solve(3, {"torque": np.zeros(3)}, start={"v": np.zeros(3)}),
        "start has no q",
    ),
    "a first step fixed twice": (
        lambda: graph_of(Prior("q", Pendulum.at(0.0)), PositionConstraint(), SoftEquality("q", sigma=1)).solve(
            3, start={"q": Pendulum.at(0.0)}
        ),
        "fixes at the first step what other hard factors determine already; give it rows of independent coordinates",
    ),
    "a stage of nothing": (
        lambda: graph_of(SoftEquality("q", sigma=1)).solve(
            3, start={"q": Pendulum.at(0.0)}, stages=[Stage((Dynamics,), ("q",))]
        ),
        "which is no factor of the graph",
    ),
    "a second value of the same": (
        lambda: forward_dynamics(
            Pendulum(), 0.1, Pendulum.at(0.0), more=[Prior("q", (0.3,), rows=("theta",), name="other")]
        ).solve(3, {"torque": np.zeros(3)}, start={"q": Pendulum.at(0.0)}),
        "Prior 'other' fixes at the first step what other hard factors determine already",
    ),
    "a value twice at each step": (
        lambda: graph_of(
            Prior("q", (0.0,), at="every", rows="theta"),
            PositionConstraint(),
            Prior("q", (0.3,), at="every", rows="x", name="other"),
            SoftEquality("q", sigma=1),
        ).solve(3, start={"q": Pendulum.at(0.0)}),
        "Prior 'other' fixes at each step what other hard factors determine already",
    ),
    "a start that is no dict": (
        lambda: swing().solve(3, start=Pendulum.at(0.0)),
        "start is array([ 0., -1.,  0.]); give a dict",
    ),
    "a Parameter that starts at no number": (
        lambda: swing().solve(3, start={"q": Pendulum.at(0.0), "m": np.nan}),
        "start of m is nan; give a finite number in [0.1, inf]",
    ),
    "a stage that is no list": (
        lambda: swing().solve(3, start={"q": Pendulum.at(0.0)}, stages=Stage(variables="q")),
        "stages is a Stage, but must be a list: stages=[...]",
    ),
    "a stage of hard rows": (
        lambda: graph_of(PositionConstraint(), SoftEquality("q", sigma=1)).solve(
            3, start={"q": Pendulum.at(0.0)}, stages=[Stage(PositionConstraint, "q")]
        ),
        "Stage has no factor of q with a sigma; add one",
    ),
    "no rate of a variable": (lambda: Trapezoid("q", "a"), "a is no rate of q; rates are v of q, a of v"),
    "noise that is a number": (
        lambda: forward_dynamics(Pendulum(), 0.1, Pendulum.at(0.0), noise=0.1),
        "forward_dynamics: noise is 0.1; give graphs.Sigmas(...)",
    ),
    "sensors without noise": (
        lambda: forward_dynamics(Pendulum(), 0.1, Pendulum.at(0.0), more=[Observation("x", lambda q: q[0], sigma=0.1)]),
        "forward_dynamics has an Observation and no noise",
    ),
    "a sigma of no number": (lambda: Sigmas(start="small"), "Sigmas: start is 'small'; give a number"),
    "first coordinates too few": (lambda: forward_dynamics(Pendulum(), 0.1, (0, 1)), "q has the shape (2,); give (3,)"),
    "first rates too few": (
        lambda: forward_dynamics(Pendulum(), 0.1, Pendulum.at(0.0), (0, 1)),
        "v has the shape (2,); give (3,)",
    ),
    "too many references": (
        lambda: inverse_dynamics(Pendulum(), 0.1, ["a", "b"]),
        "reference is ['a', 'b']; give one signal name for each coordinate theta",
    ),
    "efforts of nothing": (
        lambda: inverse_dynamics(Idle(), 0.1, "theta"),
        "asks for efforts Q, and its system is actuated nowhere",
    ),
    "simulated without a step": (lambda: moved(steps=0), "simulated: steps is 0; give 1 or more"),
    "simulated backwards": (lambda: moved(step=-1.0), "simulated: step is -1.0; give a positive number of seconds"),
    "simulated from elsewhere": (lambda: moved(q=(1, 0, 0)), "q is off the constraints by 1 of a coordinate"),
    "simulated with other rates": (lambda: moved(v=(0, 1, 0)), "v is off the constraints by 1 of a coordinate"),
    "simulated without a number": (lambda: moved(q=(0, -1, np.nan)), "q holds a value that is not finite"),
    "simulated with other data": (
        lambda: moved(data={"torque": np.zeros(3), "u": 1}),
        "the system has no input 'u'; it has torque",
    ),
    "simulated without data": (lambda: moved(data={}), "the input 'torque' has no values; give data={'torque': ...}"),
    "simulated with another Parameter": (
        lambda: moved(parameters={"M": 1.0}),
        "no Parameter of the system is 'M'; it has m",
    ),
    "an orientation that is none": (
        lambda: simulated(JointSystem(arm()), 0.1, 3, (0, 0, 0, 0, 0.3), data={"u": np.zeros(3)}),
        "q holds an orientation that is no unit quaternion",
    ),
    "loops of a model": (lambda: JointSystem(fourbar().model), "JointSystem is of a model with closed loops"),
}


class Idle(Pendulum):
    """Nothing drives it."""

    actuated: tuple[str, ...] = ()


def swing() -> Graph:
    m = Parameter("m", 2.0, lower=0.1)
    return graph_of(SoftEquality("q", sigma=1), Observation("weight", lambda q: m * q[0], sigma=1.0))


def moved(**other: Any) -> dict[str, Array]:
    given = {"step": 0.1, "steps": 3, "q": Pendulum.at(0.0), "data": {"torque": np.zeros(3)}} | other
    return simulated(Pendulum(Parameter("m", 2.0)), **given)


def graph_of(*factors: GraphFactor) -> Graph:
    return Graph(Pendulum(), factors, step=0.1)


@pytest.mark.parametrize("name", REFUSED)
def test_refused_in_a_sentence(name: str) -> None:
    declare, sentence = REFUSED[name]
    with pytest.raises(ProblemError) as refused:
        declare()
    assert sentence in str(refused.value)
    assert "test_graphs.py:" in str(refused.value)


def test_constraints_that_imply_each_other_are_refused() -> None:
    class Twice(Pendulum):
        def constraint(self, q: ca.SX) -> ca.SX:
            return ca.vertcat(super().constraint(q), q[0] ** 2 + q[1] ** 2 - 1)

    with pytest.raises(ProblemError, match="3 rates with 3 constraints are not 1 degrees of freedom"):
        Graph(Twice(), [PositionConstraint()], step=0.1)
    Twice.independent = ()
    graph = Graph(Twice(), [Dynamics(sigma=1.0)], step=0.1)
    with pytest.raises(ProblemError, match="of 3 constraints 2 are independent where the solve starts"):
        graph.solve(3, {"torque": np.zeros(3)}, start={"q": Pendulum.at(0.5)})
