"""Kafka's checkpoints of one offset per partition: high watermarks, log start offsets, recovery points, the cleaner's.

Text in, text out: a version, the number of rows, and `topic partition offset` in each.
Source: org.apache.kafka.storage.internals.checkpoint.OffsetCheckpointFile.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kafkaraw.core.log.checkpoint_text import checkpoint_error, read_checkpoint, write_checkpoint
from kafkaraw.core.log.damage import whole_number
from kafkaraw.records import TopicPartition

HIGH_WATERMARKS_FILE: Final = "replication-offset-checkpoint"
LOG_STARTS_FILE: Final = "log-start-offset-checkpoint"
RECOVERY_POINTS_FILE: Final = "recovery-point-offset-checkpoint"
CLEANER_FILE: Final = "cleaner-offset-checkpoint"
CHECKPOINT_FILES: Final = (HIGH_WATERMARKS_FILE, LOG_STARTS_FILE, RECOVERY_POINTS_FILE, CLEANER_FILE)


def write_offsets(offsets: Mapping[TopicPartition, int]) -> str:
    """The text of a checkpoint."""
    return write_checkpoint(f"{key.topic} {key.partition} {offset}" for key, offset in sorted(offsets.items()))


def read_offsets(text: str, file: str = "offset checkpoint") -> dict[TopicPartition, int]:
    """The rows of a checkpoint.

    Args:
        text: content of the file.
        file: its name, for errors.

    Raises:
        DamagedFileError: it is damaged.
    """
    offsets = {}
    if not text:  # as Kafka creates it; nothing has been checkpointed yet
        return {}
    for line, (topic, partition, offset) in enumerate(read_checkpoint(text, file, 3), 3):
        numbers = whole_number(partition), whole_number(offset)
        if numbers[0] is None or numbers[1] is None or numbers[0] < 0:
            raise checkpoint_error(
                file, line, f"{topic} {partition} {offset} is not a topic, a partition and an offset"
            )
        offsets[TopicPartition(topic, numbers[0])] = numbers[1]
    return offsets
