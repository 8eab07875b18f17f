"""A replay that ends at any of its steps, as in a power failure, loses and repeats no dead letter."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.pipelines.letters import Topics, letter

PROGRAM = Path(__file__).with_name("killed_replay.py")


def test_a_replay_that_dies_at_any_step_loses_and_repeats_nothing(kafka):
    steps, number = range(13), 3
    all_topics = [Topics(kafka) for _ in steps]
    started = []
    for step, topics in zip(steps, all_topics, strict=True):
        topics.add(*(letter(offset) for offset in range(number)))
        command = [sys.executable, str(PROGRAM), kafka.servers, topics.name, topics.dead, topics.replays, str(step)]
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE))
    printed = [process.communicate(timeout=60)[0] for process in started]
    assert [process.returncode for process in started] == [9] * len(steps)
    assert printed == [b""] * 12 + [b"12\n"]  # so every step was interrupted
    states = set()
    for topics in all_topics:
        before = topics.store.replay().count
        states.add(before)
        assert topics.replayed() == [0, 1, 2]
        assert topics.store.replay().count == 0
    assert states == {0, 1, 3}  # transactions have two letters and one
