"""Draws from the posterior: their distribution, bounds and possible inertias, files, and refusals."""

import json

import casadi as ca
import mujoco
import numpy as np
import pytest

from spookid import (
    GROUND,
    Body,
    FullInertia,
    Hinge,
    HingeAngle,
    LogCholesky,
    Model,
    Motor,
    Parameter,
    Problem,
    ProblemError,
    Recording,
    gravity,
    studies,
)
from spookid.__main__ import main

T = np.arange(0, 3, 0.01)
ARM = """<mujoco model="one"><worldbody><body name="arm"><joint name="pin" axis="0 1 0"/>
<inertial mass="0.5" pos="0 0 -0.2" diaginertia="0.004 0.004 0.001"/></body></worldbody></mujoco>"""


def swing(noise=2e-3, seed=0):
    """A driven pendulum by Störmer and Verlet in fine steps, with an encoder's noise."""
    inertia, q, v, shown = 0.5 * 0.2**2 + 0.004, 0.5, 0.0, []
    u = 0.4 * np.sin(5 * T)
    for k in range(len(T)):
        shown.append(q)
        for _ in range(50):
            for half in (0, 1):
                v += 1e-4 * (u[k] - 0.5 * 9.81 * 0.2 * np.sin(q) - 0.02 * v) / inertia
                q += 2e-4 * v * (half == 0)
    return Recording(T, {"q": np.array(shown) + noise * np.random.default_rng(seed).normal(size=len(T)), "u": u})


def pendulum(recording, J, b):
    body, axes = Body("arm", mass=0.5, inertia=(J, J, 0.001)), dict(x=(0, 1, 0), y=(0, 0, -1))
    joint = Hinge("pin", GROUND.frame(**axes), body.frame(at=(0, 0, 0.2), **axes), viscous=b)
    model = Model([body], [joint], [Motor(joint, "u")], gravity=gravity(9.81))
    return Problem("swing", model, recordings=[recording], observations=[HingeAngle(joint, "q")], step=0.01)


@pytest.fixture(scope="module")
def fitted():
    problem = pendulum(swing(), Parameter("J", 0.003, lower=0, unit="kg m^2"), Parameter("b", 0.01, lower=0))
    return problem, problem.solve()


def test_draws_have_the_covariance_of_the_fit(fitted):
    problem, solution = fitted
    draws = studies.randomize(problem, solution, 20000, seed=3)
    known = solution.sensitivities
    at = [known.names.index(name) for name in draws.names]
    expected = known.covariance[np.ix_(at, at)]
    scale = np.sqrt(np.diag(expected))
    assert np.allclose(np.cov(draws.values.T) / np.outer(scale, scale), expected / np.outer(scale, scale), atol=0.05)
    centre = [solution[name].estimate for name in draws.names]
    assert np.all(np.abs(draws.values.mean(axis=0) - centre) < 5 * scale / np.sqrt(len(draws)))
    assert draws[0].keys() == solution.values.keys()
    again = studies.randomize(problem, solution, 20000, seed=3)
    assert np.array_equal(draws.values, again.values)


def test_draws_stay_within_bounds_and_have_possible_inertias(fitted):
    """Bounds that cut the distribution, and a moment about the long axis that a body of small J could not have."""
    _, solution = fitted
    J, b = (solution[name] for name in ("J", "b"))
    tight = pendulum(
        swing(),
        Parameter("J", J.estimate, lower=J.estimate - 0.5 * J.std_err),
        Parameter("b", b.estimate, lower=0, upper=b.estimate + b.std_err),
    )
    draws = studies.randomize(tight, tight.solve(), 500)
    assert draws.redrawn > 0.1
    assert np.all(draws.values[:, draws.names.index("J")] >= J.estimate - 0.5 * J.std_err)
    assert np.all(2 * draws.values[:, draws.names.index("J")] > 0.001)


def test_inertias_that_one_axis_hardly_shows_stay_of_their_size():
    """Of a link on one hinge all but a moment is known by its prior alone, and draws of mass and moments are normal."""
    link = FullInertia(0.5, center_of_mass=(0, 0, -0.2), inertia=(0.004, 0.004, 0.001))
    body, axes = Body("arm", inertia=LogCholesky("arm", link, within=0.3)), dict(x=(0, 1, 0), y=(0, 0, -1))
    joint = Hinge("pin", GROUND.frame(**axes), body.frame(**axes), viscous=Parameter("b", 0.01, lower=0))
    model = Model([body], [joint], [Motor(joint, "u")], gravity=gravity(9.81))
    problem = Problem("swing", model, recordings=[swing()], observations=[HingeAngle(joint, "q")], step=0.01)
    solution = problem.solve()
    draws = studies.randomize(problem, solution, 2000)
    at = {name: draws.values[:, i] for i, name in enumerate(draws.names)}
    mass, known = np.exp(2 * at["arm_alpha"]), solution.physical["arm mass"]
    assert np.std(mass) == pytest.approx(known.std_err, rel=0.25)
    assert np.mean(mass) == pytest.approx(known.estimate, abs=known.std_err)
    coordinates = body.distribution.coordinates
    moments = ca.Function("moments", [ca.vertcat(*coordinates)], [body.inertia])
    for i in range(len(draws)):
        small, middle, large = np.linalg.eigvalsh(moments([draws[i][p.name] for p in coordinates]).full())
        assert small + middle > large > 0
        assert large < 0.1


def test_the_command_writes_draws_and_files_that_a_simulator_loads(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "arm.xml").write_text(ARM)
    np.savez("log.npz", t=T, **swing().signals)
    (tmp_path / "swing.py").write_text(
        "from spookid import FullInertia, HingeAngle, Motor, Parameter, Problem, Recording, robots\n"
        "J = Parameter('J', 0.003, lower=1e-3)\nb = Parameter('b', 0.01, lower=0)\n"
        "arm = FullInertia(0.5, center_of_mass=(0, 0, -0.2), inertia=(J, J, 0.001))\n"
        "robot = robots.read('arm.xml').with_(inertias={'arm': arm}, joints={'pin': {'viscous': b}})\n"
        "pin = robot.joints['pin']\n"
        "log, model = Recording.from_npz('log.npz'), robot.model(motors=[Motor(pin, 'u')])\n"
        "problem = Problem('swing', model, recordings=[log],\n"
        "    observations=[HingeAngle(pin, 'q')], step=0.01)\n"
    )
    assert main(["solve", "swing.py", "--out", "result", "--no-figures"]) == 0
    command = "randomize result --count 20 --out draws.json --to arm.xml --files drawn"
    assert main(command.split()) == 0
    assert "cover" in capsys.readouterr().out
    tree = json.loads((tmp_path / "draws.json").read_text())
    assert tree["parameters"] == ["J", "b"]
    assert np.shape(tree["draws"]) == (20, 2)
    files = sorted((tmp_path / "drawn").glob("*.xml"))
    assert len(files) == 20
    for i, file in enumerate(files):
        model = mujoco.MjModel.from_xml_path(str(file))
        J, b = tree["draws"][i]
        assert sorted(model.body_inertia[1]) == pytest.approx(sorted([J, J, 0.001]), rel=1e-6)
        assert model.dof_damping[0] == pytest.approx(b, rel=1e-6)
    assert main(command.split()) == 2
    assert "is there already" in capsys.readouterr().err


def test_nothing_to_draw_is_refused(fitted):
    problem, solution = fitted
    with pytest.raises(ProblemError, match="give at least 1"):
        studies.randomize(problem, solution, 0)
    known = problem.with_(fixed=["J", "b"])
    with pytest.raises(ProblemError, match="draws need one at least"):
        studies.randomize(known, known.solve(), 10)
