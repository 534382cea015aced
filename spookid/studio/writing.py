"""The problem file: what is chosen on the page as Python to read, change and run anywhere; and which column of a log
is what, as proposals that a user corrects.

A new file is the one that ``spookid new`` writes, with matches, signs and friction laws as chosen. Choices about
parameters are written where these are declared, also in a file that somebody else wrote; what has no such place follows
at the end.
"""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from string import Template

from spookid.data.recording import Recording
from spookid.errors import ProblemError
from spookid.robots import Robot
from spookid.robots.logs import Log, Matched, opened
from spookid.robots.scaffold import printed, scaffold
from spookid.studio.choices import FRICTION, ROLES, Choices, Column

_STRIBECK = (0.3, 100.0)
"""Initial values of the Stribeck effect: share of the Coulomb friction, and ζ [s²/rad² or s²/m²]."""
_quoted = partial(json.dumps, ensure_ascii=False)
_TITLE = "# --- chosen in spookid studio ---"


def new(robot: Robot, choices: Choices, logs: Sequence[Path], out: Path) -> tuple[str, tuple[str, ...]]:
    """Text of a problem file for a robot and its logs, with notes."""
    first, *others = [read_with(path, choices) for path in logs]
    gains = {joint: gain for joint, gain in choices.gains.items() if gain}
    made = scaffold(robot, first, out, "spookid studio", gains, matched_by(first, choices.columns))
    calls = [
        log.call(replace(made.matched, time=log.time)).replace("(LOG,", f"(HERE / {_quoted(log.path.name)},", 1)
        for log in others
    ]
    return edited(_with_laws(made.text, choices), choices, calls), made.notices


def edited(text: str, choices: Choices, further: Sequence[str] = ()) -> str:
    """Problem file with other choices for its parameters, and further recordings."""
    text = text.partition(f"\n\n{_TITLE}")[0].rstrip("\n") + "\n"
    declared = set(parameters(text))
    text = _with_parameters(text, choices)
    own = choices.parameters
    initial = {name: one.guess for name, one in own.items() if one.guess is not None and name not in declared}
    lost = [name for name, one in own.items() if one.prior is not None and name not in declared]
    if lost:
        raise ProblemError(f"{lost[0]!r} is declared in no line of the file that could hold a prior; write it by hand")
    lines = [f"        {call}," for call in further]
    changes = ["    recordings=[", "        *problem.recordings,", *lines, "    ],"] if further else []
    if fixed := [name for name, one in own.items() if one.fixed]:
        changes += ["    fixed=[*problem.fixed, " + ", ".join(map(_quoted, fixed)) + "],"]
    if initial:
        values = ", ".join(f"{_quoted(name)}: {value!r}" for name, value in initial.items())
        changes += ["    initial={**problem.initial, " + values + "},"]
    if choices.step is not None:
        changes += [f"    step={choices.step!r},"]
    picked = [f"problem = problems[{_quoted(choices.key)}]", "del problems"] if choices.key else []
    with_ = ["problem = problem.with_(", *changes, ")"] if changes else []
    return text + ("\n".join(["", "", _TITLE, *picked, *with_, ""]) if picked or with_ else "")


def parameters(text: str) -> dict[str, ast.Call]:
    """Calls in the text that declare a parameter by a literal name and initial value, by name."""
    found, counts = dict[str, ast.Call](), Counter[str]()
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Call(ast.Name("Parameter") | ast.Attribute(attr="Parameter"), [ast.Constant(str(name)), _]):
                found[name] = node
                counts[name] += 1
    return {name: call for name, call in found.items() if name and counts[name] == 1}


def _with_parameters(text: str, choices: Choices) -> str:
    """The same with other initial values and priors in the calls that declare parameters."""
    calls, content = parameters(text), text.encode()
    starts = [0, *(i + 1 for i, byte in enumerate(content) if byte == ord("\n"))]
    chosen = [(calls[name], one) for name, one in choices.parameters.items() if name in calls]
    for call, one in sorted(chosen, key=lambda pair: (pair[0].lineno, pair[0].col_offset), reverse=True):
        if one.guess is None and one.prior is None and not one.free_of_prior:
            continue
        if one.guess is not None:
            call.args[1] = ast.parse(repr(one.guess), mode="eval").body
        if one.prior is not None or one.free_of_prior:
            call.keywords = [keyword for keyword in call.keywords if keyword.arg != "prior"]
        if one.prior is not None:
            pair = ast.parse(repr(one.prior), mode="eval").body
            call.keywords.append(ast.keyword("prior", pair))
        end_line, end_column = call.end_lineno or call.lineno, call.end_col_offset or call.col_offset
        begin, end = starts[call.lineno - 1] + call.col_offset, starts[end_line - 1] + end_column
        content = content[:begin] + _unparsed(call).encode() + content[end:]
    text = content.decode()
    if choices.within is not None:
        text = re.sub(r"(?m)^WITHIN = [^ \n]+", f"WITHIN = {choices.within!r}", text)
    return text


def _unparsed(call: ast.Call) -> str:
    """A call with the quotes that the package writes."""

    def value(node: ast.expr) -> str:
        plain = isinstance(node, ast.Constant) and isinstance(node.value, str)
        return json.dumps(node.value, ensure_ascii=False) if plain else ast.unparse(node)  # type: ignore[attr-defined]

    words = [*map(value, call.args), *(f"{one.arg}={value(one.value)}" for one in call.keywords)]
    return f"{ast.unparse(call.func)}({', '.join(words)})"


def _with_laws(text: str, choices: Choices) -> str:
    """The same with known bodies and other laws of friction, behind the place where the file has both."""
    known = [f"del inertias[{_quoted(body)}]" for body in choices.known if f"    {_quoted(body)}: LogC" in text]
    laws, after = [*_laws(choices.friction, text)], "\nfitted = robot.with_("
    lines = [*(["# As the robot's file has them."] if known else []), *known]
    lines += [*(["# Other laws of friction."] if laws else []), *laws]
    return text.replace(after, "\n" + "\n".join(lines) + after, 1) if lines else text


def _laws(laws: Mapping[str, str], text: str) -> Iterator[str]:
    declared = parameters(text)
    for joint, law in laws.items():
        own = f"friction[{_quoted(joint)}]"
        if f"    {_quoted(joint)}: {{" not in text or law == FRICTION[0]:
            continue
        if law in FRICTION[1:3]:
            yield f'del {own}["{"coulomb" if law == FRICTION[1] else "viscous"}"]'
            continue
        share, zeta = _STRIBECK
        after = text.partition(f"    {_quoted(joint)}: {{")[2]
        key = after.partition('Parameter("')[2].partition('_viscous"')[0]  # how names of its parameters begin
        call = declared.get(f"{key}_coulomb")
        begin = float(ast.literal_eval(call.args[1])) if call else 1.0
        yield f'{own}["stribeck"] = ('
        yield f'    Parameter("{key}_stribeck", {printed(share * begin)}, lower=0.0, unit="N m"),'
        yield f'    Parameter("{key}_zeta", {zeta!r}, lower=1.0, upper=1e4, unit="s^2"),'
        yield ")"


def ladder(text: str, name: str) -> str:
    """Problem file with nested friction laws, for ``spookid ladder``; a single recording is split into halves."""
    laws = Path(__file__).with_name("friction_laws.txt").read_text(encoding="utf-8")
    return text.rstrip("\n") + Template(laws).substitute(name=name)


# --- columns of logs ---


def read_with(path: Path, choices: Choices) -> Log:
    """Log with the units that the user chose, and those in its column names."""
    log = opened(path)
    there = {*log.columns, log.time}
    chosen = {name: unit for name, unit in choices.units.items() if name in there}
    return replace(log, units={**log.named_units, **chosen})


def proposed(robot: Robot, choices: Choices, path: Path) -> tuple[Log, dict[str, Column]]:
    """Log with the meaning of its columns: as chosen, or according to their names."""
    log, labels, described = read_with(path, choices), list(robot.freedoms), robot.description
    actuators, servos = (
        {one.name: one.joint for one in kind if one.joint in labels} for kind in (described.actuators, described.servos)
    )
    found = log.matched(labels, actuators, servos)
    kinds = {"position": found.positions, found.effort: found.efforts, "command": found.commands}
    roles = {column: Column(kind, joint) for kind, own in kinds.items() for joint, column in own.items()}
    if len(labels) == 1:  # columns without a name of a joint are of the only one
        free = {reason.removeprefix("a "): name for name, reason in found.unused.items()}
        known = {column.role for column in roles.values()}
        roles |= {name: Column(kind, labels[0]) for kind, name in free.items() if kind in ROLES and kind not in known}
    names = dict.fromkeys([*([log.time] if log.has_times else []), *log.columns])
    proposals = {name: roles.get(name) or Column(reason=found.unused.get(name, "")) for name in names}
    return log, {name: choices.columns.get(name) or proposal for name, proposal in proposals.items()}


def readable(log: Log, columns: Mapping[str, Column]) -> tuple[Recording, dict[str, str]]:
    """All numerical columns as one recording, and the reasons why others are not read."""
    names, bad = [name for name in columns if name != log.time or not log.has_times], dict[str, str]()
    try:
        return log.read(names, log.time), bad
    except ProblemError:
        if not log.has_times or len(names) < 2:
            raise
    for name in names:
        try:
            log.read([name], log.time)
        except ProblemError as error:
            bad[name] = str(error)
    return log.read([name for name in names if name not in bad] or names, log.time), bad


def matched_by(log: Log, columns: Mapping[str, Column]) -> Matched:
    """Columns as assigned by the user; of efforts, the kind that most joints have."""
    found: dict[str, dict[str, str]] = {}
    unused: dict[str, str] = {}
    for name, column in columns.items():
        if name == log.time or name not in log.columns:
            continue
        own = found.setdefault(column.role, {})
        if not column.role or not column.joint:
            unused[name] = column.reason or "not used"
        elif column.joint in own:
            both = f"columns {own[column.joint]!r} and {name!r} are both the {column.role} of joint {column.joint!r}"
            raise ProblemError(f"{both}; leave one of them unused")
        else:
            own[column.joint] = name
    if not found.get("position"):
        raise ProblemError(f"no column of {log.path.name} is assigned to the position of a joint; assign one")
    return Matched.of(log.time, found, unused)
