"""Libraries of linear algebra on one thread: what several share out is added up in another order at every count."""

from __future__ import annotations

ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"), "1"
)
"""Environment of a process that has not loaded NumPy yet."""
