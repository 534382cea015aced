"""The inside of what ``test_contacts`` tests."""

from __future__ import annotations

import casadi as ca
import numpy as np
import pytest
from test_contacts import AXIS, chain, hopper, somewhere
from test_contacts import jump as jump

from spookid import Body, Model, PointContact, Recording, Weld, gravity
from spookid.assembly.assembly import assemble
from spookid.assembly.schedules import contact_data, idle_findings, schedule, unsettled_findings
from spookid.data.sampling import Grid
from spookid.stepping.contact_rows import ContactRows, Schedule, StepMotion
from spookid.stepping.impulses import Settings


@pytest.mark.parametrize("kind", [PointContact, Weld])
def test_rates_are_those_of_the_place_and_the_acceleration_is_theirs(kind):
    bodies, joints = chain()
    other = Body("box", mass=1.0, inertia=(0.1, 0.1, 0.1), free=True)
    contact = kind("c", bodies[2].frame(at=(0.1, 0.2, 0.3), **AXIS), other.frame(at=(0, 0.1, 0), x=(0, 0, 1)))
    model = Model([*bodies, other], joints, constraints=[contact], gravity=gravity(9.81))
    q, v, a = somewhere(model, np.random.default_rng(0))
    space, e = model.configuration, 1e-4

    def moved(t: float) -> ca.SX:
        there = space.retract(ca.SX(q), ca.SX(v * t + a * t**2 / 2))
        return contact.moved(contact.place_of(model, there), contact.place_of(model, ca.SX(q)))

    number = [np.asarray(ca.DM(moved(t)).full())[:, 0] for t in (-2 * e, -e, 0, e, 2 * e)]
    rate = (number[0] - 8 * number[1] + 8 * number[3] - number[4]) / (12 * e)
    assert np.allclose(rate, ca.DM(contact.rates(model, ca.SX(q), ca.SX(v))).full()[:, 0], atol=1e-9)
    rows = ContactRows(model, Settings.of(model), StepMotion(*map(ca.SX, (q, v, a)), [], []), Schedule.of(model), {})
    quickening = ca.DM(rows.derivatives(contact)[1]).full()[:, 0]
    # The logarithm is that of a turn from where the frame is, whose second derivative is the angular acceleration.
    second = (-number[0] + 16 * number[1] - 30 * number[2] + 16 * number[3] - number[4]) / (12 * e**2)
    assert np.allclose(second, quickening, atol=1e-5)


def test_contacts_that_never_hold_are_told(jump: Recording) -> None:
    findings = assemble(hopper([jump], holds="down", threshold=1000)).findings
    assert any((one.code, one.subject) == ("contacts.idle", ("toe", "jump")) for one in findings)
    steps = Grid(0.0, 0.01, 121)
    for holds, count in (([], 1), ([(10.0, 20.0)], 1), ("down", 0)):
        model = hopper([], holds=holds).model
        assert len(idle_findings(model, [(jump, schedule(model, jump, steps))])) == count
    assert "at times when PointContact 'toe' was open" in unsettled_findings(hopper([jump]).model)[0].text


def test_schedules_by_steps() -> None:
    model, steps = hopper([], holds=[(0.02, 0.05), (0.07, 0.2)]).model, Grid(0.0, 0.01, 11)
    held = schedule(model, None, steps)
    assert held[:, 0].tolist() == [0, 0, 1, 1, 1, 0, 0, 1, 1, 1]
    holds, may = contact_data(held).T
    assert holds.tolist() == held[1:, 0].tolist()
    assert may.tolist() == [1, 0, 0, 0, 1, 1, 0, 0, 0]
    signal = Recording(t=[0.0, 0.015, 0.045], signals={"f": [0.0, 30.0, 5.0]})
    by_signal = hopper([], holds="f", threshold=20).model
    assert schedule(by_signal, signal, steps)[:, 0].tolist() == [0, 0, 1, 1, 0, 0, 0, 0, 0, 0]
    by_name = hopper([], holds={"walk": "f", "stand": True}, threshold=20).model
    walk, stand = (Recording(t=signal.t, signals=signal.signals, name=name) for name in ("walk", "stand"))
    assert schedule(by_name, walk, steps).tolist() == schedule(by_signal, signal, steps).tolist()
    assert np.all(schedule(by_name, stand, steps) == 1)
