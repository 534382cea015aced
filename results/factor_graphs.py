"""Mechanisms as factor graphs: makes the tables and figures of factor_graphs.md.

python results/factor_graphs.py                    ten minutes
python results/factor_graphs.py --only gtsam       a part of it; its tables are put in the place of the old ones
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from factor_graph_forward import branches, figure_7, table_1  # noqa: E402
from factor_graph_gtsam import gtsam_rows  # noqa: E402
from factor_graph_inverse import figure_8, lines, tracked  # noqa: E402
from factor_graph_linkages import linkages  # noqa: E402
from factor_graph_online import against_batch, consistency, updates  # noqa: E402
from factor_graph_sensors import gyroscope  # noqa: E402
from factor_graph_watch import watching  # noqa: E402

Tables = dict[str, list[str]]
PAGE = HERE / "factor_graphs.md"
DRAWS, STEPS_TOLD = 50, 10
"""Twins for NEES, and with a step in each parameter."""


def forward() -> Tables:
    """Table 1, Figure 7 and the two branches."""
    rows, shown = table_1()
    figure_7(shown, HERE / "factor_graphs_7.png")
    return {"table 1": rows, "branches": branches(HERE / "factor_graphs_branches.png")}


def inverse() -> Tables:
    """Figure 8."""
    run = tracked()
    figure_8(run, HERE / "factor_graphs_8.png")
    return {"inverse": lines(run)}


def others() -> Tables:
    """Slider-crank, five-bar, Watt's linkage."""
    return {"linkages": linkages(HERE / "factor_graphs_linkages.png")}


def sensors() -> Tables:
    """A gyroscope alone."""
    nees, told = gyroscope(DRAWS, HERE / "factor_graphs_gyroscope.png")
    return {"gyroscope": told, "gyroscope nees": nees}


def online() -> Tables:
    """Fixed lag against batch, NEES, times."""
    return {"batch": against_batch(), "nees": consistency(DRAWS), "times": updates()}


def watch() -> Tables:
    """Steps in parameters."""
    return {"watch": watching(STEPS_TOLD)}


def gtsam() -> Tables:
    """The peer."""
    return {"gtsam": gtsam_rows()}


PARTS: dict[str, Callable[[], Tables]] = {
    part.__name__: part for part in (forward, inverse, others, sensors, online, watch, gtsam)
}


def put(tables: Tables) -> None:
    """Rows in the place of those that stand in the page below a table's mark and its two lines of heading."""
    text = PAGE.read_text()
    for name, rows in tables.items():
        print(f"{name}:", *rows, sep="\n", flush=True)
        mark = re.compile(rf"(<!-- {re.escape(name)} -->\n\|.*\n\|.*\n)((?:\|.*\n)*)")
        if not mark.search(text):
            raise SystemExit(f"{PAGE} has no table {name!r}")
        if rows:
            text = mark.sub(lambda found, rows=rows: found[1] + "".join(f"{row}\n" for row in rows), text)
    PAGE.write_text(text)


def main() -> None:
    """Fill the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=PARTS, action="append")
    for name in parser.parse_args().only or PARTS:
        put(PARTS[name]())


if __name__ == "__main__":
    main()
