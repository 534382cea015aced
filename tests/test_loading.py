"""Problem files: what may stand in one, what is said when something is wrong, and that files do not get mixed up."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from spookid import ProblemError, load_problem

PENDULUM = '''"""A pendulum.

Details."""
from pathlib import Path
from spookid import GROUND, Body, Hinge, HingeAngle, Model, Parameter, Problem, Recording, gravity

b = Parameter("b", 1e-3, lower=0, unit="N m s")


def pendulum(name, viscous=b, **changes):
    rod = Body("rod", mass=0.5, inertia=(0.01, 0.01, 0.01))
    up, out = GROUND.frame(x=(0, 1, 0), y=(0, 0, -1)), rod.frame(at=(-0.2, 0, 0), x=(0, 1, 0), y=(1, 0, 0))
    hinge = Hinge("hinge", up, out, viscous=viscous)
    run = Recording(t=[0, 0.01, 0.02, 0.03], signals={"theta": [0.1, 0.1, 0.1, 0.1]}, name="run")
    model = Model([rod], [hinge], gravity=gravity(9.81))
    return Problem(name, model, [run], [HingeAngle(hinge, signal="theta")], **changes)


'''
ONE = PENDULUM + 'problem = pendulum("swing")\n'
TWO = PENDULUM + 'problems = {"coarse": pendulum("swing_coarse"), "fine": pendulum("swing_fine", step=0.005)}\n'


def written(folder: Path, text: str, name: str = "pendulum.py") -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(text)
    return path


def refusal(path: object) -> str:
    with pytest.raises(ProblemError) as caught:
        load_problem(path)  # type: ignore[arg-type]
    message = str(caught.value)
    assert "\n" not in message
    return message


# --- running it ---


def test_file_runs_as_from_its_folder_but_not_as_main(tmp_path, monkeypatch):
    written(tmp_path / "a", "NAME = 'from_sibling'\n", "names.py")
    text = ONE.replace('"swing"', "names.NAME").replace("b = Param", "import names\nb = Param")
    checks = (
        f"assert Path(__file__) == Path({str(tmp_path / 'a' / 'pendulum.py')!r})\n"
        "import sys; assert sys.path[0] == str(Path(__file__).parent); sys.path.insert(0, 'elsewhere')\n"
        "if __name__ == '__main__': raise RuntimeError('it is not')\n"
    )
    written(tmp_path / "a", text + checks)
    monkeypatch.chdir(tmp_path)
    path, modules = list(sys.path), set(sys.modules)
    assert load_problem("a/pendulum.py").name == "from_sibling"
    assert sys.path == path
    assert "names" not in sys.modules
    assert not [name for name in set(sys.modules) - modules if "pendulum" in name]


def test_files_and_siblings_of_equal_names_do_not_get_mixed_up(tmp_path):
    text = ONE.replace('"swing"', "sibling.NAME + package.part.NAME")
    text = text.replace("b = Param", "import sibling, package.part\nb = Param")
    for letter in "ab":
        folder = tmp_path / letter
        written(folder, text, "problem.py")
        written(folder, f"NAME = 'sibling_{letter}_'\n", "sibling.py")
        written(folder / "package", "", "__init__.py")
        written(folder / "package", f"NAME = 'part_{letter}'\n", "part.py")
    problems = [load_problem(tmp_path / letter / "problem.py") for letter in "aba"]
    assert [p.name for p in problems] == ["sibling_a_part_a", "sibling_b_part_b", "sibling_a_part_a"]
    assert problems[0].parameters[0] is not problems[2].parameters[0]


def test_a_sibling_goes_before_a_module_of_the_caller(tmp_path, monkeypatch):
    written(tmp_path / "caller", "NAME = 'caller'\n", "settings_of_mine.py")
    monkeypatch.syspath_prepend(str(tmp_path / "caller"))
    import settings_of_mine  # type: ignore[import-not-found]

    written(tmp_path / "a", "NAME = 'sibling'\n", "settings_of_mine.py")
    text = ONE.replace('"swing"', "settings_of_mine.NAME").replace("b = Param", "import settings_of_mine\nb = Param")
    assert load_problem(written(tmp_path / "a", text)).name == "sibling"
    assert sys.modules["settings_of_mine"] is settings_of_mine
    del sys.modules["settings_of_mine"]


def test_a_sibling_package_without_init_leaves_too(tmp_path):
    text = ONE.replace('"swing"', "bare.part.NAME").replace("b = Param", "import bare.part\nb = Param")
    written(tmp_path / "a", text)
    written(tmp_path / "a" / "bare", "NAME = 'bare'\n", "part.py")
    assert load_problem(tmp_path / "a" / "pendulum.py").name == "bare"
    assert not {"bare", "bare.part"} & set(sys.modules)


def test_libraries_imported_by_the_file_stay(tmp_path):
    sys.modules.pop("this_is_a_library", None)
    library = tmp_path / "a" / "env" / "site-packages"
    library.mkdir(parents=True)
    (library / "this_is_a_library.py").write_text("")
    text = f"import sys; sys.path.append({str(library)!r}); import this_is_a_library\n" + ONE
    load_problem(written(tmp_path / "a", text))
    assert "this_is_a_library" in sys.modules
    del sys.modules["this_is_a_library"]


def test_dataclasses_work_in_a_problem_file(tmp_path):
    text = "from __future__ import annotations\nfrom dataclasses import dataclass\n"
    text += "@dataclass\nclass A:\n    x: int = 1\n"
    assert load_problem(written(tmp_path, text + ONE.split('"""', 2)[2])).name == "swing"


def test_a_file_may_load_another(tmp_path):
    written(tmp_path, ONE, "base.py")
    text = "from pathlib import Path\nfrom spookid import load_problem\n"
    text += "problem = load_problem(Path(__file__).parent / 'base.py').with_(name='again')\n"
    assert load_problem(written(tmp_path, text)).name == "again"


# --- what is refused ---


def test_missing_file(tmp_path):
    assert refusal(tmp_path / "none.py") == (
        f"{tmp_path / 'none.py'} cannot be read (No such file or directory); check the path"
    )


def test_folder(tmp_path):
    (tmp_path / "folder.py").mkdir()
    assert "folder.py cannot be read (Is a directory)" in refusal(tmp_path / "folder.py")


def test_other_file(tmp_path):
    assert "data.csv is no problem file; give a Python file" in refusal(written(tmp_path, "t,y\n", "data.csv"))


@pytest.mark.parametrize(
    ("end", "message"),
    [
        ("", "holds no problem; name one 'problem', or several in a dict named 'problems'"),
        ("problem = 3\n", ": problem is of type int; make it a Problem"),
        ("problem = pendulum(3)\n", ": Problem: name is 3; give a text"),
        ("problem = pendulum('')\n", ": problem has the name ''; give it a text"),
        ("problems = [pendulum('a')]\n", ": problems is of type list; make it a dict of key to Problem"),
        ("problems = {}\n", ": problems is empty; put a Problem into it"),
        ("problems = {'a': pendulum}\n", ": problems['a'] is of type function; make it a Problem"),
        ("problems = {1: pendulum('a')}\n", ": problems has the key 1; use a text that can name a folder"),
        ("problems = {'a/b': pendulum('a')}\n", ": problems has the key 'a/b'; use a text that can name a folder"),
        (
            "problems = {'a': pendulum('a')}; problem = pendulum('b')\n",
            "holds both problem and problems; put problem into problems or remove one",
        ),
    ],
)
def test_wrong_content(tmp_path, end, message):
    path = written(tmp_path, PENDULUM + end)
    text = refusal(path)
    assert text.startswith((str(path), path.name))  # of a declaration the line, too
    assert message in text


def test_unknown_key_lists_those_there_are(tmp_path):
    path = written(tmp_path, TWO)
    assert refusal(f"{path}::medium") == f"{path} has no problem 'medium'; it has 'coarse', 'fine'"
    assert refusal(f"{path}::") == f"{path} has no problem ''; it has 'coarse', 'fine'"


def test_several_problems_where_one_is_wanted(tmp_path):
    path = written(tmp_path, TWO)
    assert refusal(path) == f"{path} holds 2 problems; pick one of 'coarse', 'fine' with {path}::coarse"


# --- exceptions while it runs ---


def test_exception_with_type_text_and_line(tmp_path):
    path = written(tmp_path, "x = 1\n\ny = x / 0\n")
    assert refusal(path) == f"{path} line 3: ZeroDivisionError: division by zero"


def test_exception_in_a_function_of_the_file(tmp_path):
    path = written(tmp_path, "def f():\n    return {}['mass']\n\nf()\n")
    assert refusal(path) == f"{path} line 2: KeyError: 'mass'"


def test_exception_below_a_library_names_the_users_line(tmp_path):
    path = written(tmp_path, "import json\n\njson.loads('{')\n")
    assert refusal(path).startswith(f"{path} line 3: JSONDecodeError: Expecting property name")


def test_exception_below_the_package_names_the_users_line(tmp_path):
    path = written(tmp_path, "from spookid import Body\n\nBody()\n")
    assert refusal(path).startswith(f"{path} line 3: TypeError: ")


def test_exception_in_a_sibling_names_both_lines(tmp_path):
    written(tmp_path, "def f():\n    raise RuntimeError('no')\n", "helper_of_mine.py")
    path = written(tmp_path, "import helper_of_mine\nhelper_of_mine.f()\n")
    assert refusal(path) == f"helper_of_mine.py line 2, from {path} line 2: RuntimeError: no"


def test_exception_without_text_and_with_several_lines(tmp_path):
    assert refusal(written(tmp_path, "assert False\n")).endswith("line 1: AssertionError")
    assert refusal(written(tmp_path, "raise ValueError('a\\nb')\n")).endswith("line 1: ValueError: a b")


def test_missing_import(tmp_path):
    assert refusal(written(tmp_path, "\nimport no_such_module\n")).endswith(
        "line 2: ModuleNotFoundError: No module named 'no_such_module'"
    )


def test_syntax_error(tmp_path):
    path = written(tmp_path, "x = 1\ny = = 2\n")
    assert refusal(path) == f"{path} line 2: SyntaxError: invalid syntax"
    path = written(tmp_path, "x = 1\n  y = 2\n")
    assert refusal(path) == f"{path} line 2: IndentationError: unexpected indent"


def test_syntax_error_in_a_sibling(tmp_path):
    written(tmp_path, "\n\nx = = 1\n", "broken_of_mine.py")
    path = written(tmp_path, "import broken_of_mine\n")
    assert refusal(path) == f"broken_of_mine.py line 3, from {path} line 1: SyntaxError: invalid syntax"


def test_syntax_error_of_the_files_own_making(tmp_path):
    assert refusal(written(tmp_path, "raise SyntaxError\n")).endswith("line 1: SyntaxError")


def test_file_that_is_no_text(tmp_path):
    path = tmp_path / "binary.py"
    path.write_bytes(b"x = '\xff'\n")
    assert re.match(rf"{re.escape(str(path))}( line \d+)?: SyntaxError: ", refusal(path))
    path.write_bytes(b"x = '\0'\n")
    assert "null bytes" in refusal(path)


def test_system_exit(tmp_path):
    path = written(tmp_path, "import sys\nsys.exit('enough')\n")
    assert refusal(path) == f"{path} line 2: SystemExit: enough; a problem file must run to its end"


def test_keyboard_interrupt_passes_and_leaves_no_trace(tmp_path):
    path, modules = list(sys.path), set(sys.modules)
    with pytest.raises(KeyboardInterrupt):
        load_problem(written(tmp_path, "raise KeyboardInterrupt\n"))
    assert sys.path == path
    assert set(sys.modules) == modules


def test_errors_of_declarations_are_not_wrapped(tmp_path):
    path = written(tmp_path, "from spookid import Parameter\nb = Parameter('b', 2, upper=1)\n")
    assert refusal(path).startswith("pendulum.py:2: Parameter 'b' has its initial value 2 outside")


# --- parameters that nobody uses ---


def test_unused_parameter(tmp_path):
    path = written(tmp_path, ONE + "\nc = Parameter('c', 1)\n")
    line = len(ONE.splitlines()) + 2
    assert refusal(path) == (
        f"pendulum.py:{line}: Parameter 'c' occurs in no problem of this file; put it into a model or remove it"
    )


def test_parameter_of_one_of_several_problems_is_used(tmp_path):
    text = TWO + "k = Parameter('k', 1)\nproblems['other'] = pendulum('other')\n"
    assert "Parameter 'k' occurs in no problem" in refusal(f"{written(tmp_path, text)}::coarse")
    path = written(tmp_path, text.replace("pendulum('other')", "pendulum('other', viscous=k + b)"))
    assert load_problem(f"{path}::coarse").name == "swing_coarse"


def test_imported_parameter_need_not_be_used(tmp_path):
    written(tmp_path, "from spookid import Parameter\nc = Parameter('c', 1)\n", "common_of_mine.py")
    assert load_problem(written(tmp_path, "from common_of_mine import c\n" + ONE)).name == "swing"
