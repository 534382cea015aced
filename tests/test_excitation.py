"""Designed motions: derivatives, limits, the errors that are promised beside those of fits, refusals, the commands."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from spookid import (
    GROUND,
    Body,
    Hinge,
    JointPosition,
    Model,
    MotionLimits,
    Motor,
    Parameter,
    Problem,
    ProblemError,
    Recording,
    gravity,
    load_problem,
)
from spookid.__main__ import main
from spookid.studies.excitation_design import Basis, Design, DesignProgram
from spookid.studies.excitation_result import Excitation
from spookid.studies.excitation_rows import PlannedEfforts
from spookid.studies.planned_coordinates import PlannedCoordinates
from spookid.studies.planned_motion import planned_recording

ROTOR = """
from spookid import *
J = Parameter("J", 0.1, lower=0, unit="kg m^2")
b = Parameter("b", 0.5, lower=0, unit="N m s")
rotor = Body("rotor", mass=1.0, inertia=(1, 1, J))
pin = Hinge("pin", GROUND.frame(x=(0, 0, 1), y=(1, 0, 0)), rotor.frame(x=(0, 0, 1), y=(1, 0, 0)), viscous=b)
problem = Problem("rotor", model=Model([rotor], [pin], [Motor(pin, "tau", measured=True)], gravity=gravity(9.81)),
                  recordings=[], observations=[JointPosition(pin, "q", sigma=1e-5)])
"""
ARM = """
from spookid import *
m = Parameter("m", 1.0, lower=0.1, unit="kg")
c = Parameter("c", 0.2, lower=0, unit="m")
f = Parameter("f", 0.3, lower=0, unit="N m")
s = Parameter("s", 0.0, lower=-1, upper=1, unit="kg m^2", note="no motion in a plane shows it")
one = Body("one", inertia=FullInertia(2.0, (0.2, 0, 0), inertia=(0.02, 0.1, 0.1)))
two = Body("two", inertia=FullInertia(m, (c, 0, 0), inertia=(0.02 + s, 0.02, 0.02)))
shoulder = Hinge("shoulder", GROUND.frame(x=(0, 1, 0), y=(1, 0, 0)), one.frame(x=(0, 0, 1), y=(1, 0, 0)), coulomb=f)
elbow = Hinge("elbow", one.frame(at=(0.4, 0, 0), x=(0, 0, 1), y=(1, 0, 0)), two.frame(x=(0, 0, 1), y=(1, 0, 0)))
motors = [Motor(shoulder, "tau_1", gain=2.0, measured=True), Motor(elbow, "tau_2", measured=True)]
problem = Problem("arm", model=Model([one, two], [shoulder, elbow], motors[:MOTORS], gravity=gravity(9.81)),
                  recordings=[], observations=[JointPosition(shoulder, "q_1"), JointPosition(elbow, "q_2")])
"""
NOISE = {"tau_1": 0.1, "tau_2": 0.1, "q_1": 1e-4, "q_2": 1e-4}
LIMITS = MotionLimits(
    position={"shoulder": (-1.5, 1.5), "elbow": (-1.0, 1.0)},
    rate={"shoulder": 4.0, "elbow": 4.0},
    effort={"shoulder": 15.0},
    place={"two": [(-math.inf, math.inf), (-math.inf, math.inf), (-0.4, math.inf)]},
)


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def problem_of(folder: Path, text: str, motors: int = 2) -> Problem:
    return load_problem(written(folder / "plan.py", text.replace("MOTORS", str(motors))))


@pytest.fixture(scope="module")
def arm(tmp_path_factory: pytest.TempPathFactory) -> Problem:
    return problem_of(tmp_path_factory.mktemp("arm"), ARM)


@pytest.fixture(scope="module")
def found(arm: Problem) -> Excitation:
    return arm.excite(4.0, LIMITS, noise=NOISE, rate=50, harmonics=4, starts=2)


def design(arm: Problem, determinant: bool, largest: bool, judged: list[bool]) -> Design:
    basis, bounds = Basis("fourier", 4.0, 4), LIMITS.bounds(arm)
    coordinates = PlannedCoordinates(arm, np.zeros(2))
    efforts = PlannedEfforts(coordinates, np.array([0.1, 0.2]), np.full(2, 0.1), LIMITS.frames(arm))
    shown = np.eye(4)[:, :3]  # the fourth is not seen
    known, sizes, t = np.diag([0.0, 4.0, 0.0, 0.0]), np.array([1.0, 0.2, 0.3, 1.0]), np.linspace(0, 4, 33)
    return Design(efforts, basis, bounds, t, known, sizes, np.array(judged), determinant, largest, shown)


@pytest.mark.parametrize("name", ["fourier", "bspline"])
def test_a_basis_rests_at_both_ends_and_its_rates_are_slopes(name: str) -> None:
    basis = Basis(name, 3.0, 5)
    t = np.linspace(0.0, 3.0, 3001)
    values, rates, accelerations = basis.at(t)
    assert basis.size == 9
    assert np.allclose([rates[[0, -1]], accelerations[[0, -1]]], 0, atol=1e-9)
    assert np.allclose(np.gradient(values, t, axis=0)[1:-1], rates[1:-1], atol=1e-3 * np.abs(rates).max())
    assert np.allclose(
        np.gradient(rates, t, axis=0)[1:-1], accelerations[1:-1], atol=1e-3 * np.abs(accelerations).max()
    )
    assert np.allclose(values[:, 0], values[0, 0]), "the first function is constant"


@pytest.mark.parametrize(
    ("determinant", "largest", "judged"),
    [(True, False, [True] * 4), (False, True, [True, True, True, False]), (False, False, [False, True, False, False])],
)
def test_derivatives_of_criteria_and_limits(arm: Problem, determinant: bool, largest: bool, judged: list[bool]) -> None:
    """Also at the ends, where rates are zero, the edge of friction."""
    plan = design(arm, determinant, largest, judged)
    rng = np.random.default_rng(0)
    z, d = 0.3 * rng.standard_normal(2 * plan.basis.size), rng.standard_normal(2 * plan.basis.size)
    program, h = DesignProgram(plan, z), 1e-6
    slope = (program.objective(z + h * d) - program.objective(z - h * d)) / (2 * h)
    assert slope == pytest.approx(program.gradient(z) @ d, rel=1e-6)
    rows = (program.constraints(z + h * d) - program.constraints(z - h * d)) / (2 * h)
    sparsity = program.jacobian_sparsity
    dense = np.zeros(sparsity.shape)
    dense[sparsity.get_triplet()[0], sparsity.get_triplet()[1]] = program.jacobian(z)
    assert np.allclose(dense @ d, rows, atol=1e-6 * np.abs(rows).max())


def test_efforts_are_those_of_inverse_dynamics_and_places_those_of_the_arm(arm: Problem) -> None:
    plan = design(arm, True, False, [True] * 4)
    z = 0.3 * np.random.default_rng(1).standard_normal(2 * plan.basis.size)
    motion = plan.motion(z)
    asked = plan.efforts.asked(motion)
    other = arm.with_(friction_width=0.1).inverse_dynamics(motion=tuple(motion))
    assert np.allclose(asked[:, :4], np.hstack([*motion[:2]]))
    assert np.allclose(asked[:, 4:6], other.efforts)
    q_1, height = motion[0][:, 0], asked[:, 8]
    up = np.sign(height[0] / np.sin(q_1[0]))  # which way the first joint turns
    assert np.allclose(height, up * 0.4 * np.sin(q_1))


def test_information_of_a_rotor_by_hand(tmp_path: Path) -> None:
    """τ = J a + b s, measured with σ at N instants: (JᵀJ)⁻¹ σ² of the columns a and s."""
    rotor = problem_of(tmp_path, ROTOR)
    t = np.arange(501) / 100
    w = 2 * np.pi * 0.6
    motion = np.stack([np.sin(w * t), w * np.cos(w * t), -(w**2) * np.sin(w * t)])[:, :, None]
    expected = rotor.expected_errors(planned_recording(rotor, t, motion), noise={"tau": 0.2})
    columns = np.column_stack([motion[2][:, 0], motion[1][:, 0]])
    by_hand = 0.2 * np.sqrt(np.diag(np.linalg.inv(columns.T @ columns)))
    assert expected.names == ("J", "b")
    assert np.allclose(expected.after, by_hand, rtol=0.03), "but for ends of half a step and the noise of positions"
    assert np.all(np.isinf(expected.before))
    assert expected.repetitions("J", by_hand[0] / 2) == pytest.approx(4, rel=0.1)
    assert "after 4 runs, 20 s in all" in expected.until("b", expected.after[1] / 1.99)
    assert "after one run of 5 s" in expected.until("b", expected.after[1] / 0.5, relative=True)


def test_a_fit_reports_what_was_expected_and_a_second_run_lessens_it(arm: Problem, found: Excitation) -> None:
    planned, rng = found.trajectory, np.random.default_rng(2)
    signals = {name: planned.signals[name] + size * rng.standard_normal(len(planned.t)) for name, size in NOISE.items()}
    solution = arm.with_(recordings=[Recording(t=planned.t, signals=signals)]).solve()
    errors = np.array([solution[name].std_err for name in "mcf"])
    before = [found.expected.names.index(name) for name in "mcf"]
    assert np.allclose(errors, found.expected.after[before], rtol=0.25), "the sizes of the noise are estimated"
    off = np.array([solution[name].estimate for name in "mcf"]) - found.expected.values[before]
    assert np.all(np.abs(off) < 4 * found.expected.after[before])
    again = arm.expected_errors(planned, noise=NOISE, known=solution)
    assert np.allclose(again.before[before], errors, rtol=1e-6)
    assert np.allclose(1 / again.after[before] ** 2, 1 / errors**2 + 1 / found.expected.after[before] ** 2, rtol=0.2)


def test_a_design_stays_within_its_limits_and_beats_random_motions(found: Excitation) -> None:
    at = found.trajectory
    assert all(np.all(np.abs(at.signals[name]) <= most) for name, most in {"q_1": 1.5, "q_2": 1.0}.items())
    assert all(np.all(np.abs(at.signals[f"{name}_rate"]) <= 4.0) for name in ("shoulder", "elbow"))
    assert np.max(np.abs(2.0 * at.signals["tau_1"])) <= 15.0 * 1.02, "friction turns faster in a fit than in a design"
    assert np.max(np.abs(found.efforts[:, 0])) <= 15.0
    assert [at.signals["shoulder_rate"][k] for k in (0, -1)] == pytest.approx([0, 0], abs=1e-9)
    assert found.found < found.random.min() - 0.5
    assert not found.notices, "both searches converge"
    assert math.isnan(found.expected.after[found.expected.names.index("s")]), "unobserved is unobserved"


def test_an_interrupt_keeps_the_best_that_was_finished(arm: Problem) -> None:
    def at_start(wanted: int) -> object:
        def told(start: int, iteration: int, criterion: float) -> None:
            if start == wanted:
                raise KeyboardInterrupt

        return told

    how = dict(noise=NOISE, rate=50, harmonics=3, starts=2)
    later = arm.excite(2.0, LIMITS, progress=at_start(2), **how)
    assert (later.interrupted, len(later.ends)) == (True, 1)


def test_an_interrupt_of_the_first_search_keeps_where_it_stood(arm: Problem) -> None:
    """It comes where nearly all is gained."""
    how = dict(noise=NOISE, rate=50, harmonics=3, starts=1)
    whole = arm.excite(2.0, LIMITS, **how)
    least = whole.random.min() + 0.95 * (whole.found - whole.random.min())

    def told(start: int, iteration: int, criterion: float) -> None:
        if criterion < least:
            raise KeyboardInterrupt

    first = arm.excite(2.0, LIMITS, progress=told, **how)
    assert (first.interrupted, len(first.ends)) == (True, 0)
    assert first.found < first.random.min()


def test_a_search_that_stops_before_it_converges_says_so(arm: Problem) -> None:
    stopped = arm.excite(2.0, LIMITS, noise=NOISE, rate=50, harmonics=3, starts=2, max_iterations=1)
    assert any("2 of 2 searches stopped at max_iterations" in notice for notice in stopped.notices)
    assert stopped.found <= stopped.random.min()


@pytest.mark.parametrize(
    ("how", "said"),
    [
        (dict(noise={"tau_1": 0.1}), "noise of signal 'tau_2' is not known"),
        (dict(noise=NOISE | {"tau_3": 1.0}), "noise names 'tau_3'"),
        (dict(limits=MotionLimits(rate={"shoulder": 1.0})), "nothing limits the rate of 'elbow'"),
        (dict(limits=LIMITS.over(MotionLimits(rate={"knee": 1.0}))), "limits name the joint 'knee'"),
        (dict(limits=MotionLimits(place={"hand": [(0, 1)] * 3}).over(LIMITS)), "limits name the frame 'hand'"),
        (dict(limits=MotionLimits(effort={"shoulder": 1e-3}).over(LIMITS)), "could not even stand"),
        (dict(criterion=["s"]), "tell next to nothing"),
        (dict(criterion="best"), "criterion 'best' is not known"),
        (dict(duration=-1.0), "duration is -1.0; give a number above 0"),
        (dict(rate=1.0), "a rate of 1 Hz is too low"),
        (dict(rate=None, harmonics=80), "a rate of 100 Hz is too low"),
        (dict(criterion=[]), "criterion .* is not known"),
        (dict(seed=-1), "seed is -1"),
        (dict(known="results/arm"), "known is 'results/arm'"),
    ],
)
def test_what_cannot_be_designed_is_refused(arm: Problem, how: dict[str, object], said: str) -> None:
    with pytest.raises(ProblemError, match=said):
        arm.excite(**{"duration": 2.0, "limits": LIMITS, "noise": NOISE, "rate": 20.0, "harmonics": 3} | how)


def test_a_guess_at_its_bound_and_friction_that_sticks_have_errors() -> None:
    J, b, c = (Parameter(n, g, lower=0) for n, g in (("J", 0.02), ("b", 0.0), ("c", 0.1)))
    rod = Body("rod", mass=0.4, inertia=(1e-4, J, J))
    on_wall, on_rod = GROUND.frame(x=(1, 0, 0), y=(0, 0, -1)), rod.frame(at=(-0.2, 0, 0), x=(0, 1, 0), y=(1, 0, 0))
    pin = Hinge("pin", on_wall, on_rod, viscous=b, coulomb=c)
    model = Model([rod], [pin], motors=[Motor(pin, "tau", measured=True)], gravity=gravity(9.81))
    seen = [JointPosition(pin, "theta", sigma=1e-3)]
    problem = Problem("rod", model=model, recordings=[], observations=seen, friction="exact")
    t = np.linspace(0, 3, 151)
    found = problem.expected_errors(Recording(t, {"theta": 0.5 * np.sin(4 * t)}), noise={"tau": 0.05})
    assert not found.reasons
    assert np.all(found.after < 0.1)
    assert found.until("J", 1.0).endswith("after one run of 3 s.")


def test_the_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, out = written(tmp_path / "plan.py", ARM.replace("MOTORS", "2")), tmp_path / "out.csv"
    noise = ["--noise", "q_*=1e-4", "tau_*=0.1"]
    small = ["--duration", "2", "--rate", "25", "--harmonics", "3", "--starts", "1", "--rate-limit", "*=3"]
    limits = ["--position-limit", "*=-1:1", "--inside", "two=,,-0.4:", "--until", "m=0.1%", "--criterion", "largest"]
    assert main(["excite", str(file), *noise, *small, *limits, "--out", str(out)]) == 0
    said = capsys.readouterr().out
    assert out.with_suffix(".png").is_file()
    assert Recording.from_csv(out).signals.keys() >= {"q_1", "q_2", "tau_1", "tau_2", "shoulder_rate"}
    assert main(["check", str(file), *noise, "--trajectory", str(out)]) == 0
    table = said.partition("Errors to expect")[2].partition("\n\nMotions hardly")[0]
    assert len(table) > 100
    assert table in capsys.readouterr().out, "the file tells what the design has told"
    positions = tmp_path / "positions.csv"
    planned = Recording.from_csv(out, signals=["q_1", "q_2"])
    planned.to_csv(positions)
    assert main(["check", str(file), *noise, "--trajectory", str(positions)]) == 0, "torques follow from positions"
    capsys.readouterr()
    assert main(["excite", str(file), *noise, *small, "--out", str(tmp_path / "plan.txt")]) == 2
    assert "ends in .csv" in capsys.readouterr().err
    half = written(tmp_path / "half.py", ARM.replace("MOTORS", "1"))
    assert main(["excite", str(half), *noise[:2], *small, "--out", str(tmp_path / "half.csv")]) == 2
    assert "'elbow' is driven by no motor" in capsys.readouterr().err
    assert not (tmp_path / "half.csv").exists()
    assert main(["check", str(file), *noise]) == 2
    assert "name it with --trajectory" in capsys.readouterr().err


@pytest.mark.parametrize(("jump", "rate"), [(0.1, 0.0), (0.0, 2.0)])
def test_a_jump_is_refused_with_its_time_and_joint(arm: Problem, jump: float, rate: float) -> None:
    t = np.arange(101) * 0.02
    late = np.maximum(t - 1, 0)
    q_2 = 0.5 * np.sin(3 * t)
    steady = Recording(t, {"q_1": 0.5 * np.sin(2 * t), "q_2": q_2})
    assert np.all(np.isfinite(arm.expected_errors(steady, noise=NOISE).after[:3]))
    with pytest.raises(ProblemError, match="makes 'elbow' jump at 1 s: 'q_2' changes"):
        arm.expected_errors(steady.with_signals(q_2=q_2 + jump * (late > 0) + rate * late), noise=NOISE)
