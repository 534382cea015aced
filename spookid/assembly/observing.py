"""What is observed, and residuals of the user's own, as factors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import casadi as ca
import numpy as np

from spookid.assembly.declaration import Declaration
from spookid.data.channels import Channel, order, whitened
from spookid.data.residual import Residual
from spookid.data.state import State
from spookid.kernels.kernel import Array, contiguous
from spookid.mechanics.model import Model
from spookid.stepping.impulses import Settings
from spookid.transcription.factor import Factor, Group, Kind, measured_noise

_ORDERS = ("observation", "rate observation", "acceleration observation")
"""Names of factors by the time derivatives that they see."""


def groups(problem: Declaration) -> dict[str, list[Channel]]:
    """Name of an observation factor to its channels: those that see velocities may reach over several steps."""
    found: dict[str, list[Channel]] = {name: [] for name in _ORDERS}
    for channel in problem.channels:
        found[_ORDERS[order(channel, problem.model)]].append(channel)
    return {name: channels for name, channels in found.items() if channels}


def observation_factors(problem: Declaration, settings: Settings, model: Model) -> list[Factor]:
    """One a group, with the problem's model or one that differs from it in numbers."""
    return [_observe(problem, settings, name, sensors, model) for name, sensors in groups(problem).items()]


def _observe(problem: Declaration, settings: Settings, name: str, sensors: list[Channel], model: Model) -> Factor:
    window = problem.scheme.window(model, settings, _ORDERS.index(name))
    sigmas = ca.vertcat(*(settings.sensors[problem.channels.index(sensor)] for sensor in sensors))
    state = State(problem.model, window.q, window.v, window.a)
    estimated = problem.dynamics == "estimated"
    return observation_factor(name, sensors, sigmas, window.variables, state, estimated)


def residual_factors(problem: Declaration, settings: Settings, model: Model) -> list[Factor]:
    """The user's own."""
    return [_residual(problem, settings, residual, model) for residual in problem.residuals]


def _residual(problem: Declaration, settings: Settings, residual: Residual, model: Model) -> Factor:
    signals = problem.model.signals
    data = [ca.SX.sym("u", len(signals)) for _ in range(residual.states)]
    inputs = [dict(zip(signals, ca.vertsplit(u), strict=True)) if signals else {} for u in data]
    variables, motions = windows(problem, settings, model, residual.states, residual.order(problem.model))
    pairs = zip(motions, inputs, strict=True)
    rows = residual.rows(*(State(problem.model, q, v, a, u, settings.step) for (q, v, a), u in pairs))
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
    problem: Declaration, settings: Settings, model: Model, count: int, order: int
) -> tuple[dict[int, ca.SX], list[tuple[ca.SX, ca.SX, ca.SX]]]:
    """The unknowns, by offset, that states at neighbouring steps are made of, and (q, v, a) of each."""
    variables: dict[int, ca.SX] = {}
    motions = []
    for i in range(count):
        window = problem.scheme.window(model, settings, order)
        q, v, a = window.q, window.v, window.a
        for offset, symbol in window.variables.items():
            q, v, a = ca.substitute([q, v, a], [symbol], [variables.setdefault(offset + i, symbol)])
        motions.append((q, v, a))
    return dict(sorted(variables.items())), motions


def observation_factor(
    name: str,
    sensors: Sequence[Channel],
    sigmas: ca.SX,
    variables: Mapping[int, ca.SX],
    state: State,
    estimated: bool,
) -> Factor:
    """Observations of one step: (predicted − measured)/σ (Δy, equation 3.6), with the sensor's loss.

    The step's data are the measured values followed by a mask, 1 where there is a sample and 0 where it is missing.

    Args:
        sigmas: symbols of σ, one a sensor.
        variables: unknowns of the steps that ``state`` is written in.
        estimated: True if sizes of noise that are not given are estimated.
    """
    n = len(sensors)
    data = ca.SX.sym("y", 2 * n)
    rows = [
        data[n + i] * whitened(sensor, sensor.predicted(state), data[i], sigmas[i], estimated)
        for i, sensor in enumerate(sensors)
    ]
    labels = tuple(f"observation of {sensor.signal}" for sensor in sensors)
    noise = tuple(measured_noise(sensor.signal) for sensor in sensors)
    return Factor(name, Group.OBSERVATION, ca.vertcat(*rows), variables, data, labels, noise=noise)
