"""The inside of what ``test_loops`` tests."""

from __future__ import annotations

import pytest
from test_loops import KNOWN, noisy, problem

from spookid import Model, Motor, ProblemError, Spook, Variational
from spookid.assembly.assembly import assemble

# --- forward ---


@pytest.mark.parametrize("stepper", [pytest.param(Spook(), marks=pytest.mark.study), Variational()])
def test_a_loop_is_cut_where_no_effort_is_measured(stepper):
    """Noise of a measured effort has a row of its own wherever its joint stands in the loop."""
    joints, run = KNOWN.joints, noisy().between(0.0, 0.2)
    for i, j in ((0, 3), (2, 3), (1, 2)):
        motors = [Motor(joints[i], "u", measured=True), Motor(joints[j], "x", measured=True)]
        model = Model(KNOWN.bodies, joints, motors, gravity=KNOWN.gravity)
        assert {joints[i], joints[j]} <= set(model.tree())
        assembly = assemble(problem(model, recordings=[run], step=0.01, stepper=stepper))
        assert {"measurement of u", "measurement of x"} <= set(assembly.transcription.motion.noise)
    assert Model(KNOWN.bodies, joints, gravity=KNOWN.gravity).tree() == list(joints[:3])
    every = [Motor(joint, f"u_{joint.name}", measured=True) for joint in joints]
    given = run.with_signals(**{motor.signal: 0 * run.t for motor in every})
    with pytest.raises(ProblemError, match="pivot is measured, as that of every joint of a loop"):
        assemble(
            problem(
                Model(KNOWN.bodies, joints, every, gravity=KNOWN.gravity),
                recordings=[given],
                step=0.01,
                stepper=Spook(),
            )
        )


# --- soft joints ---
