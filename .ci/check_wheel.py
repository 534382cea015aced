"""Fits the measured pendulum by what a wheel brings, without a compiler, in the environment of the wheel."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from spookid.kernels.prebuilt import SOURCES, prebuilt_library

INERTIA = 1.48622e-5
"""By a compiler's code and by NumPy alike [kg m²]."""

missing = [name for name in SOURCES if prebuilt_library(name) is None]
if missing:
    sys.exit(f"not in the wheel, or not for this processor: {', '.join(missing)}")
problem = Path(__file__).parents[1] / "problems" / "pendulum.py"
with tempfile.TemporaryDirectory() as folder:
    alone = {**os.environ, "PATH": "", "CC": "", "SPOOKID_CACHE": "off"}
    command = [sys.executable, "-m", "spookid", "solve", str(problem), "--quiet", "--out", folder]
    subprocess.run(command, env=alone, cwd=folder, check=True)
    solution = json.loads(Path(folder, "solution.json").read_text(encoding="utf-8"))
if not solution["versions"]["kernels"].startswith("CasADi"):
    sys.exit("a compiler was found")
if abs(solution["parameters"]["J"]["estimate"] / INERTIA - 1.0) > 1e-4:
    sys.exit(f"J is {solution['parameters']['J']['estimate']}")
