"""What is fitted: problem files, the keys of their problems, and the answers in numbers."""

from __future__ import annotations

import math
import os
import runpy
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spookid import Solution, load_problem

ROOT = Path(__file__).resolve().parents[2]
SHARED = ROOT.parent / "shared"
FOLDERS = (ROOT / "problems", SHARED / "accept" / "problems")
CONVERTER = "data.convert"
"""Module by which problem files read measured data."""


@dataclass(frozen=True)
class Case:
    """One problem of a file."""

    file: Path
    key: str
    """Empty for a file that holds one problem."""

    @property
    def name(self) -> str:
        """``problems/emps.py::viscous``, the same on all machines."""
        inside = self.file.is_relative_to(ROOT)
        return f"{self.file.relative_to(ROOT if inside else SHARED).as_posix()}{self.key and f'::{self.key}'}"

    @classmethod
    def named(cls, name: str) -> Case:
        """The case of a name, or of a path."""
        file, _, key = name.partition("::")
        places = (ROOT / file, SHARED / file, Path(file).resolve())
        return cls(next((place for place in places if place.is_file()), places[0]), key)

    def solved(self) -> tuple[dict[str, Any], float]:
        """The answer, and the processor time of the declaration, the fit and the standard errors [s]."""
        began = processor_time()
        found = answer(load_problem(f"{self.file}{self.key and f'::{self.key}'}").solve())
        return found, processor_time() - began


def processor_time() -> float:
    """Of this process and of those that it has waited for [s]."""
    return sum(os.times()[:4])


def measured_data() -> bool:
    """True if there are the data that no problem file brings."""
    return Path(os.environ.get("SPOOKID_DATA") or SHARED / "data").is_dir()


def cases(file: Path) -> tuple[list[Case], bool]:
    """Those of a file, and whether they take measured data."""
    before, path = set(sys.modules), list(sys.path)
    sys.path.insert(0, str(file.parent))
    try:
        namespace = runpy.run_path(str(file))
        measured = CONVERTER in sys.modules or not file.is_relative_to(ROOT)
    finally:
        sys.path[:] = path
        for name in set(sys.modules) - before:
            if str(getattr(sys.modules[name], "__file__", "")).startswith(str(file.parent)):
                del sys.modules[name]
    return [Case(file, key) for key in namespace.get("problems", [""])], measured


def everything() -> Iterator[tuple[Case, bool]]:
    """All cases, and whether they take measured data."""
    for folder in FOLDERS:
        for file in sorted(folder.glob("*.py")):
            found, measured = cases(file)
            yield from ((case, measured) for case in found)


def answer(solution: Solution) -> dict[str, Any]:
    """What is compared."""
    cost = solution.cost
    return {
        "status": solution.status.value,
        "fit": {
            "stepper": solution.stepper,
            "friction": solution.friction,
            "dynamics": solution.dynamics,
            "step": float(f"{solution.step:.9g}"),
            "residuals": solution.size.residuals,
        },
        "cost": {name: number(getattr(cost, name)) for name in ("total", "state", "observation", "prior", "residual")},
        "log_likelihood": number(solution.log_likelihood),
        "parameters": {
            name: [number(one.estimate), number(one.std_err), *(["at bound"] if one.at_bound else [])]
            for name, one in solution.parameters.items()
            if not one.fixed
        },
    }


def number(value: float) -> float | None:
    """Twelve digits; None for what is no number."""
    return float(f"{value:.12g}") if math.isfinite(value) else None


def floor() -> float:
    """Time of LAPACK's dpbtrf, n = 24 x 1000, 47 subdiagonals, the best of seven [s]."""
    import numpy as np
    from scipy.linalg import lapack

    band = np.random.default_rng(0).normal(size=(48, 24_000)) * 0.1
    band[0] = 30.0
    best = math.inf
    for _ in range(7):
        copy = band.copy(order="F")
        began = time.process_time()
        info = lapack.dpbtrf(copy, lower=1, overwrite_ab=1)[1]
        best = min(best, time.process_time() - began)
        assert info == 0
    return best
