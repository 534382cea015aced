"""Whether estimates and their standard errors are right, and warnings mean something: `python results/truth.py`.

Synthetic data are drawn and fitted with all defaults, with correct models, with faults of the data and with faults of
the model; logs are watched; and recordings of measured devices are compared. Each draw is kept in FILE (``--kept``) as
it is made, and the page is written after each round of seeds, so that a run may be stopped and continued. By default
FILE is in the folder of temporary files, one for each commit, so that all draws of a page are of one commit.
"""

import argparse
import json
import os
import tempfile
import textwrap
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import truth_measured
from run import sources_commit
from truth_driven import Posed
from truth_faults import FAULTS, MECHANISMS
from truth_measured import DRIVES, RELEASES, SWINGUPS
from truth_models import FLAWED, FORCED, FREE
from truth_watch import WATCHED, watched

from spookid import Problem, ProblemError, Solution

PAGE = Path(__file__).parent / "truth.md"
SEEDS = 20
COVERED = 1.96
"""Half width of an interval of 95 %, in standard errors."""
Key = tuple[str, str]
"""Part and row."""
Draw = dict[str, Any]
POWER: Mapping[str, tuple[int, str]] = {f"{m.name}: {f}": (i, f) for i, m in enumerate(MECHANISMS) for f in m.faults()}
MEASURED: Mapping[str, Key] = {
    f"{name} {estimator}": (name, estimator)
    for name, estimator in (*RELEASES, *((name, "auto") for name in (*SWINGUPS, *DRIVES)))
}
NAMES: Mapping[str, Iterable[str]] = {
    "forced": FORCED,
    "free": FREE,
    "flawed": FLAWED,
    "power": POWER,
    "watch": WATCHED,
    "measured": MEASURED,
}
FAR = "initial values off by two"
"""In the names of rows that are fitted from the true values, too."""


def seeded(name: str, seed: int) -> int:
    """A seed of its own for each row, so that rows are independent."""
    return zlib.crc32(name.encode()) // 1000 * 1000 + seed


def drawn(part: str, row: str, seed: int) -> Draw:
    """What one fit says."""
    began, found = time.process_time(), {"part": part, "row": row, "seed": seed}
    if part == "measured":
        found |= truth_measured.measured(*MEASURED[row])
    elif part == "watch":
        found |= watched(row, seeded(row, seed))
    elif part == "power":
        i, fault = POWER[row]
        solution = MECHANISMS[i].posed(fault, seeded(MECHANISMS[i].name, seed)).solve()
        found |= {"warned": warnings(solution), **MECHANISMS[i].judged(fault, solution)}
    else:
        kinds: Mapping[str, Callable[[int], Posed]] = {"forced": FORCED, "free": FREE, "flawed": FLAWED}[part]
        problem, truth = kinds[row](seeded(row, seed))
        began = time.process_time()
        found |= fitted(problem, truth)
    found.setdefault("seconds", time.process_time() - began)
    if FAR in row and "log_likelihood" in found:
        found["best"] = problem.with_(initial=dict(truth)).solve().log_likelihood
    return found


def fitted(problem: Problem, truth: Mapping[str, float]) -> Draw:
    """Errors over standard errors, and what the fit says and chooses."""
    began = time.process_time()
    try:
        solution = problem.solve()
    except ProblemError as error:
        return {
            "status": f"refused: {error}",
            "z": {},
            "unknown": 0,
            "warned": [],
            "chosen": False,
            "correlated": False,
        }
    z = {n: (solution[n].estimate - value) / solution[n].std_err for n, value in truth.items() if solution[n].std_err}
    choice, known = solution.choice, {name: float(one) for name, one in z.items() if np.isfinite(one)}
    return {
        "status": solution.status.value,
        "z": known,
        "unknown": len(truth) - len(known),
        "warned": warnings(solution),
        "chosen": bool(choice and choice.is_hard),
        "correlated": bool(choice and choice.correlation_times),
        "log_likelihood": solution.log_likelihood,
        "seconds": time.process_time() - began,
    }


def warnings(solution: Solution) -> list[str]:
    """Codes of findings that are no notes, and whether there is no answer."""
    codes = {finding.code for finding in solution.findings if finding.severity != "note"}
    return sorted(codes | ({"no answer"} if solution.no_answer else set()))


# --- the page ---


def page(draws: Sequence[Draw]) -> Iterator[str]:
    """Its lines."""
    seeds = min(Counter((d["part"], d["row"]) for d in draws if d["part"] != "measured").values(), default=0)
    yield "# Accuracy of estimates and standard errors"
    yield ""
    yield from paragraph(
        "The command `python results/truth.py` fits synthetic data and measured devices with all defaults, and writes",
        f"this page. Each row has {seeds} seeds or more, which differ from those of other rows. All motions are from",
        "integrators that share no code with spookid.",
    )
    yield from _models(of(draws, "forced", "free"))
    yield from _flawed(of(draws, "flawed"))
    yield from _power(of(draws, "power"))
    yield from _watch(of(draws, "watch"))
    yield "## Measured devices"
    yield ""
    yield from paragraph(*truth_measured.INTRODUCTION)
    yield from truth_measured.tables({MEASURED[d["row"]]: d for d in of(draws, "measured")})


def paragraph(*parts: str) -> Iterator[str]:
    """Lines of a paragraph, none of which begins with a percent sign."""
    text = " ".join(parts).replace(" %", "\u00a0%")
    yield from (line.replace("\u00a0", " ") for line in textwrap.wrap(text, 120, break_on_hyphens=False))
    yield ""


def of(draws: Sequence[Draw], *parts: str) -> list[Draw]:
    """Those of some parts."""
    return [draw for draw in draws if draw["part"] in parts]


HEAD = "synthetic data | fits | covered [%] | z | warned [%]"


def _models(draws: list[Draw]) -> Iterator[str]:
    yield "## Correct models"
    yield ""
    yield from paragraph(
        "The table shows how many 95 % intervals contain the true value (covered), and the root mean square of error",
        "over standard error (z). The next columns show the share of fits with a warning, which is a false alarm, with",
        "deterministic dynamics, and with correlated sensor noise. The last column is the median CPU time of a fit.",
    )
    yield from _heading(f"{HEAD} | deterministic [%] | correlated [%] | CPU [s]")
    shown = ("warned", "chosen", "correlated")
    for part, name in (("forced", "all with a random force"), ("free", "all without")):
        own = of(draws, part)
        for kind in NAMES[part]:
            yield from _row(kind, [draw for draw in own if draw["row"] == kind], shown)
        yield from _row(name, own, shown)
    yield from _row("all", draws, shown)
    yield ""
    forced, far = of(draws, "forced"), [draw for draw in draws if "best" in draw]
    chosen = [draw for draw in forced if draw["chosen"]]
    codes = Counter(code for draw in draws for code in draw["warned"])
    near = sum(d["best"] - d["log_likelihood"] < 1 and max(map(abs, d["z"].values()), default=9) < 4 for d in far)
    missing = sum(draw["unknown"] for draw in draws)
    yield from paragraph(
        f"With a random force, deterministic dynamics are the wrong choice. They were chosen in {len(chosen)} of",
        f"{len(forced)} fits, and in {sum(_misses(d) > 0 for d in chosen)} of these an interval misses the true value.",
        f"The false alarms are: {_codes(codes) or 'none'}. {_converged(draws)}",
        f"The data do not determine {missing} parameters, which have no standard error. With initial values off by",
        f"two, {near} of {len(far)} fits reach the log-likelihood of a fit from the true values, or miss it by less",
        "than 1. Their estimates are within 4 standard errors.",
    )


def _flawed(draws: list[Draw]) -> Iterator[str]:
    yield "## Faults of the data"
    yield ""
    yield from paragraph(
        "Here the data have a fault that a warning should name, and the models are correct. Random torques below 1 Hz",
        "are not white noise, as the fit assumes. The tones of the oscillator are interpolated with the correct hold;",
        "the warning says by how much another hold would change the estimates.",
    )
    yield from _heading(f"{HEAD} | CPU [s] | warnings")
    for kind in FLAWED:
        own = [draw for draw in draws if draw["row"] == kind]
        for line in _row(kind, own, ("warned",)):
            yield f"{line} {_codes(Counter(code for draw in own for code in draw['warned']))} |"
    yield ""


def _power(draws: list[Draw]) -> Iterator[str]:
    yield "## Faults of the model"
    yield ""
    moved = [draw for draw in draws if draw["moved"] and FAULTS[POWER[draw["row"]][1]]]
    found = sum(bool(draw["warned"]) for draw in moved)
    yield from paragraph(
        "The data of a row have one effect that the model does not contain. Fits that are off have an estimate three",
        "standard errors or more from the true value. The next columns count those of them with a warning, all fits",
        "with a warning, and the fits in which a message names the effect. Altogether",
        f"{len(moved)} fits with an effect are off, and {found} of them have a warning.",
    )
    yield from _heading("mechanism: effect | fits | off | off, warned | warned | named")
    for kind, (_, fault) in POWER.items():
        if own := [draw for draw in draws if draw["row"] == kind]:
            far = [draw for draw in own if draw["moved"]]
            warned = (f"{sum(bool(draw['warned']) for draw in some)}" for some in (far, own))
            named = f"{sum(draw['named'] for draw in own)}" if FAULTS[fault] else ""
            yield f"| {kind} | {len(own)} | {len(far)} | {' | '.join(warned)} | {named} |"
    yield ""


def _watch(draws: list[Draw]) -> Iterator[str]:
    yield "## Changes found by `watch`"
    yield ""
    yield from paragraph(
        "The first 5 s of a log are fitted, and the rest is read sample by sample. A change is found if its parameter",
        "is named within 2 s and its time is right within 1 s. The other logs have no change, so that a report is a",
        "false alarm; the last columns are those of the final estimates.",
    )
    yield from _heading("log | logs | reports | found | covered [%] | z | CPU [s]")
    for kind in WATCHED:
        if own := [draw for draw in draws if draw["row"] == kind]:
            reports = sum(draw["changes"] for draw in own)
            found = f"{sum(draw['right'] for draw in own)}" if "larger" in kind else ""
            yield f"| {kind} | {len(own)} | {reports} | {found} | {' | '.join(_covered(own))} | {_seconds(own)} |"
    yield ""


def _heading(head: str) -> Iterator[str]:
    yield f"| {head} |"
    yield "|" + "---|" * (head.count("|") + 1)


def _row(name: str, own: list[Draw], shares: Sequence[str]) -> Iterator[str]:
    if own:
        shown = (f"{100 * np.mean([bool(draw[key]) for draw in own]):.0f}" for key in shares)
        yield f"| {name} | {len(own)} | {' | '.join([*_covered(own), *shown, _seconds(own)])} |"


def _covered(own: list[Draw]) -> list[str]:
    z = np.array([value for draw in own for value in draw.get("z", {}).values()])
    return [f"{100 * np.mean(np.abs(z) < COVERED):.1f}", f"{np.sqrt(np.mean(z**2)):.2f}"] if z.size else ["", ""]


def _seconds(own: list[Draw]) -> str:
    return f"{np.median([draw['seconds'] for draw in own]):.1f}"


def _misses(draw: Draw) -> int:
    return sum(abs(value) > COVERED for value in draw["z"].values())


def _codes(codes: Counter[str]) -> str:
    return ", ".join(f"`{code}` {count}" for code, count in codes.most_common())


def _converged(draws: list[Draw]) -> str:
    others = Counter(draw["status"] for draw in draws if draw["status"] != "converged")
    if not others:
        return "All fits converge."
    return f"All fits converge except {', '.join(f'{n} ({status})' for status, n in others.items())}."


def main() -> None:
    """Draw, fit, keep and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--page", type=Path, default=PAGE)
    parser.add_argument("--kept", type=Path, default=Path(tempfile.gettempdir()) / f"truth-{sources_commit()}.jsonl")
    parser.add_argument("--only", nargs="*", default=list(NAMES), choices=list(NAMES), help="parts to draw")
    given = parser.parse_args()
    if "measured" in given.only and "SPOOKID_DATA" not in os.environ:
        parser.error("measured devices are fitted: set SPOOKID_DATA to the folder that holds their data")
    lines = given.kept.read_text(encoding="utf-8").splitlines() if given.kept.exists() else []
    draws = [json.loads(line) for line in lines]
    known = {(draw["part"], draw["row"], draw["seed"]) for draw in draws}
    with ProcessPoolExecutor(given.jobs) as pool:
        for seed in range(given.seeds):
            parts = [part for part in given.only if seed == 0 or part != "measured"]
            due = [(part, row, seed) for part in parts for row in NAMES[part] if (part, row, seed) not in known]
            for draw in pool.map(_drawn, due):
                draws.append(draw)
                with given.kept.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(draw) + "\n")
                print(draw, flush=True)
            given.page.write_text("\n".join(page(draws)), encoding="utf-8")


def _drawn(due: tuple[str, str, int]) -> Draw:
    return drawn(*due)


if __name__ == "__main__":
    main()
