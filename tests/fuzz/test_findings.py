"""Inputs that broke a rule once, or that are made to; and a short run of the fuzzer's fallback.

Ten minutes of atheris (848,920 inputs) broke none, so the first files here are hand-made.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from kafkaraw.protocol.describe import messages_named
from tests.fuzz import capture_targets, record_targets, targets

FINDINGS = sorted(Path(__file__).with_name("findings").glob("*.txt"))
MUTATIONS = 3_000
RECORD_MUTATIONS = 500
CAPTURE_MUTATIONS = 60


@pytest.mark.parametrize("path", FINDINGS, ids=lambda path: path.stem)
def test_a_finding_stays_fixed(path: Path):
    name, version, body = path.read_text().split()
    if name == "records":
        record_targets.check_records(int(version), bytes.fromhex(body))
        return
    if name == "captures":
        capture_targets.check(bytes.fromhex(body))
        return
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


def test_mutations_of_good_records_break_no_rule():
    seed = random.SystemRandom().randrange(2**31)
    print(f"seed {seed}")  # shown when the test fails
    rng = random.Random(seed)
    whole = 0
    for _ in range(RECORD_MUTATIONS // 10):
        good = record_targets.seed_input(rng)
        record_targets.check(good)
        for _ in range(9):
            data = record_targets.mutated(good, rng)
            record_targets.check(data)
            whole += bool(record_targets.batches_in(data))
    assert whole > RECORD_MUTATIONS // 10


def test_mutations_of_good_captures_break_no_rule():
    seed = random.SystemRandom().randrange(2**31)
    print(f"seed {seed}")  # shown when the test fails
    rng = random.Random(seed)
    for _ in range(CAPTURE_MUTATIONS // 10):
        good = capture_targets.seed_input(rng)
        capture_targets.check(good)
        for _ in range(9):
            capture_targets.check(capture_targets.mutated(good, rng))
