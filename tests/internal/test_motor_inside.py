"""The inside of what ``test_motor`` tests."""

from __future__ import annotations

from dataclasses import replace

import pytest
from mechanisms import pendulum

from spookid import Motor, Parameter
from spookid.parameter import parameters_in, substitute


def test_a_motor_without_them_is_what_it_was():
    pin = pendulum().joints[0]
    plain, whole = Motor(pin, "u", 0.3, 1e-3), Motor(pin, "u", gain=0.3, shaft_inertia=1e-3, ratio=1, rotor_inertia=0)
    for motor in (plain, whole):
        assert (float(motor.unit_effort), float(motor.damping), float(motor.inertia)) == (0.3, 0.0, 1e-3)
    assert float(Motor(pin, "u").unit_effort) == 1.0
    k = Parameter("k", 0.1)
    for given in ({"gain": 2 * k}, {"torque_constant": k}, {"torque_constant": k, "resistance": 1 + k}):
        motor = replace(Motor(pin, "u", ratio=3, **given), shaft_inertia=1e-3)
        assert [p.name for p in parameters_in(motor.expressions(), "it")] == ["k"]
        gain = 0.2 if "gain" in given else 0.1 / (1.1 if "resistance" in given else 1)
        assert substitute(motor.unit_effort, {"k": 0.1})[0] == pytest.approx(3 * gain)
