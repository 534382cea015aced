"""The table of what each stepper takes, in the documentation, is what the package says."""

from __future__ import annotations

import stepper_table


def test_the_page_has_the_answers_of_the_package() -> None:
    assert stepper_table.on_page() == stepper_table.table(), "run python -m tests.stepper_table"
