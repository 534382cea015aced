"""MATLAB files, through SciPy, and h5py where they are of version 7.3."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from scipy import io

from spookid.data.logs.columns import Clock, Options
from spookid.data.logs.hdf5 import read_matlab73
from spookid.data.logs.libraries import file_at, reading
from spookid.data.logs.matlab_check import check_lengths
from spookid.data.logs.tree import Leaf, clocks

_OBJECTS = "; objects such as a timeseries are read by MATLAB alone: save ts.Time and ts.Data"


def read_matlab(options: Options, time: str, own: Mapping[str, str]) -> list[Clock]:
    """Clocks of the arrays of a file and of its structs, named ``struct.field``.

    Raises:
        ProblemError: for what is no MATLAB file, and as for arrays in groups.
    """
    path = options.path
    file_at(path)
    with reading(path, "MATLAB file", "save it anew in MATLAB, or with scipy.io.savemat"):
        check_lengths(path.read_bytes())
        try:
            variables = io.loadmat(path, squeeze_me=True, struct_as_record=False, appendmat=False)
        except NotImplementedError:  # SciPy's way to say version 7.3
            return read_matlab73(options, time, own)
    hint = _OBJECTS if "__function_workspace__" in variables else ""
    own_names = {name: value for name, value in variables.items() if not name.startswith("__")}
    return clocks(dict(_leaves(own_names, "")), options, time, own, ".", hint)


def _leaves(variables: Mapping[str, Any], group: str) -> Iterator[tuple[str, Leaf]]:
    for name, value in variables.items():
        if isinstance(value, io.matlab.mat_struct):
            yield from _leaves(vars(value), f"{group}{name}.")
        else:
            array = np.asarray(value)
            yield f"{group}{name}", Leaf(array.shape, array.dtype.kind, array.copy)
