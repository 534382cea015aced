"""A Solution in words and tables: the page of a terminal and of ``print``, and the sections that the report shares."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import combinations

import numpy as np

from spookid.kernels.arrays import Array
from spookid.report.conclusion import Section, details
from spookid.results.findings import Finding
from spookid.results.result import Derived, Solution
from spookid.results.wording import noise_words, remark, reported, some_of, tension_words, verdict
from spookid.solvers.status import Status
from spookid.statistics.sensitivities import CORRELATED, IMPULSES, Sensitivities, left_open, settled_parameters
from spookid.statistics.weak_directions import UNSEEN, WeakDirection
from spookid.tables.table import (
    COLUMNS,
    ESTIMATED,
    ROWS,
    Block,
    Table,
    bounds,
    concise,
    counted,
    estimated,
    number,
    seconds,
    side_by_side,
    uncertain,
    wrapped,
)

_NOTHING = "There is nothing to do."
"""Advice of notes that is not shown."""
_MOST = 3
"""Warnings and directions in full on a page that is not verbose."""
LEGEND = "0.12(3) is 0.12 with a standard error of 0.03; * mostly from the prior."


def summarize(solution: Solution, verbose: bool = False) -> str:
    """Summary for a terminal: lines of at most 80 columns, without a newline at the end."""
    page = [*overview(solution, verbose), *(details(solution) if verbose else [])]
    shown = [wrapped(verdict(solution), COLUMNS), *(_lines(title, blocks) for title, blocks in page)]
    return "\n\n".join("\n".join(lines) for lines in shown)


def _lines(title: str, blocks: Sequence[Block]) -> list[str]:
    indent, lines = "  " if title else "", [title] if title else []
    for block in blocks:
        if isinstance(block, Table):
            lines += block.text(COLUMNS, indent).splitlines()
        else:
            lines += [block] if "\n" in block else wrapped(block, COLUMNS, indent)
    return lines


def overview(solution: Solution, verbose: bool = False) -> list[Section]:
    """Blocks of the summary that users read first; empty blocks are omitted."""
    stopped = [] if solution.status is Status.CONVERGED else [solution.message]
    warnings = [("", [warning]) for warning in warnings_of(solution.findings, verbose)]
    sections: list[Section] = [
        ("", list[Block](stopped)),
        *((title, list[Block](blocks)) for title, blocks in warnings),
        *_estimates(solution, verbose),
        ("", [*_correlations(solution, verbose)]),
        ("constraints between parameters", [*constraints(solution)]),
        ("not identifiable, or weakly", _weak(solution, verbose)),
        ("", [*noise_line(solution), *widths_line(solution), facts_words(solution)]),
    ]
    return [section for section in sections if section[1]]


def printed(solution: Solution) -> list[Block]:
    """Verdict, tables and sentences of the summary, for notebooks."""
    titled = ([title, *blocks] if title else blocks for title, blocks in overview(solution))
    return [verdict(solution), *(block for blocks in titled for block in blocks)]


# --- warnings ---


def warnings_of(findings: Sequence[Finding], verbose: bool = False, width: int = COLUMNS) -> Iterator[str]:
    """Warnings with their codes; the first in full, the others by their codes only."""
    serious = [one for one in findings if verbose or one.severity != "note"]
    for finding in serious if verbose else serious[:_MOST]:
        yield _in_full(finding, verbose, width)
    if not verbose and len(serious) > _MOST:
        codes = ", ".join(dict.fromkeys(one.code for one in serious[_MOST:]))
        yield f"{counted(len(serious) - _MOST, 'more warning')}, in full with --verbose: {codes}"


def parts_of(finding: Finding) -> dict[str, str]:
    """Parts of a finding by label: description, evidence, cause, and advice."""
    what, *evidence = re.split(
        r"(?<=[a-z]{3}): |(?<=[.?!]) (?=[A-Z])", finding.effect.removeprefix("Is this meant? "), maxsplit=1
    )
    parts = {"": what.rstrip(".:") + ".", "evidence": " ".join(evidence), "cause": finding.cause, "do": finding.advice}
    return {label: text for label, text in parts.items() if text.strip(".") and text != _NOTHING}


def _in_full(finding: Finding, verbose: bool, width: int) -> str:
    """As lines."""
    texts = {label: text if verbose else brief(text) for label, text in parts_of(finding).items()}
    head = f"{finding.severity.upper()} {finding.code}"
    fits = len(f"{head}   {texts.get('', '')}") <= width
    lines = [f"{head}   {texts.pop('')}" if fits and "" in texts else head]
    for label, text in texts.items():
        lines += wrapped(text, width, f"  {label.ljust(8)}  " if label else "  ")
    return "\n".join(lines)


def brief(text: str) -> str:
    """Shortened text: the first three names of long lists, and the first two of several statements."""
    names = r"((?:[\w\[\]]+, ){3})((?:[\w\[\]]+, ){3,}[\w\[\]]+)(?=[:;. ])"
    text = re.sub(names, lambda found: f"{found[1]}and {found[2].count(',') + 1} more", text)
    first, second, *others = [*text.split("; "), ""]
    return f"{first}; {second}; and {len(others) - 1} more" if others[1:] else text


# --- estimates ---


def _estimates(solution: Solution, verbose: bool) -> list[Section]:
    """Bodies, joints, and the other parameters: all by name, if they fit a screen."""
    if not solution.parameters:
        return []
    table, grids = parameters(solution, verbose), [bodies(solution.physical), joints(solution)]
    sections = [("", blocks) for blocks in grids]
    notes = [LEGEND] if any(grids) else []
    if any(estimate.at_bound for estimate in solution.parameters.values()):
        notes.append("Standard errors assume that parameters at a bound stay at the bound.")
    if solution.sensitivities.raised:
        ratio = number(float(np.max(solution.sensitivities.inflation)), 2)
        names = some_of(solution.sensitivities.raised, solution.sensitivities.names)
        chosen = solution.choice is not None and solution.choice.is_hard and solution.choice.reason != "as asked"
        more = " and the effect of process noise" if chosen else ""
        notes.append(f"Standard errors from a block jackknife{more}, up to {ratio} times white-noise errors: {names}.")
    if "between" in table.head and table.rows:
        notes.append("between: factor by which standard errors must increase for the recordings to agree.")
    return [*sections, ("", [*([table] if table.rows else []), *map(brief, notes)])]


def coordinates(solution: Solution) -> set[str]:
    """Names of parameters that tables of bodies and joints replace: all, or, if they fit on a screen, only coordinates
    of inertias."""
    return covered(solution.physical.values(), solution.joints.values(), len(solution.parameters))


def covered(physical: Collection[Derived], joints: Collection[Derived], count: int) -> set[str]:
    """Same names from quantities of bodies and joints, and the number of parameters."""
    inner = {name for one in physical for name in one.slopes}
    alone = {name for one in (*physical, *joints) for name in one.slopes if list(one.slopes.values()) == [1.0]}
    return inner | alone if count > ROWS else inner - alone


def parameters(solution: Solution, every: bool = False) -> Table:
    """Table of parameters, by default of those that no table of bodies and joints replaces."""
    left = () if every else coordinates(solution)
    between = any(math.isfinite(one.scale) for one in solution.parameters.values())
    more = (*(("between",) if between else ()), *(("initial", "bounds") if every else ()))
    head, rows = ("parameter", *ESTIMATED, *more, ""), []
    for one in solution.parameters.values():
        if one.name not in left:
            grown = (f"x {number(one.scale, 2)}" if math.isfinite(one.scale) else "",) if between else ()
            declared = (number(one.initial, 6), bounds(one.lower, one.upper)) if every else ()
            cells = estimated(one.name, one.estimate, one.std_err, one.unit, one.lower, one.upper)
            rows.append((*cells, *grown, *declared, remark(one)))
    return Table(head, rows, left=(0, *range(5, len(head))))


def bodies(physical: Mapping[str, Derived]) -> list[Block]:
    """Table of bodies whose mass, centre of mass or moments depend on parameters."""
    groups = ("mass", "c_x", "c_y", "c_z"), ("I_xx", "I_yy", "I_zz")
    return [table for names in groups for table in _grid("body", physical, names)]


def joints(solution: Solution) -> list[Block]:
    """Table of joints with their quantities as columns, if there are too many parameters for a list."""
    names = dict.fromkeys(one.name.removeprefix(f"{one.body} ") for one in solution.joints.values())
    return _grid("joint", solution.joints, list(names)) if len(solution.parameters) > ROWS else []


def _grid(what: str, derived: Mapping[str, Derived], names: Sequence[str]) -> list[Block]:
    """Rows of bodies or joints, and a column for each quantity with its unit below its name."""
    owners = list(dict.fromkeys(one.body for one in derived.values()))
    columns = []
    for name in names:
        own = [derived.get(f"{owner} {name}") for owner in owners]
        if any(own):
            unit = next(one.unit for one in own if one)
            columns.append((name, f"[{unit}]", *(_cell(one) if one else "" for one in own)))
    tables = side_by_side([(what, "", *owners)], columns, COLUMNS) if columns else []
    return [Table(one.head, one.rows, left=(0,)) for one in tables]


def _cell(one: Derived) -> str:
    return concise(one.estimate, one.std_err) + "*" * (one.known_from == "prior")


def constraints(solution: Solution) -> Iterator[Block]:
    """Table of constraints on parameters: whether each is active, and how strongly the data contradict it."""
    rows = [(one.name, one.place, tension_words(one)) for one in solution.constraints.values()]
    if rows:
        yield Table(("constraint", "declared at", "the data"), rows, left=(0, 1, 2))
    if any(one.active for one in solution.constraints.values()):
        yield "Standard errors assume that active constraints are correct."


# --- what the data do not determine ---


def _correlations(solution: Solution, verbose: bool) -> Iterator[str]:
    """Pairs of parameters, the strongest first."""
    yield from correlation_line(correlated(solution.sensitivities, () if verbose else coordinates(solution)), verbose)


def correlation_line(pairs: Sequence[tuple[str, str, float]], every: bool = False) -> Iterator[str]:
    """Line of all strongly correlated pairs, or of the first; empty if there are none."""
    shown = [f"{one}, {other} {value:+.2f}" for one, other, value in (pairs if every else pairs[: 2 * _MOST])]
    more = [f"{len(pairs) - len(shown)} more"] if len(pairs) > len(shown) else []
    if shown:
        yield f"correlations above {CORRELATED}: {'; '.join([*shown, *more])}"


def correlated(known: Sensitivities, but: Collection[str] = ()) -> list[tuple[str, str, float]]:
    """Pairs of parameters whose errors are correlated by more than 0.9, the strongest first."""
    return correlated_pairs(known.names, known.covariance, but)


def correlated_pairs(
    names: Sequence[str], covariance: Array, but: Collection[str] = ()
) -> list[tuple[str, str, float]]:
    """Same pairs as in ``correlated``, from a covariance matrix."""
    errors = np.sqrt(np.diag(covariance))
    some = [i for i, name in enumerate(names) if errors[i] > 0 and name not in but]
    pairs = [(names[i], names[j], float(covariance[i, j] / errors[i] / errors[j])) for i, j in combinations(some, 2)]
    return sorted((pair for pair in pairs if abs(pair[2]) > CORRELATED), key=lambda pair: -abs(pair[2]))


def _weak(solution: Solution, verbose: bool) -> list[Block]:
    """Directions that the data do not determine; of inertias their number, if there is no room for all."""
    weak, inner = left_open(solution.sensitivities), coordinates(solution)
    plain = [one for one in weak if verbose or not inner.issuperset(one.direction)]
    rows = [(weak_words(one), one.advice) for one in (plain if verbose else plain[:_MOST])]
    if more := len(plain) - len(rows):
        rows.append((f"{more} more", "in full with --verbose"))
    if count := len(weak) - len(plain):
        what = "of masses, centres and moments"
        rows.append((counted(count, "combination"), f"{what}; see --verbose"))
    if verbose and (names := settled_parameters(solution.sensitivities)):
        rows.append((", ".join(names), "weakly identifiable; determined by priors"))
    return [f"{name}: {advice}" for name, advice in rows]


def weak_words(weak: WeakDirection) -> str:
    """A direction, in words."""
    kind = "not identifiable" if weak.singular_value < UNSEEN else f"{number(weak.singular_value, 2)} sigma for 100 %"
    if len(weak.direction) == 1:
        return f"{next(iter(weak.direction))} ({kind})"
    percents = ((name, 100 * share) for name, share in weak.direction.items())
    return f"{', '.join(f'{n} {p:+.0f} %' if abs(p) >= 1 else f'{n} {p:+.1g} %' for n, p in percents)} ({kind})"


def weak_sentences(known: Sensitivities) -> list[str]:
    """Sentence on each direction that the data do not determine, with advice."""
    sentences = [f"{weak_words(one)}. {one.advice}".rstrip() for one in left_open(known)]
    names = settled_parameters(known)
    return [*sentences, *([f"Priors determine {', '.join(names)}, which data identify only weakly."] if names else [])]


# --- noise and facts ---


def noise_line(solution: Solution) -> list[str]:
    """Line of the standard deviations of measurement and process noise."""
    if solution.noise:
        words = [noise_words(one, solution.step) for one in reported(solution.noise)]
    else:
        words = [
            f"impulses {number(size, 3)} /√κ" if name == IMPULSES else f"{name} {number(size, 3)} sigma"
            for name, size in solution.sensitivities.noise.items()
        ]
    if solution.dynamics == "hard" or (solution.choice and solution.choice.is_hard):
        words = [w for w in words if not w.startswith("process noise")]
        words.append("process noise none (deterministic dynamics)")
    return [f"noise: {'; '.join(words)}"] if words else []


def widths_line(solution: Solution) -> list[str]:
    """Line of the estimated widths of smooth friction."""
    words = []
    for label, one in solution.friction_widths.items():
        value = f"{uncertain(one.width, one.std_err)} {one.unit}"
        words.append(f"{label} {value if one.resolved else f'sharper than the data resolve (set to {value})'}")
    return [f"friction width: {'; '.join(words)}"] if words else []


def facts_words(solution: Solution) -> str:
    """Line of facts: samples, stepper and step, iterations and time."""
    samples = sum(int(t.samples.sum()) for t in solution.trajectories)
    step = f"{number(1000 * solution.step, 6)} ms" if solution.step < 0.1 else f"{number(solution.step, 6)} s"
    done = [counted(samples, "sample"), f"{solution.stepper}, h = {step}", counted(solution.iterations, "iteration")]
    return ", ".join([*done, seconds(solution.timing.total)])
