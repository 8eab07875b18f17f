"""Print a line of a table for each planted bug; the exit code is 1 if one was not found.

With `--refresh`, find for each bug the seed that shows it with the least processor time, and write it into
`seeds_that_show.py`. Start at `main`.
"""

from __future__ import annotations

import argparse
import gc
import logging
import os
import signal
import sys
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from tests.simulation.plants import PLANTS, SHOWS_AT, Plant, find, scenarios, seeds_that_show, violated

SEEDS_OF_REFRESH = 300
"""The number of seeds that a refresh tries at most, for each bug."""
FEWEST_CPU_S = 0.12
"""A run that takes less is not worth a search for another one."""


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.plants", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="bugs; all if none is named")
    parser.add_argument("--refresh", action="store_true", help="write the cheapest seeds that show the bugs")
    parser.add_argument(
        "--showing", type=int, default=20, help="number of seeds that show a bug to compare (default: 20)"
    )
    parser.add_argument("--cpu", type=float, default=20.0, help="processor time of a search, in seconds (default: 20)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="bugs at a time (default: the cores)")
    options = parser.parse_args(arguments)
    if unknown := set(options.names) - set(PLANTS):
        parser.error(f"there is no planted bug {', '.join(sorted(unknown))}")
    logging.disable()
    names = options.names or list(PLANTS)
    if options.refresh:
        return refresh(names, showing=options.showing, cpu_s=options.cpu, jobs=options.jobs)
    missed = 0
    print("| planted bug | seeds | found by |")
    print("|---|---|---|")
    for name in names:
        seeds, invariants = find(name)
        found = bool(invariants & PLANTS[name].invariants)
        missed += not found
        what = ", ".join(sorted(invariants))
        print(f"| {name} | {seeds} | {what if found else f'NOT FOUND {what}'} |", flush=True)
    return int(missed > 0)


# -- the cheapest seeds ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Shown:
    """A seed that shows a bug, and the processor time of its run."""

    seed: int
    cpu_s: float


def refresh(names: list[str], *, showing: int, cpu_s: float, jobs: int) -> int:
    """Write the cheapest seed of each bug; return 1 if a bug was not found."""
    scenarios.run_scenario(scenarios.with_one_broker, 0)  # imports what the children need
    gc.freeze()
    seeds, missed = dict(SHOWS_AT), 0
    with get_context("fork").Pool(jobs) as pool:
        found = pool.imap(partial(cheapest, showing=showing, cpu_s=cpu_s), names)
        for name, shown in zip(names, found, strict=True):
            if shown is None:
                missed += 1
                print(f"{name}: NOT FOUND", flush=True)
                continue
            seeds[name] = shown.seed
            print(f"{name}: seed {shown.seed}, {shown.cpu_s:.2f} s", flush=True)
            write(seeds)
    return int(missed > 0)


def cheapest(name: str, *, showing: int, cpu_s: float) -> Shown | None:
    """Return the cheapest of the first seeds that show a bug; a run that takes longer than the best so far ends.

    Args:
        name: name of the bug.
        showing: number of seeds that show the bug, after which the search ends.
        cpu_s: processor time after which the search ends, if a seed was found, in seconds.
    """
    plant, best, found, used_s = PLANTS[name], None, 0, 0.0
    tried = [SHOWS_AT[name]] if name in SHOWS_AT else []
    for seed in dict.fromkeys([*tried, *range(SEEDS_OF_REFRESH)]):
        if best is not None and (found >= showing or used_s >= cpu_s or best.cpu_s < FEWEST_CPU_S):
            break
        shows, run_s = run_in_child(plant, seed, None if best is None else best.cpu_s)
        used_s += run_s
        if shows:
            found += 1
            best = Shown(seed, run_s)
        elif shows is None:
            found += 1  # it may show the bug, but takes longer
    return best


def run_in_child(plant: Plant, seed: int, limit_s: float | None) -> tuple[bool | None, float]:
    """Run a seed in another process; return whether it shows the bug (None: it took longer), and its processor time."""
    child = os.fork()
    if not child:
        status = 1
        try:
            if limit_s is not None:
                signal.setitimer(signal.ITIMER_PROF, limit_s)
            status = 0 if violated(plant, seed) & plant.invariants else 1
        finally:
            os._exit(status)  # 1 also if the bug made the scenario raise an error
    _, status, usage = os.wait4(child, 0)
    used_s = usage.ru_utime + usage.ru_stime
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGPROF:
        return None, used_s
    return os.WEXITSTATUS(status) == 0, used_s


def write(seeds: dict[str, int]) -> None:
    """Write `seeds_that_show.py`."""
    path = Path(seeds_that_show.__file__)
    head = path.read_text().partition("SHOWS_AT")[0]
    lines = "".join(f'    "{name}": {seeds[name]},\n' for name in sorted(seeds))
    path.write_text(f"{head}SHOWS_AT = {{\n{lines}}}\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
