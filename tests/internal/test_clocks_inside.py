"""The inside of what ``test_clocks`` tests."""

from __future__ import annotations

import numpy as np
import pytest
from casadi import SX
from scipy.integrate import quad

from spookid import Parameter, Recording
from spookid.data.inputs import acting
from spookid.data.sampling import Grid
from spookid.mechanics.loads import Input


def test_means_of_an_input_are_its_integrals_and_slopes_those_of_its_delay() -> None:
    rng = np.random.default_rng(6)
    t = np.cumsum(rng.uniform(0.01, 0.08, 60))
    u, grid = rng.standard_normal(60), Grid(float(t[0]) + 0.1, 0.05, 30)
    run = Recording(t, {"u": u})

    def value(hold: str, s: float) -> float:
        held = u[max(int(np.searchsorted(t, s, side="right")) - 1, 0)]
        return float(np.interp(s, t, u)) if hold == "linear" else float(held)

    for hold in ("previous", "linear"):
        late = Parameter("late", 0.0)
        one = [Input("u", late, hold)]  # type: ignore[arg-type]
        (now, slopes), (more, _) = (acting(run, one, grid, {"late": d}) for d in (0.013, 0.013 + 1e-7))
        for k in (0, 7, 28):
            start = grid.start + k * grid.step
            inside = [s + 0.013 for s in t if start < s + 0.013 < start + grid.step]
            for found, weight in ((now.mean, lambda _: 1.0), (now.late, lambda s, start=start: (s - start) / 0.05)):
                exact = quad(
                    lambda s, weight=weight, hold=hold: weight(s) * value(hold, s - 0.013),
                    start,
                    start + 0.05,
                    points=inside,
                    limit=200,
                )[0]
                assert found[k, 0] == pytest.approx(exact / 0.05, abs=1e-9)
        for name in ("mean", "late"):
            difference = (getattr(more, name) - getattr(now, name)) / 1e-7
            np.testing.assert_allclose(getattr(slopes, name), difference, atol=1e-3)


@pytest.mark.parametrize("delay", [0.0, 0.015])
def test_a_cut_keeps_the_command_that_acts_where_it_begins(delay: float) -> None:
    stamps = np.arange(0.0, 2.0, 0.05)
    run = Recording(np.arange(0.0, 2.0, 0.01), {"x": np.ones(200), "u": np.sin(7 * stamps)}, times={"u": stamps})
    inputs, grid = [Input("u", delay=SX(delay))], Grid(1.02, 0.01, 50)
    whole, cut = (acting(one, inputs, grid, {})[0] for one in (run, run.between(1.02, 1.6)))
    np.testing.assert_allclose(cut.mean, whole.mean, atol=1e-12)
