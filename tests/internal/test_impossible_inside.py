"""The inside of what ``test_impossible`` tests."""

from __future__ import annotations

from typing import Any

import pytest
from test_impossible import four_bar

from spookid import Parameter, ProblemError, Spook, Variational
from spookid.assembly.assembly import assemble
from spookid.results.values import BodyOutline, JointOutline, Mechanism


@pytest.mark.parametrize("stepper", [Spook(), Variational()])
def test_a_loop_whose_links_do_not_reach_is_refused(stepper: Any) -> None:
    with pytest.raises(ProblemError, match=r"Hinge 'h3' closes a loop that cannot close: .* stay 0\.2\d* m or rad"):
        assemble(four_bar(0.9, stepper))


def test_a_loop_that_closes_and_one_whose_lengths_are_sought_are_left_to_the_fit() -> None:
    assert not [f for f in assemble(four_bar(0.35)).findings if f.code == "mechanism.immobile"]
    assemble(four_bar(Parameter("L", 0.9, lower=0.1)))


def test_loops_that_leave_no_freedom_are_told_where_joints_give_way() -> None:
    findings = assemble(four_bar(0.35, Spook(), brace=True)).findings
    (immobile,) = [finding for finding in findings if finding.code == "mechanism.immobile"]
    assert immobile.subject == ("h3", "h5")
    assert "the loops of joints 'h3', 'h5' lock all bodies" in immobile.text


def test_a_mechanism_whose_joint_lacks_its_body_is_no_mechanism() -> None:
    at = (0.0, 0.0, 0.0)
    joint = JointOutline("h", "GROUND", "rod", at, at, at, ())
    assert Mechanism((BodyOutline("rod", False, ()),), (joint,), (), (), at).hinges == (joint,)
    with pytest.raises(ValueError, match="joint 'h' is on body 'rod', which is not in the mechanism"):
        Mechanism((BodyOutline("arm", False, ()),), (joint,), (), (), at)
