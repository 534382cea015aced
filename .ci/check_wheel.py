"""Fits the measured pendulum by what a wheel brings, at each level of this processor and without C code."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from spookid.kernels.library import LEVELS, SETTING, level, warning

INERTIA = 1.48622e-5
"""The same by all of them [kg m²]."""

if not level():
    sys.exit(f"not in the wheel, or not for this processor: {warning()}")
problem = Path(__file__).parents[1] / "problems" / "pendulum.py"
known = [*LEVELS][: [*LEVELS].index(level()) + 1]
for setting in (*known, "off"):
    with tempfile.TemporaryDirectory() as folder:
        alone = {**os.environ, "PATH": "", "CC": "", SETTING: setting}
        command = [sys.executable, "-m", "spookid", "solve", str(problem), "--quiet", "--out", folder]
        subprocess.run(command, env=alone, cwd=folder, check=True)
        solution = json.loads(Path(folder, "solution.json").read_text(encoding="utf-8"))
    expected = "CasADi's virtual machine" if setting == "off" else f"block interpreter ({setting})"
    if solution["versions"]["kernels"] != expected:
        sys.exit(f"{setting}: kernels by {solution['versions']['kernels']}")
    if abs(solution["parameters"]["J"]["estimate"] / INERTIA - 1.0) > 1e-4:
        sys.exit(f"{setting}: J is {solution['parameters']['J']['estimate']}")
