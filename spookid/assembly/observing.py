"""What is observed, as factors: the residuals of all sensors at a step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import casadi as ca

from spookid.assembly.declaration import Declaration
from spookid.data.sensors import Sensor, State, error, sees_velocities
from spookid.mechanics.model import Model
from spookid.stepping.impulses import Settings
from spookid.transcription.factor import Factor, Group, measured_noise


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
