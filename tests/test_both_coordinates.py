"""Estimates in joint and in maximal coordinates, which differ by what the step makes: by h² in both."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal

import numpy as np
import pytest
from mechanisms import Array, furuta, pendulum
from test_loops import BASE, LENGTHS, MASSES, closed, linkage

from spookid import (
    GROUND,
    Body,
    FullInertia,
    Hinge,
    HingeAngle,
    JointTorque,
    Model,
    Parameter,
    Problem,
    Recording,
    Status,
    gravity,
)

STEPS = (0.02, 0.01)


@dataclass(frozen=True)
class Release:
    """A mechanism that is let go, with some unknown parameters."""

    truth: Mapping[str, float]
    model: Callable[[Mapping[str, Any]], Model]
    start: Mapping[str, float]
    seen: tuple[str, ...]
    """Hinges whose angles are."""

    @property
    def unknown(self) -> Model:
        """With guesses that are off by a fifth."""
        return self.model({name: Parameter(name, 1.2 * value, lower=0.0) for name, value in self.truth.items()})


def arm(p: Mapping[str, Any]) -> Model:
    """Three links whose axles are not parallel; the last one has a centre of mass and products of inertia."""
    trunk = Body("trunk", mass=1.5, inertia=(0.01, 0.02, p["J"]))
    upper = Body("upper", mass=0.8, inertia=(0.002, 0.01, 0.01))
    hand = Body("hand", inertia=FullInertia(0.5, (p["c"], 0.02, -0.01), inertia=(0.002, 0.003, 0.004, 5e-4, 0, 3e-4)))
    up, across = {"x": (0, 0, 1), "y": (1, 0, 0)}, {"x": (0, 1, 0), "y": (1, 0, 0)}
    yaw = Hinge("yaw", GROUND.frame(**up), trunk.frame(**up), viscous=0.02)
    lift = Hinge("lift", trunk.frame(at=(0.1, 0, 0.2), **across), upper.frame(at=(-0.15, 0, 0), **across), viscous=0.02)
    turn = Hinge(
        "turn", upper.frame(at=(0.15, 0, 0)), hand.frame(at=(0, 0, 0), x=(0, 0, 1), y=(1, 0, 0)), viscous=p["b"]
    )
    return Model([trunk, upper, hand], [yaw, lift, turn], gravity=gravity(9.81))


def four_bar(p: Mapping[str, Any]) -> Model:
    return linkage(LENGTHS, BASE, MASSES, (2e-4, 2.5e-3, p["I"]), viscous=p["b"], gain=0.0)


RELEASES = {
    "pendulum": Release(
        {"J": 0.005, "b": 0.004}, lambda p: pendulum(inertia=p["J"], viscous=p["b"]), {"hinge": 1.5}, ("hinge",)
    ),
    "Furuta": Release(
        {"J_A": 0.003, "J_B": 0.004, "b": 5e-3},
        lambda p: furuta(inertias=(p["J_A"], p["J_B"], 0.004), shoulder={"viscous": p["b"]}, elbow={"viscous": 1e-3}),
        {"shoulder": 0.3, "elbow": 2.0},
        ("shoulder", "elbow"),
    ),
    "four-bar": Release({"I": 4e-3, "b": 0.01}, four_bar, closed(LENGTHS, BASE, 0.5), ("drive", "pivot")),
    "arm": Release(
        {"J": 0.02, "c": 0.08, "b": 0.01}, arm, {"yaw": 0.0, "lift": -0.5, "turn": 1.0}, ("yaw", "lift", "turn")
    ),
}


@cache
def recorded(name: str) -> Recording:
    """One second, as the mechanism moves without steps."""
    release = RELEASES[name]
    model = release.model(release.truth)
    observed = [HingeAngle(joint, joint.name) for joint in model.joints if joint.name in release.seen]
    run = Problem(name, model, observations=observed, step=STEPS[-1]).simulate(
        duration=1.0, initial=release.start, inputs=still(model)
    )
    return Recording(run.t, run.signals)


def still(model: Model) -> Recording | None:
    """No input."""
    t = np.linspace(0, 1, 101)
    return Recording(t, {signal: np.zeros_like(t) for signal in model.signals}) if model.signals else None


def errors(name: str, coordinates: Literal["joint", "maximal"]) -> Array:
    """Of the estimates over the truth at each step, (steps, n_p)."""
    release, found = RELEASES[name], []
    model = replace(release.unknown, coordinates=coordinates)
    observed = [HingeAngle(joint, joint.name, sigma=1e-3) for joint in model.joints if joint.name in release.seen]
    problem = Problem(name, model, [recorded(name)], observed, state_weight=1e6, every=1)
    for step in STEPS:
        solution = problem.solve(step=step)
        assert solution.status is Status.CONVERGED
        found.append([solution[key].estimate / value - 1 for key, value in release.truth.items()])
    return np.array(found)


@pytest.mark.study
@pytest.mark.parametrize("name", RELEASES)
def test_estimates_differ_by_the_square_of_the_step(name: str) -> None:
    found = np.array([errors(name, "joint"), errors(name, "maximal")])
    apart = np.abs(found[0] - found[1]).max(axis=1)
    assert apart[0] > 1e-4
    assert apart[1] < apart[0] / 3
    off = np.abs(found).max(axis=2)
    assert np.all(off[:, 1] < off[:, 0] / 3)
    assert np.all(off[:, 1] < 0.12)  # of the coupler's share in a linkage that swings at 4 Hz; of others less than 0.04


def believed(name: str, mass: float, centre: tuple[float, ...], inertia: tuple[float, ...]) -> Body:
    """A link all of whose inertia is unknown, and believed within 30 %."""
    m = Parameter(f"{name}_m", mass, lower=0)
    c = [Parameter(f"{name}_c{axis}", value) for axis, value in zip("xyz", centre, strict=True)]
    axes = ("xx", "yy", "zz", "xy", "xz", "yz")
    moments = [Parameter(f"{name}_I{pair}", value) for pair, value in zip(axes, inertia, strict=True)]
    return Body(name, inertia=FullInertia(m, c, inertia=moments, within=0.3))


def measured(coordinates: Literal["joint", "maximal"]) -> Problem:
    """Two links driven by torques that are measured, with white noise of 0.02 N m and 0.1 mrad."""
    upper = believed("upper", 1.2, (0.02, 0.15, 0.01), (0.02, 0.004, 0.02, 0.001, 0, 0))
    lower = believed("lower", 0.8, (0.01, 0.12, 0.02), (0.01, 0.002, 0.01, 0, 0, 5e-4))
    up, along = {"x": (0, 0, 1), "y": (1, 0, 0)}, {"x": (1, 0, 0), "y": (0, 1, 0)}
    yaw = Hinge("yaw", GROUND.frame(**up), upper.frame(**up), viscous=0.05)
    roll = Hinge("roll", upper.frame(at=(0, 0.3, 0), **along), lower.frame(**along), viscous=0.05)
    model = Model([upper, lower], [yaw, roll], gravity=gravity(9.81), coordinates=coordinates)
    sensors = [HingeAngle(joint, f"angle of {joint.name}") for joint in (yaw, roll)]
    torques = [JointTorque(joint, f"torque of {joint.name}") for joint in (yaw, roll)]
    t, rng = 0.01 * np.arange(801), np.random.default_rng(1)
    w, phases = 0.2 * np.pi * np.arange(1, 7)[:, None, None], rng.uniform(0, 2 * np.pi, (6, 1, 2))
    turns = (w * t[:, None] + phases + i * np.pi / 2 for i in range(3))
    motion = [0.3 * np.sum(w**i * np.sin(angle), axis=0) for i, angle in enumerate(turns)]
    problem = Problem("arm", model, [], [*sensors, *torques], step=0.01)
    driven = problem.inverse_dynamics({"lower_cz": 0.022, "lower_Ixx": 0.0105}, motion=tuple(motion)).predicted
    noisy = np.hstack(
        [motion[0] + 1e-4 * rng.normal(size=motion[0].shape), driven + 0.02 * rng.normal(size=driven.shape)]
    )
    names = [sensor.signal for sensor in problem.observations]
    return problem.with_(recordings=[Recording(t, dict(zip(names, noisy.T, strict=True)))])


@pytest.mark.study
def test_measured_torques_and_weak_priors_lead_to_the_same_inertias() -> None:
    """Nothing but the squares may move what priors alone tell: the volume of the states is another at each inertia."""
    problems, apart = [measured("joint"), measured("maximal")], []
    for step in (0.04, 0.02):
        one, other = (problem.solve(step=step, step_correction=False) for problem in problems)
        assert one.status is other.status is Status.CONVERGED
        assert max(one.iterations, other.iterations) < 15
        pairs = [(value, other.base_parameters[name]) for name, value in one.base_parameters.items()]
        assert len(pairs) == 8
        apart.append(max(abs(a.estimate - b.estimate) / a.std_err for a, b in pairs))
    assert 0.1 < apart[0] < 1.5
    assert apart[1] < apart[0] / 3
