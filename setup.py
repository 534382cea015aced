"""Builds the package: pure Python, or with SPOOKID_PREBUILT=1 a wheel of this platform with the C code compiled.

Zig has clang, headers and libraries for all platforms in one package.
"""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

sys.path.insert(0, str(Path(__file__).parent))
from spookid.kernels.prebuilt import FAST, FOLDER, SOURCES, file_name, source

PREBUILT = os.environ.get("SPOOKID_PREBUILT", "") == "1"
FLAGS = ("-O3", "-shared", "-fPIC", "-fvisibility=hidden", "-s")


def target(platform: str) -> str:
    """Zig's name for one of Python's platforms: linux-x86_64, macosx-11.0-arm64, win-amd64."""
    system, *version, processor = platform.split("-")
    systems = {"linux": "linux-gnu.2.17", "macosx": "macos." + "".join(version), "win": "windows-gnu"}
    return {"amd64": "x86_64", "arm64": "aarch64"}.get(processor, processor) + "-" + systems[system]


def compile_to(folder: Path, machine: str) -> None:
    """All libraries; those for x86-64 at both levels."""
    folder.mkdir(parents=True, exist_ok=True)
    levels = {"": [], FAST: ["-mavx2", "-mfma"]} if machine.startswith("x86_64") else {"": []}
    with tempfile.TemporaryDirectory() as room:  # a linker for Windows leaves more than the library
        for name, level in itertools.product(SOURCES, levels):
            code, library = Path(room, f"{name}.c"), Path(room, file_name(name, level))
            code.write_text(source(name), encoding="ascii")
            zig = [sys.executable, "-m", "ziglang", "cc", "-target", machine, *FLAGS, *levels[level]]
            subprocess.run([*zig, str(code), "-o", str(library)], check=True)
            shutil.copy(library, folder)


class BuildPy(build_py):
    def run(self) -> None:
        super().run()
        if PREBUILT and not self.editable_mode:
            compile_to(Path(self.build_lib, "spookid", "kernels", FOLDER.name), target(sysconfig.get_platform()))


class Wheel(bdist_wheel):
    """One for every Python: nothing that is compiled uses Python's own libraries."""

    def finalize_options(self) -> None:
        self.distribution.has_ext_modules = lambda: PREBUILT  # or it would be taken for pure Python
        super().finalize_options()

    def get_tag(self) -> tuple[str, str, str]:
        return "py3", "none", super().get_tag()[2]


zig = ["ziglang>=0.13"] if PREBUILT else []
setup(cmdclass={"build_py": BuildPy, "bdist_wheel": Wheel}, setup_requires=zig)
