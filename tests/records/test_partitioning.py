"""Keys go to the partitions that other clients choose; records without keys are spread."""

from __future__ import annotations

import zlib
from collections import Counter

import pytest

from kafkaraw.errors import UsageError
from kafkaraw.records import PARTITIONERS, AppendStatus, KeyHash, OpenBatches, Partitioner, murmur2, partition_for_key
from kafkaraw.records.partitioning import fnv1a
from tests.records.promises import open_batches


@pytest.mark.parametrize(
    ("key", "java"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_the_hash_is_javas(key: bytes, java: int) -> None:
    """Source: Kafka's UtilsTest.testMurmur2; Java shows the hash as a signed number."""
    assert murmur2(key) == java & 0xFFFFFFFF


@pytest.mark.parametrize("key", [b"foobar", b"21"])
def test_a_negative_hash_loses_its_sign_rather_than_being_negated(key: bytes) -> None:
    assert murmur2(key) >= 2**31
    assert partition_for_key(key, 1000) == (murmur2(key) - 2**31) % 1000


def test_the_empty_key_is_a_key() -> None:
    assert partition_for_key(b"", 7) == (murmur2(b"") & 0x7FFFFFFF) % 7


def test_every_length_of_key_agrees_with_other_clients() -> None:
    partitioner = pytest.importorskip("kafka.partitioner.default", reason="kafka-python is not installed")
    for size in range(300):
        key = bytes((size * 7 + position * 13) & 0xFF for position in range(size))
        assert murmur2(key) == partitioner.murmur2(key) & 0xFFFFFFFF


@pytest.mark.parametrize(("key", "hashed"), [(b"", 0x7EE3623B), (b"a", 0x1BF3D6D4), (b"foobar", 0x40630698)])
def test_fnv_hashes_lose_their_sign_by_negation(key: bytes, hashed: int) -> None:
    """FNV-1a gives 0x811C9DC5, 0xE40C292C and 0xBF9CF968; Sarama negates what is negative as a signed number."""
    assert fnv1a(key) == hashed


def sent_to(batches: OpenBatches, key: bytes | None, value: bytes | None = b"value") -> int:
    """Send as producers do: the short way first."""
    ticket = batches.take("t", value, key, None, None, None)
    if ticket is not None:
        return ticket.batch_promise.partition
    status, ticket = batches.append("t", key, value, None, None, None)
    assert status in (AppendStatus.OK, AppendStatus.OPENED, AppendStatus.SEALED)
    assert ticket is not None
    return ticket.batch_promise.partition


HASHED = {"consistent": zlib.crc32, "murmur2": lambda key: murmur2(key) & 0x7FFFFFFF, "fnv1a": fnv1a}


@pytest.mark.parametrize("name", HASHED)
@pytest.mark.parametrize("suffix", ["", "_random"])
def test_keys_go_where_their_hash_says(name: str, suffix: str) -> None:
    batches = open_batches(partitioner=PARTITIONERS[name + suffix])
    for number in range(100):
        key = b"key-%d" % number
        assert sent_to(batches, key) == HASHED[name](key) % 3


@pytest.mark.parametrize("name", HASHED)
def test_null_keys_are_empty_keys_or_no_keys(name: str) -> None:
    as_empty = open_batches(batch_size=200, partitioner=PARTITIONERS[name])
    assert {sent_to(as_empty, key) for key in (None, b"") * 30} == {HASHED[name](b"") % 3}
    as_none = open_batches(batch_size=200, partitioner=PARTITIONERS[f"{name}_random"])
    assert {sent_to(as_none, None) for _ in range(90)} == {0, 1, 2}


def test_only_consistent_random_takes_an_empty_key_for_none() -> None:
    ones = {name: open_batches(batch_size=200, partitioner=partitioner) for name, partitioner in PARTITIONERS.items()}
    spread = {name for name, batches in ones.items() if len({sent_to(batches, b"") for _ in range(90)}) == 3}
    assert spread == {"consistent_random", "round_robin", "sticky"}


def test_round_robin_changes_the_partition_with_every_record() -> None:
    batches = open_batches(partitioner=PARTITIONERS["round_robin"])
    assert [sent_to(batches, key) for key in (None, b"a", b"a", b"", None, b"a")] == [1, 2, 0, 1, 2, 0]


def test_round_robin_leaves_out_no_partition_when_a_record_needs_a_new_batch() -> None:
    batches = open_batches(batch_size=500, partitioner=PARTITIONERS["round_robin"])
    taken = list[bool]()
    seen = list[int]()
    for number in range(40):
        ticket = batches.take("t", bytes(95), b"%d" % number, None, None, None)
        taken.append(ticket is not None)
        if ticket is None:
            _, ticket = batches.append("t", b"%d" % number, bytes(95), None, None, None)
        assert ticket is not None
        seen.append(ticket.batch_promise.partition)
    assert seen == [(number + 1) % 3 for number in range(40)]
    assert sum(taken) > 20, "open batches take records without a decision in Python"


def test_sticky_fills_batch_after_batch_whatever_the_keys() -> None:
    batches = open_batches(batch_size=500, partitioner=PARTITIONERS["sticky"])
    seen = [sent_to(batches, b"%d" % number, bytes(95)) for number in range(12)]
    assert seen == [0] * 4 + [1] * 4 + [2] * 4


def test_a_function_chooses_from_topic_key_value_and_the_number_of_partitions() -> None:
    asked = []

    def choose(topic: str, key: bytes | None, value: bytes | None, partition_count: int) -> int | None:
        asked.append((topic, key, value, partition_count))
        return 2 if value == b"gold" else None

    batches = open_batches(partitioner=Partitioner(function=choose))
    assert sent_to(batches, b"key", b"gold") == 2
    assert sent_to(batches, b"key", b"tin") == partition_for_key(b"key", 3)
    assert asked == [("t", b"key", b"gold", 3), ("t", b"key", b"tin", 3)]
    batches.append("t", None, b"gold", None, None, 0)
    assert len(asked) == 2, "whoever gives a partition has chosen already"


@pytest.mark.parametrize("choice", [3, -1, "0", 1.0, True])
def test_a_function_must_choose_a_partition_that_there_is(choice: object) -> None:
    batches = open_batches(partitioner=Partitioner(function=lambda *_: choice))  # type: ignore[arg-type,return-value]
    with pytest.raises(UsageError, match="topic 't', which has partitions 0 to 2"):
        batches.append("t", None, b"", None, None, None)
    assert batches.seal_all() == []


def test_an_error_of_the_function_is_the_cause_of_the_callers_and_nothing_is_sent() -> None:
    def fail(*_: object) -> int:
        raise LookupError("no rule")

    batches = open_batches(partitioner=Partitioner(function=fail))
    with pytest.raises(UsageError, match="the partitioner raised LookupError") as caught:
        batches.append("t", None, b"", None, None, None)
    assert isinstance(caught.value.__cause__, LookupError)
    assert batches.append("unknown", None, b"", None, None, None)[0] is AppendStatus.UNKNOWN_TOPIC
    assert batches.seal_all() == []


def test_a_function_may_send_records_itself() -> None:
    def copy(topic: str, key: bytes | None, value: bytes | None, partition_count: int) -> int:
        batches.append("t", None, b"copy", None, None, 1)
        return 0

    batches = open_batches(partitioner=Partitioner(function=copy))
    assert sent_to(batches, None) == 0
    assert sorted(sealed.partition for sealed in batches.seal_all()) == [0, 1]


def test_records_without_a_key_follow_the_order_they_are_given() -> None:
    batches = open_batches(batch_size=500)
    batches.set_partition_order("t", [2, 2, 1])
    seen = [sent_to(batches, None, bytes(100)) for _ in range(4 * 7)]
    assert Counter(seen[4:]) == {2: 16, 1: 8}, "the batch that is open is filled first"
    batches.set_partition_order("t", [])
    assert set(sent_to(batches, None, bytes(100)) for _ in range(4 * 6)) == {0, 1, 2}


def test_an_order_that_does_not_fit_the_topic_changes_nothing() -> None:
    batches = open_batches(partitioner=Partitioner(KeyHash.NONE, every_record=True))
    batches.set_partition_order("t", [0, 3])
    batches.set_partition_order("t", [-1])
    batches.set_partition_order("unknown", [0])
    assert {sent_to(batches, None) for _ in range(3)} == {0, 1, 2}


def test_an_order_is_forgotten_when_the_partitions_change() -> None:
    batches = open_batches(partitioner=Partitioner(KeyHash.NONE, every_record=True))
    batches.set_partition_order("t", [1])
    assert {sent_to(batches, None) for _ in range(3)} == {1}
    batches.set_partitions("t", 5)
    assert {sent_to(batches, None) for _ in range(5)} == {0, 1, 2, 3, 4}
