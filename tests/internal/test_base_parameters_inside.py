"""The inside of what ``test_base_parameters`` tests."""

from __future__ import annotations

import casadi as ca
import numpy as np
from test_base_parameters import G

from spookid import (
    GROUND,
    Body,
    FullInertia,
    Hinge,
    HingeAngle,
    Joint,
    Model,
    Parameter,
    Prismatic,
    Problem,
    Recording,
    Spherical,
    gravity,
)
from spookid.mechanics.inertia import PI
from spookid.mechanics.joint_coordinates import JointCoordinates
from spookid.mechanics.kinematics import Recursion
from spookid.report.conclusion import known


def walker(free: bool) -> tuple[Model, dict[str, Parameter]]:
    """A trunk, free or on a hinge, with a leg and an arm, and a tool that slides on the leg; the unknowns are π."""
    names = ("trunk", "leg", "arm", "tool")
    sizes = [1.0 if name == "mass" or name[-2] == name[-1] else 0.1 for name in PI]
    known = {f"{b} {name}": Parameter(f"{b}_{name}", size) for b in names for name, size in zip(PI, sizes, strict=True)}
    trunk, leg, arm, tool = (
        Body(n, inertia=FullInertia.from_pi([known[f"{n} {name}"] for name in PI]), free=free and n == "trunk")
        for n in names
    )
    joints: list[Joint] = [
        Hinge("hip", trunk.frame(at=(0.1, 0.2, 0.3), x=(1, 2, 0), y=(-2, 1, 0)), leg.frame(at=(0.1, 0, 0))),
        Spherical("shoulder", trunk.frame(at=(-0.1, 0.1, 0)), arm.frame(at=(0, 0.2, 0.1))),
        Prismatic("slide", tool.frame(at=(0.2, 0, 0)), leg.frame(at=(0, 0.1, 0), x=(0, 0, 1))),
    ]
    if not free:
        joints.append(Hinge("base", GROUND.frame(), trunk.frame(at=(0, 0.2, 0))))
    return Model([tool, arm, trunk, leg], joints, gravity=(0.3, 1.0, -9.7)), known


def test_a_body_that_is_free_shows_all_of_what_it_carries() -> None:
    model, names = walker(free=True)
    found = Problem("walker", model).base_parameters()
    assert set(found.names) == set(names)
    assert found.rank == 10 + 7 + 9 + 4  # on a ball joint the mass alone goes with the other body
    assert not found.scaled
    assert "common factor" in str(found)


def test_directions_of_the_null_space_leave_all_forces_as_they_are() -> None:
    rng = np.random.default_rng(2)
    model, names = walker(free=False)
    found = Problem("walker", model).base_parameters()
    assert found.rank == 3 + 7 + 9 + 4
    # Forces by another way: from masses, centres of mass and inertias about these.
    space = JointCoordinates(model).manifold
    x, s, a = ca.SX.sym("x", space.ambient), *(ca.SX.sym(n, space.tangent) for n in "sa")
    motion, theta = Recursion(JointCoordinates(model), x, s, a), ca.vertcat(*(names[name] for name in found.names))
    forces = ca.Function("forces", [x, s, a, theta], [motion.along(motion.needed)])
    state = space.normed(rng.normal(size=space.ambient)), *rng.normal(size=(2, space.tangent))
    somewhere = rng.uniform(1, 2, len(found.names))
    expected = forces(*state, somewhere).full()
    assert len(found.null_space) == len(found.names) - found.rank
    for direction in found.null_space:
        np.testing.assert_allclose(forces(*state, somewhere + 0.3 * direction).full(), expected, rtol=0, atol=1e-10)
    for kept in found.grouping.kept:
        other = somewhere + 0.3 * np.eye(len(somewhere))[kept]
        assert np.max(np.abs(forces(*state, other).full() - expected)) > 1e-3


def test_a_fit_without_priors_tells_what_the_data_do_not_see() -> None:
    across, about = (Parameter(name, 0.01, lower=1e-4, unit="kg m^2") for name in ("J_x", "J_y"))
    level = {"x": (0, 1, 0), "y": (1, 0, 0)}
    rod = Body("rod", inertia=FullInertia(1.0, (0.1, 0, 0), inertia=(across, about, 0.01, 0, 0, 0)))
    hinge = Hinge("hinge", GROUND.frame(**level), rod.frame(**level))
    model = Model([rod], [hinge], gravity=gravity(G))
    problem = Problem("swing", model, [], [HingeAngle(hinge, "q", sigma=1e-4)], step=0.01, state_weight=1e8)
    run = problem.simulate({"J_y": 0.012}, 1.0, {"hinge": 0.5}, noise={"q": 1e-4}, substeps=1)
    solution = problem.with_(recordings=[Recording(run.t, run.signals)]).solve()
    assert {name: one.known_from for name, one in solution.physical.items()} == {
        "rod I_xx": "nothing",
        "rod I_yy": "data",
    }
    table = known(solution)
    assert table.head == ("body", "from these data", "from the prior", "given", "not at all")
    assert table.rows == [("rod", "I_yy", "", "", "I_xx")]
    fixed = problem.with_(recordings=[Recording(run.t, run.signals)], fixed=["J_x"]).solve()
    assert known(fixed).rows == [("rod", "I_yy", "", "I_xx", "")]
    assert problem.base_parameters().unseen == ("J_x",)
