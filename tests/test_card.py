"""Cards and their verification: logs of the same device agree with its card, those of a changed one do not."""

from functools import lru_cache

import numpy as np
import pytest

from spookid import GROUND, Body, Hinge, HingeAngle, Model, Parameter, Problem, ProblemError, Recording, Servo, gravity
from spookid.__main__ import main
from spookid.studies import Card, card, verify

STEP = 0.01
T = np.arange(0, 4, STEP)
TRUTH = {"kp": 2.5, "armature": 0.003, "b": 0.03}
FILE = """
import sys
sys.path.insert(0, {here!r})
from test_card import declared, log
problem = declared([log(1, estimator={estimator!r})], {estimator!r})
"""


def declared(recordings, estimator):
    """An arm under a PD drive."""
    kp = Parameter("kp", 2.2, lower=0, unit="N m/rad")
    armature = Parameter("armature", 0.002, lower=0, unit="kg m^2")
    b = Parameter("b", 0.02, lower=0, unit="N m s")
    body, axes = Body("arm", mass=0.5, inertia=(1e-9,) * 3), dict(x=(0, 1, 0), y=(0, 0, -1))
    frames = GROUND.frame(**axes), body.frame(at=(0, 0, 0.1), **axes)
    joint = Hinge("joint", *frames, armature=armature, viscous=b)
    model = Model([body], [joint], [Servo(joint, "goal", kp=kp, kd=0.05)], gravity=gravity(9.81))
    return Problem("arm", model, recordings, [HingeAngle(joint, "q")], step=STEP, estimator=estimator)


@lru_cache
def log(seed, estimator="hard", **changes):
    """Of the device, or of one that has changed."""
    rng = np.random.default_rng(seed)
    waves = rng.uniform([0.2, 2, 0], [0.5, 9, 6], (4, 3))
    goal = sum(a * np.sin(w * T + f) for a, w, f in waves)
    inputs = Recording(T, {"goal": goal})
    noise = {"joint": 0 if estimator == "hard" else 0.003, "q": 1e-3}
    made = declared([], estimator).simulate(
        TRUTH | changes, duration=T[-1], inputs=inputs, noise=noise, seed=seed, initial={"joint": 0.0}
    )
    return Recording(made.t, made.signals, name=f"log{seed}")


@lru_cache
def known(estimator):
    """The problem and the card of its fit."""
    problem = declared([log(1, estimator)], estimator)
    return problem, card(problem, problem.solve())


@pytest.mark.parametrize("estimator", ["hard", "noise"])
def test_logs_of_the_same_device_agree(estimator):
    problem, own = known(estimator)
    found = [verify(problem, own, log(seed, estimator)) for seed in range(2, 14)]
    assert sum(not one.agrees for one in found) <= 1
    statistics = np.array([[change.statistic for change in one.changes] for one in found])
    assert 0.4 < np.sqrt(np.mean(statistics**2)) < 1.6  # standard normal


@pytest.mark.parametrize("estimator", ["hard", "noise"])
@pytest.mark.parametrize(("name", "factor"), [("kp", 1.15), ("armature", 1.4), ("b", 1.8)])
def test_a_changed_device_is_recognized(estimator, name, factor):
    problem, own = known(estimator)
    found = verify(problem, own, log(20, estimator, **{name: factor * TRUTH[name]}))
    assert not found.agrees
    assert found.strongest.name == name
    assert found.strongest.change == pytest.approx((factor - 1) * TRUTH[name], rel=0.4)
    assert f"CHANGED {name} by" in found.verdict
    assert "1 % of logs of an unchanged device give an alarm" in found.verdict


def test_a_card_is_kept_in_a_file(tmp_path):
    problem, own = known("hard")
    own.save(tmp_path / "arm.card.json")
    again = Card.load(tmp_path / "arm.card.json")
    assert (again.names, again.estimates, again.covariance) == (own.names, own.estimates, own.covariance)
    assert set(again.recordings) == {"log1"}
    assert verify(problem, again, log(2)).agrees
    for path, words in ((tmp_path / "none.json", "cannot be read"), (__file__, "is no card")):
        with pytest.raises(ProblemError, match=words):
            Card.load(path)


def test_what_is_refused():
    problem, own = known("hard")
    with pytest.raises(ProblemError, match="is not the problem of the card"):
        verify(declared([], "hard").with_(step=0.02), own, log(2))
    with pytest.raises(ProblemError, match="has no signal 'q'"):
        verify(problem, own, Recording(T, {"goal": np.sin(T)}))
    with pytest.raises(ProblemError, match="between 0 and 1"):
        verify(problem, own, log(2), false_alarms=0)


def test_the_commands_end_with_0_or_3(tmp_path, capsys):
    from pathlib import Path

    source = tmp_path / "arm.py"
    source.write_text(FILE.format(here=str(Path(__file__).parent), estimator="hard"), encoding="utf-8")
    result, path = str(tmp_path / "result"), str(tmp_path / "arm.card.json")
    assert main(["solve", str(source), "--out", result, "--quiet", "--no-figures"]) == 0
    assert main(["card", result, "--out", path]) == 0
    for name, recording, status in (("same", log(2), 0), ("other", log(3, b=0.06), 3)):
        table = np.column_stack([recording.t, recording.signal("goal"), recording.signal("q")])
        np.savetxt(tmp_path / f"{name}.csv", table, delimiter=",", header="t,goal,q", comments="")
        found = tmp_path / f"{name}.json"
        assert main(["verify", path, str(tmp_path / f"{name}.csv"), "--out", str(found)]) == status
        assert found.exists()
    assert "CHANGED b by" in capsys.readouterr().out
