"""Every public class has an example that runs: in its docstring, or on a page of the documentation."""

from __future__ import annotations

import doctest
import inspect
import re
from functools import cache
from pathlib import Path
from typing import Any

import casadi as ca
import numpy as np
import pytest
from pages import ROOT, fenced, read

import spookid
from spookid import GROUND, Body, Hinge, HingeAngle, Model, Parameter, Problem, Recording, gravity

CLASSES = sorted(name for name in spookid.__all__ if inspect.isclass(getattr(spookid, name)))
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@cache
def names() -> dict[str, Any]:
    """What examples in docstrings take as given, as ``docs/reference/index.md`` says."""
    J = Parameter("J", 0.01, lower=1e-6, unit="kg m^2")
    rod, arm = Body("rod", mass=0.5, inertia=(1e-4, 0.01, J)), Body("arm", mass=1.0, inertia=(0.01, 0.01, 0.01))
    axle, pivot = GROUND.frame(x=(0, 1, 0), y=(0, 0, -1)), rod.frame(at=(-0.2, 0, 0), x=(0, 0, 1), y=(1, 0, 0))
    hinge = Hinge("hinge", axle, pivot, viscous=0.002)
    elbow = Hinge("elbow", rod.frame(at=(0.2, 0, 0)), arm.frame(at=(-0.2, 0, 0)))
    model = Model([rod], [hinge], gravity=gravity(9.81))
    problem = Problem("pendulum", model, observations=[HingeAngle(hinge, "theta")], step=0.01)
    clean = problem.simulate({"J": 0.02}, 1.0, {"hinge": 1.2})
    noise = 1e-3 * np.random.default_rng(0).normal(size=len(clean.t))
    recording = Recording(clean.t, {"theta": clean.signal("theta") + noise}, "release")
    problem = problem.with_(recordings=[recording])
    public = {name: getattr(spookid, name) for name in spookid.__all__}
    own = {"rod": rod, "arm": arm, "hinge": hinge, "elbow": elbow, "problem": problem, "recording": recording}
    return {**public, **own, "solution": problem.solve(), "ca": ca, "np": np}


@cache
def code_of_pages() -> str:
    """Code of the pages, which runs in ``tests/test_docs.py``."""
    pages = sorted((ROOT / "docs").rglob("*.md"))
    return "\n".join(code for page in pages for kind in ("python", "{code-cell}") for code in fenced(read(page), kind))


def examples(name: str) -> list[doctest.Example]:
    return doctest.DocTestParser().get_examples(inspect.cleandoc(getattr(spookid, name).__doc__))


def in_docstrings() -> str:
    return "\n".join(one.source for name in CLASSES for one in examples(name))


@pytest.mark.parametrize("name", [name for name in CLASSES if examples(name)])
def test_the_example_of_a_docstring_runs(name: str) -> None:
    text, said = inspect.cleandoc(getattr(spookid, name).__doc__), list[str]()
    test = doctest.DocTestParser().get_doctest(text, dict(names()), name, str(Path(__file__)), 0)
    doctest.DocTestRunner(optionflags=FLAGS).run(test, out=said.append)
    assert "".join(said) == ""


@pytest.mark.parametrize("name", [name for name in CLASSES if not examples(name)])
def test_a_class_without_an_example_in_its_docstring_is_used_on_a_page(name: str) -> None:
    assert re.search(rf"\b{name}\b", code_of_pages() + in_docstrings()), f"{name} has no example"


@pytest.mark.parametrize("name", CLASSES)
def test_a_class_says_what_it_is(name: str) -> None:
    """In a first sentence with a subject of its own: not the class's name, and no signature."""
    first = inspect.cleandoc(getattr(spookid, name).__doc__).partition("\n\n")[0]
    assert re.match(r"[A-Z][\w,-]* ", first)
    assert len(first.split()) >= 3
    assert not first.startswith(f"{name}(")
