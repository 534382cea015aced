"""What is known of one recording: its samples at the steps, its inputs, and a guess of the motion."""

from __future__ import annotations

from spookid.assembly.initialization import Guess
from spookid.assembly.schedules import Strikes
from spookid.data.inputs import Acting
from spookid.data.recording import Recording
from spookid.data.sampling import Grid, Samples
from spookid.kernels.arrays import Array
from spookid.records import dataclass


@dataclass(frozen=True, eq=False)
class SampledRecording:
    """One recording, sampled at the steps."""

    recording: Recording
    grid: Grid
    guess: Guess
    observed: Array
    """At the steps, between the samples next to them where there is none, (N, n_o), NaN where missing."""
    samples: tuple[Samples, ...]
    """Of each channel, at their own times."""
    acting: Acting
    """Inputs."""
    slopes: Acting
    """How inputs change with their delays."""
    held: Array
    """1 for each contact that holds from a step to the next, 0 for others, (N − 1, n_c)."""
    strikes: Strikes
    """Impacts."""
