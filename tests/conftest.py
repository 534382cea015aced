"""One thread for BLAS, set before NumPy loads it, a cache of our own, and property tests that repeat themselves."""

import os
from pathlib import Path

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"
# What tests compile is kept between runs, but not among the user's own.
os.environ.setdefault("SPOOKID_CACHE", str(Path(__file__).parents[1] / ".pytest_cache" / "kernels"))

from hypothesis import settings  # noqa: E402

settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.load_profile("repeatable")
