"""Print a line of a table for each planted bug; the exit code is 1 if one was not found."""

from __future__ import annotations

import logging
import sys

from tests.simulation.plants import PLANTS, find


def main(names: list[str]) -> int:
    logging.disable()
    missed = 0
    print("| planted bug | seeds | found by |")
    print("|---|---|---|")
    for name in names or PLANTS:
        seeds, invariants = find(name)
        found = bool(invariants & PLANTS[name].invariants)
        missed += not found
        what = ", ".join(sorted(invariants))
        print(f"| {name} | {seeds} | {what if found else f'NOT FOUND {what}'} |", flush=True)
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
