"""Identifiability of the parameters, before a fit at the initial values or after it, with advice on better data."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import casadi as ca
import numpy as np

from spookid.assembly.assembly import Assembly
from spookid.assembly.priors import priors
from spookid.assembly.problem import Problem
from spookid.kernels.arrays import Array
from spookid.kernels.precision import HALF_DIGITS
from spookid.mechanics import rotations
from spookid.mechanics.body import Body
from spookid.mechanics.inertia import at_guess
from spookid.mechanics.inertia_coordinates import InertiaCoordinates
from spookid.mechanics.joint_coordinates import JointCoordinates
from spookid.mechanics.model import Model
from spookid.parameter import Parameter
from spookid.records import dataclass
from spookid.results.findings import Finding
from spookid.solvers.reduced_problem import ReducedProblem
from spookid.solvers.structured import NotPositiveDefiniteError
from spookid.statistics import block_jackknife, variances
from spookid.statistics.condensing import Condensed, linearize, pseudo_inverse
from spookid.statistics.covariance import Analysis, ResidualStatistics, analyse, unseen
from spookid.statistics.marginal import NoiseSize
from spookid.statistics.sensitivities import (
    AT_BOUND,
    CORRELATED,
    LEADS,
    ROBUST,
    Sensitivities,
    doubted,
    is_settled,
    prior_led,
    times,
)
from spookid.statistics.variances import Variances
from spookid.statistics.weak_directions import WeakDirection, common_scale, without_direction
from spookid.statistics.whiteness import SURE
from spookid.transcription.parameter_constraints import FreeDirections
from spookid.transcription.transcription import Point, Transcription


def advise(model: Model, parameters: Sequence[Parameter], settled: bool = False) -> str:
    """Advice on a weakly identifiable direction of these parameters; ``settled`` if priors determine it."""
    motions = "; ".join(dict.fromkeys(text for p in parameters for text in _motions(model, p)))
    if settled:
        return (
            f"Only the prior determines this combination of parameters. To identify it from data: {motions}."
            if motions
            else "Only the prior determines this combination of parameters."
        )
    names, one = ", ".join(p.name for p in parameters), len(parameters) == 1
    remedy = f"Fix {'' if one else 'one of '}{names} at a known value, or give {'it' if one else 'one'} a prior"
    motion = f", or record a motion that shows more: {motions}" if motions else ""
    return f"{remedy}{motion}."


def _motions(model: Model, parameter: Parameter) -> Iterator[str]:
    """What shows more of a parameter, by where it stands in the mechanism."""
    stands = [
        (one.expressions(), f"drive coordinate {one.label} with a larger and more varied input {one.signal}")
        for one in model.motors
    ]
    stands += [(joint.expressions(), f"move joint {joint.name} farther, fast and slowly") for joint in model.joints]
    stands += [
        (load.expressions(), f"move the joint or body on which load {load.title} acts, both fast and slowly")
        for load in model.loads
    ]
    for body in model.bodies:
        if _axes(model, body) > 1:
            stands.append(([body.inertia], f"rotate body {body.name} about all axes that its joints allow"))
        stands.append(([body.mass], f"apply a known force to body {body.name}"))
    for expressions, text in [*stands, ([model.gravity], "start from other positions")]:
        if any(ca.depends_on(ca.densify(ca.vec(e)), parameter) for e in expressions if e.numel()):
            yield text


def _axes(model: Model, body: Body) -> int:
    """About how many independent axes of its own a body can turn."""
    coordinates = JointCoordinates(model)
    if coordinates.roots:
        return 3
    x, rng = ca.SX.sym("x", len(model.freedoms)), np.random.default_rng(0)
    turn = rotations.matrix(model.pose(body, coordinates.posed(x))[1])
    places = rng.uniform(-1, 1, (8, len(model.freedoms)))
    first, *others = (at_guess(ca.substitute(turn, x, ca.DM(place))) for place in places)
    apart = [first.T @ other - other.T @ first for other in others]  # along its axis
    return int(np.linalg.matrix_rank([(A[2, 1], A[0, 2], A[1, 0]) for A in apart], tol=HALF_DIGITS))


OBSERVATION = "observation of "
"""How labels of observation rows begin."""


@dataclass(frozen=True, eq=False)
class Identifiability:
    """Linearized problem, with the covariance and identifiability of the parameters."""

    analysis: Analysis
    condensed: Condensed | None
    """None if the states are not determined."""
    edges: tuple[Array, ...]
    """Per recording, the first steps of its blocks and the number of steps."""
    findings: tuple[Finding, ...]
    statistics: ResidualStatistics | None = None
    """None likewise."""
    within: Array | None = None
    """Standard errors by blocks within recordings, (n_p,), where whole recordings are the blocks of the others."""

    @property
    def sensitivities(self) -> Sensitivities:
        """Errors and identifiability."""
        return self.analysis.sensitivities


def a_posteriori(assembly: Assembly, point: Point, free: FreeDirections, **known: bool) -> Identifiability:
    """Linearize at ``point``; further arguments as of ``identified``."""
    return identified(assembly, point, free, condensed_at(assembly.transcription, point, free), **known)


def condensed_at(problem: Transcription, point: Point, free: FreeDirections) -> Condensed | None:
    """Linearized problem at a point, without states; None if the states are not determined."""
    try:
        return Condensed(linearize(problem, point), free)
    except (NotPositiveDefiniteError, np.linalg.LinAlgError):
        return None


def identified(
    assembly: Assembly,
    point: Point,
    free: FreeDirections,
    condensed: Condensed | None,
    doubt: Array | float = 0.0,
    noisy: bool = False,
    roughly: bool = False,
) -> Identifiability:
    """Identifiability for a linearized problem and free directions of the parameters. Uncertainty of the noise is added
    to the covariance, (n_p, n_p); ``noisy`` is True if it is to be computed, as for given weights, maybe ``roughly``.
    """
    transcription = assembly.transcription
    if condensed is None:
        magnitudes = np.maximum(np.abs(point.parameters), transcription.magnitudes)
        return Identifiability(analyse(transcription.names, None, magnitudes, free), None, (), ())
    given = not assembly.noise or noisy
    if given:
        statistics, edges = _statistics(condensed, free, assembly.noise, point, roughly)
    else:
        statistics, edges = _known(condensed, assembly.noise, doubt, free)
    repeated = any(residual.is_repeated for residual in assembly.problem.residuals)
    larger = 1.0 if repeated else math.inf if given else ROBUST
    steps = [chain.steps for chain in transcription.chains]
    block = sum(steps) / len(steps) / block_jackknife.BLOCKS
    known = judged(assembly, point.parameters, free, statistics, block, larger)
    if len(steps) >= block_jackknife.BLOCKS and math.isfinite(larger):
        ends, within = np.cumsum([0, *(len(one) - 1 for one in edges)])[:-1], known.sensitivities.standard_errors
        scores, own = (np.add.reduceat(of, ends) for of in (statistics.scores, statistics.block_information))
        whole = replace(statistics, scores=scores, block_information=own)
        known = replace(judged(assembly, point.parameters, free, whole, math.inf, larger), within=within)
    return replace(known, condensed=condensed, edges=edges, statistics=statistics)


def judged(
    assembly: Assembly,
    estimates: Array,
    free: FreeDirections,
    statistics: ResidualStatistics,
    block: float,
    larger: float,
) -> Identifiability:
    """Identifiability with the block jackknife of residuals in blocks of so many steps; its standard errors replace
    others if larger by more than a factor."""
    names = assembly.transcription.names
    magnitudes = np.maximum(np.abs(estimates), assembly.transcription.magnitudes)
    analysis = analyse(names, statistics, magnitudes, free, estimates)
    result = analysis.sensitivities
    if math.isfinite(larger):
        result = result.robust(block, free.linked, larger, statistics.prior)
        result = replace(result, weak=analysis.weak(result, magnitudes)) if result.raised else result
    result = replace(result, weak=_advised(assembly, result))
    findings = (*_known_from_priors(assembly, statistics, result, magnitudes, free), *_too_heavy(assembly, result))
    return Identifiability(replace(analysis, sensitivities=result), None, (), findings, statistics)


def a_priori(assembly: Assembly) -> Identifiability:
    """Identifiability at the initial values, with the residuals that would remain after a Gauss–Newton step."""
    transcription = assembly.transcription
    start = ReducedProblem(transcription, assembly.start).project(assembly.start)
    free = transcription.free_directions(start.parameters, unequal=False)
    return a_posteriori(assembly, start, free, noisy=True, roughly=True)


def _statistics(
    condensed: Condensed, free: FreeDirections, sizes: Sequence[NoiseSize], point: Point, roughly: bool
) -> tuple[ResidualStatistics, tuple[Array, ...]]:
    """What the residuals say if the given sizes of noise are to be estimated, and the edges of the blocks."""
    noise = variances.estimate(condensed, free, roughly)
    parts = block_jackknife.jackknife_blocks(condensed)
    found = noise.variances if condensed.freedom > 0 else np.full_like(noise.variances, np.nan)
    deviations = np.sqrt(noise.variances).tolist()
    labels = [group.removeprefix(OBSERVATION) for group in noise.groups]
    estimates = Variances(found, noise.doubt, noise.common)
    moving = [size for size in sizes if size.kind == "disturbance" and not size.of_motion]
    names = [name for size in moving for name in size.names]
    information = condensed.information
    if moving and all(size.given is None for size in moving):
        scale = common_scale(condensed.linearized.problem, point, names)
        information = information if scale is None else without_direction(information, scale)
    statistics = ResidualStatistics(
        information,
        noise.prior,
        noise.shares,
        estimates,
        parts.scores,
        parts.information,
        parts.gradients,
        parts.remaining,
        dict(zip(labels, deviations, strict=True)),
    )
    return statistics, parts.edges


def _known(
    condensed: Condensed, noise: Sequence[NoiseSize], doubt: Array | float, free: FreeDirections
) -> tuple[ResidualStatistics, tuple[Array, ...]]:
    """What residuals whitened by estimated noise say, and the edges of the blocks: a size s is among the parameters,
    its column of the Jacobian in log s being the residuals of its rows."""
    estimated = [size for size in noise if size.given is None and size.kind == "disturbance"]
    C, R = variances.size_products(condensed, [size.names for size in estimated])
    told = np.array([not size.marginalized for size in estimated], dtype=bool)
    information = condensed.information - variances.lost(C, R)
    errors, _ = pseudo_inverse(condensed.information - variances.lost(C[:, told], R[np.ix_(told, told)]), free)
    parts, prior = block_jackknife.jackknife_blocks(condensed), variances.prior(condensed)
    errors += doubt
    scatter = information @ errors @ information
    certain = Variances(np.ones(1), np.zeros((1, 1)), 1.0)
    known = parts.scores, parts.information, parts.gradients, parts.remaining
    return ResidualStatistics(information, prior, (scatter - prior)[None], certain, *known), parts.edges


def _advised(assembly: Assembly, known: Sensitivities) -> tuple[WeakDirection, ...]:
    free, of_priors = {p.name: p for p in assembly.problem.free}, prior_led(known)

    def advice(weak: WeakDirection) -> str:
        return advise(assembly.problem.model, [free[name] for name in weak.direction], is_settled(weak, of_priors))

    return tuple(replace(weak, advice=advice(weak)) for weak in known.weak)


def _known_from_priors(
    assembly: Assembly, statistics: ResidualStatistics, result: Sensitivities, magnitudes: Array, free: FreeDirections
) -> list[Finding]:
    """Parameters that the data alone do not see."""
    if not statistics.prior.any() or not np.all(np.isfinite(statistics.scatter)):
        return []
    at_bound = np.array([result.reasons.get(name) == AT_BOUND for name in result.names], dtype=bool)
    alone = statistics.information - statistics.prior, statistics.scatter - statistics.prior
    inertias = (body.distribution for body in assembly.problem.model.bodies)
    # What is left of ellipsoids no data see, and nobody asks for.
    rooms = (one.room.name for one in inertias if isinstance(one, InertiaCoordinates) and one.room is not None)
    told = {*result.reasons, *rooms}
    without_priors = unseen(result.names, *alone, magnitudes, FreeDirections(at_bound, free.normals))
    hidden = [name for name in without_priors if name not in told]
    if not hidden:
        return []
    effect = f"The data do not determine parameters {', '.join(hidden)}: the values come from priors."
    advice = "Check that the prior is right, or record a motion with more excitation."
    return [Finding("parameters.undetermined", tuple(hidden), {}, effect, advice=advice)]


def _too_heavy(assembly: Assembly, result: Sensitivities, factor: float = 3.0) -> list[Finding]:
    """Priors that count too much or too little because the sensors' noise is off by more than a factor."""
    if assembly.problem.estimates_noise or not priors(assembly.problem):
        return []
    sigmas = [(o, 1.0 if o.sigma is None else o.sigma) for o in assembly.problem.channels]
    wrong = [
        (o, sigma, sigma * ratio)
        for o, sigma in sigmas
        if (ratio := result.noise.get(o.signal, 1.0)) > 0 and not 1 / factor <= ratio <= factor
    ]
    if not wrong:
        return []
    words = [f"{o.signal} {noise:.2g} {o.unit}".rstrip() + f", not {sigma:g}" for o, sigma, noise in wrong]
    evidence = {o.signal: {"sigma": sigma, "noise": noise} for o, sigma, noise in wrong}
    said = "The weight of priors against data depends on the sensors' sigma, which differs from the actual noise:"
    advice = (
        "Give the observations these sigma, and state_weight in proportion, or leave both out to estimate the "
        "noise; else the priors count wrongly."
    )
    return [Finding("prior.misweighted", tuple(evidence), evidence, f"{said} {'; '.join(words)}.", advice=advice)]


def contradictions(
    assembly: Assembly, point: Point, identifiability: Identifiability, least: float = 1e-3
) -> list[Finding]:
    """Warnings about priors that the data contradict, given all other information.

    An estimate is mean + k (data − mean) with k = 1 − s²/sigma² and s² its variance at the noise that is assumed; the
    variance of the data is s²/k, or more where its errors are raised. Their distance over the root of both variances
    is standard normal if the prior is right. Of data with less than the ``least`` share nothing is said.
    """
    if _too_heavy(assembly, identifiability.sensitivities):
        return []
    found = []
    variances, raised = np.diag(identifiability.analysis.gain), np.diag(identifiability.sensitivities.covariance)
    for i, parameter in enumerate(assembly.problem.free):
        if parameter.prior is None or not np.isfinite(raised[i]):
            continue
        mean, sigma = parameter.prior
        share = 1 - float(variances[i]) / sigma**2
        if share < least:
            continue
        alone = mean + (float(point.parameters[i]) - mean) / share
        error = float(np.sqrt(max(variances[i], raised[i]) / share))
        far = abs(alone - mean) / float(np.hypot(sigma, error))
        if far > SURE:
            unit, side = f" {parameter.unit}".rstrip(), "larger" if alone > mean else "smaller"
            # Where the prior rules, noise has grown to make room for it, and the data's own value is far from linear.
            said = f"give {alone:.4g} ± {error:.2g}{unit}" if share > LEADS else f"require a {side} value"
            prior = f"the prior of parameter {parameter.name}, {mean:.4g} ± {sigma:.2g}{unit}"
            effect = f"The data contradict {prior}: data alone {said}, {far:.1f} standard deviations from the prior."
            advice = "Either the prior or the model is wrong: fit without the prior, and compare."
            evidence = {"mean": mean, "sigma": sigma, "data": alone, "std_err": error, "distance": far}
            found.append(Finding("prior.contradicted", (parameter.name,), evidence, effect, advice=advice))
    return found


def trade_offs(problem: Problem, known: Sensitivities) -> list[Finding]:
    """Findings on delays that correlate strongly with another parameter: a delayed torque acts like damping."""
    found, names = [], list(known.names)
    for place, name in enumerate(names):
        row = np.nan_to_num(known.correlation[place])
        row[place] = 0.0
        other = int(np.argmax(np.abs(row)))
        if name in problem.delays and abs(row[other]) > CORRELATED:
            effect = (
                f"Delay {name} and parameter {names[other]} are correlated ({row[other]:+.2f}): the data barely "
                f"distinguish a larger delay from a {'smaller' if row[other] > 0 else 'larger'} {names[other]}."
            )
            pair = (name, names[other])
            found.append(Finding("delay.correlated", pair, {"correlation": float(row[other])}, effect))
    return found


def papers_weight(problem: Problem, paper: float = 100.0) -> list[Finding]:
    """Warning for users of the paper's weight, which was the default once."""
    if not problem.is_weighted or problem.weight != paper:
        return []
    effect = (
        f"The equations of motion have the weight state_weight={paper:g}, as in the original paper. Estimates and "
        "standard errors depend on this weight."
    )
    return [Finding("weight.paper", effect=effect, advice="Remove state_weight to estimate the noise.")]


def disagreement(assembly: Assembly, result: Sensitivities) -> list[Finding]:
    """Warning that standard errors differ from those of the block jackknife."""
    steps = [chain.steps for chain in assembly.transcription.chains]
    if not doubted(result.agreement, sum(steps) / len(steps) / block_jackknife.BLOCKS):
        return []
    units = {p.name: p.unit for p in assembly.problem.free}
    errors = np.sqrt(np.diag(result.covariance_sandwich)).tolist()
    pairs = [(name, error) for name, error in zip(result.names, errors, strict=True) if np.isfinite(error)]
    amounts = ", ".join(f"{name} {error:.2g} {units[name]}".rstrip() for name, error in pairs)
    evidence = {"agreement": result.agreement, "jackknife": dict(pairs)}
    effect = (
        "Standard errors assume white noise, but the residuals are not white: estimates from blocks of the recordings "
        f"scatter {times(result.agreement, 'less', 'more')} than these errors. The block jackknife, which only assumes "
        f"independent blocks, gives standard errors {amounts}."
    )
    advice = "Compare further recordings: their scatter shows which errors are right (`spookid crossvalidate`)."
    return [Finding("errors.white-noise", tuple(name for name, _ in pairs), evidence, effect, advice=advice)]
