"""The code of other tools, as the pages for their users have it, gives the numbers of these pages where they are
installed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pages import DOCS, fenced, read, run

FOLDER = next(path for path in DOCS if path.name == "gtsam.md").parent


@pytest.fixture
def theirs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Names that the first block of another tool leaves behind, after the page's own code."""

    def ran(page: str, *modules: str) -> dict[str, Any]:
        for module in modules:
            pytest.importorskip(module)
        run(FOLDER / f"{page}.md", tmp_path)
        monkeypatch.chdir(tmp_path)
        names: dict[str, Any] = {}
        exec(fenced(read(FOLDER / f"{page}.md"), "py")[0], names)
        return names

    return ran


def test_scipy(theirs: Any) -> None:
    x, errors = theirs("scipy")["fit"].x[:3], np.array([0.004, 0.0011, 0.005])  # where it ends depends on rounding
    assert np.all(np.abs(x - [120.259, 0.2007, 2.101]) < 4 * errors)


def test_gtsam(theirs: Any) -> None:
    names = theirs("gtsam", "gtsam")
    assert names["found"].atVector(names["P"](0)) == pytest.approx([120.13, 0.46, 0.70], abs=0.01)


def test_a_regressor_with_pinocchio(theirs: Any) -> None:
    names = theirs("regressors", "pinocchio")
    found = dict(zip(names["base"], zip(names["found"], names["errors"], strict=True), strict=True))
    assert found[16] == pytest.approx((0.0148, 0.0002), abs=1e-4)  # fore I_yy
    assert found[21] == pytest.approx((0.291, 0.001), abs=5e-4)  # shoulder Coulomb


def test_mujoco(theirs: Any) -> None:
    names = theirs("mujoco", "mujoco", "colorama")  # of its extra sysid
    assert names["found"].as_vector() == pytest.approx([0.1201, 0.0297], abs=1e-4)
