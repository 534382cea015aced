"""The inside of what ``test_remedies`` tests."""

from __future__ import annotations

import re

from test_impossible import four_bar

from spookid import Parameter, Status
from spookid.assembly.assembly import assemble
from spookid.assembly.trajectories import trajectories
from spookid.estimation import fitting
from spookid.estimation.tensions import held_findings
from spookid.solvers.status import Outcome, Timing


def test_a_loop_that_stays_open_is_named_with_its_joint_and_the_bound() -> None:
    assembly = assemble(four_bar(Parameter("L", 0.95, lower=0.95, upper=1.0)))
    (held,) = held_findings(assembly, assembly.start, trajectories(assembly, assembly.start))
    assert re.match(
        r"Largest contributions to the cost when the fit stopped: "
        r"Hinge 'h\d' stays 0\.\d+ m or rad open at t = [\d.]+ s of 'rec",
        held.text,
    )
    assert held.text.endswith("L at a bound: widen it unless nature sets it.")
    ended = Outcome(Status.CONVERGED, "a test", assembly.start, (), Timing(0.0, 0.0, 0.0))
    met = fitting._if_met(assembly, ended)
    assert met.status is Status.STALLED
    assert met.detail.startswith("the equality constraint 'joints' is violated by 0.")
