"""The inside of what ``test_loading`` tests."""

from __future__ import annotations

import pytest
from test_loading import ONE, PENDULUM, TWO, written

from spookid import load_problem
from spookid.assembly.loading import is_folder_name, load_file

# --- one and several ---


def test_file_with_one_problem(tmp_path):
    path = written(tmp_path, ONE)
    file = load_file(path)
    assert (file.path, file.description, file.several) == (path, "A pendulum.", False)
    assert list(file.problems) == ["swing"]
    assert load_problem(path).name == load_problem(str(path)).name == load_problem(f"{path}::swing").name == "swing"


def test_file_with_several_problems(tmp_path):
    path = written(tmp_path, TWO)
    assert load_file(path).several
    assert {key: p.name for key, p in load_file(path).problems.items()} == {
        "coarse": "swing_coarse",
        "fine": "swing_fine",
    }
    assert load_problem(f"{path}::fine").step == 0.005
    picked = load_file(f"{path}::coarse")
    assert list(picked.problems) == ["coarse"]
    assert not picked.several


def test_dict_of_one_problem_is_still_a_dict(tmp_path):
    path = written(tmp_path, PENDULUM + 'problems = {"only": pendulum("swing")}\n')
    assert load_file(path).several
    assert load_problem(path).name == "swing"


def test_problem_may_be_the_name_of_one_of_the_problems_or_of_a_function(tmp_path):
    assert load_file(written(tmp_path, TWO + "problem = problems['fine']\n")).several
    assert load_file(written(tmp_path, TWO + "problem = pendulum\n")).several


def test_file_without_docstring_has_no_description(tmp_path):
    assert load_file(written(tmp_path, "x = 1\n" + ONE)).description == ""


# --- what is refused ---


@pytest.mark.parametrize("text", ["a", "01_dry", "ä b", "a.b"])
def test_folder_names(text):
    assert is_folder_name(text)


@pytest.mark.parametrize("text", ["", ".", "..", "a/b", "a\\b", " a", "a\n", "a\0b", 3, None])
def test_no_folder_names(text):
    assert not is_folder_name(text)
