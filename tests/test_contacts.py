"""Contacts that hold, always and at times: rows, forces, schedules, fits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import casadi as ca
import numpy as np
import pytest
from mechanisms import Array
from scipy.integrate import solve_ivp

from spookid import (
    GROUND,
    Body,
    EnergyBalance,
    FixedLagSmoother,
    Hinge,
    JointPosition,
    Model,
    Motor,
    Parameter,
    Planar,
    PointContact,
    Problem,
    ProblemError,
    Recording,
    Solution,
    Spook,
    Status,
    Weld,
    gravity,
)

AXIS: dict[str, Any] = {"x": (0, 1, 0), "y": (1, 0, 0)}
TRUE = {"m": 3.3, "I": 0.15}
SENSORS = ("x", "z", "pitch", "hip", "knee")


def chain(free: bool = True) -> tuple[list[Body], list[Hinge]]:
    """A free body with a leg of two links."""
    base = Body("base", mass=2.0, inertia=(0.02, 0.03, 0.04), free=free)
    thigh = Body("thigh", mass=0.5, inertia=(0.004, 0.005, 0.001))
    shank = Body("shank", mass=0.3, inertia=(0.002, 0.003, 0.001))
    hip = Hinge("hip", base.frame(at=(0.1, 0, -0.1), **AXIS), thigh.frame(at=(0, 0, 0.2), **AXIS))
    knee = Hinge("knee", thigh.frame(at=(0, 0, -0.2), x=(1, 0, 0)), shank.frame(at=(0, 0, 0.2), x=(1, 0, 0)))
    return [base, thigh, shank], [hip, knee]


def somewhere(model: Model, rng: np.random.Generator, size: float = 1.0) -> tuple[Array, Array, Array]:
    """Poses, velocities and accelerations of all bodies."""
    n, turns = len(model.bodies), rng.standard_normal((len(model.bodies), 4))
    turns /= np.linalg.norm(turns, axis=1, keepdims=True)
    q = np.hstack([rng.standard_normal((n, 3)), turns]).ravel()
    return q, size * rng.standard_normal(6 * n), size * rng.standard_normal(6 * n)


@pytest.mark.parametrize("kind", [PointContact, Weld])
def test_slopes_of_the_rows_agree_with_differences_where_nothing_has_moved(kind):
    bodies, joints = chain()
    model = Model(bodies, joints, constraints=[kind("foot", bodies[2].frame(at=(0, 0, -0.2)))], gravity=gravity(9.81))
    q, _, _ = somewhere(model, np.random.default_rng(1))
    contact, space, psi = model.holding.contacts[0], model.configuration, ca.SX.sym("psi", 18)
    before = contact.place_of(model, ca.SX(q))
    rows = contact.moved(contact.place_of(model, space.retract(ca.SX(q), psi)), before)
    slope = ca.Function("slope", [psi], [ca.jacobian(rows, psi), rows])
    exact, zero = (part.full() for part in slope(np.zeros(18)))
    step = 1e-6 * np.eye(18)
    differences = np.hstack([(slope(d)[1] - slope(-d)[1]).full() / 2e-6 for d in step])
    assert np.all(zero == 0)
    assert np.allclose(exact, differences, atol=1e-8)
    v = ca.SX.sym("v", 18)
    assert np.allclose(exact, ca.DM(ca.jacobian(contact.rates(model, ca.SX(q), v), v)).full(), atol=1e-12)


def hopper(recordings: list[Recording], **contact: Any) -> Problem:
    """A leg of two links under a trunk, in the x-z plane; its toe is held."""
    m, inertia = Parameter("m", 3.0, lower=0.1, unit="kg"), Parameter("I", 0.1, lower=1e-3, unit="kg m^2")
    trunk = Body("trunk", mass=m, inertia=(0.1, inertia, 0.1))
    thigh, shank = (Body(name, mass=0.6, inertia=(0.01, 0.01, 0.001)) for name in ("thigh", "shank"))
    base = Planar("base", GROUND.frame(**AXIS), trunk.frame(**AXIS))
    held: dict[str, Any] = {"viscous": 1.0, "stiffness": 60.0}
    hip = Hinge("hip", trunk.frame(at=(0.02, 0, -0.1), **AXIS), thigh.frame(at=(0, 0, 0.15), **AXIS), rest=0.5, **held)
    knee = Hinge("knee", thigh.frame(at=(0, 0, -0.15), **AXIS), shank.frame(at=(0, 0, 0.15), **AXIS), rest=-1.0, **held)
    sensors = [JointPosition(base, name, coordinate=i) for i, name in enumerate(SENSORS[:3])]
    sensors += [JointPosition(joint, name) for joint, name in ((hip, "hip"), (knee, "knee"))]
    toe = PointContact("toe", shank.frame(at=(0, 0, -0.15)), axes="xz", **contact)
    motors = [Motor(hip, "u_1"), Motor(knee, "u_2")]
    model = Model([trunk, thigh, shank], [base, hip, knee], motors, constraints=[toe], gravity=gravity(9.81))
    return Problem("hopper", model, recordings, sensors, step=0.01, step_correction=False)


@pytest.fixture(scope="module")
def jump() -> Recording:
    """A hopper that lifts its toe from 0.5 to 0.7 s, with 1 mrad and 1 mm of noise."""
    t = np.arange(0, 1.2001, 0.01)
    flying = (t > 0.5 + 1e-9) & (t < 0.7 - 1e-9)
    signals = {"u_1": 3 * np.sin(5 * t), "u_2": 4 * np.cos(7 * t), "down": 20.0 * ~flying}
    given = Recording(t=t, signals=signals, name="jump")
    problem = hopper([], holds="down", threshold=10)
    start = {"hip": 0.5, "knee": -1.0}
    twin = problem.simulate(TRUE, duration=1.2, inputs=given, initial=start, substeps=2)
    rng = np.random.default_rng(0)
    noisy = {name: np.array(twin.signals[name]) + 1e-3 * rng.standard_normal(len(t)) for name in SENSORS}
    late = {"late": 1.0 * ~((t > 0.56 + 1e-9) & (t < 0.7 - 1e-9))}
    assert twin.q is not None
    return Recording(t=t, signals=signals | noisy | late, name="jump", q=twin.q, v=twin.v)


def toe_of(problem: Problem, q: Array) -> Array:
    """Where the toe is at poses (N, n_b, 7), (N, 2) [m]."""
    symbol, contact = ca.SX.sym("q", q[0].size), problem.model.holding.contacts[0]
    place = ca.Function("toe", [symbol], [contact.place_of(problem.model, symbol)])
    return np.asarray(place(q.reshape(len(q), -1).T).full()).T


def test_a_simulation_holds_the_toe_where_it_is_while_it_is_down(jump: Recording) -> None:
    toe = toe_of(hopper([], holds="down"), jump.q)
    assert np.ptp(toe[:51], axis=0) == pytest.approx(0, abs=1e-9)
    assert np.ptp(toe[70:], axis=0) == pytest.approx(0, abs=1e-9)
    assert np.linalg.norm(toe[70] - toe[50]) > 0.02


@pytest.fixture(scope="module")
def fitted(jump: Recording) -> tuple[Problem, Solution]:
    """A fit with the right schedule."""
    problem = hopper([jump], holds="down", threshold=10)
    return problem, problem.solve()


def test_a_leg_that_lifts_is_found_with_its_forces(fitted: tuple[Problem, Solution]) -> None:
    problem, solution = fitted
    assert solution.status is Status.CONVERGED
    assert not any(finding.code == "residuals.autocorrelated" for finding in solution.findings)
    for name, value in TRUE.items():
        assert abs(solution[name].estimate - value) < 3.5 * solution[name].std_err
        assert solution[name].std_err < 0.002 * value
    force = problem.contact_forces(solution)["toe"]
    flying, weight = slice(53, 68), 9.81 * (TRUE["m"] + 1.2)
    assert np.all(force[flying] == 0)
    assert np.nanmean(force[5:45, 1]) == pytest.approx(weight, rel=0.05)
    toe = toe_of(problem, solution.trajectories[0].q)
    assert np.ptp(toe[1:51], axis=0) == pytest.approx(0, abs=1e-5)
    assert np.all(np.isfinite(solution.disturbance[0].value[1:-1]))
    with pytest.raises(ProblemError, match="another problem"):
        Problem("none", Model([Body("b", mass=1, inertia=(1, 1, 1), free=True)], gravity=(0, 0, 0))).contact_forces(
            solution
        )


@pytest.mark.study
@pytest.mark.parametrize("holds", ["late", True, [(0, 0.5), (0.8, 2)], [(0, 0.45), (0.7, 2)]])
def test_a_schedule_that_is_wrong_is_told(fitted: tuple[Problem, Solution], jump: Recording, holds: Any) -> None:
    wrong = hopper([jump], holds=holds).solve()
    told = [finding for finding in wrong.findings if finding.code == "contacts.schedule"]
    assert any("PointContact 'toe'" in finding.text for finding in told)
    assert fitted[1].log_likelihood > wrong.log_likelihood + 100


@pytest.mark.study
def test_slip_is_estimated_if_it_is_asked_for(jump: Recording) -> None:
    solution = hopper([jump], holds="down", slip=None).solve()
    slip = next(noise for noise in solution.noise if noise.names == ("toe slip",))
    assert slip.unit == "m/s"
    assert not slip.given
    assert slip.density < 1e-3  # a foot that does not slip, seen with a millimetre of noise
    assert abs(solution["m"].estimate - TRUE["m"]) < 3.5 * solution["m"].std_err


@pytest.mark.parametrize("weight", [pytest.param(1e4, marks=pytest.mark.study), np.inf])
def test_contacts_hold_with_a_given_weight(jump: Recording, weight: float) -> None:
    problem = hopper([jump], holds="down").with_(state_weight=weight)
    solution = problem.solve()
    assert solution["m"].estimate == pytest.approx(TRUE["m"], rel=0.02)
    toe = toe_of(problem, solution.trajectories[0].q)
    assert np.ptp(toe[1:51], axis=0) == pytest.approx(0, abs=1e-6)
    assert np.all(problem.contact_forces(solution)["toe"][53:68] == 0)


def test_ipopt_finds_the_same_with_errors(fitted: tuple[Problem, Solution], jump: Recording) -> None:
    problem, solution = fitted
    other = problem.solve(backend="ipopt", warm_start=solution)
    assert other.status is Status.CONVERGED
    for name in TRUE:
        assert other[name].estimate == pytest.approx(solution[name].estimate, abs=0.05 * solution[name].std_err)
        assert other[name].std_err == pytest.approx(solution[name].std_err, rel=0.2)  # at noise taken as known


def test_a_balance_of_energy_refuses_touchdowns(jump: Recording) -> None:
    assert hopper([jump]).with_(residuals=[EnergyBalance()]).residuals
    with pytest.raises(ProblemError, match="'toe' holds at times, and a touchdown takes energy"):
        hopper([jump], holds="down").with_(residuals=[EnergyBalance()])


@pytest.mark.study
def test_a_balance_of_energy_of_what_springs_move_on_a_foot_that_stands() -> None:
    """Springs exchange more work than motors do, in 0.14 s: steps of 10 ms are in the floor of the rows."""
    t = np.arange(0, 1.2001, 0.01)
    drives = Recording(t, {"u_1": 3 * np.sin(5 * t), "u_2": 4 * np.cos(7 * t)})
    start = {"hip": 0.5, "knee": -1.0}
    run = hopper([]).simulate(TRUE, duration=1.2, inputs=drives, initial=start, substeps=8)
    rng = np.random.default_rng(0)
    noisy = {name: run.signals[name] + 1e-4 * rng.standard_normal(len(t)) for name in SENSORS}
    recording = Recording(t, {**drives.signals, **noisy}, "run")
    solution = hopper([recording]).with_(residuals=[EnergyBalance()]).solve(estimator="noise")
    for name, value in TRUE.items():
        assert abs(solution[name].estimate - value) < 3.5 * solution[name].std_err  # 7 with motors' work alone


def test_a_simulation_keeps_the_signal_by_which_contacts_hold(jump: Recording) -> None:
    problem, start = hopper([], holds="down", threshold=10), {"hip": 0.5, "knee": -1.0}
    twin = problem.simulate(TRUE, duration=0.05, inputs=jump, initial=start, substeps=1)
    assert np.array_equal(twin.signals["down"], jump.signals["down"][:6])


def test_what_is_refused(jump: Recording) -> None:
    foot, base = Body("foot", mass=1, inertia=(1, 1, 1), free=True), Body("base", mass=1, inertia=(1, 1, 1), free=True)
    for arguments, words in (
        ({"holds": []}, None),
        ({"holds": [(1.0, 0.5)]}, "intervals"),
        ({"holds": False}, "intervals"),
        ({"axes": "xq"}, "axes"),
        ({"level": "velocity"}, "level"),
        ({"slip": -1.0}, "slip"),
        ({"baumgarte": (1.0,)}, "baumgarte"),
        ({"on": foot.frame()}, "itself"),
    ):
        if words is None:
            PointContact("toe", foot.frame(), **arguments)
            continue
        with pytest.raises(ProblemError, match=words):
            PointContact("toe", foot.frame(), **arguments)
    with pytest.raises(ProblemError, match="ground"):
        Weld("grip", GROUND.frame(), on=foot.frame())
    with pytest.raises(ProblemError, match="not in the bodies"):
        Model([foot], constraints=[Weld("grip", foot.frame(), on=base.frame())], gravity=gravity(9.81))
    with pytest.raises(ProblemError, match="has no recording 'jump'"):
        hopper([jump], holds={"walk": True}).solve()
    with pytest.raises(ProblemError, match="PointContact 'toe': recording 'jump' has no signal"):
        hopper([jump], holds="nowhere").solve()
    with pytest.raises(ProblemError, match=r"Variational\(\)"):
        hopper([jump], holds="down").with_(stepper=Spook()).solve()
    with pytest.raises(ProblemError, match="has no contacts that hold"):
        hopper([jump]).with_(stepper=Spook()).solve()
    problem = hopper([jump], holds="down")
    sideways = replace(problem.model.constraints[0], axes="xyz")
    with pytest.raises(ProblemError, match="row 'y' follows from joints"):
        problem.with_(model=replace(problem.model, constraints=[sideways])).solve()
    with pytest.raises(ProblemError, match="coordinates of joints"):
        problem.with_(model=replace(problem.model, coordinates="maximal")).solve()
    with pytest.raises(ProblemError, match="smoother"):
        FixedLagSmoother(problem, window=50)


def test_a_contact_that_always_holds_is_a_joint() -> None:
    """Rates and accelerations of a pendulum whose pin is a contact are those of one with a hinge."""
    rod = Body("rod", mass=1.0, inertia=(0.05, 0.05, 0.05))
    base = Planar("base", GROUND.frame(), rod.frame())
    pin = PointContact("pin", rod.frame(at=(0, 0, 0.5)), axes="yz")
    model = Model([rod], [base], constraints=[pin], gravity=gravity(9.81))
    problem = Problem("pendulum", model, observations=[JointPosition(base, "angle", coordinate=2)], step=0.01)
    start = {"base y": 0.5 * np.sin(1.0), "base z": -0.5 * np.cos(1.0), "base angle": 1.0}
    twin = problem.simulate(duration=1.0, initial=start)
    bar = Body("bar", mass=1.0, inertia=(0.05, 0.05, 0.05))
    hinge = Hinge("hinge", GROUND.frame(), bar.frame(at=(0, 0, 0.5)))
    hinged = Problem(
        "hinged", Model([bar], [hinge], gravity=gravity(9.81)), observations=[JointPosition(hinge, "angle")], step=0.01
    )
    other = hinged.simulate(duration=1.0, initial={"hinge": 1.0})
    np.testing.assert_allclose(twin.signals["angle"], other.signals["angle"], atol=1e-6)


@pytest.mark.study
@pytest.mark.parametrize(("level", "gains"), [("position", (0.0, 0.0)), ("acceleration", (100.0, 20.0))])
def test_rows_of_either_level_leave_damping_as_it_is(level: str, gains: tuple[float, float]) -> None:
    """A pendulum of a free body on a contact, with steps of 20 ms; the step is symmetric in time, at either level."""
    mass, length, about, damping = 1.0, 0.5, 0.05, 0.3
    inertia, t = about + mass * length**2, np.arange(0, 4.0001, 0.02)

    def fall(_: float, x: Array) -> list[float]:
        return [x[1], (-mass * 9.81 * length * np.sin(x[0]) - damping * x[1]) / inertia]

    angle = solve_ivp(fall, (0, 4), [1.5, 0.0], t_eval=t, rtol=1e-11, atol=1e-12).y[0]
    rng = np.random.default_rng(0)
    shown = {"y": length * np.sin(angle), "z": -length * np.cos(angle), "angle": angle}
    signals = {name: values + 1e-4 * rng.standard_normal(len(t)) for name, values in shown.items()}
    rod = Body("rod", mass=mass, inertia=(about, about, about))
    base = Planar("base", GROUND.frame(), rod.frame(), viscous=(0, 0, Parameter("b", 0.1, lower=0)))
    pin = PointContact("pin", rod.frame(at=(0, 0, length)), axes="yz", level=level, baumgarte=gains)
    model = Model([rod], [base], constraints=[pin], gravity=gravity(9.81))
    sensors = [JointPosition(base, name, coordinate=i) for i, name in enumerate(shown)]
    problem = Problem("rod", model, [Recording(t=t, signals=signals)], sensors, step=0.02, step_correction=False)
    assert problem.solve()["b"].estimate == pytest.approx(damping, rel=4e-3)
