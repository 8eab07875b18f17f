"""What users may give for a partition."""

from __future__ import annotations

from kafkaraw.errors import UsageError
from kafkaraw.records import TopicPartition


def partition_of(partition: object) -> TopicPartition:
    """Take a `TopicPartition`, or a tuple that looks like one.

    Raises:
        UsageError: it is neither.
    """
    if isinstance(partition, tuple) and len(partition) == 2:
        topic, number = partition
        if isinstance(topic, str) and topic and isinstance(number, int) and number >= 0:
            return TopicPartition(topic, number)
    raise UsageError(f"{partition!r} is not a TopicPartition(topic, partition)")
