"""Which seeds a run takes: other ones with every commit, the same ones wherever that commit is tested.

    KAFKARAW_SEEDS=7,100-120     takes these, and no others

2 for `make quick`, 25 for a normal run, 1,000 for a soak, unless a test says otherwise; those that have ever failed are
among them, except in a quick run.
A run is told by its header, a failed test by the command that repeats it (`conftest.py`).
"""

from __future__ import annotations

import datetime
import os
import subprocess
from pathlib import Path

import pytest

QUICK = 2
NORMAL = 25
SOAK = 1_000

PINNED: dict[str, tuple[int, ...]] = {
    "one broker": (),
    # a topic made in the middle of its deletion; a follower that began within a batch
    "several brokers": (2, 50651842006),
    "unclean elections": (),
    # a coordinator that answered by what only it had
    "transactions": (23381031011,),
    # aborted while partitions were being added; and while the last one's markers were being written
    "pipelined transactions": (3, 35, 106008808007),
    # fenced in a rebalance; away for too long while an assignment was half told, in both protocols;
    # thrown out for the time in which it wanted nothing; leaving took twice the time that it has; a static member that
    # was out of reach gave up in order what had been another's meanwhile
    "groups": (49, 700171, 700194, 900006, 900174, 900291),
    # a generation that a group had had before it began anew; a member that was let in again, whatever it
    # had; one that was given more than it could go through in time, again and again;
    # and one that stored each position before it went on; a rebalance that was cut off by the move;
    # a member that was let in again by an answer that came late; a group in which nobody led
    "groups that move": (900004, 900300, 900569, 900823, 970642, 982201, 982416),
    # a commit that waited until others had the partition; a claim that was not made; a static leader that came back,
    # and watched no topics; a commit in a generation that no coordinator knew any more; a request
    # to join that was held back for longer than a session, by one coordinator after the other; a
    # commit that came just behind the last word to join; one that came between that and the assignment;
    # two things to be given up, of which the second was not heard; a word of leaving that came late
    "calm groups": (3, 7, 145, 800063, 910400, 910535, 960867, 960580, 960306),
    # how long a member has been away is known within the time after which it is looked for; commits that were stored
    # seconds after they were asked for
    "versatile groups": (920046, 920064),
    # a topic whose name became known by something else than being asked for; more than could be read in the end;
    # an assignment that was lost with its coordinator
    "calm versatile groups": (51, 1104, 982083),
    "hasty closes": (),
    "reports": (),
    # a deposed leader that had appended; the rest of them: see the commits
    "senders": (1, 6, 21, 175694248179),
}
"""Seeds that have failed once, by world."""

with_soak = True
"""Whether seeds of a soak, 11,000 of 26,000 tests, are collected: `tests/conftest.py` says no where `-m` does."""

_CHOSEN = "KAFKARAW_SEEDS"
_FIRST = "KAFKARAW_FIRST_SEED"


def _first_of_commit() -> int:
    """The first seed of this commit; of this day, where there is no git."""
    root = Path(__file__).parents[2]
    try:
        git = subprocess.run(["git", "rev-parse", "HEAD"], cwd=root, capture_output=True, text=True, check=True)
        number = int(git.stdout[:7], 16)
    except (OSError, subprocess.CalledProcessError, ValueError):
        number = datetime.datetime.now(datetime.UTC).date().toordinal()
    return number * 1000


# Kept in the environment, so that processes that share a run agree, whatever day it becomes meanwhile.
FIRST = int(os.environ.setdefault(_FIRST, str(_first_of_commit())))


def chosen() -> list[int] | None:
    """The seeds that somebody has asked for; None when nobody has."""
    text = os.environ.get(_CHOSEN, "").strip()
    if not text:
        return None
    seeds: list[int] = []
    for part in text.split(","):
        low, _, high = part.partition("-")
        seeds += range(int(low), int(high or low) + 1)
    return seeds


def header() -> str:
    """A line that says which seeds this run takes."""
    seeds = chosen()
    if seeds is not None:
        return f"simulation seeds: {_CHOSEN}={os.environ[_CHOSEN]}"
    return f"simulation seeds: {FIRST} and the {NORMAL - 1} after it (soak: {SOAK - 1}); {_CHOSEN}=7,100-120 chooses"


def replay(nodeid: str, seed: int) -> str:
    """The command that repeats a failed test."""
    return f"{_CHOSEN}={seed} .venv/bin/python -m pytest -n 0 '{nodeid.partition('[')[0]}'"


def every_seed(world: str, normal: int = NORMAL, soak: int = SOAK) -> pytest.MarkDecorator:
    """Have a test run for every seed of this run.

    Args:
        world: whose pinned seeds are added.
        normal: how many seeds a normal run takes.
        soak: how many a soak takes.
    """
    picked = chosen()
    if picked is not None:
        return pytest.mark.parametrize("seed", picked)
    new = range(FIRST, FIRST + (max(normal, soak) if with_soak else normal))
    later = [*PINNED[world], *new[QUICK:normal]]
    return pytest.mark.parametrize(
        "seed",
        [
            *new[:QUICK],
            *(pytest.param(seed, marks=pytest.mark.long) for seed in later),
            *(pytest.param(seed, marks=[pytest.mark.long, pytest.mark.soak]) for seed in new[normal:]),
        ],
    )
