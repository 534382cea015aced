"""Outcomes of fits, kept in a file, so that tables of `results/bayesian.md` can be made part by part."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

Outcome = dict[str, float]


@dataclass
class Parts:
    """What was found so far, by names such as ``table 1/Z1/given/with/3``."""

    path: Path | None
    """A file of lines of JSON, which grows; None: nothing is kept."""
    only_known: bool = False
    """True if nothing is to be computed: tables are of what the file has."""
    known: dict[str, Outcome] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.path is not None and self.path.exists():
            for line in self.path.read_text(encoding="utf-8").splitlines():
                self.known.update(json.loads(line))

    def of(self, name: str, compute: Callable[[], Outcome]) -> Outcome:
        """From the file, or computed now, with its processor time as ``seconds``."""
        if name not in self.known:
            began = time.process_time()
            found = {**compute(), "seconds": time.process_time() - began}
            print(name, *(f"{key} {value:.4g}" for key, value in found.items()), file=sys.stderr, flush=True)
            self.known[name] = found
            if self.path is not None:
                with self.path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps({name: found}) + "\n")
        return self.known[name]

    def count(self, wanted: int, *names: str) -> int:
        """Of trials 0, 1, ... in a row of a table: as many as are wanted, or those of which all is known."""
        if not self.only_known:
            return wanted
        return next(i for i in range(wanted + 1) if i == wanted or any(f"{n}/{i}" not in self.known for n in names))

    @property
    def minutes(self) -> float:
        """Processor time of all [min]."""
        return sum(one["seconds"] for one in self.known.values()) / 60


def table(rows: Sequence[Sequence[str]]) -> str:
    """In Markdown, heads first."""
    lines = [rows[0], ["---"] * len(rows[0]), *rows[1:]]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"
