"""What the pages say runs, what they link to is there, and every public name is in the reference."""

from __future__ import annotations

import inspect
import re
import shlex
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from pages import DOCS, PAGES, ROOT, anchors, code, fenced, links, read, run, section, shell_lines

import spookid
import spookid.graphs
import spookid.planar
import spookid.studies
from spookid import Status, load
from spookid.__main__ import main, parser

README, GUIDE, COMMANDS = (ROOT / name for name in ("README.md", "docs/guide.md", "docs/reference/commands.md"))
RUN = [path for path in PAGES if code(read(path)).strip()]  # those of {code-cell}s run when the site is built
REFERENCE = ROOT / "docs" / "reference"
SITE = "-m sphinx -j 2 -W --keep-going -n -c docs -b html . docs/_build/html"


def named(paths: list[Path]) -> Any:
    return pytest.mark.parametrize("path", paths, ids=lambda path: str(path.relative_to(ROOT)))


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], dict[str, Any]]:
    """What the code of a page leaves behind, each page run once."""
    return cache(lambda path: run(path, tmp_path_factory.mktemp(path.stem)))


# --- code ---


@named(RUN)
def test_the_code_of_a_page_runs(path: Path, ran: Callable[[Path], dict[str, Any]]) -> None:
    assert len(ran(path)) > 2


def test_the_ten_lines_solve_the_recording_that_ships(ran: Callable[[Path], dict[str, Any]]) -> None:
    (lines,) = fenced(section("Ten lines", read(README)), "python")
    assert len([line for line in lines.splitlines() if line]) == 10
    solution = ran(README)["solution"]
    assert solution.status is Status.CONVERGED
    # m g l/(J + m l^2), which a simulation-error fit of the same release puts at 120.27 1/s^2
    J, m, l = solution["J"].estimate, 0.01225, 0.062
    assert m * 9.81 * l / (J + m * l**2) == pytest.approx(120.27, abs=0.15)
    assert 0 < solution["c"].std_err < 0.2 * solution["c"].estimate


def test_a_log_that_ships_is_watched_by_the_command_of_the_page(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    page = shell_lines(read(ROOT / "docs/howto/watching.md"))
    command = next(line for line in page if line.startswith("spookid watch"))
    assert main(shlex.split(command)[1:]) == 0
    assert "furuta_release: watched until 10.00 s, 0 changes" in capsys.readouterr().out


@named(PAGES)
def test_code_of_a_page_fits_the_site(path: Path) -> None:
    for language in ("python", "{code-cell} ipython3"):
        for line in (line for block in fenced(read(path), language) for line in block.splitlines()):
            assert len(line) <= 100, line


def test_the_tour_finds_the_truth(ran: Callable[[Path], dict[str, Any]]) -> None:
    tour = ran(GUIDE)
    solution, truth = tour["solution"], tour["truth"]
    assert solution.status is Status.CONVERGED
    # Estimates belong to the step: its rotation is exact to third order only (3.24), and friction makes up for it.
    for name, within in {"J": 0.005, "b": 0.15, "c": 0.15}.items():
        estimate, value = solution[name], truth[name]
        assert estimate.estimate == pytest.approx(value, rel=within)
        assert abs(estimate.estimate - value) < 0.2 * abs(estimate.initial - value)
        assert not estimate.at_bound
        assert 0 < estimate.std_err < 0.05 * value
    about_hinge = solution(tour["J"] + 0.2 * 0.15**2)
    assert about_hinge.estimate == pytest.approx(solution["J"].estimate + 0.2 * 0.15**2)
    assert about_hinge.std_err == pytest.approx(solution["J"].std_err)


def test_the_tour_saves_and_replays(ran: Callable[[Path], dict[str, Any]]) -> None:
    tour = ran(GUIDE)
    swing, replay = tour["swing"], tour["replay"]
    assert load(tour["folder"] / "results" / "swing").values == tour["solution"].values
    assert len(replay.t) == len(swing.t)
    assert abs(replay.signal("theta") - swing.signal("theta")).max() < 0.1


def test_the_driven_slider_finds_the_truth(ran: Callable[[Path], dict[str, Any]]) -> None:
    driven, true = ran(GUIDE)["driven"], ran(GUIDE)["true"]
    for name, value in true.items():
        assert abs(driven[name].estimate - value) < 3 * driven[name].std_err
        assert driven[name].std_err < 0.02 * abs(value)


def test_the_tour_is_as_long_as_it_says() -> None:
    assert len(fenced(section("A tour in forty lines", read(GUIDE)), "python")[0].splitlines()) <= 40


def test_the_sensors_of_the_tables_are_those_of_the_package(ran: Callable[[Path], dict[str, Any]]) -> None:
    page = ROOT / "docs" / "howto" / "sensors.md"
    known = ran(page)
    known = {**known, "joint": known["hinge"]}
    assert [p.name for p in known["problem"].parameters] == ["J", "g_x", "g_y", "g_z", "a_x", "a_y", "a_z"]
    listed = [
        text for row in re.findall(r"^\| (`\w+\(.*?`) \|", read(page), re.MULTILINE) for text in row[1:-1].split("`, `")
    ]
    assert len(listed) == 12
    for text in listed:
        assert len(eval(text, known).channels(known["problem"].model)) in (0, 1, 3, 4)


# --- commands ---


@named(PAGES)
def test_commands_of_a_page_parse(path: Path) -> None:
    for line in shell_lines(read(path)):
        command = shlex.split(line.rpartition("&& ")[2], comments=True) if re.search(r"\bspookid \w+ \S", line) else []
        if command and Path(command[0]).name == "spookid" and "..." not in line:
            parser().parse_args(command[1:])  # it exits if it cannot


def test_all_commands_have_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    named = [line.split()[1] for line in fenced(read(COMMANDS))[0].splitlines()]
    with pytest.raises(SystemExit):
        main(["--help"])
    offered = re.findall(r"^    (\w+)(?: {2,}|$)", capsys.readouterr().out, re.MULTILINE)
    assert sorted(named) == sorted(offered)


def test_the_exit_statuses_are_those_of_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    offered = re.findall(r"^  (\d+) ", capsys.readouterr().out, re.MULTILINE)
    (sentence,) = re.findall(r"^Exit status: (.*)$", read(COMMANDS), re.MULTILINE)
    assert set(re.findall(r"\d+", sentence)) == set(offered)


def test_the_site_is_built_as_the_pages_say() -> None:
    assert SITE in read(ROOT / ".ci" / "run")
    assert SITE in read(ROOT / "CONTRIBUTING.md")


# --- links ---


@named(PAGES)
def test_what_a_page_links_to_is_there(path: Path) -> None:
    for link in links(read(path)):
        name, _, anchor = link.partition("#")
        target = (path.parent / name).resolve() if name else path
        assert target.exists(), f"{link} is not there"
        assert target.is_relative_to(ROOT)
        if anchor:
            assert anchor in anchors(read(target)), f"{link} is no heading of its page"


@named(PAGES)
def test_files_that_a_page_names_are_there(path: Path) -> None:
    for name in re.findall(r"`((?:spookid|tests|problems|docs|results)/[\w/]+\.\w+)`", read(path)):
        assert (ROOT / name).exists(), f"{name} is not there"


@named(DOCS)
def test_a_page_of_the_site_is_linked(path: Path) -> None:
    """From another page, as a reader of the repository meets it."""
    linked = {
        (page.parent / link.partition("#")[0]).resolve() for page in PAGES if page != path for link in links(read(page))
    }
    assert path in linked or path == ROOT / "docs" / "index.md"


# --- reference ---


@cache
def entries() -> dict[str, tuple[Any, str]]:
    """What the reference documents, by its name: the thing, and the members that it lists."""
    found = {}
    for page in sorted(REFERENCE.glob("*.md")):
        for block in fenced(read(page), "{eval-rst}"):
            for kind, name, options in re.findall(r"^\.\. auto(\w+):: (\S+)\n((?:   .*\n)*)", block, re.MULTILINE):
                module, _, last = name.rpartition(".")
                found[name] = (getattr(import_module(module), last), options if kind != "data" else "")
    return found


def test_every_public_name_has_an_entry() -> None:
    documented = {id(thing) for thing, _ in entries().values()}
    for module in (spookid, spookid.graphs, spookid.planar, spookid.robots, spookid.studies):
        for name in module.__all__:
            assert id(getattr(module, name)) in documented, f"{module.__name__}.{name} is in no page of docs/reference"


def test_every_entry_has_words() -> None:
    for name, (thing, _) in entries().items():
        if inspect.isclass(thing) or inspect.isfunction(thing):
            assert thing.__doc__, name
            assert not thing.__doc__.startswith(f"{thing.__name__}("), f"{name} has no words of its own"


@pytest.mark.parametrize(
    "thing",
    [spookid.Body, spookid.Coordinate, spookid.Joint, spookid.Motor, spookid.Recording, spookid.Problem.simulate],
    ids=lambda thing: thing.__name__,
)
def test_help_says_what_each_argument_is(thing: Any) -> None:
    arguments = set(inspect.signature(thing).parameters) - {"self", "place"}
    assert arguments <= set(re.findall(r"^ +(\w+): ", thing.__doc__, re.MULTILINE) + _in_one_line(thing.__doc__))


def _in_one_line(text: str) -> list[str]:
    """Arguments that share a description."""
    return [name for names in re.findall(r"^ +((?:\w+, )+\w+): ", text, re.MULTILINE) for name in names.split(", ")]


def test_what_studies_and_solutions_hand_out_has_an_entry() -> None:
    """The classes of the package that stand in the types of what is documented as a result."""
    documented = {thing.__name__ for thing, _ in entries().values() if inspect.isclass(thing)}
    results = [thing for thing, _ in entries().values() if inspect.isclass(thing) and _is_result(thing)]
    assert len(results) > 10
    hidden = {"Axis", "Clock", "Mechanism", "Variant"}  # what a sweep is told, and what reports draw
    for thing in results:
        for type_ in thing.__annotations__.values():
            for name in set(re.findall(r"\b[A-Z][A-Za-z]+\b", str(type_))) - hidden:
                if _is_of_the_package(name, thing):
                    assert name in documented, f"{thing.__name__} has a {name}, which has no entry"


def _is_result(thing: type) -> bool:
    return thing.__module__.split(".")[1] in ("results", "studies", "solution", "statistics")


def _is_of_the_package(name: str, thing: type) -> bool:
    found = getattr(import_module(thing.__module__), name, None)
    return inspect.isclass(found) and found.__module__.startswith("spookid")
