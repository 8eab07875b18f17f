"""Kafka's checkpoint of one offset per partition: high watermarks, and where logs start.

Text in, text out: a version, the number of rows, and `topic partition offset` in each.
Source: org.apache.kafka.storage.internals.checkpoint.OffsetCheckpointFile.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kafkaraw.records import TopicPartition

HIGH_WATERMARKS_FILE: Final = "replication-offset-checkpoint"
LOG_STARTS_FILE: Final = "log-start-offset-checkpoint"
_VERSION: Final = "0"


def write_offsets(offsets: Mapping[TopicPartition, int]) -> str:
    """The text of a checkpoint."""
    rows = "".join(f"{key.topic} {key.partition} {offset}\n" for key, offset in sorted(offsets.items()))
    return f"{_VERSION}\n{len(offsets)}\n{rows}"


def read_offsets(text: str) -> dict[TopicPartition, int]:
    """The rows of a checkpoint.

    Raises:
        ValueError: it is damaged.
    """
    version, count, *rows = text.split("\n")
    if version != _VERSION or rows[-1:] != [""] or int(count) != len(rows) - 1:
        raise ValueError(f"not a checkpoint of version {_VERSION} with as many rows as it says")
    offsets = {}
    for row in rows[:-1]:
        topic, partition, offset = row.split(" ")
        offsets[TopicPartition(topic, int(partition))] = int(offset)
    return offsets
