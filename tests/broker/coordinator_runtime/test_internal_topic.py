"""Which partition of a coordinators' topic a key belongs to."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kafkaraw.broker.coordinator_runtime.internal_topic import partition_of


def test_the_number_of_a_group_is_kafkas():
    # What Java says for Math.abs("...".hashCode()) % 50.
    assert [partition_of(name, 50) for name in ("", "a", "my-group", "ünïcode-😀")] == [0, 47, 12, 30]
    assert partition_of("polygenelubricants", 50) == 0  # its hash code is the smallest int, which has no absolute value


@given(st.text(), st.integers(1, 50))
def test_every_key_has_a_partition(key: str, partitions: int):
    assert 0 <= partition_of(key, partitions) < partitions


def test_keys_are_spread_over_the_partitions():
    found = [partition_of(f"group-{number}", 3) for number in range(150)]
    assert all(found.count(partition) > 25 for partition in (0, 1, 2))
