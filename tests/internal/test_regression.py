"""Regressions against motions whose parameters are known, against the energy of a pendulum by hand, and refusals."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mechanisms import Array

from spookid import (
    GROUND,
    Body,
    Distance,
    FullInertia,
    Hinge,
    JointPosition,
    LogCholesky,
    Model,
    Motor,
    Parameter,
    Problem,
    ProblemError,
    Recording,
    gravity,
)
from spookid.__main__ import main
from spookid.mechanics.regressor import Regressor
from spookid.parameter import substitute
from spookid.studies.regression_rows import Filter

AXLE = {"x": (0, 1, 0), "y": (1, 0, 0)}
STEP, CUTOFF = 0.005, 15.0


def arm(stiffness: Any = 0, **friction: Any) -> Model:
    """Two links in a vertical plane, both driven; what is declared is the truth."""
    bodies, joints, before = [], [], GROUND
    for i, (mass, moment, at) in enumerate([(1.0, 0.05, (0, 0, 0)), (0.8, 0.04, (0, 0, -0.4))], 1):
        inertia = FullInertia(mass, (0, 0, -0.2), inertia=(moment, moment, moment / 5))
        body = Body(f"link{i}", inertia=LogCholesky(f"link{i}", inertia, within=0.7))
        own = {"viscous": Parameter(f"b{i}", 0.3 / i, lower=0), "coulomb": Parameter(f"c{i}", 0.4 / i, lower=0)}
        joints.append(
            Hinge(f"joint{i}", before.frame(at=at, **AXLE), body.frame(**AXLE), stiffness=stiffness, **own | friction)
        )
        bodies.append(body)
        before = body
    motors = [Motor(joint, f"u{i}", measured=True) for i, joint in enumerate(joints, 1)]
    return Model(bodies, joints, motors, gravity=gravity(9.81))


@cache
def moved(duration: float = 6.0) -> Recording:
    t = np.arange(round(duration / STEP) + 1) * STEP
    u = {"u1": 6 * np.sin(2.1 * t) + 3 * np.sin(5.3 * t + 1), "u2": 2 * np.sin(3.3 * t) + 2 * np.cos(6.1 * t)}
    run = problem(arm()).simulate(inputs=Recording(t, u), duration=duration, substeps=1)
    return Recording(run.t, {**run.signals, **u}, "run")


def problem(model: Model, recordings: Any = (), **settings: Any) -> Problem:
    sensors = [JointPosition(joint, f"q{i}") for i, joint in enumerate(model.joints, 1)]
    return Problem("arm", model, recordings, sensors, **{"step": STEP, "friction_width": 0.05, **settings})


def noisy(seed: int, torque: float) -> Recording:
    rng, run = np.random.default_rng(seed), moved()
    signals = {name: s + torque * rng.normal(size=len(s)) * name.startswith("u") for name, s in run.signals.items()}
    return Recording(run.t, signals, "run")


def truth(found: Any, problem: Problem) -> Array:
    return np.array([substitute(formula, problem.guess).item() for formula in found.formulas])


@pytest.mark.parametrize(
    "options", [{}, pytest.param({"filter": "savgol"}, marks=pytest.mark.study), {"method": "energy"}], ids=str
)
def test_what_moved_is_found_and_its_errors_cover(options: Any) -> None:
    """Noise of torques alone: that of angles is not in the errors."""
    exact = problem(arm(), [moved()]).regress(cutoff=CUTOFF, **options)
    assert len(exact.names) == 10  # 8 in any motion of such links, and two coefficients of dry friction
    biggest = 0.1 if options.get("method") == "energy" else 0.02  # friction turns within a sample or two
    np.testing.assert_allclose(exact.estimates, truth(exact, problem(arm())), atol=biggest)
    off = []
    for seed in range(5):
        found = problem(arm(), [noisy(seed, 0.3)]).regress(cutoff=CUTOFF, **options)
        off.append((found.estimates - exact.estimates) / found.std_errs)
    assert 0.7 < np.sqrt(np.mean(np.square(off))) < 1.35


@pytest.mark.parametrize("method", ["inverse-dynamics", "energy"])
def test_declared_parameters_have_their_priors_and_the_same_rows(method: Any) -> None:
    guess = {"b1": 0.1, "c2": 0.4, "link1_t_3": -0.1}
    declared = problem(arm(), [noisy(0, 0.1)], initial=guess)
    found = declared.regress(method=method, unknowns="declared", cutoff=CUTOFF)
    linear = declared.regress(method=method, cutoff=CUTOFF)
    known = dict(zip(found.names, zip(found.estimates, found.std_errs, strict=True), strict=True))
    assert known["b1"][0] == pytest.approx(0.3, abs=4 * known["b1"][1])
    assert known["link1_alpha"][1] == pytest.approx(0.7 / 2, rel=0.03)  # of the total mass's prior, which nothing tells
    np.testing.assert_allclose(found.errors, linear.errors, rtol=2e-3)
    np.testing.assert_allclose(found.errors_on(declared), found.errors)
    values = dict(zip(found.names, found.estimates, strict=True))
    kept = [i for i, error in enumerate(linear.std_errs) if error < 0.01]
    told = [substitute(linear.formulas[i], declared.guess | values).item() for i in kept]
    np.testing.assert_allclose(told, linear.estimates[kept], atol=4 * linear.std_errs[kept].max())


def test_the_balance_of_energy_is_that_of_a_pendulum_by_hand() -> None:
    m, length, moment, b, k = 0.7, 0.3, 0.02, 0.15, 0.9
    rod = Body("rod", inertia=FullInertia(m, (0, 0, -length), inertia=(moment, moment, 0.001)))
    pin = Hinge("pin", GROUND.frame(**AXLE), rod.frame(**AXLE), viscous=b, stiffness=k)
    motor = Motor(pin, "u", shaft_inertia=0.03)
    regressor = Regressor(Model([rod], [pin], [motor], gravity=gravity(9.81)), [])
    q, s, u = 0.6, -1.7, 0.8
    kinetic, power = regressor.function("energy")(q, s, 5.0, 0.01, [], u)[1].full()[:, 0]
    assert kinetic == pytest.approx((moment + m * length**2 + 0.03) * s**2 / 2)
    assert power == pytest.approx(m * 9.81 * length * np.sin(q) * s + k * q * s + b * s**2 - u * s)


def test_energies_and_forces_tell_the_same_power() -> None:
    """sᵀw = dT/dt + P along any motion, T's rate by central differences."""
    regressor = Regressor(arm(stiffness=0.4), [])
    forces, energy = regressor.function("forces"), regressor.function("energy")
    rng = np.random.default_rng(3)
    known = regressor.numbers(problem(arm(stiffness=0.4)).guess)
    for _ in range(5):
        q, s, a, u = rng.normal(size=(4, 2))

        def at(t: float, q: Array = q, s: Array = s, a: Array = a, u: Array = u) -> Array:
            return energy(q + t * s + t**2 * a / 2, s + t * a, 0 * a, [0.05] * 2, known, u)[1].full()[:, 0]

        rate = (at(1e-5)[0] - at(-1e-5)[0]) / 2e-5
        w = forces(q, s, a, [0.05] * 2, known, u)[1].full()[:, 0]
        assert s @ w == pytest.approx(rate + at(0.0)[1], rel=1e-7)


def test_slopes_with_declared_parameters_are_those_of_differences() -> None:
    whole, rng = problem(arm()), np.random.default_rng(2)
    function, others = Regressor(whole.model, whole.free).in_parameters("energy")
    q, s, a, u = rng.normal(size=(4, 2))
    at = np.array([whole.guess[p.name] for p in whole.free])
    given = (q, s, a, [0.05] * 2, u)
    exact = function(*given, at, [whole.guess[p.name] for p in others])[1].full().reshape(len(at), 2).T
    for i in range(len(at)):
        step = 1e-6 * np.eye(len(at))[i]
        ahead, behind = (function(*given, at + sign * step, [])[0].full()[:, 0] for sign in (1, -1))
        np.testing.assert_allclose(exact[:, i], (ahead - behind) / 2e-6, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", ["butterworth", "savgol"])
def test_filters_differentiate_and_cut_off_where_they_should(name: Any) -> None:
    t = np.arange(4000) * 1e-3
    one = Filter(name, 8.0, 1e-3)
    for frequency, gain in ((1.0, 1.0), (8.0, {"butterworth": 0.5, "savgol": 0.5**0.5}[name]), (40.0, 0.0)):
        w = 2 * np.pi * frequency
        found = one.derivatives(np.sin(w * t)[:, None])
        inner = slice(1000, 3000)
        for i, (values, exact) in enumerate(zip(found, (np.sin(w * t), np.cos(w * t), -np.sin(w * t)), strict=True)):
            ratio = float(np.vdot(values[inner, 0], exact[inner]) / np.vdot(exact[inner], exact[inner])) / w**i
            if gain == 1.0 or not i:  # derivatives of polynomials are cut off a little sooner
                assert ratio == pytest.approx(gain, abs=0.1 if gain < 1 else 0.02)


def test_it_stands_beside_a_fit_in_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, out, csv = tmp_path / "rod.py", tmp_path / "out", tmp_path / "run.csv"
    t = np.arange(300) * 0.01
    angle = 0.8 * np.sin(2.2 * t) + 0.3 * np.sin(5 * t)
    change = -0.8 * 2.2**2 * np.sin(2.2 * t) - 0.3 * 25 * np.sin(5 * t)
    torque = 0.2 * change + 0.1 * (0.8 * 2.2 * np.cos(2.2 * t) + 1.5 * np.cos(5 * t)) + 2 * np.sin(angle)
    torque += 0.01 * np.random.default_rng(0).normal(size=len(t))
    np.savetxt(csv, np.column_stack([t, angle, torque]), delimiter=",", header="t,q,u", comments="")
    file.write_text(
        "from pathlib import Path\nfrom spookid import *\n"
        'J, b, k = (Parameter(n, 1.0, lower=0) for n in ("J", "b", "k"))\n'
        'rod = Body("rod", mass=1.0, inertia=(0.01, 0.01, 0.01))\n'
        'pin = Hinge("pin", GROUND.frame(x=(0, 0, 1), y=(1, 0, 0)), rod.frame(x=(0, 0, 1), y=(1, 0, 0)), viscous=b,\n'
        "            armature=J, stiffness=k)\n"
        'model = Model([rod], [pin], [Motor(pin, "u", measured=True)], gravity=gravity(9.81))\n'
        'problem = Problem("rod", model, [Recording.from_csv(Path(__file__).with_name("run.csv"), time="t")],\n'
        '                  [HingeAngle(pin, "q", sigma=1e-4)], step=0.01)\n',
        encoding="utf-8",
    )
    assert main(["regress", str(file), "--out", str(out), "--alone"]) == 0
    assert main(["solve", str(file), "--out", str(tmp_path / "fit"), "--quiet"]) == 0
    capsys.readouterr()
    assert main(["regress", str(file), "--out", str(out), "--from", str(tmp_path / "fit")]) == 0
    shown = capsys.readouterr().out
    assert "apart, standard errors" in shown
    tree = json.loads((out / "regression.json").read_text(encoding="utf-8"))
    by_name = {one["parameter"]: one for one in tree["parameters"]}
    assert by_name["b"]["estimate"] == pytest.approx(0.1, abs=4 * by_name["b"]["std_err"] + 1e-3)
    assert abs(by_name["b"]["apart"]) < 4
    assert tree["left"]["pin"] < 0.2
    assert main(["report", str(out)]) == 0


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"observations": []}, "has no JointPosition of 'joint1'"),
        ({"recordings": []}, "has no recordings"),
        ({"model": arm(dry=0.01)}, "friction of 'joint1' depends on its load"),
    ],
)
def test_what_has_no_regression_is_refused(change: Any, complaint: str) -> None:
    model = change.pop("model", arm())
    one = problem(model, [moved()]).with_(**change)
    with pytest.raises(ProblemError, match=complaint):
        one.regress()


def test_loops_and_filters_without_anything_left_are_refused() -> None:
    model = arm()
    rope = Distance("rope", GROUND.frame(at=(1, 0, 0)), model.bodies[1].frame(), 1.2)
    tied = Model(model.bodies, model.joints, model.motors, constraints=[rope], gravity=gravity(9.81))
    with pytest.raises(ProblemError, match="closes loops, or has free bodies"):
        problem(tied).regress()
    for cutoff in (0.2, 200.0):
        with pytest.raises(ProblemError, match="unsuitable for a filter with a cutoff"):
            problem(model, [moved()]).regress(cutoff=cutoff)
    with pytest.raises(ProblemError, match="method is 'magic'; give 'inverse-dynamics' or 'energy'"):
        problem(model, [moved()]).regress(method="magic")
    passive = Model(model.bodies, model.joints, gravity=gravity(9.81))
    with pytest.raises(ProblemError, match="nothing that acts and is known in size"):
        problem(passive, [moved()]).regress()
