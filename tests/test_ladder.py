"""Ladders of nested models: a step that the data need pays, one that they do not need does not."""

from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

from spookid import (
    GROUND,
    Body,
    GearFriction,
    Hinge,
    HingeAngle,
    Model,
    Parameter,
    Problem,
    ProblemError,
    Recording,
    Servo,
    gravity,
)
from spookid.__main__ import main
from spookid.studies import ladder

STEP = 0.01
T = np.arange(0, 3, STEP)


def declared(recordings, names):
    """An arm under a PD drive, with the friction of gears as far as it is named."""
    first = dict(c=0.02, K_m=0.15, d=0.01)
    free = {name: Parameter(name, first[name], lower=0) for name in names}
    body, axes = Body("arm", mass=0.5, inertia=(1e-9,) * 3), dict(x=(0, 1, 0), y=(0, 0, -1))
    load = GearFriction(free.get("c", 0), motor=free.get("K_m", 0), external=free.get("K_m", 0))
    frames = GROUND.frame(**axes), body.frame(at=(0, 0, 0.1), **axes)
    joint = Hinge("joint", *frames, armature=0.002, viscous=0.02, drag=free.get("d", 0), loads=[load])
    model = Model([body], [joint], [Servo(joint, "goal", kp=2.5, kd=0.05)], gravity=gravity(9.81))
    return Problem("gears", model, recordings, [HingeAngle(joint, "q")], step=STEP, estimator="hard")


@lru_cache
def recordings(count=3):
    """Of friction that follows the load, with white noise of the encoder."""
    found = []
    for i in range(count):
        goal = 0.9 * np.sin((2 + i) * T) + 0.3 * np.sign(np.sin((3.1 + i) * T + i))
        asked = declared([], ("c", "K_m"))
        truth, inputs = {"c": 0.01, "K_m": 0.2}, Recording(T, {"goal": goal})
        made = asked.simulate(truth, duration=3, inputs=inputs, noise={"joint": 0, "q": 2e-3}, seed=i)
        found.append(Recording(made.t, made.signals, name=f"log{i}"))
    return found


def test_a_step_that_the_data_need_pays_and_another_does_not():
    logs = recordings()
    names = {"Coulomb": ("c",), "loaded": ("c", "K_m"), "drag": ("c", "K_m", "d")}
    found = ladder({name: declared(logs, which) for name, which in names.items()})
    loaded, drag = found.steps
    assert loaded.likely
    assert loaded.predicts
    assert loaded.better == len(logs)
    assert not (drag.likely and drag.predicts)
    assert [rung.count for rung in found.rungs] == [1, 2, 3]
    assert found.rungs[1].solution["K_m"].estimate == pytest.approx(0.2, abs=0.03)
    assert max(found.rungs[1].left_out.values()) < 0.01
    assert len(found.records()) == len(names) * len(logs)
    assert "loaded pays: " in str(found)


def test_what_is_refused():
    logs = recordings(2)
    small, large = (declared(logs, names) for names in (("c",), ("c", "K_m")))
    for problems, words in (
        ({"one": small}, "two models or more"),
        ({"large": large, "small": small}, "from small to large"),
        ({"small": small, "large": large.with_(recordings=logs[:1])}, "fewer than two recordings"),
        ({"small": small, "large": large.with_(recordings=recordings(3))}, "other recordings"),
    ):
        with pytest.raises(ProblemError, match=words):
            ladder(problems)


def test_the_command_writes_a_folder(tmp_path: Path, capsys):
    here = Path(__file__).parent
    file = tmp_path / "servo.py"
    file.write_text(
        f"import sys\nsys.path.insert(0, {str(here)!r})\nfrom test_ladder import declared, recordings\n"
        "logs = recordings(2)\n"
        "problems = {'small': declared(logs, ('c',)), 'large': declared(logs, ('c', 'K_m'))}\n",
        encoding="utf-8",
    )
    assert main(["ladder", str(file), "--out", str(tmp_path / "out"), "--quiet"]) == 0
    assert (tmp_path / "out" / "ladder.json").exists()
    assert "large pays: " in (tmp_path / "out" / "ladder.txt").read_text(encoding="utf-8")
    assert main(["ladder", str(file), "--out", str(tmp_path / "out"), "--quiet"]) == 0
