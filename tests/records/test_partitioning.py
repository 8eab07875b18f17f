"""Keys go to the partitions that Java chooses."""

from __future__ import annotations

import pytest

from kafkaraw.records import murmur2, partition_for_key


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
