"""A study in a file of its own: how well the estimates of a problem are known with ever fewer of its samples."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from spookid import ProblemError
from spookid.__main__ import main, parser
from spookid.studies import Answer, Job, Study, Table, register

PROBLEM = Path(__file__).parents[2] / "problems" / "pendulum.py"


def thinned(job: Job) -> Callable[[], Answer]:
    """Fits of every sample, of every second one ..."""
    most = int(job.arguments.most)
    if most < 1:
        raise ProblemError(f"--most {most}: give 1, 2, 3 ...")

    def work() -> Answer:
        counts = range(1, most + 1)
        fits = [job.fit(job.problem.with_(every=n), doing=f"every {n}. sample") for n in counts]
        names = [name for name, estimate in fits[0].parameters.items() if not estimate.fixed]
        rows = [(str(n), *(f"{fit[name].std_err:.2g}" for name in names)) for n, fit in zip(counts, fits, strict=True)]
        table = Table(("every", *names), rows)
        errors = {name: [fit[name].std_err for fit in fits] for name in names}
        conclusion = f"{len(fits)} fits of {job.problem.name}."
        files = {"thinning.txt": table.text()}
        return Answer(job.problem.name, table.text(), conclusion, [table], {"errors": errors}, files=files)

    return work


@pytest.fixture(scope="module", autouse=True)
def study() -> Iterator[None]:
    study = Study(
        "thin",
        "fit with every sample, every second one and so on",
        thinned,
        flags="--most --out",
        own={"--most": {"help": "largest step", "type": int, "default": 2}, "--out": "folder of the study"},
        kind="thinning",
        title="thinned samples",
    )
    forget = register(study)
    yield
    forget()


def test_it_has_a_command_a_table_a_folder_and_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert "fit with every sample, every second one and so on" in parser().format_help()
    assert main(["thin", str(PROBLEM), "--most", "2", "--out", str(out)]) == 0
    shown = capsys.readouterr().out
    assert shown.splitlines()[0].split()[0] == "every"
    assert shown.endswith(f"Written to {out}\n")
    assert {path.name for path in out.iterdir()} == {"thinning.json", "thinning.txt"}
    assert (out / "thinning.txt").read_text().strip() in shown
    assert main(["report", str(out)]) == 0
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "pendulum: thinned samples" in page
    assert "2 fits of pendulum." in page
    assert "<th>every</th>" in page.replace('<th scope="col">', "<th>")
    alone = [sys.executable, "-m", "spookid", "report", str(out)]  # where nobody has declared it
    assert subprocess.run(alone, check=True, capture_output=True).stdout
    assert "2 fits of pendulum." in (out / "report.html").read_text(encoding="utf-8")
    assert main(["thin", str(PROBLEM), "--most", "1", "--out", str(out)]) == 0  # an earlier one is replaced
    assert main(["audit", str(PROBLEM), "--out", str(out)]) == 2  # by its own kind alone
    assert "holds no earlier audit.json" in capsys.readouterr().err


def test_it_refuses_wrong_input_before_any_work(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["thin", str(PROBLEM), "--most", "0", "--out", str(tmp_path / "out")]) == 2
    assert capsys.readouterr().err == "spookid: error: --most 0: give 1, 2, 3 ...\n"
    assert not (tmp_path / "out").exists()


def test_a_name_is_taken_once() -> None:
    with pytest.raises(ProblemError, match="'thin'"):
        register(Study("thin", "again", thinned, kind="again"))
    with pytest.raises(ProblemError, match=r"audit\.json"):
        register(Study("check_steps", "again", thinned, kind="audit"))
