"""The mean of smooth friction's sign over the slips of a step, against quadrature, and its derivatives at the edges."""

import casadi as ca
import numpy as np
import pytest
from scipy.integrate import quad

from spookid.mechanics.friction_loads import mean_sign, smooth_sign

_a, _b, _w = (ca.SX.sym(name) for name in "abw")
MEAN = ca.Function("mean", [_a, _b, _w], [mean_sign(_a, _b, _w)])
SLOPE = ca.Function("slope", [_a, _b, _w], [ca.jacobian(mean_sign(_a, _b, _w), ca.vertcat(_a, _b))])


@pytest.mark.parametrize("width", [1.0, 0.05, 1e-4])
@pytest.mark.parametrize(("a", "b"), [(-0.3, 0.5), (0.2, 0.4), (0.0, 0.1), (-1.0, 1.0), (3.0, -0.01), (50.0, 60.0)])
def test_it_is_the_mean_over_all_slips(a: float, b: float, width: float) -> None:
    turns = [s for s in (-20 * width, 0.0, 20 * width) if min(a, b) < s < max(a, b)]
    wanted = quad(lambda s: np.tanh(s / width), a, b, points=turns or None, limit=500)[0] / (b - a)
    assert float(MEAN(a, b, width)) == pytest.approx(wanted, abs=1e-7)


@pytest.mark.parametrize("slip", [0.0, 1e-9, 0.02, -0.3, 100.0])
def test_without_a_change_it_is_the_sign(slip: float) -> None:
    assert float(MEAN(slip, slip, 0.05)) == pytest.approx(np.tanh(slip / 0.05), abs=1e-15)


@pytest.mark.parametrize("change", [0.0, 1e-12, 9.9e-5, 1.01e-4, 0.01, -0.3, 7.0])
@pytest.mark.parametrize("slip", [0.0, 0.01, -0.2])
def test_its_derivatives_are_those_of_differences(slip: float, change: float) -> None:
    a, b, d = slip, slip + change, 1e-5
    slopes = [
        float(MEAN(a + d, b, 0.05) - MEAN(a - d, b, 0.05)) / (2 * d),
        float(MEAN(a, b + d, 0.05) - MEAN(a, b - d, 0.05)) / (2 * d),
    ]
    np.testing.assert_allclose(SLOPE(a, b, 0.05).full()[0], slopes, atol=2e-4 * (1 + max(map(abs, slopes))))


def test_it_takes_energy_out_and_has_no_side() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 1000))
    mean = MEAN.map(1000)(a, b, 10.0 ** rng.uniform(-6, 0, 1000)).full()[0]
    assert np.all(mean * (a + b) >= 0)
    np.testing.assert_allclose(
        MEAN.map(1000)(b, a, 0.1).full(), MEAN.map(1000)(a, b, 0.1).full(), rtol=1e-9, atol=1e-12
    )
    assert float(ca.evalf(smooth_sign(ca.SX(0.3), ca.SX(0.1)))) == pytest.approx(np.tanh(3.0))
