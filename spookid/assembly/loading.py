"""Problem files: Python that is run once, and the problems it declares.

A file holds ``problem``, or ``problems``, a dict of them by key. ``PROBLEM.py`` means all that a file holds and
``PROBLEM.py::key`` one of them.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from traceback import walk_tb
from types import CodeType, ModuleType
from typing import Any, NoReturn

from spookid.argument_checks import checked
from spookid.assembly.problem import Problem
from spookid.errors import ProblemError
from spookid.files import regular
from spookid.parameter import Parameter
from spookid.records import dataclass

_PICK = "::"
_PACKAGE = Path(__file__).resolve().parent.parent
_runs = count()
_UNKNOWN_TRUTH = (
    "; whether an expression holds is not known before the fit: write a chain of relations as two, such as "
    "[0.5 <= m, m <= 0.9], and a choice as casadi.if_else"
)


@dataclass(frozen=True, eq=False)
class ProblemFile:
    """What a problem file declares."""

    path: Path
    """The file, as it was named."""
    description: str
    """First line of its docstring; empty if it has none."""
    problems: Mapping[str, Problem]
    """By key; a lone ``problem`` has its own name for a key."""
    several: bool
    """True if the file holds ``problems`` and none was picked: then results go into a folder for each key."""
    keyed: bool
    """True if it holds ``problems``."""

    def source(self, key: str) -> str:
        """Absolute path of the problem file, with the problem's key if the file has several."""
        return f"{self.path.absolute()}{_PICK}{key}" if self.keyed else str(self.path.absolute())


def load_problem(path: str | os.PathLike[str]) -> Problem:
    """Load the problem of a file, ``PROBLEM.py`` or ``PROBLEM.py::key``.

    Raises:
        ProblemError: as `load_file`, or if the file holds several problems and none is picked.
    """
    file = load_file(path)
    if len(file.problems) > 1:
        raise ProblemError(
            f"{file.path} holds {len(file.problems)} problems; pick one of {_listing(file.problems)} with "
            f"{file.path}{_PICK}{next(iter(file.problems))}"
        )
    return next(iter(file.problems.values()))


def whole_path(path: str | os.PathLike[str]) -> str:
    """Absolute path of ``PROBLEM.py`` or ``PROBLEM.py::key``."""
    name, pick, key = os.fspath(path).partition(_PICK)
    return os.path.abspath(name) + pick + key


@checked
def load_file(path: str | os.PathLike[str]) -> ProblemFile:
    """Execute a problem file and collect the problems that it declares.

    It runs as ``python PROBLEM.py`` would run it, with its folder at the front of ``sys.path``, but not as
    ``__main__``; modules it imports from there are forgotten afterwards, so that the next file finds its own.

    Args:
        path: ``PROBLEM.py``, or ``PROBLEM.py::key`` for one of its ``problems``.

    Raises:
        ProblemError: if it cannot be read or does not run to its end, holds no problem or none of that key, or
            declares a Parameter that none of its problems uses.
    """
    name, pick, key = os.fspath(path).partition(_PICK)
    file = Path(name)
    namespace = _run(file, _compile(file))
    problems, keyed = _problems(file, namespace)
    _check_parameters(file, namespace, problems)
    if pick:
        if key not in problems:
            raise ProblemError(f"{file} has no problem {key!r}; it has {_listing(problems)}")
        problems = {key: problems[key]}
    description = (namespace.get("__doc__") or "").strip().partition("\n")[0].strip()
    return ProblemFile(file, description, problems, keyed and not pick, keyed)


def is_folder_name(text: object) -> bool:
    """True if a result folder can have this name."""
    return (
        isinstance(text, str)
        and text == text.strip()
        and text not in ("", ".", "..")
        and not any(c in text for c in "/\\\0")
    )


# --- running the file ---


def _compile(path: Path) -> CodeType:
    if path.suffix != ".py":
        raise ProblemError(f"{path} is no problem file; give a Python file, whose name ends in .py")
    try:
        source = regular(path).read_bytes()
    except OSError as error:
        raise ProblemError(f"{path} cannot be read ({error.strerror or error}); check the path") from None
    try:
        # An absolute name, so that Path(__file__) stays right if the file changes the working directory.
        return compile(source, str(path.absolute()), "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        _refuse(path, error)


def _run(path: Path, code: CodeType) -> dict[str, Any]:
    """The namespace of a module of a name that no other has, after ``code`` has run in it."""
    module = ModuleType(f"_spookid_problem_{next(_runs)}_{path.stem}")
    module.__file__ = code.co_filename
    with _imports_from(path.resolve().parent):
        sys.modules[module.__name__] = module  # dataclasses look their module up there
        try:
            exec(code, module.__dict__)
        except ProblemError:
            raise  # it names file and line already
        except (Exception, SystemExit) as error:
            _refuse(path, error)
        finally:
            sys.modules.pop(module.__name__, None)
    return module.__dict__


def _refuse(path: Path, error: BaseException) -> NoReturn:
    """Raise a ProblemError with the type, the text and the line of what went wrong in a user's file."""
    kind, text = type(error).__name__, " ".join(str(error).splitlines())
    where = _user_lines(path, error)
    if isinstance(error, SyntaxError):  # str() of it names file and line again
        text = error.msg or ""
        where = [(error.filename, error.lineno), *where] if error.filename and error.lineno else where
    here = str(path.absolute())
    places = [f"{path if file == here else Path(file).name} line {line}" for file, line in dict.fromkeys(where)]
    # The innermost comes first: that is where to look.
    origin = f", from {', '.join(places[1:])}" if places[1:] else ""
    remedy = "; a problem file must run to its end" if isinstance(error, SystemExit) else ""
    if "truth value" in text:  # CasADi is asked for it by Python, of all but the last of a chain of relations
        remedy = _UNKNOWN_TRUTH
    raise ProblemError(f"{places[0] if places else path}{origin}: {kind}{text and f': {text}'}{remedy}") from error


def _user_lines(path: Path, error: BaseException) -> list[tuple[str, int]]:
    """File and line of the innermost frame in the user's files, and of the one in the problem file if that differs."""
    lines = [(frame.f_code.co_filename, line) for frame, line in walk_tb(error.__traceback__)]
    folder = path.resolve().parent
    own = [(file, line) for file, line in lines if file == str(path.absolute())]
    near = [(file, line) for file, line in lines if _lies_in(file, folder)]
    return [*near[-1:], *own[-1:]]


def _lies_in(file: str, folder: Path) -> bool:
    """True for a user's module in ``folder`` or below it, an environment with its libraries excepted."""
    path = Path(file).resolve()
    return path.is_relative_to(folder) and not _installed(file) and not path.is_relative_to(_PACKAGE)


# --- imports ---


@contextmanager
def _imports_from(folder: Path) -> Iterator[None]:
    """Imports find the modules of ``folder`` first; those found there leave with it, with the path as it was."""
    path, before = list(sys.path), dict(sys.modules)
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()  # a file may be younger than what Python knows of its folder
    shadowed = _shadowed({_root(name) for name in before}, folder)
    aside = {name: module for name, module in before.items() if _root(name) in shadowed}
    _forget(aside)
    try:
        yield
    finally:
        added = {folder, *(Path(entry).resolve() for entry in set(sys.path) - set(path) if not _installed(entry))}
        fresh = [name for name, module in sys.modules.items() if before.get(name) is not module]
        gone = {root for root in map(_root, fresh) if root != "spookid"}
        gone = {root for root in gone if _home(root) in added}
        _forget([name for name in fresh if _root(name) in gone])
        sys.modules.update(aside)
        sys.path[:] = path


def _forget(names: Iterable[str]) -> None:
    for name in names:
        del sys.modules[name]


def _root(name: str) -> str:
    return name.partition(".")[0]


def _home(name: str) -> Path | None:
    """The folder in which ``import name`` found a module, if it is a file or a package."""
    module = sys.modules.get(name)
    for location in [getattr(module, "__file__", None), *getattr(module, "__path__", [])]:
        if location:
            path = Path(location).resolve()
            return path.parent.parent if path.name == "__init__.py" else path.parent
    return None


def _shadowed(roots: set[str], folder: Path) -> set[str]:
    """Of loaded modules those of someone else whose names the folder gives to modules of its own."""
    own = {path.stem for path in folder.glob("*.py")} | {path.parent.name for path in folder.glob("*/__init__.py")}
    homes = {root: _home(root) for root in (roots & own) - {"__main__", "spookid", *sys.stdlib_module_names}}
    return {root for root, home in homes.items() if not (home in (None, folder) or _installed(str(home)))}


def _installed(place: str) -> bool:
    """True for what is part of Python or was installed: loading compiled modules twice is no good idea."""
    path = Path(place)
    added = not {"site-packages", "dist-packages"}.isdisjoint(path.parts)
    return place.startswith("<") or added or path.is_relative_to(Path(os.__file__).parent)


# --- what it declares ---


def _problems(path: Path, namespace: Mapping[str, Any]) -> tuple[dict[str, Problem], bool]:
    """Problems by key, and whether the file holds a dict of them."""
    lone, table = namespace.get("problem"), namespace.get("problems")
    if table is None:
        if lone is None:
            raise ProblemError(f"{path} holds no problem; name one 'problem', or several in a dict named 'problems'")
        _check_problem(path, "problem", lone)
        return {lone.name: lone}, False
    if not isinstance(table, Mapping):
        raise ProblemError(f"{path}: problems is of type {type(table).__name__}; make it a dict of key to Problem")
    if not table:
        raise ProblemError(f"{path}: problems is empty; put a Problem into it")
    if isinstance(lone, Problem) and not any(lone is problem for problem in table.values()):
        raise ProblemError(f"{path} holds both problem and problems; put problem into problems or remove one")
    for key, problem in table.items():
        if not is_folder_name(key):
            raise ProblemError(f"{path}: problems has the key {key!r}; use a text that can name a folder")
        _check_problem(path, f"problems[{key!r}]", problem)
    return dict(table), True


def _check_problem(path: Path, what: str, problem: object) -> None:
    if not isinstance(problem, Problem):
        raise ProblemError(f"{path}: {what} is of type {type(problem).__name__}; make it a Problem")
    if not (isinstance(problem.name, str) and problem.name):
        raise ProblemError(f"{path}: {what} has the name {problem.name!r}; give it a text")


def _check_parameters(path: Path, namespace: Mapping[str, Any], problems: Mapping[str, Problem]) -> None:
    """Refuse a Parameter that was declared here, has a name here, and stands in no problem."""
    used = {parameter.order for problem in problems.values() for parameter in problem.parameters}
    for value in namespace.values():
        if not isinstance(value, Parameter) or value.order in used:
            continue
        if value.place.rpartition(":")[0] == path.name:
            raise ProblemError(
                f"{value.place}: Parameter {value.name!r} occurs in no problem of this file; "
                "put it into a model or remove it"
            )


def _listing(names: Mapping[str, Problem]) -> str:
    return ", ".join(map(repr, names))
