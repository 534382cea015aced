"""The inside of what ``test_impacts`` tests."""

from __future__ import annotations

from dataclasses import replace

import casadi as ca
import numpy as np
import pytest
from impact_twins import bar, swing, swing_twin
from test_impacts import first, toss

from spookid import Body, FixedLagSmoother, Impact, Model, PointContact, ProblemError, Recording, Spook, gravity
from spookid.assembly.assembly import assemble
from spookid.assembly.schedules import contact_data, schedule, strikes
from spookid.data.sampling import Grid
from spookid.mechanics.joint_coordinates import JointCoordinates
from spookid.stepping.contact_rows import Encounter, Flight


def test_slopes_of_the_reset_map_agree_with_differences() -> None:
    body = Body("body", mass=1.0, inertia=(1, 1, 1), free=True)
    impact = Impact("hit", body.frame(at=(0.1, 0.2, -0.3)), times=[1.0], restitution=0.5, friction=np.inf)
    model = Model([body], constraints=[impact], gravity=gravity(9.81))
    joints, rng = JointCoordinates(model), np.random.default_rng(0)
    pose = np.array([0.1, 0.2, 0.35, *(np.array([1, 0.1, 0.2, -0.1]) / np.linalg.norm([1, 0.1, 0.2, -0.1]))])
    fixed = [ca.SX(pose), ca.SX(pose)]
    z, late = ca.SX.sym("z", 24), ca.SX(0.2)
    parts = [[fixed[i], z[12 * i : 12 * i + 6], z[12 * i + 6 : 12 * i + 12]] for i in range(2)]
    around = [Flight(joints, part, side, ca.SX(0.01)) for part, side in zip(parts, (-2, 2), strict=True)]
    reset = Encounter(impact, joints, around, late, ca.SX(0.01)).reset
    function = ca.Function("reset", [z], [reset, ca.jacobian(reset, z)])
    at = rng.standard_normal(24)
    at[[2, 14]] = -1.2, 0.9
    rows, slopes = (part.full() for part in function(at))
    assert rows.shape == (3, 1)
    step = 1e-6 * np.eye(24)
    differences = np.hstack([(function(at + d)[0] - function(at - d)[0]).full() / 2e-6 for d in step])
    assert np.allclose(slopes, differences, atol=1e-6)


def test_schedules_by_steps() -> None:
    steps, body = Grid(0.0, 0.01, 40), Body("b", mass=1, inertia=(1, 1, 1), free=True)

    def given(times: object, recording: Recording | None = None, **others: object) -> np.ndarray:
        model = Model([body], constraints=[Impact("hit", body.frame(), times=times, **others)], gravity=gravity(9.81))
        held = schedule(model, recording, steps)
        found = strikes(model, recording, steps, held)
        return contact_data(held, found)

    data = given([0.102])
    assert np.flatnonzero(data[:, 1]).tolist() == [8, 9, 10]  # data begin with the step around t_1
    assert data[8:11, 2] == pytest.approx([1.2, 0.2, -0.8])
    assert not np.any(data[:, 0])
    sound = Recording(t=np.arange(0, 0.4, 0.01), signals={"s": np.arange(40) == 12}, name="drop")
    assert np.flatnonzero(given("s", sound)[:, 1]).tolist() == [10, 11, 12]
    assert np.array_equal(given({"drop": [0.102]}, sound), data)
    with pytest.raises(ProblemError, match=r"the impact at 0\.02 s has no 3 steps"):
        given([0.02])
    with pytest.raises(ProblemError, match=r"fewer than 6 steps; make the step smaller than 0\.0067 s"):
        given([0.1, 0.14])
    with pytest.raises(ProblemError, match="happens by the signal 's'; give a recording"):
        given("s")


def test_what_is_refused() -> None:
    body = Body("b", mass=1, inertia=(1, 1, 1), free=True)
    for arguments, words in (
        ({"restitution": 1.2}, "from 0 to 1"),
        ({"friction": -0.1}, "not negative"),
        ({"axes": "xy"}, "without z"),
        ({"times": [0.2, 0.1]}, "rising times"),
        ({"threshold": np.nan}, "threshold"),
        ({"on": body.frame()}, "itself"),
    ):
        with pytest.raises(ProblemError, match=words):
            Impact("hit", body.frame(), **arguments)
    problem = swing(first(swing_twin, 1))
    with pytest.raises(ProblemError, match="no impacts by schedule"):
        problem.simulate(duration=0.1)
    with pytest.raises(ProblemError, match="no contacts that hold"):
        problem.with_(stepper=Spook()).solve()
    with pytest.raises(ProblemError, match="smoother"):
        FixedLagSmoother(problem, window=50)
    hit, thrown = max(t for own in toss().times for t in own), bar([toss()])
    grip = PointContact("grip", thrown.model.bodies[0].frame(), axes="xz", holds=[(hit + 0.03, hit + 0.1)])
    both = replace(thrown.model, constraints=[*thrown.model.constraints, grip])
    with pytest.raises(ProblemError, match="what PointContact 'grip' does at"):
        assemble(thrown.with_(model=both))
