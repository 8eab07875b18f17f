"""Run all examples, one after another: `python -m examples`, or `make examples`.

Arguments are passed on: `python -m examples --size small`. The exit code is 0 if all have run, with the results that
are expected. Start at `main`.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Final

from examples.activity.site import find_browser
from examples.postgres import find_programs

EXAMPLES: Final = ("flights", "messaging", "commit_log", "activity", "metrics")


def missing(example: str) -> str | None:
    """Return what an example needs and this machine lacks, with the command that installs it; None for nothing."""
    if example == "commit_log" and find_programs() is None:
        return "PostgreSQL is not installed (Debian and Ubuntu: apt-get install postgresql)"
    if example == "commit_log" and find_spec("psycopg") is None:
        return "psycopg is not installed (pip install 'psycopg[binary]')"
    if example == "activity" and find_browser() is None:
        return "no browser is installed (Debian and Ubuntu: apt-get install chromium)"
    return None


def main(arguments: Sequence[str]) -> int:
    """Run the examples; return the exit code."""
    outcomes = dict[str, str]()
    began = time.monotonic()
    for number, example in enumerate(EXAMPLES, start=1):
        print(f"== {number}/{len(EXAMPLES)} {example}", flush=True)
        if lack := missing(example):
            outcomes[example] = f"not run: {lack}"
            print(outcomes[example])
            continue
        started = time.monotonic()
        code = subprocess.run([sys.executable, "-m", f"examples.{example}", *arguments], check=False).returncode
        outcome = "as expected" if code == 0 else f"FAILED with exit code {code}"
        outcomes[example] = f"{outcome}, {time.monotonic() - started:.0f} s"
    print(f"== all: {time.monotonic() - began:.0f} s")
    for example, outcome in outcomes.items():
        print(f"{example:12}{outcome}")
    return 0 if all(outcome.startswith("as expected") for outcome in outcomes.values()) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
