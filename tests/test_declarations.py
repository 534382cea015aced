"""Random mechanisms are solved or refused in a sentence. By hand: ``python tests/test_declarations.py 100000``."""

from __future__ import annotations

import sys
from random import Random

import declarations
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_fuzz import refused_in_a_sentence


def study(count: int) -> None:
    """Solve so many, and reduce the first that ends otherwise."""

    @settings(max_examples=count, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(st.randoms(use_true_random=False))
    def tried(chance):
        with refused_in_a_sentence():
            declarations.solved(chance)

    tried()


@pytest.mark.parametrize("count", [20, pytest.param(2000, marks=pytest.mark.study)])
def test_random_mechanisms(count):
    study(count)


@pytest.mark.parametrize("seed", [332])
def test_what_longer_studies_found(seed):
    """No degrees of freedom are left of the residuals, whose variance then overflows."""
    with refused_in_a_sentence():
        declarations.solved(Random(seed))


if __name__ == "__main__":
    study(int(sys.argv[1]))
