"""The inside of what ``test_simulation`` tests."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
from mechanisms import OneStep, hub, joint_state, pendulum
from test_simulation import swung as swung

from spookid import Parameter, Spook, StepFailedError
from spookid.stepping.simulation import NewtonStepper, march
from spookid.stepping.spook import Settings
from spookid.studies import simulating
from spookid.transcription.factor import Constant

# --- where it starts ---


def test_a_simulation_that_is_going_to_take_long_says_so(swung, monkeypatch):
    work, wall = itertools.count(step=0.5), itertools.count(step=0.5)
    clocks = SimpleNamespace(process_time=lambda: next(work), perf_counter=lambda: next(wall))
    monkeypatch.setattr(simulating, "time", clocks)
    with pytest.warns(
        RuntimeWarning, match=r"100 steps of 0.01 s will take about \d+ s; to shorten it, take a larger step"
    ):
        swung.simulate(duration=1.0)


# --- how it fails ---


def test_parameters_that_are_not_numbers_fail_at_the_first_step():
    b = Parameter("b", 1.0)
    model = pendulum(viscous=b)
    settings = Settings.of(model)
    values = [(settings.step, 0.01), (settings.slip_width, 0.01), (settings.impulse_width, 1e-3), (b, np.nan)]
    stepper = NewtonStepper(Spook().forward(model, settings), [Constant(*pair) for pair in values])
    start = np.concatenate(joint_state(pendulum(), [1.0], [0.0]))
    with pytest.raises(StepFailedError, match="step 1 was not solved") as caught:
        march(stepper, start, np.zeros((5, 0)))
    np.testing.assert_array_equal(caught.value.states, start[None, :])


def test_motion_up_to_a_failure_is_kept():
    model = hub(motor={"gain": 1.0})
    stepper = OneStep(model, h=0.01).stepper
    start = np.concatenate(joint_state(hub(), [0.0], [1.0]))
    with pytest.raises(StepFailedError, match="step 3 was not solved") as caught:
        march(stepper, start, np.array([[0.0], [0.0], [np.nan], [0.0]]))
    assert caught.value.states.shape == (3, 13)
    assert np.all(np.isfinite(caught.value.states))
