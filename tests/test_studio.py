"""The studio in a real browser: from files to an answer, and who may ask for it.

The extra ``studio``, Playwright and Chromium must be there.
"""

from __future__ import annotations

import http.client
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from spookid import JointPosition, Motor, Problem, Recording, load, load_problem, robots

pytest.importorskip("nicegui")
playwright = pytest.importorskip("playwright.sync_api")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium")
PATIENCE = 90_000
"""Of a page, until a process has done its work [ms]: what takes longer has failed."""
MASS, LENGTH, VISCOUS = 0.1, 0.2, 2e-4
ARM = """<robot name="arm">
  <link name="base"/>
  <link name="upper"><inertial><origin xyz="0 0 -0.15"/><mass value="1.0"/>
    <inertia ixx="0.01" iyy="0.01" izz="0.002" ixy="0" ixz="0" iyz="0"/></inertial>
    <visual><geometry><mesh filename="package://nowhere/upper.stl"/></geometry></visual></link>
  <link name="lower"><inertial><origin xyz="0 0 -0.1"/><mass value="0.5"/>
    <inertia ixx="0.003" iyy="0.003" izz="0.001" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <joint name="shoulder" type="revolute"><parent link="base"/><child link="upper"/><axis xyz="0 1 0"/>
    <limit lower="-2" upper="2" effort="20" velocity="5"/></joint>
  <joint name="elbow" type="revolute"><parent link="upper"/><child link="lower"/><origin xyz="0 0 -0.3"/>
    <axis xyz="0 1 0"/><limit lower="-2" upper="2" effort="10" velocity="5"/></joint>
</robot>
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("studio")


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    command = [sys.executable, "-m", "spookid", "studio", str(folder), "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ) as process:
        assert process.stdout is not None
        yield process.stdout.readline().partition("studio: ")[2].strip()
        process.send_signal(signal.SIGINT)
    assert process.returncode in (0, 130)
    assert not [path for path in folder.iterdir() if path.name.startswith(".")]  # what was on its way is gone


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as p:
        started = p.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--enable-unsafe-swiftshader"])
        yield started
        started.close()


@pytest.fixture
def visit(browser: Any, address: str) -> Iterator[Callable[[], Any]]:
    """A function that opens the page as another browser would."""
    contexts = []

    def page() -> Any:
        contexts.append(browser.new_context(viewport={"width": 1280, "height": 900}))
        one = contexts[-1].new_page()
        one.set_default_timeout(PATIENCE)
        one.goto(address)
        one.wait_for_selector("[data-step=Robot]")
        one.wait_for_function("window.did_handshake")
        return one

    yield page
    for context in contexts:
        context.close()


def pendulum(path: Path, scale: float = 1.0, seconds: float = 6.0) -> Path:
    """Angles of a rod on a hinge with viscous friction, integrated by SciPy, times a factor."""
    inertia = MASS * LENGTH**2 / 3

    def rates(t: float, x: np.ndarray) -> list[float]:
        return [x[1], -(MASS * 9.81 * LENGTH / 2 * math.sin(x[0]) + VISCOUS * x[1]) / inertia]

    t = np.arange(0, seconds, 0.01)
    angle = solve_ivp(rates, (0, seconds), [1.2, 0.0], t_eval=t, rtol=1e-9, atol=1e-9).y[0]
    angle = angle + 1e-3 * np.random.default_rng(1).standard_normal(len(t))
    Recording(t, {"pin": scale * angle}).to_csv(path, decimals=6)
    return path


def arm(folder: Path) -> tuple[Path, Path]:
    """A robot's file, and an MCAP of it whose upper arm is heavier than the file says."""
    mcap = pytest.importorskip("mcap.writer")
    file, log = folder / "arm.urdf", folder / "arm.mcap"
    file.write_text(ARM.replace('<mass value="1.0"/>', '<mass value="1.3"/>'), encoding="utf-8")
    robot = robots.read(file).with_(joints={n: {"viscous": 0.2, "coulomb": 0.05} for n in ("shoulder", "elbow")})
    file.write_text(ARM, encoding="utf-8")
    t = np.arange(0, 5, 0.01)
    inputs = {"shoulder": 2 * np.sin(2.1 * t) + np.sin(7 * t), "elbow": 0.5 * np.sin(3.3 * t) + 0.3 * np.sin(9 * t)}
    model = robot.model(motors=[Motor(robot.joints[name], name) for name in inputs])
    sensors = [JointPosition(robot.joints[name], f"q_{name}") for name in inputs]
    moved = Problem("arm", model, observations=sensors, step=0.01).simulate(
        duration=4.99, initial={"shoulder": 0.3, "elbow": 0.2}, inputs=Recording(t, inputs)
    )
    noise = 1e-4 * np.random.default_rng(2).standard_normal((len(moved.t), 2))
    with log.open("wb") as stream:
        writer = mcap.Writer(stream)
        writer.start()
        channel = writer.register_channel("/state", "json", 0)
        for i, now in enumerate(moved.t):
            q = {name: moved.signal(f"q_{name}")[i] + noise[i, k] for k, name in enumerate(inputs)}
            effort = {name: float(np.interp(now, t, values)) for name, values in inputs.items()}
            stamp = round(1e9 * now)
            writer.add_message(channel, stamp, json.dumps({"position": q, "effort": effort}).encode(), stamp)
        writer.finish()
    return file, log


def go(page: Any, step: str) -> None:
    page.click(f"[data-step={step}]")


def drop(page: Any, path: Path, number: int = 0) -> None:
    page.set_input_files(f"input[type=file] >> nth={number}", str(path))


def take_pendulum(page: Any) -> None:
    """Pick the pendulum of the mechanisms that come along."""
    page.click("[data-act=pick] .q-item")
    page.click("[data-act=take]")
    page.wait_for_selector("text=1 bodies, 1 joints")


def run(page: Any) -> None:
    go(page, "Run")
    page.wait_for_selector("[data-act=run]:not([disabled])")
    page.click("[data-act=run]")


def test_a_csv_of_a_pendulum_becomes_a_report_and_a_file_that_repeats_it(
    visit: Callable[[], Any], folder: Path, tmp_path: Path
) -> None:
    page = visit()
    take_pendulum(page)
    go(page, "Data")
    drop(page, pendulum(tmp_path / "swing.csv"))
    page.wait_for_selector("[data-role=pin]")
    go(page, "Parameters")
    page.wait_for_selector(".ag-cell.state-weak")  # a mass by itself swings as any other
    page.click("[data-act=drives] .q-item")
    page.click("[data-act=known]")
    page.click(".q-menu >> text=rod")
    page.wait_for_selector(".ag-cell.state-weak", state="detached")
    page.wait_for_selector(".ag-cell.state-identified")
    run(page)
    page.wait_for_selector("[data-verdict]")
    page.reload()  # a session outlives its page
    assert "converged" in page.locator("[data-verdict]").inner_text()
    page.click("[data-act=report]")
    page.wait_for_selector("text=results/pendulum/report.html")
    assert (folder / "results" / "pendulum" / "report.html").is_file()
    found = load(folder / "results" / "pendulum")
    assert abs(found["pin_viscous"].estimate - VISCOUS) < 4 * found["pin_viscous"].std_err
    command = [sys.executable, "-m", "spookid", "solve", "pendulum.py", "--out", str(tmp_path / "again"), "--quiet"]
    subprocess.run(command, cwd=folder, check=True)
    again = load(tmp_path / "again")
    assert again.values == found.values
    assert {n: one.std_err for n, one in again.parameters.items()} == {
        n: one.std_err for n, one in found.parameters.items()
    }


def test_an_arm_and_its_mcap_become_an_identified_urdf(visit: Callable[[], Any], folder: Path, tmp_path: Path) -> None:
    file, log = arm(tmp_path)
    page = visit()
    drop(page, file)
    page.wait_for_selector("text=2 bodies, 2 joints")
    assert page.locator("[data-joint]").count() == 2  # sliders
    page.wait_for_selector("canvas")
    assert page.locator("canvas").count() == 1
    go(page, "Data")
    drop(page, log)
    page.wait_for_selector('[data-role="state/position/elbow"]')
    run(page)
    page.wait_for_selector("[data-verdict]")
    go(page, "Data")
    drop(page, Path(shutil.copy(log, tmp_path / "left_out.mcap")))
    page.click('[data-fitted="left_out.mcap"]')
    go(page, "Results")
    page.click("[data-act=predict]")
    page.wait_for_selector("text=predicted efforts along left_out")
    page.click("[data-act=robot]")
    page.wait_for_selector("text=arm_identified.urdf")
    before, after = robots.read(file), robots.read(folder / "arm_identified.urdf")
    # What the shoulder tells: the moment of the upper arm, and the mass that it carries at the elbow.
    parts = [
        (one.description.links["upper"].inertial, one.description.links["lower"].inertial) for one in (before, after)
    ]
    moments = [0.3 * lower.mass - upper.mass * upper.center[2] for upper, lower in parts]
    assert moments[0] == pytest.approx(0.3)
    assert moments[1] == pytest.approx(0.3 + 0.3 * 0.15, rel=0.01)
    assert (folder / "arm_identified.urdf").read_text() != ARM
    assert "nowhere/upper.stl" in (folder / "arm_identified.urdf").read_text()


def test_a_log_in_degrees_is_corrected_from_the_question(
    visit: Callable[[], Any], folder: Path, tmp_path: Path
) -> None:
    page = visit()
    take_pendulum(page)
    go(page, "Data")
    drop(page, pendulum(tmp_path / "degrees.csv", 180 / math.pi))
    question = page.locator("[data-question=pin]")
    question.wait_for()
    assert "degrees" in question.inner_text()
    question.locator("[data-act=yes]").click()
    page.wait_for_selector("[data-question=pin]", state="detached")
    page.wait_for_selector("text=checking", state="hidden")
    go(page, "Parameters")
    page.wait_for_selector(".ag-row")
    (own,) = [p for p in folder.glob("pendulum*.py") if "deg" in p.read_text()]
    assert abs(load_problem(own).recordings[0].signal("pin")[0] - 1.2) < 0.01


def test_a_cancelled_run_keeps_its_best(visit: Callable[[], Any], tmp_path: Path) -> None:
    page = visit()
    take_pendulum(page)
    go(page, "Data")
    drop(page, pendulum(tmp_path / "long.csv", seconds=120.0))
    page.wait_for_selector("[data-role=pin]")
    run(page)
    page.click("[data-act=cancel]:not([disabled])")
    page.wait_for_selector("[data-verdict], #refusal:visible")
    said = page.locator("[data-verdict], #refusal:visible").first.inner_text()
    assert re.search("interrupted|cancelled", said)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("bomb.urdf", '<!DOCTYPE r [<!ENTITY a "a">]><robot name="r">&a;</robot>', "document type"),
        ("none.urdf", "\0\1\2", "bomb|XML|xml"),
        ("out.xml", '<mujoco><include file="../../../../../../etc/hostname"/></mujoco>', "outside|cannot be read"),
    ],
)
def test_hostile_files_are_refused_in_a_sentence(
    visit: Callable[[], Any], tmp_path: Path, name: str, content: str, said: str
) -> None:
    page = visit()
    (tmp_path / name).write_text(content)
    drop(page, tmp_path / name)
    page.wait_for_selector("#refusal:visible")
    text = page.locator("#refusal").inner_text()
    assert re.search(said, text)
    assert "Traceback" not in text


def test_browsers_do_not_disturb_each_other(visit: Callable[[], Any]) -> None:
    one, other = visit(), visit()
    take_pendulum(one)
    assert other.locator("text=1 bodies, 1 joints").count() == 0
    other.reload()
    assert other.locator("text=1 bodies, 1 joints").count() == 0


def test_opening_a_problem_file_asks_first(visit: Callable[[], Any], folder: Path) -> None:
    witness = folder / "executed"
    (folder / "own.py").write_text(
        f"from pathlib import Path\nPath({str(witness)!r}).write_text('')\n"
        "from spookid import GROUND, Body, Hinge, HingeAngle, Model, Parameter, Problem, Recording, gravity\n"
        'J = Parameter("J", 1e-3, lower=1e-5)\n'
        'rod = Body("rod", mass=0.1, inertia=(1e-6, J, J))\n'
        'pin = Hinge("pin", GROUND.frame(x=(0, 1, 0), y=(0, 0, -1)), '
        "rod.frame(at=(-0.1, 0, 0), x=(0, 1, 0), y=(1, 0, 0)))\n"
        'log = Recording([0.01 * i for i in range(300)], {"a": [0.3 * (-1) ** (i // 60) for i in range(300)]})\n'
        'problem = Problem("own", Model([rod], [pin], gravity=gravity(9.81)), [log], [HingeAngle(pin, signal="a")])\n'
    )
    page = visit()
    page.click("[data-act=open] .q-item")
    drop(page, folder / "own.py", 1)
    page.wait_for_selector("[data-act=execute]")
    assert not witness.exists()
    page.click("[data-act=execute]")
    page.wait_for_selector(".ag-row")
    assert witness.exists()


def ask(address: str, path: str, **headers: str) -> int:
    """Status of a request without cookies."""
    place = urlsplit(address)
    connection = http.client.HTTPConnection(place.netloc, timeout=20)
    connection.request("GET", path, headers=headers)
    return connection.getresponse().status


def test_requests_without_the_token_are_refused(address: str) -> None:
    place = urlsplit(address)
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
    upgrade["Sec-WebSocket-Key"] = "dGhlIHNhbXBsZSBub25jZQ=="
    socket = "/_nicegui_ws/socket.io/?EIO=4&transport=websocket"
    for path in ("/", "/?token=wrong", "/_nicegui_ws/socket.io/?EIO=4&transport=polling", "/nothing"):
        assert ask(address, path) == 403
    assert ask(address, socket, **upgrade) == 403
    right = f"/?{place.query}"
    assert ask(address, right) == 200
    assert ask(address, right, Host=f"rebound.example:{place.port}") == 403
    assert ask(address, right, Origin="http://elsewhere.example") == 403


def test_no_file_outside_the_folder_is_listed_or_opened(visit: Callable[[], Any], folder: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.urdf").write_text(ARM)
    (folder / "link.urdf").symlink_to(tmp_path / "secret.urdf")
    (tmp_path / "..%2f..%2fup.urdf").write_text(ARM)
    page = visit()
    page.click("[data-act=robots]")
    assert page.locator("text=link.urdf").count() == 0
    page.keyboard.press("Escape")
    drop(page, tmp_path / "..%2f..%2fup.urdf")
    page.wait_for_selector("text=2 bodies, 2 joints")
    assert not (folder.parent / "up.urdf").exists()


def test_a_minus_before_a_unit_turns_the_sign_round(tmp_path: Path) -> None:
    Recording([0.0, 1.0], {"q": [10.0, 20.0], "u": [1.0, 2.0]}).to_csv(tmp_path / "a.csv")
    read = Recording.from_csv(tmp_path / "a.csv", units={"q": "-deg", "u": "-1"})
    assert read.signal("q") == pytest.approx(-np.radians([10, 20]))
    assert read.signal("u").tolist() == [-1.0, -2.0]
