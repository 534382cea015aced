"""What is observed, and residuals of the user's own, as factors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import casadi as ca
import numpy as np

from spookid.assembly.declaration import Declaration
from spookid.data.residual import Residual
from spookid.data.sensors import Sensor, State, error, sees_velocities
from spookid.kernels.kernel import Array, contiguous
from spookid.mechanics.model import Model
from spookid.stepping.impulses import Settings
from spookid.transcription.factor import Factor, Group, Kind, measured_noise


def groups(problem: Declaration) -> dict[str, list[Sensor]]:
    """Name of an observation factor to its sensors: those that see velocities may reach over several steps."""
    found: dict[str, list[Sensor]] = {"observation": [], "rate observation": []}
    for sensor in problem.observations:
        found["rate observation" if sees_velocities(sensor, problem.model) else "observation"].append(sensor)
    return {name: sensors for name, sensors in found.items() if sensors}


def factors(problem: Declaration, settings: Settings, model: Model) -> list[Factor]:
    """One a group, with the problem's model or one that differs from it in numbers."""
    return [_observe(problem, settings, name, sensors, model) for name, sensors in groups(problem).items()]


def _observe(problem: Declaration, settings: Settings, name: str, sensors: list[Sensor], model: Model) -> Factor:
    variables, q, v = problem.scheme.window(model, settings, name == "rate observation")
    sigmas = ca.vertcat(*(settings.sensors[problem.observations.index(sensor)] for sensor in sensors))
    return observation_factor(name, sensors, sigmas, variables, State(problem.model, q, v))


def residuals(problem: Declaration, settings: Settings, model: Model) -> list[Factor]:
    """The user's own."""
    return [_residual(problem, settings, residual, model) for residual in problem.residuals]


def _residual(problem: Declaration, settings: Settings, residual: Residual, model: Model) -> Factor:
    signals = problem.model.signals
    data = [ca.SX.sym("u", len(signals)) for _ in range(residual.states)]
    inputs = [dict(zip(signals, ca.vertsplit(u), strict=True)) if signals else {} for u in data]
    variables, motions = windows(problem, settings, model, residual.states, sees_rates(residual, problem.model))
    pairs = zip(motions, inputs, strict=True)
    rows = residual.rows(*(State(problem.model, q, v, u, settings.step) for (q, v), u in pairs))
    labels = tuple(f"{residual.name}.{i}" for i in range(rows.numel())) if rows.numel() > 1 else (residual.name,)
    whitened = residual.whitening(rows.numel()) @ rows
    kind = Kind(residual.kind)
    return Factor(
        f"residual {residual.name}", Group.RESIDUAL, whitened, variables, ca.vertcat(*data), labels, kind=kind
    )


def residual_data(residual: Residual, factor: Factor, inputs: Array) -> Array:
    """Of its factor: the inputs at each of its states, (count, n)."""
    count = factor.count(len(inputs))
    first = (factor.reach - residual.states + 1) // 2
    return contiguous(np.hstack([inputs[first + i : first + i + count] for i in range(residual.states)]))


def windows(
    problem: Declaration, settings: Settings, model: Model, count: int, rates: bool
) -> tuple[dict[int, ca.SX], list[tuple[ca.SX, ca.SX]]]:
    """The unknowns, by offset, that states at neighbouring steps are made of, and q and v of each."""
    variables: dict[int, ca.SX] = {}
    motions = []
    for i in range(count):
        own, q, v = problem.scheme.window(model, settings, rates)
        for offset, symbol in own.items():
            q, v = ca.substitute([q, v], [symbol], [variables.setdefault(offset + i, symbol)])
        motions.append((q, v))
    return dict(sorted(variables.items())), motions


def sees_rates(residual: Residual, model: Model) -> bool:
    """True if it depends on velocities."""
    states = [State.symbols(model) for _ in range(residual.states)]
    rows = residual.rows(*states)
    return any(ca.jacobian(rows, state.v).nnz() > 0 for state in states)


def observation_factor(
    name: str, sensors: Sequence[Sensor], sigmas: ca.SX, variables: Mapping[int, ca.SX], state: State
) -> Factor:
    """Observations of one step: (predicted − measured)/σ (Δy, equation 3.6).

    The step's data are the measured values followed by a mask, 1 where there is a sample and 0 where it is missing.

    Args:
        sigmas: symbols of σ, one a sensor.
        variables: unknowns of the steps that ``state`` is written in.
    """
    n = len(sensors)
    data = ca.SX.sym("y", 2 * n)
    rows = [data[n + i] * error(sensor, state, data[i]) / sigmas[i] for i, sensor in enumerate(sensors)]
    labels = tuple(f"observation of {sensor.signal}" for sensor in sensors)
    noise = tuple(measured_noise(sensor.signal) for sensor in sensors)
    return Factor(name, Group.OBSERVATION, ca.vertcat(*rows), variables, data, labels, noise=noise)
