"""The shape of the package: imports point up the list of rooms only, and each room keeps to what it may know."""

from __future__ import annotations

import ast
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

import spookid

ROOT = Path(spookid.__file__).parent

ROOMS: dict[str, tuple[str, ...]] = {
    "words": ("errors", "parameter", "rotations"),
    "tools that know only casadi and numpy": (
        "manifold",
        "factor",
        "kernels",
        "rooms",
        "team",
        "callbacks",
        "compiler",
        "libraries",
        "compiled",
        "native",
        "blocks",
        "derivatives",
    ),
    "mechanics": ("body", "joints", "contacts", "friction", "model", "kinematics", "joint_coordinates"),
    "complementarity": (
        "complementarity.status",
        "complementarity.enumeration",
        "complementarity.lemke",
        "complementarity.linear",
        "complementarity.mixed",
        "complementarity.law",
        "complementarity.pieces",
        "complementarity.bounded",
    ),
    "time": (
        "steppers.impulses",
        "steppers.dry_friction",
        "steppers.reactions",
        "steppers.spook",
        "steppers.variational",
        "steppers.joint_space",
        "steppers.spook_space",
    ),
    "evidence": ("recording", "sampling", "_registry", "pickled", "_conversion", "datasets", "observations"),
    "transcription": ("factor_kernels", "transcription"),
    "solvers": (
        "solvers.status",
        "solvers.batched",
        "solvers.restoration",
        "solvers.reduction",
        "solvers.products",
        "solvers.structured",
        "solvers.elimination",
        "solvers.saddle",
        "solvers.bounded",
        "solvers.curvature",
        "solvers.linearization",
        "solvers.steps",
        "solvers.switching",
        "solvers.roles",
        "solvers.program",
        "solvers.information",
        "solvers.levenberg_marquardt",
        "solvers.callbacks",
        "solvers.ipopt",
        "solvers.neighbours",
        "solvers.contraction",
        "solvers.variances",
        "solvers.windows",
    ),
    "likelihood": (
        "statistics.slopes",
        "statistics.systems",
        "statistics.volumes",
        "statistics.likelihood",
        "statistics.recordings",
        "statistics.whiteness",
        "statistics.misfit",
        "statistics.hard_dynamics",
        "statistics.two_estimators",
    ),
    "answers": ("student", "uncertainty", "notices", "influence", "mechanism", "solution"),
    "motion": ("initialization", "redundancy", "simulation", "refinement", "exact", "sensitivity"),
    "problem": (
        "problem",
        "priors",
        "statistics.noise",
        "assembly",
        "statistics.search",
        "statistics.spread",
        "statistics.likelihood_fit",
        "trajectories",
        "advice",
        "knowledge",
        "inertias",
        "step_errors",
        "responses",
        "variations",
        "symptoms",
        "outlining",
        "extrapolation",
        "estimators",
        "fitting",
        "approach",
        "estimation",
        "replay",
        "differentiation",
    ),
    "studies": (
        "comparison",
        "audit",
        "profiling",
        "agreement",
        "axes",
        "settings",
        "cases",
        "crossvalidation",
        "sweep_points",
    ),
    "rendering": (
        "folders",
        "pictures",
        "schema",
        "schema_reading",
        "wording",
        "summary",
        "plots",
        "influence_plot",
        "export",
        "simulation_plot",
        "simulation_folder",
        "audit_plot",
        "sweep_table",
        "sweep_plot",
        "sweep_folder",
        "report_plot",
        "residual_plot",
        "report_sections",
        "report",
        "profile_table",
        "profile_folder",
        "crossvalidation_table",
        "crossvalidation_folder",
    ),
    "face": (
        "loading",
        "overview",
        "terminal",
        "interruption",
        "progress",
        "workers",
        "cluster",
        "sweeping",
        "sweep_command",
        "profile_command",
        "simulate_command",
        "audit_command",
        "crossvalidation_command",
        "commands",
        "cli",
        "__main__",
    ),
}
"""Rooms from the foundation up. A module may import those of earlier rooms and those before it in its own."""

DOORS = {
    ("problem", "estimation"): "Problem.solve",
    ("problem", "profiling"): "Problem.profile",
    ("problem", "crossvalidation"): "Problem.crossvalidate",
    ("crossvalidation", "crossvalidation_table"): "CrossValidation.table",
    ("problem", "replay"): "Problem.simulate, and the types of its arguments",
    ("solution", "summary"): "Solution.summary",
    ("solution", "export"): "Solution.save",
    ("sweep_points", "sweep_table"): "the text of a Sweep",
}
"""Imports against the direction, inside a function or for types only: what users hold opens doors to later rooms."""

MECHANICS_FREE = {
    "errors",
    "factor",
    "kernels",
    "rooms",
    "team",
    "compiled",
    "native",
    "blocks",
    "derivatives",
    "manifold",
    "factor_kernels",
    "transcription",
}

COMPLEMENTARITY = {f"complementarity.{name}" for name in ("status", "enumeration", "lemke", "linear", "law", "pieces")}

MAY_KNOW = {
    "kernels": set(),
    "team": set(),
    "factor": set(),
    "manifold": {"rotations"},
    "compiler": set(),
    "libraries": set(),
    "compiled": {"errors", "kernels", "compiler", "libraries"},
    "native": {"kernels", "compiled", "compiler"},
    "rooms": {"kernels"},
    "blocks": {"kernels", "rooms", "compiled", "compiler", "native"},
    "derivatives": {"compiled", "factor", "manifold"},
    "factor_kernels": {"factor", "kernels", "compiled", "derivatives", "manifold"},
    "transcription": {"factor", "factor_kernels", "kernels", "team", "derivatives", "manifold"},
    **{
        f"complementarity.{name}": COMPLEMENTARITY | {"kernels"}
        for name in ("status", "enumeration", "lemke", "linear", "mixed", "law", "pieces", "bounded")
    },
    "recording": {"errors"},
    "pickled": {"errors"},
    "sampling": {"errors", "recording"},
    "student": {"kernels"},
    "uncertainty": {"kernels", "student"},
    "notices": {"uncertainty"},
    "influence": {"kernels"},
    "mechanism": set(),
    "solution": {
        "errors",
        "influence",
        "kernels",
        "mechanism",
        "parameter",
        "uncertainty",
        "solvers.status",
    },
    "wording": {"solution", "uncertainty", "solvers.status"},
    "summary": {"kernels", "solution", "uncertainty", "wording"},
    "plots": {"kernels", "pictures", "solution", "uncertainty", "summary", "wording"},
    "influence_plot": {"kernels", "solution", "wording"},
    "schema": {"solution", "uncertainty"},
    "schema_reading": {
        "influence",
        "kernels",
        "mechanism",
        "schema",
        "solution",
        "uncertainty",
        "solvers.status",
    },
    **{name: MECHANICS_FREE | {s for s in ROOMS["solvers"] if s != name} for name in ROOMS["solvers"]},
    **{
        name: MECHANICS_FREE | {s for s in (*ROOMS["solvers"], *ROOMS["likelihood"]) if s != name}
        for name in ROOMS["likelihood"]
    },
    "statistics.search": MECHANICS_FREE | set(ROOMS["solvers"]) | {"statistics.likelihood", "statistics.noise"},
}
"""Modules that are kept ignorant on purpose, and all they may import: the narrow waist, solvers, data and results."""

ORDER = {name: i for i, name in enumerate(name for room in ROOMS.values() for name in room)}


@dataclass(frozen=True)
class Import:
    """One import of the package's own."""

    module: str
    of: str
    line: int
    late: bool
    """True if it happens inside a function, or for type checkers only."""


def modules() -> dict[str, Path]:
    """Names below the package to files, packages' own files left out."""
    found = {".".join(p.relative_to(ROOT).with_suffix("").parts): p for p in ROOT.rglob("*.py")}
    return {name: path for name, path in sorted(found.items()) if not name.endswith("__init__")}


def imports(module: str, path: Path) -> list[Import]:
    found: list[Import] = []

    def visit(node: ast.AST, late: bool) -> None:
        for child in ast.iter_child_nodes(node):
            for name in imported(child):
                found.append(Import(module, name, child.lineno, late))
            inside = isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
            visit(child, late or inside or types_only(child))

    visit(ast.parse(path.read_text(encoding="utf-8")), late=False)
    return found


def imported(node: ast.AST) -> list[str]:
    """Names of the package's modules that a statement imports; the package itself is not among them."""
    assert not (isinstance(node, ast.ImportFrom) and node.level), "imports are absolute"
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
        whole = [f"{node.module}.{alias.name}" for alias in node.names]
        names = [name if name.removeprefix("spookid.") in modules() else str(node.module) for name in whole]
    else:
        return []
    own = dict.fromkeys(name.removeprefix("spookid.") for name in names if name.startswith("spookid."))
    return list(own)


def types_only(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")


ALL = [found for name, path in modules().items() for found in imports(name, path)]


def test_every_module_has_a_room():
    assert sorted(modules()) == sorted(ORDER), "add the module to ROOMS, in the room whose duty it has, or take it out"


def test_imports_were_found():
    assert {("transcription", "kernels"), ("problem", "estimation"), ("cli", "commands")} <= {
        (i.module, i.of) for i in ALL
    }


@pytest.mark.parametrize("module", ORDER)
def test_imports_point_up_the_list(module):
    for found in (i for i in ALL if i.module == module):
        where = f"spookid/{module.replace('.', '/')}.py:{found.line} imports {found.of}"
        if (module, found.of) in DOORS:
            assert found.late, f"{where}: a door opens inside a function"
        else:
            assert ORDER[found.of] < ORDER[module], f"{where}, which comes later"


def test_doors_are_used():
    assert {(i.module, i.of) for i in ALL if i.late} >= set(DOORS)


@pytest.mark.parametrize("module", MAY_KNOW)
def test_modules_that_are_kept_ignorant(module):
    known = {i.of for i in ALL if i.module == module and (module, i.of) not in DOORS}
    assert known <= MAY_KNOW[module]


def test_the_package_imports_nothing_until_it_is_asked():
    found = imports("__init__", ROOT / "__init__.py")
    assert found
    assert all(i.late for i in found)
    code = "import spookid, sys; print(*sorted({'casadi', 'numpy', 'scipy', 'matplotlib'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split() == []


def test_public_names_are_where_the_package_says():
    for name in spookid.__all__:
        assert getattr(spookid, name) is not None
    assert set(spookid.__all__) <= set(dir(spookid))
    with pytest.raises(AttributeError, match="nonsense"):
        spookid.nonsense  # noqa: B018
