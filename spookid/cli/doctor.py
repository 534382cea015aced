"""``spookid doctor``: what is installed, and whether a fit works here; for the first lines of a report of a fault."""

from __future__ import annotations

import math
import os
import platform
import sys
import time
from argparse import Namespace
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

import numpy as np
from packaging.requirements import Requirement  # Matplotlib needs it

from spookid import GROUND, Body, Hinge, HingeAngle, Model, Parameter, Problem, ProblemError, Recording, gravity
from spookid.cli import terminal
from spookid.cli.terminal import Exit, Interruption
from spookid.data.arrays import available
from spookid.kernels import library
from spookid.solvers.status import Status
from spookid.tables.table import seconds, wrapped
from spookid.version import __version__

INERTIA = 0.02
"""Of the pendulum that is fitted [kg m²]."""


def doctor(arguments: Namespace, interruption: Interruption) -> Exit:
    """Print versions, the C extension, memory and extras, and fit a simulated pendulum.

    Args:
        arguments: none.
        interruption: ends the fit.

    Returns:
        ``Exit.DONE``, or ``Exit.NOT_CONVERGED`` if a required package is missing or too old, or the fit fails.
    """
    sections = _requirements()
    core, problems = _installed(sections.pop("", []))
    fit, failure = _fitted()
    lines = [
        ("spookid", f"{__version__} in {Path(library.SOURCE).parent}"),
        ("Python", f"{platform.python_version()} ({sys.executable})"),
        ("system", f"{platform.platform()}, {os.cpu_count()} processors"),
        ("memory", _memory()),
        ("C code", library.warning() or f"kernels are evaluated by {_evaluator()}"),
        ("packages", core),
        *((f"[{name}]", _extra(name, needed)) for name, needed in sections.items()),
        ("test fit", failure or fit),
    ]
    width = max(len(label) for label, _ in lines) + 2
    for label, text in lines:
        terminal.say("\n".join(wrapped(text, terminal.columns(), label.ljust(width))))
    if problems:
        terminal.complain(f"error: {', '.join(problems)}; run {sys.executable} -m pip install --upgrade spookid")
    return Exit.NOT_CONVERGED if problems or failure else Exit.DONE


def _requirements() -> dict[str, list[Requirement]]:
    """Those of this system by extra, of the package itself under an empty name; extras for developers are left out."""
    sections: dict[str, list[Requirement]] = {"": []}
    for needed in map(Requirement, metadata.requires("spookid") or []):
        for extra in ("", *(metadata.metadata("spookid").get_all("Provides-Extra") or [])):
            optional = needed.marker is not None and not needed.marker.evaluate({"extra": ""})
            if extra in ("docs", "test") or optional != bool(extra):
                continue
            if not optional or (needed.marker is not None and needed.marker.evaluate({"extra": extra})):
                sections.setdefault(extra, []).append(needed)
    return sections


def _installed(needed: Sequence[Requirement]) -> tuple[str, list[str]]:
    """Names with versions, and in words what is missing or too old."""
    texts, problems = [], []
    for one in needed:
        found = _version(one.name)
        texts.append(f"{one.name} {found or 'missing'}")
        if not found:
            problems.append(f"{one.name} is missing")
        elif not one.specifier.contains(found, prereleases=True):
            problems.append(f"{one.name} is {found}, and {one.specifier} is needed")
    return ", ".join(texts), problems


def _extra(name: str, needed: Sequence[Requirement]) -> str:
    text, problems = _installed(needed)
    return f'{text} (pip install "spookid[{name}]")' if problems else text


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


def _evaluator() -> str:
    setting = os.environ.get(library.SETTING, "")
    return library.evaluator() + (f", because {library.SETTING} is {setting!r}" if setting else "")


def _memory() -> str:
    free = available()
    return f"{free / 2**30:.1f} GiB may be used" if math.isfinite(free) else "not reported by this system"


def _fitted() -> tuple[str, str]:
    """In words a fit that worked, or else why it did not."""
    inertia = Parameter("J", 0.8 * INERTIA, lower=1e-6, unit="kg m²")
    start = time.perf_counter()
    try:
        solution = _swing(inertia).solve()
    except (ProblemError, RuntimeError) as error:
        return "", f"FAILED: {error}"
    found, took = solution["J"], seconds(time.perf_counter() - start)
    if solution.status is not Status.CONVERGED or abs(found.estimate - INERTIA) > 5.0 * found.std_err:
        return (
            "",
            f"FAILED: estimate J = {found.estimate:.6g} ± {found.std_err:.2g}, true {INERTIA}; {solution.message}",
        )
    return f"estimate J = {found.estimate:.5f} ± {found.std_err:.5f} kg m², true value {INERTIA}; {took}", ""


def _swing(inertia: Parameter) -> Problem:
    """A pendulum, simulated by symplectic steps of a fiftieth of the sampling time, with white noise."""
    mass, length, step, fine = 0.5, 0.2, 0.01, 500
    angle, rate, angles = 0.8, 0.0, []
    for _ in range(200):
        angles.append(angle)
        for _ in range(fine):
            rate -= step / fine * mass * 9.81 * length * math.sin(angle) / (INERTIA + mass * length**2)
            angle += step / fine * rate
    measured = np.random.default_rng(0).normal(angles, 1e-3)
    body = Body("arm", mass=mass, inertia=(1e-9, 1e-9, 1e-9))
    axes = {"x": (0, 1, 0), "y": (0, 0, -1)}
    hinge = Hinge("joint", GROUND.frame(**axes), body.frame(at=(0, 0, length), **axes), armature=inertia)
    model = Model([body], [hinge], gravity=gravity(9.81))
    recording = Recording(np.arange(0.0, len(angles), dtype=np.float64) * step, {"q": measured})
    return Problem("pendulum", model, [recording], [HingeAngle(hinge, "q", 1e-3)], step=step)
