"""The inside of what ``test_planned_standing`` tests."""

from __future__ import annotations

import numpy as np
import pytest
from test_planned_standing import HOME, HOW, LIMITS, NOISE, G, leg

from spookid.studies.excitation_result import Excitation
from spookid.studies.planned_coordinates import PlannedCoordinates
from spookid.studies.planned_motion import planned_recording


@pytest.fixture(scope="module")
def found() -> Excitation:
    return leg().excite(2.0, LIMITS, starts=1, **HOW)


def test_a_leg_on_a_foot_that_stands_is_the_leg_on_the_ground(found: Excitation) -> None:
    """Efforts and errors; the force at the foot by the balance of all that moves."""
    t, ground = found.trajectory.t, leg(floating=False)
    on_ground = planned_recording(ground, t, found.motion)
    for name in ("ankle_tau", "knee_tau", "ankle_q", "knee_q"):
        assert np.allclose(found.trajectory.signals[name], on_ground.signals[name], atol=1e-7)
    expected = ground.expected_errors(on_ground, noise=NOISE)
    assert np.allclose(found.expected.after, expected.after, rtol=0.05), "but for which way is up"
    ankle, knee = found.motion[0].T
    lower, upper = ankle, ankle + knee
    centers = 0.15 * np.stack([np.sin(lower), np.cos(lower)])
    trunks = 2 * centers + 0.2 * np.stack([np.sin(upper), np.cos(upper)])
    momentum = np.gradient(1.0 * centers + 5.0 * trunks, t, axis=1)
    force = np.gradient(momentum, t, axis=1) + np.array([[0.0], [6.5 * G]])
    inner = slice(3, -3)
    assert np.allclose(found.forces["sole"][inner, 0], force[0][inner], atol=0.3)
    assert np.allclose(found.forces["sole"][inner, 2], force[1][inner], atol=0.3)


def test_a_leg_stays_within_all_limits_and_beats_random_motions(found: Excitation) -> None:
    motion, force = found.motion, found.forces["sole"]
    assert np.all((motion[0] >= [0.0, -1.6]) & (motion[0] <= [1.0, -0.1]))
    assert np.all(np.abs(motion[1]) <= 3.0)
    assert np.all(np.abs(found.efforts) <= [12.0, 30.0])
    assert np.all(0.3 * (np.cos(motion[0][:, 0]) - np.cos(HOME["ankle"])) >= -0.02)
    assert np.all(np.hypot(force[:, 0], force[:, 1]) <= 0.3 * force[:, 2])
    assert np.all(force[:, 2] >= 20.0)
    assert found.found < found.random.min() - 0.2
    assert not found.notices, "the search converges"
    assert "friction used" in str(found)


def test_poses_follow_the_last_motion_as_they_do_home() -> None:
    coordinates, rng = PlannedCoordinates(leg(), np.zeros(2), HOME), np.random.default_rng(0)
    home = coordinates.home[0]
    far = home + 0.3 * np.sin(np.linspace(0, 3, 40))[:, None] * rng.standard_normal(len(home))
    by_home = coordinates.closed(far)
    near = coordinates.closed(far, (far + 0.05, coordinates.closed(far + 0.05)))
    assert np.allclose(near, by_home, atol=1e-8)
    assert np.all(np.isnan(coordinates.closed(far + np.where(np.arange(40) == 20, 2.0, 0.0)[:, None])))
