"""The seeds of a run: others with every commit, the same ones wherever that commit is tested.

    KAFKARAW_SEEDS=7,100-120     runs these seeds only

2 for a normal run, of which `tests/rotation.py` chooses one, and 1,000 for a soak, unless a test says otherwise. Those
of a normal run are 1 new seed, and 1 that has failed before, or else a second new one: each commit has another one of
those that have failed. `make quick` has the new one. A soak has all. The header of a run names its seeds; a failed test
names the command that repeats it (`conftest.py`).
"""

from __future__ import annotations

import datetime
import os
import subprocess
from pathlib import Path

import pytest

QUICK = 1
NORMAL = 2
PINNED_MAX = 1
"""The maximum number of pinned seeds of a normal run."""
SOAK = 1_000

PINNED: dict[str, tuple[int, ...]] = {
    "one broker": (),
    # a topic created during its deletion; a follower whose log began within a batch
    "several brokers": (2, 50651842006),
    "unclean elections": (),
    "failing disk": (),
    # a truncated batch and a removed segment that a crash brought back; a damaged leader epoch checkpoint; one without
    # rows because all batches were deleted
    "failing disks": (11, 112, 117, 50131),
    # a coordinator that responded before its state was replicated
    "transactions": (23381031011,),
    # aborted while partitions were added; and while the markers of the previous transaction were written
    "pipelined transactions": (3, 35, 106008808007),
    # fenced in a rebalance; exceeded max.poll.interval.ms during the callbacks of an assignment, in both protocols;
    # fenced for the time in which it was unsubscribed; leaving took twice its timeout; a disconnected static member
    # called on_revoked for partitions that another member owned
    "groups": (49, 700171, 700194, 900006, 900174, 900291),
    # a generation that a group had had before it was recreated; a member that rejoined and kept its partitions; one
    # that exceeded max.poll.interval.ms again and again; one that committed each record; a rebalance that the
    # migration ended; a member that rejoined by a late response; a group without a leader
    "migrating groups": (900004, 900300, 900569, 900823, 970642, 982201, 982416),
    # a commit that was pending until another member owned the partition; an owned partition that was not reported; a
    # static leader that rejoined and watched no topics; a commit in a generation that no coordinator knew any more; a
    # JoinGroup that several coordinators delayed for longer than a session; a commit just after the last JoinGroup;
    # one between that and the assignment; two revocations, of which the second was missed; a late leave request
    "graceful groups": (3, 7, 145, 800063, 910400, 910535, 960867, 960580, 960306),
    # max.poll.interval.ms is checked at intervals; commits that succeeded seconds after the call
    "seeking groups": (920046, 920064),
    # a topic whose name became known without a lookup; more than could be read in the end; an assignment that was lost
    # with its coordinator
    "graceful seeking groups": (51, 1104, 982083),
    # offsets of a member that was removed, committed in a transaction
    "workers": (858,),
    # a release that was due by less than the resolution of the clock; a leader that was never asked for records; a
    # future that nothing waited for, in the traceback of the error of a closed producer
    "workers in a share group": (11, 12, 891),
    # killed while a session closed its clients after a failure; a filled gap that closed the one behind it; three
    # filled gaps behind which a run had been thinned meanwhile; an error that was its own cause; a consumer that was
    # cancelled while it closed; two responses with thousands of small batches: each transaction timed out before the
    # mirror had sent them all
    "mirror": (125, 10000, 10064, 10024, 10139, 20093, 22101, 24024, 24118, 24196),
    # a group whose offset was translated by a suspended process, to the later one of two copies; thousands of batches,
    # which the auditor's reader needed more time for than it had
    "at-least-once mirror": (10, 24051),
    # a late renewal, which the auditor took for a longer lock; a lock whose timer was early by the resolution of the
    # clock; an aborted transaction that a clean close forgot; a leader that crashed, and whose partition nobody asked
    # for until the restart
    "share groups": (3, 4, 31, 33),
    "compacted topic": (21009598000,),
    "compacted groups": (),
    "compacted transactions": (),
    "short closes": (),
    "failure reports": (),
    # a deposed leader that had appended; for the others see the commits
    "senders": (1, 6, 21, 175694248179),
}
"""Seeds that have failed once, by scenario."""

with_soak = True
"""Whether seeds of a soak, 11,000 of 26,000 tests, are collected; False if `-m` excludes them."""

_CHOSEN = "KAFKARAW_SEEDS"
_FIRST = "KAFKARAW_FIRST_SEED"


def _first_of_commit() -> int:
    """Return the first seed of this commit, or of this day if there is no git."""
    root = Path(__file__).parents[2]
    try:
        git = subprocess.run(["git", "rev-parse", "HEAD"], cwd=root, capture_output=True, text=True, check=True)
        number = int(git.stdout[:7], 16)
    except (OSError, subprocess.CalledProcessError, ValueError):
        number = datetime.datetime.now(datetime.UTC).date().toordinal()
    return number * 1000


# Kept in the environment, so that all processes of a run agree, also after midnight.
FIRST = int(os.environ.setdefault(_FIRST, str(_first_of_commit())))


def chosen() -> list[int] | None:
    """Return the seeds of KAFKARAW_SEEDS; None if it is not set."""
    text = os.environ.get(_CHOSEN, "").strip()
    if not text:
        return None
    seeds: list[int] = []
    for each in text.split(","):
        low, _, high = each.partition("-")
        seeds += range(int(low), int(high or low) + 1)
    return seeds


def header() -> str:
    """Return a line that names the seeds of this run."""
    seeds = chosen()
    if seeds is not None:
        return f"simulation seeds: {_CHOSEN}={os.environ[_CHOSEN]}"
    return f"simulation seeds: {FIRST} and up to {NORMAL - 1} after it (soak: {SOAK - 1}); {_CHOSEN}=7,100-120 chooses"


def replay(nodeid: str, seed: int) -> str:
    """Return the command that repeats a failed test."""
    return f"{_CHOSEN}={seed} .venv/bin/python -m pytest -n 0 '{nodeid.partition('[')[0]}'"


def every_seed(scenario: str, soak: int = SOAK) -> pytest.MarkDecorator:
    """Parametrize a test with every seed of this run.

    Args:
        scenario: the key of its pinned seeds.
        soak: number of seeds of a soak.
    """
    picked = chosen()
    if picked is not None:
        return pytest.mark.parametrize("seed", picked)
    pinned, others = _pinned_of_commit(PINNED[scenario])
    normal = NORMAL - len(pinned)
    new = range(FIRST, FIRST + (max(normal, soak) if with_soak else normal))
    later = [*pinned, *new[QUICK:normal]]
    last = [*others, *new[normal:]] if with_soak else []
    return pytest.mark.parametrize(
        "seed",
        [
            *new[:QUICK],
            *(pytest.param(seed, marks=pytest.mark.long) for seed in later),
            *(pytest.param(seed, marks=[pytest.mark.long, pytest.mark.soak]) for seed in last),
        ],
    )


def _pinned_of_commit(pinned: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the pinned seeds of a normal run, each commit's beginning elsewhere, and the others."""
    begin = FIRST // 1000 % len(pinned) if pinned else 0
    turned = pinned[begin:] + pinned[:begin]
    return turned[:PINNED_MAX], turned[PINNED_MAX:]
