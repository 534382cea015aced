"""What results/evaluation.md says stands in the tables that it speaks of."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

RESULTS = Path(__file__).parents[1] / "results"
DEVICES = ("pendulum-free-swing", "multiarm-pendulum", "furuta-odrive")
LAWS = {"viscous": "viscous", "dry": "dry", "Stribeck": "stribeck", "dry and drag": "drag"}


def page(name: str) -> str:
    """A page with its line breaks made spaces, apart from its tables."""
    text = (RESULTS / name).read_text(encoding="utf-8")
    return re.sub(r"(?<=[^|\n]) *\n *(?=[^|\n#-])", " ", text)


EVALUATION = page("evaluation.md")
RELEASES = page("releases.md")


def of_device(device: str) -> str:
    """The part of releases.md on a device."""
    return RELEASES[RELEASES.index(f"## {device}") :].partition("\n## ")[0]


def cells(text: str, title: str) -> list[str]:
    """Of the first row so titled, without the title."""
    (found, *_) = re.findall(rf"^\| {re.escape(title)} \|(.*)\|$", text, re.MULTILINE)
    return [cell.strip() for cell in found.split("|")]


def aic(device: str, law: str) -> float:
    """Of a law, from releases.md."""
    return float(cells(of_device(device), law)[2])


def frequencies(device: str) -> list[float]:
    """m g l/(J + m l²) with viscous friction, recording by recording."""
    own = of_device(device)
    return [float(cell.split()[0]) for cell in cells(own[own.index("m g l/(J + m l²)") :], "viscous")]


def numbers(pattern: str, text: str) -> list[float]:
    """What the groups of the only match hold."""
    (match,) = re.finditer(pattern, text)
    return [float(group.replace("+", "")) for group in match.groups()]


@pytest.mark.parametrize("law", LAWS)
def test_criteria_of_the_friction_laws(law: str) -> None:
    shown = cells(EVALUATION, f"AIC, {law}")
    assert list(map(float, shown)) == [aic(device, LAWS[law]) for device in DEVICES]


def test_the_best_law_has_the_least_criterion() -> None:
    for shown, device in zip(cells(EVALUATION, "best"), DEVICES, strict=True):
        assert LAWS[shown] == min(LAWS.values(), key=lambda law: aic(device, law))
        assert f"By Akaike's criterion {LAWS[shown]} is best" in of_device(device)


def test_all_fits_converged() -> None:
    for device in DEVICES:
        for law in LAWS.values():
            converged, fits = cells(of_device(device), law)[4].split(" of ")
            assert converged == fits


def test_held_pendulums() -> None:
    said = EVALUATION[EVALUATION.index("**Squared frequency of the hanging pendulum.**") :]
    spans = {
        "furuta-odrive": r"ODrive rod is ([\d.]+) to ([\d.]+) 1/s²",
        "multiarm-pendulum": r"multiarm pendulum is ([\d.]+) to (\d+\.\d+)",
        "pendulum-free-swing": r"12 g rod the squared frequency is ([\d.]+)\s+to (\d+\.\d+)",
    }
    for device, pattern in spans.items():
        found = frequencies(device)
        assert numbers(pattern, said) == [min(found), max(found)]
    assert frequencies("furuta-odrive") == pytest.approx([87.39] * 4, rel=0.01)
