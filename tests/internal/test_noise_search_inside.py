"""The inside of what ``test_noise_search`` tests."""

from __future__ import annotations

import numpy as np
import pytest
from test_noise_search import found, rod, swung

from spookid import GROUND, Body, Hinge, HingeAngle, Model, Motor, Parameter, Problem, Recording, Status, gravity
from spookid.assembly.assembly import assemble
from spookid.estimation.identifiability import a_priori
from spookid.statistics.search import Search

# --- what is known ---


def test_a_search_that_cannot_be_carried_on_keeps_its_answer(monkeypatch):
    def fails(*_: object, **__: object) -> None:
        raise np.linalg.LinAlgError

    whole = found(2e-2, 1e-3)
    monkeypatch.setattr(Search, "carried_on", fails)
    solution = swung(rod(), 2e-2, 1e-3).solve()
    assert solution.status is Status.CONVERGED
    for parameter in solution.parameters.values():
        other = whole.parameters[parameter.name]
        assert abs(parameter.estimate - other.estimate) < 0.1 * other.std_err
        assert parameter.std_err == pytest.approx(other.std_err, rel=0.1)


# --- noisy simulations ---


def test_common_scale_is_named_before_the_solve() -> None:
    """With free mass, inertia, friction and gain nothing sets the unit of force; one of them known does."""
    t = np.arange(0.0, 3.02, 0.01)
    inputs = Recording(t=t, signals={"u": np.sin(2 * t) + np.sin(5.3 * t)})
    m, J, b = Parameter("m", 0.2, lower=0.01), Parameter("J", 1e-3, lower=1e-7), Parameter("b", 1e-3, lower=0)
    body = Body("rod", mass=m, inertia=(1e-5, J, J))
    frames = GROUND.frame(x=(0, 1, 0), y=(0, 0, -1)), body.frame(at=(-0.15, 0, 0), x=(0, 1, 0), y=(1, 0, 0))
    pin = Hinge("pin", *frames, viscous=b)
    model = Model([body], [pin], motors=[Motor(pin, "u", gain=Parameter("K", 0.05))], gravity=gravity(9.81))
    twin = Problem("scale", model, observations=[HingeAngle(pin, "theta")], step=0.01, step_correction=False)
    run = twin.simulate({"J": 2e-3}, 3.0, {"pin": 1.5}, inputs=inputs, noise={"theta": 1e-3}, substeps=1)
    problem = twin.with_(recordings=[Recording(run.t, run.signals)])
    before = a_priori(assemble(problem)).sensitivities
    assert [set(w.direction) for w in before.weak if w.singular_value == 0] == [{"m", "J", "b", "K"}]
    after = problem.solve()
    assert {"m", "J", "b", "K"} in [set(w.direction) for w in after.sensitivities.weak]
    assert all(np.isnan(after[name].std_err) for name in "mJbK")
    assert not a_priori(assemble(problem.with_(fixed=["m"]))).sensitivities.weak
