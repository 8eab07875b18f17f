"""Which processor cores a process may use, where the system lets one say so."""

from __future__ import annotations

import os
from typing import Final

APART: Final = "apart"
ONE: Final = "one"
ANY: Final = "any"

ALL: Final = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
FIRST: Final = ALL[:1]
OTHERS: Final = ALL[1:]


def run_on(cores: list[int]) -> None:
    """Keep this process, and those it starts, on these cores; does nothing where there is no choice."""
    if len(ALL) > 1:
        os.sched_setaffinity(0, cores)
