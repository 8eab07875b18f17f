"""The auditor: silent about a sound history, and each violation is told by its name."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kafkaraw.errors import KafkaTimeoutError
from kafkaraw.records import RecordMetadata, TopicPartition
from kafkaraw.testing.audit import History, Invariant, audit

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


def sound() -> History:
    """Three records sent by `a`, acknowledged, read as they came and in the end; a fourth failed."""
    history = History()
    history.sent["a"] = [b"0", b"1", b"2", b"3"]
    history.acknowledged = {b"%d" % n: RecordMetadata("t", 0, n, 0) for n in range(3)}
    history.failed = {b"3": KafkaTimeoutError("late")}
    history.reads["c"] = [(P0, n, b"%d" % n) for n in range(3)]
    history.final = {P0: [(n, b"%d" % n) for n in range(3)], P1: []}
    return history


def nobody_is_told(history: History) -> None:
    del history.failed[b"3"]


def two_values_at_one_offset(history: History) -> None:
    history.reads["d"] = [(P0, 1, b"9")]


def gone(history: History) -> None:
    history.final[P0].pop()
    history.reads["c"].pop()


def in_another_partition(history: History) -> None:
    history.acknowledged[b"2"] = RecordMetadata("t", 1, 2, 0)


def there_twice(history: History) -> None:
    history.final[P0].append((3, b"2"))


def out_of_order(history: History) -> None:
    history.final[P0] = [(0, b"1"), (1, b"0")]
    history.acknowledged, history.reads = {}, {}
    history.failed = dict.fromkeys(history.sent["a"], KafkaTimeoutError("late"))


def jumped_over(history: History) -> None:
    del history.reads["c"][1]


def went_back(history: History) -> None:
    history.reads["c"].append((P0, 1, b"1"))


def test_a_sound_history_has_no_violation():
    assert audit(sound()) == []


@pytest.mark.parametrize(
    ("spoil", "invariant"),
    [
        (nobody_is_told, Invariant.UNSETTLED),
        (two_values_at_one_offset, Invariant.INCONSISTENT_OFFSETS),
        (gone, Invariant.LOST_WRITE),
        (in_another_partition, Invariant.LOST_WRITE),
        (there_twice, Invariant.DUPLICATE),
        (out_of_order, Invariant.SEND_SKIP),
        (jumped_over, Invariant.POLL_SKIP),
        (went_back, Invariant.NONMONOTONIC_POLL),
    ],
)
def test_a_violation_is_told_by_its_name(spoil: Callable[[History], None], invariant: Invariant):
    history = sound()
    spoil(history)
    found = audit(history)
    assert [violation.invariant for violation in found] == [invariant]
    assert str(found[0]).startswith(f"{invariant.value}: ")


def test_duplicates_and_disorder_are_no_violation_without_idempotence():
    for spoil in (there_twice, out_of_order):
        history = sound()
        spoil(history)
        assert audit(history, idempotent=False) == []
