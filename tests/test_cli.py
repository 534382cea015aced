"""The command line: every exit status, message and flag, folders that are whole or absent, progress, Ctrl-C."""

from __future__ import annotations

import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest

import spookid
from spookid import Recording, load, load_problem
from spookid.__main__ import main

pty, termios = pytest.importorskip("pty"), pytest.importorskip("termios")
ROOT = Path(__file__).parents[1]
PENDULUM = '''"""A rod that swings.

It was simulated."""
from pathlib import Path
from spookid import GROUND, Body, Hinge, HingeAngle, Model, Motor, Parameter, Problem, Recording, gravity

J = Parameter("J", 0.02, lower=1e-4, unit="kg m^2", note="about the centre of mass, a note that goes on and on and on")
b = Parameter("b", 1e-3, lower=0, unit="N m s")


def pendulum(name, recordings, coulomb=0, gain=None, **changes):
    rod = Body("rod", mass=0.5, inertia=(0.01, J, J))
    up, out = GROUND.frame(x=(0, 1, 0), y=(0, 0, -1)), rod.frame(at=(-0.2, 0, 0), x=(0, 1, 0), y=(1, 0, 0))
    hinge = Hinge("pivot", up, out, viscous=b, coulomb=coulomb)
    model = Model([rod], [hinge], [] if gain is None else [Motor(hinge, "u", gain)], gravity=gravity(9.81))
    return Problem(name, model, recordings, [HingeAngle(hinge, signal="theta")], state_weight=1e4, **changes)


def run(name="run"):
    return Recording.from_csv(Path(__file__).parent / "run.csv", name=name)


'''
ONE = PENDULUM + 'problem = pendulum("swing", [run()])\n'
TWO = PENDULUM + 'problems = {"a": pendulum("swing_a", [run()]), "b": pendulum("swing_b", [run(), run("again")])}\n'
BLIND = PENDULUM + 'problem = pendulum("blind", [])\n'
BAD_SECOND = PENDULUM + (
    'problems = {"a": pendulum("swing_a", [run()]), "b": pendulum("blind", []), "c": pendulum("swing_c", [run()])}\n'
)
COMMANDS = ("check", "solve", "simulate", "audit", "sweep", "report")
TRUTH = {"J": 0.01, "b": 2e-3}
FILES = {"solution.json", "trajectory.npz", "sensitivities.npz", "summary.txt"}
FILES |= {"fit.png", "convergence.png", "parameters.png", "influence.png"}


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    """A folder with a recording of 1 s, with a gap."""
    folder = tmp_path_factory.mktemp("data")
    (folder / "blind.py").write_text(BLIND)
    motion = load_problem(folder / "blind.py").simulate(TRUTH, duration=1.0, initial={"pivot": 1.0})
    theta = motion.signal("theta") + 1e-3 * np.random.default_rng(1).normal(size=len(motion.t))
    theta[[40, 41]] = np.nan
    Recording(motion.t, {"theta": theta, "u": np.zeros_like(theta)}, "run").to_csv(folder / "run.csv")
    return folder


@pytest.fixture
def here(tmp_path, monkeypatch, data):
    """An empty working directory with the recording beside the problem files to come."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.csv").write_bytes((data / "run.csv").read_bytes())
    return tmp_path


@pytest.fixture(scope="session")
def solved(data):
    """A result folder; not to be changed."""
    (data / "swing.py").write_text(ONE)
    assert main(["solve", str(data / "swing.py"), "--out", str(data / "solved"), "--quiet"]) == 0
    return data / "solved"


def write(text: str, name: str = "swing.py") -> str:
    Path(name).write_text(text)
    return name


def tree(folder: str | Path) -> dict:
    return json.loads((Path(folder) / "solution.json").read_text())


def simulation(folder: str | Path) -> dict:
    return json.loads((Path(folder) / "simulation.json").read_text())


def wrong(capsys, *arguments: str) -> str:
    """The message of wrong input."""
    capsys.readouterr()
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("spookid: error: ")
    assert err.count("\n") == 1
    return err.removeprefix("spookid: error: ").rstrip("\n")


def refused(capsys, *arguments: str) -> str:
    """The message about arguments that do not parse."""
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    return err


# --- arguments ---


def test_version(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out == f"spookid {spookid.__version__}\n"


@pytest.mark.parametrize("arguments", [["--help"], *([name, "--help"] for name in COMMANDS)])
def test_help_fits_a_terminal(capsys, monkeypatch, arguments):
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 0
    out = capsys.readouterr().out
    assert "exit status:" in out
    assert max(map(len, out.splitlines())) <= 80


def test_help_and_version_do_not_load_casadi():
    code = (
        "import sys\nfrom spookid.__main__ import main\n"
        "for flag in ('--version', '--help'):\n    try: main([flag])\n    except SystemExit: pass\n"
        "heavy = {'casadi', 'numpy', 'scipy', 'matplotlib', 'tqdm'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, stdout=subprocess.DEVNULL)


def test_commands_load_a_problem_without_what_only_fits_need():
    code = (
        "import sys, spookid.cli.solving\n"
        "spookid.load_problem('problems/furuta_release.py')\n"
        "slow = {'scipy.linalg', 'scipy.special', 'scipy.optimize', 'scipy.sparse', 'matplotlib', 'tqdm', 'loky'}\n"
        "assert not slow & set(sys.modules), slow & set(sys.modules)\n"
        "from spookid.kernels.scipy_parts import lapack, special\n"
        "import scipy.linalg, scipy.special\n"  # they serve whoever loads all of SciPy later
        "assert scipy.linalg.lapack.dpbtrf is lapack.dpbtrf and scipy.special.stdtr is special.stdtr\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


@pytest.mark.skipif(sys.platform != "linux", reason="counts threads in /proc")
def test_a_command_multiplies_matrices_on_one_thread(here: Path) -> None:
    """Whatever the environment asks for: two threads add up in another order than four."""
    (here / "threads.py").write_text(
        "import os\nimport numpy as np\nnp.ones((900, 900)) @ np.ones((900, 900))\n"
        "raise RuntimeError(f'{len(os.listdir(\"/proc/self/task\"))} threads')\n"
    )
    command = [sys.executable, "-m", "spookid", "check", "threads.py"]
    asked = {**os.environ, "OMP_NUM_THREADS": "4", "OPENBLAS_NUM_THREADS": "4"}
    done = subprocess.run(command, cwd=here, env=asked, capture_output=True, text=True, timeout=60)
    assert "2 threads" in done.stderr, done.stderr  # the other one hears signals


def test_module_runs_as_the_command():
    done = subprocess.run([sys.executable, "-m", "spookid", "--version"], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, f"spookid {spookid.__version__}\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "the following arguments are required: COMMAND; see spookid --help"),
        (["frob"], "invalid choice: 'frob'"),
        (["solve"], "required: PROBLEM.py; see spookid solve --help"),
        (["solve", "p.py", "--backend", "nix"], "argument --backend: invalid choice: 'nix'"),
        (["solve", "p.py", "--stepper", "nix"], "argument --stepper: invalid choice: 'nix'"),
        (["solve", "p.py", "--friction", "nix"], "argument --friction: invalid choice: 'nix'"),
        (["solve", "p.py", "--step", "x"], "argument --step: invalid float value: 'x'"),
        (["solve", "p.py", "--max-iterations", "-1"], "'-1' is no number of iterations; give 0, 1, 2"),
        (["solve", "p.py", "--max-iterations", "1.5"], "'1.5' is no number of iterations; give 0, 1, 2"),
        (["solve", "p.py", "--set", "J"], "argument --set: 'J' is not NAME=VALUE with a finite number"),
        (["solve", "p.py", "--set", "J=x"], "'J=x' is not NAME=VALUE"),
        (["solve", "p.py", "--set", "J=nan"], "'J=nan' is not NAME=VALUE"),
        (["solve", "p.py", "--set", "=1"], "'=1' is not NAME=VALUE"),
        (["solve", "--set", "J=1", "p.py"], "'p.py' is not NAME=VALUE with a finite number; give PROBLEM.py before"),
        (["solve", "p.py", "--sta", "1"], "unrecognized arguments: --sta 1"),
        (["simulate", "p.py"], "required: --out"),
        (["check", "p.py", "--out", "x"], "unrecognized arguments: --out x"),
        (["audit", "p.py", "--max-iterations", "x"], "'x' is no number of iterations; give 0, 1, 2"),
    ],
)
def test_arguments_that_do_not_parse(capsys, arguments, message):
    assert message in refused(capsys, *arguments)


# --- wrong input, common to all commands ---


@pytest.mark.parametrize("command", [["check"], ["solve"], ["simulate", "--out", "out"]])
def test_wrong_problem_files(here, capsys, command):
    name, *flags = command
    assert (
        wrong(capsys, name, "none.py", *flags) == "none.py cannot be read (No such file or directory); check the path"
    )
    assert wrong(capsys, name, write("x = 1 / 0\n"), *flags) == "swing.py line 1: ZeroDivisionError: division by zero"
    assert "has no problem 'c'; it has 'a', 'b'" in wrong(capsys, name, write(TWO) + "::c", *flags)
    message = "--set c: swing.py has no parameter 'c'; its parameters are J, b"
    assert wrong(capsys, name, write(ONE), *flags, "--set", "J=0.1", "c=1") == message
    message = "swing.py:16: Problem 'swing': step is -1.0; it must be a positive number"
    assert wrong(capsys, name, write(ONE), *flags, "--step", "-1") == message
    assert not [path for path in here.iterdir() if path.is_dir() and path.name != "__pycache__"]


@pytest.mark.parametrize("command", ["check", "solve"])
def test_wrong_guesses(here, capsys, command):
    path = write(ONE)
    assert "--fix c: swing.py has no parameter 'c'" in wrong(capsys, command, path, "--fix", "J", "c")
    assert "of parameter 'J' is outside its bounds [0.0001, inf]" in wrong(capsys, command, path, "--set", "J=-1")
    assert "state_weight is 0.0; it must be" in wrong(capsys, command, path, "--state-weight", "0")
    assert "friction_width is -1.0; it must be" in wrong(capsys, command, path, "--friction-width", "-1")
    assert "cutoff is nan; it must be" in wrong(capsys, command, path, "--cutoff", "nan")


def test_without_a_recording_yet(here, capsys):
    path = write(BLIND)
    assert main(["check", path]) == 0
    told = capsys.readouterr().out
    assert "The problem has no recording. To solve the problem, give recordings= with the signals theta." in " ".join(
        told.split()
    )
    assert "J" in told
    assert "needs recordings and observations to be solved; give it recordings=[...]" in wrong(capsys, "solve", path)


# --- questions ---


def test_a_question_is_said_once(here, capsys):
    path = write(ONE.replace("[run()])", "[run()], coulomb=b, gain=Parameter('K', 0.5))"))
    main(["solve", path, "--no-figures", "--fix", "b", "--set", "b=0.25"])
    out, err = capsys.readouterr()
    assert out.count("question.model") == 1
    assert "Is this meant?" not in err
    main(["solve", path, "--no-figures", "--quiet", "--fix", "b", "--set", "b=0.25"])
    out, err = capsys.readouterr()
    assert (out, err.count("Is this meant?")) == ("", 1)


def test_the_clock_is_asked_about_before_anything_is_built(here, capsys, monkeypatch):
    """Milliseconds read as seconds make a thousand times as many steps, which take minutes."""
    slow = 'slow = run()\nslow = Recording(1000 * slow.t, {"theta": slow.signal("theta")})\n'
    path = write(ONE.replace("problem = ", f"{slow}problem = ").replace("[run()])", "[slow])"))
    assert main(["check", path]) == 0
    told = capsys.readouterr().out
    assert "Are its times t in milliseconds?" in told
    assert "Not built yet" in told

    def built(*_: object) -> None:
        raise spookid.ProblemError(f"{path}:1: a fit begins after: {capsys.readouterr().err}")

    monkeypatch.setattr("spookid.cli.solving.estimate", built)
    assert "Are its times t in milliseconds?" in wrong(capsys, "solve", path)


# --- check ---


def test_check_shows_everything(here, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    text = ONE.replace("[run()])", "[run()], coulomb=b, gain=Parameter('K', 0.5))")
    assert main(["check", write(text), "--fix", "b", "--set", "b=0.25", "--verbose"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    page = out
    assert re.match(r"swing \(swing.py\): 1 body, 1 joint, 2 free parameters; a fit needs some .* memory", page)
    assert "\n\nWARNING question.model\n  In recording 'run', with parameters" in page
    for line in (
        r"Bodies   1  rod",
        r"Joints   1  pivot \(Hinge, GROUND to rod\)",
        r"Motors   1  u on pivot",
        r"Sensors  1  theta: angle of pivot \(sigma 1 rad\)",
        r"  run   101    1 s       theta 99",
        r"  J +0\.02 +kg m² +≥ 0\.0001 +about the centre of mass, a note that goes on and on and on",
        r"  b +0\.25 +N m s +≥ 0 +fixed",
        r"  K +0\.5",
        r"Settings    stepper variational, friction smooth, step h = 0\.01 s, weight κ = 10000, cutoff .*",
        r"            friction width pivot 0\.0\d+ rad/s \(1 % of the rms slip rate\)",
        r"Size        103 unknowns \(101 of states, 2 of parameters\), 198 residuals, [\d,]+ Jac.*",
        r"WARNING input.zero   The input 'u' is zero throughout\.",
    ):
        assert re.search(f"^{line}$", out, re.MULTILINE), line


def test_check_of_a_problem_whose_noise_is_estimated(here, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    assert main(["check", write(ONE), "--state-weight", "auto", "--verbose"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert "theta: angle of pivot (sigma estimated)" in out
    assert "Settings    stepper variational, friction smooth, step h = 0.01 s, noise estimated, cutoff" in out
    assert (
        "Identifiability, linearized at the initial values\n  Changes of 100 % along each direction, in standard errors"
        in out
    )
    assert "the paper's weight" not in out
    assert main(["check", write(ONE), "--state-weight", "100"]) == 0
    assert "state_weight=100, as in the original paper." in capsys.readouterr().out


@pytest.mark.parametrize("width", [60, 80, 120])
def test_check_fits_the_terminal(here, capsys, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    assert main(["check", write(TWO)]) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= width
    assert re.findall(r"^swing_.*?\)", out, re.MULTILINE) == ["swing_a (swing.py::a)", "swing_b (swing.py::b)"]


def test_check_takes_the_settings_of_a_solve(here, capsys):
    flags = ["--step", "0.02", "--state-weight", "7", "--cutoff", "5", "--friction-width", "0.3"]
    flags += ["--stepper", "spook", "--friction", "smooth"]
    assert main(["check", write(ONE.replace("[run()])", "[run()], coulomb=b)")), *flags, "--verbose"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "step h = 0.02 s, weight κ = 7, cutoff of initial states 5 Hz" in out
    assert "friction width pivot 0.3 rad/s Size" in out


def test_check_of_a_problem_without_parameters_or_docstring(here, capsys):
    text = ONE.partition('"""\n')[2].replace("= Parameter(", "= (lambda name, guess, **_: guess)(")
    assert main(["check", write(text)]) == 0
    out = capsys.readouterr().out
    assert "Parameters\n  none\n" in out
    assert out.startswith("swing (swing.py): 1 body, 1 joint, 0 free parameters")


def test_check_goes_on_after_a_wrong_problem(here, capsys):
    unseen = BAD_SECOND.replace('"blind", []', '"blind", [run()]).with_(observations=[]')
    assert main(["check", write(unseen)]) == 2
    out, err = capsys.readouterr()
    assert re.findall(r"^swing_.(?= \()", out, re.MULTILINE) == ["swing_a", "swing_c"]
    assert err.startswith("spookid: error: b: swing.py:16: Problem 'blind' needs recordings")
    assert err.count("\n") == 1


@pytest.mark.study
def test_nobody_reads_on(here):
    """Like ``| head -1``: no traceback, and the work is done."""
    process = subprocess.Popen(
        [sys.executable, "-m", "spookid", "solve", write(ONE), "--out", "out"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait() == 0
    assert tree("out")["status"] == "converged"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="has no disk that is always full")
def test_what_is_printed_to_a_full_disk_is_not_lost_without_a_word(here):
    """The work is done all the same."""
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "spookid", "solve", write(ONE), "--out", "out"]
        asked = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, env=asked)
    told = "spookid: error: the output cannot be written (No space left on device); free disk space, or redirect it "
    told += "elsewhere\n"
    assert (done.returncode, done.stderr) == (2, told)
    assert tree("out")["status"] == "converged"


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-", "close"])
def test_streams_that_are_closed_change_nothing(here, closed):
    """Also by the problem file, and with a fit that does not converge."""
    closing = "import sys\nsys.stdout.close(), sys.stderr.close()\n" if closed == "close" else ""
    words = f"-m spookid solve {write(ONE + closing)} --max-iterations 1 --out out"
    asked = {**os.environ, "PYTHONPATH": str(ROOT)}
    line = f"{sys.executable} {words} {'' if closing else f'--jobs 2 {closed}'}"
    done = subprocess.run(line, shell=True, capture_output=True, text=True, env=asked)
    assert done.returncode == 3
    assert "Traceback" not in done.stderr
    assert tree("out")["status"] == "max_iterations"
    assert all(path.stat().st_size for path in Path("out").iterdir())


def test_characters_that_the_terminal_lacks(here):
    done = subprocess.run(
        [sys.executable, "-m", "spookid", "check", write(ONE)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "? 0.0001" in done.stdout


# --- solve ---


def test_solve_writes_results_where_the_contract_says(here, capsys):
    assert main(["solve", write(ONE)]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out.startswith("swing: converged\n")
    assert out.endswith("\n\nWritten to results/swing\n")
    assert {path.name for path in Path("results/swing").iterdir()} == FILES
    assert [path.name for path in Path("results").iterdir()] == ["swing"]
    for name, value in TRUTH.items():
        estimate = tree("results/swing")["parameters"][name]
        assert abs(estimate["estimate"] - value) < 6 * estimate["std_err"]


def test_solve_replaces_its_own_folder_only(here, capsys, solved):
    path = write(ONE)
    Path("out").mkdir()
    Path("out/notes.txt").write_text("mine")
    message = "out is not empty and holds no earlier solution.json, so it is left alone; choose another folder"
    assert wrong(capsys, "solve", path, "--out", "out") == message
    assert Path("out/notes.txt").read_text() == "mine"
    Path("out/notes.txt").unlink()
    assert main(["solve", path, "--out", "out", "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")
    assert main(["solve", path, "--out", "out", "--quiet", "--step", "0.02"]) == 0
    assert tree("out")["step"] == 0.02


def test_settings_guesses_and_options(here):
    flags = ["--step", "0.02", "--state-weight", "1e3", "--set", "J=0.012", "--set", "b=1e-3", "--fix", "b"]
    flags += ["--backend", "lm", "--stepper", "spook", "--friction", "smooth", "--friction-width", "0.1"]
    assert (
        main(["solve", write(ONE), *flags, "--cutoff", "8", "--max-iterations", "50", "--quiet", "--out", "out"]) == 0
    )
    result = tree("out")
    assert (result["step"], result["state_weight"], result["backend"]) == (0.02, 1000, "lm")
    J, b = result["parameters"]["J"], result["parameters"]["b"]
    assert (J["initial"], J["fixed"]) == (0.012, False)
    assert (b["initial"], b["estimate"], b["fixed"], b["std_err"]) == (1e-3, 1e-3, True, None)
    assert list(result["history"][0]["parameters"]) == ["J"]


def test_an_infinite_state_weight(here, capsys):
    flags = ["--state-weight", "inf", "--out", "out", "--quiet"]
    assert main(["solve", write(ONE), *flags, "--stepper", "variational"]) == 0
    assert tree("out")["state_weight"] is None
    assert tree("out")["cost"]["state"] == 0
    assert load("out").state_weight == np.inf
    assert tree("out")["dynamics"] == "hard"
    assert "process noise none (deterministic" in Path("out/summary.txt").read_text()
    for weight in ("-inf", "nan"):
        message = wrong(capsys, "solve", write(ONE), f"--state-weight={weight}", "--stepper", "variational")
        assert f"state_weight is {weight}; it must be" in message


def test_a_state_weight_is_a_number_or_inf_or_auto(here, capsys):
    assert main(["solve", write(ONE), "--state-weight", "auto", "--out", "out", "--quiet"]) == 0
    result = tree("out")
    assert (result["dynamics"], result["state_weight"]) == ("estimated", None)
    assert isinstance(result["log_likelihood"], float)
    (motion,), (sensor,) = result["noise"]["disturbance"].values(), result["noise"]["sensors"].values()
    assert (motion["unit"], sensor["unit"]) == ("N m", "rad")
    assert 0 <= motion["std"] < 1
    assert load("out").dynamics == "estimated"
    with pytest.raises(SystemExit):
        main(["solve", "swing.py", "--state-weight", "much"])
    assert "'much' is neither a number, inf nor auto" in capsys.readouterr().err


def test_several_pairs_after_one_flag_and_a_value_held_outside_the_bounds(here, capsys):
    assert main(["check", write(ONE), "--set", "J=0.05", "b=-0.125", "--fix", "b"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"^  J +0\.05 ", out, re.MULTILINE)
    assert re.search(r"^  b +-0\.125 .*fixed", out, re.MULTILINE)


def test_results_and_their_problem_file_can_be_moved(here, tmp_path):
    """No folder is named in the results."""
    (tmp_path / "project").mkdir()
    write(ONE, "project/swing.py")
    shutil.copy("run.csv", "project/run.csv")
    assert main(["solve", "project/swing.py", "--out", "project/results/out", "--no-figures", "--quiet"]) == 0
    assert tree("project/results/out")["source"] == "../../swing.py"
    assert not any(str(tmp_path).encode() in path.read_bytes() for path in Path("project/results/out").iterdir())
    shutil.move("project", "moved")
    assert main(["randomize", "moved/results/out", "--out", "draws.npz", "--count", "2"]) == 0
    assert load("moved/results/out").source == str(tmp_path.resolve() / "moved" / "swing.py")


def test_not_converged(here, capsys):
    assert main(["solve", write(ONE), "--max-iterations", "1", "--out", "out"]) == 3
    out, err = capsys.readouterr()
    assert "NOT converged" in out
    assert err == "spookid: swing is not converged (max_iterations); its results are in out\n"
    assert (tree("out")["status"], tree("out")["iterations"]) == ("max_iterations", 1)
    assert main(["solve", write(ONE), "--max-iterations", "0", "--out", "out", "--quiet"]) == 3
    assert tree("out")["iterations"] == 0


@pytest.mark.parametrize("doubt", ["not converged (stalled)", "contradicted by the data"])
def test_results_that_are_no_answer_go_no_further_unless_forced(here, capsys, solved, doubt):
    assert tree(solved)["contradicted"] is False
    shutil.copytree(solved, "doubtful")
    changes = {"status": "stalled"} if "stalled" in doubt else {"findings": [{"code": "motion.unexplained"}]}
    Path("doubtful/solution.json").write_text(json.dumps(tree(solved) | changes))
    write(PENDULUM)
    simulated = "simulate", write(ONE), "--from", "doubtful", "--out", "out", "--quiet"
    exported = "export", "doubtful", "--to", "arm.urdf", "--out", "told.urdf"
    carried = "payload", "doubtful", "run.csv", "--body", "rod"
    predicted, drawn = ("predict", "doubtful", "run.csv"), ("randomize", "doubtful", "--out", "draws.npz")
    for words in (simulated, exported, carried, predicted, drawn):
        said = f"doubtful is {doubt}: its estimates are no answer; take them with --force"
        assert said in wrong(capsys, *words)
    assert main([*simulated, "--force"]) == 0
    assert "arm.urdf cannot be read" in wrong(capsys, *exported, "--force")


def test_several_problems(here, capsys):
    path = write(TWO)
    assert main(["solve", path, "--out", "out"]) == 0
    assert re.findall(r"^Written to (.*)$", capsys.readouterr().out, re.MULTILINE) == ["out/a", "out/b"]
    assert [tree(f"out/{key}")["problem"] for key in "ab"] == ["swing_a", "swing_b"]
    assert tree("out/b")["size"]["recordings"] == 2
    assert main(["solve", f"{path}::b", "--out", "lone", "--quiet"]) == 0
    assert tree("lone")["problem"] == "swing_b"
    # The folder now holds results of both: one problem is not to replace them.
    assert "out is not empty" in wrong(capsys, "solve", f"{path}::b", "--out", "out")


def test_names_apply_to_the_problems_that_know_them(here):
    text = TWO + "c = Parameter('c', 1e-3, lower=0)\nproblems['b'] = pendulum('swing_b', [run()], coulomb=c)\n"
    assert main(["solve", write(text), "--out", "out", "--set", "c=0", "--fix", "c", "--quiet"]) == 0
    assert tree("out/b")["parameters"]["c"]["fixed"]
    assert "c" not in tree("out/a")["parameters"]


def test_default_folders_of_several_problems(here, capsys):
    assert main(["solve", write(TWO), "--quiet", "--max-iterations", "0"]) == 3
    assert sorted(path.name for path in Path("results").iterdir()) == ["swing_a", "swing_b"]
    message = "swing.py has 2 problems named 'swing_a', which would share a folder; rename all but one or give"
    assert message in wrong(capsys, "solve", write(TWO.replace("swing_b", "swing_a")))
    assert "the problem's name 'a/b' is no folder name; give a folder with --out" in wrong(
        capsys, "solve", write(ONE.replace("swing", "a/b"))
    )


def test_worst_of_several_and_the_others_still_run(here, capsys):
    assert main(["solve", write(BAD_SECOND), "--out", "out", "--max-iterations", "0"]) == 2
    err = capsys.readouterr().err
    assert err.splitlines()[0] == "spookid: a is not converged (max_iterations); its results are in out/a"
    assert err.splitlines()[1].startswith("spookid: error: b: swing.py:16: Problem 'blind' needs recordings")
    assert sorted(path.name for path in Path("out").iterdir()) == ["a", "c"]


# --- simulate ---


def test_simulate_from_results(here, capsys, solved):
    assert main(["simulate", write(ONE), "--from", str(solved), "--out", "out"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert re.fullmatch(
        r"swing, run: simulated 1 s in steps of 0\.01 s; rms difference theta 0\.00\d+ rad\nWritten to out\n", out
    )
    assert {path.name for path in Path("out").iterdir()} == {
        "simulation.json",
        "trajectory.npz",
        "run.csv",
        "simulation.png",
    }
    result, solution = simulation("out"), load(solved)
    assert (result["schema"], result["problem"], result["status"]) == (2, "swing", "completed")
    assert (result["step"], result["duration"], result["from"]) == (0.01, 1.0, str(solved))
    assert result["parameters"] == solution.values
    [entry] = result["recordings"]
    assert (entry["name"], entry["file"], entry["status"], entry["steps"]) == ("run", "run.csv", "completed", 101)
    with np.load("out/trajectory.npz") as arrays:
        assert sorted(arrays) == ["observed_0", "predicted_0", "q_0", "t_0", "v_0"]
        assert (arrays["q_0"].shape, arrays["v_0"].shape) == ((101, 1, 7), (101, 1, 6))
        np.testing.assert_array_equal(arrays["q_0"][0], solution.trajectories[0].q[0])
        misfit = (arrays["observed_0"] - arrays["predicted_0"])[:, 0]
        assert np.isnan(misfit).sum() == 2
        assert entry["rms"]["theta"] == pytest.approx(np.sqrt(np.nanmean(misfit**2)))
        read = Recording.from_csv("out/run.csv")
        np.testing.assert_allclose(read.signal("theta"), arrays["predicted_0"][:, 0], atol=1e-12)


def test_simulate_takes_the_step_of_the_results_unless_told_otherwise(here, solved):
    path = write(ONE)
    assert main(["solve", path, "--step", "0.02", "--out", "coarse", "--quiet"]) == 0
    assert main(["simulate", path, "--from", "coarse", "--out", "out", "--quiet"]) == 0
    assert simulation("out")["step"] == 0.02
    assert main(["simulate", path, "--from", "coarse", "--step", "0.005", "--out", "out", "--quiet"]) == 0
    assert simulation("out")["step"] == 0.005


def test_simulate_with_values_and_a_duration(here, capsys):
    flags = ["--set", "J=0.01", "b=-0.001", "--duration", "1.5", "--out", "out"]
    assert main(["simulate", write(ONE), *flags]) == 0
    result = simulation("out")
    assert result["parameters"] == {"J": 0.01, "b": -0.001}  # bounds are for estimates
    assert (result["duration"], result["from"]) == (1.5, None)
    with np.load("out/trajectory.npz") as arrays:
        assert np.isnan(arrays["observed_0"][101:]).all()
    assert "duration is 0.001 s; it must be at least two steps" in wrong(
        capsys, "simulate", write(ONE), "--duration", "0.001", "--out", "out"
    )


def test_simulate_says_that_pairs_step_as_the_exact_law(here, capsys):
    path = write(PENDULUM + 'problem = pendulum("swing", [run()], coulomb=0.05)\n')
    motions = {}
    for friction in ("mpcc", "exact", "smooth"):
        assert main(["simulate", path, "--friction", friction, "--out", friction]) == 0
        said = "steps of 0.01 s (friction 'mpcc' steps forward as 'exact' does); rms" in capsys.readouterr().out
        assert said == (friction == "mpcc")
        motions[friction] = Recording.from_csv(f"{friction}/run.csv").signal("theta")
    np.testing.assert_array_equal(motions["mpcc"], motions["exact"])
    assert np.abs(motions["mpcc"] - motions["smooth"]).max() > 1e-6


def test_simulate_without_recordings(here, capsys, solved):
    path = write(BLIND)
    assert "Problem 'blind' has no recording; give a duration" in wrong(capsys, "simulate", path, "--out", "out")
    assert not Path("out").exists()
    assert main(["simulate", path, "--duration", "0.5", "--out", "out"]) == 0
    assert capsys.readouterr().out == "blind, blind: simulated 0.5 s in steps of 0.01 s\nWritten to out\n"
    assert simulation("out")["recordings"][0]["rms"] == {"theta": None}
    np.testing.assert_allclose(Recording.from_csv("out/blind.csv").signal("theta"), 0, atol=1e-9)
    assert main(["simulate", path, "--from", str(solved), "--duration", "0.5", "--out", "out", "--quiet"]) == 0
    start = load(solved).trajectories[0].predicted[0, 0]
    assert Recording.from_csv("out/blind.csv").signal("theta")[0] == pytest.approx(start)


def test_simulate_without_observations(here, capsys):
    path = write(ONE + "problem = problem.with_(observations=[])\n")
    assert "has no observations; a simulation would have nothing to show" in wrong(
        capsys, "simulate", path, "--out", "out"
    )


def test_simulate_several_problems_and_recordings(here, capsys):
    path = write(TWO.replace('run("again")', 'run("run")'))
    assert main(["solve", path, "--out", "solved", "--quiet"]) == 0
    assert main(["simulate", path, "--from", "solved", "--out", "out"]) == 0
    assert [simulation(f"out/{key}")["from"] for key in "ab"] == ["solved/a", "solved/b"]
    assert [entry["file"] for entry in simulation("out/b")["recordings"]] == ["run.csv", "run_2.csv"]
    with np.load("out/b/trajectory.npz") as arrays:
        assert {"t_0", "t_1", "predicted_1"} <= set(arrays)
    # One folder for all: its start is that of the recording of this name.
    assert main(["simulate", path, "--from", "solved/a", "--out", "again", "--quiet"]) == 0
    assert [simulation(f"again/{key}")["from"] for key in "ab"] == ["solved/a", "solved/a"]


def test_simulate_starts_from_the_data_where_the_results_have_no_such_recording(here, solved):
    path = write(ONE.replace("[run()]", "[run('another')]"))
    assert main(["simulate", path, "--from", str(solved), "--out", "out", "--quiet"]) == 0
    with np.load("out/trajectory.npz") as arrays:
        assert abs(arrays["q_0"][0] - load(solved).trajectories[0].q[0]).max() > 1e-6


def test_simulate_refuses_folders_that_are_none_of_its_own(here, capsys, solved):
    path = write(ONE)
    message = "is not empty and holds no earlier simulation.json, so it is left alone; choose another folder"
    assert message in wrong(capsys, "simulate", path, "--out", str(solved))
    assert main(["simulate", path, "--out", "out", "--quiet"]) == 0
    assert main(["simulate", path, "--out", "out", "--quiet", "--duration", "0.5"]) == 0
    assert simulation("out")["duration"] == 0.5
    assert "holds no earlier solution.json" in wrong(capsys, "solve", path, "--out", "out")


def test_simulate_refuses_other_sources(here, capsys, solved):
    path = write(ONE)
    assert "none/solution.json cannot be read" in wrong(capsys, "simulate", path, "--from", "none", "--out", "out")
    other = write(ONE.replace('Parameter("J"', 'Parameter("J_1"').replace('Parameter("b"', 'Parameter("b_1"'))
    assert "holds none of the parameters of 'swing'" in wrong(
        capsys, "simulate", other, "--from", str(solved), "--out", "out"
    )


def test_step_without_a_solution(here, capsys):
    """Negative friction drives the rod faster and faster, until Newton's method finds no next one."""
    assert main(["simulate", write(ONE), "--set", "J=0.01", "b=-3.2", "--duration", "20", "--out", "out"]) == 3
    err = capsys.readouterr().err
    found = re.fullmatch(
        r"spookid: swing, run: step (\d+) \(t = .*\) was not solved: .*; the (.*) s before it are in out\n", err
    )
    assert found is not None, err
    result = simulation("out")
    [entry] = result["recordings"]
    assert (result["status"], entry["status"]) == ("failed", "failed")
    assert 0 <= int(found[1]) - entry["steps"] <= 1  # the last one may have overflowed
    assert entry["duration"] == pytest.approx(float(found[2]))
    assert "was not solved" in entry["message"]
    assert len(Recording.from_csv("out/run.csv").t) == entry["steps"]


# --- folders ---


def test_files_of_others_stay_in_a_folder_that_is_replaced_and_are_told(here, capsys):
    arguments = ["audit", write(ONE), "--max-iterations", "1", "--out", "out"]
    assert main(arguments) == 3
    assert "left there" not in capsys.readouterr().out
    for name in ("notes.txt", "audit.csv"):
        Path("out", name).write_text("mine")
    assert main(arguments) == 3
    assert "Written to out; not of spookid, and left there: audit.csv, notes.txt" in capsys.readouterr().out
    assert Path("out/notes.txt").read_text() == "mine"


# --- interrupts ---


def test_interrupt_while_loading(here, capsys):
    assert main(["check", write("import signal; signal.raise_signal(signal.SIGINT)\n")]) == 130
    assert capsys.readouterr() == ("", "spookid: interrupted\n")


def test_interrupt_of_a_simulation_writes_nothing(here, capsys, monkeypatch):
    monkeypatch.setattr("spookid.stepping.exact.Refinement.march", lambda *_: signal.raise_signal(signal.SIGTERM))
    assert main(["simulate", write(ONE), "--out", "out"]) == 130
    assert capsys.readouterr() == ("", "spookid: interrupted before swing was done\n")
    assert not Path("out").exists()


# --- on a terminal ---


@contextmanager
def terminal_of(columns: int, seen: list[str]) -> Iterator[int]:
    """A terminal that keeps what is written to it."""
    screen, other = pty.openpty()
    termios.tcsetwinsize(other, (40, columns))

    def read() -> None:
        with suppress(OSError):  # Linux tells the end like this
            while piece := os.read(screen, 65536):
                seen.append(piece.decode())

    reader = threading.Thread(target=read)
    reader.start()
    yield other
    reader.join(60)
    os.close(screen)


@pytest.fixture
def shown(monkeypatch):
    """What a command writes on a terminal of so many columns."""

    def run(*arguments: str, columns: int = 80) -> str:
        seen: list[str] = []
        monkeypatch.delenv("COLUMNS", raising=False)
        with terminal_of(columns, seen) as other, os.fdopen(other, "w") as stderr, monkeypatch.context() as patch:
            patch.setattr(sys, "stderr", stderr)
            assert main(arguments) == 0
        return "".join(seen)

    return run


class Terminal:
    """The command in a process of its own, with a terminal for its stderr."""

    def __init__(self, *arguments: str, columns: int = 80) -> None:
        self.screen, other = pty.openpty()
        termios.tcsetwinsize(other, (40, columns))
        self.process = subprocess.Popen(
            [sys.executable, "-m", "spookid", *arguments],
            stdout=subprocess.PIPE,
            stderr=other,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        os.close(other)
        self.seen = ""

    def read(self, until: str | None = None, limit: float = 60.0) -> str:
        """What came on stderr, until a text or the end."""
        end = time.monotonic() + limit
        while until is None or until not in self.seen:
            assert time.monotonic() < end, self.seen
            if not select.select([self.screen], [], [], 0.1)[0]:
                continue
            try:
                piece = os.read(self.screen, 65536)
            except OSError:  # Linux tells the end like this
                piece = b""
            if not piece:
                break
            self.seen += piece.decode()
        return self.seen

    def end(self) -> int:
        self.read()
        self.process.stdout.close()
        os.close(self.screen)
        return self.process.wait(60)


def lines(text: str) -> list[str]:
    """What stood on the line of progress, in turn."""
    return [line for line in text.split("\r") if line.strip()]


@pytest.mark.parametrize("columns", [40, 120])
def test_progress_of_a_solve(here, shown, columns):
    seen = shown("solve", write(ONE), "--out", "out", columns=columns)
    told = lines(seen)
    assert told[0] == "swing: building"
    assert told[1].startswith("swing: iteration 0  cost ")
    assert re.match(r"swing: iteration 1  cost \S+", told[2])
    assert max(map(len, told)) < columns
    if columns == 120:
        assert re.search(r"damping 1e-06  \d\.\d s  [Jb] \S+ \([+-]\d+\.\d %\)$", told[2])
    assert seen.endswith("\r")  # the line is gone
    assert "\n" not in seen


def test_progress_of_a_simulation(here, shown):
    assert re.search(r"run: +\d+%.* steps", shown("simulate", write(ONE), "--duration", "3", "--out", "out"))


@pytest.mark.parametrize("command", ["solve", "simulate"])
def test_no_progress_if_quiet(here, shown, command):
    assert shown(command, write(ONE), "--quiet", "--out", "out") == ""


def test_ctrl_c(here, data):
    """A long recording, so that an iteration takes a while."""
    text = ONE.replace("[run()]", "[Recording(run().t * 40, {'theta': run().signal('theta')}, 'slow')], step=0.005")
    terminal = Terminal("solve", write(text), "--out", "out")
    terminal.read("iteration 1 ")
    terminal.process.send_signal(signal.SIGINT)
    assert terminal.end() == 130
    assert "spookid: ends after this iteration; interrupt again to end at once" in terminal.seen
    assert terminal.seen.endswith(
        "spookid: interrupted; the best iterate of swing is in out; repeat the command to resume\r\n"
    )
    assert tree("out")["status"] == "interrupted"
    assert {path.name for path in Path("out").iterdir()} == FILES
