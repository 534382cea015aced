"""Closed loops: a four-bar linkage against its reference, redundant rows, identification, and soft joints."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
from mechanisms import Array, mechanics

from spookid import (
    GROUND,
    Body,
    Hinge,
    HingeAngle,
    Model,
    Motor,
    Parameter,
    PointPosition,
    Prismatic,
    Problem,
    ProblemError,
    Recording,
    Screw,
    Solution,
    Spook,
    Status,
    Trajectory,
    Variational,
    gravity,
)

AXLE: dict[str, Any] = {"x": (0, 0, 1), "y": (1, 0, 0)}
LENGTHS, BASE, MASSES = (0.10, 0.25, 0.30), 0.30, (0.2, 0.4, 0.5)
"""Of crank, coupler and rocker [m, kg], and the distance of the fixed axles [m]."""
TRUTH = {"I_crank": 2e-4, "I_coupler": 2.5e-3, "I_rocker": 4e-3, "b": 0.01, "K": 0.05}
"""Inertias [kg m²], the crank's friction [N m s] and the motor's gain [N m/V]."""
REFERENCE = [-3.748470894, -0.022607800, -3.701260844, -0.090504054, -3.604897278]
"""Crank angle of the planar four-bar of Blanco-Claraco et al. after 1, 2 ... 5 s [rad], from two other integrators."""


def linkage(
    lengths: Sequence[float],
    base: float,
    masses: Sequence[float],
    inertias: Sequence[Any],
    *,
    g: float = 9.81,
    viscous: Any = 0,
    gain: Any = 1,
    **hinge: Any,
) -> Model:
    """Crank, coupler and rocker between two fixed axles along z, ``base`` apart; a motor drives the crank."""
    names = ("crank", "coupler", "rocker")
    links = zip(names, masses, inertias, strict=True)
    crank, coupler, rocker = (Body(name, mass=mass, inertia=(1e-5, inertia, inertia)) for name, mass, inertia in links)
    a, b, c = (length / 2 for length in lengths)
    ground, far = GROUND.frame(**AXLE), GROUND.frame(at=(base, 0, 0), **AXLE)
    drive = Hinge("drive", ground, crank.frame(at=(-a, 0, 0), **AXLE), viscous=viscous, **hinge)
    knee = Hinge("knee", crank.frame(at=(a, 0, 0), **AXLE), coupler.frame(at=(-b, 0, 0), **AXLE), **hinge)
    wrist = Hinge("wrist", coupler.frame(at=(b, 0, 0), **AXLE), rocker.frame(at=(c, 0, 0), **AXLE), **hinge)
    pivot = Hinge("pivot", far, rocker.frame(at=(-c, 0, 0), **AXLE), **hinge)
    motors = [Motor(drive, signal="u", gain=gain)]
    return Model([crank, coupler, rocker], [drive, knee, wrist, pivot], motors, gravity=(0, -g, 0))


def closed(lengths: Sequence[float], base: float, angle: float) -> dict[str, float]:
    """Angles of the hinges [rad] with the crank at ``angle`` and the wrist above the line from knee to pivot."""
    a, b, c = lengths
    x, y = base - a * np.cos(angle), -a * np.sin(angle)
    reach = np.hypot(x, y)
    coupler = np.arctan2(y, x) + np.arccos((b**2 + reach**2 - c**2) / (2 * b * reach))
    rocker = np.arctan2(-y, -x) - np.arccos((c**2 + reach**2 - b**2) / (2 * c * reach))
    return {"drive": angle, "knee": coupler - angle, "wrist": rocker - coupler, "pivot": rocker}


def problem(model: Model, **settings: Any) -> Problem:
    """Observed are the angles of crank and rocker."""
    drive, pivot = model.joints[0], model.joints[-1]
    observations = [HingeAngle(drive, signal="crank"), HingeAngle(pivot, signal="rocker")]
    return Problem("loop", model=model, **{"observations": observations, "stepper": Variational(), **settings})


def violations(model: Model, run: Recording | Trajectory) -> Array:
    """Largest |g| of each step, (N,)."""
    still = np.zeros(6 * len(model.bodies))
    return np.array([np.abs(mechanics(model, q.ravel(), still).g).max() for q in run.q])


KNOWN = linkage(LENGTHS, BASE, MASSES, list(TRUTH.values())[:3])
"""The linkage without unknowns, for its geometry."""


# --- forward ---


@pytest.mark.study
@pytest.mark.parametrize("seconds", [1, pytest.param(5, marks=pytest.mark.study)])
def test_the_planar_linkage_follows_its_reference(seconds):
    lengths, masses = (1.0, 2.0, np.sqrt(13)), (1.0, 2.0, 4.0)
    inertias = [m * l**2 / 12 for m, l in zip(masses, lengths, strict=True)]
    model = linkage(lengths, 4.0, masses, inertias, g=9.8, compliance=0)
    initial = closed(lengths, 4.0, 0.0)
    assert initial["knee"] == pytest.approx(np.pi / 2)
    run = problem(model, step=1e-3).simulate(duration=seconds, initial=initial)
    np.testing.assert_allclose(run.signals["crank"][1000::1000], REFERENCE[:seconds], atol=1e-3)
    assert violations(model, run).max() < 1e-13


def parameters() -> dict[str, Parameter]:
    guesses = {"I_crank": 5e-4, "I_coupler": 1e-3, "I_rocker": 1e-3, "b": 1e-3, "K": 0.03}
    return {name: Parameter(name, guess, lower=1e-9) for name, guess in guesses.items()}


def unknown(**hinge: Any) -> Model:
    """The linkage whose inertias, friction and gain are to be found."""
    p = parameters()
    return linkage(LENGTHS, BASE, MASSES, list(p.values())[:3], viscous=p["b"], gain=p["K"], **hinge)


@cache
def driven() -> Recording:
    """Two seconds at 1 kHz under a voltage that is held for 4 ms, with two angles and a point of the coupler."""
    t = 1e-3 * np.arange(2001)
    smooth = 1.5 * np.sin(4.4 * t) + 3 * np.sin(14.5 * t + 1) + 4 * np.sin(25.8 * t)
    inputs = Recording(t=t, signals={"u": smooth[np.arange(len(t)) // 4 * 4]})
    model = unknown(compliance=0)
    swinging = problem(model, observations=sensors(model), step=1e-3)
    return swinging.simulate(TRUTH, duration=2.0, initial=closed(LENGTHS, BASE, 0.5), inputs=inputs, substeps=1)


def sensors(model: Model) -> list[HingeAngle | PointPosition]:
    """Angles of crank and rocker, and two coordinates of a point beside the coupler."""
    point = model.bodies[1].frame(at=(0.05, 0.1, 0))
    angles = [HingeAngle(model.joints[i], signal=signal) for i, signal in ((0, "crank"), (-1, "rocker"))]
    return [*angles, PointPosition(point, "x", signal="x"), PointPosition(point, "y", signal="y")]


def noisy(deviation: float = 1e-3) -> Recording:
    """The driven linkage, seen with noise [rad or m]."""
    clean, rng = driven(), np.random.default_rng(7)
    seen = {s: clean.signals[s] + rng.normal(0, deviation, len(clean.t)) for s in ("crank", "rocker", "x", "y")}
    return Recording(t=clean.t, signals={**seen, "u": clean.signals["u"]}, name="driven")


def fit(*signals: str) -> Solution:
    """Of all five parameters to some of the signals."""
    model = unknown(compliance=0)
    observations = [sensor for sensor in sensors(model) if sensor.signal in signals]
    settings = {"step": 0.004, "state_weight": 1e4}
    return problem(model, observations=observations, recordings=[noisy()], **settings).solve()


@pytest.mark.study
def test_what_the_twin_does_is_worth_a_fit():
    angle = driven().signals["crank"]
    assert np.ptp(angle) > 2
    assert violations(KNOWN, driven()).max() < 1e-13


# --- identification ---


@pytest.mark.parametrize(
    "signals",
    [pytest.param(("crank", "rocker"), marks=pytest.mark.study), ("crank", "x", "y")],
    ids=lambda signals: "+".join(signals),
)
def test_linkages_are_identified(signals):
    solution = fit(*signals)
    assert solution.status is Status.CONVERGED
    assert solution.iterations <= 10
    for name, truth in TRUTH.items():
        found = solution[name]
        assert abs(found.estimate - truth) < 3 * found.std_err
        assert found.std_err < 0.1 * truth
        assert not found.at_bound
    assert [f.evidence for f in solution.findings if f.code == "constraints.redundant"] == [{"rows": 3}]
    assert violations(KNOWN, solution.trajectories[0]).max() < 1e-12


@pytest.mark.parametrize("backend", ["lm", "ipopt"])
def test_a_mechanism_that_cannot_move_is_refused(backend):
    rod = Body("rod", mass=Parameter("m", 0.5, lower=0.1), inertia=(1e-4, 0.01, 0.01))
    axes = [{"x": (0, 1, 0), "y": (0, 0, -1)}, {"x": (0, 1, 0), "y": (1, 0, 0)}]
    ends = [
        Hinge(name, GROUND.frame(at=(0, 0, -at), **axes[0]), rod.frame(at=(at - 0.2, 0, 0), **axes[1]))
        for name, at in (("upper", 0.0), ("lower", 0.4))
    ]
    run = Recording(np.arange(20) * 0.01, {"angle": 1e-3 * np.sin(np.arange(20))})
    sensors = [HingeAngle(ends[0], "angle")]
    problem = Problem("rigid", Model([rod], ends, gravity=gravity(9.82)), [run], sensors, stepper=Variational())
    with pytest.raises(ProblemError, match=r"test_loops.py:\d+: .*upper, lower are rigid .* use Spook\(\)"):
        problem.solve(backend=backend)
    assert np.isfinite(
        problem.solve(stepper=Spook(multipliers="lifted"), state_weight=100.0, max_iterations=5).cost.total
    )


# --- a screw in a loop: four of its rows follow from those of two other joints ---

SPINDLE = {"J": 3e-3, "b": 2e-3, "c": 0.05}
"""Inertia [kg m²], viscous and dry friction [N m s, N m] of a spindle that lifts a nut."""
NUT, PITCH = 2.0, 0.002
"""Mass of the nut [kg], and how far it goes for each radian [m]."""


def lifting(tree: str, recording: Recording, **settings: Any) -> Problem:
    """The spindle on its axle, with a nut that a rail keeps from turning; the joint between them that is named is in
    the spanning tree, and the other one closes the loop."""
    p = {name: Parameter(name, 1.5 * true, lower=0) for name, true in SPINDLE.items()}
    shaft = Body("shaft", mass=0.5, inertia=(1e-3, 1e-3, p["J"]))
    nut = Body("nut", mass=NUT, inertia=(1e-3, 1e-3, 1e-3))
    axle = Hinge("axle", GROUND.frame(**AXLE), shaft.frame(**AXLE), viscous=p["b"], coulomb=p["c"])
    rail = Prismatic("rail", GROUND.frame(**AXLE), nut.frame(**AXLE))
    screw = Screw("screw", shaft.frame(**AXLE), nut.frame(**AXLE), pitch=-PITCH)  # the nut turns back
    others = [rail, screw] if tree == "rail" else [screw, rail]
    model = Model([shaft, nut], [axle, *others], [Motor(axle, signal="u")], gravity=(0, 0, -9.81))
    return Problem("spindle", model, [recording], [HingeAngle(axle, "angle")], step=0.005, **settings)


@cache
def lifted() -> Recording:
    """The equation of one coordinate under a torque that is held for a step and turns it to and fro without a rest."""
    t, z = 0.005 * np.arange(161), np.zeros((161, 2))
    u, rate = 0.04 + 0.3 * np.sin(9 * t), SPINDLE["b"] / (SPINDLE["J"] + NUT * PITCH**2)
    for k in range(len(t) - 1):
        (x, v), left = z[k], t[k + 1] - t[k]
        drive = u[k] - NUT * 9.81 * PITCH
        while left > 0:
            sign = np.sign(v) or np.sign(drive)
            final = (drive - SPINDLE["c"] * sign) / SPINDLE["b"]
            turns = np.log(1 - v / final) / rate if v * final < 0 else np.inf
            now = min(turns, left)
            x += final * now + (v - final) * (1 - np.exp(-rate * now)) / rate
            v, left = 0.0 if now == turns else final + (v - final) * np.exp(-rate * now), left - now
        z[k + 1] = x, v
    noise = 1e-3 * np.random.default_rng(0).standard_normal(len(t))
    return Recording(t, {"angle": z[:, 0] + noise, "u": u})


@pytest.mark.parametrize(
    ("tree", "backend", "settings"),
    [
        ("rail", "lm", {}),
        ("screw", "lm", {}),
        ("screw", "ipopt", {"friction_width": 0.02}),
        ("rail", "ipopt", {"friction_width": 0.02}),
        ("screw", "ipopt", {"friction": "mpcc"}),
        ("rail", "ipopt", {"state_weight": np.inf}),
        pytest.param("rail", "lm", {"stepper": Spook()}, marks=pytest.mark.study),
        ("screw", "lm", {"stepper": Spook()}),
    ],
    ids=["lm", "lm, screw", "ipopt, screw", "ipopt", "mpcc", "ipopt, deterministic", "spook", "spook, screw"],
)
def test_a_screw_in_a_loop_is_identified(tree: str, backend: str, settings: dict[str, Any]) -> None:
    solution = lifting(tree, lifted(), **settings).solve(backend=backend)
    assert solution.status is Status.CONVERGED, solution.detail
    # SPOOK's errors fall with the step alone, and given weights are not extrapolated.
    bias = {"stepper": 0.2, "state_weight": 0.05}.get(next(iter(settings), ""), 0.0)
    for name, true in SPINDLE.items():
        assert abs(solution[name].estimate - true) < 3.5 * solution[name].std_err + bias * true, name


# --- soft joints ---


@pytest.mark.parametrize("multipliers", ["eliminated", "lifted"])
def test_soft_loops_start_closed_and_stay_so(multipliers):
    model = unknown(compliance=1e-6, damping=0.02)
    swinging = problem(model, stepper=Spook(multipliers=multipliers), step=1e-3)
    run = swinging.simulate(TRUTH, duration=0.5, initial=closed(LENGTHS, BASE, 0.5))
    apart = violations(KNOWN, run)
    assert apart[0] < 1e-14
    assert apart.max() < 1e-3
    assert np.ptp(run.signals["crank"]) > 0.3


def test_a_recording_closes_the_loop_at_the_start():
    swinging = problem(unknown(compliance=1e-6), stepper=Spook(), step=2e-3, recordings=[noisy()])
    run = swinging.simulate(TRUTH, duration=0.2)
    assert violations(KNOWN, run)[0] < 1e-10
    assert run.signals["rocker"][0] == pytest.approx(driven().signals["rocker"][0], abs=3e-3)


def test_one_angle_closes_the_loop_when_a_simulation_starts():
    problem = Problem(
        "start", KNOWN, observations=[HingeAngle(KNOWN.joints[0], "crank")], stepper=Variational(), step=1e-3
    )
    first, names = KNOWN.joints[0].name, [joint.name for joint in KNOWN.joints]
    run = problem.simulate(duration=0.02, initial={first: (0.5, 2.0)})
    assert violations(KNOWN, run).max() < 1e-10
    assert run.signals["crank"][0] == pytest.approx(0.5, abs=1e-9)
    assert np.diff(run.signals["crank"])[0] / problem.step == pytest.approx(2.0, rel=0.2)
    with pytest.raises(ProblemError, match="no pose was found that closes the loop"):
        problem.simulate(duration=0.02, initial=dict.fromkeys(names, 0.1))
