"""Builds the package: as pure Python, or for one platform with its C code compiled, if SPOOKID_PREBUILT is 1.

Zig brings clang, headers and libraries for every platform, and clang splits vectors that are longer than the
processor's; gcc puts them into memory, and its code for AVX2 is twice as slow.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

sys.path.insert(0, str(Path(__file__).parent))
from spookid.kernels.prebuilt import FAST, FOLDER, SOURCES, file_name, source

PREBUILT = os.environ.get("SPOOKID_PREBUILT", "") == "1"
FLAGS = ("-O3", "-shared", "-fPIC", "-fvisibility=hidden", "-s")


def target(platform: str) -> str:
    """Zig's name for one of Python's platforms, such as linux-x86_64, macosx-11.0-arm64, win-amd64."""
    system, *version, processor = platform.split("-")
    processor = {"amd64": "x86_64", "arm64": "aarch64"}.get(processor, processor)
    return f"{processor}-" + {"linux": "linux-gnu.2.17", "macosx": f"macos.{version}", "win": "windows-gnu"}[system]


def compile_to(folder: Path) -> None:
    """All libraries, at each level of the processor."""
    folder.mkdir(parents=True, exist_ok=True)
    zig = [sys.executable, "-m", "ziglang", "cc", "-target", target(sysconfig.get_platform()), *FLAGS]
    levels = {"": [], FAST: ["-mavx2", "-mfma"]} if "x86_64" in zig[5] else {"": []}
    with tempfile.TemporaryDirectory() as room:  # for what compilers leave beside their libraries
        for name in SOURCES:
            code = Path(room, f"{name}.c")
            code.write_text(source(name), encoding="ascii")
            for level, flags in levels.items():
                library = Path(room, file_name(name, level))
                subprocess.run([*zig, *flags, str(code), "-o", str(library)], check=True)
                shutil.copy(library, folder)


class BuildPy(build_py):
    """With the libraries, except where the package is used in place."""

    def run(self) -> None:
        super().run()
        if PREBUILT and not self.editable_mode:
            compile_to(Path(self.build_lib, "spookid", "kernels", FOLDER.name))


class Wheel(bdist_wheel):
    """One for all versions of Python: its libraries do not use Python's."""

    def finalize_options(self) -> None:
        super().finalize_options()
        self.root_is_pure = not PREBUILT

    def get_tag(self) -> tuple[str, str, str]:
        *_, platform = super().get_tag()
        return "py3", "none", platform


setup(
    cmdclass={"build_py": BuildPy, "bdist_wheel": Wheel},
    setup_requires=["ziglang>=0.13"] if PREBUILT else [],
)
