"""A coordinate that nothing tells: the angle of a flywheel of which a tachometer tells the rate."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.integrate import solve_ivp

from spookid import (
    GROUND,
    Accelerometer,
    Body,
    Hinge,
    JointPosition,
    JointRate,
    Model,
    Motor,
    Parameter,
    Problem,
    Recording,
    gravity,
)
from spookid.assembly.assembly import assemble
from spookid.assembly.checks import cyclic
from spookid.studies.job import digest

MASS, LEVER, INERTIA, WHEEL, DRAG, GAIN = 0.5, 0.1, 2e-3, 4e-4, 1e-4, 0.04
T = np.arange(600) * 0.005
INPUT = 2 * np.sin(7 * T) + np.sin(2.3 * T)


def slopes(t: float, x: np.ndarray) -> list[float]:
    """Of a pendulum about its pivot with a wheel on its end: angles, rates, the wheel's relative to the pendulum."""
    torque = GAIN * np.interp(t, T, INPUT) - DRAG * x[3]
    swing = (-(MASS * LEVER + 0.1 * 2 * LEVER) * 9.81 * np.sin(x[0]) - torque) / (
        INERTIA + MASS * LEVER**2 + 0.1 * (2 * LEVER) ** 2
    )
    return [x[2], x[3], swing, torque / WHEEL - swing]


def flywheel(moments: tuple[float, float] = (3e-4, 3e-4), off: float = 0.0) -> Problem:
    """The wheel turns about its x axis; its other moments may be no disc's, and its centre may be off."""
    J, wheel_inertia, K = (Parameter(n, 2 * v, lower=1e-6) for n, v in (("J", INERTIA), ("Jw", WHEEL), ("K", GAIN)))
    rod = Body("rod", mass=MASS, inertia=(J, J, J))
    disc = Body("disc", mass=0.1, inertia=(wheel_inertia, *moments))
    axis = dict(x=(0, 1, 0), y=(0, 0, -1))
    pivot = Hinge("pivot", GROUND.frame(**axis), rod.frame(at=(0, 0, LEVER), **axis))
    axle = Hinge(
        "axle", rod.frame(at=(0, 0, -LEVER), **axis), disc.frame(at=(0, off, 0)), viscous=Parameter("b", 3e-4, lower=0)
    )
    model = Model([rod, disc], [pivot, axle], [Motor(axle, "u", gain=K, hold="linear")], gravity=gravity(9.81))
    found = solve_ivp(slopes, (0, T[-1]), [0.3, 0, 0, 0], rtol=1e-9, atol=1e-11, max_step=0.005, t_eval=T).y
    rng = np.random.default_rng(0)
    shown = {"angle": found[0] + 1e-4 * rng.normal(size=len(T)), "rate": found[3] + 0.01 * rng.normal(size=len(T))}
    sensors = [JointPosition(pivot, "angle"), JointRate(axle, "rate")]
    return Problem("flywheel", model, [Recording(T, {**shown, "u": INPUT}, "run")], sensors)


def test_a_flywheel_with_a_tachometer_is_identified() -> None:
    solution = flywheel().solve()
    assert solution.status.value == "converged"
    for name, truth in (("J", INERTIA), ("Jw", WHEEL), ("K", GAIN), ("b", DRAG)):
        estimate = solution[name]
        assert abs(estimate.estimate - truth) < 4 * estimate.std_err < 0.1 * truth, name


def test_only_what_nothing_tells_is_held() -> None:
    problem = flywheel()
    assert cyclic(problem) == [1]
    assert cyclic(flywheel(moments=(3e-4, 4e-4))) == [1]  # it turns about a principal axis of a planar mechanism
    pivot, axle = problem.model.joints
    assert cyclic(problem.with_(observations=[JointPosition(pivot, "angle"), JointPosition(axle, "rate")])) == []
    assert cyclic(flywheel(off=0.01)) == []


def test_a_pendulum_without_its_encoder_is_told_by_gravity() -> None:
    problem = flywheel()
    pivot, axle = problem.model.joints
    rates = [JointRate(pivot, "angle"), JointRate(axle, "rate")]
    assert cyclic(problem.with_(observations=rates)) == [1]
    weightless = problem.with_(observations=rates, model=replace(problem.model, gravity=np.zeros(3)))
    assert cyclic(weightless) == [0, 1]


def test_problems_with_accelerometers_have_a_digest() -> None:
    problem = flywheel()
    frame = problem.model.bodies[0].frame()
    seen = problem.with_(observations=[*problem.observations, Accelerometer(frame, ("angle", "rate", "u"))])
    assert digest(seen) != digest(problem)


def test_a_guess_from_rates_is_smooth() -> None:
    problem = flywheel()
    start = assemble(problem).sampled[0].guess.displacements[:, 1]
    recording = problem.recordings[0]
    between = np.interp((np.arange(len(start) - 1) + 0.5) * problem.step, recording.t, recording.signal("rate"))
    rates = np.diff(start) / problem.step
    assert np.std(rates - between) < 0.05 * np.std(between)
    assert np.ptp(np.diff(rates)) < 2 * np.ptp(np.diff(between))
