"""Builds the package with its C code: one library for each level of processors.

A C compiler is used where there is one (CC, cc, gcc, clang); without, the package works slowly. SPOOKID_PREBUILT=1
makes wheels for others: Zig has clang, headers and libraries for all platforms in one package.
"""

from __future__ import annotations

import itertools
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

sys.path.insert(0, str(Path(__file__).parent))
from spookid.kernels.library import FOLDER, LEVELS, SOURCE, UNITS, digest, file_name

PREBUILT = os.environ.get("SPOOKID_PREBUILT", "") == "1"
# Nothing lets the compiler reorder sums. Functions are hidden: one called like another of the process is not that one.
FLAGS = ("-O3", "-fno-math-errno", "-Wno-psabi", "-fPIC", "-fvisibility=hidden")


def target(platform: str) -> str:
    """Zig's name for one of Python's platforms: linux-x86_64, macosx-11.0-arm64, win-amd64."""
    system, *version, processor = platform.split("-")
    systems = {"linux": "linux-gnu.2.17", "macosx": "macos." + "".join(version), "win": "windows-gnu"}
    return {"amd64": "x86_64", "arm64": "aarch64"}.get(processor, processor) + "-" + systems[system]


@cache
def compiler() -> tuple[str, ...]:
    """The command of a C compiler with gcc's options; empty if there is none."""
    if PREBUILT:
        return sys.executable, "-m", "ziglang", "cc", "-target", target(sysconfig.get_platform())
    for command in (shlex.split(os.environ.get("CC", "")), ["cc"], ["gcc"], ["clang"]):
        if command and (where := shutil.which(command[0])):
            return where, *command[1:]
    return ()


def compile_to(folder: Path) -> None:
    """All libraries."""
    folder.mkdir(parents=True, exist_ok=True)
    intel = sysconfig.get_platform().rpartition("-")[2].replace("linux_", "") in {"x86_64", "amd64"}
    levels = [*LEVELS] if intel else [*LEVELS][:1]
    with tempfile.TemporaryDirectory() as room, ThreadPoolExecutor(os.cpu_count()) as pool:

        def run(*words: object) -> None:
            subprocess.run([*compiler(), *map(str, words)], check=True)

        def compiled(level: str, unit: str) -> None:
            source = f"-DSOURCE_DIGEST=0x{digest()}ULL", SOURCE / f"{unit}.c"
            run(*FLAGS, *LEVELS[level], *source, "-c", "-o", Path(room, f"{level}-{unit}.o"))

        list(pool.map(compiled, *zip(*itertools.product(levels, UNITS), strict=True)))
        for level in levels:  # a linker for Windows leaves more than the library
            library = Path(room, file_name(level))
            run("-shared", "-s", *(Path(room, f"{level}-{unit}.o") for unit in UNITS), "-lm", "-o", library)
            (folder / file_name(level)).unlink(missing_ok=True)  # a process that has it loaded keeps the old one
            shutil.copy(library, folder)


class BuildPy(build_py):
    """Without a compiler, or with one that fails, there is no library; a wheel for others has to have it."""

    def run(self) -> None:
        super().run()
        folder = FOLDER if self.editable_mode else Path(self.build_lib, "spookid", "kernels", FOLDER.name)
        shutil.rmtree(folder, ignore_errors=True)
        try:
            if not compiler():
                raise FileNotFoundError("no C compiler (CC, cc, gcc, clang)")
            compile_to(folder)
        except (OSError, subprocess.CalledProcessError) as error:
            if PREBUILT:
                raise
            shutil.rmtree(folder, ignore_errors=True)
            sys.stderr.write(f"spookid: no C extension, so fits will take many times as long ({error})\n")


class Wheel(bdist_wheel):
    """One for every Python: nothing that is compiled uses Python's own libraries. Pure if nothing is compiled."""

    def run(self) -> None:
        self.run_command("build")
        folder = Path(self.get_finalized_command("build_py").build_lib, "spookid", "kernels", FOLDER.name)
        compiled = folder.exists()
        self.distribution.has_ext_modules = lambda: compiled
        self.root_is_pure = not compiled
        super().run()

    def get_tag(self) -> tuple[str, str, str]:
        return "py3", "none", super().get_tag()[2]


zig = ["ziglang>=0.13"] if PREBUILT else []
setup(cmdclass={"build_py": BuildPy, "bdist_wheel": Wheel}, setup_requires=zig)
