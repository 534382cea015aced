"""Mechanisms of the plane in natural coordinates: by hand, by Lagrange's equations in angles, and as rigid bodies."""

from __future__ import annotations

import math
import runpy
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import casadi as ca
import numpy as np
import pytest
from lagrange import Motion, Solid, turned
from mechanisms import Array
from scipy.integrate import solve_ivp

from spookid import HingeAngle, Problem, Recording, Status, load_problem, planar

PROBLEMS = Path(__file__).parents[1] / "problems"
TRUTH: dict[str, dict[str, float]] = {
    "slider_crank": {"m_slider": 0.5, "b": 3.0, "J": 2e-3},
    "five_bar": {"m_tool": 0.3, "b_1": 0.02, "b_2": 0.03},
    "watt_linkage": {"k": 400.0, "c": 2.0, "m": 3.0},
    "planar_fourbar": {"m_coupler": 2.0, "m_rocker": 4.0, "b": 0.8},
}
# Of the four-bar's crank at 1 to 5 s, two integrators that agree to 4e-11.
THETA = np.array([-3.748470894, -0.022607800, -3.701260844, -0.090504054, -3.604897278])
OMEGA = np.array([-0.343315693, 0.661410138, -1.042428991, 1.327613934, -1.789596942])


def bars() -> tuple[list[planar.Link], dict[str, planar.Point]]:
    A, D = planar.Ground("A", (0, 0)), planar.Ground("D", (4, 0))
    P1, P2 = planar.Point("P1", (1, 0)), planar.Point("P2", (1, 2))
    links = [planar.Link("crank", A, P1, 1), planar.Link("coupler", P1, P2, 2), planar.Link("rocker", D, P2, 4)]
    return links, {"A": A, "D": D, "P1": P1, "P2": P2}


def fourbar(*angles: str, **settings: Any) -> planar.Mechanism:
    """With the crank's absolute angle, or that of the coupler from the crank, as coordinates."""
    links, _ = bars()
    kinds = {
        "theta": lambda: planar.AbsoluteAngle("theta", links[0]),
        "phi": lambda: planar.RelativeAngle("phi", links[1], links[0]),
    }
    return planar.Mechanism(links, [kinds[name]() for name in angles], **{"gravity": 9.8, **settings})


def everything() -> planar.Mechanism:
    """Two degrees of freedom, every kind of constraint and load, a link that is no uniform bar, lumped masses.

    A crank drives a lever through a pin that slides along it; at the lever's end hangs a rod with a slider on an
    inclined line, and at the crank's end a pendulum with a massless rod to another.
    """
    A, B, line = planar.Ground("A", (0, 0)), planar.Ground("B", (-0.2, -1)), planar.Ground("line", (1, 0.2))
    pin, end = planar.Point("pin", (0.3, 0.2)), planar.Point("end", (0.8, 1.4), mass=0.2)
    slider, bob = planar.Point("slider", (2, 0.4), mass=0.7), planar.Point("bob", (0.5, -0.5), mass=0.3)
    C, weight = planar.Ground("C", (1.5, -0.2)), planar.Point("weight", (1.6, -0.9), mass=0.1)
    crank = planar.Link("crank", A, pin, 0.5, center=(0.1, 0.05), inertia=0.02)
    lever = planar.Link("lever", B, end, 1.2)
    rod, pendulum = planar.Link("rod", end, slider, 0.6), planar.Link("pendulum", pin, bob, 0.4)
    swing = planar.Link("swing", C, weight, 0.3)
    return planar.Mechanism(
        [crank, lever, rod, pendulum, swing],
        [
            planar.MovingSlider("slot", pin, lever, viscous=0.4),
            planar.FixedSlider("guide", slider, A, line, viscous=0.8),
            planar.ConstantDistance("tie", bob, weight, 1.2),
            planar.AbsoluteAngle("theta", crank),
            planar.RelativeAngle("phi", pendulum, crank),
        ],
        [
            planar.Torque(crank, "u"),
            planar.Torque(pendulum, "w", 0.5, crank),
            planar.Torque(rod, "x"),
            planar.PinFriction(A, crank, viscous=0.1),
            planar.PinFriction(end, rod, lever, viscous=0.2),
            planar.Spring(B, slider, stiffness=3.0, rest=1.0, damping=0.3),
        ],
        gravity=(0.5, -9.0),
    )


def symbols(system: planar.Mechanism) -> tuple[ca.SX, ca.SX]:
    n = len(system.names)
    return ca.SX.sym("q", n), ca.SX.sym("v", n)


def moving(system: planar.Mechanism, u: ca.SX | None = None, **values: float) -> Callable[[float, Array], Array]:
    """(q̇, v̇) of the equations of motion, multipliers eliminated; u of the time ``t``."""
    (q, v), t = symbols(system), ca.SX.sym("t")
    n, inputs = len(system.names), ca.SX.zeros(len(system.signals)) if u is None else u
    given = [ca.symvar(inputs)[0]] if ca.symvar(inputs) else [t]
    slope, drift = system.constraint_jacobian(q), system.constraint_acceleration(q, v, ca.SX.zeros(n))
    left = ca.blockcat([[system.mass(q), slope.T], [slope, ca.SX(len(drift.nz), len(drift.nz))]])
    right = ca.vertcat(system.force(q, v, inputs), -drift)
    known = system.closing.parameters
    parts = ca.substitute([left, right], [ca.vertcat(*known)], [ca.DM([values[p.name] for p in known])])
    both = ca.Function("both", [q, v, *given], [*map(ca.densify, parts)], {"cse": True})

    def flow(time: float, y: Array) -> Array:
        K, r = (part.full() for part in both(y[:n], y[n:], time))
        return np.concatenate([y[n:], np.linalg.solve(K, r[:, 0])[:n]])

    return flow


def ran(system: planar.Mechanism, t: Array, u: ca.SX | None = None, tolerance: float = 1e-11, **values: float) -> Array:
    """Coordinates and rates from rest where it is declared, (N, 2 n)."""
    start = np.concatenate([system.assembled(parameters=values or None), np.zeros(len(system.names))])
    found = solve_ivp(
        moving(system, u, **values), (0, t[-1]), start, "DOP853", t_eval=t, rtol=tolerance, atol=tolerance / 10
    )
    assert found.success
    return np.asarray(found.y.T)


# --- by hand ---


def test_mass_and_weight_of_the_fourbar_are_those_of_the_sheet() -> None:
    system = fourbar()
    q, v = symbols(system)
    assert system.names == ("P1.x", "P1.y", "P2.x", "P2.y")
    mass = ca.DM(system.mass(q)).full()
    np.testing.assert_allclose(mass, [[1, 0, 1 / 3, 0], [0, 1, 0, 1 / 3], [1 / 3, 0, 2, 0], [0, 1 / 3, 0, 2]])
    np.testing.assert_allclose(ca.DM(system.force(q, v, ca.SX(0, 1))).full()[:, 0], [0, -14.7, 0, -29.4])
    np.testing.assert_allclose(system.assembled(), [1, 0, 1, 2], atol=1e-14)


@pytest.mark.parametrize(
    "angles",
    [(), pytest.param(("theta",), marks=pytest.mark.study), ("theta", "phi")],
    ids=["points", "absolute", "relative"],
)
def test_the_crank_turns_as_the_sheet_says(angles: tuple[str, ...]) -> None:
    system = fourbar(*angles)
    found = ran(system, np.arange(1.0, 6.0), tolerance=1e-13)
    n = len(system.names)
    np.testing.assert_allclose(found[:, :2], np.column_stack([np.cos(THETA), np.sin(THETA)]), atol=1e-8)
    rates = found[:, [0]] * found[:, [n + 1]] - found[:, [1]] * found[:, [n]]
    np.testing.assert_allclose(rates[:, 0], OMEGA, atol=1e-8)
    if angles:
        np.testing.assert_allclose(found[:, 4], THETA, atol=1e-8)  # continuous beyond half a turn
        np.testing.assert_allclose(found[:, n + 4], OMEGA, atol=1e-8)


def test_mass_is_positive_definite_with_angles_as_coordinates() -> None:
    for system in (fourbar("theta"), fourbar("theta", "phi"), everything()):
        q, _ = symbols(system)
        mass = ca.Function("mass", [q], [system.mass(q)])(system.assembled()).full()
        assert np.min(np.linalg.eigvalsh(mass)) > 1e-3
        np.testing.assert_allclose(mass, mass.T, atol=1e-14)


def test_rows_have_the_derivatives_that_differences_give() -> None:
    """The Jacobian, its product with rates and its time derivative, of every kind near an assembly, turns later too."""
    system, rng = everything(), np.random.default_rng(3)
    turns = 2 * math.pi * np.isin(np.arange(len(system.names)), system.closing.angles)
    for count in (0, 0, -1, 3):
        check_derivatives(system, system.assembled() + 0.05 * rng.normal(size=len(turns)) + count * turns, rng)


@pytest.mark.parametrize("angle", [0, math.pi / 4, math.pi / 2, 3 * math.pi / 4, math.pi, -math.pi / 2, 3 * math.pi])
def test_angles_have_derivatives_along_the_axes_and_between(angle: float) -> None:
    system = arm()
    second = angle - 0.7
    at = [math.cos(angle), math.sin(angle)]
    end = [at[0] + math.cos(second), at[1] + math.sin(second)]
    check_derivatives(system, np.array([*at, *end, angle, -0.7]), np.random.default_rng(1))


def arm() -> planar.Mechanism:
    """Two links of 1 m, whose angles are coordinates, of the second from the first."""
    A, P, R = planar.Ground("A", (0, 0)), planar.Point("P", (1, 0)), planar.Point("R", (2, 0.1))
    one, two = planar.Link("one", A, P, 1), planar.Link("two", P, R, 1, length=1)
    angles = [planar.AbsoluteAngle("theta", one), planar.RelativeAngle("phi", two, one)]
    return planar.Mechanism([one, two], angles, gravity=9.81)


def check_derivatives(system: planar.Mechanism, point: Array, rng: np.random.Generator) -> None:
    (q, v), n, h = symbols(system), len(system.names), 1e-4
    a = ca.SX.sym("a", n)
    parts = system.constraint_jacobian(q), system.constraint_rate(q, v), system.constraint_acceleration(q, v, a)
    rows = ca.Function("rows", [q], [system.constraint(q)])
    derived = ca.Function("derived", [q, v, a], [*map(ca.densify, parts)])
    speed, more = rng.normal(size=(2, n))
    slope, rate, second = (part.full() for part in derived(point, speed, more))
    at = [rows(point + s * h * speed + (s * h) ** 2 / 2 * more).full() for s in (-1, 0, 1)]
    numeric = [(rows(point + h * e).full() - rows(point - h * e).full())[:, 0] / (2 * h) for e in np.eye(n)]
    np.testing.assert_allclose(slope, np.column_stack(numeric), atol=5e-7)
    np.testing.assert_allclose(rate, slope @ speed[:, None], atol=1e-12)
    np.testing.assert_allclose(rate, (at[2] - at[0]) / (2 * h), atol=5e-6)
    np.testing.assert_allclose(second, (at[2] - 2 * at[1] + at[0]) / h**2, rtol=1e-5, atol=1e-5)


def test_an_angle_has_one_root_and_the_same_slope_everywhere() -> None:
    A, P = planar.Ground("A", (0, 0)), planar.Point("P", (2, 0))
    system = planar.Mechanism([link := planar.Link("l", A, P, 1)], [planar.AbsoluteAngle("theta", link)], gravity=1)
    q = ca.SX.sym("q", 3)
    row = ca.Function("row", [q], [system.constraint(q)[1], system.constraint_jacobian(q)[1, 2]])
    for angle in np.linspace(-7, 7, 29):
        at = [2 * np.cos(angle), 2 * np.sin(angle)]
        for turns in (-2, 0, 5):
            value, slope = map(float, row([*at, angle + 2 * math.pi * turns]))
            assert abs(value) < 1e-13
            assert slope == pytest.approx(-1.0, abs=1e-15)
        for wrong in (-angle, math.pi - angle, angle + 3.0):  # of the paper's rows, and opposite
            if abs(math.remainder(wrong - angle, 2 * math.pi)) > 1e-9:
                assert abs(float(row([*at, wrong])[0])) > 1e-3


def test_friction_and_springs_take_the_power_that_they_should() -> None:
    A, B, C = planar.Ground("A", (0, 0)), planar.Ground("B", (0, 2)), planar.Ground("C", (1, 2))
    P, R = planar.Point("P", (1, 0.5)), planar.Point("R", (2, 2))
    one, two = planar.Link("one", A, P, 1), planar.Link("two", P, R, 1)
    loads = [
        planar.PinFriction(A, one, viscous=0.3, coulomb=0.7, width=0.2),
        planar.PinFriction(P, one, two, viscous=0.2),
        planar.Torque(two, "u", 2.0, one),
        planar.Spring(A, R, stiffness=5.0, rest=1.0, damping=0.4),
    ]
    guide = planar.FixedSlider("guide", R, B, C, viscous=0.6, coulomb=0.5, width=0.1)
    system = planar.Mechanism([one, two], [guide], loads, gravity=0)
    q, v = symbols(system)
    function = ca.Function("force", [q, v], [system.force(q, v, ca.SX([1.5]))])
    at = np.array([0.6, 0.8, 1.5, 2.0])
    rates = np.array([-0.8 * 0.9, 0.6 * 0.9, 0.3, 0.0])  # ω = 0.9 of the first link, which is 1 m long here
    length = math.hypot(1, 0.5)
    ω = np.array([0.9 / length**2, (0.9 * (0.3 + 0.72) + 0) / 1, 0])  # with L as declared
    span, parting = at[2:] - at[:2], rates[2:] - rates[:2]
    ω[1] = (span[0] * parting[1] - span[1] * parting[0]) / (1 + 1.5**2)
    distance, slide = np.linalg.norm(at[2:]), 0.3
    stretching = at[2:] @ rates[2:] / distance
    power = -(0.3 * ω[0] + 0.7 * np.tanh(ω[0] / 0.2)) * ω[0]
    power += -0.2 * (ω[1] - ω[0]) ** 2 + 3.0 * (ω[1] - ω[0])
    power += -(5 * (distance - 1) + 0.4 * stretching) * stretching
    power += -(0.6 * slide + 0.5 * np.tanh(slide / 0.1)) * slide
    assert float(rates @ function(at, rates).full()[:, 0]) == pytest.approx(power, abs=1e-12)


# --- by Lagrange's equations in the angles of links ---


class Angles:
    """A chain of links by their angles in the y-z plane, with rows that close it."""

    def __init__(self, count: int) -> None:
        self.q = ca.SX.sym("angles", count)
        self.solids: list[Solid] = []

    def link(self, i: int, start: Any, length: float, mass: float, center: Any = None, inertia: Any = None) -> ca.SX:
        """Add one that starts at a point of the plane; where it ends."""
        c, s = ca.cos(self.q[i]), ca.sin(self.q[i])
        along = ca.vertcat(c, s)
        middle = ca.SX(start) + (length / 2 if center is None else center) * along
        moment = mass * length**2 / 12 if inertia is None else inertia
        self.solids.append(Solid(mass, (moment,) * 3, ca.vertcat(0, middle), turned(0, self.q[i])))
        return ca.SX(start) + length * along

    def lump(self, at: Any, mass: float) -> None:
        """Add a mass at a point."""
        self.solids.append(Solid(mass, (0.0,) * 3, ca.vertcat(0, at), ca.SX.eye(3)))


Reference = tuple[Motion, Sequence[float], ca.SX]
"""Equations, angles at the start, and the point that is compared."""


def slider_crank() -> Reference:
    chain = Angles(2)
    pin = chain.link(0, (0, 0), 0.1, 0.4, 0.02, 2e-3)
    slider = chain.link(1, pin, 0.3, 0.2)
    chain.lump(slider, 0.5)

    def forces(q: ca.SX, v: ca.SX, t: ca.SX) -> ca.SX:
        slope = ca.jacobian(slider[0], q)
        return ca.vertcat(ca.SX(drive("slider_crank", t)), 0) - slope.T * (3.0 * (slope @ v))

    start = math.atan2(0.08, 0.06), -math.asin(0.08 / 0.3)
    return Motion(chain.q, chain.solids, (0, 0, -9.81), forces, slider[1]), start, slider


def five_bar() -> Reference:
    chain = Angles(4)
    upper, lower = math.hypot(0.15, 0.2), math.hypot(0.25, 0.25)
    left, right = chain.link(0, (-0.1, 0), upper, 0.3), chain.link(2, (0.1, 0), upper, 0.3)
    tool, other = chain.link(1, left, lower, 0.2), chain.link(3, right, lower, 0.2)
    chain.lump(tool, 0.3)

    def forces(q: ca.SX, v: ca.SX, t: ca.SX) -> ca.SX:
        u = drive("five_bar", t)
        return ca.vertcat(u[0] - 0.02 * v[0], 0, u[1] - 0.03 * v[2], 0)

    start = math.atan2(0.2, -0.15), math.pi / 4, math.atan2(0.2, 0.15), 3 * math.pi / 4
    return Motion(chain.q, chain.solids, (0, 0, 0), forces, tool - other), start, tool


def watt_linkage() -> Reference:
    chain = Angles(3)
    upper = chain.link(0, (-0.5, 0.1), 0.5, 0.5)
    lower = chain.link(1, upper, 0.2, 3.0)
    arm = chain.link(2, (0.5, -0.1), 0.5, 0.5)

    def forces(q: ca.SX, v: ca.SX, t: ca.SX) -> ca.SX:
        length = ca.norm_2(upper - ca.DM([0, 0.5]))
        slope = ca.jacobian(length, q)
        return -slope.T * (400 * (length - 0.25) + 2 * (slope @ v))

    motion = Motion(chain.q, chain.solids, (0, 0, -9.81), forces, lower - arm)
    return motion, (0.0, -math.pi / 2, math.pi), (upper + lower) / 2


REFERENCES = {"slider_crank": slider_crank, "five_bar": five_bar, "watt_linkage": watt_linkage}


def drive(name: str, t: Any) -> ca.SX:
    """Torques of a problem, (n_u,) [N m]."""
    u = {"slider_crank": [0.3 * ca.cos(3 * t)], "five_bar": [0.5 * ca.cos(8 * t), 0.4 * ca.sin(11 * t)]}
    return ca.vertcat(ca.SX(0, 1), *u.get(name, []))


def points(name: str, mechanism: planar.Mechanism, q: Array) -> Array:
    """The point that is compared, (N, 2) [m]."""
    columns = {"slider_crank": ["slider"], "five_bar": ["tool"], "watt_linkage": ["upper", "lower"]}[name]
    first = [mechanism.names.index(f"{point}.x") for point in columns]
    return np.asarray(np.mean([q[:, i : i + 2] for i in first], axis=0))


@pytest.mark.parametrize("name", ["slider_crank", "watt_linkage", pytest.param("five_bar", marks=pytest.mark.study)])
def test_motion_is_that_of_lagranges_equations(name: str) -> None:
    """The system's own accelerations, and the rigid-body model's simulation, from rest for a second."""
    motion, angles, point = REFERENCES[name]()
    t = np.arange(101) * 0.01
    start, still = motion.closed(angles, np.zeros(len(angles)))
    expected = motion.along(point, motion.run(start, still, t)[0])
    problem, mechanism = opened(name)
    values = TRUTH[name]
    assert np.max(np.ptp(expected, axis=0)) > 0.05
    found = ran(mechanism, t, drive(name, ca.SX.sym("t")), **values)
    np.testing.assert_allclose(points(name, mechanism, found), expected, atol=1e-9)

    fine = np.arange(4001) * 2.5e-4
    held = np.array(ca.Function("u", [s := ca.SX.sym("t")], [drive(name, s)])(fine[None] + 1.25e-4))
    inputs = Recording(fine, dict(zip(mechanism.signals, held, strict=True))) if mechanism.signals else None
    initial = mechanism.rigid.states(found[0, : len(mechanism.names)], found[0, len(mechanism.names) :], values)
    own = problem.with_(recordings=(), observations=sensors(mechanism), step=0.01)
    run = own.simulate(parameters=values, initial=initial, duration=1.0, inputs=inputs)
    q, _ = mechanism.rigid.coordinates(run.q, run.v, values)
    np.testing.assert_allclose(points(name, mechanism, q), expected, atol=1e-6)


def opened(name: str) -> tuple[Problem, planar.Mechanism]:
    """A problem file's problem, and the mechanism that it is of."""
    path = PROBLEMS / f"{name}.py"
    namespace = runpy.run_path(str(path))
    (found,) = (thing for thing in namespace.values() if isinstance(thing, planar.Mechanism))
    return namespace["problem"], found


def sensors(mechanism: planar.Mechanism) -> list[HingeAngle]:
    return [HingeAngle(mechanism.rigid.hinges[0][2], "first")]


# --- as rigid bodies ---


def tangent(system: planar.Mechanism, q: Array, rng: np.random.Generator) -> Array:
    """Rates that satisfy the constraints, (n,)."""
    symbol, _ = symbols(system)
    slope = ca.Function("slope", [symbol], [ca.densify(system.constraint_jacobian(symbol))])(q).full()
    rates = rng.normal(size=len(q))
    return np.asarray(rates - np.linalg.pinv(slope) @ (slope @ rates))


def test_states_go_to_rigid_bodies_and_back_with_the_same_energy() -> None:
    system, rng = everything(), np.random.default_rng(5)
    q = np.array([system.assembled({"theta": theta, "phi": -2.0}) for theta in (0.5, 0.6, 0.7)])
    v = np.array([tangent(system, row, rng) for row in q])
    poses, velocities = system.rigid.states(q, v)
    assert poses.shape == (3, 5, 7)
    assert velocities.shape == (3, 5, 6)
    back = system.rigid.coordinates(poses, velocities)
    np.testing.assert_allclose(back[0], q, atol=1e-12)
    np.testing.assert_allclose(back[1], v, atol=1e-12)
    symbol, _ = symbols(system)
    mass = ca.Function("mass", [symbol], [system.mass(symbol)])
    inertia = ca.DM(system.model.inertia()).full()
    violation = ca.Function("g", [p := ca.SX.sym("p", 35)], [system.model.violation(p)])
    for i in range(3):
        own = v[i] @ mass(q[i]).full() @ v[i]
        assert velocities[i].ravel() @ inertia @ velocities[i].ravel() == pytest.approx(own, rel=1e-12)
        assert np.max(np.abs(violation(poses[i].ravel()).full())) < 1e-12


def test_every_constraint_and_load_moves_rigid_bodies_as_points() -> None:
    system, t = everything(), np.arange(51) * 0.01
    n, u = len(system.names), ca.SX([2.0, -1.5, 0.8])
    found = ran(system, t, u)
    assert np.ptp(found[:, 0]) > 0.05
    fine = np.linspace(0, 0.5, 11)
    inputs = Recording(fine, {name: np.full(11, float(value)) for name, value in zip("uwx", u.nz, strict=True)})
    problem = Problem("all", model=system.model, observations=sensors(system), step=0.01)
    run = problem.simulate(initial=system.rigid.states(found[0, :n], found[0, n:]), duration=0.5, inputs=inputs)
    q, v = system.rigid.coordinates(run.q, run.v)
    np.testing.assert_allclose(q, found[:, :n], atol=1e-6)
    np.testing.assert_allclose(v, found[:, n:], atol=1e-5)
    assert run.q.shape == (51, 5, 7)


def test_the_model_lies_in_the_plane_with_angles_of_the_same_sign() -> None:
    links, points = bars()
    system = planar.Mechanism(links, gravity=9.8)
    assert [joint.name for joint in system.model.joints] == ["A", "P1", "P2", "D"]
    assert {joint.disturbance for joint in system.model.joints} == {None}
    assert {joint.disturbance for joint in fourbar(disturbance=0.1).model.joints} == {0.1}
    np.testing.assert_allclose(ca.DM(system.model.gravity).full()[:, 0], [0, 0, -9.8])
    hinge = system.rigid.hinge(points["D"])
    own = Problem("bars", model=system.model, observations=[HingeAngle(hinge, "rocker")], step=0.01)
    run = own.simulate(initial=system.rigid.states(system.assembled(), np.zeros(4)), duration=0.05)
    assert run.signals["rocker"][0] == pytest.approx(math.atan2(2, -3))
    q, _ = system.rigid.coordinates(run.q, run.v)
    np.testing.assert_allclose(run.signals["rocker"], np.arctan2(q[:, 3], q[:, 2] - 4), atol=1e-9)


# --- problem files ---


@pytest.mark.parametrize("name", TRUTH)
def test_problem_files_can_be_read(name: str) -> None:
    problem = load_problem(PROBLEMS / f"{name}.py")
    assert problem.name == name
    assert {p.name for p in problem.parameters} == set(TRUTH[name])


def recovered(name: str, seconds: float, **settings: Any) -> None:
    problem = load_problem(PROBLEMS / f"{name}.py")
    solution = problem.with_(recordings=[problem.recordings[0].between(0, seconds)]).solve(**settings)
    assert solution.status is Status.CONVERGED
    for parameter, value in TRUTH[name].items():
        found = solution[parameter]
        assert abs(found.estimate - value) < 3 * found.std_err
        assert 0 < found.std_err < 0.01 * value


@pytest.mark.study
def test_a_problem_file_is_solved() -> None:
    recovered("slider_crank", 1.0)


@pytest.mark.study
@pytest.mark.parametrize("name", TRUTH)
def test_all_problem_files_are_solved(name: str) -> None:
    recovered(name, math.inf)
