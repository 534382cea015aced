"""Fits whose disturbance stands in the place of the mechanics, and what is said of fits that did not end."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from test_between_recordings import turned
from test_unseen import driven, slider

from spookid import (
    GROUND,
    Body,
    Hinge,
    HingeAngle,
    Model,
    Parameter,
    Problem,
    Recording,
    Solution,
    Spook,
    Status,
    load,
    load_problem,
)
from spookid.__main__ import main


def suspicion(solution: Solution) -> str:
    return next((finding.text for finding in solution.findings if finding.code == "motion.unexplained"), "")


@pytest.mark.study
def test_a_reversed_motor_is_suspected() -> None:
    right = slider(35.0).with_(recordings=[driven()], step_correction=False, estimator="noise")
    reversed_ = slider(-35.0).with_(recordings=[driven()], step_correction=False, estimator="noise")
    assert not suspicion(right.solve())
    wrong = reversed_.solve()
    assert "slide" in suspicion(wrong)
    assert "of u reversed" in suspicion(wrong)
    assert wrong.summary().index("The process noise exceeds") < wrong.summary().index("parameter ")


@pytest.mark.parametrize("up", [1, -1])
def test_gravity_that_points_up_is_suspected(up: int) -> None:
    J, b = Parameter("J", 2e-3, lower=1e-7), Parameter("b", 1e-3, lower=0)

    def pendulum(g: float) -> Problem:
        rod = Body("rod", mass=0.2, inertia=(1e-5, J, J))
        frames = GROUND.frame(x=(0, 1, 0), y=(0, 0, -1)), rod.frame(at=(-0.15, 0, 0), x=(0, 1, 0), y=(1, 0, 0))
        pin = Hinge("pin", *frames, viscous=b)
        model = Model([rod], [pin], gravity=(0, 0, -g))
        settings = {"step": 0.02, "step_correction": False, "estimator": "noise"}
        return Problem("swing", model, observations=[HingeAngle(pin, "theta")], **settings)

    run = pendulum(9.81).simulate({"J": 2e-3, "b": 1e-3}, 2.0, {"pin": 1.0}, noise={"theta": 1e-3}, seed=0)
    solution = pendulum(up * 9.81).with_(recordings=[Recording(run.t, run.signals)]).solve()
    assert bool(suspicion(solution)) == (up < 0)


@pytest.mark.parametrize("up", [1, -1])
def test_gravity_that_points_up_is_suspected_where_a_loop_closes(up: int) -> None:
    problem = load_problem(Path(__file__).parents[1] / "problems" / "fourbar.py")
    model, run = problem.model, problem.recordings[0]
    turned = Model(model.bodies, model.joints, model.motors, gravity=(0, -up * 9.81, 0))
    settings = {"step_correction": False, "estimator": "noise"}
    found = problem.with_(model=turned, recordings=[run.between(0, 2)], **settings).solve(max_iterations=20)
    assert bool(suspicion(found)) == (up < 0)


def test_what_kept_a_fit_from_its_end_is_told_by_its_settings() -> None:
    problem = slider().with_(recordings=[driven()], step_correction=False)
    stopped = problem.solve(max_iterations=1)
    assert stopped.status is Status.MAX_ITERATIONS
    assert "the data do not determine a combination of" in stopped.message
    assert "along which a fit may diverge (max_iterations = 1)" in stopped.message
    assert "stiff" not in stopped.message
    weighted = slider(35.0).with_(recordings=[driven()], stepper=Spook(), state_weight=1e4).solve(max_iterations=0)
    assert "too stiff for `state_weight`" in weighted.message
    assert "the data do not determine" not in weighted.message


def test_no_cause_is_asked_for_after_convergence() -> None:
    solution = slider(35.0).with_(recordings=[driven()], step_correction=False, estimator="noise").solve()
    assert solution.message.startswith("A local minimum was found (")
    assert np.isfinite(solution["M"].std_err)


@pytest.mark.parametrize(("sign", "strict", "status"), [(1, False, 0), (-1, False, 3), (1, True, 0)])
def test_a_contradicted_model_ends_with_status_3(tmp_path: Path, sign: int, strict: bool, status: int) -> None:
    measured = turned(0.05, 1)
    flipped = Recording(measured.t, {"q": measured.signals["q"], "u": sign * measured.signals["u"]}, name="run")
    assert ended(tmp_path, flipped, strict) == status
    assert load(tmp_path / "out").contradicted == (sign < 0)


def test_strict_makes_a_warning_status_3(tmp_path: Path) -> None:
    measured = turned(0.05, 1)
    wrong = Recording(measured.t, {"q": measured.signals["q"], "u": np.roll(measured.signals["u"], 3)}, name="run")
    assert [ended(tmp_path / str(strict), wrong, strict) for strict in (False, True)] == [0, 3]


def ended(folder: Path, recording: Recording, strict: bool) -> int:
    """Exit status of ``spookid solve`` on a wheel."""
    folder.mkdir(exist_ok=True)
    np.savez(folder / "log.npz", t=recording.t, **recording.signals)
    (folder / "wheel.py").write_text(
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "import numpy as np\nfrom spookid import Recording\nfrom test_between_recordings import wheel\n"
        f"log = np.load({str(folder / 'log.npz')!r})\n"
        'problem = wheel([Recording(log["t"], {"q": log["q"], "u": log["u"]}, name="run")])\n'
    )
    flags = ["--no-figures", "--quiet", *["--strict"] * strict]
    return main(["solve", str(folder / "wheel.py"), "--out", str(folder / "out"), *flags])
