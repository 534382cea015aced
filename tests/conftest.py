"""One thread for BLAS, set before NumPy loads it, and property tests that repeat themselves."""

import os

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"

from hypothesis import settings  # noqa: E402

settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.load_profile("repeatable")
