"""The inside of what ``test_between_steps`` tests."""

from __future__ import annotations

import casadi as ca
import numpy as np
import pytest

from spookid.data.losses import LOSSES
from spookid.statistics.whiteness import between_steps


def test_without_steps_of_another_length_the_place_between_them_tells() -> None:
    places = np.tile([0.0, 0.25, 0.5, 0.25], 500)
    middle, anywhere = np.full(20, 0.5), np.tile([0.0, 0.25, 0.5, 0.25], 5)
    apart, side_by_side = 10 * np.arange(20), np.arange(20)
    assert between_steps(middle, places, apart)
    assert not between_steps(anywhere, places, apart)
    assert not between_steps(middle, places, side_by_side)  # a stretch where samples drift against the steps
    assert not between_steps(middle, np.zeros(500), apart)
    assert not between_steps(middle[:0], places, apart[:0])


@pytest.mark.parametrize("loss", ["huber", "cauchy"])
def test_errors_are_told_from_rows_that_a_loss_has_bent(loss: str) -> None:
    r, at = ca.SX.sym("r"), np.array([-30.0, -1.0, -0.01, 0.0, 0.3, 1.0, 7.0])
    rows = np.asarray(ca.Function("row", [r], [LOSSES[loss].row(r)])(at[None]).full()[0])
    np.testing.assert_allclose(LOSSES[loss].residual(rows), at, rtol=1e-12, atol=1e-15)
