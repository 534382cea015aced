"""Standard errors: against the dense inverse, against repeated experiments, and honest where nothing is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest
from mechanisms import dense, furuta, hub, paper_twin, pendulum
from noisy import NoisyTwin

from spookid import HingeAngle, LevenbergMarquardt, Model, Parameter, Problem, Recording, Solution, Spook, Variational
from spookid.assembly.assembly import assemble
from spookid.cli.checking import describe
from spookid.estimation.identifiability import a_posteriori, a_priori
from spookid.statistics import variances
from spookid.statistics.condensing import Condensed, linearize
from spookid.statistics.covariance import ResidualStatistics, analyse
from spookid.statistics.sensitivities import AT_BOUND, DOUBTED, NO_FACTOR, NO_FREEDOM, UNOBSERVED, times
from spookid.statistics.variances import Variances, widened
from spookid.statistics.weak_directions import Spectrum
from spookid.transcription.parameter_constraints import FreeDirections
from spookid.transcription.transcription import Transcription

TRUTH = {"J": 0.005, "b": 0.004}


def swing(seed: int = 0, noise: float = 2e-3, prior: tuple[float, float] | None = None, **more: object) -> Problem:
    """A pendulum, 0.8 s, whose compliant joint keeps the dense normal equations well conditioned."""
    J, b = Parameter("J", 0.01, lower=1e-6), Parameter("b", 1e-3, lower=0, prior=prior)
    model = pendulum(inertia=J, viscous=b, compliance=1e-3)
    settings = {"duration": 0.8, "initial": {"hinge": 1.0}, **more}
    return paper_twin(model, TRUTH, noise=noise, seed=seed, **settings)


@pytest.fixture(scope="module")
def swung() -> Solution:
    return swing().solve()


# --- against dense algebra ---


@pytest.mark.parametrize(
    ("recordings", "prior"),
    [
        (1, None),
        (2, (0.004, 1e-4)),
        pytest.param(1, (0.004, 1e-4), marks=pytest.mark.study),
        pytest.param(2, None, marks=pytest.mark.study),
    ],
)
def test_covariance_is_that_of_the_dense_jacobian(recordings, prior):
    problem = swing(prior=prior)
    second = swing(seed=1, duration=0.5, initial={"hinge": -0.7}).recordings
    problem = problem.with_(recordings=[*problem.recordings, *second[: recordings - 1]])
    solution, assembly = problem.solve(), assemble(problem)
    outcome = LevenbergMarquardt().solve(assembly.transcription, assembly.start)
    J, _ = dense(assembly.transcription, outcome.point)
    # Columns are scaled, and R of the last two is that of the parameters with the states eliminated.
    scale = np.linalg.norm(J, axis=0)
    Q, R = np.linalg.qr(J / scale)
    corner = R[-2:, -2:] * scale[-2:]
    factor = solution.sensitivities.factor
    np.testing.assert_allclose(factor.T @ factor, corner.T @ corner, rtol=1e-8)
    gain = np.linalg.solve(corner, Q[:, -2:].T)
    noise = {"state": solution.sensitivities.noise["state"], "observation": solution.sensitivities.noise["hinge"]}
    groups = [
        deviations(assembly.transcription, dict.fromkeys(noise, 0.0) | {"prior": 0.0, name: 1.0}) for name in noise
    ]
    known = deviations(assembly.transcription, dict.fromkeys(noise, 0.0) | {"prior": 1.0})
    parts = np.array([(gain * sizes) @ gain.T for sizes in groups])
    condensed = Condensed(linearize(assembly.transcription, outcome.point), FreeDirections(np.zeros(2, bool)))
    found = variances.estimate(condensed, FreeDirections(np.zeros(2, bool)))
    np.testing.assert_allclose(found.variances, np.square(list(noise.values())), rtol=1e-6)
    sizes = Variances(found.variances, found.doubt, found.common)
    expected = widened((gain * known) @ gain.T, parts, sizes)
    np.testing.assert_allclose(solution.sensitivities.covariance, expected, rtol=1e-8)
    errors = np.sqrt(np.diag(expected))
    np.testing.assert_allclose([p.std_err for p in solution.parameters.values()], errors, rtol=1e-8)


def deviations(transcription: Transcription, sizes: Mapping[str, float]) -> np.ndarray:
    """The noise of each row of ``dense``."""
    counts = [
        (f.group.value, f.count(chain.steps) * len(f.rows))
        for chain in transcription.chains
        for f in transcription.factors
    ]
    return np.concatenate([np.full(count, sizes[group]) for group, count in counts])


@pytest.mark.study
def test_variances_are_those_of_restricted_maximum_likelihood():
    # At its maximum the residuals of each group, whitened by the variances found, are as large as expected.
    problem = swing(state_weight=1e4, duration=2.0, noise=5e-3)
    rng = np.random.default_rng(0)
    shaken = problem.recordings[0]
    theta = shaken.signal("hinge") + 2e-3 * np.cumsum(rng.normal(size=len(shaken.t)))
    problem = problem.with_(recordings=[shaken.with_signals(hinge=theta)])
    solution, assembly = problem.solve(), assemble(problem)
    outcome = LevenbergMarquardt().solve(assembly.transcription, assembly.start)
    J, r = dense(assembly.transcription, outcome.point)
    noise = {"state": solution.sensitivities.noise["state"], "observation": solution.sensitivities.noise["hinge"]}
    sizes = deviations(assembly.transcription, noise)
    whitened = J / sizes[:, None]
    Q = np.linalg.qr(whitened / np.linalg.norm(whitened, axis=0))[0]
    left, rest = r / sizes - Q @ (Q.T @ (r / sizes)), 1 - np.sum(Q**2, axis=1)
    rows = np.sum(np.abs(J), axis=1) > 0
    rest[:12] -= 2 / 12  # the initial state's twelve rows say ten things
    seen = sizes == noise["observation"]
    assert np.sum(left[seen & rows] ** 2) == pytest.approx(np.sum(rest[seen & rows]), rel=0.1)
    assert np.sum(left[~seen] ** 2) == pytest.approx(np.sum(rest[~seen]), rel=0.1)
    found = a_posteriori(assembly, outcome.point, FreeDirections(np.zeros(2, dtype=bool))).condensed
    doubt = variances.estimate(found, FreeDirections(np.zeros(2, dtype=bool))).doubt
    squared = (np.eye(len(Q)) - Q @ Q.T)[rows][:, rows] ** 2
    groups = [~seen[rows], seen[rows]]
    M = np.array([[np.sum(squared[one][:, other]) for other in groups] for one in groups])
    sizes = np.array([noise["state"], noise["observation"]])
    np.testing.assert_allclose(doubt / np.outer(sizes, sizes) ** 2, 2 * np.linalg.inv(M), rtol=0.1)


@pytest.mark.study
@pytest.mark.parametrize("state_weight", [pytest.param(100.0, marks=pytest.mark.study), 1e6])
def test_error_bars_cover_what_they_claim(state_weight):
    # The equations of motion hold exactly here. With a small weight the states follow the noise; the errors know it,
    # but so short a record does not tell that there is no noise in the motion: they may be too long.
    errors = []
    for seed in range(16):
        solution = swing(seed, noise=5e-3, state_weight=state_weight).solve()
        errors.append([(p.estimate - TRUTH[name]) / p.std_err for name, p in solution.parameters.items()])
    # Of 32 standardised errors, rms 1: the bounds are four of its standard deviations away.
    assert (0.5 if state_weight == 1e6 else 0.3) < np.sqrt(np.mean(np.square(errors))) < 1.5
    assert np.all(np.abs(errors) < 4)


def test_noise_variances_hardly_hang_on_the_random_signs(monkeypatch):
    # Where the motion is nearly exact, its residuals have few degrees of freedom left: here some twenty of 4,800.
    J, b = Parameter("J", 0.01, lower=1e-6), Parameter("b", 1e-3, lower=0)
    settings = {"step": 0.01, "state_weight": 1e8, "sigma": 2e-3, "duration": 4.0}
    assembly = assemble(
        NoisyTwin(pendulum(inertia=J, viscous=b), {J: 0.005, b: 0.004}, {"hinge": 1.0}, **settings).draw(0)
    )
    point = LevenbergMarquardt().solve(assembly.transcription, assembly.start).point
    condensed = Condensed(linearize(assembly.transcription, point), FreeDirections(np.zeros(2, bool)))
    few = variances.estimate(condensed, FreeDirections(np.zeros(2, bool))).variances
    monkeypatch.setattr(variances, "_PROBES", (600, 600))
    many = variances.estimate(condensed, FreeDirections(np.zeros(2, bool))).variances
    np.testing.assert_allclose(few, many, rtol=0.04)
    traces, members = variances._traces(condensed, variances._members(condensed.linearized)[0]), len(few)
    assert traces is not None
    assert traces.shape == (members,)
    assert np.sum(traces) == pytest.approx(condensed.freedom, rel=1e-9)


@pytest.mark.parametrize("state_weight", [1e4, pytest.param(1e7, marks=pytest.mark.study)])
def test_the_noise_found_does_not_hang_on_a_weight_far_off(state_weight):
    # The sensors' variance comes out as 0 at first, where it is a thousandth of that of the impulses.
    J, b = Parameter("J", 0.01, lower=1e-6), Parameter("b", 1e-3, lower=0)
    settings = {"step": 0.01, "state_weight": 1e8, "sigma": 1e-3, "duration": 4.0}
    problem = NoisyTwin(pendulum(inertia=J, viscous=b), {J: 0.005, b: 0.004}, {"hinge": 1.0}, **settings).draw(0)
    (sensor,) = problem.observations
    solution = problem.solve(observations=[replace(sensor, sigma=1.0)], state_weight=state_weight)
    impulses, angle = (solution.sensitivities.noise[name] for name in ("state", "hinge"))
    assert impulses / np.sqrt(state_weight) == pytest.approx(1e-4, rel=0.3)
    assert angle == pytest.approx(1e-3, rel=0.1)


@pytest.mark.study
def test_error_bars_cover_with_noise_in_the_motion():
    J, b = Parameter("J", 0.01, lower=1e-6), Parameter("b", 1e-3, lower=0)
    model = pendulum(inertia=J, viscous=b)
    settings = {"step": 0.01, "state_weight": 1e8, "sigma": 2e-3, "duration": 2.0}
    twins = NoisyTwin(model, {J: 0.005, b: 0.004}, {"hinge": 1.0}, **settings)
    errors, noise = [], []
    for seed in range(16):
        solution = twins.draw(seed).solve()
        errors.append([(p.estimate - TRUTH[name]) / p.std_err for name, p in solution.parameters.items()])
        noise.append(list(solution.sensitivities.noise.values()))
    assert 0.6 < np.sqrt(np.mean(np.square(errors))) < 1.7
    np.testing.assert_allclose(np.median(noise, axis=0), 1.0, rtol=0.2)


@pytest.mark.study
@pytest.mark.parametrize(
    ("duration", "viscous", "runs"),
    [
        *((duration, 0.004, 100) for duration in (1.0, 2.0, 6.0)),
        *((duration, 0.0, 100) for duration in (1.0, 2.0)),
        (6.0, 0.0, 200),  # 99 of the first hundred and 96 of the second
    ],
)
def test_intervals_cover_however_short_the_record(duration, viscous, runs):
    J, b = Parameter("J", 0.01, lower=1e-6), Parameter("b", 1e-3, lower=0)
    settings = {"step": 0.01, "state_weight": 1e8, "sigma": 2e-3, "duration": duration}
    twins = NoisyTwin(pendulum(inertia=J, viscous=b), {J: 0.005, b: viscous}, {"hinge": 1.0}, **settings)
    hits: dict[str, list[bool]] = {"J": [], "b": []}
    for seed in range(runs):
        solution = twins.draw(seed).solve()
        for name, truth in {"J": 0.005, "b": viscous}.items():
            if not solution[name].at_bound:
                hits[name].append(abs(solution[name].estimate - truth) < 1.96 * solution[name].std_err)
    assert 0.9 <= np.mean(hits["J"]) <= 0.99
    assert viscous == 0 or 0.9 <= np.mean(hits["b"]) <= 0.99


def test_standard_errors_follow_the_noise(swung):
    noisier = swing(noise=4e-3).solve()
    for name in TRUTH:
        assert noisier[name].std_err == pytest.approx(2 * swung[name].std_err, rel=0.1)


def test_weighting_all_residuals_alike_changes_no_error(swung):
    # σ = 1 is a guess: what counts is the scatter of the residuals.
    problem = swing()
    weighted = [type(o)(o.joint, o.signal, sigma=0.1) for o in problem.observations]
    other = problem.with_(observations=weighted, state_weight=100 * 100.0).solve()
    for name in TRUTH:
        assert other[name].estimate == pytest.approx(swung[name].estimate, rel=1e-6)
        assert other[name].std_err == pytest.approx(swung[name].std_err, rel=1e-4)


# --- expressions ---


def test_expressions_carry_errors(swung):
    J, b = Parameter("J", 1), Parameter("b", 1)
    at_J, at_b = swung["J"].estimate, swung["b"].estimate
    covariance = swung.sensitivities.covariance
    for expression, estimate, slope in [
        (J, at_J, [1, 0]),
        (3 * J - 2 * b, 3 * at_J - 2 * at_b, [3, -2]),
        (b / J, at_b / at_J, [-at_b / at_J**2, 1 / at_J]),
        (np.sqrt(b) + 1, np.sqrt(at_b) + 1, [0, 0.5 / np.sqrt(at_b)]),
    ]:
        value = swung(expression)
        assert value.estimate == pytest.approx(estimate)
        assert value.std_err == pytest.approx(np.sqrt(slope @ covariance @ np.array(slope)))


def test_reparametrized_fits_have_the_same_errors(swung):
    J, b = Parameter("J", 0.02, lower=1e-6), Parameter("b", -6.0)
    model = pendulum(inertia=J / 2, viscous=np.exp(b), compliance=1e-3)
    settings = {"duration": 0.8, "initial": {"hinge": 1.0}}
    other = paper_twin(model, {"J": 0.01, "b": np.log(0.004)}, noise=2e-3, **settings).solve()
    assert other["J"].estimate == pytest.approx(2 * swung["J"].estimate, rel=1e-6)
    assert other["J"].std_err == pytest.approx(2 * swung["J"].std_err, rel=1e-4)
    viscous = other(np.exp(b))
    assert viscous.estimate == pytest.approx(swung["b"].estimate, rel=1e-5)
    assert viscous.std_err == pytest.approx(swung["b"].std_err, rel=1e-4)


# --- what is not known ---


def test_a_parameter_at_its_bound_has_no_error():
    J, b = Parameter("J", 0.01, lower=0.006), Parameter("b", 1e-3)
    solution = paper_twin(
        pendulum(inertia=J, viscous=b), TRUTH, initial={"hinge": 1.0}, duration=0.8, noise=1e-3
    ).solve()
    assert solution["J"].at_bound
    assert np.isnan(solution["J"].std_err)
    assert solution["J"].reason == AT_BOUND
    assert solution["b"].std_err > 0
    assert np.isnan(solution(J + b).std_err)
    assert solution(2 * b).std_err == pytest.approx(2 * solution["b"].std_err)


def test_a_parameter_that_nothing_shows_is_named():
    K, c = Parameter("K", 0.1), Parameter("c", 1e-3)
    model = hub(viscous=c, motor={"gain": K})
    silent = Recording(t=np.arange(60) * 0.01, signals={"u": np.zeros(60)})
    problem = paper_twin(
        model, {"K": 0.1, "c": 1e-3}, initial={"hinge": (0, 3.0)}, duration=0.5, inputs=silent, noise=1e-3
    )
    solution = problem.solve()
    assert solution["K"].estimate == pytest.approx(0.1)
    assert np.isnan(solution["K"].std_err)
    assert solution["K"].reason == UNOBSERVED
    assert solution["c"].std_err > 0
    assert solution["c"].reason == ""
    assert np.isnan(solution.sensitivities.covariance[0]).all()
    assert np.isnan(solution.sensitivities.covariance[:, 0]).all()
    weakest = solution.sensitivities.weak[0]
    assert set(weakest.direction) == {"K"}
    assert weakest.singular_value == pytest.approx(0, abs=1e-9)
    assert weakest.advice.startswith("Fix K at a known value, or give it a prior")
    assert "drive coordinate hinge" in weakest.advice


def test_parameters_that_appear_only_as_a_sum_are_named_together():
    one, two = Parameter("one", 1e-3), Parameter("two", 1e-3)
    problem = paper_twin(pendulum(viscous=one + two), {"one": 2e-3, "two": 2e-3}, initial={"hinge": 1.0}, noise=1e-3)
    solution = problem.solve()
    assert solution["one"].reason == solution["two"].reason == UNOBSERVED
    direction = solution.sensitivities.weak[0].direction
    assert direction["one"] == pytest.approx(-direction["two"], rel=0.3)
    assert solution["one"].estimate + solution["two"].estimate == pytest.approx(4e-3, rel=0.1)


@pytest.mark.parametrize("stepper", [pytest.param(Spook(), marks=pytest.mark.study), Variational()])
def test_inertias_about_axes_that_never_turn_are_not_seen(stepper):
    J = [Parameter(name, 0.004, lower=1e-7) for name in ("J_Axx", "J_Ayy", "J_Azz")]
    model = furuta(inertias=(J[2], 0.004, 0.004))
    arm = replace(model.bodies[0], inertia=tuple(J))
    shoulder = replace(model.joints[0], child=replace(model.joints[0].child, body=arm), compliance=1e-4)
    elbow = replace(model.joints[1], parent=replace(model.joints[1].parent, body=arm), compliance=1e-4)
    model = Model(bodies=[arm, model.bodies[1]], joints=[shoulder, elbow], gravity=model.gravity)
    truth = {"J_Axx": 1e-4, "J_Ayy": 0.003, "J_Azz": 0.003}
    problem = paper_twin(model, truth, initial={"elbow": 2.0}, duration=0.6, noise=1e-3, stepper=stepper)
    before = a_priori(assemble(problem)).sensitivities
    solution = problem.solve()
    for name in ("J_Axx", "J_Ayy"):
        assert before.reasons[name] == solution[name].reason == UNOBSERVED
        assert np.isnan(solution[name].std_err)
        assert {name: 1.0} in [w.direction for w in before.weak]
        assert {name: 1.0} in [w.direction for w in solution.sensitivities.weak]
    assert 0 < solution["J_Azz"].std_err < 1e-3
    assert "J_Axx (not identifiable)" in describe(problem, "twin", "", 100)


# --- the function itself ---


def statistics_of(information: np.ndarray, noise: float, blocks: int = 0) -> ResidualStatistics:
    """With one noise variance for all rows, known for sure."""
    n = len(information)
    nothing = 2 * (np.zeros((blocks, n)), np.zeros((blocks, n, n)))
    return ResidualStatistics(
        information,
        np.zeros((n, n)),
        information[None],
        Variances(np.array([noise]), np.zeros((1, 1)), noise),
        *nothing,
    )


def analysed(names: Sequence[str], information: np.ndarray, noise: float, magnitudes: np.ndarray, held: Sequence[bool]):
    """Uncertainty with one noise variance for all rows."""
    statistics = statistics_of(information, noise)
    return analyse(names, statistics, magnitudes, FreeDirections(np.array(held))).sensitivities


def test_sensitivities_of_a_matrix():
    rng = np.random.default_rng(0)
    A = rng.normal(size=(20, 3)) * [1.0, 1e3, 1e-3]
    information, magnitudes = A.T @ A, np.array([1.0, 1e-3, 1e3])
    result = analysed(["a", "b", "c"], information, 0.04, magnitudes, [False] * 3)
    covariance = 0.04 * np.linalg.inv(information / np.outer(1 / magnitudes, 1 / magnitudes))
    covariance *= np.outer(magnitudes, magnitudes)
    np.testing.assert_allclose(result.covariance, covariance, rtol=1e-9)
    np.testing.assert_allclose(result.standard_errors, np.sqrt(np.diag(covariance)), rtol=1e-9)
    np.testing.assert_allclose(np.diag(result.correlation), 1)
    assert np.all(np.abs(result.correlation) <= 1 + 1e-12)
    np.testing.assert_allclose(result.singular_values, np.linalg.svd(A * magnitudes / 0.2, compute_uv=False), rtol=1e-9)
    np.testing.assert_allclose(result.factor.T @ result.factor, information, rtol=1e-9)
    np.testing.assert_allclose(result.dispersion, 0.04, rtol=1e-9)
    assert np.array_equal(result.factor, np.triu(result.factor))
    assert (result.reasons, result.weak) == ({}, ())


def test_errors_are_conditional_on_what_is_held():
    information = np.array([[4.0, 1.0], [1.0, 2.0]])
    result = analysed(["a", "b"], information, 1.0, np.ones(2), [False, True])
    assert result.covariance[0, 0] == pytest.approx(1 / 4)
    assert np.isnan(result.covariance[1]).all()
    np.testing.assert_allclose(result.dispersion, [1.0, np.nan])
    assert result.reasons == {"b": AT_BOUND}
    everything = analysed(["a", "b"], information, 1.0, np.ones(2), [True, True])
    assert everything.reasons == {"a": AT_BOUND, "b": AT_BOUND}
    assert everything.singular_values.shape == (0,)


def test_nothing_is_known_without_a_factor_or_freedom():
    without = statistics_of(np.ones((1, 1)), np.nan, blocks=2)
    for statistics, reason in ((None, NO_FACTOR), (without, NO_FREEDOM)):
        result = analyse(["a"], statistics, np.ones(1), FreeDirections(np.zeros(1, dtype=bool)))
        assert np.isnan(result.sensitivities.covariance).all()
        assert result.sensitivities.reasons == {"a": reason}
        assert np.isnan(result.blocks).all()


def test_a_parameter_at_its_bound_that_nothing_shows_is_said_to_be_unseen():
    result = analysed(["seen", "b"], np.diag([4.0, 1e-14]), 1.0, np.ones(2), [False, True])
    assert result.reasons == {"b": UNOBSERVED}
    assert result.covariance[0, 0] == pytest.approx(1 / 4)
    assert [w.direction for w in result.weak] == [{"b": 1.0}]


def test_unseen_parameters_are_named_one_by_one():
    # The eigenvectors of a null space are any mixture.
    tiny = 1e-16 * np.array([[1.0, 0.9], [0.9, 1.0]])
    information = np.block([[np.eye(1), np.zeros((1, 2))], [np.zeros((2, 1)), tiny]])
    result = analysed(["a", "b", "c"], information, 1e-4, np.ones(3), [False] * 3)
    assert [w.direction for w in result.weak] == [{"b": 1.0}, {"c": 1.0}]


def test_large_but_finite_errors_are_numbers_and_weak():
    information = np.diag([1e6, 0.25])
    result = analysed(["strong", "weak"], information, 1.0, np.ones(2), [False, False])
    assert result.standard_errors[1] == pytest.approx(2.0)
    assert [w.direction for w in result.weak] == [{"weak": 1.0}]
    assert result.weak[0].singular_value == pytest.approx(0.5)


# --- the jackknife ---


def test_errors_that_are_not_those_of_the_jackknife_get_a_notice() -> None:
    J, b = Parameter("J", 0.004, lower=1e-6, unit="kg m^2"), Parameter("b", 1e-3, lower=0, unit="N m s")
    made = [
        paper_twin(
            pendulum(inertia=J, viscous=b, coulomb=Parameter("c", 1e-3, lower=0)),
            {"J": 0.005, "b": 2e-3, "c": c},
            initial={"hinge": 1.5},
            duration=4.0,
            noise=2e-3,
            stepper=Variational(),
            state_weight=1e6,
        )
        for c in (0.0, 0.02)
    ]
    viscous = pendulum(inertia=J, viscous=b)
    sensors = [HingeAngle(viscous.joints[0], signal="hinge")]
    right, lacking = (problem.with_(model=viscous, observations=sensors).solve() for problem in made)
    assert 1 / DOUBTED < right.sensitivities.agreement < DOUBTED
    assert not any(finding.code == "errors.white-noise" for finding in right.findings)
    known = lacking.sensitivities
    (notice,) = [finding.text for finding in lacking.findings if finding.code == "errors.white-noise"]
    assert known.agreement > DOUBTED
    assert f"scatter {times(known.agreement, 'less', 'more')} than these errors" in notice
    assert f"J {np.sqrt(known.covariance_sandwich[0, 0]):.2g} kg m^2, b " in notice


def test_a_parameter_that_is_known_to_many_digits_hides_no_other() -> None:
    root = np.array([[1e7, 8e6, -5e6, 2e6], [0.0, 300.0, 290.0, 20.0], [0.0, 0.0, 50.0, 10.0], [0.0, 0.0, 0.0, 5.0]])
    information, known = root.T @ root, FreeDirections(np.zeros(4, dtype=bool))
    spectrum = Spectrum.of(information, information, np.ones(4), known)
    assert not np.any(spectrum.unseen)
    half = np.linalg.inv(root)
    assert np.diag(spectrum.inverse) == pytest.approx(np.sum(half**2, axis=1), rel=1e-3)
    assert np.sort(spectrum.values)[:3] == pytest.approx(np.linalg.svd(root)[1][::-1][:3], rel=1e-3)


def test_a_combination_is_not_seen_however_much_is_known_of_another_parameter() -> None:
    root = np.array([[1e7, 8e6, 8e6], [0.0, 300.0, 300.0]])
    spectrum = Spectrum.of(root.T @ root, root.T @ root, np.ones(3), FreeDirections(np.zeros(3, dtype=bool)))
    assert spectrum.unseen.tolist() == [False, True, True]
    assert np.abs(spectrum.vectors[:, spectrum.values == 0][:, 0]) == pytest.approx(
        np.array([0, 1, 1]) / np.sqrt(2), abs=1e-5
    )
