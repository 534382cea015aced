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
        (dict(criterion=["s"]), "barely determine"),
        (dict(criterion="best"), "criterion 'best' is not known"),
        (dict(duration=-1.0), "duration is -1.0; give a number above 0"),
        (dict(rate=1.0), "a rate of 1 Hz is too low"),
        (dict(rate=None, harmonics=80), "a rate of 100 Hz is too low"),
        (dict(criterion=[]), "criterion .* is not known"),
        (dict(seed=-1), "seed is -1"),
        (dict(estimator="soft"), "estimator"),
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
    table = said.partition("\n\nparameter ")[2].partition("\n\n")[0]
    assert len(table) > 100
    assert table in capsys.readouterr().out, "the file has the errors of the design"
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
    with pytest.raises(ProblemError, match="of joint 'elbow' jumps at 1 s: signal 'q_2' changes"):
        arm.expected_errors(steady.with_signals(q_2=q_2 + jump * (late > 0) + rate * late), noise=NOISE)


def test_a_design_is_for_the_estimator_that_is_asked_for_and_regressions_have_none(arm: Problem) -> None:
    how = {"noise": NOISE, "rate": 50, "harmonics": 3, "starts": 1, "max_iterations": 1}
    wide, sharp = (arm.excite(2.0, LIMITS, estimator=estimator, **how).expected for estimator in ("noise", "hard"))
    assert sharp.assumptions != wide.assumptions
    with pytest.raises(ProblemError, match="least squares have no estimator 'hard'"):
        arm.regress(estimator="hard")
