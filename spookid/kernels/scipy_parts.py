"""SciPy's compiled LAPACK and BLAS, special functions and non-negative least squares, without what the packages that
hold them load besides: a tenth of a second or more, for which a whole fit is done.

They are SciPy's own modules: who imports its packages later gets the same ones.
"""

from __future__ import annotations

import sys
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import scipy


def _part(package: str, name: str, public: str) -> Any:
    """A compiled module of a package whose ``__init__`` is not run; what is public if there is no such module."""
    if package not in sys.modules:
        bare = ModuleType(package)
        bare.__path__ = [str(Path(scipy.__file__).parent.joinpath(*package.split(".")[1:]))]
        sys.modules[package] = bare
        try:
            return import_module(f"{package}.{name}")
        except ImportError:
            pass  # another version of SciPy
        finally:
            del sys.modules[package]
    return import_module(public)


lapack: Any = _part("scipy.linalg", "_flapack", "scipy.linalg.lapack")
"""As ``scipy.linalg.lapack``."""
blas: Any = _part("scipy.linalg", "_fblas", "scipy.linalg.blas")
"""As ``scipy.linalg.blas``."""
special: Any = _part("scipy.special", "_ufuncs", "scipy.special")
"""As ``scipy.special``, but for what is written in Python."""


@cache
def _nnls() -> Any:
    return _part("scipy.optimize", "_nnls", "scipy.optimize").nnls


def nnls(A: Any, b: Any) -> Any:
    """As ``scipy.optimize.nnls``, which few ask for: it loads when it is called."""
    return _nnls()(A, b)
