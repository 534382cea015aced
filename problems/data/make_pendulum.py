"""Convert the measured recording that ships with the project, `pendulum.npz`, from its source.

    python problems/data/make_pendulum.py

Reads release 03 of the data set "pendulum-free-swing" in the folder SPOOKID_DATA (see `convert.py`) and writes times
``t`` [s] and angles ``theta`` [rad] of all samples after the hand has let go. `pendulum.md` tells where the data come
from, what the conversion corrects, and their licence.
"""

from pathlib import Path

import numpy as np
from convert import convert

PLACE = Path(__file__).with_name("pendulum.npz")

if __name__ == "__main__":
    with np.load(convert("pendulum_free_swing_03")) as archive:
        np.savez_compressed(PLACE, t=archive["t"], theta=archive["theta"])
    print(PLACE)
