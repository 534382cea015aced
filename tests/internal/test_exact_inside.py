"""The inside of what ``test_exact`` tests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import casadi as ca
import numpy as np
from mechanisms import Array, furuta, hub, joint_state, random_state
from test_exact import per_stepper, problem

from spookid import LevenbergMarquardt, Model, Parameter, Recording, Spook, Variational
from spookid.estimation.continuation import _if_as_good
from spookid.estimation.fitting import fit
from spookid.solvers.status import Status
from spookid.stepping.exact import ExactStepper
from spookid.stepping.impulses import Settings
from spookid.transcription.factor import Constant

# --- energy ---


def powers(count: int, stepper: Spook | Variational) -> Array:
    """Work of smooth friction in random steps, on the velocity after a step of SPOOK, amid one that is variational."""
    c, mu = Parameter("c", 0.0), Parameter("mu", 0.0)
    model = furuta(shoulder={"coulomb": c}, elbow={"dry": mu})
    settings = Settings.of(model)
    step = stepper.forward(model, settings)
    symbols = ca.vertcat(settings.step, settings.slip_width, settings.impulse_width, c, mu)
    equations = ca.Function("f", [step.x, step.u, step.unknowns, symbols], [step.equations])
    rng = np.random.default_rng(0)
    x = rng.normal(size=(26, count))
    for first in (3, 10):
        x[first : first + 4] /= np.linalg.norm(x[first : first + 4], axis=0)
    unknowns, u = rng.normal(size=(22, count)), np.ones((step.u.numel(), count))
    widths = 10.0 ** rng.uniform(-6, 0, (3, count))
    rubbing = np.vstack([np.full((1, count), 0.01), widths, rng.uniform(0, 1, (2, count))])
    smooth = rubbing.copy()
    smooth[4:] = 0
    friction = (equations(x, u, unknowns, smooth) - equations(x, u, unknowns, rubbing)).full()[:12]
    v = unknowns[:12] if isinstance(stepper, Spook) else (x[14:] + unknowns[:12]) / 2
    return np.sum(v * friction, axis=0)


@per_stepper
def test_smooth_friction_takes_energy_out(stepper):
    power = powers(20_000, stepper)
    assert power.max() <= 1e-12
    assert np.median(power) < -1e-3


# --- the bilateral part ---


def bilateral(model: Model, stepper: Spook | Variational) -> Callable[[Array, Array, Array], Array]:
    """∂F/∂y as a function of x, y and the reactions, with inputs of 1."""
    settings = Settings.of(model)
    step = stepper.forward(model, settings, exact=True)
    symbols = ca.vertcat(settings.step, settings.weight, settings.slip_width, settings.impulse_width)
    slope = ca.Function("A", [step.x, step.unknowns, step.laws.reactions, step.u, symbols],
                        [ca.densify(ca.jacobian(step.equations, step.unknowns))])  # fmt: skip
    numbers = [0.01, 1.0, *np.full(len(model.joints), 1e-3), 1e-6]
    return lambda x, y, u: slope(x, y, u, np.ones(step.u.numel()), numbers).full()


@per_stepper
def test_the_bilateral_part_is_symmetric_where_it_is_factorized_as_such(stepper):
    hinge = {"coulomb": 0.01, "viscous": 0.1, "drag": 0.2, "stiffness": 1.0, "compliance": 1e-5, "damping": 0.02}
    model = furuta(shoulder={"dry": 1e-3, **hinge}, elbow=hinge, motor={"gain": 1.0, "shaft_inertia": 1e-3})
    rng, A = np.random.default_rng(0), bilateral(model, stepper)
    skew = 0.0
    for _ in range(10):
        q, v = random_state(model, rng)
        found = A(np.concatenate([q, v]), rng.normal(size=22), rng.normal(size=2))
        skew = max(skew, np.abs(found - found.T).max() / np.abs(found).max())
    symmetric = stepper.forward(model, Settings.of(model), exact=True).laws.symmetric
    assert symmetric == isinstance(stepper, Spook)
    assert skew < 1e-14 if symmetric else skew > 1e-3


def test_both_factorizations_make_the_same_step():
    model = furuta(shoulder={"dry": 1e-3, "drag": 0.01}, elbow={"coulomb": 0.01}, motor={"gain": 1.0})
    settings, rng = Settings.of(model), np.random.default_rng(1)
    step = Spook().forward(model, settings, exact=True)
    constants = [Constant(settings.step, 0.01), Constant(settings.weight, 1.0), Constant(settings.impulse_width, 1e-6),
                 *(Constant(settings.slip_width[j], 1e-3) for j in range(2))]  # fmt: skip
    steppers = [ExactStepper(s, constants) for s in (step, replace(step, laws=replace(step.laws, symmetric=False)))]
    for _ in range(20):
        x = np.concatenate(joint_state(model, rng.normal(size=2), rng.normal(size=2)))
        by_ldl, by_lu = (s.step(x, np.array([0.1]), s.guess(x))[1] for s in steppers)
        np.testing.assert_allclose(by_ldl, by_lu, rtol=1e-9, atol=1e-12)


# --- fits ---


def test_a_joint_that_nothing_drives_is_no_answer_beside_a_smooth_one_that_turns():
    t = np.arange(0, 2, 0.01)
    drive = Recording(t, {"u": np.sin(3 * t)})
    moved = problem(hub(motor={"gain": 0.1}, coulomb=0.03)).simulate(duration=1.99, inputs=drive)
    recording = Recording(t, {"u": drive.signals["u"], "hinge": moved.signals["hinge"][: len(t)]})
    gain, c = Parameter("gain", 0.08, lower=0), Parameter("c", 0.03, lower=0)
    asked = problem(hub(motor={"gain": gain}, coulomb=c), recordings=[recording], state_weight=1e6)
    smooth = fit(asked.with_(friction="smooth"), LevenbergMarquardt(), None)
    stuck = fit(asked.with_(fixed=["gain"], initial={"gain": 0.0}), LevenbergMarquardt(), None)
    assert stuck.result.status is smooth.result.status is Status.CONVERGED
    assert _if_as_good(stuck, smooth.result).result.status is Status.STALLED
    assert _if_as_good(smooth, smooth.result) is smooth
