"""The documentation site: ``python -m sphinx -j 2 -W --keep-going -n -c docs -b html . docs/_build/html``.

Pages are read from the project's root, so that relative links work on the site and in the repository. ``results/`` is
part of the site.
"""

import inspect
import logging
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

from docutils.nodes import Element, SkipNode
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.ext.napoleon import GoogleDocstring
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.inspect import signature, stringify_signature

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])  # for the cells of tutorials

import spookid  # noqa: E402
from spookid.tables.table import Listed  # noqa: E402

project = "spookid"
author = copyright = "spookid contributors"
version = release = spookid.__version__
extensions = ["sphinx.ext.autodoc", "myst_nb"]
root_doc = "docs/index"
include_patterns = ["docs/**", "results/*.md", "CONTRIBUTING.md", "CHANGELOG.md"]
exclude_patterns = ["docs/_build", "docs/paper.md", ".*"]  # the citations of the paper are for another program

html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_math_renderer = "mathml"  # browsers draw it without a script from another site
html_title = "spookid"
html_copy_source = False

# Pages are MyST. Anchors of headings are those of a repository host.
myst_enable_extensions = ["dollarmath", "amsmath"]
myst_heading_anchors = 4

# Tutorials run while the site is built, and an error in a cell is one of the build.
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 120
nb_merge_streams = True

# Kernels do not warn about local connections, and do not read the user's IPython settings.
_IPYTHON = tempfile.TemporaryDirectory()
_PROFILE = Path(_IPYTHON.name) / "profile_default"
_PROFILE.mkdir()
(_PROFILE / "ipython_kernel_config.py").write_text("get_config().IPKernelApp.log_level = 'ERROR'\n")
os.environ["IPYTHONDIR"] = _IPYTHON.name
logging.getLogger("traitlets").setLevel(logging.WARNING)

# The reference consists of docstrings.
add_module_names = False
default_role = "code"
maximum_signature_line_length = 100
toc_object_entries = False
autodoc_default_options = {"member-order": "bysource"}
autodoc_preserve_defaults = True
autodoc_type_aliases = {"Array": "numpy.ndarray", "FloatArray": "numpy.ndarray"}
autodoc_typehints_format = "short"

# Types without an entry: those of other packages, names for type checkers, and internal ones.
nitpick_ignore_regex = [
    (
        "py:.*",
        r"(abc|argparse|casadi|collections|concurrent|contextlib|dataclasses|enum|numpy|os|pandas|pathlib|typing)\..*",
    ),
    (
        "py:.*",
        r"Array|Axes|Callable.*|Callback|Clock|Coordinates|DataFrame|Figure|FloatArray|Group|Holds|InitVar|Initial|Integers|Level"
        r"|Literal.*|Mapping\[str|Mask|Noises|Parameters|Progress|TypeAliasForwardRef|PathLike|Executor|AxisValue",
    ),
    ("py:.*", r"At|Box|DryFriction|Hold|Influence|Kind|Loss|Mode|Mechanism|RobotFile|Seen|Sensitivities|ca\..*"),
    (
        "py:.*",
        r"spookid\.(registry|results\.(lazy|values)|stepping\.(dry_friction|impulses)|studies\.(variants|job\.Source|sweep_points\.Axis))\b.*",
    ),
    ("py:.*", r"Description|Source|spookid\.robots\.(groups|source|description\.(Description|Grouped|Source)).*"),
    ("py:.*", r"spookid\.mechanics\.(model\.Mechanics|body\.RobotFile|contacts\.HeldContact|joint_kinds\._Sliding)"),
    ("py:.*", r"Lagging|Plan|Work|spookid\.estimation\.work\.Work|spookid\.results\.settings\..*"),
    ("py:.*", r"spookid\.(statistics\.combinations\.Seen|transcription\.factor\.(Factor|Group))"),
    (
        "py:.*",
        r"spookid\.(graphs\.factor\.Variables|studies\.motion_limits\.Cone|transcription\.transcription\.Transcription)",
    ),
    ("py:.*", r"spookid\.(planar\.closing\.Closing|smoothing\.stream\.Mark)"),
]

_PUBLIC = "|".join(set(spookid.__all__) - {"GROUND"})
_PAGES = {
    path.relative_to(ROOT).with_suffix("").as_posix(): path.read_text(encoding="utf-8")
    for part in ("guide.md", "howto/*.md", "notebooks/*.md", "tutorials/*.md", "gallery/*.md")
    for path in sorted((ROOT / "docs").glob(part))
}
"""Texts of pages with examples."""
_TEXTS = ("attribute", "data", "property")
"""Kinds of objects with docstrings of plain text, in which a colon begins no section."""


_ANY = "(*_: ~typing.Any, **__: ~typing.Any)"
"""Signature of a class that only records where it is declared."""
_WRITTEN = {
    r", original: Model \| None = None": "",
    r", place: str = <factory>": "",
    r"<factory>": "...",
    r"TypeAliasForwardRef\('(.*?)'\)": r"\1",
    r"~?(?:dataclasses\.)?InitVar\[(.+?)\](?= =)": r"\1",
}
"""Replacements in signatures, by pattern."""


def prepare_docstring(_: Sphinx, what: str, name: str, item: object, options: Any, lines: list[str]) -> None:
    """Turn sections into fields and public names into links; escape the bars of absolute values; say which pages use a
    class."""
    if what == "class":
        call = re.compile(rf"\b{name.rpartition('.')[2]}\(")
        uses = {page: len(call.findall(text)) for page, text in _PAGES.items()}
        most = sorted(filter(uses.__getitem__, uses), key=uses.__getitem__, reverse=True)[:3]
        lines += [f"Examples: {', '.join(f':doc:`/{page}`' for page in most)}.", ""] if most else []
    if what not in _TEXTS:
        lines[:] = GoogleDocstring(lines, what=what, name=name, obj=item, options=options).lines()
    for i, line in enumerate(lines):
        parts = re.split(r"(``.*?``)", line)
        texts = [part if part.startswith("``") else part.replace("|", r"\|") for part in parts]
        lines[i] = re.sub(rf"``({_PUBLIC})``", r":py:obj:`~spookid.\1`", "".join(texts))


def prepare_signature(_: Sphinx, what: str, name: str, item: Any, options: Any, text: str | None, back: str) -> Any:
    """Show the arguments of ``__init__`` for a class, with types and defaults as declared; none of a result, which
    users do not make."""
    if what == "class" and (item.__module__.startswith("spookid.results.") or issubclass(item, Listed)):
        return "", back
    if what == "class" and (text == _ANY or issubclass(item, spookid.Joint)):
        text = ""
        if item.__init__ is not object.__init__:
            own = _short(item, signature(item.__init__, bound_method=True))
            text = stringify_signature(own, show_return_annotation=False, unqualified_typehints=True)
    for found, plain in _WRITTEN.items():
        text = text and re.sub(found, plain, text)
    return text, back


def _short(item: type, own: inspect.Signature) -> inspect.Signature:
    """Show only the own arguments of a kind of joint: ``Joint`` documents those of all kinds."""
    if item is spookid.Joint or not issubclass(item, spookid.Joint):
        return own
    shared = set(signature(spookid.Joint.__init__).parameters) - {"name", "parent", "child"}
    kept = [one for name, one in own.parameters.items() if name not in shared]
    return own.replace(parameters=[*kept, inspect.Parameter("arguments", inspect.Parameter.VAR_KEYWORD)])


class NamesOfOthers(SphinxPostTransform):
    """Skip the slow search among the ends of all entries for names that end no entry."""

    default_priority = 5  # before references are resolved

    def run(self, **_: Any) -> None:
        known = {name.rpartition(".")[2] for name in self.env.domains.python_domain.objects}
        for node in self.document.findall(pending_xref):
            if node.get("refdomain") == "py" and node["reftarget"].rpartition(".")[2] not in known:
                node.attributes.pop("refspecific", None)


def inline_math(translator: Any, node: Element) -> None:
    """Write an inline formula."""
    translator.body.append(tex2mathml(node.astext()))
    raise SkipNode


def displayed_math(translator: Any, node: Element) -> None:
    """Write a displayed formula."""
    translator.body.append(tex2mathml(node.astext(), as_block=True))
    raise SkipNode


def setup(app: Sphinx) -> None:
    app.add_post_transform(NamesOfOthers)
    app.add_html_math_renderer("mathml", (inline_math, None), (displayed_math, None))
    app.connect("autodoc-process-docstring", prepare_docstring)
    app.connect("autodoc-process-signature", prepare_signature)
