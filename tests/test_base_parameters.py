"""Base parameters: rank and combinations against what is known by hand and in the literature; directions that no force
hangs on are such."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from scipy.spatial.transform import Rotation
from solutions import solution

from spookid import (
    GROUND,
    Body,
    Effort,
    Fixed,
    FullInertia,
    Hinge,
    HingeAngle,
    Joint,
    JointPosition,
    LogCholesky,
    Model,
    Motor,
    Parameter,
    PointContact,
    Prismatic,
    Problem,
    ProblemError,
    Recording,
    gravity,
    load,
    tilted_gravity,
)
from spookid.__main__ import main

G = 9.81
DATA = Path(os.environ.get("SPOOKID_DATA", "/nowhere"))


def full(name: str) -> FullInertia:
    """All ten numbers are Parameters."""
    m = Parameter(f"{name}_m", 1.5, lower=0.1, unit="kg")
    c = [Parameter(f"{name}_{axis}", value, unit="m") for axis, value in zip("xyz", (0.1, -0.05, 0.08), strict=True)]
    names = ("xx", "yy", "zz", "xy", "xz", "yz")
    values = (0.02, 0.03, 0.025, 0.001, -0.002, 0.003)
    entries = [Parameter(f"{name}_{n}", value, unit="kg m^2") for n, value in zip(names, values, strict=True)]
    return FullInertia(m, c, inertia=entries)


def chain(kinds: list[type[Joint]], rng: np.random.Generator, down: tuple[float, float, float]) -> Problem:
    """Links with full inertia on joints whose axes stand anywhere; the first axis is x of the ground."""
    bodies, joints, before = [], [], GROUND
    for i, kind in enumerate(kinds):
        body = Body(f"link{i}", inertia=full(f"link{i}"))
        turned = np.linalg.qr(rng.normal(size=(3, 3)))[0]
        frame = before.frame(at=rng.normal(size=3), x=turned[0], y=turned[1]) if i else GROUND.frame()
        joints.append(kind(f"joint{i}", frame, body.frame()))
        bodies.append(body)
        before = body
    return Problem("chain", Model(bodies, joints, gravity=down))


@pytest.mark.parametrize(
    ("kinds", "down", "rank"),
    [
        ([Hinge] * 6, (0.3, 1.0, -9.7), 3 + 7 * 5),
        ([Hinge] * 6, (-9.8, 0.0, 0.0), 1 + 7 * 5),
        ([Hinge, Hinge, Prismatic, Hinge], (0.3, 1.0, -9.7), 3 + 7 + 4 + 7),
        ([Prismatic, Hinge, Hinge], (0.3, 1.0, -9.7), 1 + 3 + 7),
    ],
    ids=["six hinges", "first axis vertical", "a slider within", "a slider first"],
)
def test_rank_of_chains(kinds: list[type[Joint]], down: tuple[float, float, float], rank: int) -> None:
    # Gautier, Khalil (1990): of a link on a hinge three go with others (m, the first moment along the axis, one moment
    # of inertia across it), of one on a slider the six of inertia. What only slides has its mass; what turns about one
    # axis the inertia about that and two first moments, which no weight shows if the axis is vertical.
    found = chain(kinds, np.random.default_rng(1), down).base_parameters()
    assert len(found.quantities) == 10 * len(kinds)
    assert found.rank == rank


def test_two_links_in_a_plane() -> None:
    # By hand: h_1x + l m_2, h_1z, I_1 + l² m_2 + J_1, h_2x, h_2z, I_2; the rotor at the elbow turns against upper.
    l = 0.4
    upper, fore = Body("upper", inertia=full("upper")), Body("fore", inertia=full("fore"))
    shoulder = Hinge("shoulder", GROUND.frame(x=(0, 1, 0), y=(1, 0, 0)), upper.frame(x=(0, 1, 0), y=(1, 0, 0)))
    on, off = upper.frame(at=(l, 0, 0), x=(0, 1, 0), y=(1, 0, 0)), fore.frame(x=(0, 1, 0), y=(1, 0, 0))
    elbow = Hinge("elbow", on, off, viscous=Parameter("b", 0.1, unit="N m s"))
    rotors = [Parameter("J_1", 0.01, unit="kg m^2"), Parameter("J_2", 0.02, unit="kg m^2")]
    K = Parameter("K", 2.0)
    motors = [Motor(shoulder, "u", shaft_inertia=rotors[0]), Motor(elbow, "v", gain=K, shaft_inertia=rotors[1])]
    problem = Problem("arm", Model([upper, fore], [shoulder, elbow], motors, gravity=gravity(G)))
    found = problem.base_parameters()
    assert [one.name for one in found.combinations] == [
        "upper h_x + 0.4 fore mass",
        "upper h_z",
        "upper I_yy + J_1 + 0.16 fore mass",
        "fore h_x",
        "fore h_z",
        "fore I_yy",
        "b",
        "J_2",
    ]
    across = ("h_y", "I_xx", "I_zz", "I_xy", "I_xz", "I_yz")
    assert found.unseen == ("upper mass", *(f"{body} {name}" for body in ("upper", "fore") for name in across))
    assert found.held == ("K",)
    assert found.combinations[0].guess == pytest.approx(1.5 * 0.1 + 0.4 * 1.5)
    assert found.combinations[0].unit == "kg m"


def loop(rocker: float) -> Problem:
    """A crank of 0.1 m, a coupler of 0.3 m and a rocker in the plane across y, of unknown inertia; masses are known."""
    planes = {"x": (0, 1, 0), "y": (1, 0, 0)}
    I = [Parameter(f"I_{name}", 0.01, unit="kg m^2") for name in ("crank", "coupler", "rocker")]
    lengths = (0.1, 0.3, rocker)
    bodies = [
        Body(name, mass=0.5, inertia=(1e-3, moment, 1e-3))
        for name, moment in zip(("crank", "coupler", "rocker"), I, strict=True)
    ]
    crank, coupler, other = bodies
    ends = {
        b: [b.frame(at=(side * l / 2, 0, 0), **planes) for side in (-1, 1)]
        for b, l in zip(bodies, lengths, strict=True)
    }
    joints = [
        Hinge("a", GROUND.frame(**planes), ends[crank][0]),
        Hinge("b", ends[crank][1], ends[coupler][0]),
        Hinge("c", ends[coupler][1], ends[other][1]),
        Hinge("d", GROUND.frame(at=(0.3, 0, 0), **planes), ends[other][0]),
    ]
    return Problem("loop", Model(bodies, joints, gravity=gravity(G)), observations=[HingeAngle(joints[0], "q")])


def test_a_loop_leaves_what_its_freedom_tells() -> None:
    problem = loop(0.12)
    found = problem.base_parameters()
    assert (found.rank, found.alone) == (3, ("I_crank", "I_coupler", "I_rocker"))
    t = np.arange(30) * 0.01
    turning = Recording(t, {"q": 0.5 + t + np.sin(3 * t)}, name="turning")
    assert problem.base_parameters(turning).rank == 3
    # Of equal lengths the coupler does not turn, and the others do as one, unless they cross; sensors say they do not.
    parallel = loop(0.1)
    parallel = parallel.with_(observations=[*parallel.observations, HingeAngle(parallel.model.joints[3], "p")])
    found = parallel.base_parameters(Recording(t, {"q": turning.signal("q"), "p": turning.signal("q")}, name="turning"))
    assert [one.name for one in found.combinations] == ["I_crank + I_rocker"]
    assert found.unseen == ("I_coupler",)


def carts(holds: Any) -> Problem:
    """Two on one track, each with its motor, coupled while the contact holds."""
    bodies = [Body(f"cart {i}", Parameter(f"m_{i}", 1.0 * i, lower=0), (1, 1, 1)) for i in (1, 2)]
    sliders = [Prismatic(f"track {i}", GROUND.frame(), body.frame()) for i, body in enumerate(bodies, 1)]
    motors = [Motor(slider, f"u_{i}") for i, slider in enumerate(sliders, 1)]
    coupling = PointContact("coupling", bodies[1].frame(), bodies[0].frame(), axes="x", holds=holds)
    model = Model(bodies, sliders, motors, gravity=gravity(G), constraints=[coupling])
    return Problem("carts", model, observations=[JointPosition(one, one.name) for one in sliders])


def test_what_contacts_balance_is_not_seen_while_they_hold() -> None:
    t = np.arange(0, 2, 0.01)
    signals = {f"u_{i}": np.sin(t) for i in (1, 2)} | {f"track {i}": np.sin(3 * t) + i for i in (1, 2)}
    run = Recording(t, signals, name="run")
    assert [one.name for one in carts(True).base_parameters().combinations] == ["m_1 + m_2"]
    assert [one.name for one in carts([(0.0, 9.0)]).base_parameters(run).combinations] == ["m_1 + m_2"]
    half = carts([(1.0, 9.0)])
    assert half.base_parameters().alone == half.base_parameters(run).alone == ("m_1", "m_2")
    # Efforts that contacts share are no one's: what would take them for the motors' refuses.
    known = solution()
    for asked in (half.inverse_dynamics, half.with_(recordings=[run]).regress, lambda: half.payload(known, run, "")):
        with pytest.raises(ProblemError, match="contacts, whose forces"):
            asked()


def test_of_a_recording_a_joint_that_stands_still_shows_nothing_of_its_own() -> None:
    upper, fore = Body("upper", inertia=full("upper")), Body("fore", inertia=full("fore"))
    level = {"x": (0, 0, 1), "y": (1, 0, 0)}
    shoulder = Hinge("shoulder", GROUND.frame(**level), upper.frame(**level))
    elbow = Hinge("elbow", upper.frame(at=(0.4, 0, 0), **level), fore.frame(**level), coulomb=Parameter("c", 0.1))
    problem = Problem(
        "arm",
        Model([upper, fore], [shoulder, elbow], gravity=gravity(G)),
        observations=[HingeAngle(shoulder, "q1"), HingeAngle(elbow, "q2")],
    )
    t = np.arange(0, 3, 0.01)
    both = Recording(t, {"q1": np.sin(t), "q2": np.sin(2 * t)}, name="both")
    one = Recording(t, {"q1": np.sin(t), "q2": 0 * t}, name="one")
    assert problem.base_parameters(both).rank == problem.base_parameters().rank == 5
    found = problem.base_parameters(one)
    assert found.motion == ("one",)
    # I of both about the first axis, and what its turning asks of the elbow: I, and a moment along and one across.
    assert found.rank == 3
    assert "c" in found.unseen
    assert problem.base_parameters([one, both]).rank == 5


def test_what_is_not_linear_is_held() -> None:
    m, l = Parameter("m", 0.3, unit="kg"), Parameter("l", 0.2, unit="m")
    k, rest, mu = Parameter("k", 0.1), Parameter("rest", 0.5), Parameter("mu", 0.01)
    slope = Parameter("slope", 0.1, unit="rad")
    rod = Body("rod", mass=m, inertia=(1e-3, 1e-3 + m * 0.01, 1e-3))
    pin = Hinge("pin", GROUND.frame(x=(0, 1, 0), y=(1, 0, 0)), rod.frame(at=(-l, 0, 0), x=(0, 1, 0), y=(1, 0, 0)),
                stiffness=k, rest=rest, load_friction=mu)  # fmt: skip
    model = Model([rod], [pin], gravity=tilted_gravity(G, 0, slope))
    found = Problem("swing", model).base_parameters()
    assert found.names == ("m", "k")
    assert found.held == ("l", "rest", "mu", "slope")
    fixed = Problem("swing", model, fixed=["m", "l", "rest"], initial={"k": 0.3}).base_parameters()
    assert (fixed.names, fixed.held) == (("k",), ("mu", "slope"))
    assert fixed.combinations[0].guess == 0.3


def test_what_is_no_recording_is_refused() -> None:
    with pytest.raises(ProblemError, match=r"test_base_parameters.*base_parameters: recordings is 'turning'"):
        loop(0.1).base_parameters("turning")  # type: ignore[arg-type]


def test_the_table_tells_combinations_bodies_and_what_it_presumes() -> None:
    found = chain([Hinge], np.random.default_rng(1), (0.0, 0.0, -G)).base_parameters()
    text = str(found)
    assert text.startswith(
        "Base parameters of chain: any motion shows 3 combinations of 10 unknowns, condition number "
    )
    assert re.search(r"^link0 +h_y, h_z, I_xx +all but h_y, h_z, I_xx$", text, re.MULTILINE)
    assert "I is the inertia about the body's origin" in text
    row = found.records()[0]
    assert (row["base_parameter"], row["unit"], row["link0 h_y"], row["link0 mass"]) == ("link0 h_y", "kg m", 1.0, 0.0)
    assert row["guess"] == pytest.approx(-0.05 * 1.5)


def ur10e(urdf: Path) -> Problem:
    """Six links with full inertia; friction, offset and rotor of each joint."""
    robot, bodies, joints, motors, before = ElementTree.parse(urdf).getroot(), [], [], [], GROUND
    for i, one in enumerate([e for e in robot.findall("joint") if e.get("type") == "revolute"]):
        name = one.find("child").get("link").removesuffix("_link")
        body = Body(name, inertia=LogCholesky(name, FullInertia(1.0, inertia=(0.02, 0.02, 0.02))))
        at, turn, axis = (
            np.array(one.find(what).get(key).split(), dtype=float)
            for what, key in (("origin", "xyz"), ("origin", "rpy"), ("axis", "xyz"))
        )
        R, y = Rotation.from_euler("xyz", turn).as_matrix(), np.roll(axis, 1)
        b, c, o, J = (Parameter(f"{letter}_{i}", 1.0) for letter in "bcoJ")
        on, off = before.frame(at=at, x=R @ axis, y=R @ y), body.frame(x=axis, y=y)
        joints.append(Hinge(f"q{i}", on, off, viscous=b, coulomb=c, loads=[Effort(o)]))
        motors.append(Motor(joints[-1], f"i{i}", gain=Parameter(f"K_{i}", 12.0), shaft_inertia=J))
        bodies.append(body)
        before = body
    observations = [HingeAngle(joint, joint.name) for joint in joints]
    return Problem("ur10e", Model(bodies, joints, motors, gravity=gravity(9.82)), observations=observations)


@pytest.mark.measured
@pytest.mark.skipif(not (DATA / "ur10e").is_dir(), reason="SPOOKID_DATA has no ur10e")
def test_ur10e_has_the_rank_of_the_reference() -> None:
    folder = DATA / "ur10e"
    problem, data = ur10e(folder / "ur10e.urdf"), np.load(folder / "excitation_12harm_40s.npz")
    useful = slice(500, 4460)
    signals = {f"{signal}{i}": data[key][useful, i] for i in range(6) for signal, key in (("q", "q"), ("i", "current"))}
    recording = Recording(data["t"][useful], signals, name="12harm")
    for found in (problem.base_parameters(), problem.base_parameters(recording)):
        assert (found.rank, len(found.names)) == (58, 84)
        assert found.held == tuple(f"K_{i}" for i in range(6))
        assert found.condition < 20


def test_a_fit_tells_combinations_from_the_data_and_the_rest_from_the_prior(tmp_path: Path) -> None:
    """A link on a level axle shows the inertia about it and two first moments; what these are made of is believed."""
    believed = FullInertia(1.0, (0.1, 0, 0.02), inertia=(0.01, 0.012, 0.008))
    link = LogCholesky("rod", believed, within=0.3)
    level = {"x": (0, 1, 0), "y": (1, 0, 0)}
    rod = Body("rod", inertia=link)
    hinge = Hinge("hinge", GROUND.frame(**level), rod.frame(**level))
    model = Model([rod], [hinge], [Motor(hinge, "u")], gravity=gravity(G))
    problem = Problem("swing", model, [], [HingeAngle(hinge, "q", sigma=1e-4)], step=0.01, state_weight=1e8)
    t = np.arange(151) * 0.01
    inputs = Recording(t, {"u": 0.5 * np.sin(7 * t)})
    run = problem.simulate({"rod_t_1": 0.12}, 1.5, inputs=inputs, noise={"q": 1e-4}, substeps=1)
    solution = problem.with_(recordings=[Recording(t, {**inputs.signals, "q": run.signals["q"][:151]})]).solve()

    assert list(solution.base_parameters) == ["rod h_x", "rod h_z", "rod I_yy"]
    assert {one.known_from for one in solution.base_parameters.values()} == {"data"}
    moment = solution.base_parameters["rod h_x"]
    assert moment.estimate == pytest.approx(0.12, abs=4 * moment.std_err)
    assert 0 < moment.std_err < 1e-3
    mass = solution.physical["rod mass"]
    assert (mass.known_from, mass.body) == ("prior", "rod")
    assert mass.estimate == pytest.approx(1.0, abs=0.1)
    assert mass.std_err == pytest.approx(0.3, rel=0.1)
    assert "from the prior" in solution.summary(verbose=True)
    found = problem.base_parameters().combinations[0]
    assert solution(found.formula).std_err == pytest.approx(moment.std_err)

    solution.save(tmp_path / "r")
    back = load(tmp_path / "r")
    assert (back.base_parameters, back.physical) == (solution.base_parameters, solution.physical)
    written = json.loads((tmp_path / "r" / "solution.json").read_text())
    assert written["physical"]["rod mass"]["known_from"] == "prior"
    assert written["base_parameters"]["rod h_x"]["known_from"] == "data"


PROBLEM = """
import numpy as np
from spookid import GROUND, Body, FullInertia, Hinge, HingeAngle, LogCholesky, Model, Problem, Recording, gravity
link = LogCholesky("rod", FullInertia(1.0, (0.1, 0, 0.02), inertia=(0.01, 0.012, 0.008)), within=0.3)
rod = Body("rod", inertia=link)
hinge = Hinge("hinge", GROUND.frame(x=(0, 1, 0), y=(1, 0, 0)), rod.frame(x=(0, 1, 0), y=(1, 0, 0)))
t = np.arange(101) * 0.01
problem = Problem("swing", Model([rod], [hinge], gravity=gravity(9.81)), [Recording(t, {"q": np.sin(5 * t)})],
                  [HingeAngle(hinge, "q", sigma=1e-3)], step=0.01, state_weight=100.0)
"""


def test_check_tells_what_can_be_known(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "swing.py"
    path.write_text(PROBLEM)
    assert main(["check", str(path), "--verbose"]) == 0
    _, _, told = capsys.readouterr().out.partition("\n\nBase parameters\n")
    assert "Any motion shows 3 combinations of 10 unknowns" in told
    assert "The motion of recording shows 3 combinations" in told.replace("\n ", "")
    assert re.search(r"^  rod +h_x, h_z, I_yy +all but h_x, h_z, I_yy$", told, re.MULTILINE)


def test_entries_that_are_known_stay_so_and_recordings_may_have_their_own() -> None:
    """A payload m at the end of a link: mass and moments of both hang on the one number."""
    m = Parameter("m", 0.3, lower=0, unit="kg", per="recording")
    arm = Body("arm", inertia=FullInertia(0.5 + m, (0.2 * m / (0.5 + m), 0, 0), inertia=(1e-3, 2e-3 + m * 0.01, 2e-3)))
    level = {"x": (0, 1, 0), "y": (1, 0, 0)}
    hinge = Hinge("hinge", GROUND.frame(**level), arm.frame(**level))
    t = np.arange(100) * 0.01
    runs = [Recording(t, {"q": np.sin(k * t)}, name=name) for k, name in ((5, "empty"), (3, "loaded"))]
    model = Model([arm], [hinge], gravity=gravity(G))
    problem = Problem("arm", model, runs, [HingeAngle(hinge, "q", sigma=1e-3)], state_weight=1e4)
    found = problem.base_parameters(runs)
    assert found.names == ("arm mass", "arm h_x", "arm I_yy", "arm I_zz")
    assert (found.alone, found.unseen, found.scaled) == (("arm h_x", "arm I_yy"), ("arm mass", "arm I_zz"), True)
    with pytest.raises(ProblemError, match="has no recording 'other', and so no 'm' of it; give it to the problem"):
        problem.base_parameters(Recording(t, runs[0].signals, name="other"))
    solution = problem.solve(max_iterations=1)
    for name in ("empty", "loaded"):
        moment = solution.base_parameters[f"arm h_x[{name}]"]
        assert moment.estimate == pytest.approx(0.2 * solution[f"m[{name}]"].estimate)
        assert moment.std_err == pytest.approx(0.2 * solution[f"m[{name}]"].std_err)


def test_without_a_freedom_or_an_unknown_there_is_nothing_to_know() -> None:
    held = Body("held", inertia=full("held"))
    assert (
        Problem("p", Model([held], [Fixed("f", GROUND.frame(), held.frame())], gravity=gravity(G)))
        .base_parameters()
        .rank
        == 0
    )
    rod = Body("rod", mass=1.0, inertia=(1.0, 1.0, 1.0))
    known = Problem("p", Model([rod], [Hinge("h", GROUND.frame(), rod.frame())], gravity=gravity(G))).base_parameters()
    assert (known.rank, known.names, known.combinations) == (0, (), ())
    assert "0 combinations of 0 unknowns" in str(known)
    rod = Body("rod", mass=1.0, inertia=(Parameter("J", 1.0), 1.0, 1.0))
    one = Problem("p", Model([rod], [Hinge("h", GROUND.frame(), rod.frame())], gravity=gravity(G))).base_parameters()
    assert "any motion shows 1 combination of 1 unknown," in one.headline()
