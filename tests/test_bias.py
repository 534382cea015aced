"""The bias of estimates that are fitted along with noisy states: against dense determinants, and experiments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from mechanisms import dense, furuta, pendulum, twin
from noisy import NoisyTwin
from scipy.linalg import cho_solve_banded, cholesky_banded

from spookid.assembly import assemble
from spookid.factor import Factor, Group
from spookid.parameter import Parameter
from spookid.problem import Problem
from spookid.solvers import bias, contraction
from spookid.solvers.contraction import Contraction, linear
from spookid.solvers.levenberg_marquardt import LevenbergMarquardt
from spookid.solvers.neighbours import neighbours
from spookid.solvers.reduction import Reduction
from spookid.steppers.spook import Spook
from spookid.steppers.variational import Variational
from spookid.transcription import Point, Transcription
from spookid.uncertainty import AT_BOUND, NO_BIAS

TRUTH = {"J": 0.005, "b": 0.004}


def noisy(stepper: Spook | Variational, duration: float = 0.3, state_weight: float = 1e6) -> NoisyTwin:
    """A pendulum whose impulses change its rate by 0.05 rad/s a step for a weight of 1e6."""
    J, b = Parameter("J", 0.01, lower=1e-6, unit="kg m^2"), Parameter("b", 1e-3)
    settings = {"step": 0.01, "state_weight": state_weight, "sigma": 1e-3, "duration": duration, "stepper": stepper}
    model = pendulum(inertia=J, viscous=b, compliance=1e-4, damping=0.02)
    return NoisyTwin(model, {J: TRUTH["J"], b: TRUTH["b"]}, {"hinge": 1.0}, **settings)


def arm(stepper: Spook | Variational) -> Problem:
    J, length = Parameter("J", 0.004, lower=1e-6), Parameter("b", 1e-3, lower=0)
    settings = {"step": 0.01, "state_weight": 1e7, "sigma": 1e-3, "duration": 0.25, "stepper": stepper}
    soft = {"compliance": 1e-4, "damping": 0.02}
    model = furuta(inertias=(0.003, J, 0.004), shoulder=soft, elbow={"viscous": length, **soft})
    return NoisyTwin(model, {J: 0.004, length: 1e-3}, {"shoulder": 0.0, "elbow": 2.0}, **settings).draw(0)


# --- covariances of neighbouring steps ---


@pytest.mark.parametrize("compiled", ["on", "off"])
@pytest.mark.parametrize(("reach", "tangent"), [(1, 3), (2, 2), (3, 1)])
def test_neighbours_are_blocks_of_the_dense_inverse(reach, tangent, compiled, monkeypatch):
    monkeypatch.setenv("SPOOKID_COMPILE", compiled)
    rng = np.random.default_rng(0)
    steps, width = 40, (reach + 1) * tangent
    band = rng.normal(size=(width, steps, tangent))
    band = np.where((np.arange(width)[:, None] + np.arange(tangent) < width)[:, None], band, 0.0)
    band = band.reshape(width, -1)
    band[0] = 2 * np.sum(np.abs(band), axis=0) + 10
    factor = cholesky_banded(band, lower=True)
    inverse = np.pad(cho_solve_banded((factor, True), np.eye(steps * tangent)), (0, width))
    for k, block in enumerate(neighbours(factor, tangent)):
        here = slice(k * tangent, k * tangent + width)
        np.testing.assert_allclose(block, inverse[here, here], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("compiled", ["on", "off"])
def test_rounding_does_not_grow_along_a_chain(compiled, monkeypatch):
    monkeypatch.setenv("SPOOKID_COMPILE", compiled)
    # Second differences that are nearly free: the recursion without symmetry multiplies rounding at every step.
    steps = 400
    rows = np.zeros((steps - 2, steps))
    for k in range(steps - 2):
        rows[k, k : k + 3] = 1.0, -2.0, 1.0
    H = 30 * rows.T @ rows + np.eye(steps)
    H = np.kron(H, np.array([[1.0, 0.1], [0.1, 0.7]]))
    band = np.array([np.pad(np.diag(H, -d), (0, d)) for d in range(6)])
    found, inverse = neighbours(cholesky_banded(band, lower=True), 2), np.linalg.inv(H)
    for k in range(steps - 2):
        np.testing.assert_allclose(found[k], inverse[2 * k : 2 * k + 6, 2 * k : 2 * k + 6], atol=1e-12)


# --- against dense determinants ---


def volume(transcription: Transcription, point: Point) -> float:
    """Σ log|∂r/∂x₊| − ½ log det of a fit, by dense determinants with multipliers and hard rows among the unknowns.

    With M = [∂r/∂x₊ ∂r/∂λ; G₊ 0] of each step and K = [JᵀJ Gᵀ; G 0], private unknowns λ and rows g = 0 leave
    Σ log|M| − ½ log|K| + ½ log det GGᵀ of the steps that no transition ends at.
    """
    J = dense(transcription, point)[0][:, : -len(transcription.names)]
    hard, total, tangent, row = np.zeros(len(J), dtype=bool), 0.0, transcription.manifold.tangent, 0
    for c in range(len(transcription.chains)):
        blocks = transcription.linearize(point, c)
        surface = next((b.matrix for b in blocks if b.factor.hard), None)
        for block in blocks:
            count, columns, width = block.matrix.shape
            hard[row : row + count * width] = block.factor.hard
            row += count * width
            slopes = block.matrix[:, : columns - len(transcription.names) - 1].transpose(0, 2, 1)
            if block.factor.group is Group.STATE and not block.factor.hard:
                total += _normalized(block.factor, slopes, surface, tangent)
    J = J[:, np.any(J != 0, axis=0)]  # no step follows the last multipliers
    if not np.any(hard):
        return total - float(np.sum(np.log(np.abs(np.diag(np.linalg.qr(J, mode="r"))))))
    G, H = J[hard], J[~hard].T @ J[~hard]
    K = np.block([[H, G.T], [G, np.zeros((len(G), len(G)))]])
    return total - np.linalg.slogdet(K)[1] / 2


def _normalized(factor: Factor, slopes: np.ndarray, surface: np.ndarray | None, tangent: int) -> float:
    if factor.first_only:
        values = np.linalg.svd(slopes[0], compute_uv=False)
        return float(np.sum(np.log(values[values > 1e-9 * values[0]])))
    later = slopes[:, :, -tangent:]
    if surface is None or factor.private is None:
        return float(np.sum(np.linalg.slogdet(later)[1]))
    offset, private = factor.private
    G = surface[:, :tangent].transpose(0, 2, 1)
    flat = slice(0, private.start)
    hidden = slopes[:, :, offset * tangent + private.start : offset * tangent + private.stop]
    after = G[factor.reach :, :, flat]
    below = np.zeros((len(after), after.shape[1], len(private)))
    M = np.concatenate([np.concatenate([later[:, :, flat], hidden], 2), np.concatenate([after, below], 2)], 1)
    first = G[: factor.reach, :, flat]
    edges = np.linalg.slogdet(first @ first.transpose(0, 2, 1))[1] / 2
    return float(np.sum(np.linalg.slogdet(M)[1]) + np.sum(edges))


@pytest.mark.parametrize("stepper", [Spook(), Variational()])
@pytest.mark.parametrize("mechanism", ["pendulum", "two recordings", "furuta"])
def test_gradient_is_that_of_dense_determinants(stepper, mechanism):
    problem = arm(stepper) if mechanism == "furuta" else noisy(stepper).draw(0)
    if mechanism == "two recordings":
        problem = problem.with_(recordings=[*problem.recordings, *noisy(stepper, 0.2).draw(1).recordings])
    assembly = assemble(problem)
    transcription = assembly.transcription
    point = LevenbergMarquardt().solve(transcription, assembly.start).point
    contraction = Contraction(linear(transcription, point), np.zeros(2, dtype=bool))
    found = bias.pull(contraction, point, 3.0, {})
    assert found is not None
    np.testing.assert_allclose(found.mean, 3 * found.per_variance)
    np.testing.assert_allclose(found.per_variance, gradient(volume, contraction, transcription, point), rtol=1e-6)


@pytest.mark.parametrize("stepper", [Spook(), Variational()])
def test_noise_in_another_ratio_pulls_as_dense_leverages_tell(stepper):
    # With the states fitted, Σ r² of a group of noise s_g² is s_g² times the number of its rows less their leverages.
    assembly = assemble(arm(stepper))
    transcription = assembly.transcription
    point = LevenbergMarquardt().solve(transcription, assembly.start).point
    contraction = Contraction(linear(transcription, point), np.zeros(2, dtype=bool))
    excess = np.array([0.7, -0.2])
    name = next(f.name for f in transcription.factors if f.group is Group.OBSERVATION)

    def leverages(transcription: Transcription, point: Point) -> float:
        strips = linear(transcription, point).chains[0]
        J = np.zeros((strips[0].steps * strips[0].tangent, 0))
        for strip in strips:
            for k, block in enumerate(strip.states):
                rows = np.zeros((len(J), block.shape[1]))
                rows[k * strip.tangent : k * strip.tangent + len(block)] = block
                J = np.hstack([J, rows])
        scales = np.linalg.norm(J, axis=1)
        moving = scales > 0
        Q = np.linalg.qr((J[moving] / scales[moving, None]).T)[0]
        seen = np.sum(Q[-len(strips[-1].states) * 2 :] ** 2, axis=1).reshape(-1, 2)
        assert strips[-1].factor.name == name
        return -float(np.sum(seen @ excess)) / 2

    found = bias.pull(contraction, point, 0.0, {name: excess})
    assert found is not None
    np.testing.assert_allclose(found.mean, gradient(leverages, contraction, transcription, point), rtol=3e-3)


Scalar = Callable[[Transcription, Point], float]


def gradient(of: Scalar, c: Contraction, transcription: Transcription, point: Point) -> np.ndarray:
    """Of a function of linearizations along the best states of each value of a parameter, by differences."""
    slopes = []
    for p, magnitude in enumerate(np.maximum(np.abs(point.parameters), transcription.magnitudes)):
        near, far = (slope(of, c, transcription, point, p, h * magnitude) for h in (1e-3, 2e-3))
        slopes.append((4 * near - far) / 3)
    return np.array(slopes)


def slope(of: Scalar, c: Contraction, transcription: Transcription, point: Point, p: int, h: float) -> float:
    """Central difference along the best states."""
    reduction, values = Reduction(transcription, point), []
    for change in (h, -h):
        states = []
        for i, strips in enumerate(c.linear.chains):
            path = -c.fitted(i, [s.rows.matrix[:, -3:-1] for s in strips])[:, :, p]
            steps = reduction.expand(change * path, reduction.spaces(point)[i].basis)
            states.append(transcription.moved(point.states[i], steps))
        moved = Point(tuple(states), point.parameters + change * np.eye(2)[p], point.codes)
        values.append(of(transcription, reduction.restore(moved)))
        reduction = Reduction(transcription, point)
    return (values[0] - values[1]) / (2 * h)


# --- against experiments ---


@pytest.mark.parametrize(("stepper", "state_weight"), [(Spook(), 5e5), (Variational(), 3e5)])
def test_estimates_are_off_as_foretold(stepper, state_weight):
    twins = noisy(stepper, 3.0, state_weight)
    found = [twins.draw(seed).solve()["J"] for seed in range(16)]
    errors, biases = np.array([J.estimate - TRUTH["J"] for J in found]), np.array([J.bias for J in found])
    scatter = np.std(errors)
    assert np.mean(errors) < -scatter
    assert abs(np.mean(errors - biases)) < 0.6 * scatter
    assert np.mean(np.abs(errors) < 1.96 * np.array([J.std_err for J in found])) > 0.8


def test_heavy_noise_gets_a_notice_and_light_noise_none():
    heavy, light = (noisy(Spook(), 4.0, weight).draw(0).solve() for weight in (1e6, 1e9))
    J = heavy["J"]
    assert f"makes J {-J.bias:.2g} kg m^2 too small" in " ".join(heavy.notices)
    assert f"makes J {-J.bias:.2g} kg m^2 too small" in " ".join(heavy.summary().split())
    assert abs(light["J"].bias) < 0.02 * light["J"].std_err
    assert "follow the noise" not in " ".join(light.notices)


def test_expressions_are_off_with_their_parameters():
    solution = noisy(Variational(), 1.0).draw(0).solve()
    J = Parameter("J", 1)
    assert solution(J).bias == solution["J"].bias
    assert solution(J).std_err == pytest.approx(solution["J"].std_err)
    assert solution(1 / J).bias == pytest.approx(-solution["J"].bias / solution["J"].estimate ** 2)


@pytest.mark.parametrize("share", [0.3, 0.1])
def test_a_state_weight_that_is_too_small_shows_in_the_bias(share):
    # The states then follow the noise of the sensor, and the estimates go further down.
    twins = noisy(Variational(), 3.0)
    errors, biases = [], []
    for seed in range(16):
        J = twins.draw(seed).with_(state_weight=1e6 * share).solve()["J"]
        errors.append(J.estimate - TRUTH["J"])
        biases.append(J.bias)
    assert np.mean(errors) < -1.2 * np.std(errors)
    assert abs(np.mean(errors) - np.mean(biases)) < 0.6 * np.std(errors)


def test_motion_without_noise_makes_no_bias():
    solution = noisy(Variational()).draw(0).with_(state_weight=np.inf).solve()
    assert solution["J"].bias == solution["b"].bias == 0.0
    assert solution["J"].bias_reason == ""


def test_a_bias_that_is_not_known_has_a_reason_and_leaves_the_standard_error():
    solution = noisy(Spook()).draw(0).with_(stepper=Spook(multipliers="lifted")).solve()
    assert np.isnan(solution["J"].bias)
    assert solution["J"].bias_reason == NO_BIAS
    assert solution["J"].std_err == np.sqrt(solution.sensitivities.covariance[0, 0])
    assert np.isnan(solution(Parameter("J", 1)).bias)


def test_too_many_steps_leave_the_bias_unknown(monkeypatch):
    problem = noisy(Spook()).draw(0)
    whole = problem.solve()
    monkeypatch.setattr(contraction, "_MOST", 1000)
    solution = problem.solve()
    assert np.isnan(solution["J"].bias)
    assert solution["J"].bias_reason == NO_BIAS
    assert solution["J"].estimate == whole["J"].estimate
    assert np.isfinite(solution["J"].std_err)


def test_a_bias_that_rounding_spoils_is_not_known():
    J, b = Parameter("J", 0.006, lower=1e-6), Parameter("b", 0.01, lower=0)
    model = pendulum(inertia=J, viscous=b, compliance=1e-6, damping=0.04)
    settings = {"initial": {"hinge": 1.0}, "duration": 0.8, "noise": 1e-3, "step": 0.02}
    solution = twin(model, TRUTH, **settings, state_weight=1e3).solve()
    assert np.isnan(solution["J"].bias)
    assert solution["J"].bias_reason == NO_BIAS
    assert 0 < solution["J"].std_err < 1e-3


def test_a_parameter_at_its_bound_has_no_bias_and_the_others_theirs():
    J, b = Parameter("J", 0.01, lower=0.007), Parameter("b", 1e-3)
    settings = {"step": 0.01, "state_weight": 1e6, "sigma": 1e-3, "duration": 1.0, "stepper": Variational()}
    twins = NoisyTwin(pendulum(inertia=J, viscous=b), {J: 0.005, b: 0.004}, {"hinge": 1.0}, **settings)
    held = twins.draw(0).solve()
    assert held["J"].at_bound
    assert held["J"].bias_reason == AT_BOUND
    assert np.isfinite(held["b"].bias)
    assert held["b"].bias_reason == ""


@pytest.mark.study
@pytest.mark.parametrize(
    ("mechanism", "stepper", "state_weight", "duration", "step"),
    [
        ("pendulum", Spook(), 1e6, 6.0, 0.01),
        ("pendulum", Variational(), 1e5, 4.0, 0.02),
        ("furuta", Spook(), 1e7, 2.0, 0.01),
        ("furuta", Spook(), 1e6, 2.0, 0.01),
        ("furuta", Variational(), 1e6, 6.0, 0.02),
    ],
)
def test_intervals_cover_where_the_motion_is_noisy(mechanism, stepper, state_weight, duration, step):
    settings = {"step": step, "state_weight": state_weight, "sigma": 1e-3, "duration": duration, "stepper": stepper}
    twins, truth = (single if mechanism == "pendulum" else double)(settings)
    hits: dict[str, list[bool]] = {name: [] for name in truth}
    sizes: dict[str, list[float]] = {name: [] for name in truth}
    for seed in range(100):
        solution = twins.draw(seed).solve()
        for name, value in truth.items():
            if np.isfinite(solution[name].std_err):
                hits[name].append(abs(solution[name].estimate - value) < 1.96 * solution[name].std_err)
                sizes[name].append(solution[name].std_err / value)
    seen = [name for name in truth if np.median(sizes[name]) < 0.5]
    assert len(seen) >= (1 if mechanism == "pendulum" else 3)
    assert {name: np.mean(hits[name]) for name in seen if not 0.9 <= np.mean(hits[name]) <= 0.99} == {}


def single(settings: Mapping[str, Any]) -> tuple[NoisyTwin, Mapping[str, float]]:
    J, b = Parameter("J", 0.01, lower=1e-6), Parameter("b", 1e-3, lower=0)
    model = pendulum(inertia=J, viscous=b, compliance=1e-4, damping=0.02)
    return NoisyTwin(model, {J: 0.005, b: 0.004}, {"hinge": 1.0}, **settings), TRUTH


def double(settings: Mapping[str, Any]) -> tuple[NoisyTwin, Mapping[str, float]]:
    truth = {"J_Azz": 0.003, "J_Byy": 0.004, "J_Bzz": 0.004, "b_1": 1e-3, "b_2": 1e-3}
    J = [Parameter(name, 0.01, lower=1e-6) for name in ("J_Azz", "J_Byy", "J_Bzz")]
    b = [Parameter(name, 1e-4, lower=0) for name in ("b_1", "b_2")]
    soft = {"compliance": 1e-4, "damping": 0.02}
    model = furuta(inertias=tuple(J), shoulder={"viscous": b[0], **soft}, elbow={"viscous": b[1], **soft})
    values = dict(zip([*J, *b], truth.values(), strict=True))
    return NoisyTwin(model, values, {"shoulder": 0.0, "elbow": 2.5}, **settings), truth
