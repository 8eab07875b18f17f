"""Inputs that broke a rule once, or that are made to; and a short run of the fuzzer's fallback.

Ten minutes of atheris (848,920 inputs) broke none, so the first files here are hand-made.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from kafkaraw.protocol.describe import messages_named
from tests.fuzz import targets

FINDINGS = sorted(Path(__file__).with_name("findings").glob("*.txt"))
MUTATIONS = 3_000


@pytest.mark.parametrize("path", FINDINGS, ids=lambda path: path.stem)
def test_a_finding_stays_fixed(path: Path):
    name, version, body = path.read_text().split()
    (cls,) = messages_named(name)
    targets.check_all(cls, int(version), bytes.fromhex(body))


def test_mutations_of_good_messages_break_no_rule():
    seed = random.SystemRandom().randrange(2**31)
    print(f"seed {seed}")  # shown when the test fails
    rng = random.Random(seed)
    refused = 0
    for _ in range(MUTATIONS // 10):
        good = targets.seed_input(rng.randrange(len(targets.VERSIONED)), rng)
        targets.check(good)
        for _ in range(9):
            data = targets.mutated(good, rng)
            refused += data != good
            targets.check(data)
    assert refused > MUTATIONS / 2
