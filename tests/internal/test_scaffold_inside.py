"""The inside of what ``test_scaffold`` tests."""

from __future__ import annotations

import pytest

from spookid.robots.logs import match

JOINTS = ["shoulder_pan_joint", "shoulder_lift_joint", "elbow_joint"]


@pytest.mark.parametrize(
    ("columns", "positions", "efforts", "kind"),
    [
        (["t", "q1", "q2", "q3", "i1", "i2", "i3"], ["q1", "q2", "q3"], ["i1", "i2", "i3"], "current"),
        (
            ["q_0", "q_1", "q_2", "time", "tau_0", "tau_1", "tau_2"],
            ["q_0", "q_1", "q_2"],
            ["tau_0", "tau_1", "tau_2"],
            "torque",
        ),
        (
            ["timestamp", "elbow_pos", "shoulder_lift_pos", "shoulderPanJoint.position", "elbow_effort"],
            ["shoulderPanJoint.position", "shoulder_lift_pos", "elbow_pos"],
            [None, None, "elbow_effort"],
            "torque",
        ),
        (["Time", *JOINTS], JOINTS, [None] * 3, ""),
        (
            ["t", "position[0]", "position[1]", "velocity[0]", "u[1]"],
            ["position[0]", "position[1]", None],
            [None, "u[1]", None],
            "voltage",
        ),
    ],
)
def test_columns_are_known_by_their_names(
    columns: list[str], positions: list[str | None], efforts: list[str | None], kind: str
) -> None:
    found = match(columns, JOINTS)
    assert found.time.lower().startswith("t")
    assert [found.positions.get(joint) for joint in JOINTS] == positions
    assert [found.efforts.get(joint) for joint in JOINTS] == efforts
    assert found.effort == kind


def test_a_letter_is_the_name_of_a_joint_beside_words_of_kinds() -> None:
    found = match(["t", "a", "a_effort", "b_pos", "effort_b", "b_temperature", "x a effort"], ["a", "b"])
    assert (found.positions, found.efforts) == ({"a": "a", "b": "b_pos"}, {"a": "a_effort", "b": "effort_b"})


def test_columns_that_are_no_measurements_are_listed() -> None:
    found = match(["t", "q1", "qd1", "tau1", "current_1", "torque_desired_1", "q9", "weather"], JOINTS)
    assert (list(found.positions.values()), list(found.efforts.values())) == (["q1"], ["tau1"])
    assert found.unused == {
        "qd1": "a rate",
        "torque_desired_1": "a command",
        "q9": "a position",
        "weather": "not known",
        "current_1": "a current beside a torque",
    }


def test_a_control_has_the_name_of_no_joint() -> None:
    found = match(["t", "elbow_joint", "elbow_motor", "lift"], JOINTS, {"elbow_joint": JOINTS[2], "lift": JOINTS[1]})
    assert found.positions == {"elbow_joint": "elbow_joint"}
    assert (found.efforts, found.effort) == ({"shoulder_lift_joint": "lift"}, "control")
    beside = match(["t", "q1", "tau1", "lift"], JOINTS, {"lift": JOINTS[0]})
    assert (beside.effort, beside.unused) == ("torque", {"lift": "a control beside a torque"})
