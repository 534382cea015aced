"""How far samples are from what the estimated motion makes of them, wherever they lie between the steps.

Motion along a recording: states, impulses and what the sensors would show, from a solver's unknowns.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import casadi as ca
import numpy as np

from spookid.assembly.assembly import Assembly
from spookid.assembly.constants import sizes
from spookid.assembly.initialization import SampledRecording
from spookid.assembly.observations import Observed
from spookid.assembly.problem import Problem
from spookid.assembly.standing_start import PLACE
from spookid.data.channels import all_predicted
from spookid.data.losses import robust
from spookid.data.sampling import wrap
from spookid.data.state import State
from spookid.kernels.arrays import Array, contiguous
from spookid.kernels.kernel import Kernel
from spookid.parameter import number, stacked, substitute
from spookid.results.trajectory import EffortFit, Trajectory, rms
from spookid.stepping.impulses import StepFunction, rubbing
from spookid.transcription.factor import Constant, Group, measured_noise
from spookid.transcription.transcription import Point


def sample_errors(
    assembly: Assembly, point: Point, residuals: Mapping[str, Array], chain: int
) -> tuple[Array, Array, Array]:
    """For each signal and step, from half a step before to half a step after: number of samples, sum of squared
    residuals, and largest residual, each (N, n_o).

    Args:
        residuals: of each factor by its name, (count, rows).
    """
    problem, N = assembly.problem, assembly.sampled[chain].grid.count
    counts, squares, largest = (np.zeros((N, len(problem.channels))) for _ in range(3))
    sigmas = assembly.sigmas
    for one in assembly.observed:
        missing = assembly.transcription.chains[chain].missing[one.name]
        rows, n = residuals[one.name], len(one.rows)
        weights = assembly.transcription.chains[chain].data[one.name][:, n : 2 * n]
        places = sample_places(assembly, one, chain)
        for column, i in enumerate(one.rows):
            channel = problem.channels[i]
            here = ~missing[:, column]
            k = np.clip(np.rint(places[here, column]), 0, N - 1).astype(np.intp)
            loss, shown = robust(channel.loss), rows[here, column]
            errors = np.abs(loss.residual(shown) if loss else shown) * sigmas[i] / weights[here, column]
            np.add.at(counts[:, i], k, 1.0)
            np.add.at(squares[:, i], k, errors**2)
            np.maximum.at(largest[:, i], k, errors)
    return counts, squares, largest


def sample_places(assembly: Assembly, one: Observed, chain: int) -> Array:
    """Return the measurement time of each equation's sample, for the initial values of delays, in steps from the first
    state, (count, rows)."""
    factor = next(f for f in assembly.transcription.factors if f.name == one.name)
    problem, sampled, rows = assembly.problem, assembly.sampled[chain], len(one.rows)
    first = factor.reach // 2 if one.reach is None else one.reach.first
    states = first + np.arange(factor.count(sampled.grid.count), dtype=np.float64)[:, None]
    if one.reach is None:
        return np.repeat(states, rows, axis=1)
    values = problem.guess_on(sampled.recording.name)
    late = np.array([number(problem.channels[i].delay, values) for i in one.rows]) / problem.step
    return np.asarray(states + assembly.transcription.chains[chain].data[one.name][:, 2 * rows : 3 * rows] - late)


def trajectories(assembly: Assembly, point: Point) -> tuple[Trajectory, ...]:
    """Estimated motion of each recording, with the impulses along it."""
    residuals = assembly.transcription.residuals(point)
    names = [factor.name for factor in assembly.transcription.factors]
    return tuple(
        _trajectory(assembly, point, i, e, unknowns, dict(zip(names, values, strict=True)))
        for i, (e, unknowns, values) in enumerate(zip(assembly.sampled, point.states, residuals, strict=True))
    )


def complementarity(assembly: Assembly, point: Point) -> float:
    """Largest residual of the exact laws of dry friction and contacts at a point [N m s, N s]; NaN without them."""
    found = [np.full(1, np.nan)]
    for i, (e, unknowns) in enumerate(zip(assembly.sampled, point.states, strict=True)):
        numbers = assembly.numbers(point, i)
        if any(joint.rubs for joint in assembly.problem.model.joints):
            found.append(dry_friction(assembly, e, unknowns, numbers)[2].ravel())
        found.append(_contacts(assembly, e, unknowns, numbers)[:, :, 3].ravel())
    known = np.concatenate(found)
    return float(np.nanmax(known)) if np.any(np.isfinite(known)) else math.nan


def sticking(problem: Problem, motion: Sequence[Trajectory]) -> dict[str, float]:
    """Share of all steps in which each coordinate with dry friction sticks."""
    sticks = np.vstack([trajectory.sticks for trajectory in motion])
    return {f.label: float(np.nanmean(sticks[:, j])) for j, f in enumerate(problem.model.freedoms) if f.rubs}


def _trajectory(
    assembly: Assembly,
    point: Point,
    chain: int,
    sampled: SampledRecording,
    unknowns: Array,
    residuals: dict[str, Array],
) -> Trajectory:
    problem, steps, constants = assembly.problem, sampled.grid.count, assembly.numbers(point, chain)
    bodies = len(problem.model.bodies)
    states = _states(problem, unknowns, constants)
    predicted = predict(problem, states, constants)
    counts, squares, largest = sample_errors(assembly, point, residuals, chain)
    impulses = _impulses(assembly, residuals, steps)
    friction, sticks, _, ratios = dry_friction(assembly, sampled, unknowns, constants)
    return Trajectory(
        name=sampled.recording.name,
        signals=tuple(o.signal for o in problem.channels),
        units=tuple(o.unit for o in problem.channels),
        periods=tuple(o.period for o in problem.channels),
        t=sampled.grid.times(),
        q=states[:, : 7 * bodies].reshape(steps, bodies, 7),
        v=states[:, 7 * bodies :].reshape(steps, bodies, 6),
        observed=sampled.observed,
        samples=counts,
        predicted=beside(predicted, sampled.observed, [o.period for o in problem.channels]),
        impulse_residual=impulses,
        multipliers=_multipliers(assembly, sampled, unknowns, constants),
        friction=friction,
        sticks=sticks,
        squares=squares,
        largest=largest,
        drive=_drive(problem, sampled, states, constants),
        efforts=_efforts(assembly, point, impulses),
        touches=_contacts(assembly, sampled, unknowns, constants)[:, :, :3],
        ratios=ratios,
    )


def _drive(problem: Problem, sampled: SampledRecording, states: Array, constants: tuple[Constant, ...]) -> Array:
    """What motors do in mean over each step, NaN where a step has none, (N, n_m)."""
    model, motors = problem.model, problem.model.motors
    x, u, rates = (ca.SX.sym(*of) for of in (("x", model.state.ambient), ("u", len(model.inputs)), ("s", len(motors))))
    state = State(model, x[: model.configuration.ambient], x[model.configuration.ambient :])
    turning = stacked(state.rate(motor.joint)[motor.coordinate] for motor in motors)
    moving = along([x], turning, [contiguous(states)], constants)
    own = [
        motor.driving_effort(u[model.signals.index(motor.signal)]) - motor.damping * rates[m]
        for m, motor in enumerate(motors)
    ]
    data = [contiguous(sampled.acting.mean), contiguous((moving[:-1] + moving[1:]) / 2)]
    return np.vstack([along([u, rates], stacked(own), data, constants), np.full((1, len(own)), np.nan)])


def _efforts(assembly: Assembly, point: Point, impulses: Array) -> tuple[EffortFit, ...]:
    """How well measured efforts fit, from the impulses that the motion lacks (N, rows): of an effort whose gain is
    estimated these are at the initial value of it."""
    problem, labels, found = assembly.problem, assembly.transcription.motion.noise, dict[str, EffortFit]()
    values = problem.parameter_set.on(assembly.values(point))
    for motor in (motor for motor in problem.model.motors if motor.measured):
        places = [i for i, label in enumerate(labels) if label == measured_noise(motor.signal)]
        if places:
            gain = abs(substitute(motor.sensitivity, values).item())
            errors = gain * impulses[:, places] / problem.step
            known = np.abs(errors[np.isfinite(errors)])
            largest, unit = float(np.max(known, initial=0.0)), motor.joint.coordinates[motor.coordinate].effort
            found[motor.signal] = EffortFit(motor.signal, unit, rms(errors), largest, known.size)
    return tuple(found.values())


def _states(problem: Problem, unknowns: Array, constants: tuple[Constant, ...]) -> Array:
    """x = (q, v) at every step, (N, 13 n_b)."""
    symbol = ca.SX.sym("x", unknowns.shape[1])
    poses = along([symbol], problem.scheme.configuration(problem.model, symbol), [contiguous(unknowns)], constants)
    return problem.scheme.states(problem.model, poses, unknowns, problem.step)


def _impulses(assembly: Assembly, residuals: dict[str, Array], steps: int) -> Array:
    """Δp of each step, NaN where a step has none, (N, rows)."""
    weight = np.sqrt(assembly.problem.weight) if np.isfinite(assembly.problem.weight) else 1.0
    factors = assembly.transcription.factors
    impulse = residuals[assembly.transcription.motion.name] * noise_of_impulses(assembly)
    rows = np.full((steps, impulse.shape[1]), np.nan)
    rows[1 : len(impulse) + 1] = impulse / weight
    for first in (f for f in factors if f.first_only and f.soft and f.group is Group.STATE and f.name != PLACE):
        rows[0] = residuals[first.name] / weight
    return rows


def noise_of_impulses(assembly: Assembly) -> Array:
    """Standard deviation of each impulse residual; one if no noise is estimated, (1,) or (rows,)."""
    factor = assembly.transcription.motion
    if not (assembly.noise and factor.noise):
        return np.ones(1)
    values, of = [constant.value for constant in assembly.constants], dict[str, float]()
    for size in sizes(assembly.problem, assembly.settings, assembly.constants):
        place, scale = dict(size.symbols), 1.0 if size.kind == "disturbance" else assembly.problem.step
        of |= {key: scale * values[place[name]] for key, name in zip(size.keys, size.names, strict=True)}
    return np.array([of[name] for name in factor.noise])


def beside(predicted: Array, observed: Array, periods: Sequence[float | None]) -> Array:
    """Periodic signals (N, n_o) on the branch nearest to the observations; unwrapped in time without any."""
    result = predicted.copy()
    for i, period in enumerate(periods):
        if period is not None:
            near = observed[:, i] + wrap(predicted[:, i] - observed[:, i], period)
            result[:, i] = np.where(np.isnan(observed[:, i]), np.unwrap(predicted[:, i], period=period), near)
    return result


def unwrapped_signals(predicted: Array, periods: Sequence[float | None]) -> Array:
    """Periodic signals (N, n_o), made continuous in time."""
    columns = [
        predicted[:, i] if period is None else np.unwrap(predicted[:, i], period=period)
        for i, period in enumerate(periods)
    ]
    return np.column_stack(columns) if columns else predicted


def stamped(problem: Problem, shown: Array, values: Mapping[str, float]) -> Array:
    """Return sensor signals at the steps, (N, n_o), continuous in time, by their timestamps: delayed signals show
    earlier values, and their first value at the start.

    Args:
        values: of the parameters as they were declared, by name.
    """
    found = unwrapped_signals(shown, [channel.period for channel in problem.channels])
    steps = np.arange(len(found), dtype=np.float64)
    for i, channel in enumerate(problem.channels):
        late = number(channel.delay, values) / problem.step
        if late:
            found[:, i] = np.interp(steps - late, steps, found[:, i])
    return found


def predict(
    problem: Problem, states: Array, constants: tuple[Constant, ...], accelerations: Array | None = None
) -> Array:
    """Predicted signals of the sensors for states (N, 13 n_b): (N, n_o), angles in (−π, π].

    Args:
        accelerations: of all bodies, (N, 6 n_b); None: by differences.
    """
    model = problem.model
    x, a = ca.SX.sym("x", model.state.ambient), ca.SX.sym("a", model.configuration.tangent)
    n = model.configuration.ambient
    state = State(model, x[:n], x[n:], a)
    rows = all_predicted(problem.channels, state)
    if accelerations is None:
        moving = state.order(rows) == 2
        accelerations = np.gradient(states[:, n:], problem.step, axis=0) if moving else 0 * states[:, n:]
    return along([x, a], rows, [contiguous(states), contiguous(accelerations)], constants)


def _multipliers(
    assembly: Assembly, sampled: SampledRecording, unknowns: Array, constants: tuple[Constant, ...]
) -> Array:
    """λ of each step, NaN where a step has none, (N, rows)."""
    function = assembly.problem.scheme.multipliers_along(assembly.problem.model, assembly.settings)
    return _along(function, assembly.problem, sampled, unknowns, constants)


def dry_friction(
    assembly: Assembly, sampled: SampledRecording, unknowns: Array, constants: tuple[Constant, ...]
) -> tuple[Array, Array, Array, Array]:
    """Dry-friction impulse of a step, 1 or 0 for stick or slip, residual L |z − clip(z − s/w, −1, 1)| of the exact law,
    and ratio z.

    Each (N, n_s), NaN where a step has none. A smooth law sticks where the exact one would: |z − s/w| ≤ 1.
    """
    function = assembly.problem.scheme.friction_along(assembly.problem.model, assembly.settings)
    values = _along(function, assembly.problem, sampled, unknowns, constants)
    over, ratio, bound, slip, lean = np.split(values, 5, axis=1)
    rubs = np.array([freedom.rubs for freedom in assembly.problem.model.freedoms], dtype=bool)
    sticks = np.where(np.isnan(ratio), np.nan, rubs & (np.abs(ratio - slip) <= 1))
    return over * bound - lean, sticks, bound * np.abs(ratio - np.clip(ratio - slip, -1.0, 1.0)), ratio


def with_ratios(problem: Problem, unknowns: Array, ratios: Array | None) -> Array:
    """Unknowns of a fit (N, ambient) with ratios z of dry friction of another one, (N, n_s), if that has the same
    steps; beside contacts they stay what they are."""
    model, own = problem.model, problem.scheme.law.unknowns(problem.model)
    if ratios is None or len(ratios) != len(unknowns) or model.contacts or not own:
        return unknowns
    known, first = ratios[:, rubbing(model)], unknowns.shape[1] - own
    places = slice(first, first + known.shape[1])
    unknowns[:, places] = np.where(np.isnan(known), unknowns[:, places], known)
    return unknowns


def _contacts(assembly: Assembly, sampled: SampledRecording, unknowns: Array, constants: tuple[Constant, ...]) -> Array:
    """Impulses of each step along the normal and both tangents of every contact, and how far they are from the law,
    NaN where a step has none, (N, n_c, 4)."""
    problem = assembly.problem
    if not problem.model.contacts:
        return np.zeros((len(unknowns), 0, 4))
    function = problem.scheme.contacts_along(problem.model, assembly.settings)
    return _along(function, problem, sampled, unknowns, constants).reshape(len(unknowns), -1, 4)


def _along(
    function: StepFunction,
    problem: Problem,
    sampled: SampledRecording,
    unknowns: Array,
    constants: tuple[Constant, ...],
) -> Array:
    """A function of neighbouring steps along a recording, NaN where a step has none, (N, rows)."""
    reach = max(function.variables)
    count = len(unknowns) - reach
    states = [unknowns[offset : offset + count] for offset in function.variables]
    inputs = np.zeros((count, 0))
    if function.data.numel():
        now = sampled.acting
        inputs = contiguous(problem.scheme.inputs(now.held, now.mean, now.late)[:count])
    values = along([*function.variables.values(), function.data], function.value, [*states, inputs], constants)
    rows = np.full((len(unknowns), values.shape[1]), np.nan)
    rows[reach // 2 : reach // 2 + count] = values  # a function of three steps belongs to the middle one
    return rows


def along(symbols: list[ca.SX], expression: ca.SX, arrays: list[Array], constants: tuple[Constant, ...]) -> Array:
    """Evaluate an expression of symbols per step along arrays, (N, rows)."""
    shared = ca.vertcat(*(c.symbol for c in constants))
    kernel = Kernel(ca.Function("along", [*symbols, shared], [ca.densify(expression)]), len(symbols))
    out = np.empty((len(arrays[0]), expression.numel()))
    return kernel(arrays, [contiguous([c.value for c in constants])], out)
