"""Where the robots of the package example-robot-data are."""

import os
import sys
from pathlib import Path


def found() -> Path | None:
    """The folder ``SPOOKID_ROBOTS``, or that of the installed package; None without both."""
    given = os.environ.get("SPOOKID_ROBOTS")
    roots = (Path(one) / "cmeel.prefix" / "share" / "example-robot-data" / "robots" for one in sys.path)
    return next((place for place in ([Path(given)] if given else roots) if place.is_dir()), None)


def folder() -> Path:
    """The same; the program ends without it."""
    if (place := found()) is None:
        raise SystemExit("the robots are missing; install example-robot-data, or name their folder by SPOOKID_ROBOTS")
    return place
