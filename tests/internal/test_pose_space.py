"""The rows of a likelihood in the poses of all bodies, against those of ``variational`` and of joint coordinates."""

from __future__ import annotations

from dataclasses import replace

import casadi as ca
import numpy as np
import pytest
from mechanisms import function, furuta, maximal, of_all_bodies, pendulum, twin
from test_joint_coordinates import H, along_a_path, model, numbers, poses, rates, residual
from test_loops import BASE, LENGTHS, MASSES, closed, linkage

from spookid import Model, Parameter, Recording, Status, Variational
from spookid.mechanics.joint_coordinates import JointCoordinates
from spookid.stepping.impulses import DryFriction, Settings
from spookid.stepping.joint_space import JointSpace, PoseSpace

__all__ = ["model"]


def test_rows_are_the_virtual_work_of_those_of_all_bodies(model: Model) -> None:
    """Exactly, for the λ that the step itself finds."""
    u, settings, x = (
        np.random.default_rng(7).normal(size=len(model.signals)),
        Settings.of(model),
        along_a_path(model, H),
    )
    q = [poses(model, row) for row in x]
    impulse, *joints = PoseSpace().factors(model, settings)
    step = PoseSpace().multipliers_along(model, settings)
    symbols, values = numbers(model, settings, 1.0, H)
    arguments = [*step.variables.values(), step.data, ca.vertcat(*symbols)]
    borne = function([step.value], arguments)(*q, u, values)[0]
    whole = of_all_bodies(model, settings)
    p = residual(model, settings, whole, [np.concatenate([row, borne]) for row in q], u)
    expected = rates(model, x[1]).T @ p
    assert np.abs(expected).max() > 1e-4
    np.testing.assert_allclose(residual(model, settings, impulse, q, u), expected, atol=1e-12)
    assert impulse.noise == JointSpace().factors(model, settings)[0].noise
    assert [len(f.rows) for f in joints] == ([model.rows] if model.rows else [])


def test_the_scheme_follows_the_coordinates() -> None:
    for declared, kind in ((pendulum(), JointSpace), (maximal(pendulum()), PoseSpace)):
        assert isinstance(Variational().fitting(declared, DryFriction(), "estimated"), kind)


def test_cut_joints_have_private_unknowns() -> None:
    bars = linkage(LENGTHS, BASE, MASSES, (2e-4, 2.5e-3, 4e-3), viscous=0.01, gain=0.0)
    impulse, joints = PoseSpace().factors(bars, Settings.of(bars))
    coordinates, first = JointCoordinates(bars), bars.configuration.tangent
    hidden = coordinates.private
    assert impulse.private == (1, range(first, first + hidden))
    assert PoseSpace().manifold(bars).tangent == first + hidden
    assert joints.hard
    assert len(joints.rows) == bars.rows


TWINS = {
    "Furuta": (
        lambda p: furuta(inertias=(p["J"], 0.004, 0.004), shoulder={"viscous": p["b"]}, elbow={"viscous": 1e-3}),
        {"J": 0.003, "b": 5e-3},
        {"shoulder": 0.3, "elbow": 2.0},
    ),
    "four-bar": (
        lambda p: linkage(LENGTHS, BASE, MASSES, (2e-4, 2.5e-3, p["J"]), viscous=p["b"], gain=0.0),
        {"J": 4e-3, "b": 0.01},
        closed(LENGTHS, BASE, 0.5),
    ),
}


@pytest.mark.study
@pytest.mark.parametrize("name", TWINS)
def test_fits_recover_what_their_own_step_simulated(name: str) -> None:
    declare, truth, start = TWINS[name]
    bodies = declare({key: Parameter(key, 1.2 * value, lower=0) for key, value in truth.items()})
    still = {signal: np.zeros(81) for signal in bodies.signals}
    problem = twin(
        maximal(bodies),
        truth,
        initial=start,
        duration=0.8,
        step=0.01,
        noise=1e-3,
        stepper=Variational(),
        inputs=Recording(np.linspace(0, 0.8, 81), still) if still else None,
    )
    fits = {c: problem.with_(model=replace(bodies, coordinates=c)).solve() for c in ("maximal", "joint")}
    for key, value in truth.items():
        found, other = fits["maximal"][key], fits["joint"][key]
        assert fits["maximal"].status is Status.CONVERGED
        assert abs(found.estimate - value) < 4 * found.std_err
        assert found.std_err < 0.05 * value
        assert abs(found.estimate - other.estimate) < 0.1 * value  # the square of a long step
