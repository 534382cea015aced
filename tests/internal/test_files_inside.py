"""Files and folders that are written together, by several at the same time, and on disks that are full."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Barrier

import pytest
from robot_files import ARM

from spookid import ProblemError, robots
from spookid.results import folders

MANY = 8


def together(work: Callable[[int], object]) -> list[Exception | None]:
    """What each of many who begin at the same time raises."""
    begin = Barrier(MANY)

    def one(number: int) -> object:
        begin.wait()
        return work(number)

    with ThreadPoolExecutor(MANY) as pool:
        return [future.exception() for future in [pool.submit(one, i) for i in range(MANY)]]


def test_one_of_those_who_may_replace_nothing_succeeds(tmp_path: Path) -> None:
    path, folder = tmp_path / "new.py", tmp_path / "made"
    for work in (
        lambda i: folders.write_all({path: str(i)}, partial(folders.check_new, path)),
        lambda i: folders.make(folder, lambda part: (part / f"{i}").write_text("")),
    ):
        ends = together(work)
        assert ends.count(None) == 1
        assert all(isinstance(end, ProblemError) and "is there already" in str(end) for end in ends if end)
    assert len([*folder.iterdir()]) == 1
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["made", "new.py"]


def test_those_who_export_to_one_file_all_succeed(tmp_path: Path) -> None:
    (tmp_path / "arm.urdf").write_text(ARM)
    robot = robots.read(tmp_path / "arm.urdf")
    assert together(lambda _: robot.write(tmp_path / "new.urdf", {})) == [None] * MANY
    assert json.loads((tmp_path / "new.urdf.json").read_text())["file"] == "new.urdf"
    assert len([*tmp_path.iterdir()]) == 3
    (tmp_path / "new.urdf").unlink()  # as of one that was killed between its two files
    robot.write(tmp_path / "new.urdf", {})


def test_folders_that_several_write_are_whole(tmp_path: Path) -> None:
    ends = together(
        lambda i: folders.save(tmp_path / "out", {"audit.json": {"schema": 2, "problem": "p"}, "a.txt": "a"})
    )
    assert ends == [None] * MANY
    assert [entry.name for entry in tmp_path.iterdir()] == ["out"]
    assert sorted(entry.name for entry in (tmp_path / "out").iterdir()) == ["a.txt", "audit.json"]


def test_a_full_disk_gets_none_of_the_files_that_belong_together(tmp_path: Path) -> None:
    def full(part: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    for files in ({"a": "text", "b": full}, {"a": full, "b": "text"}):
        with pytest.raises(ProblemError, match="cannot be written"):
            folders.write_all({tmp_path / name: content for name, content in files.items()})
        with pytest.raises(ProblemError, match="No space left"):
            folders.make(tmp_path / "new", full)
    assert [*tmp_path.iterdir()] == []
