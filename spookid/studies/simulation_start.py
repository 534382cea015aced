"""What a simulation begins from: values of parameters, steps, the state at the start, and what is random."""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Real
from typing import Any, TypeAlias

import casadi as ca
import numpy as np

from spookid.assembly.initialization import geared
from spookid.assembly.problem import Problem
from spookid.assembly.tracking import Tracking
from spookid.data.arrays import floats
from spookid.data.sampling import Grid, limited
from spookid.data.sensors import JointPosition
from spookid.errors import ProblemError, shown
from spookid.kernels.arrays import Array
from spookid.kernels.precision import MET
from spookid.mechanics.joint_coordinates import disturbance_names
from spookid.mechanics.kinematics import place, rest_positions
from spookid.parameter import stacked, substitute
from spookid.results.result import Solution
from spookid.transcription.factor import measured_noise

Parameters: TypeAlias = Mapping[str, float] | Solution | None
"""Values by name, instead of the problem's initial values; a Solution gives its estimates."""
Initial: TypeAlias = Mapping[str, Any] | Solution | tuple[Any, Any] | None
"""Where a simulation starts: position [rad or m], or (position, rate), of each joint's coordinate by its name (those
not named at rest, where their springs are); or arrays (q, v) of shapes (n_b, 7), (n_b, 6); or a Solution, for its first
estimated state. None: the first state of the parameters if these are a Solution, else the initial value from the
recording, else all joints at rest."""

Noises: TypeAlias = Solution | Mapping[str, float] | None
"""Noise: a Solution, for its estimates; or values by name, process noise of joints [N m/√Hz or N/√Hz] and
standard deviations of signals, of both where a signal is called like a joint. None: nothing is."""


def noise_sizes(problem: Problem, noise: Noises) -> dict[str, float] | None:
    """Simulated noise by names of coordinates and signals (``measured_noise``); None without noise."""
    if noise is None:
        return None
    known = {freedom.label for freedom in problem.model.freedoms} | {o.signal for o in problem.channels}
    if not isinstance(noise, Solution) and (stray := next((name for name in noise if name not in known), None)):
        raise ProblemError(f"{problem.place}: noise names {stray!r}; there are {', '.join(sorted(known))}")
    sizes = given_sizes(problem, noise)
    return {name if kind == "disturbance" else measured_noise(name): size for (kind, name), size in sizes.items()}


def given_sizes(problem: Problem, noise: Noises) -> dict[tuple[str, str], float]:
    """Return given noise by kind and name; a name may select both process and measurement noise."""
    if isinstance(noise, Solution):
        return {(n.kind, m): n.density if n.kind == "disturbance" else n.std for n in noise.noise for m in n.names}
    for name, size in (noise or {}).items():
        if not (isinstance(size, Real) and math.isfinite(size) and size >= 0):
            raise ProblemError(
                f"{problem.place}: noise of {name!r} is {shown(size)}; give a number that is not negative"
            )
    return {(kind, name): float(size) for name, size in (noise or {}).items() for kind in ("disturbance", "sensor")}


def random_impulses(problem: Problem, sizes: Mapping[str, float], steps: int, rng: np.random.Generator) -> Array:
    """Draw the process-noise impulses of each step, (N − 1, n_s + 6 n_free) [N m s, N s]."""
    names = disturbance_names(problem.model)
    deviations = np.sqrt(problem.step) * np.array([sizes.get(name, 0.0) for name in names])
    return np.asarray(deviations * rng.standard_normal((steps, len(names))))


def values_of(problem: Problem, parameters: Parameters) -> dict[str, float]:
    """Check given parameter values by name; raises ProblemError for unknown names and values that are not numbers."""
    given = parameters.values if isinstance(parameters, Solution) else dict(parameters or {})
    known = problem.parameter_set.known
    for name in given:
        if name not in known and not isinstance(parameters, Solution):
            raise ProblemError(f"{problem.what} has no parameter {name!r}; leave it out")
    for name, value in given.items():
        if not isinstance(value, Real):
            raise ProblemError(f"{problem.place}: parameter {name!r} is {shown(value)}; give a number")
    return {name: float(value) for name, value in given.items() if name in known}


def step_grid(problem: Problem, duration: float | None, measured: Grid | None) -> Grid:
    """Return the time grid of a simulation: that of the recording, or of ``duration`` [s] from its start.

    Raises:
        ProblemError: for no duration, or one that is too short.
    """
    if duration is None:
        if measured is None:
            raise ProblemError(f"{problem.what} has no recording; give a duration")
        return measured
    if not (isinstance(duration, Real) and np.isfinite(duration) and duration >= 2 * problem.step):
        raise ProblemError(
            f"{problem.place}: duration is {shown(duration)} s; it must be at least two steps of {problem.step:g} s"
        )
    start = measured.start if measured else 0.0
    return limited(Grid(start, problem.step, int(np.floor(duration / problem.step + 1e-6)) + 1))


def starting_state(problem: Problem, initial: Initial, recording: int) -> Array:
    """Return the requested initial state (13 n_b,) with closed loops; raises ProblemError as ``simulate``."""
    bodies = len(problem.model.bodies)
    if isinstance(initial, Solution):
        initial = initial.trajectories[recording].q[0], initial.trajectories[recording].v[0]
    if isinstance(initial, (tuple, list)):
        q, v = (floats(part, f"initial {name}") for name, part in zip("qv", initial, strict=True))
        if q.shape != (bodies, 7) or v.shape != (bodies, 6):
            raise ProblemError(
                f"initial has q of shape {q.shape} and v of {v.shape}; give shapes ({bodies}, 7) and ({bodies}, 6)"
            )
        return np.concatenate([q.ravel(), v.ravel()])
    values = problem.guess_on(problem.recordings[recording].name if problem.recordings else None)
    return _from_joints(problem, dict(initial or {}), values)


def _from_joints(problem: Problem, initial: dict[str, Any], values: Mapping[str, float]) -> Array:
    """The state on the constraint surface with the named coordinates' positions and rates.

    In a tree the others are at rest where their springs are; in a loop they follow from there, so that it closes.
    """
    model, names = problem.model, [freedom.label for freedom in problem.model.freedoms]
    for name in initial:
        if name not in names:
            raise ProblemError(f"{problem.place}: initial names the joint {name!r}; the model has {', '.join(names)}")
    given = {names.index(name): _position_and_rate(name, value) for name, value in initial.items()}
    moved = rest_positions(model, values)
    for j, pair in given.items():
        moved[j] = pair[0]
    for one in model.filters:  # at rest, they have reached what they follow
        joint, coordinate, of_rate = one.followed
        j, i = model.freedoms_of(one.joint).start, model.freedoms_of(joint).start + coordinate
        given.setdefault(j, np.array([0.0, (*given.get(i, (moved[i], 0.0)), 0.0)[of_rate]]))
    q = place(model, moved[None, :], values)[0]
    moving = sorted(given) if model.has_loops or model.ties else list(range(len(names)))
    if model.has_loops:
        chosen = [model.freedoms[j] for j in moving]
        sensors = [c for f in chosen for c in JointPosition(f.joint, f.label, coordinate=f.index).channels(model)]
        sensors, targets = geared(model, sensors, moved[None, moving], values)
        tracking = Tracking(model, sensors, values)
        x = tracking.settled(tracking.at(moved[None]), targets)
        if np.max(np.abs(tracking.rows(x, targets))) > MET:
            raise ProblemError(
                f"{problem.place}: initial: no pose was found that closes the loop; name other joints, or more"
            )
        q = tracking.poses(x)[0]
    rates = np.array([(*given.get(j, (0.0, 0.0)), 0.0)[1] for j in moving])
    return np.concatenate([q, _velocities(problem, q, moving, rates, values)])


def _position_and_rate(name: str, value: Any) -> Array:
    try:
        pair = np.atleast_1d(np.asarray(value, dtype=float))
    except (TypeError, ValueError):
        pair = np.zeros(0)
    if pair.shape not in ((1,), (2,)) or not np.all(np.isfinite(pair)):
        raise ProblemError(f"initial: joint {name!r} is {shown(value)}; give a position or (position, rate)")
    return pair


def _velocities(problem: Problem, q: Array, moving: list[int], rates: Array, values: Mapping[str, float]) -> Array:
    """Smallest v with G v = 0 and slip rates ``rates`` of the coordinates ``moving``."""
    symbol = ca.SX.sym("q", len(q))
    at = problem.model.mechanics(symbol)
    parameters = stacked(problem.parameter_set.declared)
    rows = ca.Function("rows", [symbol, parameters], [ca.densify(ca.vertcat(at.constraint, at.slip[moving, :]))])
    matrix = rows(q, ca.DM([values[p.name] for p in problem.parameter_set.declared])).full()
    still = ca.SX(ca.DM.zeros(len(problem.model.inputs)))
    speeds = substitute(ca.densify(problem.model.holding.speeds(still)), values)
    wanted = np.concatenate([np.zeros(len(matrix) - len(rates) - len(speeds)), speeds, rates])
    return np.asarray(np.linalg.lstsq(matrix, wanted, rcond=1e-10)[0])
