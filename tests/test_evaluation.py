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


def cells(text: str, title: str, *, after: str = "") -> list[str]:
    """Of the first row so titled, without the title."""
    (found, *_) = re.findall(rf"^\| {re.escape(title)} \|(.*)\|$", text[text.index(after) :], re.MULTILINE)
    return [cell.strip() for cell in found.split("|")]


def numbers(pattern: str, text: str) -> list[float]:
    """What the groups of the only match hold."""
    (match,) = re.finditer(pattern, text)
    return [float(group.replace("+", "")) for group in match.groups()]


@pytest.mark.parametrize("law", LAWS)
def test_scores_of_the_friction_laws(law: str) -> None:
    shown = cells(EVALUATION, f"CV, {law}")[1:]
    table = [float(cells(page("releases.md"), LAWS[law], after=f"## {device}")[2]) for device in DEVICES]
    assert list(map(float, shown)) == table


def test_ratios_and_deviations_of_dry_friction() -> None:
    releases = page("releases.md")
    ratios = [float(cells(releases, "dry", after=f"## {device}")[3]) for device in DEVICES]
    for shown, ratio in zip(cells(EVALUATION, "CV / cost, dry")[1:], ratios, strict=True):
        assert float(shown) == pytest.approx(ratio, rel=0.02)
    shown = cells(EVALUATION, "largest deviation of J from its mean, dry")[1:]
    for cell, device in zip(shown, DEVICES, strict=True):
        own = releases[releases.index(f"## {device}") :]
        spread = cells(own, "J [kg m^2]", after="### dry")[-1]
        assert float(cell.split()[0]) == pytest.approx(float(spread.rstrip("%")), abs=0.051)


@pytest.mark.parametrize("place", range(len(DEVICES)))
def test_verdicts_are_those_of_the_cross_validation(place: int) -> None:
    releases = page("releases.md")
    own = releases[releases.index(f"## {DEVICES[place]}") :].partition("With dry friction")[0]
    ratio = r"(\w+)(?: scores)? ([\d.]+) times as much as (\w+)"
    made = re.findall(rf"{ratio} \(worse in (\d+) of (\d+)", own.lower())
    cell = cells(EVALUATION, "verdict")[1 + place].lower()
    told = re.findall(ratio, cell)
    assert told
    assert set(told) <= {pair[:3] for pair in made}
    clear = {pair[0] for pair in made if pair[3] == pair[4]}
    assert clear == ({"viscous"} if "in all 6 pairs" in cell else set())
    assert ("none of it in all pairs" in cell) == (not clear)


def test_held_pendulums() -> None:
    releases, said = page("releases.md"), EVALUATION[EVALUATION.index("**The held pendulum.**") :]
    sentence = r"m g l/\(J \+ m l²\) is ([\d.]+) 1/s², ([+-][\d.]+) % from ([\d.]+)"
    found = {d: numbers(sentence, releases[releases.index(f"## {d}") :].partition("| law")[0]) for d in DEVICES}
    rod, off, parts = numbers(r"ODrive rod is ([\d.]+) 1/s².*?, \+([\d.]+) % from the parts list's (\d+\.\d+)", said)
    assert [rod, off, parts] == found["furuta-odrive"]
    assert abs(off) < 1.0
    multiarm = numbers(r"multiarm pendulum: ([\d.]+), ([+-][\d.]+) % from its authors' (\d+\.\d+)", said)
    assert multiarm == pytest.approx(found["multiarm-pendulum"], abs=0.051)
    assert numbers(r"12 g rod: ([\d.]+),", said) == found["pendulum-free-swing"][:1]


def test_swing_ups() -> None:
    made = page("swingup.md")
    said = EVALUATION[EVALUATION.index("**Swing-ups of the Qube**") :]
    low, high = numbers(r"is ([+-][\d.]+) % to ([+-][\d.]+) % from 0.0001245", made)
    assert numbers(r"([+-][\d.]+) to ([+-][\d.]+) % from 1\.245e-4", said) == pytest.approx([low, high], abs=0.051)
    inertias = list(map(float, cells(made, "J_rod about its hinge")[1:6]))
    assert numbers(r"hinge is ([\d.e-]+) to ([\d.e-]+) kg m²", said) == [min(inertias), max(inertias)]
    spreads = numbers(r"J_arm ([\d.]+) %, J_rod ([\d.]+) %, K ([\d.]+) %", made)
    shown = numbers(r"at most ([\d.]+), ([\d.]+) and ([\d.]+) %\. Simulated", said)
    assert shown == pytest.approx(spreads, abs=0.051)
    off = numbers(r"off by ([\d.]+) to ([\d.]+) rad rms", made)
    assert numbers(r"off by ([\d.]+) to ([\d.]+) rad rms", said) == off
    assert f"{numbers(r'not agree on theta_0: ([0-9.]+) sigma', made)[0]} sigma" in said
    assert max(abs(low), abs(high)) <= 3
    assert max(spreads) <= 10
    assert max(off) <= 0.1


def test_driven_pendulums() -> None:
    made = page("furuta.md")
    said = EVALUATION[EVALUATION.index("**Chirps of the Qube**") :]
    spreads = [float(cells(made, name)[-1].rstrip("%")) for name in ("J_arm [kg m^2]", "J_rod [kg m^2]", "K [N m/V]")]
    assert numbers(r"stay within ([\d.]+), ([\d.]+) and ([\d.]+) %", said) == spreads
    slopes = list(map(float, cells(made, "K / b_1 [rad/(V s)]", after="## ODrive")[:5]))
    shown = numbers(r"K / b_1 is ([\d.]+) to ([\d.]+) rad/s per volt, mean ([\d.]+)", said)
    assert shown == pytest.approx([min(slopes[:4]), max(slopes[:4]), slopes[4]], abs=0.0051)
