"""Where a mechanism of the plane can be: assemblies, branches, independent coordinates; and what is refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import casadi as ca
import numpy as np
import pytest
from mechanisms import Array
from test_planar import bars, everything, fourbar

from spookid import FixedLagSmoother, HingeAngle, Parameter, Problem, ProblemError, planar


def crossing(first: Array, r: float, second: Array, s: float) -> list[Array]:
    """The two points of circles, to the left of the line between their centres and to the right."""
    apart = second - first
    distance = float(np.linalg.norm(apart))
    along = (r**2 - s**2 + distance**2) / (2 * distance)
    across = math.sqrt(r**2 - along**2)
    unit = apart / distance
    left = np.array([-unit[1], unit[0]])
    return [first + along * unit + side * across * left for side in (1, -1)]


# --- assemblies ---


@pytest.mark.parametrize("theta", [-9.0, 0.0, 0.7, 2.0])
def test_a_fourbar_has_two_assemblies_at_every_angle(theta: float) -> None:
    system = fourbar("theta")
    pin = np.array([math.cos(theta), math.sin(theta)])
    expected = crossing(pin, 2.0, np.array([4.0, 0.0]), math.sqrt(13))
    found = system.branches({"theta": theta})
    assert len(found) == 2
    own = system.branch(system.assembled())
    # The coupler's end is to the left of the line from the crank's to D where it is declared.
    for branch, q in found.items():
        np.testing.assert_allclose(q[:2], pin, atol=1e-11)
        np.testing.assert_allclose(q[2:4], expected[0 if branch == own else 1], atol=1e-9)
        assert q[4] == theta
        assert system.branch(q) == branch
        np.testing.assert_allclose(system.assembled({"theta": theta}, branch=branch), q, atol=1e-11)
    # Moved there from where it is declared it stays on its branch.
    np.testing.assert_allclose(system.assembled({"theta": theta}), found[own], atol=1e-9)


def test_the_branch_of_a_guess_is_kept() -> None:
    system = fourbar("theta")
    near = np.array([0.9, 0.2, 1.3, -1.5, 0.1])
    q = system.assembled(near)
    assert q[3] < 0
    assert np.linalg.norm(q - near) < 0.8
    assert system.branch(q) != system.branch(system.assembled())


def test_branches_meet_where_links_are_in_line() -> None:
    A, D = planar.Ground("A", (0, 0)), planar.Ground("D", (3, 0))
    P, R = planar.Point("P", (0, 1)), planar.Point("R", (2, 2))
    links = [
        planar.Link("a", A, P, 1, length=1),
        planar.Link("b", P, R, 1, length=2),
        planar.Link("c", D, R, 1, length=2),
    ]
    system = planar.Mechanism(links, [planar.AbsoluteAngle("theta", links[0])], gravity=1)
    # The crank points away from D, whose distance 4 is what coupler and rocker span together.
    assert system.branch(np.array([-1.0, 0.0, 1.0, 0.0, math.pi]))[-1] == 0
    assert len(system.branches({"theta": 3.0})) == 2


def test_a_slider_crank_and_a_five_bar_have_their_assemblies() -> None:
    A, B = planar.Ground("A", (0, 0)), planar.Ground("B", (1, 0))
    P, S = planar.Point("P", (0.1, 0)), planar.Point("S", (0.4, 0))
    crank, rod = planar.Link("crank", A, P, 1), planar.Link("rod", P, S, 1)
    angle, guide = planar.AbsoluteAngle("theta", crank), planar.FixedSlider("guide", S, A, B)
    system = planar.Mechanism([crank, rod], [angle, guide], gravity=0)
    found = sorted(q[2] for q in system.branches({"theta": 0.8}).values())
    x, y = 0.1 * math.cos(0.8), math.sqrt(0.3**2 - (0.1 * math.sin(0.8)) ** 2)
    np.testing.assert_allclose(found, [x - y, x + y], atol=1e-11)

    C, D = planar.Ground("C", (-0.1, 0)), planar.Ground("D", (0.1, 0))
    L, R, T = planar.Point("L", (-0.25, 0.2)), planar.Point("R", (0.25, 0.2)), planar.Point("T", (0, 0.45))
    one, two = planar.Link("one", C, L, 1), planar.Link("two", D, R, 1)
    lower = [planar.Link("three", L, T, 1), planar.Link("four", R, T, 1)]
    angles = [planar.AbsoluteAngle("a", one), planar.AbsoluteAngle("b", two)]
    five = planar.Mechanism([one, two, *lower], angles, gravity=0)
    assert [five.names[i] for i in five.independent] == ["a", "b"]
    given = {"a": 2.3, "b": 1.0}
    tools = [q[4:6] if five.names[4] == "T.x" else q[2:4] for q in five.branches(given).values()]
    q = five.assembled(given)
    ends = [q[five.names.index(f"{name}.x") :][:2] for name in "LR"]
    reach = math.hypot(0.25, 0.25)
    expected = crossing(ends[0], reach, ends[1], reach)
    tools = [q[five.names.index("T.x") :][:2] for q in five.branches(given).values()]
    assert len(tools) == 2
    for tool in expected:
        assert min(np.linalg.norm(tool - other) for other in tools) < 1e-10


def test_a_ladder_of_loops_has_a_sign_for_each() -> None:
    """A second four-bar on the rocker of the first: four assemblies."""
    links, points = bars()
    E, S = planar.Ground("E", (4, 4)), planar.Point("S", (3, 4))
    links += [planar.Link("strut", points["P2"], S, 1, length=5), planar.Link("lever", E, S, 1, length=2)]
    system = planar.Mechanism(links, [planar.AbsoluteAngle("theta", links[0])], gravity=1)
    found = system.branches({"theta": 0.3})
    assert len(found) == 4
    assert len({branch[1:] for branch in found}) == 4
    for branch, q in found.items():
        np.testing.assert_allclose(system.assembled(q), q, atol=1e-11)
        assert system.branch(q) == branch


def test_assemblies_follow_parameters() -> None:
    length = Parameter("length", 2.0, lower=1)
    A, P = planar.Ground("A", (0, 0)), planar.Point("P", (2, 0))
    link = planar.Link("l", A, P, 1, length=length)
    system = planar.Mechanism([link], [planar.AbsoluteAngle("theta", link)], gravity=1)
    np.testing.assert_allclose(
        system.assembled({"theta": math.pi / 2}, parameters={"length": 1.5})[:2], [0, 1.5], atol=1e-14
    )
    q = system.assembled({"theta": 0.2}, parameters={"length": 3.0})
    assert np.linalg.norm(q[:2]) == pytest.approx(3.0)
    moved = system.rigid.states(q, np.zeros(3), {"length": 3.0})[0]
    assert moved[0, 1] == pytest.approx(1.5 * math.cos(0.2))


def test_angles_are_independent_and_what_is_asked_for_is() -> None:
    assert [fourbar("theta").names[i] for i in fourbar("theta").independent] == ["theta"]
    asked = fourbar("theta", independent_names=["P2.x"])
    assert asked.independent == (2,)
    assert len(asked.branches({"P2.x": 1.2})) == 4  # P2 above and below, and the crank's end on either side
    both = everything()
    assert [both.names[i] for i in both.independent] == ["theta", "phi"]


# --- what is refused ---


def no_loop(gap: float) -> planar.Mechanism:
    A, D = planar.Ground("A", (0, 0)), planar.Ground("D", (gap, 0))
    P = planar.Point("P", (1, 0.5))
    return planar.Mechanism([planar.Link("a", A, P, 1, length=1), planar.Link("b", D, P, 1, length=1)], gravity=1)


def a_link(**settings: Any) -> planar.Link:
    A, P = planar.Ground("A", (0, 0)), planar.Point("P", (1, 0))
    return planar.Link(**{"name": "l", "start": A, "end": P, "mass": 1} | settings)


def with_(*constraints: Any, loads: Any = ()) -> planar.Mechanism:
    return planar.Mechanism([LINK], constraints, loads, gravity=1)


LINK = a_link()
OTHER = a_link(name="other")
GROUNDED, LOOSE = planar.Ground("G", (0, 0)), planar.Point("loose", (1, 1))
SIZE = Parameter("size", 1.0)

REFUSED: dict[str, tuple[Callable[[], object], str]] = {
    "mass": (lambda: a_link(mass=0), "Link 'l' has mass 0; it must be positive"),
    "length": (lambda: a_link(end=planar.Point("Q", (0, 0))), "has length 0; it must be positive"),
    "center": (lambda: a_link(center=(0.5, 0)), "has a center but no inertia"),
    "ends": (lambda: planar.Link("l", GROUNDED, planar.Ground("H", (1, 0)), 1), "cannot move"),
    "parameter": (lambda: a_link(start=planar.Ground("A", (SIZE, 0))), "give its length"),
    "moving": (lambda: planar.Point("P", (SIZE, 0)), "is at an expression of Parameters"),
    "heavy ground": (lambda: planar.Ground("A", (0, 0), 1), "has a mass, which never moves"),
    "slider": (lambda: planar.FixedSlider("s", GROUNDED, GROUNDED, GROUNDED), "which does not move"),
    "line": (lambda: planar.FixedSlider("s", LOOSE, GROUNDED, GROUNDED), "a line through one point"),
    "own end": (lambda: planar.MovingSlider("s", LINK.end, LINK), "holds an end of 'l'"),
    "itself": (lambda: planar.RelativeAngle("phi", LINK, LINK), "against itself"),
    "pin": (lambda: planar.PinFriction(LOOSE, LINK), "does not end at its point"),
    "against": (lambda: planar.PinFriction(LINK.end, LINK), "needs against="),
    "friction": (lambda: planar.PinFriction(LINK.start, LINK, viscous=-1), "it must not be negative"),
    "signal": (lambda: planar.Torque(LINK, ""), "give the name of an input"),
    "no links": (lambda: planar.Mechanism([], gravity=1), "has no links"),
    "foreign": (lambda: with_(planar.AbsoluteAngle("theta", OTHER)), "'other', which is not in the mechanism"),
    "load": (lambda: with_(loads=[planar.Torque(OTHER, "u")]), "'other', which is not in the mechanism"),
    "loose": (lambda: with_(planar.ConstantDistance("rod", LINK.end, LOOSE, 1)), "is the end of no link"),
    "twice": (lambda: with_(*[planar.AbsoluteAngle(name, LINK) for name in "ab"]), "two AbsoluteAngles of one link"),
    "names": (lambda: with_(*[planar.AbsoluteAngle("P", LINK)]), "has the name of another"),
    "gap": (lambda: no_loop(2.5), "does not close as it is declared"),
    "stuck": (lambda: no_loop(1.5), "nothing moves"),
    "redundant": (
        lambda: with_(planar.ConstantDistance("rod", LINK.start, LINK.end, 1)),
        "2 constraints of rank 1",
    ),
    "implied": (
        lambda: fourbar_with(planar.ConstantDistance("rod", *bars_kept[1].ends, 2)),
        "4 constraints of rank 3",
    ),
    "independent": (lambda: fourbar("theta", independent_names=["psi"]), "give 1 of P1.x, P1.y"),
    "not independent": (lambda: fourbar("theta", independent_names=["P1.x"]), "do not move independently"),
    "reach": (lambda: fourbar().assembled({"P1.x": 1.5}), "does not reach P1.x = 1.5"),
    "unknown": (lambda: fourbar().assembled({"P3.x": 1.5}), "is asked for 'P3.x'"),
    "too many": (lambda: fourbar().assembled({"P1.x": 1, "P1.y": 0}), "has 1 degrees of freedom"),
    "disturbance": (lambda: fourbar(disturbance=-1.0), "`disturbance` is -1.0; give a number from 0 on"),
    "text": (lambda: fourbar().assembled("open"), "an initial value has 4 finite numbers"),
    "branch of too few": (lambda: fourbar().branch([1.0, 2.0]), "a position has 4 finite numbers"),
    "branches of a list": (lambda: fourbar().branches([1.0]), "values is [1.0]; give a dict"),
    "a value that is text": (lambda: fourbar().assembled({"P1.x": "far"}), "'P1.x' at 'far'; give numbers"),
    "one independent name that is none": (
        lambda: fourbar(independent_names=3),
        "independent_names is 3; give a list of names",
    ),
    "shape": (lambda: fourbar().assembled(np.zeros(3)), "an initial value has 4 finite numbers"),
    "branch": (lambda: fourbar("theta").assembled({"theta": 0.0}, branch=(5,)), "has no branch"),
    "branch alone": (lambda: fourbar().assembled(branch=(1,)), "without values of coordinates"),
    "other coordinates": (lambda: fourbar("theta").branches({"P1.x": 0.5}), "give theta"),
    "value": (lambda: fourbar().assembled(parameters={"x": 1.0}), "has no Parameter 'x'"),
}
bars_kept = bars()[0]


def fourbar_with(*constraints: Any) -> planar.Mechanism:
    return planar.Mechanism(bars_kept, constraints, gravity=1)


@pytest.mark.parametrize("case", REFUSED)
def test_it_is_refused_in_a_sentence(case: str) -> None:
    make, words = REFUSED[case]
    with pytest.raises(ProblemError) as caught:
        make()
    message = str(caught.value)
    assert words in message
    assert "test_planar" in message
    assert "\n" not in message


def test_dry_friction_needs_a_width_for_the_system_alone() -> None:
    friction = planar.PinFriction(LINK.start, LINK, coulomb=0.1)
    system = with_(loads=[friction])
    assert float(system.model.joints[0].coulomb) == 0.1
    q = ca.SX.sym("q", 2)
    with pytest.raises(ProblemError, match=r"give it a width, .* has a friction_width"):
        system.force(q, q, ca.SX(0, 1))


def test_disturbances_are_those_of_the_joints_of_the_model() -> None:
    def sizes(**settings: Any) -> dict[str, float | None]:
        return {joint.name: joint.disturbance for joint in slider_crank(**settings).model.joints}

    assert sizes() == {"A": None, "pin": None, "guide": None}
    assert sizes(disturbance=2e-3) == {"A": 2e-3, "pin": 2e-3, "guide": 2e-3}
    assert sizes(disturbance=2e-3, sliding=0.1) == {"A": 2e-3, "pin": 2e-3, "guide": 0.1}
    assert FixedLagSmoother(watched(slider_crank(disturbance=2e-3)), window=20).estimate.reason
    with pytest.raises(ProblemError, match="declare the noise of 'A"):
        FixedLagSmoother(watched(slider_crank()), window=20)


def watched(mechanism: planar.Mechanism) -> Problem:
    sensor = HingeAngle(mechanism.rigid.hinges[0][2], "crank", sigma=1e-3)
    return Problem("crank", mechanism.model, observations=[sensor], step=0.005)


def slider_crank(disturbance: float | None = None, sliding: float | None = None) -> planar.Mechanism:
    A, line = planar.Ground("A", (0, 0)), planar.Ground("line", (1, 0))
    pin, end = planar.Point("pin", (0.06, 0.08)), planar.Point("end", (0.35, 0), mass=Parameter("m", 0.5))
    links = [planar.Link("crank", A, pin, 0.4), planar.Link("rod", pin, end, 0.2)]
    guide = planar.FixedSlider("guide", end, A, line, disturbance=sliding)
    return planar.Mechanism(links, [guide], gravity=9.81, disturbance=disturbance)


def test_friction_between_links_that_others_join_is_refused() -> None:
    A, C = planar.Ground("A", (0, 0)), planar.Point("C", (1, 0))
    ends = [planar.Point(f"P{i}", (2, i)) for i in range(2)]
    one = planar.Link("one", A, C, 1)
    two, three = (planar.Link(f"l{i}", C, end, 1) for i, end in enumerate(ends))
    pairs = [(one, two), (two, three), (one, three)]
    loads = [planar.PinFriction(C, a, b, viscous=0.1) for a, b in pairs]
    assert len(planar.Mechanism([one, two, three], (), loads[:2], gravity=1).model.joints) == 3
    with pytest.raises(ProblemError, match="others at 'C' join already"):
        _ = planar.Mechanism([one, two, three], (), loads, gravity=1).model
