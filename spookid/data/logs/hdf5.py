"""HDF5 files, through h5py."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from spookid.data.logs.columns import Clock, Options
from spookid.data.logs.libraries import file_at, library, reading
from spookid.data.logs.tree import Leaf, clocks


def read_hdf5(options: Options, time: str, own: Mapping[str, str]) -> list[Clock]:
    """Clocks of the datasets and of the fields of compound ones, by their paths in the file.

    Raises:
        ProblemError: for what is no HDF5 file, and as for arrays in groups.
    """
    path = options.path
    h5py = library("h5py", "h5py", f"{path}: an HDF5 file")
    file_at(path)
    with reading(path, "HDF5 file", "write it anew"), h5py.File(path, "r") as file:
        return clocks(_leaves(file), options, time, own, "/")


def read_matlab73(options: Options, time: str, own: Mapping[str, str]) -> list[Clock]:
    """Those of a MATLAB file of version 7.3, which is one of HDF5 with all matrices transposed."""
    path = options.path
    h5py = library("h5py", "h5py", f"{path}: a MATLAB file of version 7.3")
    with reading(path, "MATLAB file", "save it anew in MATLAB"), h5py.File(path, "r") as file:
        leaves = {
            name.replace("/", "."): leaf
            for name, leaf in _leaves(file).items()
            if not name.startswith("#") and file[name].attrs.get("MATLAB_class", b"double") not in (b"char", b"cell")
        }
        return clocks(leaves, options, time, own, ".")


def _leaves(file: Any) -> dict[str, Leaf]:
    found: dict[str, Leaf] = {}

    def visit(name: str, node: Any) -> None:
        if not hasattr(node, "dtype") or node.shape is None:  # a group, or a dataset without space
            return
        for field in node.dtype.names or (None,):
            path = name if field is None else f"{name}/{field}"
            kind = (node.dtype if field is None else node.dtype[field]).kind
            found[path] = Leaf(_squeezed(node, field), kind, partial(_load, node, field), _unit(node))

    file.visititems(visit)
    return found


def _squeezed(node: Any, field: str | None) -> tuple[int, ...]:
    inner = () if field is None else node.dtype[field].shape
    return tuple(n for n in (*node.shape, *inner) if n != 1)


def _load(node: Any, field: str | None) -> Any:
    array = node[()] if field is None else node[()][field]
    return np.squeeze(np.asarray(array))


def _unit(node: Any) -> str | None:
    """What an attribute of the dataset says."""
    for key in ("units", "unit"):
        said = node.attrs.get(key)
        if isinstance(said, bytes):
            return said.decode("utf-8", "replace")
        if isinstance(said, str):
            return said
    return None
