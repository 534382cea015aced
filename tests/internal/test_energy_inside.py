"""The inside of what ``test_energy`` tests."""

from __future__ import annotations

import casadi as ca
import numpy as np
import pytest
from mechanisms import Array
from test_energy import WIDTH, _state, motion, problem

from spookid import EnergyBalance, Problem, State
from spookid.assembly.assembly import assemble


def rows(one: Problem, h: float) -> tuple[Array, Array]:
    """The balance in J and its sigma, at the true states."""
    residual, model, recording = EnergyBalance(), one.model, one.recordings[0]
    _, angle, rate = motion(h / 5)
    sampled = assemble(one).sampled[0]
    data = residual.measured(recording, model, one.channels, sampled.grid, one.guess, sampled.guess.states)
    before, after = (State.symbols(model, joints=True) for _ in range(2))
    widths, work = ca.SX.sym("width", 1), ca.SX.sym("work", data.shape[1])
    before = State(model, before.q, before.v, before.a, before.inputs, before.step, before.joints, widths)
    given = [before.q, before.v, *before.joints, after.q, after.v, *after.joints, before.step, widths, work]
    balance = residual.rows(before, after, data=work)
    function = ca.Function("r", [*given, ca.vertcat(*one.parameters)], [balance])
    states = [_state(a, s) for a, s in zip(angle[::5], rate[::5], strict=True)]
    known = [one.guess[p.name] for p in one.parameters]
    pairs = zip(states[:-1], states[1:], data, strict=True)
    found = [float(function(*x, *y, h, WIDTH, d, known)) for x, y, d in pairs]
    return np.array(found) * data[:, -1], data[:, -1]


@pytest.mark.parametrize("rates", [True, False])
def test_on_the_exact_motion_it_vanishes_to_third_order(rates: bool) -> None:
    off = []
    for h in (0.04, 0.02):
        found, sigma = rows(problem(h, rates=rates), h)
        off.append(np.sqrt(np.mean(found**2)))
        assert off[-1] < np.sqrt(np.mean(sigma**2))  # the floor is there, and no less than the error
    assert 5 < off[0] / off[1] < 14
    work = np.sqrt(np.mean(np.diff(motion(0.02)[2] ** 2) ** 2))
    assert off[1] < 0.05 * work


def test_it_scatters_as_it_says() -> None:
    share = [found / sigma for found, sigma in (rows(problem(0.01, seed), 0.01) for seed in range(3))]
    assert np.sqrt(np.mean(np.square(share))) == pytest.approx(1.0, abs=0.1)
