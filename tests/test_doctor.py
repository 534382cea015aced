"""``spookid doctor``: versions, C extension, memory and extras, and a fit of a pendulum with known inertia."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib import metadata
from typing import Any

import pytest

import spookid
from spookid.__main__ import main


def asked(**environment: str) -> tuple[int, dict[str, str]]:
    """Exit status, and the lines of the command by their labels."""
    command = [sys.executable, "-m", "spookid", "doctor"]
    done = subprocess.run(
        command, env={**os.environ, "COLUMNS": "400", **environment}, capture_output=True, text=True, check=False
    )
    return done.returncode, dict(re.split(r"\s{2,}", line, maxsplit=1) for line in done.stdout.splitlines())


def test_it_lists_what_is_installed_and_fits() -> None:
    status, lines = asked()
    assert status == 0
    assert lines["spookid"].startswith(spookid.__version__)
    for package in ("casadi", "numpy", "scipy", "matplotlib"):
        assert f"{package} {metadata.version(package)}" in lines["packages"]
    assert "h5py" in lines["[logs]"]
    assert "mujoco" in lines["[robots]"]
    found, error = map(float, re.findall(r"[\d.]+", lines["test fit"])[:2])
    assert abs(found - 0.02) < 5 * error < 0.001


def test_it_says_what_evaluates_kernels() -> None:
    status, lines = asked(SPOOKID_NATIVE="off")
    assert status == 0
    assert "CasADi's virtual machine, because SPOOKID_NATIVE is 'off'" in lines["C code"]


@pytest.mark.parametrize("found", ["", "1.0"])
def test_a_package_that_is_missing_or_old_is_an_error(
    found: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    really = metadata.version

    def version(name: str, *_: Any) -> str:
        if name != "scipy":
            return really(name)
        if not found:
            raise metadata.PackageNotFoundError(name)
        return found

    monkeypatch.setattr(metadata, "version", version)
    assert main(["doctor"]) == 3
    shown = capsys.readouterr()
    assert ("scipy is 1.0, and >=1.14 is needed" if found else "scipy is missing") in shown.err
    assert "pip install --upgrade spookid" in shown.err
