"""Dry friction in the inverse dynamics: the box law as rows that solvers switch, and the three forms side by side."""

from __future__ import annotations

from functools import cache
from typing import Any

import casadi as ca
import numpy as np
import pytest
from mechanisms import Array, furuta, hub, pendulum

from spookid import (
    HingeAngle,
    LevenbergMarquardt,
    Manifold,
    Model,
    Parameter,
    Problem,
    ProblemError,
    Recording,
    Spook,
    Status,
    Variational,
)
from spookid.mechanics.loads import Efforts
from spookid.stepping.impulses import DryFriction, Settings, Slips, _over_step
from spookid.transcription.factor import Box, Factor, Group, Kind
from spookid.transcription.transcription import Chain, Point, Transcription

NOISE = 1e-3
NONE = Efforts(ca.SX(2, 1), ca.SX(2, 1))
"""Of motors and of the weight: bounds without gears do not depend on them."""
LIFTED = Spook(multipliers="lifted")
STEPPERS = [Variational(), Spook(), LIFTED]


# --- the law ---


def law(form: str, slip: float, unknowns: list[float], model: Model | None = None) -> tuple[Array, Array, list[Factor]]:
    """z and L of one hinge with c = 0.5 N m, and the rows, at a slip in units of the width."""
    model = model or pendulum(coulomb=0.5)
    settings = Settings.of(model)
    s, extra = ca.SX.sym("s", 1), ca.SX.sym("extra", len(unknowns))
    slips, friction = Slips(s, s, s, ca.SX(1, 1), (s,), ca.SX(1, 1), NONE), DryFriction(form)
    factors = friction.factors(model, settings, slips, extra, {0: ca.vertcat(s, extra)})
    value = friction.along(model, settings, slips, ca.SX(5, 1), extra)
    symbols = ca.vertcat(s, extra, settings.step, settings.slip_width, settings.impulse_width)
    along = ca.Function("along", [symbols], [value])([0.1 * slip, *unknowns, 0.01, 0.1, 1e-9]).full()[:, 0]
    np.testing.assert_allclose(along[1], along[0])  # a step that knows one slip alone takes the ratio at its end
    np.testing.assert_allclose(along[3], slip)
    return along[0], along[2], factors


def over_step(end: float, before: float, after: float, width: float = 0.1) -> float:
    """Z of a step between two slips, with the ratio z at its end."""
    x = ca.SX.sym("x", 3)
    return float(ca.Function("Z", [x], [_over_step(x[0], [x[1], x[2]], ca.SX(width))])([end, before, after]))


def test_what_turns_within_a_step_feels_the_mean_sign():
    for before, after in ((3.0, -1.0), (-2.0, 5.0), (4.0, 4.0), (-4.0, -1.0), (7.0, -7.0)):
        mean = (abs(before) - abs(after)) / (after - before) if before != after else -np.sign(after)
        assert over_step(-np.sign(after), before, after, width=1e-6) == pytest.approx(mean)
    # What is slower than the width stops at once, with any ratio.
    assert over_step(0.3, 1e-4, 0.0) == pytest.approx(0.3, abs=1e-5)


def test_the_ratio_over_a_step_rises_with_that_at_its_end_and_falls_with_the_slip():
    for before in (-1.0, -0.05, 0.0, 0.05, 1.0):
        slips = np.linspace(-2, 2, 401)
        graph = [over_step(-float(np.sign(s)), before, s) for s in slips if s != 0]
        assert np.all(np.diff(graph) <= 1e-12)
        sticking = [over_step(z, before, 0.0) for z in np.linspace(-1, 1, 21)]
        assert np.all(np.diff(sticking) >= -1e-12)
        assert np.abs([*graph, *sticking]).max() <= 1


def test_derivatives_of_the_ratio_over_a_step_also_at_no_slip():
    x = ca.SX.sym("x", 3)
    Z = _over_step(x[0], [x[1], x[2]], ca.SX(0.1))
    f, J = ca.Function("f", [x], [Z]), ca.Function("J", [x], [ca.jacobian(Z, x)])
    for at in ([0.3, 0.0, 0.0], [1.0, 0.2, -0.3], [-1.0, -0.2, 0.3], [0.5, 0.05, 0.0], [1.0, 0.0, -0.2]):
        for i in range(2 if at[2] == 0 else 3):  # at s₊ = 0 the law steps from one piece to the next
            step = 1e-6 * np.eye(3)[i]
            difference = float(f(at + step) - f(at - step)) / 2e-6
            assert float(J(at)[i]) == pytest.approx(difference, abs=5e-4)


def test_the_forms_agree_where_the_hinge_slips():
    assert law("smooth", 30.0, [])[0] == pytest.approx(-1.0)
    assert law("exact", 30.0, [-1.0])[0] == -1.0
    assert law("mpcc", 30.0, [-1.0, 30.0])[0] == -1.0
    assert law("exact", 30.0, [-1.0])[1] == pytest.approx(0.01 * 0.5)


@pytest.mark.parametrize(
    ("slip", "z", "sigma"), [(0.0, 0.3, 0.0), (2.0, -1.0, 2.0), (-2.0, 1.0, 0.0), (0.0, -1.0, 0.0)]
)
def test_pairs_hold_exactly_where_the_law_does(slip, z, sigma):
    (factor,) = law("mpcc", slip, [z, sigma])[2]
    assert factor.kind is Kind.PAIRS
    assert len(factor.rows) == factor.residual.numel() == 4
    symbols = ca.vertcat(*ca.symvar(factor.residual))
    names = [s.name() for s in ca.symvar(factor.residual)]
    numbers = {"s": 0.1 * slip, "extra_0": z, "extra_1": sigma, "slip_width": 0.1}
    a, b = np.split(ca.Function("r", [symbols], [factor.residual])([numbers[n] for n in names]).full()[:, 0], 2)
    assert min(a.min(), b.min()) >= -1e-12
    np.testing.assert_allclose(a * b, 0.0, atol=1e-12)


RELAXED = (1e-3, 1e-6, 1e-9, 1e-11)
"""t of the relaxed pairs, one after another."""


class PairedSteps:
    """Steps of two hinges whose friction obeys the pairs: impulses p = z L change the slips, s = s₀ + R p, R > 0.

    Unknown are z and σ; the rows are the law's own pairs, a + b − √(a² + b² + 2t) = 0 (Fischer 1992, Kanzow 1996).
    """

    def __init__(self, count: int, rng: np.random.Generator) -> None:
        model = furuta(shoulder={"coulomb": 0.5}, elbow={"dry": 0.3})
        settings, law = Settings.of(model), DryFriction("mpcc")
        before, R, loads, y = ca.SX.sym("before", 2), ca.SX.sym("R", 2, 2), ca.SX.sym("loads", 10), ca.SX.sym("y", 4)
        bounds = law.bounds(model, settings, Slips(before, before, before, before, (before,), before, NONE), loads)
        impulse = y[:2] * bounds
        slip = before + R @ impulse
        (factor,) = law.factors(
            model, settings, Slips(slip, slip, before, slip - before, (slip,), before, NONE), y, {0: y}
        )
        given = ca.vertcat(before, ca.vec(R), loads, settings.slip_width, settings.step, settings.impulse_width)
        outputs = [factor.residual, ca.jacobian(factor.residual, y), impulse, slip, bounds]
        self._function = ca.Function("pairs", [y, given], [ca.densify(e) for e in outputs])
        roots = rng.normal(size=(count, 2, 2))
        matrices = 10.0 ** rng.uniform(-1, 2, (count, 1, 1)) * (roots @ roots.transpose(0, 2, 1) + 0.01 * np.eye(2))
        widths, fixed = 10.0 ** rng.uniform(-3, 0, (count, 2)), np.tile([0.01, 1e-6], (count, 1))
        slips = rng.normal(size=(count, 2)) * rng.integers(0, 2, (count, 2))
        self.given = np.hstack([slips, matrices.reshape(count, 4), 0.1 * rng.normal(size=(count, 10)), widths, fixed])

    def evaluate(self, y: Array, which: Array) -> list[Array]:
        """Pairs (k, 8), their Jacobian (k, 4, 8), impulses, slips and bounds (k, 2)."""
        pairs, slopes, impulse, slip, bound = (e.full().T for e in self._function(y.T, self.given[which].T))
        return [pairs, slopes.reshape(len(y), 4, 8), impulse, slip, bound]

    def rows(self, y: Array, which: Array, t: float) -> tuple[Array, Array]:
        """The relaxed rows (k, 4) and their Jacobian (k, 4, 4)."""
        pairs, slopes = self.evaluate(y, which)[:2]
        a, b = pairs[:, :4], pairs[:, 4:]
        root = np.sqrt(a**2 + b**2 + 2 * t)
        # a + b − root cancels where one of them is large.
        value = np.where(a + b > 0, 2 * (a * b - t) / (a + b + root), a + b - root)
        slope = (1 - a / root)[:, None] * slopes[:, :, :4] + (1 - b / root)[:, None] * slopes[:, :, 4:]
        return value, slope.transpose(0, 2, 1)

    def solved(self) -> Array:
        """(z, σ) of all steps, (k, 4), by Newton's method with a line search at one relaxation after another."""
        y = np.tile([0.0, 0.0, 1.0, 1.0], (len(self.given), 1))
        for t in RELAXED:
            left = np.arange(len(y))
            value, slope = self.rows(y, left, t)
            share = np.ones(len(y))
            for _ in range(300):
                worst = np.linalg.norm(value, axis=1)
                on = (worst > 1e-11) & (share[left] > 1e-6)
                left, value, slope, worst = left[on], value[on], slope[on], worst[on]
                if not len(left):
                    break
                # A step that is refused is tried again at half its length in the next round.
                there = y[left] - share[left, None] * np.linalg.solve(slope, value[:, :, None])[:, :, 0]
                value_there, slope_there = self.rows(there, left, t)
                better = np.linalg.norm(value_there, axis=1) <= (1 - 1e-4 * share[left]) * worst
                y[left[better]], value[better], slope[better] = there[better], value_there[better], slope_there[better]
                share[left] = np.where(better, 1.0, share[left] / 2)
        return y


def pairs_left_unsolved(count: int) -> int:
    """How many of ``count`` random steps Newton's method did not solve; in no other may friction add energy."""
    steps = PairedSteps(count, np.random.default_rng(0))
    y, every = steps.solved(), np.arange(count)
    solved = np.abs(steps.rows(y, every, RELAXED[-1])[0]).max(axis=1) < 1e-9
    impulse, slip, bound = steps.evaluate(y, every)[2:]
    work = (impulse * slip)[solved]
    # Of each hinge alone, against the unit of the rows: its bound times the width of slip.
    assert np.max(work / (bound * steps.given[:, 16:18])[solved]) < 1e-12
    sticks = np.abs(y[solved, :2]) < 0.99
    assert 0.2 < sticks.mean() < 0.8
    assert np.median(work[~sticks]) < -1e-4
    return count - int(solved.sum())


def test_pairs_never_add_energy():
    assert pairs_left_unsolved(3000) <= 3


@pytest.mark.study
def test_pairs_never_add_energy_in_a_hundred_thousand_steps():
    assert pairs_left_unsolved(100_000) <= 10


def test_derivatives_of_the_box_rows_against_differences_also_at_the_edge():
    slack, value, code = ca.SX.sym("d"), ca.SX.sym("z"), ca.SX.sym("code")
    rows = Box.unit(code, slack, value).rows()
    x = ca.vertcat(slack, value)
    f, J = ca.Function("f", [x, code], [rows]), ca.Function("J", [x, code], [ca.jacobian(rows, x)])
    for code_now in (-2.0, -1.0, 0.0, 1.0, 2.0):
        for at in ([0.0, 0.3], [0.0, 1.0], [0.0, -1.0], [0.7, 1.0], [-0.7, -1.0]):
            for i in range(2):
                step = 1e-6 * np.eye(2)[i]
                difference = (f(at + step, code_now) - f(at - step, code_now)).full()[:, 0] / 2e-6
                np.testing.assert_allclose(J(at, code_now).full()[:, i], difference, atol=1e-9)


# --- rows that switch, on problems solved by hand ---


def block(push: list[float], roughness: float) -> tuple[Array, Array, Status]:
    """min Σ (s_k − p_k + L z_k)² with the law between s and z: the slip and z of blocks pushed by p, friction L."""
    s, z, p = ca.SX.sym("s"), ca.SX.sym("z"), ca.SX.sym("p")
    x = ca.vertcat(s, z)
    none = ca.SX.sym("none", 0)
    codes = Box.unit(ca.SX.sym("codes"), slack=-s, value=z)
    factors = [
        Factor("push", Group.STATE, s - p - roughness * z, {0: x}, p, ("push",)),
        # At the first of two steps, so that it counts among rows that link steps.
        Factor("law", Group.STATE, codes.rows(), {0: x, 1: ca.SX.sym("after", 2)}, none, ("stick", "slip"),
               kind=Kind.HARD, box=codes),
    ]  # fmt: skip
    empty = np.zeros(0)
    chain = Chain("run", len(push), {"push": np.array(push)[:, None]}, {})
    problem = Transcription(Manifold((("flat", 2),)), factors, ca.SX(0, 1), [], [], empty, empty, empty, [chain])
    start = Point((np.column_stack([push, np.zeros(len(push))]),), empty)
    outcome = LevenbergMarquardt().solve(problem, start)
    states = outcome.point.states[0][:-1]
    return states[:, 0], states[:, 1], outcome.status


def test_a_block_sticks_until_it_is_pushed_harder_than_friction():
    pushes = [0.3, -0.9, 1.0, 2.5, -4.0, 0.0, 7.0]
    slip, z, status = block([*pushes, 0.0], roughness=1.0)
    assert status is Status.CONVERGED
    np.testing.assert_allclose(slip, np.sign(pushes) * np.maximum(np.abs(pushes) - 1.0, 0.0), atol=1e-9)
    np.testing.assert_allclose(z, -np.clip(pushes, -1.0, 1.0), atol=1e-9)


def test_where_neither_piece_has_a_minimum_it_is_found_at_the_corner():
    """With L negative the stick wants |z| > 1 and the slip wants the other sign: both rows hold at the corner."""
    slip, z, status = block([1.5, 0.0], roughness=-1.0)
    assert status is Status.CONVERGED
    assert (slip[0], abs(z[0])) == (pytest.approx(0.0, abs=1e-9), pytest.approx(1.0)) or slip[0] > 0


# --- twins ---


def sticking(stepper: Any, **settings: Any) -> Problem:
    """A pendulum with Coulomb friction that is pushed now and then, otherwise at rest in its dead band."""
    P = Parameter("c", 0.02, lower=0.0), Parameter("b", 1e-3, lower=0.0), Parameter("J", 0.01, lower=1e-5)
    return twin(stepper, *P).with_(recordings=[measured()], **settings)


def twin(stepper: Any, c: Any, b: Any, J: Any) -> Problem:
    model = hub(inertia=J, coulomb=c, viscous=b, motor={"gain": 0.15})
    (hinge,) = model.joints
    return Problem("stick", model=model, observations=[HingeAngle(hinge, "theta")], step=0.01, state_weight=1e6,
                   stepper=stepper)  # fmt: skip


@cache
def measured() -> Recording:
    t = np.arange(601) * 0.01
    u = np.where(t % 2.0 < 0.3, 1.0, 0.0) * np.where(t % 4.0 < 2.0, 1.0, -1.0)
    inputs = Recording(t, {"u": u, "theta": 0 * t})
    run = twin(Variational(), 0.05, 2e-3, 0.005).with_(recordings=[inputs]).simulate(friction_width=1e-5, substeps=1)
    theta = run.signal("theta") + NOISE * np.random.default_rng(2).normal(size=len(t))
    return Recording(t, {"theta": theta, "u": u})


@pytest.mark.study
@pytest.mark.parametrize("stepper", [Variational(), LIFTED], ids=lambda s: s.name)
def test_exact_friction_is_found_from_a_cold_start(stepper):
    solution = sticking(stepper).solve(friction="exact")
    assert solution.status is Status.CONVERGED
    assert solution.iterations <= 80
    assert solution["c"].estimate == pytest.approx(0.05, rel=0.15)
    assert solution["J"].estimate == pytest.approx(0.005, rel=0.06)
    assert 0.2 < solution.sticking["hinge"] < 0.95
    assert solution.complementarity_residual < 1e-9
    motion = solution.trajectories[0]
    assert np.nanmax(np.abs(motion.friction)) <= 0.01 * solution["c"].estimate * (1 + 1e-9)
    assert f"{100 * solution.sticking['hinge']:.0f} %" in solution.summary(verbose=True)


def test_smooth_friction_tends_to_the_exact_one():
    exact = sticking(Variational()).solve(friction="exact")
    errors = []
    for width in (0.1, 0.01):
        smooth = sticking(Variational(), friction_width=width).solve()
        assert smooth.status is Status.CONVERGED
        errors.append(abs(smooth["c"].estimate / exact["c"].estimate - 1))
        assert smooth.complementarity_residual > exact.complementarity_residual
    assert (
        errors[1] < 0.75 * errors[0]
    )  # the exact law of the data is of first order in the step, the smooth one of second


def test_hard_dynamics_take_few_iterations_and_meet_the_limit_of_large_weights():
    problem = sticking(Variational())
    hard, stiff = (problem.solve(state_weight=weight, friction_width=0.05) for weight in (np.inf, 1e12))
    assert hard.status is Status.CONVERGED
    assert hard.iterations <= 12
    for name in ("c", "J"):
        assert hard[name].estimate == pytest.approx(stiff[name].estimate, rel=1e-3)


def test_an_unknown_form_is_refused():
    with pytest.raises(ProblemError, match="smooth, exact, mpcc"):
        sticking(Spook(), friction="sticky")


def test_hinges_without_dry_friction_need_no_law():
    model = furuta()
    assert DryFriction("exact").unknowns(model) == DryFriction("mpcc").unknowns(model) == 0
    assert DryFriction("exact").factors(model, Settings.of(model), None, ca.SX(0, 1), {}) == []
